"""What a charge does: it fits or it is refused, it is made once, and it says what it was. Any
sequence of them: test_model.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from ledger_steps import Made

import accounting as acc
from accounting.errors import InvalidArgument, InvalidBudget, Unaffordable
from accounting.ledger import InvalidEntry, InvalidTransition, KeyConflict, Ledger, SharedRows

HALF, TENTH = acc.PureDP(epsilon=0.5), acc.PureDP(epsilon=0.1)
SAMPLED = acc.SampledGaussianDP(mu=0.1, rate=0.01)
UNITS = 10**12
OURS: dict[str, Any] = {"relation": "add_remove"}


class Described:
    """A mechanism with this description."""

    def __init__(self, text: str) -> None:
        self._text = text

    relation = "add_remove"
    curve = HALF

    def to_json(self) -> str:
        return self._text


def voided(ledger: Ledger, actor: str = "ada", reason: str = "why") -> object:
    """A reservation that is given back."""
    ledger.reserve("clicks", TENTH, relation="add_remove", key="plan")
    return ledger.void("clicks", "plan", actor=actor, reason=reason)


REFUSED: list[tuple[type[Exception], str, Callable[[Ledger], object]]] = [
    *(
        (
            InvalidEntry,
            "count",
            lambda ledger, count=count: ledger.charge("clicks", HALF, count=count, **OURS),
        )
        for count in (0, True, 10**13, "2")
    ),
    *(
        (
            InvalidArgument,
            keyword,
            lambda ledger, keyword=keyword: ledger.charge("clicks", HALF, **{keyword: "x"}),
        )
        for keyword in ("perod", "expires_in")
    ),
    *(
        (
            InvalidEntry,
            "expires_in",
            lambda ledger, wait=wait: ledger.reserve("clicks", HALF, expires_in=wait, **OURS),
        )
        for wait in (0, float("nan"), float("inf"), "60", True)
    ),
    (InvalidEntry, "actor", lambda ledger: ledger.commit("clicks", "k", actor=["x"])),
    (InvalidEntry, "actor", lambda ledger: ledger.expire("clicks", actor={})),
    *(
        (
            InvalidBudget,
            f"{name} must be an accounting.Budget",
            lambda ledger, name=name: ledger.create_dataset(
                "other", **{"budget": acc.Budget(epsilon=1.0), "relation": "add_remove", name: 1.0}
            ),
        )
        for name in ("budget", "most_per_release")
    ),
    (
        InvalidEntry,
        "left out",
        lambda ledger: ledger.charge("clicks", HALF, period="2024-01", **OURS),
    ),
    (
        InvalidEntry,
        "across='all'",
        lambda ledger: ledger.charge("clicks", HALF, across="all", **OURS),
    ),
    (
        acc.RelationMismatch,
        "replace_one",
        lambda ledger: ledger.charge("clicks", HALF, relation="replace_one"),
    ),
    (acc.RelationMismatch, "--relation", lambda ledger: ledger.charge("clicks", HALF)),
    (
        acc.RelationMismatch,
        "is proved for relation='add_remove' only",
        lambda ledger: ledger.charge(
            "clicks", 3 * acc.Approximate(curve=SAMPLED, delta0=1e-9), relation="replace_one"
        ),
    ),
    (Unaffordable, "pure", lambda ledger: ledger.charge("clicks", acc.GaussianDP(mu=0.1), **OURS)),
    (acc.AccountingError, "cannot be charged", lambda ledger: ledger.charge("clicks", 0.5, **OURS)),
    (
        acc.BudgetExceeded,
        "Nothing was charged",
        lambda ledger: ledger.charge("clicks", HALF, count=3, **OURS),
    ),
    (
        acc.BudgetExceeded,
        "Nothing was charged",
        lambda ledger: ledger.charge_all("clicks", [(HALF, OURS)] * 3),
    ),
    (
        KeyConflict,
        "twice",
        lambda ledger: ledger.charge_all("clicks", [(HALF, {**OURS, "key": "a"})] * 2),
    ),
    (InvalidTransition, "no charge", lambda ledger: ledger.commit("clicks", "another")),
    (InvalidEntry, "actor", lambda ledger: voided(ledger, actor="")),
    (InvalidEntry, "reason", lambda ledger: voided(ledger, reason=" ")),
]


@pytest.mark.parametrize(
    ("error", "words", "call"), REFUSED, ids=[str(number) for number in range(len(REFUSED))]
)
def test_invalid_ledger_arguments_are_refused_before_a_charge(
    made: Made, error: type[Exception], words: str, call: Callable[[Ledger], object]
) -> None:
    """Values outside of their domains, mistyped keywords, other relations, what no budget pays for:
    in words, before a charge.
    """
    ledger = made(acc.Budget(epsilon=1.0))
    with pytest.raises(error, match=words):
        call(ledger)
    assert all(entry.action == "reserve" for entry in ledger.entries("clicks"))
    assert ledger.verify().ok


def test_a_refusal_says_what_would_fit(ledger: Ledger) -> None:
    """BudgetExceeded carries the price asked for, what is spent and left and how many runs would
    fit; `check` raises it too.
    """
    ledger.check("clicks", HALF, relation="add_remove", count=2)
    ledger.charge("clicks", HALF, relation="add_remove")
    for call in (ledger.check, ledger.charge):
        with pytest.raises(acc.BudgetExceeded) as refused:
            call("clicks", acc.PureDP(epsilon=0.2), relation="add_remove", count=5)
        error = refused.value
        assert (error.requested.main, error.spent.main, error.would_fit) == (UNITS, UNITS // 2, 2)
        assert error.remaining is not None
        assert error.remaining.main == 0.5
    assert len(list(ledger.entries("clicks"))) == 1


def test_a_key_pays_for_one_charge(ledger: Ledger) -> None:
    """The same charge again needs no room, in a check neither; another under its key is refused for
    the key, with the option.

    A later version of the mechanism writes a new field: the key finds what it has paid for, but for
    another job's draw.
    """
    voided(ledger)
    with pytest.raises(KeyConflict, match=r"voided.*another key="):
        ledger.reserve("clicks", TENTH, relation="add_remove", key="plan")
    first = ledger.charge(
        "clicks", Described('{"kind": "toy", "k": 3, "binding": "a"}'), key="job 7"
    )
    ledger.charge("clicks", HALF, relation="add_remove")
    for call in (ledger.check, ledger.charge):
        again = call(
            "clicks",
            Described('{"kind": "toy", "k": 3, "ties": "random", "binding": "a"}'),
            key="job 7",
        )
        for other in ('{"kind": "toy", "k": 3, "binding": "b"}', '{"kind": "toy", "k": 3}'):
            with pytest.raises(KeyConflict, match=r"job 7.*different charge.*another key="):
                call("clicks", Described(other), key="job 7")
        with pytest.raises(acc.BudgetExceeded):
            call("clicks", HALF, relation="add_remove", key="other")
    assert again is not None
    assert (again.replayed, again.entries) == (True, first.entries)


def test_a_mechanism_is_stored_as_provenance(url: str) -> None:
    """A mechanism's JSON, relation and curve go into the entry, with who, where, when and with
    which version.
    """
    now = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    with Ledger.open(url, clock=lambda: now) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove", unit="teacher")
        entry = ledger.charge(
            "clicks", Described('{"kind": "toy", "k": 3}'), label="week 1", actor="ada", salt="s1"
        ).entries[0]
    assert (entry.mechanism, entry.salt) == ('{"kind": "toy", "k": 3}', "s1")
    assert acc.Curve.from_json(entry.curve or "") == HALF
    assert (entry.actor, entry.label) == ("ada", "week 1")
    assert entry.at == "2024-05-06T07:08:09.000000+00:00"
    assert entry.host
    assert entry.package


def test_a_clock_beyond_its_end_is_an_error_with_a_remedy(sqlite_url: str) -> None:
    """The last moment of the calendar, elsewhere on earth or a day before, is refused by name and
    charges nothing.
    """
    now = datetime(2024, 1, 1, tzinfo=UTC)
    with Ledger.open(sqlite_url, clock=lambda: now) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        now = datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-12)))
        with pytest.raises(InvalidEntry, match="9999"):
            ledger.charge("clicks", TENTH, relation="add_remove")
        now = datetime(9999, 12, 31, tzinfo=UTC)
        with pytest.raises(InvalidEntry, match="9999"):
            ledger.reserve("clicks", TENTH, relation="add_remove", expires_in=100_000.0)


@pytest.mark.parametrize(
    "budget",
    [
        acc.Budget(rho=0.5, delta=1e-9),
        acc.Budget(epsilon=1.0, delta=1e-6, order="inf"),
        acc.Budget(epsilon=1.0, delta=1e-6, order="gaussian"),
        acc.Budget(epsilon=1.0, delta=1e-6, release=acc.GaussianDP(mu=0.05)),
    ],
    ids=str,
)
def test_every_form_of_budget_survives_the_store(
    made: Made, sqlite_url: str, budget: acc.Budget
) -> None:
    """A budget comes back equal, its filter's order included, so a later version cannot choose
    another one, and verifies.
    """
    made(budget).charge(
        "clicks", TENTH if budget.release is None else budget.release, relation="add_remove"
    )
    with Ledger.open(sqlite_url) as ledger:
        assert ledger.dataset("clicks").budget == budget
        assert ledger.verify().ok


def test_rows_have_one_budget(made_on_either: Made) -> None:
    """What was charged to one dataset is refused to another, by a check before anything is read
    too, and the first goes on.
    """
    made_on_either(acc.Budget(epsilon=1.0), "first")
    ledger = made_on_either(acc.Budget(epsilon=1.0), "second")
    ledger.check("second", TENTH, relation="add_remove", fingerprint="rows")  # which claims nothing
    ledger.charge("first", TENTH, relation="add_remove", fingerprint="rows")
    for call in (ledger.check, ledger.charge, ledger.reserve):
        with pytest.raises(SharedRows, match=r"not to dataset='second'.*one budget"):
            call("second", TENTH, relation="add_remove", fingerprint="rows")
    ledger.check("first", TENTH, relation="add_remove", fingerprint="rows")
    assert ledger.verify().ok


def test_clocks_apart_do_not_break_order(sqlite_url: str) -> None:
    """Two hosts whose clocks are a year apart append to one chain: entries are ordered by number,
    and all of it verifies.
    """
    now = datetime(2024, 1, 1, tzinfo=UTC)
    hosts = [
        Ledger.open(sqlite_url, clock=lambda hour=hour: now + timedelta(hours=hour))
        for hour in (0, -8760)
    ]  # type: ignore[misc]
    hosts[0].create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
    for number in range(4):
        hosts[number % 2].charge("clicks", TENTH, relation="add_remove")
    entries = list(hosts[0].entries("clicks"))
    assert [(entry.seq, entry.spent_main) for entry in entries] == [
        (n, n * UNITS // 10) for n in range(1, 5)
    ]
    assert [entry.at for entry in entries] != sorted(entry.at for entry in entries)
    assert hosts[1].verify().ok


@pytest.mark.parametrize(
    "curve", [acc.PureDP(epsilon=1e308), acc.PureDP(epsilon=5e-324), acc.ZCDP(rho=1e-300)], ids=str
)
def test_extreme_curves_are_charged_or_refused(made_on_either: Made, curve: acc.Curve) -> None:
    """Whatever a float can hold is priced upwards or refused: nothing is free, and nothing
    overflows the store.
    """
    ledger = made_on_either(acc.Budget(epsilon=1e300))
    for count in (1, 10**12):
        try:
            assert (
                0
                < ledger.charge("clicks", curve, relation="add_remove", count=count).cost.main
                < 2**63
            )
        except (acc.errors.InvalidBudget, acc.BudgetExceeded):
            assert isinstance(curve, acc.ZCDP) or curve.core_epsilon > 1
    assert ledger.verify().ok
