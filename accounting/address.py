"""Paths and addresses as messages and objects show them: short, and never with a password.

Paths are not secret. Answers name their log by its path, including partition folders such as
`day=2024-05-01`. Secrets are the password of a login, and values named as a password, token,
signature or key in a query string, a connection string or a folder.
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
    r"((?:passw\w*|passphrase|pwd|secret\w*|token|sig(?:nature)?"
    r"|(?:access|account|api|private)[_-]?key)\s*(?:=|%3D)\s*)"
    r"(?:'(?:[^'\\]|\\.)*'|[^&;\s]+)",
    re.IGNORECASE,
)


def hide_passwords(address: object) -> str:
    """Return the text of a path or an address with every password replaced by "***"."""
    text = _UNFINISHED.sub(r"\1:***", _LOGIN.sub(r"\1:***@", str(address)))
    return _NAMED.sub(r"\1***", text)


def mask(address: object) -> str:
    """Return a path or an address for a message: quoted, without passwords, at most 200 long."""
    text = repr(hide_passwords(address))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


@final
class Address(str):
    """An address with a password, whose text leaves the password out.

    Printing, comparing, pickling and JSON use `hide_passwords`. Code that opens the address calls
    `reveal`. A pickled address, or a copy of its text, has lost the password.
    """

    __slots__ = ("_reveal",)
    _reveal: Callable[[], str]

    def __new__(cls, address: str) -> Address:
        instance = super().__new__(cls, hide_passwords(address))
        instance._reveal = lambda: address
        return instance

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def hide_password(address: str) -> str:
    """Return the address as an `Address` if it has a password, and unchanged otherwise."""
    return (
        address
        if isinstance(address, Address) or hide_passwords(address) == address
        else Address(address)
    )


def reveal(address: str) -> str:
    """Return the text with its password, for code that opens the address."""
    return address._reveal() if isinstance(address, Address) else address
