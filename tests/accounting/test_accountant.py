"""The accountant: a fixed plan, its price, and who contributed what."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from hypothesis import given
from hypothesis import strategies as st

import accounting as acc
import dpselect as dps
from accounting.convert.renyi import _epsilon_at, rdp_to_epsilon
from accounting.numbers import decimal_sum


def test_compose_is_the_sum_of_its_curves() -> None:
    """Composing curves one by one, by count or by mechanism gives the same plan as adding them."""
    mechanism = dps.ExponentialMechanism(epsilon=0.3)
    plan = (
        acc.Accountant()
        .compose(mechanism, 2)
        .compose(acc.GaussianDP(mu=0.1), label="counts", relation="add_remove")
        .compose(mechanism)
    )
    assert plan.curve == 3 * acc.BoundedRange(epsilon=0.3) + acc.GaussianDP(mu=0.1)
    assert plan.relation == "add_remove"
    assert plan.curve.epsilon(1e-6) <= plan.epsilon(1e-6) <= 1.01 * plan.curve.epsilon(1e-6)
    assert plan.curve.delta(1.0) <= plan.delta(1.0) <= 1.01 * plan.curve.delta(1.0)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 1e3)), max_size=8))
def test_sums_never_round_down(terms: list[tuple[int, float]]) -> None:
    """A decimal sum is the least float that is not below the exact sum of the decimals its floats
    stand for.
    """
    exact = sum((Fraction(count) * Fraction(repr(value)) for count, value in terms), Fraction(0))
    total = decimal_sum(terms)
    assert Fraction(repr(total)) >= exact
    assert total == 0 or Fraction(repr(math.nextafter(total, 0.0))) < exact


@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-300])
def test_the_vectorized_conversion_is_dp_accountings(delta: float) -> None:
    """Proposition 12 as searches use it equals dp-accounting's compute_epsilon at every order and
    bound, never below it.
    """
    orders = np.concatenate([1 + np.geomspace(1.02e-2, 1e10, 60), [2.0, 32.0]])
    for bound in (0.0, 1e-12, 1e-4, 0.3, 7.0, 1e6):
        ours = rdp_to_epsilon(lambda a, r=bound: np.full_like(a, r), delta).value
        each = [compute_epsilon([order], [bound], delta)[0] for order in orders]
        assert ours <= min(each) * (1 + 1e-9) + 1e-12
        for order, theirs in zip(orders, each, strict=True):
            [epsilon] = _epsilon_at(np.array([order]), np.array([bound]), delta)
            assert theirs <= epsilon <= theirs * (1 + 1e-12) + 1e-13


def test_a_breakdown_is_a_table() -> None:
    """Both figures, the reason and each label's share stand in the text and in the HTML; the shares
    add up to one.
    """
    plan = acc.Accountant("add_remove").compose(
        acc.LaplaceDP(epsilon=0.1), 100, "daily <b>", relation="add_remove"
    )
    told = plan.compose(
        acc.Approximate(curve=acc.GaussianDP(mu=0.3), delta0=1e-8),
        label="yearly",
        relation="add_remove",
    ).breakdown(1e-6)
    assert repr(told).endswith("why='agreed', labels=2)")
    assert sum(part or 0.0 for part in told.parts) == pytest.approx(1.0)
    lines = str(told).splitlines()
    assert lines[2].split() == ["dp-accounting", f"{told.dp_accounting:.6g}"]
    assert [line.split() for line in lines[-2:]] == [
        ["daily", "<b>", "100", f"{told.parts[0]:.1%}", "0"],
        ["yearly", "1", f"{told.parts[1]:.1%}", "1e-8"],
    ]
    html = told._repr_html_()
    assert "daily &lt;b&gt;" in html
    assert "agree within 1%" in html


def test_shares_of_a_plan_without_a_renyi_bound_are_unknown() -> None:
    """Where nothing converts there is no order, and a share is not made up."""
    told = acc.Accountant().compose(acc.ApproxDP(epsilon=0.1, delta=1e-3), 5).breakdown(1e-6)
    assert (told.order, told.parts) == (None, (None,))


def test_the_event_of_a_plan_is_read_back() -> None:
    """`to_dp_event` states the plan under its own relation."""
    plan = acc.Accountant("replace_one").compose(acc.GaussianDP(mu=0.5), 3, relation="replace_one")
    assert acc.from_dp_event(plan.to_dp_event(), "replace_one").rho == pytest.approx(
        plan.curve.rho, rel=1e-12
    )
