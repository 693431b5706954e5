"""What a replay found, for the keeper of the data: as text and as data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from accounting import Relation
from dpselect.cli import out

PRIVATE = (
    "These figures are exact, and private: for the data's keeper alone. They do not prove the declaration: "
    "other users, and other logs, were not tried."
)


def as_data(found: Any, declared: dict[str, float | None]) -> dict[str, Any]:
    return asdict(found) | {"holds": found.holds, "declared": declared, "notes": [PRIVATE]}


def shown(found: Any, declared: dict[str, float | None], relation: Relation) -> RenderableType:
    table = Table.grid(Column(), Column(justify="right"), Column(justify="right"), padding=(0, 2))
    table.add_row(*map(out.heading, ("", "declared", "largest change")))
    for name, value in declared.items():
        table.add_row(name, "any" if value is None else f"{value:.6g}", f"{getattr(found, name):.6g}")
    return Group(
        out.heading(f"Replayed {found.users:,} {'users' if relation == 'add_remove' else 'pairs of users'} ({relation})"),
        Text(),
        table,
        Text(),
        Text(_verdict(found)),
        Text.assemble(("Note: ", "bold yellow"), PRIVATE),
    )


def _verdict(found: Any) -> str:
    if found.holds:
        return "The declaration holds for all of them."
    return f"Broken in {', '.join(found.broken)}; the first who breaks it is the user with the salted name {found.offender}."
