"""Mechanisms that turn teachers' votes into labels.

They release one label, one if enough teachers agree, any number of labels, or as many as the votes
make stable.
"""

from __future__ import annotations

import math
from abc import ABC
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import Curve, GaussianDP
from accounting.frozen import Count, Positive, Probability, Real
from accounting.numbers import Integers
from dpselect.errors import InvalidBallots, InvalidRequest
from dpselect.mechanisms.gaps import AnyRegularizer, Rank
from dpselect.mechanisms.noise_curves import centered_gaussian, ratio_up
from dpselect.mechanisms.noisy_max import PeelingTopK, select_winner, winner_probabilities
from dpselect.mechanisms.ranks import blocks, columns, join_rows
from dpselect.mechanisms.release import release
from dpselect.mechanisms.stable_top_k import NOT_PASSED, StableTopK
from dpselect.mechanisms.traits import RHO, SCALE, SIGMA, Traits
from dpselect.noise import noise_of
from dpselect.pate.ballots import Vote
from dpselect.sampling import Sampler
from dpselect.sampling.contest import numbers
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.verify.quadrature import require_enumerable

_GAUSSIAN = noise_of("gaussian")


def _winners(matrix: Numbers, sigma: float, source: Sampler) -> Integers:
    """Draw (rounds, 1) positions of the labels with the largest count + sigma * Z.

    Ties have probability 0.
    """
    return join_rows(source.top_k_rows(block, _GAUSSIAN, sigma, 1) for block in blocks(matrix))


@final
class GNMax(Vote):
    """The label of the largest count + N(0, sigma^2), where every teacher votes for one label.

    Guarantee: GaussianDP(sqrt(2)/sigma) for a record, under either relation, and GaussianDP(sqrt(1
    - 1/labels)/sigma) for a teacher who comes or goes. Theorem P9. After Papernot et al. (2018).
    """

    kind: Literal["gnmax"] = "gnmax"
    traits: ClassVar[Traits] = Traits(
        answers="votes", noise=SIGMA, ordered=True, most=1, domain="public", zeros=True
    )
    one_vote: ClassVar[bool] = True
    sigma: Positive = Field(description="a finite sigma > 0, in votes")

    @property
    def curve(self) -> GaussianDP:
        return centered_gaussian(self.sigma, self.sensitivity_bound, self.labels)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return select_winner(scores, _GAUSSIAN, self.sigma, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        return Selections(_winners(matrix, self.sigma, source), ordered=True, requested=1)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return winner_probabilities(scores, _GAUSSIAN, self.sigma)

    def _decision(self) -> tuple[float, float | None]:
        return self.sigma, None


_CELLS = 1 << 20  # counts held as 64-bit numbers at a time
ABSTAINED = "the largest noisy count did not reach the threshold"


@final
class ConfidentGNMax(Vote):
    """`GNMax` with fresh noise if the largest noisy count exceeds a threshold, otherwise no label.

    The noise of the test is N(0, sigma_threshold^2). Guarantee for a record, under either relation:
    GaussianDP(1/sigma_threshold) + GaussianDP(sqrt(2)/sigma). For a teacher who comes or goes the
    second part is GaussianDP(sqrt(1 - 1/labels)/sigma). Theorem P10. This is the cost of every
    round, answered or not. `cost_of` is the cost of a round that abstained, for a privacy filter
    that charges as it goes. From Papernot et al. (2018).
    """

    kind: Literal["confident_gnmax"] = "confident_gnmax"
    traits: ClassVar[Traits] = Traits(
        answers="votes", noise=SIGMA, ordered=True, most=1, domain="public", zeros=True
    )
    one_vote: ClassVar[bool] = True
    threshold: Real = Field(description="a finite number of votes")
    sigma_threshold: Positive = Field(description="a finite sigma_threshold > 0, in votes")
    sigma: Positive = Field(description="a finite sigma > 0, in votes")

    @property
    def curve(self) -> Curve:
        return self.test_curve + centered_gaussian(self.sigma, self.sensitivity_bound, self.labels)

    @property
    def test_curve(self) -> GaussianDP:
        """Cost of the test, which is the whole cost of a round that abstains."""
        return GaussianDP(mu=ratio_up(1.0, self.sigma_threshold))

    def cost_of(self, selection: Selection) -> Curve:
        """Cost of the round that released `selection`: the test, and the winner if there is one.

        Theorem P10.
        """
        answered = selection.complete and len(selection) == 1
        abstained = not selection.complete and len(selection) == 0 and selection.reason == ABSTAINED
        if selection.requested != 1 or not (answered or abstained):
            raise InvalidRequest("cost_of takes a Selection that this mechanism released")
        return self.curve if selection.complete else self.test_curve

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        highest = scores.values.max(keepdims=True)
        if source.exceeds(highest, _GAUSSIAN, self.sigma_threshold, self.threshold)[0]:
            return select_winner(scores, _GAUSSIAN, self.sigma, source)
        return release(scores, (), ordered=True, requested=1, complete=False, reason=ABSTAINED)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        passed = source.exceeds(matrix.max(axis=1), _GAUSSIAN, self.sigma_threshold, self.threshold)
        labels = np.full((len(matrix), 1), -1, dtype=np.int64)
        if passed.any():
            labels[passed] = _winners(matrix[passed], self.sigma, source)
        return Selections(labels, ordered=True, requested=1, complete=passed, reason=ABSTAINED)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        below = (self.threshold - float(scores.values.max())) / self.sigma_threshold
        winner = winner_probabilities(scores, _GAUSSIAN, self.sigma)
        passes = float(_GAUSSIAN.sf(below))
        return {
            (): float(_GAUSSIAN.cdf(below)),
            **{(label,): passes * chance for label, chance in winner.items()},
        }

    def _decision(self) -> tuple[float, float | None]:
        return self.sigma_threshold, self.threshold


class LevelVote(Vote, ABC):
    """Base class of votes on every label by itself, by a threshold on the noisy count.

    A label is released if its count + N(0, sigma^2) exceeds `threshold`, or half of the teachers.
    The number of teachers is public, and comes from `teachers` or the ballots, because counts alone
    do not show it. If teachers come and go, it is private, and `threshold` must be stated.
    """

    sigma: Positive = Field(description="a finite sigma > 0, in votes")
    threshold: Real | None = Field(
        default=None, description="a finite number of votes, or None for half of the teachers"
    )
    teachers: Count | None = Field(
        default=None, description="the public number of teachers, or None"
    )

    @property
    def curve(self) -> GaussianDP:
        return GaussianDP(mu=ratio_up(self.sensitivity_bound.l2_of(self.labels), self.sigma))

    @model_validator(mode="after")
    def _has_a_public_level(self) -> Self:
        if self.sensitivity_bound.monotone and (
            self.threshold is None or self.teachers is not None
        ):
            raise ValueError(
                "if teachers come and go (unit='teacher' under add_remove), the number of"
                " teachers is private. State threshold= as a public number, and no teachers="
            )
        return self

    def with_teachers(self, teachers: int) -> Self:
        """Return the mechanism with that number of teachers, unless its threshold is stated.

        Raises:
            InvalidBallots: it is configured for another number.
        """
        if self.teachers not in (None, teachers):
            raise InvalidBallots(
                f"the mechanism is configured for teachers={self.teachers}, but the ballots"
                f" have {teachers}. State the same number"
            )
        return (
            self if self.threshold is not None else self.model_copy(update={"teachers": teachers})
        )

    def _check_stated(self) -> None:
        _ = self._level

    @property
    def _level(self) -> float:
        if self.threshold is not None:
            return self.threshold
        if self.teachers is None:
            raise InvalidRequest(
                "counts alone do not show how many teachers voted. Configure threshold= or"
                " teachers=, or pass dpselect.pate.Ballots"
            )
        return self.teachers / 2

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        passed = source.exceeds(scores.dense(), _GAUSSIAN, self.sigma, self._level)
        return release(scores, np.flatnonzero(passed).tolist(), ordered=False, requested=None)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        level = self._level
        passed = (
            source.exceeds(block.ravel(), _GAUSSIAN, self.sigma, level).reshape(block.shape)
            for block in blocks(matrix)
        )
        return Selections(join_rows(map(columns, passed)), ordered=False, requested=None)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        require_enumerable(2.0**scores.size)  # labels are independent
        with np.errstate(over="ignore"):
            below = (self._level - np.asarray(scores.dense(), dtype=np.float64)) / self.sigma
        law: dict[Any, float] = {frozenset(): 1.0}
        for label, (passes, fails) in enumerate(
            zip(_GAUSSIAN.sf(below).tolist(), _GAUSSIAN.cdf(below).tolist(), strict=True)
        ):
            law = {
                **{outcome: chance * fails for outcome, chance in law.items()},
                **{outcome | {label}: chance * passes for outcome, chance in law.items()},
            }
        return law

    def _decision(self) -> tuple[float, float | None]:
        return self.sigma, self._level


@final
class BinaryVoting(LevelVote):
    """Every label whose count + N(0, sigma^2) exceeds a threshold: see `LevelVote`.

    A ballot may hold any number of votes. Guarantee: GaussianDP(sqrt(labels)/sigma) for either unit
    and relation, Theorem P11.
    """

    kind: Literal["binary_voting"] = "binary_voting"
    traits: ClassVar[Traits] = Traits(
        answers="votes", noise=SIGMA, ordered=False, most="labels", domain="public", zeros=True
    )


@final
class TauVoting(LevelVote):
    """A cheaper `BinaryVoting` for ballots of at most `tau` votes each, cut by `Ballots.cut`.

    Guarantee for a record, under either relation: GaussianDP(sqrt(min(2 tau, labels))/sigma). For a
    teacher who comes or goes: GaussianDP(sqrt(min(tau, labels))/sigma). Theorem P12. From Zhu et
    al. (2020), Private-kNN.
    """

    kind: Literal["tau_voting"] = "tau_voting"
    traits: ClassVar[Traits] = Traits(
        answers="votes", noise=SIGMA, ordered=False, most="labels", domain="public", zeros=True
    )
    tau: Count = Field(description="an integer >= 1")

    @property
    def most_votes(self) -> int | None:
        return self.tau


@final
class TopVotes(Vote):
    """The k labels with the largest noisy counts, in order: `PeelingTopK` on ballots.

    The noise is Gumbel noise, with a standard deviation of 1.28 scales. A ballot may hold any
    number of votes. Guarantee: k times BoundedRange(2/scale) for a record, under either relation,
    and k times BoundedRange(1/scale) for a teacher who comes or goes. Theorem P17. The cost depends
    neither on the number of labels nor on that of the votes on a ballot.
    """

    kind: Literal["top_votes"] = "top_votes"
    traits: ClassVar[Traits] = Traits(
        answers="votes", noise=SCALE, ordered=True, most="k", domain="public", zeros=True
    )
    k: Count = Field(description="an integer from 1 to labels")
    scale: Positive = Field(description="a finite scale > 0, in votes")

    @model_validator(mode="after")
    def _has_so_many_labels(self) -> Self:
        if self.k > self.labels:
            raise ValueError(f"k={self.k} is more than labels={self.labels}. Ask for fewer")
        return self

    @property
    def peeling(self) -> PeelingTopK:
        """The mechanism that selects the labels."""
        return PeelingTopK(
            k=self.k, noise="gumbel", scale=self.scale, sensitivity=self.sensitivity_bound
        )

    @property
    def curve(self) -> Curve:
        return self.peeling.curve

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return self.peeling._select(scores, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        parts = [self.peeling._select_many(block, source) for block in blocks(matrix, _CELLS)]
        return Selections(join_rows(part.indices for part in parts), ordered=True, requested=self.k)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return self.peeling._probabilities(scores)

    def _decision(self) -> tuple[float, float | None]:
        return self.scale * math.pi / math.sqrt(6), None


@final
class StableVoting(Vote):
    """The labels above a wide gap in the votes, or nothing: `StableTopK` on ballots.

    The number of labels is chosen for every item. A ballot may hold any number of votes and need
    not be cut. Guarantee: Approximate(BoundedRange(2 sqrt(rho)) + GaussianDP(sqrt(rho)),
    failure_delta) a round, for either unit and relation, Theorem P15. The cost depends neither on
    the number of labels nor on that of the votes on a ballot. From Zhu and Wang (2022), with the
    constants of replaced ballots.

    Args:
        failure_delta: probability, in one round, that labels pass that a ballot could change.
        kbar: the most labels that an item may get; None for `labels`.
        regularizer: public preference for some numbers of labels: an array of at least kbar
            numbers, `TargetSize`, or None.
    """

    kind: Literal["stable_voting"] = "stable_voting"
    traits: ClassVar[Traits] = Traits(
        answers="votes",
        noise=RHO,
        failure="failure_delta",
        ordered=False,
        most=lambda vote: vote.labels if vote.kbar is None else vote.kbar,
        domain="public",
        zeros=True,
    )
    rho: Positive = Field(description="a finite rho > 0, in nats")
    failure_delta: Probability = Field(description="a probability in (0, 1)")
    labels: Rank = Field(description="the public number of labels, from 1 to 10,000,000")
    kbar: Count | None = Field(default=None, description="an integer from 1 to labels, or None")
    regularizer: AnyRegularizer | None = Field(
        default=None, description="a public array, a TargetSize, or None"
    )

    @model_validator(mode="after")
    def _has_so_many_labels(self) -> Self:
        if self.kbar is not None and self.kbar > self.labels:
            raise ValueError(
                f"kbar={self.kbar} is more than labels={self.labels}. Leave it out for all of them"
            )
        _ = self.stable  # its own rules, the length of the regularizer among them
        return self

    @property
    def stable(self) -> StableTopK:
        """The mechanism that selects the labels. Plan with its `expected_size` and `rule`."""
        return StableTopK(
            rho=self.rho,
            failure_delta=self.failure_delta,
            kbar=self.labels if self.kbar is None else self.kbar,
            regularizer=self.regularizer,
            relation="add_remove" if self.sensitivity_bound.monotone else "replace_one",
        )

    @property
    def curve(self) -> Curve:
        return self.stable.curve

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return self.stable._select(scores, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        stable = self.stable
        parts = [stable._select_many(numbers(block), source) for block in blocks(matrix, _CELLS)]
        indices, complete = (
            join_rows(part.indices for part in parts),
            np.concatenate([part.complete for part in parts]),
        )
        return Selections(
            indices, ordered=False, requested=None, complete=complete, reason=NOT_PASSED
        )

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return self.stable._probabilities(scores)

    def _decision(self) -> tuple[float, float | None]:
        rule = self.stable.rule
        return rule.scale, rule.least_gap(0.5)
