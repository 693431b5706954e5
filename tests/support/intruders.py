"""Somebody with write access to a ledger's store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

from sqlalchemy import Connection, create_engine, delete

from accounting.ledger.book import Sums
from accounting.ledger.model import Openings
from accounting.ledger.store import all_datasets, blocks, checked_url, sums


@contextmanager
def intruder(url: str) -> Iterator[Connection]:
    """A connection with the triggers dropped, as an owner of the store can."""
    engine = create_engine(checked_url(url))
    with engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            names = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").scalars().all()
            for name in names:
                connection.exec_driver_sql(f"DROP TRIGGER {name}")
        else:
            connection.exec_driver_sql("DROP FUNCTION dpledger_refuse() CASCADE")
        yield connection
    engine.dispose()


def resum(connection: Connection) -> None:
    """Make the sums that reports show agree with the entries, as a careful forger would."""
    connection.execute(delete(sums))
    for declared in all_datasets(connection):
        made, opened = Sums(), Openings()
        for entry in chain.from_iterable(blocks(connection, declared)):
            made.add(entry, opened.of(entry))
        made.write(connection, declared.id)
