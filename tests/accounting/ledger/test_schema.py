"""The schema has a version: a ledger of another one, and what is not a ledger, are refused."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, select, text

import accounting as acc
from accounting.ledger import Ledger, LedgerUnavailable, SchemaMismatch, store
from accounting.ledger.store import checked_url, meta


@pytest.fixture(params=["sqlite_url", "postgres_url"], ids=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a store that is empty: these tests make the tables."""
    return str(request.getfixturevalue(request.param))


def version(url: str) -> int:
    """The version that the store states."""
    engine = create_engine(checked_url(url))
    with engine.connect() as connection:
        found = connection.execute(select(meta.c.schema_version)).scalar_one()
    engine.dispose()
    return int(found)


def run(url: str, statement: str) -> None:
    """A statement on the store, without the ledger."""
    engine = create_engine(checked_url(url))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_a_new_ledger_has_the_current_version(url: str) -> None:
    """A fresh store states the version of the schema that this package writes."""
    Ledger.open(url).close()
    assert version(url) == store.SCHEMA_VERSION == 2


def test_tables_that_cannot_all_be_made_are_not_made(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making a ledger is one transaction: a statement that fails half way leaves no trace."""
    monkeypatch.setattr(store, "_PARTIAL", (*store._PARTIAL, "dpledger_half ON dpledger_entries (nothing)"))
    with pytest.raises(LedgerUnavailable):
        Ledger.open(url)
    engine = create_engine(checked_url(url))
    assert inspect(engine).get_table_names() == []
    engine.dispose()


@pytest.mark.parametrize("found", ["99", "1", "0", "-1"])
def test_a_ledger_of_another_version_is_refused(url: str, found: str) -> None:
    """A ledger that a later package wrote is not touched."""
    Ledger.open(url).close()
    run(url, f"UPDATE dpledger_meta SET schema_version = {found}")
    with pytest.raises(SchemaMismatch, match=found):
        Ledger.open(url)


def test_somebody_elses_file_is_not_made_a_ledger(sqlite_url: str) -> None:
    """A SQLite file with other tables in it is refused and stays as it was."""
    run(sqlite_url, "CREATE TABLE customers (name TEXT)")
    with pytest.raises(SchemaMismatch, match="no ledger"):
        Ledger.open(sqlite_url)
    engine = create_engine(sqlite_url)
    assert inspect(engine).get_table_names() == ["customers"]
    engine.dispose()


def test_without_create_nothing_is_made(url: str, folder: Path) -> None:
    """`create=False` on an empty store, or on a file that is not there, is an error and makes nothing."""
    with pytest.raises((SchemaMismatch, LedgerUnavailable)):
        Ledger.open(url, create=False)
    assert list(folder.iterdir()) == []


def test_many_may_open_an_empty_store_at_once(url: str) -> None:
    """Threads that open the same empty store at the same time all get the one ledger."""
    with ThreadPoolExecutor(8) as pool:
        ledgers = list(pool.map(lambda _: Ledger.open(url), range(8)))
    assert len({ledger.heads().ledger_id for ledger in ledgers}) == 1
    for ledger in ledgers:
        ledger.close()


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "privacy.db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
        "mysql://localhost/x",
        "sqlite+aiosqlite:///x",
    ],
)
def test_urls_that_cannot_keep_a_ledger_are_refused(wrong: str) -> None:
    """A ledger in memory would forget at exit; other databases are not known to lock as needed."""
    with pytest.raises(LedgerUnavailable, match="ledger"):
        Ledger.open(wrong)


def test_paths_with_odd_characters_are_paths(folder: Path) -> None:
    """A file name with a question mark, a hash or a percent sign is a name and not a part of a URI."""
    odd = folder / "100% private? #1 ü.db"
    with Ledger.open(f"sqlite:///{odd}".replace("%", "%25").replace("?", "%3F")) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
    made = [path.name for path in folder.iterdir()]
    assert len(made) == 1
    with sqlite3.connect(folder / made[0]) as connection:
        assert connection.execute("SELECT count(*) FROM dpledger_datasets").fetchone() == (1,)
    connection.close()
