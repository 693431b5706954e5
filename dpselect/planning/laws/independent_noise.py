"""Quality of the mechanisms that add independent noise to every count: by quadrature, but for peeling and two steps, which are
simulated.

The k largest of independent noisy scores, by quadrature: what a release shows on average, without a single draw.

An item is released if fewer than k others stand above its noisy score x and a gate is open at x: always for one-shot noise, above
the threshold for a histogram, and with the chance that a noisy threshold lies below x for a limited domain. The number of others
above x is a sum of independent yes and no, whose law follows from its characteristic function (Hong 2013: exact but for rounding)
up to k = 25, and by the refined normal approximation with the skewness (Volkova 1996) beyond. Integrals over x are midpoint sums
whose cells have the noise's exact mass. The tests hold the errors that are stated against simulation and exact laws.

Mechanisms that test whether a set is stable are exact as well, but for the picks of StableTopKFixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
import scipy
from numpy.typing import NDArray

from dpselect import mechanisms
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import LargeMargin, StabilityTest, StableTopK, StableTopKFixed, TopStable
from dpselect.noise import Noise, NoiseName, by_name
from dpselect.planning.laws.base import Floats, Indices, Levels, Outcomes, Runs, chunks
from dpselect.sensitivity import Norm

Complex = NDArray[np.complex128]
Gate = Callable[[Floats], Floats]

ERROR, ROUGH = 2e-3, 1e-2  # of every mean that is reported; where gaps are wide beside the noise, so that the grid has to skip
_EXACT_UP_TO = 25  # k: beyond it the law of the number above is smooth
_COARSE = 3  # cells per scale of the noise
_SCALES = 75  # the most that the grid is long
_WIDE = 12.0  # scales around a score beyond which its noisy score is unlikely
_SETTLED = 5.0  # standard deviations beyond which a count is as good as certain
_LIKELY = 0.02  # an item less likely above the grid's points enters the laws by its first powers
_POWERS = range(1, 7)
_GRAIN = 0.1  # of the noise: scores of wrong items that are closer count as equal
_FEWEST, _PLACES = 20, 3000  # runs of a quick look, and places that they fill
_MISSED = 1e-3  # items that may be discovered and are left out, on average
_DROPPED = 1e-9  # most probability, per run, that an item that is left out would have been released
_LOWEST = 1e-12  # chance that a noise lies below where it is taken to lie at least


def oneshot(mechanism: mechanisms.OneshotTopK, levels: Levels, runs: Runs) -> Outcomes:
    """Of all noisy counts the k largest."""
    return _contest(levels, mechanism.noise, mechanism.scale).outcomes(runs, ordered=mechanism.ordered)


def noisy_max(mechanism: mechanisms.ReportNoisyMax, levels: Levels, runs: Runs) -> Outcomes:
    """Of all noisy counts the largest."""
    return _contest(levels, mechanism.noise, mechanism.scale).outcomes(runs, ordered=True)


def exponential(mechanism: mechanisms.ExponentialMechanism, levels: Levels, runs: Runs) -> Outcomes:
    """The exponential mechanism is Gumbel noise."""
    return _contest(levels, "gumbel", mechanism.sensitivity.range / mechanism.epsilon).outcomes(runs, ordered=True)


def permute_and_flip(mechanism: mechanisms.PermuteAndFlip, levels: Levels, runs: Runs) -> Outcomes:
    """Permute-and-flip is exponential noise."""
    return _contest(levels, "exponential", mechanism.sensitivity.range / mechanism.epsilon).outcomes(runs, ordered=True)


def peeling(mechanism: mechanisms.PeelingTopK, levels: Levels, runs: Runs) -> Outcomes:
    """k rounds with fresh noise; Gumbel noise need not be drawn afresh."""
    if mechanism.noise == "gumbel":
        return _contest(levels, "gumbel", mechanism.scale).outcomes(runs, ordered=True)
    race = Race(levels, by_name(mechanism.noise), mechanism.scale, runs.generator(), picks=mechanism.k)
    rounds = runs.within(10 * mechanism.k * race.width).count
    drawn = np.concatenate([race.peeled(count) for count in chunks(rounds, race.width)])
    return Outcomes.of_items(drawn, levels, ordered=True)


def limited_domain(mechanism: mechanisms.LimitedDomain, levels: Levels, runs: Runs) -> Outcomes:
    """The noisy top kbar, cut off by a noisy threshold."""
    first, bar = levels.cut(0, mechanism.kbar), float(levels.value(mechanism.kbar + 1)) + mechanism.margin
    scale, gumbel = 1 / mechanism.epsilon, by_name("gumbel")

    def gate(x: Floats) -> Floats:
        return gumbel.cdf((x - bar) / scale)

    kept = _competing(first, gumbel, scale)
    return Contest(kept, gumbel, np.full(len(kept.values), scale), gate=gate).outcomes(runs, ordered=True)


def histogram(mechanism: mechanisms.SparseHistogram, levels: Levels, runs: Runs) -> Outcomes:
    """Of the noisy counts above the threshold the k largest."""
    contest = replace(_contest(levels, mechanism.noise, mechanism.scale), opens=mechanism.threshold)
    return contest.outcomes(runs, ordered=True)


def discovered(mechanism: mechanisms.DiscoverThenSelect, levels: Levels, runs: Runs) -> Outcomes:
    """Simulated: the first noisy scores above a threshold, then the largest of new ones, users clipped anew within the first."""
    find, select = mechanism.discovery, mechanism.selection
    if not (isinstance(find, mechanisms.SparseHistogram) and isinstance(select, mechanisms.OneshotTopK)):
        raise InvalidRequest("DiscoverThenSelect is planned with a SparseHistogram and a OneshotTopK only")
    # How many levels may be among those that are discovered; a thousandth of an item is left out on average.
    spread = np.zeros(len(levels.values)) if levels.spread is None else levels.spread
    noise, scale = by_name(find.noise), np.hypot(find.scale, spread)
    last = min(mechanism.candidates, levels.size)
    bar = float(levels.value(last)) - find.scale * float(noise.isf(_MISSED / last))  # some item of the best so low, hardly ever
    chances = levels.multiplicities * noise.sf((max(find.threshold, bar) - levels.values) / scale)
    near = int((np.cumsum(chances[::-1])[::-1] > _MISSED).sum())
    if near == 0:
        return Outcomes.of_items(np.full((2, levels.k), -1), levels, ordered=select.ordered)
    members = levels.multiplicities[:near]
    item, first = np.repeat(np.arange(near), members), np.stack([levels.values, spread])[:, :near]
    second = first
    if levels.again is not None and mechanism.again is not None:
        norm: Norm = "l2" if find.covers.l1 is None else "l1"
        second = np.stack(levels.again(mechanism.candidates, near, mechanism.again, norm))
    rng, drawn, among = runs.generator(), [], min(mechanism.candidates, len(item))
    rounds = runs.count if runs.fine else min(runs.count, max(_FEWEST, _PLACES // levels.k))
    for count in chunks(rounds, len(item)):
        seen = _noisy(first[:, item], find.noise, find.scale, count, rng)
        seen[seen <= find.threshold] = -np.inf
        chosen = _noisy(second[:, item], select.noise, select.scale, count, rng)
        chosen[seen < np.partition(seen, -among, axis=1)[:, -among, None]] = -np.inf
        chosen[np.isneginf(seen)] = -np.inf
        drawn.append(_best(chosen, item, levels.k))
    return Outcomes.of_items(np.concatenate(drawn), levels, ordered=select.ordered)


def _noisy(seen: Floats, noise: NoiseName, scale: float, count: int, rng: np.random.Generator) -> Floats:
    """(count, items) scores from (2, items) means and spreads."""
    shape = (count, seen.shape[1])
    if noise == "gaussian":
        return seen[0] + np.hypot(scale, seen[1]) * rng.standard_normal(shape)
    return np.asarray(seen[0] + seen[1] * rng.standard_normal(shape) + scale * by_name(noise).isf(1 - rng.random(shape)))


def _best(scores: Floats, item: Indices, k: int) -> Indices:
    """(rows, k) levels of the largest scores, largest first; -1 where there are none but -inf."""
    width = min(k, scores.shape[1])
    best = np.argpartition(-scores, width - 1, axis=1)[:, :width]
    best = np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1), axis=1)
    chosen = np.full((len(scores), k), -1, dtype=np.int64)
    chosen[:, :width] = np.where(np.isneginf(np.take_along_axis(scores, best, axis=1)), -1, item[best])
    return chosen


def _contest(levels: Levels, noise: NoiseName, scale: float) -> Contest:
    spread = 0.0 if levels.spread is None else float(levels.spread.max())
    kept = _competing(levels, by_name(noise), math.hypot(scale, spread))
    # Only Gaussian noise comes with a spread: variances add up.
    scales = np.full(len(kept.values), scale) if kept.spread is None else np.hypot(scale, kept.spread)
    return Contest(kept, by_name(noise), scales)


def _competing(levels: Levels, noise: Noise, scale: float) -> Levels:
    count = _relevant(levels, noise, scale, min(levels.k, levels.size))
    return levels.cut(0, int(levels.ends[min(count, len(levels.ends)) - 1])).thinned(_GRAIN * scale)


@final
class Race:
    """Simulated top-k selection among levels of equal counts, many runs at once, for one ranking and one noise.

    Of the items that share a count only the largest noises matter, and those are drawn directly: the largest of M has the law of
    F^-1(U^(1/M)), the next one of those left below it that of the same with the range cut, and so on. The runs therefore cost as
    many draws as there are levels, not items, and have the law of the mechanisms' own draws (a test compares the two).

    Levels so low that any of their items is among the `picks` released with probability 1e-9 at most are left out.
    """

    def __init__(self, levels: Levels, noise: Noise, scale: float, rng: np.random.Generator, *, picks: int) -> None:
        kept = _relevant(levels, noise, scale, picks)
        self._values, self._multiplicities = levels.values[:kept], levels.multiplicities[:kept]
        self._noise, self._scale, self._rng, self._picks = noise, scale, rng, picks

    @property
    def width(self) -> int:
        """How many levels compete."""
        return len(self._values)

    def one_shot(self, rounds: int) -> Indices:
        """(rounds, picks) levels of the largest noisy counts, largest first, all noise drawn once."""
        picks = self._picks
        heads = self._first(np.broadcast_to(self._multiplicities, (rounds, self.width)))
        heights = self._values + self._scale * self._above(heads)
        # A level can only supply one of the highest if its own highest is among them.
        everyone = np.broadcast_to(np.arange(self.width), heights.shape)
        ahead = np.argpartition(-heights, picks - 1, axis=1)[:, :picks] if picks < self.width else everyone
        heads, heights = (np.take_along_axis(array, ahead, axis=1) for array in (heads, heights))
        left, row = self._multiplicities[ahead], np.arange(rounds)
        chosen = np.empty((rounds, picks), dtype=np.int64)
        for place in range(picks):
            best = np.argmax(heights, axis=1)
            chosen[:, place] = ahead[row, best]
            left[row, best] -= 1
            heads[row, best] += self._first(left[row, best])
            heights[row, best] = self._values[ahead[row, best]] + self._scale * self._above(heads[row, best])
        return chosen

    def peeled(self, rounds: int) -> Indices:
        """(rounds, picks) levels of as many winners, each removed before the noise is drawn afresh."""
        left, row = np.tile(self._multiplicities, (rounds, 1)), np.arange(rounds)
        chosen = np.empty((rounds, self._picks), dtype=np.int64)
        for place in range(self._picks):
            heights = self._values + self._scale * self._above(self._first(left))
            chosen[:, place] = best = np.argmax(heights, axis=1)
            left[row, best] -= 1
        return chosen

    def _first(self, left: Indices) -> Floats:
        """ln U^(1/left), elementwise; -inf where none is left."""
        drawn = np.log1p(-self._rng.random(left.shape)) / np.maximum(left, 1)
        return drawn if left.all() else np.where(left > 0, drawn, -np.inf)

    def _above(self, log_cdf: Floats) -> Floats:
        """The noise whose log cdf this is."""
        if self._noise.name == "gumbel":
            return self._noise.log_quantile(log_cdf)
        return np.where(np.isneginf(log_cdf), -np.inf, self._noise.isf(-np.expm1(log_cdf)))


def _relevant(levels: Levels, noise: Noise, scale: float, picks: int) -> int:
    """How many of the highest levels can matter for the picks, but for a probability of 1e-9."""
    floor = float(noise.quantile(_LOWEST / picks)) if noise.lower == -np.inf else noise.lower
    lead = (float(levels.value(picks)) - levels.values) / scale + floor
    chances = picks * levels.multiplicities * noise.sf(lead)
    below = np.cumsum(chances[::-1])[::-1]
    return max(int((below > _DROPPED).sum()), int(np.searchsorted(levels.ends, picks)) + 1)


@final
@dataclass(frozen=True, eq=False)
class Contest:
    """Who competes, with which noise, and when a noisy score counts.

    Attributes:
        levels: seen scores; those that cannot matter are left out.
        noise: the law of the noise.
        scales: (levels,) its scale, in score units.
        opens: the lowest noisy score that may be released; -inf without a threshold.
        gate: the chance that a noisy score of x may be released.
        cells: of the grid, per scale of the noise.
    """

    levels: Levels
    noise: Noise
    scales: Floats
    opens: float = -math.inf
    gate: Gate | None = None
    cells: int = 8

    def outcomes(self, runs: Runs, *, ordered: bool) -> Outcomes:
        """One outcome: the means. Without `runs.fine` the grid is coarser."""
        if not runs.fine:
            return replace(self, cells=_COARSE).outcomes(replace(runs, fine=True), ordered=ordered)
        worths = self.levels.rights, self.levels.truth * self._members, self._members
        hits, kept, released = self._means(np.stack(worths, axis=1)).tolist()
        k, best, gated = self.levels.k, self.levels.best, self.gate is not None or self.opens > -math.inf
        skips = self.cells < Contest.cells or len(self._edges) > self._most
        return Outcomes(
            exact_set=_one(self._exact_set()),
            recall=_one(hits / k),
            kept=_one(kept / best if best > 0 else 1.0),
            released=_one(released / k if gated else 1.0),
            in_place=_one(self._in_place() / k) if ordered and runs.places else None,
            weights=np.ones(1),
            error=ROUGH if skips else ERROR,
        )

    @cached_property
    def _members(self) -> Floats:
        return self.levels.multiplicities.astype(np.float64)

    # -- the grid -----------------------------------------------------------------------------------------------------

    def _above(self, x: Floats) -> Floats:
        """(points, levels) chance that an item's noisy score exceeds x."""
        return self.noise.sf((x[:, None] - self.levels.values) / self.scales)

    @cached_property
    def _edges(self) -> Floats:
        """Ends of the cells, between an x above which k places are never taken and one below which they always are."""
        low, high = self._reach(self.levels.k + _SETTLED * math.sqrt(self.levels.k + 1) + 15), self._reach(1e-9)
        low, high = max(low, self.opens), max(high, self.opens)
        width = float(self.scales.min()) / self.cells
        cells = int(min(self._most, max(8, (high - low) / width)))
        return np.linspace(low, high, cells + 1) if cells < self._most else self._busy(low, high)

    @property
    def _most(self) -> int:
        return _SCALES * self.cells

    def _reach(self, count: float) -> float:
        """The x above which this many are expected; of all, the lowest that matters."""
        tail = 45.0 * float(self.scales.max())
        low, high = float(self.levels.values[-1]) - tail, float(self.levels.values[0]) + tail
        for _ in range(50):
            middle = (low + high) / 2
            expected = float(self._above(np.array([middle]))[0] @ self._members)
            low, high = (middle, high) if expected > count else (low, middle)
        return low

    def _busy(self, low: float, high: float) -> Floats:
        """A grid that is fine where noisy scores lie, for rankings whose gaps are wide beside the noise."""
        reach = _WIDE * self.scales
        starts, ends = np.sort(self.levels.values - reach), np.sort(self.levels.values + reach)
        marks = np.unique(np.clip(np.concatenate([[low, high], starts, ends]), low, high))
        middles = (marks[1:] + marks[:-1]) / 2
        inside = np.searchsorted(starts, middles) > np.searchsorted(ends, middles)
        # Gaps in which no noisy score is likely get a hundredth of the cells.
        spent = np.concatenate([[0.0], np.cumsum(np.diff(marks) * np.where(inside, 1.0, 0.01))])
        return np.interp(np.linspace(0, spent[-1], self._most + 1), spent, marks)

    @cached_property
    def _middles(self) -> Floats:
        return (self._edges[1:] + self._edges[:-1]) / 2

    @cached_property
    def _chances(self) -> Floats:
        """(cells, levels) chance to be above the middle of each cell."""
        return self._above(self._middles)

    @cached_property
    def _masses(self) -> Floats:
        """(cells, levels) chance that one item's noisy score lies in each cell."""
        return -np.diff(self._above(self._edges), axis=0)

    @cached_property
    def _open(self) -> Floats:
        """(cells,) the gate; a threshold is an edge of the grid."""
        return np.ones(len(self._middles)) if self.gate is None else self.gate(self._middles)

    # -- means --------------------------------------------------------------------------------------------------------

    def _means(self, worths: Floats) -> Floats:
        """(kinds,) expected sums of worth over the released, from (levels, kinds) worths of each level's members together."""
        beyond = self._above(self._edges[-1:])[0]  # above the grid nothing stands in an item's way
        late = 1.0 if self.gate is None else float(self.gate(self._edges[-1:])[0])
        # The chance that fewer than k others stand above the cell, for one member of each level.
        last = self.levels.k - 1
        room = _others_at_most(self._chances, self._members, last) if self._smooth else self._sums.without_one(0, last)
        return np.asarray(self._open @ ((self._masses * room) @ worths) + late * (beyond @ worths))

    @property
    def _smooth(self) -> bool:
        return self.levels.k > _EXACT_UP_TO

    @cached_property
    def _sums(self) -> _Sums:
        return _Sums(self._chances, self._members)

    def _exact_set(self) -> float:
        """The chance that the k largest are all right: the k-th of the right ones beats all wrong ones and the gate."""
        right, wrong = self.levels.rights, self._members - self.levels.rights
        silent = _log(1 - self._chances) @ wrong  # ln of the chance that no wrong one is above
        kept = right > 0
        chances, members = self._chances[:, kept], right[kept]
        last = np.exp(np.minimum(self._last(chances, members) + silent[:, None], 0.0))
        return min(1.0, float((self._masses[:, kept] * last) @ members @ self._open))

    def _last(self, chances: Floats, members: Floats) -> Floats:
        """(cells, levels) ln of the chance that k - 1 of the other right items are above."""
        k = self.levels.k
        if int(members.sum()) == k:
            return (_log(chances) @ members)[:, None] - _log(chances)
        if self._smooth:
            upto, below = (_others_at_most(chances, members, most) for most in (k - 1, k - 2))
            return _log(upto - below)
        return _log(_Sums(chances, members).without_one(k - 1, k - 1))

    def _in_place(self) -> float:
        """The expected number of places that hold an item of the true count of that rank."""
        first, last = self.levels.places
        kept = np.flatnonzero((self.levels.rights > 0) & (first < self.levels.k))
        first, last = first[kept], np.minimum(last[kept], self.levels.k - 1)
        beyond = float(self._above(self._edges[-1:])[0, kept] @ (self._members[kept] * (first == 0)))
        places = zip(kept.tolist(), first.tolist(), last.tolist(), strict=True)
        room = np.stack([self._sums.without(*place) for place in places], axis=1)  # the normal law is too coarse for one rank
        return float(((self._masses[:, kept] * room) @ self._members[kept]) @ self._open + beyond)


def _log(chances: Floats) -> Floats:
    """ln, of 0 so low that it stays hopeless however it is corrected."""
    return np.log(np.maximum(chances, 1e-300))


def _others_at_most(chances: Floats, members: Floats, most: int) -> Floats:
    """(points, levels) chance that at most this many others are above, but one member of each level: refined normal."""
    spread = chances * (1 - chances)
    skew = spread * (1 - 2 * chances)
    mean = (chances @ members)[:, None] - chances
    variance = np.maximum((spread @ members)[:, None] - spread, 1e-12)
    third = (skew @ members)[:, None] - skew
    deviation = np.sqrt(variance)
    z = (most + 0.5 - mean) / deviation
    correction = third / (6 * variance * deviation) * (1 - z * z) * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return np.clip(scipy.special.ndtr(z) + correction, 0.0, 1.0)


@final
class _Sums:
    """The number of independent successes, by its characteristic function: of (points, levels) chances (levels,) members each."""

    def __init__(self, chances: Floats, members: Floats) -> None:
        self._chances, self._members = chances, members
        mean = chances @ members
        deviation = np.sqrt((chances * (1 - chances)) @ members)
        # Counts beyond the largest that is likely wrap round: an odd number of frequencies keeps 1 - p + p z away from 0.
        self._size = 2 * (int(np.max(mean + 10 * deviation, initial=0.0)) // 2 + 20) + 1
        self._z = np.exp(-2j * np.pi * np.arange(self._size // 2 + 1) / self._size)

    @cached_property
    def _likely(self) -> Indices:
        return np.flatnonzero(self._chances.max(axis=0, initial=0.0) > _LIKELY)

    @cached_property
    def _law(self) -> Complex:
        """(points, frequencies) the characteristic function of the whole sum."""
        shift = self._z - 1
        is_rare = self._chances.max(axis=0, initial=0.0) <= _LIKELY
        rare, members = self._chances[:, is_rare], self._members[is_rare]
        # Sums of a few terms, and not by BLAS (see `_chance`).
        logs = np.zeros((len(rare), len(shift)), dtype=np.complex128)
        for power in _POWERS:
            logs += np.einsum("xl,l->x", rare**power, members * (-1.0) ** (power + 1) / power)[:, None] * shift**power
        found: Complex = np.exp(logs)
        for level in self._likely.tolist():
            found *= (1 + self._chances[:, level, None] * shift) ** self._members[level]
        return found

    def without_one(self, first: int, last: int) -> Floats:
        """(points, levels) chance of first, ..., last successes among all but one member of each level."""
        whole, at_last = self._chance(self._law, first, last)[:, None], self._chance(self._law, last, last)[:, None]
        # Of an unlikely one, to first order: it is above with chance p, and then the others must be one fewer.
        lost = self._chance(self._law, first - 1, first - 1)[:, None] if first else 0.0
        found = np.clip(whole + self._chances * (at_last - lost), 0.0, 1.0)
        for level in self._likely.tolist():
            found[:, level] = self.without(level, first, last)
        return found

    def without(self, level: int, first: int, last: int) -> Floats:
        """(points,) the same for one level."""
        one = 1 + self._chances[:, level, None] * (self._z - 1)
        return self._chance(self._law / one, first, last)

    def _chance(self, law: Complex, first: int, last: int) -> Floats:
        counts = np.arange(first, min(last, self._size - 1) + 1)
        inverse = np.exp(2j * np.pi * np.outer(np.arange(len(self._z)), counts) / self._size).sum(axis=1)
        inverse[1:] *= 2  # the other half of the frequencies is the conjugate
        # Not by BLAS, whose threads wait for each other longer than such small products take.
        real = np.einsum("xf,f->x", law.real, inverse.real) - np.einsum("xf,f->x", law.imag, inverse.imag)
        return np.clip(real / self._size, 0.0, 1.0)


def _one(value: float) -> Floats:
    return np.array([min(1.0, max(0.0, value))])


def stability_test(mechanism: StabilityTest, levels: Levels) -> Outcomes:
    """The top k or nothing."""
    chance = float(mechanism.rule.pass_probability(levels.gaps(mechanism.k)[-1:])[0])
    return Outcomes.of_tops(np.array([mechanism.k, 0]), np.array([chance, 1 - chance]), levels)


def stable_top_k(mechanism: StableTopK, levels: Levels) -> Outcomes:
    """The top j for a chosen j, or nothing."""
    sizes, chances = _stable_sizes(mechanism, levels)
    return Outcomes.of_tops(sizes, chances, levels)


def top_stable(mechanism: TopStable, levels: Levels) -> Outcomes:
    """The top i for the first i that passes; of more than k, k at random."""
    order = mechanism.search_order(mechanism.kbar)
    distances = levels.gaps(mechanism.kbar)[order - 1] - 1
    chances = mechanism.rule.first_law(distances - mechanism.rule.threshold)
    return Outcomes.of_tops(np.append(order, 0), chances, levels)


def stable_top_k_fixed(mechanism: StableTopKFixed, levels: Levels, runs: Runs) -> Outcomes:
    """The stable part exactly, the rest by the exponential mechanism."""
    runs = runs.within(mechanism.k * min(mechanism.k, len(levels.values)))
    rng = runs.generator()
    sizes, chances = _stable_sizes(mechanism.stable, levels)
    drawn = rng.choice(sizes, size=runs.count, p=chances / chances.sum())
    items = np.empty((runs.count, mechanism.k), dtype=np.int64)
    for size, rounds in zip(*np.unique(drawn, return_counts=True), strict=True):
        items[drawn == size] = _filled(mechanism, levels, int(size), int(rounds), rng)
    return Outcomes.of_items(items, levels, ordered=False)


def large_margin(mechanism: LargeMargin, levels: Levels, runs: Runs) -> Outcomes:
    """One item, by the exponential mechanism on the top l."""
    rng, rounds = runs.generator(), runs.within(20 * levels.size).count
    drawn = np.empty((rounds, 1), dtype=np.int64)
    rows = max(1, (1 << 20) // levels.size)
    owner = np.repeat(np.arange(len(levels.values)), levels.multiplicities)  # the level of every rank
    dense = levels.values[owner]
    for start in range(0, rounds, rows):
        block = np.broadcast_to(dense, (min(rows, rounds - start), len(dense)))
        drawn[start : start + rows] = owner[mechanism.select_many(block, rng=rng).indices]
    return Outcomes.of_items(drawn, levels, ordered=True)


def _stable_sizes(mechanism: StableTopK, levels: Levels) -> tuple[Indices, Floats]:
    """Sizes 0, ..., kbar and how likely each is released."""
    gaps = levels.gaps(mechanism.kbar)
    passing = mechanism.rank_law(gaps) * mechanism.rule.pass_probability(gaps)
    return np.arange(len(gaps) + 1), np.append(max(0.0, 1 - float(passing.sum())), passing)


def _filled(mechanism: StableTopKFixed, levels: Levels, size: int, rounds: int, rng: np.random.Generator) -> Indices:
    """(rounds, k) levels of the items once the top `size` has passed; 0 if nothing has."""
    k = mechanism.k
    held = np.searchsorted(levels.ends, np.arange(1, size + 1)) if size <= k else np.empty(0, dtype=np.int64)
    items = np.tile(np.pad(held, (0, k - len(held))), (rounds, 1))
    if (wanted := k - len(held)) > 0:
        pool = levels.cut(0, size) if size > k else levels.cut(size)
        skipped = 0 if size > k else int(np.searchsorted(levels.ends, size + 1))
        race = Race(replace(pool, k=wanted), by_name("gumbel"), mechanism.pick_scale(wanted), rng, picks=wanted)
        items[:, len(held) :] = skipped + np.concatenate([race.one_shot(count) for count in chunks(rounds, race.width)])
    return items
