"""Released values: seen by the exact worst case and by the audit from samples, and paid for."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from dpselect import verify
from dpselect.mechanisms.release import public_grid
from dpselect.verify.divergences import hockey_stick

sys.path.insert(0, str(Path(__file__).parent))
from mechanism_laws import curve_covers

S = dps.Sensitivity()
FALSE_ALARM = 1e-9  # each of a handful of tests


def with_values(k: int, scale: float = 2.0, value_scale: float = 4.0) -> dps.OneshotTopK:
    """One-shot Gumbel noise, and the values."""
    return dps.OneshotTopK(k=k, noise="gumbel", scale=scale, value_scale=value_scale)


def test_the_price_of_values_is_reached() -> None:
    """With one candidate the item is no news, and the value alone reaches linf/value_scale: a claim 5 % lower would be broken."""
    mechanism = with_values(1, scale=1e9, value_scale=4.0)
    worst = verify.worst_case(mechanism, candidates=1, highest=3)
    assert worst.pure_epsilon == pytest.approx(0.25, rel=1e-9)
    assert curve_covers(with_values(1, scale=1e9, value_scale=4.0 * 1.05), worst) != []


def test_cells_are_those_of_the_public_grid() -> None:
    """A released value is a multiple of the grid, and one that is an edge belongs to the cell above it."""
    mechanism, grid = with_values(1, value_scale=1.0), public_grid(1.0)
    law = mechanism.cell_probabilities(dps.Scores([0], sensitivity=S), [0.0, grid])
    # The cell [0, grid) holds the value 0 only: noise that rounds to it lies within half a step.
    assert law[(0,), ((0.0, grid),)] == pytest.approx(1 - np.exp(-grid / 2), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2])
def test_values_with_next_to_no_noise_do_not_pass_an_audit(k: int) -> None:
    """The items are drowned in noise, the values show the counts: the samples convict, whichever value tells."""
    mechanism = with_values(k, scale=1000.0, value_scale=0.01)
    pair = [dps.Scores([4, counts], sensitivity=S) for counts in (4, 3)]
    found = verify.lower_bound(mechanism, *pair, samples=2000, rng=np.random.default_rng(7))
    assert found.epsilon > 2.5


@pytest.mark.slow
def test_values_with_enough_noise_pass_an_audit() -> None:
    """The bound from samples stays below the true epsilon (false alarm 1e-6), and comes near it."""
    mechanism = with_values(1, scale=1.0, value_scale=1.0)
    pair = [dps.Scores([count], sensitivity=S) for count in (4, 3)]
    found = verify.lower_bound(mechanism, *pair, samples=3000, rng=np.random.default_rng(7))
    assert 0.4 < found.epsilon <= 1.0


def test_a_mechanism_without_a_law_of_its_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact worst case would be blind to values that it has no law of, and says so."""
    monkeypatch.delattr(dps.OneshotTopK, "cell_probabilities")
    with pytest.raises(dps.errors.NoClosedForm, match="use lower_bound"):
        verify.worst_case(with_values(1), candidates=1)


def histogram(scale: float) -> dps.SparseHistogram:
    """Values, order and items from one noise."""
    return dps.SparseHistogram(scale=scale, delta=0.1, sensitivity=dps.Sensitivity(l0=1))


def test_the_price_of_values_that_chose_is_reached() -> None:
    """Far above the threshold fine cells see nearly all of the Gaussian mechanism: a claim for 5 % more noise is broken."""
    mechanism, edges = histogram(1.5), np.arange(10.0, 30.0, 0.25)
    laws = [
        mechanism.cell_probabilities(dps.Scores([count], sensitivity=mechanism.covers, domain="observed"), edges)
        for count in (20, 19)
    ]
    first, second = ([law.get(outcome, 0.0) for outcome in laws[0] | laws[1]] for law in laws)
    for epsilon in (0.0, 0.5, 1.0):
        seen = float(hockey_stick(first, second, [epsilon])[0, 0])
        assert seen <= acc.GaussianDP(mu=1 / 1.5).delta(epsilon) + 1e-12
        assert seen > acc.GaussianDP(mu=1 / (1.05 * 1.5)).delta(epsilon)
