"""Limits within a dataset's budget: per person, team, purpose and stretch of the data's time,
passed in one transaction.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from intruders import intruder
from ledger_steps import Made, enter, step
from sqlalchemy import delete, insert, text, update

import accounting as acc
import dpselect as dps
from accounting.cost import NOTHING, Cost
from accounting.ledger import InvalidEntry, InvalidTransition, Ledger, Quota
from accounting.ledger.store import entries, scopes

TENTH, HALF = acc.PureDP(epsilon=0.1), acc.PureDP(epsilon=0.5)


def limited(name: str = "limit", epsilon: float = 0.2, **scope: object) -> Quota:
    """A quota of pure epsilon."""
    return Quota(name=name, limit=acc.Budget(epsilon=epsilon), **scope)  # type: ignore[arg-type]


def charge(
    ledger: Ledger, dataset: str = "clicks", curve: acc.Curve = TENTH, **terms: object
) -> None:
    """Charge a curve under add_remove; under replace_one where several periods are read, which pays
    for an exchange as it is.
    """
    period = terms.get("period", "")
    relation = "add_remove" if isinstance(period, str) or len(set(period)) == 1 else "replace_one"  # type: ignore[call-overload]
    ledger.charge(dataset, curve, relation=relation, **terms)  # type: ignore[arg-type]


def spent(ledger: Ledger, dataset: str = "clicks") -> dict[tuple[str, str], float]:
    """Where every account of every quota stands, in tenths of a nat."""
    return {
        (quota.name, left.account): left.spent.main / 10**11
        for quota, left in ledger.quotas(dataset).standing()
    }


@pytest.fixture
def daily(url: str) -> Ledger:
    """A dataset with a budget of epsilon = 1 for each day's rows, and a quota of 1 for every 30
    days.
    """
    ledger = Ledger.open(url)
    ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove", window="day")
    ledger.quotas("visits").declare(limited("month", 1.0, rolling=30))
    return ledger


def test_charge_without_a_team_is_refused_under_team_quotas(ledger: Ledger) -> None:
    """Where each team has a limit, a charge that names none is refused: leaving the name out is no
    way around it.
    """
    ledger.quotas("clicks").declare(limited(by="team"))
    with pytest.raises(InvalidEntry, match="team is missing"):
        charge(ledger)
    assert ledger.total("clicks").spent == NOTHING


def test_every_thirty_days_hold_their_limit(daily: Ledger) -> None:
    """A charge counts to each of the 30 windows of its day, one that reads many days once to each;
    no window overflows.
    """
    charge(daily, "visits", HALF, period="2024-03-10")
    # together with the first in the windows from 03-02 on
    charge(daily, "visits", HALF, period=["2024-03-31", "2024-04-05"])
    for day in ("2024-03-20", "2024-03-08", "2024-04-07"):
        with pytest.raises(acc.BudgetExceeded, match="quota='month'"):
            charge(daily, "visits", TENTH, period=day)
    # 30 days after 04-05, which the window before ends at
    charge(daily, "visits", HALF, period="2024-05-05")
    with pytest.raises(acc.BudgetExceeded, match="30 periods from 2024-04-05"):
        charge(daily, "visits", acc.PureDP(epsilon=0.6), period="2024-05-04")
    fullest = {left.account: left.spent.main for _, left in daily.quotas("visits").standing(most=1)}
    assert list(fullest.values()) == [10**12]
    assert daily.verify().ok


def test_a_quota_is_a_filter_of_its_own(made: Made) -> None:
    """It may be in another unit than the dataset's budget, with its own price; what it can never
    pay is refused by name, but for a team that it does not limit.
    """
    ledger = made(acc.Budget(epsilon=1.0, delta=1e-6))
    ledger.quotas("clicks").declare(Quota(name="rho", limit=acc.Budget(rho=0.02)))
    charge(ledger)
    ((_, one),) = ledger.quotas("clicks").standing()
    assert one.spent == acc.Budget(rho=0.02).filter_cost(TENTH)
    ledger.quotas("clicks").declare(limited("pure", 1.0))
    with pytest.raises(acc.errors.Unaffordable):
        charge(ledger, curve=acc.ZCDP(rho=0.001))
    ledger.quotas("clicks").withdraw("pure")
    charge(ledger, curve=acc.ZCDP(rho=0.001))
    with pytest.raises(InvalidEntry, match="entry 5: the charge cannot be counted to quota='pure'"):
        ledger.quotas("clicks").declare(limited("pure", 0.9))
    ledger.quotas("clicks").withdraw("rho")
    ledger.quotas("clicks").declare(limited("pure", by="team", of="interns"))
    charge(ledger, curve=acc.Approximate(curve=TENTH, delta0=1e-8), team="staff")
    assert ledger.verify().ok


def test_a_whole_plan_does_not_hide_in_a_window(made_on_either: Made) -> None:
    """A plan that takes a day's budget as a whole (F5) costs a wider quota its own price: never
    what another filter charged.
    """
    plan, day = 30 * acc.BoundedRange(epsilon=0.08), acc.Budget(epsilon=1.0, delta=1e-6)
    assert day.filter_cost(plan) == day.capacity
    ledger = made_on_either(day, "visits", window="day")
    wide = Quota(name="month", limit=acc.Budget(epsilon=2.0, delta=1e-6), rolling=30)
    ledger.quotas("visits").declare(wide)
    charge(ledger, "visits", plan, period="2024-01-01")
    assert wide.limit is not None
    assert {left.spent for _, left in ledger.quotas("visits").standing()} == {
        wide.limit.filter_cost(plan)
    }


@pytest.mark.parametrize(
    ("dataset", "scope", "rule"),
    [
        ("clicks", {"of": "ada"}, "by"),
        ("clicks", {"rolling": 30, "window": "month"}, "two quotas"),
        ("clicks", {"rolling": 1}, "rolling"),
        ("clicks", {"by": "mood"}, "by"),
        ("clicks", {"name": " x"}, "name"),
        ("clicks", {"by": "actor", "of": ""}, "name"),
        ("clicks", {"by": "actor", "of": b"ada"}, "text"),
        ("clicks", {"among": ("maps",)}, "among needs by"),
        ("clicks", {"rolling": 30}, "no periods"),
        ("months", {"window": "week"}, "narrower"),
        *(
            ("weeks", {"window": window}, "not made up of weeks")
            for window in ("month", "quarter", "year")
        ),
    ],
)
def test_quotas_that_mean_nothing_are_refused(
    sqlite_url: str, dataset: str, scope: dict[str, object], rule: str
) -> None:
    """In themselves, or for a dataset's window: rows without periods have no stretches, and weeks
    lie in two months.
    """
    with Ledger.open(sqlite_url) as ledger:
        for name, window in (("clicks", "whole"), ("months", "month"), ("weeks", "week")):
            ledger.create_dataset(name, acc.Budget(epsilon=1.0), "add_remove", window=window)  # type: ignore[arg-type]
        with pytest.raises(InvalidEntry, match=rule):
            ledger.quotas(dataset).declare(limited(**{"name": "limit", **scope}))  # type: ignore[arg-type]
        with pytest.raises(acc.errors.InvalidArgument, match="Quota"):
            ledger.quotas(dataset).declare("limit")  # type: ignore[arg-type]
        with pytest.raises(InvalidEntry, match="nothing to withdraw"):
            ledger.quotas(dataset).withdraw("limit")


def test_a_reservation_lapses_and_makes_room(url: str) -> None:
    """Not committed in time, it is refused its commit and given back to the budget and its quotas
    when somebody needs room.
    """
    now = [datetime(2024, 1, 1, tzinfo=UTC)]
    with Ledger.open(url, clock=lambda: now[0]) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        ledger.quotas("clicks").declare(limited(epsilon=0.5))
        ledger.reserve("clicks", HALF, relation="add_remove", key="late", expires_in=60)
        ledger.reserve(
            "clicks", acc.PureDP(epsilon=0.0), relation="add_remove", key="used", expires_in=60
        )
        ledger.commit("clicks", "used")
        with pytest.raises(acc.BudgetExceeded):
            charge(ledger, curve=HALF)
        now[0] += timedelta(seconds=60)
        with pytest.raises(InvalidTransition, match="reserved until 2024-01-01T00:01:00"):
            ledger.commit("clicks", "late")
        # refused before the draw; nothing is given back by that
        assert ledger.total("clicks").spent.main == 5 * 10**11
        charge(ledger, curve=HALF, key="next")
        with pytest.raises(InvalidTransition, match="void"):
            ledger.commit("clicks", "late")
        assert [entry.action for entry in ledger.latest("clicks", 2)] == ["charge", "void"]
        assert ledger.commit("clicks", "used").replayed  # committed in time: never given back
        assert ledger.expire("clicks") == []
        assert ledger.verify().ok


def test_reservation_expiry_is_separate_for_each_dataset(url: str) -> None:
    """Reservations under one key in two datasets: the time of one, and the commit of one, are not
    the other's.
    """
    now = [datetime(2024, 1, 1, tzinfo=UTC)]
    with Ledger.open(url, clock=lambda: now[0]) as ledger:
        for name in ("clicks", "visits"):
            ledger.create_dataset(name, acc.Budget(epsilon=1.0), "add_remove")
        # The second attempt is for the same periods, also where an iterator gave them.
        ledger.create_dataset("views", acc.Budget(epsilon=0.5), "add_remove", window="month")
        ledger.reserve("views", HALF, relation="add_remove", period="2024-01", expires_in=60)
        for name, key, seconds in (
            ("clicks", "a", None),
            ("visits", "a", 60),
            ("clicks", "b", 60),
            ("visits", "b", 60),
        ):
            ledger.reserve(name, TENTH, relation="add_remove", key=key, expires_in=seconds)
        ledger.commit("visits", "b")
        now[0] += timedelta(seconds=60)
        assert [one.key for one in ledger.expire("clicks")] == ["b"]
        assert [one.key for one in ledger.expire("visits")] == ["a"]
        receipt = ledger.charge(
            "views", HALF, relation="replace_one", period=iter(["2024-02", "2024-01"])
        )
        assert [entry.period for entry in receipt.entries] == ["2024-01", "2024-02"]


@pytest.fixture
def kept(ledger: Ledger) -> Ledger:
    """A ledger with two quotas, charges on both, a replaced quota and a voided reservation."""
    quotas = ledger.quotas("clicks")
    quotas.declare(limited("each", 0.3, by="actor"), actor="dpo")
    quotas.declare(limited("ever", 0.5), actor="dpo")
    charge(ledger, actor="ada", key="first")
    ledger.reserve("clicks", TENTH, relation="add_remove", actor="bob", key="plan")
    quotas.declare(limited("each", 0.4, by="actor"), actor="dpo")
    ledger.void("clicks", "plan", actor="eve", reason="no data")
    charge(ledger, actor="bob", team="growth", purpose="research")
    assert ledger.verify().ok
    declared = [
        (entry.action, entry.actor) for entry in ledger.entries("clicks") if entry.action == "quota"
    ]
    assert declared == [("quota", "dpo")] * 3
    return ledger


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "edit",
    [
        update(entries)
        .where(entries.c.seq == 1)
        .values(quota=limited("each", 0.9, by="actor").model_dump_json()),
        update(scopes).where(scopes.c.account == '["", ""]').values(main=scopes.c.main - 1),
        delete(scopes).where(scopes.c.account == '["", ""]'),
        insert(scopes).values(dataset_id=1, quota=1, account='["eve", ""]', main=0, failure=0),
    ],
)
def test_edits_of_quotas_and_their_sums_are_found(kept: Ledger, url: str, edit: object) -> None:
    """The declaration is under the chain's hash, and each sum is derived anew."""
    with intruder(url) as connection:
        connection.execute(edit)  # type: ignore[call-overload]
    assert {problem.kind for problem in kept.verify().problems} & {"hash", "quota"}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_edited_nonsense_period_is_reported_as_a_problem(daily: Ledger, url: str) -> None:
    """An entry whose period was edited into nonsense is a problem, no failure of verify; so is a
    sum that is no number.
    """
    charge(daily, "visits", TENTH, period="2024-01-01")
    with intruder(url) as connection:
        connection.execute(update(entries).where(entries.c.seq == 2).values(period="soon"))
    assert {problem.kind for problem in daily.verify().problems} >= {"hash", "quota", "total"}
    with intruder(url) as connection:
        connection.execute(update(scopes).values(main=text("'many'")))
    assert "quota" in {problem.kind for problem in daily.verify().problems}


def test_a_charge_past_a_quota_is_found(kept: Ledger, url: str) -> None:
    """Somebody who writes an entry with the right hashes and totals, but leaves the quota out: the
    sums, and the excess, show.
    """
    curve = acc.PureDP(epsilon=0.35)
    enter(
        kept,
        "clicks",
        {**step("charge", "sneaked", "", Cost(35 * 10**10, 0), None, curve), "actor": "bob"},
    )
    found = {(problem.kind, problem.seq) for problem in kept.verify().problems}
    assert ("quota", 8) in found
    assert ("quota", None) in found


def test_a_session_knows_its_quotas(made: Made) -> None:
    """How many more counts the quotas of its team, a release passes them, and a schedule's
    reservation lapses.
    """
    mechanism, scores = (
        dps.ExponentialMechanism(epsilon=0.1),
        dps.Scores([3, 1, 2], sensitivity=dps.Sensitivity()),
    )
    ledger = made(acc.Budget(epsilon=1.0))
    ledger.quotas("clicks").declare(limited("teams", 0.2, by="team"))
    session = dps.Session(ledger, "clicks", team="growth", purpose="research")
    more = session.affordable(mechanism, one_by_one=True)
    assert (more.releases, more.account) == (2, "quota teams (growth)")
    session.select(mechanism, scores)
    assert ledger.latest("clicks", 2)[1].purpose == "research"
    plan = session.schedule([(1, mechanism)], expires_in=1e-6)
    with pytest.raises(InvalidTransition, match="reserved until"):
        plan.select(mechanism, scores)
    with pytest.raises(InvalidEntry, match="team is missing"):
        dps.Session(ledger, "clicks").select(mechanism, scores)
    session.select(mechanism, scores)  # the plan's reservation has lapsed and makes room
    assert session.affordable(mechanism) == 0
    with pytest.raises(acc.BudgetExceeded, match="quota='teams'"):
        session.require(mechanism)


@pytest.mark.parametrize(
    "scope", [{"by": "team"}, {"by": "team", "rolling": 3}, {"window": "month"}]
)
def test_a_quota_states_the_smaller_cost_as_charged(url: str, scope: dict[str, object]) -> None:
    """The cost as charged of a quota's account is the sum of the epsilons that are charged to it,
    where the filter's bound is above that (Theorem F13): a charge of several periods counts once, a
    void not at all, and it is at most the limit and grows with every charge.
    """
    budget = acc.Budget(epsilon=3.0, delta=1e-6)
    ledger = Ledger.open(url)
    ledger.create_dataset("visits", budget, "replace_one", window="day")
    quota = Quota(name="limit", limit=acc.Budget(epsilon=1.0, delta=1e-6), **scope)  # type: ignore[arg-type]
    ledger.quotas("visits").declare(quota)
    days = ["2024-05-01", "2024-05-02"]
    common: Any = {"relation": "replace_one", "team": "maps"}
    first: dict[str, float] = {}
    for number, period in enumerate((days, days[:1], days[1:])):
        ledger.charge("visits", acc.PureDP(epsilon=0.01), period=period, **common)
        ledger.reserve("visits", TENTH, key=f"gone-{number}", period=period, **common)
        ledger.void("visits", f"gone-{number}", actor="ada", reason="no data were read")
        said = {left.account: left.as_charged for _, left in ledger.quotas("visits").standing()}
        assert all(first.get(name, 0.0) <= said[name][0] <= 1.0 for name in said)
        first = {name: epsilon for name, (epsilon, _) in said.items()}
    wide = "maps, 3 periods from 2024-04-30" if "rolling" in scope else next(iter(first))
    assert said[wide] == (pytest.approx(0.03), 0.0)
    term = {"relation": "replace_one", "team": "maps", "period": days[0]}
    room = ledger.room("visits", TENTH, **term)  # type: ignore[arg-type]
    accounts = {left.account: left.as_charged for left in room if left.account.startswith("quota")}
    assert accounts[f"quota limit ({wide})"] == said[wide]
