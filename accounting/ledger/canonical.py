"""One text for one value, so that a hash means something; and reading such text without trusting it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NoReturn

from accounting.ledger.errors import InvalidEntry


def dumps(value: object) -> str:
    """JSON with sorted keys, no spaces, ASCII only. Floats are refused: their text could differ between versions."""
    return _ENCODER.encode(value)


def digest(text: str) -> str:
    """SHA-256 of `text`, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def loads(text: str | bytes) -> dict[str, Any]:
    """The object that `text` holds. Nothing it names is imported or called.

    Raises:
        InvalidEntry: not JSON, not an object, a key given twice, a NaN, or nested beyond reason.
    """
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise InvalidEntry("not a JSON object with distinct keys and finite numbers") from None
    if not isinstance(value, dict):
        raise InvalidEntry(f"a JSON object is expected, not {type(value).__name__}")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _refuse(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} has no canonical JSON")


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=_refuse)
