"""The joint exponential mechanism over ordered sequences, drawn as a random level of loss.

Let N(v) be the number of sequences with loss at most v. A level V with density proportional to
exp(-rate v) N(v), followed by a uniformly random sequence of loss at most V, draws each sequence
with probability proportional to exp(-rate loss). If losses are cut at a level tau, V has an atom
there of weight exp(-rate tau) times the number of all sequences; without a cut the same holds at
the largest loss (Theorem M8). Levels are proposed from an envelope: cells of levels, each with a
constant count of sequences. float64 enclosures decide most comparisons, and ball arithmetic with
more bits the rest (Theorem M10).

Losses and levels are halved, and rates doubled, so that no scores make them overflow.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, final

import numpy as np
from flint import arb, fmpq, fmpz
from pydantic import Field

from accounting import BoundedRange, Curve
from accounting.frozen import Count, Positive, Probability
from accounting.numbers import Flags, Floats, Integers
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import rate_down
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.sampling import Sampler
from dpselect.sampling.contest import LazyUniform, Words, WordSource, rational, uniforms
from dpselect.sampling.ranked import Ranked, draw_sequences, half_below
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity
from dpselect.verify.quadrature import require_enumerable

_COMPARED = 2.0**-49  # of |height| + level: above the roundings of a comparison
_TINY = 2.0**-1000  # more than any underflow


@final
class JointTopK(Mechanism):
    """One exponential mechanism over all sequences of k candidates; ordered.

    The loss of a sequence is the largest of (i-th highest score - score in place i). A sequence has
    probability proportional to exp(-rate * loss). Guarantee: BoundedRange(epsilon), whatever k
    (Theorem M7). After Gillenwater, Joseph, Munoz and Ribero (2022).

    Args:
        beta: failure probability of FastJoint. Beyond a level of loss that depends on public
            numbers only, with probability at most beta, the sequence is uniformly random. It has
            the same guarantee and is no quicker, so it serves comparison with the published
            algorithm.
    """

    kind: Literal["joint_top_k"] = "joint_top_k"
    traits: ClassVar[Traits] = Traits(
        answers="top_k", noise=EPSILON, ordered=True, most="k", domain="public"
    )
    k: Count = Field(description="an integer >= 1")
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    beta: Probability | None = Field(default=None, description="a probability in (0, 1), or None")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")

    @property
    def curve(self) -> BoundedRange:
        return BoundedRange(epsilon=self.epsilon)

    @property
    def shared_group_curve(self) -> Curve | None:
        return self.curve

    @property
    def rate(self) -> float:
        """Nats per score unit of loss, rounded down.

        This is epsilon over the range of the loss, which is twice that of the scores if k > 1.
        """
        return rate_down(self.epsilon, self.sensitivity.range * (1 if self.k == 1 else 2))

    def cut(self, candidates: int) -> float:
        """Return the loss at which FastJoint cuts, in score units, or inf without `beta`.

        `candidates` is a public number.
        """
        if self.beta is None:
            return math.inf
        sequences = math.fsum(math.log(candidates - place) for place in range(self.k))
        return (sequences - math.log(self.beta)) / self.rate

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return release(scores, self._draw(scores, 1, source)[0], ordered=True, requested=self.k)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        rows, vector_of_row = np.unique(matrix, axis=0, return_inverse=True)
        best = np.empty((len(matrix), self.k), dtype=np.int64)
        for place, row in enumerate(rows):
            places = np.flatnonzero(vector_of_row.ravel() == place)
            best[places] = self._draw(
                Scores(row, sensitivity=self.sensitivity_bound, kind="utilities"),
                len(places),
                source,
            )
        return Selections(best, ordered=True, requested=self.k)

    def _draw(self, scores: Scores, rounds: int, source: Sampler) -> Integers:
        """Draw (rounds, k) positions, independently, for one score vector."""
        ranked = Ranked(scores.dense())
        levels = AllowedRanks(ranked, self.k, self.rate, self.cut(ranked.size))
        sequences = draw_sequences(levels.draw(rounds, source), source)
        ranks, place = np.unique(sequences, return_inverse=True)
        return ranked.positions(ranks)[place].reshape(sequences.shape)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        dense = scores.dense()
        values = half_below(dense, dense.max())
        require_enumerable(math.perm(len(values), self.k))
        sequences = list(itertools.permutations(range(len(values)), self.k))
        best = np.sort(values)[::-1][: self.k]
        half = (best - values[np.array(sequences)]).max(axis=1)
        with np.errstate(over="ignore"):
            weights = np.exp(-2.0 * (self.rate * np.minimum(half, self.cut(len(values)) / 2)))
        return dict(zip(sequences, (weights / weights.sum()).tolist(), strict=True))


@final
class Counts:
    """Numbers of best ranks that may stand in each of k places at a level of loss.

    Place i takes rank r if x_[i] - x_[r] <= level.
    """

    def __init__(self, ranked: Ranked, k: int) -> None:
        self._ranked, self._size, self._k = ranked, ranked.size, k
        self._top = ranked.half_below_top(np.arange(1, k + 1))
        self.largest_loss: float = math.nextafter(
            float(-ranked.half_below_top([ranked.size])[0]) + _TINY, math.inf
        )

    def bounds_between(self, low: Floats, high: Floats) -> tuple[Integers, Integers]:
        """Return (levels, k) bounds on the counts at every level from low to high, elementwise.

        Both ends have shape (levels,). Theorem M10.
        """
        least = np.maximum(self._reaching(low, self._slack(low)), np.arange(1, self._k + 1))
        return least, self.most(high)

    def most(self, level: Floats) -> Integers:
        """Return (levels, k) upper bounds on the counts at each level."""
        return self._reaching(level, -self._slack(level))

    def margin(self, level: Floats) -> Floats:
        """Return (levels,) distances in level that are certainly distinguished from zero."""
        return 8.0 * (_COMPARED * np.abs(self._top[-1]) + _COMPARED * level + _TINY)

    def jump(self, level: Floats) -> tuple[Floats, Floats]:
        """Return (levels,) the last rise of a count up to each level, and the first rise after.

        Both are rounded, and the latter is inf if there is none.
        """
        count = self.most(level)
        last = (self._top - self._ranked.half_below_top(count)).max(axis=1)
        next_one = self._ranked.half_below_top(np.minimum(count + 1, self._size))
        after = np.where(count < self._size, self._top - next_one, np.inf)
        return last, after.min(axis=1)

    def counts_at(self, level: arb, least: Integers, most: Integers) -> Integers | None:
        """Return (k,) the counts at a level, not halved, known as a ball, between these bounds.

        None if the ball leaves them open.
        """
        counts = least.copy()
        for place in np.flatnonzero(least < most).tolist():
            count = self._rising(level, place, int(least[place]), int(most[place]))
            if count is None:
                return None
            counts[place] = count
        return counts

    def _rising(self, level: arb, place: int, count: int, most: int) -> int | None:
        best = rational(self._ranked.value(place + 1))
        while count < most:
            value = self._ranked.value(count + 1)
            loss: fmpq = best - rational(value)
            if level < arb(loss):
                return count
            if not level > arb(loss):
                return None
            count = self._ranked.reaching(value)
        return count

    def _reaching(self, level: Floats, slack: Floats) -> Integers:
        with np.errstate(over="ignore"):
            return self._ranked.reaching_half(self._top - level[:, None] + slack)

    def _slack(self, level: Floats) -> Floats:
        return np.asarray(_COMPARED * np.abs(self._top) + _COMPARED * level[:, None] + _TINY)


_LOGARITHM = 2.0**-45  # of 1 + the terms of a logarithm: above their roundings
_CELL = 2.0**-53
_FAR = 1e300  # nats beyond which exp(-nats) is zero in any case
# nats; of narrower cells float64 says nothing but that they weigh less than one as wide as this
_NARROW = 2.0**-900


@final
@dataclass(frozen=True)
class Cells:
    """Cells of levels from edges[i] up to edges[i + 1], and one atom beyond the last edge.

    At the atom everything is allowed.
    """

    edges: Floats  # (cells + 1,) half levels
    # (cells, k) ranks allowed in each place; at least as many as at any level of the cell
    allowed: Integers
    everything: Integers  # (k,) the same for the atom
    rate: float  # nats per score unit of loss

    def __len__(self) -> int:
        return len(self.allowed)

    def log_weights(self, allowed: Integers) -> tuple[Floats, Floats]:
        """Return (cells + 1,) ln of the weights of all cells and of the atom, and error bounds.

        The cells have these counts. Cells narrower than `_NARROW` are weighed as if they were that
        wide.
        """
        counts = log_product(np.vstack([allowed, self.everything]))
        spent = np.minimum(self._nats(self.edges), _FAR)
        width = np.append(np.log(-np.expm1(-np.maximum(self._widths(), _NARROW))), 0.0)
        return counts - spent + width, _LOGARITHM * (1.0 + counts + spent + np.abs(width))

    def draw(self, count: int, source: Sampler) -> Integers:
        """Draw (count,) cells by their weights; the atom is the one after the last."""
        value, error = self.log_weights(self.allowed)
        narrow = np.append(self._widths() < _NARROW, False)
        return source.categorical(
            np.where(narrow, -np.inf, value - error), value + error, self._balls, count
        )

    def within(self, cell: Integers, words: Words) -> tuple[Floats, Floats]:
        """Return (count,) bounds on half levels whose density falls exponentially.

        Given the first bits of a uniform number each.
        """
        low, high = self.edges[cell], self.edges[cell + 1]
        place, width = uniforms(words), self._widths()[cell]
        with np.errstate(divide="ignore", over="ignore"):
            share = -np.expm1(-width)
            least = -0.5 * np.log1p(-share * place * (1.0 - _LOGARITHM)) / self.rate
            most = (
                -0.5
                * np.log1p(-np.minimum(share * (place + _CELL) * (1.0 + _LOGARITHM), 1.0))
                / self.rate
            )
            first, last = (
                (low + least) * (1.0 - _LOGARITHM),
                (low + most * (1.0 + _LOGARITHM)) * (1.0 + _LOGARITHM),
            )
        narrow = width < _NARROW
        first, last = np.where(narrow, low, first - _TINY), np.where(narrow, high, last + _TINY)
        return np.clip(first, low, high), np.clip(last, low, high)

    def level(self, cell: int, uniform: arb) -> arb:
        """Return a ball around the level, not halved, from one cell and a ball around a uniform."""
        low, high = self._edge(cell), self._edge(cell + 1)
        rate = rational(self.rate)
        return arb(low) - (uniform * (arb(-rate * (high - low))).expm1()).log1p() / arb(rate)

    def _widths(self) -> Floats:
        """Return (cells,) widths in nats."""
        return self._nats(np.diff(self.edges))

    def _nats(self, half: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(2.0 * (half * self.rate))

    def _balls(self) -> list[arb]:
        rate, edges = rational(self.rate), [self._edge(i) for i in range(len(self.edges))]
        falls = [arb(-rate * edge).exp() for edge in edges]
        counts = [product(row) for row in [*self.allowed, self.everything]]
        steps = [a - b for a, b in zip(falls, [*falls[1:], arb(0)], strict=True)]
        return [arb(count) * step for count, step in zip(counts, steps, strict=True)]

    def _edge(self, i: int) -> fmpq:
        return 2 * rational(float(self.edges[i]))


def product(allowed: Integers) -> fmpz:
    """Number of sequences, if place i, from 0, may take the best allowed[i] ranks."""
    total = fmpz(1)
    for place, ranks in enumerate(allowed.tolist()):
        total *= ranks - place
    return total


def log_product(allowed: Integers) -> Floats:
    """Return (rows,) rounded logarithms of `product` for (rows, k) counts.

    No count is below its place.
    """
    return np.asarray(np.log(allowed - np.arange(allowed.shape[1])).sum(axis=1))


def _flip(chance: Floats, error: Floats, words: Words) -> tuple[Flags, Integers]:
    """Draw (count,) flags that are True with a probability known by its logarithm.

    The logarithm lies within `error` of `chance`. Also returns the places where this leaves the
    flag open.
    """
    place = uniforms(words)
    accepted = place + _CELL <= np.exp(chance - error) * (1.0 - _EXPONENTIAL)
    refused = place >= np.exp(chance + error) * (1.0 + _EXPONENTIAL)
    return accepted, np.flatnonzero(~(accepted | refused))


_WASTE = 0.5  # share of the envelope that may lie above the density
_ROUNDS = 200
_FARTHEST = 2.0**40  # nats: levels beyond are so rare that cells for them are idle
_RATIOS = 2.0**-46  # of k and of a logarithm of a product of k ratios: above its roundings
_EXPONENTIAL = 2.0**-50  # of an exponential: above its rounding and that of the product


@final
class AllowedRanks:
    """N(v) for one score vector, and draws of the ranks allowed at a random level.

    Losses are cut at `cut`, inf for no cut.
    """

    def __init__(self, ranked: Ranked, k: int, rate: float, cut: float) -> None:
        self._counts, self._rate = Counts(ranked, k), rate
        self._all = np.full(k, ranked.size)
        self._places = np.arange(k)
        self.last: float = min(self._counts.largest_loss, 0.5 * cut)
        self._cells = self._refine()

    def draw(self, count: int, source: Sampler) -> Integers:
        """Draw (count, k) numbers of best ranks that may stand in each place.

        The levels are independent.
        """
        rows = np.tile(self._all, (count, 1))
        missing = np.arange(count)
        while len(missing):
            ranks, accepted = self._propose(len(missing), source)
            rows[missing[accepted]] = ranks[accepted]
            missing = missing[~accepted]
        return rows

    def _propose(self, count: int, source: Sampler) -> tuple[Integers, Flags]:
        """Draw allowed ranks at levels from the envelope, and flags of accepted proposals."""
        allowed, accepted = np.tile(self._all, (count, 1)), np.ones(count, dtype=np.bool_)
        cell = self._cells.draw(count, source)
        inside = np.flatnonzero(cell < len(self._cells))
        ranks = self._levels(cell[inside], source.words)
        allowed[inside] = ranks
        accepted[inside] = self._accept(ranks, self._cells.allowed[cell[inside]], source.words)
        return allowed, accepted

    def _levels(self, cell: Integers, words: WordSource) -> Integers:
        """Draw (count, k) allowed ranks at levels that are exponential within their cells."""
        bits = words(len(cell))
        low, high = self._cells.within(cell, bits)
        least, most = self._counts.bounds_between(low, high)
        for i in np.flatnonzero((least != most).any(axis=1)).tolist():

            def counts(uniform: arb, i: int = i) -> Integers | None:
                return self._counts.counts_at(
                    self._cells.level(int(cell[i]), uniform), least[i], most[i]
                )

            least[i] = LazyUniform(words, word=int(bits[i])).decide(counts)
        return least

    def _accept(self, allowed: Integers, envelope: Integers, words: WordSource) -> Flags:
        """Draw (count,) flags, True with probability N at the level over the envelope."""
        chance = np.log((allowed - self._places) / (envelope - self._places)).sum(axis=1)
        error = _RATIOS * (len(self._places) + np.abs(chance))
        bits = words(len(chance))
        accepted, unsure = _flip(chance, error, bits)
        for i in unsure.tolist():
            ratio = fmpq(product(allowed[i]), product(envelope[i]))
            accepted[i] = LazyUniform(words, word=int(bits[i])).below(partial(arb, ratio))
        return accepted

    def _refine(self) -> Cells:
        """Cut levels where N changes, until at most half of the envelope is above the density."""
        steps = min(2.0 * self._rate * self.last, _FARTHEST)
        with np.errstate(over="ignore"):
            growing = 2.0 ** np.arange(-4, math.ceil(math.log2(max(steps, 1)))) / self._rate
        edges = np.unique([0.0, *growing[growing < self.last], self.last])
        for _ in range(_ROUNDS):
            cells = Cells(edges, self._counts.most(edges[1:]), self._all, self._rate)
            # just above the lower edge of each cell: an estimate
            above = edges[:-1] + self._counts.margin(edges[:-1])
            most, least = (
                cells.log_weights(cells.allowed)[0],
                cells.log_weights(self._counts.most(above))[0],
            )
            shift = most.max()
            excess = np.exp(most - shift) - np.exp(least - shift)
            if excess.sum() <= _WASTE * np.exp(most - shift).sum():
                break
            wasteful = np.flatnonzero(excess[:-1] > 0.1 * _WASTE * excess.sum() / len(excess))
            # A level just below a jump of N inside each interval, near its middle.
            low, high = edges[wasteful], edges[wasteful + 1]
            before, after = self._counts.jump((low + high) / 2)
            cuts = np.where(before > low + 2 * self._counts.margin(before), before, after)
            cuts -= self._counts.margin(cuts)
            cuts = cuts[(cuts > low) & (cuts < high)]
            if not len(cuts):
                break
            edges = np.union1d(edges, cuts)
        return cells
