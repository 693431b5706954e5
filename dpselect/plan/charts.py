"""Curves around a plan: how it would change with epsilon, with k and with the number of releases; and figures of them, with
`dpselect[plot]`. The terminal and the page have the same charts.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accounting import Budget
from accounting.curves import Composed
from accounting.errors import missing_extra
from accounting.files import new_file
from dpselect.errors import InvalidRequest
from dpselect.plan.candidates import families
from dpselect.plan.plan import STYLES, Chart, Key, Line, Point
from dpselect.plan.profile import Profile
from dpselect.plan.topk_plan import Progress, Task, TopKPlan, compared
from dpselect.spec.plan_spec import Part

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_COUNTS = (0.1, 0.3, 1.0, 3.0, 10.0)
_SIZES = (0.2, 0.5, 1.0, 2.0, 5.0)
_GROUPS = (1, 2, 3, 5, 10)
_ROUNDS = 200  # of each point
_PRICED = 17  # points of the price
_CHARTS: tuple[Key, ...] = ("epsilon", "k", "releases", "groups", "price")


def explore(
    plan: TopKPlan,
    profile: Profile,
    *,
    charts: Sequence[Key] = _CHARTS,
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
            users are kept in more or fewer of them; "k" of releases that are alike. What a plan does not have is left out.
        mechanisms: how many of the best are drawn, >= 1.
        progress: called with (done, of how many) points.
    """
    curve = profile.on_curve()
    if profile.in_words() != plan.profile or curve.size != plan.items:
        raise InvalidRequest(
            f"the plan was made for {plan.profile!r} and not for {profile.in_words()!r}: give the profile it was made for"
        )
    if unknown := [key for key in charts if key not in _CHARTS]:
        raise InvalidRequest(f"charts={unknown[0]!r} is no chart of such a plan: choose among {', '.join(_CHARTS)}")
    if mechanisms < 1:
        raise InvalidRequest(f"mechanisms={mechanisms!r} must be at least 1: how many of the best are drawn")
    names = [planned.name for planned in plan.ranked[:mechanisms]]
    base = Task(plan, curve).changed(rounds=min(plan.rounds, _ROUNDS))
    steps = {key: list(_steps(key, base)) for key in charts if key != "price"}
    total, done = sum(map(len, steps.values())), itertools.count(1)

    def tell() -> None:
        if progress is not None:
            progress(next(done), total)

    drawn = {key: _recall(key, tasks, names, plan, tell) for key, tasks in steps.items()}
    return tuple(_price(plan) if key == "price" else drawn[key] for key in charts if key == "price" or steps[key])


def _steps(key: Key, base: Task) -> Iterator[tuple[float, Task]]:
    """x and the task of every point."""
    asked, (part, *others), groups = base.asked, base.asked.parts, base.asked.groups
    if key == "epsilon":
        for factor in _FACTORS:
            limit = float(f"{factor * asked.budget.limit:.6g}")
            # The plan's own point keeps the order and the share of failure that its budget states.
            other = Budget.model_validate({asked.unit: limit, "delta": asked.budget.delta})
            yield limit, base if factor == 1 else base.changed(budget=other)
    elif key == "releases":
        for factor in _distinct(_COUNTS, asked.releases):
            parts = tuple(Part(releases=max(1, round(factor * one.releases)), k=one.k) for one in asked.parts)
            yield sum(one.releases for one in parts), base.changed(parts=parts)
    elif key == "groups" and groups is not None and groups.max_groups_per_user is not None:
        for number in sorted(n for n in {*_GROUPS, groups.max_groups_per_user} if n <= groups.count):
            yield number, base.changed(groups=groups.model_copy(update={"max_groups_per_user": number}))
    elif key == "k" and not others:
        most = base.profile.size if asked.known else base.profile.touched
        for factor in _distinct(_SIZES, part.k, most):
            k = round(factor * part.k)
            yield k, base.changed(parts=(Part(releases=part.releases, k=k),))


def _distinct(factors: Sequence[float], base: int, most: float = math.inf) -> list[float]:
    """The factors that lead to different whole numbers from 1 to `most`."""
    found = {round(factor * base): factor for factor in factors if 1 <= round(factor * base) <= most}
    return [found[number] for number in sorted(found)]


def _recall(key: Key, steps: list[tuple[float, Task]], names: list[str], plan: TopKPlan, tell: Callable[[], None]) -> Chart:
    points: dict[str, list[Point]] = {name: [] for name in names}
    for x, task in steps:
        for planned in compared(families(), task, names=names)[0]:
            recall = planned.quality.recall
            points[planned.name].append(Point(x=x, y=recall.value, low=recall.low, high=recall.high))
        tell()
    most = 1 if plan.groups is None else plan.groups.max_groups_per_user or 1
    title, x_label, planned_at = {
        "epsilon": (
            f"Recall against the budget's {plan.unit}",
            f"{plan.unit} of all releases together (nats)",
            plan.budget.limit,
        ),
        "k": ("Recall against k", "k, items per release", plan.parts[0].k),
        "groups": ("How many groups of a user to keep", "groups per user", most),
        "releases": ("How many releases the budget buys", "releases that share the budget", plan.releases),
    }[key]
    lines = tuple(Line(name=name, points=tuple(found)) for name, found in points.items() if found)
    return Chart(key=key, title=title, x_label=x_label, y_label="expected recall", lines=lines, planned=planned_at)


def _price(plan: TopKPlan) -> Chart:
    """What more or fewer releases with the planned noise cost, as plans that are fixed in advance."""
    total, points = plan.releases, []
    for count in np.unique(np.rint(np.geomspace(0.1, 10, _PRICED) * total)).astype(int).tolist():
        pairs = zip(plan.parts, plan.recommended.mechanisms, strict=True)
        curve = Composed.of([(max(1, round(count / total * part.releases)), run.curve) for part, run in pairs])
        cost = plan.budget.cost(curve, thorough=True) if count >= 1 else math.inf
        if math.isfinite(cost):
            points.append(Point(x=count, y=cost, low=cost, high=cost))
    at = f" at delta {plan.budget.delta:g}" if plan.budget.delta else ""
    return Chart(
        key="price",
        title="What releases with the planned noise cost together",
        x_label="releases",
        y_label=f"{plan.unit}{at} (nats)",
        lines=(Line(name=plan.recommended.name, points=tuple(points)),),
        planned=total,
        limit=plan.budget.limit,
        share=False,
    )


# -- figures, with the extra `dpselect[plot]` ------------------------------------------------------------------------------


def save(chart: Chart, folder: Path) -> list[Path]:
    """Write the figure as plan-KEY.png and plan-KEY.svg; the files that were written."""
    figure = plot_chart(chart).get_figure(root=True)
    assert figure is not None
    written = [folder / f"plan-{chart.key}.{kind}" for kind in ("png", "svg")]
    for path in written:
        with new_file(path, "the figure") as file:
            figure.savefig(file, dpi=150, format=path.suffix[1:])
    return written


def plot_chart(chart: Chart, *, ax: Axes | None = None) -> Axes:
    """Draw a chart: a line for each mechanism with its interval, and where the plan is.

    Args:
        ax: axes to draw on; new ones if None.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    axes = _new_axes() if ax is None else ax
    for line, (colour, dash, marker) in zip(chart.lines, itertools.cycle(STYLES)):
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


def plot_plan(plan: TopKPlan, *, ax: Axes | None = None) -> Axes:
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
    axes.barh(places, middle, xerr=errors, color=[STYLES[0][0] if not place else "#9AA5B1" for place in places], height=0.62)
    axes.set_yticks(places, [planned.name for planned in plan.ranked])
    axes.invert_yaxis()
    axes.set(title=f"{plan.budget_in_words}: {plan.releases_in_words}", xlabel="expected recall", xlim=(0, 1.05))
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
