"""Fit every family to the budget, choose its other settings, and judge the result: roughly first, in full where it may matter.

A mechanism that falls clearly behind the best even with less noise than it could ever have is not worked out further.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import final

import numpy as np

from accounting import AccountingError, Budget, Composed, Curve
from accounting.budget.price import FAILURE_UNIT, MAIN_UNIT, NOTHING, main_cost
from accounting.calibration import where_zero
from accounting.conversion.renyi import rdp_to_epsilon
from accounting.decimal_sum import exact
from dpselect.mechanisms import Mechanism
from dpselect.planning.families import Family, variants
from dpselect.planning.laws.base import Runs, outcomes
from dpselect.planning.release_plan import Estimate, PlannedMechanism, Quality, Unsuited
from dpselect.planning.score_levels import Bounding
from dpselect.planning.shape import Shape
from dpselect.planning.task import Criterion, Part, Task

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


def _composed(task: Task, mechanisms: tuple[Mechanism, ...]) -> Curve:
    """The curve of all releases together."""
    pairs = zip(task.parts, mechanisms, strict=True)
    return Composed.of([(part.releases, task.released(mechanism).curve) for part, mechanism in pairs])


def admitted(task: Task, mechanisms: tuple[Mechanism, ...]) -> bool:
    """Whether the budget pays for all releases, charged as the task says."""
    if task.charged == "together":
        return task.budget.covers(_together(task.budget, _composed(task, mechanisms)))
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
        at = {self._low: self._excess(self._low, thorough=False)}
        if at[self._low] > 0:
            return None
        at[self._high] = self._excess(self._high, thorough=False)
        if at[self._high] <= 0:
            return self._high
        start = self._closed(at, _COARSE if self.thorough else _FINE, thorough=False)
        return self._refined(start) if self.thorough else start

    def settled(self, x: float) -> float | None:
        """The knob with six digits, nudged until the budget admits it beyond doubt."""
        round_to_safety = _UP if self._sign < 0 else _DOWN
        for nudge in range(_MOST_STEPS):
            knob = float(round_to_safety.create_decimal(Decimal(repr(math.exp(self._sign * (x - nudge * 1e-6))))))
            mechanisms = _built(self._family, self._task, knob, self._failure)
            budget = self._task.budget
            if admitted(self._task, mechanisms) if self.thorough else budget.covers(self._cost(mechanisms, thorough=False)):
                return knob
        return None

    def price(self, mechanisms: tuple[Mechanism, ...]) -> float:
        """What all releases cost together, by the price that was searched with."""
        curve = _composed(self._task, mechanisms)
        return _together(self._task.budget, curve) if self.thorough else _by_renyi(self._task.budget, curve)

    def _refined(self, start: float) -> float | None:
        """From a start near the goal: step until the limit lies between two costs, then close in."""
        at = {start: self._excess(start, thorough=True)}
        up, step, x = at[start] <= 0, _STEP, start
        for _ in range(_MOST_STEPS):
            x = min(self._high, x + step) if up else max(self._low, x - step)
            at[x] = self._excess(x, thorough=True)
            if (at[x] <= 0) != up or x in (self._low, self._high):
                break
            step *= 2
        if all(excess > 0 for excess in at.values()) or all(excess <= 0 for excess in at.values()):
            return max((x for x, excess in at.items() if excess <= 0), default=None)
        return self._closed(at, _FINE, thorough=True)

    def _closed(self, at: dict[float, float], within: float, *, thorough: bool) -> float:
        """An admitted x, its cost next to the limit or the x `within` below a refused one; `at`: the costs known so far."""
        safe, unsafe = max(x for x in at if at[x] <= 0), min(x for x in at if at[x] > 0)
        guessing = True
        while unsafe - safe > within and at[safe] < -_SPENT * within:
            best = min(map(abs, at.values()))
            x = self._guess(at, within) if guessing else math.nan
            x = x if safe < x < unsafe else (safe + unsafe) / 2
            at[x] = self._excess(x, thorough=thorough)
            guessing = abs(at[x]) < _SHRUNK * best or not guessing
            safe, unsafe = (x, unsafe) if at[x] <= 0 else (safe, x)
        return safe

    def _guess(self, at: dict[float, float], within: float) -> float:
        """Just below where the nearest costs, as a smooth curve, reach the limit; NaN where too few are known."""
        near = sorted((abs(excess), excess, x) for x, excess in at.items() if abs(excess) < -_FREE)[:_NEAREST]
        points = [(excess, x) for _, excess, x in near]
        several = len({excess for excess, _ in points}) == len(points) > 1
        return where_zero(points) - _SHORT * within if several else math.nan

    def _excess(self, x: float, *, thorough: bool) -> float:
        """ln(cost / limit); inf where such a mechanism does not exist."""
        try:
            mechanisms = _built(self._family, self._task, math.exp(self._sign * x), self._failure)
        except AccountingError:
            return math.inf
        spent = self._cost(mechanisms, thorough=thorough)
        return math.log(spent / self._task.budget.limit) if spent > 0 else _FREE

    def _cost(self, mechanisms: tuple[Mechanism, ...], *, thorough: bool) -> float:
        if self._task.charged == "separately":
            # The sum of what the filter adds up, over its capacity.
            task = self._task
            capacity = float(task.budget.capacity.main * MAIN_UNIT)
            pairs = zip(task.parts, mechanisms, strict=True)
            total = sum(
                part.releases * main_cost(task.released(mechanism).curve, task.budget.measure) for part, mechanism in pairs
            )
            return total / capacity * task.budget.limit if capacity > 0 else math.inf
        curve, budget = _composed(self._task, mechanisms), self._task.budget
        return _together(budget, curve) if thorough or budget.form != "approximate" else _by_renyi(budget, curve)


# -- the comparison --------------------------------------------------------------------------------------------------------


Progress = Callable[[int, int], None]

_SCREENED = 300  # runs by which the settings of one mechanism are compared
_GLANCED = 100  # runs that show that a mechanism is clearly behind
_LESS_NOISE = 0.85  # more than the best price ever saves over that by Renyi divergence
_CLIPS_SPLIT = 3  # clips of one family for which every split of delta is tried
_IN_FULL = 6  # at most this many are worked out in full
_BEHIND = 0.01  # of a share of 1: what is this far behind with that much less noise is settled
_SAMPLES = 4  # of users
# For how many ranks the head of a made-up shape may be flat, for each item of a user and _SINGLE more: nobody touches every
# popular item, and in the five logs that these numbers were set by it is .8 to 9 for each item of a user.
_HEADS, _SINGLE = (0.5, 1.0, 2.0, 4.0, 8.0), 4.0
_FLATTER = 0.6  # of the stated exponent: people guess about 1, and the laws of public logs have .65 on average
_MADE_UP = 0.15  # of recall: what is further behind on a made-up shape is settled
_GRACE = 0.02  # of recall in the worst case: this much of it may be given up for a better one on average
CLOSE = 0.01  # recalls that differ by less are about as good, and the one that survives a wrong guess is the safer choice


@final
@dataclass(frozen=True)
class Judge:
    """How qualities are found and compared; the fields are those of `plan` and, of one simulation, of `Runs`."""

    rounds: int
    seed: int
    level: float
    rank_by: Criterion
    places: bool = False

    def judged(self, mechanism: Mechanism, task: Task, part: Part, bounding: Bounding, screen: int | None = None) -> Quality:
        """The quality that is reported; or, by `screen` runs, a quick look to choose settings by, with other draws, so that the
        choice does not flatter what is reported.

        On average over the groups, all intervals together with the stated confidence.
        """
        rankings, runs = task.rankings(part, bounding), Runs(self.rounds, self.seed, places=self.places)
        if screen is not None:
            runs = replace(runs, count=min(self.rounds, screen), stage=0, fine=False)
        level = 1 - (1 - self.level) / len(rankings)
        own = (replace(runs, seed=runs.seed + place) for place in range(len(rankings)))  # draws of its own for each group
        return Quality.average(
            (count, Quality.of(outcomes(mechanism, levels, runs), levels, level))
            for (count, levels), runs in zip(rankings, own, strict=True)
        )

    def worth(self, found: Quality) -> tuple[float, ...]:
        """The better, the greater; ties are broken by the other criteria."""
        in_place = found.in_place.value if found.in_place is not None else 0.0
        first = {
            "recall": found.recall.value,
            "exact_set": found.exact_set.value,
            "score_loss": -found.score_loss.value,
            "released": found.released.value,
            "in_place": in_place,
        }[self.rank_by]
        return (first, found.recall.value, found.exact_set.value, -found.score_loss.value, in_place)


def compared(
    families: Sequence[Family], task: Task, judge: Judge, progress: Progress | None
) -> tuple[list[PlannedMechanism], list[Unsuited]]:
    """The families that can do the task, best first, one entry for each name, and why the others cannot."""
    suited, others = _sorted_out(families, task)
    tell = progress or (lambda _done, _total: None)
    looked_at: dict[str, _Look] = {}
    for done, (name, members) in enumerate(suited.items()):
        tell(done, 2 * len(suited))
        best = _best(members, task, judge)
        if best is None:
            others.append(Unsuited(name=name, reason="no amount of noise brings it within the budget"))
        else:
            looked_at[name] = best
    worths = sorted((judge.worth(look.quality) for look in looked_at.values()), reverse=True)
    bar, last = (worths[0][0], worths[:_IN_FULL][-1]) if worths else (0.0, ())
    planned = []
    for done, (name, look) in enumerate(looked_at.items(), start=len(suited)):
        tell(done, 2 * len(suited))
        settled = judge.worth(look.quality) < last or _behind(look, bar, task, judge)
        planned.append(_reported(name, look, task, judge) if settled else _in_full(name, look, task, judge))
    tell(2 * len(suited), 2 * len(suited))
    return sorted(planned, key=lambda one: judge.worth(one.quality), reverse=True), others


@final
@dataclass(frozen=True)
class _Look:
    """One way to use a family, and what a quick look at it showed."""

    fitted: Fitted
    quality: Quality


def _sorted_out(families: Sequence[Family], task: Task) -> tuple[dict[str, list[Family]], list[Unsuited]]:
    suited: dict[str, list[Family]] = {}
    reasons: dict[str, str] = {}
    for family in (one for plain in families for one in (plain, *plain.clipped(task))):
        reason = family.unsuited(task)
        if reason is None:
            suited.setdefault(family.name, []).append(family)
        else:
            reasons.setdefault(family.name, reason)
    reasons = {name: reason for name, reason in reasons.items() if name not in suited}
    kinds = {family.kind for alike in suited.values() for family in alike}
    return suited, [Unsuited(name=name, reason=reason) for name, reason in _merged(reasons, kinds).items()]


def _merged(reasons: dict[str, str], suited: set[str]) -> dict[str, str]:
    """One entry for a kind all of whose noises have the same reason; not if one of its noises is suited."""
    by_kind: dict[str, dict[str, str]] = {}
    for name, reason in reasons.items():
        by_kind.setdefault(name.partition(",")[0], {})[name] = reason
    merged: dict[str, str] = {}
    for kind, named in by_kind.items():
        alike = kind not in suited and len(named) > 1 and len(set(named.values())) == 1
        merged |= {kind: next(iter(named.values()))} if alike else named
    return merged


def _best(families: Sequence[Family], task: Task, judge: Judge) -> _Look | None:
    """The most promising settings; None if the budget pays for none."""
    looks: list[_Look] = []
    for family in families:
        like = looks[-1].fitted if looks else None
        found = next(fits(family, task, like), None)
        looks += [] if found is None else [_tuned(found, task, judge, _GLANCED)]
    looks.sort(key=lambda look: judge.worth(look.quality), reverse=True)
    # Another split of delta moves a recall by little: it is tried for the clips that may still come first.
    for look in looks[:_CLIPS_SPLIT]:
        others = fits(look.fitted.family, task, look.fitted)
        looks += [_tuned(fitted, task, judge, _GLANCED) for fitted in others if fitted.failure != look.fitted.failure]
    return max(looks, key=lambda look: judge.worth(look.quality), default=None)


def _behind(look: _Look, bar: float, task: Task, judge: Judge) -> bool:
    """Whether the mechanism stays behind `bar` however well it is priced."""
    clearly = _clearly(judge, look.quality, bar)
    if look.fitted.whole or not clearly:
        return clearly
    bold = replace(look.fitted, mechanisms=look.fitted.built(task, _LESS_NOISE))
    return _clearly(judge, _tuned(bold, task, judge, _GLANCED).quality, bar)


def _clearly(judge: Judge, found: Quality, bar: float) -> bool:
    """Whether even the good end of the interval is behind."""
    best: Estimate | None = getattr(found, judge.rank_by)
    if best is None:
        return False
    if judge.rank_by == "score_loss":
        return -best.low < bar - _BEHIND * abs(bar)
    whole_one = 1.0 if judge.rank_by != "released" else max(abs(bar), 1.0)
    return best.high < bar - _BEHIND * whole_one


def _in_full(name: str, look: _Look, task: Task, judge: Judge) -> PlannedMechanism:
    """With the least noise that the budget admits and, for that, the best settings; judged by other runs than chose them."""
    return _reported(name, _tuned(whole(look.fitted, task), task, judge, _SCREENED), task, judge, full=True)


def _reported(name: str, look: _Look, task: Task, judge: Judge, *, full: bool = False) -> PlannedMechanism:
    fitted, bounding = look.fitted, look.fitted.family.bounding(task)
    runs = judge if full else replace(judge, rounds=min(judge.rounds, _SCREENED))
    by_part = [runs.judged(run, task, part, bounding) for run, part in zip(fitted.mechanisms, task.parts, strict=True)]
    return PlannedMechanism(
        name=name,
        ordered=all(run.ordered for run in fitted.mechanisms),
        mechanisms=fitted.mechanisms,
        quality=_averaged(by_part, task),
        by_part=tuple(by_part),
        cost=fitted.cost,
        whole=full,
        max_items_per_user=bounding.limit,
        clip=bounding.clip,
        norm=bounding.norm,
    )


def _tuned(fitted: Fitted, task: Task, judge: Judge, runs: int) -> _Look:
    """The settings that cost nothing, chosen for every part by a quick look."""
    bounding = fitted.family.bounding(task)
    best = []
    for run, part in zip(fitted.mechanisms, task.parts, strict=True):
        tried = variants(run, task.levels(part, bounding))
        looked_at = ((variant, judge.judged(variant, task, part, bounding, runs)) for variant in tried)
        best.append(max(looked_at, key=lambda pair: judge.worth(pair[1])))
    tuned = replace(fitted, mechanisms=tuple(run for run, _ in best))
    return _Look(tuned, _averaged([found for _, found in best], task))


def _averaged(by_part: Sequence[Quality], task: Task) -> Quality:
    return Quality.average((part.releases, found) for part, found in zip(task.parts, by_part, strict=True))


# -- where the shape is wrong ------------------------------------------------------------------------------------------


def tested(planned: Sequence[PlannedMechanism], task: Task, judge: Judge) -> list[PlannedMechanism]:
    """The mechanisms; where they are ranked by recall, those within .01 of the best come first, by the worst recall around.

    A made-up shape is a smooth curve, and the recall on it is not a forecast: mechanisms are judged on uneven shapes around it.
    """
    if judge.rank_by != "recall" or not planned:
        return list(planned)
    bar = max(one.quality.recall.value for one in planned) - (_MADE_UP if task.shape.made_up else CLOSE)
    close = [one for one in planned if one.quality.recall.value >= bar]
    shape, seeds = task.shape, () if task.groups is not None else range(_SAMPLES)  # a sample of each group is another thing
    samples = _possible(task, (shape.varied(np.random.default_rng([judge.seed, 2, seed])) for seed in seeds))
    around = _possible(task, (shape.tilted(0.2), shape.tilted(-0.2), shape.thinned(0.5), shape.heavier(2.0)))
    if shape.made_up:
        width = _SINGLE + (1.0 if shape.loads is None else shape.loads.mean)
        others = [*(shape.flattened(width * ranks) for ranks in _HEADS), shape.tempered(_FLATTER)]
        uneven = (other.uneven(np.random.default_rng([judge.seed, 4, seed])) for seed, other in enumerate(others))
        tasks = _possible(task, uneven)
        found = [_forecast(one, tasks, around, judge) for one in close]
        # The best on average over uneven shapes, unless it gives up more than .02 of the worst case.
        # All to a thousandth, as tables show it: no row is better in every column than one above it.
        worst = {one.name: round(one.worst_recall or 0.0, 3) for one in found}
        floor = max(worst.values()) - _GRACE
        mean = {one.name: round(one.fresh_recall or 0.0, 3) for one in found}
        found.sort(key=lambda one: (worst[one.name] < floor, -mean[one.name], not one.ordered, -worst[one.name]))
        return [*found, *(one for one in planned if one.quality.recall.value < bar)]
    found = [_tested(one, samples, around, judge) for one in close]
    # Equals to a thousandth: the one that tells the order as well; then, as sorting is stable, in the order of the shape itself.
    found.sort(key=lambda one: (-round(one.worst_recall or 0.0, 3), not one.ordered))
    return [*found, *(one for one in planned if one.quality.recall.value < bar)]


def _possible(task: Task, shapes: Iterable[Shape]) -> list[Task]:
    """The task on each of these shapes, of those that have enough items."""
    tasks = (replace(task, shape=shape) for shape in shapes)
    return [one for one in tasks if all(one.has(part.k) for part in one.parts)]


def _tested(one: PlannedMechanism, samples: Sequence[Task], around: Sequence[Task], judge: Judge) -> PlannedMechanism:
    fresh = [_recall(one, task, judge) for task in samples]
    other = [_recall(one, task, judge) for task in around] + ([float(np.mean(fresh))] if fresh else [])
    worst = min([one.quality.recall.value, *other])
    return one.model_copy(update={"worst_recall": worst, "fresh_recall": float(np.mean(fresh)) if fresh else None})


def _forecast(one: PlannedMechanism, uneven: Sequence[Task], around: Sequence[Task], judge: Judge) -> PlannedMechanism:
    """With the range of recalls over uneven shapes, and over all shapes around."""
    fresh = [_recall(one, task, judge) for task in uneven] or [one.quality.recall.value]
    other = [_recall(one, task, judge) for task in around]
    return one.model_copy(
        update={
            "worst_recall": min([*fresh, *other]),
            "fresh_recall": float(np.mean(fresh)),
            "forecast": (min(fresh), max(fresh)),
        }
    )


def _recall(one: PlannedMechanism, task: Task, judge: Judge) -> float:
    """Of one release, on average over the parts of the schedule."""
    bounding = Bounding(one.max_items_per_user, one.clip, one.norm, task.kept)
    pairs = zip(one.mechanisms, task.parts, strict=True)
    found = [part.releases * judge.judged(run, task, part, bounding, _SCREENED).recall.value for run, part in pairs]
    return sum(found) / sum(part.releases for part in task.parts)
