"""`dpselect plan --pate`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

import accounting as acc
from dpselect import pate

Run = Callable[..., Result]
BUDGET = ("--epsilon", 6, "--delta", 1e-6)
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
    *BUDGET,
)


@pytest.mark.slow
def test_numbers_and_text_say_the_same(run: Run) -> None:
    """What is recommended is the best of all families, and its noise spends the budget; the text
    says what the noise does, the risk and the command that follows.
    """
    told = json.loads(run(*ASKED, "--releases", 40, "--json").stdout)
    best = told["recommended"]
    assert told["rounds"] == best["rounds"] == 40
    assert [row["f1"] for row in told["ranked"]] == sorted(
        (row["f1"] for row in told["ranked"]), reverse=True
    )
    assert {row["mechanism"] for row in told["ranked"]} == {
        "gnmax",
        "confident",
        "binary",
        "tau",
        "top",
        "stable",
    }
    assert best == told["ranked"][0]
    assert (told["constant"]["f1"] < best["f1"], told["works"]) == (True, True)
    mechanism = pate.fitted("gnmax", acc.Budget(epsilon=6.0, delta=1e-6), rounds=40, labels=6)
    gnmax = next(row for row in told["ranked"] if row["mechanism"] == "gnmax")
    assert gnmax["settings"]["sigma"] == pytest.approx(mechanism.sigma, rel=1e-9)  # type: ignore[attr-defined]
    text = " ".join(run(*ASKED).stdout.split())
    risk = "Suppose an attacker"
    for words in (
        r"[\d,]+ rounds x 40 teachers x 6 labels: \w+",
        "a unanimous label is released with probability",
        risk,
    ):
        assert re.search(words, text)
    assert "dpselect pate votes.npz --output labels.csv --mechanism" in text


@pytest.mark.slow
def test_a_plan_is_made_by_public_votes_and_their_truth(run: Run, tmp_path: Path) -> None:
    """Votes on public items stand in place of a model, and need their truth. What is forecast of
    them: pate/test_plan.py.
    """
    rng = np.random.default_rng(1)
    truth = rng.random((300, 8)) < 0.2
    # two kinds of items: no model of the plan's numbers
    easy = np.where(rng.random((300, 1, 1)) < 0.5, 0.9, 0.55)
    votes = rng.random((300, 40, 8)) < np.where(truth[:, None, :], easy, 0.5 * (1 - easy))
    np.savez(tmp_path / "votes.npz", votes=votes, truth=truth)
    asked = (
        "plan",
        "--pate",
        "--votes",
        tmp_path / "votes.npz",
        "--public-votes",
        "--epsilon",
        30,
        "--delta",
        1e-6,
    )
    asked += ("--releases", 300)
    told = json.loads(run(*asked, "--json").stdout)
    assert (told["votes"], told["model"]) == ("declared public", None)
    assert told["recommended"]["mechanism"] == "tau"
    result = run(*asked)
    assert "drawn on 300 rounds of votes declared public" in " ".join(result.stdout.split())
    np.savez(tmp_path / "bare.npz", votes=votes)
    refused = run(
        "plan",
        "--pate",
        "--votes",
        tmp_path / "bare.npz",
        "--public-votes",
        "--epsilon",
        30,
        "--delta",
        1e-6,
    )
    assert refused.exit_code == 2
    assert "truth" in refused.stderr


@pytest.mark.slow
def test_an_ensemble_that_is_too_small_is_said_to_be(run: Run) -> None:
    """Twenty teachers, a dozen labels and ten thousand rounds: the text says that it does not
    work.
    """
    model = ("--teachers", 20, "--labels", 12, "--votes-per-item", 3, "--agreement", 0.7)
    result = run("plan", "--pate", *model, "--releases", 10_000, "--epsilon", 8, "--delta", 1e-6)
    assert result.exit_code == 0
    assert "This does not work" in " ".join(result.stdout.split())
