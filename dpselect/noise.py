"""The noise distributions of report-noisy-max, without randomness.

Samplers, mechanisms and the exact reference computations use them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any, ClassVar, Final, Literal, final, get_args

import numpy as np
import scipy
from flint import arb
from numpy.typing import ArrayLike

from accounting.numbers import Floats
from dpselect.errors import DpSelectError
from dpselect.sensitivity import Norm

LN2 = float(np.log(2.0))
NATS_TO_BITS = 1.4426  # 1/ln 2 rounded down by 7e-5 of itself, which leaves room for rounding
WinnerCost = Literal["bounded_range", "laplace", "gaussian"]
ThresholdCost = Literal["laplace", "exponential", "gaussian"]
_Formula = Callable[[Floats], Floats]
# of 1 + |z|: thousands of times the error that the inverses below are documented to have
_ALLOWANCE = 2.0**-40


class NoiseError(DpSelectError):
    """Base of the errors raised by `dpselect.noise`; no message prints an argument's data."""


class InvalidNoiseArgument(NoiseError):
    """An argument of a distribution or of the quadrature outside its stated domain."""


class QuadratureError(NoiseError):
    """A quadrature whose successive refinements did not agree to the promised accuracy."""


def log1mexp(x: Floats) -> Floats:
    """Return log(1 - exp(-x)) for x >= 0, accurate at both ends."""
    return np.where(x <= LN2, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))


def widen(low: Floats, high: Floats, share: float) -> tuple[Floats, Floats]:
    """Return bounds moved apart, each by a share of 1 + its size."""
    return low - share * (1.0 + np.abs(low)), high + share * (1.0 + np.abs(high))


_CLASSES: Final[dict[str, type[Noise]]] = {}


class Noise(ABC):
    """A continuous, log-concave distribution of standard scale, without any randomness inside.

    It is stateless. Every function maps an array of any shape elementwise to a float64 array of
    that shape; NaN maps to NaN. The relative error while the value is a normal double is about
    1e-15 for pdf, cdf, sf and their logarithms. Public methods own conversion and the support. A
    member's `_pdf` to `_log_cdf` are called at z >= `lower` only, infinities and NaN included, and
    its inverses with probabilities in [0, 1] or their logarithms, all with floating-point warnings
    silenced. The value of a formula at an end must therefore be the limit there.

    A class with a `name` in this module is all that a noise needs. Mechanisms offer it if it
    declares the theorem that they rely on.
    """

    name: ClassVar[str]
    variance: ClassVar[float]
    symmetric: ClassVar[bool] = False
    """True if -Z has the distribution of Z."""
    winner_cost: ClassVar[WinnerCost | None] = None
    """The theorem for the cost of the largest of noisy scores.

    "bounded_range" (C8 ii), "laplace" (C8 i and N7: the hazard rate is at most one) or "gaussian"
    (C9, C10). None if no theorem covers this distribution, so that every mechanism refuses it.
    """
    vector_norm: ClassVar[Norm | None] = None
    """The norm of one user's change that decides the cost of all noisy scores, shown as they are.

    "l2" (H2, for Gaussian noise) or "l1" (H3 and H10, for Laplace noise). None if no theorem covers
    this distribution, so that no mechanism shows values with this noise.
    """
    threshold_cost: ClassVar[ThresholdCost | None] = None
    """The theorem for the cost of comparisons with one noisy threshold, as in `AboveThreshold`.

    "laplace" (V1, V8 and V10), "exponential" (V9) or "gaussian" (V2). None if no theorem covers
    this distribution, so that `AboveThreshold` refuses it.
    """
    smooth: ClassVar[bool] = False
    """True if log pdf is 1-Lipschitz on the whole line. Theorem N8 relies on it."""
    lower: ClassVar[float] = -np.inf
    """Infimum of the support."""
    rises: ClassVar[bool] = True
    """True if draws are quantiles of uniforms; False if they invert the cheaper upper tail."""
    kinks: ClassVar[tuple[float, ...]] = ()
    """Points where the density is not smooth."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            if cls.name in _CLASSES:
                raise TypeError(f"{cls.__name__}: a noise is called {cls.name!r} already")
            _CLASSES[cls.name] = cls

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @final
    def pdf(self, z: ArrayLike) -> Floats:
        """Return the density at z; 0 below the support."""
        return self._on_support(z, self._pdf, 0.0)

    @final
    def cdf(self, z: ArrayLike) -> Floats:
        """Return P[Z <= z], to full relative accuracy in the lower tail."""
        return self._on_support(z, self._cdf, 0.0)

    @final
    def sf(self, z: ArrayLike) -> Floats:
        """Return P[Z > z], to full relative accuracy in the upper tail."""
        return self._on_support(z, self._sf, 1.0)

    @final
    def log_cdf(self, z: ArrayLike) -> Floats:
        """Return log P[Z <= z], to full relative accuracy in both tails."""
        return self._on_support(z, self._log_cdf, -np.inf)

    @final
    def quantile(self, u: ArrayLike) -> Floats:
        """Return the z with cdf(z) = u, for u in [0, 1]; raises `InvalidNoiseArgument` outside."""
        return _inverse(self._quantile, "u", u, 0.0, 1.0)

    @final
    def isf(self, q: ArrayLike) -> Floats:
        """Return the z with sf(z) = q, for q in [0, 1]; raises `InvalidNoiseArgument` outside."""
        return _inverse(self._isf, "q", q, 0.0, 1.0)

    @final
    def log_quantile(self, log_u: ArrayLike) -> Floats:
        """Return the z with log cdf(z) = log_u, for log_u <= 0.

        Raises `InvalidNoiseArgument` outside.
        """
        return _inverse(self._log_quantile, "log_u", log_u, -np.inf, 0.0)

    @final
    def log_isf(self, log_q: ArrayLike) -> Floats:
        """Return the z with log sf(z) = log_q, for log_q <= 0.

        Raises `InvalidNoiseArgument` outside.
        """
        return _inverse(self._log_isf, "log_q", log_q, -np.inf, 0.0)

    @final
    def from_uniform(self, u: Floats) -> Floats:
        """Return draws of Z from independent uniforms u in the open interval (0, 1).

        u is not checked.
        """
        return self._quantile(u) if self.rises else self._isf(u)

    @final
    def isf_bounds(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return bounds on isf(q) for every q with low <= q <= high, for 0 <= low <= high <= 1.

        Theorem X1.
        """
        with np.errstate(all="ignore"):
            lower, upper = self._isf(high), self._isf(low)
        return widen(lower, upper, _ALLOWANCE)

    @abstractmethod
    def isf_ball(self, q: arb) -> arb:
        """Return a ball that contains isf(q') for every q' in (0, 1) in the ball `q`.

        NaN if `q` is too wide.
        """

    @abstractmethod
    def tail_bits(self, z: Floats) -> Floats:
        """Return lower bounds on -log2 sf(z'), for every z' within 1e-5 |z| of z. Theorem X3."""

    @final
    def _on_support(self, z: ArrayLike, formula: _Formula, below: float) -> Floats:
        x = np.asarray(z, dtype=np.float64)
        # Limits at infinities and underflow to the right limit are intended, and tested.
        with np.errstate(all="ignore"):
            inside = np.asarray(formula(np.maximum(x, self.lower)))
        return inside if self.lower == -np.inf else np.where(x < self.lower, below, inside)

    @abstractmethod
    def _pdf(self, z: Floats) -> Floats: ...

    @abstractmethod
    def _cdf(self, z: Floats) -> Floats: ...

    @abstractmethod
    def _sf(self, z: Floats) -> Floats: ...

    @abstractmethod
    def _log_cdf(self, z: Floats) -> Floats: ...

    @abstractmethod
    def _quantile(self, u: Floats) -> Floats: ...

    @abstractmethod
    def _isf(self, q: Floats) -> Floats: ...

    @abstractmethod
    def _log_quantile(self, log_u: Floats) -> Floats: ...

    @abstractmethod
    def _log_isf(self, log_q: Floats) -> Floats: ...


class SymmetricNoise(Noise):
    """Base class of distributions that are symmetric around 0, with equal tails on both sides."""

    symmetric: ClassVar[bool] = True

    def _sf(self, z: Floats) -> Floats:
        return self._cdf(-z)

    def _isf(self, q: Floats) -> Floats:
        return -self._quantile(q)

    def _log_isf(self, log_q: Floats) -> Floats:
        return -self._log_quantile(log_q)


def _inverse(formula: _Formula, field: str, p: ArrayLike, low: float, high: float) -> Floats:
    x = np.asarray(p, dtype=np.float64)
    if not np.all((x >= low) & (x <= high)):
        raise InvalidNoiseArgument(
            f"{field}: every element must lie in [{low:g}, {high:g}] and none may be NaN; "
            "pass probabilities to quantile and isf, logarithms to log_quantile and log_isf"
        )
    with np.errstate(all="ignore"):
        return np.asarray(formula(x))


_FAR = 700.0  # exp(-700) is a normal double, and far below an ulp of one
_NULL = -40.0  # from -6.7 down the cdf is zero in doubles
# table spacing 1/32: a remainder of at most 1/64 costs under one ulp in `_exp_minus_exp`
_STEPS = 32
_HIGHEST = 6.75  # exp(-exp(6.75)) is below the smallest subnormal


@final
class Gumbel(Noise):
    """Gumbel distribution, with cdf exp(-exp(-z)) on the real line."""

    name: ClassVar[str] = "gumbel"
    variance: ClassVar[float] = math.pi**2 / 6
    winner_cost: ClassVar[WinnerCost | None] = "bounded_range"

    def isf_ball(self, q: arb) -> arb:
        return -(-(-q).log1p()).log()

    def tail_bits(self, z: Floats) -> Floats:
        return NATS_TO_BITS * z

    def _pdf(self, z: Floats) -> Floats:
        return np.exp(-np.maximum(z, _NULL)) * _exp_minus_exp(-z)

    def _cdf(self, z: Floats) -> Floats:
        return _exp_minus_exp(-z)

    def _sf(self, z: Floats) -> Floats:
        return -np.expm1(-np.exp(-z))

    def _log_cdf(self, z: Floats) -> Floats:
        return -np.exp(-z)

    def _quantile(self, u: Floats) -> Floats:
        z = np.asarray(np.log(u))
        for step in (np.negative, np.log, np.negative):
            step(z, out=z)  # new arrays would take three times as long
        return z

    def _isf(self, q: Floats) -> Floats:
        return -np.log(-np.log1p(-q))

    def _log_quantile(self, log_u: Floats) -> Floats:
        return -np.log(-log_u)

    def _log_isf(self, log_q: Floats) -> Floats:
        q = np.exp(np.maximum(log_q, -_FAR))
        upper = -log_q - np.log(-np.log1p(-q) / q)
        return np.where(log_q <= -LN2, upper, -np.log(-np.log(-np.expm1(log_q))))


def _exponential_table() -> tuple[Floats, Floats]:
    """Return exp(k / 32) as unevaluated sums of two doubles."""
    with localcontext() as context:
        context.prec = 50
        exact = [(Decimal(k) / _STEPS).exp() for k in range(int(_HIGHEST * _STEPS) + 2)]
        high = [float(value) for value in exact]
        low = [float(value - Decimal(top)) for value, top in zip(exact, high, strict=True)]
    return np.array(high), np.array(low)


_EXP_HIGH, _EXP_LOW = _exponential_table()


def _exp_minus_exp(y: Floats) -> Floats:
    """Return exp(-exp(y)) accurately.

    Done naively, its relative error reaches exp(y) ulp, 1e-13 before it underflows.
    """
    near = np.exp(-np.exp(np.minimum(y, 0.0)))
    # From 0 to 6.75 exp(y) is carried in twice the working precision.
    large = np.clip(y, 0.0, _HIGHEST)
    k = np.rint(np.nan_to_num(large) * _STEPS)
    cell = k.astype(np.intp)
    high = _EXP_HIGH[cell]
    rest = _EXP_LOW[cell] + high * np.expm1(large - k / _STEPS)
    return np.where(y <= 0.0, near, np.exp(-high) * np.exp(-rest))


@final
class Exponential(Noise):
    """Exponential distribution, with sf exp(-z) for z >= 0."""

    name: ClassVar[str] = "exponential"
    variance: ClassVar[float] = 1.0
    winner_cost: ClassVar[WinnerCost | None] = "laplace"
    threshold_cost: ClassVar[ThresholdCost | None] = "exponential"
    lower: ClassVar[float] = 0.0
    rises: ClassVar[bool] = False
    kinks: ClassVar[tuple[float, ...]] = (0.0,)

    def isf_ball(self, q: arb) -> arb:
        return -q.log()

    def tail_bits(self, z: Floats) -> Floats:
        return NATS_TO_BITS * z

    def _pdf(self, z: Floats) -> Floats:
        return np.exp(-z)

    def _cdf(self, z: Floats) -> Floats:
        return -np.expm1(-z)

    def _sf(self, z: Floats) -> Floats:
        return np.exp(-z)

    def _log_cdf(self, z: Floats) -> Floats:
        return log1mexp(z)

    def _quantile(self, u: Floats) -> Floats:
        return -np.log1p(-u)

    def _isf(self, q: Floats) -> Floats:
        return -np.log(q)

    def _log_quantile(self, log_u: Floats) -> Floats:
        return np.where(log_u <= -LN2, -np.log1p(-np.exp(log_u)), -np.log(-np.expm1(log_u)))

    def _log_isf(self, log_q: Floats) -> Floats:
        return -log_q


@final
class Laplace(SymmetricNoise):
    """Laplace distribution, with density exp(-|z|) / 2 on the real line."""

    name: ClassVar[str] = "laplace"
    variance: ClassVar[float] = 2.0
    winner_cost: ClassVar[WinnerCost | None] = "laplace"
    threshold_cost: ClassVar[ThresholdCost | None] = "laplace"
    vector_norm: ClassVar[Norm | None] = "l1"
    smooth: ClassVar[bool] = True
    kinks: ClassVar[tuple[float, ...]] = (0.0,)

    def isf_ball(self, q: arb) -> arb:
        return -(2 * q).log() if q.mid() < 0.5 else (2 * (1 - q)).log()

    def tail_bits(self, z: Floats) -> Floats:
        return np.where(z >= 0.0, 1.0 + NATS_TO_BITS * z, 0.0)

    def _pdf(self, z: Floats) -> Floats:
        return 0.5 * np.exp(-np.abs(z))

    def _cdf(self, z: Floats) -> Floats:
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0.0, tail, 1.0 - tail)

    def _log_cdf(self, z: Floats) -> Floats:
        return np.where(z < 0.0, z - LN2, np.log1p(-0.5 * np.exp(-np.abs(z))))

    def _quantile(self, u: Floats) -> Floats:
        return np.copysign(np.log(2.0 * np.minimum(u, 1.0 - u)), u - 0.5)

    def _log_quantile(self, log_u: Floats) -> Floats:
        return np.where(log_u < -LN2, log_u + LN2, -np.log(-2.0 * np.expm1(log_u)))


@final
class Logistic(SymmetricNoise):
    """Logistic distribution, with cdf 1 / (1 + exp(-z)) on the real line."""

    name: ClassVar[str] = "logistic"
    variance: ClassVar[float] = math.pi**2 / 3
    winner_cost: ClassVar[WinnerCost | None] = "laplace"
    smooth: ClassVar[bool] = True

    def isf_ball(self, q: arb) -> arb:
        return (1 / q - 1).log()

    def tail_bits(self, z: Floats) -> Floats:
        return NATS_TO_BITS * z

    def _pdf(self, z: Floats) -> Floats:
        odds = np.exp(-np.abs(z))
        return odds / np.square(1.0 + odds)

    def _cdf(self, z: Floats) -> Floats:
        odds = np.exp(-np.abs(z))
        return np.where(z < 0.0, odds, 1.0) / (1.0 + odds)

    def _log_cdf(self, z: Floats) -> Floats:
        return np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))

    def _quantile(self, u: Floats) -> Floats:
        return np.asarray(scipy.special.logit(u))

    def _log_quantile(self, log_u: Floats) -> Floats:
        return log_u - log1mexp(-log_u)


@final
class HalfLogistic(Noise):
    """Half-logistic distribution, with sf 2 / (1 + exp(z)) for z >= 0.

    Its hazard rate is 1 / (1 + exp(-z)).
    """

    name: ClassVar[str] = "half_logistic"
    variance: ClassVar[float] = math.pi**2 / 3 - (2 * LN2) ** 2
    winner_cost: ClassVar[WinnerCost | None] = "laplace"
    lower: ClassVar[float] = 0.0
    kinks: ClassVar[tuple[float, ...]] = (0.0,)

    def isf_ball(self, q: arb) -> arb:
        return (2 / q - 1).log()

    def tail_bits(self, z: Floats) -> Floats:
        return NATS_TO_BITS * z - 1.0

    def _pdf(self, z: Floats) -> Floats:
        odds = np.exp(-z)
        return 2.0 * odds / np.square(1.0 + odds)

    def _cdf(self, z: Floats) -> Floats:
        return np.tanh(0.5 * z)

    def _sf(self, z: Floats) -> Floats:
        odds = np.exp(-z)
        return 2.0 * odds / (1.0 + odds)

    def _log_cdf(self, z: Floats) -> Floats:
        below = np.tanh(0.5 * z)
        return np.where(below <= 0.5, np.log(below), np.log1p(-self._sf(z)))

    def _quantile(self, u: Floats) -> Floats:
        return 2.0 * np.arctanh(u)

    def _isf(self, q: Floats) -> Floats:
        return np.where(q <= 0.5, np.log(2.0 - q) - np.log(q), 2.0 * np.arctanh(1.0 - q))

    def _log_quantile(self, log_u: Floats) -> Floats:
        return np.where(log_u <= -LN2, 2.0 * np.arctanh(np.exp(log_u)), self._isf(-np.expm1(log_u)))

    def _log_isf(self, log_q: Floats) -> Floats:
        upper = np.log(2.0 - np.exp(log_q)) - log_q
        return np.where(log_q <= -LN2, upper, 2.0 * np.arctanh(-np.expm1(log_q)))


_INVERSE_ROOT_2PI = 1.0 / float(np.sqrt(2.0 * np.pi))
_ROOT_HALF = float(np.sqrt(0.5))
_FAR_BELOW = -100.0
_SPLIT = 16.0
_HIGHEST_NORMAL = 40.0  # exp(-40**2 / 2) is below the smallest subnormal


@final
class Gaussian(SymmetricNoise):
    """Standard normal distribution, whose hazard rate is unbounded, so that it is not Lipschitz."""

    name: ClassVar[str] = "gaussian"
    variance: ClassVar[float] = 1.0
    winner_cost: ClassVar[WinnerCost | None] = "gaussian"
    threshold_cost: ClassVar[ThresholdCost | None] = "gaussian"
    vector_norm: ClassVar[Norm | None] = "l2"

    def isf_ball(self, q: arb) -> arb:
        return arb(2).sqrt() * (2 * q).erfcinv()

    def tail_bits(self, z: Floats) -> Floats:
        return np.where(z >= 0.0, 1.0 + 0.5 * NATS_TO_BITS * np.square(z), 0.0)

    def _pdf(self, z: Floats) -> Floats:
        return _INVERSE_ROOT_2PI * _exp_half_square(np.abs(z))

    def _cdf(self, z: Floats) -> Floats:
        tail = _tail(np.abs(z))
        return np.where(z < 0.0, tail, 1.0 - tail)

    def _log_cdf(self, z: Floats) -> Floats:
        size = np.abs(z)
        lower = np.log(0.5 * scipy.special.erfcx(size * _ROOT_HALF)) - 0.5 * np.square(size)
        return np.where(z < 0.0, lower, np.log1p(-_tail(size)))

    def _quantile(self, u: Floats) -> Floats:
        return np.asarray(scipy.special.ndtri(u))

    def _log_quantile(self, log_u: Floats) -> Floats:
        """Return ndtri_exp, polished by one Newton step far below.

        ndtri_exp errs by 5e-13 of its value around log_u = -1e6.
        """
        z = np.asarray(scipy.special.ndtri_exp(log_u))
        inverse_hazard = np.sqrt(np.pi / 2.0) * scipy.special.erfcx(np.abs(z) * _ROOT_HALF)
        polished = z - (self._log_cdf(z) - log_u) * inverse_hazard
        return np.where((log_u < _FAR_BELOW) & np.isfinite(polished), polished, z)


def _exp_half_square(a: Floats) -> Floats:
    """Return exp(-a**2 / 2) for a >= 0.

    Splitting a keeps the rounding of a**2 from being amplified by its size.
    """
    a = np.minimum(a, _HIGHEST_NORMAL)
    coarse = np.rint(a * _SPLIT) / _SPLIT
    return np.exp(-0.5 * coarse * coarse) * np.exp(-0.5 * (a - coarse) * (a + coarse))


def _tail(size: Floats) -> Floats:
    """Return P[Z > size] for size >= 0, without ndtr's rounding of size**2 in the exponent."""
    return np.asarray(0.5 * scipy.special.erfcx(size * _ROOT_HALF) * _exp_half_square(size))


_MEMBERS: Final[dict[str, Noise]] = {name: member() for name, member in _CLASSES.items()}
VECTOR_NORMS: Final[dict[str, Norm]] = {
    name: norm for name, noise in _MEMBERS.items() if (norm := noise.vector_norm) is not None
}

# The names that mechanisms take, by the theorem that they rely on. A test compares each list with
# the classes above.
NoiseName = Literal["gumbel", "exponential", "laplace", "logistic", "half_logistic", "gaussian"]
LipschitzNoise = Literal["gumbel", "exponential", "laplace", "logistic", "half_logistic"]
VectorNoise = Literal["laplace", "gaussian"]
ThresholdNoise = Literal["exponential", "laplace", "gaussian"]
GapNoise = Literal["gumbel", "gaussian"]


def noise_of(name: NoiseName | Noise) -> Noise:
    """Return the distribution of that name; raises `InvalidNoiseArgument` for any other string.

    A distribution is returned as it is.
    """
    if isinstance(name, Noise):
        return name
    if name not in _MEMBERS:
        names = ", ".join(_MEMBERS)
        raise InvalidNoiseArgument(f"noise: {name!r} names no distribution. Choose one of {names}")
    return _MEMBERS[name]


def in_words(names: Any) -> str:
    """Return the names that one of the types of names allows, for the description of a field."""
    *first, last = get_args(names)
    return f"{', '.join(first)} or {last}"
