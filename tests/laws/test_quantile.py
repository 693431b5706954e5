"""Theorem W3: quantiles over all small data sets, at attained pairs, and as they are drawn."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import dpselect as dps
from dpselect.verify.divergences import log_ratio

SHARES = (0.5, 0.25, 0.75)


def neighbours(relation: str) -> list[tuple[list[int], list[int]]]:
    """All data sets of up to five users on four points, and their neighbours."""
    found: list[tuple[list[int], list[int]]] = []
    for size in range(5):
        for data in itertools.combinations_with_replacement(range(4), size):
            if relation == "add_remove":
                found += [(list(data), [*data, new]) for new in range(4)]
            elif size:
                found += [(list(data), [*data[:place], new, *data[place + 1 :]]) for place in range(size) for new in range(4)]
    return found


def grid(q: float, relation: Any) -> dps.mechanisms.Quantile:
    """Four points."""
    return dps.mechanisms.Quantile(q=q, low=0, high=3, step=1, relation=relation)


@pytest.mark.fast(3)
@pytest.mark.parametrize("q", SHARES)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_sensitivity_is_exact(q: float, relation: str) -> None:
    """No neighbour moves a score, or two against each other, by more; some pair reaches both: 5 % less would be wrong."""
    quantile = grid(q, relation)
    changes = [quantile.scores(b).dense() - quantile.scores(a).dense() for a, b in neighbours(relation)]
    assert max(np.abs(change).max() for change in changes) == quantile.sensitivity.linf
    assert max(np.ptp(change) for change in changes) == quantile.sensitivity.range


@pytest.mark.fast(4)
@pytest.mark.parametrize("q", SHARES)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("member", [dps.ExponentialMechanism, dps.PermuteAndFlip])
def test_no_pair_is_told_apart_beyond_the_curve(member: Any, relation: str, q: float) -> None:
    """Exact log-ratios of every pair stay within epsilon, and come within 40 % of it."""
    quantile = grid(q, relation)
    mechanism = member(epsilon=1.0, sensitivity=quantile.sensitivity)
    worst = 0.0
    for pair in neighbours(relation)[:: 1 if member is dps.ExponentialMechanism and relation == "add_remove" else 5]:
        p, q_ = (np.array([list(mechanism.probabilities(quantile.scores(data)).values())]) for data in pair)
        worst = max(worst, float(log_ratio(p, q_).max()), float(log_ratio(q_, p).max()))
    assert 0.4 < worst <= 1 + 1e-8


def test_scores_are_what_the_definition_says() -> None:
    """Minus the distance of q n from the users below up to those at most there, in parts of a user; numbers outside are moved."""
    quantile = dps.mechanisms.Quantile(q=0.25, low=-1.0, high=1.0, step=0.5)
    values = [-7.0, -0.5, -0.4, 0.2, 1.0, 99.0, 0.0]
    points = -1 + 0.5 * np.arange(5)
    clipped = -1 + 0.5 * np.floor((np.clip(values, -1, 1) + 1) / 0.5)
    below, upto = ([4 * int((side(clipped, point)).sum()) - len(values) for point in points] for side in (np.less, np.less_equal))
    expected = [-max(0, low, -high) for low, high in zip(below, upto, strict=True)]
    assert quantile.points == 5
    assert quantile.scores(values).dense().tolist() == expected
    assert quantile.scores([]).dense().tolist() == [0] * 5


def test_a_number_belongs_to_the_last_point_that_is_not_above_it() -> None:
    """Neither the nearest point nor the next one: between two points all numbers score as the lower of them, by hand."""
    quantile = dps.mechanisms.Quantile(q=0.5, low=0.0, high=4.0, step=1.0)
    lowest = quantile.scores([1.0, 1.0, 3.0]).dense().tolist()
    assert quantile.scores([1.01, 1.99, 3.75]).dense().tolist() == lowest == [-3, 0, -1, -1, -3]
    assert quantile.scores([0.99, 1.99, 3.75]).dense().tolist() != lowest


def test_a_number_that_many_have_is_chosen() -> None:
    """All users but one in a hundred at 40, of 10^6 points: the median is 40 and not one of those beyond."""
    median = dps.mechanisms.Quantile(q=0.5, low=0, high=1000, step=0.001)
    mechanism = dps.ExponentialMechanism(epsilon=1.0, sensitivity=median.sensitivity)
    values = [1.0] * 5 + [40.0] * 990 + [99.0] * 5
    assert median.value(mechanism.select(median.scores(values))) == 40.0


def test_many_points_and_users_are_near_the_true_quantile() -> None:
    """A thousand users on 10^12 points: within what 40 users of them span, but for a chance below e^-44."""
    values = np.random.default_rng(3).normal(50, 10, 1000)
    quantile = dps.mechanisms.Quantile(q=0.9, low=0, high=1000, step=1e-9)
    mechanism = dps.ExponentialMechanism(epsilon=2.0, sensitivity=quantile.sensitivity)
    found = quantile.value(mechanism.select(quantile.scores(values)))
    low, high = np.quantile(values, [0.86, 0.94])
    assert low < found < high


@pytest.mark.filterwarnings("error")
def test_numbers_near_the_largest_float_are_mapped_in_silence() -> None:
    """A range beyond the floats puts the largest numbers at the last point: a warning would tell of a user."""
    wide = dps.mechanisms.Quantile(q=0.5, low=-1.7e308, high=1.7e308, step=1e307)
    assert wide.scores([1.7e308]).ranked(1)[0].tolist() == [wide.points - 1]


def test_wrong_numbers_are_refused() -> None:
    """NaN, tables, text and more raise InvalidScores, foreign selections InvalidRequest; narrow mechanisms refuse the scores."""
    quantile = grid(0.5, "add_remove")
    for values in ([np.nan], [[1, 2]], ["a"], [10**400], np.ma.masked_array([1.0, 2.0], [False, True])):
        with pytest.raises(dps.errors.InvalidScores):
            quantile.scores(values)
    for indices in ((4,), (0, 1), ()):
        with pytest.raises(dps.errors.InvalidRequest):
            quantile.value(dps.Selection(indices=indices, ordered=True))
    with pytest.raises(dps.errors.InvalidRequest):
        quantile.value(None)  # type: ignore[arg-type]
    with pytest.raises(dps.errors.SensitivityMismatch):
        dps.ExponentialMechanism(epsilon=1.0).check(grid(0.9, "add_remove").scores([1]))
