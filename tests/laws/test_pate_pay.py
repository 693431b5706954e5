"""Confident GNMax, paid for by what happened: whole sessions against a filter's budget."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ballot_pairs import Counts, neighbours

import accounting as acc
import dpselect as dps
from accounting.budget import NOTHING, Price
from dpselect import pate, verify
from dpselect.errors import InvalidRequest
from dpselect.pate.voting import ABSTAINED
from dpselect.scores import Scores
from dpselect.verify.divergences import hockey_stick

Charge = Callable[[pate.ConfidentGNMax, dps.Selection], acc.Curve | None]
State = tuple[int, ...]

MECHANISM = pate.ConfidentGNMax(threshold=3.5, sigma_threshold=0.8, sigma=1.5, labels=2)
OUTCOMES: list[tuple[int, ...]] = [(), (0,), (1,)]


def selection_of(outcome: tuple[int, ...]) -> dps.Selection:
    """What the mechanism would have released."""
    answered = outcome != ()
    return dps.Selection(indices=outcome, ordered=True, requested=1, complete=answered, reason=None if answered else ABSTAINED)


def sessions(law: dict[tuple[int, ...], float], budget: acc.Budget, charge: Charge, most: int) -> dict[State, float]:
    """Law of how often each outcome occurs in a session that repeats the round while its full price fits, `most` times at most.

    How often is all that a likelihood ratio depends on, since rounds are alike and when a session ends depends on it alone.
    """
    curves = [charge(MECHANISM, selection_of(outcome)) for outcome in OUTCOMES]
    prices = [NOTHING if curve is None else budget.price(curve) for curve in curves]
    open_, done = {(0, 0, 0): 1.0}, dict[State, float]()
    for _ in range(most):
        following: dict[State, float] = {}
        for state, chance in open_.items():
            spent = Price(*(sum(n * price[i] for n, price in zip(state, prices, strict=True)) for i in (0, 1)))
            if not budget.can_afford(spent, MECHANISM.curve):
                done[state] = chance
                continue
            for place, outcome in enumerate(OUTCOMES):
                longer = tuple(n + (i == place) for i, n in enumerate(state))
                following[longer] = following.get(longer, 0.0) + chance * law[outcome]
        open_ = following
    return done | open_


def overspent(budget: acc.Budget, charge: Charge, most: int, teachers: int = 4) -> float:
    """How far a session exceeds zCDP with the budget's rho in delta, over all neighbouring ballots."""
    assert budget.rho is not None
    claimed = np.array([acc.ZCDP(rho=budget.rho).delta(epsilon) for epsilon in verify.EPSILONS])
    laws: dict[Counts, dict[State, float]] = {}
    worst = -np.inf
    for first, second in sorted(neighbours(2, 1, 1, teachers, "replace_one")):
        for counts in (first, second):
            if counts not in laws:
                law = MECHANISM.probabilities(Scores(counts, sensitivity=MECHANISM.covers))
                laws[counts] = sessions(law, budget, charge, most)
        states = list({**laws[first], **laws[second]})
        p, q = ([laws[counts].get(state, 0.0) for state in states] for counts in (first, second))
        worst = max(worst, float((hockey_stick(p, q, verify.EPSILONS)[:, 0] - claimed).max()))
    return worst


def pay(mechanism: pate.ConfidentGNMax, selection: dps.Selection) -> acc.Curve:
    """What the theorem charges."""
    return mechanism.spent(selection)


def free_silence(mechanism: pate.ConfidentGNMax, selection: dps.Selection) -> acc.Curve | None:
    """Charges rounds with an answer only."""
    return mechanism.curve if selection.complete else None


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_paying_for_what_happened_keeps_the_budget(rounds: int) -> None:
    """Theorem P10: sessions that charge `spent` stay within the rho of a filter, however many rounds abstain."""
    budget = acc.Budget(rho=rounds * MECHANISM.curve.rho)
    assert overspent(budget, pay, most=30) <= 1e-12


def test_free_silence_is_caught() -> None:
    """Sessions that charge nothing for rounds that abstain outrun their budget."""
    assert overspent(acc.Budget(rho=MECHANISM.curve.rho), free_silence, most=30) > 1e-3


def test_spent_tells_the_two_prices() -> None:
    """An answer costs the whole curve, silence the test; other mechanisms' selections are refused."""
    assert MECHANISM.spent(selection_of((1,))) == MECHANISM.curve
    assert MECHANISM.spent(selection_of(())) == acc.GaussianDP(mu=1 / 0.8)
    for foreign in (
        dps.Selection(indices=(0,), ordered=True, requested=2),
        dps.Selection(indices=(0, 1), ordered=True, requested=1),
        dps.Selection(indices=(), ordered=True, requested=1),
    ):
        with pytest.raises(InvalidRequest):
            MECHANISM.spent(foreign)
