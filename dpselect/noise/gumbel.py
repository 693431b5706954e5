"""Gumbel noise: the exponential mechanism by report-noisy-max."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
from flint import arb

from dpselect.noise.base import Noise, NoiseName
from dpselect.noise.numerics import LN2, NATS_TO_BITS, FloatArray, exp_minus_exp

_FAR = 700.0  # exp(-700) is a normal double, and far below an ulp of one
_NULL = -40.0  # from -6.7 down the cdf is zero in doubles


@final
class Gumbel(Noise):
    """cdf exp(-exp(-z)) on the real line."""

    name: ClassVar[NoiseName] = "gumbel"
    symmetric: ClassVar[bool] = False
    lipschitz: ClassVar[bool] = True
    lower: ClassVar[float] = -np.inf
    kinks: ClassVar[tuple[float, ...]] = ()

    def from_uniform(self, u: FloatArray, *, out: FloatArray | None = None) -> FloatArray:
        z = np.log(u, out=out)
        np.negative(z, out=z)
        np.log(z, out=z)
        return np.negative(z, out=z)

    def isf_ball(self, q: arb) -> arb:
        return -(-(-q).log1p()).log()

    def tail_bits(self, z: FloatArray) -> FloatArray:
        return NATS_TO_BITS * z

    def _pdf(self, z: FloatArray) -> FloatArray:
        return np.exp(-np.maximum(z, _NULL)) * exp_minus_exp(-z)

    def _log_pdf(self, z: FloatArray) -> FloatArray:
        finite = np.maximum(z, -2.0 * _FAR)
        return -(finite + np.exp(-finite))

    def _cdf(self, z: FloatArray) -> FloatArray:
        return exp_minus_exp(-z)

    def _sf(self, z: FloatArray) -> FloatArray:
        return -np.expm1(-np.exp(-z))

    def _log_cdf(self, z: FloatArray) -> FloatArray:
        return -np.exp(-z)

    def _log_sf(self, z: FloatArray) -> FloatArray:
        power = np.exp(-np.minimum(z, _FAR))
        upper = -z + np.log(-np.expm1(-power) / power)
        return np.where(power <= LN2, upper, np.log1p(-exp_minus_exp(-z)))

    def _quantile(self, u: FloatArray) -> FloatArray:
        return -np.log(-np.log(u))

    def _isf(self, q: FloatArray) -> FloatArray:
        return -np.log(-np.log1p(-q))

    def _log_quantile(self, log_u: FloatArray) -> FloatArray:
        return -np.log(-log_u)

    def _log_isf(self, log_q: FloatArray) -> FloatArray:
        q = np.exp(np.maximum(log_q, -_FAR))
        upper = -log_q - np.log(-np.log1p(-q) / q)
        return np.where(log_q <= -LN2, upper, -np.log(-np.log(-np.expm1(log_q))))
