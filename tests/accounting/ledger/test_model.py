"""Any sequence of operations on the whole ledger, on either store, against a model that adds
everything up anew.

`pytest tests/accounting/ledger/test_model.py --explore-for 60` lets Hypothesis explore for sixty
minutes with fresh seeds. What it finds is printed as the shortest program: a test of its own, with
the repair.
"""

from __future__ import annotations

import functools
import io
import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import accounting as acc
from accounting.cost import NOTHING, Cost
from accounting.errors import AccountingError, RelationMismatch
from accounting.group import group_privacy
from accounting.ledger import (
    ClaimConflict,
    DatasetExists,
    ImportRefused,
    InvalidEntry,
    InvalidTransition,
    KeyConflict,
    Ledger,
    Quota,
    SharedRows,
    UnknownDataset,
)
from accounting.ledger.book import state_of
from accounting.refusals import BudgetExceeded

PURE, APPROXIMATE = acc.Budget(epsilon=1.0), acc.Budget(epsilon=1.0, delta=1e-6)
# Two names of each sort: what they share, keys above all, must not mix them up.
SORTS = {
    "clicks": ("whole", PURE),
    "visits": ("month", PURE),
    "Robert'); DROP TABLE dpledger_entries;--": ("whole", APPROXIMATE),
    "données 数据 🧪": ("month", APPROXIMATE),
}
QUOTAS = [
    Quota(name="each team", limit=acc.Budget(epsilon=0.5), by="team"),
    Quota(name="ada", limit=acc.Budget(epsilon=0.6, delta=4e-7), by="actor", of="ada"),
    Quota(name="everybody", limit=acc.Budget(epsilon=0.9)),
    Quota(name="everybody", limit=acc.Budget(epsilon=0.7, delta=6e-7)),
    Quota(name="two months", limit=acc.Budget(epsilon=1.0), rolling=2),
    Quota(name="a year", limit=acc.Budget(epsilon=1.2, delta=2e-6), window="year"),
]
KEYS = ["a", "b", "c", "d", "' OR 1=1", "ключ"]
MONTHS = [["2024-01"], ["2024-02"], ["2024-01", "2024-02"]]


@dataclass
class Request:
    """What one charge asks for."""

    key: str
    epsilon: float
    delta: float
    count: int
    months: list[str]
    rows: str | None
    team: str | None
    actor: str
    relation: Any
    reserve: bool = False
    expires: int | None = None

    @property
    def curve(self) -> acc.Curve:
        """Of one run."""
        return (
            acc.ApproxDP(epsilon=self.epsilon, delta=self.delta)
            if self.delta
            else acc.PureDP(epsilon=self.epsilon)
        )

    def terms(self, window: str) -> dict[str, Any]:
        """The keywords of the ledger's method."""
        said = {
            "count": self.count,
            "key": self.key,
            "relation": self.relation,
            "fingerprint": self.rows,
        }
        return said | {
            "team": self.team,
            "actor": self.actor,
            "period": self.months if window == "month" else None,
        }


@dataclass(frozen=True)
class Charged:
    """A charge of the model."""

    asked: Request
    curve: acc.Curve
    periods: tuple[str, ...]
    across: str | None
    expires: datetime | None
    state: str
    steps: tuple[str, ...] = ()
    ran: acc.Curve | None = None

    @property
    def whole(self) -> acc.Curve:
        """All runs."""
        return self.asked.count * self.curve

    def left_in(self, limit: acc.Budget) -> Cost:
        """What it still holds of an account with this limit."""
        if self.state == "void":
            return NOTHING
        price = limit.filter_cost(self.whole)
        return (
            price if self.ran is None else price.plus(limit.refund(self.whole, self.ran).times(-1))
        )


@dataclass
class Kept:
    """A dataset of the model: nothing is added up until it is asked for."""

    window: str
    budget: acc.Budget
    charges: dict[str, Charged] = field(default_factory=dict)
    quotas: dict[str, Quota] = field(default_factory=dict)
    entries: int = 0

    def spent(self, period: str) -> Cost:
        """What a period has paid."""
        return _sum(
            one.left_in(self.budget) for one in self.charges.values() if period in one.periods
        )

    def accounts(
        self, quota: Quota, periods: tuple[str, ...], who: Request
    ) -> set[tuple[str | None, str]]:
        """Whose and which rows' accounts of a quota a charge counts to."""
        name = {None: "", "actor": who.actor, "team": who.team}[quota.by]
        if quota.of is not None and name != quota.of:
            return set()
        # two months: the stretch that begins here, and the one before
        if quota.rolling is not None:
            return {
                (name, f"{month - back}")
                for month in (int(p[-2:]) for p in periods)
                for back in (0, 1)
            }
        return {(name, period[:4] if quota.window == "year" else "") for period in periods}

    def standing(self, quota: Quota) -> dict[tuple[str | None, str], Cost]:
        """Every account of a quota."""
        assert quota.limit is not None
        found: dict[tuple[str | None, str], Cost] = {}
        for one in self.charges.values():
            for place in self.accounts(quota, one.periods, one.asked):
                found[place] = found.get(place, NOTHING).plus(one.left_in(quota.limit))
        return found


def _sum(prices: Iterator[Cost]) -> Cost:
    return functools.reduce(Cost.plus, prices, NOTHING)


class Model:
    """What the ledger should hold, and why it should refuse."""

    def __init__(self) -> None:
        self.datasets: dict[str, Kept] = {}
        self.rows: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.now = datetime(2024, 1, 1, tzinfo=UTC)

    def of(self, name: str) -> Kept:
        """A dataset."""
        if name not in self.datasets:
            raise UnknownDataset(name)
        return self.datasets[name]

    def declare(self, name: str) -> None:
        """Once."""
        if name in self.datasets:
            raise DatasetExists(name)
        self.datasets[name] = Kept(*SORTS[name])

    def charge_all(self, name: str, asked: list[Request]) -> list[tuple[str, bool]]:
        """All or none; what finds no room is tried again once what lapsed is void. Returns states
        and whether they were known.
        """
        if len({one.key for one in asked}) < len(asked):
            raise KeyConflict("twice")
        kept = self.of(name)
        try:
            return self._batch(name, kept, asked)
        except BudgetExceeded:
            if not self.expire(name):
                raise
        return self._batch(name, kept, asked)

    def _batch(self, name: str, kept: Kept, asked: list[Request]) -> list[tuple[str, bool]]:
        before = dict(kept.charges), kept.entries, dict(self.rows)
        try:
            return [self._charge(name, kept, one) for one in asked]
        except AccountingError:
            kept.charges, kept.entries, self.rows = before
            raise

    def _charge(self, name: str, kept: Kept, asked: Request) -> tuple[str, bool]:
        periods, curve, across = (
            tuple(asked.months) if kept.window == "month" else ("",),
            asked.curve,
            None,
        )
        if len(periods) > 1:
            across = "exchange" if asked.relation == "replace_one" else "two_changes"
            curve = curve if across == "exchange" else group_privacy(curve, 2)
        elif asked.relation == "replace_one":
            raise RelationMismatch("one period")
        if asked.key in kept.charges:
            known = kept.charges[asked.key]
            was = known.asked.reserve, known.asked.count, known.periods, known.across, known.curve
            if known.state == "void" or was != (
                *(asked.reserve, asked.count, periods, across, curve),
            ):
                raise KeyConflict(asked.key)
            return known.state, True
        expires = None if asked.expires is None else self.now + timedelta(seconds=asked.expires)
        state = "reserved" if asked.reserve else "committed"
        new = Charged(asked, curve, periods, across, expires, state)
        self._require_room(kept, new)
        if asked.rows is not None and self.rows.setdefault(asked.rows, (name, periods)) != (
            name,
            periods,
        ):
            raise SharedRows(asked.rows)
        kept.charges[asked.key] = new
        kept.entries += len(periods)
        return new.state, False

    def _require_room(self, kept: Kept, new: Charged) -> None:
        price = kept.budget.filter_cost(new.whole)
        for period in new.periods:
            _require_fit(kept.budget, kept.spent(period).plus(price))
        for quota in kept.quotas.values():
            if quota.limit is None:
                continue
            if quota.by == "team" and new.asked.team is None:
                raise InvalidEntry("whose")
            for place in sorted(kept.accounts(quota, new.periods, new.asked), key=str):
                due = quota.limit.filter_cost(new.whole)
                _require_fit(quota.limit, kept.standing(quota).get(place, NOTHING).plus(due))

    def follow(
        self, name: str, key: str, action: str, claim: str | None, rounds: int | None
    ) -> tuple[str, bool]:
        """The next state, and whether it was taken before."""
        kept = self.of(name)
        known = kept.charges.get(key)
        if known is None or (action == "commit" and known.ran is not None):
            raise InvalidTransition(key)
        ran = (
            None if rounds is None or known.across == "two_changes" else rounds * known.asked.curve
        )
        if action in known.steps:
            if action == "release" and claim is not None and f"as {claim}" not in known.steps:
                raise ClaimConflict(key)
            if ran is not None and (known.ran is None or ran.to_json() != known.ran.to_json()):
                raise ClaimConflict(key)
            return known.state, True
        needs = {"commit": "reserved", "release": "committed", "void": "reserved"}[action]
        if known.state != needs or (
            action == "commit" and known.expires is not None and known.expires <= self.now
        ):
            raise InvalidTransition(key)
        if ran is not None and not known.asked.reserve:
            raise InvalidTransition("not reserved")
        count = known.asked.count
        part = ran is None or rounds == count or (rounds < count and not known.asked.delta)  # type: ignore[operator]
        if not part:
            raise InvalidEntry("not made of what was reserved")
        state = {"commit": "committed", "release": "released", "void": "void"}[action]
        steps = (*known.steps, action, *([f"as {claim}"] if action == "release" else []))
        kept.charges[key] = replace(known, state=state, steps=steps, ran=ran)
        kept.entries += len(known.periods)
        return state, False

    def expire(self, name: str) -> list[str]:
        """Void what lapsed."""
        kept = self.of(name)
        late = [
            k
            for k, c in kept.charges.items()
            if c.state == "reserved" and c.expires is not None and c.expires <= self.now
        ]
        for key in late:
            self.follow(name, key, "void", None, None)
        return late

    def limit(self, name: str, quota: Quota) -> None:
        """Declare a quota, or withdraw one."""
        kept = self.of(name)
        if kept.window == "whole" and (quota.rolling is not None or quota.window != "whole"):
            raise InvalidEntry("no periods")
        if kept.quotas.get(quota.name) == quota:
            return
        if quota.limit is not None:
            try:
                kept.standing(quota)
            except acc.errors.Unaffordable:
                raise InvalidEntry("cannot be counted") from None
        kept.quotas.pop(quota.name, None)
        kept.quotas[quota.name] = quota
        kept.entries += 1


def _require_fit(limit: acc.Budget, spent: Cost) -> None:
    if spent.main > limit.capacity.main or spent.failure > limit.capacity.failure:
        raise BudgetExceeded(
            "",
            requested=spent,
            spent=spent,
            remaining=acc.remaining.Remaining(limit, NOTHING),
            would_fit=0,
        )


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the class of what it raises."""
    try:
        return call()
    except AccountingError as error:
        return type(error)


def step(**strategies: Any) -> Callable[[Callable[..., None]], Any]:
    """A rule that is counted, and whose dataset is looked at when it was taken."""

    def decorate(method: Callable[..., None]) -> Any:
        @functools.wraps(method)
        def taken(self: Machine, **given: Any) -> None:
            self.taken, self.named, self.sound = self.taken + 1, given.get("name", "clicks"), False
            method(self, **given)

        return rule(**strategies)(taken)

    return decorate


NAMES = st.sampled_from(["clicks", "visits", *SORTS])
TERMS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(KEYS),
        "epsilon": st.sampled_from([0.1, 0.25, 0.3, 0.5, 1e-12, 2.0, 0.0]),
        "delta": st.sampled_from([0.0, 0.0, 1e-9, 3e-7]),
        "count": st.integers(1, 4),
        "months": st.sampled_from(MONTHS),
        "rows": st.sampled_from([None, None, "rows 1", "rows 2"]),
        "team": st.sampled_from([None, "red", "red", "blue"]),
        "actor": st.sampled_from(["ada", "bob"]),
        "relation": st.sampled_from(["add_remove", "add_remove", "add_remove", "replace_one"]),
    }
)


class Machine(RuleBasedStateMachine):
    """The ledger beside its model. A subclass names the stores, by functions that give a new one's
    URL.
    """

    stores: ClassVar[dict[str, Callable[[], str]]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.model, self.taken = Model(), 0
        self.url = next(iter(self.stores.values()))()
        self.ledger = Ledger.open(self.url, clock=lambda: self.model.now)
        self.heads = self.ledger.heads()
        self.named, self.sound = "clicks", False

    def teardown(self) -> None:
        """The end, which another failure is not hidden by."""
        try:
            if self.sound:
                self.all_agree()
        finally:
            self.ledger.close()

    @initialize()
    def start(self) -> None:
        """One dataset of either sort is there from the start."""
        for name in ("clicks", "visits"):
            self.model.declare(name)
            self._declare(name)

    def _declare(self, name: str) -> None:
        window, budget = SORTS[name]
        self.ledger.create_dataset(name, budget, "add_remove", window=window)  # type: ignore[arg-type]

    @step(name=NAMES)
    def declare(self, name: str) -> None:
        """A dataset, once."""
        self._agree(lambda: self.model.declare(name), lambda: self._declare(name))

    @step(
        name=NAMES,
        terms=TERMS,
        expires=st.sampled_from([None, None, 60, 3600]),
        reserve=st.booleans(),
    )
    def charge(self, name: str, terms: dict[str, Any], reserve: bool, expires: int | None) -> None:
        """A charge or reservation is refused for the first reason that holds, and otherwise made
        once.
        """
        asked = Request(**terms, reserve=reserve, expires=expires if reserve else None)

        def call() -> list[tuple[str, bool]]:
            keywords = asked.terms(SORTS[name][0])
            if reserve:
                receipt = self.ledger.reserve(name, asked.curve, expires_in=expires, **keywords)
            else:
                receipt = self.ledger.charge(name, asked.curve, **keywords)
            return [(receipt.state, receipt.replayed)]

        self._agree(lambda: self.model.charge_all(name, [asked]), call)

    @step(name=NAMES, several=st.lists(TERMS, min_size=2, max_size=3))
    def batch(self, name: str, several: list[dict[str, Any]]) -> None:
        """Several charges are made together, or none is."""
        asked = [Request(**terms) for terms in several]

        def call() -> list[tuple[str, bool]]:
            pairs = [(one.curve, one.terms(SORTS[name][0])) for one in asked]
            return [
                (receipt.state, receipt.replayed) for receipt in self.ledger.charge_all(name, pairs)
            ]  # type: ignore[arg-type]

        self._agree(lambda: self.model.charge_all(name, asked), call)

    @step(
        name=NAMES,
        key=st.sampled_from(KEYS),
        action=st.sampled_from(["commit", "release", "release", "void"]),
        claim=st.sampled_from([None, None, "one", "two"]),
        rounds=st.sampled_from([None, None, 1, 2]),
    )
    def follow(
        self, name: str, key: str, action: str, claim: str | None, rounds: int | None
    ) -> None:
        """A step follows the state it needs, is taken once, and gives back what did not run."""
        known = self.model.datasets[name].charges.get(key) if name in self.model.datasets else None
        rounds = rounds if action == "release" and known is not None else None
        claim = claim if action == "release" else None
        extra: dict[str, Any] = {"actor": "ada", "reason": "fuzz"} if action == "void" else {}
        if action == "release":
            extra = {
                "claim": claim,
                "spent": rounds * known.asked.curve if known is not None and rounds else None,
            }

        def call() -> tuple[str, bool]:
            receipt = getattr(self.ledger, action)(name, key, **extra)
            return receipt.state, receipt.replayed

        self._agree(lambda: self.model.follow(name, key, action, claim, rounds), call)

    @step(name=NAMES, seconds=st.sampled_from([30, 60, 3600]), ask=st.booleans())
    def wait(self, name: str, seconds: int, ask: bool) -> None:
        """Time passes, and somebody may ask for what has lapsed."""
        self.model.now += timedelta(seconds=seconds)
        if ask:
            ours = outcome(lambda: sorted(self.model.expire(name)))
            assert outcome(lambda: sorted(one.key for one in self.ledger.expire(name))) == ours

    @step(
        name=NAMES,
        number=st.integers(0, len(QUOTAS) - 1),
        withdrawn=st.sampled_from([False, False, True]),
    )
    def limit(self, name: str, number: int, withdrawn: bool) -> None:
        """A quota counts what was charged before; declaring it again replaces it."""
        quota = QUOTAS[number]
        if withdrawn:
            known = self.model.datasets.get(name)
            current = None if known is None else known.quotas.get(quota.name)
            if current is None or current.limit is None:
                refused = outcome(lambda: self.ledger.quotas(name).withdraw(quota.name))
                assert refused is (UnknownDataset if known is None else InvalidEntry)
                return
            quota = current.model_copy(update={"limit": None})

        def call() -> None:
            self.ledger.quotas(name).declare(quota)

        self._agree(lambda: self.model.limit(name, quota), call)

    @step(key=st.text(max_size=5), label=st.text(max_size=20))
    def text(self, key: str, label: str) -> None:
        """Any text is stored as it is, or refused; nothing else happens."""
        terms: Any = {"relation": "add_remove", "key": f"text {key}", "label": label, "team": "red"}
        if isinstance(
            outcome(lambda: self.ledger.check("clicks", acc.PureDP(epsilon=0.0), **terms)), type
        ):
            return
        receipt = outcome(lambda: self.ledger.charge("clicks", acc.PureDP(epsilon=0.0), **terms))
        if not isinstance(receipt, type) and not receipt.replayed:
            stored = self.ledger.find("clicks", f"text {key}")
            assert stored is not None
            assert stored.entries[0].label == label
            actor = stored.entries[0].actor
            asked = Request(f"text {key}", 0.0, 0.0, 1, [], None, "red", actor, "add_remove")
            assert self.model.charge_all("clicks", [asked]) == [("committed", False)]

    @step()
    def reopen(self) -> None:
        """Closing and opening changes nothing."""
        self.ledger.close()
        self.ledger = Ledger.open(self.url, create=False, clock=lambda: self.model.now)

    @step(place=st.integers(0, 7))
    def move(self, place: int) -> None:
        """An export, whole, is refused where its datasets are, and makes an equal ledger on either
        store, which goes on.
        """
        text = io.StringIO()
        heads = self.ledger.export(text)
        assert outcome(lambda: self.ledger.import_(io.StringIO(text.getvalue()))) is ImportRefused
        url = list(self.stores.values())[place % len(self.stores)]()
        copy = Ledger.open(url, clock=lambda: self.model.now)
        assert copy.import_(io.StringIO(text.getvalue())) == sum(
            kept.entries for kept in self.model.datasets.values()
        )
        assert copy.heads().datasets == heads.datasets
        self.ledger.close()
        self.url, self.ledger = url, copy

    @invariant()
    def agrees(self) -> None:
        """What the last step named is as the model says; every fifth time, and at the end, so is
        all else.
        """
        self._require_equal(self.named)
        if self.taken % 5 == 0:
            self.all_agree()
        self.sound = True

    def all_agree(self) -> None:
        """Every dataset is the model's, and the ledger verifies against its earlier heads."""
        for name in self.model.datasets:
            self._require_equal(name)
        verified = self.ledger.verify(self.heads)
        assert verified.ok, verified.problems
        self.heads = self.ledger.heads()

    def _require_equal(self, name: str) -> None:
        """Sums, accounts, states and the number of entries."""
        if name not in self.model.datasets:
            return
        kept, entries = self.model.datasets[name], list(self.ledger.entries(name))
        periods = {period for one in kept.charges.values() for period in one.periods}
        totals = {total.account: total.spent for total in self.ledger.totals(name)}
        assert totals == {period: kept.spent(period) for period in periods}
        assert len(entries) == kept.entries
        standing = sorted(
            (quota.name, left.spent) for quota, left in self.ledger.quotas(name).standing()
        )
        in_force = [quota for quota in kept.quotas.values() if quota.limit is not None]
        assert standing == sorted(
            (quota.name, spent) for quota in in_force for spent in kept.standing(quota).values()
        )
        states = {entry.key: state_of([entry]) for entry in entries if entry.action != "quota"}
        assert states == {key: one.state for key, one in kept.charges.items()}

    def _agree(self, expected: Callable[[], Any], call: Callable[[], Any]) -> None:
        due = outcome(expected)
        assert outcome(call) == due


def explore(machine: Any, minutes: float) -> None:
    """Look for sequences that fail, for so long; each round has a seed of its own."""
    end = time.monotonic() + 60 * minutes
    for number in itertools.count(random.SystemRandom().randrange(2**31)):
        run_state_machine_as_test(hypothesis.seed(number)(machine), settings=_settings(20, 50))
        if time.monotonic() > end:
            return


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )


def _on(stores: dict[str, Callable[[], str]]) -> type[Machine]:
    return type("Machine", (Machine,), {"stores": stores})


@pytest.fixture
def sqlite(folder: Path) -> Callable[[], str]:
    """A new SQLite file's URL, each time."""
    numbers = itertools.count()
    return lambda: f"sqlite:///{folder / str(next(numbers))}.db"


@pytest.fixture
def postgresql(new_ledger: Callable[[], str]) -> Callable[[], str]:
    """A new PostgreSQL ledger's URL, each time."""
    return new_ledger


@pytest.mark.timeout(0)
def test_any_sequence_of_operations(
    pytestconfig: pytest.Config, request: pytest.FixtureRequest, sqlite: Callable[[], str]
) -> None:
    """Any sequence of operations leaves the ledger as the model says, or raises what the model
    says; with --explore-for many.
    """
    if (minutes := pytestconfig.getoption("explore_for")) is not None:
        stores = {"sqlite": sqlite, "postgresql": request.getfixturevalue("postgresql")}
        explore(_on(stores), minutes)
    else:
        run_state_machine_as_test(_on({"sqlite": sqlite}), settings=_settings(5, 25))


@pytest.mark.slow
@pytest.mark.parametrize("first", ["sqlite", "postgresql"])
def test_more_sequences_on_either_store(
    first: str, sqlite: Callable[[], str], postgresql: Callable[[], str]
) -> None:
    """The same on both stores, which exchange what they hold."""
    both = {"sqlite": sqlite, "postgresql": postgresql}
    run_state_machine_as_test(_on({first: both[first], **both}), settings=_settings(6, 30))
