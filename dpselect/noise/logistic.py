"""Logistic noise: the difference of two Gumbels."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import scipy
from flint import arb

from dpselect.noise.base import NoiseName, SymmetricNoise
from dpselect.noise.numerics import NATS_TO_BITS, FloatArray, log1mexp


@final
class Logistic(SymmetricNoise):
    """cdf 1 / (1 + exp(-z)) on the real line."""

    name: ClassVar[NoiseName] = "logistic"
    lipschitz: ClassVar[bool] = True
    lower: ClassVar[float] = -np.inf
    kinks: ClassVar[tuple[float, ...]] = ()

    def from_uniform(self, u: FloatArray, *, out: FloatArray | None = None) -> FloatArray:
        draws: FloatArray = scipy.special.logit(u, out=out)
        return draws

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
