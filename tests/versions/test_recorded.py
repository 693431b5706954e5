"""What a version of the package promises: prices, thresholds and stored formats as they were
recorded for it.

`pytest tests/versions --golden` writes the record of this version anew, as long as nobody has
published it (`published` in the record). Afterwards a change needs a new version in pyproject.toml,
which has a record of its own.
"""

from __future__ import annotations

import io
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from cases import CASES
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable
from test_curves import CURVES

import accounting as acc
import dpselect as dps
from accounting.ledger import Ledger
from accounting.ledger.store import metadata

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
RECORD = Path(__file__).parent / f"{VERSION}.json"
DELTA = 1e-6


# The first law case of every kind.
MECHANISMS = {case.mechanism.kind: case.mechanism for case in reversed(CASES)}
PRICED = {curve.kind: curve for curve in reversed(CURVES)}


def prices() -> dict[str, float]:
    """Epsilon, at DELTA or twice what fails, of a curve and of a mechanism of every kind, by their
    JSON.
    """
    priced = {curve.to_json(): curve for curve in PRICED.values()}
    priced |= {mechanism.to_json(): mechanism.curve for mechanism in MECHANISMS.values()}
    return {text: curve.epsilon(max(DELTA, 2 * curve.delta0)) for text, curve in priced.items()}


def thresholds() -> dict[str, float]:
    """Of mechanisms whose threshold follows from what they promise, by their JSON."""
    found = {
        mechanism.to_json(): getattr(mechanism, "threshold", None)
        for mechanism in MECHANISMS.values()
    }
    return {text: level for text, level in found.items() if isinstance(level, float)}


def formats() -> dict[str, Any]:
    """The ledger's tables, the fields of an export's lines, and those of curves and mechanisms,
    with what they default to.
    """
    kinds = {**acc.curves.base.CURVES.members(), **dps.mechanisms.base.members()}
    return {
        "ledger": {
            table.name: str(CreateTable(table).compile(dialect=sqlite.dialect()))
            for table in metadata.sorted_tables
        },
        "export": [sorted(_fields(line)) for line in _exported()],
        "kinds": {
            kind: sorted(member.model_json_schema(mode="serialization")["properties"])
            for kind, member in kinds.items()
        },
    }


def _fields(value: Any, at: str = "") -> Iterator[str]:
    for name, inside in value.items():
        yield f"{at}{name}"
        if isinstance(inside, dict):
            yield from _fields(inside, f"{at}{name}.")


def _exported() -> list[dict[str, Any]]:
    with TemporaryDirectory() as folder, Ledger.open(f"sqlite:///{folder}/privacy.db") as ledger:
        ledger.create_dataset("log", acc.Budget(epsilon=1.0, delta=1e-6), "add_remove")
        ledger.charge("log", acc.PureDP(epsilon=0.1), relation="add_remove", key="first")
        written = io.StringIO()
        ledger.export(written)
    return [json.loads(line) for line in written.getvalue().splitlines()]


@pytest.fixture
def recorded(pytestconfig: pytest.Config) -> dict[str, Any]:
    """The record of this version; with --golden it is written first."""
    if pytestconfig.getoption("golden"):
        assert not RECORD.exists() or not json.loads(RECORD.read_text())["published"], (
            "raise the version: this one is published"
        )
        now = {
            "published": False,
            "prices": prices(),
            "thresholds": thresholds(),
            "formats": formats(),
        }
        RECORD.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
    assert RECORD.exists(), f"version {VERSION} has no record: pytest tests/versions --golden"
    return dict(json.loads(RECORD.read_text()))


NEW = (
    "what a version promises does not change: raise the version in pyproject.toml, say so in the"
    " changelog, and record it"
)


@pytest.mark.slow
def test_prices_and_thresholds_are_those_of_this_version(recorded: dict[str, Any]) -> None:
    """No price and no threshold moves by a millionth without a new version, nor is one that was
    recorded no longer read.
    """
    for text, found in recorded["prices"].items():
        kinds = acc.curves.base.CURVES.members()
        read = (
            acc.Curve.from_json(text)
            if json.loads(text)["kind"] in kinds
            else dps.Mechanism.from_json(text).curve
        )
        assert read.epsilon(max(DELTA, 2 * read.delta0)) == pytest.approx(found, rel=1e-6), (
            NEW,
            text,
        )
    for text, level in recorded["thresholds"].items():
        assert dps.Mechanism.from_json(text).threshold == pytest.approx(level, rel=1e-6), (
            NEW,
            text,
        )  # type: ignore[attr-defined]


def test_stored_formats_are_those_of_this_version(recorded: dict[str, Any]) -> None:
    """What a ledger, an export, a curve and a mechanism are stored as; new kinds may come, and
    those there are stay.
    """
    now, then = formats(), recorded["formats"]
    assert now["ledger"] == then["ledger"], NEW
    assert now["export"] == then["export"], NEW
    assert {kind: now["kinds"].get(kind) for kind in then["kinds"]} == then["kinds"], NEW
