"""Counts over a public catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.arguments import shown
from dpselect.errors import EventLogError
from dpselect.selection import Label

_DECIMAL = re.compile(r"0|-?[1-9]\d{0,19}", re.ASCII)


def named(catalogue: Sequence[Label] | NDArray[np.generic], *, integers: bool, what: str = "catalogue") -> list[Label]:
    """The labels of a catalogue of items, or of a list of groups, as it writes them and in their order.

    What is released is written as the public list has it, whatever was read: else its type would tell whether anything was.
    `integers` says that the log's type, not its values, is of integers.

    Raises:
        EventLogError: it is empty, names one twice, or one of them cannot be an item (or group) of this type.
    """
    names = _listed(catalogue, what)
    if integers:
        for name in names:
            _require_integer(name, what)
    require_distinct([str(name) for name in names], what)
    return names


def typed(names: Sequence[Label], *, integers: bool) -> list[Label]:
    """What such labels are in a log of integers or of text; what can be none in it is left out."""
    texts = map(str, names)
    return [int(text) for text in texts if _DECIMAL.fullmatch(text)] if integers else list(texts)


def joined(parts: tuple[object, ...]) -> str:
    """One label of several: a record of CSV, quoted where it has to be, so that no two are written alike."""
    return ",".join(_quoted(str(part)) for part in parts)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if not text or set(text) & set(',"\r\n') else text


def aligned(labels: Sequence[Label], sums: NDArray[Any], names: Sequence[Label]) -> NDArray[Any]:
    """(..., names) what (..., m) sums of items have for these names, 0 for one that is no item."""
    at = places(labels, names)
    found = np.zeros((*sums.shape[:-1], len(names)), dtype=sums.dtype)
    found[..., at >= 0] = sums[..., at[at >= 0]]
    return found


def places(labels: Sequence[Label], names: Sequence[Label]) -> NDArray[np.int64]:
    """(names,) where each stands among the labels, 7 and "7" being the same; -1 for one that is none."""
    place = {str(label): at for at, label in enumerate(labels)}
    return np.fromiter((place.get(str(name), -1) for name in names), dtype=np.int64, count=len(names))


def require_distinct(names: Sequence[Label], what: str) -> None:
    """Refuse a catalogue that names an item twice: it could be selected twice.

    Raises:
        EventLogError: with the first such label, which is public.
    """
    seen: set[Label] = set()
    for name in names:
        if name in seen:
            raise EventLogError(f"{what} names {name!r} more than once: every item must appear once; remove the repetitions")
        seen.add(name)


def _listed(catalogue: Sequence[Label] | NDArray[np.generic], what: str) -> list[Label]:
    if isinstance(catalogue, str):
        raise EventLogError(f"{what}={catalogue!r} is text, not labels: read a file of them with events.read_catalogue")
    given = catalogue.tolist() if isinstance(catalogue, np.ndarray) else catalogue
    if not isinstance(given, Iterable):
        raise EventLogError(f"{what} is one {type(given).__name__}: pass a list of labels")
    names = list(given)
    if not names:
        raise EventLogError(f"{what} is empty: it must name at least one; leave it out to use what is in the log")
    return [_plain(name, what) for name in names]


def _plain(name: object, what: str) -> Label:
    value = name.item() if isinstance(name, np.generic) else name
    if isinstance(value, tuple):
        return joined(tuple(_plain(part, what) for part in value))
    if type(value) not in (int, str):
        raise EventLogError(f"{what} holds {value!r}, a {type(value).__name__}: labels must be int or str")
    return value  # type: ignore[return-value]


def _require_integer(name: Label, what: str) -> None:
    if isinstance(name, str) and not _DECIMAL.fullmatch(name):
        raise EventLogError(
            f"{what} holds {name!r}, and those of this log are integers: write its labels as integers, without leading "
            "zeros or signs, or give the log's as text"
        )
    if not -(2**63) <= (number := int(name)) < 2**64:
        raise EventLogError(f"{what} holds {shown(number)}, and those of this log are integers of at most 64 bits")
