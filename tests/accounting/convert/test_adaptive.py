"""Optimal adaptive composition: upper bounds around what an adversary really reaches who chooses
after every outcome.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from adaptive_game import program, reached

import accounting as acc
from accounting.convert.bounds import best_delta, best_epsilon, deltas_near
from accounting.convert.pld.loss import Banded, Loss, Normal
from accounting.convert.recursion import PairStep, RangeStep, Solution


def bounded(steps: list[tuple[str, int]], h: float, interval: float, size: int) -> Solution:
    """The library's bound of the same steps, on a grid of its own."""
    values = np.zeros(math.ceil(size * h / interval) + 1)
    for kind, cells in reversed(steps):
        pure = PairStep.from_loss(Banded.pure(cells * h), interval, 1e-20)
        values = (RangeStep(cells * h, interval) if kind == "range" else pure).upper(values)
    return Solution(interval, values)


def test_no_adversary_beats_the_bound_and_one_comes_near() -> None:
    """Steps in their true order, of which an adversary chooses each bounded-range pair after all
    outcomes: on any grid.
    """
    rng = np.random.default_rng(2)
    for number in (1, 2, 3, 4, 5) * 3:
        kinds, cells = rng.choice(["range", "pure"], number), rng.integers(5, 31, number)
        steps, h = list(zip(kinds, cells.tolist(), strict=True)), float(rng.uniform(0.005, 0.08))
        size = 2 * int(cells.sum()) + 2
        attained, bound = (
            reached(steps, h, size),
            bounded(steps, h, rng.uniform(0.1, 0.5) * h, size),
        )
        for i in range(0, size // 2, 3):
            upper = bound.upper_at(i * h)
            assert attained[i] <= upper * (1 + 1e-9) + 1e-14
            assert upper <= 1.05 * attained[i] + 1e-2


@pytest.mark.parametrize(
    "law",
    [Banded.pure(0.3), Banded.laplace(0.4), Banded.bounded_range(0.9), Normal(0.25), Normal(2.0)],
    ids=repr,
)
@pytest.mark.parametrize("cells", [3.3, 100.0])
def test_a_rounded_pair_is_above_its_profile(law: Loss, cells: float) -> None:
    """One step from the end, at every threshold; and hardly above."""
    interval = law.scale / cells
    g = np.arange(0, 200) * interval
    exact, upper = law.profile(g), PairStep.from_loss(law, interval, 1e-16).upper(np.zeros(200))
    assert np.all(upper >= exact * (1 - 1e-11) - 1e-15)
    assert np.all(upper - exact <= exact[0] * 1.1 / cells)


def test_a_step_may_be_known_by_its_profile_only() -> None:
    """A hull of profiles has a sound bound too."""
    curve = acc.curves.GaussianMax(mu=0.5, candidates=5)
    assert (
        curve.epsilon(1e-6) * (1 - 1e-9)
        <= program([(curve, 1)], 1e-6)
        <= curve.epsilon(1e-6) * 1.01
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "delta"),
    [
        ([(acc.BoundedRange(epsilon=0.4), 9)], 1e-3),
        ([(acc.GaussianDP(mu=0.3), 3), (acc.BoundedRange(epsilon=0.2), 20)], 1e-6),
        (
            [
                (acc.LaplaceDP(epsilon=0.5), 2),
                (acc.ApproxDP(epsilon=0.2, delta=1e-8), 1),
                (acc.BoundedRange(epsilon=0.3), 10),
            ],
            1e-6,
        ),
    ],
    ids=str,
)
def test_quick_bound_is_within_one_percent_of_the_recursion(
    steps: list[tuple[acc.Curve, int]], delta: float
) -> None:
    """Theorem D6: not below the recursion in that order, nor in the opposite one, and at most one
    per cent above.
    """
    plan = acc.curves.Composed.from_parts([(count, curve) for curve, count in steps])
    found = best_epsilon(plan, delta, thorough=True)
    orders = [program(way, delta, cells=64) for way in (steps, steps[::-1])]
    assert found.route == "adaptive"
    assert found.value < best_epsilon(plan, delta).value
    assert max(orders) <= found.value * (1 + 1e-4)
    assert found.value <= 1.01 * orders[0]


def test_the_quick_account_of_ranges_is_above_what_an_adversary_reaches() -> None:
    """By so little that the account of ranges 5 % too narrow lies below it."""
    plan = 20 * acc.BoundedRange(epsilon=0.2)
    attained = 0.0125 * np.flatnonzero(reached([("range", 16)] * 20, 0.0125, 400) > 1e-6)[-1]
    assert best_epsilon(plan, 1e-6, thorough=True).value >= attained


def test_bad_events_are_added_to_the_quick_account() -> None:
    """Bad events add their probability to delta, no more and no less; what reveals all with some
    chance adds at least that.
    """
    plain, event = 20 * acc.BoundedRange(epsilon=0.2), 1e-7
    failing = 20 * acc.Approximate(curve=acc.BoundedRange(epsilon=0.2), delta0=event / 20)
    leaking = plain + acc.ApproxDP(epsilon=1e-3, delta=event)
    least = best_epsilon(plain, 1e-6, thorough=True).value
    assert best_epsilon(failing, 1e-6 + event, thorough=True).value == pytest.approx(
        least, rel=1e-9
    )
    alone, with_events, with_leak = (
        best_delta(plan, least, thorough=True) for plan in (plain, failing, leaking)
    )
    assert alone.route == with_events.route == with_leak.route == "adaptive"
    assert with_events.value == pytest.approx(alone.value + event, rel=1e-9)
    assert event * (1 - 1e-5) <= with_leak.value - alone.value <= 0.05 * alone.value + event


def test_deltas_in_a_neighborhood_are_above_the_recursion() -> None:
    """What attacks read of equal ranges holds what an adversary reaches and all bad events, and
    hardly more.
    """
    pick = acc.BoundedRange(epsilon=0.3)
    quick, failing = (
        deltas_near(10 * one, 0.5) for one in (pick, acc.Approximate(curve=pick, delta0=0.02))
    )
    attained = reached([("range", 30)] * 10, 0.01, 400)
    for epsilon in (0.3, 0.8):
        lower = attained[round(epsilon / 0.01)]
        assert lower <= quick(epsilon) <= 1.03 * lower
        assert lower + 0.2 <= failing(epsilon) <= 1.03 * lower + 0.2
    assert quick(3.5) == 0.0, "above the sum of the ranges"
    assert failing(3.5) == pytest.approx(0.2, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("width", [60.0, 99.0, 101.0, 300.0, 500.0, 1e3])
def test_wide_bounded_range_cost_lies_between_attack_and_sum(width: float) -> None:
    """An adversary's t of width - 1 is lost with probability 1 - 1/e, twice with .4; the recursion
    takes up to 100 nats.
    """
    attained = 2 * (width - 1) + math.log1p(-1e-6 / (1 - 1 / math.e) ** 2)
    curve = 2 * acc.BoundedRange(epsilon=width)
    assert attained <= curve.epsilon(1e-6) <= 2 * width
    assert curve.epsilon(1e-6) >= acc.BoundedRange(epsilon=width).epsilon(1e-6)
    if width < 100:
        assert attained <= program([(acc.BoundedRange(epsilon=width), 2)], 1e-6) <= 2 * width


@pytest.mark.parametrize("widths", [(1.0,), (0.8, 1.1), (1.0, 0.7, 0.9), (0.5, 0.5, 0.5, 0.5)])
def test_just_below_the_sum_the_bound_is_what_an_adversary_reaches(
    widths: tuple[float, ...],
) -> None:
    """Theorem D7: at most one range below the sum equal steps reach the value, which the bound is
    not below.
    """
    total, interval = sum(widths), min(widths) / 100
    values = np.zeros(math.ceil(total / interval) + 1)
    for width in reversed(widths):
        values = RangeStep(width, interval).upper(values)
    for share in (0.999, 0.5, 0.1):
        left = share * min(widths)
        exact = -math.expm1(-left / (len(widths) + 1))
        for width in widths:
            exact *= math.expm1(-left / (len(widths) + 1)) / math.expm1(-width)
        upper = Solution(interval, values).upper_at(total - left)
        assert exact <= upper * (1 + 1e-9)
        assert upper < 1.2 * exact or share < 0.5
