"""Arguments of a wrong type get the library's own error, which names the field, the rule and the
remedy, and not Python's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

import accounting as acc
import dpselect as dps
from accounting.calibration import calibrate_count
from dpselect.plan import TopKRequest, calibrate_mechanism, fitted

A: Any = acc
D: Any = dps
THREE: Any = 3
BUDGET, CURVE = acc.Budget(epsilon=1.0, delta=1e-6), acc.BoundedRange(epsilon=1.0)
SCORES = dps.Scores([3, 1], sensitivity=dps.Sensitivity())
EM = dps.ExponentialMechanism(epsilon=1.0)
BOUND = partial(D.verify.lower_bound, EM, SCORES, SCORES)
ONCE = dps.Sensitivity.of_clipped(1.0, "l2", items_per_user=9)
TWICE = dps.DiscoverThenSelect(
    discovery=dps.SparseHistogram(k=2, scale=1.0, delta=1e-6, sensitivity=ONCE),
    selection=dps.OneshotTopK(
        k=1,
        noise="gaussian",
        scale=2.0,
        sensitivity=dps.Sensitivity.of_clipped(2.0, "l2"),
        values=True,
    ),
    candidates=2,
)
SERIES: Any = dps.ContinualTopK.fitted(BUDGET, k=2, periods=4)
TABLE: Any = TWICE.discovery
LOG, WHO = {"who": [1], "where": [1]}, {"user": "who", "item": "where"}
TOLD, ASK = pa.table(LOG), {"k": 1, "epsilon": 1.0, "delta": 1e-6}
SHAPE: Any = {"k": 1, "epsilon": 1.0, "shape": "zipf:1", "items": 9, "users": 9}

# By the error that they raise: what is called, and the words that name field, rule and remedy.
CALLS: dict[type[acc.AccountingError], list[tuple[Callable[[], Any], str]]] = {
    acc.errors.InvalidArgument: [
        (lambda: A.calibrate(3, BUDGET), "family must be a function .* not int. Pass one"),
        (lambda: calibrate_count(THREE, BUDGET), "family must be a function .* not int. Pass"),
        (lambda: calibrate_mechanism(THREE, BUDGET), "family must be a function .* not int"),
        (
            lambda: calibrate_mechanism(lambda e: dps.ExponentialMechanism(epsilon=e), THREE),
            "budget must be a Budget, not int. State one",
        ),
        (
            lambda: D.pate.data_dependent(
                dps.pate.GNMax(labels=2, sigma=9.0, unit="record"), np.array([[9, 1]]), teachers=10
            ),
            r"where the ballots belong. Call data_dependent\(ballots, mechanism\)",
        ),
        (lambda: A.PrivacyFilter("b"), "budget must be a Budget, not str. State one"),
    ],
    dps.errors.InvalidRequest: [
        (
            lambda: calibrate_mechanism(cast(Any, lambda e: acc.BoundedRange(epsilon=e)), BUDGET),
            "family returned a BoundedRange, .*: return a mechanism",
        ),
        (
            lambda: D.pate.label(np.zeros((3, 4)), output="x.npz", mechanism="gnmax", sigma=1.0),
            r"votes must name a .npz or .npy file, not be a ndarray. Write an array with numpy",
        ),
        (lambda: dps.Profile.zipf(9, 9, 10**5000), "users=<huge> is more than"),
        (lambda: dps.Profile.zipf(1, 9, 9, items_per_user={10**5000: 1}), "user: <huge> must be"),
        (lambda: dps.Profile.zipf(1, 9, 9, items_per_user={1: 10**5000}), "=<huge> must be"),
        (lambda: dps.Profile.of_counts([10**5000], public=True), "counts must be a one-dim"),
        (lambda: D.topk(TOLD, **ASK, user=-(10**5000), item="where"), "user=<huge> is not a col"),
        (lambda: D.topk(TOLD, **ASK, user="who", item=10**5000), "item=<huge> is not a column"),
        (lambda: dps.plan(**SHAPE, group_users={"a": 10**5000}), "group_users= names groups"),
        (lambda: D.Session(3, "x"), "ledger must be an accounting.Ledger, not int. Open one"),
        (lambda: D.verify.worst_case(CURVE), "mechanism must be .* not BoundedRange. Pass"),
        (lambda: D.verify.worst_case(EM, candidates="x"), "candidates=<str> must be an"),
        (
            lambda: D.verify.lower_bound(CURVE, SCORES, SCORES),
            "mechanism must be .* not BoundedRange. Pass",
        ),
        (lambda: BOUND(samples="x"), "samples=<str> must be an integer >= 10"),
        (lambda: BOUND(samples=20, confidence="x"), "confidence='x' must be a number in"),
        (
            lambda: fitted("limited_domain", THREE, TopKRequest(k=3)),
            "fitted takes a kind, an accounting.Budget .* not int",
        ),
        (
            lambda: D.Profile.of_log([1], user="u", item="i", public=True),
            "path must name a file, not a list",
        ),
        (
            lambda: TWICE.select(
                dps.Scores([9, 8], sensitivity=ONCE, labels=["a", "b"], domain="observed")
            ),
            "have no second pass. Pass",
        ),
        (lambda: D.Scores.rank(SCORES, "x"), "count=<str> must be an integer >= 1"),
        (lambda: SERIES.margins(1), r"confidence=1 must be in \(0, 1\), 0.95 for example"),
        (lambda: SERIES.margin(1, 0), "among=0 must be an integer >= 1"),
        (lambda: SERIES.margin(5, 1), "period=5 must be an integer >= 1, at most 4"),
        (lambda: TABLE.margin("x"), r"confidence=<str> must be in \(0, 1\)"),
        (lambda: TABLE.margin(among=1.5), "among=1.5 must be an integer >= 1"),
    ],
    dps.errors.InvalidMechanism: [
        (
            lambda: D.WithValues(mechanism="x", noise="laplace", scale=1.0),
            "<str> is not a mechanism. Pass one",
        ),
    ],
    dps.errors.EventLogError: [
        (lambda: D.topk(LOG, k=1, epsilon=1.0, domain=[1, 10**5000], **WHO), "domain holds an int"),
        (lambda: D.topk(LOG, k=1, epsilon=1.0, domain=[(1, -(10**5000))], **WHO), "Pass its label"),
        (lambda: D.topk(TOLD, **ASK, **WHO, table=10**5000), "table=<huge> is for a database"),
    ],
    dps.errors.InvalidScores: [
        (
            lambda: dps.Scores([1], sensitivity=dps.Sensitivity(), labels=[10**5000]),
            "labels hold an integer with more digits than .* Pass its label as text",
        ),
        (
            lambda: D.Scores([1, 2], sensitivity=dps.Sensitivity(), labels=3),
            "labels must be a sequence of names, one per score, not int",
        ),
    ],
}


@pytest.mark.parametrize(
    ("error", "call", "words"),
    [(error, call, words) for error, calls in CALLS.items() for call, words in calls],
)
def test_a_wrong_argument_is_named(
    error: type[acc.AccountingError], call: Callable[[], Any], words: str
) -> None:
    """The error is the family's own and says what to pass instead."""
    with pytest.raises(error, match=words):
        call()


def test_integers_of_numpy_are_counts() -> None:
    """What is an integer anywhere else is one here."""
    assert D.verify.worst_case(EM, candidates=np.int64(2), highest=np.int32(1)).pure_epsilon > 0
    assert SCORES.rank(np.int64(1))[1].tolist() == [3]  # type: ignore[arg-type]
