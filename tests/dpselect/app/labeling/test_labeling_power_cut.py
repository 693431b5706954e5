"""The power is cut after each request of a labeling job to the disk: labels are paid for, and a
release says where they lie.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from power_cut import Disk, cuts, recorded, recovered

import accounting as acc
from accounting import Ledger

_ROUNDS, _BATCH = 6, 3


@pytest.mark.slow
def test_power_cut_leaves_no_uncharged_labels_on_disk(tmp_path: Path) -> None:
    """At every cut: labels of a batch only after its charge, its release only after its labels, the
    end only after all.
    """
    folder, after = tmp_path / "job", tmp_path / "after"
    folder.mkdir()
    votes = np.random.default_rng(8).multinomial(40, [0.4, 0.3, 0.3], size=_ROUNDS)
    np.savez(tmp_path / "votes.npz", votes=votes, teachers=40)
    with Ledger.open(url := f"sqlite:///{folder / 'l.db'}") as ledger:
        ledger.create_dataset("teachers", acc.Budget(rho=10.0), "replace_one")
    mechanism = ("--mechanism", "gnmax", "--sigma", 7, "--batch-size", _BATCH)
    paid_by = (
        "--ledger",
        url,
        "--dataset",
        "teachers",
        "--key",
        "job",
        "--output",
        folder / "labels.jsonl",
    )
    disk = Disk.of(folder)
    requests = recorded(
        folder, "-m", "dpselect", "pate", tmp_path / "votes.npz", *mechanism, *paid_by
    )
    # A batch's labels under their name, or as the draft that gets it when the job goes on.
    final = {
        f"{path.relative_to(folder)}{end}": path.read_bytes()
        for path in folder.rglob("batch-*")
        for end in ("", ".new")
    }
    moments, found = set(), dict[str, tuple[set[int], set[int]]]()
    known = dict[frozenset[tuple[str, bytes]], tuple[set[int], set[int]]]()
    for cut in cuts(disk, folder, requests):
        if (
            stored := frozenset(
                (name, content) for name, content in cut.held.items() if name.startswith("l.db")
            )
        ) not in known:
            cut.lay(after)
            held = recovered(after / "l.db")
            if held not in found:
                found[held] = _batches(after / "l.db")
            known[stored] = found[held]
        charged, released = known[stored]
        drawn = {
            name: content for name, content in cut.held.items() if "batch-" in name and content
        }
        begun, whole = (
            {_batch(name) for name in names}
            for names in (drawn, [name for name in drawn if drawn[name] == final[name]])
        )
        assert begun <= charged
        assert released <= whole
        if lines := cut.held.get("labels.jsonl", b"").splitlines():
            assert len(lines) == _ROUNDS
            assert len(whole) == _ROUNDS // _BATCH
        done = "Labeled" in cut.said
        assert lines or not done
        moments.add((len(charged), len(whole), len(released), done))
    assert {(0, 0, 0, False), (1, 1, 1, False), (2, 2, 2, True)} <= moments
    with Ledger.open(url) as ledger:
        assert ledger.verify().ok


def _batches(path: Path) -> tuple[set[int], set[int]]:
    """The batches that a ledger has charged and released; that it is whole after every cut is a law
    of its own room.
    """
    with Ledger.open(f"sqlite:///{path}") as ledger:
        steps = [
            (int(str(entry.key).split("/")[1]), entry.action)
            for entry in ledger.entries("teachers")
        ]
    return tuple(
        {batch for batch, action in steps if action == wanted} for wanted in ("charge", "release")
    )  # type: ignore[return-value]


def _batch(name: str) -> int:
    return int(Path(name).name.removeprefix("batch-").split(".")[0])
