"""Any sequence of operations, against a model that fits on a page."""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

import accounting as acc
from accounting.budget.budget import Price
from accounting.budget.price import BudgetExceeded
from accounting.errors import RelationMismatch
from accounting.ledger import (
    DatasetExists,
    InvalidEntry,
    InvalidTransition,
    KeyConflict,
    Ledger,
    SharedRows,
    UnknownDataset,
)

NAMES = st.sampled_from(["clicks", "visits", "visits", "Robert'); DROP TABLE dpledger_entries;--", "données 数据 🧪", "visits"])
KEYS = st.sampled_from(["a", "b", "c", "d", "e", "f", "' OR 1=1", "ключ"])
COSTS = st.sampled_from([0.1, 0.25, 0.3, 0.5, 0.7, 1e-12, 2.0, 0.0])
COUNTS = st.integers(1, 4)
PERIODS = st.sampled_from([("2024-01",), ("2024-02",), ("2024-01", "2024-02")])
ROWS = st.sampled_from([None, None, "rows 1", "rows 2"])
WINDOWED = "visits"
CAP = 10**12


class Machine(RuleBasedStateMachine):
    """The model: per dataset the spent units of each period, per key what was asked and the state."""

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="dpledger-model-", dir=memory if memory.exists() else None))
        self.url = f"sqlite:///{self.folder / 'privacy.db'}"
        self.ledger = Ledger.open(self.url)
        self.spent: dict[str, dict[str, int]] = {}
        self.charges: dict[tuple[str, str], dict[str, Any]] = {}
        self.claims: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.entries: dict[str, int] = {}
        self.heads = self.ledger.heads()

    def teardown(self) -> None:
        self.ledger.close()
        shutil.rmtree(self.folder)

    @initialize()
    def start(self) -> None:
        """One dataset of either sort is there from the start."""
        self.declare("clicks")
        self.declare(WINDOWED)

    @rule(name=NAMES)
    def declare(self, name: str) -> None:
        """Declaring twice is refused."""
        window = "month" if name == WINDOWED else "whole"
        arguments = (name, acc.Budget(epsilon=1.0), "add_remove")
        if name in self.spent:
            self._refused(DatasetExists, self.ledger.create_dataset, *arguments, window=window)
        else:
            self.ledger.create_dataset(*arguments, window=window)  # type: ignore[arg-type]
            self.spent[name], self.entries[name] = {}, 0

    @rule(name=NAMES, key=KEYS, cost=COSTS, count=COUNTS, periods=PERIODS, rows=ROWS, reserve=st.booleans(), wrong=st.booleans())
    def charge(
        self, name: str, key: str, cost: float, count: int, periods: tuple[str, ...], rows: str | None, reserve: bool, wrong: bool
    ) -> None:
        """A charge is refused for the first reason that holds, and otherwise made once."""
        call = self.ledger.reserve if reserve else self.ledger.charge
        accounts = periods if name == WINDOWED else ("",)
        relation = "replace_one" if wrong and cost == 0.3 else "add_remove"
        terms: dict[str, Any] = {"count": count, "key": key, "fingerprint": rows, "relation": relation}
        terms["period"] = periods if name == WINDOWED else None
        item = acc.PureDP(epsilon=cost)
        asked = (reserve, cost, count, accounts, relation)
        known = self.charges.get((name, key))
        several = len(accounts) > 1
        units = round(cost * 10**12) * count * (2 if several and relation == "add_remove" else 1)  # an exchange is two changes
        if name not in self.spent:
            self._refused(UnknownDataset, call, name, item, **terms)
        elif relation == "replace_one" and len(accounts) == 1:
            self._refused(RelationMismatch, call, name, item, **terms)
        elif known is not None and (known["asked"] != asked or known["state"] == "void"):
            self._refused(KeyConflict, call, name, item, **terms)
        elif known is not None:
            receipt = call(name, item, **terms)
            assert receipt.replayed
            assert receipt.state == known["state"]
        elif any(self.spent[name].get(account, 0) + units > CAP for account in accounts):
            self._refused(BudgetExceeded, call, name, item, **terms)
        elif rows is not None and self.claims.get(rows, (name, accounts)) != (name, accounts):
            self._refused(SharedRows, call, name, item, **terms)
        else:
            receipt = call(name, item, **terms)
            assert (receipt.replayed, receipt.price) == (False, Price(units, 0))
            for account in accounts:
                self.spent[name][account] = self.spent[name].get(account, 0) + units
            if rows is not None:
                self.claims[rows] = (name, accounts)
            self.charges[name, key] = {"asked": asked, "state": "reserved" if reserve else "committed", "units": units}
            self.entries[name] += len(accounts)

    @rule(name=NAMES, key=KEYS, action=st.sampled_from(["commit", "release", "void"]))
    def follow(self, name: str, key: str, action: str) -> None:
        """A step follows the state it needs, is taken once, and is refused otherwise."""
        extra = {"actor": "ada", "reason": "fuzz"} if action == "void" else {}
        call = getattr(self.ledger, action)
        known = self.charges.get((name, key))
        needs, leads = {"commit": ("reserved", "committed"), "release": ("committed", "released"), "void": ("reserved", "void")}[
            action
        ]
        if name not in self.spent:
            self._refused(UnknownDataset, call, name, key, **extra)
        elif known is None or (known["state"] != needs and not self._done(known, action)):
            self._refused(InvalidTransition, call, name, key, **extra)
        elif self._done(known, action):
            assert call(name, key, **extra).replayed
        else:
            assert call(name, key, **extra).state == leads
            known["state"] = leads
            known.setdefault("steps", set()).add(action)
            self.entries[name] += len(known["asked"][3])
            if action == "void":
                for account in known["asked"][3]:
                    self.spent[name][account] -= known["units"]

    @rule(name=st.text(max_size=5), key=st.text(max_size=5), label=st.text(max_size=20))
    def text(self, name: str, key: str, label: str) -> None:
        """Any text is stored as it is or refused; nothing else happens."""
        before = self.entries["clicks"]
        try:
            receipt = self.ledger.charge("clicks", acc.PureDP(epsilon=0.0), relation="add_remove", key=f"text {key}", label=label)
        except InvalidEntry:
            pass
        else:
            self.entries["clicks"] += 0 if receipt.replayed else 1
            self.spent["clicks"].setdefault("", 0)
            stored = self.ledger.find("clicks", f"text {key}")
            assert stored is not None
            assert receipt.replayed or stored.entries[0].label == label
        assert self.entries["clicks"] - before in (0, 1)
        if name not in self.spent:
            self._refused((UnknownDataset, InvalidEntry), self.ledger.total, name)

    @rule()
    def reopen(self) -> None:
        """Closing and opening changes nothing."""
        self.ledger.close()
        self.ledger = Ledger.open(self.url, create=False)

    @rule()
    def round_trip(self) -> None:
        """An export imports into an equal ledger, which takes the place of the first."""
        text = io.StringIO()
        heads = self.ledger.export(text)
        text.seek(0)
        copy = Ledger.open(f"sqlite:///{self.folder / 'copy.db'}")
        assert copy.import_(text) == sum(self.entries.values())
        assert copy.heads().datasets == heads.datasets
        copy.close()
        (self.folder / "copy.db").replace(self.folder / "privacy.db")

    @precondition(lambda self: self.spent)
    @invariant()
    def agrees(self) -> None:
        """Totals, numbers of entries and states are the model's; the ledger verifies against every earlier head."""
        for name, periods in self.spent.items():
            totals = {total.period: total.spent.main for total in self.ledger.totals(name)}
            assert totals == periods
            assert all(0 <= value <= CAP for value in totals.values())
            assert len(list(self.ledger.entries(name))) == self.entries[name]
        found = self.ledger.verify(self.heads)
        assert found.ok, found.problems
        self.heads = self.ledger.heads()

    def _done(self, known: dict[str, Any], action: str) -> bool:
        return action in known.get("steps", set())

    def _refused(self, error: Any, call: Any, *arguments: Any, **keywords: Any) -> None:
        try:
            call(*arguments, **keywords)
        except error:
            return
        raise AssertionError(f"{call.__name__} was to raise {error}")


@pytest.mark.parametrize("examples", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_any_sequence_of_operations(examples: int) -> None:
    """Any sequence of operations leaves the ledger as the model says, or raises what the model says."""
    asked = settings(max_examples=examples, stateful_step_count=25, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Machine, settings=asked)
