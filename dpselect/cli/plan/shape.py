"""A shape from the words of a command line or a file."""

from __future__ import annotations

import os
from pathlib import Path

from dpselect.cli.config import PlanTable
from dpselect.errors import InvalidRequest
from dpselect.planning import Shape

_KNOWN = "zipf:EXPONENT, uniform, or the name of a CSV file with public counts"


def shape(stated: PlanTable) -> Shape:
    """The shape that the words stand for.

    Raises:
        InvalidRequest: they stand for none, sizes are missing or do not belong there, or a file is not declared public.
    """
    if stated.shape is None:
        raise InvalidRequest(f"no shape is stated: give --shape, one of {_KNOWN}")
    kind, _, exponent = stated.shape.partition(":")
    if kind in ("zipf", "uniform"):
        return _made_up(stated, _exponent(stated.shape) if kind == "zipf" else _flat(exponent))
    if not os.access(stated.shape, os.F_OK) and (":" in stated.shape or Path(stated.shape).suffix == ""):
        raise InvalidRequest(f"--shape={stated.shape!r} is no shape: it must be {_KNOWN}")
    return _published(stated, Path(stated.shape))


def _made_up(stated: PlanTable, exponent: float) -> Shape:
    if stated.items is None or stated.users is None:
        raise InvalidRequest(f"--shape={stated.shape} needs --items and --users: how many there are, roughly")
    if stated.column is not None:
        raise InvalidRequest("--column is about a CSV file of counts: leave it out")
    return Shape.zipf(exponent, stated.items, stated.users, items_per_user=stated.items_per_user or 1.0)


def _published(stated: PlanTable, path: Path) -> Shape:
    for name in ("items", "users"):
        if getattr(stated, name) is not None:
            raise InvalidRequest(f"--{name.replace('_', '-')} does not go with a file of counts, which tells it: leave it out")
    return Shape.from_csv(path, stated.column, public=stated.declared_public, items_per_user=stated.items_per_user)


def _exponent(words: str) -> float:
    try:
        return float(words.partition(":")[2])
    except ValueError:
        raise InvalidRequest(f"--shape={words!r} is refused: after zipf: comes the exponent, zipf:1.1 for example") from None


def _flat(rest: str) -> float:
    if rest:
        raise InvalidRequest("--shape=uniform takes nothing after a colon")
    return 0.0
