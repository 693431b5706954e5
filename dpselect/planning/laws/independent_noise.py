"""Quality of the mechanisms that add independent noise to every count: by quadrature, but for peeling and two steps, which are
simulated.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import final

import numpy as np

from dpselect import mechanisms
from dpselect.errors import InvalidRequest
from dpselect.noise import Noise, NoiseName, by_name
from dpselect.planning.laws.base import Outcomes, Runs, chunks
from dpselect.planning.laws.k_largest import Contest
from dpselect.planning.score_levels import Floats, Indices, Levels, Norm

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
    return Outcomes.of_items(race.peeled(rounds), levels, ordered=True)


def limited_domain(mechanism: mechanisms.LimitedDomain, levels: Levels, runs: Runs) -> Outcomes:
    """The noisy top kbar, cut off by a noisy threshold."""
    first, bar = levels.first(mechanism.kbar), float(levels.value(mechanism.kbar + 1)) + mechanism.margin
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
    near = _near(levels, find, mechanism.candidates)
    if near == 0:
        return Outcomes.of_items(np.full((2, levels.k), -1), levels, ordered=select.ordered)
    members = levels.multiplicities[:near]
    item, first = np.repeat(np.arange(near), members), np.stack([levels.values, _spread(levels)])[:, :near]
    second = first
    if levels.again is not None and mechanism.again is not None:
        norm: Norm = "l2" if find.covers.l1 is None else "l1"
        second = np.stack(levels.again(mechanism.candidates, near, mechanism.again, norm))
    rng, drawn = runs.generator(), []
    rounds = runs.count if runs.fine else min(runs.count, max(_FEWEST, _PLACES // levels.k))
    for count in chunks(rounds, len(item)):
        seen = _noisy(first[:, item], find.noise, find.scale, count, rng)
        seen[seen <= find.threshold] = -np.inf
        chosen = _noisy(second[:, item], select.noise, select.scale, count, rng)
        chosen[seen < _kth(seen, mechanism.candidates)] = -np.inf
        chosen[np.isneginf(seen)] = -np.inf
        drawn.append(_best(chosen, item, levels.k))
    return Outcomes.of_items(np.concatenate(drawn), levels, ordered=select.ordered)


def _near(levels: Levels, find: mechanisms.SparseHistogram, candidates: int) -> int:
    """How many levels may be among those that are discovered; a thousandth of an item is left out on average."""
    noise, scale = by_name(find.noise), np.hypot(find.scale, _spread(levels))
    last = min(candidates, levels.size)
    bar = float(levels.value(last)) - find.scale * float(noise.isf(_MISSED / last))  # some item of the best so low, hardly ever
    chances = levels.multiplicities * noise.sf((max(find.threshold, bar) - levels.values) / scale)
    return int((np.cumsum(chances[::-1])[::-1] > _MISSED).sum())


def _spread(levels: Levels) -> Floats:
    return np.zeros(len(levels.values)) if levels.spread is None else levels.spread


def _noisy(seen: Floats, noise: NoiseName, scale: float, count: int, rng: np.random.Generator) -> Floats:
    """(count, items) scores from (2, items) means and spreads."""
    shape = (count, seen.shape[1])
    if noise == "gaussian":
        return seen[0] + np.hypot(scale, seen[1]) * rng.standard_normal(shape)
    return np.asarray(seen[0] + seen[1] * rng.standard_normal(shape) + scale * by_name(noise).isf(1 - rng.random(shape)))


def _kth(scores: Floats, k: int) -> Floats:
    """(rows, 1) the k-th largest, or the least where there are fewer."""
    k = min(k, scores.shape[1])
    return np.partition(scores, -k, axis=1)[:, -k, None]


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
    return levels.first(int(levels.ends[min(count, len(levels.ends)) - 1])).thinned(_GRAIN * scale)


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
        return np.concatenate([self._one_shot(count) for count in chunks(rounds, self.width)])

    def peeled(self, rounds: int) -> Indices:
        """(rounds, picks) levels of as many winners, each removed before the noise is drawn afresh."""
        return np.concatenate([self._peeled(count) for count in chunks(rounds, self.width)])

    def _one_shot(self, rounds: int) -> Indices:
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

    def _peeled(self, rounds: int) -> Indices:
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
