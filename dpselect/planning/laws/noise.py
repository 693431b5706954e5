"""Quality of the mechanisms that add independent noise to every count: by quadrature, but for peeling, which is simulated."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np

from dpselect.errors import InvalidRequest
from dpselect.mechanisms import (
    DiscoverThenSelect,
    ExponentialMechanism,
    LimitedDomain,
    OneshotTopK,
    PeelingTopK,
    PermuteAndFlip,
    ReportNoisyMax,
    SparseHistogram,
)
from dpselect.noise import NoiseName, by_name
from dpselect.planning.laws.contest import Contest
from dpselect.planning.laws.race import Race, chunks, relevant
from dpselect.planning.levels import Floats, Indices, Levels
from dpselect.planning.quality import Outcomes
from dpselect.planning.runs import Runs

_GRAIN = 0.1  # of the noise: scores of wrong items that are closer count as equal
_FEWEST, _PLACES = 20, 3000  # runs of a quick look, and places that they fill
_MISSED = 1e-3  # items that may be discovered and are left out, on average


def oneshot(mechanism: OneshotTopK, levels: Levels, runs: Runs) -> Outcomes:
    """Of all noisy counts the k largest."""
    return _contest(levels, mechanism.noise, mechanism.scale).outcomes(runs, ordered=mechanism.ordered)


def noisy_max(mechanism: ReportNoisyMax, levels: Levels, runs: Runs) -> Outcomes:
    """Of all noisy counts the largest."""
    return _contest(levels, mechanism.noise, mechanism.scale).outcomes(runs, ordered=True)


def exponential(mechanism: ExponentialMechanism, levels: Levels, runs: Runs) -> Outcomes:
    """The exponential mechanism is Gumbel noise."""
    return _contest(levels, "gumbel", mechanism.sensitivity.range / mechanism.epsilon).outcomes(runs, ordered=True)


def permute_and_flip(mechanism: PermuteAndFlip, levels: Levels, runs: Runs) -> Outcomes:
    """Permute-and-flip is exponential noise."""
    return _contest(levels, "exponential", mechanism.sensitivity.range / mechanism.epsilon).outcomes(runs, ordered=True)


def peeling(mechanism: PeelingTopK, levels: Levels, runs: Runs) -> Outcomes:
    """k rounds with fresh noise; Gumbel noise need not be drawn afresh."""
    if mechanism.noise == "gumbel":
        return _contest(levels, "gumbel", mechanism.scale).outcomes(runs, ordered=True)
    race = Race(levels, by_name(mechanism.noise), mechanism.scale, runs.generator(), picks=mechanism.k)
    rounds = runs.within(10 * mechanism.k * race.width).count
    return Outcomes.of_items(race.peeled(mechanism.k, rounds), levels, ordered=True)


def limited_domain(mechanism: LimitedDomain, levels: Levels, runs: Runs) -> Outcomes:
    """The noisy top kbar, cut off by a noisy threshold."""
    first, bar = levels.first(mechanism.kbar), float(levels.value(mechanism.kbar + 1)) + mechanism.margin
    scale, gumbel = 1 / mechanism.epsilon, by_name("gumbel")

    def gate(x: Floats) -> Floats:
        return gumbel.cdf((x - bar) / scale)

    kept = _relevant(first, "gumbel", scale)
    return Contest(kept, gumbel, np.full(len(kept.values), scale), gate=gate).outcomes(runs, ordered=True)


def histogram(mechanism: SparseHistogram, levels: Levels, runs: Runs) -> Outcomes:
    """Of the noisy counts above the threshold the k largest."""
    contest = replace(_contest(levels, mechanism.noise, mechanism.scale), opens=mechanism.threshold)
    return contest.outcomes(runs, ordered=True)


def discovered(mechanism: DiscoverThenSelect, levels: Levels, runs: Runs) -> Outcomes:
    """Simulated: the first noisy scores above a threshold, then the largest of new ones, users clipped anew within the first."""
    find, select = mechanism.discovery, mechanism.selection
    if not (isinstance(find, SparseHistogram) and isinstance(select, OneshotTopK)):
        raise InvalidRequest("DiscoverThenSelect is planned with a SparseHistogram and a OneshotTopK only")
    near = _near(levels, find, mechanism.candidates)
    if near == 0:
        return Outcomes.of_items(np.full((2, levels.k), -1), levels, ordered=select.ordered)
    members = levels.multiplicities[:near]
    item, first = np.repeat(np.arange(near), members), np.stack([levels.values, _spread(levels, levels.spread)])[:, :near]
    second = first
    if levels.again is not None and mechanism.again is not None:
        norm: Literal["l1", "l2"] = "l2" if find.covers.l1 is None else "l1"
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


def _near(levels: Levels, find: SparseHistogram, candidates: int) -> int:
    """How many levels may be among so many that are discovered; a thousandth of an item is left out on average."""
    noise, scale = by_name(find.noise), np.hypot(find.scale, _spread(levels, levels.spread))
    last = min(candidates, levels.size)
    bar = float(levels.value(last)) - find.scale * float(noise.isf(_MISSED / last))  # some item of the best so low, hardly ever
    chances = levels.multiplicities * noise.sf((max(find.threshold, bar) - levels.values) / scale)
    return int((np.cumsum(chances[::-1])[::-1] > _MISSED).sum())


def _spread(levels: Levels, spread: Floats | None) -> Floats:
    return np.zeros(len(levels.values)) if spread is None else spread


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
    kept = _relevant(levels, noise, math.hypot(scale, spread))
    # Only Gaussian noise comes with a spread: variances add up.
    scales = np.full(len(kept.values), scale) if kept.spread is None else np.hypot(scale, kept.spread)
    return Contest(kept, by_name(noise), scales)


def _relevant(levels: Levels, noise: NoiseName, scale: float) -> Levels:
    picks = min(levels.k, levels.size)
    count = relevant(levels, by_name(noise), scale, picks)
    return levels.first(int(levels.ends[min(count, len(levels.ends)) - 1])).thinned(_GRAIN * scale)
