"""What noisy scores cost, for every noise that declares by which theorem. Theorems C8, C9, C10, H2,
H10, M2, N7 and N8.
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
    NoiseName,
    VectorNoise,
    WinnerPrice,
    by_name,
    in_words,
)
from dpselect.sensitivity import Sensitivity, fraction_up, sqrt_up


def ratio_up(numerator: float, denominator: float) -> float:
    """numerator / denominator as the least float that is not below it."""
    # a product of epsilon that is below the floats
    quotient = numerator / denominator if denominator else math.inf
    if not math.isfinite(quotient) or math.isinf(denominator):
        raise InvalidMechanism(
            f"{numerator:g} over {denominator:g} is beyond the floats, and the cost or the noise"
            " must be finite: where the latter is a scale use more noise, where it is an epsilon"
            " raise it"
        )
    return (
        quotient
        if Fraction(quotient) * Fraction(denominator) >= Fraction(numerator)
        else math.nextafter(quotient, math.inf)
    )


def rate_down(epsilon: float, span: float) -> float:
    """epsilon / span, nats per unit of what changes by `span`, as the greatest float that is not
    above it.
    """
    quotient = min(epsilon / span, sys.float_info.max)
    fits = math.isfinite(span) and Fraction(quotient) * Fraction(span) <= Fraction(epsilon)
    rate = quotient if fits else math.nextafter(quotient, 0.0)
    if rate == 0.0:
        raise InvalidMechanism(
            f"epsilon={epsilon} beside a range of {span:g} is below the least float: raise it"
        )
    return rate


def winner_curve(
    noise: NoiseName, scale: float, sensitivity: Sensitivity, candidates: int | None
) -> Curve:
    """The index of the largest of scores + scale * noise, by the theorem that the noise itself
    declares, without a default.
    """
    price = by_name(noise).winner_price
    if price is None or price not in get_args(WinnerPrice):
        raise InvalidMechanism(
            f"noise={noise!r} declares no winner_price, so no theorem says what the largest of"
            " scores with it costs: prove one and declare it in the noise's class, or use another"
            " noise"
        )
    if price == "gaussian":
        union = (
            []
            if candidates is None
            else [GaussianMax(mu=ratio_up(sensitivity.range, scale), candidates=candidates)]
        )
        return tighter(*union, centered_gaussian(scale, sensitivity, candidates))
    return epsilon_curve(cast(LipschitzNoise, noise), ratio_up(sensitivity.range, scale))


def epsilon_curve(noise: LipschitzNoise, epsilon: float) -> BoundedRange | LaplaceDP:
    """The largest of scores with noise of scale range / epsilon. Theorems C8 and N7."""
    return (
        BoundedRange(epsilon=epsilon)
        if by_name(noise).winner_price == "bounded_range"
        else LaplaceDP(epsilon=epsilon)
    )


def vector(
    noise: NoiseName, scale: float, sensitivity: Sensitivity, candidates: int | None
) -> Curve:
    """Noise on all scores, or fresh noise on `candidates` of them: values and order included.
    Theorems H2, H3 and H10.
    """
    norm = VECTOR_NORMS.get(noise)
    if norm is None:
        raise InvalidMechanism(
            f"noise={noise!r} cannot show the values it was added to: use {in_words(VectorNoise)}"
            " noise"
        )
    shift = sensitivity.l2_of(candidates) if norm == "l2" else sensitivity.l1_of(candidates)
    if shift == math.inf:
        raise InvalidMechanism(
            f"nothing bounds how far a user moves the scores in {norm}, which noise={noise!r} pays"
            f" for: state {norm}= or l0= in the sensitivity, or candidates="
        )
    return (
        GaussianDP(mu=ratio_up(shift, scale))
        if norm == "l2"
        else _laplace_vector(shift, scale, sensitivity, candidates)
    )


def shared_vector(
    noise: NoiseName, scale: float, sensitivity: Sensitivity, candidates: int | None
) -> Curve:
    """`vector` of a group that two users share: what both change in all, or what each may of these
    scores. Theorem W8.
    """
    norm, each = (
        (sensitivity.l2_of, 2.0**0.5)
        if VECTOR_NORMS.get(noise) == "l2"
        else (sensitivity.l1_of, 2.0)
    )
    together = norm(None) < each * norm(candidates)
    return (
        vector(noise, scale, sensitivity, None)
        if together
        else 2 * vector(noise, scale, sensitivity, candidates)
    )


def _laplace_vector(
    l1: float, scale: float, sensitivity: Sensitivity, candidates: int | None
) -> Curve:
    """As many scores as the l1 norm lets move by linf, and one that moves by what is left of it.
    Theorem H10.
    """
    whole, rest = divmod(Fraction(l1), Fraction(sensitivity.linf))
    moved = [number for number in (candidates, sensitivity.l0) if number is not None]
    if moved and whole >= min(moved):  # what is left then is a rounding of l1
        whole, rest = min(moved), Fraction(0)
    parts: list[Curve] = (
        [int(whole) * LaplaceDP(epsilon=ratio_up(sensitivity.linf, scale))] if whole else []
    )
    parts += [LaplaceDP(epsilon=ratio_up(fraction_up(rest), scale))] if rest else []
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def centered_gaussian(scale: float, sensitivity: Sensitivity, candidates: int | None) -> GaussianDP:
    """Any function of the ranking of scores + scale * N(0, 1): the vector, with or without its
    mean. Theorem C9.
    """
    squares: list[Fraction] = []
    if candidates is not None:
        squares.append(Fraction(sensitivity.range) ** 2 * candidates / 4)
    if sensitivity.l0 is not None:
        changed = Fraction(l0 := sensitivity.l0)
        if sensitivity.monotone and candidates is not None:
            raised = min(l0, candidates // 2)
            changed = raised * (1 - Fraction(raised, candidates))
        squares.append(Fraction(sensitivity.linf) ** 2 * changed)
    # Rationals: squares of small floats underflow, and a shift of 0 would be charged nothing.
    shifts = [sensitivity.l2_of(candidates), *map(sqrt_up, squares)]
    return GaussianDP(mu=ratio_up(min(shifts), scale))
