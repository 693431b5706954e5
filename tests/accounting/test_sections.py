"""A result is shown from one list of sections, in a terminal and in a notebook."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import accounting as acc
from accounting.sections import Section, as_html, write

HOSTILE = "<b>\x1b[31m"
SECTIONS = [
    Section(
        f"Top {HOSTILE}",
        facts=[("budget", HOSTILE), ("epsilon", 0.1234567)],
        heads=("item", "users", "wide"),
        rows=[("zoo", 1313.65625, None), ("pier", 7, 1e-7)],
        left=("item",),
        narrow=("item", "users"),
    ),
    Section(lines=["words", "  a command"], notes=[("Warning", HOSTILE)]),
]


def printed(width: int) -> str:
    written = io.StringIO()
    write(SECTIONS, Console(file=written, width=width, highlight=False, no_color=True))
    return "".join(f"{line.rstrip()}\n" for line in written.getvalue().splitlines())


def test_a_terminal_shows_facts_tables_lines_and_notes() -> None:
    """Numbers are rounded, nothing is obeyed, and a narrow terminal has fewer columns."""
    assert printed(100) == (
        "Top <b>\\x1b[31m\n"
        "  budget   <b>\\x1b[31m\n"
        "  epsilon  0.123457\n"
        "  item     users\n"
        "  zoo   1,313.66\n"
        "  pier         7\n"
        "\n"
        "words\n"
        "  a command\n"
        "Warning: <b>\\x1b[31m\n"
    )
    assert "1e-7" in printed(140)


def test_a_notebook_shows_the_same_as_text() -> None:
    """Names and labels are text, tables have all columns, and of many rows the first 60."""
    html = as_html(SECTIONS)
    assert "<b>" not in html
    assert "\x1b" not in html
    for words in ("&lt;b&gt;\\x1b[31m", "0.123457", "1,313.66", "1e-7", "words", "a command"):
        assert f"<bdi>{words}" in html or f"<bdi>  {words}" in html
    assert html.count('class="number"') == 4
    many = as_html([Section(heads=("n",), rows=[(n,) for n in range(62)])])
    assert many.count("<tr>") == 61
    assert "and 2 more rows" in many


def test_results_have_a_short_repr_and_a_table(tmp_path: Path) -> None:
    """A budget, its remainder, all periods and a verification are shown in one to three lines."""
    budget = acc.Budget(epsilon=1.0)
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        ledger.create_dataset("days", budget, "add_remove", window="day")
        for day, epsilon in (("2024-01-01", 0.25), ("2024-01-02", 0.5)):
            curve = acc.PureDP(epsilon=epsilon)
            ledger.charge("days", curve, relation="add_remove", period=day)
        totals, verified = ledger.totals("days"), ledger.verify()
    problem = acc.ledger.Problem("days", 2, "chain", "the entry was edited")
    shown: list[tuple[Any, str]] = [
        (budget, "Budget(epsilon=1.0)"),
        (totals[0], "Remaining(budget: epsilon 1; used: 25%; cost as charged: epsilon 0.25; left:"),
        (totals, "Totals(2, fullest=Remaining(budget: epsilon 1; used: 50%"),
        (verified, "Verification: 2 entries checked: no problems"),
        (
            acc.ledger.Verification(1, 2, (problem,)),
            "Verification: 2 entries checked\ndays, entry 2: the entry was edited",
        ),
    ]
    for one, words in shown:
        assert repr(one).startswith(words)
        assert "dpselect-card" in one._repr_html_()
    assert totals._repr_html_().count("<tr>") == 3
    assert acc.remaining.Totals().fullest is None


@pytest.mark.parametrize("member", [acc.Budget, acc.Ledger, acc.Curve, acc.Accountant])
def test_public_results_are_shown_by_the_same_renderer(member: type) -> None:
    """None of them has HTML of its own."""
    assert member._repr_html_ is acc.sections.Sectioned._repr_html_  # type: ignore[attr-defined]
