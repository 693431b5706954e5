"""`dpselect plan --quick`: what `topk` would choose by itself, from a few numbers of users."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import accounting as acc
import dpselect as dps
from dpselect.cli import app
from dpselect.plan import default_choice
from dpselect.plan.asked import QuickPlan
from dpselect.plan.candidates import Candidates
from dpselect.plan.learn import Learning, Learnt
from dpselect.plan.profile import EXPONENTS, Profile
from dpselect.plan.request import TopKRequest

BUDGET = acc.Budget(epsilon=1.0, delta=1e-6)
ASKED = ("plan", "--quick", "--k", "50", "--epsilon", "1", "--delta", "1e-6")


def _told(*words: str) -> dict[str, Any]:
    found = CliRunner().invoke(app, [*ASKED, *words, "--json"])
    assert found.exit_code == 0, found.output
    told: dict[str, Any] = json.loads(found.stdout)
    return told


@pytest.mark.slow
@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize("items", [None, 3000])
def test_it_is_the_choice_of_the_default(items: int | None, *, order: bool) -> None:
    """The same mechanism, noise and reading as `default_choice`, and its forecast for each standard shape."""
    words = ["--unknown-domain"] if items is None else ["--items", str(items)]
    told = _told(*words, "--users", "5800", "--items-per-user", "5", *([] if order else ["--set"]))
    request = TopKRequest(k=50, candidates=items)
    chosen = default_choice(BUDGET, request, profile=Profile.typical(5800.0, 5.0), order=order)
    assert dps.Mechanism.from_json(json.dumps(told["mechanism"])) == chosen.mechanism
    assert chosen.profile is not None
    recalls = Candidates.of(BUDGET, request, order=order).recalls(chosen, chosen.profile)
    assert (told["clip"], told["again"], told["max_items_per_user"]) == (chosen.clip, chosen.again, chosen.max_items_per_user)
    assert told["recall"] == dict(zip(map(str, EXPONENTS), recalls, strict=True))
    assert BUDGET.admits(chosen.mechanism.curve)
    found = CliRunner().invoke(app, [*ASKED, *words, "--users", "5800"], env={"COLUMNS": "120"}).stdout
    assert "about 5,800 users with a median of 14 items (--items-per-user assumed)" in found
    assert "learns what is not declared first" in found


@pytest.mark.slow
def test_the_order_of_a_budget_is_kept() -> None:
    """What a budget fixes of its filter decides the default's choice, and that of its quick plan alike."""
    budget, request = acc.Budget(epsilon=1.0, delta=1e-6, order="inf"), TopKRequest(k=10, candidates=100, releases=30)
    found = dps.plan(budget, 10, 30, items=100, quick=True)
    assert isinstance(found, QuickPlan)
    assert found.choice.mechanism == default_choice(budget, request).mechanism
    assert found.choice.mechanism != default_choice(BUDGET, request).mechanism


@pytest.mark.slow
def test_learnt_numbers_take_the_place_of_declared_ones(tmp_path: Path) -> None:
    """Those of a ledger and of a file, and the ends of their intervals; beside declared numbers they are refused."""
    learnt = Learnt(Profile.of_quantiles(900.0, (1.0, 2.0, 3.0, 8.0, 20.0)), Learning(epsilon=0.03))
    url = f"sqlite:///{tmp_path / 'l.db'}"
    with acc.Ledger.open(url) as ledger:
        ledger.create_dataset("visits", BUDGET, "add_remove")
        ledger.charge("visits", learnt.learning.histogram, key="may")
        ledger.release("visits", "may", claim=learnt.claim("0" * 16))
    words = ("--unknown-domain", "--ledger", url, "--dataset", "visits")
    told = _told(*words, "--learned")
    assert (told["users"], told["median_items_per_user"]) == (900.0, 3.0)
    assert _told(*words, "--shape", "learned-low")["users"] < 900.0
    refused = CliRunner().invoke(app, [*ASKED, *words, "--learned", "--users", "9"])
    assert refused.exit_code != 0
    assert "leave --users" in refused.stderr
