"""`require_columns`: what can be said of a log without reading a row of it."""

from __future__ import annotations

from dataclasses import replace

from dpselect.events import spark
from dpselect.events.engine import opened
from dpselect.events.reading import Reading
from dpselect.events.rows import rows, shaped


def require_columns(source: object, reading: Reading) -> None:
    """Refuse what a release refuses for what is public: options, a source that is not there, its
    header or declared schema.

    No row is read. Of CSV and TSV the header is looked at, unpacked no further; of Parquet the
    footer; of a table its columns and their types; a database describes its table or query. Of JSON
    lines, standard input and delimited text without a header, which have their columns in their
    rows, only that they can be opened; of a stream that can be read only once, nothing.

    Raises:
        EventLogError: as `read` does.
    """
    given = replace(reading.given(source), unread=True)
    if spark.accepts(source):
        spark.require_columns(given)
        return
    with opened(reading.memory_limit) as engine:
        shaped(rows(engine, given), given)
