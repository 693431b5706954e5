"""What objects of this library are in a notebook: small tables that need no network and run no script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accounting.conversion.bounds import Bounded, best_epsilon
from accounting.ledger.words import plain, rounded_up
from accounting.page.templates import asset, template

_MOST_ROWS = 60
_DELTAS = (0.0, 1e-9, 1e-6, 1e-5)
Rows = Sequence[Sequence[object]]


def card(
    title: str, *, facts: Sequence[tuple[str, object]] = (), heads: Sequence[str] = (), rows: Rows = (), note: str = ""
) -> str:
    """HTML of names and values, and of one table, of which at most 60 rows are shown."""
    shown = list(rows[:_MOST_ROWS])
    return template("accounting.page", "card.html").render(
        **{"title": title, "facts": facts, "heads": heads, "rows": shown, "more": len(rows) - len(shown), "note": note},
        style=asset("accounting.page", "card.css"),
    )


def priced(curve: Bounded) -> dict[str, Any]:
    """The table of a card: what a curve costs at usual deltas, rounded up."""
    found = [(plain(delta), best_epsilon(curve, delta, thorough=True).value) for delta in _DELTAS]
    rows = [(delta, "none" if epsilon == float("inf") else f"\u2264 {rounded_up(epsilon)}") for delta, epsilon in found]
    return {"heads": ["at \u03b4", "\u03b5 (nats)"], "rows": rows}
