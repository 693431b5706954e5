"""Somebody with write access to a ledger's store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine

from accounting.ledger.store import parse_url


@contextmanager
def intruder(url: str) -> Iterator[Connection]:
    """A connection with the triggers dropped, as an owner of the store can."""
    engine = create_engine(parse_url(url))
    with engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            names = (
                connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'")
                .scalars()
                .all()
            )
            for name in names:
                connection.exec_driver_sql(f"DROP TRIGGER {name}")
        else:
            connection.exec_driver_sql("DROP FUNCTION dpledger_refuse() CASCADE")
        yield connection
    engine.dispose()
