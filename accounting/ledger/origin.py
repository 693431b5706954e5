"""Who writes an entry, where, when and with which version. All of it is a claim for the reader, none of it is authentication."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from accounting.ledger.stored_text import LONGEST_NAME, checked_name

Clock = Callable[[], datetime]


@dataclass(frozen=True)
class Origin:
    """Fields that every entry carries; `at` is informational, the order of entries is their sequence number."""

    actor: str
    host: str
    at: str
    package: str


def utc_now() -> datetime:
    """The host's clock."""
    return datetime.now(UTC)


def origin(actor: str | None, clock: Clock) -> Origin:
    """This process, now, on behalf of `actor` (by default the operating system's user)."""
    name = _user() if actor is None else checked_name("actor", actor)
    return Origin(name, _host(), clock().astimezone(UTC).isoformat(timespec="microseconds"), package_version())


@cache
def package_version() -> str:
    """The installed version of the distribution, "0+unknown" in a source tree that is not installed."""
    try:
        return version("dpselect")
    except PackageNotFoundError:
        return "0+unknown"


@cache
def _user() -> str:
    try:
        return _printable(getpass.getuser())
    except (ImportError, KeyError, OSError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def _host() -> str:
    return _printable(socket.gethostname())


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name).strip()[:LONGEST_NAME] or "unknown"
