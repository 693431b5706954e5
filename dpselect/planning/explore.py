"""How a plan would change with epsilon, with k and with the number of releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from accounting import Budget, Curve
from accounting.conversion.bounds import best_epsilon
from accounting.curves import Composed
from dpselect.errors import InvalidRequest
from dpselect.planning.charts import Chart, Key, Line, Point
from dpselect.planning.compare import Judge, Progress, compared
from dpselect.planning.families import families
from dpselect.planning.release_plan import PlannedMechanism, ReleasePlan
from dpselect.planning.shape import Shape
from dpselect.planning.task import Part, Task

_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_COUNTS = (0.1, 0.3, 1.0, 3.0, 10.0)
_SIZES = (0.2, 0.5, 1.0, 2.0, 5.0)
_GROUPS = (1, 2, 3, 5, 10)
_ROUNDS = 1000  # of each point
_PRICED = 17  # points of the price


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

    Raises:
        InvalidRequest: the shape is another one, or `mechanisms` is less than 1.
    """
    if shape.description != plan.shape or shape.size != plan.items:
        raise InvalidRequest(
            f"the plan was made for {plan.shape!r} and not for {shape.description!r}: give the shape it was made for"
        )
    if mechanisms < 1:
        raise InvalidRequest(f"mechanisms={mechanisms!r} must be at least 1: how many of the best are drawn")
    names = [planned.name for planned in plan.ranked[:mechanisms]]
    steps = {key: list(_steps(key, plan, shape)) for key in charts if key != "price"}
    count = _Counter(sum(map(len, steps.values())), progress)
    drawn = {key: _quality(key, tasks, names, plan, count) for key, tasks in steps.items()}
    return tuple(_price(plan) if key == "price" else drawn[key] for key in charts if key != "groups" or plan.groups is not None)


class _Counter:
    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def step(self) -> None:
        """One more point is done."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


def _steps(key: Key, plan: ReleasePlan, shape: Shape) -> Iterator[tuple[float, Task]]:
    """x and the task of every point."""
    base = _task(plan, shape)
    if key == "epsilon":
        for factor in _FACTORS:
            limit = _rounded(factor * plan.budget.limit)
            # The plan's own point keeps the order and the share of failure that its budget states.
            yield limit, _task(plan, shape, budget=plan.budget if factor == 1 else _scaled(plan.budget, limit))
    elif key == "releases":
        for factor in _distinct(_COUNTS, base.releases):
            parts = tuple(Part(releases=max(1, round(factor * part.releases)), k=part.k) for part in plan.parts)
            yield sum(part.releases for part in parts), _task(plan, shape, parts=parts)
    elif key == "groups":
        for number in () if plan.groups is None else sorted({*_GROUPS, plan.groups.max_groups_per_user}):
            kept = plan.groups and plan.groups.model_copy(update={"max_groups_per_user": number})
            yield number, replace(base, groups=kept)
    elif len(plan.parts) == 1:
        most = shape.size if plan.domain == "public" else shape.touched
        for factor in _distinct(_SIZES, plan.parts[0].k, most):
            k = round(factor * plan.parts[0].k)
            yield k, _task(plan, shape, parts=(Part(releases=plan.parts[0].releases, k=k),))


def _distinct(factors: Sequence[float], base: int, most: float = math.inf) -> list[float]:
    """The factors that lead to different whole numbers from 1 to `most`."""
    found = {round(factor * base): factor for factor in factors if 1 <= round(factor * base) <= most}
    return [found[number] for number in sorted(found)]


def _task(plan: ReleasePlan, shape: Shape, *, budget: Budget | None = None, parts: tuple[Part, ...] | None = None) -> Task:
    return Task(
        budget or plan.budget,
        parts or plan.parts,
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


def _scaled(budget: Budget, limit: float) -> Budget:
    return Budget(rho=limit, delta=budget.delta) if budget.form == "zcdp" else Budget(epsilon=limit, delta=budget.delta)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _quality(key: Key, steps: list[tuple[float, Task]], names: list[str], plan: ReleasePlan, count: _Counter) -> Chart:
    points: dict[str, list[Point]] = {name: [] for name in names}
    for x, task in steps:
        for planned in _planned(names, task, plan):
            points[planned.name].append(_point(x, planned))
        count.step()
    title, x_label, planned_at = _words(key, plan)
    lines = tuple(Line(name=name, points=tuple(found)) for name, found in points.items() if found)
    return Chart(key=key, title=title, x_label=x_label, y_label="expected recall", lines=lines, planned=planned_at)


def _planned(names: list[str], task: Task, plan: ReleasePlan) -> list[PlannedMechanism]:
    named = [family for family in families() if family.name in names]
    judge = Judge(min(plan.rounds, _ROUNDS), plan.seed, plan.level, plan.rank_by, places=plan.order)
    return compared(named, task, judge, None)[0]


def _point(x: float, planned: PlannedMechanism) -> Point:
    recall = planned.quality.recall
    return Point(x=x, y=recall.value, low=recall.low, high=recall.high)


def _words(key: Key, plan: ReleasePlan) -> tuple[str, str, float]:
    releases = sum(part.releases for part in plan.parts)
    if key == "epsilon":
        unit = "rho" if plan.budget.form == "zcdp" else "epsilon"
        return f"Recall against the budget's {unit}", f"{unit} of all releases together (nats)", plan.budget.limit
    if key == "k":
        return "Recall against k", "k, items per release", plan.parts[0].k
    if key == "groups" and plan.groups is not None:
        return "How many groups of a user to keep", "groups per user", plan.groups.max_groups_per_user
    return "How many releases the budget buys", "releases that share the budget", releases


def _price(plan: ReleasePlan) -> Chart:
    """What more or fewer releases with the planned noise cost, as plans that are fixed in advance."""
    cost = _cost(plan.budget)
    lines = []
    for planned in plan.ranked[:1]:
        times = np.unique(np.rint(np.geomspace(0.1, 10, _PRICED) * _total(plan))).astype(int)
        costs = [(int(n), cost(Composed.of(_stretched(plan, planned, n / _total(plan))))) for n in times if n >= 1]
        found = tuple(Point(x=n, y=y, low=y, high=y) for n, y in costs if math.isfinite(y))
        lines.append(Line(name=planned.name, points=found))
    unit = "rho" if plan.budget.form == "zcdp" else "epsilon"
    at = f" at delta {plan.budget.delta:g}" if plan.budget.delta else ""
    return Chart(
        key="price",
        title="What releases with the planned noise cost together",
        x_label="releases",
        y_label=f"{unit}{at} (nats)",
        lines=tuple(lines),
        planned=_total(plan),
        limit=plan.budget.limit,
        share=False,
    )


def _total(plan: ReleasePlan) -> int:
    return sum(part.releases for part in plan.parts)


def _stretched(plan: ReleasePlan, planned: PlannedMechanism, factor: float) -> list[tuple[int, Curve]]:
    return [(max(1, round(factor * part.releases)), run.curve) for part, run in zip(plan.parts, planned.mechanisms, strict=True)]


def _cost(budget: Budget) -> Callable[..., float]:
    if budget.form == "approximate":
        return lambda curve: best_epsilon(curve, budget.delta).value
    return budget.cost
