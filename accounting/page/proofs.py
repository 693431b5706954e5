"""Which theorem a price rests on: from the kinds in an entry's JSON to statements, their titles and where they stand."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from accounting.curves.base import CURVES
from accounting.errors import AccountingError
from accounting.ledger.stored_text import read_json
from accounting.page.templates import asset

Proofs = Mapping[str, tuple[str, ...]]
"""Names of theorems, C8 for example, by the kind of a mechanism or curve."""

_CITED = re.compile(r"Theorems? ((?:[A-Z]\d+(?:, and |, | and )?)+)")
_NAME = re.compile(r"[A-Z]\d+")
_MOST = 6


class _Place(NamedTuple):
    title: str
    page: str
    statement: str


class Theorem(NamedTuple):
    """A cited statement: its name, and title, page below `docs` and words (two of each where two pages use the name)."""

    name: str
    places: list[_Place]


@cache
def curve_proofs() -> Proofs:
    """What every kind of curve cites."""
    return {kind: cited_by(member) for kind, member in CURVES.members().items()}


def cited_by(member: type) -> tuple[str, ...]:
    """The theorems that a docstring cites, in order."""
    text = " ".join((inspect.getdoc(member) or "").split())
    return tuple(dict.fromkeys(name for found in _CITED.findall(text) for name in _NAME.findall(found)))


def theorems_of(texts: Iterable[str | None], proofs: Proofs) -> list[str]:
    """What the JSON of a mechanism and its curve rests on, the mechanism's own theorems first; none where no kind is known."""
    found = [name for text in texts if text for kind in _kinds(text) for name in proofs.get(kind, ())]
    return list(dict.fromkeys(found))[:_MOST]


@cache
def _kinds(text: str) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(_walk(read_json(text))))
    except AccountingError:
        return ()


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("kind"), str):
            yield value["kind"]
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from _walk(part)


def stated(names: Iterable[str]) -> list[Theorem]:
    """The theorems of these names, in alphabetical order."""
    known = _known()
    ordered = sorted(set(names), key=lambda name: (name[0], int(name[1:])))
    return [Theorem(name, known.get(name, [])) for name in ordered]


@cache
def _known() -> dict[str, list[_Place]]:
    found = json.loads(asset("accounting.page", "theorems.json"))
    return {name: [_Place(*place) for place in places] for name, places in found.items()}
