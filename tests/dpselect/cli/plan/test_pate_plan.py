"""`dpselect plan --pate`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import accounting as acc
from dpselect import pate

Run = Callable[..., Result]
ASKED = (
    "plan",
    "--pate",
    "--teachers",
    40,
    "--labels",
    6,
    "--votes-per-item",
    1,
    "--agreement",
    0.8,
    "--epsilon",
    6,
    "--delta",
    1e-6,
)


def test_a_plan_in_numbers(run: Run) -> None:
    """What is recommended is the best of all families; its noise spends the budget; what is predicted is about what is drawn."""
    result = run(*ASKED, "--releases", 40, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    told = json.loads(result.stdout)
    best = told["recommended"]
    assert told["rounds"] == best["rounds"] == 40
    assert [row["f1"] for row in told["ranked"]] == sorted((row["f1"] for row in told["ranked"]), reverse=True)
    assert {row["mechanism"] for row in told["ranked"]} == {"gnmax", "confident", "binary", "tau", "stable"}
    assert best == told["ranked"][0]
    assert best["f1"] == pytest.approx(told["drawn_f1"], abs=0.06)  # of 150 seeded rounds or more
    mechanism = pate.fitted("gnmax", acc.Budget(epsilon=6.0, delta=1e-6), rounds=40, labels=6)
    gnmax = next(row for row in told["ranked"] if row["mechanism"] == "gnmax")
    assert gnmax["settings"]["sigma"] == mechanism.sigma  # type: ignore[attr-defined]


def test_text_and_page_say_the_same(run: Run, tmp_path: Path) -> None:
    """Two lines of what the noise does, F1 by rounds, the command that follows; and a page that needs no script."""
    result = run(*ASKED, "--html", tmp_path / "plan.html")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    found = re.search(r"([\d,]+) rounds x 40 teachers x 6 labels: (\w+)", text)
    assert found is not None
    page = (tmp_path / "plan.html").read_text()
    assert found[0] in page
    assert "a unanimous label is released with probability" in text
    assert "a unanimous label is released with probability" in page
    assert "dpselect pate votes.npz --output labels.csv --mechanism" in text
    assert page.count('<svg class="chart"') == 2
    assert "<script" not in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "--pate", "--epsilon", 1, "--delta", 1e-6), "plan --pate needs --teachers, --labels"),
        ((*ASKED, "--k", 3), "takes no --k"),
        ((*ASKED, "--users", 3), "takes no --users"),
        (("plan", "--teachers", 3, "--k", 2), "belong to plan --pate"),
        ((*ASKED[:-2],), "delta"),
        ((*ASKED, "--agreement", 1.5), "--agreement=1.5"),
        ((*ASKED, "--votes-per-item", 9), "--votes-per-item=9"),
    ],
)
def test_what_is_missing_or_foreign_is_named(run: Run, arguments: tuple[object, ...], words: str) -> None:
    """Every refusal is one line with the option in it, and status 2."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


def test_an_ensemble_that_is_too_small_is_said_to_be(run: Run) -> None:
    """Fifty teachers, a hundred labels and ten thousand rounds: the text says that it does not work."""
    model = ("--teachers", 50, "--labels", 60, "--votes-per-item", 3, "--agreement", 0.7)
    result = run("plan", "--pate", *model, "--releases", 10_000, "--epsilon", 8, "--delta", 1e-6)
    assert result.exit_code == 0
    assert "This does not work" in " ".join(result.stdout.split())
