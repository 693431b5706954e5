"""Triggers that make the tables append-only. They stop accidents and careless hands; an owner of the store can drop them."""

from __future__ import annotations

from collections.abc import Iterator

_ENTRIES, _DATASETS, _TOTALS = "dpledger_entries", "dpledger_datasets", "dpledger_totals"
_FIXED = ("id", "name", "declaration", "genesis")
_MESSAGE = "the ledger is append-only"
_REFUSE = (
    "CREATE FUNCTION dpledger_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_MESSAGE}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
)


def statements(dialect: str) -> Iterator[str]:
    """DDL for the append-only rules on "sqlite" or "postgresql"."""
    return _sqlite() if dialect == "sqlite" else _postgresql()


def no_deletion(dialect: str, table: str) -> Iterator[str]:
    """DDL for one more table whose rows change and stay."""
    if dialect == "sqlite":
        yield _sqlite_trigger(f"{table}_no_delete", f"DELETE ON {table}")
        return
    yield _postgresql_trigger(f"{table}_no_delete", f"DELETE ON {table}", "ROW")
    yield _postgresql_trigger(f"{table}_no_truncate", f"TRUNCATE ON {table}", "STATEMENT")


def append_only(dialect: str, table: str) -> Iterator[str]:
    """DDL for one table of a database of its own, whose rows never change."""
    if dialect == "sqlite":
        yield _sqlite_trigger(f"{table}_no_update", f"UPDATE ON {table}")
    else:
        yield _REFUSE.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
        yield _postgresql_trigger(f"{table}_no_update", f"UPDATE ON {table}", "ROW")
    yield from no_deletion(dialect, table)


def _sqlite() -> Iterator[str]:
    for table in (_ENTRIES, _DATASETS, _TOTALS):
        yield _sqlite_trigger(f"{table}_no_delete", f"DELETE ON {table}")
    yield _sqlite_trigger(f"{_ENTRIES}_no_update", f"UPDATE ON {_ENTRIES}")
    yield _sqlite_trigger(f"{_DATASETS}_no_update", f"UPDATE OF {', '.join(_FIXED)} ON {_DATASETS}")


def _sqlite_trigger(name: str, when: str) -> str:
    return f"CREATE TRIGGER {name} BEFORE {when} BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END"


def _postgresql() -> Iterator[str]:
    yield _REFUSE
    for table in (_ENTRIES, _DATASETS, _TOTALS):
        yield _postgresql_trigger(f"{table}_no_delete", f"DELETE ON {table}", "ROW")
        yield _postgresql_trigger(f"{table}_no_truncate", f"TRUNCATE ON {table}", "STATEMENT")
    yield _postgresql_trigger(f"{_ENTRIES}_no_update", f"UPDATE ON {_ENTRIES}", "ROW")
    yield _postgresql_trigger(f"{_DATASETS}_no_update", f"UPDATE OF {', '.join(_FIXED)} ON {_DATASETS}", "ROW")


def _postgresql_trigger(name: str, when: str, each: str) -> str:
    return f"CREATE TRIGGER {name} BEFORE {when} FOR EACH {each} EXECUTE FUNCTION dpledger_refuse()"
