"""Noise of your own for `CanonicalTopK`: distributions in ball arithmetic, and their checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self, get_args

import numpy as np
from flint import arb
from pydantic import PlainValidator, SerializeAsAny, model_validator

from accounting.frozen import Frozen
from accounting.numbers import Floats
from accounting.registry import Registry
from dpselect.errors import InvalidMechanism
from dpselect.noise import InvalidNoiseArgument, LipschitzNoise, Noise, WinnerCost
from dpselect.sampling.contest import precision

_Ball = Callable[[arb], arb]
_MOST_BITS = 1 << 14  # enough for probabilities down to exp(-11000)
_ACCURACY = 56  # bits of a function's value
_MEDIAN = arb(0.25) * (1 - arb(2) ** -64)  # with logistic noise it is 1/4
_NOTHING = arb((1, -1080))  # below the floats
_CHECKED = 512  # bits of the working precision of checks
_SLACK = arb((1, -64))  # relative, above the roundings of exact functions at that precision
_STEP, _SLOPE = arb((1, -40)), arb((1, -20))  # of a difference quotient, and its relative error
# bits of the upper tail probabilities that are checked, and of their distances from one
_TAILS = (*np.arange(1, 40, 0.25).tolist(), *range(40, 201))


class HazardNoise(Frozen, Noise, ABC):
    """Base class of noise of your own for `CanonicalTopK`, with a hazard rate of at most 1.

    A member states its distribution by three functions in ball arithmetic (python-flint's `arb`).
    All others are computed from them, slowly but rounded correctly. The author of a member proves
    that its hazard rate pdf/sf is at most 1, on which the cost rests (Theorems M5 and N7), and that
    the density is log-concave and at least 1/4 at the median, on which exact draws rest (Theorem
    M9). A member is checked when it is made, at 600 points from end to end. That catches mistakes,
    but is no proof.

    Raises:
        InvalidMechanism: the checks fail. The message names the rule and the probability.
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    winner_cost: ClassVar[WinnerCost | None] = "laplace"

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if ABC not in cls.__bases__:
            NOISES.add(cls)

    @abstractmethod
    def sf_ball(self, z: arb) -> arb:
        """Return a ball that contains P[Z > z'] for every z' >= `lower` in the ball `z`."""

    @abstractmethod
    def pdf_ball(self, z: arb) -> arb:
        """Return a ball that contains the density at every z' >= `lower` in the ball `z`."""

    @model_validator(mode="after")
    def _obeys_the_law(self) -> Self:
        with precision(_CHECKED):
            for rule in self._violations():
                raise ValueError(rule)
        return self

    def _violations(self) -> Iterator[str]:
        """Iterate over the rules that do not hold, each with the probability where it fails."""
        if self.winner_cost != "laplace":
            yield f"winner_cost={self.winner_cost!r} must be 'laplace', the cost of Theorem N7"
        if self.pdf_ball(self.isf_ball(arb(0.5))) < _MEDIAN:
            yield "pdf_ball must be at least 1/4 at the median. Use a noise of smaller scale"
        small = [arb(2) ** arb(-bits) for bits in _TAILS]
        points = []
        for q in [1 - p for p in reversed(small)] + small[1:]:
            where = f"at the upper tail probability {float(q.mid()):.3g}"
            step = q.min(1 - q) * _STEP
            z, further = self.isf_ball(q), self.isf_ball(q - step)
            if not (z.is_finite() and z.rad() < _SLACK):
                yield f"isf_ball must be finite and as fine as the working precision, {where}"
            wide = self.isf_ball(q + arb(0, 2 * step))
            if wide.is_finite() and not wide.contains(further.mid()):
                yield f"isf_ball must contain its value at every number in the ball, {where}"
            if z < self.lower:
                yield f"isf_ball must be at least lower={self.lower:g}, {where}"
            if _apart(self.sf_ball(z), q, _SLACK):
                yield f"sf_ball must be the inverse of isf_ball, {where}"
            density = self.pdf_ball(z)
            if _apart(density, step / (further - z), _SLOPE):
                yield f"pdf_ball must be the slope of sf_ball, {where}"
            points.append((where, z, q.log(), density.log()))
        slopes = []
        for (_, z, log_q, log_density), (where, z2, log_q2, log_density2) in pairwise(points):
            if log_q - log_q2 > (z2 - z) * (1 + _SLACK):
                yield f"the hazard rate pdf/sf must be at most 1, {where}"
            slopes.append((where, (log_density2 - log_density) / (z2 - z)))
        for (_, slope), (where, slope2) in pairwise(slopes):
            if slope2 > slope + _SLACK:
                yield f"the logarithm of pdf must be concave, {where}"

    def tail_bits(self, z: Floats) -> Floats:
        return np.zeros_like(z)  # the weakest bound: no draw of `CanonicalTopK` needs a better one

    def _pdf(self, z: Floats) -> Floats:
        return _evaluate(self.pdf_ball, z, {-np.inf: 0.0, np.inf: 0.0})

    def _cdf(self, z: Floats) -> Floats:
        return _evaluate(lambda x: 1 - self.sf_ball(x), z, {self.lower: 0.0, np.inf: 1.0})

    def _sf(self, z: Floats) -> Floats:
        return _evaluate(self.sf_ball, z, {self.lower: 1.0, np.inf: 0.0})

    def _log_cdf(self, z: Floats) -> Floats:
        ends = {self.lower: -np.inf, np.inf: 0.0}
        return _evaluate(lambda x: (-self.sf_ball(x)).log1p(), z, ends)

    def _quantile(self, u: Floats) -> Floats:
        return _evaluate(lambda x: self.isf_ball(1 - x), u, {0.0: self.lower, 1.0: np.inf})

    def _isf(self, q: Floats) -> Floats:
        return _evaluate(self.isf_ball, q, {0.0: np.inf, 1.0: self.lower})

    def _log_quantile(self, log_u: Floats) -> Floats:
        ends = {-np.inf: self.lower, 0.0: np.inf}
        return _evaluate(lambda x: self.isf_ball(-x.expm1()), log_u, ends)

    def _log_isf(self, log_q: Floats) -> Floats:
        ends = {-np.inf: np.inf, 0.0: self.lower}
        return _evaluate(lambda x: self.isf_ball(x.exp()), log_q, ends)


def _apart(value: arb, expected: arb, relative: arb) -> bool:
    """True unless two balls are certainly as near as this, relative to the second."""
    return not abs(value - expected) <= relative * abs(expected)


def _evaluate(formula: _Ball, x: Floats, ends: Mapping[float, float]) -> Floats:
    """Return a function of balls at floats, elementwise, with its limits at some ends."""

    def value_at(value: float) -> float:
        if value in ends or value != value:
            return ends.get(value, value)
        bits = 2 * _ACCURACY
        while bits <= _MOST_BITS:
            with precision(bits):
                ball = formula(arb(value))
                if ball.is_finite() and (
                    ball.rel_accuracy_bits() >= _ACCURACY or ball.rad() < _NOTHING
                ):
                    return float(ball.mid())
            bits *= 2
        raise InvalidNoiseArgument(
            f"the noise's balls are too wide at {_MOST_BITS} bits. State functions whose balls"
            " shrink as Arb's precision grows"
        )

    return np.asarray(np.frompyfunc(value_at, 1, 1)(x), dtype=np.float64)


NOISES: Registry[HazardNoise] = Registry("noise", "dpselect.noises", InvalidMechanism)


def _read(data: Any) -> Any:
    if isinstance(data, HazardNoise) or data in get_args(LipschitzNoise):
        return data
    if isinstance(data, Mapping):  # from decoded JSON
        return NOISES.build(data)
    raise ValueError("one of these names, or a HazardNoise")


AnyLipschitzNoise = Annotated[LipschitzNoise | SerializeAsAny[HazardNoise], PlainValidator(_read)]
