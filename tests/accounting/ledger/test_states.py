"""reserve -> commit -> release, and void only before data were read."""

from __future__ import annotations

import pytest

import accounting as acc
from accounting.budget import Price
from accounting.ledger import InvalidEntry, InvalidTransition, KeyConflict, Ledger

ALL = acc.PureDP(epsilon=1.0)


def test_a_reservation_holds_its_budget(ledger: Ledger) -> None:
    """What is reserved is spent, for everybody, before anything is drawn."""
    assert ledger.reserve("clicks", ALL, relation="add_remove", key="plan").state == "reserved"
    with pytest.raises(acc.BudgetExceeded):
        ledger.charge("clicks", acc.PureDP(epsilon=0.1), relation="add_remove")


def test_a_void_gives_back_as_a_new_entry(ledger: Ledger) -> None:
    """Voiding a reservation appends an entry with a name and a reason; the reservation stays on record."""
    ledger.reserve("clicks", ALL, relation="add_remove", key="plan")
    receipt = ledger.void("clicks", "plan", actor="ada", reason="the survey was cancelled")
    assert (receipt.state, receipt.price, receipt.entries[0].actor) == ("void", Price(-(10**12), 0), "ada")
    assert receipt.entries[0].label == "the survey was cancelled"
    assert [entry.action for entry in ledger.entries("clicks")] == ["reserve", "void"]
    assert ledger.total("clicks").spent == Price(0, 0)
    ledger.charge("clicks", ALL, relation="add_remove")
    assert ledger.verify().ok


@pytest.mark.parametrize("steps", [("commit",), ("commit", "release")])
def test_nothing_is_given_back_after_data_were_read(ledger: Ledger, steps: tuple[str, ...]) -> None:
    """From the commit on, a failed or interrupted draw stays charged."""
    ledger.reserve("clicks", ALL, relation="add_remove", key="plan")
    for step in steps:
        getattr(ledger, step)("clicks", "plan")
    with pytest.raises(InvalidTransition, match="stays charged"):
        ledger.void("clicks", "plan", actor="ada", reason="it failed")
    assert ledger.total("clicks").spent.main == 10**12


def test_a_charge_is_committed_at_once(ledger: Ledger) -> None:
    """`charge` leaves no moment in which it could be voided."""
    ledger.charge("clicks", ALL, relation="add_remove", key="query")
    with pytest.raises(InvalidTransition):
        ledger.void("clicks", "query", actor="ada", reason="never mind")
    assert ledger.release("clicks", "query").state == "released"


def test_steps_are_not_skipped(ledger: Ledger) -> None:
    """A release needs a commit, a commit a reservation, and a step on an unknown key is an error."""
    ledger.reserve("clicks", ALL, relation="add_remove", key="plan")
    with pytest.raises(InvalidTransition, match="commit it before"):
        ledger.release("clicks", "plan")
    with pytest.raises(InvalidTransition, match="no charge"):
        ledger.commit("clicks", "another plan")
    ledger.void("clicks", "plan", actor="ada", reason="no data")
    with pytest.raises(InvalidTransition):
        ledger.commit("clicks", "plan")


def test_steps_are_taken_once(ledger: Ledger) -> None:
    """A repeated commit, release or void is given back as it was and adds no entry."""
    ledger.reserve("clicks", ALL, relation="add_remove", key="plan")
    first = ledger.commit("clicks", "plan")
    again = ledger.commit("clicks", "plan")
    assert again.replayed
    assert again.entries == first.entries
    ledger.release("clicks", "plan")
    assert ledger.release("clicks", "plan").replayed
    assert len(list(ledger.entries("clicks"))) == 3


def test_a_voided_key_is_not_charged_again(ledger: Ledger) -> None:
    """Reserving under a voided key would return a receipt that pays for nothing, so it is refused."""
    ledger.reserve("clicks", ALL, relation="add_remove", key="plan")
    ledger.void("clicks", "plan", actor="ada", reason="no data")
    with pytest.raises(KeyConflict, match="voided"):
        ledger.reserve("clicks", ALL, relation="add_remove", key="plan")


def test_a_void_is_by_a_named_actor(ledger: Ledger) -> None:
    """A void without a name or a reason is refused."""
    ledger.reserve("clicks", ALL, relation="add_remove", key="plan")
    for actor, reason in (("", "why"), ("ada", ""), ("ada", " ")):
        with pytest.raises(InvalidEntry):
            ledger.void("clicks", "plan", actor=actor, reason=reason)
