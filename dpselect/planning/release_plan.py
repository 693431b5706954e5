"""`ReleasePlan`: mechanisms that spend a budget, best first, and why others are not among them."""

from __future__ import annotations

import json
from typing import Any, Self, final

from pydantic import Field, ValidationError

from accounting import Budget, Composed, Curve
from accounting.frozen import Count, Positive, Probability, Real
from dpselect.choose.counts import without_counts
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import AnyMechanism, Mechanism
from dpselect.planning.quality import Quality
from dpselect.planning.score_levels import Norm
from dpselect.planning.task import Charged, Criterion, Domain, Groups, Part, Stated
from dpselect.sensitivity import Sensitivity


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
        forecast: least and greatest recall over shapes whose counts scatter around a made-up one, with a flatter head, as in
            public logs; there `fresh_recall` is their mean. None where the shape was not made up.
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

    def _figures(self) -> tuple[str, str, str]:
        """Recall, the chance that all items are right, and the cost, for a table."""
        recall, exact = self.quality.recall.value, self.quality.exact_set.value
        return f"{100 * recall:.4g} %", f"{100 * exact:.4g} %", f"{self.cost:.4g}"


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

        rows = [(place, planned.name, *planned._figures()) for place, planned in enumerate(self.ranked, start=1)]
        asked = "; ".join(f"{part.releases:,} of the top {part.k:,}" for part in self.parts)
        facts = [("budget", budget_in_words(self.budget)), ("releases", asked), ("items", self.domain), ("shape", self.shape)]
        return card("ReleasePlan", facts=facts, heads=["", "mechanism", "recall", "all right", "cost (nats)"], rows=rows)
