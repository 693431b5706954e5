"""The common interface of engines: their SQL words and tables, for queries written once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol, Self, final

from numpy.typing import NDArray

from dpselect.selection import Label


class Dialect(ABC):
    """SQL that engines write differently. Arguments and results are SQL unless stated otherwise."""

    @abstractmethod
    def literal(self, text: str) -> str:
        """A string literal of these characters."""

    @abstractmethod
    def number(self, text: str) -> str:
        """The double that a text represents, or null."""

    @abstractmethod
    def integer(self, text: str) -> str:
        """The integer that a text represents, or null."""

    @abstractmethod
    def pieces(self, text: str, delimiter: str) -> str:
        """One row for each part of a text between delimiters. The delimiter is not SQL."""

    @abstractmethod
    def clock(self, time: str) -> str:
        """Microseconds since 1970 of a time without a zone, or of such a text; null for others."""

    @abstractmethod
    def parse_format(self, text: str, form: str) -> str:
        """Microseconds since 1970 on the clock, for a text of this strftime format, or null."""

    @abstractmethod
    def instant(self, time: str) -> str:
        """Microseconds since 1970 for a time with a zone."""

    @abstractmethod
    def hash_text(self, text: str) -> str:
        """A value that sorts as the first 64 bits of a text's sha256."""

    @abstractmethod
    def exact_sum(self, values: str, scale: float) -> str:
        """The exact sum of values times this power of two, each rounded half to even.

        A value beyond 2^60 in size may be cut.
        """


class Tables(Protocol):
    """Relations of one count in an engine. They are dropped when it is closed.

    Attributes:
        dialect: the engine's SQL words.
        bucket: SQL of a number from 0 to 4095, a function of the column {0} alone.
        most_ranked: number of pairs of integers that are ranked at once.
    """

    dialect: Dialect
    bucket: str
    most_ranked: int

    def another(self) -> Self:
        """Relations for another count in the same engine."""

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a query."""

    def columns(self, sql: str) -> list[NDArray[Any]]:
        """All columns of a query without nulls, as whole numbers or text."""

    def store(self, name: str, sql: str, *, computed: bool = False) -> str:
        """Store or replace a relation with the result of a query, and return its name in SQL.

        The relation is small if it has one row per group. If `computed`, nothing is read for it
        again.
        """

    def store_groups(self, sql: str, *, once: bool = False) -> str:
        """Store the groups of a log, and return the name. A log is perhaps readable only `once`."""

    def append(self, name: str, sql: str) -> str:
        """Append the result of a query to the relation of this name, and return its name in SQL."""

    def store_labels(
        self, name: str, labels: Sequence[Label], kind: str, *, placed: bool = False
    ) -> str:
        """Store labels in the column i (and places if `placed`), and return the name in SQL."""

    def save(self, relation: str, path: Path) -> None:
        """Write a relation with columns u and i to a Parquet file on this machine."""

    def close(self) -> None:
        """Drop all relations."""


@final
class _Embedded(Dialect):
    """The SQL words of DuckDB."""

    def literal(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def number(self, text: str) -> str:
        return f"TRY_CAST({text} AS DOUBLE)"

    def integer(self, text: str) -> str:
        return f"CAST(TRY_CAST({text} AS BIGINT) AS HUGEINT)"  # a product of it fits

    def pieces(self, text: str, delimiter: str) -> str:
        return f"unnest(coalesce(string_split({text}, {self.literal(delimiter)}), [NULL]))"

    def clock(self, time: str) -> str:
        return f"epoch_us(TRY_CAST({time} AS TIMESTAMP))"

    def parse_format(self, text: str, form: str) -> str:
        return f"epoch_us(try_strptime({text}, {self.literal(form)}))"

    def instant(self, time: str) -> str:
        return f"epoch_us({time})"

    def hash_text(self, text: str) -> str:
        return f"CAST('0x' || left(sha256({text}), 16) AS UBIGINT)"

    def exact_sum(self, values: str, scale: float) -> str:
        return f"sum(CAST({values} * {double(scale)} AS HUGEINT))"


EMBEDDED: Final[Dialect] = _Embedded()


def double(number: float) -> str:
    """SQL of exactly this double, in any dialect."""
    text = repr(number)
    return text if "e" in text else f"{text}e0"


# with a decimal comma: points group three digits, or 12.5 would be read as 125
_GROUPED = r"[^.]*|\s*[+-]?[0-9]{1,3}(\.[0-9]{3})+(,[0-9]*)?\s*"


def decimal(number: str, mark: str, dialect: Dialect) -> str:
    """SQL of a number text with a decimal point, from one with the decimal mark `mark`, or null."""
    if mark == ".":
        return number
    pointed = f"replace(replace({number}, '.', ''), ',', '.')"
    return f"CASE WHEN {matches(number, _GROUPED, dialect)} THEN {pointed} END"


def matches(text: str, pattern: str, dialect: Dialect) -> str:
    """SQL that is true if a regular expression matches a whole text."""
    whole = rf"\A(?:{pattern})\z"
    return f"regexp_matches({text}, {dialect.literal(whole)})"
