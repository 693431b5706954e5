"""One period of a horizon: from new events to what is released, in one transaction of the state. Theorems T1 to T4."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpselect.continual import smoothing
from dpselect.continual.continual_top_k import ContinualTopK, Floats
from dpselect.continual.measurements import Block, Increment, Integers, estimate, late, measure, true_measurements, weighted
from dpselect.continual.state import State
from dpselect.events.doors.base import Kinds
from dpselect.sampling import Sampler
from dpselect.selection import Selection, label_key

_REASON = "fewer items than requested were discovered"


def close(state: State, period: int, relations: Sequence[str], kinds: Kinds, source: Sampler) -> Selection:
    """Count the events in SQL relations (columns u and i), measure, estimate and select, and store all of it, or nothing."""
    with state.transaction():
        read = state.load(relations, kinds)
        known = state.number_of_items()
        increment = state.take(period)
        _measure(state, increment, known, source)
        selection = _best(state, *_discovered(state, increment))
        state.add_closed(period, read, selection)
    return selection


def _measure(state: State, increment: Increment, known: int, source: Sampler) -> None:
    """Draw the measurements of every item that exists, and those of earlier periods too where it is new."""
    mechanism, period, items = state.meta.mechanism, increment.period, state.number_of_items()
    since = period + 1 - len(mechanism.strategy.measured)
    state.add_increment(increment, since)
    true = true_measurements(mechanism, period, items, state.increments(since, period))
    state.add_measured(Block(period, 0, measure(mechanism, true, source)[None]), period)
    for block in late(mechanism, period, known, items, source):
        state.add_measured(block, period)


def _discovered(state: State, increment: Increment) -> tuple[Integers, Floats, Floats]:
    """(n,) discovered items, their scores in weights, and what orders them; those that pass a test now are stored as such."""
    mechanism, period, items = state.meta.mechanism, increment.period, state.number_of_items()
    touched, shown = np.zeros(items, dtype=np.bool_), np.zeros(items, dtype=np.bool_)
    touched[increment.items], shown[state.discovered()] = True, True
    columns = smoothing.columns(mechanism, period)
    new, scores, sums = [np.zeros(0, dtype=np.int64)], [np.zeros(0)], [np.zeros((len(columns), 0))]
    for first, rows in state.measured(period, items):
        place = slice(first, first + rows.shape[1])
        found = estimate(mechanism, mechanism.strategy.estimator, rows)
        passed = ~shown[place] & _passes(mechanism, period, rows, found, touched[place])
        new.append(first + np.flatnonzero(passed))
        shown[place] |= passed
        scores.append(found[0][shown[place]])
        sums.append(weighted(columns, rows[:, shown[place]]))
    state.discover(np.concatenate(new))
    each = np.concatenate(scores)
    return np.flatnonzero(shown), each, smoothing.order_by(mechanism, period, each, np.concatenate(sums, axis=1))


def _passes(
    mechanism: ContinualTopK, period: int, rows: Floats, scores: tuple[Floats, Floats], touched: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which items pass a test, surely: whatever the roundings of floats. None of a public domain does."""
    if mechanism.delta is None:
        return np.zeros(rows.shape[1], dtype=np.bool_)
    now = slice(period - 1, period)
    passed = scores[0] - scores[1] > mechanism.thresholds_at(now)
    if mechanism.count == "period":  # a score of noise alone is not tested: its item's users are not there (Theorem T4)
        passed &= touched
    if (totals := mechanism.total_thresholds_at(now)) is not None:
        total, off = estimate(mechanism, mechanism.strategy.totals, rows)
        passed |= total - off > totals
    return passed


def _best(state: State, items: Integers, scores: Floats, order: Floats) -> Selection:
    """The first k of the discovered items; equals in the order of labels, which tells nothing about the log."""
    k, domain = state.meta.mechanism.k, state.meta.domain
    if len(items) > k:
        first = order >= np.partition(order, -k)[-k]
        items, scores, order = items[first], scores[first], order[first]
    ranked = zip(order.tolist(), items.tolist(), scores.tolist(), state.labels(items), strict=True)
    best = sorted(ranked, key=lambda one: (-one[0], label_key(one[3])))[:k]
    return Selection(
        indices=None if domain is None else tuple(item for _, item, _, _ in best),
        ordered=True,
        requested=k,
        complete=len(best) == k,
        reason=None if len(best) == k else _REASON,
        values=tuple(score for _, _, score, _ in best),
        labels=tuple(label for _, _, _, label in best),
    )
