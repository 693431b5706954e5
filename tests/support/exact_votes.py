"""Exact distributions of GNMax on small votes, in 40-digit arithmetic, and the neighbors of
votes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import mpmath

Votes = tuple[int, ...]


def all_votes(teachers: int, labels: int) -> list[Votes]:
    """Every count vector of so many teachers with one vote each."""
    if labels == 1:
        return [(teachers,)]
    return [
        (first, *rest)
        for first in range(teachers + 1)
        for rest in all_votes(teachers - first, labels - 1)
    ]


def neighbors(votes: Votes) -> Iterator[Votes]:
    """What one teacher's other ballot makes of `votes`."""
    for lost in range(len(votes)):
        for won in range(len(votes)):
            if lost != won and votes[lost]:
                yield tuple(n - (i == lost) + (i == won) for i, n in enumerate(votes))


@cache
def law(votes: Votes, sigma: float) -> tuple[mpmath.mpf, ...]:
    """The probability of each label under GNMax, to about 25 digits."""
    ordered = tuple(sorted(votes))
    if ordered != votes:
        found = dict(zip(ordered, law(ordered, sigma), strict=True))
        return tuple(found[n] for n in votes)
    with mpmath.workdps(40):
        low, high = mpmath.mpf(ordered[0]) - 16 * sigma, mpmath.mpf(ordered[-1]) + 16 * sigma
        knots = mpmath.linspace(low, high, 9)
        each = {
            n: mpmath.quad(_winning(votes, votes.index(n), sigma), knots, method="gauss-legendre")
            for n in set(votes[:-1])
        }
        lost = [each[n] for n in votes[:-1]]
        # The winner's probability is what the others leave, so that its complement keeps its
        # digits.
        lost.append(1 - mpmath.fsum(lost))
        return tuple(lost)


def _winning(votes: Votes, mine: int, sigma: float) -> Callable[[mpmath.mpf], mpmath.mpf]:
    def density(t: mpmath.mpf) -> mpmath.mpf:
        others = mpmath.fprod(
            mpmath.ncdf(t, n, sigma) for label, n in enumerate(votes) if label != mine
        )
        return mpmath.npdf(t, votes[mine], sigma) * others

    return density


def divergence(votes: Votes, other: Votes, sigma: float, order: float) -> float:
    """D_order(GNMax(votes) || GNMax(other)) in nats."""
    with mpmath.workdps(40):
        pairs = zip(law(votes, sigma), law(other, sigma), strict=True)
        return float(
            mpmath.log(mpmath.fsum(p**order * q ** (1 - mpmath.mpf(order)) for p, q in pairs))
            / (order - 1)
        )
