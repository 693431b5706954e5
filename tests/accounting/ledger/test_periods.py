"""A budget per period of the data: no silent refresh over the same rows."""

from __future__ import annotations

import pytest

import accounting as acc
from accounting.ledger import InvalidEntry, KeyConflict, Ledger, Window
from accounting.ledger.stored_text import stretch

ALL = acc.PureDP(epsilon=1.0)


@pytest.fixture
def monthly(url: str) -> Ledger:
    """A dataset with a budget of epsilon = 1 for each month's rows."""
    ledger = Ledger.open(url)
    ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove", window="month")
    return ledger


@pytest.mark.parametrize("periods", ["2024-02", ["2024-01", "2024-02"]])
def test_a_retry_is_of_the_same_periods_and_relation(monthly: Ledger, periods: str | list[str]) -> None:
    """A key that paid for January answers no retry for February, nor one of another relation."""
    half = acc.PureDP(epsilon=0.5)
    monthly.charge("visits", half, relation="add_remove", period="2024-01", key="job")
    with pytest.raises(KeyConflict, match="job"):
        monthly.charge("visits", half, relation="add_remove", period=periods, key="job")
    with pytest.raises(acc.RelationMismatch):
        monthly.charge("visits", half, relation="replace_one", period="2024-01", key="job")


@pytest.mark.parametrize(
    ("window", "good", "bad"),
    [
        ("year", "2024", "24"),
        ("quarter", "2024-Q3", "2024-Q5"),
        ("month", "2024-12", "2024-13"),
        ("month", "2024-01", "2024-1"),
        ("week", "2020-W53", "2021-W53"),
        ("day", "2024-02-29", "2023-02-29"),
        ("day", "2024-02-29", "2024-02-29T00:00"),
        ("month", "2024-01", "\uff12\uff10\uff12\uff14-01"),
        *((window, first.replace("0000", "0001"), first) for window, first in (("month", "0000-01"), ("year", "0000"))),
    ],
)
def test_a_period_has_one_spelling(sqlite_url: str, window: Window, good: str, bad: str) -> None:
    """Each period is written one way, so one period cannot have two budgets; periods that do not exist are refused."""
    with Ledger.open(sqlite_url) as ledger:
        ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove", window=window)
        ledger.charge("visits", ALL, relation="add_remove", period=good)
        with pytest.raises(InvalidEntry, match="period"):
            ledger.charge("visits", ALL, relation="add_remove", period=bad)


def test_the_unit_says_what_a_window_protects(monthly: Ledger) -> None:
    """With a budget per month, what is protected is one user's rows of one month, whose period every charge names."""
    assert monthly.dataset("visits").unit == "user within one month"
    with pytest.raises(InvalidEntry, match="period is missing"):
        monthly.charge("visits", ALL, relation="add_remove")
    with pytest.raises(InvalidEntry, match="window"):
        monthly.create_dataset("more", acc.Budget(epsilon=1.0), "add_remove", window="hour")  # type: ignore[arg-type]


@pytest.mark.parametrize("window", ["day", "week", "month", "quarter", "year"])
def test_a_stretch_ends_where_the_calendar_begins(window: Window) -> None:
    """No period is left out of a rolling quota, and none before the first is made up."""
    first = {"day": "0001-01-01", "week": "0001-W01", "month": "0001-01", "quarter": "0001-Q1", "year": "0001"}[window]
    assert stretch(window, first, 3) == [first]
