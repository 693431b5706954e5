"""Against dp-accounting: never dearer by more than 1e-6, and right where it is wrong."""

from __future__ import annotations

import math

import dp_accounting as dp
import pytest
from dp_accounting import pld, rdp
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from spread import spread

import accounting as acc

Relation = dp.NeighboringRelation


def plan(curve: acc.Curve, event: dp.DpEvent, *counts: int) -> list[tuple[acc.Curve, dp.DpEvent]]:
    """The curve and the event, repeated."""
    return [(n * curve, dp.SelfComposedDpEvent(event, n)) for n in counts]


PLANS = [
    *plan(acc.GaussianDP(mu=1.0), dp.GaussianDpEvent(1.0), 1, 30),
    *plan(acc.GaussianDP(mu=0.025), dp.GaussianDpEvent(40.0), 1, 600),
    *plan(acc.LaplaceDP(epsilon=1.0), dp.LaplaceDpEvent(1.0), 1, 10),
    *plan(acc.LaplaceDP(epsilon=0.05), dp.LaplaceDpEvent(20.0), 1, 200),
    *plan(acc.ZCDP(rho=0.01), dp.ZCDpEvent(0.01), 1, 100),
    (
        2 * acc.LaplaceDP(epsilon=1.0) + 3 * acc.GaussianDP(mu=0.7),
        dp.ComposedDpEvent(
            [dp.SelfComposedDpEvent(dp.LaplaceDpEvent(1.0), 2), dp.SelfComposedDpEvent(dp.GaussianDpEvent(1 / 0.7), 3)]
        ),
    ),
    (
        acc.ZCDP(rho=0.02) + 5 * acc.LaplaceDP(epsilon=0.3),
        dp.ComposedDpEvent([dp.ZCDpEvent(0.02), dp.SelfComposedDpEvent(dp.LaplaceDpEvent(1 / 0.3), 5)]),
    ),
]


@pytest.mark.fast(8)
@pytest.mark.parametrize(("curve", "event"), spread(PLANS, 4), ids=lambda value: repr(value)[:50])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-9])
@pytest.mark.parametrize("accountant", [rdp.RdpAccountant, pld.PLDAccountant])
def test_never_dearer(curve: acc.Curve, event: dp.DpEvent, delta: float, accountant: type[dp.PrivacyAccountant]) -> None:
    """For every event that both know, our epsilon is at most dp-accounting's plus 1e-6, whichever accountant is asked.

    Its composed distributions carry the rounding of their Fourier transforms, some 1e-14 in delta either way: at delta 1e-9 that
    is up to 2e-6 in epsilon, which is allowed for. Theorem P5 adds ours.
    """
    theirs = accountant(neighboring_relation=Relation.ADD_OR_REMOVE_ONE)
    if not theirs.supports(event):
        pytest.skip(f"{accountant.__name__} does not know this event")
    assert curve.epsilon(delta) <= theirs.compose(event).get_epsilon(delta) + 1e-6 + 2e-15 / delta


def response(noise: float, buckets: int) -> tuple[acc.Curve, dp.DpEvent]:
    """Randomised response as a pure curve (replace-one) and as an event."""
    return acc.PureDP(epsilon=math.log((1 - noise) / noise * buckets + 1)), dp.RandomizedResponseDpEvent(noise, buckets)


def test_one_randomised_response() -> None:
    """A pure curve of binary randomised response costs what dp-accounting says of one event."""
    curve, event = response(0.4, 2)
    theirs = pld.PLDAccountant(Relation.REPLACE_ONE).compose(event).get_epsilon(1e-6)
    assert curve.epsilon(1e-6) <= theirs + 1e-6


def test_repeated_randomised_response_is_counted() -> None:
    """dp-accounting's PLD accountant ignores the count of randomised response; ours grows as a list of single events does."""
    curve, event = response(0.4, 2)
    counted = pld.PLDAccountant(Relation.REPLACE_ONE).compose(dp.SelfComposedDpEvent(event, 10)).get_epsilon(1e-6)
    assert counted == pytest.approx(pld.PLDAccountant(Relation.REPLACE_ONE).compose(event).get_epsilon(1e-6))
    listed = pld.PLDAccountant(Relation.REPLACE_ONE).compose(dp.ComposedDpEvent([event] * 10)).get_epsilon(1e-6)
    assert listed > 5 * counted
    ours = (10 * curve).epsilon(1e-6)
    assert ours > 5 * counted
    assert ours == pytest.approx(listed, rel=1e-3)
    composed = curve.pld(1e-3).self_compose(10)
    assert composed.get_epsilon_for_delta(1e-6) >= ours * (1 - 1e-9)


def test_nan_is_no_guarantee() -> None:
    """dp-accounting converts a NaN Renyi bound, and NaN noise, to epsilon 0; here neither becomes a curve or a number."""
    assert compute_epsilon([2.0], [math.nan], 1e-6)[0] == 0
    assert rdp.RdpAccountant().compose(dp.GaussianDpEvent(math.nan)).get_epsilon(1e-6) == 0
    with pytest.raises(acc.InvalidCurve):
        acc.GaussianDP(mu=math.nan)
    with pytest.raises(acc.InvalidCurve):
        acc.convert.renyi.rdp_to_epsilon(lambda orders: orders * math.nan, 1e-6)
    with pytest.raises(acc.InvalidCurve):
        acc.convert.renyi.rdp_to_delta(lambda orders: orders * math.nan, 1.0)


def test_a_negative_count_is_no_refund() -> None:
    """dp-accounting's Renyi accountant takes a negative count inside a composed event as a refund; here it raises."""
    refund = dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), -1)
    assert rdp.RdpAccountant().compose(dp.ComposedDpEvent([dp.GaussianDpEvent(1.0), refund])).get_epsilon(1e-6) == 0
    with pytest.raises(acc.errors.InvalidArgument):
        _ = -1 * acc.GaussianDP(mu=1.0)


def test_bounds_below_an_ulp_convert() -> None:
    """dp-accounting's compute_delta fails on a Renyi bound below 1e-16; here it is a tiny, positive, sound delta."""
    with pytest.raises(ValueError, match="domain"):
        rdp.RdpAccountant().compose(dp.ZCDpEvent(1e-30)).get_delta(0.0)
    delta = acc.ZCDP(rho=1e-30).delta(0.0)
    assert 0 < delta < 1.1e-15
