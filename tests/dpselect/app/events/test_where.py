"""Conditions on other columns: one meaning through every source, decided by no row, and nothing in
them is run.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import event_oracle
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_oracle import Sources

from dpselect import events
from dpselect.app.events.engine import Engine, open_engine
from dpselect.app.events.rows import rows
from dpselect.app.events.sources import formats
from dpselect.app.events.where import Condition, conditions
from dpselect.errors import EventLogError

pytestmark = pytest.mark.usefixtures("shared_database")

ROWS: list[tuple[str | None, ...]] = [
    ("ann", "zoo", "phone", "7"),
    ("ann", "pier", "o'neil", "10"),
    ("bob", "zoo", "phone", "12"),
    ("bob", "pier", "phone", None),
    ("cat", "park", None, "-3"),
    ("dan", "zoo", "Phone", "7"),
    ("eve", "park", 'a "b" = c', "100"),
]
NAMES = ["who", "what", "device", "price"]
ASKED: dict[str, Callable[[Any], bool]] = {
    "device = phone": lambda row: row[2] == "phone",
    "device != phone": lambda row: row[2] not in (None, "phone"),
    "device = o'neil": lambda row: row[2] == "o'neil",
    'device = "a ""b"" = c"': lambda row: row[2] == 'a "b" = c',
    "price >= 10": lambda row: row[3] is not None and int(row[3]) >= 10,
    "price < 7.5": lambda row: row[3] is not None and int(row[3]) < 7.5,
    "price = 7": lambda row: row[3] == "7",
    "price = 07": lambda _: False,
    "what != zoo": lambda row: row[1] != "zoo",
    "price > 1e9": lambda _: False,
}


TYPED = [(*row[:3], None if row[3] is None else int(row[3])) for row in ROWS]


def table() -> pd.DataFrame:
    return pd.DataFrame(TYPED, columns=NAMES).astype({"price": "Int64"})


def source(kind: str, folder: Path) -> Any:
    """The log, with prices that are integers where there are types."""
    return table() if kind == "pandas" else getattr(Sources(folder, NAMES), kind)(TYPED)


def counted(source: Any, where: Any, **options: Any) -> dict[Any, int]:
    more = {"table": "log"} if isinstance(source, str) and "://" in source else {}
    found = event_oracle.counted(source, user="who", item="what", where=where, **more, **options)
    return {label: count for label, count in found.items() if count}


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "pandas", "sqlite"])
def test_a_condition_means_the_same_for_text_and_integers(kind: str, tmp_path: Path) -> None:
    """What satisfies it is counted and nothing else; a missing value satisfies none; nothing left
    is an empty log.
    """
    log = source(kind, tmp_path)
    for text, holds in ASKED.items():
        assert counted(log, text) == Counter(row[1] for row in ROWS if holds(row)), text


def log_of(server: str, columns: str, *rows: tuple[Any, ...]) -> None:
    """Lay a table of these rows on the server."""
    import psycopg
    import sqlalchemy

    host = str(sqlalchemy.make_url(server).query["host"])
    with psycopg.connect(host=host, user="postgres", autocommit=True) as link:
        link.execute("DROP TABLE IF EXISTS public.log")
        link.execute(f"CREATE TABLE public.log ({columns})")
        values = ", ".join(["%s"] * len(rows[0]))
        link.cursor().executemany(f"INSERT INTO log VALUES ({values})", rows)


def test_postgresql_log_conditions_compare_by_column_type(postgres: str) -> None:
    """A server's columns have their own types; a condition is compared here, and nothing of it
    reaches the server.
    """
    columns = "who text, what text, device text, price int, paid boolean, day date"
    log_of(postgres, columns, *((*row, True, "2024-05-01") for row in ROWS))
    always = {"paid = true": lambda _: True, "day = 2024-05-01": lambda _: True}
    for text, holds in (ASKED | always).items():
        assert counted(postgres, text) == Counter(row[1] for row in ROWS if holds(row)), text
    assert counted(postgres, "device = '; DROP TABLE log; --") == {}
    assert counted(postgres, "paid = t") == {}


HOSTILE = [
    "x' OR '1'='1",
    "'; DROP TABLE grouped; --",
    "\\' OR 1=1 --",
    "phone') OR (1=1",
    "%",
    "*",
    "\u2019 OR \u2018",
    "e'\\x70'",
]


@pytest.mark.fast(8)
@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("kind", ["csv", "json", "pandas", "sqlite"])
def test_condition_text_is_never_executed(kind: str, value: str, tmp_path: Path) -> None:
    """A value is compared as it is written, whatever it says; a name is the name of a column, or
    refused, or of no field.
    """
    made = Condition("device", "=", value)
    log = source(kind, tmp_path)
    assert counted(log, [made]) == {}
    assert Condition.parse(str(made)) == made
    named = str(Condition(value, "=", "phone"))
    if kind == "json":
        with suppress(EventLogError):  # of a name that the engine has no path for
            assert counted(log, named) == {}
        return
    with pytest.raises(EventLogError, match="where="):
        counted(log, named)


def test_conditions_are_written_in_one_way() -> None:
    """The same conditions are the same question, in whatever order and with whatever spaces; each
    is kept once.
    """
    stated = conditions(["b>=1", '"a"  =  x y ', "b >= 1"])
    assert [str(one) for one in stated] == ["a = x y", "b >= 1"]
    assert str(Condition.parse('"a = b" != " c"')) == '"a = b" != " c"'
    one, other = (
        events.Reading(user="u", item="i", where=where)
        for where in (["b>=1", "a = x"], ("a=x", "b >= 1"))
    )
    assert one == other
    assert one.model_dump(exclude_defaults=True)["where"] == ("a = x", "b >= 1")


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("who = ann", "column of users"),
        ("none = 1", "where='none' is not a column"),
        ("device > x", "not a number"),
        ("device > nan", "not a number"),
        ("device ==  x", "two signs"),
        ("device = ", "lacks a value"),
        ("= x", "no condition"),
        ("device", "no condition"),
        ("device = x\0", "no condition"),
        (7, "no condition"),
        ("", "no condition"),
        ([f"device != {n}" for n in range(9)], "at most 8"),
    ],
)
def test_invalid_conditions_are_refused_before_counting(
    where: Any, words: str, tmp_path: Path
) -> None:
    """Before anything is counted, in words that name the field; no value of the log is shown."""
    with pytest.raises(EventLogError, match=words) as caught:
        counted(source("csv", tmp_path), where)
    assert "o'neil" not in str(caught.value)


def test_numbers_are_equal_to_numbers(tmp_path: Path) -> None:
    """1.0 is written in as many ways as there are sources: what is a number there is compared with
    one, and is no other text.

    So it makes no difference whether a column of pandas is of integers, or of fractions because a
    row lacks one.
    """
    made = [table(), *(table().astype({"price": kind}) for kind in (float, object))]
    made[1].to_parquet(tmp_path / "log.parquet")
    with sqlite3.connect(tmp_path / "real.db") as connection:
        connection.execute("CREATE TABLE log (who TEXT, what TEXT, price REAL)")
        rows = [(row[0], row[1], row[3]) for row in ROWS]
        connection.executemany("INSERT INTO log VALUES (?, ?, ?)", rows)
    connection.close()
    for log in (*made, tmp_path / "log.parquet", f"sqlite:///{tmp_path / 'real.db'}"):
        for one in ("price = 7e0", ["price >= 7", "price < 8.0"]):
            assert counted(log, one) == {"zoo": 2}
        for one in ("price = 07", "price = 7.5"):
            assert counted(log, one) == {}
        assert counted(log, "price != seven") == {"zoo": 3, "pier": 1, "park": 2}
        assert counted(log, "price != 7.0") == {"pier": 1, "zoo": 1, "park": 2}


ODD: list[Any] = ["7", "x", "", "nan", 7, 7.5, True, None, [7], {"a": 7}]


@pytest.mark.parametrize("text", ["odd = 7", "odd != x", "odd >= 7", "odd.a = 7"])
def test_incomparable_values_never_match_a_condition(text: str, tmp_path: Path) -> None:
    """Whatever its type and whatever stands in the other rows: it refuses no log, and decides
    nothing about them.
    """
    log = tmp_path / "log.jsonl"
    lines = [json.dumps({"who": "a", "what": f"i{at}", "odd": odd}) for at, odd in enumerate(ODD)]
    log.write_text("\n".join(lines))
    found = counted(log, text)
    for at, line in enumerate(lines):
        log.write_text(line)
        assert (f"i{at}" in found) == bool(counted(log, text)), line


@pytest.mark.parametrize("name", ["a..b", ".a", "a."])
def test_a_name_with_an_empty_part_is_refused_without_a_row(name: str, tmp_path: Path) -> None:
    """The same words for a file of nothing: else they would tell whether there is a row."""
    log, told = tmp_path / "log.jsonl", set[str]()
    for text in ("", '{"who": "a", "what": "i"}\n'):
        log.write_text(text)
        for asked in (
            {"where": f"{name} = 1"},
            {"where": (), "group": name, "max_groups_per_user": 1},
        ):
            with pytest.raises(EventLogError, match="a part of it is empty") as caught:
                events.read(log, user="who", item="what", **asked)
            told.add(str(caught.value))
    assert len(told) == 2, told


def test_conditions_go_with_everything_else_that_reads(tmp_path: Path) -> None:
    """Bounds, clips, groups, pairs for two looks and numbers of users read what the conditions
    leave, and that alone.
    """
    log, left = source("csv", tmp_path), table()[table()["price"].fillna(0) >= 7]
    ways: list[dict[str, Any]] = [
        {"max_items_per_user": 1, "salt": "s", "clip": 1.0},
        {"group": "device", "max_groups_per_user": 1, "salt": "s"},
        {"value": "price", "value_clip": 20.0},
        {"item": ["what", "device"]},
        {"within": ["zoo", "none"]},
    ]
    for way in ways:
        asked = {"user": "who", "item": "what", **way}
        here, there = (events.read(log, where="price >= 7", **asked), events.read(left, **asked))
        assert here.counts.tolist() == there.counts.tolist(), way
        assert here.clipped.tolist() == there.clipped.tolist(), way
        assert here.report == there.report, way
    with events.pairs(log, user="who", item="what", where="price >= 7") as pairs:
        assert int(pairs.read().counts.sum()) == 5
    assert counted(log, "device != phone", null=["Phone", "o'neil"]) == {"park": 1}


def satisfying(engine: Engine, log: Any, where: Any, **said: Any) -> list[str]:
    """The users of events that satisfy conditions."""
    found = rows(engine, events.Reading(user="who", item="what", where=where, **said).request(log))
    return [
        row[0]
        for row in engine.run(
            f"SELECT u FROM ({found.sql}) WHERE {found.kept_column} ORDER BY u", title="log"
        )
    ]


KINDS_OF_COLUMNS: dict[str, Callable[[int], Any]] = {
    "nothing": lambda _: None,  # that user's value is the type
    "int": int,
    "numpy ints": np.int64,
    "float": lambda n: n / 4,
    "short floats": lambda n: np.float32(n / 10),
    "bool": lambda n: n % 3 == 0,
    "str": "{:02}".format,
    "date": lambda n: date(2024, 5, 1 + n),
    "Timestamp": lambda n: pd.Timestamp(2024, 5, 1 + n),
    "timedelta": lambda n: np.timedelta64(n, "D"),
    "Decimal": lambda n: Decimal(n) / 4,
}
DECLARED = ["Int64", "category", "Float64", "float32", "int64[pyarrow]"]
OF_X: list[Any] = ["x = 7", "x != 7.0", "x >= 1.75", "x = 07", "x = 0.7", "x = true"]
OF_X += ["x = 2024-05-07", ["x != y", "x < 7.5"]]
ADDED: list[Any] = [
    "n/a",
    None,
    pd.NA,
    float("nan"),
    [1],
    {"a": 1},
    10**2000,
    7,
    7.0,
    True,
    b"7",
    1j,
]
ADDED += [np.bool_(True), np.float32(0.7), np.datetime64("2024-05-01"), date(2024, 5, 7)]
ADDED += [pd.Period("2024-01"), pd.Interval(0, 1), Decimal("1e999999999"), Decimal("NaN")]
ADDED += [pd.Timedelta(days=1), np.longdouble(2), np.float16(2)]


@pytest.mark.parametrize("kind", [*KINDS_OF_COLUMNS, *DECLARED])
def test_users_value_changes_no_other_count(kind: str) -> None:
    """One user's value decides which type a column of pandas has, and none of the rows of others
    that satisfy a condition; nor does a type that was declared.
    """
    made, rest = KINDS_OF_COLUMNS.get(kind, int), ADDED[: 2 if kind in DECLARED else None]
    held = [{"who": f"u{n}", "what": f"i{n % 3}", "x": made(n)} for n in range(20)]
    typed = pd.DataFrame(held)
    logs = [("as objects", typed.assign(x=pd.Series([row["x"] for row in held], dtype=object)))]
    logs += [
        (repr(value), pd.DataFrame([*held, {"who": "eve", "what": "zoo", "x": value}]))
        for value in rest
    ]
    logs += [("no key", pd.DataFrame([*held, {"who": "eve", "what": "zoo"}]))]
    if kind in DECLARED:
        typed = typed.astype({"x": kind})
    with open_engine() as engine:
        for at, ask in enumerate(OF_X):
            alone = satisfying(engine, typed, ask)
            # each log meets every fourth condition, the next three the others
            for name, log in logs[at % 4 :: 4]:
                assert [user for user in satisfying(engine, log, ask) if user != "eve"] == alone, (
                    ask,
                    name,
                )


BESIDE: list[Any] = [None, "text", 3.0, True]
OF_NUMBERS: list[tuple[str, dict[str, Any]]] = [
    ("x = 3", {}),
    ("n = 3.0", {}),
    ("x != 3", {}),
    ("x >= 3", {"null": "3"}),
    ("n >= 3", {"missing": "3.0"}),
    ("x != 7", {"missing": "-1"}),
]


def test_users_value_does_not_retype_other_rows(tmp_path: Path) -> None:
    """In a file of its own beside theirs, or in a table of objects: the same rows of the others
    satisfy a condition, also where a number stands for a missing one.
    """
    held = pd.DataFrame(
        {"who": ["a", "b", "c", "d"], "what": "i", "x": [3.0, 3.0, 4.0, -1.0], "n": [3, 3, 4, -1]}
    )
    held.to_parquet(tmp_path / "a.parquet")
    with open_engine() as engine:
        for ask, said in OF_NUMBERS:
            found = set[tuple[str, ...]]()
            for value in BESIDE:
                eve = pd.DataFrame({"who": ["eve"], "what": ["i"], "x": [value], "n": [value]})
                eve.to_parquet(tmp_path / "b.parquet")
                objects = {"x": object, "n": object}
                together = pd.concat([held.astype(objects), eve.astype(objects)])
                for log in ([tmp_path / "a.parquet", tmp_path / "b.parquet"], together):
                    users = satisfying(engine, log, ask, **said)
                    found.add(tuple(user for user in users if user != "eve"))
            assert len(found) == 1, (ask, said, found)


@pytest.mark.parametrize("form", ["{}", "[{}]", "{{'length': {}}}"])
def test_no_interval_of_a_relation_refuses_a_condition(form: str) -> None:
    """A negative one, which no Parquet file holds: it is nothing to compare, or refused by the type
    of its column.
    """
    found = set[str]()
    for days in ("5 days", "-5 days"):
        value = form.format(f"INTERVAL '{days}'")
        log = duckdb.connect().sql(f"SELECT 'a' AS who, 'i' AS what, {value} AS x")
        try:
            found.add(str(counted(log, "x != 1")))
        except EventLogError as error:
            found.add(str(error))
    assert len(found) == 1, found
    assert (form == "{}") == (found == {"{}"}), found


def test_a_dry_run_looks_at_no_category() -> None:
    """The categories of a column are those of its rows."""
    held = pd.Series(["zoo", "pier", 7, 1.5], dtype="category")
    log = pd.DataFrame({"who": ["a", "b", "c", "d"], "what": held})
    events.require_columns(log, events.Reading(user="who", item="what"))
    with pytest.raises(EventLogError, match="Python objects"):
        counted(log, ())


NOTES: dict[str, Any] = {
    "nobody": pa.nulls(1),
    "text": pa.array(["x"]),
    "a number": pa.array([1]),
    "the field": pa.array([{"flag": 2}]),
    "another field": pa.array([{"other": 1}]),
    "a list of nulls": pa.array([[None]]),
    "text within": pa.array([{"flag": "x"}]),
    "a time": pa.array([datetime(2024, 5, 1)]),
    "a map": pa.array([[("flag", 1)]], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("note", NOTES)
def test_missing_nested_field_matches_no_row(note: str, tmp_path: Path) -> None:
    """Rows decide it where a writer takes types from them: a field that is not there is one of
    nulls, in a dry run, too; and a type whose values compare with nothing satisfies nothing.
    """
    log = pa.table({"who": ["a"], "what": ["i"], "note": NOTES[note]})
    pq.write_table(log, tmp_path / "log.parquet")
    connection = duckdb.connect()
    others = [connection.from_arrow(log)]
    if note != "a map":
        others += [pl.from_arrow(log), pl.from_arrow(log).lazy()]
    turn = [*NOTES].index(note) % len(others)
    made = [tmp_path / "log.parquet", log, others[turn]]
    for at, one in enumerate(made):
        asked = ["note.flag = 1"] + ["note.flag.deeper = 1"] * (at < 2)
        if note not in ("text", "a number"):
            asked += [["note = y"], ["note != y"], ["note < 5"]][at]
        for text in asked:
            events.require_columns(one, events.Reading(user="who", item="what", where=text))
            assert counted(one, text) == {}
        with pytest.raises(EventLogError, match=r"where='nota\.flag' is not a column"):
            counted(one, "nota.flag = 1")
    connection.close()
    # lines of JSON have no header: were it refused, whether anybody has a field could be asked for
    assert counted(source("json", tmp_path), "devise.maker != phone") == {}


LONG = {
    "text": "z" * 3_000_000,
    "quotes": '"' * 1_500_000,
    "a number": "0" * 3_000_000 + "1",
    "as the literal": "y" * 1001,
}
LONG_ASKED = {"x = 1": False, f"x = {'y' * 990}": False, "x != 1": True, "x < 5": False}


def test_a_long_text_of_sqlite_refuses_no_condition(tmp_path: Path) -> None:
    """It is no label: where it is only compared, it is what it is to = and !=, and no number; a
    label of that length refuses.
    """
    for name, text in LONG.items():
        target = tmp_path / f"{name}.db"
        with sqlite3.connect(target) as connection:
            connection.execute("CREATE TABLE log (who TEXT, what TEXT, x TEXT, y TEXT)")
            connection.executemany(
                "INSERT INTO log VALUES (?, ?, ?, ?)",
                [("a", "i", "1", ""), ("eve", "zoo", text, "é" * 990_000)],
            )
        connection.close()
        log = f"sqlite:///{target}"
        for where, holds in LONG_ASKED.items():
            assert ("zoo" in counted(log, where)) is holds, (name, where)
        found = event_oracle.counted(
            log, user="who", item="y", where=["x != 2", "x != 3", "x != 4", "x != 5"], table="log"
        )
        assert found["é" * 990_000] == 1
        if name != "as the literal":
            for where in ((), "what = i"):
                with pytest.raises(EventLogError, match="longer than 2 MB"):
                    event_oracle.counted(log, user="who", item="x", where=where, table="log")


def test_a_long_text_of_postgresql_refuses_no_condition(postgres: str) -> None:
    """The server cuts it, and sends nothing of what is not compared."""
    log_of(
        postgres,
        "who text, what text, x text, v varchar, n jsonb, c char(3)",
        ("a", "i", "1", "1", "1", "1"),
        ("eve", "zoo", LONG["text"], LONG["a number"], json.dumps({"a": LONG["text"]}), "1"),
    )
    for where, holds in LONG_ASKED.items():
        for column in "xv":
            assert ("zoo" in counted(postgres, column + where[1:])) is holds, (column, where)
    assert counted(postgres, "n != 1") == {}
    assert counted(postgres, "x != 2") == counted(postgres, 'c = "1  "') == {"i": 1, "zoo": 1}


def test_a_repeated_field_of_json_refuses_no_condition(tmp_path: Path) -> None:
    """The first one counts; a repeated label refuses, whatever the condition."""
    first, form = {"who": "a", "what": "i", "x": 1}, '{"who": "eve", "what": "zoo", %s}'
    for at, odd in enumerate(['"x": 2, "x": 1', '"x": 2, "\\u0078": {"y": 3}']):
        lines = [json.dumps(first), form % odd, "null"]
        for log, text in (("l.jsonl", "\n".join(lines)), ("a.json", f"[{', '.join(lines)}]")):
            (tmp_path / log).write_text(text)
            assert counted(tmp_path / log, "x = 2") == {"zoo": 1}, (at, log)
            assert counted(tmp_path / log, "x != 2") == counted(tmp_path / log, "x < 2") == {"i": 1}
            assert counted(tmp_path / log, "x.y = 3") == {}
    for odd in ("5", '{"who": "a", "what": "i", "what": "i"}'):
        (tmp_path / "l.jsonl").write_text(f"{json.dumps(first)}\n{odd}")
        for where in ((), "x = 1", "y = 1"):
            with pytest.raises(EventLogError, match="malformed line"):
                event_oracle.counted(tmp_path / "l.jsonl", user="who", item="what", where=where)


def test_text_of_parquet_that_is_not_utf8_refuses_no_condition(tmp_path: Path) -> None:
    """It is other text than any that is asked for; a label that is not UTF-8 refuses, whatever the
    condition.
    """
    offsets, body = pa.array([0, 1, 4], pa.int32()).buffers()[1], pa.py_buffer(b"1\xff\xfe\xff")
    odd = pa.Array.from_buffers(pa.string(), 2, [None, offsets, body])
    within = pa.StructArray.from_arrays([odd], ["y"])
    table = pa.table({"who": ["a", "eve"], "what": ["i", "zoo"], "x": odd, "n": within})
    log = tmp_path / "log.parquet"
    pq.write_table(table, log)
    with open_engine() as engine:
        if not formats._replaces(engine, "the log"):
            pytest.skip("needs a DuckDB that reads other text than UTF-8")
    for column in ("x", "n.y"):
        assert counted(log, f"{column} = 1") == counted([log], f"{column} < 5") == {"i": 1}
        assert counted(log, f"{column} != 1") == {"zoo": 1}
        for where in ((), "what = i", f"{column} = 1"):
            with pytest.raises(EventLogError, match="cannot be read"):
                event_oracle.counted(log, user="who", item=column, where=where)
