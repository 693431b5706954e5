"""Noisy numbers that are drawn and may be asked more: what one answer had to look at is known to the next. Theorem X13."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import final

import numpy as np
from flint import arb, fmpq

from dpselect.noise.base import Noise
from dpselect.sampling.contest import Entries
from dpselect.sampling.heights import Flags, Floats, Indices, Numbers
from dpselect.sampling.lazy import LazyUniform, WordSource, precision, rational
from dpselect.sampling.thresholds import TINY, WIDER, scaled

_WHOLE = 2.0**51  # half of where floats stop being able to tell a number from its half


class Drawn(ABC):
    """Some of values + scale * noise, largest first. Private: never shown, but for what is released of them."""

    index: Indices
    """(count,) which value each has."""
    member: Indices
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
        self.index, self.member = entries.index, entries.member
        self._values, self._noise, self._scale = values[entries.index], noise, float(scale)
        self._entries, self._words = entries, words

    def rounded(self, grid: float) -> Floats:
        return nearest(self._values, self._noise, self._scale, grid, self._entries, self._words)


@final
class PlainDrawn(Drawn):
    """The same in float64, for simulation."""

    def __init__(self, index: Indices, numbers: Floats) -> None:
        self.index, self.member, self._numbers = index, np.zeros_like(index), numbers

    def rounded(self, grid: float) -> Floats:
        return np.rint(self._numbers / grid) * grid


def nearest(values: Numbers, noise: Noise, scale: float, grid: float, entries: Entries, words: WordSource) -> Floats:
    """(entries,) the multiples of `grid` nearest to values + scale * Z, for what is known of their noise. Theorem X7.

    The whole multiples of the grid in a value are set apart, exactly: what is left is as small as the noise, and so are its
    roundings. Where these leave two multiples possible, or a multiple is not a float, the bits decide.
    """
    whole, rest, moderate = _split(values, grid)
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = scaled(noise, scale / grid, entries.words, entries.level)
        margin = WIDER * (2.0 + np.maximum(np.abs(low), np.abs(high)))
        below, above = np.floor(low + rest + 0.5 - margin), np.floor(high + rest + 0.5 + margin)
        result: Floats = (whole + below) * grid
        sure = moderate & (below == above) & (np.abs(below) < _WHOLE) & (scale / grid < _WHOLE)
    for i in np.flatnonzero(~sure).tolist():
        value, ratio = rational(values[i].item()) / rational(grid), rational(scale) / rational(grid)
        result[i] = _as_float(_nearest(value, ratio, noise, entries.draw(i, words)) * Fraction(grid))
    return result


def _split(values: Numbers, grid: float) -> tuple[Floats, Floats, Flags]:
    """values / grid as a whole number and a rest in [0, 1), both exact where the third is True."""
    floats = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        multiples = floats / grid  # by a power of two: exact unless beyond the floats or below them
        whole = np.floor(multiples)
        same = floats == values if values.dtype != np.int64 else np.abs(floats) < _WHOLE
        exact = same & (np.abs(multiples) < _WHOLE) & ((np.abs(multiples) > TINY) | (floats == 0))
        return whole, multiples - whole, exact


def _as_float(value: Fraction) -> float:
    """The nearest float, the largest where it is beyond."""
    largest = sys.float_info.max
    return float(min(max(value, -Fraction(largest)), Fraction(largest)))


def _nearest(value: fmpq, scale: fmpq, noise: Noise, draw: LazyUniform) -> int:
    while True:
        with precision(draw.precision + 64 + _magnitude(value)):
            floor = (arb(value) + arb(scale) * noise.isf_ball(draw.ball()) + arb(0.5)).floor().unique_fmpz()
        if floor is not None:
            return int(floor)
        draw.extend()


def _magnitude(value: fmpq) -> int:
    return abs(int(value.p.bit_length()) - int(value.q.bit_length()))
