"""Theorems W1, H3 and H5: released values, of any selection, at attained pairs, under an audit, and
what they cost.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from exact import aligned, stated

import accounting as acc
import dpselect as dps
from dpselect import verify
from dpselect.mechanisms.release import public_grid
from dpselect.verify.divergences import hockey_stick

S = dps.Sensitivity()
TWO = dps.Sensitivity(l0=2)


def with_values(k: int, scale: float = 2.0, value_scale: float = 4.0) -> dps.OneshotTopK:
    """One-shot Gumbel noise, and the values."""
    return dps.OneshotTopK(k=k, noise="gumbel", scale=scale, value_scale=value_scale)


def valued(
    noise: str, scale: float, k: int = 1, sensitivity: dps.Sensitivity = S
) -> dps.WithValues:
    """Values beside a selection that next to nothing is paid for."""
    select = dps.PeelingTopK(k=k, noise="exponential", scale=1e9, sensitivity=sensitivity)
    return dps.WithValues(mechanism=select, noise=noise, scale=scale)


def histogram(scale: float) -> dps.SparseHistogram:
    """Values, order and items from one noise, far above the threshold."""
    return dps.SparseHistogram(scale=scale, delta=0.1, sensitivity=dps.Sensitivity(l0=1))


# by their noise; candidates, cells, and the count of a candidate
REACHED: dict[str, tuple[Any, int, np.ndarray, int]] = {
    **{
        f"{noise}, {k}": (
            lambda scale, noise=noise, k=k: valued(noise, 2 * scale, k, TWO),
            k,
            np.arange(-4.0, 16.0, 0.25),
            5,
        )
        for noise in ("laplace", "gaussian")
        for k in (1, 2)
    },
    "one shot": (lambda scale: with_values(1, 1e9, 4 * scale), 1, np.arange(-4.0, 16.0, 0.25), 5),
    "histogram": (lambda scale: histogram(1.5 * scale), 1, np.arange(10.0, 30.0, 0.25), 19),
}


@pytest.mark.parametrize("name", REACHED)
def test_the_price_of_values_is_reached(name: str) -> None:
    """Fine cells see nearly all of it: within the curve, and beyond one that is for 5 % more
    noise.
    """
    build, candidates, edges, count = REACHED[name]
    mechanism, epsilons = build(1.0), [0.0, 0.2, 0.5]
    domain: Any = "observed" if mechanism.takes_observed else "public"
    inputs = [
        dps.Scores(
            [count + more] * candidates, sensitivity=mechanism.sensitivity_bound, domain=domain
        )
        for more in (0, 1)
    ]
    delta = hockey_stick(
        *aligned(mechanism.cell_probabilities(scores, edges) for scores in inputs), epsilons
    )[:, 0]
    failure = mechanism.curve.delta0  # of lone items, which are not looked at here
    assert (delta <= stated(mechanism.curve, epsilons) * (1 + 1e-9)).all()
    assert (delta > stated(build(1.05).curve, epsilons) - failure).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "least", "most"),
    [
        (with_values(1, scale=1000.0, value_scale=0.01), 2.5, math.inf),
        (with_values(2, scale=1000.0, value_scale=0.01), 2.5, math.inf),
        (with_values(1, scale=1.0, value_scale=1.0), 0.4, 2.0),
    ],
)
def test_values_are_audited(mechanism: dps.OneshotTopK, least: float, most: float) -> None:
    """Values with next to no noise are convicted from samples, whichever tells; with enough the
    bound is below epsilon.
    """
    pair = [dps.Scores([4, count], sensitivity=S) for count in (4, 3)]
    found = verify.lower_bound(mechanism, *pair, samples=2000, rng=np.random.default_rng(7))
    assert least < found.epsilon <= most


def test_a_mechanism_without_a_law_of_its_values_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exact worst case would be blind to values that it has no law of, and says so."""
    monkeypatch.delattr(dps.OneshotTopK, "_cell_probabilities")
    with pytest.raises(dps.errors.NoClosedForm, match="lower_bound"):
        verify.worst_case(with_values(1), candidates=1)
    with pytest.raises(dps.errors.NoClosedForm, match="Ask for probabilities"):
        dps.ExponentialMechanism(epsilon=1.0).cell_probabilities(
            dps.Scores([1, 2], sensitivity=S), [1.0]
        )


def test_a_law_of_too_many_values_is_refused() -> None:
    """By the number of its outcomes, which may be no float."""
    many = dps.Scores([1] * 1200, sensitivity=S)
    with pytest.raises(dps.errors.NoClosedForm, match="more than 200000"):
        dps.OneshotTopK(k=600, noise="gumbel", scale=1.0, value_scale=1.0).cell_probabilities(
            many, [1.0]
        )


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
def test_value_cost_matches_the_norm_of_changed_scores(
    sensitivity: dps.Sensitivity, k: int, l1: float, l2: float
) -> None:
    """min(k, l0) scores move at most: the curve is the selection's and that of so many values, to
    the last digits.
    """
    select = dps.PeelingTopK(k=k, noise="exponential", scale=5.0, sensitivity=sensitivity)
    gaussian = dps.WithValues(mechanism=select, noise="gaussian", scale=2.0).curve
    assert gaussian.rdp([3.0])[0] == pytest.approx(
        (select.curve + acc.GaussianDP(mu=l2 / 2)).rdp([3.0])[0], rel=1e-12
    )
    laplace = dps.WithValues(mechanism=select, noise="laplace", scale=2.0).curve
    assert laplace.pure_epsilon == pytest.approx(select.curve.pure_epsilon + l1 / 2, rel=1e-12)


def test_values_stand_beside_their_items() -> None:
    """By label in a private domain, without expanding groups, and on the public grid; with the
    sampler that releases use.
    """
    private = dps.LimitedDomain(k=2, kbar=4, epsilon=50.0, delta=1e-6, l0=1)
    counts = dps.Scores(
        [10, 9000, 500],
        labels=["c", "a", "b"],
        sensitivity=private.sensitivity_bound,
        domain="observed",
    )
    mechanism = dps.WithValues(mechanism=private, noise="laplace", scale=2.0)
    released = mechanism.select(counts)
    assert released.labels == ("a", "b")
    assert [round(value, -2) for value in released.values or ()] == [9000, 500]
    assert all(value % public_grid(2.0) == 0 for value in released.values or ())
    select = dps.OneshotTopK(k=2, noise="gumbel", scale=1.0)
    groups = dps.Scores.grouped([0, 400], [10**9, 2], sensitivity=S)
    assert (
        min(
            dps.WithValues(mechanism=select, noise="gaussian", scale=1.0).select(groups).values
            or ()
        )
        > 300
    )


def test_rows_have_the_values_and_the_candidates_of_each() -> None:
    """Rows of a selection that stops early hold a value for every item, in slices too; many rows of
    as many candidates as are stated are no more candidates.
    """
    select: dps.Mechanism = dps.LimitedDomain(k=2, kbar=2, epsilon=5.0, delta=1e-6, l0=2)
    many = dps.WithValues(mechanism=select, noise="laplace", scale=1.0).select_many(
        [[900, 0, 0], [900, 800, 0]]
    )
    assert [len(one.values or ()) for one in many] == [len(one) for one in many] == [1, 2]
    assert many[1:][0].values == many[1].values
    select = dps.OneshotTopK(k=1, noise="gaussian", scale=1.0, candidates=2)
    assert (
        len(dps.WithValues(mechanism=select, noise="laplace", scale=1.0).select_many([[1, 2]] * 5))
        == 5
    )


def test_values_are_multiples_of_the_grid_and_margins_quantiles_of_the_noise() -> None:
    """A released value that is an edge belongs to the cell above it. An interval of a margin's half
    width misses as often as it says: ln(20) scales for Laplace noise and 95 %.
    """
    mechanism, step = with_values(1, value_scale=1.0), public_grid(1.0)
    law = mechanism.cell_probabilities(dps.Scores([0], sensitivity=S), [0.0, step])
    # The cell [0, step) holds the value 0 only: noise that rounds to it lies within half a step.
    assert law[(0,), ((0.0, step),)] == pytest.approx(1 - np.exp(-step / 2), rel=1e-9)
    assert valued("laplace", 4.0).margin() == pytest.approx(4 * math.log(20), rel=1e-3)
    assert valued("gaussian", 4.0).margin(0.5) == pytest.approx(4 * 0.6744897501960817, rel=1e-2)
    for wrong in (0.0, 1.0, math.nan):
        with pytest.raises(dps.errors.InvalidRequest, match="confidence"):
            valued("laplace", 4.0).margin(wrong)


def test_outcome_cost_includes_the_released_values() -> None:
    """Theorem F8: of one item as of three the values cost the same, and of none nothing."""
    select = dps.LimitedDomain(k=3, kbar=5, epsilon=0.1, delta=1e-6)
    mechanism = dps.WithValues(mechanism=select, noise="gaussian", scale=10.0)
    for n in range(4):
        told = dps.Selection(
            indices=tuple(range(n)),
            ordered=True,
            requested=3,
            complete=n == 3,
            reason=None if n == 3 else "few",
        )
        values = 3 / (2 * 10.0**2) if n else 0.0
        assert mechanism.cost_of(told).rho == pytest.approx(
            select.cost_of(told).rho + values, rel=1e-9
        )
        assert mechanism.cost_of(told).delta0 == 1e-6
