"""Many processes at once: the budget holds, and it is the ledger's transactions that hold it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from ledger_steps import step
from processes import forked_script
from sqlalchemy import create_engine, func, select

import accounting as acc
from accounting.cost import Cost
from accounting.ledger import Ledger, LedgerUnavailable, Quota
from accounting.ledger.book import Book
from accounting.ledger.model import origin, utc_now
from accounting.ledger.store import entries, find_dataset, parse_url

pytestmark = pytest.mark.serial
WORKERS, ATTEMPTS, CAP = 16, 15, 100


def race(
    url: str, mutant: str = "none", attempts: int = ATTEMPTS, quota: Quota | None = None
) -> Counter[str]:
    """Outcomes of all attempts, after declaring the dataset."""
    with Ledger.open(url) as ledger:
        ledger.create_dataset(
            "clicks", acc.Budget(epsilon=CAP / 100 if quota is None else CAP), "add_remove"
        )
        if quota is not None:
            ledger.quotas("clicks").declare(quota)
    script = Path(__file__).with_name("race.py")
    lines = [
        line.split() for line in forked_script(script, url, WORKERS, attempts, mutant).splitlines()
    ]
    assert len({line[0] for line in lines}) == len(lines) == WORKERS * attempts, (
        "an attempt is missing from the report"
    )
    return Counter(line[1] for line in lines)


def stored(url: str) -> int:
    """How many charges are in the store, counted without the ledger's help."""
    engine = create_engine(parse_url(url))
    with engine.connect() as connection:
        count = connection.execute(select(func.count()).select_from(entries)).scalar_one()
    engine.dispose()
    return int(count)


@pytest.mark.slow
def test_sixteen_processes_spend_exactly_the_budget(url: str) -> None:
    """Of 240 attempts on a budget of 100, 100 are charged and 140 refused; none is lost, doubled or
    in error.
    """
    assert race(url) == {"charged": CAP, "refused": WORKERS * ATTEMPTS - CAP}
    with Ledger.open(url, create=False) as ledger:
        assert stored(url) == CAP
        assert ledger.total("clicks").main == 0
        assert ledger.verify().ok


@pytest.mark.slow
def test_sixteen_processes_spend_exactly_a_quota(url: str) -> None:
    """The same at a quota of 60, within a budget that is never reached."""
    quota = Quota(name="everybody", limit=acc.Budget(epsilon=0.6))
    assert race(url, attempts=8, quota=quota) == {"charged": 60, "refused": WORKERS * 8 - 60}
    with Ledger.open(url, create=False) as ledger:
        assert [left.spent for _, left in ledger.quotas("clicks").standing()] == [
            Cost(6 * 10**11, 0)
        ]
        assert ledger.verify().ok


def test_datasets_do_not_wait_for_each_other(postgres_url: str) -> None:
    """With a charge held open on one dataset, PostgreSQL charges another at once; one on the same
    dataset waits, and says so.
    """
    with Ledger.open(postgres_url) as ledger, Ledger.open(postgres_url, timeout=0.2) as hasty:
        for name in ("held", "free"):
            ledger.create_dataset(name, acc.Budget(epsilon=1.0), "add_remove")
            ledger.quotas(name).declare(
                Quota(name="each", limit=acc.Budget(epsilon=1.0), by="actor")
            )
        with ledger._store.writer() as connection:
            book = Book(connection, find_dataset(connection, "held", locked=True))
            book.append([step("charge", "open", "", Cost(1, 0))], origin(None, utc_now()))
            book.close()
            for number in range(20):
                hasty.charge(
                    "free",
                    acc.PureDP(epsilon=0.01),
                    relation="add_remove",
                    key=str(number),
                    fingerprint="rows",
                )
            with pytest.raises(LedgerUnavailable, match="locked"):
                hasty.charge("held", acc.PureDP(epsilon=0.01), relation="add_remove")
        assert hasty.total("free").spent.main == 2 * 10**11
        assert hasty.total("held").spent.main == 1


@pytest.mark.slow
def test_a_mutant_without_locks_overspends(url: str) -> None:
    """With SQLAlchemy's default transactions (SQLite), or without FOR UPDATE (PostgreSQL), the same
    race overspends.
    """
    race(url, "unlocked,unnumbered")
    assert stored(url) > CAP


@pytest.mark.slow
def test_numbers_stop_a_mutant_without_locks(url: str) -> None:
    """The second line of defense: where only the locks are missing, the primary key refuses the
    collisions.
    """
    outcomes = race(url, "unlocked")
    assert outcomes["failed"] > 0
    assert stored(url) <= CAP
