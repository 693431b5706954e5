"""What is asked of a plan, `Task`, and its answer, `ReleasePlan`: mechanisms that spend the budget, best first, how good each is
expected to be, and why others are not planned; and a plan in words, for the terminal and the page.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self, final

import numpy as np
import scipy
from pydantic import Field, ValidationError

from accounting import Budget, Composed, Curve
from accounting.arguments import WORDS
from accounting.frozen import Count, Positive, Probability, Real
from dpselect.choose.calibration import noise_settings
from dpselect.choose.counts import CountNoise, interval, without_counts
from dpselect.choose.forecast import Forecast
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import AnyMechanism, DiscoverThenSelect, Mechanism, PerGroup
from dpselect.planning.laws.base import Floats, Levels, Outcomes
from dpselect.planning.shape import Bounding, Groups, Shape, Stated
from dpselect.sensitivity import Norm, Sensitivity

Method = Literal["exact", "quadrature", "clopper-pearson", "empirical-bernstein"]
Domain = Literal["public", "unknown"]
Charged = Literal["together", "separately"]
Criterion = Literal["recall", "exact_set", "score_loss", "released", "in_place"]


@final
class Part(Stated):
    """Releases of the same size.

    Args:
        releases: how many, >= 1.
        k: how many items each of them releases, >= 1.
    """

    releases: Count = Field(description="an integer >= 1")
    k: Count = Field(description="an integer >= 1")


@final
@dataclass(frozen=True, eq=False)
class Task:
    """A budget, the releases that share it, and what is known of the data, as `plan` is asked.

    Attributes:
        limit: at most this many items of a user are counted; None for all.
        stated: whether the sensitivity was stated as such: contributions are then left as they are.
        counts: the share of the budget that noisy counts of the released items get; None: none are released.
    """

    budget: Budget
    parts: tuple[Part, ...]
    shape: Shape
    domain: Domain
    order: bool
    sensitivity: Sensitivity
    charged: Charged
    limit: int | None = None
    stated: bool = False
    counts: float | None = None
    groups: Groups | None = None
    _seen: dict[tuple[Part, Bounding | None], list[tuple[int, Levels]]] = field(default_factory=dict, init=False, repr=False)

    @property
    def known(self) -> bool:
        """Whether the domain is public."""
        return self.domain == "public"

    @property
    def releases(self) -> int:
        """How many releases there are in all."""
        return sum(part.releases for part in self.parts)

    @property
    def charges(self) -> int:
        """How many times the price of one group's mechanism is paid."""
        users = 2 if self.sensitivity.relation == "replace_one" else 1
        return self.releases if self.groups is None else self.releases * users * self.groups.max_groups_per_user

    @property
    def kept(self) -> float:
        """The share of a group's users that a bound on the groups of a user keeps."""
        return 1.0 if self.groups is None else self.groups.kept

    @cached_property
    def shapes(self) -> list[tuple[int, Shape]]:
        """How many groups look how; one like the whole without groups."""
        if self.groups is None:
            return [(1, self.shape)]
        return [(count, self.shape.in_group(share)) for count, share in self.groups.sizes()]

    def has(self, k: int) -> bool:
        """Whether k items can come out, of the largest group at least."""
        return any(k <= self._items(shape) for _, shape in self.shapes)

    def _items(self, shape: Shape) -> int:
        return shape.size if self.known else shape.touched

    @property
    def candidates(self) -> int | None:
        """Size of the public catalogue; None if there is none."""
        return self.shape.size if self.known else None

    @cached_property
    def counted(self) -> CountNoise | None:
        """The fresh noise of the counts; None without."""
        if self.counts is None:
            return None
        parts = [(part.releases * self.charges // self.releases, part.k) for part in self.parts]
        separately, one = self.charged == "separately", None
        if self.recounted:
            norm: Norm = "l1" if self.budget.measure == "epsilon" else "l2"
            one = Sensitivity.of_clipped(1.0, norm, self.sensitivity.relation)
        found = CountNoise.within(self.budget, self.counts, parts, one or self.sensitivity, separately=separately)
        return replace(found, one=one)

    @property
    def recounted(self) -> bool:
        """Whether counts come from a second look at users, as `topk` takes it: not in groups, nor of scores of another kind."""
        return self.counts is not None and self.groups is None and not self.stated

    def clipped(self, mechanism: Mechanism, part: Part) -> Mechanism:
        """What is released: where counts come from a second look, with the clip that suits the users of the shape."""
        if self.counted is None or self.counted.one is None:
            return self.released(mechanism)
        forecast = Forecast(self.shape.crowd, part.k, self.candidates)
        return forecast.with_counts(mechanism, replace(self.counted, k=part.k))

    def released(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism, with counts of what it selects and for every group where that is asked for: what is charged and run,
        or something of that kind that costs no less."""
        one = mechanism if self.counted is None else self.counted.beside(mechanism)
        if self.groups is None:
            return one
        shared = self.sensitivity.uniform and self.sensitivity.relation == "replace_one"
        return PerGroup(mechanism=one, max_groups_per_user=self.groups.max_groups_per_user, uniform=shared)

    def rankings(self, part: Part, bounding: Bounding | None = None) -> list[tuple[int, Levels]]:
        """The rankings that a release of this part sees once contributions are bounded, and how many groups have each.

        Groups with fewer than k items are left out. Kept: it is asked for many times.
        """
        if (part, bounding) not in self._seen:
            self._seen[part, bounding] = [
                (count, shape.levels(part.k, bounding, known=self.known))
                for count, shape in self.shapes
                if part.k <= self._items(shape)
            ]
        return self._seen[part, bounding]

    def levels(self, part: Part, bounding: Bounding | None = None) -> Levels:
        """That of a middling group."""
        found = self.rankings(part, bounding)
        return found[len(found) // 2][1]


# -- how good it is --------------------------------------------------------------------------------------------------------


@final
class Estimate(Stated):
    """An expected value and an interval around it.

    Args:
        value: the exact or the simulated mean.
        low, high: the interval; equal to `value` if the law is known exactly.
        level: the confidence of the interval, 1 if exact. It holds for any number of simulated runs, not just for many.
        method: how it was made: "exact", "quadrature" (the interval bounds the numerical error; nothing is sampled),
            "clopper-pearson" for what either happens or not, "empirical-bernstein" (Maurer and Pontil 2009, Theorem 4) for a
            bounded number.
    """

    value: Real = Field(description="a finite number")
    low: Real = Field(description="a finite number")
    high: Real = Field(description="a finite number")
    level: Real = Field(default=1.0, description="a confidence in (0, 1]")
    method: Method = Field(default="exact", description="how the interval was made")

    @classmethod
    def exactly(cls, value: float) -> Self:
        """A value known without doubt but for rounding."""
        return cls(value=value, low=value, high=value)

    @classmethod
    def within(cls, value: float, error: float) -> Self:
        """A number in [0, 1] that is off by at most `error`, exact if that is 0."""
        if error == 0:
            return cls.exactly(value)
        return cls(value=value, low=max(0.0, value - error), high=min(1.0, value + error), method="quadrature")

    @classmethod
    def from_runs(cls, runs: Floats, level: float) -> Self:
        """The mean of (rounds,) independent numbers in [0, 1], with an interval of this confidence."""
        mean, rounds, doubt = float(runs.mean()), len(runs), 1 - level
        method: Method = "clopper-pearson" if np.isin(runs, (0.0, 1.0)).all() else "empirical-bernstein"
        if method == "clopper-pearson":
            hits = int(runs.sum())
            low = 0.0 if hits == 0 else float(scipy.special.betaincinv(hits, rounds - hits + 1, doubt / 2))
            high = 1.0 if hits == rounds else float(scipy.special.betainccinv(hits + 1, rounds - hits, doubt / 2))
        else:
            # Half the width of the interval of Maurer and Pontil (2009), Theorem 4, on both sides.
            surprise = math.log(4 / doubt)
            half = math.sqrt(2 * float(runs.var(ddof=1)) * surprise / rounds) + 7 * surprise / (3 * (rounds - 1))
            low, high = max(0.0, mean - half), min(1.0, mean + half)
        return cls(value=mean, low=min(low, mean), high=max(high, mean), level=level, method=method)

    @classmethod
    def average(cls, parts: list[tuple[int, Self]]) -> Self:
        """The mean of estimates, each counted so often; the interval keeps the confidence only if there is one part that is not
        exact, and is the union bound's otherwise.
        """
        total = sum(count for count, _ in parts)
        known = ("exact", "quadrature")
        inexact = sorted((estimate for _, estimate in parts if estimate.method != "exact"), key=lambda one: one.method in known)
        doubt = sum(1 - estimate.level for estimate in inexact)

        def mean(name: str) -> float:
            return float(sum(count * getattr(estimate, name) for count, estimate in parts) / total)

        method = inexact[0].method if inexact else "exact"
        return cls(value=mean("value"), low=mean("low"), high=mean("high"), level=max(0.0, 1 - doubt), method=method)

    def scaled(self, factor: float) -> Estimate:
        """The estimate of `factor` times the number, factor >= 0."""
        return self.model_copy(update={name: factor * getattr(self, name) for name in ("value", "low", "high")})

    def complement(self, whole: float = 1.0) -> Estimate:
        """The estimate of `whole` minus the number."""
        update = {"value": whole - self.value, "low": whole - self.high, "high": whole - self.low}
        return self.model_copy(update=update)

    def for_runs(self, runs: int, level: Probability = 0.95) -> tuple[float, float]:
        """Where the mean of `runs` fresh runs lies, for a number in [0, 1] that this estimates.

        No law on [0, 1] spreads more than the one that takes the values 0 and 1, so the binomial quantiles at either end of the
        interval are used.
        """
        tail = (1 - level) / 2
        low = _binomial_quantile(tail, runs, min(1.0, max(0.0, self.low))) / runs
        # The most that fail is what is left of the most that succeed: the tail keeps its digits.
        high = 1 - _binomial_quantile(tail, runs, 1 - min(1.0, max(0.0, self.high))) / runs
        return min(low, self.low), max(high, self.high)


def _binomial_quantile(tail: float, runs: int, chance: float) -> int:
    """The least number of successes that the binomial law exceeds with at most 1 - tail."""
    if chance in (0.0, 1.0):
        return int(chance) * runs
    count = max(0, math.ceil(float(scipy.special.bdtrik(tail, runs, chance))))
    return count - 1 if count and scipy.special.bdtr(count - 1, runs, chance) >= tail else count


@final
class Quality(Stated):
    """What one release is expected to be like. With ties at rank k, any of the tied items counts as right.

    Args:
        exact_set: the probability that all k items are there and right.
        recall: the expected share of the k places that a right item fills.
        score_loss: by how much the released items' counts fall short of those of the k best, in users, summed over the items.
        relative_loss: the same as a share of the sum of the k best.
        released: how many items are released.
        in_place: the share of places that hold the right rank, where the order is released.
    """

    exact_set: Estimate = Field(description="an Estimate")
    recall: Estimate = Field(description="an Estimate")
    score_loss: Estimate = Field(description="an Estimate")
    relative_loss: Estimate = Field(description="an Estimate")
    released: Estimate = Field(description="an Estimate")
    in_place: Estimate | None = Field(default=None, description="an Estimate, or None")

    @classmethod
    def of(cls, outcomes: Outcomes, levels: Levels, level: float) -> Self:
        """The quality that outcomes show, with intervals of this confidence."""

        def estimated(values: Floats) -> Estimate:
            if outcomes.weights is None:
                return Estimate.from_runs(values, level)
            return Estimate.within(min(1.0, float(outcomes.weights @ values)), outcomes.error)

        loss = estimated(outcomes.kept).complement()
        return cls(
            exact_set=estimated(outcomes.exact_set),
            recall=estimated(outcomes.recall),
            score_loss=loss.scaled(levels.best),
            relative_loss=loss,
            released=estimated(outcomes.released).scaled(levels.k),
            in_place=None if outcomes.in_place is None else estimated(outcomes.in_place),
        )

    @classmethod
    def average(cls, parts: Iterable[tuple[int, Self]]) -> Self:
        """The quality of a release on average over a schedule of (count, quality) parts; of a single one its own."""
        found = list(parts)

        def mean(name: str) -> Estimate:
            return Estimate.average([(count, getattr(quality, name)) for count, quality in found])

        if len(found) == 1:
            return found[0][1]
        ordered = all(quality.in_place is not None for _, quality in found)
        names = ("exact_set", "recall", "score_loss", "relative_loss", "released")
        return cls(**{name: mean(name) for name in names}, in_place=mean("in_place") if ordered else None)


# -- the plan --------------------------------------------------------------------------------------------------------------


@final
class PlannedMechanism(Stated):
    """A mechanism whose noise spends the budget, and what to expect of it.

    Args:
        name: its kind, and its noise where it leaves a choice.
        ordered: whether the order is released.
        mechanisms: what to run, one for every part of the schedule; `Mechanism.to_json` of it is what `dpselect topk` takes.
        quality: of one release, on average over the schedule.
        by_part: of one release of every part.
        cost: what all releases cost together, in the unit of the budget's limit (epsilon at its delta, or rho), nats; proved.
        whole: whether the noise is the least that the budget admits. A mechanism that is clearly behind is priced by Renyi
            divergence alone and judged by fewer runs; asked for by itself, it is worked out in full.
        max_items_per_user, clip, norm: how each user's contributions are bounded for it, as `events.read` does; None: not at all.
        worst_recall: the least recall over shapes around the stated one (exponent .2 up and down, half the users, twice the items
            per user, and another sample of users on average); None for mechanisms that are not within .01 of the best.
        fresh_recall: the recall on data whose counts vary around the shape (Poisson), as another sample of users would; None if
            the mechanism is not within .01 of the best, or no sample drawn has k items.
        forecast: least and greatest recall over shapes whose counts scatter around a made-up one, with a flatter head or a
            smaller exponent, as in public logs; there `fresh_recall` is their mean. None where the shape was not made up.
    """

    name: str = Field(description="a kind, and perhaps a noise")
    ordered: bool = Field(description="true or false")
    mechanisms: tuple[AnyMechanism, ...] = Field(min_length=1, description="mechanisms")
    quality: Quality = Field(description="a Quality")
    by_part: tuple[Quality, ...] = Field(min_length=1, description="one Quality for every part")
    cost: Real = Field(description="nats")
    whole: bool = Field(default=True, description="true or false")
    max_items_per_user: Count | None = Field(default=None, description="an integer >= 1, or None")
    clip: Positive | None = Field(default=None, description="a finite number > 0, or None")
    norm: Norm = Field(default="l2", description="'l1' or 'l2'")
    worst_recall: Real | None = Field(default=None, description="a share of 1, or None")
    fresh_recall: Real | None = Field(default=None, description="a share of 1, or None")
    forecast: tuple[Real, Real] | None = Field(default=None, description="two shares of 1, or None")

    @property
    def expected(self) -> float:
        """The recall to expect: on uneven shapes where the stated one was made up, on the shape itself otherwise."""
        return self.quality.recall.value if self.forecast is None or self.fresh_recall is None else self.fresh_recall

    @property
    def again(self) -> float | None:
        """What users are clipped to in a second look, within the items that the mechanism discovers; None without one."""
        clip: float | None = getattr(without_counts(self.mechanisms[0]), "again", None)
        return clip


@final
class Unsuited(Stated):
    """A mechanism that is not planned, and why."""

    name: str = Field(description="a kind, and perhaps a noise")
    reason: str = Field(description="why, in words")


@final
class ReleasePlan(Stated):
    """How to spend a budget on top-k releases; `dpselect.plan` makes one.

    Args:
        budget: what all releases together may cost.
        parts: the releases.
        domain, order, sensitivity, charged, max_items_per_user: as asked.
        stated: whether the sensitivity was asked for as such.
        counts: the share of the budget that noisy counts of the items get; None without them.
        groups: those that each release is for, by `PerGroup`; None for the log as a whole.
        shape: in words, what the data were taken to look like.
        items: how many items that shape has.
        rank_by: what the mechanisms are ranked by.
        rounds, seed, level: of the simulations.
        ranked: the mechanisms, best first; ranked by recall, those within .01 of the best come in the order of `worst_recall`.
        unsuited: the others.
    """

    budget: Budget = Field(description="a Budget")
    parts: tuple[Part, ...] = Field(min_length=1, description="one or more parts")
    domain: Domain = Field(description="'public' or 'unknown'")
    order: bool = Field(description="true or false")
    sensitivity: Sensitivity = Field(description="a Sensitivity")
    charged: Charged = Field(description="'together' or 'separately'")
    max_items_per_user: Count | None = Field(default=None, description="an integer >= 1, or None")
    stated: bool = Field(default=False, description="true or false")
    counts: Probability | None = Field(default=None, description="a share in (0, 1), or None")
    groups: Groups | None = Field(default=None, description="Groups, or None")
    shape: str = Field(description="words")
    items: Count = Field(description="an integer >= 1")
    rank_by: Criterion = Field(description="a criterion")
    rounds: Count = Field(description="an integer >= 2")
    seed: int = Field(description="an integer")
    level: Probability = Field(description="a confidence in (0, 1)")
    ranked: tuple[PlannedMechanism, ...] = Field(min_length=1, description="mechanisms, best first")
    unsuited: tuple[Unsuited, ...] = Field(default=(), description="mechanisms that are not planned")

    @property
    def recommended(self) -> PlannedMechanism:
        """The first of `ranked`."""
        return self.ranked[0]

    @property
    def mechanism(self) -> Mechanism:
        """What to run, where all releases are alike.

        Raises:
            InvalidRequest: the schedule has several parts: take `recommended.mechanisms`.
        """
        if len(self.parts) > 1:
            raise InvalidRequest(f"this schedule has {len(self.parts)} parts, each with a mechanism: take recommended.mechanisms")
        return self.recommended.mechanisms[0]

    def named(self, name: str) -> PlannedMechanism:
        """The planned mechanism of that name, or the best one of that kind.

        Raises:
            InvalidRequest: it is not planned; the message says why, if a reason is known.
        """
        for planned in self.ranked:
            if name in (planned.name, planned.name.partition(",")[0]):
                return planned
        why = next((other.reason for other in self.unsuited if name in (other.name, other.name.partition(",")[0])), None)
        known = ", ".join(planned.name for planned in self.ranked)
        raise InvalidRequest(f"{name[:60]!r} is not planned ({why or 'unknown mechanism'}): choose one of {known}")

    def curve(self, planned: PlannedMechanism | None = None) -> Curve:
        """What all releases cost together with this mechanism, by default the recommended one."""
        chosen = planned or self.recommended
        return Composed.of([(part.releases, run.curve) for part, run in zip(self.parts, chosen.mechanisms, strict=True)])

    def to_json(self) -> str:
        """The plan as JSON; `ReleasePlan.from_json` reads it back."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The plan whose `to_json` is `text`.

        Raises:
            InvalidRequest: it is not JSON, or no plan.
        """
        try:
            return cls.model_validate(json.loads(text))
        except (ValueError, RecursionError, ValidationError) as error:
            if isinstance(error, InvalidRequest):
                raise
            raise InvalidRequest("the text is not JSON: pass what ReleasePlan.to_json wrote") from None

    def __repr_args__(self) -> Any:
        best = self.recommended
        yield "recommended", best.name
        yield "recall", round(best.quality.recall.value, 4)
        yield "parts", [(part.releases, part.k) for part in self.parts]
        yield "budget", self.budget
        yield "ranked", len(self.ranked)

    def _repr_html_(self) -> str:
        from accounting.page.spent import budget_in_words
        from accounting.page.templates import card  # notebooks only

        rows = [
            (
                place,
                planned.name,
                f"{100 * planned.quality.recall.value:.4g} %",
                f"{100 * planned.quality.exact_set.value:.4g} %",
                f"{planned.cost:.4g}",
            )
            for place, planned in enumerate(self.ranked, start=1)
        ]
        asked = "; ".join(f"{part.releases:,} of the top {part.k:,}" for part in self.parts)
        facts = [("budget", budget_in_words(self.budget)), ("releases", asked), ("items", self.domain), ("shape", self.shape)]
        return card("ReleasePlan", facts=facts, heads=["", "mechanism", "recall", "all right", "cost (nats)"], rows=rows)


def releases_in_words(plan: ReleasePlan) -> str:
    """What is released, how often."""
    parts = [f"{part.releases:,} release{'s' if part.releases > 1 else ''} of the top {part.k:,}" for part in plan.parts]
    every = "" if plan.groups is None else f", of each of {plan.groups.count:,} groups"
    return " and ".join(parts) + every


def budget_in_words(budget: Budget) -> str:
    """The stated budget."""
    return f"{_unit(budget)} {budget.limit:g}" + (f", delta {budget.delta:g}" if budget.delta else "")


def _unit(budget: Budget) -> str:
    return "rho" if budget.rho is not None else "epsilon"


def question_in_words(plan: ReleasePlan) -> Iterator[tuple[str, str]]:
    """What was asked, as names and values."""
    charged = "as one plan that is fixed in advance" if plan.charged == "together" else "one by one, through the budget's filter"
    yield "budget", f"{budget_in_words(plan.budget)}, for all releases together, charged {charged}"
    yield "relation", f"{plan.sensitivity.relation}: {WORDS[plan.sensitivity.relation]}"
    if plan.sensitivity.l0 is not None:
        yield "contributions", f"a user changes at most {plan.sensitivity.l0:,} counts"
    known = "public" if plan.domain == "public" else "unknown: items are read off the log, and therefore private"
    yield "items", f"{known}; {'in order of rank' if plan.order else 'as a set'}"
    if (groups := plan.groups) is not None:
        sizes = f"{groups.count:,} of a public list, sizes by Zipf's law ({groups.exponent:g})"
        kept = f"kept in {groups.max_groups_per_user:,}: {share(groups.kept)} of the pairs"
        yield "groups", f"{sizes}; a user is in {groups.per_user:g}, {kept}"
    yield "shape", plan.shape


def _mechanism_in_words(planned: PlannedMechanism, part: int = 0) -> str:
    """The class, its noise and how contributions are bounded for it."""
    run = without_counts(planned.mechanisms[part])
    noise = getattr(run, "noise", None)
    bounding = Bounding(planned.max_items_per_user, planned.clip, planned.norm).words()
    every = "in every group " if isinstance(planned.mechanisms[part], PerGroup) else ""
    words = f"{every}{type(run).__name__} with {f'{noise} noise of ' if isinstance(noise, str) else ''}{noise_in_words(run)}"
    words += f", {run.candidates:,} items for the second" if isinstance(run, DiscoverThenSelect) else ""
    return words + (f"; {bounding}" if bounding else "") + (f", then {planned.again:.4g}" if planned.again is not None else "")


def noise_in_words(mechanism: Mechanism) -> str:
    """The field that sets the noise and its value; of a mechanism in two steps, those of both."""
    if isinstance(mechanism, DiscoverThenSelect):
        return f"{noise_in_words(mechanism.discovery)}, then {noise_in_words(mechanism.selection)}"
    knob, value = noise_settings(without_counts(mechanism))
    return f"{knob} {value:.4g}"


def recommendation_in_words(plan: ReleasePlan, planned: PlannedMechanism) -> Iterator[tuple[str, str]]:
    """The answer in a few lines, as names and values: what to use, what to expect, what it costs, how far to trust it."""
    for place, part in enumerate(plan.parts):
        size = f" {part.k}" if len(plan.parts) > 1 else ""
        yield f"use{size}", _mechanism_in_words(planned, place)
    recall, right = planned.quality.recall, share(planned.quality.exact_set.value)
    if planned.forecast is not None:
        low, high = planned.forecast
        yield (
            "expect",
            f"{share(low)} to {share(high)} of the true items in each release: counts of real logs scatter around a curve",
        )
    else:
        about = "numerical error:" if recall.method == "quadrature" else f"{100 * recall.level:g} % of simulations:"
        error = "" if recall.method == "exact" else f" ({about} {share(recall.low)} to {share(recall.high)})"
        yield "expect", f"{share(recall.value)} of the true items in each release{error}; all of them right in {right}"
    if plan.counts is not None:
        # How exact they are, and of what kind.
        run = planned.mechanisms[0]
        run = run.mechanism if isinstance(run, PerGroup) else run
        around, own = interval(run), without_counts(run) is run
        assert around is not None
        noise = "of the noise that chooses, free of charge" if own else f"of fresh {getattr(run, 'noise', '')} noise"
        clip: float | None = getattr(run, "clip", None)
        looked = "" if clip is None else f"; a second look clips users to {clip:.4g} among the items of the release"
        yield "counts", f"within {math.ceil(around.half_width):,} users, {noise}; {around.words()}{looked}"
    unit, at = _unit(plan.budget), f" at delta {plan.budget.delta:g}" if plan.budget.delta else ""
    yield "cost", f"{unit} {planned.cost:.4g} of {plan.budget.limit:g}{at} for {releases_in_words(plan)}"
    if planned.worst_recall is None:
        yield "if wrong", "the guarantee stands; how the recall changes with the shape was not looked at (--curves)"
    else:
        shapes = "steeper, flatter, half the users, twice the items each"
        yield "if wrong", f"at least {share(planned.worst_recall)} on shapes around this one: {shapes}"
    others = [
        f"{one.name} {share(one.expected)}" + ("" if one.worst_recall is None else f" (around: {share(one.worst_recall)})")
        for one in plan.ranked
        if one != planned
    ]
    yield "instead", ", ".join(others[:2]) or "nothing else applies"


def amount(value: float) -> str:
    """Of users or items: to the whole from a thousand, to three digits below."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def share(value: float) -> str:
    """A share of 1 in percent. 100 % only where nothing is missing."""
    percent = 100 * value
    if percent >= 99.95:
        hidden = 100 - percent
        return "100 %" if hidden < 1e-10 else f"{math.floor(1e4 * percent) / 1e4:.7g} %"
    return f"{percent:.1f} %"
