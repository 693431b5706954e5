"""`verify.lower_bound` of anybody's function: planted bugs are convicted, honest noise is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpselect as dps
from dpselect import verify

CONFIDENCE = 1 - 1e-6


@pytest.mark.parametrize(
    "form", [float, np.float64, lambda value: [float(value)], lambda value: np.array([value]), lambda value: [np.float64(value)]]
)
def test_numbers_are_told_apart_by_cells(form: Callable[[float], Any]) -> None:
    """Laplace noise of scale 1/2 in place of 1: more than the claimed 1 in 4,000 samples, not more than the true 2."""
    rng = np.random.default_rng(7)
    found = verify.lower_bound(lambda count: form(count + rng.laplace(0, 0.5)), 4, 3, samples=4000, confidence=CONFIDENCE)
    assert 1.0 < found.epsilon <= 2.0


def test_honest_noise_is_not_convicted() -> None:
    """The bound stays below the true epsilon (false alarm 1e-6), for items as for numbers."""
    rng = np.random.default_rng(8)
    assert verify.lower_bound(lambda count: float(count + rng.laplace()), 4, 3, samples=4000).epsilon <= 1.0
    coin = verify.lower_bound(lambda p: "yes" if rng.random() < p else "no", 0.75, 0.25, samples=4000)
    assert 0.8 < coin.epsilon <= np.log(3)


def test_what_cannot_be_compared_is_refused() -> None:
    """Objects, mixtures, nothing, and a seed for somebody else's noise raise InvalidRequest."""
    for released in (object(), (1, 2.0), None, {"a": 1}):
        with pytest.raises(dps.InvalidRequest, match="the function released"):
            verify.lower_bound({1: released, 2: released}.__getitem__, 1, 2, samples=10)
    with pytest.raises(dps.InvalidRequest, match="leave it out"):
        verify.lower_bound(lambda _: 1, 1, 2, samples=10, rng=np.random.default_rng(1))
