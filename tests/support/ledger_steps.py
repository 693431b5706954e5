"""Entries of a ledger that are made or written past its checks, as somebody who is not its code
could.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from accounting.cost import Cost
from accounting.curves import Curve
from accounting.ledger import Dataset, Entry, Ledger, Problem
from accounting.ledger.book import _BLANK, writing
from accounting.ledger.model import origin, utc_now
from accounting.ledger.verification import Chain

Made = Callable[..., Ledger]
"""Declares a dataset with a budget, "clicks" under add_remove unless something else is said, and
gives the ledger.
"""

BY = origin("ada", utc_now())


def step(
    action: str,
    key: str,
    period: str,
    price: Cost,
    label: str | None = None,
    curve: Curve | None = None,
) -> dict[str, Any]:
    """What an entry says, apart from its place in the chain."""
    content = {} if curve is None else {"curve": curve.to_json(), "count": 1}
    return {
        "action": action,
        "key": key,
        "period": period,
        "label": label,
        **price._asdict(),
        **content,
    }


def enter(ledger: Ledger, dataset: str, *steps: dict[str, Any]) -> None:
    """Chain steps to a dataset without asking whether they may follow."""
    with writing(ledger._store, dataset) as book:
        book.append(steps, origin(None, utc_now()))


def found_in(dataset: Dataset, entries: Iterable[Entry]) -> list[Problem]:
    """What is wrong with a chain of these entries."""
    chain = Chain(dataset, dataset.genesis)
    return [problem for entry in entries for problem in chain.follow(entry)]


def chained(dataset: Dataset, *steps: dict[str, Any], off: int = 0) -> list[Entry]:
    """The entries of these steps, in no store; the last one's running total is `off` units away
    from the sum.
    """
    entries: list[Entry] = []
    main = failure = 0
    for number, one in enumerate(steps, 1):
        main, failure = main + one["main"], failure + one["failure"]
        total = {
            "spent_main": main + (off if number == len(steps) else 0),
            "spent_failure": failure,
        }
        place = {
            "dataset": dataset.name,
            "seq": number,
            "prev": entries[-1].hash if entries else dataset.genesis,
        }
        fields = {**_BLANK, **vars(BY), **one, **total, **place}
        entries.append(Entry(**fields, hash=Entry(**fields, hash="").expected_hash()))
    return entries
