"""The draws of many rounds at a time, exactly: which counts pass a level (Theorem P13), and which one wins (Theorem P14)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from dpselect.mechanisms.ranks import blocks
from dpselect.noise import by_name
from dpselect.sampling import Sampler
from dpselect.sampling.contest import Contenders, Entries, RankingProblem
from dpselect.sampling.heights import LOWEST, contest_bounds
from dpselect.sampling.thresholds import exceeds
from dpselect.scores import Numbers

Words = NDArray[np.uint64]
Cells = NDArray[np.int32]
Places = NDArray[np.int64]

_LARGEST = 1 << 16  # counts up to it have tables
_BITS = 16
_FEWEST = 12  # labels from which on leaving most of the noise uncomputed pays
_SAMPLE = 64
_LEVELS = np.arange(-3.0, 3.01, 0.25)
_GAUSSIAN = by_name("gaussian")


def wide(block: Numbers) -> Numbers:
    """Counts in the 64-bit types that samplers and other mechanisms read."""
    return block.astype(np.int64) if block.dtype.kind == "i" else block


@final
@dataclass(frozen=True)
class Coins:
    """One public level and Gaussian noise for many counts, each decided from two random bytes where these suffice.

    Attributes:
        level: what a noisy count has to exceed.
        sigma: standard deviation of the noise.
        edges: edges[c] is the cell of 2^-16 in which the chance of count c ends, up to one; None where counts are too many or
            no integers, and the sampler's own comparison serves.
    """

    level: float
    sigma: float
    edges: Cells | None = field(repr=False)  # its length is the largest count

    @classmethod
    def of(cls, matrix: Numbers, level: float, sigma: float) -> Self:
        """The coins for a matrix of counts >= 0."""
        if matrix.dtype.kind != "i" or (most := int(matrix.max())) > _LARGEST:
            return cls(level, sigma, None)
        with np.errstate(over="ignore"):
            places = (level - np.arange(most + 1, dtype=np.float64)) / sigma
        return cls(level, sigma, edges(places))

    def toss(self, counts: Numbers, source: Sampler) -> NDArray[np.bool_]:
        """(cells,) whether count + sigma * Z > level, with a draw of its own for each of (cells,) counts."""
        if self.edges is None:
            return source.exceeds(counts, _GAUSSIAN, self.sigma, self.level)
        leading = leading_bits(len(counts), source)
        edge: Cells = np.take(self.edges, counts)  # type: ignore[arg-type]  # integers, where there are edges
        edge -= leading
        result = edge > 1
        unsure = np.flatnonzero(np.abs(edge) <= 1)
        if len(unsure):
            words = _after(completed(leading[unsure], source), source)
            result[unsure] = exceeds(counts[unsure].astype(np.int64), _GAUSSIAN, self.sigma, self.level, words)
        return result


def edges(places: NDArray[np.float64]) -> Cells:
    """The cell of 2^-16 in which P[Z > place] lies, up to one cell, for every place."""
    with np.errstate(over="ignore"):
        return np.asarray(np.floor(_GAUSSIAN.sf(places) * 2.0**_BITS), dtype=np.int32)


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


def winners(matrix: Numbers, sigma: float, source: Sampler) -> Places:
    """(rounds,) the label with the largest of count + sigma * Z; ties have probability 0."""
    plain = not source.exact or source.constant_work or matrix.shape[1] < _FEWEST
    if plain or matrix.dtype.kind != "i" or int(matrix.max()) > _LARGEST:
        return np.concatenate([source.top_k_rows(wide(block), _GAUSSIAN, sigma, 1)[:, 0] for block in blocks(matrix)])
    race = RaceLevel.of(matrix, sigma)
    return np.concatenate([race.run(block, source) for block in blocks(matrix)])


@final
@dataclass(frozen=True)
class RaceLevel:
    """A level that some label of a typical round exceeds and most labels do not; it decides how fast a race is run, not who wins.

    Only the noise of labels that can win is computed.

    Attributes:
        edges: edges[d] is the cell of 2^-16 in which the chance to exceed the level ends, for a label d votes behind.
    """

    sigma: float
    edges: Cells = field(repr=False)  # its length is the largest count

    @classmethod
    def of(cls, matrix: Numbers, sigma: float) -> Self:
        """A race for a matrix of counts."""
        behind = -_heights(np.arange(int(matrix.max()) + 1), sigma)
        sample = matrix[:: max(1, len(matrix) // _SAMPLE)]
        places = -_heights(sample.max(axis=1, keepdims=True) - sample, sigma)
        return cls(sigma, edges(min(_LEVELS, key=lambda level: _work(_GAUSSIAN.sf(level + places))) + behind))

    def run(self, block: Numbers, source: Sampler) -> Places:
        """(rows,) the winners of a block."""
        behind = block.max(axis=1, keepdims=True) - block
        leading = leading_bits(block.size, source)
        ahead = np.take(self.edges, behind.ravel())
        ahead -= leading
        ahead = ahead.reshape(block.shape)
        certain = (ahead > 1).any(axis=1)
        # A round in which nobody certainly exceeds the level is run in full.
        cells = np.flatnonzero((ahead >= -1) | ~certain[:, None])
        return self._decide(block, behind.ravel()[cells], cells, completed(leading[cells], source), source)

    def _decide(self, block: Numbers, behind: Places, cells: Places, words: Words, source: Sampler) -> Places:
        """The winners among the cells that take part, at least one of every row."""
        rows, labels = np.divmod(cells, block.shape[1])
        starts = np.searchsorted(rows, np.arange(len(block)))
        low, high = contest_bounds(_GAUSSIAN, _heights(behind, self.sigma), np.zeros_like(cells), words)
        floor = np.maximum.reduceat(low, starts)
        open_ = np.flatnonzero(high >= floor[rows])
        result = np.empty(len(block), dtype=np.int64)
        result[rows[open_]] = labels[open_]
        for row in np.flatnonzero(np.bincount(rows[open_], minlength=len(block)) > 1).tolist():
            own = open_[rows[open_] == row]
            result[row] = self._exactly(block[row], labels[own], words[own], source)
        return result

    def _exactly(self, counts: Numbers, labels: Places, words: Words, source: Sampler) -> int:
        """The winner of a round that 64 bits leave undecided."""
        values = counts.astype(np.int64)
        contest = Contenders(RankingProblem(values, _GAUSSIAN, self.sigma, 1, source.words).against(values.max()))
        none = np.zeros_like(labels)
        contest.offer(Entries(labels, none, none, words))
        return int(contest.ranked().index[0])


def _work(chances: NDArray[np.float64]) -> float:
    """Expected cost of a level: labels that take part, all of them where none exceeds it."""
    with np.errstate(divide="ignore"):
        nobody = np.exp(np.log1p(-chances).sum(axis=1))
    return float((chances.sum(axis=1) + nobody * chances.shape[1]).mean())


def _heights(behind: Places, sigma: float) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        return np.fmax(-behind / sigma, LOWEST)
