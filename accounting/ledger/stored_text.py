"""Which text the ledger stores: short, printable, the same on every store; JSON in one form, so that a hash means something.

What is refused raises InvalidEntry.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from typing import Any, NoReturn

from accounting.ledger.errors import InvalidEntry

LONGEST_NAME = 200
LONGEST_TEXT = 2_000
LONGEST_JSON = 1_000_000
_UNSTORED = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")  # Unicode's categories Cc and Cs
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def checked_name(field: str, value: object) -> str:
    """A name that looks like what it is: 1 to 200 printable characters in Unicode's composed form, no outer spaces."""
    text = unicodedata.normalize("NFC", checked_text(field, value, LONGEST_NAME))
    if not text.isprintable() or text != text.strip() or not text:
        raise InvalidEntry(f"{field} must be 1 to {LONGEST_NAME} printable characters without spaces at either end")
    return text


def checked_text(field: str, value: object, longest: int = LONGEST_TEXT) -> str:
    """Text, not too long, without control characters or lone surrogates, which not every store can hold."""
    if not isinstance(value, str):
        raise InvalidEntry(f"{field} must be text, not {type(value).__name__}")
    if len(value) > longest:
        raise InvalidEntry(f"{field} has {len(value):,} characters: at most {longest:,} are stored")
    if _UNSTORED.search(value):
        raise InvalidEntry(f"{field} must not contain control characters or lone surrogates")
    return value


def optional_text(field: str, value: object) -> str | None:
    """`checked_text`, or None."""
    return None if value is None else checked_text(field, value)


def optional_name(field: str, value: object) -> str | None:
    """`checked_name`, or None."""
    return None if value is None else checked_name(field, value)


def canonical_json(value: object) -> str:
    """JSON with sorted keys, no spaces, ASCII only. Pass no floats: their text could differ between versions."""
    return _ENCODER.encode(value)


def digest(text: str) -> str:
    """SHA-256 of `text`, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_json(text: str | bytes) -> dict[str, Any]:
    """The object that `text` holds. Nothing it names is imported or called."""
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
