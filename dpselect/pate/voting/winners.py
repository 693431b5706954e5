"""The label with the largest noisy count in every round, exactly, with noise computed for the few that can win. Theorem P14."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from dpselect.noise import by_name
from dpselect.pate.voting.blocks import blocks
from dpselect.pate.voting.coins import LARGEST, Cells, Words, completed, edges, leading_bits
from dpselect.sampling import Sampler
from dpselect.sampling.contest import Contest, Entries, Problem
from dpselect.sampling.heights import LOWEST, contest_bounds
from dpselect.scores import Numbers

Places = NDArray[np.int64]

_FEWEST = 12  # labels from which on leaving most of the noise uncomputed pays
_SAMPLE = 64
_LEVELS = np.arange(-3.0, 3.01, 0.25)


def winners(matrix: Numbers, sigma: float, source: Sampler) -> Places:
    """(rounds,) the label with the largest of count + sigma * Z; ties have probability 0."""
    plain = not source.exact or source.constant_work or matrix.shape[1] < _FEWEST
    if plain or matrix.dtype.kind != "i" or int(matrix.max()) > LARGEST:
        return np.concatenate([_ranked(block, sigma, source) for block in blocks(matrix)])
    race = Race.of(matrix, sigma)
    return np.concatenate([race.run(block, source) for block in blocks(matrix)])


def _ranked(block: Numbers, sigma: float, source: Sampler) -> Places:
    wide = block.astype(np.int64) if block.dtype.kind == "i" else block
    return source.top_k_rows(wide, by_name("gaussian"), sigma, 1)[:, 0]


@final
@dataclass(frozen=True)
class Race:
    """A level that some label of a typical round exceeds and most labels do not; it decides how fast a race is run, not who wins.

    Attributes:
        edges: edges[d] is the cell of 2^-16 in which the chance to exceed the level ends, for a label d votes behind.
    """

    sigma: float
    edges: Cells = field(repr=False)  # its length is the largest count

    @classmethod
    def of(cls, matrix: Numbers, sigma: float) -> Self:
        """A race for a matrix of counts."""
        noise = by_name("gaussian")
        behind = -_heights(np.arange(int(matrix.max()) + 1), sigma)
        sample = matrix[:: max(1, len(matrix) // _SAMPLE)]
        places = -_heights(sample.max(axis=1, keepdims=True) - sample, sigma)
        return cls(sigma, edges(noise, min(_LEVELS, key=lambda level: _work(noise.sf(level + places))) + behind))

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
        low, high = contest_bounds(by_name("gaussian"), _heights(behind, self.sigma), np.zeros_like(cells), words)
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
        values: NDArray[np.int64] = counts.astype(np.int64)
        contest = Contest(Problem(values, by_name("gaussian"), self.sigma, 1, source.words).against(values.max()))
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
