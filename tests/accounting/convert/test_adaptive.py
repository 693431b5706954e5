"""The dynamic programme: an upper and a lower bound around what an adaptive adversary can really reach."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accounting as acc
from accounting.convert import recursion
from accounting.convert.adaptive_composition import _reach, _read_plan, _solve, adaptive_composition
from accounting.convert.bounds import best_delta, best_epsilon, deltas_near
from accounting.convert.pld.loss import Banded, Law, Normal
from accounting.convert.recursion import RangeOperator, pair_operator

RHO = 3.3e-4
PICK = acc.BoundedRange(epsilon=2 * math.sqrt(RHO))
TEST = acc.Approximate(curve=acc.GaussianDP(mu=math.sqrt(2 * RHO)), delta0=1e-10)


def final(g: float) -> float:
    """The divergence when nothing is left to run."""
    return max(0.0, -math.expm1(g))


def range_step(width: float, after: Callable[[float], float], points: int) -> Callable[[float], float]:
    """The best of a grid of two-point bounded-range pairs: an adversary that exists."""

    def before(g: float) -> float:
        best = 0.0
        for t in np.linspace(0, width, points).tolist():
            p = math.expm1(t - width) / math.expm1(-width)
            best = max(best, p * after(g - t) + (1 - p) * after(g - t + width))
        return best

    return before


def pure_step(width: float, after: Callable[[float], float]) -> Callable[[float], float]:
    """Randomised response."""
    p = 1 / (1 + math.exp(-width))
    return lambda g: p * after(g - width) + (1 - p) * after(g + width)


@pytest.mark.slow
def test_brackets_of_the_theory_sheet() -> None:
    """The brackets hold the values of much finer grids, are narrow, and lie within 0.1% of the theory sheet's printed values."""
    for e, k, finest, printed in ((0.1, 100, 2.2509, 2.253), (1.0, 10, 7.71639, 7.719), (1.0, 3, 2.9093, 2.910)):
        found = adaptive_composition([(acc.BoundedRange(epsilon=e), k)], 1e-6, tolerance=2e-4)
        assert found.epsilon_lower <= finest <= found.epsilon_upper
        assert found.epsilon_upper - found.epsilon_lower <= 2e-4 * found.epsilon_upper
        assert found.epsilon_upper == pytest.approx(printed, rel=1.1e-3)
        renyi = (k * acc.BoundedRange(epsilon=e)).epsilon(1e-6)
        assert found.epsilon_lower <= renyi


def deltas(steps: list[acc.Curve], epsilon: float, interval: float) -> tuple[float, float]:
    """(lower, upper) delta of steps in this order, on a grid of this interval."""
    plan = _read_plan(steps)
    solution = _solve(plan, interval, max(epsilon, _reach(plan, 1e-10)), 1e-20)
    return solution.lower_at(epsilon), solution.upper_at(epsilon)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.lists(st.floats(0.05, 2.0), min_size=2, max_size=3), st.floats(0.0, 2.0))
def test_no_adversary_beats_the_upper_bound(widths: list[float], epsilon: float) -> None:
    """Adversaries that pick each pair after seeing the outcomes so far, enumerated, stay below the upper bound and come near."""
    play: Callable[[float], float] = final
    for width in reversed(widths):
        play = range_step(width, play, 61 if len(widths) == 2 else 21)
    reached = play(epsilon)
    lower, upper = deltas([acc.BoundedRange(epsilon=w) for w in widths], epsilon, min(widths) / 40)
    assert reached <= upper * (1 + 1e-9) + 1e-14
    assert lower <= upper
    assert upper - reached <= 0.02 * upper + 3e-4


@pytest.mark.parametrize("first_is_range", [True, False])
def test_mixed_steps_in_their_true_order(first_is_range: bool) -> None:
    """A range step before or after a pure step: each order gets its own value, above every enumerated adversary."""
    pick, noise = acc.BoundedRange(epsilon=0.8), acc.PureDP(epsilon=0.5)
    steps = [pick, noise] if first_is_range else [noise, pick]
    for epsilon in (0.0, 0.25, 0.6, 1.1):
        play = range_step(0.8, pure_step(0.5, final), 4001) if first_is_range else pure_step(0.5, range_step(0.8, final, 4001))
        lower, upper = deltas(steps, epsilon, 0.8 / 200)
        assert play(epsilon) <= upper * (1 + 1e-9)
        assert lower * (1 - 1e-9) <= play(epsilon) * (1 + 1e-5) + 1e-9
        assert upper == pytest.approx(play(epsilon), rel=2e-3, abs=1e-6)


def test_order_matters() -> None:
    """Bounded-range and Gaussian steps do not commute."""
    pick, noise = acc.BoundedRange(epsilon=1.0), acc.GaussianDP(mu=0.8)
    forth, back = (adaptive_composition(s, 1e-6, tolerance=2e-4) for s in ([pick, noise], [noise, pick]))
    assert abs(forth.epsilon_upper - back.epsilon_upper) > 1e-3


@pytest.mark.parametrize("count", [1, 5, 50])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-40])
def test_pair_steps_alone_are_a_convolution(count: int, delta: float) -> None:
    """Gaussian steps have a closed form: it lies between the two bounds."""
    exact = acc.GaussianDP(mu=0.3 * math.sqrt(count)).epsilon(delta)
    found = adaptive_composition([(acc.GaussianDP(mu=0.3), count)], delta, tolerance=0.01)
    assert found.epsilon_lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= found.epsilon_upper


@pytest.mark.parametrize(
    "law", [Banded.pure(0.3), Banded.laplace(0.4), Banded.bounded_range(0.9), Normal(0.25), Normal(2.0)], ids=repr
)
@pytest.mark.parametrize("cells", [3.3, 16.0, 100.0])
def test_rounding_brackets_a_pair(law: Law, cells: float) -> None:
    """One pair step from the end: the exact profile lies between the step's two roundings at every threshold."""
    interval = law.scale / cells
    operator = pair_operator(law, interval, 1e-16)
    g = np.arange(0, 200) * interval
    exact = law.profile(g)
    upper, lower = operator.upper(np.zeros(200)), operator.lower(np.zeros(200), 0.0)
    assert np.all(upper >= exact * (1 - 1e-11) - 1e-15)
    assert np.all(lower <= exact * (1 + 1e-11) + 1e-15)
    assert np.all(upper - lower <= exact[0] * 2.2 / cells)


@pytest.mark.parametrize(("width", "interval"), [(0.5, 0.05), (0.5, 0.037), (0.02, 0.05), (3.0, 0.11)])
def test_one_range_step_is_the_envelope(width: float, interval: float) -> None:
    """One range step from the end is the bounded-range profile: between the bounds, whether or not the grid divides the width."""
    operator = RangeOperator(width, interval)
    g = np.arange(0, 120) * interval
    exact = Banded.bounded_range(width).profile(g)
    assert np.all(operator.upper(np.zeros(120)) >= exact * (1 - 1e-11))
    assert np.all(operator.lower(np.zeros(120), 0.0) <= exact * (1 + 1e-11) + 1e-18)


def test_finer_grids_tighten_both_bounds() -> None:
    """Halving the grid lowers the upper bound, raises the lower one, and divides the gap by more than two."""
    steps = [(acc.BoundedRange(epsilon=0.3), 20)]
    found = [adaptive_composition(steps, 1e-6, tolerance=1.0, interval=0.3 / cells) for cells in (8, 16, 32, 64)]
    for coarse, fine in pairwise(found):
        assert fine.epsilon_upper <= coarse.epsilon_upper
        assert fine.epsilon_lower >= coarse.epsilon_lower
        assert fine.gap == pytest.approx(1 - fine.epsilon_lower / fine.epsilon_upper, rel=1e-9)
    assert found[-1].gap < found[0].gap / 10


def test_bad_events_and_edges() -> None:
    """delta0 is taken off delta first; no steps cost nothing; delta 0 gives the pure sum; delta0 above delta gives infinity."""
    assert adaptive_composition([], 1e-6).epsilon_upper == 0
    assert adaptive_composition([(PICK, 0)], 0).epsilon_upper == 0
    assert adaptive_composition([3 * acc.BoundedRange(epsilon=0.5)], 0).epsilon_upper == 1.5
    assert adaptive_composition([acc.Approximate(curve=PICK, delta0=1e-3)], 1e-6).epsilon_upper == math.inf
    plain = adaptive_composition([acc.BoundedRange(epsilon=0.5)] * 4, 1e-6)
    shifted = adaptive_composition([acc.Approximate(curve=acc.BoundedRange(epsilon=0.5), delta0=1e-6)] * 4, 5e-6)
    assert shifted.delta0 == 4e-6
    assert shifted.epsilon_upper == pytest.approx(plain.epsilon_upper, rel=1e-9)


def test_a_composition_that_is_repeated_is_its_steps() -> None:
    """Every step of it counts in every run, and so does every bad event: as if they were stated one by one."""
    pick = acc.Approximate(curve=acc.BoundedRange(epsilon=0.3), delta0=1e-7)
    noise = acc.GaussianDP(mu=0.2)
    one_by_one = adaptive_composition([pick] * 6 + [noise] * 4, 1e-6, tolerance=0.05)
    assert one_by_one.delta0 == 6e-7
    assert adaptive_composition([(2 * pick, 3), (2 * noise, 2)], 1e-6, tolerance=0.05) == one_by_one


def test_a_hull_may_be_accepted_without_a_lower_bound() -> None:
    """With an infinite tolerance a step that is known by its profile only still has a sound upper bound."""
    curve = acc.curves.GaussianMax(mu=0.5, candidates=5)
    found = adaptive_composition([curve], 1e-6, tolerance=math.inf)
    assert curve.epsilon(1e-6) * (1 - 1e-9) <= found.epsilon_upper <= curve.epsilon(1e-6) * 1.01


PLANS: list[tuple[list[tuple[acc.Curve, int]], float]] = [
    ([(acc.BoundedRange(epsilon=0.1), 100)], 1e-6),
    ([(acc.BoundedRange(epsilon=0.4), 9)], 1e-3),
    ([(acc.GaussianDP(mu=0.3), 3), (acc.BoundedRange(epsilon=0.2), 20)], 1e-6),
    ([(acc.LaplaceDP(epsilon=0.5), 2), (acc.ApproxDP(epsilon=0.2, delta=1e-8), 1), (acc.BoundedRange(epsilon=0.3), 10)], 1e-6),
]


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "delta"), PLANS, ids=str)
def test_the_quick_account_is_the_recursion_with_the_pairs_first(steps: list[tuple[acc.Curve, int]], delta: float) -> None:
    """Theorem D6: never below the lower bound in that order, nor in the opposite one, and at most one per cent above."""
    plan = acc.curves.Composed.of([(count, curve) for curve, count in steps])
    found = best_epsilon(plan, delta, thorough=True)
    orders = [adaptive_composition(way, delta, tolerance=2e-3) for way in (steps, steps[::-1])]
    assert found.route == "adaptive"
    assert found.value < best_epsilon(plan, delta).value
    assert max(order.epsilon_lower for order in orders) <= found.value <= 1.01 * orders[0].epsilon_upper


def test_five_per_cent_narrower_ranges_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick account of ranges that are 5 % too narrow falls below the recursion's lower bound."""
    honest = recursion._parted
    recursion._solved.cache_clear()
    monkeypatch.setattr(recursion, "_parted", lambda losses: ([(n, 0.95 * w) for n, w in honest(losses)[0]], honest(losses)[1]))
    least = adaptive_composition([(acc.BoundedRange(epsilon=0.2), 20)], 1e-6).epsilon_lower
    assert best_epsilon(20 * acc.BoundedRange(epsilon=0.2), 1e-6, thorough=True).value < least


def test_bad_events_are_added_to_the_quick_account() -> None:
    """Bad events add their probability to delta, no more and no less; what reveals all with some chance adds at least that."""
    plain, event = 20 * acc.BoundedRange(epsilon=0.2), 1e-7
    failing = 20 * acc.Approximate(curve=acc.BoundedRange(epsilon=0.2), delta0=event / 20)
    leaking = plain + acc.ApproxDP(epsilon=1e-3, delta=event)
    least = best_epsilon(plain, 1e-6, thorough=True)
    told = best_epsilon(failing, 1e-6 + event, thorough=True)
    assert least.route == told.route == "adaptive"
    assert told.value == pytest.approx(least.value, rel=1e-9)
    alone = best_delta(plain, least.value, thorough=True).value
    with_events = best_delta(failing, least.value, thorough=True)
    with_leak = best_delta(leaking, least.value, thorough=True)
    assert with_events.route == with_leak.route == "adaptive"
    assert with_events.value == pytest.approx(alone + event, rel=1e-9)
    assert alone + event * (1 - 1e-5) <= with_leak.value <= 1.05 * alone + event


def test_deltas_in_a_neighbourhood_are_above_the_recursion() -> None:
    """What attacks and choices read of equal ranges holds the recursion's lower bound and all bad events, and hardly more."""
    picks = [acc.BoundedRange(epsilon=0.3)] * 10
    quick = deltas_near(10 * picks[0], 0.5)
    failing = deltas_near(10 * acc.Approximate(curve=picks[0], delta0=0.02), 0.5)
    for epsilon in (0.3, 0.8):
        lower, _ = deltas(picks, epsilon, 0.3 / 32)
        assert lower <= quick(epsilon) <= 1.03 * lower
        assert lower + 0.2 <= failing(epsilon) <= 1.03 * lower + 0.2


@pytest.mark.parametrize(
    "other", [acc.ZCDP(rho=0.01), acc.SampledGaussianDP(mu=1.0, rate=0.01), acc.BoundedRange(epsilon=0.2), acc.zero()], ids=str
)
def test_other_plans_keep_their_routes(other: acc.Curve) -> None:
    """Renyi bounds, pairs with a direction, two widths and single steps are left to the other routes."""
    plan = acc.BoundedRange(epsilon=0.1) * (1 if other == acc.zero() else 30) + other
    assert best_epsilon(plan, 1e-6, thorough=True) == best_epsilon(plan, 1e-6)


@pytest.mark.slow
def test_fixed_plans_are_judged_by_the_recursion() -> None:
    """Calibration, admission and the accountant agree, 7 % above what the quick routes allow; a filter charges all."""
    budget, quick = acc.Budget(epsilon=1.0, delta=1e-6), acc.Budget(epsilon=1.0, delta=1e-6).cost
    found = acc.calibrate(lambda e: 100 * acc.BoundedRange(epsilon=e), budget)
    plan = 100 * acc.BoundedRange(epsilon=found)
    assert quick(plan) > 1.05
    assert budget.admits(plan)
    assert not budget.admits(100 * acc.BoundedRange(epsilon=1.001 * found))
    assert budget.price(plan) == budget.capacity
    exact = acc.Accountant().compose(acc.BoundedRange(epsilon=found), 100)
    assert exact.epsilon(1e-6) == pytest.approx(1.0, abs=1e-4)
    assert exact.breakdown(1e-6).route == "adaptive"
    assert acc.calibration.calibrate_count(acc.BoundedRange(epsilon=found), budget) == 100


def test_a_delta_is_that_of_its_epsilon() -> None:
    """At the epsilon that is proved for a delta, the bounds on delta at that epsilon touch it."""
    steps = [PICK, TEST] * 10
    found = adaptive_composition(steps, 1e-6)
    assert deltas(steps, found.epsilon_upper, found.interval)[1] == pytest.approx(1e-6, rel=1e-2)
    assert deltas(steps, found.epsilon_lower, found.interval)[0] == pytest.approx(1e-6, rel=1e-2)


def test_stable_top_k_in_its_true_order() -> None:
    """Rounds of (bounded range, Gaussian): the programme is below the composed loss, which is below Renyi."""
    for rounds, upper in ((1, 0.1115), (10, 0.3940), (100, 1.3620)):
        curve = rounds * (PICK + TEST)
        found = adaptive_composition([PICK, TEST] * rounds, 1e-6)
        renyi = acc.convert.renyi.rdp_to_epsilon(curve.rdp, 1e-6 - curve.delta0).value
        assert found.epsilon_upper <= upper
        assert found.gap <= 1e-3
        assert found.epsilon_upper < best_epsilon(curve, 1e-6).value < renyi


@pytest.mark.slow
@pytest.mark.parametrize("width", [60.0, 99.0, 101.0, 300.0, 500.0, 1e3])
def test_wide_ranges_cost_what_they_cost(width: float) -> None:
    """An adversary's t of width - 1 is lost with probability 1 - 1/e, twice with .4; the recursion takes up to 100 nats."""
    attained = 2 * (width - 1) + math.log1p(-1e-6 / (1 - 1 / math.e) ** 2)
    curve = 2 * acc.BoundedRange(epsilon=width)
    assert attained <= curve.epsilon(1e-6) <= 2 * width
    assert curve.epsilon(1e-6) >= acc.BoundedRange(epsilon=width).epsilon(1e-6)
    if width > 100:
        with pytest.raises(acc.errors.InvalidArgument, match="100 nats"):
            adaptive_composition([curve], 1e-6)
    else:
        found = adaptive_composition([curve], 1e-6)
        assert found.epsilon_lower <= curve.epsilon(1e-6) * (1 + 1e-9) <= found.epsilon_upper * (1 + 1e-3)


@pytest.mark.parametrize("widths", [(1.0,), (0.8, 1.1), (1.0, 0.7, 0.9), (0.5, 0.5, 0.5, 0.5)])
def test_just_below_the_sum_the_grid_holds_what_an_adversary_reaches(widths: tuple[float, ...]) -> None:
    """Theorem D7: at most one range below the sum equal steps reach the value, which lies between both bounds."""
    total, steps = sum(widths), [acc.BoundedRange(epsilon=width) for width in widths]
    for share in (0.999, 0.5, 0.1):
        left = share * min(widths)
        reached = -math.expm1(-left / (len(widths) + 1))
        for width in widths:
            reached *= math.expm1(-left / (len(widths) + 1)) / math.expm1(-width)
        lower, upper = deltas(steps, total - left, min(widths) / 100)
        assert lower * (1 - 1e-9) <= reached <= upper * (1 + 1e-9)
        assert lower > 0.8 * reached or share < 0.5
