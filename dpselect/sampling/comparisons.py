"""Exact decisions about single noisy numbers: above a level or not, and which multiple of a grid is nearest."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from dpselect.noise.base import Noise
from dpselect.sampling.contest import Entries
from dpselect.sampling.heights import Floats, Indices, Numbers, Words, contest_bounds
from dpselect.sampling.lazy import LazyUniform, WordSource, precision, rational, sign_of_total

_WIDER = 2.0**-48  # of the size of every term: more than the few roundings of their sum
_TINY = 2.0**-1000  # more than any underflow
_WHOLE = 2.0**51  # half of where floats stop being able to tell a number from its half


def exceeds(values: Numbers, noise: Noise, scale: float, level: float, words: WordSource) -> NDArray[np.bool_]:
    """(count,) whether value + scale * Z > level, each with a draw of its own. Theorem X2."""
    return exceeding(values, noise, scale, level, Entries.at(np.arange(len(values)), words(len(values))), words)


def exceeding(
    values: Numbers, noise: Noise, scale: float, level: float, entries: Entries, words: WordSource
) -> NDArray[np.bool_]:
    """(entries,) the same for (entries,) values and what is known of their noise already."""
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = scaled(noise, scale, entries.words, entries.level)
        middle = values.astype(np.float64) - level
        result, unsure = certain(low + middle, high + middle, np.abs(values.astype(np.float64)) + abs(level))
    for i in unsure.tolist():
        rest = rational(values[i].item()) - rational(level)
        result[i] = sign_of_total(rest, noise, [(rational(scale), entries.draw(i, words))]) > 0
    return result


def rounded(values: Numbers, noise: Noise, scale: float, grid: float, words: WordSource) -> Floats:
    """(count,) the multiples of `grid` nearest to values + scale * Z. Theorem X7."""
    return nearest(values, noise, scale, grid, Entries.at(np.arange(len(values)), words(len(values))), words)


def nearest(values: Numbers, noise: Noise, scale: float, grid: float, entries: Entries, words: WordSource) -> Floats:
    """(entries,) the same for (entries,) values and what is known of their noise already.

    The whole multiples of the grid in a value are set apart, exactly: what is left is as small as the noise, and so are its
    roundings. Where these leave two multiples possible, or a multiple is no float, the bits decide.
    """
    whole, rest, moderate = _split(values, grid)
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = scaled(noise, scale / grid, entries.words, entries.level)
        margin = _WIDER * (2.0 + np.maximum(np.abs(low), np.abs(high)))
        below, above = np.floor(low + rest + 0.5 - margin), np.floor(high + rest + 0.5 + margin)
        result: Floats = (whole + below) * grid
        sure = moderate & (below == above) & (np.abs(below) < _WHOLE) & (scale / grid < _WHOLE)
    for i in np.flatnonzero(~sure).tolist():
        value, ratio = rational(values[i].item()) / rational(grid), rational(scale) / rational(grid)
        result[i] = _as_float(_nearest(value, ratio, noise, entries.draw(i, words)) * Fraction(grid))
    return result


def _split(values: Numbers, grid: float) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """values / grid as a whole number and a rest in [0, 1), both exact where the third is True."""
    floats = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        multiples = floats / grid  # by a power of two: exact unless beyond the floats or below them
        whole = np.floor(multiples)
        same = floats == values if values.dtype != np.int64 else np.abs(floats) < _WHOLE
        exact = same & (np.abs(multiples) < _WHOLE) & ((np.abs(multiples) > _TINY) | (floats == 0))
        return whole, multiples - whole, exact


def _as_float(value: Fraction) -> float:
    """The nearest float, the largest where it is beyond."""
    largest = sys.float_info.max
    return float(min(max(value, -Fraction(largest)), Fraction(largest)))


def scaled(noise: Noise, scale: float, words: Words, level: Indices | None = None) -> tuple[Floats, Floats]:
    """Bounds on scale * isf(V) up to two roundings, for words of any shape; V = 2^-level * 0.w, of level 0 if None."""
    nothing = np.zeros(words.shape)
    low, high = contest_bounds(noise, nothing, nothing.astype(np.int64) if level is None else level, words)
    return low * scale, high * scale


def certain(low: Floats, high: Floats, sizes: Floats) -> tuple[NDArray[np.bool_], Indices]:
    """Where the sum is certainly positive, and where its sign is not certain; `sizes` bounds the terms that are not in them."""
    positive = low > _WIDER * (sizes + np.abs(low)) + _TINY
    negative = high < -_WIDER * (sizes + np.abs(high)) - _TINY
    return positive, np.flatnonzero(~(positive | negative))


def subtracted(values: Numbers, minus: Sequence[Numbers]) -> Floats:
    """values less all of `minus`, as float64, up to a few roundings of what `size_bound` returns."""
    if _whole(values, minus):
        middle, minus = _whole_difference(values, minus[0]), minus[1:]
    else:
        middle = values.astype(np.float64)
    for part in minus:
        middle = middle - part
    return middle


def size_bound(middle: Floats, values: Numbers, minus: Sequence[Numbers]) -> Floats:
    """What the roundings of `subtracted` are relative to: the sum of the sizes of the terms."""
    parts = minus[1:] if _whole(values, minus) else (values, *minus)
    return np.asarray(np.abs(middle) + 2.0 * sum(np.abs(part.astype(np.float64)) for part in parts))


def _whole(values: Numbers, minus: Sequence[Numbers]) -> bool:
    return len(minus) > 0 and values.dtype == np.int64 and minus[0].dtype == np.int64


def _whole_difference(values: NDArray[Any], minus: NDArray[Any]) -> Floats:
    """The difference of 64-bit integers, rounded once: by halves, which do not overflow."""
    half, low = np.int64(32), np.int64(2**32 - 1)
    upper = ((values >> half) - (minus >> half)).astype(np.float64)
    return upper * 2.0**32 + ((values & low) - (minus & low)).astype(np.float64)


def _nearest(value: fmpq, scale: fmpq, noise: Noise, draw: LazyUniform) -> int:
    while True:
        with precision(draw.precision + 64 + _magnitude(value)):
            floor = (arb(value) + arb(scale) * noise.isf_ball(draw.ball()) + arb(0.5)).floor().unique_fmpz()
        if floor is not None:
            return int(floor)
        draw.extend()


def _magnitude(value: fmpq) -> int:
    return abs(int(value.p.bit_length()) - int(value.q.bit_length()))
