"""Stores to test on: a SQLite file, and a database of a real PostgreSQL server."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

import accounting as acc
from accounting.ledger import Ledger

_NUMBERS = itertools.count()


def _fresh_database(postgres: str) -> str:
    name = f"ledger{next(_NUMBERS)}"
    engine = create_engine(postgres.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return postgres.replace("/postgres?", f"/{name}?")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for SQLite files, in memory where there is one: no test here cuts the power, and syncing takes its time."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="dpledger-", dir=memory) as name:
        yield Path(name)


@pytest.fixture
def sqlite_url(folder: Path) -> str:
    """The URL of a SQLite file that does not exist yet."""
    return f"sqlite:///{folder / 'privacy.db'}"


@pytest.fixture
def postgres_url(postgres: str) -> str:
    """The URL of an empty PostgreSQL database."""
    return _fresh_database(postgres)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store of either kind."""
    return str(request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url"))


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    """A ledger with a dataset "clicks" that may spend epsilon = 1 (pure, add_remove)."""
    with Ledger.open(url) as opened:
        opened.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        yield opened
