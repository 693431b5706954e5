"""The law case of each noise: its distribution once more, from its definition. A new noise adds its
own here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
from flint import arb
from scipy import stats

Real = Callable[[mp.mpf], mp.mpf]
DIGITS = 50


@dataclass(frozen=True)
class NoiseLaw:
    """A standard law: density, distribution and survival function, each accurate in its own lower
    tail, in mpmath's precision; the inverse of the survival function of a ball; and scipy's
    distribution of that law.
    """

    pdf: Real
    cdf: Real
    sf: Real
    inverse: Callable[[arb], arb]
    scipy: Any

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


NOISE_LAWS = {
    "gumbel": NoiseLaw(
        pdf=lambda z: mp.exp(-z - mp.exp(-z)),
        cdf=lambda z: mp.exp(-mp.exp(-z)),
        sf=lambda z: -mp.expm1(-mp.exp(-z)),
        inverse=lambda v: -((1 / (1 - v)).log().log()),
        scipy=stats.gumbel_r,
    ),
    "exponential": NoiseLaw(
        pdf=_from_zero(lambda z: mp.exp(-z), 0),
        cdf=_from_zero(lambda z: -mp.expm1(-z), 0),
        sf=_from_zero(lambda z: mp.exp(-z), 1),
        inverse=lambda v: (1 / v).log(),
        scipy=stats.expon,
    ),
    "laplace": NoiseLaw(
        pdf=lambda z: mp.exp(-abs(z)) / 2,
        cdf=_laplace_cdf,
        sf=lambda z: _laplace_cdf(-z),
        inverse=lambda v: -(2 * v).log() if v.mid() < arb(0.5) else (2 - 2 * v).log(),
        scipy=stats.laplace,
    ),
    "logistic": NoiseLaw(
        pdf=lambda z: mp.sech(z / 2) ** 2 / 4,
        cdf=lambda z: 1 / (1 + mp.exp(-z)),
        sf=lambda z: 1 / (1 + mp.exp(z)),
        inverse=lambda v: ((1 - v) / v).log(),
        scipy=stats.logistic,
    ),
    "half_logistic": NoiseLaw(
        pdf=_from_zero(lambda z: mp.sech(z / 2) ** 2 / 2, 0),
        cdf=_from_zero(lambda z: mp.tanh(z / 2), 0),
        sf=_from_zero(lambda z: 2 / (1 + mp.exp(z)), 1),
        inverse=lambda v: 2 * (1 - v).atanh(),
        scipy=stats.halflogistic,
    ),
    "gaussian": NoiseLaw(
        pdf=lambda z: mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi),
        cdf=_normal_cdf,
        sf=lambda z: _normal_cdf(-z),
        inverse=lambda v: -arb(2).sqrt() * (2 * v - 1).erfinv(),
        scipy=stats.norm,
    ),
}
