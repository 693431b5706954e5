"""Curves around a plan: how it would change with epsilon, with k and with the number of releases; and what shows them: figures
(with `dpselect[plot]`) and the page, one HTML file that needs no network and runs no script. The terminal has the same charts.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
from pydantic import Field

from accounting import Budget
from accounting.curves import Composed
from accounting.errors import missing_extra
from accounting.files import new_file
from accounting.frozen import Real
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import members
from dpselect.plan.candidates import families
from dpselect.plan.plan import (
    Judge,
    Plan,
    PlannedMechanism,
    Progress,
    Task,
    amount,
    budget_in_words,
    noise_in_words,
    question_in_words,
    releases_in_words,
    unit,
)
from dpselect.plan.profile import Profile, Stated
from dpselect.spec.plan_spec import Part

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Key = Literal["epsilon", "k", "releases", "groups", "price", "f1", "labels"]

_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_COUNTS = (0.1, 0.3, 1.0, 3.0, 10.0)
_SIZES = (0.2, 0.5, 1.0, 2.0, 5.0)
_GROUPS = (1, 2, 3, 5, 10)
_ROUNDS = 200  # of each point
_PRICED = 17  # points of the price


@final
class Point(Stated):
    """One point of a line, with an interval; low = high = y where it is exact."""

    x: Real = Field(description="a finite number")
    y: Real = Field(description="a finite number")
    low: Real = Field(description="a finite number")
    high: Real = Field(description="a finite number")


@final
class Line(Stated):
    """A mechanism's points, x ascending."""

    name: str = Field(description="a mechanism")
    points: tuple[Point, ...] = Field(description="points")


@final
class Chart(Stated):
    """Lines over one axis.

    Args:
        key: names the chart, and its files.
        title, x_label, y_label: in words, with units.
        lines: what is compared.
        planned: where on the x axis the plan itself lies.
        limit: a level on the y axis not to be exceeded, if there is one.
        share: whether y is a share of 1.
    """

    key: Key = Field(description="a key")
    title: str = Field(description="words")
    x_label: str = Field(description="words")
    y_label: str = Field(description="words")
    lines: tuple[Line, ...] = Field(description="lines")
    planned: Real = Field(description="a finite number")
    limit: Real | None = Field(default=None, description="a finite number, or None")
    share: bool = Field(default=True, description="true or false")

    @property
    def abscissas(self) -> list[float]:
        """The x of all points, ascending."""
        return sorted({point.x for line in self.lines for point in line.points})

    def save(self, folder: Path) -> list[Path]:
        """Write the figure as plan-KEY.png and plan-KEY.svg; the files that were written."""
        figure = plot_chart(self).get_figure(root=True)
        assert figure is not None
        written = [folder / f"plan-{self.key}.{kind}" for kind in ("png", "svg")]
        for path in written:
            with new_file(path, "the figure") as file:
                figure.savefig(file, dpi=150, format=path.suffix[1:])
        return written


def explore(
    plan: Plan,
    profile: Profile,
    *,
    charts: Sequence[Key] = ("epsilon", "k", "releases", "groups", "price"),
    mechanisms: int = 4,
    progress: Progress | None = None,
) -> tuple[Chart, ...]:
    """Recall against epsilon (or rho), against k and against the number of releases, and the price of more releases.

    Every point is planned anew: its mechanisms spend the whole budget of that point. "releases" shows how many releases the
    budget buys at which recall; "price" what more or fewer releases with the recommended noise would cost.

    Args:
        plan: where to start from.
        profile: the one that it was made for.
        charts: which of "epsilon", "k", "releases", "groups" and "price". "groups" is of plans for groups: what is found where
            users are kept in more or fewer of them.
        mechanisms: how many of the best are drawn, >= 1.
        progress: called with (done, of how many) points.
    """
    if profile.in_words() != plan.profile or profile.on_curve().size != plan.items:
        raise InvalidRequest(
            f"the plan was made for {plan.profile!r} and not for {profile.in_words()!r}: give the profile it was made for"
        )
    if mechanisms < 1:
        raise InvalidRequest(f"mechanisms={mechanisms!r} must be at least 1: how many of the best are drawn")
    names = [planned.name for planned in plan.ranked[:mechanisms]]
    steps = {key: list(_steps(key, plan, profile.on_curve())) for key in charts if key != "price"}
    total, done = sum(map(len, steps.values())), itertools.count(1)

    def tell() -> None:
        if progress is not None:
            progress(next(done), total)

    drawn = {key: _quality(key, tasks, names, plan, tell) for key, tasks in steps.items()}
    bounded = plan.groups is not None and plan.groups.max_groups_per_user is not None
    return tuple(_price(plan) if key == "price" else drawn[key] for key in charts if key != "groups" or bounded)


def _steps(key: Key, plan: Plan, profile: Profile) -> Iterator[tuple[float, Task]]:
    """x and the task of every point."""
    base = Task.again(plan, profile)
    if key == "epsilon":
        for factor in _FACTORS:
            limit = float(f"{factor * plan.budget.limit:.6g}")
            # The plan's own point keeps the order and the share of failure that its budget states.
            other = Budget.model_validate({unit(plan.budget): limit, "delta": plan.budget.delta})
            yield limit, base if factor == 1 else replace(base, budget=other)
    elif key == "releases":
        for factor in _distinct(_COUNTS, base.releases):
            parts = tuple(Part(releases=max(1, round(factor * part.releases)), k=part.k) for part in plan.parts)
            yield sum(part.releases for part in parts), replace(base, parts=parts)
    elif key == "groups" and plan.groups is not None:
        for number in sorted(n for n in {*_GROUPS, plan.groups.max_groups_per_user or 1} if n <= plan.groups.count):
            yield number, replace(base, groups=plan.groups.model_copy(update={"max_groups_per_user": number}))
    elif key == "k" and len(plan.parts) == 1:
        most = profile.size if plan.domain == "public" else profile.touched
        for factor in _distinct(_SIZES, plan.parts[0].k, most):
            k = round(factor * plan.parts[0].k)
            yield k, replace(base, parts=(Part(releases=plan.parts[0].releases, k=k),))


def _distinct(factors: Sequence[float], base: int, most: float = math.inf) -> list[float]:
    """The factors that lead to different whole numbers from 1 to `most`."""
    found = {round(factor * base): factor for factor in factors if 1 <= round(factor * base) <= most}
    return [found[number] for number in sorted(found)]


def _quality(key: Key, steps: list[tuple[float, Task]], names: list[str], plan: Plan, tell: Callable[[], None]) -> Chart:
    points: dict[str, list[Point]] = {name: [] for name in names}
    judge = Judge(min(plan.rounds, _ROUNDS), plan.seed, plan.level, plan.rank_by)
    for x, task in steps:
        for planned in judge.compared(families(), task, names=names)[0]:
            recall = planned.quality.recall
            points[planned.name].append(Point(x=x, y=recall.value, low=recall.low, high=recall.high))
        tell()
    title, x_label, planned_at = _words(key, plan)
    lines = tuple(Line(name=name, points=tuple(found)) for name, found in points.items() if found)
    return Chart(key=key, title=title, x_label=x_label, y_label="expected recall", lines=lines, planned=planned_at)


def _words(key: Key, plan: Plan) -> tuple[str, str, float]:
    if key == "epsilon":
        nats = unit(plan.budget)
        return f"Recall against the budget's {nats}", f"{nats} of all releases together (nats)", plan.budget.limit
    if key == "k":
        return "Recall against k", "k, items per release", plan.parts[0].k
    if key == "groups" and plan.groups is not None:
        return "How many groups of a user to keep", "groups per user", plan.groups.max_groups_per_user or 1
    return "How many releases the budget buys", "releases that share the budget", plan.releases


def _price(plan: Plan) -> Chart:
    """What more or fewer releases with the planned noise cost, as plans that are fixed in advance."""
    total, points = plan.releases, []
    for count in np.unique(np.rint(np.geomspace(0.1, 10, _PRICED) * total)).astype(int).tolist():
        cost = _cost(plan, count / total) if count >= 1 else math.inf
        if math.isfinite(cost):
            points.append(Point(x=count, y=cost, low=cost, high=cost))
    at = f" at delta {plan.budget.delta:g}" if plan.budget.delta else ""
    return Chart(
        key="price",
        title="What releases with the planned noise cost together",
        x_label="releases",
        y_label=f"{unit(plan.budget)}{at} (nats)",
        lines=(Line(name=plan.recommended.name, points=tuple(points)),),
        planned=total,
        limit=plan.budget.limit,
        share=False,
    )


def _cost(plan: Plan, factor: float) -> float:
    """Of `factor` times as many releases of every part, one at least."""
    pairs = zip(plan.parts, plan.recommended.mechanisms, strict=True)
    curve = Composed.of([(max(1, round(factor * part.releases)), run.curve) for part, run in pairs])
    return plan.budget.cost(curve, thorough=True)


# -- figures, with the extra `dpselect[plot]` ------------------------------------------------------------------------------


# Okabe and Ito's colours, made for any colour vision; dash and marker differ too.
_STYLES = (("#0072B2", "-", "o"), ("#D55E00", "--", "s"), ("#009E73", "-.", "^"), ("#CC79A7", ":", "D"), ("#E69F00", "-", "v"))


def plot_chart(chart: Chart, *, ax: Axes | None = None) -> Axes:
    """Draw a chart: a line for each mechanism with its interval, and where the plan is.

    Args:
        ax: axes to draw on; new ones if None.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    axes = _new_axes() if ax is None else ax
    for line, (colour, dash, marker) in zip(chart.lines, itertools.cycle(_STYLES)):
        x, y, low, high = ([getattr(point, name) for point in line.points] for name in ("x", "y", "low", "high"))
        axes.plot(x, y, label=line.name, color=colour, linestyle=dash, marker=marker, markersize=4.5, linewidth=1.7)
        axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
    axes.axvline(chart.planned, color="#777777", linewidth=1, linestyle=(0, (2, 2)), zorder=0)
    axes.text(chart.planned, 0.02, " plan", transform=axes.get_xaxis_transform(), fontsize=8)
    if chart.limit is not None:
        axes.axhline(chart.limit, color="#B3261E", linewidth=1.2, linestyle=(0, (5, 3)), zorder=0)
    axes.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label, xscale="log")
    axes.set_ylim(bottom=-0.03 if chart.share else 0, top=1.03 if chart.share else None)
    ticks = chart.abscissas if len(chart.abscissas) <= 8 else chart.abscissas[::3]
    axes.xaxis.set_ticks(ticks, labels=[f"{x:g}" for x in ticks])
    axes.xaxis.set_ticks([], minor=True)
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return axes


def plot_plan(plan: Plan, *, ax: Axes | None = None) -> Axes:
    """Draw the expected recall of every planned mechanism with its interval, the recommended one on top.

    Args:
        ax: axes to draw on; new ones if None.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    axes = _new_axes() if ax is None else ax
    found = [planned.quality.recall for planned in plan.ranked]
    middle, low, high = (np.array([getattr(one, end) for one in found]) for end in ("value", "low", "high"))
    places = np.arange(len(found))
    errors = np.maximum([middle - low, high - middle], 0)
    axes.barh(places, middle, xerr=errors, color=[_STYLES[0][0] if not place else "#9AA5B1" for place in places], height=0.62)
    axes.set_yticks(places, [planned.name for planned in plan.ranked])
    axes.invert_yaxis()
    axes.set(title=f"{budget_in_words(plan.budget)}: {releases_in_words(plan)}", xlabel="expected recall", xlim=(0, 1.05))
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _new_axes() -> Axes:
    try:
        figure = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise missing_extra("figures need matplotlib", "plot") from None
    axes: Axes = figure.Figure(figsize=(6.4, 4.2), layout="constrained").subplots()
    return axes


# -- the page --------------------------------------------------------------------------------------------------------------


_Scale = Callable[[float], float]
_PEOPLE = {"gaussian": "Gaussian", "laplace": "Laplace", "gumbel": "Gumbel"}
_ROWS = 6  # of the ranking, before "more"
_MADE_UP = ("bakery", "library", "pier", "market", "museum", "station", "garden", "theatre", "stadium", "harbour")
_FOUND = (0.99, 0.95, 0.9)  # recalls at which the number of releases is stated
# Of a chart: its size and the margins.
_WIDTH, _HEIGHT = 520, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 14, 50


def write_page(plan: Plan, charts: Sequence[Chart], target: Path) -> None:
    with new_file(target, "the page", encoding="utf-8") as file:
        file.write("".join(page(plan, charts)))


def page(plan: Plan, charts: Sequence[Chart]) -> Iterator[str]:
    """The page, piece by piece."""
    from accounting.page.templates import asset, template  # jinja2, which other plans do without

    best = plan.recommended
    style = asset("accounting.page", "report.css") + asset(__package__, "page.css")
    order, heads = _columns(plan)
    rows = [_row(place, planned, plan) for place, planned in enumerate(plan.ranked, start=1)]
    return template(__package__, "plan.html").generate(
        **{"plan": plan, "best": best, "name": class_name(best.name), "style": style, "releases": releases_in_words(plan)},
        **{"budget": budget_in_words(plan.budget), "question": question_in_words(plan)},
        cost=f"{best.cost:.6g} of {plan.budget.limit:g}",
        risk=plan.risk().in_words(plan.sensitivity.relation),
        tiles=list(_tiles(best)),
        examples=list(_examples(best)),
        parameters=[(part.k, run.to_json()) for part, run in zip(plan.parts, best.mechanisms, strict=True)],
        figures=[figure(chart) for chart in charts],
        bought=[
            (chart, [[class_name(line.name), *(_releases(line.points, found) for found in _FOUND)] for line in chart.lines])
            for chart in charts
            if chart.key == "releases"
        ],
        bought_heads=["Mechanism", *(f"{100 * found:.0f} % right" for found in _FOUND)],
        **{"order": order, "heads": heads, "first": rows[:_ROWS], "more": rows[_ROWS:]},
        reasons=[(class_name(other.name), other.reason) for other in plan.unsuited],
        **{"level": f"{100 * plan.level:g}", "rounds": f"{plan.rounds:,}"},
    )


def class_name(name: str) -> str:
    """A planned name as the documentation writes it: the class, and its noise."""
    kind, _, noise = name.partition(", ")
    known = members().get(kind)
    return (kind if known is None else known.__name__) + (f", {_PEOPLE.get(noise, noise)} noise" if noise else "")


def _tiles(best: PlannedMechanism) -> Iterator[tuple[str, str, str]]:
    """Name, band and unit."""
    quality, recall = best.quality, best.quality.recall
    low, high = best.forecast or (recall.low, recall.high)
    yield "Right items", _band(low, high), "of the k places in each release (recall)"
    if best.forecast is None:
        yield "All right", _band(quality.exact_set.low, quality.exact_set.high), "of releases have exactly the k items"
    if best.worst_recall is not None:
        yield "If the profile is wrong", _percent(best.worst_recall), "right items at least: on profiles around it"
    few, many = amount(quality.score_loss.low), amount(quality.score_loss.high)
    lost = few if few == many else f"{few} to {many}"
    yield "Lost users", lost, "by which the released items' counts fall short, on the stated profile"


def _band(low: float, high: float) -> str:
    """Whole percents that hold both ends."""
    down, up = math.floor(100 * low + 1e-9), math.ceil(100 * high - 1e-9)
    return f"{up} %" if down == up else f"{down} to {up} %"


def _percent(value: float) -> str:
    """A tenth of a percent; what is nearly all is said so."""
    shown = round(value, 3)
    return "100 %" if value == 1 else "over 99.9 %" if shown == 1 else f"{100 * shown:.1f} %"


def _examples(best: PlannedMechanism) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    """Ten made-up items as releases would show them: what is wrong is what only just does not belong, so it stands last."""
    wrong = 10 * (1 - best.expected)
    average = f"{wrong:.2g} of 10 wrong on average"
    if wrong >= 0.5:
        yield f"A release: {average}", _marked(round(wrong))
    elif wrong < 0.01:
        yield "Nearly every release: fewer than one item in 1,000 is wrong", _marked(0)
    else:
        one_in = max(2, round(1 / wrong))
        yield f"{one_in - 1:,} of {one_in:,} releases, about: {average}", _marked(0)
        yield f"1 of {one_in:,} releases, about", _marked(1)


def _marked(wrong: int) -> list[tuple[str, bool]]:
    return [(item, place < 10 - wrong) for place, item in enumerate(_MADE_UP)]


def _releases(points: Sequence[Point], found: float) -> str:
    """The most releases at which a line is at `found` or above, between points along the logarithm."""
    for before, after in itertools.pairwise(points):
        if before.y < found:
            break
        if after.y < found:
            part = (before.y - found) / (before.y - after.y)
            return f"{math.floor(before.x * (after.x / before.x) ** part + 1e-9):,}"
    return f"{points[-1].x:,.0f} or more" if points and points[0].y >= found else "none"


# -- the ranking: only columns that it is ordered by, so that no row is better than one above it -----------------------


def _columns(plan: Plan) -> tuple[str, list[str]]:
    """By what the ranking is ordered, in words, and the heads of the table."""
    if plan.rank_by != "recall":
        words = plan.rank_by.replace("_", " ")
        return f"{words} on the stated profile", ["Rank", "Mechanism", words.capitalize(), "Noise"]
    if any(one.forecast for one in plan.ranked):
        words = "right items expected, the mean over profiles that fit the stated numbers; "
        words += "what gives up more than 2 % of the best worst case comes after"
        return words, ["Rank", "Mechanism", "Right items expected", "At worst", "Order told", "Noise"]
    heads = ["Rank", "Mechanism", "At worst", "Order told", "Right items", "Noise"]
    return "right items at worst, over profiles around the stated one", heads


def _row(place: int, planned: PlannedMechanism, plan: Plan) -> list[Any]:
    """The cells of a mechanism. A share comes as text and how full its bar is."""
    noise, told = noise_in_words(planned.mechanisms[0]), "yes" if planned.ordered else "no"
    name, behind = class_name(planned.name), ("clearly behind", None)
    if plan.rank_by != "recall":
        found = getattr(planned.quality, plan.rank_by)
        if plan.rank_by in ("score_loss", "released"):
            return [place, name, (amount(found.value), None), noise]
        return [place, name, ("-", None) if found is None else _filled(found.value), noise]
    worst = behind if planned.worst_recall is None else _filled(planned.worst_recall)
    if any(one.forecast for one in plan.ranked):
        return [place, name, behind if planned.forecast is None else _filled(planned.expected), worst, told, noise]
    return [place, name, worst, told, behind if worst is behind else _filled(planned.quality.recall.value), noise]


def _filled(value: float) -> tuple[str, str]:
    return _percent(value), f"{100 * value:.4g}"


# -- charts: lines with bands, on a logarithmic x axis ------------------------------------------------------------------

_LEAST_WRONG = 0.1  # per 1,000, on a logarithmic axis


def figure(chart: Chart) -> dict[str, Any]:
    """The chart as places in a figure: the template draws them. Where most is found, wrong items are drawn instead."""
    if chart.key == "releases":  # its axis is what each release finds; the table below reads off how many there may be
        chart = chart.model_copy(update={"title": "Recall against the number of releases"})
    near = [point.y > 0.95 for line in chart.lines for point in line.points]
    if chart.share and chart.key != "f1" and 2 * sum(near) > len(near):
        return _wrong(chart)
    up = _up(chart)
    grid = [(y, f"{y:.0%}" if chart.share else f"{y:g}") for y in (quarter / 4 * _top(chart) for quarter in range(5))]
    return _places(chart, up, grid)


def _places(chart: Chart, up: _Scale, grid: list[tuple[float, str]]) -> dict[str, Any]:
    across = _across(chart)
    limit = chart.limit if chart.limit is not None and chart.limit <= _top(chart) else None
    return {
        **{"chart": chart, "width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - _RIGHT, "top": _TOP},
        **{"bottom": _HEIGHT - _BOTTOM, "middle": f"{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}", "described": _described(chart)},
        # Where a line across the figure lies, where its label, and the label.
        **{"levels": [(f"{up(y):.1f}", f"{up(y) + 4:.1f}", label) for y, label in grid], "unsure": None},
        "ticks": [(f"{across(x):.1f}", f"{x:g}") for x in _labelled(chart, across)],
        "planned": f"{across(chart.planned):.1f}",
        "limit": None if limit is None else f"{up(limit):.1f}",
        "lines": [_line(line, number % len(_STYLES), across, up) for number, line in enumerate(chart.lines)],
    }


def _wrong(chart: Chart) -> dict[str, Any]:
    """Wrong items per 1,000, on a logarithmic axis: its lowest line is so few or fewer."""

    def wrong(share: float) -> float:
        return min(1000.0, max(_LEAST_WRONG, 1000 * (1 - share)))

    def turned(point: Point) -> Point:
        few = wrong(point.y)
        return Point(x=point.x, y=few, low=few, high=few)

    unsure = max(1000 * max(point.high - point.y, point.y - point.low) for line in chart.lines for point in line.points)
    lines = tuple(Line(name=line.name, points=tuple(map(turned, line.points))) for line in chart.lines)
    words = {"title": chart.title.replace("Recall", "Wrong items per 1,000"), "y_label": "wrong items per 1,000", "share": False}
    drawn = chart.model_copy(update={**words, "lines": lines, "limit": None})
    levels = (0.1, 1.0, 10.0, 100.0, 1000.0)

    def up(y: float) -> float:
        return _HEIGHT - _BOTTOM - math.log10(y / levels[0]) / 4 * (_HEIGHT - _TOP - _BOTTOM)

    grid = [(level, f"{level:,g}" if level > levels[0] else "≤ 0.1") for level in levels]
    return {**_places(drawn, up, grid), "unsure": f"{math.ceil(unsure):,}"}


def _across(chart: Chart) -> _Scale:
    logs = [math.log(point.x) for line in chart.lines for point in line.points] + [math.log(chart.planned)]
    low, span = min(logs), (max(logs) - min(logs)) or 1.0
    return lambda x: _LEFT + (math.log(x) - low) / span * (_WIDTH - _LEFT - _RIGHT)


def _top(chart: Chart) -> float:
    highest = max((point.high for line in chart.lines for point in line.points), default=0.0)
    if chart.share or highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(1.05 * highest))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 8, 10) if step * power >= 1.05 * highest)


def _up(chart: Chart) -> _Scale:
    top = _top(chart)
    return lambda y: _HEIGHT - _BOTTOM - min(1.0, max(0.0, y / top)) * (_HEIGHT - _TOP - _BOTTOM)


def _labelled(chart: Chart, across: _Scale) -> list[float]:
    """The points' own x, thinned out where they are closer than their labels are wide."""
    kept: list[float] = []
    for x in sorted(chart.abscissas, key=lambda x: x != chart.planned):
        if all(abs(across(x) - across(other)) > 46 for other in kept):
            kept.append(x)
    return sorted(kept)


def _line(line: Line, style: int, across: _Scale, up: _Scale) -> dict[str, Any]:
    points = line.points
    above = [_at(point.x, point.high, across, up) for point in points]
    below = [_at(point.x, point.low, across, up) for point in reversed(points)]
    return {
        **{"name": class_name(line.name), "style": style, "band": " ".join(above + below)},
        "curve": " ".join(_at(point.x, point.y, across, up) for point in points),
        "dots": [(f"{across(p.x):.1f}", f"{up(p.y):.1f}", f"{p.x:g}: {p.y:.4g}") for p in points],
    }


def _at(x: float, y: float, across: _Scale, up: _Scale) -> str:
    return f"{across(x):.1f},{up(y):.1f}"


def _described(chart: Chart) -> str:
    ends = (
        f"{class_name(line.name)} from {first.y:.3g} at {first.x:g} to {last.y:.3g} at {last.x:g}"
        for line in chart.lines
        for first, last in [(line.points[0], line.points[-1])]
    )
    return f"{chart.y_label} by {chart.x_label}: {'; '.join(ends)}."
