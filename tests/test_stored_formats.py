"""What a version promises: the same configuration costs the same, hides the same, and is stored in the same form.

`python tests/test_stored_formats.py` records this version's; it belongs into the commit that raises the version.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "recorded.json"
OF_A_KIND = 2  # law cases of each kind of mechanism
DELTA = 1e-6
THRESHOLDS = ("threshold", "bar", "value_scale")


def _mechanisms() -> dict[str, Any]:
    """The first law cases of each kind of mechanism, by their stored form."""
    from cases import CASES

    found: dict[str, list[Any]] = {}
    for case in CASES:
        found.setdefault(case.mechanism.kind, []).append(case.mechanism)
    return {each.to_json(): each for of_a_kind in found.values() for each in of_a_kind[:OF_A_KIND]}


def _figures(mechanism: Any) -> dict[str, float]:
    """The price of one draw, as epsilon and at two orders; its failure; and what decides whether an item is shown."""
    curve = mechanism.curve
    order_2, order_8 = curve.rdp([2.0, 8.0])
    figures = {"failure": curve.delta0, "epsilon": curve.epsilon(curve.delta0 + DELTA), "order 2": order_2, "order 8": order_8}
    for name in THRESHOLDS:
        if isinstance(value := getattr(mechanism, name, None), float):
            figures[name] = value
    return {name: float(value) for name, value in figures.items()}


def _formats() -> dict[str, Any]:
    """The numbers of stored schemas, and the fields of what is chained in a ledger."""
    from accounting.ledger.model import ENTRY_FIELDS
    from accounting.ledger.store import SCHEMA_VERSION
    from dpselect.continual import state

    return {"ledger": SCHEMA_VERSION, "entry": sorted(ENTRY_FIELDS), "horizon": state._SCHEMA}


def _recorded() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(RECORD.read_text())
    return record


def test_the_record_is_of_this_version() -> None:
    """A new version records its figures anew."""
    import dpselect

    assert _recorded()["version"] == dpselect.__version__, "python tests/test_stored_formats.py"


@pytest.mark.parametrize("stored", sorted(_recorded()["mechanisms"]) if RECORD.exists() else [])
def test_what_is_stored_loads_and_costs_the_same(stored: str) -> None:
    """A stored mechanism of this version loads, and its price, failure and thresholds are those that were recorded."""
    from dpselect import Mechanism

    assert _figures(Mechanism.from_json(stored)) == pytest.approx(_recorded()["mechanisms"][stored], rel=1e-9, abs=0)


def test_every_kind_is_recorded() -> None:
    """No kind of mechanism is added, and none changes its stored form, without a record."""
    assert set(_mechanisms()) == set(_recorded()["mechanisms"])


def test_stored_formats_are_those_of_the_version() -> None:
    """Schemas of ledgers and horizons, and the fields that are chained, change with the version only."""
    assert _formats() == _recorded()["formats"]


def _record() -> None:
    import dpselect

    figures = {stored: _figures(mechanism) for stored, mechanism in sorted(_mechanisms().items())}
    record = {"version": dpselect.__version__, "formats": _formats(), "mechanisms": figures}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests" / "laws"), str(ROOT / "tests" / "support")]
    _record()
