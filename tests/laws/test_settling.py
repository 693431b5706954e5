"""Pay for what came out (Theorem F8): whole adaptive plans through a real ledger, enumerated,
against the budget.
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
from exact import Law, aligned, apart, law_of

import accounting as acc
import dpselect as dps
from accounting.cost import Cost
from accounting.ledger import Ledger

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
