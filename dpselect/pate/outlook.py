"""What to expect of a labelling job before a vote is cast: what its noise does to the clearest votes, its F1 on votes that are
made up or were declared public, and whether naming the most frequent labels would be better.

Forecasts are a mechanism's own draws, with fixed seeds: nothing is released or charged, and a question has one answer.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from accounting.arguments import checked_integer
from accounting.frozen import Count, Frozen, NonNegative, Positive, Real
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import Mechanism
from dpselect.pate.ballots import Ballots, Vote
from dpselect.pate.voting import TauVoting

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

_CELLS = 4_000_000  # votes made up at a time
_FEWEST, _MOST = 20, 400  # items that are made up
_CHOICES = 150  # of one vote per teacher
_CLEAR = 4_000  # rounds of unanimous votes that an outlook draws, at most
_DRAWN = 1_000_000  # counts that a forecast draws, about
_REPEATS = 20  # of every round, at most


class PoorOutlook(InvalidRequest):
    """Labels would be noise, or worse than naming the most frequent ones."""


# -- the clearest votes ----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Outlook:
    """What a mechanism does with the two clearest votes there are. All of it is public: it follows from configuration alone.

    Attributes:
        noise: standard deviation of the noise that decides whether something is released, in votes.
        threshold: what a noisy count has to exceed, in votes; None where counts compete with each other instead.
        unanimous: how often a label is released that every teacher votes for, in a round where nobody votes otherwise; of as many
            such labels as a round always gets.
        unvoted: how often a given label is released that no teacher votes for, in the same round.
        others: how many labels there are that no teacher votes for.
    """

    noise: float
    threshold: float | None
    unanimous: float
    unvoted: float
    others: int

    @property
    def wrong_labels(self) -> float:
        """Labels an item to expect that no teacher votes for."""
        return self.others * self.unvoted

    @property
    def works(self) -> bool:
        """Whether a unanimous label is released in half of the rounds, by noise of at most half the threshold."""
        return self.unanimous >= 0.5 and (self.threshold is None or self.noise <= self.threshold / 2)

    def __str__(self) -> str:
        against = "" if self.threshold is None else f" against a threshold of {self.threshold:.4g}"
        return (
            f"noise of {self.noise:.3g} votes{against}\n"
            f"a unanimous label is released with probability {self.unanimous:.2g}, one without votes with {self.unvoted:.2g}: "
            f"{self.wrong_labels:.2g} wrong labels an item"
        )


def outlook(mechanism: Mechanism, *, teachers: int) -> Outlook:
    """What `mechanism` does with a unanimous vote of this many teachers, by 1,000 to 4,000 seeded draws.

    Args:
        mechanism: one of `dpselect.pate`.
        teachers: how many teachers vote, >= 1; a public number.

    Raises:
        InvalidRequest: the mechanism does not count votes, or `teachers` is not an integer >= 1.
        InvalidBallots: the mechanism is configured for another number of teachers.
    """
    teachers = checked_integer("teachers", teachers, "how many teachers vote", error=InvalidRequest)
    settled = _vote(mechanism).with_teachers(teachers)
    rounds = int(np.clip(_DRAWN // settled.labels, _CLEAR // 4, _CLEAR))
    clear = (settled.most_released or 1) if settled.ordered else 1
    counts = np.zeros((rounds, settled.labels), dtype=np.int64)
    counts[:, :clear] = teachers
    released = settled.select_many(counts, rng=np.random.default_rng(0)).indices
    others = settled.labels - clear
    unanimous = int(((released >= 0) & (released < clear)).sum()) / (rounds * clear)
    unvoted = int((released >= clear).sum()) / (rounds * others) if others else 0.0
    return Outlook(*settled._decision(), unanimous, unvoted, others)


# -- votes to forecast with ------------------------------------------------------------------------------------------------


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
        label_skew: how much more often some labels are true than others: the exponent of Zipf's law, >= 0, 0 for all alike; None
            for .75. Between 0 and 1.2 on six public data sets. It decides what naming the most frequent labels is worth.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
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
    label_skew: NonNegative | None = Field(default=None, description="a number >= 0, or None")

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

    def truth(self, items: int, size: float, rng: np.random.Generator) -> Flags:
        """(items, labels) which labels are true, `size` of them an item, rounded up or down at random."""
        sizes = math.floor(size) + (rng.random(items) < size % 1)
        skew = 0.75 if self.label_skew is None else self.label_skew
        keys = rng.gumbel(size=(items, self.labels)) - skew * np.log(np.arange(1, self.labels + 1))
        return np.asarray(np.argsort(-keys, axis=1).argsort(axis=1) < sizes[:, None])


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
        InvalidRequest: `public` is not True, or `truth` has another shape than the counts.
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
        truth = np.asarray(self.truth, dtype=np.bool_)
        if truth.shape != self.ballots.counts.shape:
            raise InvalidRequest(
                f"truth has shape {truth.shape} and the counts {self.ballots.counts.shape}: one row for every round"
            )
        object.__setattr__(self, "truth", truth)

    @classmethod
    def of_choices(cls, model: VotesModel, *, seed: int = 0) -> Self:
        """Votes of teachers who vote once each, where one label is right: for GNMax and ConfidentGNMax."""
        rng = np.random.default_rng(seed)
        truth = model.truth(_CHOICES, 1, rng)
        agreeing = _shares(rng, model.agreement, model.usual_correlation, (_CHOICES, 1))
        spread = _beta_total(model.usual_correlation) / (model.labels - 1)
        others = np.where(truth, 0.0, rng.gamma(spread, size=truth.shape) + 1e-12)
        chances = np.where(truth, agreeing, (1 - agreeing) * others / others.sum(axis=1, keepdims=True))
        return cls(
            Ballots(rng.multinomial(model.teachers, chances), teachers=model.teachers, missing="allow"), truth, public=True
        )

    @property
    def constant(self) -> tuple[float, int]:
        """Micro-F1 of naming the same labels for every item, the most frequent ones, and how many of them are best."""
        frequencies = np.sort(self.truth.mean(axis=0))[::-1]
        named = np.arange(1, len(frequencies) + 1)
        f1 = 2 * np.cumsum(frequencies) / (named + frequencies.sum())
        return float(f1.max()), int(f1.argmax()) + 1

    def for_votes_of(self, mechanism: Mechanism) -> Ballots:
        """The ballots as `mechanism` takes them: cut where it is for few votes."""
        return self.ballots.cut(mechanism.tau) if isinstance(mechanism, TauVoting) else self.ballots


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
    truth = model.truth(count, model.votes_per_item, rng)
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


def _shares(rng: np.random.Generator, mean: float, correlation: float, shape: tuple[int, ...]) -> Floats:
    if mean in (0.0, 1.0) or correlation == 0:
        return np.full(shape, mean)
    total = _beta_total(correlation)
    return rng.beta(mean * total, (1 - mean) * total, size=shape)


def _beta_total(correlation: float) -> float:
    """The two parameters of the Beta distribution together: its variance is mean * (1 - mean) * correlation."""
    return (1 - correlation) / max(correlation, 1e-9)


# -- a forecast ------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Prediction:
    """What to expect of rounds like these, by seeded draws.

    Attributes:
        labels: released labels an item.
        right: those of them that are true.
        true: labels that are true of an item.
        answered: the share of items that got an answer, of a mechanism that may stay silent; 1 for another one.
    """

    labels: float
    right: float
    true: float
    answered: float

    @property
    def f1(self) -> float:
        """Micro-F1: twice the right labels over those released and those true."""
        together = self.labels + self.true
        return 2 * self.right / together if together else 0.0

    @classmethod
    def of(cls, mechanism: Vote, ballots: Ballots, truth: Flags, *, seed: int = 0, counts: int = _DRAWN) -> Self:
        """`predicted` for ballots that are known to be the mechanism's, drawing about so many `counts`."""
        repeats = int(np.clip(counts // truth.size, 1, _REPEATS))
        drawn = mechanism.select_many(np.tile(ballots.counts.astype(np.int64), (repeats, 1)), rng=np.random.default_rng(seed))
        rows, places = np.nonzero(drawn.indices >= 0)
        rounds = len(drawn.indices)
        right = int(truth[rows % len(truth), drawn.indices[rows, places]].sum())
        return cls(len(rows) / rounds, right / rounds, float(truth.sum()) / len(truth), float(np.mean(drawn.complete)))


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
    return Prediction.of(settled.with_teachers(ballots.teachers), ballots, true)


def trial_of(profile: VotesModel | TrialVotes, mechanism: type[Mechanism] | Mechanism, *, seed: int = 0) -> TrialVotes:
    """Votes on which a mechanism can be tried: the given ones, or made up, of one vote each where it needs that."""
    if isinstance(profile, TrialVotes):
        return profile
    one_vote = bool(getattr(mechanism, "one_vote", False))
    return TrialVotes.of_choices(profile, seed=seed) if one_vote else simulated(profile, seed=seed)


def require_better_than_constant(mechanism: Vote, profile: VotesModel | TrialVotes) -> None:
    """Raise PoorOutlook where naming the most frequent labels for every item would have a higher F1. Nothing private is read.

    Args:
        profile: public numbers, or votes that were declared public; never the votes to be labelled.

    Raises:
        PoorOutlook: the job is worse than that constant.
        InvalidRequest: the profile has another number of labels or teachers than the mechanism.
    """
    trial = trial_of(profile, mechanism)
    found = predicted(mechanism, trial.for_votes_of(mechanism), trial.truth)
    constant, named = trial.constant
    if found.f1 < constant:
        labels = "label" if named == 1 else f"{named} labels"
        raise PoorOutlook(
            f"on such votes the labels would have a micro-F1 of {found.f1:.2f}, and naming the most frequent {labels} for every "
            f"item has {constant:.2f}, for no privacy at all: plan fewer rounds, more teachers or a larger budget, or say anyway"
        )


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
        made = trial_of(model.model_copy(update=dict(zip(names, values, strict=True))), mechanism, seed=seed)
        found.append(predicted(mechanism, made.for_votes_of(mechanism), made.truth).f1)
    return min(found), max(found)


def _vote(mechanism: Mechanism) -> Vote:
    if not isinstance(mechanism, Vote):
        raise InvalidRequest("a mechanism on votes is needed, pate.GNMax(sigma=40, labels=10) for example")
    return mechanism
