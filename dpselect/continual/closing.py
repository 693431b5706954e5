"""One period of a horizon: from new events to what is released, in one transaction of the state. Theorems T1 to T4."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpselect.continual.continual_top_k import Floats
from dpselect.continual.measurements import Block, Increment, Integers, estimates, late, measure, true_measurements
from dpselect.continual.state import State
from dpselect.events.doors.base import Kinds
from dpselect.mechanisms.release import public_grid
from dpselect.sampling import Sampler
from dpselect.selection import Selection, label_key

_REASON = "fewer items than requested were discovered"


def close(state: State, period: int, relations: Sequence[str], kinds: Kinds, source: Sampler) -> Selection:
    """Count the events in SQL relations (columns u and i), measure, estimate and select, and store all of it, or nothing."""
    mechanism = state.meta.mechanism
    with state.transaction():
        read = state.load(relations, kinds)
        state.require_kinds(kinds)
        known = state.number_of_items()
        increment = state.take(period)
        scored = _latest if mechanism.count == "period" else _correlated
        items, scores, off = scored(state, increment, known, source)
        passed = np.isin(items, state.discovered())
        if mechanism.delta is not None:
            new = ~passed & (scores - off > mechanism.thresholds[period - 1])
            state.discover(period, items[new])
            passed |= new
        selection = _best(state, items[passed], scores[passed])
        state.add_closed(period, read, selection)
    return selection


Scored = tuple[Integers, Floats, Floats]
"""Items, their estimates in weights, and how far the floats may be off."""


def _latest(state: State, increment: Increment, known: int, source: Sampler) -> Scored:  # noqa: ARG001 - as `_correlated`
    """Of the items that this period's events or an earlier discovery bring: fresh noise each, of which nothing is kept."""
    mechanism = state.meta.mechanism
    items: Integers = np.unique(np.concatenate([increment.items, state.discovered()]))
    placed = Increment(increment.period, np.searchsorted(items, increment.items), increment.weights)
    measured = measure(mechanism, true_measurements(mechanism, increment.period, len(items), [placed]), source)
    scores = np.asarray(measured * public_grid(mechanism.scale), dtype=np.float64)
    return items, scores, np.zeros(len(items))


def _correlated(state: State, increment: Increment, known: int, source: Sampler) -> Scored:
    """Of every item that exists; those that are new get the noise of earlier periods too."""
    mechanism, period, items = state.meta.mechanism, increment.period, state.number_of_items()
    since = period + 1 - len(mechanism.strategy.measured)
    state.add_increment(increment, since)
    true = true_measurements(mechanism, period, items, state.increments(since))
    state.add_measured(Block(period, 0, measure(mechanism, true, source)))
    for block in late(mechanism, period, known, items - known, source):
        state.add_measured(block)
    scores, off = estimates(mechanism, period, items, state.measured())
    return np.arange(items), scores, off


def _best(state: State, items: Integers, scores: Floats) -> Selection:
    """The k highest of the discovered items; equal scores in the order of labels, which tells nothing about the log."""
    k, domain = state.meta.mechanism.k, state.meta.domain
    if len(items) > k:
        least = np.partition(scores, -k)[-k]
        items, scores = items[scores >= least], scores[scores >= least]
    ranked = zip(scores.tolist(), items.tolist(), state.labels(items), strict=True)
    best = sorted(ranked, key=lambda one: (-one[0], label_key(one[2])))[:k]
    return Selection(
        indices=None if domain is None else tuple(item for _, item, _ in best),
        ordered=True,
        requested=k,
        complete=len(best) == k,
        reason=None if len(best) == k else _REASON,
        values=tuple(score for score, _, _ in best),
        labels=tuple(label for _, _, label in best),
    )
