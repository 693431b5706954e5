"""Theorem W1: values of any selection, at attained pairs, drawn as their law says, and what is refused."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from accounting.convert.bounds import best_delta
from dpselect.mechanisms.release import public_grid
from dpselect.verify.divergences import hockey_stick

sys.path.insert(0, str(Path(__file__).parent))

S = dps.Sensitivity()
TWO = dps.Sensitivity(l0=2)
FALSE_ALARM = 1e-9  # each of half a dozen tests


def valued(noise: str, scale: float, k: int = 1, sensitivity: dps.Sensitivity = S) -> dps.WithValues:
    """Values beside a selection that next to nothing is paid for."""
    select = dps.PeelingTopK(k=k, noise="exponential", scale=1e9, sensitivity=sensitivity)
    return dps.WithValues(mechanism=select, noise=noise, scale=scale)


def seen(mechanism: dps.WithValues, pair: list[list[int]], edges: Any, epsilons: list[float]) -> np.ndarray:
    """The exact hockey-stick divergences of a pair of inputs, as far as cells of values show them."""
    laws = [mechanism.cell_probabilities(dps.Scores(counts, sensitivity=mechanism.covers), edges) for counts in pair]
    first, second = ([law.get(outcome, 0.0) for outcome in laws[0] | laws[1]] for law in laws)
    return hockey_stick([first], [second], epsilons)[:, 0]


@pytest.mark.parametrize(("noise", "k"), [("laplace", 1), ("laplace", 2), ("gaussian", 1), ("gaussian", 2)])
def test_the_price_of_values_is_reached(noise: str, k: int) -> None:
    """Fine cells see nearly all of it: within the curve, and beyond one that is for 5 % more noise."""
    epsilons, edges = [0.0, 0.2, 0.5], np.arange(-4.0, 16.0, 0.25)
    mechanism, cheaper = valued(noise, 2.0, k, TWO), valued(noise, 2.0 * 1.05, k, TWO)
    delta = seen(mechanism, [[5] * k, [6] * k], edges, epsilons)
    claims = [[best_delta(one.curve, epsilon).value for epsilon in epsilons] for one in (mechanism, cheaper)]
    assert (delta <= np.array(claims[0]) * (1 + 1e-9)).all()
    assert (delta > np.array(claims[1])).any()


@pytest.mark.parametrize(
    ("sensitivity", "k", "l1", "l2"),
    [
        (S, 3, 3.0, math.sqrt(3)),
        (TWO, 3, 2.0, math.sqrt(2)),
        (TWO, 1, 1.0, 1.0),
        (dps.Sensitivity.of_clipped(1.0), 4, 2.0, 1.0),
        (dps.Sensitivity.of_clipped(1.5, "l1"), 4, 1.5, math.sqrt(1.5)),
        (dps.Sensitivity(relation="replace_one", linf=0.5), 2, 1.0, math.sqrt(0.5)),
    ],
)
def test_values_cost_the_norm_of_what_moves_among_them(sensitivity: dps.Sensitivity, k: int, l1: float, l2: float) -> None:
    """min(k, l0) scores move at most: the curve is the selection's and that of so many values, to the last digits."""
    select = dps.PeelingTopK(k=k, noise="exponential", scale=5.0, sensitivity=sensitivity)
    gaussian = dps.WithValues(mechanism=select, noise="gaussian", scale=2.0).curve
    assert gaussian.rdp([3.0])[0] == pytest.approx((select.curve + acc.GaussianDP(mu=l2 / 2)).rdp([3.0])[0], rel=1e-12)
    laplace = dps.WithValues(mechanism=select, noise="laplace", scale=2.0).curve
    assert laplace.pure_epsilon == pytest.approx(select.curve.pure_epsilon + l1 / 2, rel=1e-12)


def test_values_stand_beside_their_items() -> None:
    """By label in a private domain, without expanding groups, and on the public grid; with the sampler that releases use."""
    private = dps.LimitedDomain(k=2, kbar=4, epsilon=50.0, delta=1e-6, l0=1)
    counts = dps.Scores([10, 9000, 500], labels=["c", "a", "b"], sensitivity=private.covers, domain="observed")
    mechanism = dps.WithValues(mechanism=private, noise="laplace", scale=2.0)
    released = mechanism.select(counts)
    assert released.labels == ("a", "b")
    assert [round(value, -2) for value in released.values or ()] == [9000, 500]
    assert all(value % public_grid(2.0) == 0 for value in released.values or ())
    select = dps.OneshotTopK(k=2, noise="gumbel", scale=1.0)
    groups = dps.Scores.grouped([0, 400], [10**9, 2], sensitivity=S)
    assert min(dps.WithValues(mechanism=select, noise="gaussian", scale=1.0).select(groups).values or ()) > 300


def test_rows_that_release_fewer_have_as_many_values() -> None:
    """Rows of a selection that stops early hold a value for every item, in slices too."""
    select = dps.LimitedDomain(k=2, kbar=2, epsilon=5.0, delta=1e-6, l0=2)
    many = dps.WithValues(mechanism=select, noise="laplace", scale=1.0).select_many([[900, 0, 0], [900, 800, 0]])
    assert [len(one.values or ()) for one in many] == [len(one) for one in many] == [1, 2]
    assert many[1:][0].values == many[1].values


def test_a_stated_number_of_candidates_is_that_of_a_row() -> None:
    """Many rows of as many candidates as are stated are no more candidates."""
    select = dps.OneshotTopK(k=1, noise="gaussian", scale=1.0, candidates=2)
    assert len(dps.WithValues(mechanism=select, noise="laplace", scale=1.0).select_many([[1, 2]] * 5)) == 5


def test_the_margin_is_the_quantile_of_the_noise() -> None:
    """An interval of that half width misses as often as it says: ln(20) scales for Laplace noise and 95 %."""
    assert valued("laplace", 4.0).margin() == pytest.approx(4 * math.log(20), rel=1e-3)
    assert valued("gaussian", 4.0).margin(0.5) == pytest.approx(4 * 0.6744897501960817, rel=1e-2)
    for wrong in (0.0, 1.0, math.nan):
        with pytest.raises(dps.errors.InvalidRequest, match="confidence"):
            valued("laplace", 4.0).margin(wrong)


def test_what_a_release_used_holds_its_values() -> None:
    """Theorem F8: of one item as of three the values cost the same, and of none nothing."""
    select = dps.LimitedDomain(k=3, kbar=5, epsilon=0.1, delta=1e-6)
    mechanism = dps.WithValues(mechanism=select, noise="gaussian", scale=10.0)
    for n in range(4):
        told = dps.Selection(
            indices=tuple(range(n)), ordered=True, requested=3, complete=n == 3, reason=None if n == 3 else "few"
        )
        values = 3 / (2 * 10.0**2) if n else 0.0
        assert mechanism.spent(told).rho == pytest.approx(select.spent(told).rho + values, rel=1e-9)
        assert mechanism.spent(told).delta0 == 1e-6
