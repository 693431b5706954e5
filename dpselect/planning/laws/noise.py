"""Quality of the mechanisms that add independent noise to every count: by quadrature, but for peeling, which is simulated."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpselect.mechanisms import (
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
from dpselect.planning.laws.race import Race, relevant
from dpselect.planning.levels import Floats, Levels
from dpselect.planning.quality import Outcomes
from dpselect.planning.runs import Runs


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


def _contest(levels: Levels, noise: NoiseName, scale: float) -> Contest:
    spread = 0.0 if levels.spread is None else float(levels.spread.max())
    kept = _relevant(levels, noise, math.hypot(scale, spread))
    # Only Gaussian noise comes with a spread: variances add up.
    scales = np.full(len(kept.values), scale) if kept.spread is None else np.hypot(scale, kept.spread)
    return Contest(kept, by_name(noise), scales)


def _relevant(levels: Levels, noise: NoiseName, scale: float) -> Levels:
    picks = min(levels.k, levels.size)
    count = relevant(levels, by_name(noise), scale, picks)
    return levels.first(int(levels.ends[min(count, len(levels.ends)) - 1]))
