"""`kill -9` anywhere between reserve and release: the ledger opens, verifies, and every release has
its charge.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from processes import forked_script

import accounting as acc
from accounting.ledger import Ledger, Quota

pytestmark = pytest.mark.serial


def killed(url: str, outbox: Path, kills: int, mode: str) -> Counter[int]:
    """Run the killing script. Returns how many children died after so many releases."""
    with Ledger.open(url) as ledger:
        ledger.create_dataset(
            "clicks", acc.Budget(epsilon=1000.0, delta=1e-3, order="inf"), "add_remove"
        )
        ledger.quotas("clicks").declare(
            Quota(name="each", limit=acc.Budget(epsilon=500.0, delta=1e-3, order="inf"), by="actor")
        )
    gained = [
        int(line)
        for line in forked_script(
            Path(__file__).with_name("killed.py"), url, outbox, kills, mode
        ).split()
    ]
    assert len(gained) == kills
    return Counter(gained)


def check(url: str, outbox: Path) -> Counter[str]:
    """Every key in the outbox is charged and on record as released. Returns how many keys ended in
    which state.
    """
    keys = outbox.read_text().split()
    with Ledger.open(url, create=False) as ledger:
        assert ledger.verify().ok
        for key in keys:
            receipt = ledger.find("clicks", key)
            assert receipt is not None
            assert receipt.state == "released"
        entries = list(ledger.entries("clicks"))
        charged = sum(entry.main for entry in entries)
    settled = [entry for entry in entries if entry.curve and entry.action == "release"]
    full = {entry.key: entry.main for entry in entries if entry.action == "reserve"}
    # One pick in place of three, or of two where the item beat the threshold: what was not recorded
    # stays whole.
    assert all(full[entry.key] + entry.main in (10**9, 2 * 10**9) for entry in settled)
    assert settled
    last = Counter({entry.key: entry.action for entry in entries}.values())
    assert charged >= last["release"] * 10**9
    assert last["release"] >= len(keys) == len(set(keys)) > 0
    return last


@pytest.mark.slow
def test_killed_at_random(folder: Path) -> None:
    """Killed in the first, second or third release: no release without a charge, no ledger that
    does not open. Kills at each statement are those below; about 24 of these 60 fall between two.
    """
    url, outbox = f"sqlite:///{folder / 'privacy.db'}", folder / "outbox"
    gained = killed(url, outbox, 60, "random")
    # each was let go on for 0, 1 or 2 lines before it was killed
    assert sum(gained.elements()) >= 54
    last = check(url, outbox)
    assert last["reserve"] + last["charge"] + last["commit"] >= 1, (
        "no release was interrupted, about 4 in 10 are"
    )


@pytest.mark.slow
def test_killed_at_every_step(folder: Path) -> None:
    """A process killed at its n-th statement or commit, for every n of a whole release of each
    kind.
    """
    url, outbox = f"sqlite:///{folder / 'privacy.db'}", folder / "outbox"
    # 64 of each kind; a release takes 29 to 60 statements
    gained = killed(url, outbox, 192, "steps")
    assert min(gained[0], gained[1]) >= 40
    last = check(url, outbox)
    assert min(last[action] for action in ("charge", "commit", "release")) >= 10, last


def test_killed_on_postgresql(postgres_url: str, tmp_path: Path) -> None:
    """The same on PostgreSQL, where the server ends a dead client's transaction."""
    gained = killed(postgres_url, tmp_path / "outbox", 20, "random")
    assert sum(gained.elements()) >= 18
    check(postgres_url, tmp_path / "outbox")
