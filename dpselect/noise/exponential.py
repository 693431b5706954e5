"""Exponential noise: permute-and-flip by report-noisy-max."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
from flint import arb

from dpselect.noise.base import Noise, NoiseName
from dpselect.noise.numerics import LN2, NATS_TO_BITS, FloatArray, log1mexp


@final
class Exponential(Noise):
    """sf exp(-z) for z >= 0."""

    name: ClassVar[NoiseName] = "exponential"
    symmetric: ClassVar[bool] = False
    lipschitz: ClassVar[bool] = True
    lower: ClassVar[float] = 0.0
    kinks: ClassVar[tuple[float, ...]] = (0.0,)

    def from_uniform(self, u: FloatArray, *, out: FloatArray | None = None) -> FloatArray:
        z = np.log(u, out=out)
        return np.negative(z, out=z)

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
