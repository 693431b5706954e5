"""Natural calls answer, or say in words why not: no hang, no memory that runs out, no error of another family."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from accounting.convert.pld.compose import composable


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
