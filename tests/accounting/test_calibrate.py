"""Calibration returns the safe end of a monotone search, to one part in 10^9, against closed
forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from spread import spread

from accounting.budget import Budget
from accounting.calibration import calibrate, calibrate_count
from accounting.curves import (
    ApproxDP,
    Approximate,
    BoundedRange,
    Curve,
    GaussianDP,
    LaplaceDP,
    PureDP,
)
from accounting.errors import CalibrationError, InvalidCurve

Family = Callable[[float], Curve]
FURTHER = 1 + 2e-9


def stable_top_k(rho: float) -> Curve:
    """600 rounds of the mechanism of theory section 5, rho split over its two parts."""
    return 600 * Approximate(
        curve=BoundedRange(epsilon=2 * math.sqrt(rho)) + GaussianDP(mu=math.sqrt(rho)), delta0=1e-10
    )


def PURE(x: float) -> Curve:
    """The simplest family."""
    return PureDP(epsilon=x)


RISING: list[Family] = [
    PURE,
    lambda x: 3 * LaplaceDP(epsilon=x) + GaussianDP(mu=x),
    stable_top_k,
]
FALLING: list[Family] = [
    lambda scale: GaussianDP(mu=1 / scale),
    lambda scale: GaussianDP(mu=1 / scale) + 3 * BoundedRange(epsilon=1 / scale**2),
]
RECURSIVE = {2, 4}  # of these families: equal bounded ranges repeated
BUDGETS = [Budget(rho=0.1, delta=1e-6), Budget(epsilon=2.0, delta=1e-6)]


@pytest.mark.fast(1)
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("number", spread(range(5), 2))
def test_the_end_is_safe_and_tight(number: int, budget: Budget) -> None:
    """Whatever the family and the form, the result is admitted and the parameter 2e-9 further
    towards more cost is not.

    Where the optimal recursion (Theorem D6) admits more than the quick routes, the end is within
    1e-3.
    """
    further = 1 + 1e-3 if budget.form == "approximate" and number in RECURSIVE else FURTHER
    family, further = (
        (RISING[number], further)
        if number < len(RISING)
        else (FALLING[number - len(RISING)], 1 / further)
    )
    found = calibrate(family, budget)
    assert budget.admits(family(found))
    assert not budget.admits(family(found * further))
    assert math.isclose(
        calibrate(family, budget, bracket=(found / 40, found * 30)),
        found,
        rel_tol=max(1e-6, abs(further - 1)),
    )


@pytest.mark.parametrize("each", [2.0, 0.3, 0.15])
def test_a_cost_in_steps_ends_at_a_step(each: float) -> None:
    """Whole numbers of a curve, perhaps none that fits: the end is below the first that does not,
    costs being flat or 0 there.
    """
    budget = Budget(epsilon=1.0, delta=1e-6)

    def family(x: float) -> Curve:
        return math.floor(x) * BoundedRange(epsilon=each) if x >= 1 else PureDP(epsilon=0.0)

    found = calibrate(family, budget, (0.1, 100.0))
    assert budget.admits(family(found))
    assert not budget.admits(family(math.floor(found) + 1.0))


@pytest.mark.parametrize("limit", [0.123, 0.7, 1.0, 3.3])
def test_a_cost_that_wavers_is_followed_outward(limit: float) -> None:
    """If half of all parameters cost 5e-8 more than their neighbors, the budget still refuses
    1.9e-9 past the result.
    """

    def wavering(x: float) -> Curve:
        return PureDP(epsilon=x * (1 + 5e-8) if math.floor(x / limit * 1e9) % 2 else x)

    found, budget = calibrate(wavering, Budget(epsilon=limit)), Budget(epsilon=limit)
    assert budget.admits(wavering(found))
    assert not budget.admits(wavering(found * math.exp(1.9e-9)))


def below_half(x: float) -> Curve:
    """A family that raises outside of its domain."""
    if not 0.003 < x < 0.5:
        raise InvalidCurve("outside")
    return PureDP(epsilon=x)


Bracket = tuple[float, float] | None
ENDS: dict[str, tuple[Family, Budget, Bracket, float]] = {
    "a short decimal that spends the budget": (PURE, Budget(epsilon=0.3), None, 0.3),
    "of a scale": (lambda scale: 4 * PureDP(epsilon=1 / scale), Budget(epsilon=0.5), None, 8.0),
    "all of a bracket is admitted": (PURE, Budget(epsilon=9.0), (0.5, 2.0), 2.0),
    "all of it, a scale": (lambda x: PureDP(epsilon=1 / x), Budget(epsilon=9.0), (0.5, 2.0), 0.5),
    "a probability, beyond which the family raises": (
        lambda delta: ApproxDP(epsilon=0.1, delta=delta),
        Budget(rho=1.0, delta=1e-6),
        None,
        1e-6,
    ),
}


@pytest.mark.parametrize(("family", "budget", "bracket", "end"), ENDS.values(), ids=ENDS)
def test_calibration_returns_short_decimals_and_bracket_ends(
    family: Family, budget: Budget, bracket: Bracket, end: float
) -> None:
    """Where a short decimal is the answer it comes out as that, and what a bracket does not end is
    its costlier end.
    """
    assert calibrate(family, budget, bracket) == end


def two_branches(x: float) -> Curve:
    """A cost that falls and then rises."""
    return PureDP(epsilon=0.1 + abs(x - 3))


HALF, FINE = Budget(epsilon=0.5), Budget(epsilon=1.0)


@pytest.mark.parametrize(
    ("words", "family", "budget", "bracket"),
    [
        ("not monotone", two_branches, HALF, (1.0, 10.0)),
        # Between two probes, and where the search walks into it, or strides would leave the floats.
        (
            "not monotone",
            lambda x: PureDP(epsilon=x if not 4.5 < x < 6 else 0.5),
            Budget(epsilon=5.0),
            (1.0, 10.0),
        ),
        (
            "not monotone",
            lambda x: PureDP(epsilon=2.0 if x == 1e290 else 0.9 * (x / x)),
            FINE,
            (1.0, 1e290),
        ),
        (
            r"no end after 1000 parameters .*, because the cost goes up and down",
            lambda x: PureDP(
                epsilon=x if not 1 < x < 1e3 else 1 + 1e-7 * math.sin(math.log(x) * 3e9)
            ),
            FINE,
            (1e-3, 1e6),
        ),
        ("admits no parameter", below_half, Budget(epsilon=0.001), None),
        (r"The cheapest, 1, costs 1, and the limit is 0\.5", PURE, HALF, (1, 2)),
        (r"Budget\(epsilon=, delta=\)", lambda scale: GaussianDP(mu=1 / scale), FINE, None),
        ("larger than the delta", lambda x: ApproxDP(epsilon=x, delta=1e-3), BUDGETS[1], None),
        ("uses its parameter", lambda _: PureDP(epsilon=0.1), FINE, None),
        # The domain ends on the cheap side.
        (
            "none is the costliest",
            lambda x: PureDP(epsilon=x / (1 + x) if x > 5 else math.nan),
            Budget(epsilon=1.0 + 1e-9),
            None,
        ),
    ],
)
def test_a_search_in_vain_says_why(
    words: str, family: Family, budget: Budget, bracket: Bracket
) -> None:
    """A cost that is not monotone, never ends, is never admitted or always: refused, and what would
    help is said.
    """
    with pytest.raises(CalibrationError, match=words):
        calibrate(family, budget, bracket)


@pytest.mark.parametrize("power", [1.0, -1.0])
def test_the_widest_brackets_end(power: float) -> None:
    """However wide the bracket, no parameter outside it is tried, and the search ends, or says that
    there is no end.
    """
    seen, bracket = list[float](), (2.3e-308, 1.7e308)

    def scaled(x: float) -> float:
        seen.append(x)
        return x**power

    assert (
        calibrate(lambda x: PureDP(epsilon=scaled(x)), Budget(epsilon=8.0), bracket) == 8.0**power
    )
    with pytest.raises(
        CalibrationError, match=r"no finite cost\. GaussianDP has no finite pure epsilon"
    ):
        calibrate(lambda x: GaussianDP(mu=scaled(x)), Budget(epsilon=1.0), bracket)
    assert (min(seen), max(seen)) == bracket


@pytest.mark.parametrize("limit", [1, 7, 300_000, 700_000, 123_456_789, 10**9])
@pytest.mark.parametrize("unit", [1, 3, 100_000, 333_333, 10**6])
def test_counts(limit: int, unit: int) -> None:
    """The greatest count of a pure curve is the quotient of the decimals, rounded down: three of a
    tenth fit three tenths.
    """
    budget = Budget(epsilon=limit / 10**6)
    assert calibrate_count(PureDP(epsilon=unit / 10**6), budget) == limit // unit


@pytest.mark.parametrize("number", spread(range(5), 2))
def test_a_smooth_cost_is_met_in_few_probes(number: int) -> None:
    """Costs are read as a curve through the nearest probes: at most 20 evaluations find the end
    within one part in 10^9, and 45 in a search outward from 1 over ten decades.
    """
    family, seen = [*RISING, *FALLING][number], []

    def counted(x: float) -> Curve:
        seen.append(x)
        return family(x)

    calibrate(counted, BUDGETS[1], bracket=(1e-6, 1e6))
    assert len(seen) <= 20
    if number in (0, 1):  # the others are not admitted there, or only far out
        seen.clear()
        calibrate(counted, Budget(epsilon=1e-8, delta=1e-9))
        assert len(seen) <= 45
