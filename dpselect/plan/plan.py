"""`Plan`, sections of words for a terminal or a notebook, and plain data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final


@final
@dataclass(frozen=True)
class Section:
    """A section of a plan with facts, lines or a table.

    Attributes:
        title: heading; empty for none.
        facts: names and values.
        lines: lines of text.
        heads, rows: a table.
        left: heads of columns of words.
        narrow: heads that a narrow screen shows; all if it is empty.
        best_first: True if the first row is the best, which a page prints in bold.
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
        """A copy with fields as `spell` writes them."""
        return replace(
            self,
            facts=[(name, spell(value)) for name, value in self.facts],
            lines=list(map(spell, self.lines)),
            rows=[list(map(spell, row)) for row in self.rows],
            notes=list(map(spell, self.notes)),
        )


class Plan(ABC):
    """A recommendation for a question, with its forecast. Public, because no data were read."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The planned release, on one line."""

    @abstractmethod
    def words(self) -> Iterator[Section]:
        """The recommendation, its quality and its cost."""

    @abstractmethod
    def rows(self) -> Iterator[Section]:
        """Further details."""

    @abstractmethod
    def as_data(self) -> dict[str, Any]:
        """The plan as plain data."""

    def _repr_html_(self) -> str:
        from accounting.page.templates import card  # notebooks only

        facts = [fact for section in self.words() for fact in section.facts]
        table = next((section for section in self.rows() if section.rows), Section())
        return card(self.headline, facts=facts, heads=table.heads, rows=table.rows)


def amount(value: float) -> str:
    """A number of users or items, to the whole from a thousand and to three digits below."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def share(value: float) -> str:
    """A simulated share in percent, but never 0 or 100%, which no number of draws shows."""
    percent = 100 * value
    if percent < 1:
        return "under 1%"
    return "over 99%" if percent > 99 else f"{percent:.0f}%"
