"""dp-accounting's figure and the proved bound side by side: which is reported, and why
(Theorem A7).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

import accounting as acc
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

DELTAS, EPSILONS = (0.0, 1e-6, 1e-16), (0.0, 2.0)
SIZES = np.linspace(0.02, 0.06, 40).tolist()
DP_SGD = 1000 * SampledGaussianDP(mu=1.0, rate=0.01)
PLANS: dict[str, Curve] = {
    "pure": 3 * acc.PureDP(epsilon=0.1),
    "Laplace": acc.LaplaceDP(epsilon=1.0),
    "many Laplace": 1004 * acc.LaplaceDP(epsilon=0.05),
    "a million Gaussian": 10**6 * acc.GaussianDP(mu=1e-3),
    "zCDP": 3 * acc.ZCDP(rho=0.02),
    "exponential mechanism": acc.BoundedRange(epsilon=1.0),
    "repeated exponential mechanism": 100 * acc.BoundedRange(epsilon=0.1),
    "exponential mechanism and Gaussian": (
        30 * acc.BoundedRange(epsilon=0.1) + acc.GaussianDP(mu=0.3)
    ),
    "DP-SGD": DP_SGD,
    "mixture": SampledNoiseDP(noise="gaussian", shift=1.0, rate=0.1, group=2),
    "with failures": 10 * acc.ApproxDP(epsilon=0.1, delta=1e-8),
    "heterogeneous": Composed.from_parts([(1, acc.LaplaceDP(epsilon=size)) for size in SIZES]),
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


@pytest.mark.parametrize("name", PLANS)
def test_no_plan_is_reported_below_its_proved_bound_nor_for_an_unknown_reason(name: str) -> None:
    """The reported figure is the larger of two that agree within 1%, else the proved one; it is
    never lower without a reason.
    """
    plan = PlanConverter(PLANS[name])
    for one in [*map(plan.epsilon, DELTAS), *map(plan.delta, EPSILONS)]:
        theirs, proved = one.dp_accounting, one.proved.value
        assert one.why in WHY
        assert one.why != "unexplained"
        if theirs is not None and proved / 1.01 <= theirs <= proved * 1.01:
            assert one.value == max(theirs, proved)
        else:
            assert one.value == proved
            assert one.why != "agreed"


def _sgd_at_least(delta: float) -> float:
    one = pld.from_gaussian_mechanism(1.0, sampling_prob=0.01, pessimistic_estimate=False)
    return float(one.self_compose(1000).get_epsilon_for_delta(delta))


@pytest.mark.parametrize(
    ("name", "delta", "truth"),
    [
        ("pure", 0.0, lambda _: 0.3),
        ("Laplace", 1e-3, lambda delta: 1.0 + 2 * math.log1p(-delta)),
        ("many Laplace", 1e-9, lambda _: 10.207785),
        ("repeated exponential mechanism", 1e-6, lambda _: 2.2508),
        ("DP-SGD", 1e-6, _sgd_at_least),
    ],
)
def test_the_reported_epsilon_is_not_below_the_truth(
    name: str, delta: float, truth: Callable[[float], float]
) -> None:
    """An accountant never reports less than the exact epsilon, or than a lower bound on it."""
    accountant, exact = acc.Accountant().compose(PLANS[name]), truth(delta)
    assert accountant.epsilon(delta) >= exact * (1 - 1e-12)
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
def test_larger_bound_is_reported_within_one_percent(
    theirs: float | None, route: Route, kept: float, value: float, why: Why
) -> None:
    """Within 1% the larger; else the proved bound, unless it is lower without a reason: where
    dp-accounting composes the same losses, only the recursion and its own resolution are one.
    """
    found = PlanConverter(acc.ZCDP(rho=0.1))._decide(Bound(1.0, route), [theirs, None], kept)
    assert (found.value, found.why) == (value, why)
    same = PlanConverter(acc.LaplaceDP(epsilon=1.0))._decide(Bound(1.0, "pld"), [1.015], 1e-6)
    assert (same.value, same.why) == (1.015, "unexplained")


def test_accountant_composes_losses_once_until_the_plan_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
