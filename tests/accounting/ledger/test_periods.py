"""A budget per period of the data: no silent refresh over the same rows, and what a charge of
several costs (Theorem F11).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from ledger_steps import Made

import accounting as acc
import dpselect as dps
from accounting.ledger import InvalidEntry, KeyConflict, Ledger, Window
from accounting.ledger.model import Receipt
from accounting.ledger.stored_text import first_day, period_of, periods_ending_at

MONTHS = ("2024-01", "2024-02")
PICK = dps.ExponentialMechanism(epsilon=1.0)
ALL = acc.PureDP(epsilon=1.0)


@pytest.fixture
def monthly(sqlite_url: str) -> Iterator[Ledger]:
    """A dataset "visits" with a budget of epsilon = 4 for each month's rows, under add_remove."""
    with Ledger.open(sqlite_url) as ledger:
        ledger.create_dataset("visits", acc.Budget(epsilon=4.0), "add_remove", window="month")
        yield ledger


@pytest.mark.parametrize("periods", ["2024-02", ["2024-01", "2024-02"]])
def test_a_retry_is_of_the_same_periods_and_relation(
    monthly: Ledger, periods: str | list[str]
) -> None:
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
        *(
            (window, first.replace("0000", "0001"), first)
            for window, first in (("month", "0000-01"), ("year", "0000"))
        ),
    ],
)
def test_a_period_has_one_spelling(made: Made, window: Window, good: str, bad: str) -> None:
    """Each period is written one way, so one period cannot have two budgets; periods that do not
    exist are refused.
    """
    ledger = made(acc.Budget(epsilon=1.0), "visits", window=window)
    ledger.charge("visits", ALL, relation="add_remove", period=good)
    with pytest.raises(InvalidEntry, match="period"):
        ledger.charge("visits", ALL, relation="add_remove", period=bad)


@pytest.mark.parametrize("period", [None, [*MONTHS], "2024-13", 202401])
def test_a_total_is_of_one_period(monthly: Ledger, period: Any) -> None:
    """What is spent is asked of one period that exists: none, several and one that does not exist
    are refused.
    """
    monthly.charge("visits", ALL, relation="add_remove", period=MONTHS[0])
    assert monthly.total("visits", MONTHS[0]).spent.main == 10**12
    with pytest.raises(InvalidEntry, match="period"):
        monthly.total("visits", period)


def test_the_unit_says_what_a_window_protects(monthly: Ledger) -> None:
    """With a budget per month, what is protected is one user's rows of one month, whose period
    every charge names.
    """
    assert monthly.dataset("visits").unit == "user within one month"
    with pytest.raises(InvalidEntry, match="period= is missing"):
        monthly.charge("visits", ALL, relation="add_remove")
    with pytest.raises(InvalidEntry, match="window"):
        monthly.create_dataset("more", acc.Budget(epsilon=1.0), "add_remove", window="hour")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("window", "first", "period", "wider", "expected"),
    [
        ("day", "0001-01-01", "2024-12-30", "week", "2025-W01"),
        ("week", "0001-W01", "2025-W01", "month", "2024-12"),
        ("month", "0001-01", "2024-12", "quarter", "2024-Q4"),
        ("quarter", "0001-Q1", "2024-Q4", "year", "2024"),
        ("year", "0001", "2024", "year", "2024"),
    ],
)
def test_periods_follow_each_other_and_lie_in_wider_ones(
    window: Window, first: str, period: str, wider: Window, expected: str
) -> None:
    """All of a day, month or quarter lies in one wider period; a stretch has no gap, and ends where
    the calendar begins.
    """
    before, last = periods_ending_at(window, period, 2)
    assert last == period
    assert period_of(window, first_day(window, period) - timedelta(days=1)) == before
    assert periods_ending_at(window, first, 3) == [first]
    assert period_of(wider, first_day(window, period)) == expected


def charged(receipt: Receipt) -> tuple[acc.Curve, str | None]:
    """The curve that was charged, and why it covers several periods."""
    return acc.Curve.from_json(receipt.entries[0].curve or ""), receipt.entries[0].across


def exact_loss(mechanism: dps.Mechanism, pairs: list[tuple[list[int], list[int]]]) -> float:
    """The greatest log-ratio of an outcome over pairs of counts, both ways."""
    worst = 0.0
    for pair in pairs:
        laws = [
            mechanism.probabilities(dps.Scores(counts, sensitivity=dps.Sensitivity()))
            for counts in pair
        ]
        worst = max(worst, *(abs(math.log(laws[0][item] / laws[1][item])) for item in laws[0]))
    return worst


def test_a_bound_over_two_months_is_charged_as_an_exchange(monthly: Ledger) -> None:
    """One item kept of two months: without January's rows another item counts. The loss nears 2,
    and 2 is what is charged.
    """
    pairs = [([a + 1, b], [a, b + 1]) for a, b in itertools.product(range(25), repeat=2)]
    loss = exact_loss(PICK, pairs)
    assert 1.95 < loss <= 2
    curve, across = charged(monthly.charge("visits", PICK, period=MONTHS))
    assert across == "two_changes"
    assert loss <= curve.epsilon(0.0) == 2
    assert [total.spent.main for total in monthly.totals("visits")] == 2 * [2 * 10**12]
    assert monthly.verify().ok


def test_whole_counts_cost_the_same_where_linf_alone_is_priced(monthly: Ledger) -> None:
    """Removing one month's rows of a user who is counted in full moves counts one way, by at most
    1: the price as it is holds.
    """
    counts = list(itertools.product(range(6), repeat=2))
    pairs = [([a, b], [a + x, b + y]) for a, b in counts for x, y in ((0, 1), (1, 0), (1, 1))]
    curve, across = charged(monthly.charge("visits", PICK, period=MONTHS, across="whole_counts"))
    assert (curve, across) == (PICK.curve, "whole_counts")
    assert exact_loss(PICK, pairs) <= curve.epsilon(0.0)
    assert monthly.verify().ok


@pytest.mark.parametrize(
    "item",
    [
        acc.PureDP(epsilon=1.0),
        dps.OneshotTopK(k=1, noise="gaussian", scale=9.0, sensitivity=dps.Sensitivity(l0=1)),
        dps.SparseHistogram(
            noise="gaussian", scale=9.0, delta=1e-9, sensitivity=dps.Sensitivity(l0=1)
        ),
    ],
    ids=["curve", "l0", "histogram"],
)
def test_whole_counts_need_a_cost_from_linf_alone(monthly: Ledger, item: acc.Curve) -> None:
    """A bare curve does not say what it rests on, and what uses l0 is refused: nothing is
    charged.
    """
    relation: acc.relations.Relation | None = "add_remove" if isinstance(item, acc.Curve) else None
    with pytest.raises(InvalidEntry, match="from linf alone"):
        monthly.charge("visits", item, relation=relation, period=MONTHS, across="whole_counts")
    assert monthly.totals("visits") == []


def test_a_plan_over_several_months_gives_nothing_back(monthly: Ledger) -> None:
    """What two changes cost together is no sum over rounds: the release is recorded, and all of the
    price stays.
    """
    monthly.reserve(
        "visits", 2 * acc.PureDP(epsilon=0.5), relation="add_remove", period=MONTHS, key="plan"
    )
    monthly.commit("visits", "plan")
    assert monthly.release("visits", "plan", spent=acc.PureDP(epsilon=0.5)).state == "released"
    assert {total.spent.main for total in monthly.totals("visits")} == {2 * 10**12}
    assert monthly.release("visits", "plan", spent=acc.PureDP(epsilon=0.5)).replayed
    assert monthly.verify().ok


def test_the_days_of_two_time_zones_are_not_charged_to_one_dataset(
    monthly: Ledger, tmp_path: Path
) -> None:
    """A row near midnight is January's by one clock and February's by another: one dataset has one
    clock, which it declares.
    """
    monthly.create_dataset(
        "berlin", acc.Budget(epsilon=1.0), "add_remove", window="month", time_zone="Europe/Berlin"
    )
    curve = acc.PureDP(epsilon=0.1)
    monthly.charge(
        "berlin", curve, relation="add_remove", period="2024-02", time_zone="Europe/Berlin"
    )
    for name, zone in (
        ("berlin", None),
        ("berlin", "UTC"),
        ("visits", "Europe/Berlin"),
        ("visits", "Mars"),
    ):
        with pytest.raises(InvalidEntry, match="time_zone"):
            monthly.charge(name, curve, relation="add_remove", period="2024-02", time_zone=zone)
        with pytest.raises(InvalidEntry, match="time_zone"):
            monthly.check(name, curve, relation="add_remove", period="2024-02", time_zone=zone)
    monthly.export(tmp_path / "all.jsonl")
    with Ledger.open(f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        copy.import_(tmp_path / "all.jsonl")
        assert copy.dataset("berlin").time_zone == "Europe/Berlin"


def test_gaussian_counts_pay_for_both_months_deltas(monthly: Ledger) -> None:
    """A clipped vector that is exchanged for an orthogonal one moves by sqrt(2): the charge covers
    it, the old price did not.
    """
    monthly.create_dataset(
        "clipped", acc.Budget(epsilon=4.0, delta=1e-3), "add_remove", window="month"
    )
    curve, _ = charged(
        monthly.charge("clipped", acc.GaussianDP(mu=0.2), relation="add_remove", period=MONTHS)
    )
    old, due = acc.GaussianDP(mu=0.2), acc.GaussianDP(mu=0.2 * math.sqrt(2))
    assert old.delta(1.0) < due.delta(1.0) <= curve.delta(1.0)
