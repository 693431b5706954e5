"""Parquet at an address is fetched once, by an extension of the engine that is installed; without it one sentence says so."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_oracle import counted

from dpselect.errors import EventLogError
from dpselect.events.engine import Engine
from dpselect.events.sources import formats


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of this machine at an address that the engine knows without an extension."""
    monkeypatch.setattr(formats, "_REMOTE", re.compile("file://"))
    monkeypatch.setattr(Engine, "loaded", lambda _engine, _name: True)
    columns = {"more": [[1], [2], [3]], "u": ["a", "b", "b"], "i": ["x", "x", "y"], "event": [{"id": 7}, {"id": 7}, {"id": 8}]}
    pq.write_table(pa.table(columns), tmp_path / "log[1].parquet")
    return f"file://{tmp_path}/log[1].parquet"


def test_an_address_is_read_as_the_file_is(address: str) -> None:
    """By names, positions and fields within; several of them as several files, with which they may be mixed."""
    assert counted(address) == {"x": 2, "y": 1}
    assert counted(address, user=2, item=3) == {"x": 2, "y": 1}
    assert counted(address, item="event.id") == {7: 2, 8: 1}
    assert counted([address, address.removeprefix("file://")]) == {"x": 2, "y": 1}


def test_columns_are_those_of_the_file(address: str) -> None:
    """One that is not there is refused with the names of those that are."""
    with pytest.raises(EventLogError, match=r"user='who' is not a column .* 'more', 'u', 'i', 'event'"):
        counted(address, user="who")


@pytest.mark.parametrize("scheme", ["s3", "gs", "gcs", "r2", "https", "http"])
def test_without_the_extension_one_sentence_says_what_to_do(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed on the way, and what an address holds is not shown."""
    monkeypatch.setattr(Engine, "loaded", lambda _engine, _name: False)
    source = f"{scheme}://ann:SECRET@bucket/log.parquet?signature=SECRET"
    for one in (source, [source]):
        with pytest.raises(EventLogError, match=r"INSTALL httpfs.*or save the log to a file") as caught:
            counted(one)
        assert "SECRET" not in str(caught.value)


def test_what_cannot_be_fetched_is_no_damaged_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its signature is not shown."""
    monkeypatch.setattr(Engine, "loaded", lambda _engine, _name: True)
    with pytest.raises(EventLogError) as caught:
        counted("s3://bucket/log.parquet?signature=SECRET")
    assert "SECRET" not in str(caught.value)
    assert "cannot be fetched" in str(caught.value)


def test_only_parquet_is_fetched(address: str) -> None:
    """Another format is refused by its name."""
    with pytest.raises(EventLogError, match=r"format='csv' .* only Parquet is fetched"):
        counted(address, format="csv")
