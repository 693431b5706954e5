"""Bad input: one clear error each, which never quotes the data."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, get_args

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_oracle import SECRET, refused
from processes import Forked

from dpselect import events
from dpselect.app.cli import guard
from dpselect.app.events import engine as engines
from dpselect.app.events import rows as events_rows
from dpselect.app.events.engine import Engine, run_guarded
from dpselect.app.events.file_options import Format
from dpselect.app.events.sources import formats
from dpselect.app.events.sources.base import Rows, SourceRequest
from dpselect.app.events.sources.formats import CSV, Delimited
from dpselect.errors import NO_MEMORY, EventLogError

GOOD = f"u,i\n1,{SECRET}\n"
# names of tests must not tell the time
PACKED = gzip.compress(("u,i\n" + f"1,{SECRET}\n" * 1000).encode(), mtime=0)


def written(folder: Path, name: str, data: str | bytes) -> Path:
    """A file."""
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("log.csv", "", "is empty: it has no header"),
        ("log.csv", f"\nu,i\n1,{SECRET}\n", "empty first line"),
        ("log.csv", f"u,u,i\n1,2,{SECRET}\n", "more than one column"),
        ("log.csv", f"u,i\n1,a\n{SECRET}\n", "malformed row"),
        ("log.csv", f"u,i\n1,{SECRET},3\n", "malformed"),
        ("log.csv", f'u,i\n1,"{SECRET}\n2,b\n', "malformed"),
        ("log.csv", f'u,i\n1,"{SECRET}"x\n2,b\n', "malformed"),
        ("log.csv", f"u,i\n1,{SECRET}\r\n2,b\n", "do not all end alike.* malformed"),
        ("log.csv", f"u,i\n1,{SECRET}".encode() + b"\xe9\n", "UTF-8"),
        ("log.csv", GOOD.encode("utf-16"), "UTF-16. Say encoding='utf-16'"),
        ("log.csv", f"name,i\n1,{SECRET}\n", "its columns are 'name', 'i'"),
        ("log.csv", f"U,I\n1,{SECRET}\n", "may be data"),
        ("log.csv", f"U,i\n1,{SECRET}\n", "its columns are 'U', 'i'"),
        ("log.csv", f"1,{SECRET}\n2,b\n", "may be data"),
        ("log.csv", f"alice,{SECRET}\nbob,b\n", "may be data"),
        ("log.csv", f"u,i\n1,{SECRET}\n2,interrupted by unicode,No space left\n", "malformed row"),
        ("log.csv", f"u,i\n1,{SECRET}\n2,{'y' * 3_000_000}\n", "longer than 2 MB"),
        (
            "log.csv",
            "u,i," + ",".join(f"c{n}" for n in range(11_000)) + f"\n1,{SECRET}\n",
            "at most 10,000",
        ),
        ("log.tsv", f"alice\t{SECRET}\n", "may be data"),
        ("log.csv.gz", GOOD, "not a whole gzip"),
        ("log.csv.gz", PACKED[:-20], "not a whole gzip"),
        ("log.csv.gz", PACKED[:-8] + bytes(4) + PACKED[-4:], "not a whole gzip"),
        ("log.csv.gz", PACKED + b"x", "not a whole gzip"),
        ("log.csv.bz2", GOOD, "not a whole"),
        ("log.csv.zst", GOOD, "not a whole"),
        (
            "log.csv",
            f'u,i\nu1,"say \\"{SECRET}\\""\n',
            "malformed row.*a backslash escapes.*escape=",
        ),
        ("log.jsonl", f'{{"u": 1, "i": "{SECRET}"\n', "malformed"),
        ("log.jsonl", f'[{{"u": 1, "i": "{SECRET}"}}', "malformed"),
        ("log.jsonl", f'{{"u": 1, "i": "a"}}\n["{SECRET}"]\n', "malformed"),
        ("log.jsonl", f'{{"u": 1, "u": "{SECRET}", "i": 1}}\n', "malformed"),
        ("log.jsonl", f'{{"u": 1.5, "i": "{SECRET}"}}\n', "neither text nor whole numbers"),
        ("log.jsonl", f'{{"u": 1, "i": [["{SECRET}"]]}}\n', "neither text nor whole numbers"),
        ("log.jsonl", f'{{"u": 1, "i": {{"a": "{SECRET}"}}}}\n', "neither text nor whole numbers"),
        ("log.jsonl", f'{{"u": true, "i": "{SECRET}"}}\n', "neither text nor whole numbers"),
        ("log.jsonl", f'{{"u": [1, 2], "i": ["a", "{SECRET}"]}}\n', "lists in two columns"),
        ("log.csv", f"Shop, 2026\nu,i\n1,{SECRET}\n", "remove lines above it"),
        ("log.parquet", GOOD, "not a Parquet file"),
        ("log.parquet", f"PAR1{SECRET}", "damaged"),
        ("log.log", GOOD, r"\.csv, .*\.tsv"),
    ],
)
def test_damaged_files_are_refused(
    tmp_path: Path, name: str, data: str | bytes, words: str
) -> None:
    """A file that is missing something, damaged or malformed is refused whole."""
    refused(written(tmp_path, name, data), words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"user": 1, "item": 1}, "same column"),
        ({"user": 1, "item": "column0"}, "same column"),
        ({"user": 2, "item": "i"}, "same column"),
        ({"user": 1, "item": 3}, "from 1 to 2"),
        ({"user": 0, "item": 1}, "from 1 to 2"),
        ({"header": False}, "from 1 to 2"),
        ({"user": 1.5}, "not a column"),
        ({"format": "orc"}, "format='orc'"),
        ({"max_items_per_user": 2.0}, "max_items_per_user=2.0"),
        ({"salt": "x"}, "salt='x'"),
        ({"buckets": True}, "buckets=True"),
        ({"memory_limit": "lots"}, "memory_limit='lots'"),
        ({"memory_limit": "1KiB"}, "did not fit"),
    ],
)
def test_options_outside_their_domain_are_refused(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    """An option outside its domain is named with its value and its rule."""
    refused(written(tmp_path, "log.csv", GOOD), words, **options)


def test_missing_or_unsuitable_log_paths_are_refused(tmp_path: Path) -> None:
    """A missing file, a folder without logs, a device, a pattern of nothing and an address are each
    known from a log.
    """
    written(tmp_path, "a.csv", GOOD)
    refused(tmp_path / "b.csv", "does not exist")
    refused(str(tmp_path / "*.tsv"), "holds no file")
    refused(f"ftp://user:{SECRET}@example.org/log.csv?*", "begin with ftp:// are not read")
    refused(tmp_path, "holds no file .* format=")
    refused([tmp_path], "is a directory")
    refused("/dev/null", "not a regular file", format="csv")


def test_names_cannot_smuggle_sql(tmp_path: Path) -> None:
    """Paths and column names are data to the engine, whatever they hold."""
    evil = "x') UNION SELECT 1, 2; --\"'"
    path = written(
        tmp_path,
        "a'); DROP TABLE totals; --.csv",
        f'"{evil.replace(chr(34), chr(34) * 2)}",i\n1,a\n',
    )
    assert events.read(path, user=evil, item="i").labels == ("a",)
    pq.write_table(pa.table({evil: [1], "i": ["a"]}), tmp_path / "b.parquet")
    assert events.read(tmp_path / "b.parquet", user=evil, item="i").labels == ("a",)
    refused(tmp_path / "b.parquet", "its columns are", user='" OR 1')


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "values", [[1.5], [True], [[[1]]], [{"a": 1}], [b"x"], pd.to_datetime(["2020-01-01"])]
)
def test_unsupported_label_types_are_refused(tmp_path: Path, values: Any) -> None:
    """Fractions, booleans, nested values, bytes and times are refused as users and as items, in
    files and in tables.
    """
    table = pa.table({"u": pa.array(values), "i": [SECRET]})
    pq.write_table(table, tmp_path / "log.parquet")
    for source in (table, tmp_path / "log.parquet", table.to_pandas(), pl.from_arrow(table)):
        refused(source, "user='u' of .* integers")
        refused(source, "item='u' of .* integers", user="i", item="u")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            pd.DataFrame({"u": [1, "1"], "i": [SECRET, "a"]}),
            "integers throughout, or text throughout",
        ),
        (pd.DataFrame({"u": [1, None], "i": [SECRET, "a"]}), "a cast to Int64"),
        (pd.DataFrame({"u": [1], "i": [SECRET]}).set_index(["u", "i"]), r"reset_index\(\) makes"),
        (pd.DataFrame({"u": pd.arrays.SparseArray([1]), "i": [SECRET]}), "a column's type"),
        (pd.DataFrame([[1, 2, SECRET]], columns=["u", "u", "i"]), "more than one column"),
        (
            pl.DataFrame({"u": [2**100], "i": [SECRET]}, schema={"u": pl.Int128, "i": pl.String}),
            "cannot be read",
        ),
        (
            pl.LazyFrame({"u": ["a"], "i": [SECRET]}).with_columns(pl.col("u").cast(pl.Int64)),
            "cannot be read",
        ),
        ([1, SECRET], "builtins.list"),
        ({"u": [1], "i": [SECRET]}, "builtins.dict"),
        (None, "NoneType"),
    ],
)
def test_unsuitable_tables_are_refused(table: object, words: str) -> None:
    """A table without the columns, with unfit ones, or of an unknown make is refused; and so is
    what is said about files.
    """
    refused(table, words)


@pytest.mark.parametrize("unused", ["[" * 5000 + "]" * 5000, "9" * 6000, "1e999999"])
@pytest.mark.parametrize("first", ["null", "{}", "{UNUSED}"])
def test_json_that_python_cannot_hold(tmp_path: Path, unused: str, first: str) -> None:
    """Null rows are no events; nesting and numbers beyond Python's limits, in a field that nobody
    asked for, do no harm.
    """
    start = first.replace("UNUSED", f'"z": {unused}')
    path = written(
        tmp_path,
        "log.jsonl",
        f'{start}\n{{"z": {unused}, "u": "a", "i": "x"}}\n{{"u": "b", "i": null}}\n',
    )
    assert events.read(path, user="u", item="i").labels == ("x",)


NAMES = ["User", "user", "user_1", "user_2"]


@pytest.mark.fast(1)
@pytest.mark.parametrize("name", NAMES)
def test_names_are_exact(tmp_path: Path, name: str) -> None:
    """Names that differ in letter case, or that the engine would make up for such, are kept apart
    in every form of a log.
    """
    row = {"who": "me"} | {known: f"in {known}" for known in NAMES}
    table = pa.table({known: [value] for known, value in row.items()})
    pq.write_table(table, tmp_path / "log.parquet")
    files = [
        written(tmp_path, "log.csv", f"{','.join(row)}\n{','.join(row.values())}\n"),
        written(tmp_path, "log.jsonl", json.dumps(row)),
        tmp_path / "log.parquet",
    ]
    for source in (*files, table, table.to_pandas(), pl.from_arrow(table)):
        assert events.read(source, user="who", item=name).labels == (row[name],)


def test_duplicate_and_nested_columns_are_not_matched(tmp_path: Path) -> None:
    """Two columns of one name are ambiguous, whatever the engine calls the second; fields inside of
    a nested column are none.
    """
    log, one = tmp_path / "log.parquet", pa.array([SECRET])
    twice = pa.Table.from_arrays([one] * 3, names=["u", "u", "i"])
    pq.write_table(twice, log)
    for source in (log, twice):
        refused(source, "more than one column")
    for name in ("u_1", "U"):
        refused(log, "is not a column", user=name)
    inner = pa.array([{"i": "inner", "b": [{"u": 2}]}])
    pq.write_table(pa.table({"s": inner, "u": ["me"], "i": ["outer"]}), log)
    assert events.read(log, user="u", item="i").labels == ("outer",)
    refused(log, "is not a column", user="b")


@pytest.mark.slow
def test_parquet_file_with_thousands_of_columns_is_read(tmp_path: Path) -> None:
    """A Parquet file with thousands of columns is read without describing them all; with equal
    names it is refused.
    """
    names = [f"c{number}" for number in range(6000)]
    pq.write_table(
        pa.Table.from_arrays([pa.array(["x"])] * 6000, names=["C1", *names[1:]]),
        tmp_path / "log.parquet",
    )
    refused(tmp_path / "log.parquet", "letter case", user="c5", item="c5999")
    pq.write_table(
        pa.Table.from_arrays([pa.array(["x"])] * 6000, names=names), tmp_path / "log.parquet"
    )
    assert events.read(tmp_path / "log.parquet", user="c5", item="c5999").labels == ("x",)


class OtherSource:
    """A source of one's own: a list of pairs."""

    def accepts(self, given: SourceRequest) -> bool:
        """Any list."""
        return isinstance(given.source, list)

    def rows(self, engine: Engine, given: SourceRequest) -> Rows:
        """Its pairs, as lines of a file."""
        text = run_guarded("the list", lambda: "".join(f"{u},{i}\n" for u, i in given.source))  # type: ignore[attr-defined]
        (path := engine.path("pairs.csv")).write_text(text)
        return CSV.rows(engine, SourceRequest(path, given.columns, given.options))


def test_added_source_is_read_and_its_errors_hide_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A source in front of the list is read; what it raises, quoting data, is one error that
    neither says nor chains it.
    """
    monkeypatch.setattr(events_rows, "SOURCES", (OtherSource(), *events_rows.SOURCES))
    assert events.read([("ann", "zoo"), ("bob", "zoo")], user=1, item=2).counts.tolist() == [2]
    refused([(SECRET,)], "the list", user=1, item=2)
    for failure in (KeyError(SECRET), UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, SECRET)):
        with pytest.raises(EventLogError, match="the list") as caught:
            run_guarded("the list", partial(_raise, failure))
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is caught.value.__context__ is None
    with pytest.raises(KeyboardInterrupt):
        run_guarded("the list", partial(_raise, RuntimeError("Query interrupted")))


class Pairs:
    """A kind of file of one's own: pairs with a semicolon between."""

    name, suffixes = "pairs", (".pairs", ".psv")

    def rows(self, engine: Engine, given: SourceRequest) -> Rows:
        """As CSV with another delimiter."""
        return Delimited("pairs", self.suffixes, delimiter=";", quote="").rows(engine, given)


def test_every_kind_of_file_can_be_stated() -> None:
    """What `format=` offers is what is read."""
    assert get_args(Format) == ("auto", *(known.name for known in formats.FORMATS))


@pytest.mark.slow
def test_a_kind_of_file_is_added_by_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By name, stated, packed, among several, in a folder; messages name it."""
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, Pairs()))
    log = written(tmp_path, "a.psv", "u;i\n1;x\n")
    packed = written(tmp_path, "b.pairs.gz", gzip.compress(b"u;i\n2;x\n"))
    plain = written(tmp_path, "c.log", "u;i\n3;x\n")
    assert events.read([log, packed], user="u", item="i").counts.tolist() == [2]
    for source, count in ((plain, 1), (tmp_path, 2)):
        assert events.read(source, user="u", item="i", format="pairs").counts.tolist() == [count]
    refused(plain, r"\.psv .* 'parquet', 'xlsx', 'pairs'")
    refused(plain, "one of auto, csv, tsv, jsonl, parquet, xlsx, pairs", format="orc")
    refused([plain], r"must end in .*\.pairs")


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("rows", [1_000, 100_000])
def test_a_bad_byte_is_named_whatever_the_size(tmp_path: Path, rows: int) -> None:
    """The engine's own message depended on it, and its threads waited for each other now and
    then.
    """
    log = written(
        tmp_path, "log.csv", b"u,i\n" + b"".join(b"u%d,i\n" % n for n in range(rows)) + b"\xff,i\n"
    )
    refused(log, "is not valid UTF-8")
    refused(written(tmp_path, "end.csv", b"u,i\n1,a\n2,\xc3"), "is not valid UTF-8")


@pytest.mark.slow
def test_a_last_line_that_the_engine_would_drop_is_refused(tmp_path: Path) -> None:
    """Without a word it left out a line of 40 MB, however it ends, and a log of one such line had
    no event.
    """
    for start, end in (
        ("u,i\n1,a\n", ""),
        ("u,i\n1,a\n", "\n"),
        ("u,i\n1,a\n", "\r\n"),
        ("u,i\n1,a\n", "\r"),
        ("u,i\n", ""),
    ):
        refused(
            written(tmp_path, "log.csv", f"{start}{SECRET},{'A' * 40_000_000}{end}"),
            "longer than 2 MB",
        )
    packed = gzip.compress(f"u,i\n{SECRET},{'A' * 40_000_000}".encode(), compresslevel=1)
    refused(written(tmp_path, "log.csv.gz", packed), "longer than 2 MB")


def test_long_lines_and_letters_across_blocks_are_read(tmp_path: Path) -> None:
    """Lines up to the limit, and letters of several bytes wherever a block ends."""
    long = "é" * 999_000
    log = written(tmp_path, "log.csv", "u,i\n" + "".join(f"{user},{long}\n" for user in range(4)))
    assert events.read(log, user="u", item="i").labels == (long,)
    after = written(tmp_path, "after.csv", "u,i\n" + "1,a\n" * 250_000 + f"2,{'A' * 1_999_900}\n")
    assert events.read(after, user="u", item="i").counts.tolist() == [1, 1]


def test_quotes_are_quotes_in_csv_alone(tmp_path: Path) -> None:
    """A quoted label has no quotes, and may hold a delimiter, a quote and a line end; in TSV a
    quote is a character.
    """
    log = written(tmp_path, "log.csv", 'u,i\n1,"a,b"\n"2","a,b"\n3,"say ""c"""\n4,"d\ne"\n')
    assert events.read(log, user="u", item="i").labels == ("a,b", "d\ne", 'say "c"')
    assert events.read(
        written(tmp_path, "log.tsv", 'u\ti\n1\t"a"\n'), user="u", item="i"
    ).labels == ('"a"',)


# What keeps rows on disk until it is asked to end: a reading, one that removes its folder already,
# and a horizon's state.
_UNTIL_ENDED = {
    "a reading": (
        "with temporary_folder() as folder:\n    (folder / 'rows').write_text('x')\n    wait()\n"
    ),
    "its end": (
        "import shutil\nremove = shutil.rmtree\ndef slowly(*folder, **how):\n    shutil.rmtree ="
        " remove\n    wait()\nshutil.rmtree = slowly\nwith temporary_folder() as folder:\n   "
        " (folder / 'rows').write_text('x')\n"
    ),
    "a horizon": (
        "import os, pathlib\nfrom dpselect.mechanisms.continual_top_k import ContinualTopK\nfrom"
        " dpselect.app.continual.state import State\nState.create(path :="
        " pathlib.Path(os.environ['TMPDIR'] + '.state'), ContinualTopK(k=1, periods=2, scale=9.0),"
        " 'x', ['a'])\nwith State.open(path):\n    wait()\n"
    ),
}


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signals here")
@pytest.mark.parametrize(
    ("number", "what"),
    [*(("SIGTERM", what) for what in _UNTIL_ENDED), ("SIGHUP", "a reading")],
)
def test_a_signal_leaves_no_rows_behind(tmp_path: Path, number: str, what: str) -> None:
    """What is on disk goes with a process that is asked to end, which ends as that signal
    ends one.
    """
    (tmp_path / "held").mkdir()
    program = (
        "import signal, time\nfrom dpselect.app.events.engine import temporary_folder\n"
        # whoever runs the tests may ignore it, as nohup does
        f"signal.signal(signal.{number}, signal.SIG_DFL)\n"
        "def wait():\n    print('ready', flush=True)\n    time.sleep(60)\n" + _UNTIL_ENDED[what]
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path / "held")}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        assert len(list((tmp_path / "held").iterdir())) == 1
        child.send_signal(getattr(signal, number))
        assert child.wait(30) == -getattr(signal, number)
    assert list((tmp_path / "held").iterdir()) == []


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A standstill is a few waits, and so is the patience with a query that no interruption
    ends.
    """
    monkeypatch.setattr(engines, "_STANDSTILL", 3)
    monkeypatch.setattr(engines, "_PATIENCE", 2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("main", [True, False])
def test_a_query_that_stands_still_ends(main: bool) -> None:
    """With an error, in any thread; the connection is left, since closing it would wait."""
    never, said = threading.Event(), list[str]()

    def ask() -> None:
        with engines.open_engine() as engine:
            try:
                engine._run_alone("the log", never.wait)
            except EventLogError as error:
                said.append(str(error))
            assert engine.abandoned

    if main:
        ask()
    else:
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(60)
    never.set()
    assert len(said) == 1
    assert said[0].startswith("the log cannot be read: it made no progress")


@pytest.mark.usefixtures("impatient")
def test_an_interrupt_ends_a_query_that_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, though the engine does not heed it."""
    monkeypatch.setattr(engines, "_STANDSTILL", 10**9)
    never = threading.Event()

    def work() -> bool:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return never.wait()

    with engines.open_engine() as engine:
        with pytest.raises(KeyboardInterrupt):
            engine._run_alone("the log", work)
        assert engine.abandoned
    never.set()


_FAULTS = {
    "open quote": b'"a,b\n',
    "text after a quote": b'"a"b,c\n',
    "a field too few": b"a\n",
    "another line end": b"a,b\rc,d\n",
    "half a letter": b"\xc3",
}
_READ_ALL = """
import sys
from dpselect import events
from dpselect.errors import EventLogError
for path in sys.argv[1:]:
    try:
        found = str(events.read(path, user="user", item="item").counts.tolist())
    except EventLogError as error:
        found = str(error)
    print(path, found, sep="\t", flush=True)
"""


@pytest.fixture(scope="module")
def malformed(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Logs of 300,000 rows with one fault each, at the beginning and at the end."""
    folder, rows = (
        tmp_path_factory.mktemp("malformed"),
        b"".join(b"u%d,i\n" % number for number in range(300_000)),
    )
    for place, name in enumerate(_FAULTS):
        (folder / f"{place}-early.csv").write_bytes(b"user,item\n" + _FAULTS[name] + rows)
        (folder / f"{place}-late.csv").write_bytes(b"user,item\n" + rows + _FAULTS[name])
    return sorted(folder.iterdir())


@pytest.mark.slow
@pytest.mark.serial
def test_malformed_logs_are_read_to_their_end_every_time(malformed: list[Path]) -> None:
    """The engine's threads waited for each other for ever in one process of three. Two read all of
    them: each log always ends in the same way, and where a byte is no letter in the same words.
    """
    found: dict[str, set[str]] = {}
    for process in [Forked(_READ_ALL, *malformed) for _ in range(2)]:
        status, out, err = process.finish()
        assert (status, err) == (0, "")
        lines = [line.split("\t") for line in out.splitlines()]
        assert len(lines) == len(malformed)
        for path, said in lines:
            found.setdefault(path, set()).add(said.replace(path, ""))
    assert {path: said for path, said in found.items() if len(said) > 1} == {}
    for place, name in enumerate(_FAULTS):
        for path in (path for path in found if Path(path).name.startswith(f"{place}-")):
            (said,) = found[path]
            assert ("is not valid UTF-8" in said) == (name == "half a letter"), (name, said)


_MEMORY, _LIMITED, _FULL = (
    "the system refused this process more memory",
    r"larger than this process may write. Raise that limit \(ulimit -f\)",
    "more room for temporary files than there is",
)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), _MEMORY),
        (RuntimeError("can't start new thread"), _MEMORY),
        (duckdb.OutOfMemoryException("Failed to allocate block (bad allocation)"), _MEMORY),
        (ImportError("duckdb.so: failed to map segment from shared object"), _MEMORY),
        (RuntimeError("std::bad_alloc"), _MEMORY),
        (
            duckdb.OutOfMemoryException("could not allocate block (9.5 MiB/9.5 MiB used)"),
            "Raise memory_limit=, state more buckets=, or",
        ),
        (duckdb.IOException("Could not write file '/tmp/spill': File too large"), _LIMITED),
        (duckdb.FatalException("FATAL Error: Failed to write: File too large"), _LIMITED),
        (OSError(errno.EFBIG, os.strerror(errno.EFBIG)), _LIMITED),
        (duckdb.IOException("Could not write: No space left on device"), _FULL),
        (duckdb.FatalException("FATAL Error: Failed to write: No space left on device"), _FULL),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), _FULL),
        (duckdb.IOException(f"Could not write file: {os.strerror(errno.EDQUOT)}"), _FULL),
        (duckdb.ConversionException("Could not convert 'File too large' to BIGINT"), "damaged"),
        (
            duckdb.InvalidInputException("CSV Error\nOriginal Line: No space left on device"),
            "malformed row",
        ),
    ],
    ids=repr,
)
def test_a_system_that_refuses_room_is_named(error: Exception, words: str) -> None:
    """Memory or disk, by the system's own error alone, and not by what a log says; the log is not
    called damaged, and a limit that did not hold is not to be raised.
    """
    with pytest.raises(EventLogError, match=words) as caught:
        run_guarded("parquet file 'log.parquet'", lambda: _raise(error))
    assert ("damaged" in str(caught.value)) == (words == "damaged")
    assert ("memory_limit" in str(caught.value)) == words.startswith("Raise memory_limit")
    if words == _MEMORY:
        assert guard._explain(error, {}) == (NO_MEMORY, guard.FAILED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "name"),
    [
        *((2**20, name) for name in ("log.parquet", "log.csv.gz", "-")),
        (400 << 20, "log.parquet"),
    ],
)
def test_a_limited_process_says_what_it_lacks(tmp_path: Path, name: str, limit: int) -> None:
    """A limit of the size of files is named while a log is unpacked, copied or grouped; with too
    little memory there is no internal error, and what the C library ends with is not ours to say.
    No file is called damaged.
    """
    of_files = limit == 2**20
    users = [f"user {number}" for number in range(300_000 if of_files else 100_000)]
    items = users if of_files else ["x"] * len(users)
    pq.write_table(pa.table({"u": users, "i": items}), tmp_path / "log.parquet")
    text = "u,i\n" + "".join(f"{user},item {user}\n" for user in users)
    (tmp_path / "log.csv").write_text(text)
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(text.encode(), 1))
    program = (
        f"import resource as r; r.setrlimit(r.RLIMIT_{'FSIZE' if of_files else 'AS'}, "
        f"({limit}, r.RLIM_INFINITY)); from dpselect.app.cli.app import main; main()"
    )
    asked = ["--user", "u", "--item", "i", *["--format", "csv"] * (name == "-")]
    command = ["topk", "--k", "1", "--epsilon", "1", "--delta", "1e-6"]
    if of_files:
        command = ["check", "--memory-limit", "24MB"]
    done = subprocess.run(
        [sys.executable, "-c", program, *command, name, *asked],
        cwd=tmp_path,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "internal error" not in done.stderr
    assert "damaged" not in done.stderr
    if of_files:
        assert done.returncode == 1
        assert re.search(f"{_LIMITED}|did not fit in the memory", done.stderr), done.stderr
