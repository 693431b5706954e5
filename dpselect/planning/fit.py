"""How much noise makes a schedule of releases cost a whole budget, from the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import final

from accounting import AccountingError, Budget, Composed, Curve
from accounting.budget.price import FAILURE_UNIT, MAIN_UNIT, NOTHING, main_cost
from accounting.calibration import where_zero
from accounting.conversion.renyi import rdp_to_epsilon
from accounting.decimal_sum import exact
from dpselect.mechanisms import Mechanism
from dpselect.planning.families import Family
from dpselect.planning.task import Task

Cost = Callable[[tuple[Mechanism, ...]], float]

# Shares of delta tried for the chance of failure; the rest is left for the conversion to epsilon.
_SHARES = (0.99, 0.75, 0.5)
_COARSE, _FINE = 0.02, 1e-4  # of the logarithm of the parameter
_STEP = 0.1
# Of the logarithm of the cost: that of nothing; the part of the tolerance that may stay unspent, and that a guess aims below the
# limit; how much nearer a guess has to come for the next one to be made; how many costs it goes by.
_FREE, _SPENT, _SHORT, _SHRUNK, _NEAREST = -1e3, 0.1, 0.03, 0.3, 4
_MOST_STEPS = 60
_DOWN, _UP = Context(prec=6, rounding=ROUND_FLOOR), Context(prec=6, rounding=ROUND_CEILING)
_UNITS = Context(prec=30, rounding=ROUND_FLOOR)


@final
@dataclass(frozen=True)
class Fitted:
    """One mechanism for every part of a task, all with the same amount of noise, and what they cost together.

    Attributes:
        mechanisms: in the order of the parts.
        cost: in the unit of the budget's limit (epsilon at its delta, or rho); proved, not more than the limit.
        family, knob, failure: whose members these are, with how much noise, and the chance of failure of one release.
        whole: whether the noise is the least that the budget admits; otherwise it is priced by Renyi divergence alone, which asks
            for a little more.
    """

    mechanisms: tuple[Mechanism, ...]
    cost: float
    family: Family
    knob: float
    failure: float | None
    whole: bool

    def built(self, task: Task, factor: float) -> tuple[Mechanism, ...]:
        """The mechanisms with `factor` times the noise and the first of the settings that cost nothing."""
        knob = self.family.knob
        power = (2 if knob.field == "rho" else 1) * (-1 if knob.rising else 1)
        return _built(self.family, task, self.knob * factor**power, self.failure)


def fits(family: Family, task: Task, like: Fitted | None = None) -> Iterator[Fitted]:
    """The family's members that spend the budget, one for each way to split delta that leaves enough for the noise.

    Quickly: where the best price is slow to find, by Renyi divergence. `whole` makes up for it.

    Args:
        like: of the same mechanism with another clip: the noise is then in proportion, and nothing is searched.
    """
    for failure in failures(family, task):
        start = _in_proportion(family, like) if like is not None and like.failure == failure else None
        found = _fitted(family, task, failure, thorough=False, start=start)
        if found is not None:
            yield found


def _in_proportion(family: Family, like: Fitted) -> float | None:
    """The noise that costs what `like` costs, where noise pays for the norm of a user's clipped vector."""
    if family.clip is None or like.family.clip is None or family.norm != like.family.norm or family.knob.rising:
        return None
    return like.knob * family.clip / like.family.clip


def whole(fitted: Fitted, task: Task) -> Fitted:
    """The same family with the least noise that the budget admits."""
    if fitted.whole:
        return fitted
    return _fitted(fitted.family, task, fitted.failure, thorough=True) or fitted


def _fitted(family: Family, task: Task, failure: float | None, *, thorough: bool, start: float | None = None) -> Fitted | None:
    search = _Search(family, task, failure, thorough=thorough)
    knob = None if start is None else search.settled(-math.log(start))
    if knob is None and (found := search.run()) is not None:
        knob = search.settled(found)
    if knob is None:
        return None
    mechanisms = _built(family, task, knob, failure)
    return Fitted(mechanisms, search.price(mechanisms), family, knob, failure, search.thorough)


def failures(family: Family, task: Task) -> list[float | None]:
    """The chances of failure of one release to try; none at all if the budget has no delta to spend on it."""
    if family.failure is None:
        return [None]
    budget = task.budget
    if budget.form == "approximate" and task.charged == "separately":
        each = budget.failure_of_each(task.charges)
        return [each] if each > 0 else []
    shares = (1.0,) if budget.form == "zcdp" else _SHARES
    return [failure for share in shares for failure in _even(exact(budget.delta) * exact(share), task.charges)]


def composed(task: Task, mechanisms: tuple[Mechanism, ...]) -> Curve:
    """The curve of all releases together."""
    pairs = zip(task.parts, mechanisms, strict=True)
    return Composed.of([(part.releases, task.released(mechanism).curve) for part, mechanism in pairs])


def admitted(task: Task, mechanisms: tuple[Mechanism, ...]) -> bool:
    """Whether the budget pays for all releases, charged as the task says."""
    if task.charged == "together":
        return task.budget.covers(_together(task.budget, composed(task, mechanisms)))
    total = NOTHING
    for part, mechanism in zip(task.parts, mechanisms, strict=True):
        total = total.plus(task.budget.price(task.released(mechanism).curve).times(part.releases))
    return task.budget.fits(NOTHING, total)


def _even(total: Decimal, releases: int) -> list[float | None]:
    """The share of one release, in whole units of a filter's price and rounded down to six digits."""
    share = _DOWN.divide(total, Decimal(releases))
    units = share.quantize(FAILURE_UNIT, context=_UNITS) if share > FAILURE_UNIT else Decimal(0)
    return [float(units)] if units > 0 else []


def _built(family: Family, task: Task, knob: float, failure: float | None) -> tuple[Mechanism, ...]:
    return tuple(family.build(task, part, knob, failure) for part in task.parts)


# -- costs ------------------------------------------------------------------------------------------------------------


def _together(budget: Budget, curve: Curve) -> float:
    """The cost of a plan that is fixed in advance. The union bound of GaussianMax has a slow loss distribution: Renyi only."""
    if budget.form == "approximate" and "gaussian_max" in curve.to_json():
        return _by_renyi(budget, curve)
    return budget.cost(curve)


def _by_renyi(budget: Budget, curve: Curve) -> float:
    left = float(_DOWN.subtract(exact(budget.delta), exact(curve.delta0)))
    if left <= 0:
        return curve.core_epsilon if left == 0 else math.inf
    return min(curve.core_epsilon, rdp_to_epsilon(curve.rdp, left, curve.table_orders).value)


def _separately(task: Task, mechanisms: tuple[Mechanism, ...]) -> float:
    """The sum of what the filter adds up, over its capacity."""
    capacity = float(task.budget.capacity.main * MAIN_UNIT)
    pairs = zip(task.parts, mechanisms, strict=True)
    total = sum(part.releases * main_cost(task.released(mechanism).curve, task.budget.measure) for part, mechanism in pairs)
    return total / capacity * task.budget.limit if capacity > 0 else math.inf


# -- the search -------------------------------------------------------------------------------------------------------


@final
class _Search:
    """In x, the logarithm of the knob, turned round where more of it means less cost; so cost rises with x."""

    def __init__(self, family: Family, task: Task, failure: float | None, *, thorough: bool) -> None:
        self._family, self._task, self._failure = family, task, failure
        # Only an (epsilon, delta) plan that is fixed in advance has a price that takes long to find.
        slow = task.charged == "together" and task.budget.form == "approximate"
        self.thorough = thorough or not slow
        self._sign = 1.0 if family.knob.rising else -1.0
        self._low, self._high = sorted(self._sign * math.log(end) for end in family.knob.bracket(family.sensitivity(task).range))

    def run(self) -> float | None:
        """The largest admitted x to one part in 10^4, or None."""
        at = {self._low: self._excess(self._low, self._quick)}
        if at[self._low] > 0:
            return None
        at[self._high] = self._excess(self._high, self._quick)
        if at[self._high] <= 0:
            return self._high
        start = self._closed(at, self._quick, _COARSE if self.thorough else _FINE)
        return self._refined(start) if self.thorough else start

    def settled(self, x: float) -> float | None:
        """The knob with six digits, nudged until the budget admits it beyond doubt."""
        round_to_safety = _UP if self._sign < 0 else _DOWN
        for nudge in range(_MOST_STEPS):
            knob = float(round_to_safety.create_decimal(Decimal(repr(math.exp(self._sign * (x - nudge * 1e-6))))))
            if self._admits(_built(self._family, self._task, knob, self._failure)):
                return knob
        return None

    def price(self, mechanisms: tuple[Mechanism, ...]) -> float:
        """What all releases cost together, by the price that was searched with."""
        curve = composed(self._task, mechanisms)
        return _together(self._task.budget, curve) if self.thorough else _by_renyi(self._task.budget, curve)

    def _admits(self, mechanisms: tuple[Mechanism, ...]) -> bool:
        if self.thorough:
            return admitted(self._task, mechanisms)
        return self._task.budget.covers(self._quick(mechanisms))

    def _refined(self, start: float) -> float | None:
        """From a start near the goal: step until the limit lies between two costs, then close in."""
        at = {start: self._excess(start, self._full)}
        up, step, x = at[start] <= 0, _STEP, start
        for _ in range(_MOST_STEPS):
            x = min(self._high, x + step) if up else max(self._low, x - step)
            at[x] = self._excess(x, self._full)
            if (at[x] <= 0) != up or x in (self._low, self._high):
                break
            step *= 2
        if all(excess > 0 for excess in at.values()) or all(excess <= 0 for excess in at.values()):
            return max((x for x, excess in at.items() if excess <= 0), default=None)
        return self._closed(at, self._full, _FINE)

    def _closed(self, at: dict[float, float], cost: Cost, within: float) -> float:
        """An admitted x, its cost next to the limit or the x `within` below a refused one; `at`: the costs known so far."""
        safe, unsafe = max(x for x in at if at[x] <= 0), min(x for x in at if at[x] > 0)
        guessing = True
        while unsafe - safe > within and at[safe] < -_SPENT * within:
            best = min(map(abs, at.values()))
            x = self._guess(at, within) if guessing else math.nan
            x = x if safe < x < unsafe else (safe + unsafe) / 2
            at[x] = self._excess(x, cost)
            guessing = abs(at[x]) < _SHRUNK * best or not guessing
            safe, unsafe = (x, unsafe) if at[x] <= 0 else (safe, x)
        return safe

    def _guess(self, at: dict[float, float], within: float) -> float:
        """Just below where the nearest costs, as a smooth curve, reach the limit; NaN where too few are known."""
        near = sorted((abs(excess), excess, x) for x, excess in at.items() if abs(excess) < -_FREE)[:_NEAREST]
        points = [(excess, x) for _, excess, x in near]
        several = len({excess for excess, _ in points}) == len(points) > 1
        return where_zero(points) - _SHORT * within if several else math.nan

    def _excess(self, x: float, cost: Cost) -> float:
        """ln(cost / limit); inf where such a mechanism does not exist."""
        try:
            mechanisms = _built(self._family, self._task, math.exp(self._sign * x), self._failure)
        except AccountingError:
            return math.inf
        spent = cost(mechanisms)
        return math.log(spent / self._task.budget.limit) if spent > 0 else _FREE

    def _quick(self, mechanisms: tuple[Mechanism, ...]) -> float:
        if self._task.charged == "separately":
            return _separately(self._task, mechanisms)
        curve, budget = composed(self._task, mechanisms), self._task.budget
        return _by_renyi(budget, curve) if budget.form == "approximate" else budget.cost(curve)

    def _full(self, mechanisms: tuple[Mechanism, ...]) -> float:
        if self._task.charged == "separately":
            return _separately(self._task, mechanisms)
        return _together(self._task.budget, composed(self._task, mechanisms))
