"""Quality of the mechanisms that test whether a set is stable: exact, but for the picks of StableTopKFixed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpselect.mechanisms import LargeMargin, StabilityTest, StableTopK, StableTopKFixed, TopStable
from dpselect.mechanisms.queries.first_stable import first_law
from dpselect.noise import by_name
from dpselect.planning.laws.base import Outcomes, Runs
from dpselect.planning.laws.independent_noise import Race
from dpselect.planning.score_levels import Floats, Indices, Levels


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
    chances = first_law(distances - mechanism.rule.threshold, mechanism.rule)
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
        items[:, len(held) :] = skipped + race.one_shot(rounds)
    return items
