"""Quality of CanonicalTopK, from its classes of equally scored sets: exact for Gumbel noise, else simulated.

With the ranks 1, 2, ... by count, class (h, t) holds the sets with the ranks up to h, without rank h + 1, whose lowest rank is t;
given the class, the other k - h - 1 members are uniform among the ranks between. With gamma = 1 rank h + 1 plays no part: h = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from dpselect.mechanisms import CanonicalTopK
from dpselect.noise import by_name
from dpselect.noise.base import Noise
from dpselect.planning.levels import Floats, Indices, Levels
from dpselect.planning.quality import Outcomes, share
from dpselect.planning.race import chunks
from dpselect.planning.runs import Runs

_NEGLIGIBLE = 40.0  # nats below the most likely, all sets that could still come together
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
    k, rows = mechanism.k, range(mechanism.k if mechanism.gamma < 1 else 1)
    lowest = np.arange(k + 1, _last_rank(mechanism, levels) + 1)
    parts = [_top(mechanism, levels), *(_row(mechanism, levels, row, lowest) for row in rows if len(lowest))]
    names = ("score", "log_size", "exact_set", "recall", "kept")
    return _Classes(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _last_rank(mechanism: CanonicalTopK, levels: Levels) -> int:
    """Beyond this rank no set matters: its score is too far below the best for any number of them."""
    sets = float(_log_binomial(np.array(levels.size), np.array(mechanism.k)))
    reach = (sets + _NEGLIGIBLE) * mechanism.scale / mechanism.gamma
    return int(levels.multiplicities[levels.values >= levels.bar - reach].sum())


def _top(mechanism: CanonicalTopK, levels: Levels) -> _Classes:
    """The true top set, a class of its own."""
    k, gamma = mechanism.k, mechanism.gamma
    missing = levels.bar if mechanism.top_set == "tied" or levels.size == k else float(levels.value(k + 1))
    one = np.ones(1)
    return _Classes(np.array([gamma * levels.bar - (1 - gamma) * missing]), np.zeros(1), one, one, one)


def _row(mechanism: CanonicalTopK, levels: Levels, held: int, lowest: Indices) -> _Classes:
    """The classes (held, t) for these t > k."""
    k, gamma = mechanism.k, mechanism.gamma
    start = held + 1 if gamma < 1 else 0  # ranks up to it are settled
    free, room = k - 1 - held, lowest - 1 - start
    count = levels.value(lowest)
    drawn = free / np.maximum(room, 1)
    hits = held + (count >= levels.bar) + drawn * (np.minimum(lowest - 1, levels.right) - start)
    total = levels.sums(held) + count + drawn * (levels.sums(lowest - 1) - levels.sums(start))
    return _Classes(
        score=gamma * count - (1 - gamma) * float(levels.value(held + 1)),
        log_size=_log_binomial(room, np.full(len(room), free)),
        exact_set=(lowest <= levels.right).astype(np.float64),
        recall=np.minimum(hits / k, 1.0),
        kept=share(np.asarray(total), levels.best),
    )


def _log_binomial(among: Indices, chosen: Indices) -> Floats:
    return np.asarray(
        scipy.special.gammaln(among + 1.0) - scipy.special.gammaln(chosen + 1.0) - scipy.special.gammaln(among - chosen + 1.0)
    )
