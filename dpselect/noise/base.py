"""The abstract noise distribution: what a sampler, a mechanism and the exact oracle may ask of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, final

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from dpselect.errors import DpSelectError

FloatArray = NDArray[np.float64]
NoiseName = Literal["gumbel", "exponential", "laplace", "logistic", "half_logistic", "gaussian"]
LN2 = float(np.log(2.0))
NATS_TO_BITS = 1.4426  # 1/ln 2 rounded down by 7e-5 of itself, which leaves room for rounding
WinnerPrice = Literal["bounded_range", "laplace", "gaussian"]
_Formula = Callable[[FloatArray], FloatArray]
_ALLOWANCE = 2.0**-40  # of 1 + |z|: thousands of times the error that the inverses below are documented to have


class NoiseError(DpSelectError):
    """Base of the errors raised by `dpselect.noise`; no message prints an argument's data."""


class InvalidNoiseArgument(NoiseError):
    """An argument of a distribution or of the quadrature is outside its stated domain."""


class QuadratureError(NoiseError):
    """Successive refinements of a quadrature did not agree to the promised accuracy."""


def as_floats(x: Any) -> FloatArray:
    """The argument as float64, copied only when it is something else."""
    return np.asarray(x, dtype=np.float64)


def log1mexp(x: FloatArray) -> FloatArray:
    """log(1 - exp(-x)) for x >= 0, accurate at both ends."""
    return np.where(x <= LN2, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))


class Noise(ABC):
    """A continuous, log-concave law of standard scale; stateless, and without any randomness inside.

    Every function maps an array of any shape elementwise to a float64 array of that shape; NaN maps to NaN.
    Relative error while the value is a normal double: about 1e-15 for pdf, cdf, sf and for their logarithms.
    Public methods own conversion and the support. A member's `_pdf` to `_log_sf` are called at z >= `lower` only, infinities and
    NaN included, and its inverses with probabilities in [0, 1] or their logarithms, all with floating-point warnings silenced:
    what a formula gives at an end must be the limit there.
    """

    name: ClassVar[NoiseName]
    symmetric: ClassVar[bool] = False
    """The law of -Z equals the law of Z."""
    winner_price: ClassVar[WinnerPrice | None] = None
    """The theorem that prices the largest of noisy scores: "bounded_range" (C8 ii), "laplace" (C8 i and N7: the hazard rate is at
    most one) or "gaussian" (C9, C10). None: no theorem covers this law, and every mechanism refuses it."""
    smooth: ClassVar[bool] = False
    """log pdf is 1-Lipschitz on the whole line. Theorem N8 relies on it."""
    lower: ClassVar[float] = -np.inf
    """Infimum of the support."""
    rises: ClassVar[bool] = True
    """Whether draws are quantiles of uniforms, or where the upper tail is cheaper the inverse of that."""
    kinks: ClassVar[tuple[float, ...]] = ()
    """Points where the density is not smooth."""

    @final
    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @final
    def pdf(self, z: ArrayLike) -> FloatArray:
        """Density at z; 0 below the support."""
        return self._on_support(z, self._pdf, 0.0)

    @final
    def log_pdf(self, z: ArrayLike) -> FloatArray:
        """Logarithm of the density at z; -inf below the support."""
        return self._on_support(z, self._log_pdf, -np.inf)

    @final
    def cdf(self, z: ArrayLike) -> FloatArray:
        """P[Z <= z], to full relative accuracy in the lower tail."""
        return self._on_support(z, self._cdf, 0.0)

    @final
    def sf(self, z: ArrayLike) -> FloatArray:
        """P[Z > z], to full relative accuracy in the upper tail."""
        return self._on_support(z, self._sf, 1.0)

    @final
    def log_cdf(self, z: ArrayLike) -> FloatArray:
        """log P[Z <= z], to full relative accuracy in both tails."""
        return self._on_support(z, self._log_cdf, -np.inf)

    @final
    def log_sf(self, z: ArrayLike) -> FloatArray:
        """log P[Z > z], to full relative accuracy in both tails."""
        return self._on_support(z, self._log_sf, 0.0)

    @final
    def quantile(self, u: ArrayLike) -> FloatArray:
        """The z with cdf(z) = u, for u in [0, 1]; raises `InvalidNoiseArgument` outside."""
        return _inverse(self._quantile, "u", u, 0.0, 1.0)

    @final
    def isf(self, q: ArrayLike) -> FloatArray:
        """The z with sf(z) = q, for q in [0, 1]; raises `InvalidNoiseArgument` outside."""
        return _inverse(self._isf, "q", q, 0.0, 1.0)

    @final
    def log_quantile(self, log_u: ArrayLike) -> FloatArray:
        """The z with log cdf(z) = log_u, for log_u <= 0; raises `InvalidNoiseArgument` outside."""
        return _inverse(self._log_quantile, "log_u", log_u, -np.inf, 0.0)

    @final
    def log_isf(self, log_q: ArrayLike) -> FloatArray:
        """The z with log sf(z) = log_q, for log_q <= 0; raises `InvalidNoiseArgument` outside."""
        return _inverse(self._log_isf, "log_q", log_q, -np.inf, 0.0)

    @final
    def from_uniform(self, u: FloatArray) -> FloatArray:
        """Draws with the law of Z from independent uniforms u in the open interval (0, 1); u is not checked."""
        return self._quantile(u) if self.rises else self._isf(u)

    @final
    def isf_bounds(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on isf(q) for every q with low <= q <= high, for 0 <= low <= high <= 1. Theorem X1."""
        with np.errstate(all="ignore"):
            lower, upper = self._isf(high), self._isf(low)
        return lower - _ALLOWANCE * (1.0 + np.abs(lower)), upper + _ALLOWANCE * (1.0 + np.abs(upper))

    @abstractmethod
    def isf_ball(self, q: arb) -> arb:
        """A ball that contains isf(q') for every q' in (0, 1) in the ball `q`; NaN where `q` is too wide."""

    @abstractmethod
    def tail_bits(self, z: FloatArray) -> FloatArray:
        """Lower bounds on -log2 sf(z'), for every z' within 1e-5 |z| of z. Theorem X3."""

    @final
    def _on_support(self, z: ArrayLike, formula: _Formula, below: float) -> FloatArray:
        x = as_floats(z)
        # Limits at infinities and underflow to the right limit are intended, and tested.
        with np.errstate(all="ignore"):
            inside = np.asarray(formula(np.maximum(x, self.lower)))
        return inside if self.lower == -np.inf else np.where(x < self.lower, below, inside)

    @abstractmethod
    def _pdf(self, z: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _log_pdf(self, z: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _cdf(self, z: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _sf(self, z: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _log_cdf(self, z: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _log_sf(self, z: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _quantile(self, u: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _isf(self, q: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _log_quantile(self, log_u: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _log_isf(self, log_q: FloatArray) -> FloatArray: ...


class SymmetricNoise(Noise):
    """A law of Z that is that of -Z: its upper tail is its lower one."""

    symmetric: ClassVar[bool] = True

    def _sf(self, z: FloatArray) -> FloatArray:
        return self._cdf(-z)

    def _log_sf(self, z: FloatArray) -> FloatArray:
        return self._log_cdf(-z)

    def _isf(self, q: FloatArray) -> FloatArray:
        return -self._quantile(q)

    def _log_isf(self, log_q: FloatArray) -> FloatArray:
        return -self._log_quantile(log_q)


def _inverse(formula: _Formula, field: str, p: ArrayLike, low: float, high: float) -> FloatArray:
    x = as_floats(p)
    if not np.all((x >= low) & (x <= high)):
        raise InvalidNoiseArgument(
            f"{field}: every element must lie in [{low:g}, {high:g}] and none may be NaN; "
            "pass probabilities to quantile and isf, logarithms to log_quantile and log_isf"
        )
    with np.errstate(all="ignore"):
        return np.asarray(formula(x))
