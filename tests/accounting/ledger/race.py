"""Many processes charge one dataset. Run as a script: `race.py URL WORKERS ATTEMPTS MUTANT`; prints
one line per attempt.

It forks workers by itself, so that the packages are imported once and the processes start together.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import create_engine

import accounting as acc
from accounting.ledger import Ledger, LedgerError, book, store
from accounting.ledger.balances import Balances
from accounting.ledger.book import Book
from accounting.ledger.store import Store, parse_url
from accounting.refusals import BudgetExceeded

CURVE = acc.PureDP(epsilon=0.01)


def linger(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, and then a pause: the window between the check and the insert, opened wide in
    every variant.
    """

    def slow(*args: Any, **keywords: Any) -> Any:
        result = function(*args, **keywords)
        time.sleep(random.random() * 0.002)
        return result

    return slow


def without_sequence(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give up the second line of defense too: numbers that never collide, so that the primary key
    refuses nothing.
    """

    def loose(*args: Any, **keywords: Any) -> Any:
        declared = function(*args, **keywords)
        declared.seq = secrets.randbits(60)
        return declared

    return loose


def opened(url: str, mutant: str) -> Ledger:
    """The ledger at `url`, with the safeguards that `mutant` names taken out."""
    Book.require_room = linger(Book.require_room)  # type: ignore[method-assign]
    if "unlocked" in mutant and not url.startswith("sqlite"):
        store._LOCKED_DATASET = store._DATASET
    if "unnumbered" in mutant:
        book.find_dataset = without_sequence(book.find_dataset)
        Balances._require_last = lambda *_: None  # type: ignore[method-assign]  # the third: a total is that of its last entry
    if "unlocked" in mutant and url.startswith("sqlite"):
        parsed = parse_url(url)
        return Ledger(Store(create_engine(parsed, connect_args={"timeout": 30}), parsed))
    return Ledger.open(url, create=False)


def attempts(url: str, worker: int, count: int, mutant: str) -> list[str]:
    """What became of every attempt of one worker."""
    opened_ledger, outcomes = opened(url, mutant), []
    for number in range(count):
        key = f"{worker}-{number}"
        try:
            receipt = opened_ledger.charge("clicks", CURVE, relation="add_remove", key=key)
            outcomes.append(f"{key} {'replayed' if receipt.replayed else 'charged'}")
        except BudgetExceeded:
            outcomes.append(f"{key} refused")
        except LedgerError as error:
            outcomes.append(f"{key} failed {type(error).__name__}")
    return outcomes


def main(url: str, workers: int, count: int, mutant: str) -> None:
    """Fork the workers, let them go at once, and print what they report."""
    go_read, go_write = os.pipe()
    pipes = []
    for worker in range(workers):
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(go_write)
            os.read(go_read, 1)  # returns when the parent closes its end
            with os.fdopen(write, "w") as report:
                report.write("\n".join(attempts(url, worker, count, mutant)) + "\n")
            os._exit(0)
        os.close(write)
        pipes.append(read)
    os.close(go_read)
    os.close(go_write)
    for read in pipes:
        with os.fdopen(read) as report:
            sys.stdout.write(report.read())
    for _ in pipes:
        os.wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
