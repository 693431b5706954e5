"""Laplace noise, and its absolute value: exponential noise, which is permute-and-flip by report-noisy-max."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
from flint import arb

from dpselect.noise.base import LN2, NATS_TO_BITS, FloatArray, Noise, NoiseName, SymmetricNoise, WinnerPrice, log1mexp


@final
class Laplace(SymmetricNoise):
    """Density exp(-|z|) / 2 on the real line."""

    name: ClassVar[NoiseName] = "laplace"
    winner_price: ClassVar[WinnerPrice | None] = "laplace"
    smooth: ClassVar[bool] = True
    kinks: ClassVar[tuple[float, ...]] = (0.0,)

    def isf_ball(self, q: arb) -> arb:
        return -(2 * q).log() if q.mid() < 0.5 else (2 * (1 - q)).log()

    def tail_bits(self, z: FloatArray) -> FloatArray:
        return np.where(z >= 0.0, 1.0 + NATS_TO_BITS * z, 0.0)

    def _pdf(self, z: FloatArray) -> FloatArray:
        return 0.5 * np.exp(-np.abs(z))

    def _log_pdf(self, z: FloatArray) -> FloatArray:
        return -np.abs(z) - LN2

    def _cdf(self, z: FloatArray) -> FloatArray:
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0.0, tail, 1.0 - tail)

    def _log_cdf(self, z: FloatArray) -> FloatArray:
        return np.where(z < 0.0, z - LN2, np.log1p(-0.5 * np.exp(-np.abs(z))))

    def _quantile(self, u: FloatArray) -> FloatArray:
        return np.copysign(np.log(2.0 * np.minimum(u, 1.0 - u)), u - 0.5)

    def _log_quantile(self, log_u: FloatArray) -> FloatArray:
        return np.where(log_u < -LN2, log_u + LN2, -np.log(-2.0 * np.expm1(log_u)))


@final
class Exponential(Noise):
    """sf exp(-z) for z >= 0."""

    name: ClassVar[NoiseName] = "exponential"
    winner_price: ClassVar[WinnerPrice | None] = "laplace"
    lower: ClassVar[float] = 0.0
    rises: ClassVar[bool] = False
    kinks: ClassVar[tuple[float, ...]] = (0.0,)

    def isf_ball(self, q: arb) -> arb:
        return -q.log()

    def tail_bits(self, z: FloatArray) -> FloatArray:
        return NATS_TO_BITS * z

    def _pdf(self, z: FloatArray) -> FloatArray:
        return np.exp(-z)

    def _log_pdf(self, z: FloatArray) -> FloatArray:
        return -z

    def _cdf(self, z: FloatArray) -> FloatArray:
        return -np.expm1(-z)

    def _sf(self, z: FloatArray) -> FloatArray:
        return np.exp(-z)

    def _log_cdf(self, z: FloatArray) -> FloatArray:
        return log1mexp(z)

    def _log_sf(self, z: FloatArray) -> FloatArray:
        return -z

    def _quantile(self, u: FloatArray) -> FloatArray:
        return -np.log1p(-u)

    def _isf(self, q: FloatArray) -> FloatArray:
        return -np.log(q)

    def _log_quantile(self, log_u: FloatArray) -> FloatArray:
        return np.where(log_u <= -LN2, -np.log1p(-np.exp(log_u)), -np.log(-np.expm1(log_u)))

    def _log_isf(self, log_q: FloatArray) -> FloatArray:
        return -log_q
