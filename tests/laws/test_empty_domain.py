"""A log that nobody is in: an unknown domain without a candidate takes the path of any other, and
one user more is hidden.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from cases import CASES
from exact import exceeded, worst
from spread import spread

import dpselect as dps

FEW = dps.Sensitivity.of_counts(items_per_user=1)
GROUPED = dps.mechanisms.TopOfGroups(
    k=1, mechanism=dps.SparseHistogram(scale=1.0, delta=0.1, sensitivity=FEW)
)
UNKNOWN: dict[str, Any] = {repr(GROUPED): GROUPED} | {
    repr(case.mechanism): case.mechanism
    for case in CASES
    if case.mechanism.takes_observed and case.mechanism.traits.answers != "groups"
}


def _scores(mechanism: dps.Mechanism, values: list[int]) -> dps.Scores:
    labels = [dps.cells.cell("g", at) for at in range(len(values))]
    return dps.Scores(
        np.array(values, dtype=np.int64),
        sensitivity=mechanism.sensitivity_bound,
        labels=labels,
        domain="observed",
    )


@pytest.mark.parametrize("name", spread(list(UNKNOWN), 24))
def test_empty_domain_and_one_user_stay_within_the_curve(name: str) -> None:
    """Nothing is released of no candidate, by a law that sums up to 1; it and that of one user's
    item are within the curve.
    """
    mechanism = UNKNOWN[name]
    nobody, one = _scores(mechanism, []), _scores(mechanism, [1])
    for rng in (None, np.random.default_rng(5)):
        assert len(mechanism.select(nobody, rng=rng)) == (
            1 if mechanism.traits.answers == "gap" else 0
        )
    before, after = mechanism.probabilities(nobody), mechanism.probabilities(one)
    assert math.isclose(sum(before.values()), 1.0, rel_tol=1e-9)
    found = worst([(before, after)], (0.0, 0.1, 0.5, 1.0, 2.0, 4.0))
    assert exceeded(mechanism.curve, found) == []


def test_every_mechanism_of_an_unknown_domain_is_here() -> None:
    """All that have an exact law on a few candidates."""
    kinds = {mechanism.kind for mechanism in UNKNOWN.values()}
    assert {
        "limited_domain",
        "sparse_histogram",
        "stability_test",
        "stable_top_k",
        "top_stable",
    } <= kinds
    assert {
        "discover_then_select",
        "with_values",
        "large_gap",
        "gaussian_gap",
        "top_of_groups",
    } <= kinds
