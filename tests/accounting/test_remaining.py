"""What is spent and left, as an auditor asks for it: the odometer's epsilon, and the Gaussian
release that still fits.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_UP, Decimal, Inexact, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accounting as acc
from accounting.convert.bounds import best_epsilon
from accounting.page.spent import failure_up, main_up
from accounting.refusals import refusal, shortfall
from accounting.remaining import Remaining, share_in_words

APPROXIMATE = acc.Budget(epsilon=1.0, delta=1e-6)
BUDGETS = [
    APPROXIMATE,
    acc.Budget(epsilon=3.0, delta=1e-5, order=8.0),
    acc.Budget(rho=0.2, delta=1e-7),
    acc.Budget(rho=0.2),
]
NOTHING = acc.cost.Cost(0, 0)


@pytest.mark.parametrize(
    ("budget", "odometer"),
    [
        (APPROXIMATE, acc.filter.PrivacyOdometer(delta=5e-7, failure=5e-7, order=23.26)),
        (
            acc.Budget(epsilon=1.0, delta=1e-6, order="inf"),
            acc.filter.PrivacyOdometer(delta=0.0, failure=1e-6, order="inf"),
        ),
        (acc.Budget(epsilon=1.0), acc.filter.PrivacyOdometer(delta=0.0, order="inf")),
    ],
)
def test_epsilon_is_the_odometers(budget: acc.Budget, odometer: acc.filter.PrivacyOdometer) -> None:
    """At the order and delta of the budget an odometer that is charged the same states the same
    epsilon, to the last digit.
    """
    assert Remaining(budget, NOTHING).epsilon == 0
    spent, curve = odometer.spent, acc.PureDP(epsilon=0.03)
    for _ in range(3):
        spent = spent.plus(budget.filter_cost(curve))
        assert Remaining(budget, spent).epsilon == odometer.charge(curve)


@given(share=st.floats(0, 0.999))
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_gaussian_release_of_the_mu_left_fits(budget: acc.Budget, share: float) -> None:
    """One of that mu may be charged, one a twentieth larger may not."""
    spent = acc.cost.Cost(int(share * budget.capacity.main), 0)
    found = Remaining(budget, spent).mu_left
    assert found is not None
    assert budget.fits(spent, budget.filter_cost(acc.GaussianDP(mu=found)))
    # Past the first charge, where a plan for the whole budget has a price of its own.
    assert spent.main == 0 or not budget.can_afford(spent, acc.GaussianDP(mu=1.05 * found))
    assert Remaining(budget, budget.capacity).mu_left == 0


@given(st.integers(0, 8 * 10**18), st.integers(0, 5 * 10**17))
def test_remaining_floats_never_exceed_the_exact_remainder(main: int, failure: int) -> None:
    """Both floats stand for at most the whole units that are left, and the next float for more."""
    budget = acc.Budget(rho=8e6, delta=0.5)
    left = Remaining(budget, acc.cost.Cost(main, failure))
    units = budget.capacity.minus(acc.cost.Cost(main, failure))
    for found, exact in (
        (left.main, Decimal(units.main).scaleb(-12)),
        (left.failure, Decimal(units.failure).scaleb(-18)),
    ):
        assert Decimal(repr(found)) <= exact
        assert Decimal(repr(math.nextafter(found, math.inf))) > exact


def _everything(budget: acc.Budget, spent: acc.cost.Cost) -> list[object]:
    left = Remaining(budget, spent, acc.GaussianDP(mu=0.01))
    words = shortfall(budget, spent, budget.filter_cost(acc.GaussianDP(mu=0.7)), "here")
    return [
        *(left.main, left.failure, left.epsilon_left, left.mu_left),
        *(left.as_data(), left.reason, left.remedy, words),
        *(main_up(spent.main), failure_up(-spent.main)),
    ]


@pytest.mark.parametrize("budget", BUDGETS)
def test_remaining_budget_ignores_the_callers_decimal_context(budget: acc.Budget) -> None:
    """A caller with two digits that are rounded up, or that traps whatever is inexact, is told the
    same of what is left.
    """
    spent = acc.cost.Cost(123456789123, 123456789)
    told = _everything(budget, spent)
    with localcontext() as context:
        context.prec, context.rounding = 2, ROUND_UP
        assert _everything(budget, spent) == told
        context.traps[Inexact] = True
        assert _everything(budget, spent) == told


RELEASES = acc.Budget(epsilon=1.0, delta=1e-6, release=acc.BoundedRange(epsilon=0.05))
STATED = [
    *BUDGETS[:2],
    acc.Budget(epsilon=1.0),
    acc.Budget(epsilon=1.0, delta=1e-6, order="gaussian"),
    RELEASES,
]


@pytest.mark.parametrize("budget", STATED, ids=["renyi", "order 8", "pure", "gaussian", "releases"])
@pytest.mark.parametrize("share", [1e-6, 0.1, 0.5, 0.99])
def test_spent_epsilon_matches_an_equivalent_budget(budget: acc.Budget, share: float) -> None:
    """A filter for the epsilon that is stated, at the same order, admits what was spent; one a
    hundredth smaller does not.
    """
    unit = 10**12 if budget.release is not None else 1
    main = max(1, int(share * budget.capacity.main / unit)) * unit
    epsilon, delta = Remaining(budget, acc.cost.Cost(main, 0)).so_far
    assert (delta, 0 < epsilon <= 1.0 or budget.limit == 3.0) == (budget.delta, True)
    fields = budget.model_dump(exclude={"epsilon", "releases"}, exclude_none=True) | {
        "release": budget.release
    }
    assert acc.Budget(epsilon=epsilon * (1 + 1e-9), **fields).capacity.main >= main * (1 - 1e-9)
    try:
        smaller = acc.Budget(epsilon=0.99 * epsilon, **fields).capacity.main
    except acc.errors.InvalidBudget:  # it pays for nothing at all
        smaller = 0
    assert smaller < main


def test_small_budget_states_no_negative_epsilon() -> None:
    """A charge never states less than no charge, although the conversion alone is below zero."""
    assert Remaining(acc.Budget(epsilon=1e-7, delta=1e-6), acc.cost.Cost(1, 0)).so_far[0] >= 0.0


def test_rho_that_is_spent_is_stated_at_twice_its_delta() -> None:
    """Half of it pays for failures, half for the conversion of what is spent; without a delta it is
    stated as rho.
    """
    left = Remaining(BUDGETS[2], acc.cost.Cost(5 * 10**10, 0))
    assert left.so_far == (acc.ZCDP(rho=0.05).epsilon(1e-7), 2e-7)
    alone = Remaining(BUDGETS[3], acc.cost.Cost(5 * 10**10, 0))
    assert alone.as_data()["cost"] == {"rho": 0.05}
    assert "rho 0.05" in str(alone)


def _asked(
    budget: acc.Budget, spent: acc.cost.Cost, curve: acc.Curve, count: int
) -> acc.BudgetExceeded:
    """How a filter that has spent so much refuses so many."""
    return refusal(Remaining(budget, spent, curve), count, "here")


def test_a_refusal_counts_releases_and_its_remedies_hold() -> None:
    """One fits and two were asked for; fewer, a smaller price or failure probability, each as large
    as it says, are charged.
    """
    curve = acc.Approximate(curve=acc.GaussianDP(mu=0.4), delta0=1e-7)
    budget = acc.Budget(epsilon=3.0, delta=1e-6, order="gaussian")
    spent = acc.cost.Cost(int(budget.capacity.main - 1.5 * budget.filter_cost(curve).main), 0)
    error = _asked(budget, spent, curve, 2)
    assert str(error).startswith("These 2 releases do not fit because they need ")
    assert re.search(r" need [\d.]+% of the budget of here and [\d.]+% is left\.", str(error))
    assert share_in_words(1000, 100, ROUND_CEILING) == "1,000%"
    far = _asked(budget, spent, acc.PureDP(epsilon=90.0), 1)
    assert re.search(r" needs \d?\d?\d,\d{3}% of the budget of here ", str(far))
    assert "Ask for at most 1 of them" in str(error)
    assert "of epsilon" not in str(error)
    assert (
        error.would_fit,
        budget.fits(spent, budget.filter_cost(curve)),
        budget.fits(spent, budget.filter_cost(2 * curve)),
    ) == (1, True, False)
    assert [
        _asked(budget, acc.cost.Cost(0, 0), curve, asked).would_fit for asked in (100, 999)
    ] == 2 * [budget.how_many(curve)]
    match = re.search(r"at most ([\d.]+)% of the budget in all", str(error))
    assert match is not None
    share = float(match[1]) / 100
    for factor, fits in ((1.0, True), (1.01, False)):
        mu = math.sqrt(factor * share * budget.capacity.main * 1e-12) * (1 - 1e-9)
        assert budget.fits(spent, budget.filter_cost(acc.GaussianDP(mu=mu))) is fits


def test_the_used_share_names_the_part_that_is_used_up() -> None:
    """Of two parts, each is called by its name: a refusal and the figures never seem to differ."""
    budget = acc.Budget(epsilon=3.0, delta=1e-6)
    main, failure = budget.capacity
    for spent, used, left in (
        ((main // 2, failure), "100% of the failure probability (delta0)", "0% of the failure"),
        ((main // 2, failure // 4), "50%", "50% of the budget"),
    ):
        figures = Remaining(budget, acc.cost.Cost(*spent)).figures
        assert (figures["used"], figures["left"][: len(left)]) == (used, left)
    assert "and 50% is left" in str(
        _asked(budget, acc.cost.Cost(main // 2, failure), acc.PureDP(epsilon=2.9), 1)
    )


def test_refusal_names_the_largest_affordable_failure_probability() -> None:
    """Where failure probability runs out, the delta that it names is charged and one a hundredth
    larger is not.
    """
    budget, spent = acc.Budget(epsilon=3.0, delta=1e-6), acc.cost.Cost(0, 4 * 10**11)
    error = _asked(budget, spent, acc.Approximate(curve=acc.PureDP(epsilon=0.1), delta0=2e-7), 1)
    assert "a failure probability (delta0) of 2e-7 from here" in str(error)
    match = re.search(r"a failure probability of at most ([\d.e-]+) in all", str(error))
    assert match is not None
    for factor, fits in ((1.0, True), (1.01, False)):
        price = budget.filter_cost(
            acc.Approximate(curve=acc.PureDP(epsilon=0.1), delta0=factor * float(match[1]))
        )
        assert budget.fits(spent, price) is fits
    assert "smaller epsilon" not in str(error), "more noise does not help"


def test_a_refusal_says_what_a_new_dataset_would_give() -> None:
    """The numbers for new rows are what such a dataset pays for: one by one, declared for such
    releases, and as one plan.
    """
    curve, budget = acc.GaussianDP(mu=0.04), acc.Budget(epsilon=1.0, delta=1e-6)
    text = str(_asked(budget, budget.capacity, curve, 1))
    alone, declared, plan = (
        budget.how_many(curve),
        0,
        acc.calibration.calibrate_count(curve, budget),
    )
    declared = acc.Budget.for_workload(epsilon=1.0, delta=1e-6, curve=curve).how_many(curve)
    assert alone < declared
    assert (
        f"covers {alone:,} such releases one by one, {declared:,} if it is declared for them"
        in text
    )
    assert (f"{plan:,} as one plan" in text) is (plan > declared)
    assert "covers 1 such release one by one" in str(
        _asked(budget, budget.capacity, acc.PureDP(epsilon=0.99), 1)
    )
    assert "the budget of here is used up. A declared budget cannot be raised" in text


@pytest.mark.parametrize("budget", [*STATED, *BUDGETS[2:]])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_spent_guarantee_stays_within_the_stated_epsilon(budget: acc.Budget, share: float) -> None:
    """The curve of what is spent gives at most the epsilon that is stated, at the delta that is
    stated.
    """
    left = Remaining(
        budget,
        acc.cost.Cost(int(share * budget.capacity.main), int(share * budget.capacity.failure)),
    )
    epsilon, delta = left.so_far
    assert best_epsilon(left.guarantee, delta, thorough=True).value <= epsilon * (1 + 1e-9)
    assert 0 <= left.guarantee.advantage <= 1


_ITEMS = st.one_of(
    st.floats(1e-4, 0.2).map(lambda epsilon: acc.PureDP(epsilon=epsilon)),
    st.floats(1e-4, 0.1).map(lambda rho: acc.PureDP(epsilon=math.sqrt(2 * rho))),
    st.floats(1e-3, 0.3).map(lambda mu: acc.GaussianDP(mu=mu)),
    st.tuples(st.floats(1e-3, 0.2), st.floats(1e-9, 1e-7)).map(
        lambda pair: acc.Approximate(curve=acc.PureDP(epsilon=pair[0]), delta0=pair[1])
    ),
)


@settings(max_examples=30)
@given(items=st.lists(_ITEMS, min_size=1, max_size=8))
@pytest.mark.parametrize(
    "budget", [APPROXIMATE, acc.Budget(epsilon=4.0, delta=1e-6), STATED[3], BUDGETS[2]]
)
def test_share_cost_and_count_never_contradict_each_other(
    budget: acc.Budget, items: list[acc.Curve]
) -> None:
    """Over random ledgers the cost as charged grows, is at most either bound and the budget, and
    counts fall as shares grow.
    """
    spending, seen = acc.PrivacyFilter(budget), []
    for item in items:
        if not spending.can_afford(item):
            continue
        spending.charge(item)
        left = spending.remaining
        total = math.fsum(charge.curve.core_epsilon for charge in spending.charges)
        cost, delta = left.as_charged
        assert cost == pytest.approx(min(total, left.so_far[0]))
        assert delta <= left.delta
        assert budget.epsilon is None or (cost, delta) <= (budget.epsilon, budget.delta)
        fits = budget.how_many(acc.PureDP(epsilon=0.01), left.spent)
        seen.append((max(left.used), cost, -fits))
    assert all(sorted(figure) == list(figure) for figure in zip(*seen, strict=True))


def test_small_charge_explains_its_share_of_the_budget() -> None:
    """0.01 of (1, 1e-6) costs 0.01, uses 0.217% and a sentence says why that is not 1%; else the
    filter's is shown.
    """
    curve = acc.PureDP(epsilon=0.01)
    spending = acc.PrivacyFilter(APPROXIMATE)
    spending.charge(curve)
    left = spending.remaining
    assert "a release of epsilon 0.01 uses 0.217% of epsilon 1 and not 1%" in left.why_share
    assert Remaining(APPROXIMATE, left.spent).as_charged == left.so_far > left.as_charged
    assert left == Remaining(APPROXIMATE, NOTHING, charged=acc.zero()).after(curve)
    assert Remaining(acc.Budget(epsilon=1.0), NOTHING).why_share == ""


def test_bad_events_add_up_in_the_cost_and_too_many_leave_the_filters_bound() -> None:
    """Three charges that fail with 1e-7 each cost the sum of their epsilons at 3e-7; past the
    budget's delta they do not.
    """
    curve = acc.Approximate(curve=acc.PureDP(epsilon=0.1), delta0=1e-7)
    spent = APPROXIMATE.filter_cost(3 * curve)
    assert Remaining(APPROXIMATE, spent, charged=3 * curve).as_charged == (0.3, 3e-7)
    beyond = Remaining(
        APPROXIMATE, spent, charged=acc.Approximate(curve=acc.PureDP(epsilon=0.1), delta0=1.01e-6)
    )
    assert beyond.as_charged == beyond.so_far
