"""The schema has a version: a ledger of another one, and what is not a ledger, are refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from accounting.ledger import (
    InvalidEntry,
    Ledger,
    LedgerCorrupt,
    LedgerUnavailable,
    SchemaMismatch,
    store,
)
from accounting.ledger.store import parse_url


@pytest.fixture(params=["sqlite_url", pytest.param("postgres_url", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a store that is empty: these tests make the tables."""
    return str(request.getfixturevalue(request.param))


def run(url: str, statement: str) -> None:
    """A statement on the store, without the ledger."""
    engine = create_engine(parse_url(url))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_tables_that_cannot_all_be_made_are_not_made(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making a ledger is one transaction: a statement that fails half way leaves no trace."""
    monkeypatch.setattr(
        store, "_PARTIAL", (*store._PARTIAL, "dpledger_half ON dpledger_entries (nothing)")
    )
    with pytest.raises(LedgerUnavailable):
        Ledger.open(url)
    engine = create_engine(parse_url(url))
    assert inspect(engine).get_table_names() == []
    engine.dispose()


@pytest.mark.parametrize("found", ["99", "1", "0", "-1"])
def test_a_ledger_of_another_version_is_refused(url: str, found: str) -> None:
    """A fresh store states this package's version; a ledger that another one wrote is not
    touched.
    """
    Ledger.open(url).close()
    assert store.SCHEMA_VERSION == 2
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


@pytest.mark.parametrize(
    "content",
    [b"not a database, though long enough to be one" * 50, b"SQLite format 3\0" + b"\xff" * 4000],
)
def test_a_file_that_is_no_database_is_a_clear_error(folder: Path, content: bytes) -> None:
    """Text, or a database header followed by noise, is LedgerCorrupt and is not written to; an odd
    name is a name.
    """
    file = folder / "100% private? #1 \u00fc.db"
    file.write_bytes(content)
    with pytest.raises(LedgerCorrupt, match="Restore a backup"):
        Ledger.open(f"sqlite:///{file}".replace("%", "%25").replace("?", "%3F"))
    assert file.read_bytes() == content


def test_without_create_nothing_is_made(url: str, folder: Path) -> None:
    """`create=False` on an empty store, or on a file that is not there, is an error and makes
    nothing.
    """
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
        ":memory:",
        "sqlite:privacy.db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
        "mysql://localhost/x",
        "sqlite+aiosqlite:///x",
    ],
)
def test_urls_that_cannot_keep_a_ledger_are_refused(wrong: str) -> None:
    """A ledger in memory would forget at exit; other databases are not known to lock as needed."""
    with pytest.raises(InvalidEntry, match="ledger"):
        Ledger.open(wrong)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_and_its_url_name_one_ledger(kind: type, tmp_path: Path) -> None:
    """A path holds any character; so much of it as looks like an option of a URL is part of it."""
    file = tmp_path / "is 100% a?b.db"
    made = Ledger.open(kind(file)).heads().ledger_id
    assert Ledger.open(f"{file}", create=False).heads().ledger_id == made
    assert parse_url(str(tmp_path / "p.db")) == parse_url(f"sqlite:///{tmp_path}/p.db")
