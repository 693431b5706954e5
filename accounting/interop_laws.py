"""Curves of the discrete mechanisms that dp-accounting has events for: their hockey-stick divergences, exactly. Theorem G6."""

from __future__ import annotations

import math
from itertools import pairwise

from accounting.curves import Curve, PureDP, zero
from accounting.curves.profile_table import ProfileTable
from accounting.errors import InvalidCurve, NoEquivalent

_OUTWARD = 1 + 1e-12  # sums of at most a few hundred positive terms
_MOST_SHIFT = 200


def up(value: float) -> float:
    """The next float above."""
    return math.nextafter(value, math.inf)


def down(value: float) -> float:
    """The next float below."""
    return math.nextafter(value, 0.0)


def randomised_response(noise: float, buckets: int) -> Curve:
    """Of k answers the true one with probability 1 - noise, else a uniform one; neighbours have different true answers.

    Raises:
        InvalidCurve: noise is not in (0, 1], or buckets is not an integer >= 1.
    """
    if isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 1:
        raise InvalidCurve(f"num_buckets={buckets!r} must be an integer >= 1")
    if not 0 <= noise <= 1 or (noise == 0 and buckets > 1):
        raise InvalidCurve(f"noise_parameter={noise!r} must lie in (0, 1]: without noise there is no guarantee")
    if buckets == 1 or noise == 1:
        return zero()
    epsilon = math.log1p(buckets * (1 - noise) / noise) * _OUTWARD
    if buckets == 2:
        return PureDP(epsilon=epsilon)
    return ProfileTable(epsilons=[0.0, epsilon], deltas=[min((1 - noise) * _OUTWARD, math.tanh(epsilon / 2)), 0.0])


def discrete_laplace(rate: float, shift: int) -> Curve:
    """Integer noise with probabilities proportional to exp(-rate |x|), neighbours `shift` apart.

    Raises:
        InvalidCurve: rate is not a number > 0, or shift is not an integer >= 1.
        NoEquivalent: shift is above 200.
    """
    if isinstance(rate, bool) or not 0 < rate < math.inf:
        raise InvalidCurve(f"noise_parameter={rate!r} must be a finite number > 0")
    if isinstance(shift, bool) or not isinstance(shift, int) or shift < 1:
        raise InvalidCurve(f"sensitivity={shift!r} must be an integer >= 1")
    if shift == 1:
        return PureDP(epsilon=rate)
    if shift > _MOST_SHIFT:
        raise NoEquivalent(
            f"DiscreteLaplaceDpEvent with neighbours {shift} apart has no curve of bearable size: "
            f"PureDP(epsilon={rate * shift:g}) is valid and looser"
        )
    return _table(rate, shift)


def _table(rate: float, shift: int) -> Curve:
    kinks = sorted({0.0} | {up(rate * (shift - 2 * i)) for i in range((shift + 1) // 2)})
    points = [(loss, _hockey_stick(rate, shift, loss)) for loss in kinks]
    falling = [point for point, after in pairwise(points) if point[1] > after[1]]
    return ProfileTable(epsilons=[e for e, _ in (*falling, points[-1])], deltas=[d for _, d in (*falling, points[-1])])


def _hockey_stick(rate: float, shift: int, epsilon: float) -> float:
    """Sum of (P - exp(epsilon) Q)_+: all integers up to 0 together, then each between 0 and the shift."""
    ends = -math.expm1(min(0.0, epsilon - rate * shift)) / (1 + math.exp(-rate))
    weight = math.tanh(rate / 2)
    between = (weight * math.exp(-rate * i) * -math.expm1(min(0.0, epsilon - rate * (shift - 2 * i))) for i in range(1, shift))
    return min(1.0, math.fsum((ends, *between)) * _OUTWARD)
