"""Quality of the mechanisms that add independent noise to every count: simulated."""

from __future__ import annotations

import numpy as np

from dpselect.mechanisms import ExponentialMechanism, LimitedDomain, OneshotTopK, PeelingTopK, PermuteAndFlip, ReportNoisyMax
from dpselect.noise import NoiseName, by_name
from dpselect.planning.levels import Indices, Levels
from dpselect.planning.quality import Outcomes
from dpselect.planning.race import Race
from dpselect.planning.runs import Runs

_GUMBEL = by_name("gumbel")


def oneshot(mechanism: OneshotTopK, levels: Levels, runs: Runs) -> Outcomes:
    """Of all noisy counts the k largest."""
    return _drawn(levels, mechanism.noise, mechanism.scale, runs, ordered=mechanism.ordered)


def noisy_max(mechanism: ReportNoisyMax, levels: Levels, runs: Runs) -> Outcomes:
    """Of all noisy counts the largest."""
    return _drawn(levels, mechanism.noise, mechanism.scale, runs, ordered=True)


def exponential(mechanism: ExponentialMechanism, levels: Levels, runs: Runs) -> Outcomes:
    """The exponential mechanism is Gumbel noise."""
    return _drawn(levels, "gumbel", mechanism.sensitivity.range / mechanism.epsilon, runs, ordered=True)


def permute_and_flip(mechanism: PermuteAndFlip, levels: Levels, runs: Runs) -> Outcomes:
    """Permute-and-flip is exponential noise."""
    return _drawn(levels, "exponential", mechanism.sensitivity.range / mechanism.epsilon, runs, ordered=True)


def peeling(mechanism: PeelingTopK, levels: Levels, runs: Runs) -> Outcomes:
    """k rounds with fresh noise; Gumbel noise need not be drawn afresh."""
    if mechanism.noise == "gumbel":
        return _drawn(levels, "gumbel", mechanism.scale, runs, ordered=True)
    race = Race(levels, by_name(mechanism.noise), mechanism.scale, runs.generator(), picks=mechanism.k)
    rounds = runs.within(10 * mechanism.k * len(race.values)).count
    return Outcomes.of_counts(race.values[race.peeled(mechanism.k, rounds)], levels, ordered=True)


def limited_domain(mechanism: LimitedDomain, levels: Levels, runs: Runs) -> Outcomes:
    """The noisy top kbar, cut off by a noisy threshold."""
    first, bar = levels.first(mechanism.kbar), float(levels.value(mechanism.kbar + 1)) + mechanism.margin
    place = int((first.values > bar).sum())
    race = Levels(np.insert(first.values, place, bar), np.insert(first.multiplicities, place, 1), levels.k)
    picks = min(mechanism.k, first.size)
    # One pick more than there are places: the threshold takes none.
    drawn = _levels_drawn(race, picks + 1, 1 / mechanism.epsilon, runs)
    ended = np.logical_or.accumulate(drawn == place, axis=1)
    counts = np.where(ended, np.nan, race.values[drawn])[:, :picks]
    padded = np.full((len(drawn), mechanism.k), np.nan)
    padded[:, :picks] = counts
    return Outcomes.of_counts(padded, levels, ordered=True)


def _drawn(levels: Levels, noise: NoiseName, scale: float, runs: Runs, *, ordered: bool) -> Outcomes:
    race = Race(levels, by_name(noise), scale, runs.generator(), picks=levels.k)
    rounds = runs.within(levels.k * min(levels.k, len(race.values))).count
    return Outcomes.of_counts(race.values[race.one_shot(levels.k, rounds)], levels, ordered=ordered)


def _levels_drawn(levels: Levels, picks: int, scale: float, runs: Runs) -> Indices:
    race = Race(levels, _GUMBEL, scale, runs.generator(), picks=picks)
    return race.one_shot(picks, runs.within(picks * min(picks, len(race.values))).count)
