"""Strict JSON: one object with distinct keys and finite numbers."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from accounting.ledger.errors import InvalidEntry


def read_json(text: str | bytes) -> dict[str, Any]:
    """Return the object that `text` holds. Nothing that it names is imported or called."""
    try:
        value = json.loads(text, object_pairs_hook=distinct_keys, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise InvalidEntry(
            "the text is not a JSON object with distinct keys and finite numbers"
        ) from None
    if not isinstance(value, dict):
        raise InvalidEntry(f"the text must be a JSON object, not {type(value).__name__}")
    return value


def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict, for `object_pairs_hook`; ValueError if a key is given twice."""
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a key is given twice")
    return data


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)
