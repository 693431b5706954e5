"""Natural calls answer, or say in words why not: no hang, no memory that runs out, no error of another family."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from accounting.convert.pld.compose import composable
from dpselect.plan import calibrated


@pytest.mark.fast(5)
@pytest.mark.parametrize("loud", [1e3, 1e9])
@pytest.mark.parametrize("count", [10])
@pytest.mark.parametrize(
    "curve",
    [
        lambda size: acc.BoundedRange(epsilon=size),
        lambda size: acc.LaplaceDP(epsilon=size),
        lambda size: acc.PureDP(epsilon=size),
        lambda size: acc.GaussianDP(mu=size),
        lambda size: acc.curves.GaussianMax(mu=size, candidates=10),
        lambda size: acc.BoundedRange(epsilon=size) + acc.LaplaceDP(epsilon=0.1),
        lambda size: acc.Approximate(curve=acc.BoundedRange(epsilon=size), delta0=1e-9),
    ],
)
def test_hardly_any_noise_is_priced_at_once(curve: Callable[[float], acc.Curve], count: int, loud: float) -> None:
    """What a slip of a unit gives, noise of 1e-9 or an epsilon of 1e5, has a finite price no less than that of a tenth of it."""
    plan, less = count * curve(loud), count * curve(loud / 10)
    assert acc.best_epsilon(less, 1e-6).value <= acc.best_epsilon(plan, 1e-6).value < math.inf
    assert acc.best_delta(plan, 1.0).value <= 1


def test_a_narrow_law_with_far_atoms_is_left_to_other_routes() -> None:
    """The grid is refused by what it would hold, not by the size of the typical loss."""
    for size, fits in ((10.0, True), (1000.0, True), (1e5, False)):
        curve = 10 * acc.BoundedRange(epsilon=size)
        losses = curve.losses()
        assert losses is not None
        assert composable(losses) == fits


@pytest.mark.parametrize(
    "curve",
    [
        acc.BoundedRange(epsilon=1e5),
        acc.LaplaceDP(epsilon=1e6),
        acc.GaussianDP(mu=1e5),
        acc.PureDP(epsilon=1e9),
        acc.ApproxDP(epsilon=1e9, delta=1e-6),
    ],
)
def test_a_grid_that_fills_the_memory_is_refused(curve: acc.Curve) -> None:
    """`pld` says that the interval is too fine; a coarse one is taken. An interval that is none is refused too."""
    if not isinstance(curve, acc.PureDP | acc.ApproxDP):  # whose two atoms need no grid between them
        with pytest.raises(acc.errors.InvalidArgument, match="too fine"):
            curve.pld()
        with pytest.raises(acc.errors.InvalidArgument, match="interval"):
            curve.pld(math.nan)
    else:
        assert curve.pld() is not None


def test_calibrated_answers_over_its_default_bracket() -> None:
    """The least noise is found although the bracket begins where noise hardly exists."""
    budget = acc.Budget(epsilon=1.0, delta=1e-6)
    found = calibrated(lambda scale: dps.OneshotTopK(k=10, noise="gumbel", scale=scale), budget)
    assert budget.admits(found.curve)
    assert not budget.admits(found.model_copy(update={"scale": found.scale * 0.99}).curve)  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [None, "8", [8.0], 1.0, True, math.nan, -math.inf, 10**400], ids=lambda value: str(value)[:9])
def test_an_odometer_names_its_order(wrong: object) -> None:
    """An order that is none is an error of the library."""
    with pytest.raises(acc.errors.InvalidArgument, match="order"):
        acc.filter.PrivacyOdometer(delta=1e-6, order=wrong)  # type: ignore[arg-type]


def test_far_apart_scores_are_settled_by_the_leaders() -> None:
    """Scores 1e300 noise units apart: the best k come out, in order or as a set, whatever lies below."""
    scores = dps.Scores(np.linspace(0.0, 1e300, 20_001), sensitivity=dps.Sensitivity(), kind="utilities")
    for mechanism in (
        dps.OneshotTopK(k=2, noise="gumbel", scale=1.0),
        dps.PeelingTopK(k=2, noise="laplace", scale=1.0),
        dps.OneshotTopK(k=2, noise="laplace", scale=1e-3),
    ):
        selection = mechanism.select(scores)
        assert selection.indices == ((20_000, 19_999) if selection.ordered else (19_999, 20_000))


MECHANISM = dps.ExponentialMechanism(epsilon=0.1)


@pytest.mark.parametrize("wrong", ["a curve", None, 3, [acc.PureDP(epsilon=0.1)]])
def test_what_has_no_price_is_an_error_of_the_library(wrong: object) -> None:
    """Budgets and conversions name what they need; mechanisms are as good as their curves."""
    budget, curve = acc.Budget(epsilon=1.0, delta=1e-6), MECHANISM.curve
    for take in (budget.price, budget.admits, budget.how_many, lambda item: budget.can_afford(acc.price.Price(0, 0), item)):
        with pytest.raises(acc.errors.InvalidArgument, match="Curve"):
            take(wrong)  # type: ignore[operator]
        assert take(MECHANISM) == take(curve)  # type: ignore[operator]
    for attempt in (
        lambda: acc.dp_events.to_dp_event(wrong),  # type: ignore[arg-type]
        lambda: dps.Mechanism.from_json(wrong),  # type: ignore[arg-type]
        lambda: dps.pate.SmoothRelease(order=2.0, failure=1e-3).tested(1.0, wrong) if wrong is not None else acc.tighter(),
        lambda: dps.pate.SmoothRelease(order=2.0, failure=1e-3).tested(wrong if wrong != 3 else -3.0),  # type: ignore[arg-type]
    ):
        with pytest.raises(acc.AccountingError):
            attempt()
