"""Fixtures over the law cases of all noises."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

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


SetProbability = Callable[[str, Sequence[float], Collection[int]], mp.mpf]


@pytest.fixture
def set_probability() -> SetProbability:
    """P[the largest are exactly this set] at scale 1, by tanh-sinh quadrature in 30 digits on unit-scale pieces."""
    mp.mp.dps = 30
    return _set_probability


def _set_probability(name: str, scores: Sequence[float], subset: Collection[int]) -> mp.mpf:
    law, exact = NOISE_LAWS[name], [mp.mpf(score) for score in scores]
    reaches = (-70, -40, -20, -10, -5, -2, 0, 2, 5, 10, 20, 40, 80)
    ends = sorted({score + reach for score in exact for reach in reaches})

    def integrand(t: mp.mpf) -> mp.mpf:
        z = [t - score for score in exact]
        below = mp.fprod(law.cdf(z[i]) for i in range(len(z)) if i not in subset)
        above = (law.pdf(z[i]) * mp.fprod(law.sf(z[j]) for j in subset if j != i) for i in subset)
        return below * mp.fsum(above) if below else below

    points = _refined(ends)
    # mpmath stops at an absolute error, which would leave small probabilities unresolved.
    peak = max(integrand(t) for t in points)
    return peak * mp.quad(lambda t: integrand(t) / peak, points)


def _refined(ends: list[mp.mpf]) -> list[mp.mpf]:
    points = [ends[0]]
    for end in ends[1:]:
        pieces = int(mp.ceil((end - points[-1]) / 8))
        start = points[-1]
        points += [start + (end - start) * (i + 1) / pieces for i in range(pieces)]
    return points
