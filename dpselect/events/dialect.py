"""What engines have in common: every query is written once, and each engine has words, and tables,
of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Protocol, Self, final

from numpy.typing import NDArray

from dpselect.selection import Label


class Dialect(ABC):
    """SQL that engines write differently. Texts and numbers below are SQL, unless something else is
    said.
    """

    @abstractmethod
    def literal(self, text: str) -> str:
        """A string of these characters."""

    @abstractmethod
    def number(self, text: str) -> str:
        """The double that a text says; null for another."""

    @abstractmethod
    def whole(self, text: str) -> str:
        """The integer that a text says; null for another."""

    @abstractmethod
    def pieces(self, text: str, delimiter: str) -> str:
        """A row for each part of a text between delimiters, these characters."""

    @abstractmethod
    def clock(self, time: str) -> str:
        """Microseconds since 1970 of a time without a zone, or a text of one; null for another
        text.
        """

    @abstractmethod
    def of_format(self, text: str, form: str) -> str:
        """Microseconds since 1970 on the clock of a text of this format, in the words of strftime;
        null for another.
        """

    @abstractmethod
    def instant(self, time: str) -> str:
        """Microseconds since 1970 of a time with a zone."""

    @abstractmethod
    def hashed(self, text: str) -> str:
        """What sorts as the first 64 bits of the sha256 of a text."""

    @abstractmethod
    def summed(self, values: str, scale: float) -> str:
        """The exact sum of values times this power of two, each to the nearest whole number, a tie
        to the even one; beyond 2^60 in size it may be cut.
        """


class Tables(Protocol):
    """Relations of one count in an engine, which go when it is closed.

    Attributes:
        dialect: the engine's words.
        bucket: SQL of a number from 0 by which items are looked for: a function of i alone.
        most_ranked: how many pairs of integers are ranked at once.
    """

    dialect: Dialect
    bucket: str
    most_ranked: int

    def another(self) -> Self:
        """Relations of another count, in the same engine."""

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a query."""

    def columns(self, sql: str) -> list[NDArray[Any]]:
        """All columns of a query without nulls: whole numbers, or text."""

    def made(self, name: str, sql: str, *, computed: bool = False) -> str:
        """What the result of a query is called from now on, in place of another that had this name;
        with one row per group, it is small. If `computed`, nothing is read for it again.
        """

    def added(self, name: str, sql: str) -> str:
        """The same with the rows that are there already."""

    def listed(self, name: str, labels: Sequence[Label], kind: str, *, placed: bool = False) -> str:
        """Make a relation of labels in the column i and, if `placed`, their positions in place."""

    def close(self) -> None:
        """Drop them."""


@final
class _Embedded(Dialect):
    """The words of DuckDB."""

    def literal(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def number(self, text: str) -> str:
        return f"TRY_CAST({text} AS DOUBLE)"

    def whole(self, text: str) -> str:
        return f"CAST(TRY_CAST({text} AS BIGINT) AS HUGEINT)"  # a product of it fits

    def pieces(self, text: str, delimiter: str) -> str:
        return f"unnest(coalesce(string_split({text}, {self.literal(delimiter)}), [NULL]))"

    def clock(self, time: str) -> str:
        return f"epoch_us(TRY_CAST({time} AS TIMESTAMP))"

    def of_format(self, text: str, form: str) -> str:
        return f"epoch_us(try_strptime({text}, {self.literal(form)}))"

    def instant(self, time: str) -> str:
        return f"epoch_us({time})"

    def hashed(self, text: str) -> str:
        return f"CAST('0x' || left(sha256({text}), 16) AS UBIGINT)"

    def summed(self, values: str, scale: float) -> str:
        return f"sum(CAST({values} * {double(scale)} AS HUGEINT))"


EMBEDDED: Final[Dialect] = _Embedded()


def double(number: float) -> str:
    """SQL of this very double, in any dialect."""
    text = repr(number)
    return text if "e" in text else f"{text}e0"


def decimal(number: str, mark: str) -> str:
    """SQL of a number as text with a decimal point, from text with a comma in its place, in which
    points group digits.
    """
    return number if mark == "." else f"replace(replace({number}, '.', ''), ',', '.')"


def matches(text: str, pattern: str, dialect: Dialect) -> str:
    """SQL of whether all of a text is of a regular expression."""
    whole = rf"\A(?:{pattern})\z"
    return f"regexp_matches({text}, {dialect.literal(whole)})"
