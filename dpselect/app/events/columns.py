"""`require_columns`, a check of a log that reads none of its rows."""

from __future__ import annotations

from dataclasses import replace

from dpselect.app.events import spark
from dpselect.app.events.engine import opened
from dpselect.app.events.reading import Reading
from dpselect.app.events.rows import rows, shaped


def require_columns(source: object, reading: Reading) -> None:
    """Check the public part of a log: the options and the source's existence, header or schema.

    No row is read. The check looks at the header of CSV and TSV (without unpacking more), at the
    footer of Parquet, at a table's columns and types, and at a database's description of its table
    or query. JSON lines, standard input and delimited text without a header have their columns in
    their rows, so the check only opens them. A stream that can be read only once is not checked.

    Raises:
        EventLogError: a release of this log would be refused for what is public, as by `read`.
    """
    given = replace(reading.given(source), unread=True)
    if spark.accepts(source):
        spark.require_columns(given)
        return
    with opened(reading.memory_limit) as engine:
        shaped(rows(engine, given), given)
