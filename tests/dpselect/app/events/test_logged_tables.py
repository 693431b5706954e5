"""Files of a table with a log also hold what the log has deleted: they are refused, however they
are named.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_oracle import counted, refused

from dpselect.app.events.sources.logged_tables import LOGGED, LoggedTable, folders_of
from dpselect.errors import EventLogError

EVENTS = pa.table({"u": ["ann", "bob"], "i": ["zoo", "zoo"]})
MARKS = {
    "Delta": "_delta_log/00000000000000000000.json",
    "Iceberg": "metadata/v1.metadata.json",
    "Hudi": ".hoodie/hoodie.properties",
    "Paimon": "snapshot/snapshot-1",
    "Spark streaming": "_spark_metadata/0",
}


def table(folder: Path, kind: LoggedTable, part: str = "country=DE") -> Path:
    """A folder with a file of a table and what lies beside it."""
    mark = folder / MARKS[kind.name]
    for each in (mark.parent, folder / part):
        each.mkdir(parents=True, exist_ok=True)
    mark.write_text("{}")
    pq.write_table(EVENTS, folder / part / "part-0.parquet")
    return folder


WAYS: dict[str, Callable[[Path], Any]] = {
    "the folder": lambda folder: folder,
    "its name": lambda folder: f"{folder}/",
    "the folder above": lambda folder: folder.parent,
    "a part": lambda folder: folder / "country=DE",
    "a pattern": lambda folder: f"{folder}/*/*.parquet",
    "a pattern of folders": lambda folder: f"{folder.parent}/**/*.parquet",
    "a file": lambda folder: folder / "country=DE" / "part-0.parquet",
    "files": lambda folder: [folder / "country=DE" / "part-0.parquet"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", LOGGED, ids=lambda kind: kind.name)
def test_files_of_a_table_with_a_log_are_refused(
    tmp_path: Path, kind: LoggedTable, way: str
) -> None:
    """The message names the folder, the format and what reads it, and no value in the name of a
    folder.
    """
    source = WAYS[way](table(tmp_path / "lake" / "visits", kind))
    with pytest.raises(
        EventLogError, match=rf"/visits' is an? {kind.name} table.*{re.escape(kind.readers)}"
    ) as caught:
        counted(source)
    assert "DE" not in str(caught.value).split("table", 1)[0]


def test_links_and_relative_names_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to a file or a folder of the table, and a name below the folder that one works in."""
    folder = table(tmp_path / "visits", LOGGED[0])
    (tmp_path / "link.parquet").symlink_to(folder / "country=DE" / "part-0.parquet")
    (tmp_path / "linked").symlink_to(folder / "country=DE")
    monkeypatch.chdir(folder / "country=DE")
    for source in (
        tmp_path / "link.parquet",
        tmp_path / "linked",
        "part-0.parquet",
        ".",
        "*.parquet",
    ):
        refused(source, "is a Delta table")


def test_values_in_names_of_folders_are_not_shown(tmp_path: Path) -> None:
    """They are data, also in the name of the table's own folder."""
    refused(table(tmp_path / "who=ann", LOGGED[0], "part"), r"who=\.\.\.' is a Delta table")


def test_a_folder_of_a_table_without_files_is_refused(tmp_path: Path) -> None:
    """Also with another format stated: what lies there is no log."""
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "a.csv").write_text("u,i\nann,zoo\n")
    for said in ({}, {"format": "csv"}):
        refused(tmp_path, "is a Delta table", **said)


def test_files_of_a_ducklake_are_known_by_their_names(tmp_path: Path) -> None:
    """Its log is a database, which may lie anywhere."""
    file = tmp_path / "ducklake-0197e0a1-58f4-7a1d-a3f0-2c1b1c2d3e4f.parquet"
    pq.write_table(EVENTS, file)
    for source in (file, tmp_path, f"{tmp_path}/*.parquet"):
        refused(source, "is a DuckLake table")


def test_folder_resembling_a_logged_table_is_read(tmp_path: Path) -> None:
    """Other folders of these names, and a log in a folder beside."""
    for name in (
        "metadata/readme.json",
        "snapshot/list",
        "delta_log/0.json",
        "beside/_delta_log/0.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("{}")
    pq.write_table(EVENTS, tmp_path / "part.parquet")
    assert counted(tmp_path) == counted(tmp_path / "part.parquet") == {"zoo": 2}


def test_folders_of_an_address() -> None:
    """They are all above it, to the bucket, the root or the folder that one works in."""
    assert list(folders_of("s3://bucket/a/b/c.parquet")) == [
        "s3://bucket/a/b",
        "s3://bucket/a",
        "s3://bucket",
    ]
    assert list(folders_of("a/b.parquet")) == ["a", "."]
    assert list(folders_of("/a/b.parquet")) == ["/a", ""]
    assert list(folders_of("file:/a/b")) == ["file:/a", "file:"]
