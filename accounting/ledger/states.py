"""reserve -> commit -> release: what may follow what.

A reservation may be voided until data are read; from the commit on there is no way back, whatever became of the draw. A `charge`
is a reservation and its commit in one entry.
"""

from __future__ import annotations

from collections.abc import Iterable

from accounting.ledger.errors import InvalidTransition
from accounting.ledger.model import Action, Entry, State

_AFTER: dict[str, State] = {
    "reserve": "reserved",
    "charge": "committed",
    "commit": "committed",
    "release": "released",
    "void": "void",
}
_NEEDS: dict[Action, State] = {"commit": "reserved", "void": "reserved", "release": "committed"}


def state_of(entries: Iterable[Entry]) -> State:
    """The state that the steps of one key, in order, have led to."""
    last = list(entries)[-1]
    return _AFTER[last.action]


def openings(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries that opened the charge, one per period."""
    return tuple(entry for entry in entries if entry.action in ("charge", "reserve"))


def is_done(action: Action, entries: Iterable[Entry]) -> bool:
    """Whether the step was taken before."""
    return any(entry.action == action for entry in entries)


def moves(entry: Entry, opening: Entry | None) -> Entry | None:
    """The entry that opened the charge which `entry` opens, takes back, or settles at less; None if it does nothing of that."""
    if entry.action in ("charge", "reserve"):
        return entry
    return opening if entry.action == "void" or (entry.action == "release" and entry.curve is not None) else None


class Openings:
    """From entries in order to those that opened them. Memory grows with the reservations that are open."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Entry] = {}

    def of(self, entry: Entry) -> Entry | None:
        """As `moves`, of the next entry."""
        place = entry.key, entry.period
        if entry.action == "reserve":
            self._open[place] = entry
        return moves(entry, self._open.pop(place, None) if entry.action in ("void", "release") else None)


def require(action: Action, state: State, key: str) -> None:
    """Check that the step may follow.

    Raises:
        InvalidTransition: it may not.
    """
    if _NEEDS.get(action) == state:
        return
    rule = {
        "commit": "only a reserved charge is committed",
        "release": "only a committed charge is released: commit it before the data are read",
        "void": "only a reserved charge whose data were not read is voided; a failed draw stays charged",
    }
    raise InvalidTransition(f"key={key!r} is {state}: {rule.get(action, 'a charge is opened once')}")
