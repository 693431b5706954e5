"""Numbers in words, and curves and mechanisms in words from their JSON alone.

An auditor need not install the packages that drew the noise.
"""

# ruff: noqa: RUF001 - written for readers: Greek letters, a true minus, a multiplication sign

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from accounting.errors import AccountingError
from accounting.strict_json import read_json

_GREEK = {
    "epsilon": "ε",
    "epsilon0": "ε",
    "delta": "δ",
    "delta0": "δ₀",
    "rho": "ρ",
    "mu": "μ",
    "sigma": "σ",
    "gamma": "γ",
}
# the relation stands with the dataset, and a digest says nothing to readers
_LEFT_OUT = ("kind", "relation", "binding")
_LONGEST = 240
_MOST_ITEMS = 4
_DEEPEST = 4


def printable(text: object) -> str:
    """Return `text` with control characters and the like shown by their code.

    The result holds nothing that a terminal would obey.
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(text))


def in_words(text: str | None) -> str:
    """Return the JSON of a curve or mechanism as one line of text; "" for None."""
    if text is None:
        return ""
    try:
        words = _object(read_json(text), _DEEPEST)
    except AccountingError:
        return "(unreadable)"
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


def _object(data: dict[str, Any], depth: int) -> str:
    kind = str(data.get("kind", "")).replace("_", " ")
    if kind == "composed":
        return _composition(data.get("parts"), depth)
    rest = ", ".join(
        _field(name, value, depth)
        for name, value in data.items()
        if name not in _LEFT_OUT and value is not None
    )
    return f"{kind}: {rest}" if kind and rest else kind or rest


def _field(name: str, value: object, depth: int) -> str:
    label = _GREEK.get(name, name.replace("_", " "))
    if isinstance(value, bool):
        return label if value else f"not {label}"
    if isinstance(value, str):
        return f"{label} {value.replace('_', ' ')}"
    return f"{label}\u00a0=\u00a0{_value(value, depth)}"


def _value(value: object, depth: int) -> str:
    if depth == 0 and isinstance(value, dict | list):
        return "…"
    if isinstance(value, dict):
        return f"({_object(value, depth - 1)})"
    if isinstance(value, list):
        items = ", ".join(_value(item, depth - 1) for item in value[:_MOST_ITEMS])
        return f"[{items}{', …' if len(value) > _MOST_ITEMS else ''}]"
    return format_number(value) if isinstance(value, float) else str(value)


def _composition(parts: object, depth: int) -> str:
    if not isinstance(parts, list) or depth == 0:
        return "composition"
    pairs = [part for part in parts if isinstance(part, list) and len(part) == 2]
    summands = " + ".join(
        f"{count} × ({_value(curve, depth - 1).strip('()')})"
        for count, curve in pairs[:_MOST_ITEMS]
    )
    more = f" + {len(pairs) - _MOST_ITEMS} more" if len(pairs) > _MOST_ITEMS else ""
    return summands + more or "nothing"


def round_up(value: Decimal | float, digits: int = 4) -> str:
    """Return `value` to `digits` significant digits, rounded up."""
    return round_to(value, ROUND_CEILING, digits)


def format_upper_bound(epsilon: float) -> str:
    """Return an upper bound, rounded up, or "none" if it is infinite."""
    return f"\u2264 {round_up(epsilon)}" if math.isfinite(epsilon) else "none"


def round_down(value: Decimal | float) -> str:
    """Return `value` to four significant digits, rounded down."""
    return round_to(value, ROUND_FLOOR, 4)


def round_to(value: Decimal | float, rounding: str, digits: int = 6) -> str:
    """Return `value` to `digits` significant digits, with a rounding mode of `decimal`.

    The mode is ROUND_CEILING or ROUND_FLOOR.
    """
    exact = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    if not exact.is_finite():
        return "∞"
    return format_number(
        float(Context(prec=digits, rounding=rounding).create_decimal(exact)), digits
    )


def format_number(value: float, digits: int = 6) -> str:
    """Return a number as people write it: 1e-6, not 1e-06.

    All text for people prints numbers by this function.
    """
    return f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def percent_up(share: float) -> str:
    """Return a share in percent to three digits, rounded up; 100% only if all is used."""
    words = round_up(Decimal(repr(float(share))).scaleb(2, Context(prec=30)), 3)
    return "over 99.9%" if words == "100" and share < 1 else f"{words}%"
