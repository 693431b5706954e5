"""Parquet: the file says what its columns are."""

from __future__ import annotations

from pathlib import Path

from dpselect.errors import EventLogError
from dpselect.events.columns import Asked, by_name
from dpselect.events.engine import Engine
from dpselect.events.rows import Rows, described, located, quoted, selected

# Two short identifiers written as text: what makes `Rows.size` comparable with the size of a CSV file.
BYTES_PER_ROW = 20
_MAGIC = b"PAR1"


def rows(engine: Engine, path: Path, asked: Asked, *, what: str) -> Rows:
    """The user and item columns of a Parquet file.

    Raises:
        EventLogError: not Parquet, damaged, or a column is not there or of another type than integer or text.
    """
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise EventLogError(f"{what} is not a Parquet file: say what it is with format=")
    relation = f"read_parquet({located(path)}, hive_partitioning = false, filename = false)"
    names = [column[0] for column in engine.run(f"DESCRIBE SELECT * FROM {relation}", what=what)]
    user, item = (names[found] for found in by_name(asked, names, what))
    types = engine.run(f"DESCRIBE SELECT {quoted(user)}, {quoted(item)} FROM {relation}", what=what)
    kinds = described(types, (asked.user, asked.item), what)
    count = engine.run(f"SELECT sum(num_rows) FROM parquet_file_metadata({located(path)})", what=what)[0][0]
    sql = selected(relation, user, item, kinds)
    return Rows(sql=sql, size=int(count) * BYTES_PER_ROW, what=what, kinds=kinds)
