"""The distributions once more, from their definitions, in 50 digits: the references of these tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import mpmath as mp
import pytest

Real = Callable[[mp.mpf], mp.mpf]
DIGITS = 50


@dataclass(frozen=True)
class Reference:
    """Density, distribution and survival function of a standard law, each accurate in its own lower tail."""

    pdf: Real
    cdf: Real
    sf: Real

    def log_pdf(self, z: mp.mpf) -> mp.mpf:
        return _log(self.pdf(z))

    def log_cdf(self, z: mp.mpf) -> mp.mpf:
        return _log_of(self.cdf(z), self.sf(z))

    def log_sf(self, z: mp.mpf) -> mp.mpf:
        return _log_of(self.sf(z), self.cdf(z))


def _log(p: mp.mpf) -> mp.mpf:
    return mp.log(p) if p > 0 else -mp.inf


def _log_of(p: mp.mpf, complement: mp.mpf) -> mp.mpf:
    return _log(p) if p < 0.5 else mp.log1p(-complement)


def _from_zero(formula: Real, below: int) -> Real:
    return lambda z: formula(z) if z >= 0 else mp.mpf(below)


def _laplace_cdf(z: mp.mpf) -> mp.mpf:
    return mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2


def _normal_cdf(z: mp.mpf) -> mp.mpf:
    return mp.erfc(-z / mp.sqrt(2)) / 2


REFERENCES = {
    "gumbel": Reference(
        pdf=lambda z: mp.exp(-z - mp.exp(-z)), cdf=lambda z: mp.exp(-mp.exp(-z)), sf=lambda z: -mp.expm1(-mp.exp(-z))
    ),
    "exponential": Reference(
        pdf=_from_zero(lambda z: mp.exp(-z), 0),
        cdf=_from_zero(lambda z: -mp.expm1(-z), 0),
        sf=_from_zero(lambda z: mp.exp(-z), 1),
    ),
    "laplace": Reference(pdf=lambda z: mp.exp(-abs(z)) / 2, cdf=_laplace_cdf, sf=lambda z: _laplace_cdf(-z)),
    "logistic": Reference(
        pdf=lambda z: mp.sech(z / 2) ** 2 / 4, cdf=lambda z: 1 / (1 + mp.exp(-z)), sf=lambda z: 1 / (1 + mp.exp(z))
    ),
    "half_logistic": Reference(
        pdf=_from_zero(lambda z: mp.sech(z / 2) ** 2 / 2, 0),
        cdf=_from_zero(lambda z: mp.tanh(z / 2), 0),
        sf=_from_zero(lambda z: 2 / (1 + mp.exp(z)), 1),
    ),
    "gaussian": Reference(pdf=lambda z: mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi), cdf=_normal_cdf, sf=lambda z: _normal_cdf(-z)),
}


@pytest.fixture(params=sorted(REFERENCES))
def name(request: pytest.FixtureRequest) -> str:
    """Every member's name in turn."""
    return str(request.param)


@pytest.fixture
def reference(name: str) -> Reference:
    """The member's law in extended precision."""
    mp.mp.dps = DIGITS
    return REFERENCES[name]


SetProbability = Callable[[str, Sequence[float], Collection[int]], mp.mpf]


@pytest.fixture
def set_probability() -> SetProbability:
    """P[the largest are exactly this set] at scale 1, by tanh-sinh quadrature in 30 digits on unit-scale pieces."""
    mp.mp.dps = 30
    return _set_probability


def _set_probability(name: str, scores: Sequence[float], subset: Collection[int]) -> mp.mpf:
    law, exact = REFERENCES[name], [mp.mpf(score) for score in scores]
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
