"""When the store cannot write: a clear error of the ledger's own, and nothing charged, so nothing
released.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import sqlite3
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import in_child
from sqlalchemy import Engine, create_engine, event, text

import accounting as acc
from accounting.ledger import Ledger, LedgerError, LedgerUnavailable, Quota
from accounting.ledger import store as ledger_store
from accounting.ledger.store import Store
from accounting.report import write_report

SMALL = acc.guarantee.Guarantee(acc.PureDP(epsilon=0.001), "add_remove")


@pytest.fixture
def path(folder: Path) -> Path:
    """A ledger with a dataset and one charge."""
    file = folder / "privacy.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        ledger.charge("clicks", SMALL)
    return file


@pytest.fixture
def kept(path: Path) -> Iterator[Ledger]:
    """That ledger, opened with a short timeout."""
    with Ledger.open(f"sqlite:///{path}", timeout=0.2) as ledger:
        yield ledger


def test_a_full_disk_is_a_clear_error(
    path: Path, kept: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where SQLite finds no room to grow, the charge raises LedgerUnavailable that says so, and
    leaves no entry.
    """

    def cramped(*arguments: object, **keywords: object) -> sqlite3.Connection:
        connection = connect(*arguments, **keywords)  # type: ignore[call-overload]
        # SQLite takes the present size for the limit
        connection.execute("PRAGMA max_page_count = 1")
        return connection  # type: ignore[no-any-return]

    connect = sqlite3.connect
    monkeypatch.setattr(ledger_store.sqlite3, "connect", cramped)
    with pytest.raises(LedgerUnavailable, match=r"disk .* full.*Nothing may be released") as error:  # noqa: PT012
        for _ in range(500):
            kept.charge("clicks", SMALL, label="x" * 1500)
    assert "INSERT" not in str(error.value)
    monkeypatch.undo()
    assert kept.verify().ok


def test_a_file_that_may_not_grow_is_a_clear_error(path: Path, kept: Ledger) -> None:
    """The operating system refuses to write beyond a limit in the middle of a transaction: an
    error, and the file is sound.
    """

    def charge() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096, size + 4096))
        for _ in range(50):
            kept.charge("clicks", SMALL, label="x" * 1500)

    assert "LedgerUnavailable: the ledger's disk failed" in in_child(charge)
    assert kept.verify().ok


def test_a_read_only_file_is_a_clear_error(path: Path) -> None:
    """A reader without write permission can verify and read, and every attempt to charge says why
    not.
    """
    path.chmod(0o444)
    path.parent.chmod(0o555)

    def drop_privileges() -> None:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)

    def read() -> None:
        drop_privileges()
        with Ledger.open(f"sqlite:///{path}") as ledger:
            assert ledger.verify().ok
            assert ledger.total("clicks").spent.main == 10**9

    def charge() -> None:
        drop_privileges()
        Ledger.open(f"sqlite:///{path}").charge("clicks", SMALL)

    try:
        assert in_child(read) == ""
        assert "LedgerUnavailable: the ledger is read-only" in in_child(charge)
    finally:
        path.parent.chmod(0o755)


def test_a_locked_ledger_is_a_clear_error(path: Path, kept: Ledger) -> None:
    """A transaction that another process keeps open ends the wait after the timeout."""
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable, match="locked"):
        kept.charge("clicks", SMALL)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert kept.charge("clicks", SMALL).seq == 2


def test_a_file_that_is_gone_is_not_an_empty_ledger(path: Path, kept: Ledger) -> None:
    """A ledger that is deleted while it is open is an error, and no new file takes its place."""
    path.unlink()
    for call in (
        lambda: kept.charge("clicks", SMALL),
        kept.verify,
        lambda: kept.total("clicks"),
    ):
        with pytest.raises(
            LedgerUnavailable, match=r"cannot be opened.*stay charged. Put the file back"
        ) as gone:
            call()
        assert "nothing" not in str(gone.value)  # it has charged what it has charged
        assert "init" not in str(gone.value)
    with pytest.raises(
        LedgerUnavailable, match=r"This call has charged nothing.*never been a ledger.*ledger init"
    ):
        Ledger.open(f"sqlite:///{path}", create=False)
    assert not path.exists()


def test_a_file_that_was_replaced_is_read_as_it_is(path: Path, kept: Ledger, folder: Path) -> None:
    """No connection is kept to a file that was moved away: the ledger is what the path names."""
    with Ledger.open(f"sqlite:///{folder / 'other.db'}") as other:
        other.create_dataset("another", acc.Budget(epsilon=1.0), "add_remove")
    (folder / "other.db").replace(path)
    assert [dataset.name for dataset in kept.datasets()] == ["another"]


def test_a_server_that_cannot_be_reached_is_a_clear_error() -> None:
    """The error names no password and no statement; nor does the repr of a store."""
    password = "".join(["sec", "ret"])
    url = f"postgresql://ada:{password}@127.0.0.1:1/ledger"
    with pytest.raises(LedgerUnavailable, match="cannot be reached") as error:
        Ledger.open(url)
    assert password not in "".join(traceback.format_exception(error.value))
    assert "ada:***@" in repr(Store.from_url(url, create=False, timeout=1))


def test_the_roles_of_the_guide_do_what_it_says(postgres_url: str) -> None:
    """With its grants one role charges and changes nothing else; the other verifies, and is told
    why it may do no more.
    """
    guide = Path(__file__).parents[3] / "docs" / "ledger-operating.md"
    (grants,) = re.findall(r"```sql\n(.*?)```", guide.read_text(), re.DOTALL)
    with Ledger.open(postgres_url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        ledger.quotas("clicks").declare(
            Quota(name="each", limit=acc.Budget(epsilon=0.5), by="actor")
        )
        with ledger._store.writer() as connection:
            for role in ("charging", "auditing"):
                connection.exec_driver_sql(f"DROP ROLE IF EXISTS {role}")
                connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
            connection.exec_driver_sql(grants)
    with Ledger.open(postgres_url.replace("postgres@", "charging@")) as charging:
        charging.charge("clicks", SMALL, fingerprint="rows")
        charging.reserve("clicks", SMALL, key="later")
        charging.void("clicks", "later", actor="ada", reason="cancelled")
        with pytest.raises(LedgerError), charging._store.writer() as connection:
            connection.exec_driver_sql("UPDATE dpledger_entries SET main = 0")
    with Ledger.open(postgres_url.replace("postgres@", "auditing@")) as reader:
        assert reader.verify().ok
        assert reader.summary("clicks").shares[0].runs == 1
        with pytest.raises(LedgerUnavailable, match="read-only"):
            reader.charge("clicks", SMALL)


def test_a_forked_child_leaves_its_parents_connection_alone(postgres_url: str) -> None:
    """Parent and child charge at the same time through a ledger that was opened before the fork."""
    with Ledger.open(postgres_url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")

        def charge() -> None:
            for _ in range(20):
                ledger.charge("clicks", SMALL)

        charge()
        assert in_child(charge, meanwhile=charge) == ""
        assert ledger.total("clicks").spent.main == 60 * 10**9
        assert ledger.verify().ok


def test_charges_wait_for_the_disk(postgres_url: str) -> None:
    """A database that confirms commits before they are on disk is told to wait by the ledger's
    connections.
    """
    plain = create_engine(
        postgres_url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with plain.connect() as connection:
        name = connection.execute(text("SELECT current_database()")).scalar_one()
        connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))
    plain.dispose()
    said: list[str] = []
    with Ledger.open(postgres_url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")

        def ask(connection: Any, *_: Any) -> None:
            said.append(connection.exec_driver_sql("SHOW synchronous_commit").scalar_one())

        event.listen(Engine, "begin", ask)
        try:
            ledger.charge("clicks", SMALL)
        finally:
            event.remove(Engine, "begin", ask)
    assert said
    assert set(said) == {"on"}


_PRAGMAS = {"trusted_schema": 0, "foreign_keys": 1, "synchronous": 3}


def test_a_charge_locks_before_it_reads(path: Path, kept: Ledger) -> None:
    """From the first statement of a writer on nobody else begins to write; no file's text runs as a
    trusted function.

    Every connection syncs file, journal and folder (EXTRA, 3): at NORMAL a power cut could undo a
    charge.
    """
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    with kept._store.writer() as connection:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in _PRAGMAS}
    assert found == _PRAGMAS
    other.execute("BEGIN IMMEDIATE")
    other.close()


def test_reading_cannot_write(url: str) -> None:
    """What only reads has a transaction that refuses a write: on PostgreSQL by its own mode,
    whatever the role may do.
    """
    with Ledger.open(url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        if url.startswith("postgresql"):
            with (
                pytest.raises(LedgerUnavailable, match="read-only"),
                ledger._store.reader() as connection,
            ):
                connection.exec_driver_sql("UPDATE dpledger_datasets SET seq = 7")
        assert ledger.verify().ok


def test_a_write_ahead_log_is_refused_with_the_remedy(path: Path, kept: Ledger) -> None:
    """In WAL mode nothing is charged, the message says how to switch back, and reading goes on;
    then charging does too.
    """
    other = sqlite3.connect(path, isolation_level=None)
    assert other.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    for charge in (kept.charge, kept.reserve):
        with pytest.raises(
            LedgerUnavailable, match=r"WAL mode.*nothing was written.*journal_mode=DELETE.*same key"
        ):
            charge("clicks", SMALL, key="again")
    assert kept.verify().ok
    assert kept.total("clicks").spent.main == 10**9
    assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    other.close()
    assert not kept.charge("clicks", SMALL, key="again").replayed


def test_a_new_ledger_is_its_owners_alone(folder: Path) -> None:
    """A new file is 0600 unless told otherwise, whatever the process's mask allows; one that is
    there keeps its permissions.
    """
    before = os.umask(0)
    try:
        for name, stated, expected in (("a.db", {}, 0o600), ("b.db", {"mode": 0o640}, 0o640)):
            with Ledger.open(f"sqlite:///{folder / name}", **stated) as ledger:
                ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
            assert (folder / name).stat().st_mode & 0o777 == expected
        (folder / "a.db").chmod(0o660)
        Ledger.open(f"sqlite:///{folder / 'a.db'}").close()
        assert (folder / "a.db").stat().st_mode & 0o777 == 0o660
        with Ledger.open(f"sqlite:///{folder / 'a.db'}") as ledger:
            write_report(ledger, folder / "report.html")
            ledger.export(folder / "ledger.jsonl")
        assert {
            (folder / name).stat().st_mode & 0o777 for name in ("report.html", "ledger.jsonl")
        } == {0o600}
    finally:
        os.umask(before)
