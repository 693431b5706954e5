"""Fixtures over the law cases of all noises."""

from __future__ import annotations

import mpmath as mp
import pytest
from noise_laws import NOISE_LAWS, NoiseLaw

DIGITS = 50


@pytest.fixture(params=sorted(NOISE_LAWS))
def name(request: pytest.FixtureRequest) -> str:
    """Every member's name in turn."""
    return str(request.param)


@pytest.fixture
def reference(name: str) -> NoiseLaw:
    """The member's law in extended precision."""
    mp.mp.dps = DIGITS
    return NOISE_LAWS[name]
