"""What the ledger is made of: declarations, entries, and what a charge gives back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from accounting.ledger import canonical
from accounting.ledger.windows import Window
from accounting.relation import Relation
from accounting.spending.budget import Budget, Price, Remaining
from accounting.spending.equivalent import Equivalent, equivalent

Action = Literal["charge", "reserve", "commit", "release", "void", "quota"]
State = Literal["reserved", "committed", "released", "void"]

ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True)
class Dataset:
    """A dataset's declaration. It never changes; its hash starts the chain of the dataset's entries.

    Attributes:
        unit: who or what is protected, in words: the `relation` is about one such unit.
        budget: what may be spent, on each period of `window`.
        window: which rows share a budget: all of them ("whole"), or those of a year, quarter, month, week or day.
        data_period: which rows the dataset holds, in words.
        uid: random, so that a dataset that is declared anew starts another chain.
    """

    name: str
    relation: Relation
    unit: str
    budget: Budget
    window: Window
    data_period: str | None
    actor: str
    host: str
    at: str
    package: str
    uid: str

    def declaration(self) -> str:
        """Canonical JSON of all of it; the budget is text in it, for its numbers are floats."""
        return canonical.dumps(asdict(self) | {"budget": self.budget.model_dump_json()})

    @property
    def genesis(self) -> str:
        """The hash that the first entry follows."""
        return canonical.digest(self.declaration())


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `main` and `failure` are what it adds to the period's sum, `spent_*` the sum after it.

    Units: 10^-12 nats of the budget's unit, and 10^-18 of failure probability. `label` of a void is its reason. `quota` is the
    JSON of a quota that is declared here, `expires` when a reservation lapses.
    """

    dataset: str
    seq: int
    period: str
    action: Action
    key: str
    curve: str | None
    mechanism: str | None
    count: int
    main: int
    failure: int
    spent_main: int
    spent_failure: int
    label: str | None
    actor: str
    host: str
    at: str
    package: str
    fingerprint: str | None
    salt: str | None
    prev: str
    hash: str
    team: str | None = None
    purpose: str | None = None
    expires: str | None = None
    quota: str | None = None

    def expected_hash(self) -> str:
        """The hash of everything else in the entry, its predecessor's hash included."""
        said = self.to_dict()
        del said["hash"]
        return canonical.digest(canonical.dumps(said))

    @property
    def price(self) -> Price:
        """What the entry adds to its period's sum."""
        return Price(self.main, self.failure)

    @property
    def spent(self) -> Price:
        """The period's sum after the entry."""
        return Price(self.spent_main, self.spent_failure)

    def to_dict(self) -> dict[str, Any]:
        """All fields, as they are hashed and exported: those of a later version only where they say something."""
        return {name: value for name, value in vars(self).items() if value is not None or name not in LATER}


ENTRY_FIELDS = tuple(field.name for field in fields(Entry))
# Fields that entries of schema versions 1 and 2 have not: left out where they are None, so that old hashes stay what they are.
LATER = ("team", "purpose", "expires", "quota")


@dataclass(frozen=True)
class Receipt:
    """What a charge gives back: its entries (one per period), and whether an earlier call had made them.

    `replayed` True means that this call charged nothing, because its key had been used before.
    """

    dataset: str
    key: str
    state: State
    entries: tuple[Entry, ...]
    replayed: bool

    @property
    def seq(self) -> int:
        """Number of the first entry."""
        return self.entries[0].seq

    @property
    def price(self) -> Price:
        """What was charged to each period."""
        return self.entries[0].price


@dataclass(frozen=True)
class Total:
    """Where one period of a dataset stands; `period` is "" where one budget covers all rows.

    `quota` names the quota whose account this is, `period` then says which, in words; "" for the dataset's own budget.
    """

    dataset: str
    period: str
    budget: Budget
    spent: Price
    quota: str = ""

    @property
    def remaining(self) -> Remaining:
        """What is left: nats of the budget's unit, and failure probability."""
        return self.budget.remaining(self.spent)

    @property
    def equivalent(self) -> Equivalent:
        """The same as epsilon at the dataset's delta, so far and left, and as GDP mu."""
        return equivalent(self.budget, self.spent)
