"""The envelope from which levels of loss are proposed: cells of levels, each with a constant count of sequences. Theorem M10.

Levels are halved, and the rate is doubled, so that no scores make them overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from flint import arb, fmpq, fmpz

from dpselect.sampling import Sampler
from dpselect.sampling.categorical import uniforms
from dpselect.sampling.heights import Floats, Indices, Words
from dpselect.sampling.lazy import rational

_ROUNDING = 2.0**-45  # of 1 + the terms of a logarithm: above their roundings
_CELL = 2.0**-53
_FAR = 1e300  # nats beyond which exp(-nats) is zero in any case
_NARROW = 2.0**-900  # nats; of narrower cells float64 says nothing but that they weigh less than one as wide as this
_TINY = 2.0**-1000  # more than any underflow


@final
@dataclass(frozen=True)
class Cells:
    """Levels from edges[i] up to edges[i + 1], and beyond the last edge one atom at which everything is allowed.

    Attributes:
        edges: (cells + 1,) half levels.
        allowed: (cells, k) ranks allowed in each place; at least as many as at any level of the cell.
        everything: (k,) the same for the atom.
        rate: nats per score unit of loss.
    """

    edges: Floats
    allowed: Indices
    everything: Indices
    rate: float

    def __len__(self) -> int:
        return len(self.allowed)

    def log_weights(self, allowed: Indices) -> tuple[Floats, Floats]:
        """(cells + 1,) ln of the weight of every cell with these counts, and of the atom; and bounds on the error.

        Cells narrower than `_NARROW` are weighed as if they were that wide.
        """
        counts = log_product(np.vstack([allowed, self.everything]))
        spent = np.minimum(self._nats(self.edges), _FAR)
        width = np.append(np.log(-np.expm1(-np.maximum(self._widths(), _NARROW))), 0.0)
        return counts - spent + width, _ROUNDING * (1.0 + counts + spent + np.abs(width))

    def picked(self, count: int, source: Sampler) -> Indices:
        """(count,) cells in proportion to their weights; the atom is the one after the last."""
        value, error = self.log_weights(self.allowed)
        narrow = np.append(self._widths() < _NARROW, False)
        return source.categorical(np.where(narrow, -np.inf, value - error), value + error, self._balls, count)

    def within(self, cell: Indices, words: Words) -> tuple[Floats, Floats]:
        """(count,) bounds on half levels whose density falls exponentially, given the first bits of a uniform number each."""
        low, high = self.edges[cell], self.edges[cell + 1]
        place, width = uniforms(words), self._widths()[cell]
        with np.errstate(divide="ignore", over="ignore"):
            share = -np.expm1(-width)
            least = -0.5 * np.log1p(-share * place * (1.0 - _ROUNDING)) / self.rate
            most = -0.5 * np.log1p(-np.minimum(share * (place + _CELL) * (1.0 + _ROUNDING), 1.0)) / self.rate
            first, last = (low + least) * (1.0 - _ROUNDING), (low + most * (1.0 + _ROUNDING)) * (1.0 + _ROUNDING)
        narrow = width < _NARROW
        first, last = np.where(narrow, low, first - _TINY), np.where(narrow, high, last + _TINY)
        return np.clip(first, low, high), np.clip(last, low, high)

    def level(self, cell: int, uniform: arb) -> arb:
        """A ball around the level, not halved, for one cell and a ball around its uniform number."""
        low, high = self._edge(cell), self._edge(cell + 1)
        rate = rational(self.rate)
        return arb(low) - (uniform * (arb(-rate * (high - low))).expm1()).log1p() / arb(rate)

    def _widths(self) -> Floats:
        """(cells,) widths in nats."""
        return self._nats(np.diff(self.edges))

    def _nats(self, half: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(2.0 * half * self.rate)

    def _balls(self) -> list[arb]:
        rate, edges = rational(self.rate), [self._edge(i) for i in range(len(self.edges))]
        falls = [arb(-rate * edge).exp() for edge in edges]
        counts = [product(row) for row in [*self.allowed, self.everything]]
        steps = [a - b for a, b in zip(falls, [*falls[1:], arb(0)], strict=True)]
        return [arb(count) * step for count, step in zip(counts, steps, strict=True)]

    def _edge(self, i: int) -> fmpq:
        return 2 * rational(float(self.edges[i]))


def product(allowed: Indices) -> fmpz:
    """The number of sequences, if place i, from 0, may take the best allowed[i] ranks."""
    total = fmpz(1)
    for place, ranks in enumerate(allowed.tolist()):
        total *= ranks - place
    return total


def log_product(allowed: Indices) -> Floats:
    """(rows,) its logarithm for (rows, k) counts, rounded; none is below its place."""
    return np.asarray(np.log(allowed - np.arange(allowed.shape[1])).sum(axis=1))
