"""Will labelling work? What can be said of it before a vote is cast: from public numbers, and from votes that are made up.

`outlook` needs the mechanism and the number of teachers. `predicted` gives the labels and the F1 to expect of votes whose true
labels are known: made up by `simulated`, or cast on public items whose labels are known. Nothing here is random beyond a seed,
nothing is released and nothing is charged.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Annotated, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from accounting.arguments import checked_integer
from accounting.frozen import Count, Frozen, NonNegative, Positive, Real
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import Mechanism
from dpselect.pate.ballots import Ballots, Vote
from dpselect.pate.voting import ConfidentGNMax, GNMax, StableVoting, TauVoting

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

_CELLS = 4_000_000  # votes made up at a time
_FEWEST, _MOST = 20, 400  # items that are made up
_CHOICES = 150  # of one vote per teacher


class PoorOutlook(InvalidRequest):
    """Labels would be noise: see `Outlook.works`."""


@final
@dataclass(frozen=True)
class Outlook:
    """What a mechanism does with the two clearest votes there are. All of it is public: it follows from configuration alone.

    Attributes:
        noise: standard deviation of the noise that decides whether something is released, in votes.
        threshold: what a noisy count has to exceed, in votes; None where counts compete with each other instead.
        unanimous: the chance that a label is released that every teacher votes for, in a round where nobody votes otherwise.
        unvoted: the chance that a given label is released that no teacher votes for, in the same round.
        labels: how many labels there are.
    """

    noise: float
    threshold: float | None
    unanimous: float
    unvoted: float
    labels: int

    @property
    def wrong_labels(self) -> float:
        """Labels an item to expect that no teacher votes for."""
        return (self.labels - 1) * self.unvoted

    @property
    def works(self) -> bool:
        """Whether a unanimous label is released in half of the rounds, by noise of at most half the threshold."""
        return self.unanimous >= 0.5 and (self.threshold is None or self.noise <= self.threshold / 2)

    def __str__(self) -> str:
        against = "" if self.threshold is None else f" against a threshold of {self.threshold:.4g}"
        return (
            f"noise of {self.noise:.3g} votes{against}\n"
            f"a unanimous label is released with probability {self.unanimous:.3g}, one without votes with {self.unvoted:.3g}: "
            f"{self.wrong_labels:.3g} wrong labels an item"
        )


def outlook(mechanism: Mechanism, *, teachers: int) -> Outlook:
    """What `mechanism` does with a unanimous vote of this many teachers. Exact up to quadrature.

    Args:
        mechanism: one of `dpselect.pate`.
        teachers: how many teachers vote, >= 1; a public number.

    Raises:
        InvalidRequest: the mechanism does not count votes, or `teachers` is not an integer >= 1.
        InvalidBallots: the mechanism is configured for another number of teachers.
    """
    teachers = checked_integer("teachers", teachers, "how many teachers vote", error=InvalidRequest)
    settled = _vote(mechanism).with_teachers(teachers)
    counts = np.zeros((1, settled.labels), dtype=np.int64)
    counts[0, 0] = teachers
    chances = settled._chances(counts)[0]
    unvoted = float(chances[1:].mean()) if settled.labels > 1 else 0.0
    return Outlook(*settled._decision(), float(chances[0]), unvoted, settled.labels)


@final
@dataclass(frozen=True)
class Prediction:
    """What to expect of rounds like these, on average over the noise, which is not drawn.

    Attributes:
        labels: released labels an item.
        right: those of them that are true.
        true: labels that are true of an item.
        answered: the share of items with at least one released label, of a mechanism that may stay silent; 1 for another one.
    """

    labels: float
    right: float
    true: float
    answered: float

    @property
    def f1(self) -> float:
        """Micro-F1 of expectations: twice the right labels over those released and those true."""
        together = self.labels + self.true
        return 2 * self.right / together if together else 0.0

    @classmethod
    def of(cls, mechanism: Vote, counts: ArrayLike, true: Flags) -> Self:
        """`predicted` for (rounds, labels) counts that are known to be the mechanism's."""
        chances, items = mechanism._chances(np.asarray(counts, dtype=np.int64)), len(true)
        answered = 1.0
        if isinstance(mechanism, ConfidentGNMax):
            answered = float(chances.sum(axis=1).mean())
        elif isinstance(mechanism, StableVoting):
            answered = float(chances.max(axis=1).mean())
        return cls(float(chances.sum()) / items, float(chances[true].sum()) / items, float(true.sum()) / items, answered)


def predicted(mechanism: Mechanism, ballots: Ballots, truth: ArrayLike) -> Prediction:
    """The labels and the F1 to expect of a mechanism on votes whose true labels are known.

    The answer is as private as the votes are. For planning, make votes up (`simulated`) or use teachers of public data.

    Args:
        mechanism: one of `dpselect.pate`.
        ballots: cut as the mechanism needs it.
        truth: (rounds, labels) whether a label is true of an item.

    Raises:
        InvalidRequest: the mechanism does not count votes, or `truth` has another shape than the counts.
        InvalidBallots: the mechanism's guarantee does not cover the ballots.
    """
    settled = _vote(mechanism)
    ballots.check(settled)
    true = np.asarray(truth, dtype=np.bool_)
    if true.shape != ballots.counts.shape:
        raise InvalidRequest(f"truth has shape {true.shape} and the counts have {ballots.counts.shape}: one row for every round")
    return Prediction.of(settled.with_teachers(ballots.teachers), ballots.counts, true)


@final
class VotesModel(Frozen):
    """Teachers and labels in public numbers, from which votes are made up for planning.

    A true label is voted for by a share of the teachers whose mean is `agreement`; what it is for one item and label follows a
    Beta distribution, because some labels are easier than others. Stray votes are spread over the other labels likewise.

    Args:
        teachers: how many, >= 1.
        labels: how many there are, >= 2.
        votes_per_item: labels that are true of an item on average, from above 0 to `labels`.
        agreement: the share of teachers who vote for a true label, in (0, 1).
        stray_votes: votes of a ballot for labels that are not true, on average; None for 2 (1 - agreement) votes_per_item.
        correlation: of two teachers' votes on one label, in [0, 1); 0 where labels are equally hard; None for .25. Between .09
            and .44 for true labels on five public data sets.
        stray_correlation: the same for labels that are not true; None for `correlation`.
        ballot_spread: variance of the number of votes on a teacher's ballot for an item, relative to independent votes, > 0:
            below 1 where a vote for one label speaks against the others, above 1 where some teachers vote for many; None for 1.
            Between .54 and 1.7 on five public data sets. It decides what `Ballots.cut` takes.
    """

    error_class = InvalidRequest
    teachers: Count = Field(description="an integer >= 1")
    labels: Count = Field(ge=2, description="an integer >= 2")
    votes_per_item: Positive = Field(description="a number above 0, at most the number of labels")
    agreement: Real = Field(gt=0, lt=1, description="a share above 0 and below 1")
    stray_votes: NonNegative | None = Field(default=None, description="a number of votes >= 0, or None")
    correlation: Annotated[Real, Field(ge=0, lt=1)] | None = Field(
        default=None, description="a number from 0 to below 1, or None"
    )
    stray_correlation: Annotated[Real, Field(ge=0, lt=1)] | None = Field(default=None, description="a number from 0 to below 1")
    ballot_spread: Positive | None = Field(default=None, description="a number above 0, or None")

    @property
    def usual_correlation(self) -> float:
        """`correlation`, or .25 where it is not stated."""
        return 0.25 if self.correlation is None else self.correlation

    @property
    def stray_share(self) -> float:
        """The share of teachers who vote for a label that is not true."""
        usual = 2 * (1 - self.agreement) * self.votes_per_item
        votes = usual if self.stray_votes is None else self.stray_votes
        return min(votes / max(self.labels - self.votes_per_item, 1.0), 0.95)


@final
@dataclass(frozen=True)
class TrialVotes:
    """Votes to plan with, and what is true of their items: made up, or cast on items whose labels are known.

    Attributes:
        ballots: of any number of votes each.
        truth: (items, labels) whether a label is true of an item.
        public: your declaration that the teachers learnt from public or made-up records alone: a plan shows figures of these
            votes, and no ledger is charged for them.

    Raises:
        InvalidRequest: `public` is not True.
    """

    ballots: Ballots
    truth: Flags
    public: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.public is not True:
            raise InvalidRequest(
                "a plan shows figures of the votes that it is given, and no ledger is charged for them: where teachers learnt "
                "from public or made-up records alone, declare it (public=True); plan from public numbers otherwise (VotesModel)"
            )

    @classmethod
    def of_choices(cls, model: VotesModel, *, seed: int = 0) -> Self:
        """Votes of teachers who vote once each, where one label is right: for GNMax and ConfidentGNMax."""
        rng = np.random.default_rng(seed)
        right = rng.integers(model.labels, size=_CHOICES)
        truth = np.zeros((_CHOICES, model.labels), dtype=np.bool_)
        truth[np.arange(_CHOICES), right] = True
        agreeing = _shares(rng, model.agreement, model.usual_correlation, (_CHOICES, 1))
        spread = _beta_total(model.usual_correlation) / (model.labels - 1)
        others = np.where(truth, 0.0, rng.gamma(spread, size=truth.shape) + 1e-12)
        chances = np.where(truth, agreeing, (1 - agreeing) * others / others.sum(axis=1, keepdims=True))
        return cls(
            Ballots(rng.multinomial(model.teachers, chances), teachers=model.teachers, missing="allow"), truth, public=True
        )


def simulated(model: VotesModel, *, items: int | None = None, seed: int = 0) -> TrialVotes:
    """Votes as `model` describes them, for planning. The seed makes a plan repeatable; nothing is released.

    Args:
        model: public numbers.
        items: how many rounds, >= 1; None for 20 to 400, fewer where there are many teachers and labels.
        seed: of NumPy's generator.

    Raises:
        InvalidRequest: more labels are true of an item than there are.
    """
    if model.votes_per_item > model.labels:
        raise InvalidRequest(f"votes_per_item={model.votes_per_item:g} is more than labels={model.labels}: give at most that")
    fitting = int(np.clip(_CELLS // (model.teachers * model.labels), _FEWEST, _MOST))
    count = fitting if items is None else checked_integer("items", items, "how many items are made up", error=InvalidRequest)
    rng = np.random.default_rng(seed)
    # (items, labels): every item has the mean number of true labels, rounded up or down at random.
    sizes = math.floor(model.votes_per_item) + (rng.random(count) < model.votes_per_item % 1)
    ranks = np.argsort(rng.random((count, model.labels)), axis=1).argsort(axis=1)
    truth = np.asarray(ranks < sizes[:, None])
    stray = model.usual_correlation if model.stray_correlation is None else model.stray_correlation
    agreeing = _shares(rng, model.agreement, model.usual_correlation, truth.shape)
    shares = np.where(truth, agreeing, _shares(rng, model.stray_share, stray, truth.shape))
    dependence = _dependence(shares, 1.0 if model.ballot_spread is None else model.ballot_spread)
    votes = np.stack([_votes_on(share, model.teachers, dependence, rng) for share in shares])
    return TrialVotes(Ballots(votes, missing="allow"), truth, public=True)


def _dependence(shares: Floats, spread: float) -> float:
    """The share of ballots of dependent votes at which the sizes of all ballots have `spread` times the independent variance:
    below 0 of ballots whose size is fixed up to rounding, above 0 of ballots of which a larger one holds each smaller one.
    """
    independent = float((shares * (1 - shares)).sum())
    if spread <= 1:
        odd = shares.sum(axis=1) % 1
        fixed = float((odd * (1 - odd)).sum())
        return -min(1.0, (1 - spread) * independent / max(independent - fixed, 1e-9))
    # The variance of a sum of nested indicators is the sum of min(p_i, p_j) - p_i p_j.
    places = 2 * np.arange(1, shares.shape[1] + 1) - 1
    nested = float((-np.sort(-shares, axis=1) * places).sum() - (shares.sum(axis=1) ** 2).sum())
    return min(1.0, (spread - 1) * independent / max(nested - independent, 1e-9))


def _votes_on(share: Floats, teachers: int, dependence: float, rng: np.random.Generator) -> Flags:
    """(teachers, labels) votes on one item, each label with its share whatever the dependence within a ballot."""
    votes = rng.random((teachers, len(share))) < share
    dependent = rng.random(teachers) < abs(dependence)
    start = rng.random((int(dependent.sum()), 1))
    if dependence > 0:
        votes[dependent] = start < share
    elif dependence < 0:
        # Systematic sampling: labels lie on a line, each as long as its share, and points one apart hit them.
        votes[dependent] = np.diff(np.floor(np.cumsum(share) - start), axis=1, prepend=np.floor(-start)) > 0
    return np.asarray(votes)


def f1_range(mechanism: Mechanism, model: VotesModel, *, seed: int = 0) -> tuple[float, float]:
    """The least and greatest F1 to expect where what `model` leaves open (None) is as on any of five public data sets.

    Raises:
        InvalidRequest: the mechanism does not count votes, or more labels are true of an item than there are.
    """
    usual = 2 * (1 - model.agreement) * model.votes_per_item
    open_fields: dict[str, tuple[float, ...]] = {
        "stray_votes": (usual / 2, 2 * usual),
        "correlation": (0.09, 0.44),
        "ballot_spread": (0.54, 1.7),
    }
    names = [name for name in open_fields if getattr(model, name) is None]
    found = []
    for values in itertools.product(*(open_fields[name] for name in names)):
        other = model.model_copy(update=dict(zip(names, values, strict=True)))
        chosen = isinstance(mechanism, GNMax | ConfidentGNMax)
        made = TrialVotes.of_choices(other, seed=seed) if chosen else simulated(other, seed=seed)
        ballots = made.ballots.cut(mechanism.tau) if isinstance(mechanism, TauVoting) else made.ballots
        found.append(predicted(mechanism, ballots, made.truth).f1)
    return min(found), max(found)


def _shares(rng: np.random.Generator, mean: float, correlation: float, shape: tuple[int, ...]) -> Floats:
    if mean in (0.0, 1.0) or correlation == 0:
        return np.full(shape, mean)
    total = _beta_total(correlation)
    return rng.beta(mean * total, (1 - mean) * total, size=shape)


def _beta_total(correlation: float) -> float:
    """The two parameters of the Beta distribution together: its variance is mean * (1 - mean) * correlation."""
    return (1 - correlation) / max(correlation, 1e-9)


def _vote(mechanism: Mechanism) -> Vote:
    if not isinstance(mechanism, Vote):
        raise InvalidRequest("a mechanism on votes is needed, pate.GNMax(sigma=40, labels=10) for example")
    return mechanism
