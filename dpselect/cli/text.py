"""How commands write: headings, facts in two columns, tables, notes, JSON; as text for a terminal or for a file."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD, Box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

_NARROWEST = 40  # columns that a table of an answer needs for its items


def json_text(data: dict[str, Any] | list[dict[str, Any]]) -> str:
    """JSON text; fails rather than write NaN or Infinity, which are not JSON."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=True)


def heading(words: str) -> Text:
    """A line above facts."""
    return Text(words, style="bold")


def note(kind: str, words: str, style: str = "bold yellow") -> Text:
    """A line that begins with what it is."""
    return Text.assemble((f"{kind}: ", style), words)


def facts(pairs: Iterable[tuple[str, str]]) -> RenderableType:
    """Names and what they stand for, in two columns."""
    table = Table.grid(Column(style="cyan", no_wrap=True), Column(overflow="fold"), padding=(0, 2))
    for name, value in pairs:
        table.add_row(Text(name), Text(value))
    return Padding(table, (0, 0, 0, 2))


def section(title: str, pairs: Iterable[tuple[str, str]]) -> Group:
    """Facts under a heading."""
    return Group(heading(title), facts(pairs))


def page(*parts: RenderableType) -> Group:
    """One part after the other, an empty line between two."""
    return Group(*[line for part in parts for line in (Text(), part)][1:])


def rows(
    heads: Sequence[str], cells: Iterable[Iterable[str]], *, left: Sequence[str] = (), box: Box | None = SIMPLE_HEAD
) -> Table:
    """A table whose columns stand to the right, but for those in `left`."""
    table = Table(box=box, padding=(0, 2 if box is None else 1, 0, 0), show_edge=False, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="left" if head in left else "right", no_wrap=True)
    for row in cells:
        table.add_row(*row)
    return table


def plain(content: RenderableType) -> str:
    """As text for a file."""
    written = io.StringIO()
    Console(file=written, width=100, highlight=False, no_color=True).print(content)
    return written.getvalue()


def screen(*, highlight: bool = False) -> Console:
    """Standard output. One of fewer columns, or of none (COLUMNS=0), wraps lines by itself: cells have room for words."""
    console = Console(highlight=highlight)
    console.width = max(console.width, _NARROWEST)
    return console
