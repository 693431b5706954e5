"""Many processes at once: the budget holds, and it is the ledger's transactions that hold it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from processes import fresh
from sqlalchemy import create_engine, func, select

import accounting as acc
from accounting.ledger import Ledger
from accounting.ledger.database import checked_url
from accounting.ledger.tables import entries

pytestmark = pytest.mark.serial
WORKERS, ATTEMPTS, CAP = 16, 40, 200


def race(url: str, mutant: str = "none", attempts: int = ATTEMPTS) -> Counter[str]:
    """Outcomes of all attempts, after declaring the dataset."""
    with Ledger.open(url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=CAP / 100), "add_remove")
    done = fresh(Path(__file__).with_name("race.py"), url, WORKERS, attempts, mutant)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len({line[0] for line in lines}) == len(lines) == WORKERS * attempts, "an attempt is missing from the report"
    return Counter(line[1] for line in lines)


def stored(url: str) -> int:
    """How many charges are in the store, counted without the ledger's help."""
    engine = create_engine(checked_url(url))
    with engine.connect() as connection:
        count = connection.execute(select(func.count()).select_from(entries)).scalar_one()
    engine.dispose()
    return int(count)


def test_sixteen_processes_spend_exactly_the_budget(url: str) -> None:
    """Of 640 attempts on a budget of 200, 200 are charged and 440 refused; none is lost, doubled or in error."""
    assert race(url) == {"charged": CAP, "refused": WORKERS * ATTEMPTS - CAP}
    with Ledger.open(url, create=False) as ledger:
        assert stored(url) == CAP
        assert ledger.total("clicks").remaining.main == 0
        assert ledger.verify().ok


def test_a_mutant_without_locks_overspends(url: str) -> None:
    """With SQLAlchemy's default transactions (SQLite), or without FOR UPDATE (PostgreSQL), the same race overspends."""
    race(url, "unlocked,unnumbered", 25)
    assert stored(url) > CAP


def test_numbers_stop_a_mutant_without_locks(url: str) -> None:
    """The second line of defence: where only the locks are missing, the primary key refuses the collisions."""
    outcomes = race(url, "unlocked", 25)
    assert outcomes["failed"] > 0
    assert stored(url) <= CAP
