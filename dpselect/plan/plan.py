"""`Plan`: which mechanism, at what noise, for this budget and this profile of the data; and a plan in words.

Every candidate is fitted to the budget and screened by a quick formula; what may come first is fitted to the last bit and judged
by its own draws. Nothing private is looked at, and a plan is deterministic: its draws have a fixed seed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, final

import numpy as np
import scipy
from pydantic import Field, ValidationError

from accounting import AccountingError, Budget, Curve
from accounting.arguments import WORDS
from accounting.curves import Composed
from accounting.frozen import Count, Positive, Probability, Real, kind_of
from accounting.risk import Risk
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import (
    AnyMechanism,
    DiscoverThenSelect,
    LimitedDomain,
    Mechanism,
    OneshotTopK,
    PerGroup,
    SparseHistogram,
    TopOfGroups,
    TwoRoundHistogram,
)
from dpselect.mechanisms.base import settings_of
from dpselect.plan.candidates import (
    FEW,
    GENEROUS,
    SEEN_TWICE,
    Choice,
    Family,
    GroupTable,
    clipped,
    families,
    family_of,
    in_cells,
    not_planned,
    with_counts,
)
from dpselect.plan.counts import COUNTS_AGAIN, CountNoise, interval, without_counts
from dpselect.plan.fit import EveryGroup, fitted, knob_of, mechanism_class, noise_settings, public_settings, resized
from dpselect.plan.profile import Bounding, Floats, Groups, Levels, Profile, Stated
from dpselect.plan.quality import Outcomes, deviation, judged
from dpselect.plan.request import TopKRequest
from dpselect.sensitivity import Norm, Sensitivity
from dpselect.spec.plan_spec import Charged, Criterion, Part, PlanSpec

Method = Literal["exact", "mean field", "clopper-pearson", "empirical-bernstein"]
Domain = Literal["public", "unknown"]
Progress = Callable[[int, int], None]

_MOST_RELEASES = 10**12
_COUNTS = (0.1, 0.2, 0.4, 0.6)  # shares of the budget tried for counts
_ROUGH = 0.01  # how far the quick formula is off as a rule
_GLANCED = 60  # draws by which settings that cost nothing are compared where there is no formula
_BEHIND, _BEHIND_ROUGHLY = 0.03, 0.08  # of recall by the formula: what is further behind is settled; where the noise is rough
_IN_FULL = 4  # at most this many are fitted and judged in full
_SAMPLES = 4  # of users
# What logs look like of which somebody states Zipf's law and its numbers. Counts to these powers: people guess an exponent of
# about 1, and the laws of logs have .5 to .8. Or a head that is flat for half a rank for each item of a user, and _SINGLE more:
# nobody touches every popular item. The mean of these promises .15 too much at most, on three public logs that set these numbers
# and on two others.
_POWERS, _HEAD, _SINGLE = (0.55, 0.65, 0.75), 0.5, 4.0
_MADE_UP = 0.15  # of recall: what is further behind on a made-up profile is settled
_GRACE = 0.02  # of recall in the worst case: this much of it may be given up for a better one on average
_CLOSE = 0.01  # recalls that differ by less are about as good, and the one that survives a wrong guess is the safer choice
_TRY = 1e-6  # a chance of failure, and a price, to construct an example with


# -- how good it is --------------------------------------------------------------------------------------------------------


@final
class Estimate(Stated):
    """An expected value and an interval around it.

    Args:
        value: the exact or the simulated mean.
        low, high: the interval; equal to `value` if the law is known exactly.
        level: the confidence of the interval, 1 if exact. It holds for any number of simulated runs, not just for many.
        method: how it was made: "exact", "mean field" (a quick formula; the interval is how far it is off as a rule),
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
    def roughly(cls, value: float) -> Self:
        """What a formula says, without an interval that would hold."""
        return cls(value=value, low=max(0.0, value - _ROUGH), high=min(1.0, value + _ROUGH), method="mean field")

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
        known = ("exact", "mean field")
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
            return Estimate.exactly(min(1.0, float(outcomes.weights @ values)))

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
        whole: whether the noise is the least that the budget admits and its own draws judged it. What is far behind by a quick
            formula may be priced a little too dearly; asked for by itself, it is worked out in full.
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
        inner = without_counts(self.mechanisms[0])
        return inner.again if isinstance(inner, DiscoverThenSelect) else None


@final
class Unsuited(Stated):
    """A mechanism that is not planned, and why."""

    name: str = Field(description="a kind, and perhaps a noise")
    reason: str = Field(description="why, in words")


@final
class Plan(Stated):
    """How to spend a budget on top-k releases; `dpselect.plan` makes one.

    Args:
        budget: what all releases together may cost.
        parts: the releases.
        domain, order, sensitivity, charged, max_items_per_user: as asked.
        stated: whether the sensitivity was asked for as such.
        counts: the share of the budget that noisy counts of the items get; None without them.
        groups: those that each release is for, by `PerGroup` or `TopOfGroups`; None for the log as a whole.
        profile: in words, what the data were taken to look like.
        items: how many items that profile has.
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
    profile: str = Field(description="words")
    items: Count = Field(description="an integer >= 1")
    rank_by: Criterion = Field(description="a criterion")
    rounds: Count = Field(description="an integer >= 2")
    seed: int = Field(description="an integer")
    level: Probability = Field(description="a confidence in (0, 1)")
    ranked: tuple[PlannedMechanism, ...] = Field(min_length=1, description="mechanisms, best first")
    unsuited: tuple[Unsuited, ...] = Field(default=(), description="mechanisms that are not planned")

    @property
    def releases(self) -> int:
        """How many there are in all."""
        return sum(part.releases for part in self.parts)

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

    def risk(self, planned: PlannedMechanism | None = None) -> Risk:
        """What an attacker gains from all releases together with this mechanism, by default the recommended one."""
        return Risk.of(self.curve(planned))

    def to_json(self) -> str:
        """The plan as JSON; `Plan.from_json` reads it back."""
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
            raise InvalidRequest("the text is not JSON: pass what Plan.to_json wrote") from None

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
        facts = [("budget", budget_in_words(self.budget)), ("releases", asked), ("items", self.domain), ("profile", self.profile)]
        return card("Plan", facts=facts, heads=["", "mechanism", "recall", "all right", "cost (nats)"], rows=rows)


# -- what is asked ---------------------------------------------------------------------------------------------------------


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
    profile: Profile
    domain: Domain
    order: bool
    sensitivity: Sensitivity
    charged: Charged
    limit: int | None = None
    stated: bool = False
    counts: float | None = None
    groups: Groups | None = None
    _seen: dict[tuple[int, Bounding], list[tuple[int, Levels]]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, spec: PlanSpec, profile: Profile, budget: Budget, sensitivity: Sensitivity | None = None) -> Self:
        """As a spec asks.

        Raises:
            InvalidRequest: what is asked contradicts the sensitivity, or cannot come out of the profile.
        """
        if sensitivity is not None and (spec.relation, spec.max_items_per_user) != ("add_remove", None):
            raise InvalidRequest(
                "sensitivity= states the relation and the items per user: leave relation= and max_items_per_user= out"
            )
        curve, limit, groups = profile.on_curve(), spec.max_items_per_user, None
        if spec.groups is not None:
            more = {"per_user": spec.groups_per_user, "exponent": spec.group_exponent}
            stated = {name: value for name, value in more.items() if value is not None}
            # Nobody is in more groups than there are: a looser bound would be paid for, and fitted, for nothing.
            bound = spec.max_groups_per_user and min(spec.max_groups_per_user, spec.groups)
            groups = Groups(count=spec.groups, max_groups_per_user=bound, **stated)
        task = cls(
            budget=budget,
            parts=spec.schedule or (Part(releases=spec.releases or 1, k=most(curve, spec) if spec.k == "all" else spec.k),),
            profile=curve,
            domain="unknown" if spec.unknown_domain else "public",
            order=bool(spec.order),
            # Under replace_one a user takes up to so many items away and adds as many.
            sensitivity=sensitivity or Sensitivity.of_counts(spec.relation, limit),
            # By default separately where there is a ledger, since `topk` charges it release by release.
            charged=spec.charged or ("together" if spec.ledger is None else "separately"),
            limit=limit,
            stated=sensitivity is not None,
            counts=_COUNTS[0] if spec.with_counts else None,
            groups=groups,
        )
        task = replace(task, counts=COUNTS_AGAIN) if task.recounted else task
        if task.releases > _MOST_RELEASES:
            raise InvalidRequest(f"releases={task.releases} is more than {_MOST_RELEASES:,} in all: plan for fewer")
        for part in task.parts:
            if not task.has(part.k):
                what = ("items" if task.known else "items with any users") + (" for all groups" if groups else "")
                raise InvalidRequest(
                    f"k={part.k} items cannot come out of a profile with {most(curve, spec)} {what}: ask for fewer"
                )
        return task

    @classmethod
    def again(cls, plan: Plan, profile: Profile) -> Self:
        """As a plan was asked."""
        shared = {one.name: getattr(plan, one.name) for one in fields(cls) if one.init and hasattr(plan, one.name)}
        return cls(**{**shared, "profile": profile, "limit": plan.max_items_per_user})

    @property
    def known(self) -> bool:
        """Whether the domain is public."""
        return self.domain == "public"

    @property
    def releases(self) -> int:
        """How many releases there are in all."""
        return sum(part.releases for part in self.parts)

    @property
    def recounted(self) -> bool:
        """Whether counts come from a second look at users, as `topk` takes it: not in groups, nor of scores of another kind."""
        return self.counts is not None and self.groups is None and not self.stated

    @cached_property
    def every(self) -> EveryGroup | None:
        """The groups, where each gets a selection; None for the log as a whole, or where users are in any number of them."""
        if self.groups is None or self.groups.max_groups_per_user is None:
            return None
        return EveryGroup(self.groups.max_groups_per_user, self.sensitivity.relation, self.sensitivity.uniform)

    def request(self, sensitivity: Sensitivity | None = None, noise: Any = None) -> TopKRequest:
        """All releases, for mechanisms that cover this sensitivity."""
        schedule = tuple((part.releases, part.k) for part in self.parts)
        return TopKRequest(
            k=max(part.k for part in self.parts),
            sensitivity=sensitivity or self.sensitivity,
            candidates=self.profile.size if self.known else None,
            noise=noise,
            releases=self.releases,
            counts=self.counts,
            recounted=self.recounted,
            together=self.charged == "together",
            schedule=schedule if len(schedule) > 1 else (),
        )

    @cached_property
    def profiles(self) -> list[tuple[int, Profile]]:
        """How many groups look how; one like the whole without groups."""
        if self.groups is None:
            return [(1, self.profile)]
        return [(count, self.profile.in_group(share)) for count, share in self.groups.sizes()]

    def has(self, k: int) -> bool:
        """Whether k items can come out, of the largest group at least."""
        return any(k <= self._items(profile) for _, profile in self.profiles)

    def _items(self, profile: Profile) -> int:
        return profile.size if self.known else profile.touched

    def cells(self, *, roughly: bool) -> Iterator[Choice]:
        """Ways to release all groups as one table, under one norm of a user, as `topk` considers them."""
        if self.groups is not None and self.limit is None and not self.stated and len(self.parts) == 1:
            yield from in_cells(self.budget, self.request(), self._table, roughly=roughly)

    @cached_property
    def _table(self) -> GroupTable:
        assert self.groups is not None
        return GroupTable(self.groups.per_user, self.groups.count)

    def in_a_group(self, choice: Choice, run: Mechanism, k: int) -> tuple[Mechanism, Bounding]:
        """What selects k items of one group, and what is done to its users, the groups that they are kept in included."""
        kept = 1.0 if self.groups is None or choice.cells else self.groups.kept
        one = self._table.in_one_group(choice, k) if choice.cells else replace(choice, mechanism=run)
        return one.mechanism, Bounding(one.max_items_per_user, one.clip, one.norm, kept)

    def rankings(self, k: int, bounding: Bounding) -> list[tuple[int, Levels]]:
        """The rankings that a release of k sees once contributions are bounded, and how many groups have each.

        Groups with fewer than k items are left out. Kept: it is asked for many times.
        """
        if (k, bounding) not in self._seen:
            self._seen[k, bounding] = [
                (count, profile.levels(k, bounding, known=self.known))
                for count, profile in self.profiles
                if k <= self._items(profile)
            ]
        return self._seen[k, bounding]

    def charged_for(self, mechanisms: Sequence[Mechanism]) -> Curve:
        """What all releases cost together."""
        pairs = zip(self.parts, map(self.around, mechanisms), strict=True)
        return Composed.of([(part.releases, one.curve) for part, one in pairs])

    def around(self, mechanism: Mechanism) -> Mechanism:
        """What is drawn: for every group."""
        return mechanism if self.every is None or isinstance(mechanism, TopOfGroups) else self.every.around(mechanism)

    def finished(self, mechanism: Mechanism, k: int) -> Mechanism:
        """The mechanism as it is released: with its counts, where they come from a second look, and for every group."""
        if self.recounted:
            counted = replace(CountNoise.of(self.request(), self.budget), k=k)
            return with_counts(without_counts(mechanism), counted, self.profile, self.request().model_copy(update={"k": k}))
        return self.around(mechanism)


def most(curve: Profile, spec: PlanSpec) -> int:
    """How many items can come out, where the data look like this."""
    return curve.touched if spec.unknown_domain else curve.size


@final
@dataclass(frozen=True)
class _Look:
    """One way to use a mechanism, and the recall that a quick look at it shows.

    Attributes:
        family, settings: what made it, and makes it again.
        mechanisms: of one group, one for every part.
        exact: whether the noise is the least that the budget admits.
    """

    name: str
    family: Family
    choice: Choice
    mechanisms: tuple[Mechanism, ...]
    recall: float
    exact: bool
    settings: Mapping[str, Any]


@final
@dataclass(frozen=True)
class Judge:
    """How qualities are found and compared; the fields are those of `PlanSpec`."""

    rounds: int
    seed: int
    level: float
    rank_by: Criterion

    @classmethod
    def of(cls, spec: PlanSpec) -> Self:
        """As a spec asks."""
        return cls(spec.rounds or 1000, spec.seed or 0, spec.level or 0.95, spec.rank_by or "recall")

    def compared(
        self, considered: Sequence[Family], task: Task, progress: Progress | None = None, names: Sequence[str] | None = None
    ) -> tuple[list[PlannedMechanism], list[Unsuited]]:
        """The mechanisms that can do the task, best first, one entry for each name, and why others cannot.

        `names`: those that are wanted, each judged in full; None for all.
        """
        tell = progress or (lambda _done, _total: None)
        looks: dict[str, list[_Look]] = {}
        reasons: dict[str, str] = {}
        for done, family in enumerate(considered):
            tell(done, 2 * len(considered))
            for look in self._looks(family, task, reasons, names):
                looks.setdefault(look.name, []).append(look)
        ranked = sorted((self._best(several, task) for several in looks.values()), key=lambda look: -look.recall)
        planned = []
        for done, look in enumerate(ranked):
            tell(len(considered) + done * len(considered) // len(ranked), 2 * len(considered))
            behind = ranked[0].recall - look.recall > (_BEHIND if look.exact else _BEHIND_ROUGHLY)
            settled = names is None and self.rank_by == "recall" and (behind or done >= _IN_FULL)
            planned.append(self._reported(look, task, full=not settled))
        tell(2 * len(considered), 2 * len(considered))
        for look in ranked:
            reasons.pop(look.name, None)
        return sorted(planned, key=lambda one: self.worth(one.quality), reverse=True), _merged(reasons, set(looks))

    def _best(self, looks: Sequence[_Look], task: Task) -> _Look:
        """Of the ways under one name. What looks at users twice may be best on a smooth curve and find little on a flatter one:
        on a made-up profile those that are close are compared over all that fit.
        """
        best = max(looks, key=lambda look: look.recall)
        close = [look for look in looks if look.recall >= best.recall - _MADE_UP]
        if best.family.member not in SEEN_TWICE or task.profile.law != "curve" or self.rank_by != "recall" or len(close) == 1:
            return best
        fitting = _fitting(task, possible(task.profile, self.seed))
        return max(close, key=lambda look: sum(self._expected(look.mechanisms, look.choice, other) for other in fitting))

    def _looks(self, family: Family, task: Task, reasons: dict[str, str], names: Sequence[str] | None) -> Iterator[_Look]:
        """Every way to use a family; why it cannot be used goes into `reasons`."""
        for settings in family.tried():
            noise = settings.get("noise")
            name = family.kind if noise is None else f"{family.kind}, {noise}"
            reason = unsuited(family, settings, task)
            if reason is not None:
                reasons.setdefault(name, reason)
                continue
            if names is not None and {name, f"top_of_groups, {family.kind}"}.isdisjoint(names):
                continue
            found = False
            for choice, exact in _choices(family, settings, task):
                found = True
                called = f"top_of_groups, {family.kind}" if choice.cells else name
                if names is None or called in names:
                    yield self._looked(called, family, choice, settings, task, exact=exact)
            if not found and task.groups is not None and task.every is None:
                reasons.setdefault(name, "needs max_groups_per_user=: a selection in each group is paid for that many times")
            elif not found:
                reasons.setdefault(name, "no amount of noise brings it within the budget")

    def _looked(
        self, name: str, made_by: Family, choice: Choice, settings: Mapping[str, Any], task: Task, *, exact: bool
    ) -> _Look:
        """With the settings that cost nothing, chosen for every part by the quick formula."""
        best, total = [], 0.0
        for part in task.parts:
            one, bounding = task.in_a_group(choice, resized(choice.mechanism, part.k), part.k)
            rankings = task.rankings(part.k, bounding)
            middle = rankings[len(rankings) // 2][1]
            family = family_of(choice.mechanism)
            tried = [(self._forecast(family, run, rankings), run) for run in _variants(family, one, middle)]
            recall, run = max(tried, key=lambda pair: pair[0])
            best.append(TopOfGroups(k=part.k, mechanism=choice.mechanism) if choice.cells else run)
            total += part.releases * recall
        return _Look(name, made_by, choice, tuple(best), total / task.releases, exact, settings)

    def _forecast(self, family: Family, run: Mechanism, rankings: Sequence[tuple[int, Levels]]) -> float:
        """The recall, on average over groups."""
        one = without_counts(run)
        found = [(n, family.forecast(one, levels, seed=self.seed, runs=_GLANCED)) for n, levels in rankings]
        return sum(n * recall for n, recall in found) / sum(n for n, _ in found)

    def _reported(self, look: _Look, task: Task, *, full: bool) -> PlannedMechanism:
        """Judged by its own draws, if it may come first; with the least noise that the budget admits."""
        choice = look.choice
        if full and not look.exact:
            again = [one for one, _ in _choices(look.family, look.settings, task, exactly=True) if _alike(one, choice)]
            look = self._looked(look.name, look.family, again[0], look.settings, task, exact=True) if again else look
        by_part = list[Quality]()
        for run, part in zip(look.mechanisms, task.parts, strict=True):
            one, bounding = task.in_a_group(choice, run, part.k)
            by_part.append(self._judged(one, task, part, bounding) if full else _settled(look, task, part, bounding))
        return PlannedMechanism(
            name=look.name,
            ordered=all(run.ordered for run in look.mechanisms),
            mechanisms=look.mechanisms,
            quality=Quality.average((part.releases, found) for part, found in zip(task.parts, by_part, strict=True)),
            by_part=tuple(by_part),
            cost=min(task.budget.cost(task.charged_for(look.mechanisms), thorough=full), task.budget.limit),  # which admits it
            whole=full,
            max_items_per_user=choice.max_items_per_user,
            clip=choice.clip,
            norm=choice.norm,
        )

    def _judged(self, run: Mechanism, task: Task, part: Part, bounding: Bounding) -> Quality:
        """The quality that is reported: on average over the groups, all intervals together with the stated confidence."""
        rankings = task.rankings(part.k, bounding)
        level = 1 - (1 - self.level) / len(rankings)
        return Quality.average(
            (count, Quality.of(judged(run, levels, runs=self.rounds, seed=self.seed + place), levels, level))
            for place, (count, levels) in enumerate(rankings)
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

    def recall(self, one: PlannedMechanism, task: Task) -> float:
        """Of one release on another profile, by the quick formula, on average over the parts of the schedule."""
        return self._expected(one.mechanisms, one, task)

    def _expected(self, mechanisms: Sequence[Mechanism], bounded: Choice | PlannedMechanism, task: Task) -> float:
        total = 0.0
        for run, part in zip(mechanisms, task.parts, strict=True):
            cells = isinstance(run, TopOfGroups)
            choice = Choice(without_counts(run), bounded.max_items_per_user, bounded.clip, bounded.norm, cells=cells)
            selecting, bounding = task.in_a_group(choice, run, part.k)
            total += part.releases * self._forecast(family_of(run), selecting, task.rankings(part.k, bounding))
        return total / task.releases


def _variants(family: Family, one: Mechanism, levels: Levels) -> Iterator[Mechanism]:
    """Settings that cost nothing, of what selects; its counts stay beside it."""
    inner = without_counts(one)
    for other in family.varied(inner, levels):
        yield other if one is inner else type(one).model_validate({**settings_of(one), "mechanism": other})


def _alike(one: Choice, other: Choice) -> bool:
    """Whether two choices differ in their noise alone."""
    same = [(c.cells, c.max_items_per_user, c.clip, c.norm, c.again, type(without_counts(c.mechanism))) for c in (one, other)]
    shares = [without_counts(c.mechanism) for c in (one, other)]
    if isinstance(shares[0], DiscoverThenSelect) and isinstance(shares[1], DiscoverThenSelect):
        ratios = [find.scale / select.scale for find, select in ((s.discovery, s.selection) for s in shares)]  # type: ignore[attr-defined]
        return same[0] == same[1] and math.isclose(*ratios, rel_tol=1e-3)
    if isinstance(shares[0], TwoRoundHistogram) and isinstance(shares[1], TwoRoundHistogram):
        rounds = [(s.share, s.mask, s.combine, s.norm, s.taper) for s in shares]  # type: ignore[attr-defined]
        return same[0] == same[1] and rounds[0] == rounds[1]
    return same[0] == same[1]


def _settled(look: _Look, task: Task, part: Part, bounding: Bounding) -> Quality:
    """What the quick formula says of a mechanism that is clearly behind."""
    levels = task.rankings(part.k, bounding)[0][1]
    recall, worst = Estimate.roughly(look.recall), Estimate(value=0.0, low=0.0, high=1.0, method="mean field")
    return Quality(
        recall=recall,
        exact_set=worst,
        score_loss=recall.complement().scaled(levels.best),
        relative_loss=recall.complement(),
        released=Estimate.roughly(1.0).scaled(levels.k),
        in_place=worst if task.order else None,
    )


def _choices(family: Family, settings: Mapping[str, Any], task: Task, *, exactly: bool = False) -> Iterator[tuple[Choice, bool]]:
    """The ways to fit a family to the budget, and whether each has the least noise that the budget admits."""
    slow = task.charged == "together" and task.budget.form == "approximate" and task.releases > 1 and not exactly
    loads, twice = None if task.stated else task.profile.loads, family.member in SEEN_TWICE
    member: type[Mechanism] = family.member
    if twice:  # at the price of one noisy vector
        member = OneshotTopK if family.member is TwoRoundHistogram and task.known else SparseHistogram
    noise: Any = "gaussian" if twice else settings.get("noise")
    alone = noise in member.traits.clips and member.traits.domain == "unknown" and task.limit is None and loads is not None
    bound = GENEROUS if alone else task.limit
    seen = task.sensitivity if task.stated else Sensitivity.of_counts(task.sensitivity.relation, bound)
    more = {name: value for name, value in settings.items() if name != "noise"}
    if noise == "gaussian" and loads is not None:
        yield from ((one, not slow) for one in task.cells(roughly=slow) if type(one.mechanism) is family.member)
    if task.groups is not None and (task.every is None or twice):
        return
    spend: Any = {"every": task.every, "roughly": slow}
    if not twice:
        with suppress(AccountingError):
            asked = task.request(seen, noise if "noise" in member.model_fields else None)
            yield Choice(fitted(family.kind, task.budget, asked, settings=more, **spend), bound), not slow
    if noise is None or noise not in member.traits.clips or loads is None or (task.counts is not None and not task.recounted):
        return
    limits: Any = {"limit": task.limit, "most": bound if member.traits.domain == "unknown" else task.limit}
    limits["longest"] = float(loads.sizes[-1])
    made = clipped(member, noise, member.traits.clips[noise], task.budget, task.request(), **limits, **spend)
    yield from ((one, not slow) for one in made if type(without_counts(one.mechanism)) is family.member)


def unsuited(family: Family, settings: Mapping[str, Any], task: Task) -> str | None:
    """Why a family cannot do what the task asks, whatever its noise; None if it may."""
    traits = family.member.traits
    if traits.answers == "one_item" and any(part.k > 1 for part in task.parts):
        return "releases one item: it is for k=1"
    if not task.known and traits.domain == "public":
        return "needs a public domain: it would show items that are read off private data"
    if task.order and traits.ordered is False:
        return "does not release the order"
    if family.member in SEEN_TWICE:
        loads = None if task.stated else task.profile.loads
        if task.groups is not None and family.member is not TwoRoundHistogram:
            return "looks at users twice, which is not done for groups"
        if loads is None or loads.sizes[-1] <= FEW:
            return "looks at users twice: the profile has to say how many items they have, more than two"
        return "may fail, so the budget needs a delta: the chance of that" if task.budget.delta == 0 else None
    if traits.failure is not None and task.budget.delta == 0:
        return "may fail, so the budget needs a delta: the chance of that"
    try:
        # Why the proof does not cover the relation or the sensitivity.
        example = _example(family, settings, task)
        if example.relation != task.sensitivity.relation:
            return f"has no guarantee under relation={task.sensitivity.relation!r}, only under {example.relation!r}"
        if not (task.known or example.takes_observed):
            return "needs a public domain as it is configured"
        return "does not release the order" if task.order and not example.ordered else None
    except AccountingError as error:
        return f"is not proved for this: {error}"


def _example(family: Family, settings: Mapping[str, Any], task: Task) -> Mechanism:
    traits, k = family.member.traits, task.parts[0].k
    loads = None if task.stated else task.profile.loads
    limit = GENEROUS if settings.get("noise") in traits.clips and task.limit is None and loads is not None else task.limit
    seen = task.sensitivity if task.stated else Sensitivity.of_counts(task.sensitivity.relation, limit)
    given = {**public_settings(k, task.profile.size if task.known else None, seen), **traits.usual(k), **settings}
    given[knob_of(family.member).field] = 1.0
    if traits.failure is not None:
        given[traits.failure] = _TRY
    names = family.member.model_fields
    example = family.member.model_validate({name: value for name, value in given.items() if name in names and value is not None})
    task.around(example).covers.require(seen)
    return example


def _merged(reasons: Mapping[str, str], suited: set[str]) -> list[Unsuited]:
    """One entry for a kind all of whose noises have the same reason; not if one of its noises is suited."""
    kinds, merged = {name.partition(",")[0] for name in suited}, dict[str, str]()
    for kind in dict.fromkeys(name.partition(",")[0] for name in reasons):
        named = {name: why for name, why in reasons.items() if name.partition(",")[0] == kind}
        alike = kind not in kinds and len(named) > 1 and len(set(named.values())) == 1
        merged |= {kind: next(iter(named.values()))} if alike else named
    return [Unsuited(name=name, reason=reason) for name, reason in merged.items() if name not in suited]


# -- where the profile is wrong --------------------------------------------------------------------------------------------


def possible(profile: Profile, seed: int) -> Iterator[Profile]:
    """Profiles that fit the numbers of a made-up one: uneven, with a flatter head or a smaller exponent, as logs have."""
    width = _SINGLE + (1.0 if profile.loads is None else profile.loads.mean)
    others = [*(profile.tempered(power) for power in _POWERS), profile.flattened(_HEAD * width)]
    for place, other in enumerate(others):
        yield other.uneven(np.random.default_rng([seed, 4, place]))


def _by_worst_case(planned: Sequence[PlannedMechanism], task: Task, judge: Judge) -> list[PlannedMechanism]:
    """The mechanisms; where they are ranked by recall, those within .01 of the best come first, by the worst recall around.

    A made-up profile is a smooth curve, and the recall on it is no forecast: mechanisms are judged over the profiles that fit.
    """
    if judge.rank_by != "recall" or not planned:
        return list(planned)
    made_up = task.profile.law == "curve"
    bar = max(one.quality.recall.value for one in planned) - (_MADE_UP if made_up else _CLOSE)
    close = [one for one in planned if one.quality.recall.value >= bar]
    rest, profile = [one for one in planned if one.quality.recall.value < bar], task.profile
    around = _fitting(task, (profile.tilted(0.2), profile.tilted(-0.2), profile.thinned(0.5), profile.heavier(2.0)))
    if made_up:
        fitting = _fitting(task, possible(profile, judge.seed))
        found = [_ranged(one, fitting, around, judge) for one in close]
        # The best on average over what fits, unless it gives up more than .02 of the worst case.
        # All to a thousandth, as tables show it: no row is better in every column than one above it.
        worst = {one.name: round(one.worst_recall or 0.0, 3) for one in found}
        floor = max(worst.values()) - _GRACE
        mean = {one.name: round(one.fresh_recall or 0.0, 3) for one in found}
        found.sort(key=lambda one: (worst[one.name] < floor, -mean[one.name], not one.ordered, -worst[one.name]))
        return [*found, *rest]
    seeds = () if task.groups is not None else range(_SAMPLES)  # a sample of each group is another thing
    samples = _fitting(task, (profile.varied(np.random.default_rng([judge.seed, 2, seed])) for seed in seeds))
    found = [_tested(one, samples, around, judge) for one in close]
    # Equals to a thousandth: the one that tells the order as well; then, as sorting is stable, in the profile's order.
    found.sort(key=lambda one: (-round(one.worst_recall or 0.0, 3), not one.ordered))
    return [*found, *rest]


def _fitting(task: Task, profiles: Iterable[Profile]) -> list[Task]:
    """The task on each of these profiles, of those that have enough items."""
    tasks = (replace(task, profile=profile) for profile in profiles)
    return [one for one in tasks if all(one.has(part.k) for part in one.parts)]


def _tested(one: PlannedMechanism, samples: Sequence[Task], around: Sequence[Task], judge: Judge) -> PlannedMechanism:
    fresh = [judge.recall(one, task) for task in samples]
    other = [judge.recall(one, task) for task in around] + ([float(np.mean(fresh))] if fresh else [])
    worst = min([one.quality.recall.value, *other])
    return one.model_copy(update={"worst_recall": worst, "fresh_recall": float(np.mean(fresh)) if fresh else None})


def _ranged(one: PlannedMechanism, fitting: Sequence[Task], around: Sequence[Task], judge: Judge) -> PlannedMechanism:
    """With the range of recalls over the profiles that fit, and the worst over all around."""
    fresh = [judge.recall(one, task) for task in fitting] or [one.quality.recall.value]
    other = [judge.recall(one, task) for task in around]
    middle = float(np.mean(fresh))
    return one.model_copy(
        update={"worst_recall": min([*fresh, *other]), "fresh_recall": middle, "forecast": (min(fresh), max(fresh))}
    )


# -- the plan --------------------------------------------------------------------------------------------------------------


def plan_releases(
    spec: PlanSpec,
    profile: Profile,
    *,
    budget: Budget | None = None,
    sensitivity: Sensitivity | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Every mechanism that applies, with the noise that spends the whole budget on all releases, ranked by expected quality.

    Among mechanisms whose recall is within .01 of the best, the one that keeps most of it on data that vary around the profile
    comes first. With groups what is found is the mean over them; the profile is that of the whole log, and bounds and clips hold
    within each group.

    Counts come from a second look at the users of the released items, as `dpselect.topk` takes it: a tenth of the budget, and the
    clip that suits the users of the profile. In groups, and with a stated `sensitivity`, counts are the scores that chose: they
    get the largest share, of .1, .2, .4 and .6, that costs the best selection .01 of recall at most, and mechanisms whose own
    noisy scores are free release those.

    Args:
        spec: what is asked.
        profile: what the data look like.
        budget: what all releases together may cost, where the spec does not say all of it: an order, for example.
        sensitivity: what one user may change, in place of the spec's relation and items per user.
        progress: called with (done, of how many) as mechanisms are finished.

    Raises:
        InvalidRequest: k items cannot come out of the profile, or no mechanism applies, and why.
    """
    task = Task.of(spec, profile, budget or spec.budget, sensitivity)
    considered, judge = _considered(spec.mechanisms), Judge.of(spec)
    planned, others, task = _shared(considered, task, judge, progress)
    if not planned:
        reasons = "; ".join(f"{other.name}: {other.reason}" for other in others)
        raise InvalidRequest(f"no mechanism can do this. {reasons}. Ask for less, or consider more mechanisms (mechanisms=)")
    return Plan(
        budget=task.budget,
        parts=task.parts,
        domain=task.domain,
        order=task.order,
        sensitivity=task.sensitivity,
        charged=task.charged,
        max_items_per_user=task.limit,
        stated=task.stated,
        counts=task.counts,
        groups=task.groups,
        profile=profile.in_words(),
        items=task.profile.size,
        rank_by=judge.rank_by,
        rounds=judge.rounds,
        seed=judge.seed,
        level=judge.level,
        ranked=tuple(
            one.model_copy(
                update={
                    "mechanisms": tuple(task.finished(run, part.k) for run, part in zip(one.mechanisms, task.parts, strict=True))
                }
            )
            for one in _by_worst_case(planned, task, judge)
        ),
        unsuited=(*others, *(Unsuited(name=name, reason=why) for name, why in not_planned().items())),
    )


def _shared(
    considered: Sequence[Family], task: Task, judge: Judge, progress: Progress | None
) -> tuple[list[PlannedMechanism], list[Unsuited], Task]:
    """The comparison at the largest share for counts that hardly costs the best selection anything, and that task."""
    planned, others = judge.compared(considered, task, progress)
    best = next(iter(planned), None)
    if task.counts is None or task.recounted or best is None or best.mechanisms[0].releases_values:
        return planned, others, task
    more = task
    for share in _COUNTS[1:]:
        again, _ = judge.compared(considered, replace(task, counts=share), names=[best.name])
        if not again or again[0].quality.recall.value < best.quality.recall.value - _CLOSE:
            break
        more = replace(task, counts=share)
    return (planned, others, task) if more is task else (*judge.compared(considered, more, progress), more)


def _considered(kinds: Sequence[str] | None) -> list[Family]:
    if kinds is None:
        return list(families())
    named = [kinds] if isinstance(kinds, str) or not isinstance(kinds, Iterable) else list(kinds)
    if not named or not all(isinstance(kind, str) for kind in named):
        raise InvalidRequest("mechanisms must name one or more kinds, ['oneshot_top_k'] for example; leave it out to try all")
    asked = {kind_of(mechanism_class(kind)) for kind in named}
    for kind in asked & not_planned().keys():
        raise InvalidRequest(f"{kind} cannot be planned: it {not_planned()[kind]}")
    return [family for family in families() if family.kind in asked]


# -- in words --------------------------------------------------------------------------------------------------------------


def releases_in_words(plan: Plan) -> str:
    """What is released, how often."""
    parts = [f"{part.releases:,} release{'s' if part.releases > 1 else ''} of the top {part.k:,}" for part in plan.parts]
    every = "" if plan.groups is None else f", of each of {plan.groups.count:,} groups"
    return " and ".join(parts) + every


def budget_in_words(budget: Budget) -> str:
    """The stated budget."""
    return f"{unit(budget)} {budget.limit:g}" + (f", delta {budget.delta:g}" if budget.delta else "")


def unit(budget: Budget) -> str:
    """What its limit is of."""
    return "rho" if budget.rho is not None else "epsilon"


def question_in_words(plan: Plan) -> Iterator[tuple[str, str]]:
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
        most = groups.max_groups_per_user
        kept = "in any number" if most is None else f"kept in {most:,}: {share(groups.kept)} of the pairs"
        yield "groups", f"{sizes}; a user is in {groups.per_user:g}, {kept}"
    yield "profile", plan.profile


def _mechanism_in_words(planned: PlannedMechanism, part: int = 0) -> str:
    """The class, its noise and how contributions are bounded for it."""
    run = without_counts(planned.mechanisms[part])
    noise = getattr(run, "noise", None)
    bounding = Bounding(planned.max_items_per_user, planned.clip, planned.norm).words()
    every = "in every group " if isinstance(planned.mechanisms[part], PerGroup) else ""
    every = "over all groups " if isinstance(planned.mechanisms[part], TopOfGroups) else every
    words = f"{every}{type(run).__name__} with {f'{noise} noise of ' if isinstance(noise, str) else ''}{noise_in_words(run)}"
    words += f", {run.candidates:,} items for the second" if isinstance(run, DiscoverThenSelect) else ""
    return words + (f"; {bounding}" if bounding else "") + (f", then {planned.again:.4g}" if planned.again is not None else "")


def noise_in_words(mechanism: Mechanism) -> str:
    """The field that sets the noise and its value; of a mechanism in two steps, those of both."""
    if isinstance(mechanism, DiscoverThenSelect):
        return f"{noise_in_words(mechanism.discovery)}, then {noise_in_words(mechanism.selection)}"
    knob, value = noise_settings(without_counts(mechanism))
    return f"{knob} {value:.4g}"


def recommendation_in_words(plan: Plan, planned: PlannedMechanism) -> Iterator[tuple[str, str]]:
    """The answer in a few lines, as names and values: what to use, what to expect, what it costs, and why not the next best."""
    for place, part in enumerate(plan.parts):
        size = f" {part.k}" if len(plan.parts) > 1 else ""
        yield f"use{size}", _mechanism_in_words(planned, place)
    recall, right = planned.quality.recall, share(planned.quality.exact_set.value)
    if planned.forecast is not None:
        low, high = planned.forecast
        found = f"{share(planned.expected)} of the true items in each release"
        yield "expect", f"{found}; {share(low)} to {share(high)} on profiles that fit what is stated"
    else:
        interval_of = f" ({100 * recall.level:g} % of simulations: {share(recall.low)} to {share(recall.high)})"
        error = "" if recall.method == "exact" else interval_of
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
    at = f" at delta {plan.budget.delta:g}" if plan.budget.delta else ""
    yield "cost", f"{unit(plan.budget)} {planned.cost:.4g} of {plan.budget.limit:g}{at} for {releases_in_words(plan)}"
    yield "risk", plan.risk(planned).in_words(plan.sensitivity.relation)
    if planned.worst_recall is None:
        yield "if wrong", "the guarantee stands; how the recall changes with the profile was not looked at (--curves)"
    else:
        around_it = "steeper, flatter, half the users, twice the items each"
        yield "if wrong", f"at least {share(planned.worst_recall)} on profiles around this one: {around_it}"
    yield "instead", next((why_not(planned, one) for one in plan.ranked if one != planned), "nothing else applies")


def why_not(best: PlannedMechanism, other: PlannedMechanism) -> str:
    """What another mechanism finds, and why it comes after the best."""
    lost, about = best.expected - other.expected, f"{other.name} {share(other.expected)}"
    if lost < _CLOSE:
        worst = [one.worst_recall for one in (best, other)]
        if best.ordered and not other.ordered:
            return f"{about}, as much, but it does not tell the order"
        if None not in worst and worst[0] > worst[1] + _CLOSE:  # type: ignore[operator]
            return f"{about}, as much, but {share(worst[1] or 0.0)} where the profile is wrong"
        return f"{about}, about as much"
    ours, theirs = (_blur(one) for one in (best, other))
    if theirs.bar and not ours.bar:
        return f"{about}: it shows items of more than {amount(theirs.bar)} users only, to hide what one user alone brings in"
    if theirs.bar and ours.bar and theirs.bar > 1.02 * ours.bar:
        return f"{about}: it shows items of more than {amount(theirs.bar)} users only, not of {amount(ours.bar)}"
    if theirs.noise and ours.noise and theirs.noise > 1.02 * ours.noise:
        return f"{about}: its noise is {amount(theirs.noise)} users on a count, not {amount(ours.noise)}"
    if other.quality.released.value < 0.98 * best.quality.released.value:
        return f"{about}: it releases {amount(other.quality.released.value)} items, not {amount(best.quality.released.value)}"
    if theirs.noise and ours.noise and other.clip != best.clip:
        return f"{about}: clipping takes more from its counts than noise does"
    return f"{about}: it is less likely to find them with what the budget buys"


class _Blur(NamedTuple):
    """Noise on one count, its standard deviation, and the score that an item needs; users, None where there is no such number."""

    noise: float | None
    bar: float | None


def _blur(planned: PlannedMechanism) -> _Blur:
    run: Any = without_counts(planned.mechanisms[0])
    if isinstance(run, LimitedDomain):
        return _Blur(deviation("gumbel") / run.epsilon, run.margin)
    step = run.discovery if isinstance(run, DiscoverThenSelect) else run
    noise, scale = getattr(step, "noise", None), getattr(step, "scale", None)
    return _Blur(None if noise is None or scale is None else scale * deviation(noise), getattr(step, "threshold", None))


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
