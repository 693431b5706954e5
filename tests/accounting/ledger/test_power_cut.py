"""The power is cut after each request to the disk: what was said to be charged is charged, what was
shown is kept.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from power_cut import Disk, cuts, recorded, recovered

import accounting as acc
from accounting.ledger import Ledger


def ledger_in(folder: Path) -> str:
    """The URL of a new ledger with a dataset and a charge, in a folder of its own."""
    folder.mkdir()
    url = f"sqlite:///{folder / 'privacy.db'}"
    with Ledger.open(url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=10.0, delta=1e-4), "add_remove")
    return url


def steps(database: Path, key: str, verified: dict[str, list[str]]) -> list[str]:
    """What such a ledger, which opens, holds of a key. What it holds in all is verified once."""
    with Ledger.open(f"sqlite:///{database}") as ledger:
        held = recovered(database)
        if held not in verified:
            assert ledger.verify().ok
            verified[held] = [
                entry.action for entry in ledger.entries("clicks") if entry.key == key
            ]
    return verified[held]


@pytest.mark.slow
def test_power_cut_leaves_no_uncharged_answer_on_disk(tmp_path: Path) -> None:
    """`topk --output`: at every cut the ledger opens and verifies; no byte of an answer lies on the
    disk before its charge, none is on record as released before all of it lies there, and none is
    shown before it lies there under its name.
    """
    folder, after, log = tmp_path / "ledger", tmp_path / "after", tmp_path / "visits.csv"
    url = ledger_in(folder)
    log.write_text("user,item\n" + "".join(f"u{user},i{user % 7}\n" for user in range(500)))
    question = (
        log,
        "--user",
        "user",
        "--item",
        "item",
        "--k",
        2,
        "--epsilon",
        0.5,
        "--delta",
        1e-6,
    )
    answer = (
        "--ledger",
        url,
        "--dataset",
        "clicks",
        "--key",
        "release",
        "--output",
        folder / "answer.csv",
    )
    disk = Disk.of(folder)
    requests = recorded(folder, "-m", "dpselect", "topk", *question, *answer)
    kept, shown, verified = 0, 0, dict[str, list[str]]()
    known = dict[frozenset[tuple[str, bytes]], list[str]]()
    final = {name: (folder / name).read_bytes() for name in ("answer.csv", "answer.csv.json")}
    for cut in cuts(disk, folder, requests):
        drawn = {
            name: content
            for name, content in cut.held.items()
            if not name.startswith("privacy.db") and content
        }
        if (stored := frozenset(cut.held.items() - drawn.items())) not in known:
            cut.lay(after)
            known[stored] = steps(after / "privacy.db", "release", verified)
        paid = known[stored]
        assert paid or not drawn
        if "release" in paid:
            assert final["answer.csv.json"] in drawn.values()
        if cut.said:
            assert paid == ["charge", "release"]
            assert {name: drawn.get(name) for name in final} == final
        kept, shown = kept + bool(drawn), shown + bool(cut.said)
    assert kept
    assert shown
