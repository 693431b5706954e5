"""Noisy numbers that are drawn and may be asked more: what one answer had to look at is known to the next. Theorem X13."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import numpy as np

from dpselect.noise.base import Noise
from dpselect.sampling.comparisons import nearest
from dpselect.sampling.contest import Entries
from dpselect.sampling.heights import Floats, Indices, Numbers
from dpselect.sampling.lazy import WordSource


class Drawn(ABC):
    """Some of values + scale * noise, largest first. Private: never shown, but for what is released of them."""

    @property
    @abstractmethod
    def index(self) -> Indices:
        """(count,) which value each has."""

    @property
    @abstractmethod
    def member(self) -> Indices:
        """(count,) which member of that value's group it is; 0 for values that stand for one candidate."""

    @abstractmethod
    def rounded(self, grid: float) -> Floats:
        """(count,) each number rounded to the nearest multiple of `grid`, a power of two; score units."""

    @final
    def __len__(self) -> int:
        return len(self.index)

    @final
    def __repr__(self) -> str:
        return f"{type(self).__name__}(<hidden>)"


@final
class LazyDrawn(Drawn):
    """Exact: every answer is about one array of numbers with infinitely many bits."""

    def __init__(self, values: Numbers, noise: Noise, scale: float, entries: Entries, words: WordSource) -> None:
        self._values, self._noise, self._scale = values[entries.index], noise, float(scale)
        self._entries, self._words = entries, words

    @property
    def index(self) -> Indices:
        return self._entries.index

    @property
    def member(self) -> Indices:
        return self._entries.member

    def rounded(self, grid: float) -> Floats:
        return nearest(self._values, self._noise, self._scale, grid, self._entries, self._words)


@final
class PlainDrawn(Drawn):
    """The same in float64, for simulation."""

    def __init__(self, index: Indices, numbers: Floats) -> None:
        self._index, self._numbers = index, numbers

    @property
    def index(self) -> Indices:
        return self._index

    @property
    def member(self) -> Indices:
        return np.zeros_like(self._index)

    def rounded(self, grid: float) -> Floats:
        return np.rint(self._numbers / grid) * grid
