"""Pay for what a release used: whole sessions of Limited Domain and of confident GNMax against a
filter (Theorems S8 and P10), and adaptive plans through a real ledger (F8), enumerated.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ballot_pairs import Counts, Pair, neighbors
from exact import Law, aligned, apart, law_of, levels, stated, worst

import accounting as acc
import dpselect as dps
from accounting.cost import NOTHING, Cost
from accounting.ledger import Ledger
from dpselect import pate, verify
from dpselect.errors import InvalidRequest
from dpselect.pate.voting import ABSTAINED
from dpselect.scores import Domain

Charge = Callable[[Any, dps.Selection], acc.Curve | None]
VOTE = pate.ConfidentGNMax(threshold=3.5, sigma_threshold=0.8, sigma=1.5, labels=2)


def selection_of(mechanism: Any, answer: tuple[int, ...]) -> dps.Selection:
    """What the mechanism would have released."""
    k = getattr(mechanism, "k", 1)
    silent = ABSTAINED if mechanism is VOTE and not answer else None
    return dps.Selection(
        indices=answer, ordered=True, requested=k, complete=len(answer) == k, reason=silent
    )


def sessions(
    mechanism: Any, law: Law, prices: dict[Any, Cost], budget: acc.Budget, most: int = 30
) -> Law:
    """Law of how often each answer occurs in a session that repeats the call while its full price
    fits, `most` times at most.

    How often is all that a likelihood ratio depends on, since calls are alike and when a session
    ends depends on it alone.
    """
    place = {answer: at for at, answer in enumerate(prices)}
    open_, done = {(0,) * len(place): 1.0}, dict[tuple[int, ...], float]()
    for _ in range(most):
        following: dict[tuple[int, ...], float] = {}
        for state, chance in open_.items():
            spent = Cost(
                *(
                    sum(n * price[i] for n, price in zip(state, prices.values(), strict=True))
                    for i in (0, 1)
                )
            )
            if not budget.can_afford(spent, mechanism.curve):
                done[state] = chance
                continue
            for answer, probability in law.items():
                at = place[answer]
                longer = (*state[:at], state[at] + 1, *state[at + 1 :])
                following[longer] = following.get(longer, 0.0) + chance * probability
        open_ = following
    return done | open_


def overspent(
    mechanism: Any,
    budget: acc.Budget,
    guarantee: acc.Curve,
    charge: Charge,
    pairs: list[Pair],
    domain: Domain = "public",
) -> float:
    """How far sessions exceed a guarantee in delta, over neighboring counts."""
    laws = {counts: law_of(mechanism, counts, domain=domain) for counts in itertools.chain(*pairs)}
    curves = {
        answer: charge(mechanism, selection_of(mechanism, answer))
        for law in laws.values()
        for answer in law
    }
    prices = {
        answer: NOTHING if curve is None else budget.filter_cost(curve)
        for answer, curve in curves.items()
    }
    whole = {counts: sessions(mechanism, law, prices, budget) for counts, law in laws.items()}
    found = worst([(whole[first], whole[second]) for first, second in pairs], levels(guarantee))
    return float((found.delta - stated(guarantee, found.epsilons)).max())


def pay(mechanism: Any, selection: dps.Selection) -> acc.Curve:
    """What the theorem charges."""
    curve: acc.Curve = mechanism.cost_of(selection)
    return curve


def near(mechanism: dps.LimitedDomain, vectors: list[Counts]) -> list[Pair]:
    """The neighboring pairs among these counts."""
    moved = [
        (v, tuple(np.add(v, c).tolist()))
        for v in vectors
        for c in verify.changes(mechanism.sensitivity_bound, len(v))
    ]
    return [(first, second) for first, second in moved if second in vectors]


def square(candidates: int, highest: int) -> list[Counts]:
    """All counts up to the highest."""
    return list(itertools.product(range(highest + 1), repeat=candidates))


# A mechanism, how many picks and calls its budget pays for, counts, and their domain.
SESSIONS: list[tuple[dps.LimitedDomain, int, int, list[Counts], Domain]] = [
    (dps.LimitedDomain(k=2, kbar=2, epsilon=0.5, delta=1e-3), 3, 3, square(2, 3), "public"),
    (dps.LimitedDomain(k=2, kbar=2, epsilon=1.0, delta=0.05), 4, 3, square(2, 4), "public"),
    (
        dps.LimitedDomain(k=2, kbar=3, kbar_least=2, epsilon=0.5, delta=0.01),
        6,
        2,
        square(3, 2),
        "observed",
    ),
    (
        dps.LimitedDomain(k=2, kbar=2, epsilon=1.0, delta=1e-6),
        4,
        20,
        [(c,) for c in range(11, 18)],
        "public",
    ),
]
BALLOTS = sorted(neighbors(2, 1, 1, 4, "replace_one"))


def pure(
    mechanism: dps.LimitedDomain, picks: int, delta: float
) -> tuple[Any, acc.Budget, acc.Curve]:
    """A budget for so many picks that adds up pure epsilons, and what it guarantees."""
    epsilon = picks * mechanism.epsilon
    return (
        mechanism,
        acc.Budget(epsilon=epsilon, delta=delta, order="inf"),
        acc.ApproxDP(epsilon=epsilon, delta=delta),
    )


@pytest.mark.parametrize("session", SESSIONS, ids=lambda value: str(value[0]))
def test_outcome_based_charges_stay_within_the_budget(session: Any) -> None:
    """Theorem S8: repeated calls, each charged `cost_of`, stay within a filter's budget, added up
    as pure epsilons or as rho.
    """
    mechanism, picks, calls, vectors, domain = session
    delta, pairs = calls * mechanism.delta, near(mechanism, vectors)
    rho = (picks * acc.BoundedRange(epsilon=mechanism.epsilon)).rho
    zcdp = acc.Approximate(curve=acc.ZCDP(rho=rho), delta0=delta)
    assert overspent(*pure(mechanism, picks, delta), pay, pairs, domain) <= 1e-12
    assert overspent(mechanism, acc.Budget(rho=rho, delta=delta), zcdp, pay, pairs, domain) <= 1e-12


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_paying_for_answers_and_silence_keeps_the_budget(rounds: int) -> None:
    """Theorem P10: sessions that charge `cost_of` stay within the rho of a filter, however many
    rounds abstain.
    """
    rho = rounds * VOTE.curve.rho
    assert overspent(VOTE, acc.Budget(rho=rho), acc.ZCDP(rho=rho), pay, BALLOTS) <= 1e-12


def test_spent_counts_the_threshold_once_and_tells_the_price_of_silence() -> None:
    """One pick per item and one for the threshold that ended the call early; a full answer costs
    the whole curve, silence the test; other mechanisms' selections are refused.
    """
    mechanism = dps.LimitedDomain(k=3, kbar=5, epsilon=0.5, delta=1e-6)
    prices = [
        mechanism.cost_of(selection_of(mechanism, tuple(range(n)))).core_epsilon for n in range(4)
    ]
    assert prices == [0.5, 1.0, 1.5, 1.5]
    for one, answer in ((mechanism, (0, 1, 2)), (VOTE, (1,))):
        assert pay(one, selection_of(one, answer)) == one.curve
    assert VOTE.cost_of(selection_of(VOTE, ())) == acc.GaussianDP(mu=1 / 0.8)
    with pytest.raises(InvalidRequest, match="not released"):
        mechanism.cost_of(dps.Selection(indices=(0,), ordered=False, requested=3))
    for foreign in (((0,), 2), ((0, 1), 1), ((), 1)):
        with pytest.raises(InvalidRequest):
            VOTE.cost_of(dps.Selection(indices=foreign[0], ordered=True, requested=foreign[1]))


# -- settled in a ledger ---------------------------------------------------------------------------

Left = Callable[[tuple[int, ...]], float]
NAMES = itertools.count()


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Callable[[acc.Budget, dps.LimitedDomain], Left]]:
    """What a ledger with this budget has left, in nats, once a call that released so many items is
    settled.
    """
    with Ledger.open(f"sqlite:///{tmp_path / 'privacy.db'}") as ledger:

        def settled(budget: acc.Budget, mechanism: dps.LimitedDomain, items: int) -> float:
            name, done = f"data {next(NAMES)}", items == mechanism.k
            ledger.create_dataset(name, budget, "add_remove")
            ledger.reserve(name, mechanism, key="first")
            ledger.commit(name, "first")
            selection = dps.Selection(
                indices=tuple(range(items)), ordered=True, requested=mechanism.k, complete=done
            )
            ledger.release(name, "first", spent=mechanism.cost_of(selection))
            return ledger.total(name).main

        def after(budget: acc.Budget, mechanism: dps.LimitedDomain) -> Left:
            of_so_many = functools.cache(lambda items: settled(budget, mechanism, items))
            return lambda items: of_so_many(len(items))

        yield after


def first_laws(mechanism: dps.LimitedDomain, counts: tuple[int, ...]) -> tuple[Law, Law]:
    """The laws of a call on these counts, and with a user more who has every item."""
    return law_of(mechanism, counts), law_of(mechanism, np.add(counts, 1))


def excess(
    left: Left, mechanism: dps.LimitedDomain, counts: tuple[int, ...], epsilon: float
) -> float:
    """The divergence at `epsilon`: a call, and permute-and-flip of all that is left after it."""
    laws: list[Law] = []
    for law, second in zip(first_laws(mechanism, counts), ((0, 0), (1, 0)), strict=True):
        then = {items: law_of(dps.PermuteAndFlip(epsilon=left(items)), second) for items in law}
        laws.append(
            {
                (items, winner): law[items] * share
                for items in law
                for winner, share in then[items].items()
            }
        )
    return float(apart(*aligned(laws), [epsilon])[0, 0])


CALL = dps.LimitedDomain(k=2, kbar=2, epsilon=0.3, delta=1e-6)
# Items that beat the threshold but for one time in fifty, so that a call that releases nothing has
# a log-ratio near 0.3.
COUNTS = (57, 57)
PURE = acc.Budget(epsilon=1.0, delta=1e-6, order="inf")


def test_an_adaptive_plan_keeps_and_approaches_a_pure_budget(left: Any) -> None:
    """A call that released nothing pays for one pick of two; all that is left is spent next, and
    the sum is not passed.
    """
    after = left(PURE, CALL)
    assert excess(after, CALL, COUNTS, 1.0) <= 1e-6
    assert excess(after, CALL, COUNTS, 0.97) >= 1e-4


@pytest.mark.parametrize("order", [2.0, 8.0])
def test_an_adaptive_plan_keeps_and_approaches_a_renyi_budget(left: Any, order: float) -> None:
    """The same at one order: Gaussian noise, which attains its price, for all that is left. The
    moment reaches the capacity.
    """
    budget = acc.Budget(epsilon=2.0 + 14 / (order - 1), delta=2e-6, order=order, failure=1e-6)
    capacity = acc.remaining.Remaining(budget, Cost(0, 0)).main
    after, worst = left(budget, CALL), 0.0
    for counts in ((c, c) for c in range(40, 60, 3)):
        q, p = first_laws(CALL, counts)
        rest = {items: after(items) for items in q}
        for one, two in ((p, q), (q, p)):
            moment = sum(
                one[o] ** order * two[o] ** (1 - order) * math.exp((order - 1) * rest[o]) for o in q
            )
            worst = max(worst, math.log(moment) / (order - 1))
    assert 0.97 * capacity <= worst <= capacity * (1 + 1e-9)


GAUSSIAN = acc.Budget(epsilon=1.0, delta=0.01, order="gaussian", failure=1e-6)
SMALL = dps.LimitedDomain(k=2, kbar=2, epsilon=0.1, delta=1e-6)


def passed(left: Left) -> float:
    """The largest delta at the budget's epsilon: a call, and a Gaussian answer of all the mu^2 that
    is left after it.
    """
    worst = 0.0
    for counts in ((c, c) for c in range(140, 180, 10)):
        q, p = first_laws(SMALL, counts)
        then = {items: acc.GaussianDP(mu=math.sqrt(left(items))) for items in q}
        for one, two in ((p, q), (q, p)):
            worst = max(
                worst,
                sum(one[o] * (then[o].profile(1.0 - math.log(one[o] / two[o])) or 0.0) for o in q),
            )
    return worst


def test_an_adaptive_plan_keeps_and_approaches_a_gaussian_budget(left: Any) -> None:
    """The same in mu^2 (F9 (v)): within delta, and close to it."""
    assert 0.009 < passed(left(GAUSSIAN, SMALL)) <= 0.01
