"""Labelling jobs before a vote is cast: the noise and the rounds of a budget, what to expect of them, and what to label with.

Forecasts are a mechanism's own draws, with fixed seeds, on votes that are made up from public numbers or were declared public:
nothing is released or charged. `plan_votes` prices noise by zCDP, in milliseconds: for Gaussian noise that is exact, for the
other kinds a little more noise than `fitted` finds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

import accounting as acc
from accounting.arguments import checked_integer
from accounting.budget import checked_budget
from accounting.convert.adaptive_composition import adaptive_composition
from accounting.convert.pld.compose import composable, pld_epsilon
from accounting.convert.renyi import check_delta, invert_profile, rdp_to_epsilon
from accounting.frozen import Count, Frozen, NonNegative, Positive, Real
from accounting.risk import Risk
from dpselect.errors import InvalidBallots, InvalidRequest
from dpselect.mechanisms.base import Mechanism, members
from dpselect.noise import by_name
from dpselect.pate.ballots import Ballots, Vote
from dpselect.pate.voting import BinaryVoting, ConfidentGNMax, GNMax, StableVoting, TauVoting, TopVotes
from dpselect.plan.fit import calibrated, knob_of
from dpselect.plan.plan import Chart, Key, Line, Plan, Point, Section
from dpselect.spec.label_spec import Voting

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

CLASSES: Final[dict[Voting, type[Vote]]] = {
    "gnmax": GNMax,
    "confident": ConfidentGNMax,
    "binary": BinaryVoting,
    "tau": TauVoting,
    "top": TopVotes,
    "stable": StableVoting,
}
"""By what `dpselect pate --mechanism` calls them."""

SHORT: Final = {member: name for name, member in CLASSES.items()}
HEADS: Final = ("Mechanism", "F1", "Labels an item", "Right", "Noise", "Threshold", "tau, k")

_CELLS = 4_000_000  # votes made up at a time
_FEWEST, _MOST = 20, 400  # items that are made up
_CHOICES = 150  # of one vote per teacher
_CLEAR = 4_000  # rounds of unanimous votes that an outlook draws, at most
_DRAWN = 1_000_000  # counts that a forecast draws, about
_SCREENED = 200_000  # to compare settings; the best are drawn anew, so that a lucky draw is not reported
_REPEATS = 20  # of every round, at most

# Shares of delta tried for the rounds' chances of failure; the threshold moves with their logarithm only.
_SHARES = (0.9, 0.75, 0.5, 0.35, 0.25, 0.1, 0.03)
_SAFE = 1 - 1e-12  # so that a share divided by the rounds and multiplied by them again does not exceed it
_STEPS = 12  # refinements of the adaptive calibration, at most
_CLOSE = 1e-3  # relative width of epsilon at which it stops

_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)  # tried, as shares of the teachers
_CONFIDENT_THRESHOLDS = (0.2, 0.35, 0.5)
_ROUNDS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_GOOD = 0.9  # of the F1 of ten rounds: as many rounds as keep it are recommended


class PoorOutlook(InvalidRequest):
    """Labels would be noise, or worse than naming the most frequent ones."""


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
        object.__setattr__(self, "truth", _true(self.truth, self.ballots))

    @property
    def constant(self) -> tuple[float, int]:
        """Micro-F1 of naming the same labels for every item, the most frequent ones, and how many of them are best."""
        frequencies = np.sort(self.truth.mean(axis=0))[::-1]
        named = np.arange(1, len(frequencies) + 1)
        f1 = 2 * np.cumsum(frequencies) / (named + frequencies.sum())
        return float(f1.max()), int(f1.argmax()) + 1


def _true(truth: ArrayLike, ballots: Ballots) -> Flags:
    found = np.asarray(truth, dtype=np.bool_)
    if found.shape != ballots.counts.shape:
        raise InvalidRequest(f"truth has shape {found.shape} and the counts {ballots.counts.shape}: one row for every round")
    return found


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
    agreeing = _shares(rng, model.agreement, model.correlation, truth.shape)
    usual = 2 * (1 - model.agreement) * model.votes_per_item
    votes = usual if model.stray_votes is None else model.stray_votes
    stray = min(votes / max(model.labels - model.votes_per_item, 1.0), 0.95)
    correlation = model.correlation if model.stray_correlation is None else model.stray_correlation
    shares = np.where(truth, agreeing, _shares(rng, stray, correlation, truth.shape))
    dependence = _dependence(shares, 1.0 if model.ballot_spread is None else model.ballot_spread)
    cast = np.stack([_votes_on(share, model.teachers, dependence, rng) for share in shares])
    return TrialVotes(Ballots(cast, missing="allow"), truth, public=True)


def _of_choices(model: VotesModel, seed: int) -> TrialVotes:
    """Votes of teachers who vote once each, where one label is right: for GNMax and ConfidentGNMax."""
    rng = np.random.default_rng(seed)
    truth = model.truth(_CHOICES, 1, rng)
    agreeing = _shares(rng, model.agreement, model.correlation, (_CHOICES, 1))
    others = np.where(truth, 0.0, rng.gamma(_beta_total(model.correlation) / (model.labels - 1), size=truth.shape) + 1e-12)
    chances = np.where(truth, agreeing, (1 - agreeing) * others / others.sum(axis=1, keepdims=True))
    counts = rng.multinomial(model.teachers, chances)
    return TrialVotes(Ballots(counts, teachers=model.teachers, missing="allow"), truth, public=True)


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


def _shares(rng: np.random.Generator, mean: float, correlation: float | None, shape: tuple[int, ...]) -> Floats:
    if mean in (0.0, 1.0) or correlation == 0:
        return np.full(shape, mean)
    total = _beta_total(correlation)
    return rng.beta(mean * total, (1 - mean) * total, size=shape)


def _beta_total(correlation: float | None) -> float:
    """The two parameters of the Beta distribution together: its variance is mean * (1 - mean) * correlation."""
    stated = 0.25 if correlation is None else correlation
    return (1 - stated) / max(stated, 1e-9)


# -- what a mechanism makes of votes ---------------------------------------------------------------------------------------


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

    def as_data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "noise": self.noise,
            "threshold": self.threshold,
            "unanimous_label": self.unanimous,
            "label_without_votes": self.unvoted,
            "wrong_labels_an_item": self.wrong_labels,
            "works": self.works,
        }

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
    _require(mechanism, Vote)
    settled = cast(Vote, mechanism).with_teachers(teachers)
    rounds = int(np.clip(_DRAWN // settled.labels, _CLEAR // 4, _CLEAR))
    clear = (settled.most_released or 1) if settled.ordered else 1
    counts = np.zeros((rounds, settled.labels), dtype=np.int64)
    counts[:, :clear] = teachers
    released = settled.select_many(counts, rng=np.random.default_rng(0)).indices
    others = settled.labels - clear
    unanimous = int(((released >= 0) & (released < clear)).sum()) / (rounds * clear)
    unvoted = int((released >= clear).sum()) / (rounds * others) if others else 0.0
    return Outlook(*settled._decision(), unanimous, unvoted, others)


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


def predicted(mechanism: Mechanism, ballots: Ballots, truth: ArrayLike, *, seed: int = 0, counts: int = _DRAWN) -> Prediction:
    """The labels and the F1 to expect of a mechanism on votes whose true labels are known.

    The answer is as private as the votes are. For planning, make votes up (`simulated`) or use teachers of public data.

    Args:
        mechanism: one of `dpselect.pate`.
        ballots: cut as the mechanism needs it.
        truth: (rounds, labels) whether a label is true of an item.
        seed: of the draws.
        counts: about how many noisy counts are drawn.

    Raises:
        InvalidRequest: the mechanism does not count votes, or `truth` has another shape than the counts.
        InvalidBallots: the mechanism's guarantee does not cover the ballots.
    """
    _require(mechanism, Vote)
    ballots.check(mechanism)
    true = _true(truth, ballots)
    repeats = int(np.clip(counts // true.size, 1, _REPEATS))
    tiled = np.tile(ballots.counts.astype(np.int64), (repeats, 1))
    drawn = ballots.settled(mechanism).select_many(tiled, rng=np.random.default_rng(seed))
    rows, places = np.nonzero(drawn.indices >= 0)
    rounds = len(tiled)
    right = int(true[rows % len(true), drawn.indices[rows, places]].sum())
    return Prediction(len(rows) / rounds, right / rounds, float(true.sum()) / len(true), float(np.mean(drawn.complete)))


def _on_trial(mechanism: Vote, profile: VotesModel | TrialVotes, seed: int = 0) -> tuple[Prediction, TrialVotes]:
    """What to expect of a mechanism on votes of such a profile, made up as it takes them where only numbers are given."""
    if isinstance(profile, TrialVotes):
        trial = profile
    else:
        trial = _of_choices(profile, seed) if mechanism.one_vote else simulated(profile, seed=seed)
    ballots = trial.ballots.cut(mechanism.tau) if isinstance(mechanism, TauVoting) else trial.ballots
    return predicted(mechanism, ballots, trial.truth), trial


def require_better_than_constant(mechanism: Vote, profile: VotesModel | TrialVotes) -> None:
    """Raise PoorOutlook where naming the most frequent labels for every item would have a higher F1. Nothing private is read.

    Args:
        profile: public numbers, or votes that were declared public; never the votes to be labelled.

    Raises:
        PoorOutlook: the job is worse than that constant.
        InvalidRequest: the profile has another number of labels or teachers than the mechanism.
    """
    found, trial = _on_trial(mechanism, profile)
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
    _require(mechanism, Vote)
    usual = 2 * (1 - model.agreement) * model.votes_per_item
    seen = {"stray_votes": (usual / 2, 2 * usual), "correlation": (0.09, 0.44), "ballot_spread": (0.54, 1.7)}
    names = [name for name in seen if getattr(model, name) is None]
    found = []
    for values in itertools.product(*(seen[name] for name in names)):
        stated = model.model_copy(update=dict(zip(names, values, strict=True)))
        found.append(_on_trial(cast(Vote, mechanism), stated, seed)[0].f1)
    return min(found), max(found)


# -- from a budget to noise and to rounds ----------------------------------------------------------------------------------


def fitted(
    member: type[Vote] | str,
    budget: acc.Budget,
    *,
    rounds: int = 600,
    ratio: float | None = None,
    adaptive: bool = False,
    teachers: int | None = None,
    profile: VotesModel | TrialVotes | None = None,
    anyway: bool = False,
    **settings: Any,
) -> Vote:
    """The mechanism of this package with the least noise for its rounds, fixed in advance: "label 600 items at (2, 1e-6)".

    The noise is `sigma`, for TopVotes `scale`, for StableVoting `rho`. ConfidentGNMax takes sigma_threshold = ratio * sigma
    unless that is among the settings. StableVoting has the rounds' failures and the conversion share the budget's delta: of a few
    splits the one is kept that lets the narrowest gaps pass, unless failure_delta (of one round) is among the settings. Nothing
    but configuration is looked at. With `teachers`, a budget that leaves little but noise is refused; with a `profile`, labels
    that are worse than naming the most frequent ones for every item.

    Args:
        member: a class, or its kind or name.
        budget: what all rounds may cost together.
        rounds: how many rounds, >= 1.
        ratio: of the two noises of ConfidentGNMax; None for 2.
        adaptive: whether StableVoting is priced by the adaptive programme in the true order of its steps, which takes seconds to
            minutes and saves a little noise. A ledger prices for any order, a little more than `budget`, and refuses such a plan.
        teachers: how many teachers vote, which is public; None where it is not known yet.
        profile: public numbers of such votes, or votes that were declared public; None for no comparison. Never the votes that
            are to be labelled.
        anyway: whether a mechanism is returned whose outlook is poor.
        settings: the mechanism's other fields, labels=22 for example. Not the noise, which is what is sought.

    Raises:
        CalibrationError: no amount of noise fits the budget.
        PoorOutlook: noise exceeds half the threshold, a unanimous label is released in less than half of the rounds, or naming
            the most frequent labels is better.
        InvalidRequest: the mechanism is unknown, adaptive=True for another one than StableVoting or another budget than
            (epsilon, delta), a budget without delta for a mechanism that can fail, or the noise is among the settings.
        InvalidMechanism: the settings are not fields of the mechanism, or are outside their domain.
    """
    votes = {name: known for name, known in members().items() if issubclass(known, Vote)}
    kind = next((known for name, known in votes.items() if member in (name, known.__name__, known)), None)
    if kind is None:
        raise InvalidRequest(f"unknown vote {str(member)[:40]!r}: choose one of {', '.join(sorted(votes))}")
    budget, rounds = checked_budget(budget), _checked(rounds)
    knob = knob_of(kind)
    if knob.field in settings:
        raise InvalidRequest(f"{knob.field} is what fitted finds for the budget: leave it out, or make {kind.__name__} with it")
    if ratio is not None and (kind is not ConfidentGNMax or "sigma_threshold" in settings):
        raise InvalidRequest(f"ratio={ratio!r} is for ConfidentGNMax without a sigma_threshold: leave it out")
    if adaptive and (kind is not StableVoting or budget.form != "approximate"):
        raise InvalidRequest(
            "adaptive=True finds an epsilon of StableVoting at a delta: give the budget as Budget(epsilon=, delta=), and leave "
            "it out for the other mechanisms, which have an exact composition already"
        )
    given = dict(settings)
    if teachers is not None and "teachers" in kind.model_fields:
        given["teachers"] = teachers
    if kind is StableVoting:
        given.setdefault("failure_delta", _failure(budget, rounds))
    elif kind is ConfidentGNMax:
        ratio = 2.0 if ratio is None else ratio

    def family(noise: float) -> Mechanism:
        return kind.model_validate({**({} if ratio is None else {"sigma_threshold": ratio * noise}), **given, knob.field: noise})

    found = cast(Vote, calibrated(family, budget, knob.bracket(1.0), releases=rounds))
    if adaptive:
        found = _sharpened(cast(StableVoting, found), budget, rounds)
    if teachers is not None and not anyway and not (expected := outlook(found, teachers=teachers)).works:
        raise PoorOutlook(
            f"this budget leaves little but noise for {rounds} rounds and {teachers} teachers: plan fewer rounds, more teachers "
            f"or a larger budget, or say anyway=True.\n{expected}"
        )
    if profile is not None and not anyway:
        require_better_than_constant(found, profile)
    return found


def rounds_for(mechanism: Mechanism, budget: acc.Budget) -> int:
    """How many rounds of `mechanism` the budget pays for, as one plan that is fixed in advance; 0 if not even one.

    `Budget.how_many` is less: it counts charges that may be chosen after earlier answers, each rounded up at the filter's one
    order, while a plan is priced as a whole by whichever accounting is tightest. `dpselect.Session.affordable` answers for what
    is left of a ledger's budget, both ways.

    Raises:
        CalibrationError: the budget admits any number.
        InvalidRequest: `mechanism` is not a Mechanism.
    """
    _require(mechanism, Mechanism)
    return acc.calibration.calibrate_count(mechanism.curve, budget)


@final
@dataclass(frozen=True)
class Prices:
    """Epsilon (nats) of some rounds at `delta`, by each accounting; all of them are proved. None where one does not apply.

    Attributes:
        rounds: how many.
        delta: at which.
        rdp: by Renyi divergence and its conversion.
        pld: by the privacy loss distribution; the exact profile where all noise is Gaussian.
        adaptive: by the adaptive programme, for StableVoting.
        best: the least of these.
    """

    rounds: int
    delta: float
    rdp: float
    pld: float | None
    adaptive: float | None
    best: float


def prices(mechanism: Mechanism, delta: float, *, rounds: int = 600, adaptive: bool = True) -> Prices:
    """What `rounds` rounds cost at `delta`, by every accounting that applies.

    Args:
        mechanism: any.
        delta: in [0, 1).
        rounds: how many, >= 1; a plan that is fixed in advance.
        adaptive: whether to run the adaptive programme for StableVoting, which takes seconds.

    Raises:
        InvalidRequest: rounds is not an integer >= 1, or `mechanism` is not a Mechanism.
    """
    rounds, delta = _checked(rounds), check_delta(delta)
    _require(mechanism, Mechanism)
    plan = rounds * mechanism.curve
    left = math.nextafter(delta - plan.delta0, 0.0) if plan.delta0 else delta
    if left <= 0:
        return Prices(rounds, delta, math.inf, None, None, plan.epsilon(delta))
    exact = programme = None
    if plan.profile(0.0) is not None:
        exact = invert_profile(lambda epsilon: 1.0 if (value := plan.profile(epsilon)) is None else value, delta)
    elif (losses := plan.losses()) is not None and composable(losses):
        exact = pld_epsilon(losses, delta)
    if adaptive and isinstance(mechanism, StableVoting):
        programme = adaptive_epsilon(mechanism, delta, rounds)
    best = min(plan.epsilon(delta), math.inf if programme is None else programme)
    return Prices(rounds, delta, rdp_to_epsilon(plan.rdp, left, plan.table_orders).value, exact, programme, best)


def adaptive_epsilon(mechanism: StableVoting, delta: float, rounds: int) -> float:
    """Epsilon of the rounds by the adaptive programme, choice before test in each. Theorem P16."""
    choice = acc.Approximate(curve=acc.BoundedRange(epsilon=2 * math.sqrt(mechanism.rho)), delta0=mechanism.failure_delta)
    test = acc.GaussianDP(mu=math.sqrt(mechanism.rho))
    return adaptive_composition([choice, test] * _checked(rounds), delta)


def _sharpened(start: StableVoting, budget: acc.Budget, rounds: int) -> StableVoting:
    """The same with the greatest rho whose rounds fit the budget by the adaptive programme, or `start` if that is not larger."""
    best, cost, power = start, adaptive_epsilon(start, budget.delta, rounds), 1.8
    for _ in range(_STEPS):
        if cost >= budget.limit * (1 - _CLOSE):
            break
        # Epsilon grows about as the square root of rho.
        candidate = best.model_copy(update={"rho": best.rho * (budget.limit / cost) ** power})
        price = adaptive_epsilon(candidate, budget.delta, rounds)
        if price <= budget.limit:
            best, cost = candidate, price
        else:
            power /= 2
    return best


def _failure(budget: acc.Budget, rounds: int) -> float:
    """A round's chance of failure: the share of delta at which the stability test asks for the narrowest gap.

    Decided by zCDP, which is quick. It does not affect privacy: the mechanism is calibrated with it afterwards.
    """
    if budget.delta == 0:
        raise InvalidRequest("StableVoting can fail, so its budget needs a delta: the chance of that. Give a delta in (0, 1)")
    # A zCDP budget converts nothing: all of its delta is there for failures.
    chances = [share * budget.delta / rounds * _SAFE for share in ((1.0,) if budget.form == "zcdp" else _SHARES)]

    def gap(chance: float) -> float:
        """About how wide a gap has to be to pass, up to a factor; inf where the budget pays for no test."""
        rho = _rho(budget, rounds * chance)
        return float(by_name("gaussian").isf(chance)) / math.sqrt(rho) if rho else math.inf

    return min(chances, key=gap)


@lru_cache(maxsize=64)
def _rho(budget: acc.Budget, failure: float | None) -> float:
    """The largest rho that the budget pays for in all, 0 for none: by zCDP and such a chance of failure; None for all noise
    Gaussian, whose price is exact."""

    def priced(mu: float) -> acc.Curve:
        gaussian = acc.GaussianDP(mu=mu)
        return gaussian if failure is None else acc.Approximate(curve=acc.ZCDP(rho=mu**2 / 2), delta0=failure)

    try:
        return acc.calibrate(priced, budget, (1e-6, 1e6)) ** 2 / 2
    except acc.errors.CalibrationError:
        return 0.0


def _checked(rounds: int) -> int:
    return checked_integer("rounds", rounds, "how many items are labelled", error=InvalidRequest)


def _require(mechanism: Mechanism, kind: type) -> None:
    if not isinstance(mechanism, kind):
        raise InvalidRequest("a configured mechanism is needed, pate.GNMax(sigma=40, labels=10) for example")


# -- which mechanism, and how many rounds ----------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class PlannedVote:
    """One mechanism for a number of rounds, with the noise that spends the budget, and what to expect of it."""

    mechanism: Vote
    rounds: int
    prediction: Prediction
    outlook: Outlook

    @property
    def risk(self) -> Risk:
        """What an attacker gains from all rounds together."""
        return Risk.of(self.rounds * self.mechanism.curve)

    def as_data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "mechanism": SHORT[type(self.mechanism)],
            "rounds": self.rounds,
            "settings": self.mechanism.model_dump(mode="json", exclude_none=True, exclude={"kind", "labels"}),
            "f1": self.prediction.f1,
            "labels_an_item": self.prediction.labels,
            "right_labels_an_item": self.prediction.right,
            **self.outlook.as_data(),
        }

    def cells(self) -> list[str]:
        """Of a row below `HEADS`."""
        return [
            SHORT[type(self.mechanism)],
            f"{self.prediction.f1:.2f}",
            f"{self.prediction.labels:.2f}",
            f"{self.prediction.right:.2f}",
            f"{self.outlook.noise:.3g}",
            "-" if self.outlook.threshold is None else f"{self.outlook.threshold:.4g}",
            f"{getattr(self.mechanism, 'tau', getattr(self.mechanism, 'k', '-'))}",
        ]


@final
@dataclass(frozen=True)
class VotingPlan(Plan):
    """What `plan_votes` found; public.

    Attributes:
        votes: what it was planned with.
        model: the public numbers that they were made up from; None where they were given.
        budget: what all rounds cost together.
        rounds: those that were asked for, or as many as keep nine tenths of the F1 of ten rounds.
        ranked: the best setting of each family for these rounds, best F1 first.
        by_rounds: the same for a grid of rounds.
        f1_range: of the first of `ranked`, where what the model leaves open is as on any of five public data sets; None
            where votes were given.
        constant: micro-F1 of naming the most frequent labels for every item, and how many of them: no private data are needed.
    """

    votes: TrialVotes
    model: VotesModel | None
    budget: acc.Budget
    rounds: int
    ranked: tuple[PlannedVote, ...]
    by_rounds: tuple[tuple[PlannedVote, ...], ...]
    f1_range: tuple[float, float] | None
    constant: tuple[float, int]

    @property
    def recommended(self) -> PlannedVote:
        """The mechanism with the best F1."""
        return self.ranked[0]

    @property
    def works(self) -> bool:
        """Whether the recommended job is better than naming the most frequent labels, and releases more than noise."""
        return self.recommended.outlook.works and self.recommended.prediction.f1 >= self.constant[0]

    @property
    def headline(self) -> str:
        """What was planned for, and what to label with."""
        ballots, name = self.votes.ballots, type(self.recommended.mechanism).__name__
        return f"{self.rounds:,} rounds x {ballots.teachers:,} teachers x {ballots.labels:,} labels: {name}"

    def as_data(self) -> dict[str, Any]:
        """The plan as plain data."""
        best = self.recommended
        return {
            "votes": "declared public" if self.model is None else "made up",
            "model": None if self.model is None else self.model.model_dump(mode="json"),
            "budget": {"epsilon": self.budget.epsilon, "rho": self.budget.rho, "delta": self.budget.delta},
            "rounds": self.rounds,
            "recommended": best.as_data(),
            "risk": best.risk.as_data(best.mechanism.relation, "record"),
            "constant": {"f1": self.constant[0], "labels": self.constant[1]},
            "works": self.works,
            "f1_range": self.f1_range,
            "ranked": [planned.as_data() for planned in self.ranked],
            "by_rounds": [planned.as_data() for ranked in self.by_rounds for planned in ranked],
        }

    def words(self) -> Iterator[Section]:
        """What the noise does, what to expect, whether it is worth while, the risk, and the command that labels so."""
        planned, expected, (constant, named) = self.recommended, self.recommended.prediction, self.votes.constant
        tried = f"{len(self.votes.truth):,} rounds of votes declared public" if self.model is None else "made-up votes"
        lines = [
            *str(planned.outlook).splitlines(),
            f"F1 {expected.f1:.2f} drawn on {tried}, {expected.labels:.2f} labels an item",
            f"F1 {constant:.2f} by naming the most frequent {'label' if named == 1 else f'{named} labels'} for every item",
        ]
        if self.f1_range is not None and self.f1_range[0] < self.f1_range[1]:
            low, high = self.f1_range
            lines.append(
                f"F1 {low:.2f} to {high:.2f} if what is not stated is as on five public data sets; public votes settle it"
            )
        if not planned.outlook.works:
            lines.append("This does not work: the noise leaves little of the votes.")
        elif not self.works:
            lines.append("This does not work: naming the most frequent labels is better.")
        lines.append(f"Risk: {planned.risk.in_words(planned.mechanism.relation, 'record')}")
        yield Section(self.headline, lines=lines)
        if not self.works:
            following = "Plan fewer rounds, more teachers or a larger budget. dpselect pate refuses such a job without --anyway."
        elif self.budget.form == "zcdp":
            following = "pate.fitted(...) in Python: the command takes --epsilon and --delta"
        else:
            chosen = {name: getattr(planned.mechanism, name, None) for name in ("threshold", "tau", "k")}
            chosen |= {} if self.model is None else self.model.model_dump(include={"votes_per_item", "agreement", "label_skew"})
            chosen |= {"epsilon": self.budget.epsilon, "delta": self.budget.delta or None}
            settings = [f"--{name.replace('_', '-')} {value:.12g}" for name, value in chosen.items() if value is not None]
            kind = SHORT[type(planned.mechanism)]
            following = " ".join(["dpselect pate votes.npz --output labels.csv --mechanism", kind, *settings])
        yield Section("Next", lines=[following])

    def rows(self) -> Iterator[Section]:
        """The best of each family, and the best for each number of rounds; what the votes are."""
        yield Section(
            "Mechanisms that spend the budget, best F1 first",
            heads=HEADS,
            rows=[planned.cells() for planned in self.ranked],
            left=HEADS[:1],
            best_first=True,
        )
        best = [one[0] for one in self.by_rounds if one]
        yield Section(
            "How many rounds the budget is good for",
            heads=("Rounds", "Mechanism", "F1", "Labels an item"),
            rows=[
                (f"{one.rounds:,}", SHORT[type(one.mechanism)], f"{one.prediction.f1:.2f}", f"{one.prediction.labels:.2f}")
                for one in best
            ],
            left=("Mechanism",),
        )
        if self.model is not None:
            facts = [(name.replace("_", " "), f"{value:,}") for name, value in self.model.model_dump(exclude_none=True).items()]
        else:
            items, true = len(self.votes.truth), float(np.asarray(self.votes.truth).sum())
            facts = [("items tried", f"{items:,}"), ("true labels an item", f"{true / items:.3g}")]
        yield Section("What was planned with", facts=facts)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """F1 and labels by the number of rounds, a line for each mechanism."""
        at, every = min(max(self.rounds, _ROUNDS[0]), _ROUNDS[-1]), list(itertools.chain.from_iterable(self.by_rounds))
        names: tuple[tuple[Key, str, str], ...] = (
            ("f1", "F1", "expected micro-F1"),
            ("labels", "Labels an item", "labels for an item"),
        )
        charts = []
        for key, title, y_label in names:
            points: dict[str, list[Point]] = {}
            for planned in every:
                y = getattr(planned.prediction, key)
                points.setdefault(type(planned.mechanism).__name__, []).append(Point(x=planned.rounds, y=y, low=y, high=y))
            lines = tuple(Line(name=name, points=tuple(points[name])) for name in sorted(points))
            stated: Any = {"title": title, "x_label": "rounds", "y_label": y_label, "planned": at, "share": key == "f1"}
            charts.append(Chart(key=key, lines=lines, **stated))
        return tuple(charts)


def plan_votes(votes: VotesModel | TrialVotes, budget: acc.Budget, *, rounds: int | None = None, seed: int = 0) -> VotingPlan:
    """Plan a labelling job from public numbers, or from votes on public items.

    Args:
        votes: teachers, labels, labels an item, and how far teachers agree; or uncut votes that were declared public.
        budget: what all rounds may cost together.
        rounds: how many items are to be labelled; None recommends a number.
        seed: of the votes that are made up and of the draws.

    Raises:
        InvalidRequest: `rounds` is not an integer >= 1, or the model has more labels an item than labels.
        InvalidBallots: votes were given as counts, which cannot be cut.
        CalibrationError: the budget pays for no mechanism, a pure one for example.
    """
    rounds = None if rounds is None else _checked(rounds)
    model = votes if isinstance(votes, VotesModel) else None
    trial = simulated(votes, seed=seed) if isinstance(votes, VotesModel) else votes
    candidates = _Candidates.of(trial, model, budget, seed)
    grid = tuple(candidates.ranked(count) for count in _ROUNDS)
    if not any(grid):
        raise acc.errors.CalibrationError(
            "no mechanism on votes fits this budget: raise it, and give it a delta (Gaussian noise has no pure guarantee)"
        )
    found = [(ranked[0].rounds, ranked[0].prediction.f1) for ranked in grid if ranked]
    planned = max(count for count, f1 in found if f1 >= _GOOD * found[0][1]) if rounds is None else rounds
    ranked = candidates.ranked(planned)
    if not ranked:
        raise acc.errors.CalibrationError(
            f"no mechanism on votes fits {planned} rounds into this budget: plan fewer rounds or raise it"
        )
    likely = None if model is None else f1_range(ranked[0].mechanism, model, seed=seed)
    return VotingPlan(trial, model, budget, planned, ranked, grid, likely, trial.constant)


@dataclass(frozen=True)
class _Candidates:
    """The mechanisms that are considered, and the votes on which they are tried.

    Attributes:
        size: about how many labels are true of an item.
        cut: the ballots by the tau that they are cut to.
        choices: ballots of one vote each, where one label is right; None where there are none.
    """

    trial: TrialVotes
    budget: acc.Budget
    seed: int
    size: int
    cut: dict[int, Ballots]
    choices: TrialVotes | None

    @classmethod
    def of(cls, trial: TrialVotes, model: VotesModel | None, budget: acc.Budget, seed: int) -> Self:
        """Sizes of ballots near what is true of an item."""
        ballots, choices = trial.ballots, None
        size = max(1, math.ceil((trial.truth.sum() / len(trial.truth) if model is None else model.votes_per_item) - 1e-9))
        cut = {tau: ballots.cut(tau) for tau in sorted({1, size, size + 1, 2 * size}) if 2 * tau < ballots.labels}
        if model is None:
            with suppress(InvalidBallots):
                ballots.check(GNMax(sigma=1.0, labels=ballots.labels))
                choices = trial
        elif model.votes_per_item == 1:
            choices = _of_choices(model, seed)
        return cls(trial, budget, seed, size, cut, choices)

    def ranked(self, rounds: int) -> tuple[PlannedVote, ...]:
        """The best setting of every family that the budget pays for, best F1 first."""
        found, teachers = list[PlannedVote](), self.trial.ballots.teachers
        for family in filter(None, self._families(rounds)):
            best = max(family, key=lambda one: self._predicted(one, seed=self.seed, counts=_SCREENED).f1).with_teachers(teachers)
            found.append(PlannedVote(best, rounds, self._predicted(best, seed=self.seed + 1), outlook(best, teachers=teachers)))
        return tuple(sorted(found, key=lambda one: -one.prediction.f1))

    def _families(self, rounds: int) -> Iterator[list[Vote]]:
        labels, budget = self.trial.ballots.labels, self.budget
        yield self._gaussian(rounds, BinaryVoting, _THRESHOLDS)
        yield [one for tau in self.cut for one in self._gaussian(rounds, TauVoting, _THRESHOLDS, tau=tau)]
        if budget.delta and (rho := _rho(budget, rounds * (failure := _failure(budget, rounds)))):
            yield [StableVoting(rho=rho / rounds * _SAFE, failure_delta=failure, labels=labels)]
        if rho := _rho(budget, 0.0):
            sizes = sorted({min(labels, size) for size in (1, self.size // 2, self.size, self.size + 1) if size})
            yield [TopVotes(k=k, scale=math.sqrt(k * rounds / (2 * rho)) / _SAFE, labels=labels) for k in sizes]
        if self.choices is not None:
            yield self._gaussian(rounds, GNMax)
            yield self._gaussian(rounds, ConfidentGNMax, _CONFIDENT_THRESHOLDS, sigma_threshold=2.0)

    def _gaussian(self, rounds: int, member: type[Vote], shares: Sequence[float] = (), **settings: Any) -> list[Vote]:
        """What spends the budget, at each threshold, which is public and changes no price; rho falls with the square of noise."""
        if not (rho := _rho(self.budget, None)):
            return []
        ballots, found = self.trial.ballots, list[Vote]()
        for level in [{"threshold": share * ballots.teachers} for share in shares] or [{}]:
            one = member.model_validate({"sigma": 1.0, "labels": ballots.labels, **level, **settings})
            sigma = math.sqrt(one.curve.rho * rounds / rho)
            noise: dict[str, float] = {
                name: getattr(one, name) * sigma for name in ("sigma", "sigma_threshold") if name in member.model_fields
            }
            found.append(one.model_copy(update=noise))
        return found

    def _predicted(self, mechanism: Vote, **draws: int) -> Prediction:
        trial = self.choices if mechanism.one_vote and self.choices is not None else self.trial
        ballots = self.cut[mechanism.tau] if isinstance(mechanism, TauVoting) else trial.ballots
        return predicted(mechanism, ballots, trial.truth, **draws)
