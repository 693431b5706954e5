"""A log whose winner is beyond doubt, and the ways to run a command on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from shell import dpselect
from typer.testing import Result

# 'hit' has 613 users, 'fair' 419 and 'rare' 1: with 613 users in all and every pair twice there are
# 2066 rows.
COUNTS = {"hit": 613, "fair": 419, "rare": 1}
Run = Callable[..., Result]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A CSV log with columns person, shop and note."""
    path = tmp_path / "log.csv"
    rows = (f"u{user},{item},x\n" * 2 for item, count in COUNTS.items() for user in range(count))
    path.write_text("person,shop,note\n" + "".join(rows))
    return path


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """A public catalog of four shops, one of which nobody touched."""
    path = tmp_path / "shops.csv"
    path.write_text("shop,town\nhit,A\nfair,B\nrare,A\nnever,C\n")
    return path


@pytest.fixture
def ask(log: Path) -> Run:
    """Run `dpselect topk` on the log with these further arguments."""

    def invoke(*arguments: object) -> Result:
        return dpselect("topk", log, "--user person --item shop", *arguments)

    return invoke
