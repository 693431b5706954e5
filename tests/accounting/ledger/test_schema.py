"""The schema has a version; older ledgers move forward, later and foreign ones are refused."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import sleep

import pytest
from intruders import intruder
from sqlalchemy import Connection, create_engine, inspect, select, text

import accounting as acc
from accounting.ledger import Ledger, LedgerUnavailable, SchemaMismatch, store
from accounting.ledger.database import checked_url
from accounting.ledger.ddl import meta


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
    """A fresh store takes every step of the schema."""
    Ledger.open(url).close()
    assert version(url) == len(store.STEPS)


def test_an_older_ledger_moves_forward(url: str) -> None:
    """A ledger of version 1, charges included, is brought to the current version on opening and then does what that can do."""
    with Ledger.open(url) as old:
        old.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        old.charge("clicks", acc.PureDP(epsilon=0.25), relation="add_remove", label="first")
        old.reserve("clicks", acc.PureDP(epsilon=0.25), relation="add_remove", key="later", label="second")
        old.void("clicks", "later", actor="ada", reason="cancelled")
        summary = old.summary("clicks")
    for table in ("sums", "scopes", "fingerprints"):
        run(url, f"DROP TABLE dpledger_{table}")
    run(url, "UPDATE dpledger_meta SET schema_version = 1")
    with Ledger.open(url) as ledger:
        assert version(url) == len(store.STEPS)
        assert ledger.summary("clicks") == summary
        assert [(share.label, share.runs) for share in summary.shares] == [("first", 1), ("second", 0)]
        ledger.charge("clicks", acc.PureDP(epsilon=0.75), relation="add_remove", fingerprint="rows")
        assert ledger.verify().ok


def test_an_older_ledger_with_an_edited_entry_can_be_looked_at(sqlite_url: str) -> None:
    """It opens, and `verify` names the entry: an upgrade does not stand in the way of an audit."""
    with Ledger.open(sqlite_url) as old:
        old.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        old.charge("clicks", acc.PureDP(epsilon=0.25), relation="add_remove")
    with intruder(sqlite_url) as connection:
        connection.exec_driver_sql("UPDATE dpledger_entries SET main = 'much'")
        connection.exec_driver_sql("DROP TABLE dpledger_sums")
        connection.exec_driver_sql("UPDATE dpledger_meta SET schema_version = 4")
    with Ledger.open(sqlite_url) as ledger:
        assert version(sqlite_url) == len(store.STEPS)
        assert not ledger.verify().ok


def test_a_charge_of_the_old_version_under_way_is_in_the_sums(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of version 4 that was let in before the upgrade, and writes after it began, is waited for: nothing is missed."""
    let_in, go = Event(), Event()

    def required(connection: Connection) -> None:
        assert connection.execute(select(meta.c.schema_version)).scalar_one() == 4
        let_in.set()
        assert go.wait(20)

    with Ledger.open(url) as old, ThreadPoolExecutor(2) as pool:
        old.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        run(url, "DROP TABLE dpledger_sums")
        run(url, "UPDATE dpledger_meta SET schema_version = 4")
        with monkeypatch.context() as patched:
            patched.setattr("accounting.ledger.store.require_current", required)
            patched.setattr("accounting.ledger.book.Sums.write", lambda *_: None)
            late = pool.submit(old.charge, "clicks", acc.PureDP(epsilon=0.25), relation="add_remove", label="late")
            assert let_in.wait(20)
            upgraded = pool.submit(Ledger.open, url)
            sleep(0.3)  # the upgrade has begun, and would be over if it did not wait
            go.set()
            late.result()
        with upgraded.result() as ledger:
            assert [(share.label, share.runs) for share in ledger.summary("clicks").shares] == [("late", 1)]
            assert ledger.verify().ok


def test_a_step_that_fails_leaves_the_old_version(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Migration is one transaction: a step that fails half way leaves no trace."""

    def broken(connection: object) -> None:
        connection.exec_driver_sql("CREATE TABLE dpledger_half (a INTEGER)")  # type: ignore[attr-defined]
        raise RuntimeError("half way")

    Ledger.open(url).close()
    monkeypatch.setattr(store, "STEPS", (*store.STEPS, broken))
    with pytest.raises(RuntimeError):
        Ledger.open(url)
    assert version(url) == len(store.STEPS) - 1
    engine = create_engine(checked_url(url))
    assert "dpledger_half" not in inspect(engine).get_table_names()
    engine.dispose()


@pytest.mark.parametrize("found", ["99", "0", "-1"])
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
