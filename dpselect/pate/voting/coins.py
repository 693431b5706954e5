"""Which noisy counts pass a level, exactly, from two random bytes each. Theorem P13."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from dpselect.noise import by_name
from dpselect.noise.base import Noise
from dpselect.sampling import Sampler, comparisons
from dpselect.scores import Numbers

Words = NDArray[np.uint64]
Cells = NDArray[np.int32]

LARGEST = 1 << 16  # counts up to it have tables
_BITS = 16


@final
@dataclass(frozen=True)
class Coins:
    """One public level and noise for many counts.

    Attributes:
        level: what a noisy count has to exceed.
        sigma: standard deviation of the Gaussian noise.
        edges: edges[c] is the cell of 2^-16 in which the chance of count c ends, up to one; None where counts are too many or
            no integers, and the sampler's own comparison serves.
    """

    level: float
    sigma: float
    edges: Cells | None = field(repr=False)  # its length is the largest count

    @classmethod
    def of(cls, matrix: Numbers, level: float, sigma: float) -> Self:
        """The coins for a matrix of counts >= 0."""
        if matrix.dtype.kind != "i" or (most := int(matrix.max())) > LARGEST:
            return cls(level, sigma, None)
        return cls(level, sigma, edges(by_name("gaussian"), _places(most, level, sigma)))

    def toss(self, counts: Numbers, source: Sampler) -> NDArray[np.bool_]:
        """(cells,) whether count + sigma * Z > level, with a draw of its own for each of (cells,) counts."""
        noise = by_name("gaussian")
        if self.edges is None:
            return source.exceeds(counts, noise, self.sigma, self.level)
        leading = leading_bits(len(counts), source)
        edge: Cells = np.take(self.edges, counts)  # type: ignore[arg-type]  # integers, where there are edges
        edge -= leading
        result = edge > 1
        unsure = np.flatnonzero(np.abs(edge) <= 1)
        if len(unsure):
            rest = completed(leading[unsure], source)
            exact = comparisons.exceeds(counts[unsure].astype(np.int64), noise, self.sigma, self.level, _after(rest, source))
            result[unsure] = exact
        return result


def _places(most: int, level: float, sigma: float) -> NDArray[np.float64]:
    """(most + 1,) where the noise of counts from 0 has to reach."""
    with np.errstate(over="ignore"):
        return (level - np.arange(most + 1, dtype=np.float64)) / sigma


def edges(noise: Noise, places: NDArray[np.float64]) -> Cells:
    """The cell of 2^-16 in which P[Z > place] lies, up to one cell, for every place."""
    with np.errstate(over="ignore"):
        return np.asarray(np.floor(noise.sf(places) * 2.0**_BITS), dtype=np.int32)


def leading_bits(count: int, source: Sampler) -> NDArray[np.uint16]:
    """(count,) the leading 16 bits of independent uniform numbers."""
    return source.words(math.ceil(count / 4)).view(np.uint16)[:count]


def completed(leading: NDArray[np.uint16], source: Sampler) -> Words:
    """The leading 64 bits of numbers of which 16 are known."""
    rest = source.words(len(leading))
    rest >>= np.uint64(_BITS)
    rest |= leading.astype(np.uint64) << np.uint64(64 - _BITS)
    return rest


def _after(words: Words, source: Sampler) -> Any:
    """A word source that gives `words` first and then what `source` draws."""
    held = [words]
    return lambda count: held.pop() if held else source.words(count)
