"""Limited Domain, paid for by what it releases: whole sessions against a filter's budget."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from accounting.budget import Price
from accounting.convert.bounds import best_delta
from dpselect import verify
from dpselect.scores import Domain, Scores
from dpselect.verify.divergences import hockey_stick

Vector = tuple[int, ...]
Charge = Callable[[dps.LimitedDomain, dps.Selection], acc.Curve]


def transcripts(mechanism: dps.LimitedDomain, law: dict[Any, float], budget: acc.Budget, charge: Charge) -> dict[Any, float]:
    """Law of all answers of a session that repeats the call while its full curve still fits."""
    done: dict[Any, float] = {}
    open_: dict[tuple[Any, Price], float] = {((), Price(0, 0)): 1.0}
    prices = {o: budget.price(charge(mechanism, _as_selection(mechanism, o))) for o in law}
    while open_:
        following: dict[tuple[Any, Price], float] = {}
        for (answers, spent), chance in open_.items():
            if not budget.can_afford(spent, mechanism.curve):
                done[answers] = chance
                continue
            for answer, probability in law.items():
                following[(*answers, answer), spent.plus(prices[answer])] = chance * probability
        open_ = following
    return done


def _as_selection(mechanism: dps.LimitedDomain, answer: tuple[int, ...]) -> dps.Selection:
    return dps.Selection(indices=answer, ordered=True, requested=mechanism.k, complete=len(answer) == mechanism.k)


def overspent(
    mechanism: dps.LimitedDomain,
    budget: acc.Budget,
    guarantee: acc.Curve,
    charge: Charge,
    vectors: list[Vector],
    domain: Domain = "public",
) -> float:
    """How far a session of repeated calls exceeds `guarantee` in delta, over neighbouring pairs among the vectors."""
    core, worst = guarantee.core_epsilon, -np.inf
    epsilons = [*verify.EPSILONS, core] if np.isfinite(core) else verify.EPSILONS
    claimed = np.array([best_delta(guarantee, e).value for e in epsilons])
    laws = {
        v: transcripts(mechanism, mechanism.probabilities(Scores(v, sensitivity=mechanism.covers, domain=domain)), budget, charge)
        for v in vectors
    }
    for first, change in itertools.product(vectors, verify.changes(mechanism.covers, len(vectors[0]))):
        second = tuple(np.add(first, change).tolist())
        if second not in laws:
            continue
        keys = list({**laws[first], **laws[second]})
        p, q = ([laws[v].get(key, 0.0) for key in keys] for v in (first, second))
        exact = np.maximum(hockey_stick(p, q, epsilons), hockey_stick(q, p, epsilons))[:, 0]
        worst = max(worst, float((exact - claimed).max()))
    return worst


def pay(mechanism: dps.LimitedDomain, selection: dps.Selection) -> acc.Curve:
    """What the theorem charges."""
    return mechanism.spent(selection)


SESSIONS = [
    (dps.LimitedDomain(k=2, kbar=2, epsilon=0.5, delta=1e-3), 3, 3, list(itertools.product(range(4), repeat=2))),
    (dps.LimitedDomain(k=2, kbar=2, epsilon=1.0, delta=0.05), 4, 3, list(itertools.product(range(5), repeat=2))),
    (dps.LimitedDomain(k=2, kbar=3, kbar_least=2, epsilon=0.5, delta=0.01), 6, 2, list(itertools.product(range(3), repeat=3))),
    (dps.LimitedDomain(k=2, kbar=2, epsilon=1.0, delta=1e-6), 4, 20, [(c,) for c in range(11, 18)]),
]


@pytest.mark.parametrize(("mechanism", "picks", "calls", "vectors"), SESSIONS, ids=lambda value: str(value)[:60])
def test_paying_for_what_one_gets_keeps_the_budget(
    mechanism: dps.LimitedDomain, picks: int, calls: int, vectors: list[tuple[int, ...]]
) -> None:
    """Theorem S8: repeated calls, each charged `spent`, stay within a filter's budget, added up as pure epsilons or as rho."""
    pick, delta = acc.BoundedRange(epsilon=mechanism.epsilon), calls * mechanism.delta
    domain: Domain = "observed" if len(vectors[0]) == 3 else "public"
    pure = acc.Budget(epsilon=picks * mechanism.epsilon, delta=delta, order="inf")
    assert overspent(mechanism, pure, acc.ApproxDP(epsilon=picks * mechanism.epsilon, delta=delta), pay, vectors, domain) <= 1e-12
    rho = (picks * pick).rho
    zcdp = acc.Approximate(curve=acc.ZCDP(rho=rho), delta0=delta)
    assert overspent(mechanism, acc.Budget(rho=rho, delta=delta), zcdp, pay, vectors, domain) <= 1e-12


def test_spent_counts_the_threshold_once() -> None:
    """One pick per item and one for the threshold that ended the call early; a full answer costs the whole curve."""
    mechanism = dps.LimitedDomain(k=3, kbar=5, epsilon=0.5, delta=1e-6)
    prices = [mechanism.spent(_as_selection(mechanism, tuple(range(n)))).core_epsilon for n in range(4)]
    assert prices == [0.5, 1.0, 1.5, 1.5]
    assert mechanism.spent(_as_selection(mechanism, (0, 1, 2))) == mechanism.curve
    with pytest.raises(dps.errors.InvalidRequest, match="not released"):
        mechanism.spent(dps.Selection(indices=(0,), ordered=False, requested=3))


# -- bugs: what is not charged ------------------------------------------------------------------------------------------------


def threshold_for_free(mechanism: dps.LimitedDomain, selection: dps.Selection) -> acc.Curve:
    """Charges the released items and not the threshold that ended the call."""
    return acc.Approximate(curve=len(selection) * acc.BoundedRange(epsilon=mechanism.epsilon), delta0=mechanism.delta)


def delta_once(mechanism: dps.LimitedDomain, selection: dps.Selection) -> acc.Curve:
    """Charges the picks and not the delta of the call."""
    price = mechanism.spent(selection)
    assert isinstance(price, acc.Approximate)
    return price.curve


@pytest.mark.slow
def test_a_free_threshold_is_caught() -> None:
    """Sessions that charge nothing for calls without an item outrun their budget."""
    mechanism, picks, calls, vectors = SESSIONS[-1]
    delta = calls * mechanism.delta
    budget = acc.Budget(epsilon=picks * mechanism.epsilon, delta=delta, order="inf")
    guarantee = acc.ApproxDP(epsilon=picks * mechanism.epsilon, delta=delta)
    assert overspent(mechanism, budget, guarantee, threshold_for_free, vectors) > 1e-9


@pytest.mark.parametrize(("charge", "breaks"), [(delta_once, True), (pay, False)])
def test_a_free_delta_is_caught(charge: Any, breaks: bool) -> None:
    """Sessions that charge delta for one call only outrun it."""
    mechanism = dps.LimitedDomain(k=1, kbar=1, epsilon=1.0, delta=0.01)
    budget = acc.Budget(epsilon=4.0, delta=0.01, order="inf")
    guarantee = acc.ApproxDP(epsilon=4.0, delta=0.01)
    assert (overspent(mechanism, budget, guarantee, charge, [(0,), (1,)], "observed") > 1e-9) == breaks
