"""What engines call the same thing: every query is written once, and each engine has words of its own for a few parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final


class Dialect(ABC):
    """SQL that engines write differently. Texts and numbers below are SQL, unless something else is said."""

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
        """Microseconds since 1970 of a time without a zone, or a text of one; null for another text."""

    @abstractmethod
    def instant(self, time: str) -> str:
        """Microseconds since 1970 of a time with a zone."""

    @abstractmethod
    def hashed(self, text: str) -> str:
        """What sorts as the first 64 bits of the sha256 of a text."""

    @abstractmethod
    def summed(self, values: str, scale: float) -> str:
        """The exact sum of values times this power of two, each to the nearest whole number, a tie to the even one; beyond 2^60
        in size it may be cut.
        """


@final
class _Embedded(Dialect):
    """The words of DuckDB."""

    def literal(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def number(self, text: str) -> str:
        return f"TRY_CAST({text} AS DOUBLE)"

    def whole(self, text: str) -> str:
        return f"TRY_CAST({text} AS HUGEINT)"

    def pieces(self, text: str, delimiter: str) -> str:
        return f"unnest(coalesce(string_split({text}, {self.literal(delimiter)}), [NULL]))"

    def clock(self, time: str) -> str:
        return f"epoch_us(TRY_CAST({time} AS TIMESTAMP))"

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


def matches(text: str, pattern: str, dialect: Dialect) -> str:
    """SQL of whether all of a text is of a regular expression."""
    whole = rf"\A(?:{pattern})\z"
    return f"regexp_matches({text}, {dialect.literal(whole)})"
