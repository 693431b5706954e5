"""How messages and objects show where something lies: masked, short, and never with a password.

A path is no secret: answers name their log by it, partitions of a folder (`day=2024-05-01`)
included. Secret are the password of a login and what is named as one in a query string, a
connection string or a folder: a password, a token, a signature, a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, final

_LONGEST = 200
# One slash is enough: a path class writes "postgresql://" as "postgresql:/". Up to the last @,
# since a password may hold one.
_LOGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/+[^:@/\s]*):.*@", re.DOTALL)
# A login whose @host is missing; what is a port has digits only.
_UNFINISHED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:/+[^:@/\s]*):(?!\d{1,5}(?:[/?#]|$))[^/?#@]+")
# In a query string or a connection string of libpq: password=..., sslpassword='...',
# X-Amz-Signature=..., or a folder so named.
_NAMED = re.compile(
    r"((?:passw\w*|passphrase|pwd|secret\w*|token|sig(?:nature)?|(?:access|account|api|private)[_-]?key)\s*(?:=|%3D)\s*)"
    r"(?:'(?:[^'\\]|\\.)*'|[^&;\s]+)",
    re.IGNORECASE,
)


def without_password(address: object) -> str:
    """The text of a path or an address with "***" in the place of every password."""
    text = _UNFINISHED.sub(r"\1:***", _LOGIN.sub(r"\1:***@", str(address)))
    return _NAMED.sub(r"\1***", text)


def masked(address: object) -> str:
    """A path or an address as messages show it: masked, at most 200 characters of it, no
    password.
    """
    text = repr(without_password(address))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


@final
class Address(str):
    """An address with a password, as text without it: printed, compared, written as JSON and
    pickled it is `without_password`.

    Whoever opens it asks `revealed`. A pickled one, or a copy by text, has lost the password.
    """

    __slots__ = ("_reveal",)
    _reveal: Callable[[], str]

    def __new__(cls, address: str) -> Address:
        made = super().__new__(cls, without_password(address))
        made._reveal = lambda: address
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def hidden(address: str) -> str:
    """The same text, as an `Address` if it has a password."""
    return (
        address
        if isinstance(address, Address) or without_password(address) == address
        else Address(address)
    )


def revealed(address: str) -> str:
    """The text with its password, for whatever opens it."""
    return address._reveal() if isinstance(address, Address) else address
