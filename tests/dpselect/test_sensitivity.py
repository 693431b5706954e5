"""Sensitivity: the range, the traps of replace_one, and what covers what."""

from __future__ import annotations

from types import MappingProxyType

import pytest

import accounting as acc
import dpselect as dps


@pytest.mark.parametrize(
    ("sensitivity", "expected"),
    [
        (dps.Sensitivity(), 1),
        (dps.Sensitivity(linf=3), 3),
        (dps.Sensitivity(monotone=False), 2),
        (dps.Sensitivity(relation="replace_one"), 2),
        (dps.Sensitivity(linf=0.5, monotone=False, relation="replace_one"), 1),
    ],
)
def test_range(sensitivity: dps.Sensitivity, expected: float) -> None:
    """The range is linf where all scores move together and twice that where they need not: replacing a user costs double."""
    assert sensitivity.range == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"linf": 0},
        {"linf": -1},
        {"linf": float("nan")},
        {"linf": float("inf")},
        {"l0": 0},
        {"l0": 1.5},
        {"l0": True},
        {"relation": "bounded"},
        {"monotone": "yes"},
        {"monotone": True, "relation": "replace_one"},
        {"linf1": 2},
    ],
)
def test_wrong_sensitivities_are_refused(fields: dict[str, object]) -> None:
    """A sensitivity outside its domain, or monotone under replace_one, raises InvalidMechanism."""
    with pytest.raises(dps.InvalidMechanism):
        dps.Sensitivity(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("declared", "covered"),
    [
        ({}, True),
        ({"linf": 0.5}, True),
        ({"l0": 3}, True),
        ({"linf": 2}, False),
        ({"monotone": False}, False),
    ],
)
def test_wider_scores_are_refused(declared: dict[str, object], covered: bool) -> None:
    """A mechanism takes scores that declare at most its own sensitivity, and refuses the others before anything is drawn."""
    scores = dps.Scores([1, 2], sensitivity=dps.Sensitivity(**declared))  # type: ignore[arg-type]
    mechanism = dps.ExponentialMechanism(epsilon=1)
    if covered:
        mechanism.check(scores)
    else:
        with pytest.raises(dps.SensitivityMismatch):
            mechanism.select(scores)


def test_l0_is_part_of_the_guarantee() -> None:
    """A mechanism proved for users who touch two scores refuses scores that declare three, or no bound."""
    mechanism = dps.ReportNoisyMax(noise="gaussian", scale=1, sensitivity=dps.Sensitivity(l0=2))
    for l0 in (3, None):
        with pytest.raises(dps.SensitivityMismatch):
            mechanism.select(dps.Scores([1, 2], sensitivity=dps.Sensitivity(l0=l0)))
    mechanism.check(dps.Scores([1, 2], sensitivity=dps.Sensitivity(l0=1)))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_relations_do_not_mix(relation: acc.Relation) -> None:
    """Scores under one relation never meet a mechanism proved for the other."""
    other: acc.Relation = "replace_one" if relation == "add_remove" else "add_remove"
    scores = dps.Scores([1, 2], sensitivity=dps.Sensitivity(relation=other))
    with pytest.raises(acc.RelationMismatch):
        dps.ExponentialMechanism(epsilon=1, sensitivity=dps.Sensitivity(relation=relation)).select(scores)
    with pytest.raises(acc.RelationMismatch):
        acc.Accountant().compose(dps.ExponentialMechanism(epsilon=1)).compose(
            dps.ExponentialMechanism(epsilon=1, sensitivity=dps.Sensitivity(relation="replace_one"))
        )


def test_no_form_of_input_gets_around_the_relation() -> None:
    """monotone under replace_one is refused whatever kind of mapping it comes in, and never halves the range."""
    fields = MappingProxyType({"relation": "replace_one"})
    with pytest.raises(dps.InvalidMechanism):
        dps.Sensitivity.model_validate(fields)
    with pytest.raises(dps.InvalidMechanism):
        dps.ExponentialMechanism(epsilon=1, sensitivity=fields)  # type: ignore[arg-type]
