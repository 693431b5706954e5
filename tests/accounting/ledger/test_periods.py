"""A budget per period of the data: no silent refresh over the same rows."""

from __future__ import annotations

import pytest

import accounting as acc
from accounting.budget import Price
from accounting.ledger import InvalidEntry, KeyConflict, Ledger, SharedRows, Window
from accounting.ledger.stored_text import stretch

ALL = acc.PureDP(epsilon=1.0)


@pytest.fixture
def monthly(url: str) -> Ledger:
    """A dataset with a budget of epsilon = 1 for each month's rows."""
    ledger = Ledger.open(url)
    ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove", window="month")
    return ledger


def test_each_period_has_its_own_budget(monthly: Ledger) -> None:
    """February's rows can be charged when January's are spent, and January's stay spent."""
    monthly.charge("visits", ALL, relation="add_remove", period="2024-01")
    monthly.charge("visits", ALL, relation="add_remove", period="2024-02")
    for period in ("2024-01", "2024-02"):
        with pytest.raises(acc.BudgetExceeded, match=period):
            monthly.charge("visits", acc.PureDP(epsilon=0.1), relation="add_remove", period=period)
    assert [total.period for total in monthly.totals("visits")] == ["2024-01", "2024-02"]
    assert monthly.verify().ok


def test_a_query_over_several_periods_is_charged_to_each(monthly: Ledger) -> None:
    """A charge over two months takes from both, and from neither if either of them has too little."""
    half = acc.PureDP(epsilon=0.5)
    receipt = monthly.charge("visits", half, relation="replace_one", period=["2024-02", "2024-01"], key="both")
    assert [entry.period for entry in receipt.entries] == ["2024-01", "2024-02"]
    monthly.charge("visits", half, relation="add_remove", period="2024-02")
    for other in ("2024-01", "2024-03"):
        with pytest.raises(acc.BudgetExceeded, match="2024-02"):
            monthly.charge("visits", half, relation="replace_one", period=["2024-02", other])
    assert [total.period for total in monthly.totals("visits")] == ["2024-01", "2024-02"]
    assert monthly.total("visits", "2024-01").spent == Price(5 * 10**11, 0)
    assert monthly.charge("visits", half, relation="replace_one", period=["2024-01", "2024-02"], key="both").replayed


@pytest.mark.parametrize("periods", ["2024-02", ["2024-01", "2024-02"]])
def test_a_retry_is_of_the_same_periods_and_relation(monthly: Ledger, periods: str | list[str]) -> None:
    """A key that paid for January answers no retry for February, nor one of another relation."""
    half = acc.PureDP(epsilon=0.5)
    monthly.charge("visits", half, relation="add_remove", period="2024-01", key="job")
    with pytest.raises(KeyConflict, match="job"):
        monthly.charge("visits", half, relation="add_remove", period=periods, key="job")
    with pytest.raises(acc.RelationMismatch):
        monthly.charge("visits", half, relation="replace_one", period="2024-01", key="job")


def test_steps_apply_to_every_period_of_the_charge(monthly: Ledger) -> None:
    """Voiding a reservation over two months gives back to both."""
    monthly.reserve("visits", ALL, relation="replace_one", period=["2024-01", "2024-02"], key="plan")
    assert len(monthly.void("visits", "plan", actor="ada", reason="no data").entries) == 2
    assert {total.spent for total in monthly.totals("visits")} == {Price(0, 0)}
    assert monthly.verify().ok


def test_rows_do_not_change_their_period(monthly: Ledger) -> None:
    """The same snapshot cannot be charged to January today and to February tomorrow."""
    monthly.charge("visits", acc.PureDP(epsilon=0.1), relation="add_remove", period="2024-01", fingerprint="rows")
    with pytest.raises(SharedRows):
        monthly.charge("visits", acc.PureDP(epsilon=0.1), relation="add_remove", period="2024-02", fingerprint="rows")
    with pytest.raises(SharedRows):
        monthly.charge(
            "visits", acc.PureDP(epsilon=0.1), relation="add_remove", period=["2024-01", "2024-02"], fingerprint="rows"
        )


def test_a_period_is_named_where_there_is_a_window_and_only_there(monthly: Ledger) -> None:
    """A charge without a period, or with one where one budget covers all rows, is refused."""
    monthly.create_dataset("all", acc.Budget(epsilon=1.0), "add_remove")
    with pytest.raises(InvalidEntry, match="period is missing"):
        monthly.charge("visits", ALL, relation="add_remove")
    with pytest.raises(InvalidEntry, match="left out"):
        monthly.charge("all", ALL, relation="add_remove", period="2024-01")


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
    """With a budget per month, what is protected is one user's rows of one month, and the declaration says so."""
    assert monthly.dataset("visits").unit == "user within one month"
    with pytest.raises(InvalidEntry, match="window"):
        monthly.create_dataset("more", acc.Budget(epsilon=1.0), "add_remove", window="hour")  # type: ignore[arg-type]


@pytest.mark.parametrize(("window", "period"), [("month", "0000-01"), ("quarter", "0000-Q1"), ("year", "0000")])
def test_there_is_no_year_before_the_first(url: str, window: Window, period: str) -> None:
    """A period without dates, which a rolling quota could not count, is refused."""
    with Ledger.open(url) as ledger:
        ledger.create_dataset("old", acc.Budget(epsilon=1.0), "add_remove", window=window)
        with pytest.raises(InvalidEntry, match="is no"):
            ledger.charge("old", acc.PureDP(epsilon=0.1), relation="add_remove", period=period)


@pytest.mark.parametrize("window", ["day", "week", "month", "quarter", "year"])
def test_a_stretch_ends_where_the_calendar_begins(window: Window) -> None:
    """No period is left out of a rolling quota, and none before the first is made up."""
    first = {"day": "0001-01-01", "week": "0001-W01", "month": "0001-01", "quarter": "0001-Q1", "year": "0001"}[window]
    assert stretch(window, first, 3) == [first]
