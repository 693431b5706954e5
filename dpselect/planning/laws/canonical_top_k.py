"""Quality of CanonicalTopK, from its classes of equally scored sets: exact for Gumbel noise, else simulated.

With the ranks 1, 2, ... by count, a class holds the sets with the ranks up to h, without rank h + 1, whose lowest rank has a
given count; given its lowest rank t, the other k - h - 1 members are uniform among the ranks between. With gamma = 1 rank h + 1
plays no part: h = 0. Sums over the ranks t of one count are binomial coefficients (hockey stick), so that a law costs k times as
many steps as there are counts, not items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from dpselect.mechanisms import CanonicalTopK
from dpselect.noise import Noise, by_name
from dpselect.planning.laws.base import Outcomes, Runs, chunks, share
from dpselect.planning.score_levels import Floats, Indices, Levels

_NEGLIGIBLE = 60.0  # nats below the most likely class
_TINY = -30.0


@final
@dataclass(frozen=True, eq=False)
class _Classes:
    """Classes with the same score taken together, or one by one: score (users), ln of the number of sets, and the means of what
    their sets are worth, each (classes,).
    """

    score: Floats
    log_size: Floats
    exact_set: Floats
    recall: Floats
    kept: Floats

    def outcomes(self, chosen: Indices | None, weights: Floats | None) -> Outcomes:
        pick = slice(None) if chosen is None else chosen
        recall = self.recall[pick]
        return Outcomes(self.exact_set[pick], recall, self.kept[pick], np.ones_like(recall), weights=weights)

    def by_score(self) -> _Classes:
        """One class for every distinct score."""
        score, place = np.unique(self.score, return_inverse=True)
        top = np.full(len(score), -np.inf)
        np.maximum.at(top, place, self.log_size)
        part = np.exp(self.log_size - top[place])
        total = np.bincount(place, part)
        means = (np.bincount(place, part * worth) / total for worth in (self.exact_set, self.recall, self.kept))
        return _Classes(score, top + np.log(total), *means)


def canonical(mechanism: CanonicalTopK, levels: Levels, runs: Runs) -> Outcomes:
    """The set with the largest noisy score."""
    classes = _classes(mechanism, levels)
    if mechanism.noise == "gumbel":
        logs = classes.log_size + classes.score / mechanism.scale
        return classes.outcomes(None, np.exp(logs - scipy.special.logsumexp(logs)))
    classes = classes.by_score()
    winners = _winners(classes, by_name(mechanism.noise), mechanism.scale, runs)
    return classes.outcomes(winners, None)


def _winners(classes: _Classes, noise: Noise, scale: float, runs: Runs) -> Indices:
    rng, width = runs.generator(), len(classes.score)
    drawn = (_race(classes, noise, scale, rng.random((count, width))) for count in chunks(runs.count, width))
    return np.concatenate(list(drawn))


def _race(classes: _Classes, noise: Noise, scale: float, uniform: Floats) -> Indices:
    """(rounds,) the class that wins: the best of M sets has noise F^-1(U^(1/M)), for M beyond the floats."""
    with np.errstate(divide="ignore"):
        log_surprise = np.log(-np.log1p(-uniform)) - classes.log_size  # of -ln U^(1/M)
    surprise = np.exp(np.maximum(log_surprise, _TINY))
    log_sf = np.where(log_surprise < _TINY, log_surprise, np.log(-np.expm1(-surprise)))
    return np.asarray(np.argmax(classes.score + scale * noise.log_isf(np.minimum(log_sf, 0.0)), axis=1))


def _classes(mechanism: CanonicalTopK, levels: Levels) -> _Classes:
    """All classes but those whose sets together are hopeless."""
    k, gamma = mechanism.k, mechanism.gamma
    rows = np.arange(k if gamma < 1 else 1)[:, None]
    start = rows + 1 if gamma < 1 else rows  # ranks up to it are settled
    ends, before = levels.ends, np.maximum(levels.ends - levels.multiplicities, k)
    kept = ends > before
    ends, before, seen = ends[kept], before[kept], levels.values[kept]
    score = gamma * seen - (1 - gamma) * levels.value(rows + 1)
    log_size = _log_sets(before - start, ends - start, k - 1 - rows)
    top = _top(mechanism, levels)
    likely = log_size + score / mechanism.scale
    held, level = np.nonzero(likely > max(float(top.score[0]) / mechanism.scale, likely.max(initial=-np.inf)) - _NEGLIGIBLE)
    lowest = _Lowest(before[level], ends[level], start[held, 0], (k - 1 - rows)[held, 0], log_size[held, level])
    recall = _worth(levels.rights / levels.multiplicities, levels.hits, held, np.flatnonzero(kept)[level], lowest) / k
    total = _worth(levels.truth, levels.sums, held, np.flatnonzero(kept)[level], lowest)
    found = _Classes(
        score=score[held, level],
        log_size=log_size[held, level],
        exact_set=(levels.hits(lowest.ends) >= lowest.ends).astype(np.float64),
        recall=np.minimum(recall, 1.0),
        kept=share(total, levels.best),
    )
    return _Classes(*(np.concatenate([getattr(part, name) for part in (top, found)]) for name in _NAMES))


_NAMES = ("score", "log_size", "exact_set", "recall", "kept")


def _top(mechanism: CanonicalTopK, levels: Levels) -> _Classes:
    """The top set, a class of its own."""
    k, gamma = mechanism.k, mechanism.gamma
    last = float(levels.value(k))
    missing = last if mechanism.top_set == "tied" or levels.size == k else float(levels.value(k + 1))
    hits, total = float(levels.hits(k)), np.array([float(levels.sums(k))])
    return _Classes(
        score=np.array([gamma * last - (1 - gamma) * missing]),
        log_size=np.zeros(1),
        exact_set=np.array([float(hits >= k)]),
        recall=np.array([min(1.0, hits / k)]),
        kept=share(total, levels.best),
    )


@final
@dataclass(frozen=True, eq=False)
class _Lowest:
    """Classes whose lowest rank lies in before + 1, ..., ends, with `free` members among the ranks from start + 1 to that one."""

    before: Indices
    ends: Indices
    start: Indices
    free: Indices
    log_size: Floats

    @property
    def share(self) -> Floats:
        """The mean share of the ranks between that are members."""
        room = self.before - self.start
        several = np.exp(_log_sets(room - 1, self.ends - self.start - 1, self.free - 1) - self.log_size)
        found = np.where(self.ends - self.before == 1, self.free / np.maximum(room, 1), several)
        return np.where(self.free > 0, found, 0.0)


def _worth(each: Floats, upto: Callable[[Indices], Floats], held: Indices, level: Indices, lowest: _Lowest) -> Floats:
    """The mean sum of `each` level's worth over a set: of the ranks up to `held`, of the lowest, and of those between."""
    one, between = each[level], upto(lowest.before) - upto(lowest.start)
    within = lowest.free * one + lowest.share * one * (lowest.start - lowest.before)
    return np.asarray(upto(held) + one + lowest.share * between + within)


def _log_sets(room: Indices, ends: Indices, free: Indices) -> Floats:
    """ln of the sum of the numbers of ways to choose `free` of room, room + 1, ..., ends - 1."""
    room, ends, free = np.broadcast_arrays(room, ends, free)
    single, upper = _log_binomial(room, free), _log_binomial(ends, free + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        several = upper + np.log(-np.expm1(_log_binomial(room, free + 1) - upper))
    return np.where(ends - room == 1, single, several)


def _log_binomial(among: Indices, chosen: Indices) -> Floats:
    """ln of the binomial coefficient; -inf where there are too few."""
    few = (chosen > among) | (chosen < 0)
    among, chosen = np.where(few, 1, among), np.where(few, 0, chosen)
    log_factorial = scipy.special.gammaln
    found = log_factorial(among + 1.0) - log_factorial(chosen + 1.0) - log_factorial(among - chosen + 1.0)
    return np.where(few, -np.inf, found)
