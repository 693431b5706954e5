"""How messages show where something lies: masked, short, and never with a password."""

from __future__ import annotations

import re

_LONGEST = 200
# One slash is enough: a path class writes "postgresql://" as "postgresql:/". Up to the last @, since a password may hold one.
_LOGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/+[^:@/\s]*):.*@", re.DOTALL)
# A login whose @host is missing; what is a port has digits only.
_UNFINISHED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:/+[^:@/\s]*):(?!\d{1,5}(?:[/?#]|$))[^/?#@]+")
# In a query string or a connection string of libpq: password=..., sslpassword='...', X-Amz-Signature=...
_NAMED = re.compile(r"((?:passw\w*|pwd|secret|token|sig(?:nature)?)\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^&;\s]+)", re.IGNORECASE)


def without_password(address: object) -> str:
    """The text of a path or an address with "***" in the place of every password."""
    text = _UNFINISHED.sub(r"\1:***", _LOGIN.sub(r"\1:***@", str(address)))
    return _NAMED.sub(r"\1***", text)


def masked(address: object) -> str:
    """A path or an address as messages show it: masked, at most 200 characters of it, no password."""
    text = repr(without_password(address))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
