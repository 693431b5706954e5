"""Theorems W3 and W7: one quantile and several, over all small data sets, at attained pairs, and as they are drawn.

What no pair tells beyond the curve is a law of test_mechanisms.py, for scores that move as is stated here.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mechanism_laws import misfit

import dpselect as dps
from dpselect.mechanisms import quantiles as tuples_module
from dpselect.mechanisms.quantiles import _Balls, _Logarithms

SHARES = (0.5, 0.25, 0.75)
SEVERAL = ((0.5,), (0.25, 0.5), (0.2, 0.4, 0.9))


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


@pytest.mark.filterwarnings("error")
def test_a_number_belongs_to_the_last_point_that_is_not_above_it() -> None:
    """Neither the nearest point nor the next one: between two points all numbers score as the lower of them, by hand. A range
    beyond the floats puts the largest numbers at the last point: a warning would tell of a user."""
    quantile = dps.mechanisms.Quantile(q=0.5, low=0.0, high=4.0, step=1.0)
    lowest = quantile.scores([1.0, 1.0, 3.0]).dense().tolist()
    assert quantile.scores([1.01, 1.99, 3.75]).dense().tolist() == lowest == [-3, 0, -1, -1, -3]
    assert quantile.scores([0.99, 1.99, 3.75]).dense().tolist() != lowest
    wide = dps.mechanisms.Quantile(q=0.5, low=-1.7e308, high=1.7e308, step=1e307)
    assert wide.scores([1.7e308]).ranked(1)[0].tolist() == [wide.points - 1]


def joint(quantiles: Any, relation: Any = "add_remove", epsilon: float = 1.0) -> dps.mechanisms.JointQuantiles:
    """Four points."""
    return dps.mechanisms.JointQuantiles(quantiles=quantiles, low=0, high=3, step=1, epsilon=epsilon, relation=relation, spread=1)


def losses(mechanism: dps.mechanisms.JointQuantiles, data: list[int]) -> np.ndarray:
    """Of all rising tuples, by the definition in the paper: users too many or too few, in parts of a user."""
    cuts, found = [0.0, *mechanism.quantiles, 1.0], []
    shares = [Fraction(repr(b)) - Fraction(repr(a)) for a, b in itertools.pairwise(cuts)]
    whole = math.lcm(*(share.denominator for share in shares))
    for chosen in itertools.combinations_with_replacement(range(4), len(mechanism.quantiles)):
        edges = [-1, *chosen, 9]
        held = [sum(max(a, 0) <= x < b for x in data) for a, b in itertools.pairwise(edges)]
        found.append(sum(abs(whole * (h - share * len(data))) for h, share in zip(held, shares, strict=True)))
    return np.array([int(loss) for loss in found])


@pytest.mark.fast(3)
@pytest.mark.parametrize("quantiles", SEVERAL)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_range_is_exact(quantiles: Any, relation: str) -> None:
    """No neighbour moves two losses further against each other, some pair that far; the rate is epsilon over it, rounded down."""
    mechanism = joint(quantiles, relation, epsilon=0.7)
    most, pairs = 0, neighbours(relation)
    for first, second in pairs[:: 1 if len(quantiles) < 3 else 9]:
        most = max(most, int(np.ptp(losses(mechanism, second) - losses(mechanism, first))))
    span = Fraction(0.7) / Fraction(mechanism.rate)
    assert 0 <= span - round(span) < Fraction(1, 10**12)
    assert most <= round(span)
    if len(quantiles) < 3:
        assert most == round(span)


def test_three_quantiles_reach_their_range() -> None:
    """With more users than small data sets have: the new one is in the part of the least share, the moved one changes parts."""
    added, moved = (joint((0.2, 0.4, 0.9), relation) for relation in ("add_remove", "replace_one"))
    first = [0] * 5 + [1] * 5 + [2] * 12
    assert np.ptp(losses(added, [*first, 3]) - losses(added, first)) == 36 == pytest.approx(1 / added.rate, rel=1e-12)
    first, second = [0] * 9 + [1] * 8 + [2] * 3, [0] * 9 + [1] * 7 + [2] * 4
    assert np.ptp(losses(moved, second) - losses(moved, first)) == 40 == pytest.approx(1 / moved.rate, rel=1e-12)


def test_one_quantile_has_the_law_of_the_exponential_mechanism() -> None:
    """On minus the distance of the users below from q n, with the sensitivity of W3: to the last digits, under both relations."""
    for q, relation, data in itertools.product((0.5, 0.3), ("add_remove", "replace_one"), ([], [0, 0, 3], [1, 1, 2, 3])):
        mechanism, whole = joint((q,), relation), Fraction(repr(q)).denominator
        alone = dps.ExponentialMechanism(
            epsilon=1.0, sensitivity=dps.mechanisms.Quantile(q=q, low=0, high=3, step=1, relation=relation).sensitivity
        )
        distance = [-abs(whole * sum(x < point for x in data) - round(whole * q) * len(data)) for point in range(4)]
        expected = alone.probabilities(dps.Scores(distance, sensitivity=alone.covers, kind="utilities"))
        found = mechanism.probabilities(mechanism.scores(data))
        assert [found[(point,)] for point in range(4)] == pytest.approx([expected[point] for point in range(4)], rel=1e-12)


DATA = ([], [0, 0, 0], [0, 0, 3, 3, 2], [1, 3, 3, 3, 3, 3])


@pytest.mark.parametrize("quantiles", [(0.5,), (0.25, 0.5), (0.2, 0.4, 0.6, 0.9)])
@pytest.mark.parametrize("data", DATA, ids=str)
def test_sums_are_those_of_all_tuples(quantiles: Any, data: list[int]) -> None:
    """How many quantiles share the last run, and which it is: in logarithms within their error, in balls to 15 digits."""
    mechanism = joint(quantiles, epsilon=9.0)
    held = mechanism._tuples(mechanism.scores(data))
    ends = np.cumsum(held.points)
    expected = np.zeros((len(quantiles), len(ends)))
    for chosen, loss in zip(
        itertools.combinations_with_replacement(range(4), len(quantiles)), losses(mechanism, data), strict=True
    ):
        runs = np.searchsorted(ends, chosen, side="right")
        expected[(runs == runs[-1]).sum() - 1, runs[-1]] += math.exp(-mechanism.rate * loss)
    logs = _Logarithms(held.rate)
    found = held._ways(logs, held._entering(logs), len(quantiles), len(ends))
    assert np.exp(found) == pytest.approx(expected, rel=1e-12)
    assert 0 < logs.error < 1e-11
    balls = _Balls(held.rate)
    sure = held._ways(balls, held._entering(balls), len(quantiles), len(ends))
    assert np.array([[float(one.mid()) for one in row] for row in sure]) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("quantiles", [(0.5,), (0.25, 0.5, 0.75)])
def test_it_is_drawn_as_its_law_says(quantiles: Any) -> None:
    """Tuples within runs and across, singly and in rows (false alarm 1e-10 each)."""
    mechanism, rng = joint(quantiles, epsilon=4.0), np.random.default_rng(20261122)
    scores = mechanism.scores([0, 0, 3, 3, 3])
    law: Any = mechanism.probabilities(scores)
    assert misfit([mechanism.select(scores, rng=rng).indices for _ in range(600)], law) > 1e-10
    rows = mechanism.select_many(np.tile(scores.dense(), (400, 1)), rng=rng)
    assert misfit([row.indices for row in rows], law) > 1e-10


@pytest.mark.slow
def test_balls_decide_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where logarithms decide nothing, ball arithmetic draws from the same law (false alarm 1e-9); at the largest epsilon the one
    best tuple is drawn."""
    largest = joint((0.5, 0.75), epsilon=1e6)
    scores = largest.scores([0] * 5 + [1] * 3 + [2] * 4 + [3])
    law: Any = largest.probabilities(scores)
    assert largest.select(scores).indices == max(law, key=law.__getitem__)
    monkeypatch.setattr(tuples_module, "_ROUNDING", 0.3)
    mechanism, rng = joint((0.3, 0.6), epsilon=4.0), np.random.default_rng(6)
    scores = mechanism.scores([0, 1, 1, 3])
    law = mechanism.probabilities(scores)
    assert misfit([mechanism.select(scores, rng=rng).indices for _ in range(250)], law) > 1e-9


def test_grouped_and_dense_scores_are_the_same_data() -> None:
    """Runs are read off counts of counts as off counts: groups of points with users, of points without, at either end."""
    mechanism = joint((0.5,))
    for counts in itertools.product((0, 1, 3), repeat=4):
        dense = mechanism._tuples(dps.Scores(counts, sensitivity=mechanism.covers))
        values, many = zip(*((value, len(list(run))) for value, run in itertools.groupby(counts)), strict=True)
        grouped = mechanism._tuples(dps.Scores.grouped(values, many, sensitivity=mechanism.covers))
        data = [point for point, count in enumerate(counts) for _ in range(count)]
        listed = mechanism._tuples(mechanism.scores(data))
        assert dense.below.tolist() == grouped.below.tolist() == listed.below.tolist()
        assert dense.points.tolist() == grouped.points.tolist() == listed.points.tolist()
        assert dense.end == grouped.end == listed.end
        assert int(dense.points.sum()) == 4


def test_many_points_and_users_are_near_the_true_quantiles() -> None:
    """A thousand users on 10^12 points: one quantile within what 40 users span, nine deciles within 60, but for e^-12."""
    values = np.random.default_rng(3).normal(50, 10, 1000)
    one = dps.mechanisms.Quantile(q=0.9, low=0, high=1000, step=1e-9)
    mechanism = dps.ExponentialMechanism(epsilon=2.0, sensitivity=one.sensitivity)
    shares = tuple(round(0.1 * i, 1) for i in range(1, 10))
    deciles = dps.mechanisms.JointQuantiles(quantiles=shares, low=0, high=1000, step=1e-9, epsilon=4.0)
    found = deciles.values(deciles.select(deciles.scores(values)))
    for at, near, span in (((0.9,), (one.value(mechanism.select(one.scores(values))),), 0.04), (shares, found, 0.06)):
        low, high = (np.quantile(values, np.array(at) + side) for side in (-span, span))
        assert (low < near).all()
        assert (near < high).all()
    assert list(found) == sorted(found)


def test_a_number_that_many_have_is_released() -> None:
    """All users but one in a hundred at 40: every quantile in between is 40, and the parts of a point are equally likely."""
    values = [1.0] * 5 + [40.0] * 990 + [99.0] * 5
    mechanism = dps.mechanisms.JointQuantiles(quantiles=(0.1, 0.5, 0.9), low=0, high=100, step=0.5, epsilon=2.0)
    scores = mechanism.scores(values)
    assert mechanism.values(mechanism.select(scores)) == (40.0, 40.0, 40.0)
    assert scores.size == 201 * 256 == mechanism.least_candidates
    counts = dps.mechanisms.JointQuantiles(quantiles=(0.5,), low=0, high=1, step=1, epsilon=1.0, spread=4)
    spread = counts.scores([1.0] * 4000, rng=np.random.default_rng(4)).dense()
    assert (
        misfit([place for place, count in enumerate(spread.tolist()) for _ in range(count)], dict.fromkeys(range(4, 8), 0.25))
        > 1e-9
    )


def test_wrong_numbers_are_refused() -> None:
    """NaN, tables, text, fractions of users, other grids, tinier epsilons, foreign selections: before anything is drawn."""
    one, mechanism = grid(0.5, "add_remove"), joint((0.5, 0.75))
    whole = mechanism.covers
    of_one: list[Any] = [[np.nan], [[1, 2]], ["a"], [10**400], np.ma.masked_array([1.0, 2.0], [False, True])]
    foreign: list[Any] = [dps.Selection(indices=indices, ordered=True) for indices in ((4, 5), ())]
    refused: list[tuple[type[Exception], Any, Any]] = [
        *((dps.errors.InvalidScores, one.scores, values) for values in of_one),
        (dps.errors.InvalidScores, mechanism.scores, [np.nan]),
        (dps.errors.InvalidScores, mechanism.check, dps.Scores([0.5, 1, 1, 1], sensitivity=whole)),
        (dps.errors.InvalidScores, mechanism.check, dps.Scores([2**41, 0, 0, 0], sensitivity=whole)),
        (dps.errors.InvalidRequest, mechanism.check, dps.Scores([1, 2, 3], sensitivity=whole)),
        (dps.errors.SensitivityMismatch, mechanism.check, dps.Scores([1, 2, 3, 4], sensitivity=dps.Sensitivity())),
        (dps.errors.SensitivityMismatch, dps.ExponentialMechanism(epsilon=1.0).check, grid(0.9, "add_remove").scores([1])),
        (dps.errors.InvalidMechanism, joint((0.5,), epsilon=5e-324).check, mechanism.scores([1])),
        *((dps.errors.InvalidRequest, read, chosen) for read in (one.value, mechanism.values) for chosen in (*foreign, [1, 3])),
        (dps.errors.InvalidRequest, one.value, dps.Selection(indices=(4,), ordered=True)),
        (dps.errors.InvalidRequest, mechanism.values, dps.Selection(indices=(0,), ordered=True)),
    ]
    for error, asked, given in refused:
        with pytest.raises(error):
            asked(given)
    assert mechanism.values(dps.Selection(indices=(1, 3), ordered=True)) == (1.0, 3.0)
