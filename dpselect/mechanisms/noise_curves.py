"""What the largest of noisy scores costs, for every noise. Theorems C8 and C9."""

from __future__ import annotations

import math
from fractions import Fraction

from accounting import BoundedRange, Curve, GaussianDP, GaussianMax, PureDP, tighter
from dpselect.errors import InvalidMechanism
from dpselect.noise import NoiseName, by_name
from dpselect.sensitivity import Sensitivity


def ratio_up(numerator: float, denominator: float) -> float:
    """numerator / denominator as the least float that is not below it."""
    quotient = numerator / denominator
    return quotient if Fraction(quotient) * Fraction(denominator) >= Fraction(numerator) else math.nextafter(quotient, math.inf)


def best_one(noise: NoiseName, scale: float, sensitivity: Sensitivity, candidates: int | None) -> Curve:
    """The index of the largest of scores + scale * noise."""
    if noise == "gaussian":
        union = [] if candidates is None else [GaussianMax(mu=ratio_up(sensitivity.range, scale), candidates=candidates)]
        return tighter(*union, *_projections(scale, sensitivity, candidates))
    epsilon = ratio_up(sensitivity.range, scale)
    return BoundedRange(epsilon=epsilon) if noise == "gumbel" else PureDP(epsilon=epsilon)


def best_set(noise: NoiseName, scale: float, sensitivity: Sensitivity, candidates: int | None, k: int) -> Curve:
    """The k largest of scores + scale * noise drawn once: with their order for gumbel, as a set otherwise."""
    if noise == "gaussian":
        return tighter(*_projections(scale, sensitivity, candidates))
    if noise == "gumbel":
        return k * best_one(noise, scale, sensitivity, candidates)
    times = k
    if by_name(noise).symmetric and candidates is not None:
        # With symmetric noise the set left out is the top set of the negated scores.
        times = min(k, max(candidates - k, 0))
    return PureDP(epsilon=ratio_up(times * sensitivity.range, scale))


def require_gaussian_width(noise: NoiseName, sensitivity: Sensitivity, candidates: int | None) -> None:
    """Refuse Gaussian noise whose cost nothing bounds.

    Raises:
        InvalidMechanism: neither the number of candidates nor the number of scores a user can change is stated.
    """
    if noise == "gaussian" and candidates is None and sensitivity.l0 is None:
        raise InvalidMechanism(
            "noise='gaussian' needs candidates= (the public number of candidates) or a sensitivity with l0=: without one of them "
            "nothing bounds how far a user moves the scores in l2"
        )


def _projections(scale: float, sensitivity: Sensitivity, candidates: int | None) -> list[Curve]:
    """The Gaussian mechanism on the scores without their mean, which rankings do not see."""
    squares = []
    if candidates is not None:
        squares.append(sensitivity.range**2 * candidates / 4)
    if sensitivity.l0 is not None:
        squares.append(sensitivity.linf**2 * _changed(sensitivity, sensitivity.l0, candidates))
    return [GaussianDP(mu=ratio_up(math.nextafter(math.sqrt(square), math.inf), scale)) for square in squares]


def _changed(sensitivity: Sensitivity, l0: int, candidates: int | None) -> float:
    if not sensitivity.monotone:
        return l0
    if candidates is None:
        return l0
    most = min(l0, candidates)
    half = candidates // 2
    return most * (1 - most / candidates) if most <= half else half * (1 - half / candidates)
