"""What a charge does: it fits or it is refused, it is made once, and it says what it was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

import accounting as acc
from accounting.budget import Price
from accounting.ledger import (
    InvalidEntry,
    InvalidTransition,
    KeyConflict,
    Ledger,
    Quota,
    Terms,
)

HALF = acc.PureDP(epsilon=0.5)
UNITS = 10**12
OURS = {"relation": "add_remove"}


def test_a_refusal_says_what_would_fit(ledger: Ledger) -> None:
    """BudgetExceeded carries the price asked for, what is spent, what is left and how many of the runs would fit."""
    ledger.charge("clicks", HALF, relation="add_remove")
    with pytest.raises(acc.BudgetExceeded, match="Nothing was charged") as refused:
        ledger.charge("clicks", acc.PureDP(epsilon=0.2), relation="add_remove", count=5)
    error = refused.value
    assert (error.requested, error.spent, error.would_fit) == (Price(UNITS, 0), Price(UNITS // 2, 0), 2)
    assert error.remaining is not None
    assert error.remaining.main == 0.5


def test_check_charges_nothing(ledger: Ledger) -> None:
    """`check` raises exactly where `charge` would, and writes nothing either way."""
    ledger.check("clicks", HALF, relation="add_remove", count=2)
    with pytest.raises(acc.BudgetExceeded):
        ledger.check("clicks", HALF, relation="add_remove", count=3)
    assert list(ledger.entries("clicks")) == []


@pytest.mark.parametrize(
    ("item", "terms", "error", "words"),
    [
        *((HALF, {**OURS, "count": count}, InvalidEntry, "count") for count in (0, True, 1.0, 10**13, "2", [1])),
        *((HALF, {keyword: "x"}, acc.errors.InvalidArgument, keyword) for keyword in ("perod", "counts", "Label")),
        (HALF, {"relation": "add_remove", "period": "2024-01"}, InvalidEntry, "left out"),
        (HALF, {"relation": "add_remove", "expires_in": 0}, acc.errors.InvalidArgument, "expires_in"),
        (HALF, {"relation": "replace_one"}, acc.RelationMismatch, "replace_one"),
        (acc.GaussianDP(mu=0.1), {"relation": "add_remove"}, acc.errors.Unaffordable, "pure"),
        (0.5, {"relation": "add_remove"}, acc.AccountingError, "cannot charge"),
    ],
)
def test_what_is_asked_wrongly_is_refused(
    ledger: Ledger, item: Any, terms: dict[str, Any], error: type[Exception], words: str
) -> None:
    """Values outside of their domains, mistyped keywords, other relations, and what no budget of the form pays for."""
    for call in (ledger.charge, ledger.check):
        with pytest.raises(error, match=words):
            call("clicks", item, **terms)
    assert ledger.total("clicks").spent == Price(0, 0)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "60", True])
def test_a_reservation_expires_after_some_time(ledger: Ledger, seconds: object) -> None:
    """A time that is none is refused, and nothing is reserved."""
    with pytest.raises(InvalidEntry, match="expires_in"):
        ledger.reserve("clicks", HALF, relation="add_remove", expires_in=seconds)  # type: ignore[arg-type]
    assert ledger.total("clicks").spent == Price(0, 0)


def test_runs_are_priced_as_one_composition(url: str) -> None:
    """`count` runs cost what their composition costs, not `count` prices that were rounded one by one."""
    third = acc.ZCDP(rho=1e-13 * 2.5)
    with Ledger.open(url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(rho=1.0), "add_remove")
        assert ledger.charge("clicks", third, relation="add_remove", count=1000).price.main == -(
            -Fraction("2.5e-13") * 1000 * UNITS // 1
        )


TENTH = acc.PureDP(epsilon=0.1)


@pytest.mark.parametrize(
    ("last", "error"),
    [
        ((acc.PureDP(epsilon=0.9), {"relation": "add_remove"}), acc.BudgetExceeded),
        ((TENTH, {"relation": "replace_one"}), acc.RelationMismatch),
        ((TENTH, {}), acc.RelationMismatch),
        ((acc.GaussianDP(mu=0.1), {"relation": "add_remove"}), acc.errors.Unaffordable),
        ((TENTH, {"relation": "add_remove", "key": "a"}), KeyConflict),
        ((TENTH, {"relation": "add_remove", "key": "before", "count": 2}), KeyConflict),
        ((TENTH, {"relation": "add_remove", "count": 0}), InvalidEntry),
        ((TENTH, {"relation": "add_remove", "count": True}), InvalidEntry),
        ((TENTH, {"relation": "add_remove", "period": "2024-07"}), InvalidEntry),
    ],
)
def test_a_batch_is_charged_whole_or_not_at_all(ledger: Ledger, last: tuple[acc.Curve, Terms], error: type[Exception]) -> None:
    """Whatever is wrong with the last charge of a batch, the first one is not charged either, and the chain goes on."""
    ledger.charge("clicks", TENTH, relation="add_remove", key="before")
    standing = ledger.heads().datasets
    with pytest.raises(error):
        ledger.charge_all("clicks", [(TENTH, {"relation": "add_remove", "key": "a", "fingerprint": "rows"}), last])
    assert ledger.heads().datasets == standing
    assert ledger.find("clicks", "a") is None
    assert ledger.total("clicks").spent.main == 10**11
    ledger.charge("clicks", TENTH, relation="add_remove", key="a")
    assert ledger.verify().ok


class Described:
    """A mechanism with this description."""

    def __init__(self, text: str) -> None:
        self._text = text

    relation = "add_remove"
    curve = HALF

    def to_json(self) -> str:
        return self._text


def test_a_retry_is_of_the_same_binding_and_survives_an_upgrade(ledger: Ledger) -> None:
    """A later version of the mechanism writes a new field: the key finds what it has paid for, but for another job's draw."""
    first = ledger.charge("clicks", Described('{"kind": "toy", "k": 3, "binding": "a"}'), key="job 7")
    again = ledger.charge("clicks", Described('{"kind": "toy", "k": 3, "ties": "random", "binding": "a"}'), key="job 7")
    assert (again.replayed, again.entries) == (True, first.entries)
    for other in ('{"kind": "toy", "k": 3, "binding": "b"}', '{"kind": "toy", "k": 3}'):
        with pytest.raises(KeyConflict, match="job 7"):
            ledger.charge("clicks", Described(other), key="job 7")


def test_a_check_of_a_used_key_says_what_the_charge_would(ledger: Ledger) -> None:
    """The same charge again needs no room, and another under its key is refused for the key, not for the budget."""
    whole = acc.PureDP(epsilon=ledger.total("clicks").remaining.main)
    ledger.charge("clicks", whole, relation="add_remove", key="made")
    for call in (ledger.check, ledger.charge):
        call("clicks", whole, relation="add_remove", key="made")
        with pytest.raises(KeyConflict, match="different charge"):
            call("clicks", HALF, relation="add_remove", key="made")
        with pytest.raises(acc.BudgetExceeded):
            call("clicks", HALF, relation="add_remove", key="other")


def test_steps_say_what_is_needed_and_a_void_who_took_it(ledger: Ledger) -> None:
    """A void has a name and a reason and appends what it gives back; a step that may not follow is refused with the rule."""
    for actor, reason in (("", "why"), ("ada", ""), ("ada", " ")):
        with pytest.raises(InvalidEntry):
            ledger.void("clicks", "plan", actor=actor, reason=reason)
    ledger.reserve("clicks", HALF, relation="add_remove", key="plan")
    ledger.charge("clicks", HALF, relation="add_remove", key="made")
    for call, words in (
        (lambda: ledger.release("clicks", "plan"), "commit it before"),
        (lambda: ledger.commit("clicks", "another"), "no charge"),
        (lambda: ledger.void("clicks", "made", actor="ada", reason="failed"), "stays charged"),
    ):
        with pytest.raises(InvalidTransition, match=words):
            call()
    receipt = ledger.void("clicks", "plan", actor="ada", reason="cancelled")
    assert (receipt.state, receipt.price) == ("void", Price(-UNITS // 2, 0))
    assert (receipt.entries[0].actor, receipt.entries[0].label) == ("ada", "cancelled")
    with pytest.raises(KeyConflict, match="voided"):
        ledger.reserve("clicks", HALF, relation="add_remove", key="plan")
    assert ledger.verify().ok


def test_a_mechanism_is_stored_as_provenance(url: str) -> None:
    """A mechanism's JSON, relation and curve go into the entry, with who, where, when and with which version."""
    now = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    with Ledger.open(url, clock=lambda: now) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove", unit="teacher")
        entry = ledger.charge("clicks", Described('{"kind": "toy", "k": 3}'), label="week 1", actor="ada", salt="s1").entries[0]
    assert (entry.mechanism, entry.count, entry.action, entry.salt) == ('{"kind": "toy", "k": 3}', 1, "charge", "s1")
    assert acc.Curve.from_json(entry.curve or "") == HALF
    assert (entry.actor, entry.label, entry.at) == ("ada", "week 1", "2024-05-06T07:08:09.000000+00:00")
    assert entry.host
    assert entry.package


@pytest.mark.parametrize("curve", [acc.PureDP(epsilon=1e308), acc.PureDP(epsilon=5e-324), acc.ZCDP(rho=1e-300)], ids=str)
def test_extreme_curves_are_charged_or_refused(url: str, curve: acc.Curve) -> None:
    """Whatever a float can hold is priced upwards or refused: nothing is free, and nothing overflows the store."""
    with Ledger.open(url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1e300), "add_remove")
        for count in (1, 10**12):
            try:
                assert 0 < ledger.charge("clicks", curve, relation="add_remove", count=count).price.main < 2**63
            except (acc.errors.InvalidBudget, acc.BudgetExceeded):
                assert isinstance(curve, acc.ZCDP) or curve.core_epsilon > 1
        assert ledger.verify().ok


@pytest.mark.slow
def test_clocks_apart_do_not_break_order(url: str) -> None:
    """Two hosts whose clocks are a year apart append to one chain: entries are ordered by number, and all of it verifies."""
    now = datetime(2024, 1, 1, tzinfo=UTC)
    hosts = [Ledger.open(url, clock=lambda hour=hour: now + timedelta(hours=hour)) for hour in (0, -8760)]  # type: ignore[misc]
    hosts[0].create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
    for number in range(6):
        hosts[number % 2].charge("clicks", acc.PureDP(epsilon=0.1), relation="add_remove")
    entries = list(hosts[0].entries("clicks"))
    assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert [entry.at for entry in entries] != sorted(entry.at for entry in entries)
    assert [entry.spent_main for entry in entries] == [n * UNITS // 10 for n in range(1, 7)]
    assert hosts[1].verify().ok


@pytest.mark.parametrize("budget", [acc.Budget(rho=0.5, delta=1e-9), acc.Budget(epsilon=1.0, delta=1e-6, order="inf")], ids=str)
def test_every_form_of_budget_survives_the_store(sqlite_url: str, budget: acc.Budget) -> None:
    """A budget comes back equal, its filter's order included, so a later version cannot choose another one."""
    with Ledger.open(sqlite_url) as ledger:
        ledger.create_dataset("clicks", budget, "add_remove")
        ledger.charge("clicks", acc.PureDP(epsilon=0.01), relation="add_remove")
        assert ledger.dataset("clicks").budget == budget
        assert ledger.verify().ok


def test_a_batch_is_what_its_charges_are_one_by_one(ledger: Ledger) -> None:
    """Entries, totals, quotas and heads of a batch are those of single charges, replayed keys and voids between them included."""
    ledger.create_dataset("other", acc.Budget(epsilon=1.0), "add_remove", window="month")
    ledger.create_dataset("again", acc.Budget(epsilon=1.0), "add_remove", window="month")
    charges: list[tuple[acc.Curve, Any]] = [
        (acc.PureDP(epsilon=0.05), {"period": ["2024-01", "2024-02"], "actor": "ada"}),
        (acc.PureDP(epsilon=0.2), {"period": "2024-02", "actor": "bob", "fingerprint": "rows"}),
        (acc.PureDP(epsilon=0.1), {"period": "2024-02", "actor": "ada", "count": 2}),
    ]
    keyed = [(curve, {**terms, "relation": "add_remove", "key": f"k{n}"}) for n, (curve, terms) in enumerate(charges)]
    for name in ("other", "again"):
        ledger.quotas(name).declare(Quota(name="each", limit=acc.Budget(epsilon=0.3), by="actor"))
    for curve, terms in keyed:
        ledger.charge("other", curve, **{**terms, "fingerprint": None})
    ledger.charge("again", keyed[0][0], **keyed[0][1])
    receipts = ledger.charge_all("again", keyed)
    assert [receipt.replayed for receipt in receipts] == [True, False, False]
    for view in (ledger.totals, lambda name: ledger.quotas(name).standing()):
        assert [one.spent for one in view("again")] == [one.spent for one in view("other")]
    shown = [[(one.period, one.main, one.spent_main, one.key) for one in ledger.entries(name)][1:] for name in ("again", "other")]
    assert shown[0] == shown[1]
    with pytest.raises(acc.BudgetExceeded, match=r"quota='each' \(ada"):
        ledger.charge_all("again", [(keyed[0][0], {**keyed[0][1], "key": key}) for key in ("x", "y")])
    assert ledger.verify().ok
