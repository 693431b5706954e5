"""Rules between rows, as queries that find what breaks them: (dataset name, entry number)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, and_, exists, or_, select

from accounting.ledger.chain import Kind
from accounting.ledger.tables import datasets, entries, fingerprints

_other = entries.alias("other")


def cross_checks() -> Iterator[tuple[Select[Any], Kind, str]]:
    """Each rule's query, the kind of problem, and what to say."""
    yield _beyond_head(), "head", "the entry lies beyond the head that the dataset states: it was added by hand"
    yield _undeclared(), "missing", "the entry belongs to no declared dataset"
    yield _unopened(), "state", "the commit, release or void follows no charge that allows it"
    yield _void_and_used(), "state", "the void follows a commit: data were read, and the charge cannot be taken back"
    yield _void_unequal(), "price", "the void takes back another amount than was reserved"
    yield _unclaimed(), "rows", "the entry's fingerprint is not claimed by its dataset: the fingerprints were edited"


def _found(source: FromClause = entries) -> Select[Any]:
    return select(datasets.c.name, entries.c.seq).select_from(source.outerjoin(datasets, datasets.c.id == entries.c.dataset_id))


def _same_key() -> ColumnElement[bool]:
    return and_(_other.c.dataset_id == entries.c.dataset_id, _other.c.key == entries.c.key, _other.c.period == entries.c.period)


def _beyond_head() -> Select[Any]:
    return _found().where(entries.c.seq > datasets.c.seq)


def _undeclared() -> Select[Any]:
    return _found().where(datasets.c.id.is_(None))


def _opened(by: tuple[str, ...]) -> ColumnElement[bool]:
    return exists(select(_other.c.seq).where(_same_key(), _other.c.action.in_(by), _other.c.seq < entries.c.seq))


def _unopened() -> Select[Any]:
    return _found().where(
        or_(
            and_(entries.c.action.in_(("commit", "void")), ~_opened(("reserve",))),
            and_(entries.c.action == "release", ~_opened(("charge", "commit"))),
        )
    )


def _void_and_used() -> Select[Any]:
    used = exists(select(_other.c.seq).where(_same_key(), _other.c.action.in_(("charge", "commit"))))
    return _found().where(entries.c.action == "void", used)


def _void_unequal() -> Select[Any]:
    reserved = and_(_same_key(), _other.c.action == "reserve")
    unequal = or_(entries.c.main != -_other.c.main, entries.c.failure != -_other.c.failure)
    return _found(entries.join(_other, reserved)).where(entries.c.action == "void", unequal)


def _unclaimed() -> Select[Any]:
    claim = and_(fingerprints.c.fingerprint == entries.c.fingerprint, fingerprints.c.dataset_id == entries.c.dataset_id)
    return _found().where(entries.c.fingerprint.is_not(None), ~exists(select(fingerprints.c.fingerprint).where(claim)))
