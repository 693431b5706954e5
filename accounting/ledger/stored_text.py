"""Which text the ledger stores: short, printable, the same on every store."""

from __future__ import annotations

import re
import unicodedata

from accounting.ledger.errors import InvalidEntry

LONGEST_NAME = 200
LONGEST_TEXT = 2_000
LONGEST_JSON = 1_000_000
_UNSTORED = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")  # Unicode's categories Cc and Cs


def checked_name(field: str, value: object) -> str:
    """A name that looks like what it is: 1 to 200 printable characters in Unicode's composed form, no outer spaces.

    Raises:
        InvalidEntry: it is not.
    """
    text = unicodedata.normalize("NFC", checked_text(field, value, LONGEST_NAME))
    if not text.isprintable() or text != text.strip() or not text:
        raise InvalidEntry(f"{field} must be 1 to {LONGEST_NAME} printable characters without spaces at either end")
    return text


def checked_text(field: str, value: object, longest: int = LONGEST_TEXT) -> str:
    """Text without control characters or lone surrogates, which not every store can hold.

    Raises:
        InvalidEntry: it is not text, too long, or has such characters.
    """
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
