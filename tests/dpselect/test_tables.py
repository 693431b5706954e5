"""A selection as a table: one set of columns, from which pandas, Polars and Arrow are made; and
cards for notebooks.
"""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import accounting as acc
import dpselect as dps

RANKED = dps.Selection(indices=(2, 0), ordered=True, labels=("zoo", "park"), values=(9.5, 7.25))
SET = dps.Selection(indices=(0, 2), ordered=False)
GROUPS = dps.Selection(ordered=True, labels=("zoo", "zoo", "pier"), groups=("B", "A", "B"))


def test_a_table_has_rank_item_value_and_interval() -> None:
    """One row for each item, in order; an interval is the value and the margin on both sides."""
    table, number = RANKED.to_arrow(margin=2.0), pa.float64()
    kinds = {"rank": pa.int64(), "item": pa.string(), "value": number, "low": number}
    assert table.schema.equals(pa.schema(kinds | {"high": number}))
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (1, "zoo", 9.5, 7.5, 11.5),
        (2, "park", 7.25, 5.25, 9.25),
    ]


def test_every_library_gets_the_same_table() -> None:
    """pandas and Polars hold what Arrow holds, cell by cell and name by name."""
    for selection in (
        RANKED,
        SET,
        GROUPS,
        dps.Selection(ordered=True, requested=3, complete=False, labels=()),
    ):
        table = selection.to_arrow()
        frame, rows = selection.to_pandas(), selection.to_polars()
        assert isinstance(frame, pd.DataFrame)
        assert isinstance(rows, pl.DataFrame)
        assert rows.to_arrow().to_pydict() == table.to_pydict()
        assert frame.astype(object).where(frame.notna(), None).to_dict("list") == table.to_pydict()


def test_unreleased_columns_are_null() -> None:
    """A set has no ranks, a selection without values neither values nor intervals, and positions
    stand for missing labels.

    Of groups the group comes first, and a rank is that within it.
    """
    assert list(GROUPS.columns())[:3] == ["group", "rank", "item"]
    assert GROUPS.columns()["rank"] == (1, 1, 2)
    assert SET.to_arrow().to_pydict() == {
        "rank": [None] * 2,
        "item": [0, 2],
        **{name: [None] * 2 for name in ("value", "low", "high")},
    }


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ((1, -(2**63)), pa.int64()),
        ((1, 2**64 - 1), pa.uint64()),
        ((-1, 2**64 - 1), pa.string()),
        (("1", "a"), pa.string()),
        ((1, "a"), pa.string()),
    ],
)
def test_items_keep_their_names(labels: tuple[int | str, ...], kind: Any) -> None:
    """Integers of 64 bits stay integers; what no integer column holds is text, and no two items
    become one.
    """
    items = dps.Selection(ordered=True, labels=labels).to_arrow()["item"]
    assert items.type == kind
    assert [str(item) for item in items.to_pylist()] == [str(label) for label in labels]
    with pytest.raises(dps.errors.InvalidRequest, match="to_json"):
        dps.Selection(ordered=True, labels=(7, "7")).to_arrow()


@pytest.mark.parametrize("margin", [0.0, -1.0, float("nan"), float("inf"), "wide", True])
def test_margin_must_be_a_positive_finite_number(margin: Any) -> None:
    """Anything else than a finite number above 0 is refused, and so is the margin of values that
    were not released.
    """
    with pytest.raises(dps.errors.InvalidRequest, match="margin"):
        RANKED.to_arrow(margin=margin)
    with pytest.raises(dps.errors.InvalidRequest, match="has none"):
        SET.to_arrow(margin=1.0)


@pytest.mark.parametrize(
    ("module", "method"),
    [("pyarrow", "to_arrow"), ("pandas", "to_pandas"), ("polars", "to_polars")],
)
def test_a_missing_library_is_named_with_its_extra(
    module: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        acc.errors.MissingExtra, match=rf"\.\[{module.replace('pyarrow', 'arrow')}\]"
    ):
        getattr(RANKED, method)()


HOSTILE = "<script>alert(1)</script>"


def test_cards_escape_what_they_show(tmp_path: Any) -> None:
    """Every object's card is HTML in which names, labels and reasons are text."""
    half = acc.PureDP(epsilon=0.5)
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        ledger.create_dataset("visits <b>", acc.Budget(epsilon=2.0), "add_remove", window="month")
        ledger.charge("visits <b>", half, relation="add_remove", period="2024-01")
        told = {"labels": (HOSTILE,), "complete": False, "reason": HOSTILE}
        named = (dps.Selection(ordered=True, **told), acc.Accountant().compose(half, 3, HOSTILE))
        others = (acc.GaussianDP(mu=1.0) + half, ledger)
        cards = [one._repr_html_() for one in (*named, *others)]
    for card in cards:
        assert card.startswith('<div class="dpselect-card">')
        assert "<script" not in card
        assert "<b>" not in card
    escaped = HOSTILE.replace("<", "&lt;").replace(">", "&gt;")
    assert [escaped in card for card in cards] == [True, True, False, False]
    assert "25%" in cards[3]
    assert "2024-01" in cards[3]


def test_a_card_states_prices_rounded_up() -> None:
    """What a curve costs at usual deltas is on its card, never less than it is."""
    card = acc.GaussianDP(mu=1.0)._repr_html_()
    shown = float(card.split("\u2264 ")[-1].split("<")[0])
    true = acc.GaussianDP(mu=1.0).epsilon(1e-5)
    assert true <= shown <= 1.001 * true


def test_html_card_truncates_rows_and_explains_errors(tmp_path: Any) -> None:
    """Sixty rows, and how many more there are; of a ledger that cannot be read the reason."""
    card = dps.Selection(ordered=True, labels=tuple(range(1000)))._repr_html_()
    assert card.count("<tr>") == 61
    assert "940 more rows" in card
    path = tmp_path / "l.db"
    ledger = acc.Ledger.open(f"sqlite:///{path}")
    ledger.close()
    path.write_bytes(b"no database at all, but long enough to be looked at" * 40)
    assert "dpselect-card" in ledger._repr_html_()
