"""Quality of mechanisms that draw a whole set or sequence at once: CanonicalTopK and JointTopK without beta.

CanonicalTopK: from its classes of equally scored sets, exact for Gumbel noise, else simulated. With the ranks 1, 2, ... by
count, a class holds the sets with the ranks up to h, without rank h + 1, whose lowest rank has a given count; given its lowest
rank t, the other k - h - 1 members are uniform among the ranks between. With gamma = 1 rank h + 1 plays no part: h = 0. Sums
over the ranks t of one count are binomial coefficients (hockey stick), so that a law costs k times as many steps as there are
counts, not items.

JointTopK: exact, from the levels of its loss. A sequence loses at most l if in every place i stands one of the n_i items with a
count of at least h_i - l. Those sequences are uniform given that bound, and there are prod (n_i - i + 1) of them. Summation by
parts turns the law of the loss into a mixture of such boxes with weights (exp(-rate l) - exp(-rate l')) prod (n_i - i + 1), l'
the next larger loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import final

import numpy as np
import scipy

from dpselect.mechanisms import CanonicalTopK, JointTopK
from dpselect.noise import Noise, by_name
from dpselect.planning.laws.base import Floats, Indices, Levels, Outcomes, Runs, chunks, share

_NEGLIGIBLE = 40.0
_CHUNK = 1 << 19
_STRETCHES = 400


def joint(mechanism: JointTopK, levels: Levels) -> Outcomes:
    """The sequence drawn by its largest loss."""
    losses = _likely(_losses(mechanism, levels), mechanism.rate, levels)
    step, last = max(1, _CHUNK // mechanism.k), len(losses) - 1
    stretches = [slice(start, min(start + step, last)) for start in range(0, last, step)]
    parts = [_boxes(levels, mechanism.rate, losses[:-1][part], losses[1:][part]) for part in stretches]
    logs, *worth = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    exact_set, recall, kept, in_place = worth
    weights = np.exp(logs - scipy.special.logsumexp(logs))
    return Outcomes(exact_set, recall, kept, np.ones_like(recall), in_place, weights)


def _losses(mechanism: JointTopK, levels: Levels) -> Floats:
    """All losses that matter, ascending, and infinity."""
    best = levels.value(np.arange(1, mechanism.k + 1))
    sequences = float(scipy.special.gammaln(levels.size + 1.0) - scipy.special.gammaln(levels.size - mechanism.k + 1.0))
    most = (sequences + _NEGLIGIBLE) / mechanism.rate
    found = [np.unique(count - levels.values) for count in np.unique(best)]
    losses = np.unique(np.concatenate(found))
    return np.append(losses[(losses >= 0) & (losses <= most)], np.inf)


def _likely(losses: Floats, rate: float, levels: Levels) -> Floats:
    """The losses without those of negligible boxes at either end: a box within a stretch weighs no more than the stretch's last
    number of sequences times its first chance.
    """
    ends = np.unique(np.linspace(0, len(losses) - 2, _STRETCHES).astype(np.int64))
    allowed = _at_least(levels, levels.value(np.arange(1, levels.k + 1)) - losses[ends][:, None])
    sequences = np.log(allowed - np.arange(levels.k)).sum(axis=1)
    after = losses[ends + 1] - losses[ends]
    with np.errstate(divide="ignore"):
        weight = sequences - rate * losses[ends] + np.log(-np.expm1(-rate * after))
    highest = np.append(sequences[1:], sequences[-1]) - rate * losses[ends]
    kept = np.flatnonzero(highest >= weight.max() - _NEGLIGIBLE)
    first, last = ends[kept[0]], ends[min(kept[-1] + 1, len(ends) - 1)]
    return losses[first : last + 2]


def _boxes(levels: Levels, rate: float, losses: Floats, after: Floats) -> tuple[Floats, ...]:
    """ln of the weight of every box, and what its sequences are worth on average: exact set, recall, kept, in place."""
    k, best = levels.k, levels.value(np.arange(1, levels.k + 1))
    allowed = _at_least(levels, best - losses[:, None])
    places = np.arange(k)
    room = (allowed - places).astype(np.float64)
    missed = 1 - 1 / room  # an allowed item that is left is not drawn in this place
    # entry[e]: the chance never to be drawn for items first allowed in place e.
    never = np.cumprod(missed[:, ::-1], axis=1)[:, ::-1]
    before = np.concatenate([np.zeros((len(losses), 1), dtype=np.int64), allowed[:, :-1]], axis=1)
    right = levels.hits(allowed) - levels.hits(before)
    counts = levels.sums(allowed) - levels.sums(before)
    with np.errstate(divide="ignore"):
        weight = -rate * losses + np.log(-np.expm1(-rate * (after - losses))) + np.log(room).sum(axis=1)
    return (
        weight,
        np.clip((levels.hits(allowed) - places) / room, 0, 1).prod(axis=1),
        np.minimum((right * (1 - never)).sum(axis=1) / k, 1.0),
        share((counts * (1 - never)).sum(axis=1), levels.best),
        _in_place(levels, best, allowed, missed, room),
    )


def _in_place(levels: Levels, best: Floats, allowed: Indices, missed: Floats, room: Floats) -> Floats:
    """The expected share of places with an item of the count of that rank."""
    start = np.zeros((len(allowed), 1))
    certain = np.concatenate([start, np.cumsum(missed <= 0, axis=1)], axis=1)  # places that take the only item left
    logs = np.concatenate([start, np.cumsum(np.log(np.where(missed > 0, missed, 1.0)), axis=1)], axis=1)
    total, rows = np.zeros(len(allowed)), np.arange(len(allowed))
    for place, count in enumerate(best.tolist()):
        last, tied = (int(levels.multiplicities[kept].sum()) for kept in (levels.values >= count, levels.values == count))
        entered = (allowed < last).sum(axis=1)
        left = np.where(certain[:, place] > certain[rows, entered], 0.0, np.exp(logs[:, place] - logs[rows, entered]))
        total += tied * left / room[:, place]
    return np.minimum(total / len(best), 1.0)


def _at_least(levels: Levels, bars: Floats) -> Indices:
    """How many items have at least each count."""
    below = np.searchsorted(-levels.values, -bars, side="right")
    return np.concatenate([[0], levels.ends])[below]


# -- CanonicalTopK ---------------------------------------------------------------------------------------------------------


_UNLIKELY = 60.0  # nats below the most likely class
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
    """(runs,) the class that wins: the best of M sets has noise F^-1(U^(1/M)), for M beyond the floats."""
    rng, width, won = runs.generator(), len(classes.score), []
    for count in chunks(runs.count, width):
        with np.errstate(divide="ignore"):
            log_surprise = np.log(-np.log1p(-rng.random((count, width)))) - classes.log_size  # of -ln U^(1/M)
        surprise = np.exp(np.maximum(log_surprise, _TINY))
        log_sf = np.where(log_surprise < _TINY, log_surprise, np.log(-np.expm1(-surprise)))
        won.append(np.argmax(classes.score + scale * noise.log_isf(np.minimum(log_sf, 0.0)), axis=1))
    return np.concatenate(won)


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
    held, level = np.nonzero(likely > max(float(top.score[0]) / mechanism.scale, likely.max(initial=-np.inf)) - _UNLIKELY)
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
    return _Classes(*(np.concatenate([getattr(part, one.name) for part in (top, found)]) for one in fields(_Classes)))


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
