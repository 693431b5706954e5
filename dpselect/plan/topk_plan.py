"""`TopKPlan`, the mechanism of a release, its cost and its forecast, before data are read.

Nothing private is read, and a plan is deterministic, because the draws of its forecast have a fixed
seed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, final

import numpy as np
from pydantic import Field, ValidationError

from accounting import Budget, Curve
from accounting.frozen import Count, Positive, Real
from accounting.registry import kind_of
from accounting.relations import WORDS
from accounting.risk import Risk
from accounting.sections import Section
from accounting.wording import format_number
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import AnyMechanism, Mechanism
from dpselect.mechanisms.traits import settings_of
from dpselect.plan.counts import interval, without_counts
from dpselect.plan.default import Choice
from dpselect.plan.fit import noise_settings
from dpselect.plan.forecast import DRAWS, Forecast, Forecaster
from dpselect.plan.plan import Plan, amount, share
from dpselect.plan.profile import Bounding, Groups, PlanPart, Profile
from dpselect.plan.request import ALL, TopKRequest
from dpselect.sensitivity import Norm

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@final
class PlannedMechanism(PlanPart):
    """A mechanism whose noise spends the budget, with its forecast.

    Args:
        mechanism: the mechanism of `dpselect.topk`; its `to_json` is an input of
            `dpselect topk --mechanism`.
        expected: forecast of one release.
        cost: cost of all releases, in the unit of the budget's limit (epsilon at its delta, or
            rho), nats; proved.
        max_items_per_user, clip, norm: bounds on each user's contributions for it, as of
            `events.read`; None: no bound.
        why: public facts by which the default chose it; "" if it was named.
    """

    mechanism: AnyMechanism = Field(description="a mechanism")
    expected: Forecast = Field(description="a Forecast")
    cost: Real = Field(description="nats")
    max_items_per_user: Count | None = Field(default=None, description="an integer >= 1, or None")
    clip: Positive | None = Field(default=None, description="a finite number > 0, or None")
    norm: Norm = Field(default="l2", description="'l1' or 'l2'")
    why: str = Field(default="", description="words")

    @property
    def name(self) -> str:
        """Kind of the mechanism that selects."""
        return kind_of(type(without_counts(self.mechanism)))

    @property
    def noise(self) -> str:
        """The field that sets the noise, with its value."""
        knob, value = noise_settings(without_counts(self.mechanism))
        return f"{knob} {value:.4g}"

    def in_words(self) -> str:
        """The class, its noise, and the contribution bounds for it."""
        run: Any = without_counts(self.mechanism)
        noise = settings_of(run).get("noise")
        kind = f"{noise} noise of " if isinstance(noise, str) else ""
        cells = self.mechanism.traits.cells
        every = (
            "over all groups "
            if cells
            else "in every group "
            if self.mechanism.traits.answers == "groups"
            else ""
        )
        words = f"{every}{type(run).__name__} with {kind}{self.noise}"
        bounding = Bounding(self.max_items_per_user, self.clip, self.norm).words()
        return f"{words}; {bounding}" if bounding else words


@final
class TopKPlan(Plan, PlanPart):
    """A plan for a budget and releases of a top k, as `dpselect.topk` would run it.

    It may also compare other kinds of mechanisms.

    Args:
        budget: budget of all releases together, charged one by one.
        request: public facts about one release.
        profile: description of the data, in words.
        items: number of items of that profile.
        groups: groups with a release each; None for the log as a whole.
        recommended: the mechanism of `dpselect.topk` for this question.
        compared: other kinds that were named, best first.
        payer: the dataset of a ledger that will be charged, in words; "" without a ledger.
    """

    budget: Budget = Field(description="a Budget")
    request: TopKRequest = Field(description="a TopKRequest")
    profile: str = Field(description="words")
    items: Count = Field(description="an integer >= 1")
    groups: Groups | None = Field(default=None, description="Groups, or None")
    recommended: PlannedMechanism = Field(description="a PlannedMechanism")
    compared: tuple[PlannedMechanism, ...] = Field(
        default=(), description="other mechanisms, best first"
    )
    payer: str = Field(default="", description="words")

    @property
    def ranked(self) -> tuple[PlannedMechanism, ...]:
        """All mechanisms, by expected recall, best first."""
        return tuple(
            sorted((self.recommended, *self.compared), key=lambda planned: -planned.expected.recall)
        )

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism to run."""
        return self.recommended.mechanism

    @property
    def curve(self) -> Curve:
        """The cost of all releases together with the recommended mechanism, as one fixed plan."""
        return self.request.releases * self.mechanism.curve

    def find(self, name: str) -> PlannedMechanism:
        """The planned mechanism of that kind.

        Raises:
            InvalidRequest: no mechanism of that kind is planned.
        """
        for planned in self.ranked:
            if planned.name == name:
                return planned
        names = ", ".join(planned.name for planned in self.ranked)
        raise InvalidRequest(
            f"{name[:60]!r} is not planned. Choose one of {names}, or name it in compare="
        )

    # -- in words and as data ----------------------------------------------------------------------

    @property
    def unit(self) -> Literal["rho", "advantage", "true positive rate", "epsilon"]:
        """Unit of the budget's limit."""
        if self.budget.tpr is not None:
            return "true positive rate"
        if self.budget.advantage is not None:
            return "advantage"
        return "rho" if self.budget.rho is not None else "epsilon"

    @property
    def _top(self) -> str:
        return (
            "all items that are safe to show"
            if self.request.k == ALL
            else f"the top {self.request.k:,}"
        )

    @property
    def releases_in_words(self) -> str:
        """The released items and the number of releases, in words."""
        releases = self.request.releases
        words = f"{releases:,} release{'s' if releases > 1 else ''} of {self._top}"
        return words + ("" if self.groups is None else f", of each of {self.groups.count:,} groups")

    @property
    def headline(self) -> str:
        return f"{self.releases_in_words}: {self.recommended.name}"

    def sections(self) -> Iterator[Section]:
        """The recommended mechanism, its forecast and its cost, and the comparison."""
        yield Section(
            f"Recommended for {self.releases_in_words}: {self.recommended.name}",
            facts=list(self._answer()),
        )
        if self.compared:
            table = [{"mechanism": planned.name, **self._row(planned)} for planned in self.ranked]
            heads = list(table[0])
            words = "expected share of the true top k, with its range over data that match your"
            yield Section(
                "Mechanisms that spend the budget, best first",
                heads=heads,
                rows=[list(row.values()) for row in table],
                left=["mechanism"],
                narrow=heads[:4],
                notes=[("Recall", f"{words} description.")],
            )
        yield Section("What was asked", facts=list(self._question()))

    def _answer(self) -> Iterator[tuple[str, str]]:
        planned, expected = self.recommended, self.recommended.expected
        yield "use", planned.in_words()
        if planned.why:
            yield "because", planned.why
        yield (
            "expect",
            (
                f"{expected.in_words(self._top)}; all of them in {share(expected.all_right)} of"
                " releases"
            ),
        )
        count = self.request.k * (1 if self.groups is None else self.groups.count)
        bounds = interval(planned.mechanism, count=count)
        if self.request.counts is not None and bounds is not None:
            yield "counts", f"within {math.ceil(bounds.half_width):,} users; {bounds.words()}"
        cost, limit = format_number(planned.cost, 4), format_number(self.budget.limit)
        delta = f" at delta {format_number(self.budget.delta)}" if self.budget.delta else ""
        yield "cost", f"{self.unit} {cost} of {limit}{delta} for {self.releases_in_words}"
        yield "risk", Risk.from_curve(self.curve).in_words(self.request.sensitivity.relation)

    def _row(self, planned: PlannedMechanism) -> dict[str, str]:
        expected = planned.expected
        return {
            "recall": share(expected.recall),
            "range": f"{share(expected.low)} to {share(expected.high)}",
            "all right": share(expected.all_right),
            "released": amount(expected.released),
            "noise": planned.noise,
            "clip": "-" if planned.clip is None else f"{planned.clip:g}",
        }

    def _question(self) -> Iterator[tuple[str, str]]:
        request, relation = self.request, self.request.sensitivity.relation
        delta = f", delta {format_number(self.budget.delta)}" if self.budget.delta else ""
        yield (
            "budget",
            (
                f"{self.unit} {format_number(self.budget.limit)}{delta}, for all releases together,"
                " charged one by one"
            ),
        )
        if self.payer:
            yield "ledger", self.payer
        yield "relation", f"{relation}: {WORDS[relation]}"
        listed = (
            f"a public list of {request.candidates:,}"
            if request.candidates
            else "unknown: read off the log, so private"
        )
        yield "items", listed
        if (groups := self.groups) is not None:
            shares = "as stated" if groups.shares else f"by Zipf's law ({groups.exponent:g})"
            sizes = f"{groups.count:,} of a public list, sizes {shares}"
            most = groups.max_groups_per_user
            words = (
                "in any number"
                if most is None
                else f"kept in {most:,}: {groups.kept_share:.0%} of the pairs"
            )
            yield "groups", f"{sizes}; a user is in {groups.per_user:g}, {words}"
        yield "profile", self.profile

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the expected recall of every planned mechanism with its range, the best one on top.

        Args:
            ax: axes to draw on; new ones if None.

        Raises:
            MissingExtra: matplotlib is not installed.
        """
        from accounting.plots import new_axes  # a plan without a plot does without

        axes = new_axes() if ax is None else ax
        forecasts = [planned.expected for planned in self.ranked]
        middle, low, high = (
            np.array([getattr(forecast, end) for forecast in forecasts])
            for end in ("recall", "low", "high")
        )
        places = np.arange(len(forecasts))
        axes.barh(places, middle, xerr=np.maximum([middle - low, high - middle], 0), height=0.62)
        axes.set_yticks(places, [planned.name for planned in self.ranked])
        axes.invert_yaxis()
        axes.set(title=self.releases_in_words, xlabel="expected recall", xlim=(0, 1.05))
        return axes

    def as_data(self) -> dict[str, Any]:
        """The plan, which `from_json` reads, and the risk of the recommended mechanism."""
        risk = Risk.from_curve(self.curve).as_data(self.request.sensitivity.relation)
        return {"plan": self.model_dump(mode="json"), "name": self.recommended.name, "risk": risk}

    def to_json(self) -> str:
        """The plan as JSON, for `TopKPlan.from_json`."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The plan with this JSON text from `to_json`.

        Raises:
            InvalidRequest: the text is not JSON, or not a plan.
        """
        try:
            return cls.model_validate(json.loads(text))
        except (ValueError, RecursionError, ValidationError) as error:
            if isinstance(error, InvalidRequest):
                raise
            raise InvalidRequest("the text is not JSON. Pass what TopKPlan.to_json wrote") from None

    def __repr_args__(self) -> Any:
        yield "recommended", self.recommended.name
        yield "recall", round(self.recommended.expected.recall, 2)
        yield "releases", self.request.releases
        yield "k", self.request.k
        yield "budget", self.budget


def plan_releases(
    budget: Budget,
    request: TopKRequest,
    choices: Sequence[Choice],
    profile: Profile,
    *,
    groups: Groups | None = None,
    payer: str = "",
    seed: int = 0,
    draws: int = DRAWS,
) -> TopKPlan:
    """A plan with the cost and the forecast of a few choices, for data with a profile.

    Args:
        budget: budget of all `request.releases` releases together, charged one by one.
        request: public facts about one release.
        choices: the choice of `dpselect.topk`, then those to compare it with.
        profile: description of the data.
        groups: groups with a release each; None for the log as a whole.
        payer: the dataset that will be charged, in words.
        seed: seed of the made-up users and the draws.
        draws: number of simulated releases of each choice.

    Raises:
        InvalidRequest: k items cannot come out of the profile, or it says too little.
    """
    forecaster = Forecaster(profile, request.candidates is not None, groups, seed)
    k = profile.touched if request.k == ALL else request.k
    planned = [
        PlannedMechanism(
            mechanism=choice.mechanism,
            expected=forecaster.forecast(choice, k, draws=draws),
            cost=_cost(budget, choice.mechanism.curve, request.releases),
            max_items_per_user=choice.max_items_per_user,
            clip=choice.clip,
            norm=choice.norm,
            why=choice.why,
        )
        for choice in choices
    ]
    return TopKPlan(
        budget=budget,
        request=request.model_copy(update={"share": None}),
        profile=profile.description,
        items=profile.size,
        groups=groups,
        recommended=planned[0],
        payer=payer,
        compared=tuple(sorted(planned[1:], key=lambda mechanism: -mechanism.expected.recall)),
    )


def _cost(budget: Budget, curve: Curve, releases: int) -> float:
    """Cost of all releases in the unit of the budget's limit, and at most the limit."""
    cost = (
        budget.cost(curve, thorough=True) if releases == 1 else budget.cost_of_each(curve, releases)
    )
    return min(cost, budget.limit)
