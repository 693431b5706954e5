"""Stores to test on: a SQLite file, and a database of a real PostgreSQL server."""

from __future__ import annotations

import itertools
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger_steps import Made
from sqlalchemy import Engine, NullPool, create_engine, make_url, text

import accounting as acc
from accounting.ledger import Ledger

_NUMBERS = itertools.count()


def _engine(postgres: str) -> Engine:
    return create_engine(
        make_url(postgres).set(drivername="postgresql+psycopg"),
        isolation_level="AUTOCOMMIT",
        poolclass=NullPool,
    )


def _database(postgres: str, name: str, template: str = "template1") -> str:
    with _engine(postgres).connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    return postgres.replace("/postgres?", f"/{name}?")


@pytest.fixture(scope="session")
def template(postgres: str) -> str:
    """The name of a database with the tables of a ledger, which are made once."""
    with Ledger.open(_database(postgres, "template_ledger")):
        return "template_ledger"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for SQLite files, in memory where there is one: no test here cuts the power, and
    syncing takes its time.
    """
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
    """The URL of an empty PostgreSQL database, where a ledger makes its tables."""
    return _database(postgres, f"empty{next(_NUMBERS)}")


@pytest.fixture
def new_ledger(postgres: str, template: str) -> Callable[[], str]:
    """A function that makes a PostgreSQL ledger without datasets, a copy of the template but for
    its name; it gives the URL.
    """

    def copied() -> str:
        url = _database(postgres, f"ledger{next(_NUMBERS)}", template)
        with _engine(url).connect() as connection:
            connection.execute(
                text("UPDATE dpledger_meta SET ledger_id = :own"), {"own": uuid.uuid4().hex}
            )
        return url

    return copied


@pytest.fixture
def copied_url(new_ledger: Callable[[], str]) -> str:
    """The URL of such a ledger."""
    return new_ledger()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a store of either kind without datasets: a SQLite file that is not there yet, or a
    new PostgreSQL ledger.
    """
    return str(request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "copied_url"))


def _making(url: str) -> Iterator[Made]:
    with Ledger.open(url) as opened:

        def made(
            budget: acc.Budget, name: str = "clicks", relation: Any = "add_remove", **declared: Any
        ) -> Ledger:
            opened.create_dataset(name, budget, relation, **declared)
            return opened

        yield made


@pytest.fixture
def made(sqlite_url: str) -> Iterator[Made]:
    """Declares datasets in a SQLite file."""
    yield from _making(sqlite_url)


@pytest.fixture
def made_on_either(url: str) -> Iterator[Made]:
    """Declares datasets in a store of either kind."""
    yield from _making(url)


@pytest.fixture
def ledger(made_on_either: Made) -> Ledger:
    """A ledger with a dataset "clicks" that may spend epsilon = 1 (pure, add_remove)."""
    return made_on_either(acc.Budget(epsilon=1.0))
