"""Public conditions on an event's columns. Text is compared as the source holds it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Final, Literal, Self, final, get_args
from uuid import UUID

import numpy as np

from dpselect.errors import EventLogError

Sign = Literal["=", "!=", "<=", ">=", "<", ">"]
_SIGNS: Final = get_args(Sign)
_EQUAL: Final = ("=", "!=")
_QUOTED = r'"(?:[^"]|"")*"'
_FORM = re.compile(
    rf"\s*(?P<column>{_QUOTED}|[^\"=!<>]+?)\s*(?P<sign>!=|<=|>=|=|<|>)"
    rf"\s*(?P<value>{_QUOTED}|[^\"].*?|)\s*",
    re.DOTALL,
)
NUMBER = "[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
"""A number in decimals, as any engine's regular expression."""
_CANONICAL = re.compile("-?(0|[1-9][0-9]{0,399})([.][0-9]{1,399})?([eE][+-]?[0-9]{1,3})?")
_MOST, _LONGEST, _HUGE = 8, 1000, 10**1000
_HOW = (
    "write column = value, with one of =, !=, <, <=, >, >=; a name or a value with one of these in"
    " it in double quotes"
)


@final
@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on an event's value in a column. A missing value satisfies no condition.

    With = and != values are compared as text, exactly as labels are, so "01" is not "1". In a
    column of numbers, values are compared with a number as numbers (1 equals 1.0), and differ from
    all other text. With <, <=, > and >= values are compared as numbers, to the nearest double. A
    value of another kind, such as text in place of a number, or a nested value, satisfies no
    condition and refuses no log, because the caller chooses the conditions.
    """

    column: str
    sign: Sign
    value: str

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parse "column = value". Refuse other forms, and comparisons with a text as a number."""
        match = (
            _FORM.fullmatch(text)
            if isinstance(text, str) and len(text) <= _LONGEST and "\0" not in text
            else None
        )
        if match is None:
            raise EventLogError(f"where={_quote(text)} is no condition: {_HOW}")
        column, value = _unquote(match["column"]), _unquote(match["value"])
        sign: Sign = match["sign"]  # type: ignore[assignment]
        if not match["value"].startswith('"') and value.startswith(tuple(_SIGNS)):
            raise EventLogError(f"where={_quote(text)} has two signs in a row: {_HOW}")
        if not column or not value:
            raise EventLogError(
                f"where={_quote(text)} lacks {'a value' if column else 'a column'}: {_HOW}. Events"
                " without a value in a column of conditions are never read"
            )
        condition = cls(column, sign, value)
        if not condition.as_text and not (
            re.fullmatch(NUMBER, value) and math.isfinite(float(value))
        ):
            raise EventLogError(
                f"where={_quote(text)} compares with something that is not a number: {sign} is for"
                " numbers; events of a stretch of time are read with since= and until="
            )
        return condition

    @property
    def as_text(self) -> bool:
        """True if values are compared as text and not as numbers."""
        return self.sign in _EQUAL

    def compares_numbers(self, kind: str) -> bool:
        """True if values of a column of this kind are compared with `number`."""
        return not self.as_text or (kind == "number" and self._says_number())

    def text(self, kind: str) -> str:
        """Text to compare with values of a column of this kind, without fraction if integers."""
        if kind == "int" and self._says_number() and abs(self.number) < 2.0**65:
            exact = Decimal(self.value)
            return str(int(exact)) if exact == exact.to_integral_value() else self.value
        return self.value

    def equals(self, value: float) -> bool:
        """True if this number is equal to the condition's value, compared as a number."""
        return (
            self.as_text
            and self._says_number()
            and (Decimal(self.value) == value if isinstance(value, int) else self.number == value)
        )

    def _says_number(self) -> bool:
        return bool(_CANONICAL.fullmatch(self.value)) and math.isfinite(self.number)

    @property
    def number(self) -> float:
        """The condition's value as a number."""
        return float(self.value)

    def __str__(self) -> str:
        return f"{_quote_part(self.column)} {self.sign} {_quote_part(self.value)}"


def conditions(value: object) -> tuple[Condition, ...]:
    """One condition, or up to eight that an event must all satisfy, in order without duplicates."""
    texts: Sequence[object] = (
        [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
    )
    by_text = {
        str(condition): condition
        for condition in (
            text if isinstance(text, Condition) else Condition.parse(text) for text in texts
        )
    }
    if len(by_text) > _MOST:
        raise EventLogError(
            f"where= has {len(by_text)} conditions, and at most {_MOST} are read. Select the events"
            " before"
        )
    return tuple(by_text[text] for text in sorted(by_text))


def comparable_text(value: object, test: Condition, missing: Sequence[Condition]) -> str | None:
    """A Python value as the text by which a condition compares it, as in a column of its type.

    None means that the value satisfies no condition, or is a number that stands for a `missing`
    value. numpy scalars count as the values that they hold, and complex numbers without an
    imaginary part as real, because one user's value may decide whether a column has such a type.
    """
    if isinstance(value, complex | np.complexfloating) and value.imag == 0:
        value = value.real
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating):
        return None if math.isnan(value) else _number(float(value), test, missing)
    if isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64):
        return _number(int(value), test, missing) if abs(int(value)) < _HUGE else None
    if isinstance(value, Decimal):
        return (
            format(value, "f")
            if value.is_infinite() or (value.is_finite() and abs(value.adjusted()) < _LONGEST)
            else None
        )
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        return str.__str__(value) if _is_encodable(value) else None
    return str(value) if isinstance(value, UUID) else None


def _number(value: float, test: Condition, missing: Sequence[Condition]) -> str | None:
    if any(condition.equals(value) for condition in missing):
        return None
    return test.value if test.equals(value) else repr(value)


def _is_encodable(text: str) -> bool:
    """True if some encoding can write the text, which a lone surrogate prevents."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _unquote(text: str) -> str:
    return text[1:-1].replace('""', '"') if text.startswith('"') else text


def _quote_part(text: str) -> str:
    plain = text == text.strip() and not re.search('[="!<>]', text)
    return text if plain else '"' + text.replace('"', '""') + '"'


def _quote(text: object) -> str:
    return repr(text)[:80] if isinstance(text, str) else f"<{type(text).__name__}>"
