"""Exact decisions about single noisy numbers: above a level or not, and which multiple of a grid is nearest."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from dpselect.noise.base import Noise
from dpselect.sampling.heights import Floats, Indices, Numbers, Words, contest_bounds
from dpselect.sampling.lazy import LazyUniform, Term, WordSource, precision, rational, sign_of_total

_WIDER = 2.0**-48  # of the size of every term: more than the few roundings of their sum
_TINY = 2.0**-1000  # more than any underflow


def exceeds(values: Numbers, noise: Noise, scale: float, level: float, words: WordSource) -> NDArray[np.bool_]:
    """(count,) whether value + scale * Z > level, each with a draw of its own. Theorem X2."""
    drawn = words(len(values))
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = _scaled(noise, scale, drawn)
        sizes = np.abs(values.astype(np.float64)) + abs(level)
        middle = values.astype(np.float64) - level
        result, unsure = _certain(low + middle, high + middle, sizes)
    for i in unsure.tolist():
        rest = rational(values[i].item()) - rational(level)
        result[i] = sign_of_total(rest, noise, [(rational(scale), LazyUniform(words, word=int(drawn[i])))]) > 0
    return result


def passing(above: Floats, noise: Noise, scale: float, answer_scale: float, words: WordSource) -> NDArray[np.bool_]:
    """(rows, m) whether margin + answer_scale * Z > scale * Y, with one Y for every row. Theorem X2."""
    rows = len(above)
    levels, answers = words(rows), words(above.size).reshape(above.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        bottom, top = _scaled(noise, scale, levels)
        low, high = _scaled(noise, answer_scale, answers)
        sizes = np.abs(above) + np.maximum(np.abs(bottom), np.abs(top))[:, None]
        result, unsure = _certain((low + above - top[:, None]).ravel(), (high + above - bottom[:, None]).ravel(), sizes.ravel())
    # A row's level is one number: bits drawn for one comparison are known to the next.
    lazy = {row: LazyUniform(words, word=int(levels[row])) for row in np.unique(unsure // above.shape[1]).tolist()}
    for i in unsure.tolist():
        row, column = divmod(i, above.shape[1])
        own: Term = (rational(answer_scale), LazyUniform(words, word=int(answers[row, column])))
        result[i] = sign_of_total(rational(float(above[row, column])), noise, [own, (-rational(scale), lazy[row])]) > 0
    return result.reshape(above.shape)


def rounded(values: Numbers, noise: Noise, scale: float, grid: float, words: WordSource) -> Floats:
    """(count,) the multiples of `grid` nearest to values + scale * Z. Theorem X7."""
    drawn = words(len(values))
    multiples = [
        _nearest(rational(value) / rational(grid), rational(scale) / rational(grid), noise, LazyUniform(words, word=int(word)))
        for value, word in zip(values.tolist(), drawn, strict=True)
    ]
    return np.array([float(multiple * Fraction(grid)) for multiple in multiples])


def _scaled(noise: Noise, scale: float, words: Words) -> tuple[Floats, Floats]:
    """Bounds on scale * isf(V) up to two roundings."""
    nothing = np.zeros(words.shape)
    low, high = contest_bounds(noise, nothing, nothing.astype(np.int64), words)
    return low * scale, high * scale


def _certain(low: Floats, high: Floats, sizes: Floats) -> tuple[NDArray[np.bool_], Indices]:
    """Where the sum is certainly positive, and where its sign is not certain; `sizes` bounds the terms that are not in them."""
    positive = low > _WIDER * (sizes + np.abs(low)) + _TINY
    negative = high < -_WIDER * (sizes + np.abs(high)) - _TINY
    return positive, np.flatnonzero(~(positive | negative))


def _nearest(value: fmpq, scale: fmpq, noise: Noise, draw: LazyUniform) -> int:
    while True:
        with precision(draw.precision + 64 + _magnitude(value)):
            floor = (arb(value) + arb(scale) * noise.isf_ball(draw.ball()) + arb(0.5)).floor().unique_fmpz()
        if floor is not None:
            return int(floor)
        draw.extend()


def _magnitude(value: fmpq) -> int:
    return abs(int(value.p.bit_length()) - int(value.q.bit_length()))
