"""`Plan`: sections in words for a terminal or a notebook, and plain data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final


@final
@dataclass(frozen=True)
class Section:
    """What a plan says of one thing.

    Attributes:
        title: its heading; empty for none.
        facts: names and values.
        lines: of text.
        heads, rows: a table.
        left: heads of columns of words.
        narrow: the heads that a screen of few columns shows; all where it is empty.
        best_first: whether the first row is the best, which a page prints in bold.
        notes: small print below.
    """

    title: str = ""
    facts: Sequence[tuple[str, str]] = ()
    lines: Sequence[str] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    left: Sequence[str] = ()
    narrow: Sequence[str] = ()
    best_first: bool = False
    notes: Sequence[str] = ()

    def spelled(self, spell: Callable[[str], str]) -> Section:
        """With fields as `spell` writes them."""
        return replace(
            self,
            facts=[(name, spell(value)) for name, value in self.facts],
            lines=list(map(spell, self.lines)),
            rows=[list(map(spell, row)) for row in self.rows],
            notes=list(map(spell, self.notes)),
        )


class Plan(ABC):
    """What is recommended for a question, and what to expect of it. Public: no data were read."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """What is planned, on one line."""

    @abstractmethod
    def words(self) -> Iterator[Section]:
        """What is recommended, what it finds and costs."""

    @abstractmethod
    def rows(self) -> Iterator[Section]:
        """All that was looked at."""

    @abstractmethod
    def as_data(self) -> dict[str, Any]:
        """As plain data."""

    def _repr_html_(self) -> str:
        from accounting.page.templates import card  # notebooks only

        facts = [fact for section in self.words() for fact in section.facts]
        table = next((section for section in self.rows() if section.rows), Section())
        return card(self.headline, facts=facts, heads=table.heads, rows=table.rows)


def amount(value: float) -> str:
    """Of users or items: to the whole from a thousand, to three digits below."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def share(value: float) -> str:
    """A share that was simulated, in percent: never 0 or 100%, which no number of draws shows."""
    percent = 100 * value
    if percent < 1:
        return "under 1%"
    return "over 99%" if percent > 99 else f"{percent:.0f}%"
