"""A curve in numbers and words."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import accounting as acc
import dpselect as dps
from accounting.convert.bounds import Route
from accounting.risk import Risk
from accounting.wording import round_up
from dpselect.app.release.answer import ROUTES, Promise, ProvenEpsilon, promise

RISK = Risk(advantage=0.5, right_guesses=0.75, fpr=0.01, found=0.03)


def stated(**changes: Any) -> Promise:
    nothing: dict[str, Any] = {
        "relation": "add_remove",
        "pure_epsilon": None,
        "rho": None,
        "delta0": 0.0,
        "points": (),
    }
    return Promise(**{**nothing, "risk": RISK, **changes})


def test_the_risk_is_that_of_the_whole_price_under_its_relation() -> None:
    """An answer says what an attacker gains from its curve, failures included, about the relation
    that it is priced for.
    """
    mechanism = dps.ExponentialMechanism(
        epsilon=1.0, sensitivity=dps.Sensitivity.of_counts("replace_one")
    )
    price = promise(mechanism, acc.Budget(epsilon=1.0))
    assert price.risk == Risk.from_curve(mechanism.curve)
    assert price.risk_in_words == Risk.from_curve(mechanism.curve).in_words("replace_one")


@pytest.mark.parametrize(
    ("budget", "deltas"),
    [
        (acc.Budget(epsilon=1.0), []),
        (acc.Budget(epsilon=1.0, delta=1e-5), [1e-5]),
        (acc.Budget(rho=0.1), [1e-6]),
        (acc.Budget(rho=0.1, delta=1e-5), [1e-5, 2e-5]),
    ],
)
def test_guarantee_is_stated_at_the_expected_deltas(
    budget: acc.Budget, deltas: list[float]
) -> None:
    """At the stated delta; at twice it where failure uses it up; at a customary one where none is
    stated.

    Infinity, which stands for no guarantee, becomes None.
    """
    nothing = promise(
        dps.LimitedDomain(k=1, kbar=1, epsilon=1.0, delta=1e-6), acc.Budget(epsilon=1.0, delta=1e-9)
    )
    assert (nothing.pure_epsilon, nothing.points[0].epsilon) == (None, None)
    assert nothing.points[0].proved_by == "no bound at this delta"
    mechanism = dps.LimitedDomain(k=1, kbar=1, epsilon=1.0, delta=budget.delta or 1e-6)
    assert [point.delta for point in promise(mechanism, budget).points] == deltas


def test_words_follow_the_strongest_number() -> None:
    """A pure guarantee is told without delta, an approximate one with it; factors are rounded up,
    and every route has words.
    """
    assert set(ROUTES) == set(get_args(Route))
    point = ProvenEpsilon(1e-6, 0.5, "rdp", 12.0)
    assert "e^1 = 2.72." in stated(pure_epsilon=1.0, points=(point,)).in_words
    assert "e^0.5 = 1.65, up to a probability of 1e-6." in stated(points=(point,)).in_words
    assert "at most 1.000098." in stated(pure_epsilon=9.772e-5).in_words
    assert "e^0.05 = 1.052." in stated(pure_epsilon=0.05).in_words
    assert "e^700." in stated(pure_epsilon=700.0).in_words
    assert "what a user did" in stated(relation="replace_one", pure_epsilon=1.0).in_words


@pytest.mark.slow
@given(st.floats(min_value=1e-300, max_value=1e300))
@example(0.1)
@example(0.9999999999)
def test_numbers_are_rounded_up(value: float) -> None:
    """A number shown is never below what it stands for, and above it by one part in 10^5 at most;
    what six digits write stays.
    """
    assert value <= float(round_up(value, 6)) <= value * (1 + 1.0001e-5)
    assert [round_up(value, 6) for value in (1.0, 0.1, 1e-6, 0.0, 0.99999999)] == [
        "1",
        "0.1",
        "1e-6",
        "0",
        "1",
    ]
