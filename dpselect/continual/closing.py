"""One period of a horizon: from new events to what is released, in one transaction of the state. Theorems T1 to T4."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpselect.continual.continual_top_k import Floats
from dpselect.continual.measurements import Block, Increment, Integers, estimates, late, measure, true_measurements
from dpselect.continual.smoothing import order_by
from dpselect.continual.state import State
from dpselect.events.doors.base import Kinds
from dpselect.sampling import Sampler
from dpselect.selection import Selection, label_key

_REASON = "fewer items than requested were discovered"


def close(state: State, period: int, relations: Sequence[str], kinds: Kinds, source: Sampler) -> Selection:
    """Count the events in SQL relations (columns u and i), measure, estimate and select, and store all of it, or nothing."""
    with state.transaction():
        read = state.load(relations, kinds)
        state.require_kinds(kinds)
        known = state.number_of_items()
        increment = state.take(period)
        items, scores, tests = _measured(state, increment, known, source)
        passed = np.isin(items, state.discovered())
        if tests:
            new = ~passed & np.logical_or.reduce(tests)
            state.discover(period, items[new])
            passed |= new
        selection = _best(state, period, items[passed], scores[passed])
        state.add_closed(period, read, selection)
    return selection


Measured = tuple[Integers, Floats, list[NDArray[np.bool_]]]
"""Items, their estimates in weights, and which of them pass each test; no test of a public domain."""


def _measured(state: State, increment: Increment, known: int, source: Sampler) -> Measured:
    """Every item that exists, with the noise of earlier periods too where it is new."""
    mechanism, period, items = state.meta.mechanism, increment.period, state.number_of_items()
    strategy, public = mechanism.strategy, mechanism.delta is None
    since = period + 1 - len(strategy.measured)
    state.add_increment(increment, since)
    true = true_measurements(mechanism, period, items, state.increments(since))
    state.add_measured(Block(period, 0, measure(mechanism, true, source)))
    for block in late(mechanism, period, known, items - known, source):
        state.add_measured(block)
    totals = None if public else mechanism.total_thresholds
    estimators = [strategy.estimator] if totals is None else [strategy.estimator, strategy.totals]
    found = estimates(mechanism, period, items, state.measured(), estimators)
    scores = found[0][0]
    if public:
        return np.arange(items), scores, []
    tests = [_surely_above(*found[0], mechanism.thresholds[period - 1])]
    if mechanism.count == "period":  # a score of noise alone is not tested: its item's users are not there (Theorem T4)
        tests[0] &= np.isin(np.arange(items), increment.items)
    if totals is not None:
        tests.append(_surely_above(*found[1], totals[period - 1]))
    return np.arange(items), scores, tests


def _surely_above(estimate: Floats, off: Floats, threshold: float) -> NDArray[np.bool_]:
    return np.asarray(estimate - off > threshold)


def _best(state: State, period: int, items: Integers, scores: Floats) -> Selection:
    """The first k of the discovered items; equals in the order of labels, which tells nothing about the log."""
    k, domain = state.meta.mechanism.k, state.meta.domain
    order = order_by(state.meta.mechanism, period, items, scores, state.measured())
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
