"""One of many classes, with probability exactly in proportion to weights that are known by enclosures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpselect.sampling.heights import Floats, Indices, Words
from dpselect.sampling.lazy import LazyUniform, WordSource, precision

Balls = Callable[[], Sequence[arb]]
Flags = NDArray[np.bool_]
_CELL = 53  # bits of a word that float64 holds exactly
_ROUNDING = 2.0**-50  # of the total, for every addition and product


def drawn(low: Floats, high: Floats, weights: Balls, count: int, words: WordSource) -> Indices:
    """(count,) columns, each with probability exactly in proportion to its weight. Theorem X9."""
    first = words(count)
    column, certain = picked(low, high, first)
    for i in np.flatnonzero(~certain).tolist():
        column[i] = refined(int(first[i]), weights, words)
    return column


def picked_rows(low: Floats, high: Floats, words: Words) -> tuple[Indices, Flags]:
    """(rows,) the column on which a word falls, and whether that is certain, from (rows, columns) bounds on ln(weight).

    A column of weight zero has both bounds -inf, and is never picked. Every row has a column of finite bounds. Theorem X9.
    """
    sums, slack = _cumulated(low, high)
    place = uniforms(words)[:, None] * sums[:, -1:]
    distance = np.abs(sums[:, :-1] - place).min(axis=1, initial=np.inf)
    return (sums[:, :-1] <= place).sum(axis=1), np.asarray(distance > slack)


def picked(low: Floats, high: Floats, words: Words) -> tuple[Indices, Flags]:
    """(count,) the same for many words and one row of (columns,) bounds."""
    sums, slack = _cumulated(low[None], high[None])
    place = uniforms(words) * sums[0, -1]
    edges = np.concatenate([[-np.inf], sums[0, :-1], [np.inf]])
    column = np.searchsorted(edges, place, side="right") - 1
    return column, np.asarray(np.minimum(place - edges[column], edges[column + 1] - place) > slack[0])


def _cumulated(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """(rows, columns) running sums of the weights, up to a factor a row, and (rows,) how far a sum may be off."""
    weights = np.exp(high - high.max(axis=1, keepdims=True))
    with np.errstate(invalid="ignore"):
        missing = (weights * np.where(high == -np.inf, 0.0, -np.expm1(low - high))).sum(axis=1)
    sums = np.cumsum(weights, axis=1)
    total = sums[:, -1]
    slack = 2.0 * missing + total * ((low.shape[1] + 16) * _ROUNDING)
    return sums, np.where(missing < 0.25 * total, slack, np.inf)


def uniforms(words: Words) -> Floats:
    """The lower ends of the cells of 2^-53 in which the first bits put a uniform number."""
    return np.asarray((words >> np.uint64(64 - _CELL)).astype(np.float64) * 2.0**-_CELL)


def flipped(chance: Floats, error: Floats, words: Words) -> tuple[Flags, Indices]:
    """(count,) True with a probability whose logarithm lies within `error` of `chance`, and where that is not certain."""
    place = uniforms(words)
    accepted = place + 2.0**-_CELL <= np.exp(chance - error) * (1.0 - _ROUNDING)
    refused = place >= np.exp(chance + error) * (1.0 + _ROUNDING)
    return accepted, np.flatnonzero(~(accepted | refused))


def refined(word: int, weights: Balls, source: WordSource) -> int:
    """The column for one word, drawing bits until it is certain. `weights()` are balls that shrink with Arb's precision."""
    draw = LazyUniform(source, word=word)
    while True:
        with precision(draw.precision):
            column = _column(draw.ball(), weights())
        if column is not None:
            return column
        draw.extend()


def _column(place: arb, weights: Sequence[arb]) -> int | None:
    """The column that the cell lies in, None where it is not certain."""
    place = place * sum(weights, arb(0))
    upto = arb(0)
    for column, weight in enumerate(weights):
        upto += weight
        if column == len(weights) - 1 or place < upto:
            return column
        if not place > upto:
            return None
    return None
