"""`TopKPlan`: which mechanism, at what noise, for this budget and this profile of the data.

Every candidate is fitted to the budget and screened by a quick formula; what may come first is fitted to the last bit and judged
by its own draws. Nothing private is looked at, and a plan is deterministic: its draws have a fixed seed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, final

import numpy as np
from pydantic import Field, ValidationError

from accounting import AccountingError, Budget, Curve
from accounting.arguments import WORDS
from accounting.curves import Composed
from accounting.frozen import Count, Positive, Probability, Real, kind_of
from accounting.risk import Risk
from accounting.wording import format_number
from dpselect.cells import ANY_GROUPS
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
from dpselect.plan.candidates import SEEN_TWICE, Family, clipped, families, family_of, in_cells, in_one, not_planned
from dpselect.plan.counts import COUNTS_AGAIN, CountNoise, interval, without_counts
from dpselect.plan.default import FEW, GENEROUS, Choice, Grouping
from dpselect.plan.fit import EveryGroup, fitted, knob_of, mechanism_class, noise_settings, public_settings, resized
from dpselect.plan.plan import Plan, Section, amount, share
from dpselect.plan.profile import Bounding, Groups, Levels, Profile, Stated
from dpselect.plan.quality import Quality, deviation, judged
from dpselect.plan.request import TopKRequest
from dpselect.sensitivity import Norm, Sensitivity
from dpselect.spec.plan_spec import Charged, Part, PlanSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Domain = Literal["public", "unknown"]
Progress = Callable[[int, int], None]

_MOST_RELEASES = 10**12
_COUNTS = (0.1, 0.2, 0.4, 0.6)  # shares of the budget tried for counts
_GLANCED = 60  # draws by which settings that cost nothing are compared where there is no formula
_BEHIND, _BEHIND_ROUGHLY = 0.03, 0.08  # of recall by the formula: what is further behind is settled; where the noise is rough
_IN_FULL = 4  # at most this many are fitted and judged in full
_SAMPLES = 4  # of users
_LEVEL = 0.95  # confidence of the intervals
# What logs look like of which somebody states Zipf's law and its numbers. Counts to these powers: people guess an exponent of
# about 1, and the laws of logs have .5 to .8. Or a head that is flat for half a rank for each item of a user, and _SINGLE more:
# nobody touches every popular item. The mean of these promises .15 too much at most, on three public logs that set these numbers
# and on two others.
_POWERS, _HEAD, _SINGLE = (0.55, 0.65, 0.75), 0.5, 4.0
_MADE_UP = 0.15  # of recall: what is further behind on a made-up profile is settled
_GRACE = 0.02  # of recall in the worst case: this much of it may be given up for a better one on average
_CLOSE = 0.01  # recalls that differ by less are about as good, and the one that survives a wrong guess is the safer choice
_TRY = 1e-6  # a chance of failure, and a price, to construct an example with


# -- what is found ---------------------------------------------------------------------------------------------------------


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
        return without_counts(self.mechanisms[0]).selected_again

    def in_words(self, part: int = 0) -> str:
        """The class, its noise and how contributions are bounded for it."""
        whole = self.mechanisms[part]
        run: Any = without_counts(whole)
        every = {PerGroup: "in every group ", TopOfGroups: "over all groups "}.get(type(whole), "")
        noise = f"{run.noise} noise of " if isinstance(getattr(run, "noise", None), str) else ""
        words = f"{every}{type(run).__name__} with {noise}{_noise_in_words(run)}"
        words += f", {run.candidates:,} items for the second" if isinstance(run, DiscoverThenSelect) else ""
        bounding = Bounding(self.max_items_per_user, self.clip, self.norm).words()
        words += f"; {bounding}" if bounding else ""
        return words + ("" if self.again is None else f", then {self.again:.4g}")

    @property
    def blur(self) -> tuple[float, float]:
        """The standard deviation of the noise on one count, and the score that an item needs, users; 0 where there is none."""
        run: Any = without_counts(self.mechanisms[0])
        if isinstance(run, LimitedDomain):
            return deviation("gumbel") / run.epsilon, run.margin
        step = run.discovery if isinstance(run, DiscoverThenSelect) else run
        noise, scale = getattr(step, "noise", None), getattr(step, "scale", None)
        return 0.0 if noise is None or scale is None else scale * deviation(noise), getattr(step, "threshold", 0.0)

    def why_not(self, other: PlannedMechanism) -> str:
        """What another mechanism finds, and why it comes after this one."""
        about = f"{other.name} {share(other.expected)}"
        if self.expected - other.expected < _CLOSE:
            worst = (self.worst_recall, other.worst_recall)
            if self.ordered and not other.ordered:
                return f"{about}, as much, but it does not tell the order"
            if worst[0] is not None and worst[1] is not None and worst[0] > worst[1] + _CLOSE:
                return f"{about}, as much, but {share(worst[1])} where the profile is wrong"
            return f"{about}, about as much"
        (noise, bar), (theirs, needed) = self.blur, other.blur
        if needed and not bar:
            return f"{about}: it shows items of more than {amount(needed)} users only, to hide what one user alone brings in"
        if bar and needed > 1.02 * bar:
            return f"{about}: it shows items of more than {amount(needed)} users only, not of {amount(bar)}"
        if noise and theirs > 1.02 * noise:
            return f"{about}: its noise is {amount(theirs)} users on a count, not {amount(noise)}"
        if (few := other.quality.released.value) < 0.98 * self.quality.released.value:
            return f"{about}: it releases {amount(few)} items, not {amount(self.quality.released.value)}"
        if noise and theirs and other.clip != self.clip:
            return f"{about}: clipping takes more from its counts than noise does"
        return f"{about}: it is less likely to find them with what the budget buys"


@final
class Unsuited(Stated):
    """A mechanism that is not planned, and why."""

    name: str = Field(description="a kind, and perhaps a noise")
    reason: str = Field(description="why, in words")


class PlanQuestion(Stated):
    """A budget and the releases that share it, as they are asked for, and how qualities are found and compared.

    Args:
        budget: what all releases together may cost.
        parts: the releases.
        domain, order, sensitivity, charged, max_items_per_user: as asked.
        stated: whether the sensitivity was asked for as such: contributions are then left as they are.
        counts: the share of the budget that noisy counts of the items get; None without them.
        groups: those that each release is for, by `PerGroup` or `TopOfGroups`; None for the log as a whole.
        profile: in words, what the data were taken to look like.
        items: how many items that profile has.
        rounds, seed: of the simulations.
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
    rounds: Count = Field(description="an integer >= 2")
    seed: int = Field(description="an integer")

    @property
    def releases(self) -> int:
        """How many there are in all."""
        return sum(part.releases for part in self.parts)

    @property
    def known(self) -> bool:
        """Whether the domain is public."""
        return self.domain == "public"

    @property
    def recounted(self) -> bool:
        """Whether counts come from a second look at users, as `topk` takes it: not in groups, nor of scores of another kind."""
        return self.counts is not None and self.groups is None and not self.stated

    @property
    def unit(self) -> str:
        """What the budget's limit is of."""
        return "rho" if self.budget.rho is not None else "epsilon"

    @property
    def budget_in_words(self) -> str:
        """As it is stated."""
        return f"{self.unit} {format_number(self.budget.limit)}" + (
            f", delta {format_number(self.budget.delta)}" if self.budget.delta else ""
        )

    @property
    def releases_in_words(self) -> str:
        """What is released, how often."""
        parts = [f"{part.releases:,} release{'s' if part.releases > 1 else ''} of the top {part.k:,}" for part in self.parts]
        return " and ".join(parts) + ("" if self.groups is None else f", of each of {self.groups.count:,} groups")

    def in_words(self) -> Iterator[tuple[str, str]]:
        """What was asked, as names and values."""
        charged = (
            "as one plan that is fixed in advance" if self.charged == "together" else "one by one, through the budget's filter"
        )
        yield "budget", f"{self.budget_in_words}, for all releases together, charged {charged}"
        yield "relation", f"{self.sensitivity.relation}: {WORDS[self.sensitivity.relation]}"
        if self.sensitivity.l0 is not None:
            yield "contributions", f"a user changes at most {self.sensitivity.l0:,} counts"
        known = "public" if self.known else "unknown: items are read off the log, and therefore private"
        yield "items", f"{known}; {'in order of rank' if self.order else 'as a set'}"
        if (groups := self.groups) is not None:
            sizes = f"{groups.count:,} of a public list, sizes by Zipf's law ({groups.exponent:g})"
            most = groups.max_groups_per_user
            kept = "in any number" if most is None else f"kept in {most:,}: {share(groups.kept)} of the pairs"
            yield "groups", f"{sizes}; a user is in {groups.per_user:g}, {kept}"
        yield "profile", self.profile


_NOTE = (
    "Recall: share of right items among k. Worst: the least recall over shapes around this one (exponent .2 up and down, half "
    "the users, twice the items per user, another sample of users); it orders what is within 1 % of the best. Fresh: where "
    "counts vary as in another sample. All right: probability of the exact set. Lost: by how many users the released items' "
    "counts fall short. Intervals: {level:g} % where simulated, the numerical error where not. Mechanisms that are clearly "
    "behind are worked out roughly, and in full where they are planned alone."
)


@final
class TopKPlan(PlanQuestion, Plan):
    """How to spend a budget on top-k releases. Its first fields say what was asked: see `PlanQuestion`.

    Args:
        ranked: the mechanisms, best first; ranked by recall, those within .01 of the best come in the order of `worst_recall`.
        unsuited: the others.
    """

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

    def risk(self, planned: PlannedMechanism | None = None) -> Risk:
        """What an attacker gains from all releases together with this mechanism, by default the recommended one."""
        return Risk.of(self.curve(planned))

    # -- in words and as data ---------------------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """What is released, and by which mechanism."""
        return f"{self.releases_in_words}: {self.recommended.name}"

    def words(self, planned: PlannedMechanism | None = None) -> Iterator[Section]:
        """What to use, what to expect, what it costs, and why not the next best; of another mechanism where one is given."""
        verb = "Recommended" if planned is None or planned == self.recommended else "Chosen"
        chosen = planned or self.recommended
        yield Section(f"{verb} for {self.releases_in_words}: {chosen.name}", facts=list(self._answer(chosen)))

    def _answer(self, planned: PlannedMechanism) -> Iterator[tuple[str, str]]:
        for place, part in enumerate(self.parts):
            yield f"use{f' {part.k}' if len(self.parts) > 1 else ''}", planned.in_words(place)
        recall = planned.quality.recall
        if planned.forecast is not None:
            low, high = planned.forecast
            found = f"{share(planned.expected)} of the true items in each release"
            yield "expect", f"{found}; {share(low)} to {share(high)} on profiles that fit what is stated"
        else:
            interval_of = f" ({100 * recall.level:g} % of simulations: {share(recall.low)} to {share(recall.high)})"
            error = "" if recall.method == "exact" else interval_of
            found = f"{share(recall.value)} of the true items in each release{error}"
            yield "expect", f"{found}; all of them right in {share(planned.quality.exact_set.value)}"
        if self.counts is not None:
            run: Any = planned.mechanisms[0]
            run = run.mechanism if isinstance(run, PerGroup) else run
            around = interval(run)
            assert around is not None
            own = without_counts(run) is run
            noise = "of the noise that chooses, free of charge" if own else f"of fresh {getattr(run, 'noise', '')} noise"
            clip: float | None = getattr(run, "clip", None)
            looked = "" if clip is None else f"; a second look clips users to {clip:.4g} among the items of the release"
            yield "counts", f"within {math.ceil(around.half_width):,} users, {noise}; {around.words()}{looked}"
        at = f" at delta {format_number(self.budget.delta)}" if self.budget.delta else ""
        yield "cost", f"{self.unit} {planned.cost:.4g} of {format_number(self.budget.limit)}{at} for {self.releases_in_words}"
        yield "risk", self.risk(planned).in_words(self.sensitivity.relation)
        if planned.worst_recall is None:
            yield (
                "if wrong",
                "the guarantee stands; how the recall changes with the profile is worked out for the best by recall only",
            )
        else:
            around_it = "steeper, flatter, half the users, twice the items each"
            yield "if wrong", f"at least {share(planned.worst_recall)} on profiles around this one: {around_it}"
        yield "instead", next((planned.why_not(one) for one in self.ranked if one != planned), "nothing else applies")

    def rows(self) -> Iterator[Section]:
        """What was asked, the ranking, and why other mechanisms are not in it."""
        yield Section("What was asked", facts=list(self.in_words()))
        ranked = [{"": str(place), "mechanism": one.name, **self._row(one)} for place, one in enumerate(self.ranked, start=1)]
        heads = list(ranked[0])
        yield Section(
            "Mechanisms that spend the budget, best first",
            heads=heads,
            rows=[list(row.values()) for row in ranked],
            left=["mechanism"],
            narrow=[*heads[:2], "recall", "interval", "worst", "all right"],
            best_first=True,
            notes=[_NOTE.format(level=100 * _LEVEL)],
        )
        yield Section("Not planned", facts=[(other.name, other.reason) for other in self.unsuited])

    def _row(self, planned: PlannedMechanism) -> dict[str, str]:
        quality, recall = planned.quality, planned.quality.recall
        return {
            "recall": share(recall.value),
            "interval": "exact" if recall.method == "exact" else f"{100 * recall.low:.1f}-{100 * recall.high:.1f}",
            "worst": "-" if planned.worst_recall is None else f"{100 * planned.worst_recall:.1f} %",
            "fresh": "-" if planned.fresh_recall is None else f"{100 * planned.fresh_recall:.1f} %",
            "all right": share(quality.exact_set.value),
            "lost users": amount(quality.score_loss.value),
            "released": amount(quality.released.value),
            "noise": _noise_in_words(planned.mechanisms[0]),
            "clip": "-" if planned.clip is None else f"{planned.clip:g}",
        }

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the expected recall of every planned mechanism with its interval, the recommended one on top.

        Args:
            ax: axes to draw on; new ones if None.

        Raises:
            MissingExtra: matplotlib is not installed.
        """
        from accounting.plots import new_axes  # a plan without a plot does without

        axes = new_axes() if ax is None else ax
        found = [planned.quality.recall for planned in self.ranked]
        middle, low, high = (np.array([getattr(one, end) for one in found]) for end in ("value", "low", "high"))
        places, errors = np.arange(len(found)), np.maximum([middle - low, high - middle], 0)
        axes.barh(places, middle, xerr=errors, height=0.62)
        axes.set_yticks(places, [planned.name for planned in self.ranked])
        axes.invert_yaxis()
        axes.set(title=f"{self.budget_in_words}: {self.releases_in_words}", xlabel="expected recall", xlim=(0, 1.05))
        return axes

    def as_data(self) -> dict[str, Any]:
        """The plan, which `from_json` reads, and the recommended mechanism by itself."""
        best = self.recommended
        return {
            "plan": self.model_dump(mode="json"),
            "recommended": {
                "name": best.name,
                "mechanisms": [run.model_dump(mode="json") for run in best.mechanisms],
                "risk": self.risk().as_data(self.sensitivity.relation),
            },
        }

    def to_json(self) -> str:
        """The plan as JSON; `TopKPlan.from_json` reads it back."""
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
            raise InvalidRequest("the text is not JSON: pass what TopKPlan.to_json wrote") from None

    def __repr_args__(self) -> Any:
        best = self.recommended
        yield "recommended", best.name
        yield "recall", round(best.quality.recall.value, 4)
        yield "parts", [(part.releases, part.k) for part in self.parts]
        yield "budget", self.budget
        yield "ranked", len(self.ranked)


def _noise_in_words(mechanism: Mechanism) -> str:
    """The field that sets the noise and its value; of a mechanism in two steps, those of both."""
    if isinstance(mechanism, DiscoverThenSelect):
        return f"{_noise_in_words(mechanism.discovery)}, then {_noise_in_words(mechanism.selection)}"
    knob, value = noise_settings(without_counts(mechanism))
    return f"{knob} {value:.4g}"


# -- what is asked, on a profile -------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Task:
    """What is asked, and the profile on which it is tried."""

    asked: PlanQuestion
    profile: Profile
    _seen: dict[tuple[int, Bounding], list[tuple[int, Levels]]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, spec: PlanSpec, profile: Profile, budget: Budget, sensitivity: Sensitivity | None = None) -> Self:
        """As a spec asks.

        Raises:
            InvalidRequest: what is asked contradicts the sensitivity, or cannot come out of the profile.
        """
        if sensitivity is not None and spec.given("relation", "max_items_per_user"):
            raise InvalidRequest(
                "sensitivity= states the relation and the items per user: leave relation= and max_items_per_user= out"
            )
        limit, groups = spec.max_items_per_user, None
        if spec.groups is not None:
            more = {"per_user": spec.groups_per_user, "exponent": spec.group_exponent}
            stated = {name: value for name, value in more.items() if value is not None}
            # Nobody is in more groups than there are: a looser bound would be paid for, and fitted, for nothing.
            bound = spec.max_groups_per_user and min(spec.max_groups_per_user, spec.groups)
            groups = Groups(count=spec.groups, max_groups_per_user=bound, **stated)
        asked = PlanQuestion(
            budget=budget,
            parts=spec.schedule or (Part(releases=spec.releases or 1, k=most(profile, spec) if spec.k == "all" else spec.k),),
            domain="unknown" if spec.unknown_domain else "public",
            order=bool(spec.order),
            # Under replace_one a user takes up to so many items away and adds as many.
            sensitivity=sensitivity or Sensitivity.of_counts(spec.relation or "add_remove", limit),
            # By default separately where there is a ledger, since `topk` charges it release by release.
            charged=spec.charged or ("together" if spec.ledger is None else "separately"),
            max_items_per_user=limit,
            stated=sensitivity is not None,
            counts=_COUNTS[0] if spec.with_counts else None,
            groups=groups,
            profile=profile.description,
            items=profile.size,
            rounds=spec.rounds or 1000,
            seed=spec.seed or 0,
        )
        task = cls(asked.model_copy(update={"counts": COUNTS_AGAIN}) if asked.recounted else asked, profile)
        if asked.releases > _MOST_RELEASES:
            raise InvalidRequest(f"releases={asked.releases} is more than {_MOST_RELEASES:,} in all: plan for fewer")
        for part in asked.parts:
            if not task.has(part.k):
                what = ("items" if asked.known else "items with any users") + (" for all groups" if groups else "")
                raise InvalidRequest(
                    f"k={part.k} items cannot come out of a profile with {most(profile, spec)} {what}: ask for fewer"
                )
        return task

    def changed(self, **asked: Any) -> Task:
        """The same with something else asked."""
        return Task(self.asked.model_copy(update=asked), self.profile)

    @cached_property
    def every(self) -> EveryGroup | None:
        """The groups, where each gets a selection; None for the log as a whole, or where users are in any number of them."""
        groups, sensitivity = self.asked.groups, self.asked.sensitivity
        if groups is None or groups.max_groups_per_user is None:
            return None
        return EveryGroup(groups.max_groups_per_user, sensitivity.relation, sensitivity.uniform)

    @property
    def longest(self) -> float | None:
        """The most items that a user has; None where nothing is known of that, or contributions are left as they are."""
        return None if self.asked.stated or self.profile.loads is None else float(self.profile.loads.sizes[-1])

    def request(self, sensitivity: Sensitivity | None = None, noise: Any = None) -> TopKRequest:
        """All releases, for mechanisms that cover this sensitivity."""
        asked = self.asked
        schedule = tuple((part.releases, part.k) for part in asked.parts)
        return TopKRequest(
            k=max(part.k for part in asked.parts),
            sensitivity=sensitivity or asked.sensitivity,
            candidates=self.profile.size if asked.known else None,
            noise=noise,
            releases=asked.releases,
            counts=asked.counts,
            recounted=asked.recounted,
            together=asked.charged == "together",
            schedule=schedule if len(schedule) > 1 else (),
        )

    @cached_property
    def profiles(self) -> list[tuple[int, Profile]]:
        """How many groups look how; one like the whole without groups."""
        if self.asked.groups is None:
            return [(1, self.profile)]
        return [(count, self.profile.in_group(share)) for count, share in self.asked.groups.sizes()]

    def has(self, k: int) -> bool:
        """Whether k items can come out, of the largest group at least."""
        return any(k <= self._items(profile) for _, profile in self.profiles)

    def _items(self, profile: Profile) -> int:
        return profile.size if self.asked.known else profile.touched

    @cached_property
    def table(self) -> Grouping | None:
        """The groups as one table of cells, under one norm of a user, where `topk` considers that."""
        asked = self.asked
        if asked.groups is None or asked.max_items_per_user is not None or asked.stated or len(asked.parts) > 1:
            return None
        return Grouping(ANY_GROUPS, asked.groups.count, tabled=True)

    def in_a_group(self, choice: Choice, run: Mechanism, k: int) -> tuple[Mechanism, Bounding]:
        """What selects k items of one group, and what is done to its users, the groups that they are kept in included."""
        if choice.cells:
            assert self.asked.groups is not None
            one, kept = in_one(choice, k, self.asked.groups.per_user), 1.0
        else:
            one, kept = replace(choice, mechanism=run), 1.0 if self.asked.groups is None else self.asked.groups.kept
        return one.mechanism, Bounding(one.max_items_per_user, one.clip, one.norm, kept)

    def rankings(self, k: int, bounding: Bounding) -> list[tuple[int, Levels]]:
        """The rankings that a release of k sees once contributions are bounded, and how many groups have each.

        Groups with fewer than k items are left out. Kept: it is asked for many times.
        """
        if (k, bounding) not in self._seen:
            self._seen[k, bounding] = [
                (count, profile.levels(k, bounding, known=self.asked.known))
                for count, profile in self.profiles
                if k <= self._items(profile)
            ]
        return self._seen[k, bounding]

    def cost(self, mechanisms: Sequence[Mechanism], *, thorough: bool) -> float:
        """Of all releases together; what the budget admits costs no more than it."""
        pairs = zip(self.asked.parts, map(self.around, mechanisms), strict=True)
        curve = Composed.of([(part.releases, one.curve) for part, one in pairs])
        return min(self.asked.budget.cost(curve, thorough=thorough), self.asked.budget.limit)

    def around(self, mechanism: Mechanism) -> Mechanism:
        """What is drawn: for every group."""
        return mechanism if self.every is None or isinstance(mechanism, TopOfGroups) else self.every.around(mechanism)

    def finished(self, mechanism: Mechanism, k: int) -> Mechanism:
        """The mechanism as it is released: with its counts, where they come from a second look, and for every group."""
        if not self.asked.recounted:
            return self.around(mechanism)
        counted = replace(CountNoise.of(self.request(), self.asked.budget), k=k)
        return counted.around(without_counts(mechanism))

    # -- how good a mechanism is ------------------------------------------------------------------------------------------

    def forecast(self, family: Family, run: Mechanism, rankings: Sequence[tuple[int, Levels]]) -> float:
        """The recall by the quick formula, on average over groups."""
        one, seed = without_counts(run), self.asked.seed
        found = [(n, family.forecast(one, levels, seed=seed, runs=_GLANCED)) for n, levels in rankings]
        return sum(n * recall for n, recall in found) / sum(n for n, _ in found)

    def expected(self, mechanisms: Sequence[Mechanism], bounded: Choice | PlannedMechanism) -> float:
        """The recall of one release by the quick formula, on average over the parts of the schedule."""
        total = 0.0
        for run, part in zip(mechanisms, self.asked.parts, strict=True):
            cells = isinstance(run, TopOfGroups)
            choice = Choice(without_counts(run), bounded.max_items_per_user, bounded.clip, bounded.norm, cells=cells)
            selecting, bounding = self.in_a_group(choice, run, part.k)
            total += part.releases * self.forecast(family_of(run), selecting, self.rankings(part.k, bounding))
        return total / self.asked.releases

    def judged(self, run: Mechanism, part: Part, bounding: Bounding) -> Quality:
        """The quality that is reported: on average over the groups, all intervals together with the stated confidence."""
        rankings, asked = self.rankings(part.k, bounding), self.asked
        level = 1 - (1 - _LEVEL) / len(rankings)
        return Quality.average(
            (count, Quality.of(judged(run, levels, runs=asked.rounds, seed=asked.seed + place), levels, level))
            for place, (count, levels) in enumerate(rankings)
        )

    def worth(self, found: Quality) -> tuple[float, ...]:
        """The better, the greater: by recall; ties are broken by the other figures."""
        return (found.recall.value, found.exact_set.value, -found.score_loss.value)

    def on(self, profiles: Iterable[Profile]) -> list[Task]:
        """The task on each of these profiles, of those that have enough items."""
        tasks = (Task(self.asked, profile) for profile in profiles)
        return [one for one in tasks if all(one.has(part.k) for part in one.asked.parts)]


def most(profile: Profile, spec: PlanSpec) -> int:
    """How many items can come out, where the data look like this."""
    return profile.touched if spec.unknown_domain else profile.size


# -- all ways to use a mechanism -------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Look:
    """One way to use a mechanism, and the recall that a quick look at it shows.

    Attributes:
        family, settings, way: what made it, and makes it again.
        mechanisms: of one group, one for every part.
        exact: whether the noise is the least that the budget admits.
    """

    name: str
    family: Family
    settings: Mapping[str, Any]
    way: tuple[str, int]
    choice: Choice
    exact: bool
    mechanisms: tuple[Mechanism, ...] = ()
    recall: float = 0.0


def compared(
    considered: Sequence[Family], task: Task, progress: Progress | None = None, names: Sequence[str] | None = None
) -> tuple[list[PlannedMechanism], list[Unsuited]]:
    """The mechanisms that can do the task, best first, one entry for each name, and why others cannot.

    `names`: those that are wanted, each judged in full; None for all.
    """
    tell, steps = progress or (lambda _done, _total: None), 2 * len(considered)
    looks: dict[str, list[_Look]] = {}
    reasons: dict[str, str] = {}
    for done, family in enumerate(considered):
        tell(done, steps)
        for look in _looks(family, task, reasons, names):
            looks.setdefault(look.name, []).append(look)
    ranked = sorted((_best(several, task) for several in looks.values()), key=lambda look: -look.recall)
    planned = []
    for done, look in enumerate(ranked):
        tell(len(considered) + done * len(considered) // len(ranked), steps)
        behind = ranked[0].recall - look.recall > (_BEHIND if look.exact else _BEHIND_ROUGHLY)
        settled = names is None and (behind or done >= _IN_FULL)
        planned.append(_reported(look, task, full=not settled))
    tell(steps, steps)
    unsuited = [Unsuited(name=name, reason=why) for name, why in _merged(reasons, set(looks)).items()]
    return sorted(planned, key=lambda one: task.worth(one.quality), reverse=True), unsuited


def _looks(family: Family, task: Task, reasons: dict[str, str], names: Sequence[str] | None) -> Iterator[_Look]:
    """Every way to use a family; why it cannot be used goes into `reasons`."""
    for settings in family.tried():
        noise = settings.get("noise")
        name, in_cells = family.kind if noise is None else f"{family.kind}, {noise}", f"top_of_groups, {family.kind}"
        reason = unsuited(family, settings, task)
        if reason is not None:
            reasons.setdefault(name, reason)
            continue
        if names is not None and {name, in_cells}.isdisjoint(names):
            continue
        found = False
        for way, choice, exact in _choices(family, settings, task):
            found, called = True, in_cells if choice.cells else name
            if names is None or called in names:
                yield _looked(_Look(called, family, settings, way, choice, exact), task)
        if not found and task.asked.groups is not None and task.every is None:
            reasons.setdefault(name, "needs max_groups_per_user=: a selection in each group is paid for that many times")
        elif not found:
            reasons.setdefault(name, "no amount of noise brings it within the budget")


def _looked(look: _Look, task: Task) -> _Look:
    """With the settings that cost nothing, chosen for every part by the quick formula."""
    best, total, choice = [], 0.0, look.choice
    family = family_of(choice.mechanism)
    for part in task.asked.parts:
        one, bounding = task.in_a_group(choice, resized(choice.mechanism, part.k), part.k)
        rankings, inner = task.rankings(part.k, bounding), without_counts(one)
        tried = []
        for other in family.varied(inner, rankings[len(rankings) // 2][1]):
            run = other if one is inner else type(one).model_validate({**settings_of(one), "mechanism": other})
            tried.append((task.forecast(family, run, rankings), run))
        recall, run = max(tried, key=lambda pair: pair[0])
        best.append(TopOfGroups(k=part.k, mechanism=choice.mechanism) if choice.cells else run)
        total += part.releases * recall
    return replace(look, mechanisms=tuple(best), recall=total / task.asked.releases)


def _best(looks: Sequence[_Look], task: Task) -> _Look:
    """Of the ways under one name. What looks at users twice may be best on a smooth curve and find little on a flatter one: on a
    made-up profile those that are close are compared over all that fit.
    """
    # Of equals the one with the lowest threshold: it finds more where the profile is wrong.
    best = max(looks, key=lambda look: (round(look.recall, 6), -getattr(without_counts(look.choice.mechanism), "threshold", 0.0)))
    close = [look for look in looks if look.recall >= best.recall - _MADE_UP]
    if best.family.member not in SEEN_TWICE or task.profile.law != "curve" or len(close) == 1:
        return best
    fitting = task.on(possible(task.profile, task.asked.seed))
    return max(close, key=lambda look: sum(other.expected(look.mechanisms, look.choice) for other in fitting))


def _reported(look: _Look, task: Task, *, full: bool) -> PlannedMechanism:
    """Judged by its own draws, if it may come first; with the least noise that the budget admits."""
    if full and not look.exact:
        again = {way: choice for way, choice, _ in _choices(look.family, look.settings, task, exactly=True)}
        look = _looked(replace(look, choice=again[look.way], exact=True), task) if look.way in again else look
    choice, asked, by_part = look.choice, task.asked, list[Quality]()
    for run, part in zip(look.mechanisms, asked.parts, strict=True):
        one, bounding = task.in_a_group(choice, run, part.k)
        levels = task.rankings(part.k, bounding)[0][1]
        by_part.append(task.judged(one, part, bounding) if full else Quality.roughly(look.recall, levels))
    return PlannedMechanism(
        name=look.name,
        ordered=all(run.ordered for run in look.mechanisms),
        mechanisms=look.mechanisms,
        quality=Quality.average((part.releases, found) for part, found in zip(asked.parts, by_part, strict=True)),
        by_part=tuple(by_part),
        cost=task.cost(look.mechanisms, thorough=full),
        whole=full,
        max_items_per_user=choice.max_items_per_user,
        clip=choice.clip,
        norm=choice.norm,
    )


def _choices(
    family: Family, settings: Mapping[str, Any], task: Task, *, exactly: bool = False
) -> Iterator[tuple[tuple[str, int], Choice, bool]]:
    """The ways to fit a family to the budget, each by a name of its own, and whether it has the least noise that is admitted."""
    asked, longest, twice = task.asked, task.longest, family.member in SEEN_TWICE
    slow = asked.charged == "together" and asked.budget.form == "approximate" and asked.releases > 1 and not exactly
    member: type[Mechanism] = family.member
    if twice:  # at the price of one noisy vector
        member = OneshotTopK if family.member is TwoRoundHistogram and asked.known else SparseHistogram
    noise: Any = "gaussian" if twice else settings.get("noise")
    limit, clips = asked.max_items_per_user, member.traits.clips
    bound = GENEROUS if noise in clips and member.traits.domain == "unknown" and limit is None and longest is not None else limit
    if noise == "gaussian" and longest is not None and task.table is not None:
        for place, one in enumerate(in_cells(asked.budget, task.request(), task.table, roughly=slow)):
            if type(one.mechanism) is family.member:
                yield ("cells", place), one, not slow
    if asked.groups is not None and (task.every is None or twice):
        return
    spend: Any = {"every": task.every, "roughly": slow}
    if not twice:
        with suppress(AccountingError):
            seen = asked.sensitivity if asked.stated else Sensitivity.of_counts(asked.sensitivity.relation, bound)
            request = task.request(seen, noise if "noise" in member.model_fields else None)
            more = {name: value for name, value in settings.items() if name != "noise"}
            yield ("plain", 0), Choice(fitted(family.kind, asked.budget, request, settings=more, **spend), bound), not slow
    if noise is None or noise not in clips or longest is None or (asked.counts is not None and not asked.recounted):
        return
    limits: Any = {"limit": limit, "most": bound if member.traits.domain == "unknown" else limit, "longest": longest}
    for place, one in enumerate(clipped(member, noise, clips[noise], asked.budget, task.request(), **limits, **spend)):
        if type(without_counts(one.mechanism)) is family.member:
            yield ("clipped", place), one, not slow


def unsuited(family: Family, settings: Mapping[str, Any], task: Task) -> str | None:
    """Why a family cannot do what the task asks, whatever its noise; None if it may."""
    traits, asked, longest = family.member.traits, task.asked, task.longest
    may_fail = "may fail, so the budget needs a delta: the chance of that"
    if traits.answers == "one_item" and any(part.k > 1 for part in asked.parts):
        return "releases one item: it is for k=1"
    if not asked.known and traits.domain == "public":
        return "needs a public domain: it would show items that are read off private data"
    if asked.order and traits.ordered is False:
        return "does not release the order"
    if family.member in SEEN_TWICE:
        if asked.groups is not None and family.member is not TwoRoundHistogram:
            return "looks at users twice, which is not done for groups"
        if longest is None or longest <= FEW:
            return "looks at users twice: the profile has to say how many items they have, more than two"
        return may_fail if asked.budget.delta == 0 else None
    if traits.failure is not None and asked.budget.delta == 0:
        return may_fail
    # Why the proof does not cover the relation or the sensitivity: an example says it.
    k, names = asked.parts[0].k, family.member.model_fields
    generous = settings.get("noise") in traits.clips and asked.max_items_per_user is None and longest is not None
    limit = GENEROUS if generous else asked.max_items_per_user
    try:
        seen = asked.sensitivity if asked.stated else Sensitivity.of_counts(asked.sensitivity.relation, limit)
        given = {**public_settings(k, task.profile.size if asked.known else None, seen), **traits.usual(k), **settings}
        given[knob_of(family.member).field] = 1.0
        if traits.failure is not None:
            given[traits.failure] = _TRY
        one = family.member.model_validate({name: value for name, value in given.items() if name in names and value is not None})
        task.around(one).covers.require(seen)
    except AccountingError as error:
        return f"is not proved for this: {error}"
    if one.relation != asked.sensitivity.relation:
        return f"has no guarantee under relation={asked.sensitivity.relation!r}, only under {one.relation!r}"
    if not (asked.known or one.takes_observed):
        return "needs a public domain as it is configured"
    return "does not release the order" if asked.order and not one.ordered else None


def _merged(reasons: Mapping[str, str], suited: set[str]) -> dict[str, str]:
    """One entry for a kind all of whose noises have the same reason; not if one of its noises is suited."""
    kinds, merged = {name.partition(",")[0] for name in suited}, dict[str, str]()
    reasons = {name: why for name, why in reasons.items() if name not in suited}
    for kind in dict.fromkeys(name.partition(",")[0] for name in reasons):
        named = {name: why for name, why in reasons.items() if name.partition(",")[0] == kind}
        alike = kind not in kinds and len(named) > 1 and len(set(named.values())) == 1
        merged |= {kind: next(iter(named.values()))} if alike else named
    return merged


# -- where the profile is wrong --------------------------------------------------------------------------------------------


def possible(profile: Profile, seed: int) -> Iterator[Profile]:
    """Profiles that fit the numbers of a made-up one: uneven, with a flatter head or a smaller exponent, as logs have."""
    width = _SINGLE + (1.0 if profile.loads is None else profile.loads.mean)
    others = [*(profile.tempered(power) for power in _POWERS), profile.flattened(_HEAD * width)]
    for place, other in enumerate(others):
        yield other.uneven(np.random.default_rng([seed, 4, place]))


def by_worst_case(planned: Sequence[PlannedMechanism], task: Task) -> list[PlannedMechanism]:
    """The mechanisms; where they are ranked by recall, those within .01 of the best come first, by the worst recall around.

    A made-up profile is a smooth curve, and the recall on it is no forecast: mechanisms are judged over the profiles that fit.
    """
    if not planned:
        return []
    profile, seed, made_up = task.profile, task.asked.seed, task.profile.law == "curve"
    bar = max(one.quality.recall.value for one in planned) - (_MADE_UP if made_up else _CLOSE)
    around = task.on((profile.tilted(0.2), profile.tilted(-0.2), profile.thinned(0.5), profile.heavier(2.0)))
    samples = () if task.asked.groups is not None else range(_SAMPLES)  # a sample of each group is another thing
    varied = (profile.varied(np.random.default_rng([seed, 2, sample])) for sample in samples)
    others = task.on(possible(profile, seed) if made_up else varied)
    found = [_tried(one, others, around, made_up=made_up) for one in planned if one.quality.recall.value >= bar]
    # All to a thousandth, as tables show it: no row is better in every column than one above it. What gives up more of the worst
    # case than the grace comes last, equals that tell the order first; then, as sorting is stable, in the profile's order.
    worst = {one.name: round(one.worst_recall or 0.0, 3) for one in found}
    if made_up:
        floor, mean = max(worst.values()) - _GRACE, {one.name: round(one.fresh_recall or 0.0, 3) for one in found}
        found.sort(key=lambda one: (worst[one.name] < floor, -mean[one.name], not one.ordered, -worst[one.name]))
    else:
        found.sort(key=lambda one: (-worst[one.name], not one.ordered))
    return [*found, *(one for one in planned if one.quality.recall.value < bar)]


def _tried(one: PlannedMechanism, others: Sequence[Task], around: Sequence[Task], *, made_up: bool) -> PlannedMechanism:
    """With its recall over the profiles that fit a made-up one, or over other samples of users, and the worst over all around."""
    fresh = [task.expected(one.mechanisms, one) for task in others]
    fresh = fresh or ([one.quality.recall.value] if made_up else [])
    mean = float(np.mean(fresh)) if fresh else None
    found: dict[str, Any] = {"fresh_recall": mean, "forecast": (min(fresh), max(fresh)) if made_up else None}
    near = fresh if made_up else [one.quality.recall.value, *([] if mean is None else [mean])]
    found["worst_recall"] = min([*near, *(task.expected(one.mechanisms, one) for task in around)])
    return one.model_copy(update=found)


# -- the plan --------------------------------------------------------------------------------------------------------------


def plan_releases(
    spec: PlanSpec,
    profile: Profile,
    *,
    budget: Budget | None = None,
    sensitivity: Sensitivity | None = None,
    progress: Progress | None = None,
) -> TopKPlan:
    """Every mechanism that applies, with the noise that spends the whole budget on all releases, ranked by expected quality.

    Among mechanisms whose recall is within .01 of the best, the one that keeps most of it on data that vary around the profile
    comes first. With groups what is found is the mean over them; the profile is that of the whole log, and bounds and clips hold
    within each group.

    Counts come from a second look at the users of the released items, as `dpselect.topk` takes it: a twentieth of the budget, and
    the clip that suits the users of the profile. In groups, and with a stated `sensitivity`, counts are the scores that chose:
    they get the largest share, of .1, .2, .4 and .6, that costs the best selection .01 of recall at most, and mechanisms whose
    own noisy scores are free release those.

    Args:
        spec: what is asked.
        profile: what the data look like.
        budget: what all releases together may cost, where the spec does not say all of it: an order, for example.
        sensitivity: what one user may change, in place of the spec's relation and items per user.
        progress: called with (done, of how many) as mechanisms are finished.

    Raises:
        InvalidRequest: k items cannot come out of the profile, or no mechanism applies, and why.
    """
    task, considered = Task.of(spec, profile, budget or spec.budget, sensitivity), _considered(spec.mechanisms)
    planned, others = compared(considered, task, progress)
    if not planned:
        reasons = "; ".join(f"{other.name}: {other.reason}" for other in others)
        raise InvalidRequest(f"no mechanism can do this. {reasons}. Ask for less, or consider more mechanisms (mechanisms=)")
    best = planned[0]
    if task.asked.counts is not None and not task.asked.recounted and not best.mechanisms[0].releases_values:
        more = task
        for counts in _COUNTS[1:]:
            again, _ = compared(considered, task.changed(counts=counts), names=[best.name])
            if not again or again[0].quality.recall.value < best.quality.recall.value - _CLOSE:
                break
            more = task.changed(counts=counts)
        if more is not task:
            task = more
            planned, others = compared(considered, task, progress)
    ranked = []
    for one in by_worst_case(planned, task):
        pairs = zip(one.mechanisms, task.asked.parts, strict=True)
        ranked.append(one.model_copy(update={"mechanisms": tuple(task.finished(run, part.k) for run, part in pairs)}))
    never = [Unsuited(name=name, reason=why) for name, why in not_planned().items()]
    return TopKPlan(**dict(task.asked), ranked=tuple(ranked), unsuited=(*others, *never))


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
