"""The mechanisms that answer "which are the top k", the settings that a plan tries, and the noise that spends a budget."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pkgutil import resolve_name
from typing import Any, Self, final

import numpy as np

from accounting import AccountingError, Composed, Curve
from accounting.calibration import where_zero
from accounting.convert.renyi import rdp_to_epsilon
from accounting.decimal_sum import exact
from accounting.frozen import kind_of
from accounting.price import FAILURE_UNIT, MAIN_UNIT, NOTHING, main_cost
from dpselect import mechanisms
from dpselect.choose.calibration import knob_of, public_settings
from dpselect.choose.counts import takes_its_own
from dpselect.choose.defaults import GENEROUS, two_steps
from dpselect.mechanisms import Mechanism, members
from dpselect.mechanisms.base import Knob, Traits, fields_of, settings_of
from dpselect.planning.laws.base import Levels
from dpselect.planning.release_plan import Part, Task
from dpselect.planning.shape import Bounding
from dpselect.sensitivity import Norm, Sensitivity

Settings = Mapping[str, Any]

_PENALTIES = (1.0, 4.0, 16.0)  # of StableTopK, in units of the noise on the gaps
_MOST_SEARCHED = 500  # ranks that TopStable's exact law is computed for
_MOST_COMPETITORS = 1_000_000
_SPLITS = tuple(itertools.product((0.85, 0.7, 0.5, 0.95), (1.5, 3.0), (1.41, 4.0)))  # share, candidates / k, clip
_CLIPS = (1.0, 1.41, 2.0, 2.83, 4.0, 5.66, 8.0)
_FEW = 2  # items, which a clip does not distort
_TRY = 1e-6  # a chance of failure, and a price, to construct an example with


@final
@dataclass(frozen=True)
class Family:
    """Mechanisms of one kind that differ in the amount of their noise.

    Attributes:
        member: their class, whose traits say what they are.
        settings: fixed parameters that the price depends on.
        clip: the norm that each user's contributions are scaled to; None to count every item in full.
    """

    member: type[Mechanism]
    settings: Settings
    clip: float | None = None

    @classmethod
    def planned(cls) -> tuple[Self, ...]:
        """All of them, installed packages' included: what releases a top k of counts and has a planning law, in order of kind."""
        planned = [(member, member.traits) for _, member in sorted(members().items()) if member.traits.planned]
        return tuple(
            cls(member, dict(zip(traits.tried, values, strict=True)), None if traits.recipe is None else traits.recipe.clip)
            for member, traits in planned
            for values in itertools.product(*traits.tried.values())
        )

    @property
    def traits(self) -> Traits:
        """What the mechanisms have in common."""
        return self.member.traits

    @property
    def kind(self) -> str:
        """Of the mechanisms."""
        return kind_of(self.member)

    @property
    def knob(self) -> Knob:
        """What sets the noise."""
        return knob_of(self.member) if self.traits.recipe is None else self.traits.recipe.noise

    @property
    def failure(self) -> str | None:
        """The parameter that is the chance of failure; None if the mechanisms never fail."""
        return self.traits.failure if self.traits.recipe is None else self.traits.recipe.failure

    @property
    def name(self) -> str:
        """The kind, and the noise where there is a choice."""
        noise = self.settings.get("noise")
        return self.kind if noise is None else f"{self.kind}, {noise}"

    @property
    def norm(self) -> Norm:
        """The norm of a user's contributions that its noise pays for."""
        return self.traits.clips.get(self.settings.get("noise", ""), "l2")

    def bounding(self, task: Task) -> Bounding:
        """What is done to users' contributions. Who needs a bound on the items per user and is given none gets a generous one."""
        unbounded = task.limit is None and task.shape.loads is not None and not task.stated and self.traits.domain == "unknown"
        generous = unbounded and (self.traits.recipe is not None or self.settings.get("noise") in self.traits.clips)
        return Bounding(GENEROUS if generous else task.limit, self.clip, self.norm, task.kept)

    def sensitivity(self, task: Task) -> Sensitivity:
        """What one user may change then."""
        if task.stated:
            return task.sensitivity
        bounding, relation = self.bounding(task), task.sensitivity.relation
        if self.clip is None:
            return Sensitivity.of_counts(relation, bounding.limit)
        return Sensitivity.of_clipped(self.clip, self.norm, relation, bounding.limit)

    def clipped(self, task: Task) -> Iterator[Family]:
        """The family with each clip worth trying; none where its noise pays for something else than a norm."""
        loads = task.shape.loads
        if self.settings.get("noise") not in self.traits.clips or loads is None or task.stated:
            return
        most = min(math.inf if task.limit is None else task.limit, float(loads.sizes[-1]))
        steps, longest = (_CLIPS, math.sqrt(most)) if self.norm == "l2" else (tuple(clip**2 for clip in _CLIPS), most)
        yield from (replace(self, clip=clip) for clip in steps if clip <= max(1.0, longest))

    def build(self, task: Task, part: Part, knob: float, failure: float | None) -> Mechanism:
        """The mechanism for one part of a task; settings that its price does not depend on have a first value."""
        public = public_settings(part.k, task.candidates, self.sensitivity(task))
        given = {**public, **self.traits.usual(part.k), **self.settings, self.knob.field: knob}
        if self.failure is not None:
            given[self.failure] = failure
        if task.counts is not None and not task.recounted and takes_its_own(self.member, given):
            given["values"] = True
        if (recipe := self.traits.recipe) is not None:
            found: Mechanism = resolve_name(recipe.build)(given)
            return found
        names = fields_of(self.member)
        return self.member.model_validate({name: value for name, value in given.items() if name in names and value is not None})

    def built(self, task: Task, knob: float, failure: float | None) -> tuple[Mechanism, ...]:
        """One mechanism for every part."""
        return tuple(self.build(task, part, knob, failure) for part in task.parts)

    def fits(self, task: Task, like: Fitted | None = None) -> Iterator[Fitted]:
        """The members that spend the budget, one for each way to split delta that leaves enough for the noise.

        Quickly: where the best price is slow to find, by Renyi divergence. `Fitted.refined` makes up for it.

        Args:
            like: of the same mechanism with another clip: the noise is then in proportion, and nothing is searched.
        """
        for failure in self.failures(task):
            start = None
            # Where noise pays for the norm of a user's clipped vector, this much costs what `like` costs.
            if like is not None and like.failure == failure and self.clip is not None and like.family.clip is not None:
                alike = self.norm == like.family.norm and not self.knob.rising
                start = like.knob * self.clip / like.family.clip if alike else None
            found = _Search(self, task, failure, thorough=False).found(start)
            if found is not None:
                yield found

    def failures(self, task: Task) -> list[float | None]:
        """The chances of failure of one release to try; none at all if the budget has no delta to spend on it."""
        budget = task.budget
        if self.failure is None:
            return [None]
        if budget.form == "approximate" and task.charged == "separately":
            each = budget.failure_of_each(task.charges)
            return [each] if each > 0 else []
        found: list[float | None] = []
        for share in (1.0,) if budget.form == "zcdp" else _SHARES:
            # In whole units of a filter's price, and rounded down to six digits.
            part = _DOWN.divide(exact(budget.delta) * exact(share), Decimal(task.charges))
            units = part.quantize(FAILURE_UNIT, context=_UNITS) if part > FAILURE_UNIT else Decimal(0)
            found += [float(units)] if units > 0 else []
        return found

    def unsuited(self, task: Task) -> str | None:
        """Why the family cannot do what the task asks, whatever its noise; None if it may."""
        if self.traits.answers == "one_item" and any(part.k > 1 for part in task.parts):
            return "releases one item: it is for k=1"
        if not task.known and self.traits.domain == "public":
            return "needs a public domain: it would show items that are read off private data"
        if task.order and self.traits.ordered is False:
            return "does not release the order"
        if self.traits.recipe is not None and task.groups is not None:
            return "looks at users twice, which is not done for groups"
        loads = None if task.stated else task.shape.loads
        if self.traits.recipe is not None and (loads is None or loads.sizes[-1] <= _FEW):
            return "clips users twice: the shape has to say how many items they have, more than two"
        if self.failure is not None and task.budget.delta == 0:
            return "may fail, so the budget needs a delta: the chance of that"
        if self.clip is not None and task.counts is not None and not task.recounted:
            return "clips users: what it would show are sums of their shares, no counts"
        try:
            # Why the proof does not cover the relation or the sensitivity.
            example = self.build(task, task.parts[0], 1.0, None if self.failure is None else _TRY)
            if example.relation != task.sensitivity.relation:
                return f"has no guarantee under relation={task.sensitivity.relation!r}, only under {example.relation!r}"
            task.released(example).covers.require(self.sensitivity(task))
            if not (task.known or example.takes_observed):
                return "needs a public domain as it is configured"
            return "does not release the order" if task.order and not example.ordered else None
        except AccountingError as error:
            return f"is not proved for this: {error}"


def rules(_mechanism: mechanisms.CanonicalTopK, _levels: Levels) -> Iterator[Settings]:
    """How CanonicalTopK scores a set."""
    yield from ({"gamma": gamma, "top_set": rule} for gamma, rule in ((0.5, "gap"), (0.5, "tied"), (0.75, "gap"), (1.0, "gap")))


def competitors(mechanism: mechanisms.LimitedDomain, levels: Levels) -> Iterator[Settings]:
    """How many compete in LimitedDomain: the kbar whose threshold is lowest on this ranking, and small ones, which let fewer
    wrong items in.

    Largest first: equals go to the first, and a large one does not depend on the gap below rank k alone.
    """
    ranks = np.arange(mechanism.k, max(mechanism.k, min(levels.size, _MOST_COMPETITORS)) + 1)
    touched = ranks if mechanism.l0 is None else np.minimum(mechanism.l0, ranks)
    threshold = levels.value(ranks + 1) + np.log(touched) / mechanism.epsilon
    widths = {mechanism.k, 2 * mechanism.k, 5 * mechanism.k, int(ranks[np.argmin(threshold)])}
    yield from ({"kbar": kbar} for kbar in sorted(widths, reverse=True))


def targets(mechanism: mechanisms.StableTopK, levels: Levels) -> Iterator[Settings]:
    """What StableTopK prefers: no size, or k."""
    yield {"regularizer": None}
    for penalty in _PENALTIES if levels.k > 1 else ():
        rule = {"kind": "target_size", "k": levels.k, "penalty": _short(penalty * mechanism.gap_scale)}
        yield {"regularizer": rule}


def sizes_and_penalties(mechanism: mechanisms.StableTopKFixed, levels: Levels) -> Iterator[Settings]:
    """How large a stable set StableTopKFixed considers, and how much it prefers k."""
    unit = mechanism.stable.gap_scale
    for kbar in sorted({levels.k, min(2 * levels.k, levels.size)}):
        yield from ({"kbar": kbar, "penalty": _short(p * unit)} for p in (0.0, *_PENALTIES))


def searches(_mechanism: mechanisms.TopStable, levels: Levels) -> Iterator[Settings]:
    """In what order TopStable tests, and how far."""
    widths = sorted({min(times * levels.k, levels.size, max(levels.k, _MOST_SEARCHED)) for times in (1, 2, 5)} | {levels.k})
    yield from ({"kbar": kbar, "search": "from_k"} for kbar in widths)
    if len(widths) > 1:
        yield {"kbar": widths[1], "search": "from_kbar"}


def in_two_steps(settings: Settings) -> mechanisms.DiscoverThenSelect:
    """DiscoverThenSelect by its usual split of the budget; `splits` has others of the same price."""
    k, first = settings["k"], settings["sensitivity"]
    share, times, again = _SPLITS[0]
    return two_steps(k, settings["scale"], settings["delta"], first, share=share, candidates=math.ceil(times * k), again=again)


def splits(mechanism: mechanisms.DiscoverThenSelect, _levels: Levels) -> Iterator[Settings]:
    """How DiscoverThenSelect divides a Gaussian budget, how many compete, and how users are clipped among these."""
    find, select = mechanism.discovery, mechanism.selection
    if not (
        isinstance(find, mechanisms.SparseHistogram)
        and isinstance(select, mechanisms.OneshotTopK)
        and find.noise == select.noise == "gaussian"
    ):
        yield {}
        return
    scale = 1 / math.hypot(*(part.covers.l2_of(None) / part.scale for part in (find, select)))
    for share, times, again in _SPLITS:
        yield settings_of(
            two_steps(
                select.k, scale, find.delta, find.sensitivity, share=share, candidates=math.ceil(times * select.k), again=again
            )
        )


def _short(value: float) -> float:
    return float(f"{value:.3g}") if math.isfinite(value) else value


# -- the noise that spends a budget ----------------------------------------------------------------------------------------

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
        return self.family.built(task, self.knob * factor**power, self.failure)

    def refined(self, task: Task) -> Fitted:
        """The same family with the least noise that the budget admits."""
        if self.whole:
            return self
        return _Search(self.family, task, self.failure, thorough=True).found() or self


def admitted(task: Task, mechanisms: tuple[Mechanism, ...]) -> bool:
    """Whether the budget pays for all releases, charged as the task says."""
    if task.charged == "together":
        return task.budget.covers(_priced(task, mechanisms, thorough=True))
    total = NOTHING
    for part, mechanism in zip(task.parts, mechanisms, strict=True):
        total = total.plus(task.budget.price(task.released(mechanism).curve).times(part.releases))
    return task.budget.fits(NOTHING, total)


def _priced(task: Task, mechanisms: tuple[Mechanism, ...], *, thorough: bool) -> float:
    """The cost of a plan that is fixed in advance; by Renyi divergence alone where the best price is slow to find, for a quick
    look, and for the union bound of GaussianMax, whose loss distribution is slow.
    """
    pairs = zip(task.parts, mechanisms, strict=True)
    curve: Curve = Composed.of([(part.releases, task.released(mechanism).curve) for part, mechanism in pairs])
    budget = task.budget
    if budget.form != "approximate" or (thorough and "gaussian_max" not in curve.to_json()):
        return budget.cost(curve)
    left = float(_DOWN.subtract(exact(budget.delta), exact(curve.delta0)))
    if left <= 0:
        return curve.core_epsilon if left == 0 else math.inf
    return min(curve.core_epsilon, rdp_to_epsilon(curve.rdp, left, curve.table_orders).value)


@final
class _Search:
    """In x, the logarithm of the knob, turned round where more of it means less cost; so cost rises with x."""

    def __init__(self, family: Family, task: Task, failure: float | None, *, thorough: bool) -> None:
        self._family, self._task, self._failure = family, task, failure
        # Only an (epsilon, delta) plan that is fixed in advance has a price that takes long to find.
        slow = task.charged == "together" and task.budget.form == "approximate"
        self._thorough = thorough or not slow
        self._sign = 1.0 if family.knob.rising else -1.0
        self._low, self._high = sorted(self._sign * math.log(end) for end in family.knob.bracket(family.sensitivity(task).range))

    def found(self, start: float | None = None) -> Fitted | None:
        """The mechanisms with the least noise that is admitted, or close to `start` if that is given; None if none is."""
        knob = None if start is None else self._settled(-math.log(start))
        if knob is None and (x := self._run()) is not None:
            knob = self._settled(x)
        if knob is None:
            return None
        mechanisms = self._family.built(self._task, knob, self._failure)
        cost = _priced(self._task, mechanisms, thorough=self._thorough)
        return Fitted(mechanisms, cost, self._family, knob, self._failure, self._thorough)

    def _run(self) -> float | None:
        """The largest admitted x to one part in 10^4, or None."""
        at = {self._low: self._excess(self._low, thorough=False)}
        if at[self._low] > 0:
            return None
        at[self._high] = self._excess(self._high, thorough=False)
        if at[self._high] <= 0:
            return self._high
        start = self._closed(at, _COARSE if self._thorough else _FINE, thorough=False)
        return self._refined(start) if self._thorough else start

    def _settled(self, x: float) -> float | None:
        """The knob with six digits, nudged until the budget admits it beyond doubt."""
        round_to_safety = _UP if self._sign < 0 else _DOWN
        for nudge in range(_MOST_STEPS):
            knob = float(round_to_safety.create_decimal(Decimal(repr(math.exp(self._sign * (x - nudge * 1e-6))))))
            mechanisms = self._family.built(self._task, knob, self._failure)
            budget = self._task.budget
            if admitted(self._task, mechanisms) if self._thorough else budget.covers(self._cost(mechanisms, thorough=False)):
                return knob
        return None

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
            mechanisms = self._family.built(self._task, math.exp(self._sign * x), self._failure)
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
        return _priced(self._task, mechanisms, thorough=thorough)
