"""Quality of JointTopK without beta: exact, from the levels of its loss.

A sequence loses at most l if in every place i stands one of the n_i items with a count of at least h_i - l. Those sequences are
uniform given that bound, and there are prod (n_i - i + 1) of them. Summation by parts turns the law of the loss into a mixture
of such boxes with weights (exp(-rate l) - exp(-rate l')) prod (n_i - i + 1), l' the next larger loss.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy

from dpselect.mechanisms import JointTopK
from dpselect.planning.laws.base import Outcomes, share
from dpselect.planning.score_levels import Floats, Indices, Levels

_NEGLIGIBLE = 40.0
_CHUNK = 1 << 19
_STRETCHES = 400


def joint(mechanism: JointTopK, levels: Levels) -> Outcomes:
    """The sequence drawn by its largest loss."""
    losses = _likely(_losses(mechanism, levels), mechanism.rate, levels)
    parts = [_boxes(levels, mechanism.rate, chunk, after) for chunk, after in _chunks(losses, mechanism.k)]
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


def _chunks(losses: Floats, k: int) -> Iterator[tuple[Floats, Floats]]:
    step = max(1, _CHUNK // k)
    for start in range(0, len(losses) - 1, step):
        stop = min(start + step, len(losses) - 1)
        yield losses[start:stop], losses[start + 1 : stop + 1]


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
