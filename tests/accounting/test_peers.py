"""Values that stand in other libraries' own tests: an exact one is met, a bound of theirs is not
exceeded by more than 1 %.

Facts only, each with the file that it stands in. Refused is what the table says, with the reason
that the refusal gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
from dp_accounting import dp_event
from scipy.stats import norm

import accounting as acc
from accounting.arguments import Relation
from accounting.dp_events import dp_sgd, from_dp_event
from accounting.errors import NoEquivalent


class Fact(NamedTuple):
    """A value of `source` of a curve: exact, to the digits that stand there, or a bound."""

    source: str
    curve: acc.Curve
    read: Callable[[acc.Curve], float]
    value: float
    digits: float | None = None  # relative, of an exact value; None of a bound


def epsilon(delta: float) -> Callable[[acc.Curve], float]:
    """The epsilon at a delta."""
    return lambda curve: float(curve.epsilon(delta))


def delta(at: float) -> Callable[[acc.Curve], float]:
    """The delta at an epsilon."""
    return lambda curve: float(curve.delta(at))


def found(fpr: float) -> Callable[[acc.Curve], float]:
    """The true positives at a false positive rate."""
    return lambda curve: float(curve.attack(fpr))


def sampled(sigma: float, rate: float, steps: int) -> acc.Curve:
    """Steps of Gaussian noise on Poisson samples."""
    return from_dp_event(dp_sgd(sigma, rate, steps), "add_remove")


def gaussian(sigma: float, steps: int = 1) -> acc.Curve:
    """Gaussian noise, several times."""
    return steps * acc.GaussianDP(mu=1 / sigma)


PURE, FAILING = (
    acc.PureDP(epsilon=1.0) + acc.PureDP(epsilon=2.0),
    acc.ApproxDP(epsilon=1.0, delta=1e-3),
)
BOTH_FAIL = acc.ApproxDP(epsilon=1.0, delta=0.1) + acc.ApproxDP(epsilon=2.0, delta=0.2)
ROOT_3, DP = gaussian(math.sqrt(3), 3), "dp-accounting "
PLD, PLANS, RDP = (
    DP + "pld/pld_privacy_accountant_test.py",
    DP + "pld/accountant_test.py",
    DP + "rdp/rdp_privacy_accountant_test.py",
)
OPACUS, OPENDP, RISKCAL = (
    "opacus tests/accountants_test.py",
    "OpenDP zCDP_to_approxDP",
    "riskcal tests/test_conversions.py",
)
FACTS = [
    Fact(PLD, PURE, epsilon(0.0), 3.0, 1e-12),
    Fact(PLD, PURE, found(0.1), 0.8286, 1e-4),
    Fact(PLD, BOTH_FAIL, delta(3.0), 0.28, 1e-9),
    # ours rounds the sum of failures up
    Fact(PLD, BOTH_FAIL, epsilon(0.28 * (1 + 1e-6)), 3.0, 1e-3),
    Fact(PLD, BOTH_FAIL, found(0.1), 0.91938, 1e-4),
    Fact(
        PLD, acc.BoundedRange(epsilon=1.0) + acc.BoundedRange(epsilon=2.0), epsilon(0.0), 3.0, 1e-12
    ),
    Fact(PLD, ROOT_3, delta(1.0), 0.126936, 1e-5),
    Fact(PLD, ROOT_3, epsilon(0.126936), 1.0, 1e-5),
    Fact(PLD, ROOT_3, found(0.1), 0.38914, 1e-4),
    Fact(PLD, sampled(0.5, 0.2, 3), delta(1.0), 0.15594, 1e-4),
    Fact(PLD, 3 * acc.LaplaceDP(epsilon=1.0) + 2 * acc.LaplaceDP(epsilon=0.5), epsilon(1e-14), 4.0),
    Fact(
        PLD,
        3 * acc.curves.SampledNoiseDP(noise="laplace", shift=2.0, rate=0.2),
        epsilon(1e-14),
        2.46964,
    ),
    Fact(PLD, 3 * acc.PureDP(epsilon=1.0) + 2 * acc.PureDP(epsilon=0.5), epsilon(0.0), 4.0, 1e-12),
    Fact(PLANS, 10 * acc.LaplaceDP(epsilon=21 / 70), epsilon(0.0), 3.0, 1e-9),
    Fact(PLANS, 20 * acc.LaplaceDP(epsilon=1 / 13.6), epsilon(1e-4), 1.0, 1e-2),
    Fact(PLANS, 500 * acc.LaplaceDP(epsilon=1 / 71.0), epsilon(1e-4), 1.0, 3e-3),
    Fact(PLANS, 20 * acc.PureDP(epsilon=0.073), epsilon(1e-4), 1.0, 1.4e-2),
    Fact(PLANS, gaussian(1 / 3), delta(1.0), 0.78760074, 1e-7),
    Fact(PLANS, gaussian(10 / 6, 25), delta(1.0), 0.78760074, 1e-7),
    Fact(PLANS, sampled(0.67379294682, 0.01, 1), epsilon(1e-5), 1.0, 1e-6),
    Fact(PLANS, sampled(3.20956502598 / 6, 0.001, 25), epsilon(1e-5), 1.0, 1e-3),
    Fact(PLANS, 30 * FAILING, epsilon(0.06), 22.0),
    Fact(PLANS, 30 * FAILING, epsilon(0.1), 20.0),
    Fact(PLANS, acc.ApproxDP(epsilon=1.0, delta=0.2), epsilon(0.1), math.inf, 0),
    Fact(PLANS, 30 * acc.ApproxDP(epsilon=1.0, delta=0.01), epsilon(0.26), math.inf, 0),
    Fact(RDP, acc.RenyiTable(orders=range(2, 33), values=[1.1] * 31), epsilon(1e-5), 1.32783806176),
    Fact(RDP, gaussian(4.530877117), epsilon(1e-6), 1.0),
    Fact(RDP, 10 * acc.ApproxDP(epsilon=0.0, delta=1e-3), delta(0.0), 1 - 0.999**10),
    Fact(OPACUS, sampled(1.5, 0.04, 2250), epsilon(1e-5), 7.32911117143),
    Fact(OPACUS, sampled(1.416, 0.04, 2250), epsilon(1e-5), 8.0),
    Fact(OPACUS, sampled(1.3562, 0.04, 2000), epsilon(1e-5), 8.0),
    Fact(OPENDP, acc.ZCDP(rho=1 / 32), epsilon(1e-3), 0.6880024554878086),
    Fact(OPENDP, acc.ZCDP(rho=1 / 32), delta(0.0), 0.1508457845622862),
    Fact(OPENDP, acc.ZCDP(rho=0.5), delta(0.0), 0.5588356393474351),
    *(
        Fact(RISKCAL, gaussian(0.5), found(alpha), float(norm.cdf(norm.ppf(alpha) + 2)), 1e-6)
        for alpha in (0.1, 0.2, 0.3)
    ),
    Fact(RISKCAL, gaussian(0.5), lambda curve: curve.advantage, float(2 * norm.cdf(1) - 1), 1e-6),
]
REFUSED: list[tuple[str, dp_event.DpEvent, Relation, str]] = [
    (
        PLD,
        dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.2, 0.6, 0.2]),
        "add_remove",
        "one-sided pair of distributions",
    ),
    (
        PLD,
        dp_event.TruncatedSubsampledGaussianDpEvent(4, 0.5, 2, 1.0),
        "add_remove",
        "no bound for it is proved here",
    ),
    (
        PLD,
        dp_sgd(0.5, 0.2, 3),
        "replace_one",
        "proof of amplification by Poisson sampling, which is for add_remove only",
    ),
]


@pytest.mark.filterwarnings("ignore::accounting.errors.GridEdgeWarning")
@pytest.mark.parametrize(
    "fact", FACTS, ids=lambda fact: f"{fact.source.split('/')[-1]}: {fact.value:g}"
)
def test_values_of_other_libraries_tests(fact: Fact) -> None:
    """An exact value to the digits that stand there, from either side; a bound of theirs plus 1 %
    at most.
    """
    ours = fact.read(fact.curve)
    if fact.digits is None:
        assert ours <= 1.01 * fact.value
    else:
        assert ours == pytest.approx(fact.value, rel=fact.digits)


@pytest.mark.parametrize(("source", "event", "relation", "reason"), REFUSED)
def test_values_that_are_refused(
    source: str, event: dp_event.DpEvent, relation: Relation, reason: str
) -> None:
    """What no proof here covers gives no number, but its reason."""
    with pytest.raises(NoEquivalent, match=reason):
        from_dp_event(event, relation)
    assert source == PLD


def test_gaussians_that_autodp_and_prv_accountant_calibrate() -> None:
    """The noise and counts of autodp's unit_test_calibrator.py and of prv-accountant's
    test_accountant.py, by the exact law.
    """
    cases = [(1.6**i // 1, count) for i in range(10) for count in (1, 10, 100, 1000)]
    plans = [
        (gaussian(sigma, count), math.sqrt(count) / sigma)
        for sigma, count in [*cases, (100.0, 10_000), (100.0, 10_002)]
    ]
    plans.append((gaussian(10.0, 50) + gaussian(5.0, 50), math.sqrt(2.5)))
    for curve, mu in plans:
        for at in (1e-3, 1e-4, 1e-5, 1e-6):
            ours = float(curve.epsilon(at))
            exact = norm.cdf(mu / 2 - ours / mu) - math.exp(
                min(ours, 700.0) + norm.logcdf(-mu / 2 - ours / mu)
            )
            assert ours > 600 or exact == pytest.approx(at, rel=1e-6)
