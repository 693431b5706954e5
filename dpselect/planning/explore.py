"""Curves around a plan: how it would change with epsilon, with k and with the number of releases.

The terminal, the figures (with `dpselect[plot]`) and the page draw the same charts.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final, get_args

import numpy as np
from pydantic import Field

from accounting import Budget, Composed, MissingExtra, best_epsilon
from accounting.files import new_file
from accounting.frozen import Real
from dpselect.errors import InvalidRequest
from dpselect.planning.families import families
from dpselect.planning.planner import Judge, Progress, compared
from dpselect.planning.release_plan import Part, ReleasePlan, Stated, Task, budget_in_words, releases_in_words
from dpselect.planning.shape import Shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Key = Literal["epsilon", "k", "releases", "groups", "price"]

_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_COUNTS = (0.1, 0.3, 1.0, 3.0, 10.0)
_SIZES = (0.2, 0.5, 1.0, 2.0, 5.0)
_GROUPS = (1, 2, 3, 5, 10)
_ROUNDS = 1000  # of each point
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


def explore(
    plan: ReleasePlan,
    shape: Shape,
    *,
    charts: Sequence[Key] = get_args(Key),
    mechanisms: int = 4,
    progress: Progress | None = None,
) -> tuple[Chart, ...]:
    """Recall against epsilon (or rho), against k and against the number of releases, and the price of more releases.

    Every point is planned anew: its mechanisms spend the whole budget of that point. "releases" shows how many releases the
    budget buys at which recall; "price" what more or fewer releases with the recommended noise would cost.

    Args:
        plan: where to start from.
        shape: the one that it was made for.
        charts: which of "epsilon", "k", "releases", "groups" and "price". "groups" is of plans for groups: what is found where
            users are kept in more or fewer of them.
        mechanisms: how many of the best are drawn, >= 1.
        progress: called with (done, of how many) points.
    """
    if shape.description != plan.shape or shape.size != plan.items:
        raise InvalidRequest(
            f"the plan was made for {plan.shape!r} and not for {shape.description!r}: give the shape it was made for"
        )
    if mechanisms < 1:
        raise InvalidRequest(f"mechanisms={mechanisms!r} must be at least 1: how many of the best are drawn")
    names = [planned.name for planned in plan.ranked[:mechanisms]]
    steps = {key: list(_steps(key, plan, shape)) for key in charts if key != "price"}
    total, done = sum(map(len, steps.values())), itertools.count(1)

    def tell() -> None:
        if progress is not None:
            progress(next(done), total)

    drawn = {key: _quality(key, tasks, names, plan, tell) for key, tasks in steps.items()}
    return tuple(_price(plan) if key == "price" else drawn[key] for key in charts if key != "groups" or plan.groups is not None)


def _steps(key: Key, plan: ReleasePlan, shape: Shape) -> Iterator[tuple[float, Task]]:
    """x and the task of every point."""
    base = Task(
        plan.budget,
        plan.parts,
        shape,
        plan.domain,
        plan.order,
        plan.sensitivity,
        plan.charged,
        plan.max_items_per_user,
        plan.stated,
        plan.counts,
        plan.groups,
    )
    if key == "epsilon":
        for factor in _FACTORS:
            limit = float(f"{factor * plan.budget.limit:.6g}")
            # The plan's own point keeps the order and the share of failure that its budget states.
            other = Budget.model_validate({_unit(plan.budget): limit, "delta": plan.budget.delta})
            yield limit, base if factor == 1 else replace(base, budget=other)
    elif key == "releases":
        for factor in _distinct(_COUNTS, base.releases):
            parts = tuple(Part(releases=max(1, round(factor * part.releases)), k=part.k) for part in plan.parts)
            yield sum(part.releases for part in parts), replace(base, parts=parts)
    elif key == "groups" and plan.groups is not None:
        for number in sorted({*_GROUPS, plan.groups.max_groups_per_user}):
            yield number, replace(base, groups=plan.groups.model_copy(update={"max_groups_per_user": number}))
    elif key == "k" and len(plan.parts) == 1:
        most = shape.size if plan.domain == "public" else shape.touched
        for factor in _distinct(_SIZES, plan.parts[0].k, most):
            k = round(factor * plan.parts[0].k)
            yield k, replace(base, parts=(Part(releases=plan.parts[0].releases, k=k),))


def _distinct(factors: Sequence[float], base: int, most: float = math.inf) -> list[float]:
    """The factors that lead to different whole numbers from 1 to `most`."""
    found = {round(factor * base): factor for factor in factors if 1 <= round(factor * base) <= most}
    return [found[number] for number in sorted(found)]


def _quality(key: Key, steps: list[tuple[float, Task]], names: list[str], plan: ReleasePlan, tell: Callable[[], None]) -> Chart:
    points: dict[str, list[Point]] = {name: [] for name in names}
    named = [family for family in families() if family.name in names]
    judge = Judge(min(plan.rounds, _ROUNDS), plan.seed, plan.level, plan.rank_by, places=plan.order)
    for x, task in steps:
        for planned in compared(named, task, judge, None)[0]:
            recall = planned.quality.recall
            points[planned.name].append(Point(x=x, y=recall.value, low=recall.low, high=recall.high))
        tell()
    title, x_label, planned_at = _words(key, plan)
    lines = tuple(Line(name=name, points=tuple(found)) for name, found in points.items() if found)
    return Chart(key=key, title=title, x_label=x_label, y_label="expected recall", lines=lines, planned=planned_at)


def _words(key: Key, plan: ReleasePlan) -> tuple[str, str, float]:
    if key == "epsilon":
        unit = _unit(plan.budget)
        return f"Recall against the budget's {unit}", f"{unit} of all releases together (nats)", plan.budget.limit
    if key == "k":
        return "Recall against k", "k, items per release", plan.parts[0].k
    if key == "groups" and plan.groups is not None:
        return "How many groups of a user to keep", "groups per user", plan.groups.max_groups_per_user
    return "How many releases the budget buys", "releases that share the budget", _total(plan)


def _price(plan: ReleasePlan) -> Chart:
    """What more or fewer releases with the planned noise cost, as plans that are fixed in advance."""
    total, points = _total(plan), []
    for count in np.unique(np.rint(np.geomspace(0.1, 10, _PRICED) * total)).astype(int).tolist():
        cost = _cost(plan, count / total) if count >= 1 else math.inf
        if math.isfinite(cost):
            points.append(Point(x=count, y=cost, low=cost, high=cost))
    at = f" at delta {plan.budget.delta:g}" if plan.budget.delta else ""
    return Chart(
        key="price",
        title="What releases with the planned noise cost together",
        x_label="releases",
        y_label=f"{_unit(plan.budget)}{at} (nats)",
        lines=(Line(name=plan.recommended.name, points=tuple(points)),),
        planned=total,
        limit=plan.budget.limit,
        share=False,
    )


def _total(plan: ReleasePlan) -> int:
    return sum(part.releases for part in plan.parts)


def _unit(budget: Budget) -> str:
    return "rho" if budget.form == "zcdp" else "epsilon"


def _cost(plan: ReleasePlan, factor: float) -> float:
    """Of `factor` times as many releases of every part, one at least."""
    pairs = zip(plan.parts, plan.recommended.mechanisms, strict=True)
    curve = Composed.of([(max(1, round(factor * part.releases)), run.curve) for part, run in pairs])
    return best_epsilon(curve, plan.budget.delta).value if plan.budget.form == "approximate" else plan.budget.cost(curve)


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
    for number, line in enumerate(chart.lines):
        _draw(axes, line, number)
    axes.axvline(chart.planned, color="#777777", linewidth=1, linestyle=(0, (2, 2)), zorder=0)
    axes.text(chart.planned, 0.02, " plan", transform=axes.get_xaxis_transform(), fontsize=8)
    if chart.limit is not None:
        axes.axhline(chart.limit, color="#B3261E", linewidth=1.2, linestyle=(0, (5, 3)), zorder=0)
    axes.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label, xscale="log")
    axes.set_ylim(bottom=-0.03 if chart.share else 0, top=1.03 if chart.share else None)
    axes.xaxis.set_ticks(_ticks(chart), labels=[f"{x:g}" for x in _ticks(chart)])
    axes.xaxis.set_ticks([], minor=True)
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return axes


def plot_plan(plan: ReleasePlan, *, ax: Axes | None = None) -> Axes:
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


def save_figures(charts: Sequence[Chart], folder: Path) -> list[Path]:
    """Write each chart as plan-KEY.png and plan-KEY.svg; the files that were written."""
    written = []
    for chart in charts:
        figure = plot_chart(chart).get_figure(root=True)
        assert figure is not None
        for kind in ("png", "svg"):
            path = folder / f"plan-{chart.key}.{kind}"
            with new_file(path, "the figure") as file:
                figure.savefig(file, dpi=150, format=kind)
            written.append(path)
    return written


def _ticks(chart: Chart) -> list[float]:
    """Every point's x, or every third of many."""
    return chart.abscissas if len(chart.abscissas) <= 8 else chart.abscissas[::3]


def _draw(axes: Axes, line: Line, number: int) -> None:
    colour, dash, marker = _STYLES[number % len(_STYLES)]
    x, y = [point.x for point in line.points], [point.y for point in line.points]
    axes.plot(x, y, label=line.name, color=colour, linestyle=dash, marker=marker, markersize=4.5, linewidth=1.7)
    axes.fill_between(
        x, [point.low for point in line.points], [point.high for point in line.points], color=colour, alpha=0.15, lw=0
    )


def _new_axes() -> Axes:
    try:
        figure = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise MissingExtra("figures need matplotlib: install it with pip install 'dpselect[plot]'") from None
    axes: Axes = figure.Figure(figsize=(6.4, 4.2), layout="constrained").subplots()
    return axes
