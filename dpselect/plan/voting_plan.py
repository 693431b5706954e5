"""Which mechanism, threshold and size of ballots to label with, and how many rounds a budget is good for, before a vote is cast.

Every candidate gets the noise that spends the whole budget on all rounds, and is tried by its own draws on votes on public
items, or on votes that are made up from public numbers. Nothing is released or charged. Noise is priced by zCDP here, in
milliseconds: for Gaussian noise that is exact, for the other kinds a little more noise than `fitted` finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np

import accounting as acc
from accounting.files import new_file
from accounting.risk import Risk
from dpselect.errors import InvalidBallots
from dpselect.pate.ballots import Vote
from dpselect.pate.job import CLASSES
from dpselect.pate.noise_for_rounds import _SAFE, _checked, _failure, _rho, _share
from dpselect.pate.outlook import Outlook, Prediction, TrialVotes, VotesModel, f1_range, outlook, simulated
from dpselect.pate.voting import BinaryVoting, ConfidentGNMax, GNMax, StableVoting, TauVoting, TopVotes
from dpselect.plan.charts import Chart, Key, Line, Point, figure

SHORT = {member: name for name, member in CLASSES.items()}
"""What `dpselect pate --mechanism` calls a mechanism."""

HEADS = ("Mechanism", "F1", "Labels an item", "Right", "Noise", "Threshold", "tau, k")
_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)  # tried, as shares of the teachers
_CONFIDENT_THRESHOLDS = (0.2, 0.35, 0.5)
_ROUNDS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_GOOD = 0.9  # of the F1 of ten rounds: as many rounds as keep it are recommended
_SCREENED = 200_000  # counts drawn to compare settings; the best are drawn anew, so that a lucky draw is not reported


@final
@dataclass(frozen=True)
class PlannedVote:
    """One mechanism for a number of rounds, with the noise that spends the budget, and what to expect of it."""

    mechanism: Vote
    rounds: int
    prediction: Prediction
    outlook: Outlook

    @property
    def name(self) -> str:
        """Of its class."""
        return type(self.mechanism).__name__

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
            "noise": self.outlook.noise,
            "unanimous_label": self.outlook.unanimous,
            "label_without_votes": self.outlook.unvoted,
            "works": self.outlook.works,
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
class VotingPlan:
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
        ballots = self.votes.ballots
        return f"{self.rounds:,} rounds x {ballots.teachers:,} teachers x {ballots.labels:,} labels: {self.recommended.name}"

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

    def risk_in_words(self) -> str:
        """What an attacker gains from all rounds of the recommended job."""
        return self.recommended.risk.in_words(self.recommended.mechanism.relation, "record")

    def verdict(self) -> str:
        """What to expect of it, and whether it is worth while."""
        expected = self.recommended.prediction
        items = len(self.votes.truth)
        tried = f"{items:,} rounds of votes declared public" if self.model is None else "made-up votes"
        constant, named = self.constant
        best = "label" if named == 1 else f"{named} labels"
        words = f"F1 {expected.f1:.2f} drawn on {tried}, {expected.labels:.2f} labels an item"
        words += f"\nF1 {constant:.2f} by naming the most frequent {best} for every item"
        if self.f1_range is not None and self.f1_range[0] < self.f1_range[1]:
            low, high = self.f1_range
            words += f"\nF1 {low:.2f} to {high:.2f} if what is not stated is as on five public data sets; --votes settles it"
        if not self.recommended.outlook.works:
            words += "\nThis does not work: the noise leaves little of the votes."
        elif not self.works:
            words += "\nThis does not work: naming the most frequent labels is better."
        return words

    def command(self) -> str:
        """The command that labels so."""
        if not self.works:
            return "Plan fewer rounds, more teachers or a larger budget. dpselect pate refuses such a job without --anyway."
        mechanism = self.recommended.mechanism
        chosen = {name: getattr(mechanism, name, None) for name in ("threshold", "tau", "k")}
        chosen |= {} if self.model is None else self.model.model_dump(include={"votes_per_item", "agreement", "label_skew"})
        settings = [f"--{name.replace('_', '-')} {value:g}" for name, value in chosen.items() if value is not None]
        stated = {"epsilon": self.budget.epsilon, "delta": self.budget.delta}
        budget = [f"--{name} {value:g}" for name, value in stated.items() if value]
        parts = ["dpselect pate votes.npz --output labels.csv --mechanism", SHORT[type(mechanism)], *settings, *budget]
        in_python = "pate.fitted(...) in Python: the command takes --epsilon and --delta"
        return " ".join(parts) if self.budget.form != "zcdp" else in_python

    def write_page(self, path: Path) -> None:
        """Write the plan as one page that needs no network, to a new file."""
        from accounting.page.templates import asset, template  # jinja2, which other plans do without

        content = template(__package__, "voting_plan.html").render(
            style=asset("accounting.page", "report.css") + asset(__package__, "page.css"),
            plan=self,
            facts=self._facts(),
            heads=HEADS,
            rows=[[planned.name, *planned.cells()[1:]] for planned in self.ranked],
            figures=[
                figure(self._chart("f1", "F1", "expected micro-F1", lambda planned: planned.prediction.f1)),
                figure(self._chart("labels", "Labels an item", "labels for an item", lambda planned: planned.prediction.labels)),
            ],
        )
        with new_file(path, "the page", encoding="utf-8") as file:
            file.write(content)

    def _facts(self) -> list[tuple[str, str]]:
        if self.model is not None:
            return [(name, f"{value:,}") for name, value in self.model.model_dump(exclude_none=True).items()]
        items, true = len(self.votes.truth), float(np.asarray(self.votes.truth).sum())
        return [("items tried", f"{items:,}"), ("true labels an item", f"{true / items:.3g}")]

    def _chart(self, key: Key, title: str, y_label: str, value: Callable[[PlannedVote], float]) -> Chart:
        """By the number of rounds, a line for each kind."""
        points: dict[str, list[Point]] = {}
        for planned in (one for ranked in self.by_rounds for one in ranked):
            y = value(planned)
            points.setdefault(planned.name, []).append(Point(x=planned.rounds, y=y, low=y, high=y))
        lines = tuple(Line(name=name, points=tuple(points[name])) for name in sorted(points))
        at = min(max(self.rounds, _ROUNDS[0]), _ROUNDS[-1])
        return Chart(key=key, title=title, x_label="rounds", y_label=y_label, lines=lines, planned=at, share=key == "f1")


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
    made = simulated(votes, seed=seed) if isinstance(votes, VotesModel) else votes
    candidates = _Candidates(made, model, budget, seed)
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
    return VotingPlan(made, model, budget, planned, ranked, grid, likely, made.constant)


@dataclass(frozen=True)
class _Candidates:
    """The mechanisms that are considered, and the votes on which they are tried."""

    votes: TrialVotes
    model: VotesModel | None
    budget: acc.Budget
    seed: int

    @cached_property
    def _size(self) -> int:
        """About how many labels are true of an item."""
        mean = self.votes.truth.sum() / len(self.votes.truth) if self.model is None else self.model.votes_per_item
        return max(1, math.ceil(mean - 1e-9))

    @cached_property
    def _cut(self) -> dict[int, TrialVotes]:
        """Votes by what their ballots are cut to."""
        near, trial = self._size, self.votes
        taus = sorted({tau for tau in (1, near, near + 1, 2 * near) if 2 * tau < trial.ballots.labels})
        return {tau: TrialVotes(trial.ballots.cut(tau), trial.truth, public=True) for tau in taus}

    @cached_property
    def _choices(self) -> TrialVotes | None:
        """Ballots of one vote each, where one label is right."""
        if self.model is not None:
            return TrialVotes.of_choices(self.model, seed=self.seed) if self.model.votes_per_item == 1 else None
        try:
            self.votes.ballots.check(GNMax(sigma=1.0, labels=self.votes.ballots.labels))
        except InvalidBallots:
            return None
        return self.votes

    @cached_property
    def _rho(self) -> float:
        """The rho of all Gaussian noise that the budget pays for, whatever it is divided into; 0 for none."""
        try:
            return acc.calibrate(lambda mu: acc.GaussianDP(mu=mu), self.budget, (1e-6, 1e6)) ** 2 / 2
        except acc.errors.CalibrationError:
            return 0.0

    def ranked(self, rounds: int) -> tuple[PlannedVote, ...]:
        """The best setting of every family that the budget pays for, best F1 first."""
        found: list[PlannedVote] = []
        for family in self._families(rounds):
            tried = [(self._prediction(mechanism, seed=self.seed, counts=_SCREENED).f1, mechanism) for mechanism in family]
            if tried:
                best = max(tried, key=lambda one: one[0])[1].with_teachers(self.votes.ballots.teachers)
                prediction = self._prediction(best, seed=self.seed + 1)
                found.append(PlannedVote(best, rounds, prediction, outlook(best, teachers=self.votes.ballots.teachers)))
        return tuple(sorted(found, key=lambda one: -one.prediction.f1))

    def _families(self, rounds: int) -> Iterator[list[Vote]]:
        labels, teachers = self.votes.ballots.labels, self.votes.ballots.teachers
        levels, agreed = ([share * teachers for share in shares] for shares in (_THRESHOLDS, _CONFIDENT_THRESHOLDS))
        yield self._at(levels, BinaryVoting, rounds)
        yield [one for tau in self._cut for one in self._at(levels, TauVoting, rounds, tau=tau)]
        if self.budget.delta and (rho := _rho(self.budget, _share(self.budget, rounds))) is not None:
            failure = _failure(self.budget, rounds)
            yield [StableVoting(rho=rho / rounds * _SAFE, failure_delta=failure, labels=labels)]
        if (rho := _rho(self.budget, 0.0)) is not None:
            sizes = sorted({min(labels, size) for size in (1, self._size // 2, self._size, self._size + 1) if size})
            yield [TopVotes(k=k, scale=math.sqrt(k * rounds / (2 * rho)) / _SAFE, labels=labels) for k in sizes]
        if self._choices is not None:
            yield self._spending(rounds, GNMax)
            yield self._at(agreed, ConfidentGNMax, rounds, sigma_threshold=2.0)

    def _at(self, thresholds: Sequence[float], member: type[Vote], rounds: int, **settings: Any) -> list[Vote]:
        """A mechanism at each threshold, which is public and changes no price."""
        return [one for level in thresholds for one in self._spending(rounds, member, threshold=level, **settings)]

    def _spending(self, rounds: int, member: type[Vote], **settings: Any) -> list[Vote]:
        """The mechanism that spends the budget, if there is one: rho falls with the square of the noise."""
        if self._rho == 0:
            return []
        one = member.model_validate({**settings, "sigma": 1.0, "labels": self.votes.ballots.labels})
        sigma = math.sqrt(one.curve.rho * rounds / self._rho)
        noise = {name: settings.get(name, 1.0) * sigma for name in ("sigma", "sigma_threshold") if name in member.model_fields}
        return [member.model_validate({**one.model_dump(exclude={"kind"}), **noise})]

    def _prediction(self, mechanism: Vote, **draws: Any) -> Prediction:
        trial = self.votes
        if isinstance(mechanism, TauVoting):
            trial = self._cut[mechanism.tau]
        elif mechanism.one_vote and self._choices is not None:
            trial = self._choices
        return Prediction.of(mechanism.with_teachers(trial.ballots.teachers), trial.ballots, trial.truth, **draws)
