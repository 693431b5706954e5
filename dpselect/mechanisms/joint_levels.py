"""The joint exponential mechanism as a random level of loss.

Let N(v) be the number of sequences with loss at most v. A level V with density proportional to exp(-rate v) N(v), followed by a
uniformly random sequence of loss at most V, draws each sequence with probability proportional to exp(-rate loss). If losses are
cut at a level tau, V has an atom there of weight exp(-rate tau) times the number of all sequences; without a cut the same holds
at the largest loss. Theorem M8.
"""

from __future__ import annotations

import math
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpselect.sampling import Sampler

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_WASTE = 0.5  # share of the envelope that may lie above the density
_ROUNDS = 200


class _Envelope(NamedTuple):
    """Levels from edges[i] up to edges[i + 1], with ln N at the lower edge and just below the upper one."""

    edges: Floats
    least: Floats
    most: Floats


@final
class Levels:
    """N(v) for one score vector, and draws of the level.

    Args:
        ascending: (m,) scores minus the highest, ascending.
        k: length of a sequence.
        rate: nats per score unit.
        cut: the loss at which all losses are cut; inf for none.
    """

    def __init__(self, ascending: Floats, k: int, rate: float, cut: float) -> None:
        self._ascending, self._size, self._rate = ascending, len(ascending), rate
        self._top = ascending[::-1][:k]
        self._places = np.arange(k)
        self.last = min(float(-ascending[0]), cut)
        self._log_all = float(np.log(self._size - self._places).sum())
        self._envelope = self._refined()

    def allowed(self, levels: Floats) -> Indices:
        """(levels, k) how many of the best ranks may stand in each place at a loss of at most each level."""
        return np.where((levels >= self.last)[:, None], self._size, self._counts(levels, "left"))

    def draw(self, count: int, source: Sampler) -> Floats:
        """(count,) independent levels; `last` stands for itself and everything beyond."""
        levels = np.empty(count)
        missing = np.arange(count)
        while len(missing):
            found, accepted = self._propose(len(missing), source)
            levels[missing[accepted]] = found[accepted]
            missing = missing[~accepted]
        return levels

    def _propose(self, count: int, source: Sampler) -> tuple[Floats, NDArray[np.bool_]]:
        """Levels from the envelope, and which of them the density accepts."""
        edges, _, most = self._envelope
        weights = self._weights(most)
        sums = np.cumsum(np.exp(weights - weights.max()))
        cell = np.searchsorted(sums, source.uniform(count) * sums[-1], side="right")
        levels, accepted = np.full(count, self.last), cell == len(most)
        inside = np.flatnonzero(~accepted)
        low, high = edges[cell[inside]], edges[cell[inside] + 1]
        # Exponential in the level, kept within its cell.
        offset = -np.log1p(np.expm1(-self._rate * (high - low)) * source.uniform(len(inside))) / self._rate
        levels[inside] = np.minimum(low + offset, np.nextafter(high, -np.inf))
        chance = self._log_count(levels[inside], "left") - most[cell[inside]]
        accepted[inside] = np.log(source.uniform(len(inside))) <= chance
        return levels, accepted

    def _weights(self, log_counts: Floats) -> Floats:
        """ln of the weight of every cell, and of the levels from `last` on."""
        edges = self._envelope.edges
        cells = log_counts - self._rate * edges[:-1] + np.log(-np.expm1(-self._rate * np.diff(edges)))
        return np.append(cells, self._log_all - self._rate * self.last)

    def _refined(self) -> _Envelope:
        """Cut the levels where N changes, until at most half of the envelope is above the density."""
        steps = self._rate * self.last
        edges = np.unique([0.0, *(2.0 ** np.arange(-3, math.ceil(math.log2(max(steps, 1))))) / self._rate, self.last])
        edges = edges[edges <= self.last]
        for _ in range(_ROUNDS):
            self._envelope = _Envelope(edges, self._log_count(edges[:-1], "left"), self._log_count(edges[1:], "right"))
            most, least = self._weights(self._envelope.most), self._weights(self._envelope.least)
            shift = most.max()
            excess = np.exp(most - shift) - np.exp(least - shift)
            if excess.sum() <= _WASTE * np.exp(most - shift).sum():
                break
            wasteful = np.flatnonzero(excess[:-1] > 0.1 * _WASTE * excess.sum() / len(excess))
            edges = np.union1d(edges, self._cuts(edges[wasteful], edges[wasteful + 1]))
        return self._envelope

    def _cuts(self, low: Floats, high: Floats) -> Floats:
        """A level inside each interval at which N jumps, near the middle."""
        middle = (low + high) / 2
        before = self._counts(middle, "left")
        at_most = (self._top - self._ascending[self._size - before]).max(axis=1)
        following = np.where(before < self._size, self._top - self._ascending[np.maximum(self._size - before - 1, 0)], np.inf)
        cuts = np.where(at_most > low, at_most, following.min(axis=1))
        return cuts[(cuts > low) & (cuts < high)]

    def _counts(self, levels: Floats, side: str) -> Indices:
        """(levels, k) ranks allowed in each place: "left" with loss at most the level, "right" with loss less than it."""
        least = self._top[None, :] - levels[:, None]
        return self._size - np.searchsorted(self._ascending, least, side="left" if side == "left" else "right")

    def _log_count(self, levels: Floats, side: str) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(self._counts(levels, side) - self._places, 0)).sum(axis=1))
