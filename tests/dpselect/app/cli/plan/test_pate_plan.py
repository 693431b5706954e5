"""`dpselect plan --pate`."""

from __future__ import annotations

import json

import pytest
from shell import dpselect

import accounting as acc
from dpselect import pate

BUDGET = "--epsilon 6 --delta 1e-6"
ASKED = f"plan --pate --teachers 40 --labels 6 --votes-per-item 1 --agreement 0.8 {BUDGET}"
KINDS = {"gnmax", "confident", "binary", "tau", "top", "stable"}


@pytest.mark.slow
def test_pate_plan_recommends_the_best_mechanism_family() -> None:
    """And its noise spends the budget; the text says what the noise does, the risk and the command
    that follows.
    """
    told = json.loads(dpselect(ASKED, "--releases 40 --json").stdout)
    ranked, best = told["ranked"], told["recommended"]
    assert told["rounds"] == best["rounds"] == 40
    assert [row["f1"] for row in ranked] == sorted((row["f1"] for row in ranked), reverse=True)
    assert {row["mechanism"] for row in ranked} == KINDS
    assert best == ranked[0]
    assert (told["constant"]["f1"] < best["f1"], told["works"]) == (True, True)
    mechanism = pate.fitted("gnmax", acc.Budget(epsilon=6.0, delta=1e-6), rounds=40, labels=6)
    gnmax = next(row for row in ranked if row["mechanism"] == "gnmax")
    assert gnmax["settings"]["sigma"] == pytest.approx(mechanism.sigma, rel=1e-9)  # type: ignore[attr-defined]
    text = " ".join(dpselect(ASKED, "--releases 40").stdout.split())
    for words in (
        "rounds x 40 teachers x 6 labels: ",
        "a unanimous label is released with probability",
        "Suppose an attacker",
        "dpselect pate votes.npz --output labels.csv --mechanism",
    ):
        assert words in text
