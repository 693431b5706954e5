"""Canonical top-k for many score vectors over few candidates: every class of every row at once. Exact: Theorem M9."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpselect.mechanisms.canonical.classes import TopSet, binomial_ball, half_scores, log_binomial, log_binomial_bounds, totals
from dpselect.mechanisms.canonical.draw import luck, noise_at, noise_bounds
from dpselect.mechanisms.ranks import half_below
from dpselect.noise import by_name
from dpselect.noise.base import Noise
from dpselect.sampling import Sampler
from dpselect.sampling.estimates import estimates
from dpselect.sampling.heights import Indices, Numbers, Words
from dpselect.sampling.lazy import LazyUniform, WordSource, rational
from dpselect.sampling.race import Runner, Wait, winner

_CELLS = 1 << 18
_LEAST = 2.0**-900  # scales below may lose scores to underflow
_MARGIN, _ROUNDING = 2.0**-14, 2.0**-44  # noise units, and of a height: estimates so far apart are in their numbers' order


@final
@dataclass(frozen=True)
class RowDraw:
    """What is asked of every row: canonical top-k with these parameters, and scale * noise on the score of a set."""

    k: int
    gamma: float
    top_set: TopSet
    noise: Noise
    scale: float


@final
class _Layout:
    """(classes,) the ranks that say which sets are in each class, the true top set last, and n and r of its size C(n, r)."""

    def __init__(self, asked: RowDraw, candidates: int) -> None:
        k, gamma = asked.k, asked.gamma
        held = np.repeat(np.arange(k if gamma < 1 else 1), candidates - k)
        lowest = np.tile(np.arange(k + 1, candidates + 1), k if gamma < 1 else 1)
        self.n = np.append(lowest - held - 2 if gamma < 1 else lowest - 1, 0)
        self.r = np.append(k - held - 1 if gamma < 1 else np.full(len(lowest), k - 1), 0)
        self.held, self.lowest = np.append(held, k), np.append(lowest, k)
        top = k if asked.top_set == "tied" else min(k + 1, candidates)
        self.missing = np.append(held + 1, top)


def class_count(candidates: int, k: int, gamma: float) -> int:
    """Number of classes."""
    return (candidates - k) * (k if gamma < 1 else 1) + 1


def draw_rows(matrix: Numbers, asked: RowDraw, source: Sampler) -> Indices:
    """(rounds, k) positions in ascending order for a (rounds, m) matrix of scores."""
    step = max(1, _CELLS // max(class_count(matrix.shape[1], asked.k, asked.gamma), matrix.shape[1]))
    return np.concatenate([_block(matrix[i : i + step], asked, source) for i in range(0, len(matrix), step)])


def _block(matrix: Numbers, asked: RowDraw, source: Sampler) -> Indices:
    order = np.argsort(matrix[:, ::-1], axis=1, kind="stable")[:, ::-1]
    order = matrix.shape[1] - 1 - order
    ranked: Numbers = np.take_along_axis(matrix, order, axis=1)  # type: ignore[assignment]
    layout = _Layout(asked, matrix.shape[1])
    chosen = _winners(ranked, layout, asked, source.words)
    ranks = _members(matrix.shape, layout.held[chosen], layout.lowest[chosen], asked, source.words)
    return np.sort(np.take_along_axis(order, ranks, axis=1), axis=1)


def _winners(ranked: Numbers, layout: _Layout, asked: RowDraw, words: WordSource) -> Indices:
    """(rounds,) the class that wins each row."""
    with np.errstate(all="ignore"):
        heights = half_below(ranked, ranked[:, :1]) / (0.5 * asked.scale)
    drawn = words(len(ranked) * len(layout.n))
    g, wide = estimates(by_name("gumbel"), drawn)
    shape = (len(ranked), len(layout.n))
    total = noise_at(asked.noise, g.reshape(shape) + log_binomial(layout.n, layout.r))
    with np.errstate(all="ignore"):
        total += asked.gamma * heights[:, layout.lowest - 1] - (1 - asked.gamma) * heights[:, layout.missing - 1]
        chosen = np.argmax(total, axis=1)
        # The lowest score bounds the rounding of all.
        slack = _MARGIN + _ROUNDING * np.abs(heights[:, -1]) if asked.scale >= _LEAST else np.full(len(total), np.inf)
        rivals = (total >= (total[np.arange(len(total)), chosen] - slack)[:, None]).sum(axis=1) > 1
    rivals[wide // shape[1]] = True
    for row in np.flatnonzero(rivals | ~np.isfinite(slack)).tolist():
        chosen[row] = _settled(ranked[row], layout, asked, drawn.reshape(shape)[row], words)
    return chosen


def _settled(ranked: Numbers, layout: _Layout, asked: RowDraw, drawn: Words, words: WordSource) -> int:
    """The winner of one row, whose words are drawn, certain of every comparison."""
    noise = noise_bounds(asked.noise, *luck(drawn, log_binomial_bounds(layout.n, layout.r)))
    heights = half_below(ranked, ranked[0])
    scores = half_scores(heights[layout.lowest - 1], heights[layout.missing - 1], asked.gamma)
    low, high = totals(scores, noise, asked.scale)
    places = np.flatnonzero(high >= low.max()).tolist()
    runners = [_runner(ranked, layout, asked, place, drawn, words) for place in places]
    return places[winner(runners, asked.noise, rational(asked.scale))]


def _runner(ranked: NDArray[Any], layout: _Layout, asked: RowDraw, place: int, drawn: Words, words: WordSource) -> Runner:
    gamma = rational(asked.gamma)
    least, missing = (rational(ranked[int(ranks[place]) - 1].item()) for ranks in (layout.lowest, layout.missing))
    size = partial(binomial_ball, int(layout.n[place]), int(layout.r[place]))
    return Runner(gamma * least - (1 - gamma) * missing, [Wait(size, LazyUniform(words, word=int(drawn[place])))])


def _members(shape: tuple[int, ...], held: Indices, lowest: Indices, asked: RowDraw, words: WordSource) -> Indices:
    """(rounds, k) ranks, from 0, of a uniformly random member of each row's class."""
    rank = np.arange(1, shape[1] + 1)
    inside = (rank <= held[:, None]) | (rank == lowest[:, None])
    outside = rank > lowest[:, None]
    if asked.gamma < 1:
        outside |= (rank == held[:, None] + 1) & ~inside
    ranks, late = np.empty((shape[0], asked.k), dtype=np.int64), np.arange(shape[0])
    while len(late):
        keys = words(len(late) * shape[1]).reshape(len(late), -1)
        keys[inside[late]], keys[outside[late]] = 0, ~np.uint64(0)
        ranks[late] = np.argpartition(keys, asked.k - 1, axis=1)[:, : asked.k]
        # Where keys are equal at the cut, no random bit says which rank is in: such rows are drawn again.
        cut = np.take_along_axis(keys, ranks[late], axis=1).max(axis=1, keepdims=True)
        late = late[(keys <= cut).sum(axis=1) != asked.k]
    return ranks
