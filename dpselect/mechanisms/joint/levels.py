"""The joint exponential mechanism as a random level of loss.

Let N(v) be the number of sequences with loss at most v. A level V with density proportional to exp(-rate v) N(v), followed by a
uniformly random sequence of loss at most V, draws each sequence with probability proportional to exp(-rate loss). If losses are
cut at a level tau, V has an atom there of weight exp(-rate tau) times the number of all sequences; without a cut the same holds
at the largest loss. Theorem M8. float64 enclosures decide what they can, more bits and ball arithmetic the rest: Theorem M10.
"""

from __future__ import annotations

import math
from functools import partial
from typing import final

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from dpselect.mechanisms.joint.cells import Cells, product
from dpselect.mechanisms.joint.counts import Counts
from dpselect.mechanisms.ranks import Ranked
from dpselect.sampling import Sampler
from dpselect.sampling.categorical import flipped
from dpselect.sampling.heights import Floats, Indices
from dpselect.sampling.lazy import LazyUniform, WordSource, bernoulli, precision

_WASTE = 0.5  # share of the envelope that may lie above the density
_ROUNDS = 200
_FARTHEST = 2.0**40  # nats: levels beyond are so rare that cells for them are idle
_ROUNDING = 2.0**-46  # of k and of a logarithm of a product of k ratios: above its roundings


@final
class Levels:
    """N(v) for one score vector, and draws of what is allowed at a random level.

    Args:
        ranked: the scores.
        k: length of a sequence.
        rate: nats per score unit.
        cut: the loss at which all losses are cut; inf for none.
    """

    def __init__(self, ranked: Ranked, k: int, rate: float, cut: float) -> None:
        self._counts, self._rate = Counts(ranked, k), rate
        self._all = np.full(k, ranked.size)
        self._places = np.arange(k)
        self.last = min(self._counts.largest_loss, 0.5 * cut)
        self._cells = self._refined()

    def draw(self, count: int, source: Sampler) -> Indices:
        """(count, k) how many of the best ranks may stand in each place, at independent levels."""
        allowed = np.tile(self._all, (count, 1))
        missing = np.arange(count)
        while len(missing):
            found, accepted = self._propose(len(missing), source)
            allowed[missing[accepted]] = found[accepted]
            missing = missing[~accepted]
        return allowed

    def _propose(self, count: int, source: Sampler) -> tuple[Indices, NDArray[np.bool_]]:
        """What is allowed at levels from the envelope, and which of them the density accepts."""
        allowed, accepted = np.tile(self._all, (count, 1)), np.ones(count, dtype=np.bool_)
        cell = self._cells.picked(count, source)
        inside = np.flatnonzero(cell < len(self._cells))
        found = self._levels(cell[inside], source.words)
        allowed[inside] = found
        accepted[inside] = self._accepted(found, self._cells.allowed[cell[inside]], source.words)
        return allowed, accepted

    def _levels(self, cell: Indices, words: WordSource) -> Indices:
        """(count, k) what is allowed at levels that are exponential within their cells."""
        drawn = words(len(cell))
        low, high = self._cells.within(cell, drawn)
        least, most = self._counts.between(low, high)
        for i in np.flatnonzero((least != most).any(axis=1)).tolist():
            draw = LazyUniform(words, word=int(drawn[i]))
            least[i] = self._refined_counts(int(cell[i]), draw, least[i], most[i])
        return least

    def _refined_counts(self, cell: int, draw: LazyUniform, least: Indices, most: Indices) -> Indices:
        while True:
            with precision(draw.precision):
                counts = self._counts.at(self._cells.level(cell, draw.ball()), least, most)
            if counts is not None:
                return counts
            draw.extend()

    def _accepted(self, allowed: Indices, envelope: Indices, words: WordSource) -> NDArray[np.bool_]:
        """(count,) True with probability N at the level over the envelope."""
        chance = np.log((allowed - self._places) / (envelope - self._places)).sum(axis=1)
        error = _ROUNDING * (len(self._places) + np.abs(chance))
        drawn = words(len(chance))
        accepted, unsure = flipped(chance, error, drawn)
        for i in unsure.tolist():
            ratio = fmpq(product(allowed[i]), product(envelope[i]))
            accepted[i] = bernoulli(partial(arb, ratio), LazyUniform(words, word=int(drawn[i])))
        return accepted

    def _refined(self) -> Cells:
        """Cut the levels where N changes, until at most half of the envelope is above the density."""
        steps = min(2.0 * self._rate * self.last, _FARTHEST)
        with np.errstate(over="ignore"):
            growing = 2.0 ** np.arange(-4, math.ceil(math.log2(max(steps, 1)))) / self._rate
        edges = np.unique([0.0, *growing[growing < self.last], self.last])
        for _ in range(_ROUNDS):
            cells = Cells(edges, self._counts.most(edges[1:]), self._all, self._rate)
            most, least = cells.log_weights(cells.allowed)[0], cells.log_weights(self._least(edges[:-1]))[0]
            shift = most.max()
            excess = np.exp(most - shift) - np.exp(least - shift)
            if excess.sum() <= _WASTE * np.exp(most - shift).sum():
                break
            wasteful = np.flatnonzero(excess[:-1] > 0.1 * _WASTE * excess.sum() / len(excess))
            cuts = self._cuts(edges[wasteful], edges[wasteful + 1])
            if not len(cuts):
                break
            edges = np.union1d(edges, cuts)
        return cells

    def _least(self, edges: Floats) -> Indices:
        """(cells, k) what is allowed just above the lower edge of each cell: an estimate."""
        return self._counts.most(edges + self._counts.margin(edges))

    def _cuts(self, low: Floats, high: Floats) -> Floats:
        """A level just below a jump of N inside each interval, near its middle."""
        before, after = self._counts.jump((low + high) / 2)
        cuts = np.where(before > low + 2 * self._counts.margin(before), before, after)
        cuts -= self._counts.margin(cuts)
        return cuts[(cuts > low) & (cuts < high)]
