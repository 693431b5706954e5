"""What somebody with write access to the store does to it, `verify` finds; the triggers stop the
careless.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from intruders import intruder
from ledger_steps import Made, enter, found_in, step
from spread import spread
from sqlalchemy import (
    Column,
    Connection,
    Executable,
    Integer,
    Table,
    create_engine,
    delete,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError

import accounting as acc
from accounting.cost import Cost
from accounting.ledger import ChargeOptions, Heads, Ledger, LedgerCorrupt, Quota, SchemaMismatch
from accounting.ledger.model import Entry
from accounting.ledger.store import (
    _read_entry,
    datasets,
    entries,
    fingerprints,
    meta,
    metadata,
    parse_url,
    totals,
)


@pytest.fixture
def kept(url: str) -> Iterator[Ledger]:
    """A ledger with ten charges, a reservation that was voided, and one that was released."""
    with Ledger.open(url) as ledger:
        ledger.create_dataset(
            "clicks", acc.Budget(epsilon=10.0, delta=1e-6, order="inf"), "add_remove"
        )
        curve, terms = (
            acc.ApproxDP(epsilon=0.1, delta=1e-8),
            ChargeOptions(relation="add_remove", label="daily", fingerprint="rows"),
        )
        for number in range(10):
            ledger.charge("clicks", curve, key=f"k{number}", **terms)
        ledger.reserve("clicks", acc.PureDP(epsilon=1.0), relation="add_remove", key="voided")
        ledger.void("clicks", "voided", actor="ada", reason="cancelled")
        ledger.reserve("clicks", acc.PureDP(epsilon=1.0), relation="add_remove", key="used")
        ledger.commit("clicks", "used")
        ledger.release("clicks", "used")
        assert ledger.verify().ok
        yield ledger


def kinds(ledger: Ledger, heads: Heads | None = None) -> set[str]:
    """The kinds of problem found."""
    return {problem.kind for problem in ledger.verify(heads).problems}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dpledger_entries SET main = 0",
        "DELETE FROM dpledger_entries",
        "UPDATE dpledger_datasets SET declaration = 'x'",
        "UPDATE dpledger_datasets SET name = 'x'",
        "DELETE FROM dpledger_datasets",
        "DELETE FROM dpledger_totals",
        "TRUNCATE dpledger_entries",
        "UPDATE dpledger_fingerprints SET periods = '[]'",
        "DELETE FROM dpledger_fingerprints",
    ],
)
def test_triggers_refuse_to_change_the_past(kept: Ledger, url: str, statement: str) -> None:
    """UPDATE and DELETE (and TRUNCATE) of entries and declarations fail in the store itself."""
    if statement.startswith("TRUNCATE") and url.startswith("sqlite"):
        statement = "DELETE FROM dpledger_entries WHERE seq > 5"
    engine = create_engine(parse_url(url))
    with pytest.raises(DBAPIError, match="append-only"), engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()
    assert kept.verify().ok


# All but the key of the one row of the ledger's identity, which nothing reads.
COLUMNS = [
    (table, column)
    for table in metadata.sorted_tables
    for column in table.columns
    if column is not meta.c.id
]


@pytest.mark.parametrize(
    ("table", "column"),
    spread(COLUMNS, 18),
    ids=[f"{table.name}.{column.name}" for table, column in COLUMNS],
)
def test_every_column_of_every_table_is_watched(
    sqlite_url: str, table: Table, column: Column[object]
) -> None:
    """Another value in one row is found by `verify` with earlier heads, or nothing opens: the list
    is the schema's own.
    """
    with Ledger.open(sqlite_url) as ledger:
        for name in ("clicks", "visits"):
            ledger.create_dataset(name, acc.Budget(epsilon=10.0, delta=1e-6), "add_remove")
        ledger.quotas("clicks").declare(
            Quota(name="all", limit=acc.Budget(epsilon=5.0, delta=1e-6))
        )
        curve = acc.ApproxDP(epsilon=0.1, delta=1e-8)
        ledger.charge("clicks", curve, relation="add_remove", fingerprint="rows", label="daily")
        heads = ledger.heads()
        assert ledger.verify(heads).ok
        number = 2 if column.name == "dataset_id" else 77
        other = number if isinstance(column.type, Integer) else "edited"
        with intruder(sqlite_url) as connection:
            row = next(iter(connection.execute(select(table)).mappings()))
            same = [key == row[key.name] for key in table.primary_key.columns]
            assert (
                connection.execute(update(table).where(*same).values({column: other})).rowcount == 1
            )
    if column is meta.c.schema_version:
        with pytest.raises(SchemaMismatch, match="77"):
            Ledger.open(sqlite_url, create=False)
        return
    with Ledger.open(sqlite_url, create=False) as again:
        assert not again.verify(heads).ok


def _add_row(connection: Connection, seq: int = 99) -> None:
    row = connection.execute(select(entries).where(entries.c.seq == 1)).one()
    connection.execute(
        insert(entries).values(**row._asdict() | {"seq": seq, "key": "added", "fingerprint": None})
    )


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (delete(entries).where(entries.c.seq == 1), {"sequence"}),
        (delete(entries).where(entries.c.seq == 4), {"sequence"}),
        (delete(entries).where(entries.c.seq > 6), {"head", "total"}),
        (_add_row, {"head"}),
        (lambda connection: _add_row(connection, 0), {"head"}),
        (lambda connection: _add_row(connection, -1), {"head"}),
    ],
    ids=["first", "a row", "tail", "added", "before the first", "below 0"],
)
def test_an_edit_by_hand_is_found(kept: Ledger, url: str, edit: Any, expected: set[str]) -> None:
    """Rows that are removed or added break the chain, the sums or the head, on either store."""
    with intruder(url) as connection:
        edit(connection) if callable(edit) else connection.execute(edit)
    assert expected <= kinds(kept)


def _forge(connection: Connection, seq: int, change: dict[str, object]) -> None:
    """Edit an entry, and recompute all other totals and every hash from it on."""
    rows = [
        _read_entry("clicks", row)
        for row in connection.execute(select(entries).order_by(entries.c.seq))
    ]
    prev, spent = rows[seq - 1].prev, rows[seq - 2].spent
    for entry in rows[seq - 1 :]:
        changed = change if entry.seq == seq else {}
        edited: Any = entry.to_dict() | changed
        spent = spent.plus(Cost(edited["main"], edited["failure"]))
        edited |= {"prev": prev, "spent_main": spent.main, "spent_failure": spent.failure} | changed
        edited["hash"] = prev = Entry(**edited).expected_hash()
        last = {part: edited[f"spent_{part}"] for part in ("main", "failure")}
        edited.pop("dataset")
        connection.execute(update(entries).where(entries.c.seq == entry.seq).values(**edited))
    connection.execute(update(datasets).values(head=prev))
    connection.execute(update(totals).values(**last))


def _shorten(connection: Connection, seq: int, _: object) -> None:
    """Cut the tail off and make everything that remains agree."""
    connection.execute(delete(entries).where(entries.c.seq > seq))
    last = connection.execute(select(entries).where(entries.c.seq == seq)).one()
    connection.execute(update(datasets).values(seq=seq, head=last.hash))
    connection.execute(update(totals).values(main=last.spent_main, failure=last.spent_failure))


@pytest.mark.parametrize(
    ("forge", "seq", "change", "alone"),
    [
        (_forge, 4, {"main": 1}, {"cost"}),
        (_forge, 4, {"failure": 95 * 10**8}, {"cost"}),
        (_forge, 4, {"curve": '{"kind":"x"}'}, {"cost"}),
        (_forge, 15, {"spent_main": 1}, {"total"}),
        (_forge, 15, {"spent_failure": 1}, {"total"}),
        (_forge, 4, {"label": "weekly"}, set()),
        (_shorten, 10, {}, set()),
    ],
    ids=["cost", "failure", "curve", "total", "total failure", "label", "tail"],
)
def test_a_careful_forgery_is_found(
    kept: Ledger,
    url: str,
    forge: Callable[..., None],
    seq: int,
    change: dict[str, object],
    alone: set[str],
) -> None:
    """With every hash recomputed: prices and both parts of each running total are derived anew, and
    what is sound in itself differs from heads kept elsewhere.
    """
    heads = Heads.from_json(kept.heads().to_json())
    with intruder(url) as connection:
        forge(connection, seq, change)
    assert kinds(kept) == alone
    assert kinds(kept, heads) == alone | {"head"}


COMMITTED, RESERVED, TENTH = "used", "open", 10**11
PRICE, GREEDY = acc.PureDP(epsilon=0.1), acc.PureDP(epsilon=100.0)
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ("whole", step("void", COMMITTED, "", Cost(-TENTH, 0), "why"), "state"),
    ("whole", step("commit", "nobody", "", Cost(0, 0)), "state"),
    ("whole", step("release", RESERVED, "", Cost(0, 0)), "state"),
    ("whole", step("commit", RESERVED, "", Cost(-1, 0)), "cost"),
    ("whole", step("void", RESERVED, "", Cost(-TENTH - 1, 0), "why"), "cost"),
    ("whole", step("void", RESERVED, "", Cost(-TENTH, 1), "why"), "cost"),
    ("whole", step("charge", "greedy", "", Cost(10**14, 0), None, GREEDY), "overspent"),
    ("whole", step("reserve", "greedy", "", Cost(10**14, 0), None, GREEDY), "overspent"),
    ("month", step("commit", RESERVED, "2024-02", Cost(0, 0)), "state"),
    ("month", step("void", RESERVED, "2024-02", Cost(-TENTH, 0), "why"), "state"),
]


def test_a_step_that_breaks_the_rules_is_found(url: str) -> None:
    """A step that was written past the checks, in a chain without a flaw, is found by the rules of
    states and prices.

    A reservation of January says nothing of February.
    """
    expected = {f"set {number}": {kind} for number, (*_, kind) in enumerate(WRONG)}
    with Ledger.open(url) as ledger:
        for name, (window, wrong, _) in zip(expected, WRONG, strict=True):
            budget = acc.Budget(epsilon=10.0, delta=1e-6, order="inf")
            ledger.create_dataset(name, budget, "add_remove", window=window)
            first, second = (None, None) if window == "whole" else ("2024-01", "2024-02")
            ledger.reserve(name, PRICE, relation="add_remove", key=RESERVED, period=first)
            ledger.charge(name, PRICE, relation="add_remove", key=COMMITTED, period=second)
            enter(ledger, name, wrong)
        found: dict[str, set[str]] = {}
        for problem in ledger.verify().problems:
            found.setdefault(problem.dataset, set()).add(problem.kind)
    assert found == expected


@pytest.mark.parametrize(("epsilon", "delta"), [(0.6, 1e-9), (0.01, 6e-7)])
def test_a_charge_beyond_either_part_of_a_limit_is_found(
    made: Made, epsilon: float, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that looks at no limit charges six tenths twice, of divergence or of failure: to a
    budget, and to a quota.
    """
    monkeypatch.setattr("accounting.ledger.book.require_fit", lambda *_: None)
    limit = acc.Budget(epsilon=1.0, delta=1e-6, order="inf")
    ledger = made(limit, "budget")
    ledger.create_dataset("quota", acc.Budget(epsilon=10.0, delta=1e-5, order="inf"), "add_remove")
    ledger.quotas("quota").declare(Quota(name="all", limit=limit))
    for number in range(2):
        assert ledger.verify().ok
        for name in ("budget", "quota"):
            ledger.charge(
                name,
                acc.ApproxDP(epsilon=epsilon, delta=delta),
                relation="add_remove",
                key=f"{name}{number}",
            )
    assert [(problem.dataset, problem.kind) for problem in ledger.verify().problems] == [
        ("budget", "overspent"),
        ("quota", "quota"),
    ]


def test_a_dataset_declared_anew_is_found_against_an_exported_head(
    url: str, made_on_either: Made
) -> None:
    """An empty dataset that was removed and declared again under its name is another one."""
    ledger = made_on_either(acc.Budget(epsilon=1.0))
    heads = ledger.heads()
    with intruder(url) as connection:
        connection.execute(delete(datasets))
    assert kinds(ledger, heads) == {"missing"}
    ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
    assert kinds(ledger, heads) == {"head"}


@pytest.mark.parametrize(("table", "which"), [("totals", "period"), ("scopes", "quota, account")])
def test_sums_of_no_dataset_are_found(sqlite_url: str, table: str, which: str) -> None:
    """The next dataset to be declared would begin with them."""
    ledger = Ledger.open(sqlite_url)
    values = "''" if table == "totals" else "1, ''"
    with intruder(sqlite_url) as connection:
        connection.exec_driver_sql(
            f"INSERT INTO dpledger_{table} (dataset_id, {which}, main, failure)"
            f" VALUES (7, {values}, -5, 0)"
        )
    assert kinds(ledger) == {"missing"}


_ROWS = fingerprints.c.fingerprint == "rows"


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (update(fingerprints).where(_ROWS).values(periods='["2024-02"]'), {"visits"}),
        (update(fingerprints).where(_ROWS).values(periods='["2024-01", "2024-02"]'), {"visits"}),
        (update(fingerprints).where(_ROWS).values(dataset_id=1), {"first", "visits"}),
        (
            insert(fingerprints).values(fingerprint="others", dataset_id=2, periods='["2024-01"]'),
            {"visits"},
        ),
        (delete(fingerprints).where(_ROWS), {"visits"}),
    ],
    ids=["moved", "widened", "given away", "made up", "forgotten"],
)
def test_edited_claims_are_found(url: str, edit: Executable, named: set[str]) -> None:
    """Rows that are claimed for another period or dataset, or that nobody read, would have a second
    budget: verify says so.
    """
    with Ledger.open(url) as ledger:
        for name in ("first", "visits"):
            ledger.create_dataset(name, acc.Budget(epsilon=1.0), "add_remove", window="month")
        curve = acc.PureDP(epsilon=0.1)
        ledger.charge("visits", curve, relation="add_remove", period="2024-01", fingerprint="rows")
        ledger.charge(
            "visits",
            curve,
            relation="replace_one",
            period=["2024-01", "2024-02"],
            fingerprint="both",
        )
        ledger.reserve(
            "visits", curve, relation="add_remove", period="2024-01", fingerprint="rows", key="void"
        )
        ledger.void("visits", "void", actor="ada", reason="cancelled")
        assert ledger.verify().ok
        with intruder(url) as connection:
            connection.execute(edit)
        found = ledger.verify().problems
        assert {problem.kind for problem in found} == {"rows"}
        assert {problem.dataset for problem in found} == named


@pytest.mark.parametrize(("part", "amount"), [("main", 0), ("failure", 1)])
def test_an_edited_total_stops_the_next_charge(
    kept: Ledger, url: str, part: str, amount: int
) -> None:
    """A total that is not that of its period's last entry is no basis for a charge: nothing is
    charged, and verify is named.
    """
    with intruder(url) as connection:
        connection.execute(totals.update().values(**{part: amount}))
    before = kept.heads().datasets
    for call in (
        lambda: kept.charge("clicks", acc.zero(), relation="add_remove"),
        lambda: kept.total("clicks"),
    ):
        with pytest.raises(LedgerCorrupt, match="Run `dpselect ledger verify`"):
            call()
    assert kept.heads().datasets == before
    assert "total" in {problem.kind for problem in kept.verify().problems}


def test_a_dataset_that_heads_could_not_know_is_not_missing(sqlite_url: str) -> None:
    """Whatever the clocks say: one that is declared after the heads were taken, by a clock behind
    theirs, leaves them honest.
    """
    ahead = Ledger.open(sqlite_url, clock=lambda: datetime(2999, 1, 1, tzinfo=UTC))
    ahead.create_dataset("first", acc.Budget(epsilon=1.0), "add_remove")
    heads = ahead.heads()
    with Ledger.open(sqlite_url) as ledger:
        ledger.create_dataset("second", acc.Budget(epsilon=1.0), "add_remove")
        assert ledger.verify(heads).ok
        later = ledger.heads()
        cut = later.model_copy(update={"datasets": {"second": later.datasets["second"]}})
        assert [(one.dataset, one.kind) for one in ledger.verify(cut).problems] == [
            ("first", "missing")
        ]
        cut = later.model_copy(update={"datasets": {"first": later.datasets["first"]}})
        assert [(one.dataset, one.kind) for one in ledger.verify(cut).problems] == [
            ("second", "missing")
        ]
    ahead.close()


def test_charge_over_several_periods_must_state_its_rule(sqlite_url: str) -> None:
    """Entries of one key over two months, under add_remove, that state nothing are found, however
    well they are chained.
    """
    with Ledger.open(sqlite_url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=9.0), "add_remove", window="month")
        ledger.charge(
            "clicks", acc.PureDP(epsilon=0.1), relation="add_remove", period=["2024-01", "2024-02"]
        )
        dataset, found = ledger.dataset("clicks"), list(ledger.entries("clicks"))
    for across, kinds_of in (("two_changes", []), (None, ["cost"])):
        said = found_in(dataset, [replace(entry, across=across) for entry in found])
        assert [
            problem.kind for problem in said if "several periods" in problem.message
        ] == kinds_of


def _again(entry: Entry, last: Entry) -> Entry:
    """A copy of an entry, without the rows that it read, as the next one of the chain."""
    main, failure = last.spent.plus(entry.cost)
    copied = replace(
        entry,
        seq=last.seq + 1,
        prev=last.hash,
        spent_main=main,
        spent_failure=failure,
        fingerprint=None,
    )
    return replace(copied, hash=copied.expected_hash())


@pytest.mark.parametrize("key", ["voided", "k3"])
def test_a_step_that_is_written_twice_is_found(kept: Ledger, url: str, key: str) -> None:
    """A second void, or a second charge, of one key, with the index gone that admits one, in a
    chain without a flaw; a second void by the chain alone, without a store.
    """
    found = list(kept.entries("clicks"))
    known = (entry for entry in found if entry.key == key and entry.action in ("void", "charge"))
    forged = _again(next(known), found[-1])
    if key == "voided":
        said = found_in(kept.dataset("clicks"), [*found, forged])
        assert [(problem.kind, problem.seq) for problem in said] == [("state", forged.seq)]
    with intruder(url) as connection:
        connection.execute(text("DROP INDEX dpledger_entries_key"))
        values = forged.to_dict() | {
            "dataset_id": connection.execute(select(datasets.c.id)).scalar_one()
        }
        del values["dataset"]
        connection.execute(insert(entries).values(**values))
        connection.execute(update(datasets).values(seq=forged.seq, head=forged.hash))
        connection.execute(
            update(totals).values(main=forged.spent_main, failure=forged.spent_failure)
        )
    assert kinds(kept) == {"state"}


@pytest.mark.parametrize(
    ("across", "kinds_of"),
    [(None, {"cost"}), ("exchange", set())],
    ids=["a replaced user", "an exchange between periods"],
)
def test_a_curve_that_is_proved_for_another_relation_is_found(
    sqlite_url: str, across: str | None, kinds_of: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever client wrote it: a price of add_remove says nothing of a replaced user, nor the
    other way round.
    """
    monkeypatch.setattr("accounting.guarantee._check_relation", lambda _, relation: relation)
    with Ledger.open(sqlite_url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(rho=5.0), "replace_one")
        ledger.create_dataset("visits", acc.Budget(rho=5.0), "add_remove")
        sampled = 10 * acc.SampledGaussianDP(mu=0.1, rate=0.1)
        ledger.charge("visits", sampled, relation="add_remove")
        assert ledger.verify().ok
        ledger.charge("clicks", sampled, relation="replace_one")
        assert [(problem.dataset, problem.kind) for problem in ledger.verify().problems] == [
            ("clicks", "cost")
        ]
        ledger.charge(
            "visits",
            acc.curves.ProvedFor(curve=acc.ZCDP(rho=0.1), relation="replace_one"),
            relation="add_remove",
        )
        dataset, found = ledger.dataset("visits"), list(ledger.entries("visits"))
    changed = replace(found[1], across=across)
    said = found_in(dataset, [found[0], replace(changed, hash=changed.expected_hash())])
    assert {(one.seq, one.kind) for one in said} == {(2, kind) for kind in kinds_of}


def _many_pages(url: str) -> Path:
    """The file of a ledger of several pages."""
    with Ledger.open(url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=100.0), "add_remove")
        for _ in range(12):
            ledger.charge("clicks", acc.PureDP(epsilon=0.1), relation="add_remove", label="x" * 900)
    return Path(url.removeprefix("sqlite:///"))


def test_damaged_pages_are_found(sqlite_url: str) -> None:
    """Whatever page of the file is overwritten, verify finds it, or says that the file cannot be
    read.
    """
    file = _many_pages(sqlite_url)
    content = file.read_bytes()
    for start in range(4096, len(content), 4096):
        file.write_bytes(content[:start] + bytes([0xA5]) * 4096 + content[start + 4096 :])
        try:
            with Ledger.open(sqlite_url) as ledger:
                assert not ledger.verify().ok, f"page {start // 4096 + 1}"
        except LedgerCorrupt:
            continue


@pytest.mark.parametrize("missing", [1, 100, 4095, 4096, 8192])
def test_a_file_that_is_cut_short_is_not_charged(sqlite_url: str, missing: int) -> None:
    """However much of its end is gone."""
    file = _many_pages(sqlite_url)
    left = file.stat().st_size - missing
    os.truncate(file, left)
    with pytest.raises(LedgerCorrupt), Ledger.open(sqlite_url) as ledger:
        ledger.charge("clicks", acc.PureDP(epsilon=0.1), relation="add_remove")
    assert file.stat().st_size == left


def test_a_client_that_was_opened_before_an_upgrade_charges_nothing(
    ledger: Ledger, url: str
) -> None:
    """The schema's version is looked at in every charge's own transaction."""
    engine = create_engine(parse_url(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE dpledger_meta SET schema_version = 99"))
    engine.dispose()
    for call in (ledger.charge, ledger.reserve):
        with pytest.raises(SchemaMismatch, match="99"):
            call("clicks", acc.PureDP(epsilon=0.1), relation="add_remove")
    assert ledger.latest("clicks") == []


@pytest.mark.parametrize(
    "edit",
    [
        "entries SET main = 'many' WHERE action = 'charge'",
        "entries SET curve = x'00ff' WHERE action = 'charge'",
        "entries SET seq = 'first' WHERE action = 'quota'",
        "datasets SET seq = 'many'",
        "datasets SET head = x'00ff'",
        "datasets SET declaration = CAST(declaration AS BLOB)",
        "totals SET main = 'many'",
        "totals SET failure = 'many'",
    ],
)
def test_a_field_of_another_type_is_found(sqlite_url: str, made: Made, edit: str) -> None:
    """SQLite keeps whatever an editor writes: text or bytes in a number, bytes in a text, is a
    finding, and no crash.
    """
    ledger = made(acc.Budget(epsilon=1.0))
    ledger.quotas("clicks").declare(Quota(name="all", limit=acc.Budget(epsilon=0.5)))
    ledger.charge("clicks", PRICE, relation="add_remove")
    with intruder(sqlite_url) as connection:
        connection.exec_driver_sql(f"UPDATE dpledger_{edit}")
    assert kinds(ledger)
    with pytest.raises(LedgerCorrupt):
        (
            list(ledger.entries("clicks"))
            if "'charge'" in edit
            else ledger.charge("clicks", acc.zero(), relation="add_remove")
        )
