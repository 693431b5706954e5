"""Text and numbers as they may be shown."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal


def printable(text: object) -> str:
    """`text` without anything that a terminal would obey: control characters and their like are shown by their code."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(text))


def rounded_up(value: float, digits: int = 6) -> str:
    """`value` to so many significant digits, never less than it is."""
    shown = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(float(value))))
    return f"{float(shown):.{digits}g}"
