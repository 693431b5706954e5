"""Noisy thresholds that many comparisons share, one a row, each kept until it is renewed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpselect.noise.base import Noise
from dpselect.sampling.comparisons import certain, scaled, size_bound, subtracted
from dpselect.sampling.heights import Floats, Indices, Numbers
from dpselect.sampling.lazy import LazyUniform, Term, WordSource, rational, sign_of_total
from dpselect.sampling.plain import NoiseDraw, noisy

Flags = NDArray[np.bool_]


class Thresholds(ABC):
    """(rows,) thresholds, each the sum of scale * Y over a few scales with own draws Y of a noise. Private: never shown."""

    @abstractmethod
    def passes(self, values: Numbers, answer_scale: float, minus: Sequence[Numbers] = ()) -> Flags:
        """(rows, m) whether value - the sum of `minus` + answer_scale * Z > the row's threshold, with an own Z each.

        `values` (rows, m) and each of `minus` broadcast against one another; the difference is that of the real numbers.
        """

    @abstractmethod
    def renew(self, rows: Indices) -> None:
        """Draw the thresholds of these rows afresh."""

    @final
    def __repr__(self) -> str:
        return f"{type(self).__name__}(<hidden>)"


@final
class LazyThresholds(Thresholds):
    """Exact: every bit of a threshold that one comparison had to draw is known to the next. Theorem X2."""

    def __init__(self, noise: Noise, scales: Sequence[float], rows: int, words: WordSource) -> None:
        self._noise, self._scales, self._source = noise, tuple(scales), words
        self._words = np.zeros((len(self._scales), rows), dtype=np.uint64)
        self._low, self._high, self._size = np.zeros(rows), np.zeros(rows), np.zeros(rows)
        self._lazy: dict[int, list[LazyUniform]] = {}
        self.renew(np.arange(rows))

    def renew(self, rows: Indices) -> None:
        words = self._source(len(self._scales) * len(rows)).reshape(len(self._scales), len(rows))
        self._words[:, rows] = words
        self._low[rows] = self._high[rows] = self._size[rows] = 0.0
        for scale, drawn in zip(self._scales, words, strict=True):
            low, high = scaled(self._noise, scale, drawn)
            self._low[rows] += low
            self._high[rows] += high
            self._size[rows] += np.maximum(np.abs(low), np.abs(high))
        for row in rows.tolist():
            self._lazy.pop(row, None)

    def passes(self, values: Numbers, answer_scale: float, minus: Sequence[Numbers] = ()) -> Flags:
        with np.errstate(over="ignore", invalid="ignore"):
            middle = subtracted(values, minus)
            answers = self._source(middle.size).reshape(middle.shape)
            low, high = scaled(self._noise, answer_scale, answers)
            low += middle - self._high[:, None]
            high += middle - self._low[:, None]
            sizes = size_bound(middle, values, minus) + self._size[:, None]
            result, unsure = certain(low.ravel(), high.ravel(), sizes.ravel())
        for i in unsure.tolist():
            row, column = divmod(i, middle.shape[1])
            own = (rational(answer_scale), LazyUniform(self._source, word=int(answers[row, column])))
            result[i] = self._sign(row, column, values, minus, own) > 0
        return result.reshape(middle.shape)

    def _sign(self, row: int, column: int, values: Numbers, minus: Sequence[Numbers], own: Term) -> int:
        shape = np.broadcast_shapes(values.shape, *(part.shape for part in minus))
        first, *others = (rational(np.broadcast_to(part, shape)[row, column].item()) for part in (values, *minus))
        if row not in self._lazy:
            self._lazy[row] = [LazyUniform(self._source, word=int(word)) for word in self._words[:, row]]
        kept = [(-rational(scale), draw) for scale, draw in zip(self._scales, self._lazy[row], strict=True)]
        return sign_of_total(first - sum(others), self._noise, [own, *kept])


@final
class PlainThresholds(Thresholds):
    """The same in float64, for simulation."""

    def __init__(self, draw: NoiseDraw, scales: Sequence[float], rows: int) -> None:
        self._draw, self._scales = draw, tuple(scales)
        self._level = self._fresh(rows)

    def renew(self, rows: Indices) -> None:
        self._level[rows] = self._fresh(len(rows))

    def passes(self, values: Numbers, answer_scale: float, minus: Sequence[Numbers] = ()) -> Flags:
        return np.asarray(noisy(subtracted(values, minus), self._draw, answer_scale) > self._level[:, None])

    def _fresh(self, rows: int) -> Floats:
        return np.sum([scale * self._draw(rows) for scale in self._scales], axis=0)
