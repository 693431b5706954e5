"""Intervals of what is predicted."""

from __future__ import annotations

import numpy as np
import pytest
from fresh_runs import for_runs

from accounting import AccountingError
from dpselect.plan.quality import Estimate


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_clopper_pearson_covers(share: float) -> None:
    """Of the intervals of all samples, weighted by their probability, at least the stated part holds the truth."""
    from scipy import stats

    rounds = 60
    covered = 0.0
    for hits in range(rounds + 1):
        found = Estimate.from_runs(np.repeat([1.0, 0.0], [hits, rounds - hits]), 0.9)
        assert found.method == "clopper-pearson"
        covered += stats.binom.pmf(hits, rounds, share) * (found.low <= share <= found.high)
    assert covered >= 0.9


def test_empirical_bernstein_covers() -> None:
    """Of 2000 simulated intervals at 90 % for a bounded skewed number at least 85 % hold the mean (false alarm below 1e-12)."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(2000):
        found = Estimate.from_runs(rng.beta(8, 0.5, size=200), 0.9)
        hits += found.low <= 8 / 8.5 <= found.high
    assert found.method == "empirical-bernstein"
    assert hits >= 1700


def test_intervals_are_in_order_and_narrow_with_runs_and_doubt() -> None:
    """low <= value <= high survives scaling and complement; an exact number has no width, and NaN is no estimate."""
    rng = np.random.default_rng(1)
    few, many, strict = (
        Estimate.from_runs(rng.random(runs), level) for runs, level in ((200, 0.95), (20_000, 0.95), (200, 0.999))
    )
    assert many.high - many.low < few.high - few.low < strict.high - strict.low
    for other in (few.scaled(7.0), few.complement(), few.complement(2.0)):
        assert other.low <= other.value <= other.high
    assert few.complement().value == pytest.approx(1 - few.value)
    exact = Estimate.exactly(0.25)
    assert (exact.low, exact.high, exact.level, exact.method) == (0.25, 0.25, 1.0, "exact")
    with pytest.raises(AccountingError, match=r"Estimate.value"):
        Estimate(value=float("nan"), low=0, high=1)


def test_an_average_keeps_the_doubt_of_its_parts() -> None:
    """Over a schedule the mean is weighted by counts, and doubts add up; exact parts add none."""
    exact, rough = Estimate.exactly(1.0), Estimate(value=0.5, low=0.4, high=0.6, level=0.95, method="empirical-bernstein")
    found = Estimate.average([(3, exact), (1, rough)])
    assert (found.value, found.low, found.high) == pytest.approx((0.875, 0.85, 0.9))
    assert found.level == pytest.approx(0.95)
    assert Estimate.average([(1, rough), (1, rough)]).level == pytest.approx(0.9)


def test_fresh_runs_fall_where_they_are_predicted() -> None:
    """The mean of 200 fresh coin flips lies within `for_runs` in at least 95 % of 2000 trials, less six standard deviations."""
    rng = np.random.default_rng(3)
    low, high = for_runs(Estimate.exactly(0.9), 200)
    means = rng.binomial(200, 0.9, size=2000) / 200
    assert 0 < high - low < 0.12
    assert np.mean((means >= low) & (means <= high)) > 0.95 - 6 * np.sqrt(0.95 * 0.05 / 2000)
