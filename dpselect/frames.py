"""A selection as columns, and these as an Arrow table: what pandas, Polars and files are made from."""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from accounting import MissingExtra
from dpselect.errors import InvalidRequest

Label = int | str
Columns = dict[str, tuple[Any, ...]]


def columns(
    items: tuple[Label, ...],
    values: tuple[float, ...] | None,
    groups: tuple[Label, ...] | None,
    margin: float | None,
    *,
    ranked: bool,
) -> Columns:
    """Columns of one row per item, in their order; None where nothing was released.

    Raises:
        InvalidRequest: the margin is not a finite number > 0, or there are no values for it.
    """
    nothing: tuple[Any, ...] = (None,) * len(items)
    ends = {"low": nothing, "high": nothing}
    if margin is not None:
        half = _checked(margin, values)
        ends = {"low": tuple(value - half for value in values or ()), "high": tuple(value + half for value in values or ())}
    return {
        **({} if groups is None else {"group": groups}),
        "rank": _ranks(groups or nothing) if ranked else nothing,
        "item": items,
        "value": nothing if values is None else values,
        **ends,
    }


def table(held: Columns) -> Any:
    """A pyarrow Table of these columns.

    Raises:
        MissingExtra: pyarrow is not installed.
        InvalidRequest: items are integers and text, of which two would be written alike.
    """
    arrow = needed("pyarrow", "arrow")
    types = {"rank": arrow.int64()} | dict.fromkeys(("value", "low", "high"), arrow.float64())
    return arrow.table(
        [arrow.array(cells, types[name]) if name in types else _named(arrow, cells, name) for name, cells in held.items()],
        names=list(held),
    )


def needed(module: str, extra: str) -> Any:
    """A library, or the error that names the extra that brings it.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(f"this table needs {module}: install it with pip install 'dpselect[{extra}]'") from None


def _checked(margin: object, values: object) -> float:
    if not isinstance(margin, int | float) or isinstance(margin, bool) or not 0 < margin < math.inf:
        raise InvalidRequest(f"margin={margin!r} must be a finite number > 0, score units: WithValues.margin() gives one")
    if values is None:
        raise InvalidRequest("margin is of values, and this selection has none: release them, with WithValues for example")
    return float(margin)


def _ranks(groups: Sequence[object]) -> tuple[int, ...]:
    seen, ranks = Counter[object](), list[int]()
    for group in groups:
        seen[group] += 1
        ranks.append(seen[group])
    return tuple(ranks)


def _named(arrow: Any, names: tuple[Label, ...], what: str) -> Any:
    """Labels as integers if all are, and as text otherwise."""
    fitting: Mapping[Any, tuple[int, int]] = {arrow.int64(): (-(2**63), 2**63), arrow.uint64(): (0, 2**64)}
    if names and all(isinstance(name, int) for name in names):
        for kind, (low, high) in fitting.items():
            if all(low <= int(name) < high for name in names):
                return arrow.array(names, kind)
    texts = [str(name) for name in names]
    if len(set(texts)) < len(set(names)):
        raise InvalidRequest(f"{what} holds an integer and a text that are written alike: a table holds one type, use to_json")
    return arrow.array(texts, arrow.string())
