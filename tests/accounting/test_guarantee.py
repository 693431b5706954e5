"""Relations travel with curves: what states one keeps it, and a bare curve does not slip in beside
it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from dpselect import pate

ADDED = dps.ExponentialMechanism(epsilon=0.1)
REPLACED = dps.ExponentialMechanism(
    epsilon=0.1, sensitivity=dps.Sensitivity(relation="replace_one")
)


@pytest.fixture
def ledger(tmp_path: Path) -> acc.Ledger:
    """A dataset under each relation."""
    ledger = acc.Ledger.open(f"sqlite:///{tmp_path / 'l.db'}")
    ledger.create_dataset("added", acc.Budget(epsilon=9.0, delta=1e-5), "add_remove")
    ledger.create_dataset("replaced", acc.Budget(epsilon=9.0, delta=1e-5), "replace_one")
    return ledger


def test_a_ledger_knows_compositions_of_mechanisms(ledger: acc.Ledger) -> None:
    """n * mechanism and sums are charged as one item under the mechanisms' relation."""
    item = 3 * REPLACED + REPLACED
    assert ledger.charge("replaced", item).entries[0].curve == (4 * REPLACED.curve).to_json()
    with pytest.raises(acc.RelationMismatch):
        ledger.charge("added", item)
    assert ledger.verify().ok


@pytest.mark.parametrize(
    "make",
    [
        lambda: acc.Accountant().compose,
        lambda: acc.PrivacyFilter(acc.Budget(epsilon=9.0)).charge,
        lambda: acc.filter.PrivacyOdometer(delta=0.0, order="inf").charge,
    ],
)
def test_sums_know_all_relations_or_none(make: Callable[[], Callable[..., object]]) -> None:
    """Bare curves add up among themselves; beside a mechanism, or where the plan's relation is
    stated at the start, each of them states its relation, whichever comes first. The cost of a
    teacher stands beside no user's.
    """
    for stated in (
        acc.Accountant("replace_one").compose,
        acc.PrivacyFilter(acc.Budget(epsilon=1.0), "replace_one").charge,
    ):
        with pytest.raises(acc.RelationMismatch, match="bare curve"):
            stated(ADDED.curve)
    add = make()
    for _ in range(2):
        add(ADDED.curve)
    with pytest.raises(acc.RelationMismatch, match="relation"):
        add(ADDED)
    add = make()
    add(ADDED)
    with pytest.raises(acc.RelationMismatch, match="bare curve"):
        add(ADDED.curve)
    with pytest.raises(acc.RelationMismatch):
        add(ADDED.curve, relation="replace_one")
    add(ADDED.curve, relation="add_remove")
    add(2 * ADDED)
    with pytest.raises(acc.RelationMismatch):
        add(REPLACED)
    with pytest.raises(acc.RelationMismatch, match="unit='record'"):
        add(pate.TopVotes(k=1, scale=9.0, labels=2, relation="add_remove", unit="teacher"))


def test_arithmetic_keeps_the_relation() -> None:
    """Multiples and sums of mechanisms have the composed curve and the common relation, in any
    order.
    """
    stated = acc.guarantee.Guarantee(acc.PureDP(epsilon=1.0), "add_remove")
    for total in (2 * ADDED + stated, ADDED + (stated + ADDED), sum([ADDED, ADDED, stated])):
        assert (total.curve, total.relation) == (2 * ADDED.curve + stated.curve, "add_remove")
        assert total.epsilon(1e-6) == total.curve.epsilon(1e-6)
        assert total.delta(0.5) == total.curve.delta(0.5)
    assert (np.int64(5) * ADDED).curve == 5 * ADDED.curve


def test_conversions_keep_the_relation_of_a_mechanism() -> None:
    """Group privacy and sampling of a mechanism are guarantees under its relation."""
    assert acc.group_privacy(REPLACED, 4) == acc.guarantee.Guarantee(
        acc.group_privacy(REPLACED.curve, 4), "replace_one"
    )
    sampled = acc.poisson_sampled(ADDED, 0.1)
    assert sampled == acc.guarantee.Guarantee(
        acc.poisson_sampled(ADDED.curve, 0.1, relation="add_remove"), "add_remove"
    )


def test_a_plan_may_be_written_as_a_sum(ledger: acc.Ledger) -> None:
    """Session.schedule takes n * mechanism; what is no mechanism is refused with words."""
    session = dps.Session(ledger, "added")
    plan = session.schedule(2 * ADDED + dps.PermuteAndFlip(epsilon=0.2))
    assert plan.remaining == {ADDED: 2, dps.PermuteAndFlip(epsilon=0.2): 1}
    scores = dps.Scores([3, 1], sensitivity=dps.Sensitivity())
    for attempt in (
        lambda: session.select(ADDED.curve, scores),
        lambda: session.select_many(2 * ADDED, [[1, 2]]),
        lambda: session.schedule(ADDED),
        lambda: session.schedule(3 * ADDED + acc.guarantee.Guarantee(ADDED.curve, "add_remove")),
        lambda: plan.select(ADDED.curve, scores),
    ):
        with pytest.raises(dps.errors.InvalidRequest):
            attempt()
