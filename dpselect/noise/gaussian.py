"""Gaussian noise."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import scipy
from flint import arb

from dpselect.noise.base import NATS_TO_BITS, FloatArray, NoiseName, SymmetricNoise, WinnerPrice, as_floats

_LOG_ROOT_2PI = 0.5 * float(np.log(2.0 * np.pi))
_INVERSE_ROOT_2PI = 1.0 / float(np.sqrt(2.0 * np.pi))
_ROOT_HALF = float(np.sqrt(0.5))
_FAR = -100.0
_SPLIT = 16.0
_HIGHEST = 40.0  # exp(-40**2 / 2) is below the smallest subnormal


@final
class Gaussian(SymmetricNoise):
    """Standard normal; its hazard rate is unbounded, so it is not a Lipschitz member."""

    name: ClassVar[NoiseName] = "gaussian"
    winner_price: ClassVar[WinnerPrice | None] = "gaussian"

    def isf_ball(self, q: arb) -> arb:
        return arb(2).sqrt() * (2 * q).erfcinv()

    def tail_bits(self, z: FloatArray) -> FloatArray:
        return np.where(z >= 0.0, 1.0 + 0.5 * NATS_TO_BITS * np.square(z), 0.0)

    def _pdf(self, z: FloatArray) -> FloatArray:
        return _INVERSE_ROOT_2PI * _exp_half_square(np.abs(z))

    def _log_pdf(self, z: FloatArray) -> FloatArray:
        return -0.5 * np.square(z) - _LOG_ROOT_2PI

    def _cdf(self, z: FloatArray) -> FloatArray:
        tail = _tail(np.abs(z))
        return np.where(z < 0.0, tail, 1.0 - tail)

    def _log_cdf(self, z: FloatArray) -> FloatArray:
        size = np.abs(z)
        lower = np.log(0.5 * scipy.special.erfcx(size * _ROOT_HALF)) - 0.5 * np.square(size)
        return np.where(z < 0.0, lower, np.log1p(-_tail(size)))

    def _quantile(self, u: FloatArray) -> FloatArray:
        return np.asarray(scipy.special.ndtri(u))

    def _log_quantile(self, log_u: FloatArray) -> FloatArray:
        """ndtri_exp and one Newton step far below: it errs by 5e-13 of its value around log_u = -1e6."""
        z = as_floats(scipy.special.ndtri_exp(log_u))
        inverse_hazard = np.sqrt(np.pi / 2.0) * scipy.special.erfcx(np.abs(z) * _ROOT_HALF)
        polished = z - (self._log_cdf(z) - log_u) * inverse_hazard
        return np.where((log_u < _FAR) & np.isfinite(polished), polished, z)


def _exp_half_square(a: FloatArray) -> FloatArray:
    """exp(-a**2 / 2) for a >= 0; splitting a keeps the rounding of a**2 from being amplified by its size."""
    a = np.minimum(a, _HIGHEST)
    coarse = np.rint(a * _SPLIT) / _SPLIT
    return np.exp(-0.5 * coarse * coarse) * np.exp(-0.5 * (a - coarse) * (a + coarse))


def _tail(size: FloatArray) -> FloatArray:
    """P[Z > size] for size >= 0: unlike ndtr, without the rounding of size**2 in the exponent."""
    return as_floats(0.5 * scipy.special.erfcx(size * _ROOT_HALF) * _exp_half_square(size))
