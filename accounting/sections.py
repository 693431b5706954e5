"""`Section` of a result, and what a terminal and a notebook show of a list of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, final

from accounting.wording import format_number, format_upper_bound, printable

if TYPE_CHECKING:
    from rich.console import Console

# Both renderers are imported when a result is shown.

_WIDE: Final = 118  # columns of a terminal that shows all columns of a table
_MOST_ROWS: Final = 60  # of a table in a notebook
_DELTAS: Final = (0.0, 1e-9, 1e-6, 1e-5)


@final
@dataclass(frozen=True)
class Section:
    """A section of a result with facts, a table, lines and notes, in this order.

    Attributes:
        title: heading; empty for none.
        facts: names and values.
        heads, rows: a table. Numbers are rounded to six digits, and None is an empty cell.
        lines: lines of text. A line that begins with a space is a command to be typed.
        notes: kinds and words, for example a warning.
        left: heads of columns of words, which are aligned to the left and wrap.
        narrow: heads that a narrow terminal shows; all if it is empty.
    """

    title: str = ""
    facts: Sequence[tuple[str, object]] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    lines: Sequence[str] = ()
    notes: Sequence[tuple[str, str]] = ()
    left: Sequence[str] = ()
    narrow: Sequence[str] = ()

    def spell(self, spell: Callable[[str], str]) -> Self:
        """Return a copy whose cells and words are text as `spell` writes it."""

        def text(part: Any) -> Any:
            if isinstance(part, list | tuple):
                return tuple(map(text, part))
            if isinstance(part, float):
                part = f"{part:,.6g}" if abs(part) >= 1000 else format_number(part, 6)
            return spell("" if part is None else str(part))

        return type(self)(*(text(getattr(self, field.name)) for field in fields(self)))


class Sectioned(ABC):
    """Base class of results that have sections for people."""

    @abstractmethod
    def sections(self) -> Iterable[Section]:
        """Return the result for people, with numbers rounded for reading."""

    @final
    def _repr_html_(self) -> str:
        return as_html(self.sections())


def cost_section(
    title: str, facts: Sequence[tuple[str, object]], epsilon: Callable[[float], float]
) -> Section:
    """Return a section with the epsilons at usual deltas, rounded up."""
    rows = [(format_number(delta), format_upper_bound(epsilon(delta))) for delta in _DELTAS]
    return Section(title, facts, ["at \u03b4", "\u03b5 (nats)"], rows)


def as_html(sections: Iterable[Section]) -> str:
    """Return HTML for a notebook, without scripts. Tables show at most 60 rows."""
    from accounting.page.templates import asset, template

    printable_sections = [section.spell(printable) for section in sections]
    return template("accounting.page", "card.html").render(
        sections=printable_sections, most=_MOST_ROWS, style=asset("accounting.page", "card.css")
    )


def write(sections: Iterable[Section], console: Console) -> None:
    """Print sections on a console, with an empty line between two."""
    from rich.padding import Padding
    from rich.table import Column, Table
    from rich.text import Text

    words = partial(Column, overflow="fold")
    for place, section in enumerate(each.spell(printable) for each in sections):
        if place:
            console.print()
        if section.title:
            console.print(Text(section.title, style="bold"))
        places = [
            index
            for index, head in enumerate(section.heads)
            if console.width >= _WIDE or head in (section.narrow or section.heads)
        ]
        columns = [
            words()
            if section.heads[index] in section.left
            else Column(justify="right", no_wrap=True)
            for index in places
        ]
        rows = [[Text(str(row[index])) for index in places] for row in section.rows]
        heads = [Text(section.heads[index], style="bold") for index in places]
        facts = [[Text(str(cell)) for cell in fact] for fact in section.facts]
        for form, cells in (
            ([Column(style="cyan", no_wrap=True), words()], facts),
            (columns, [heads, *rows] if rows else []),
        ):
            table = Table.grid(*form, padding=(0, 2))
            for row in cells:
                table.add_row(*row)
            if cells:
                console.print(Padding(table, (0, 0, 0, 2)))
        for line in section.lines:
            typed = line.startswith(" ")
            console.print(Text(line, style="green" if typed else ""), soft_wrap=typed)
        for kind, note in section.notes:
            console.print(Text.assemble((f"{kind}: ", "bold yellow"), note))
