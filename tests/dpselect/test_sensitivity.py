"""Sensitivity: the range, the traps of replace_one, and what covers what."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        (dps.Sensitivity(l0=1, monotone=False), 1),
        (dps.Sensitivity(l1=1.5, linf=1, monotone=False), 1.5),
        (dps.Sensitivity(l2=1, linf=0.75, monotone=False), 2**0.5),
    ],
)
def test_score_range_doubles_for_two_sided_changes(
    sensitivity: dps.Sensitivity, expected: float
) -> None:
    """The range is linf where all scores move together and twice that where they need not:
    replacing a user costs double.
    """
    assert sensitivity.range == pytest.approx(expected, rel=1e-15)


WRONG: list[dict[str, object]] = [
    *({"linf": wrong} for wrong in (0, -1, math.nan, math.inf)),
    *({"l0": wrong} for wrong in (0, 1.5, True)),
    *({"l1": 0}, {"l1": True}, {"l1": 10**400}, {"l2": math.inf}, {"linf1": 2}, {"uniform": 1}),
    *({"relation": "bounded"}, {"monotone": "yes"}),
    {"monotone": True, "relation": "replace_one"},
]


@pytest.mark.parametrize("fields", WRONG)
def test_wrong_sensitivities_are_refused(fields: dict[str, object]) -> None:
    """A sensitivity outside its domain, or monotone under replace_one, raises InvalidMechanism."""
    with pytest.raises(dps.errors.InvalidMechanism):
        dps.Sensitivity(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("proved", "taken", "refused"),
    [
        ({}, [{}, {"linf": 0.5}, {"l0": 3}], [{"linf": 2}, {"monotone": False}]),
        ({"l0": 2}, [{"l0": 1}], [{"l0": 3}, {}]),
        (
            {"l2": 2, "linf": 1},
            [{"l2": 2, "linf": 1}, {"l0": 4}, {"l1": 4, "linf": 1}],
            [{"l2": 2.5, "linf": 1}, {"l0": 5}, {}],
        ),
        ({"l2": 2, "linf": 1}, [], [{"l1": 4}]),
        (
            {"l1": 2, "l2": 1.4, "linf": 1},
            [{"l1": 2, "l2": 1, "linf": 1}],
            [{"l1": 3, "l2": 1, "linf": 0.5}, {"l2": 1, "linf": 1}],
        ),
        (
            {"l2": 1, "l0": 9, "uniform": True},
            [{"l2": 1, "l0": 5, "uniform": True}],
            [{"l2": 1, "l0": 9}],
        ),
    ],
)
def test_wider_scores_are_refused(proved: Any, taken: list[Any], refused: list[Any]) -> None:
    """A mechanism takes scores that declare, or imply, at most what it is proved for, and refuses
    others before a draw.
    """
    mechanism = dps.OneshotTopK(
        k=1,
        noise="gaussian" if proved else "gumbel",
        scale=1,
        sensitivity=dps.Sensitivity(**proved),
    )
    for declared in taken:
        mechanism.check(dps.Scores([1, 2], sensitivity=dps.Sensitivity(**declared)))
    for declared in refused:
        with pytest.raises(dps.errors.SensitivityMismatch, match="wider in"):
            mechanism.select(dps.Scores([1, 2], sensitivity=dps.Sensitivity(**declared)))


@pytest.mark.parametrize(
    "relations", [("add_remove", "replace_one"), ("replace_one", "add_remove")]
)
def test_relations_do_not_mix(relations: Any) -> None:
    """Scores under one relation never meet a mechanism proved for the other."""
    one, other = (dps.Sensitivity(relation=relation) for relation in relations)
    first, second = (
        dps.ExponentialMechanism(epsilon=1, sensitivity=bound) for bound in (one, other)
    )
    with pytest.raises(acc.RelationMismatch):
        first.select(dps.Scores([1, 2], sensitivity=other))
    with pytest.raises(acc.RelationMismatch):
        acc.Accountant().compose(first).compose(second)


def test_no_form_of_input_gets_around_the_relation() -> None:
    """monotone under replace_one is refused whatever kind of mapping it comes in, and the range is
    never halved.
    """
    fields = MappingProxyType({"relation": "replace_one"})
    assert dps.Sensitivity.model_validate(fields).range == 2
    assert dps.ExponentialMechanism(epsilon=1, sensitivity=fields).sensitivity_bound.range == 2  # type: ignore[arg-type]
    with pytest.raises(dps.errors.InvalidMechanism, match="cannot hold"):
        dps.Sensitivity.model_validate(
            MappingProxyType({"relation": "replace_one", "monotone": True})
        )


@pytest.mark.parametrize(
    ("fields", "count", "l1", "l2"),
    [
        ({}, None, math.inf, math.inf),
        ({}, 9, 9, 3),
        ({"l0": 4}, None, 4, 2),
        ({"l0": 4, "linf": 0.5}, 3, 1.5, 0.5 * 3**0.5),
        ({"l1": 3, "linf": 1}, None, 3, 3**0.5),
        ({"l2": 2, "linf": 1}, None, math.inf, 2),
        ({"l2": 2, "linf": 1, "l0": 100}, None, 20, 2),
        ({"l2": 2}, 1, 2, 2),
        ({"l1": 3}, 1, 3, 3),
        ({"linf": 1e300, "l0": 4}, None, 4e300, 2e300),
        ({"linf": 1e-300, "l0": 9}, None, 9e-300, 3e-300),
    ],
)
def test_norms_imply_one_another(
    fields: dict[str, float], count: int | None, l1: float, l2: float
) -> None:
    """Theorem H1: each norm is the best that the stated ones imply, never below it and at most a
    few units above.
    """
    sensitivity = dps.Sensitivity(**fields)  # type: ignore[arg-type]
    assert sensitivity.l1_of(count) == pytest.approx(l1, rel=1e-15)
    assert sensitivity.l2_of(count) == pytest.approx(l2, rel=1e-15)


@given(
    change=st.lists(st.floats(-4, 4).map(lambda x: round(x, 2)), min_size=1, max_size=6).filter(
        any
    ),
    stated=st.sets(st.sampled_from(["l0", "l1", "l2"])),
    count=st.integers(1, 6),
)
def test_norms_bound_every_change_that_meets_what_is_stated(
    change: list[float], stated: set[str], count: int
) -> None:
    """Theorem H1 on random changes: whatever subset of its true norms is stated, range, l1 and l2
    of its parts are covered.
    """
    size = sorted((abs(x) for x in change), reverse=True)
    exact = {
        "l0": sum(x > 0 for x in size),
        "l1": math.fsum(size),
        "l2": math.sqrt(math.fsum(x * x for x in size)) * (1 + 1e-15),
    }
    of_one_sign = min(change) >= 0 or max(change) <= 0
    bounds: Any = {
        "linf": size[0],
        "monotone": of_one_sign,
        **{name: exact[name] for name in stated},
    }
    sensitivity = dps.Sensitivity(**bounds)
    slack = 1 + 1e-14
    assert max(change) - min(change) <= sensitivity.range * slack or of_one_sign
    assert math.fsum(size[:count]) <= sensitivity.l1_of(count) * slack
    assert math.hypot(*size[:count]) <= sensitivity.l2_of(count) * slack


def test_stated_norms_imply_linf_and_old_texts_load() -> None:
    """No score changes by more than l1 or l2; what was written before these fields existed reads as
    it did.
    """
    assert dps.Sensitivity(l2=5).linf == 5
    assert dps.Sensitivity(l2=0.5, linf=1).linf == 0.5
    assert dps.Sensitivity(l1=np.float32(5)).linf == 5
    old = '{"linf":1.0,"monotone":true,"l0":3,"relation":"add_remove"}'
    assert dps.Sensitivity.model_validate_json(old) == dps.Sensitivity(l0=3)
    new = dps.Sensitivity.of_clipped(1.5, "l2", "replace_one", 40)
    assert dps.Sensitivity.model_validate_json(new.model_dump_json()) == new


def test_counts_and_clipped_counts() -> None:
    """The constructors state what one user, or two under replace_one, can do; shares are of one
    user.
    """
    assert dps.Sensitivity.of_counts() == dps.Sensitivity()
    assert dps.Sensitivity.of_counts("add_remove", 7) == dps.Sensitivity(l0=7)
    replaced = dps.Sensitivity.of_counts("replace_one", 7)
    assert (replaced.l0, replaced.items_alone, replaced.alone(3), replaced.range) == (14, 7, 1, 2)
    clipped = dps.Sensitivity.of_clipped(1.5, items_per_user=10)
    assert (clipped.linf, clipped.l2, clipped.l0, clipped.monotone) == (1, 1.5, 10, True)
    assert [clipped.alone(t) for t in (1, 2, 9)] == pytest.approx([1, 1, 0.5])
    two = dps.Sensitivity.of_clipped(1.5, "l2", "replace_one", 10)
    assert (two.l2_of(None), two.l0) == (pytest.approx(1.5 * 2**0.5), 20)
    assert [two.alone(t) for t in (1, 2, 9)] == pytest.approx([1, 1, 0.5])
    pure = dps.Sensitivity.of_clipped(2.0, "l1", "replace_one")
    assert (pure.l1_of(None), pure.alone(8), pure.items_alone) == (4, pytest.approx(0.25), None)
    of = dps.Sensitivity
    for wrong in (
        lambda: of.of_clipped(0.0),
        lambda: of.of_clipped(1.0, "l3"),
        lambda: of.of_counts("replace_one", 0),
    ):
        with pytest.raises(dps.errors.InvalidMechanism):
            wrong()


@pytest.mark.parametrize("l0", [1, 3])
def test_an_odd_l0_is_not_twice_one_users(l0: int) -> None:
    """Of uniform shares under replace_one an odd l0 is refused: half of it would price fewer items
    than a user may have.
    """
    with pytest.raises(dps.errors.InvalidMechanism, match=f"l0={l0} cannot be odd"):
        dps.Sensitivity(l0=l0, relation="replace_one", uniform=True)
    assert dps.Sensitivity(l0=l0, relation="replace_one").items_alone == l0
    assert (
        dps.Sensitivity(l0=l0 + 1, relation="replace_one", uniform=True).items_alone
        == (l0 + 1) // 2
    )


def test_groups_of_uniform_shares_need_an_even_l0() -> None:
    """`PerGroup(uniform=True)` halves what its mechanism's sensitivity states, so that l0 must be
    twice one user's there too.
    """
    for l0 in (3, 4):
        one = dps.OneshotTopK(
            k=2,
            noise="gaussian",
            scale=4.0,
            sensitivity=dps.Sensitivity(l0=l0, relation="replace_one"),
            candidates=3,
        )
        assert dps.PerGroup(mechanism=one, max_groups_per_user=1).curve == 2 * one.curve
        if l0 % 2:
            with pytest.raises(dps.errors.InvalidMechanism, match="needs an even l0"):
                dps.PerGroup(mechanism=one, max_groups_per_user=1, uniform=True)
        else:
            dps.PerGroup(mechanism=one, max_groups_per_user=1, uniform=True)
