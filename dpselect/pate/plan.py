"""Labeling plans, made before a vote is cast: noise for a budget, rounds, and expected labels.

Forecasts are a mechanism's own draws, with fixed seeds, on votes that are made up from public
numbers or were declared public. Nothing is released or charged. `plan_votes` computes noise by
zCDP, in milliseconds. For Gaussian noise that is exact, and for the other kinds it is a little more
noise than `fitted` finds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

import accounting as acc
from accounting.arguments import check_integer
from accounting.budget import check_budget
from accounting.frozen import Count, Frozen, NonNegative, Positive, Real
from accounting.numbers import Flags, Floats
from accounting.risk import Risk
from accounting.sections import Section
from accounting.wording import format_number
from dpselect.errors import InvalidBallots, InvalidRequest
from dpselect.mechanisms.base import Mechanism
from dpselect.noise import noise_of
from dpselect.pate.ballots import Ballots, Vote, Voting
from dpselect.pate.voting import (
    BinaryVoting,
    ConfidentGNMax,
    GNMax,
    StableVoting,
    TauVoting,
    TopVotes,
)
from dpselect.plan.fit import calibrate_mechanism, knob_of, mechanism_class
from dpselect.plan.plan import Plan

CLASSES: Final[dict[Voting, type[Vote]]] = {
    "gnmax": GNMax,
    "confident": ConfidentGNMax,
    "binary": BinaryVoting,
    "tau": TauVoting,
    "top": TopVotes,
    "stable": StableVoting,
}
"""Voting mechanisms by their names in `dpselect pate --mechanism`."""

SHORT: Final = {member: name for name, member in CLASSES.items()}
HEADS: Final = (
    "Mechanism",
    "F1",
    "Answered",
    "Labels an item",
    "Right",
    "Noise",
    "Threshold",
    "tau, k",
)

_CELLS = 4_000_000  # votes made up at a time
_FEWEST, _MOST = 20, 400  # items that are made up
_CHOICES = 150  # of one vote per teacher
_CLEAR = 4_000  # rounds of unanimous votes that an outlook draws, at most
_DRAWN = 1_000_000  # counts that a forecast draws, about
# to compare settings; the best are drawn anew, so that a lucky draw is not reported
_SCREENED = 200_000
_REPEATS = 20  # of every round, at most

# Shares of delta tried for the rounds' failure probabilities; the threshold moves with their
# logarithm only.
_SHARES = (0.9, 0.75, 0.5, 0.35, 0.25, 0.1, 0.03)
# so that a share divided by the rounds and multiplied by them again does not exceed it
_SAFE = 1 - 1e-12

_RATIO = 2.0  # of the test's noise to that of the label, in ConfidentGNMax
_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)  # tried, as shares of the teachers
_CONFIDENT_THRESHOLDS = (0.2, 0.35, 0.5)
_ROUNDS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_GOOD = 0.9  # of the F1 of ten rounds: as many rounds as keep it are recommended


class PoorOutlook(InvalidRequest):
    """The released labels would be little but noise."""


# -- votes to forecast with ------------------------------------------------------------------------


@final
class VotesModel(Frozen):
    """Public numbers of teachers and labels, from which votes are made up for planning.

    A true label is voted for by a share of the teachers whose mean is `agreement`. The share for
    one item and label follows a Beta distribution, because some labels are easier than others.
    Stray votes are spread over the other labels likewise.

    Args:
        teachers: number of teachers, >= 1.
        labels: number of labels, >= 2.
        votes_per_item: mean number of true labels of an item, from above 0 to `labels`.
        agreement: share of teachers who vote for a true label, in (0, 1).
        stray_votes: mean number of votes of a ballot for labels that are not true; None for 2 (1 -
            agreement) votes_per_item.
        correlation: correlation of two teachers' votes on one label, in [0, 1); 0 if labels are
            equally hard; None for 0.25. It is between 0.09 and 0.44 on five public data sets.
        label_skew: exponent of Zipf's law for the frequencies of true labels, >= 0; 0 for all
            alike; None for 0.75. It is between 0 and 1.2 on six public data sets, and decides how
            good it is to name the most frequent labels.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    teachers: Count = Field(description="an integer >= 1")
    labels: Count = Field(ge=2, description="an integer >= 2")
    votes_per_item: Positive = Field(description="a number above 0, at most the number of labels")
    agreement: Real = Field(gt=0, lt=1, description="a share above 0 and below 1")
    stray_votes: NonNegative | None = Field(
        default=None, description="a number of votes >= 0, or None"
    )
    correlation: Annotated[Real, Field(ge=0, lt=1)] | None = Field(
        default=None, description="a number from 0 to below 1, or None"
    )
    label_skew: NonNegative | None = Field(default=None, description="a number >= 0, or None")

    def truth(self, items: int, size: float, rng: np.random.Generator) -> Flags:
        """Draw (items, labels) flags of true labels, `size` of them an item.

        Fractions of `size` are rounded up or down at random.
        """
        sizes = math.floor(size) + (rng.random(items) < size % 1)
        skew = 0.75 if self.label_skew is None else self.label_skew
        keys = rng.gumbel(size=(items, self.labels)) - skew * np.log(np.arange(1, self.labels + 1))
        return np.asarray(np.argsort(-keys, axis=1).argsort(axis=1) < sizes[:, None])


@final
@dataclass(frozen=True)
class TrialVotes:
    """Votes for planning, with the true labels of their items: made up, or cast on labeled items.

    Attributes:
        ballots: ballots of any number of votes each.
        truth: (items, labels) True if a label is true of an item.
        public: your declaration that the teachers learned from public or made-up records alone. It
            is needed because a plan shows figures of these votes, and no ledger is charged for
            them.

    Raises:
        InvalidRequest: `public` is not True, or `truth` has another shape than the counts.
    """

    ballots: Ballots
    truth: Flags
    public: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.public is not True:
            raise InvalidRequest(
                "a plan shows figures of its votes, and no ledger is charged for them. If"
                " teachers learned from public or made-up records alone, declare it"
                " (public=True). Otherwise plan from public numbers (VotesModel)"
            )
        object.__setattr__(self, "truth", _true(self.truth, self.ballots))

    @property
    def constant(self) -> tuple[float, int]:
        """Micro-F1 of naming the most frequent labels for every item, and their best number."""
        frequencies = np.sort(self.truth.mean(axis=0))[::-1]
        counts = np.arange(1, len(frequencies) + 1)
        f1 = 2 * np.cumsum(frequencies) / (counts + frequencies.sum())
        return float(f1.max()), int(f1.argmax()) + 1


def _true(truth: ArrayLike, ballots: Ballots) -> Flags:
    flags = np.asarray(truth, dtype=np.bool_)
    if flags.shape != ballots.counts.shape:
        raise InvalidRequest(
            f"truth has shape {flags.shape}, but the counts have {ballots.counts.shape}. Pass"
            " one row for every round"
        )
    return flags


def simulate(model: VotesModel, *, items: int | None = None, seed: int = 0) -> TrialVotes:
    """Make up votes as `model` describes them, for planning.

    The seed makes a plan repeatable. Nothing is released.

    Args:
        model: public numbers.
        items: number of rounds, >= 1; None for 20 to 400, fewer if there are many teachers and
            labels.
        seed: seed of NumPy's generator.

    Raises:
        InvalidRequest: more labels are true of an item than there are.
    """
    if model.votes_per_item > model.labels:
        raise InvalidRequest(
            f"votes_per_item={model.votes_per_item:g} is more than labels={model.labels}. Give at"
            " most that"
        )
    fitting = int(np.clip(_CELLS // (model.teachers * model.labels), _FEWEST, _MOST))
    count = (
        fitting
        if items is None
        else check_integer("items", items, "how many items are made up", error=InvalidRequest)
    )
    rng = np.random.default_rng(seed)
    truth = model.truth(count, model.votes_per_item, rng)
    agreeing = _shares(rng, model.agreement, model.correlation, truth.shape)
    usual = 2 * (1 - model.agreement) * model.votes_per_item
    votes = usual if model.stray_votes is None else model.stray_votes
    stray = min(votes / max(model.labels - model.votes_per_item, 1.0), 0.95)
    shares = np.where(truth, agreeing, _shares(rng, stray, model.correlation, truth.shape))
    cast = np.stack([rng.random((model.teachers, model.labels)) < share for share in shares])
    return TrialVotes(Ballots(cast, missing="allow"), truth, public=True)


def _simulate_choices(model: VotesModel, seed: int) -> TrialVotes:
    """Make up votes of teachers who vote once each, with one right label.

    They serve GNMax and ConfidentGNMax.
    """
    rng = np.random.default_rng(seed)
    truth = model.truth(_CHOICES, 1, rng)
    agreeing = _shares(rng, model.agreement, model.correlation, (_CHOICES, 1))
    rest = np.where(
        truth,
        0.0,
        rng.gamma(_beta_total(model.correlation) / (model.labels - 1), size=truth.shape) + 1e-12,
    )
    chances = np.where(truth, agreeing, (1 - agreeing) * rest / rest.sum(axis=1, keepdims=True))
    counts = rng.multinomial(model.teachers, chances)
    return TrialVotes(Ballots(counts, teachers=model.teachers, missing="allow"), truth, public=True)


def _shares(
    rng: np.random.Generator, mean: float, correlation: float | None, shape: tuple[int, ...]
) -> Floats:
    if mean in (0.0, 1.0) or correlation == 0:
        return np.full(shape, mean)
    total = _beta_total(correlation)
    return rng.beta(mean * total, (1 - mean) * total, size=shape)


def _beta_total(correlation: float | None) -> float:
    """Return the sum of the two parameters of the Beta distribution.

    Its variance is mean * (1 - mean) * correlation.
    """
    total = 0.25 if correlation is None else correlation
    return (1 - total) / max(total, 1e-9)


# -- forecasts of a mechanism's labels -------------------------------------------------------------


@final
@dataclass(frozen=True)
class Outlook:
    """Public forecast of a mechanism on the two clearest votes there are.

    It follows from configuration alone.

    Attributes:
        noise: standard deviation of the noise that decides whether something is released, in votes.
        threshold: bar that a noisy count has to exceed, in votes; None if counts compete with each
            other instead.
        unanimous: probability that a label is released for which every teacher votes, in a round
            where nobody votes otherwise; of as many such labels as a round always gets.
        unvoted: probability that a given label is released for which no teacher votes, in the same
            round.
        unvoted_labels: number of labels for which no teacher votes.
    """

    noise: float
    threshold: float | None
    unanimous: float
    unvoted: float
    unvoted_labels: int

    @property
    def wrong_labels(self) -> float:
        """Expected number of labels an item for which no teacher votes."""
        return self.unvoted_labels * self.unvoted

    @property
    def works(self) -> bool:
        """True if a unanimous label is released in half of the rounds, by little enough noise.

        The noise must be at most half the threshold.
        """
        return self.unanimous >= 0.5 and (
            self.threshold is None or self.noise <= self.threshold / 2
        )

    def as_data(self) -> dict[str, Any]:
        """Return the forecast as plain data."""
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
            f"noise of {self.noise:.3g} votes{against}\na unanimous label is released with"
            f" probability {self.unanimous:.2g}, one without votes with {self.unvoted:.2g}:"
            f" {self.wrong_labels:.2g} wrong labels an item"
        )


def outlook(mechanism: Mechanism, *, teachers: int) -> Outlook:
    """Return the forecast of `mechanism` on a unanimous vote of this many teachers.

    It makes 1,000 to 4,000 seeded draws.

    Args:
        mechanism: one of `dpselect.pate`.
        teachers: public number of teachers who vote, >= 1.

    Raises:
        InvalidRequest: the mechanism does not count votes, or `teachers` is not an integer >= 1.
        InvalidBallots: the mechanism is configured for another number of teachers.
    """
    teachers = check_integer("teachers", teachers, "how many teachers vote", error=InvalidRequest)
    _require(mechanism, Vote)
    vote = cast(Vote, mechanism).with_teachers(teachers)
    rounds = int(np.clip(_DRAWN // vote.labels, _CLEAR // 4, _CLEAR))
    clear = (vote.most_released or 1) if vote.ordered else 1
    counts = np.zeros((rounds, vote.labels), dtype=np.int64)
    counts[:, :clear] = teachers
    released = vote.select_many(counts, rng=np.random.default_rng(0)).indices
    unvoted_labels = vote.labels - clear
    unanimous = int(((released >= 0) & (released < clear)).sum()) / (rounds * clear)
    unvoted = int((released >= clear).sum()) / (rounds * unvoted_labels) if unvoted_labels else 0.0
    return Outlook(*vote._decision(), unanimous, unvoted, unvoted_labels)


@final
@dataclass(frozen=True)
class Prediction:
    """The labels to expect of rounds like these, by seeded draws.

    Attributes:
        labels: mean number of released labels an item.
        right: mean number of released labels an item that are true.
        true: mean number of true labels an item.
        answered: share of items that got an answer, of a mechanism that may stay silent; 1 for any
            other mechanism.
    """

    labels: float
    right: float
    true: float
    answered: float

    @property
    def f1(self) -> float:
        """Micro-F1: twice the right labels over those released and those true."""
        total = self.labels + self.true
        return 2 * self.right / total if total else 0.0


def predict(
    mechanism: Mechanism, ballots: Ballots, truth: ArrayLike, *, seed: int = 0, counts: int = _DRAWN
) -> Prediction:
    """Return the labels and the F1 to expect of a mechanism on votes whose true labels are known.

    The result is as private as the votes are. For planning, make votes up (`simulate`) or use
    teachers of public data.

    Args:
        mechanism: one of `dpselect.pate`.
        ballots: ballots, cut as the mechanism needs it.
        truth: (rounds, labels) True if a label is true of an item.
        seed: seed of the draws.
        counts: approximate number of noisy counts that are drawn.

    Raises:
        InvalidRequest: the mechanism does not count votes, or `truth` has another shape than the
            counts.
        InvalidBallots: the mechanism's guarantee does not cover the ballots.
    """
    _require(mechanism, Vote)
    ballots.check(mechanism)
    true = _true(truth, ballots)
    repeats = int(np.clip(counts // true.size, 1, _REPEATS))
    tiled = np.tile(ballots.counts.astype(np.int64), (repeats, 1))
    selections = ballots.complete(mechanism).select_many(tiled, rng=np.random.default_rng(seed))
    rows, places = np.nonzero(selections.indices >= 0)
    rounds = len(tiled)
    right = int(true[rows % len(true), selections.indices[rows, places]].sum())
    return Prediction(
        len(rows) / rounds,
        right / rounds,
        float(true.sum()) / len(true),
        float(np.mean(selections.complete)),
    )


# -- from a budget to noise ------------------------------------------------------------------------


def fitted(
    member: type[Vote] | str,
    budget: acc.Budget,
    *,
    rounds: int = 600,
    teachers: int | None = None,
    anyway: bool = False,
    **settings: Any,
) -> Vote:
    """Return the voting mechanism with the least noise for its rounds, which are fixed in advance.

    For example: "label 600 items at (2, 1e-6)". The noise is `sigma`, for TopVotes `scale`, and for
    StableVoting `rho`. ConfidentGNMax takes sigma_threshold = 2 sigma unless that is among the
    settings. For StableVoting, the rounds' failures and the conversion share the budget's delta. Of
    a few splits, the one is kept that lets the narrowest gaps pass, unless failure_delta (of one
    round) is among the settings. Only configuration is used.

    Args:
        member: a class, or its kind or name.
        budget: budget of all rounds together.
        rounds: number of rounds, >= 1.
        teachers: public number of teachers who vote, so that a budget that leaves little but noise
            is refused; None if it is not known yet.
        anyway: True to return a mechanism even if its outlook is poor.
        settings: the mechanism's other fields, labels=22 for example. The noise must not be among
            them, because it is the result.

    Raises:
        CalibrationError: no amount of noise fits the budget.
        PoorOutlook: noise exceeds half the threshold, or a unanimous label is released in less than
            half of the rounds.
        InvalidRequest: the mechanism is unknown, a budget has no delta for a mechanism that can
            fail, or the noise is among the settings.
        InvalidMechanism: the settings are not fields of the mechanism, or are outside their domain.
    """
    kind = mechanism_class(member) if isinstance(member, str) else member
    if not (isinstance(kind, type) and issubclass(kind, Vote)):
        names = ", ".join(sorted(member_class.__name__ for member_class in SHORT))
        raise InvalidRequest(f"member={str(member)[:40]!r} counts no votes. Choose one of {names}")
    budget, rounds = check_budget(budget), _check_rounds(rounds)
    knob = knob_of(kind)
    if knob.field in settings:
        raise InvalidRequest(
            f"{knob.field} is the result of fitted, so it cannot be stated. Leave it out, or"
            f" build {kind.__name__} with it"
        )
    fields = dict(settings)
    if teachers is not None and "teachers" in kind.model_fields:
        fields["teachers"] = teachers
    if kind is StableVoting:
        fields.setdefault("failure_delta", _failure(budget, rounds))

    def family(noise: float) -> Mechanism:
        test = {"sigma_threshold": _RATIO * noise} if kind is ConfidentGNMax else {}
        return kind.model_validate({**test, **fields, knob.field: noise})

    mechanism = cast(Vote, calibrate_mechanism(family, budget, knob.bracket(1.0), releases=rounds))
    if (
        teachers is not None
        and not anyway
        and not (expected := outlook(mechanism, teachers=teachers)).works
    ):
        raise PoorOutlook(
            f"this budget leaves little but noise for {rounds} rounds and {teachers} teachers."
            " Plan fewer rounds, more teachers or a larger budget, or pass"
            f" anyway=True.\n{expected}"
        )
    return mechanism


def _failure(budget: acc.Budget, rounds: int) -> float:
    """Return the failure probability of a round with which the narrowest gap passes the test.

    It is one of a few shares of delta. It is decided by zCDP, which is quick. It does not affect
    privacy, because the mechanism is calibrated with it afterwards.
    """
    if budget.delta == 0:
        raise InvalidRequest(
            "StableVoting can fail, so its budget needs a delta, the probability of that."
            " Give a delta in (0, 1)"
        )
    # A zCDP budget converts nothing: all of its delta is there for failures.
    chances = [
        share * budget.delta / rounds * _SAFE
        for share in ((1.0,) if budget.form == "zcdp" else _SHARES)
    ]

    def gap(chance: float) -> float:
        """Return about the width of a gap that passes, up to a factor.

        inf if the budget allows no test.
        """
        rho = _rho(budget, rounds * chance)
        return float(noise_of("gaussian").isf(chance)) / math.sqrt(rho) if rho else math.inf

    return min(chances, key=gap)


@lru_cache(maxsize=64)
def _rho(budget: acc.Budget, failure: float | None) -> float:
    """Return the largest rho that the budget allows in all, or 0 if there is none.

    By zCDP and such a failure probability. None for noise that is all Gaussian, whose cost is
    exact.
    """

    def curve_at(mu: float) -> acc.Curve:
        gaussian = acc.GaussianDP(mu=mu)
        return (
            gaussian
            if failure is None
            else acc.Approximate(curve=acc.ZCDP(rho=mu**2 / 2), delta0=failure)
        )

    try:
        return acc.calibrate(curve_at, budget, (1e-6, 1e6)) ** 2 / 2
    except acc.errors.CalibrationError:
        return 0.0


def _check_rounds(rounds: int) -> int:
    return check_integer("rounds", rounds, "how many items are labeled", error=InvalidRequest)


def _require(mechanism: Mechanism, kind: type) -> None:
    if not isinstance(mechanism, kind):
        raise InvalidRequest(
            "a configured mechanism is needed, pate.GNMax(sigma=40, labels=10) for example"
        )


# -- which mechanism, and how many rounds ----------------------------------------------------------


@final
@dataclass(frozen=True)
class PlannedVote:
    """One mechanism for a number of rounds, with noise that spends the budget, and a forecast."""

    mechanism: Vote
    rounds: int
    prediction: Prediction
    outlook: Outlook

    @property
    def risk(self) -> Risk:
        """The gain of an attacker from all rounds together."""
        return Risk.from_curve(self.rounds * self.mechanism.curve)

    def as_data(self) -> dict[str, Any]:
        """Return the mechanism and its forecast as plain data."""
        return {
            "mechanism": SHORT[type(self.mechanism)],
            "rounds": self.rounds,
            "settings": self.mechanism.model_dump(
                mode="json", exclude_none=True, exclude={"kind", "labels"}
            ),
            "f1": self.prediction.f1,
            "answered": self.prediction.answered,
            "labels_an_item": self.prediction.labels,
            "right_labels_an_item": self.prediction.right,
            **self.outlook.as_data(),
        }

    def cells(self) -> list[str]:
        """Return the cells of a row below `HEADS`."""
        return [
            SHORT[type(self.mechanism)],
            f"{self.prediction.f1:.2f}",
            f"{self.prediction.answered:.2f}",
            f"{self.prediction.labels:.2f}",
            f"{self.prediction.right:.2f}",
            f"{self.outlook.noise:.3g}",
            "-" if self.outlook.threshold is None else f"{self.outlook.threshold:.4g}",
            f"{getattr(self.mechanism, 'tau', getattr(self.mechanism, 'k', '-'))}",
        ]


@final
@dataclass(frozen=True)
class VotingPlan(Plan):
    """The public result of `plan_votes`.

    Attributes:
        votes: votes that the plan was made with.
        model: public numbers from which they were made up, or None if the caller passed votes.
        budget: budget of all rounds together.
        rounds: the requested number of rounds, or as many as keep nine tenths of the F1 of ten
            rounds.
        ranked: the best setting of each family for these rounds, best F1 first.
        constant: micro-F1 of naming the most frequent labels for every item, and their number. This
            needs no private data.
    """

    votes: TrialVotes
    model: VotesModel | None
    budget: acc.Budget
    rounds: int
    ranked: tuple[PlannedVote, ...]
    constant: tuple[float, int]

    @property
    def recommended(self) -> PlannedVote:
        """The mechanism with the best F1."""
        return self.ranked[0]

    @property
    def works(self) -> bool:
        """True if the recommended job beats naming the most frequent labels, with little noise.

        Little noise is as in `Outlook.works`.
        """
        return self.recommended.outlook.works and self.recommended.prediction.f1 >= self.constant[0]

    @property
    def headline(self) -> str:
        """The size of the job, and the recommended mechanism."""
        ballots, name = self.votes.ballots, type(self.recommended.mechanism).__name__
        return (
            f"{self.rounds:,} rounds x {ballots.teachers:,} teachers x {ballots.labels:,} labels:"
            f" {name}"
        )

    def as_data(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        best = self.recommended
        return {
            "votes": "declared public" if self.model is None else "made up",
            "model": None if self.model is None else self.model.model_dump(mode="json"),
            "budget": {
                "epsilon": self.budget.epsilon,
                "rho": self.budget.rho,
                "delta": self.budget.delta,
            },
            "rounds": self.rounds,
            "recommended": best.as_data(),
            "risk": best.risk.as_data(best.mechanism.relation, "record"),
            "constant": {"f1": self.constant[0], "labels": self.constant[1]},
            "works": self.works,
            "ranked": [planned.as_data() for planned in self.ranked],
        }

    def sections(self) -> Iterator[Section]:
        """Yield sections on the noise, the forecast, the risk, and the command that labels so.

        They say if the job is worth while. Tables follow of the best setting of each family, and of
        the votes.
        """
        planned, expected, (constant, named) = (
            self.recommended,
            self.recommended.prediction,
            self.votes.constant,
        )
        words = (
            f"{len(self.votes.truth):,} rounds of votes declared public"
            if self.model is None
            else "made-up votes"
        )
        lines = [
            *str(planned.outlook).splitlines(),
            f"F1 {expected.f1:.2f} drawn on {words}, {expected.labels:.2f} labels an item",
            (
                f"F1 {constant:.2f} by naming the most frequent"
                f" {'label' if named == 1 else f'{named} labels'} for every item"
            ),
        ]
        if not planned.outlook.works:
            lines.append("This does not work: the noise leaves little of the votes.")
        elif not self.works:
            lines.append("This does not work: naming the most frequent labels is better.")
        lines.append(f"Risk: {planned.risk.in_words(planned.mechanism.relation, 'record')}")
        yield Section(self.headline, lines=lines)
        if not self.works:
            following = (
                "Plan fewer rounds, more teachers or a larger budget. dpselect pate refuses such a"
                " job without --anyway."
            )
        elif self.budget.form == "zcdp":
            following = "pate.fitted(...) in Python: the command takes --epsilon and --delta"
        else:
            fields = {
                name: getattr(planned.mechanism, name, None) for name in ("threshold", "tau", "k")
            }
            fields |= {"epsilon": self.budget.epsilon, "delta": self.budget.delta or None}
            settings = [
                f"--{name.replace('_', '-')} {format_number(value, 12)}"
                for name, value in fields.items()
                if value is not None
            ]
            kind = SHORT[type(planned.mechanism)]
            following = " ".join(
                ["dpselect pate votes.npz --output labels.csv --mechanism", kind, *settings]
            )
        yield Section("Next", lines=[following])

        yield Section(
            "Mechanisms that spend the budget, best F1 first",
            heads=HEADS,
            rows=[planned.cells() for planned in self.ranked],
            left=HEADS[:1],
        )
        if self.model is not None:
            facts = [
                (name.replace("_", " "), f"{value:,}")
                for name, value in self.model.model_dump(exclude_none=True).items()
            ]
        else:
            items, true = len(self.votes.truth), float(np.asarray(self.votes.truth).sum())
            facts = [("items tried", f"{items:,}"), ("true labels an item", f"{true / items:.3g}")]
        yield Section("What was planned with", facts=facts)


def plan_votes(
    votes: VotesModel | TrialVotes, budget: acc.Budget, *, rounds: int | None = None, seed: int = 0
) -> VotingPlan:
    """Plan a labeling job from public numbers, or from votes on public items.

    Args:
        votes: teachers, labels, labels an item, and the agreement of teachers; or uncut votes that
            were declared public.
        budget: budget of all rounds together.
        rounds: number of items to be labeled; None recommends a number.
        seed: seed of the votes that are made up and of the draws.

    Raises:
        InvalidRequest: `rounds` is not an integer >= 1, or the model has more labels an item than
            labels.
        InvalidBallots: votes were given as counts, which cannot be cut.
        CalibrationError: no mechanism fits the budget, for example because it is pure.
    """
    rounds = None if rounds is None else _check_rounds(rounds)
    model = votes if isinstance(votes, VotesModel) else None
    trial = simulate(votes, seed=seed) if isinstance(votes, VotesModel) else votes
    candidates = _Candidates.from_trial(trial, model, budget, seed)
    planned = candidates.good_rounds() if rounds is None else rounds
    if not (ranked := candidates.rank(planned)):
        raise acc.errors.CalibrationError(
            f"no mechanism on votes fits {planned} rounds into this budget. Plan fewer rounds or"
            " raise it, and give it a delta (Gaussian noise has no pure guarantee)"
        )
    return VotingPlan(trial, model, budget, planned, ranked, trial.constant)


@dataclass(frozen=True)
class _Candidates:
    """The mechanisms that are considered, and the votes on which they are tried.

    Attributes:
        size: approximate number of true labels of an item.
        cut: the ballots by the tau that they are cut to.
        choices: ballots of one vote each, with one right label; None if there are none.
    """

    trial: TrialVotes
    budget: acc.Budget
    seed: int
    size: int
    cut: dict[int, Ballots]
    choices: TrialVotes | None

    @classmethod
    def from_trial(
        cls, trial: TrialVotes, model: VotesModel | None, budget: acc.Budget, seed: int
    ) -> Self:
        """Build the candidates, with ballots cut to sizes near the number of true labels."""
        ballots, choices = trial.ballots, None
        size = max(
            1,
            math.ceil(
                (trial.truth.sum() / len(trial.truth) if model is None else model.votes_per_item)
                - 1e-9
            ),
        )
        thresholds = {
            tau: ballots.cut(tau)
            for tau in sorted({1, size, size + 1, 2 * size})
            if 2 * tau < ballots.labels
        }
        if model is None:
            with suppress(InvalidBallots):
                ballots.check(GNMax(sigma=1.0, labels=ballots.labels))
                choices = trial
        elif model.votes_per_item == 1:
            choices = _simulate_choices(model, seed)
        return cls(trial, budget, seed, size, thresholds, choices)

    def rank(self, rounds: int) -> tuple[PlannedVote, ...]:
        """Return the best setting of every family that fits the budget, best F1 first."""
        votes, teachers = list[PlannedVote](), self.trial.ballots.teachers
        for family in filter(None, self._families(rounds)):
            best = max(
                family, key=lambda vote: self._predict(vote, seed=self.seed, counts=_SCREENED).f1
            ).with_teachers(teachers)
            votes.append(
                PlannedVote(
                    best,
                    rounds,
                    self._predict(best, seed=self.seed + 1),
                    outlook(best, teachers=teachers),
                )
            )
        return tuple(sorted(votes, key=lambda vote: -vote.prediction.f1))

    def good_rounds(self) -> int:
        """Return the largest number of rounds that keeps nine tenths of the F1 of the fewest."""
        scores = [
            (rounds, ranked[0].prediction.f1) for rounds in _ROUNDS if (ranked := self.rank(rounds))
        ]
        return max(
            (rounds for rounds, f1 in scores if f1 >= _GOOD * scores[0][1]), default=_ROUNDS[0]
        )

    def _families(self, rounds: int) -> Iterator[list[Vote]]:
        labels, budget = self.trial.ballots.labels, self.budget
        yield self._gaussian(rounds, BinaryVoting, _THRESHOLDS)
        yield [
            candidate
            for tau in self.cut
            for candidate in self._gaussian(rounds, TauVoting, _THRESHOLDS, tau=tau)
        ]
        if budget.delta and (rho := _rho(budget, rounds * (failure := _failure(budget, rounds)))):
            yield [StableVoting(rho=rho / rounds * _SAFE, failure_delta=failure, labels=labels)]
        if rho := _rho(budget, 0.0):
            sizes = sorted(
                {
                    min(labels, size)
                    for size in (1, self.size // 2, self.size, self.size + 1)
                    if size
                }
            )
            yield [
                TopVotes(k=k, scale=math.sqrt(k * rounds / (2 * rho)) / _SAFE, labels=labels)
                for k in sizes
            ]
        if self.choices is not None:
            yield self._gaussian(rounds, GNMax)
            yield self._gaussian(
                rounds, ConfidentGNMax, _CONFIDENT_THRESHOLDS, sigma_threshold=_RATIO
            )

    def _gaussian(
        self, rounds: int, member: type[Vote], shares: Sequence[float] = (), **settings: Any
    ) -> list[Vote]:
        """Return the mechanisms of this family that spend the budget, one for each threshold.

        Thresholds are public and do not change the cost. rho falls with the square of the noise.
        """
        if not (rho := _rho(self.budget, None)):
            return []
        ballots, mechanisms = self.trial.ballots, list[Vote]()
        for level in [{"threshold": share * ballots.teachers} for share in shares] or [{}]:
            unit = member.model_validate(
                {"sigma": 1.0, "labels": ballots.labels, **level, **settings}
            )
            sigma = math.sqrt(unit.curve.rho * rounds / rho)
            noise: dict[str, float] = {
                name: getattr(unit, name) * sigma
                for name in ("sigma", "sigma_threshold")
                if name in member.model_fields
            }
            mechanisms.append(unit.model_copy(update=noise))
        return mechanisms

    def _predict(self, mechanism: Vote, **draws: int) -> Prediction:
        trial = self.choices if mechanism.one_vote and self.choices is not None else self.trial
        ballots = self.cut[mechanism.tau] if isinstance(mechanism, TauVoting) else trial.ballots
        return predict(mechanism, ballots, trial.truth, **draws)
