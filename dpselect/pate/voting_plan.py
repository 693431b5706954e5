"""Which mechanism, threshold and tau to label with, and how many rounds a budget is good for: before a vote is cast.

Every candidate gets the noise that spends the whole budget on all rounds, and is tried on votes that are made up from public
numbers. The chances are exact for those votes; nothing is released and nothing is charged, so trying many costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from accounting import Budget, CalibrationError
from accounting.arguments import checked_integer
from dpselect.errors import InvalidRequest
from dpselect.pate.ballots.ballots import Ballots, Vote
from dpselect.pate.budgets import fitted, quick_stable
from dpselect.pate.outlook import (
    Flags,
    Outlook,
    Prediction,
    VotesModel,
    outlook,
    prediction,
    simulated,
    simulated_choices,
)
from dpselect.pate.voting.binary_voting import BinaryVoting
from dpselect.pate.voting.confident_gnmax import ConfidentGNMax
from dpselect.pate.voting.gnmax import GNMax
from dpselect.pate.voting.stable_voting import StableVoting
from dpselect.pate.voting.tau_voting import TauVoting

Counts = NDArray[np.int64]

_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6)  # thresholds tried, as shares of the teachers
_CONFIDENT_SHARES = (0.2, 0.35, 0.5)
_CHOICES = 150  # rounds of one vote per teacher that are made up
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
        model: the public numbers that votes were made up from.
        budget: what all rounds cost together.
        rounds: those that were asked for, or as many as keep nine tenths of the F1 of ten rounds.
        ranked: the best setting of each family for these rounds, best F1 first.
        by_rounds: the same for a grid of rounds.
        drawn_f1: micro-F1 of labels that were drawn for the first of `ranked` on the made-up votes, beside its prediction.
    """

    model: VotesModel
    budget: Budget
    rounds: int
    ranked: tuple[PlannedVote, ...]
    by_rounds: tuple[tuple[PlannedVote, ...], ...]
    drawn_f1: float

    @property
    def recommended(self) -> PlannedVote:
        """The mechanism with the best F1."""
        return self.ranked[0]


def plan_votes(model: VotesModel, budget: Budget, *, rounds: int | None = None, seed: int = 0) -> VotingPlan:
    """Plan a labelling job from public numbers.

    Args:
        model: teachers, labels, labels an item, and how far teachers agree.
        budget: what all rounds may cost together.
        rounds: how many items are to be labelled; None recommends a number.
        seed: of the votes that are made up.

    Raises:
        InvalidRequest: `rounds` is not an integer >= 1, or the model has more labels an item than labels.
        CalibrationError: the budget pays for no mechanism, a pure one for example.
    """
    if rounds is not None:
        rounds = checked_integer("rounds", rounds, "how many items are labelled", error=InvalidRequest)
    trial = _Trial(model, budget, seed)
    grid = tuple(trial.ranked(count, quick=True) for count in _ROUNDS)
    if not any(grid):
        raise CalibrationError(
            "no mechanism on votes fits this budget: raise it, and give it a delta (Gaussian noise has no pure guarantee)"
        )
    planned = _most_that_keep_their_f1(grid) if rounds is None else rounds
    ranked = trial.ranked(planned)
    if not ranked:
        raise CalibrationError(f"no mechanism on votes fits {planned} rounds into this budget: plan fewer rounds or raise it")
    return VotingPlan(model, budget, planned, ranked, grid, trial.drawn_f1(ranked[0].mechanism, seed))


def _most_that_keep_their_f1(grid: tuple[tuple[PlannedVote, ...], ...]) -> int:
    best = [(ranked[0].rounds, ranked[0].prediction.f1) for ranked in grid if ranked]
    return max(rounds for rounds, f1 in best if f1 >= _GOOD * best[0][1])


@dataclass(frozen=True)
class _Trial:
    """Made-up votes, and the mechanisms that are tried on them."""

    model: VotesModel
    budget: Budget
    seed: int

    @cached_property
    def _ballots(self) -> dict[int | None, tuple[Ballots, Flags]]:
        """Ballots by what they are cut to; None for not at all."""
        made = simulated(self.model, seed=self.seed)
        near = math.ceil(self.model.votes_per_item)
        taus = sorted({tau for tau in (1, near, near + 1, 2 * near) if 2 * tau < self.model.labels})
        return {None: (made.ballots, made.truth), **{tau: (made.ballots.cut(tau), made.truth) for tau in taus}}

    @cached_property
    def _choices(self) -> tuple[Ballots, Flags] | None:
        """Ballots of one vote each, where one label is right."""
        if self.model.votes_per_item != 1:
            return None
        counts, truth = simulated_choices(self.model, items=_CHOICES, seed=self.seed)
        return Ballots(counts, teachers=self.model.teachers, missing="allow"), truth

    def ranked(self, rounds: int, *, quick: bool = False) -> tuple[PlannedVote, ...]:
        """The best setting of every family that the budget pays for, best F1 first."""
        families = [
            list(self._level(None, rounds)),
            list(self._tau(rounds)),
            list(self._stable(rounds, quick=quick)),
            list(self._gnmax(rounds)),
            list(self._confident(rounds)),
        ]
        found = [max(family, key=lambda planned: planned.prediction.f1) for family in families if family]
        return tuple(sorted(found, key=lambda planned: -planned.prediction.f1))

    def drawn_f1(self, mechanism: Vote, seed: int) -> float:
        """Micro-F1 of labels that are drawn on made-up votes, with a seed: a simulation."""
        ballots, truth = self._data_of(mechanism)
        released = mechanism.select_many(ballots, rng=np.random.default_rng(seed))
        said = np.zeros_like(truth)
        rows, places = np.nonzero(released.indices >= 0)
        said[rows, released.indices[rows, places]] = True
        together = int(said.sum() + truth.sum())
        return 2 * int((said & truth).sum()) / together if together else 0.0

    def _data_of(self, mechanism: Vote) -> tuple[Ballots, Flags]:
        if isinstance(mechanism, TauVoting):
            return self._ballots[mechanism.tau]
        if isinstance(mechanism, GNMax | ConfidentGNMax):
            assert self._choices is not None
            return self._choices
        return self._ballots[None]

    def _tau(self, rounds: int) -> Iterator[PlannedVote]:
        for tau in self._ballots:
            if tau is not None:
                yield from self._level(tau, rounds)

    def _level(self, tau: int | None, rounds: int) -> Iterator[PlannedVote]:
        cut: dict[str, Any] = {} if tau is None else {"tau": tau}
        for base in self._fitted(BinaryVoting if tau is None else TauVoting, rounds, **cut):
            # The threshold is public and changes no price.
            yield from (
                self._planned(base.model_copy(update={"threshold": share * self.model.teachers}), rounds) for share in _SHARES
            )

    def _stable(self, rounds: int, *, quick: bool) -> Iterator[PlannedVote]:
        """With `quick` priced by zCDP alone, which buys a little less."""
        found = self._fitted(StableVoting, rounds) if not quick else quick_stable(self.budget, rounds, self.model.labels)
        return (self._planned(mechanism, rounds) for mechanism in found)

    def _gnmax(self, rounds: int) -> Iterator[PlannedVote]:
        if self._choices is not None:
            yield from (self._planned(mechanism, rounds) for mechanism in self._fitted(GNMax, rounds))

    def _confident(self, rounds: int) -> Iterator[PlannedVote]:
        if self._choices is not None:
            for base in self._fitted(ConfidentGNMax, rounds, threshold=0.5 * self.model.teachers):
                levels = (share * self.model.teachers for share in _CONFIDENT_SHARES)
                yield from (self._planned(base.model_copy(update={"threshold": level}), rounds) for level in levels)

    def _fitted(self, member: type[Vote], rounds: int, **settings: Any) -> list[Vote]:
        """The mechanism that spends the budget, if there is one."""
        try:
            found = fitted(member, self.budget, rounds=rounds, labels=self.model.labels, **settings)
        except (CalibrationError, InvalidRequest):
            return []
        assert isinstance(found, Vote)
        return [found]

    def _planned(self, mechanism: Vote, rounds: int) -> PlannedVote:
        ballots, truth = self._data_of(mechanism)
        settled = mechanism.with_teachers(self.model.teachers)
        expected = prediction(settled, np.asarray(ballots.counts, dtype=np.int64), truth)
        return PlannedVote(settled, rounds, expected, outlook(settled, teachers=self.model.teachers))
