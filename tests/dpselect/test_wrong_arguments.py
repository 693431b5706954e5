"""Arguments of a wrong type get the library's own error, which names the field, the rule and the
remedy, and not Python's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from accounting.calibration import calibrate_count
from accounting.convert.adaptive_composition import adaptive_composition
from dpselect.plan import TopKRequest, calibrated, fitted

A: Any = acc
D: Any = dps
BUDGET, CURVE = acc.Budget(epsilon=1.0, delta=1e-6), acc.BoundedRange(epsilon=1.0)
SCORES = dps.Scores([3, 1], sensitivity=dps.Sensitivity())
EM = dps.ExponentialMechanism(epsilon=1.0)
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


CALLS: dict[str, tuple[Callable[[], Any], type[acc.AccountingError], str]] = {
    "calibrate": (
        lambda: A.calibrate(3, BUDGET),
        acc.errors.InvalidArgument,
        "family must be a function .* not int. Pass one",
    ),
    "calibrate_count": (
        lambda: calibrate_count(cast(Any, 3), BUDGET),
        acc.errors.InvalidArgument,
        "family must be a function .* not int. Pass",
    ),
    "calibrated": (
        lambda: calibrated(lambda e: acc.BoundedRange(epsilon=e), BUDGET),
        dps.errors.InvalidRequest,
        "family returned a BoundedRange, .*: return a mechanism",
    ),
    "calibrated, no function": (
        lambda: calibrated(3, BUDGET),
        acc.errors.InvalidArgument,
        "family must be a function .* not int",
    ),
    "calibrated, no budget": (
        lambda: calibrated(lambda e: dps.ExponentialMechanism(epsilon=e), 1.0),
        acc.errors.InvalidArgument,
        "budget must be a Budget, not float. State one",
    ),
    "data_dependent, swapped": (
        lambda: D.pate.data_dependent(
            dps.pate.GNMax(labels=2, sigma=9.0, unit="record"), np.array([[9, 1]]), teachers=10
        ),
        acc.errors.InvalidArgument,
        r"where the ballots belong. Call data_dependent\(ballots, mechanism\)",
    ),
    "pate.label": (
        lambda: D.pate.label(np.zeros((3, 4)), output="x.npz", mechanism="gnmax", sigma=1.0),
        dps.errors.InvalidRequest,
        r"votes must name a .npz or .npy file, not be a ndarray. Write an array with numpy.save",
    ),
    "Session": (
        lambda: D.Session(3, "x"),
        dps.errors.InvalidRequest,
        "ledger must be an accounting.Ledger, not int. Open one",
    ),
    "PrivacyFilter": (
        lambda: A.PrivacyFilter("b"),
        acc.errors.InvalidArgument,
        "budget must be a Budget, not str. State one",
    ),
    "worst_case": (
        lambda: D.verify.worst_case(CURVE),
        dps.errors.InvalidRequest,
        "mechanism must be .* not BoundedRange. Pass",
    ),
    "worst_case, size": (
        lambda: D.verify.worst_case(EM, candidates="x"),
        dps.errors.InvalidRequest,
        "candidates=<str> must be an integer >= 1",
    ),
    "lower_bound": (
        lambda: D.verify.lower_bound(CURVE, SCORES, SCORES),
        dps.errors.InvalidRequest,
        "mechanism must be .* not BoundedRange. Pass",
    ),
    "lower_bound, samples": (
        lambda: D.verify.lower_bound(EM, SCORES, SCORES, samples="x"),
        dps.errors.InvalidRequest,
        "samples=<str> must be an integer >= 10",
    ),
    "lower_bound, confidence": (
        lambda: D.verify.lower_bound(EM, SCORES, SCORES, samples=20, confidence="x"),
        dps.errors.InvalidRequest,
        "confidence='x' must be a number in",
    ),
    "WithValues": (
        lambda: D.WithValues(mechanism="x", noise="laplace", scale=1.0),
        dps.errors.InvalidMechanism,
        "<str> is not a mechanism. Pass one",
    ),
    "Scores, labels": (
        lambda: D.Scores([1, 2], sensitivity=dps.Sensitivity(), labels=3),
        dps.errors.InvalidScores,
        "labels must be a sequence of names, one per score, not int",
    ),
    "fitted": (
        lambda: fitted("limited_domain", 1.0, TopKRequest(k=3)),  # type: ignore[arg-type]
        dps.errors.InvalidRequest,
        "fitted takes a kind, an accounting.Budget .* not float",
    ),
    "Profile.of_log": (
        lambda: dps.Profile.of_log([1], user="u", item="i", public=True),  # type: ignore[arg-type]
        dps.errors.InvalidRequest,
        "path must name a file, not a list",
    ),
    "a second look forgotten": (
        lambda: TWICE.select(
            dps.Scores([9, 8], sensitivity=ONCE, labels=["a", "b"], domain="observed")
        ),
        dps.errors.InvalidRequest,
        "have no second look. Pass",
    ),
    "Scores.ranked": (
        lambda: D.Scores.ranked(SCORES, "x"),
        dps.errors.InvalidRequest,
        "count=<str> must be an integer >= 1",
    ),
    "adaptive_composition": (
        lambda: adaptive_composition(cast(Any, 3), 1e-6),
        acc.errors.InvalidArgument,
        "steps must be a list .* not int. Put it in a list",
    ),
    "adaptive_composition, one curve": (
        lambda: adaptive_composition(cast(Any, CURVE), 1e-6),
        acc.errors.InvalidArgument,
        "steps must be a list .* not BoundedRange. Put it in a list",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_named(name: str) -> None:
    """The error is the family's own and says what to pass instead."""
    call, error, words = CALLS[name]
    with pytest.raises(error, match=words):
        call()


def test_integers_of_numpy_are_counts() -> None:
    """What is an integer anywhere else is one here."""
    assert D.verify.worst_case(EM, candidates=np.int64(2), highest=np.int32(1)).pure_epsilon > 0
    assert SCORES.ranked(np.int64(1))[1].tolist() == [3]  # type: ignore[arg-type]
