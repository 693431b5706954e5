"""Which mechanism, threshold and tau to label with, and how many rounds a budget is good for: before a vote is cast.

Every candidate gets the noise that spends the whole budget on all rounds, and is tried on votes on public items, or on votes that
are made up from public numbers. The chances are exact for those votes; nothing is released or charged. StableVoting is
priced by zCDP here, which is quick and buys a little less than `fitted`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from accounting import Budget, CalibrationError, GaussianDP, calibrate
from accounting.arguments import checked_integer
from dpselect.errors import InvalidBallots, InvalidRequest
from dpselect.pate.ballots import Ballots, Vote
from dpselect.pate.budgets import quick_stable
from dpselect.pate.outlook import (
    Flags,
    Outlook,
    Prediction,
    TrialVotes,
    VotesModel,
    f1_range,
    outlook,
    prediction,
    simulated,
    simulated_choices,
)
from dpselect.pate.voting import BinaryVoting, ConfidentGNMax, GNMax, TauVoting

Counts = NDArray[np.int64]

_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6)  # thresholds tried, as shares of the teachers
_CONFIDENT_SHARES = (0.2, 0.35, 0.5)
_DRAWS = 5
_ROUNDS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_GOOD = 0.9  # of the F1 of ten rounds: as many rounds as keep it are recommended


@final
@dataclass(frozen=True)
class PlannedVote:
    """One mechanism for a number of rounds, with the noise that spends the budget, and what to expect of it."""

    mechanism: Vote
    rounds: int
    prediction: Prediction
    outlook: Outlook


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
        drawn_f1: mean micro-F1 of seeded draws for the first of `ranked` on the same votes, beside its prediction.
        f1_range: of the first of `ranked`, where what the model leaves open is as on any of five public data sets; None
            where votes were given.
    """

    votes: TrialVotes
    model: VotesModel | None
    budget: Budget
    rounds: int
    ranked: tuple[PlannedVote, ...]
    by_rounds: tuple[tuple[PlannedVote, ...], ...]
    drawn_f1: float
    f1_range: tuple[float, float] | None

    @property
    def recommended(self) -> PlannedVote:
        """The mechanism with the best F1."""
        return self.ranked[0]


def plan_votes(votes: VotesModel | TrialVotes, budget: Budget, *, rounds: int | None = None, seed: int = 0) -> VotingPlan:
    """Plan a labelling job from public numbers, or from votes on public items, which predict its F1 to about .01.

    Args:
        votes: teachers, labels, labels an item, and how far teachers agree; or uncut votes of teachers of public data. A plan is
            as private as the votes are.
        budget: what all rounds may cost together.
        rounds: how many items are to be labelled; None recommends a number.
        seed: of the votes that are made up.

    Raises:
        InvalidRequest: `rounds` is not an integer >= 1, the model has more labels an item than labels, or `truth` has another
            shape than the counts.
        InvalidBallots: votes were given as counts, which cannot be cut.
        CalibrationError: the budget pays for no mechanism, a pure one for example.
    """
    if rounds is not None:
        rounds = checked_integer("rounds", rounds, "how many items are labelled", error=InvalidRequest)
    model = votes if isinstance(votes, VotesModel) else None
    made = simulated(votes, seed=seed) if isinstance(votes, VotesModel) else votes
    trial = _Trial(made, model, budget, seed)
    grid = tuple(trial.ranked(count) for count in _ROUNDS)
    if not any(grid):
        raise CalibrationError(
            "no mechanism on votes fits this budget: raise it, and give it a delta (Gaussian noise has no pure guarantee)"
        )
    found = [(ranked[0].rounds, ranked[0].prediction.f1) for ranked in grid if ranked]
    planned = max(count for count, f1 in found if f1 >= _GOOD * found[0][1]) if rounds is None else rounds
    ranked = trial.ranked(planned)
    if not ranked:
        raise CalibrationError(f"no mechanism on votes fits {planned} rounds into this budget: plan fewer rounds or raise it")
    best = ranked[0].mechanism
    likely = None if model is None else f1_range(best, model, seed=seed)
    return VotingPlan(made, model, budget, planned, ranked, grid, trial.drawn_f1(best), likely)


@dataclass(frozen=True)
class _Trial:
    """Votes, and the mechanisms that are tried on them."""

    votes: TrialVotes
    model: VotesModel | None
    budget: Budget
    seed: int

    @cached_property
    def _ballots(self) -> dict[int | None, tuple[Ballots, Flags]]:
        """Ballots by what they are cut to; None for not at all."""
        ballots, truth = self.votes.ballots, np.asarray(self.votes.truth, dtype=np.bool_)
        if truth.shape != ballots.counts.shape:
            raise InvalidRequest(f"truth has shape {truth.shape} and the counts have {ballots.counts.shape}: one row a round")
        near = max(1, math.ceil(truth.sum() / len(truth) - 1e-9)) if self.model is None else math.ceil(self.model.votes_per_item)
        taus = sorted({tau for tau in (1, near, near + 1, 2 * near) if 2 * tau < ballots.labels})
        return {None: (ballots, truth), **{tau: (ballots.cut(tau), truth) for tau in taus}}

    @cached_property
    def _choices(self) -> tuple[Ballots, Flags] | None:
        """Ballots of one vote each, where one label is right."""
        if self.model is None:
            try:
                self.votes.ballots.check(GNMax(sigma=1.0, labels=self.votes.ballots.labels))
            except InvalidBallots:
                return None
            return self._ballots[None]
        if self.model.votes_per_item != 1:
            return None
        made = simulated_choices(self.model, seed=self.seed)
        return made.ballots, made.truth

    @cached_property
    def _gaussian_rho(self) -> float:
        """The rho of all Gaussian noise that the budget pays for, whatever it is divided into; 0 for none."""
        try:
            return calibrate(lambda mu: GaussianDP(mu=mu), self.budget, (1e-6, 1e6)) ** 2 / 2
        except CalibrationError:
            return 0.0

    def ranked(self, rounds: int) -> tuple[PlannedVote, ...]:
        """The best setting of every family that the budget pays for, best F1 first."""
        ballots = self.votes.ballots
        levels = [share * ballots.teachers for share in _SHARES]
        cut = [base for tau in self._ballots if tau is not None for base in self._fitted(TauVoting, rounds, tau=tau)]
        families: list[Sequence[Vote]] = [
            _at(levels, self._fitted(BinaryVoting, rounds)),
            _at(levels, cut),
            quick_stable(self.budget, rounds, ballots.labels),
        ]
        if self._choices is not None:
            agreed = [share * ballots.teachers for share in _CONFIDENT_SHARES]
            confident = self._fitted(ConfidentGNMax, rounds, threshold=0.5 * ballots.teachers)
            families += [self._fitted(GNMax, rounds), _at(agreed, confident)]
        planned = [[self._planned(mechanism, rounds) for mechanism in family] for family in families]
        found = [max(family, key=lambda one: one.prediction.f1) for family in planned if family]
        return tuple(sorted(found, key=lambda one: -one.prediction.f1))

    def drawn_f1(self, mechanism: Vote) -> float:
        """Micro-F1 of labels that are drawn with seeds, all draws together: a simulation."""
        ballots, truth = self._data_of(mechanism)
        said = right = 0
        for seed in range(self.seed, self.seed + _DRAWS):
            released = mechanism.select_many(ballots, rng=np.random.default_rng(seed)).indices
            rows, places = np.nonzero(released >= 0)
            said, right = said + len(rows), right + int(truth[rows, released[rows, places]].sum())
        together = said + _DRAWS * int(truth.sum())
        return 2 * right / together if together else 0.0

    def _data_of(self, mechanism: Vote) -> tuple[Ballots, Flags]:
        if isinstance(mechanism, TauVoting):
            return self._ballots[mechanism.tau]
        if isinstance(mechanism, GNMax | ConfidentGNMax):
            assert self._choices is not None
            return self._choices
        return self._ballots[None]

    def _fitted(self, member: type[Vote], rounds: int, **settings: Any) -> list[Vote]:
        """The mechanism that spends the budget, if there is one: rho falls with the square of the noise."""
        if self._gaussian_rho == 0:
            return []
        ratio = {"sigma_threshold": 2.0} if member is ConfidentGNMax else {}
        one = member.model_validate({**ratio, **settings, "sigma": 1.0, "labels": self.votes.ballots.labels})
        sigma = math.sqrt(one.curve.rho * rounds / self._gaussian_rho)
        noise = {name: scale * sigma for name, scale in {**ratio, "sigma": 1.0}.items()}
        return [member.model_validate({**one.model_dump(exclude={"kind"}), **noise})]

    def _planned(self, mechanism: Vote, rounds: int) -> PlannedVote:
        ballots, truth = self._data_of(mechanism)
        settled = mechanism.with_teachers(self.votes.ballots.teachers)
        expected = prediction(settled, np.asarray(ballots.counts, dtype=np.int64), truth)
        return PlannedVote(settled, rounds, expected, outlook(settled, teachers=self.votes.ballots.teachers))


def _at(thresholds: Sequence[float], bases: Iterable[Vote]) -> list[Vote]:
    """Each mechanism at each threshold, which is public and changes no price."""
    return [base.model_copy(update={"threshold": level}) for base in bases for level in thresholds]
