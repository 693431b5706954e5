"""Logistic noise, which is the difference of two Gumbels, and its absolute value: half-logistic noise."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import scipy
from flint import arb

from dpselect.noise.base import LN2, NATS_TO_BITS, FloatArray, Noise, NoiseName, SymmetricNoise, WinnerPrice, log1mexp


@final
class Logistic(SymmetricNoise):
    """cdf 1 / (1 + exp(-z)) on the real line."""

    name: ClassVar[NoiseName] = "logistic"
    winner_price: ClassVar[WinnerPrice | None] = "laplace"
    smooth: ClassVar[bool] = True

    def isf_ball(self, q: arb) -> arb:
        return (1 / q - 1).log()

    def tail_bits(self, z: FloatArray) -> FloatArray:
        return NATS_TO_BITS * z

    def _pdf(self, z: FloatArray) -> FloatArray:
        odds = np.exp(-np.abs(z))
        return odds / np.square(1.0 + odds)

    def _log_pdf(self, z: FloatArray) -> FloatArray:
        size = np.abs(z)
        return -size - 2.0 * np.log1p(np.exp(-size))

    def _cdf(self, z: FloatArray) -> FloatArray:
        odds = np.exp(-np.abs(z))
        return np.where(z < 0.0, odds, 1.0) / (1.0 + odds)

    def _log_cdf(self, z: FloatArray) -> FloatArray:
        return np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))

    def _quantile(self, u: FloatArray) -> FloatArray:
        return np.asarray(scipy.special.logit(u))

    def _log_quantile(self, log_u: FloatArray) -> FloatArray:
        return log_u - log1mexp(-log_u)


@final
class HalfLogistic(Noise):
    """sf 2 / (1 + exp(z)) for z >= 0; its hazard rate is 1 / (1 + exp(-z))."""

    name: ClassVar[NoiseName] = "half_logistic"
    winner_price: ClassVar[WinnerPrice | None] = "laplace"
    lower: ClassVar[float] = 0.0
    kinks: ClassVar[tuple[float, ...]] = (0.0,)

    def isf_ball(self, q: arb) -> arb:
        return (2 / q - 1).log()

    def tail_bits(self, z: FloatArray) -> FloatArray:
        return NATS_TO_BITS * z - 1.0

    def _pdf(self, z: FloatArray) -> FloatArray:
        odds = np.exp(-z)
        return 2.0 * odds / np.square(1.0 + odds)

    def _log_pdf(self, z: FloatArray) -> FloatArray:
        return LN2 - z - 2.0 * np.log1p(np.exp(-z))

    def _cdf(self, z: FloatArray) -> FloatArray:
        return np.tanh(0.5 * z)

    def _sf(self, z: FloatArray) -> FloatArray:
        odds = np.exp(-z)
        return 2.0 * odds / (1.0 + odds)

    def _log_cdf(self, z: FloatArray) -> FloatArray:
        below = np.tanh(0.5 * z)
        return np.where(below <= 0.5, np.log(below), np.log1p(-self._sf(z)))

    def _log_sf(self, z: FloatArray) -> FloatArray:
        return np.where(z <= 1.0, np.log1p(-np.tanh(0.5 * z)), LN2 - z - np.log1p(np.exp(-z)))

    def _quantile(self, u: FloatArray) -> FloatArray:
        return 2.0 * np.arctanh(u)

    def _isf(self, q: FloatArray) -> FloatArray:
        return np.where(q <= 0.5, np.log(2.0 - q) - np.log(q), 2.0 * np.arctanh(1.0 - q))

    def _log_quantile(self, log_u: FloatArray) -> FloatArray:
        return np.where(log_u <= -LN2, 2.0 * np.arctanh(np.exp(log_u)), self._isf(-np.expm1(log_u)))

    def _log_isf(self, log_q: FloatArray) -> FloatArray:
        upper = np.log(2.0 - np.exp(log_q)) - log_q
        return np.where(log_q <= -LN2, upper, 2.0 * np.arctanh(-np.expm1(log_q)))
