"""A round's votes as two numbers that one teacher moves by little: the equivalent gap and the largest count. Theorem P21."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_KNOTS = 16_000  # about how many knots a table has: fewer per vote where there are many teachers
_FEWEST, _MOST = 8, 128  # knots in two votes, what one teacher can move a gap by
_SLACK = 1e-6  # of a knot: more than a gap is off in floating point, so that rounding is downwards


@dataclass(frozen=True)
class Lattice:
    """Equivalent gaps from 0 to the number of teachers, in equal steps.

    Args:
        teachers: how many teachers there are, a public number.
        labels: how many labels.
        sigma: of GNMax, in votes.
    """

    teachers: int
    labels: int
    sigma: float

    @property
    def per_move(self) -> int:
        """Steps in two votes."""
        return int(np.clip(_KNOTS // self.teachers, _FEWEST, _MOST))

    @property
    def reach(self) -> int:
        """The most steps that one teacher moves a gap by; one more than in exact arithmetic, for rounding to knots."""
        return self.per_move + 1

    @property
    def last(self) -> int:
        """The step of an unanimous vote."""
        return -(-self.teachers * self.per_move // 2)

    def steps(self, counts: Integers) -> Integers:
        """(rounds,) equivalent gaps in steps, rounded down, of (rounds, labels) counts."""
        log_share = np.minimum(log_disagreement(counts, self.sigma) - math.log(self.labels - 1), math.log(0.5))
        gaps = -scipy.special.ndtri_exp(log_share) * math.sqrt(2) * self.sigma
        return np.clip(np.floor(gaps * self.per_move / 2 - _SLACK), 0, self.last).astype(np.int64)

    def log_q(self, steps: Integers) -> Floats:
        """ln of the bound on the probability of another outcome at these steps, an upper end."""
        gaps = steps * 2 / self.per_move
        return math.log(self.labels - 1) + scipy.special.log_ndtr(-gaps / (math.sqrt(2) * self.sigma))


def log_disagreement(counts: Integers, sigma: float) -> Floats:
    """(rounds,) ln of a bound on P[GNMax does not return the most voted label], by the union over labels. Theorem P21."""
    rows = np.arange(len(counts))
    winners = counts.argmax(axis=1)
    gaps = (counts[rows, winners][:, None] - counts).astype(np.float64)
    beaten = scipy.special.log_ndtr(-gaps / (math.sqrt(2) * sigma))
    beaten[rows, winners] = -np.inf
    return np.asarray(np.logaddexp.reduce(beaten, axis=1), dtype=np.float64)
