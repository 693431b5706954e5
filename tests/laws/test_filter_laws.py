"""Filters against every adaptive adversary on small mechanisms, by enumeration (F1 to F4), and in
mu^2 (F9, F10).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from exact import apart
from pairs import delta as pair_delta
from pairs import response, spanning
from scipy.stats import binom, laplace, norm

import accounting as acc
from accounting.budget import Budget
from accounting.cost import NOTHING, Cost
from accounting.curves import ApproxDP, BoundedRange, Curve, LaplaceDP, PureDP
from accounting.filter import PrivacyFilter, PrivacyOdometer
from accounting.ledger import Ledger
from accounting.remaining import Remaining, sum_periods

Pair = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Small:
    """A mechanism with few outcomes: its law under two neighbors, which may be swapped, and a
    curve that bounds it.
    """

    law: Pair
    curve: Curve


def randomized_response(epsilon: float) -> Small:
    return Small(response(epsilon), PureDP(epsilon=epsilon))


def exponential_mechanism(epsilon: float, share: float) -> Small:
    """Two candidates; the neighbor multiplies one weight by exp(epsilon)."""
    p = share / (share + (1 - share) * math.exp(-epsilon))
    return Small(((p, 1 - p), (share, 1 - share)), BoundedRange(epsilon=epsilon))


def leaky(epsilon: float, delta: float) -> Small:
    """Reveals the input with probability delta, else randomized response: the worst (epsilon,
    delta) pair.
    """
    return Small(response(epsilon, delta), ApproxDP(epsilon=epsilon, delta=delta))


def rounded_laplace(epsilon: float) -> Small:
    """The Laplace mechanism with its answer cut into four cells."""
    cut = np.array([-np.inf, 0.0, 0.5, 1.0, np.inf])
    first, second = (
        np.diff(laplace(scale=1 / epsilon, loc=mean).cdf(cut)).tolist() for mean in (0, 1)
    )
    return Small((first, second), LaplaceDP(epsilon=epsilon))


def rounded_gaussian(mu: float) -> Small:
    """A Gaussian answer cut into three cells."""
    first, second = (
        np.diff(norm(loc=mean).cdf([-np.inf, 0.0, mu, np.inf])).tolist() for mean in (0, mu)
    )
    return Small((tuple(first), tuple(second)), acc.GaussianDP(mu=mu))


def worst(budget: Budget, mechanisms: list[Small], gain: Callable[[float, float], float]) -> float:
    """The largest sum over transcripts of gain(P, Q) that any adversary reaches under the
    filter.
    """

    prices = [budget.filter_cost(small.curve) for small in mechanisms]
    laws = [
        [np.transpose(law).tolist() for law in (small.law, small.law[::-1])] for small in mechanisms
    ]
    seen: dict[tuple[Cost, float, float], float] = {}

    def best(spent: Cost, p: float, q: float) -> float:
        # Rounds commute: the same answers in another order lead to the same state, up to the last
        # bits.
        state = (spent, float(f"{p:.12e}"), float(f"{q:.12e}"))
        if state not in seen:
            seen[state] = max(
                [
                    gain(p, q),
                    *(
                        play(spent, p, q, i)
                        for i, price in enumerate(prices)
                        if budget.fits(spent, price)
                    ),
                ]
            )
        return seen[state]

    def play(spent: Cost, p: float, q: float, choice: int) -> float:
        total = spent.plus(prices[choice])
        return max(sum(best(total, p * a, q * b) for a, b in law) for law in laws[choice])

    return best(NOTHING, 1.0, 1.0)


def hockey_stick(epsilon: float) -> Callable[[float, float], float]:
    return lambda p, q: max(0.0, p - math.exp(epsilon) * q)


def renyi(order: float) -> Callable[[float, float], float]:
    return lambda p, q: p**order * q ** (1 - order) if p > 0 else 0.0


SMALL = [randomized_response(0.25), exponential_mechanism(0.5, 0.6), rounded_laplace(0.4)]
LEAKY = [leaky(0.3, 0.01), randomized_response(0.5)]
LOUD = [
    randomized_response(0.4),
    exponential_mechanism(0.9, 0.6),
    rounded_laplace(0.4),
    rounded_gaussian(0.5),
]


def in_nats(order: float, moment: float) -> float:
    return math.log(moment) / (order - 1)


AT_FOUR, LEAKS, FIVE = (
    Budget(epsilon=1.0, delta=delta, order=order, failure=failure)
    for delta, order, failure in ((0.1, 4.0, 0.0), (0.05, "inf", None), (0.05, 5.0, None))
)
WHOLE = randomized_response(1.0)
# A budget, mechanisms, what is added up, the order if it is a moment; what the worst adversary
# reaches, in hockey-stick divergence or nats, at least and at most.
FILTERS: list[
    tuple[Budget, list[Small], Callable[[float, float], float], float | None, float, float]
] = [
    # No likelihood ratio is above exp(budget), and some adversary reaches the budget exactly.
    (Budget(epsilon=1.0), SMALL, hockey_stick(1.0 + 1e-12), None, 0.0, 0.0),
    (Budget(epsilon=1.0), SMALL, hockey_stick(1.0 - 1e-6), None, 1e-12, 1.0),
    *(
        (Budget(rho=0.11), SMALL, renyi(a), a, 1e-12, a * 0.11 * (1 + 1e-12))
        for a in (1.1, 2.0, 5.0, 30.0)
    ),
    # Whatever order the filter was given.
    *(
        (
            Budget.model_validate(
                {"epsilon": e, "delta": d, "order": a, "failure": d if a == "inf" else d / 2}
            ),
            *(LEAKY, hockey_stick(e), None, 1e-12, d),
        )
        for e, d in ((1.2, 0.05), (0.9, 0.2))
        for a in (3.5, 6.0, "inf")
    ),
    # The failure probability is not idle caution: leaks alone get within a tenth of it.
    (LEAKS, [leaky(0.0, 0.01)], hockey_stick(1.0), None, 0.045, 0.05),
    # At the filter's own order some come within 40 percent of the capacity.
    (
        AT_FOUR,
        SMALL,
        renyi(4.0),
        4.0,
        0.6 * AT_FOUR.capacity.main * 1e-12,
        AT_FOUR.capacity.main * 1e-12,
    ),
    # A plan among them that costs the whole budget is no extra chance.
    (FIVE, [WHOLE, *LEAKY], hockey_stick(1.0), None, 0.0, 0.05),
    # In mu^2 (F9): of four kinds and a leak more than a fifth of delta is reached.
    *(
        (
            Budget(epsilon=e, delta=d, order="gaussian", failure=d / 4),
            [*LOUD, leaky(0.2, d / 8)],
            hockey_stick(e),
            None,
            d / 5,
            d,
        )
        for e, d in ((0.6, 0.1), (1.1, 0.03), (0.2, 0.25))
    ),
]


@pytest.mark.parametrize("case", FILTERS, ids=lambda case: f"{case[0]!r}")
def test_no_adversary_passes_a_filter(case: tuple[Any, ...]) -> None:
    """F1 to F4 and F9: of all adversaries that the filter pays for, enumerated, the worst stays
    within the budget.
    """
    budget, mechanisms, gain, order, least, most = case
    reached = worst(budget, mechanisms, gain)
    assert least <= (reached if order is None else in_nats(order, reached)) <= most


def test_a_plan_may_cost_the_whole_budget() -> None:
    """As the only charge it is priced by the best accounting."""
    assert FIVE.filter_cost(WHOLE.curve) == FIVE.capacity


def loss_passes(
    odometer: Callable[[], PrivacyOdometer], choose: Callable[[float], Small], rounds: int
) -> float:
    """Probability under P that the loss of an adversary's transcript ever passes the odometer, by
    enumeration.
    """

    def run(steps: tuple[Small, ...], p: float, q: float) -> float:
        reading = odometer()
        for small in steps:
            reading.charge(small.curve)
        loss = math.inf if q == 0 else math.log(p / q)
        if loss > reading.epsilon + 1e-12:
            return p
        if len(steps) == rounds:
            return 0.0
        small = choose(loss)
        return sum(
            run((*steps, small), p * a, q * b) for a, b in zip(*small.law, strict=True) if a > 0
        )

    return run((), 1.0, 1.0)


@pytest.mark.parametrize("order", [2.0, 8.0])
def test_odometer_holds_at_all_times(order: float) -> None:
    """An adversary that raises its stakes when it is losing passes the running total with
    probability at most delta + failure.
    """

    def choose(loss: float) -> Small:
        return leaky(0.8, 0.01) if loss < 0 else randomized_response(0.4)

    reached = loss_passes(lambda: PrivacyOdometer(delta=0.3, order=order, failure=0.2), choose, 6)
    assert 0.0 < reached <= 0.3 + 0.2


def test_odometer_of_pure_epsilons_is_sure() -> None:
    """At order inf the running total bounds the loss of every transcript, and equals the decimal
    sum of epsilons. A filter that stops where the odometer reads epsilon would stop no later than
    the budget's own filter at that order.
    """
    assert (
        loss_passes(
            lambda: PrivacyOdometer(delta=0.0, order="inf"), lambda _: randomized_response(0.3), 6
        )
        == 0.0
    )
    odometer = PrivacyOdometer(delta=0.0, order="inf")
    assert [odometer.charge(PureDP(epsilon=0.1)) for _ in range(3)] == [0.1, 0.2, 0.3]
    budget, odometer = (
        Budget(epsilon=1.0, delta=1e-6, order=20.0, failure=0.0),
        PrivacyOdometer(delta=1e-6, order=20.0),
    )
    spender = PrivacyFilter(budget)
    while odometer.charge(PureDP(epsilon=0.02)) <= 1.0:
        spender.charge(PureDP(epsilon=0.02))
    assert spender.can_afford(PureDP(epsilon=0.02))


WIDTHS = (1e-6, 0.05, 0.3, 1.0, 2.5, 8.0, 30.0)
LEVELS = [0.0, *np.geomspace(1e-4, 40, 60).tolist()]


def covers(curve: acc.Curve) -> list[acc.GaussianDP]:
    """The Gaussian that a curve is charged as, and one of 5 % less."""
    return [acc.GaussianDP(mu=math.sqrt(share * curve.mu_squared)) for share in (1.0, 0.95)]


@pytest.mark.parametrize("epsilon", WIDTHS)
@pytest.mark.parametrize("kind", [acc.PureDP, acc.LaplaceDP])
def test_a_pair_enters_at_the_least_gaussian_above_it(kind: Any, epsilon: float) -> None:
    """At no level is the pair above the Gaussian that it is charged as; at level 0 they meet, so 5
    % less is too little.
    """
    curve = kind(epsilon=epsilon)
    cover, less = covers(curve)
    assert all(curve.profile(level) <= cover.profile(level) * (1 + 1e-9) for level in LEVELS)
    assert curve.profile(0.0) == pytest.approx(cover.profile(0.0), rel=1e-9)
    assert epsilon > 10 or curve.profile(0.0) > less.profile(0.0) * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", WIDTHS[1:6])
def test_bounded_range_enters_at_the_least_gaussian_above_all_its_pairs(epsilon: float) -> None:
    """The two-point pairs of every position lie below, both ways round; the middle one meets the
    Gaussian at level 0.
    """
    cover, less = covers(acc.BoundedRange(epsilon=epsilon))
    p, q = (
        np.stack(side)
        for side in zip(
            *(spanning(epsilon, t * epsilon) for t in np.linspace(0.02, 0.98, 25)), strict=True
        )
    )
    reached = apart(p, q, LEVELS)
    assert np.all(
        reached.max(axis=1) <= np.array([cover.profile(level) for level in LEVELS]) + 1e-12
    )
    assert reached[0].argmax() == 12  # the middle
    assert reached[0, 12] == pytest.approx(cover.profile(0.0), rel=1e-9)
    assert reached[0, 12] > less.profile(0.0) * (1 + 1e-6)


@pytest.mark.parametrize(
    "epsilon", [1e-12, 1e-8, 1e-3, 0.0399, 0.04, 0.7, 1.1, 1.386, 1.39, 5.0, 40.0, 640.0, 1290.0]
)
def test_entry_prices_are_their_closed_forms_rounded_up(epsilon: float) -> None:
    """To 40 digits: never below, and above by no more than one part in 10^12."""
    mp.mp.dps = 40
    e = mp.mpf(epsilon)

    def squared(tail: Any) -> Any:
        z = mp.findroot(
            lambda x: mp.log(mp.erfc(x / mp.sqrt(2)) / 2) - mp.log(tail),
            mp.mpf(math.sqrt(start) / 2),
        )
        return 4 * z * z

    for curve, tail in (
        (acc.PureDP(epsilon=epsilon), 1 / (1 + mp.exp(e))),
        (acc.BoundedRange(epsilon=epsilon), 1 / (1 + mp.exp(e / 2))),
        (acc.LaplaceDP(epsilon=epsilon), mp.exp(-e / 2) / 2),
    ):
        start = curve.mu_squared
        if epsilon < 640 or isinstance(curve, acc.LaplaceDP):
            assert 0 <= start / squared(tail) - 1 < 1e-12


def test_beyond_the_floats_entry_prices_still_bound() -> None:
    """Where tails underflow the price is that of R(z) <= exp(-z^2/2)/2, continuous to one part in a
    hundred.
    """
    for kind, end in ((acc.PureDP, 650.0), (acc.BoundedRange, 1300.0), (acc.LaplaceDP, 1300.0)):
        below, above = (
            kind(epsilon=end * (1 - 1e-9)).mu_squared,
            kind(epsilon=end * (1 + 1e-9)).mu_squared,
        )
        assert below < above < 1.02 * below
    assert acc.PureDP(epsilon=0.0).mu_squared == 0
    assert acc.ZCDP(rho=0.1).mu_squared == math.inf


BUDGETS = [
    (0.1, 1e-12),
    (0.5, 1e-6),
    (1.0, 1e-6),
    (4.0, 1e-6),
    (8.0, 1e-9),
    (1.0, 0.2),
    (30.0, 1e-5),
]


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_gaussians_one_by_one_cost_what_their_plan_costs(epsilon: float, delta: float) -> None:
    """As many fit as a plan may have, for mu of few digits; more than at any Renyi order; 5 % of
    mu^2 or delta would show.
    """
    unit = acc.Budget(epsilon=epsilon, delta=delta, order="gaussian", failure=0.0)
    whole = math.sqrt(unit.capacity.main * 1e-12)
    assert acc.GaussianDP(mu=whole).profile(epsilon) == pytest.approx(
        delta, rel=1e-3 if whole < 0.1 else 1e-8
    )
    curve = acc.GaussianDP(mu=float(f"{whole / 12.3:.2g}"))
    budget = acc.Budget.for_workload(epsilon=epsilon, delta=delta, curve=curve)
    count = budget.how_many(curve)
    assert budget.order == "gaussian"
    assert budget.failure == 0
    assert count > 100
    assert budget.admits(count * curve)
    assert not budget.admits((count + 1) * curve)
    assert count > acc.Budget(epsilon=epsilon, delta=delta, failure=0.0).how_many(curve)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.6, 0.1), (1.1, 0.02)])
def test_a_declared_release_is_paid_for_as_often_as_in_a_plan(epsilon: float, delta: float) -> None:
    """Adaptive stopping, smaller releases and leaks in between keep the budget; for randomized
    response it is used up.
    """
    small = randomized_response(0.25)
    budget = acc.Budget(epsilon=epsilon, delta=delta, release=small.curve)
    count = budget.how_many(small.curve)
    reached = worst(budget, [small, randomized_response(0.2)], hockey_stick(epsilon))
    assert reached <= delta
    assert reached == pytest.approx((count * small.curve).delta(epsilon), rel=1e-6)
    p, q = (binom.pmf(np.arange(count + 2), count + 1, told[0]) for told in small.law)
    assert pair_delta(p, q, epsilon) > delta


@pytest.mark.parametrize(
    ("curve", "kinds"),
    [
        (acc.BoundedRange(epsilon=0.08), "recursion"),
        (acc.Approximate(curve=acc.GaussianDP(mu=0.05), delta0=1e-9), "profile"),
        (acc.BoundedRange(epsilon=0.05) + acc.GaussianDP(mu=0.05), "pld"),
    ],
)
def test_identical_releases_one_by_one_are_a_plan(curve: acc.Curve, kinds: str) -> None:
    """The count is the longest plan's; one more is refused by both; a part of a release is no
    release.
    """
    budget = acc.Budget(epsilon=1.0, delta=1e-6, release=curve)
    count = budget.how_many(curve)
    assert count == acc.calibration.calibrate_count(curve, acc.Budget(epsilon=1.0, delta=1e-6))
    kept = acc.PrivacyFilter(budget)
    kept.charge(curve, count - 1)
    kept.charge(curve)
    with pytest.raises(acc.BudgetExceeded, match="the budget of this filter is used up"):
        kept.charge(curve)
    assert kept.remaining.main == 0
    assert budget.filter_cost(acc.zero()) == NOTHING
    with pytest.raises(
        acc.errors.Unaffordable, match=r"declared for releases of .* declare another dataset"
    ):
        budget.filter_cost(3 * acc.ZCDP(rho=1e-3) + acc.GaussianDP(mu=3.0))
    assert acc.Budget.model_validate_json(budget.model_dump_json()) == budget
    assert budget.refund(curve, acc.zero()) == NOTHING


def test_equal_or_smaller_curves_count_as_one_release() -> None:
    """Equal or smaller of the same kind; parts are counted; another kind is another thing, however
    small.
    """
    mu = lambda size: acc.GaussianDP(mu=size)  # noqa: E731
    budget = acc.Budget(epsilon=1.0, delta=1e-6, release=mu(0.05))
    one = budget.filter_cost(mu(0.05))
    assert one == acc.cost.Cost(10**12, 0)
    assert budget.filter_cost(mu(0.01)) == one
    assert budget.filter_cost(3 * mu(0.05) + mu(0.02)) == one.times(4)
    leak = acc.ApproxDP(epsilon=0.1, delta=1e-8)
    failing = acc.Approximate(curve=mu(0.05), delta0=1e-9)
    for release, fits, others in (
        (
            mu(0.05),
            (),
            (
                mu(0.050001),
                acc.LaplaceDP(epsilon=1e-3),
                acc.Approximate(curve=mu(0.05), delta0=1e-12),
            ),
        ),
        (
            leak,
            (acc.ApproxDP(epsilon=0.1, delta=0.9e-8),),
            (acc.ApproxDP(epsilon=0.1, delta=1.05e-8), acc.ApproxDP(epsilon=0.105, delta=1e-8)),
        ),
        (
            failing,
            [acc.Approximate(curve=mu(0.04), delta0=delta0) for delta0 in (1e-9, 0.9e-9)],
            (acc.Approximate(curve=mu(0.04), delta0=1.05e-9),),
        ),
    ):
        budget = acc.Budget(epsilon=1.0, delta=1e-6, release=release)
        assert all(budget.filter_cost(curve).main == 10**12 for curve in fits)
        # as the only charge: the whole budget admits it
        assert all(budget.filter_cost(curve) == budget.capacity for curve in others)
    for wrong in ({"order": 8.0}, {"failure": 1e-7}):
        with pytest.raises(acc.errors.InvalidBudget, match="Leave them out"):
            acc.Budget(epsilon=1.0, delta=1e-6, release=acc.ZCDP(rho=1e-3), **wrong)
    with pytest.raises(acc.errors.InvalidBudget, match="does not cover one release"):
        acc.Budget(epsilon=1.0, delta=1e-6, release=mu(1.0))


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS[:5])
def test_failures_and_mu_are_both_kept(epsilon: float, delta: float) -> None:
    """Twenty Gaussians with failures: for_workload sets aside what they need, the rest pays for the
    conversion, and a plan of as many is admitted.
    """
    mu = math.sqrt(
        acc.Budget(epsilon=epsilon, delta=delta, order="gaussian").capacity.main * 1e-12 / 20
    )
    curve = acc.Approximate(curve=acc.GaussianDP(mu=mu), delta0=delta / 40)
    budget = acc.Budget.for_workload(epsilon=epsilon, delta=delta, curve=curve)
    count = budget.how_many(curve)
    assert 19 <= count <= 20
    assert budget.capacity.failure // round(delta / 40 * 1e18) == count
    assert budget.failure is not None
    assert budget.failure + float(budget.conversion_delta) == pytest.approx(delta, rel=1e-12)
    assert budget.admits(count * curve)
    assert not budget.admits(21 * curve)
    kept = acc.PrivacyFilter(budget)
    kept.charge(curve, count - 1)
    kept.charge(curve)
    with pytest.raises(acc.BudgetExceeded):
        kept.charge(acc.ApproxDP(epsilon=1e-9, delta=0.05 * budget.failure))


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_epsilon_so_far_of_gaussian_charges_holds(epsilon: float, delta: float) -> None:
    """The loss of what was charged passes the stated epsilon with at most the stated chance; after
    all of it none is stated.
    """
    budget = acc.Budget(epsilon=epsilon, delta=delta, order="gaussian")
    for share in (0.1, 0.5, 0.999):
        main = int(budget.capacity.main * share)
        found, mu = Remaining(budget, acc.cost.Cost(main, 0)), math.sqrt(main * 1e-12)
        assert found.epsilon is not None
        assert found.delta == delta
        assert norm.sf((found.epsilon - mu * mu / 2) / mu) <= delta / 2
        assert (
            acc.GaussianDP(mu=found.mu_left or 0).mu_squared
            <= (budget.capacity.main - main) * 1e-12
        )
    assert Remaining(budget, NOTHING).mu_left == pytest.approx(
        math.sqrt(budget.capacity.main * 1e-12), rel=1e-3
    )


@pytest.mark.parametrize("order", ["inf", "gaussian", None, 200.0])
def test_no_epsilon_is_stated_after_a_plan_that_another_route_admitted(
    order: Any, tmp_path: Any
) -> None:
    """A plan that the filter's own sum does not pay for costs the whole capacity; its loss passes
    what the sum would say.
    """
    budget = acc.Budget(epsilon=1.0, delta=1e-6, order=order)
    plan = acc.GaussianDP(mu=0.2365)
    assert budget.filter_cost(plan) == budget.capacity
    found = Remaining(budget, budget.filter_cost(plan))
    assert found.epsilon is None
    assert found.epsilon_left == 0
    with Ledger.open(f"sqlite:///{tmp_path}/privacy.db") as ledger:
        ledger.create_dataset("visits", budget, "add_remove")
        ledger.charge("visits", plan, relation="add_remove")
        assert ledger.total("visits").epsilon is None


@pytest.mark.parametrize(
    ("limit", "delta"), [(1.9e-12, 0.0), (0.1234567890129, 0.0), (0.1234567890129, 1e-6)]
)
def test_spent_budget_of_many_digits_states_its_whole_cost(limit: float, delta: float) -> None:
    """A charge that equals a budget of more than 12 decimals fits; what is stated of it afterwards
    is not below its own cost, by the filter, at all times, and over many periods.
    """
    pure, zcdp = acc.Budget(epsilon=limit), acc.Budget(rho=limit, delta=delta)
    curve = acc.ZCDP(rho=limit)
    spent = Remaining(zcdp, zcdp.filter_cost(curve))
    assert spent.main == 0
    assert limit <= spent.guarantee.rho <= limit + 1e-12
    assert spent.as_data()["cost"].get("rho", limit) >= limit
    assert spent.so_far[0] >= (curve.epsilon(delta) if delta else math.inf)
    every = sum_periods(zcdp, [spent] * 1000)[0]
    assert every >= ((1000 * curve).epsilon(1001 * delta) if delta else math.inf)
    assert (Remaining(pure, pure.filter_cost(acc.PureDP(epsilon=limit))).epsilon or 0.0) >= limit


@pytest.mark.parametrize(("count", "epsilon"), [(8, 0.0189), (5, 0.0405), (1, 0.03)])
def test_loss_exceeds_stated_epsilon_with_at_most_delta(count: int, epsilon: float) -> None:
    """Randomized response attains its curve: the exact tail of so many losses is at most delta, and
    up to .42 of it; all of them as one plan that another route admits state no epsilon.
    """
    budget = acc.Budget(epsilon=1.0, delta=0.01, order=200.0)
    spent = budget.filter_cost(count * acc.PureDP(epsilon=epsilon))
    stated = Remaining(budget, spent)
    assert spent != budget.capacity
    assert stated.epsilon is not None
    heads = np.arange(count + 1)
    losses, chances = (
        (2 * heads - count) * epsilon,
        binom.pmf(heads, count, 1 / (1 + math.exp(-epsilon))),
    )
    passed = float(chances[losses > stated.epsilon].sum())
    assert passed <= stated.delta
    if count == 8:
        assert passed > 0.4 * stated.delta
    plan = 120 * acc.PureDP(epsilon=0.04)
    assert Remaining(budget, budget.filter_cost(plan)).epsilon is None


def test_composed_curves_keep_the_relation_of_their_parts() -> None:
    """A curve of curves is charged under no other relation than its parts."""
    sampled = acc.SampledGaussianDP(mu=1.0, rate=0.01)
    for curve in (
        sampled,
        2 * sampled + acc.PureDP(epsilon=0.1),
        acc.Approximate(curve=sampled, delta0=1e-9),
        acc.tighter(sampled, acc.GaussianDP(mu=1.0)),
        acc.RepeatAndSelectDP(base=sampled, distribution=acc.curves.PoissonRuns(mean=2.0)),
    ):
        assert curve.proved_for == "add_remove"
        with pytest.raises(acc.RelationMismatch, match="proved for relation='add_remove' only"):
            acc.PrivacyFilter(acc.Budget(epsilon=9.0, delta=1e-6)).charge(
                curve, relation="replace_one"
            )
        with pytest.raises(acc.RelationMismatch):
            acc.Accountant("replace_one").compose(curve, relation="replace_one")
        with pytest.raises(acc.RelationMismatch):
            acc.guarantee.Guarantee(curve, "replace_one")
        assert acc.guarantee.Guarantee(curve, "add_remove").curve == curve


def test_settling_gives_back_mu_squared() -> None:
    """F8 in units of mu^2, exactly; the failures stay, and a plan of the whole capacity gives
    nothing back.
    """
    budget, part = acc.Budget(epsilon=1.0, delta=1e-6, order="gaussian"), acc.GaussianDP(mu=0.05)
    whole, ran = (
        acc.Approximate(curve=one, delta0=1e-8)
        for one in (part + 2 * acc.GaussianDP(mu=0.03), part)
    )
    assert budget.refund(whole, ran) == acc.cost.Cost(1_800_000_000, 0)
    assert budget.refund(acc.GaussianDP(mu=0.2365), acc.GaussianDP(mu=0.1)) == NOTHING


def test_orders_without_a_bound_are_left_out_in_silence(capfd: Any, caplog: Any) -> None:
    """dp-accounting warns of each fractional order that its series does not reach; nobody can act
    on that.
    """
    acc.SampledGaussianDP(mu=1.0, rate=0.123).rdp([2.0])
    assert not caplog.records
    assert capfd.readouterr() == ("", "")
