"""Private discovery of a domain, followed by any mechanism for public domains on it."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import Curve
from accounting.frozen import Count
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import AnyMechanism, Mechanism, ShowsValues
from dpselect.mechanisms.release import positions_of, release, sort_positions
from dpselect.mechanisms.traits import Traits
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity
from dpselect.verify.quadrature import mixture

_REASON = "fewer items than requested were discovered"
_ANSWERS = ("top_k", "one_item", "queries")  # the outcome of any other is not an item


@final
class DiscoverThenSelect(Mechanism):
    """A discovery of a domain, followed by a selection within it that may bound users anew.

    The best `candidates` items that `discovery` releases are a public domain for `selection`,
    without their noisy order. Scores with a `SecondLook` are computed anew for them, so that a
    user's items outside of them take no share. Other scores are used again. If fewer items are
    discovered than `selection` needs, they are the release, best first if it would be. Guarantee:
    discovery.curve + selection.curve, Theorem H8, charged at once.

    Args:
        discovery: a mechanism for unknown domains that releases an order, for example
            `SparseHistogram`, that stands around no other.
        selection: a mechanism for public domains that stands around no other.
        candidates: largest number of discovered items that compete, >= 1.
    """

    kind: Literal["discover_then_select"] = "discover_then_select"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=None,
        level=1,
        ordered=lambda mechanism: mechanism.selection.ordered,
        most=lambda mechanism: mechanism.selection.most_released,
        domain="unknown",
        values=lambda mechanism: mechanism.selection.releases_values,
        groups=lambda mechanism: mechanism.discovery.traits.value_of("groups", mechanism.discovery),
        reads=lambda mechanism: mechanism.discovery.traits.value_of("reads", mechanism.discovery),
    )
    discovery: AnyMechanism = Field(
        description="a mechanism for unknown domains that releases an order"
    )
    selection: AnyMechanism = Field(description="a mechanism for public domains")
    candidates: Count = Field(description="an integer >= 1")

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        discovery = self.discovery
        if not (discovery.traits.ranks_counts and discovery.takes_observed and discovery.ordered):
            raise ValueError(
                f"discovery={type(discovery).__name__} must release an order of items of an"
                " unknown domain"
            )
        if self.selection.traits.answers not in _ANSWERS:
            raise ValueError(
                f"selection={type(self.selection).__name__} does not choose among the items that"
                " were discovered"
            )
        if self.discovery.relation != self.selection.relation:
            raise ValueError(
                "discovery and selection have guarantees under different relations. State the"
                " same relation for both"
            )
        most = self.selection.most_candidates
        if self.selection.least_candidates > self.candidates or (
            most is not None and most < self.candidates
        ):
            raise ValueError(
                f"candidates={self.candidates} must be a number of candidates that"
                f" {self.selection!r} accepts"
            )
        return self

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return self.discovery.sensitivity_bound

    @property
    def curve(self) -> Curve:
        return self.discovery.curve + self.selection.curve

    @property
    def shared_group_curve(self) -> Curve:
        first, second = (
            part.shared_group_curve or 2 * part.curve for part in (self.discovery, self.selection)
        )
        return first + second

    @property
    def counts_in_part(self) -> bool:
        return super().counts_in_part or self.selection.counts_in_part

    @property
    def showing(self) -> ShowsValues | None:
        return self.selection.showing

    @property
    def compared(self) -> int:
        return self.candidates

    @property
    def selected_again(self) -> float | None:
        """Norm to which a second look scales users, or None without one.

        It is the norm that the cost of `selection` allows: l1 if the discovery states l1, else l2.
        """
        sensitivity, norm = (
            self.selection.sensitivity_bound,
            "l2" if self.discovery.sensitivity_bound.l1 is None else "l1",
        )
        norm_bound = sensitivity.l1 if norm == "l1" else sensitivity.l2
        if norm_bound is None or sensitivity.relation == "add_remove":
            return norm_bound
        clip = norm_bound / (2.0 if norm == "l1" else math.sqrt(2))  # of one user
        covered = sensitivity.l2_of(None) >= Sensitivity.of_clipped(
            clip, norm, sensitivity.relation
        ).l2_of(None)
        return clip if covered else math.nextafter(clip, 0)

    @property
    def least_candidates(self) -> int:
        return self.discovery.least_candidates

    @property
    def most_candidates(self) -> int | None:
        return self.discovery.most_candidates

    def _check_stated(self) -> None:
        self.discovery._check_stated()
        self.selection._check_stated()

    def _check_scores(self, scores: Scores) -> None:
        self.discovery._check_scores(scores)
        second = scores.sensitivity if scores.second is None else scores.second.sensitivity
        self.selection.sensitivity_bound.require(second)
        self.selection._check_scores(scores.without_second(second))
        if (
            scores.second is None
            and self.selected_again is not None
            and self.selected_again > second.l2_of(None)
        ):
            raise InvalidRequest(
                "the selection's cost is for users who are clipped again, to"
                f" {self.selected_again:g}, within the discovered items, but these scores have"
                " no second pass. Pass Scores(..., second=dpselect.SecondLook(...)), or let"
                " dpselect.topk read the log, which makes the second pass itself"
            )

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        discovered = positions_of(self.discovery._select(scores, source), scores)
        positions = discovered[: self.candidates]
        requested = self.selection.most_released
        if len(positions) < self.selection.least_candidates:
            return release(
                scores,
                positions,
                ordered=self.ordered,
                requested=requested,
                complete=False,
                reason=_REASON,
            )
        items = sort_positions(scores, positions)
        selected = self.selection._select(self._again(scores, items), source)
        best = [items[place] for place in selected.indices]
        result = release(
            scores,
            best,
            ordered=selected.ordered,
            requested=requested,
            complete=selected.complete,
            reason=selected.reason,
        )
        return (
            result
            if selected.values is None
            else result.model_copy(update={"values": selected.values})
        )

    def _again(self, scores: Scores, items: list[int]) -> Scores:
        labels = scores.labels_at(items)
        if scores.second is not None and labels is not None:
            return scores.second.scores(labels)
        return Scores(
            scores.values_at(items), sensitivity=scores.sensitivity, labels=labels, kind=scores.kind
        )

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        positions = self.discovery._select_many(matrix, source).indices[:, : self.candidates]
        domains = np.sort(np.where(positions >= 0, positions, matrix.shape[1]), axis=1)
        result = np.full(
            (len(matrix), self.selection.most_released or matrix.shape[1]), -1, dtype=np.int64
        )
        complete = np.zeros(len(matrix), dtype=np.bool_)
        kinds, kind_of_row = np.unique(domains, axis=0, return_inverse=True)
        for place, kind in enumerate(kinds):
            rows, items = np.flatnonzero(kind_of_row.ravel() == place), kind[kind < matrix.shape[1]]
            chosen = (
                positions[rows] if self.ordered else np.broadcast_to(items, (len(rows), len(items)))
            )
            if len(items) >= self.selection.least_candidates:
                selected = self.selection._select_many(matrix[np.ix_(rows, items)], source)
                chosen = np.where(selected.indices >= 0, items[selected.indices], -1)
                complete[rows] = selected.complete
            width = min(chosen.shape[1], result.shape[1])
            result[rows, :width] = chosen[:, :width]
        return Selections(
            result,
            ordered=self.ordered,
            requested=self.selection.most_released,
            complete=complete,
            reason=_REASON,
        )

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        best = (
            (order[: self.candidates], chance)
            for order, chance in self.discovery._probabilities(scores).items()
        )
        return mixture(
            (chance, self._law(scores, order, sort_positions(scores, list(order))))
            for order, chance in best
        )

    def _law(self, scores: Scores, order: tuple[int, ...], items: list[int]) -> dict[Any, float]:
        if len(items) < self.selection.least_candidates:
            return {order if self.ordered else frozenset(order): 1.0}
        law: dict[Any, float] = {}
        for outcome, chance in self.selection._probabilities(self._again(scores, items)).items():
            places: Any = (outcome,) if isinstance(outcome, int) else outcome
            law[type(places)(items[place] for place in places)] = chance
        return law
