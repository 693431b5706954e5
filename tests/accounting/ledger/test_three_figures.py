"""Every command that charges says the same three figures, and so does whoever reads the ledger: on
both stores.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from ledger_steps import Made
from typer.testing import CliRunner

import accounting as acc
from accounting.ledger import Ledger
from dpselect.app.cli import app

FIGURES = re.compile(
    r"budget: epsilon 9, delta 1e-5; (used: [^;]*; cost as charged: .*?); "
    r"left: ([\d,]+) more releases? like (?:this|the last) one"
)
CURVE = acc.GaussianDP(mu=0.2)
CHARGES = {
    "topk": "topk log.csv --user u --item i --k 1 --epsilon 1 --delta 1e-6",
    "continual": "continual start --state s --k 1 --periods 2 --epsilon 1 --delta 1e-6",
    "pate": (
        "pate votes.npz --output o.jsonl --split identifier --mechanism gnmax --sigma 40 --json"
    ),
    "charge": f"ledger charge --relation add_remove --curve '{CURVE.to_json()}'",
}


def _said(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.mark.fast(1)
@pytest.mark.parametrize("command", CHARGES)
def test_the_three_figures_are_the_same_wherever_they_stand(
    url: str, made_on_either: Made, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a command says after its charge is what the ledger, `ledger show` and the report say, in
    the same words.
    """
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(
        "u,i\n" + "".join(f"{user},{item}\n" for user in range(400) for item in "ab")
    )
    np.savez("votes.npz", votes=np.eye(3, dtype=np.uint8)[np.zeros((2, 900), dtype=int)])
    ledger = made_on_either(acc.Budget(epsilon=9.0, delta=1e-5), "d")
    ledger.charge("d", CURVE, relation="add_remove")  # whatever was charged before, by whoever
    spent = " --ledger", url, "--dataset", "d", "--key", "k"
    said = _said(*shlex.split(CHARGES[command]), *(word.strip() for word in spent))
    (so_far, left), *again = set(FIGURES.findall(said))
    assert again == []
    opening = next(entry for entry in ledger.latest("d") if entry.action in ("charge", "reserve"))
    curve = acc.Curve.from_json(opening.curve or "")
    found = ledger.affordable("d", curve, relation="add_remove")
    assert (
        str(found)
        == f"budget: epsilon 9, delta 1e-5; {so_far}; left: {left} more releases like this one"
    )
    assert found.as_charged == ledger.total("d").as_charged
    shown = _said("ledger", "show", "--ledger", url)
    assert f"budget: epsilon 9, delta 1e-5 {so_far}; left:" in shown
    if opening.count == 1:
        assert f"left: {left} more releases like the last one" in shown
    asked = _said(
        "ledger", "affordable", "--ledger", url, "--dataset", "d", "--curve", curve.to_json()
    )
    assert (
        f"budget: epsilon 9, delta 1e-5 {so_far.replace(';', '')} left: {left} more releases like"
        " this one" in asked
    )
    _said("ledger", "report", "--ledger", url, "--output", "r.html")
    page = re.sub(r"<[^>]*>|\s+", " ", Path("r.html").read_text()).replace("\xa0", " ")
    assert so_far.rpartition(": ")[2] in re.sub(" +", " ", page)


def test_affordable_counts_external_events_and_dp_sgd(url: str, tmp_path: Path) -> None:
    """`ledger affordable` of a curve, an event and DP-SGD counts what charges then fit."""
    event, steps = (
        tmp_path / "e.json",
        ("--noise-multiplier", "2", "--sampling-rate", "0.01", "--steps", "100"),
    )
    event.write_text(json.dumps({"event": "Gaussian", "noise_multiplier": 5}))
    with Ledger.open(url) as ledger:
        ledger.create_dataset("d", acc.Budget(epsilon=1.0, delta=1e-6), "add_remove")
        start = ("ledger", "affordable", "--ledger", url, "--dataset", "d")
        by_event = json.loads(_said(*start, "--event", str(event), "--json"))
        assert by_event["one_by_one"] == ledger.affordable("d", CURVE).releases
        sgd = json.loads(_said(*start, *steps, "--json"))["one_by_one"]
        assert sgd > 1
        _said("ledger", "charge", "--ledger", url, "--dataset", "d", *steps)
        charged = acc.Curve.from_json(ledger.latest("d")[0].curve or "")
        ledger.charge_all("d", [(charged, {"relation": "add_remove"})] * (sgd - 1))
        assert json.loads(_said(*start, *steps, "--json"))["one_by_one"] == 0
