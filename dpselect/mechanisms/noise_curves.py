"""Cost of releasing noisy scores, for every noise that declares its theorem.

Theorems C8, C9, C10, H2, H10, M2, N7 and N8.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import cast, get_args

from accounting import BoundedRange, Curve, GaussianDP, LaplaceDP, tighter
from accounting.curves import GaussianMax
from dpselect.errors import InvalidMechanism
from dpselect.noise import (
    VECTOR_NORMS,
    LipschitzNoise,
    Noise,
    NoiseName,
    VectorNoise,
    WinnerCost,
    in_words,
    noise_of,
)
from dpselect.sensitivity import Sensitivity, fraction_up, sqrt_up


def ratio_up(numerator: float, denominator: float) -> float:
    """Return numerator / denominator as the least float that is not below it."""
    # a product of epsilon that is below the floats
    quotient = numerator / denominator if denominator else math.inf
    if not math.isfinite(quotient) or math.isinf(denominator):
        raise InvalidMechanism(
            f"{numerator:g} / {denominator:g} is beyond the floats, but the cost or the noise"
            f" must be finite. If {denominator:g} is a scale, use more noise. If it is an"
            " epsilon, raise it"
        )
    return (
        quotient
        if Fraction(quotient) * Fraction(denominator) >= Fraction(numerator)
        else math.nextafter(quotient, math.inf)
    )


def rate_down(epsilon: float, span: float) -> float:
    """Return epsilon / span, in nats per unit, as the greatest float that is not above it.

    `span` is the largest change of the quantity that the rate multiplies.
    """
    quotient = min(epsilon / span, sys.float_info.max)
    fits = math.isfinite(span) and Fraction(quotient) * Fraction(span) <= Fraction(epsilon)
    rate = quotient if fits else math.nextafter(quotient, 0.0)
    if rate == 0.0:
        raise InvalidMechanism(
            f"epsilon={epsilon} divided by a range of {span:g} is below the least float. Raise it"
        )
    return rate


def winner_curve(
    noise: NoiseName, scale: float, sensitivity: Sensitivity, candidates: int | None
) -> Curve:
    """Cost of the index of the largest of scores + scale * noise.

    The noise itself declares the theorem, and there is no default.
    """
    cost = noise_of(noise).winner_cost
    if cost is None or cost not in get_args(WinnerCost):
        raise InvalidMechanism(
            f"noise={noise!r} declares no winner_cost, so no theorem states the cost of the"
            " largest score with it. Prove one and declare it in the noise's class, or use"
            " another noise"
        )
    if cost == "gaussian":
        union = (
            []
            if candidates is None
            else [GaussianMax(mu=ratio_up(sensitivity.range, scale), candidates=candidates)]
        )
        return tighter(*union, centered_gaussian(scale, sensitivity, candidates))
    return epsilon_curve(cast(LipschitzNoise, noise), ratio_up(sensitivity.range, scale))


def epsilon_curve(noise: LipschitzNoise | Noise, epsilon: float) -> BoundedRange | LaplaceDP:
    """Cost of the index of the largest score, with noise of scale range / epsilon.

    Theorems C8 and N7.
    """
    return (
        BoundedRange(epsilon=epsilon)
        if noise_of(noise).winner_cost == "bounded_range"
        else LaplaceDP(epsilon=epsilon)
    )


def vector(
    noise: NoiseName, scale: float, sensitivity: Sensitivity, candidates: int | None
) -> Curve:
    """Cost of noise on all scores, or of fresh noise on `candidates` of them.

    Values and order are included. Theorems H2, H3 and H10.
    """
    norm = VECTOR_NORMS.get(noise)
    if norm is None:
        raise InvalidMechanism(
            f"noise={noise!r} cannot show the values it was added to. Use {in_words(VectorNoise)}"
            " noise"
        )
    shift = sensitivity.l2_of(candidates) if norm == "l2" else sensitivity.l1_of(candidates)
    if shift == math.inf:
        raise InvalidMechanism(
            f"nothing bounds one user's change of the scores in {norm}, on which the cost of"
            f" noise={noise!r} depends. State {norm}= or l0= in the sensitivity, or"
            " candidates="
        )
    return (
        GaussianDP(mu=ratio_up(shift, scale))
        if norm == "l2"
        else _laplace_vector(shift, scale, sensitivity, candidates)
    )


def shared_vector(
    noise: NoiseName, scale: float, sensitivity: Sensitivity, candidates: int | None
) -> Curve:
    """Cost of a noisy vector for a group that two users share. Theorem W8.

    It is `vector` of the change by both users together, or twice that of one user among
    `candidates` scores.
    """
    norm, each = (
        (sensitivity.l2_of, 2.0**0.5)
        if VECTOR_NORMS.get(noise) == "l2"
        else (sensitivity.l1_of, 2.0)
    )
    is_shared = norm(None) < each * norm(candidates)
    return (
        vector(noise, scale, sensitivity, None)
        if is_shared
        else 2 * vector(noise, scale, sensitivity, candidates)
    )


def _laplace_vector(
    l1: float, scale: float, sensitivity: Sensitivity, candidates: int | None
) -> Curve:
    """Cost of Laplace noise on a vector whose change has at most this l1 norm. Theorem H10.

    The worst change moves as many scores by linf as the norm allows, and one more by the remainder.
    """
    whole, rest = divmod(Fraction(l1), Fraction(sensitivity.linf))
    numbers = [number for number in (candidates, sensitivity.l0) if number is not None]
    if numbers and whole >= min(numbers):  # what is left then is a rounding of l1
        whole, rest = min(numbers), Fraction(0)
    parts: list[Curve] = (
        [int(whole) * LaplaceDP(epsilon=ratio_up(sensitivity.linf, scale))] if whole else []
    )
    parts += [LaplaceDP(epsilon=ratio_up(fraction_up(rest), scale))] if rest else []
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def centered_gaussian(scale: float, sensitivity: Sensitivity, candidates: int | None) -> GaussianDP:
    """Cost of any function of the ranking of scores + scale * N(0, 1). Theorem C9.

    The shift is that of the score vector, with or without its mean.
    """
    squares: list[Fraction] = []
    if candidates is not None:
        squares.append(Fraction(sensitivity.range) ** 2 * candidates / 4)
    if sensitivity.l0 is not None:
        size = Fraction(l0 := sensitivity.l0)
        if sensitivity.monotone and candidates is not None:
            raised = min(l0, candidates // 2)
            size = raised * (1 - Fraction(raised, candidates))
        squares.append(Fraction(sensitivity.linf) ** 2 * size)
    # Rationals: squares of small floats underflow, and a shift of 0 would be charged nothing.
    shifts = [sensitivity.l2_of(candidates), *map(sqrt_up, squares)]
    return GaussianDP(mu=ratio_up(min(shifts), scale))
