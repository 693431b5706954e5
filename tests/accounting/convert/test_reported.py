"""dp-accounting's figure and the proved bound side by side: which is reported, and why
(Theorem A7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest
import scipy
from dp_accounting.pld import privacy_loss_distribution as pld

import accounting as acc
from accounting.convert import reported
from accounting.convert.bounds import Bound, Route
from accounting.convert.reported import WHY, PlanConverter, Why
from accounting.curves import (
    Composed,
    Curve,
    RenyiTable,
    RepeatAndSelectDP,
    SampledGaussianDP,
    SampledNoiseDP,
    SparseVectorDP,
    TruncatedNegativeBinomial,
)

DELTAS, EPSILONS = (0.0, 1e-3, 1e-6, 1e-9, 1e-16), (0.0, 0.5, 2.0, 6.0)
SIZES = np.linspace(0.02, 0.06, 40).tolist()
DP_SGD = 1000 * SampledGaussianDP(mu=1.0, rate=0.01)
PLANS: dict[str, Curve] = {
    "pure": 3 * acc.PureDP(epsilon=0.1),
    "Laplace": acc.LaplaceDP(epsilon=1.0),
    "many Laplace": 1004 * acc.LaplaceDP(epsilon=0.05),
    "Gaussian": 100 * acc.GaussianDP(mu=0.05),
    "a million Gaussian": 10**6 * acc.GaussianDP(mu=1e-3),
    "zCDP": 3 * acc.ZCDP(rho=0.02),
    "discrete Gaussian": acc.ZCDP(rho=0.5),
    "exponential mechanism": acc.BoundedRange(epsilon=1.0),
    "repeated exponential mechanism": 100 * acc.BoundedRange(epsilon=0.1),
    "exponential mechanism and Gaussian": (
        30 * acc.BoundedRange(epsilon=0.1) + acc.GaussianDP(mu=0.3)
    ),
    "DP-SGD": DP_SGD,
    "mixture": SampledNoiseDP(noise="gaussian", shift=1.0, rate=0.1, group=2),
    "repeated mixture": 20 * SampledNoiseDP(noise="laplace", shift=0.5, rate=0.1, group=2),
    "with failures": 10 * acc.ApproxDP(epsilon=0.1, delta=1e-8),
    "failing Gaussian": 10 * acc.Approximate(curve=acc.GaussianDP(mu=0.1), delta0=1e-8),
    "heterogeneous": Composed.of([(1, acc.LaplaceDP(epsilon=size)) for size in SIZES]),
    "all kinds": (
        50 * acc.LaplaceDP(epsilon=0.1)
        + acc.ZCDP(rho=0.001)
        + 5 * acc.PureDP(epsilon=0.2)
        + acc.GaussianDP(mu=0.2)
    ),
    "table": 5 * RenyiTable(orders=[2.0, 4.0, 8.0], values=[0.01, 0.02, 0.04]),
    "sparse vector": SparseVectorDP(epsilon1=0.1, epsilon2=0.2, positives=3),
    "repeat and select": RepeatAndSelectDP(
        base=acc.LaplaceDP(epsilon=0.2), distribution=TruncatedNegativeBinomial(eta=1.0, gamma=0.1)
    ),
}


@cache
def converter(name: str) -> PlanConverter:
    return PlanConverter(PLANS[name])


@pytest.mark.parametrize("name", PLANS)
def test_no_plan_is_reported_below_its_proved_bound_nor_for_an_unknown_reason(name: str) -> None:
    """The reported figure is the larger of two that agree within 1%, else the proved one; it is
    never lower without a reason.
    """
    found = [converter(name).epsilon(delta) for delta in DELTAS] + [
        converter(name).delta(epsilon) for epsilon in EPSILONS
    ]
    for one in found:
        theirs, proved = one.dp_accounting, one.proved.value
        assert one.why in WHY
        assert one.why != "unexplained"
        assert proved <= one.value <= max(proved * 1.01, proved)
        if theirs is not None and proved / 1.01 <= theirs <= proved * 1.01:
            assert one.value == max(theirs, proved)
        else:
            assert one.value == proved
            assert one.why != "agreed"


def test_every_case_occurs() -> None:
    """In these plans dp-accounting agrees, is higher for a reason, and has no figure."""
    names = ("Gaussian", "repeated exponential mechanism", "repeat and select", "repeated mixture")
    reasons = {converter(name).epsilon(delta).why for name in names for delta in DELTAS}
    assert reasons >= {
        "agreed",
        "recursion",
        "closed_form",
        "no_distribution",
        "resolution",
        "no_figure",
    }


def _root(delta_at: Callable[[float], float], delta: float) -> float:
    return float(
        scipy.optimize.brentq(
            lambda epsilon: math.log(max(delta_at(epsilon), 1e-300) / delta), 0.0, 50.0, xtol=1e-12
        )
    )


def _discrete_gaussian(epsilon: float) -> float:
    x = np.arange(-40, 42)
    weights = np.exp(-(x**2) / 2.0) / np.exp(-(x**2) / 2.0).sum()
    other = np.exp(-((x - 1) ** 2) / 2.0) / np.exp(-(x**2) / 2.0).sum()
    return float(np.maximum(0.0, weights - math.exp(epsilon) * other).sum())


def _gaussian(mu: float, epsilon: float) -> float:
    tail = scipy.stats.norm.cdf
    return float(tail(mu / 2 - epsilon / mu) - math.exp(epsilon) * tail(-mu / 2 - epsilon / mu))


def _mixture(epsilon: float) -> float:
    places = np.linspace(-5.0, 10.0, 3001)
    sample = sum(w * scipy.stats.norm.sf(places - j) for j, w in enumerate((0.81, 0.18, 0.01)))
    return float(np.max(sample - math.exp(epsilon) * scipy.stats.norm.sf(places)))


def _optimistic(one: pld.PrivacyLossDistribution, count: int, delta: float) -> float:
    return float(one.self_compose(count).get_epsilon_for_delta(delta))


_BELOW = partial(pld.from_gaussian_mechanism, pessimistic_estimate=False)
TRUTHS: list[tuple[str, float, Callable[[float], float]]] = [
    ("pure", 0.0, lambda _: 0.3),
    ("Laplace", 1e-3, lambda delta: 1.0 + 2 * math.log1p(-delta)),
    ("many Laplace", 1e-9, lambda _: 10.207785),
    ("Gaussian", 1e-6, lambda delta: _root(partial(_gaussian, 0.5), delta)),
    ("a million Gaussian", 1e-9, lambda delta: _root(partial(_gaussian, 1.0), delta)),
    ("discrete Gaussian", 1e-6, lambda delta: _root(_discrete_gaussian, delta)),
    ("repeated exponential mechanism", 1e-6, lambda _: 2.2508),
    ("DP-SGD", 1e-6, lambda d: _optimistic(_BELOW(1.0, sampling_prob=0.01), 1000, d)),
    ("mixture", 1e-6, lambda delta: _root(_mixture, delta)),
]


@pytest.mark.parametrize(("name", "delta", "truth"), TRUTHS, ids=[name for name, _, _ in TRUTHS])
def test_the_reported_epsilon_is_not_below_the_truth(
    name: str, delta: float, truth: Callable[[float], float]
) -> None:
    """An accountant never reports less than the exact epsilon, or than a lower bound on it."""
    accountant = acc.Accountant().compose(PLANS[name])
    exact = truth(delta)
    assert accountant.epsilon(delta) >= exact * (1 - 1e-12)
    if exact > 0:
        assert accountant.delta(exact * (1 - 1e-3)) >= delta


@pytest.mark.parametrize(
    ("theirs", "route", "kept", "value", "why"),
    [
        (1.0, "pld", 1e-6, 1.0, "agreed"),
        (1.009, "pld", 1e-6, 1.009, "agreed"),
        (0.9902, "pld", 1e-6, 1.0, "agreed"),
        (0.985, "pld", 1e-6, 1.0, "not_confirmed"),
        (None, "pld", 1e-6, 1.0, "no_figure"),
        (1.015, "adaptive", 1e-6, 1.0, "recursion"),
        (1.015, "profile", 1e-6, 1.0, "closed_form"),
        (1.015, "pure", 1e-6, 1.0, "closed_form"),
        (1.015, "pld", 1e-6, 1.0, "no_distribution"),
        (1.015, "pld", 1e-13, 1.0, "resolution"),
        (1.015, "rdp", 1e-6, 1.015, "unexplained"),
    ],
)
def test_the_rule(theirs: float | None, route: Route, kept: float, value: float, why: Why) -> None:
    """Within 1% the larger; else the proved bound, unless it is lower without a reason."""
    found = PlanConverter(acc.ZCDP(rho=0.1))._decide(Bound(1.0, route), [theirs, None], kept)
    assert (found.value, found.why) == (value, why)


def test_a_lower_bound_without_a_reason_gives_way_where_both_have_distributions() -> None:
    """Where dp-accounting composes the same losses, nothing but the recursion and its own
    resolution explains a gap.
    """
    plan = PlanConverter(acc.LaplaceDP(epsilon=1.0))
    assert plan._decide(Bound(1.0, "pld"), [1.015], 1e-6) == reported.Reported(
        1.015, Bound(1.0, "pld"), 1.015, "unexplained"
    )


def test_one_composition_serves_every_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """An accountant composes its losses once, until its plan grows."""
    made, compose = [], pld.PrivacyLossDistribution.self_compose

    def counted(self: pld.PrivacyLossDistribution, *asked: float) -> pld.PrivacyLossDistribution:
        made.append(asked)
        return compose(self, *asked)

    monkeypatch.setattr(pld.PrivacyLossDistribution, "self_compose", counted)
    plan = acc.Accountant().compose(acc.LaplaceDP(epsilon=0.1), 50)
    for delta in (1e-9, 1e-6, 1e-3):
        plan.epsilon(delta)
        plan.breakdown(delta)
    plan.delta(1.0)
    assert made == [(50,)]
    plan.compose(acc.LaplaceDP(epsilon=0.1))
    plan.epsilon(1e-6)
    assert made == [(50,), (51,)]


def test_very_many_steps_are_composed_in_two_stages() -> None:
    """Above 10^5 steps dp-accounting's window would be too wide; two stages give the same
    figure.
    """
    plan = PlanConverter((10**5 + 7) * acc.LaplaceDP(epsilon=0.003))
    found = plan.epsilon(1e-6)
    assert found.why == "agreed"
    assert found.dp_accounting == pytest.approx(found.proved.value, rel=2e-4)
