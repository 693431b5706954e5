"""What is written holds each row once and each label to the letter, wherever it is read: labels are
whatever a log holds.
"""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from collections.abc import Callable
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest

import accounting as acc
import dpselect as dps
from accounting.wording import printable
from dpselect import pate
from dpselect.app.cli.out import plain
from dpselect.app.csv_text import csv_records
from dpselect.app.release.answer import TABLES
from dpselect.errors import EventLogError

HOSTILE = [
    *("a\rb", "\r", "\n", "a\nb", "a\r\nb\r\n", "a\n\nb", 'say "hi"', '"', '""', "'", "a,b", ","),
    *("a;b", "a\tb", "\t", "a|b", "=1+1", "@x", "'=1", "-1", "+1", "\uff1d1", "a\u2028b"),
    *("a\u2029b", "a\x85b", "a\x0bb", "a\x0cb", "a\x1cb", "a\0b", "\0", " lead", "trail ", "  "),
    *("\xa0", "#hash", "\\N", "a\\", '\\"', "NULL", "nan", "None", "é", "🙂", "\ufeffbom"),
    *("\u202eabc", "007", "1e5", "true", "2024-01-01", "//x", "<b>&amp;</b>", "]]>", "</script>"),
    *("%s", "{0}", "`a`", "\x1b[31m", "a" * 5000),
]


def _table(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream, dialect="excel"))[1:]


def _pyarrow(path: Path) -> list[list[str]]:
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    names = pyarrow.csv.read_csv(path, parse_options=parse).column_names
    types = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
    )
    return [
        list(row.values())
        for row in pyarrow.csv.read_csv(
            path, parse_options=parse, convert_options=types
        ).to_pylist()
    ]


def _duckdb(path: Path, options: str = "") -> list[list[str]]:
    rows = duckdb.sql(f"FROM read_csv('{path}', all_varchar = true{options})").fetchall()
    return [["" if cell is None else cell for cell in row] for row in rows]


READERS: dict[str, Callable[[Path], list[list[str]]]] = {
    "spreadsheet": _table,
    "pandas": lambda path: pd.read_csv(path, keep_default_na=False, dtype=str).to_numpy().tolist(),
    "polars": lambda path: [
        list(row) for row in pl.read_csv(path, infer_schema=False).fill_null("").rows()
    ],
    "pyarrow": _pyarrow,
    "DuckDB": _duckdb,
    "DuckDB told": lambda path: _duckdb(
        path, """, delim = ',', quote = '"', escape = '"', header = true"""
    ),
}


GROUP = 'the "place", by name'  # DuckDB reads no name of a column with a line end
Written = dict[str, Any]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Answers by the names of the files that they were written to, which lie in `folder`; all
    labels are in all of them.
    """
    folder, many = tmp_path_factory.mktemp("written"), len(HOSTILE)
    log = pa.table({"u": HOSTILE, "i": HOSTILE, GROUP: HOSTILE, "t": ["2024-05-01"] * many})
    asked: dict[str, Any] = {"user": "u", "item": "i", "domain": HOSTILE, "epsilon": 900.0}
    days = {"time": "t", "every": "day", "since": "2024-05-01", "until": "2024-05-02"}
    kept: dict[str, Any] = {"key": "k", "dataset": "days", "state": folder / "state"}
    groups: dict[str, Any] = {"group": GROUP, "groups": HOSTILE, "delta": 1e-6}
    with warnings.catch_warnings(), acc.Ledger.open(f"sqlite:///{folder}/p.db") as ledger:
        warnings.simplefilter("ignore")
        ledger.create_dataset("days", acc.Budget(epsilon=9000, delta=0.1), "add_remove")
        made = {
            "items.csv": partial(dps.topk, k=many, with_counts=True),
            "groups.csv": partial(dps.topk, k=1, **groups),
            "horizon.csv": partial(
                dps.continual.run, k=many, **days, **kept, ledger=ledger, delta=1e-6
            ),
        }
        return {
            **{name: ask(log, **asked, output=folder / name) for name, ask in made.items()},
            "folder": folder,
        }


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["items.csv", "groups.csv", "horizon.csv"])
def test_a_table_is_read_back_to_the_letter(written: Written, name: str, reader: str) -> None:
    """By a spreadsheet's rules, pandas, polars, pyarrow and DuckDB, which finds by itself how
    fields are parted.
    """
    held, rows = written[name].columns(), READERS[reader](written["folder"] / name)
    assert [len(row) for row in rows] == [len(held)] * len(HOSTILE)
    for place, (column, cells) in enumerate(held.items()):
        if column in ("item", GROUP):
            assert [row[place] for row in rows] == list(cells)
            # which item of a group is found depends on the noise
            if column == GROUP or name != "groups.csv":
                assert sorted(row[place] for row in rows) == sorted(HOSTILE)


def test_a_safe_table_has_the_same_rows(written: Written) -> None:
    """What a spreadsheet would calculate with gets its apostrophe, also in the name of a column,
    and no row is cut.
    """
    answer = written["groups.csv"]
    safe = list(csv.reader(io.StringIO(TABLES[".csv"](answer, defused=True).decode(), newline="")))[
        1:
    ]
    assert len(safe) == len(HOSTILE)
    assert [row[0].replace("'", "") for row in safe] == [
        group.replace("'", "") for group in answer.columns()[GROUP]
    ]
    assert not any(
        row[place][:1] in ("=", "+", "-", "@", "\t", "\r", "\n") for row in safe for place in (0, 2)
    )


def test_answers_as_json_are_read_back(written: Written) -> None:
    """To the letter, by whoever reads JSON; and on one line for each value, whatever a label
    holds.
    """
    held = json.loads((written["folder"] / "items.csv.json").read_text())
    assert sorted(held["selection"]["labels"]) == sorted(HOSTILE)
    assert duckdb.sql(
        f"SELECT len(selection.labels) FROM read_json('{written['folder']}/items.csv.json')"
    ).fetchall() == [(58,)]


class _Cells(HTMLParser):
    """The text of the cells of a page's tables, a list for each row that has some."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[Any]) -> None:
        if tag == "tr":
            self.rows.append([])
        if starts := tag == "td" or ("scope", "row") in attrs:
            self.rows[-1].append("")
        self._inside = self._inside or starts

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data


def test_pages_hold_one_row_for_each_item(written: Written) -> None:
    """In a notebook and of a horizon: as printed, with the codes of what a terminal or a browser
    would obey.
    """
    shown = sorted(printable(label).strip() for label in HOSTILE)
    horizon = written["horizon.csv"]
    pages = (
        (written["items.csv"]._repr_html_(), 4),
        (horizon._repr_html_(), 2),
        (horizon.to_html(), 4),
    )
    for page, columns in pages:
        cells = _Cells()
        cells.feed(page)
        rows = [
            found
            for row in cells.rows
            if len(row) == columns and (found := {cell.strip() for cell in row} & set(shown))
        ]
        assert set().union(*rows) == set(shown)
        assert len(rows) == len(HOSTILE)


def test_text_for_people_holds_one_line_for_each_item(written: Written) -> None:
    """Long labels go on in lines without a rank; no character of a label ends a line or is obeyed
    by a terminal.
    """
    text = plain(written["items.csv"].sections())
    assert [int(rank) for rank in re.findall(r"^ +(\d+)  ", text, re.MULTILINE)] == list(
        range(1, len(HOSTILE) + 1)
    )
    assert all(printable(label).strip() in text for label in HOSTILE if len(label) < 50)
    horizon = written["horizon.csv"]
    for shown in (
        text,
        repr(written["items.csv"]),
        repr(horizon),
        plain(horizon.sections()),
    ):
        assert set(re.findall(r"[^\S ]|[^\S\n]|\x1b", shown)) <= {"\n", " "}


def test_labels_of_votes_are_read_back(tmp_path: Path) -> None:
    """CSV, JSON lines and arrays of a labeling job; a single label is text, and no list of one."""
    votes = np.eye(len(HOSTILE), dtype=int) * 900
    # numpy drops what it pads with
    names = [label for label in HOSTILE if not label.endswith("\0")]
    votes = votes[: len(names), : len(names)]
    np.savez(tmp_path / "votes.npz", votes=votes, teachers=900, names=np.array(names))
    for suffix in ("csv", "jsonl"):
        pate.label(
            tmp_path / "votes.npz", output=tmp_path / f"o.{suffix}", mechanism="gnmax", sigma=1.0
        )
    for reader in READERS.values():
        assert [row[2] for row in reader(tmp_path / "o.csv")] == names
    lines = (tmp_path / "o.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["labels"] for line in lines] == names


def test_a_label_that_no_file_can_hold_is_refused_before_the_release() -> None:
    """Half of a character, which Python's text may hold."""
    log = pa.table({"u": ["ann"], "i": ["zoo"]})
    with pytest.raises(EventLogError, match=r"domain holds '\\ud800'.*Correct the label"):
        dps.topk(log, user="u", item="i", domain=["zoo", "\ud800"], k=1, epsilon=1.0)


def test_plain_text_is_not_quoted() -> None:
    """Numbers and labels that no reader takes for anything else stay as they are; what is missing
    is empty, and no text is.
    """
    rows = [("item", "users"), ("zoo", 1.5), ("Café 7 (new)", 10), ("", None), (None, True)]
    assert "".join(csv_records(rows)) == 'item,users\nzoo,1.5\nCafé 7 (new),10\n"",\n,True\n'
