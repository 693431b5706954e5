"""Declare a dataset, once."""

from __future__ import annotations

import uuid
from typing import get_args

from sqlalchemy import Connection, insert, select

from accounting.errors import InvalidBudget, RelationMismatch
from accounting.ledger.errors import DatasetExists
from accounting.ledger.model import Dataset
from accounting.ledger.origin import Origin
from accounting.ledger.stored_text import checked_name, checked_text, optional_text
from accounting.ledger.tables import datasets, meta
from accounting.ledger.windows import checked_window
from accounting.relation import Relation
from accounting.spending.budget import Budget


def new_dataset(
    name: str, budget: Budget, relation: Relation, unit: str | None, window: str, data_period: str | None, by: Origin
) -> Dataset:
    """A checked declaration.

    Raises:
        InvalidBudget, RelationMismatch, InvalidEntry: a field is not what it should be.
    """
    if not isinstance(budget, Budget):
        raise InvalidBudget(f"budget must be an accounting.Budget, not {type(budget).__name__}")
    if relation not in get_args(Relation):
        raise RelationMismatch(f"relation={relation!r} must be one of {', '.join(get_args(Relation))}")
    rows = checked_window(window)
    default = "user" if rows == "whole" else f"user within one {rows}"
    return Dataset(
        name=checked_name("name", name),
        relation=relation,
        unit=checked_text("unit", default if unit is None else unit),
        budget=budget,
        window=rows,
        data_period=optional_text("data_period", data_period),
        actor=by.actor,
        host=by.host,
        at=by.at,
        package=by.package,
        uid=uuid.uuid4().hex,
    )


def declare(connection: Connection, dataset: Dataset) -> None:
    """Store a declaration.

    Raises:
        DatasetExists: the name is taken.
    """
    # Declarations take turns, so that the second of two is refused in words of ours.
    connection.execute(select(meta).with_for_update())
    if connection.execute(select(datasets.c.id).where(datasets.c.name == dataset.name)).first():
        raise DatasetExists(f"dataset={dataset.name!r} is already declared, and a declaration stays: choose another name")
    row = {"name": dataset.name, "declaration": dataset.declaration(), "genesis": dataset.genesis}
    connection.execute(insert(datasets).values(**row, seq=0, head=dataset.genesis))
