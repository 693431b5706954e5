"""The stability mechanisms: what their configuration accepts, and what it tells a planner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases_stability import CASES, UNKNOWN

import accounting as acc
import dpselect as dps
from dpselect.mechanisms.gaps import LargeGap, gap_shift
from dpselect.mechanisms.stable_top_k import StabilityTest, StableTopK, StableTopKFixed
from dpselect.scores import Scores

# -- planning helpers -----------------------------------------------------------------------------------------------------


def test_expected_size_is_that_of_the_law() -> None:
    """`expected_size` is the mean size under the exact law of scores with these gaps."""
    mechanism = StableTopK(rho=1.0, failure_delta=0.05, kbar=3, regularizer=[0.0, 1.0, 0.5])
    law = mechanism.probabilities(Scores([9, 5, 4], sensitivity=dps.Sensitivity()))
    assert mechanism.expected_size([4, 1, 4]) == pytest.approx(sum(len(s) * p for s, p in law.items()), rel=1e-12)


@pytest.mark.parametrize("mechanism", [case.mechanism for case in CASES if isinstance(case.mechanism, StabilityTest)], ids=str)
def test_the_least_gap_that_passes(mechanism: StabilityTest) -> None:
    """`least_gap` inverts `pass_probability`; a gap of the shift passes with failure_delta, as do all smaller ones."""
    rule, shift = mechanism.rule, gap_shift(mechanism.relation)
    assert rule.pass_probability([0, shift / 2, shift]) == pytest.approx(rule.failure_delta, rel=1e-12)
    assert np.all(rule.pass_probability([0, shift]) <= rule.failure_delta)
    assert float(rule.pass_probability(rule.least_gap(0.9))) == pytest.approx(0.9, rel=1e-12)
    assert rule.least_gap(rule.failure_delta / 2) == 0.0


# -- configuration -----------------------------------------------------------------------------------------------------------


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: LargeGap(epsilon=1.0, kbar=3, regularizer=[0.0, 1.0]), "lists 2 sizes and kbar=3"),
    (lambda: StableTopK(rho=1.0, failure_delta=0.0, kbar=3), "failure_delta"),
    (lambda: StableTopKFixed(k=3, rho=1.0, failure_delta=0.1, penalty=0.0, kbar=2), "kbar=2 is less than k=3"),
    (lambda: StabilityTest(k=1, noise="gumbel", scale=1.0, failure_delta=0.1), "noise"),  # type: ignore[arg-type]
    (lambda: dps.LimitedDomain(k=2, kbar=5, kbar_least=1, epsilon=1.0, delta=0.1), "kbar_least=1"),
    (lambda: dps.LimitedDomain(k=2, kbar=5, kbar_least=6, epsilon=1.0, delta=0.1), "kbar_least=6"),
]


@pytest.mark.parametrize(("build", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_cannot_be_proved_is_refused_when_it_is_configured(build: Callable[[], object], words: str) -> None:
    """A configuration outside the theorem raises InvalidMechanism, and the message names the field."""
    with pytest.raises(dps.errors.InvalidMechanism, match=words):
        build()


@pytest.mark.parametrize("mechanism", UNKNOWN, ids=str)
def test_other_sensitivities_are_refused(mechanism: dps.Mechanism) -> None:
    """Scores that move by more than a count, in both directions, or under the other relation are not covered."""
    for sensitivity in (dps.Sensitivity(linf=2.0), dps.Sensitivity(monotone=False), dps.Sensitivity(relation="replace_one")):
        with pytest.raises((dps.errors.SensitivityMismatch, acc.RelationMismatch)):
            mechanism.check(Scores([3, 1], sensitivity=sensitivity))


def test_an_array_is_a_regularizer() -> None:
    """A list, a tuple and a NumPy array give equal mechanisms, which survive JSON."""
    forms: list[Any] = [[0.0, 1.5], (0.0, 1.5), np.array([0.0, 1.5])]
    mechanisms = [LargeGap(epsilon=1.0, kbar=2, regularizer=form) for form in forms]
    assert mechanisms[0] == mechanisms[1] == mechanisms[2] == dps.Mechanism.from_json(mechanisms[0].to_json())
