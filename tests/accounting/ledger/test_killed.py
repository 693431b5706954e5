"""`kill -9` anywhere between reserve and release: the ledger opens, verifies, and every release has its charge."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import accounting as acc
from accounting.ledger import Ledger

ROOT = Path(__file__).resolve().parents[3]


def killed(url: str, outbox: Path, kills: int, mode: str) -> None:
    """Run the killing script, and check what the last child left behind."""
    with Ledger.open(url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1000.0), "add_remove")
    script = Path(__file__).with_name("killed.py")
    command = [sys.executable, str(script), url, str(outbox), str(kills), mode]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(number) for number in range(kills)]


def check(url: str, outbox: Path) -> int:
    """Every key in the outbox is charged and on record as released. Returns how many there are."""
    keys = outbox.read_text().split()
    with Ledger.open(url, create=False) as ledger:
        assert ledger.verify().ok
        for key in keys:
            receipt = ledger.find("clicks", key)
            assert receipt is not None
            assert receipt.state == "released"
        released = sum(entry.action == "release" for entry in ledger.entries("clicks"))
        charged = sum(entry.main for entry in ledger.entries("clicks"))
    assert charged >= released * 10**9
    assert released >= len(keys) == len(set(keys))
    return len(keys)


def test_killed_two_hundred_times_at_random(tmp_path: Path) -> None:
    """200 releasing processes killed after a random time: no release without a charge, no ledger that does not open."""
    url, outbox = f"sqlite:///{tmp_path / 'privacy.db'}", tmp_path / "outbox"
    killed(url, outbox, 200, "random")
    assert check(url, outbox) > 0


def test_killed_at_every_step(tmp_path: Path) -> None:
    """A process killed at its n-th statement or commit, for every n of two whole releases of either kind."""
    url, outbox = f"sqlite:///{tmp_path / 'privacy.db'}", tmp_path / "outbox"
    killed(url, outbox, 240, "steps")
    assert check(url, outbox) > 0


def test_killed_on_postgresql(postgres_url: str, tmp_path: Path) -> None:
    """The same on PostgreSQL, where the server ends a dead client's transaction."""
    killed(postgres_url, tmp_path / "outbox", 60, "random")
    assert check(postgres_url, tmp_path / "outbox") > 0
