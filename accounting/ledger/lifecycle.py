"""The life of a charge: reserve -> commit -> release, what may follow what, and what is given back.

A reservation may be voided until data are read; from the commit on it is final, whatever became of the draw. A `charge`
is a reservation and its commit in one entry. A reservation gives back all of itself where no data were read, or what did not run
of a plan whose outcome says what ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from accounting.budget.budget import Budget, Price
from accounting.curves import Approximate, Composed, Curve
from accounting.ledger.errors import InvalidEntry, InvalidTransition
from accounting.ledger.model import Action, Entry, State, package_version

Following = Literal["commit", "release", "void"]

_AFTER: dict[Action, State] = {
    "reserve": "reserved",
    "charge": "committed",
    "commit": "committed",
    "release": "released",
    "void": "void",
}
_NEEDS: dict[Following, tuple[State, str]] = {
    "commit": ("reserved", "only a reserved charge is committed"),
    "release": ("committed", "only a committed charge is released: commit it before the data are read"),
    "void": ("reserved", "only a reserved charge whose data were not read is voided; a failed draw stays charged"),
}
# A later version of the package may round a price a little further outward than the one that charged it.
SLACK = 10**9


def state_of(entries: Sequence[Entry]) -> State:
    """The state that the steps of one key, in order, have led to."""
    return _AFTER[entries[-1].action]


def openings(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries that opened the charge, one per period."""
    return tuple(entry for entry in entries if entry.action in ("charge", "reserve"))


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


def require_state(action: Following, state: State, key: str) -> None:
    """Check that the step may follow; InvalidTransition if it may not."""
    needed, rule = _NEEDS[action]
    if state != needed:
        raise InvalidTransition(f"key={key!r} is {state}: {rule}")


@lru_cache(maxsize=1024)
def price_in(limit: Budget, curve: str, count: int) -> Price:
    """What a charge costs in an account with this limit, a filter of its own; Unaffordable if none of its form pays for that."""
    return limit.price(count * Curve.from_json(curve))


@lru_cache(maxsize=1024)
def _unused(limit: Budget, curve: str, count: int, ran: str) -> Price:
    """What a limit has added up for rounds that did not run (Theorem F8); InvalidEntry if what ran is not part of the whole."""
    whole, part = count * Curve.from_json(curve), Curve.from_json(ran)
    if _rounds(part) - _rounds(whole) or part.delta0 != whole.delta0:
        raise InvalidEntry(
            "spent is not made of rounds of what was reserved, with all of its failure probability: pass what the mechanism's "
            "`spent` says of the selection that it released"
        )
    return limit.unused(whole, part)


def returned(limit: Budget, opening: Entry, ran: str | None, package: str) -> Price:
    """What a void, or a release of which `ran` is the curve, takes out by this package: never more than another one put in."""
    full = price_in(limit, opening.curve or "", opening.count)
    back = full if ran is None else _unused(limit, opening.curve or "", opening.count, ran)
    if opening.package == package:
        return back
    return Price(*(max(0, part - 1 - of // SLACK) for part, of in zip(back, full, strict=True)))


def doubt(limit: Budget, entry: Entry, opening: Entry) -> int:
    """How much more or less of `opening` other versions of the package may have moved by `entry` than this one would."""
    if entry.package == opening.package == package_version():
        return 0
    # Twice: what another version gives back is a little less as well.
    return 2 * (1 + max(price_in(limit, opening.curve or "", opening.count)) // SLACK)


def _rounds(curve: Curve) -> Counter[Curve]:
    """How often each curve is composed in it; bad events left out."""
    if isinstance(curve, Approximate):
        return _rounds(curve.curve)
    if not isinstance(curve, Composed):
        return Counter({curve: 1})
    found: Counter[Curve] = Counter()
    for count, part in curve.parts:
        for inner, times in _rounds(part).items():
            found[inner] += count * times
    return found
