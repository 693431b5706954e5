"""Parquet at an address: s3, gs, r2, https and http, by DuckDB's extension `httpfs` where it is installed.

The columns asked for are fetched once, to a file of the reading: what lies there may change between two looks at it. Credentials
are DuckDB's own persistent secrets. An address is taken literally, as the name of a file is.
"""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import urlsplit

from accounting.address import masked
from dpselect.errors import EventLogError
from dpselect.events.engine import Engine
from dpselect.events.sources.base import Given, by_path, literal, quoted

_SCHEMES = re.compile(r"(s3|s3a|s3n|gs|gcs|r2|https?)://", re.IGNORECASE)
_WITHOUT = (
    "addresses that begin with {0}:// are read by DuckDB's extension httpfs, which is not installed here: install it once, with "
    "duckdb.sql('INSTALL httpfs') in Python, or save the log to a file"
)


def is_remote(source: object) -> bool:
    """An address of a file that is fetched."""
    return isinstance(source, str) and _SCHEMES.match(source) is not None


def fetched(engine: Engine, given: Given) -> Given:
    """The same question about a Parquet file of the reading, with the columns asked for."""
    address, scheme = str(given.source), urlsplit(str(given.source)).scheme
    if given.format not in ("auto", "parquet"):
        raise EventLogError(f"format={given.format!r} is for files, and only Parquet is fetched: save the log to a file first")
    given.require_no_text("parquet")
    if not engine.loaded("httpfs"):
        raise EventLogError(_WITHOUT.format(scheme))
    what = f"parquet file {masked(address.partition('?')[0])}"  # what follows may be a signature
    # Of an address of the web a question mark begins its query; elsewhere it would be a pattern.
    exact = address if scheme.lower() in ("http", "https") else re.sub(r"[*?\[]", r"[\g<0>]", address)
    relation = f"read_parquet({literal(exact)}, hive_partitioning = false, filename = false)"
    names = _names(engine, relation, what)
    places = {place for place, _ in by_path(given.asked, names, what).values()}
    # Positions stay what they are: what is not asked for is a column of nothing.
    columns = (quoted(name) if place in places else f"NULL AS {quoted(name)}" for place, name in enumerate(names))
    target = engine.unused("fetched.parquet")
    engine.run(f"COPY (SELECT {', '.join(columns)} FROM {relation}) TO {literal(str(target))} (FORMAT parquet)", what=what)
    return replace(given, source=str(target), name=what)


def _names(engine: Engine, relation: str, what: str) -> list[str]:
    """The names of the columns, by the first look at the file."""
    try:
        return [str(row[0]) for row in engine.run(f"DESCRIBE SELECT * FROM {relation}", what=what)]
    except EventLogError:
        failure = f"{what} cannot be fetched: check the address, the permissions, DuckDB's secrets, and that it is Parquet"
    raise EventLogError(failure)
