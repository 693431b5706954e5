"""Rising tuples of points, each with probability exactly in proportion to its weight, by sums over runs of points. Theorem W7.

Points with as many users below are a run, and all that a weight depends on. Sums run forwards over the quantiles, and a tuple is
drawn backwards: which run the last quantiles lie in, then the ones before. Float64 logarithms with a bound on their error decide
what they can, the same sums in ball arithmetic the rest (X9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, final

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpselect.mechanisms.ranks import draw_sequences
from dpselect.sampling import Sampler
from dpselect.sampling.heights import Indices
from dpselect.sampling.lazy import rational

Terms = NDArray[Any]
_ROUNDING = 2.0**-52


class _Ring(Protocol):
    """How weights are written, multiplied and added."""

    nothing: Any

    def power(self, losses: Indices) -> Terms: ...
    def tuples(self, points: Indices, size: int) -> Terms: ...
    def times(self, first: Terms, second: Terms) -> Terms: ...
    def plus(self, first: Terms, second: Terms) -> Terms: ...


@final
class _Logarithms:
    """Weights as logarithms in float64. `error` bounds that of all that was computed: no product has two sums as factors."""

    nothing = -math.inf

    def __init__(self, rate: float) -> None:
        self._rate, self.error = rate, 0.0

    def power(self, losses: Indices) -> Terms:
        return self._rounded(self._rate * losses.astype(np.float64))

    def tuples(self, points: Indices, size: int) -> Terms:
        total = np.log(points[:, None] + np.arange(size, dtype=np.float64)).sum(axis=1) - math.lgamma(size + 1)
        return self._rounded(total, 4 * size + 4)

    def times(self, first: Terms, second: Terms) -> Terms:
        return self._rounded(first + second)

    def plus(self, first: Terms, second: Terms) -> Terms:
        return self._rounded(np.logaddexp(first, second))

    def _rounded(self, values: Terms, steps: int = 1) -> Terms:
        finite = np.abs(values[np.isfinite(values)])
        self.error += steps * _ROUNDING * (float(finite.max(initial=0.0)) + 2)
        return values


@final
class _Balls:
    """Weights as balls, at Arb's working precision."""

    nothing = arb(0)

    def __init__(self, rate: float) -> None:
        self._rate = rational(rate)

    def power(self, losses: Indices) -> Terms:
        return _objects([arb(self._rate * loss).exp() for loss in losses.tolist()])

    def tuples(self, points: Indices, size: int) -> Terms:
        return _objects([arb(math.comb(count + size - 1, size)) for count in points.tolist()])

    def times(self, first: Terms, second: Terms) -> Terms:
        return np.asarray(first * second)

    def plus(self, first: Terms, second: Terms) -> Terms:
        return np.asarray(first + second)


def _objects(values: list[arb]) -> Terms:
    held = np.empty(len(values), dtype=object)
    held[:] = values
    return held


@final
@dataclass(frozen=True, eq=False, repr=False)
class Tuples:
    """The weights of all rising tuples of points. Private.

    Attributes:
        below: (runs,) users below the points of each run, rising; times `whole`.
        points: (runs,) how many points each run has.
        shares: (quantiles + 1,) what lies between two quantiles and beyond the last: users times their share times `whole`.
        end: all users, times `whole`.
        rate: nats per unit of loss, the sum of the distances of differences of `below` from `shares`.
    """

    below: Indices
    points: Indices
    shares: tuple[int, ...]
    end: int
    rate: float

    def draw(self, source: Sampler) -> list[int]:
        """One tuple of points, counted from 0."""
        logs = _Logarithms(self.rate)
        entering = self._entering(logs)
        chosen: list[int] = []
        left, end = len(self.shares) - 1, len(self.below)
        while left:
            value = self._ways(logs, entering, left, end).ravel()
            balls = partial(self._balls, left, end)
            cell = source.categorical(value - logs.error, value + logs.error, balls, 1)
            size, end = 1 + int(cell[0]) // end, int(cell[0]) % end
            chosen = self._within(end, size, source) + chosen
            left -= size
        return chosen

    def _balls(self, left: int, end: int) -> list[arb]:
        balls = _Balls(self.rate)
        return list(self._ways(balls, self._entering(balls), left, end).ravel())

    def _entering(self, ring: _Ring) -> list[Terms]:
        """For every quantile (runs,): the weight of all that comes before, if it lies in that run and the one before does not."""
        entering = [ring.power(-np.abs(self.below - self.shares[0]))]
        while len(entering) < len(self.shares) - 1:
            blocks = [self._block(ring, entering, len(entering), size) for size in range(1, len(entering) + 1)]
            leaving = blocks[0]
            for block in blocks[1:]:
                leaving = ring.plus(leaving, block)
            entering.append(self._crossing(ring, leaving, self.shares[len(entering)]))
        return entering

    def _block(self, ring: _Ring, entering: list[Terms], left: int, size: int) -> Terms:
        """(runs,) the weight of the first `left` quantiles, the last `size` of them, and no more, in that run."""
        alone = ring.power(np.array([-sum(self.shares[left - size + 1 : left])], dtype=np.int64))
        return ring.times(ring.times(entering[left - size], alone), ring.tuples(self.points, size))

    def _ways(self, ring: _Ring, entering: list[Terms], left: int, end: int) -> Terms:
        """(left, end) the weight of the first `left` quantiles, by how many share the last run, and which it is, before `end`."""
        at = self.end if end == len(self.below) else int(self.below[end])
        onward = ring.power(-np.abs(at - self.below[:end] - self.shares[left]))
        blocks = [self._block(ring, entering, left, size)[:end] for size in range(1, left + 1)]
        return np.stack([ring.times(block, onward) for block in blocks])

    def _crossing(self, ring: _Ring, leaving: Terms, share: int) -> Terms:
        """(runs,) sum over the earlier runs of their weight times that of the users between."""
        place = np.arange(len(self.below))
        target = self.below - share
        middle = np.minimum(np.searchsorted(self.below, target, side="right"), place)
        far = _sums(ring, ring.times(leaving, ring.power(self.below)), np.zeros_like(place), middle)
        near = _sums(ring, ring.times(leaving, ring.power(-self.below)), middle, place)
        return ring.plus(ring.times(ring.power(-target), far), ring.times(ring.power(target), near))

    def _within(self, run: int, size: int, source: Sampler) -> list[int]:
        """Uniformly random rising points of one run, equal ones allowed: a set of `size` among as many more, moved together."""
        ranks = draw_sequences(np.full((1, size), int(self.points[run]) + size - 1), source)[0]
        first = int(self.points[:run].sum())
        return [first + rank - 1 - place for place, rank in enumerate(sorted(ranks.tolist()))]


def _sums(ring: _Ring, terms: Terms, low: Indices, high: Indices) -> Terms:
    """(n,) sums over [low, high), of terms without cancellation: each is put together from sums over powers of two."""
    total = np.full(len(low), ring.nothing, dtype=terms.dtype)
    lengths, place, blocks = high - low, low.copy(), [terms]
    while 2 ** len(blocks) <= int(lengths.max(initial=0)):
        half, last = 2 ** (len(blocks) - 1), blocks[-1]
        blocks.append(ring.plus(last[: len(last) - half], last[half:]))
    for level, block in enumerate(blocks):
        wanted = np.flatnonzero(lengths >> level & 1)
        total[wanted] = ring.plus(total[wanted], block[place[wanted]])
        place[wanted] += 2**level
    return total
