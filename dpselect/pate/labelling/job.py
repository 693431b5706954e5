"""A labelling job: rounds that are labelled batch by batch, each under a charge of its own; who pays, and what can go wrong.

Messages tell no vote and no label.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Annotated, ClassVar, Self, final

from pydantic import Field, model_validator

from accounting import Budget, BudgetExceeded, Composed, Curve, Ledger, Relation
from accounting.budget.budget import NOTHING, Price
from accounting.budget.price import FAILURE_UNIT, MAIN_UNIT
from accounting.budget.remaining import shortfall
from accounting.decimal_sum import float_up
from accounting.frozen import Count, Frozen
from accounting.ledger import Total
from accounting.registry import kind_of
from accounting.relation import same_relation
from dpselect.errors import DpSelectError, InvalidRequest
from dpselect.mechanisms.base import AnyMechanism, Mechanism
from dpselect.mechanisms.traits import Pay
from dpselect.pate.voting.confident_gnmax import ABSTAINED
from dpselect.selection import Selection

OWN_DATASET = "votes"


class VotesFileError(InvalidRequest):
    """A file that holds no votes in a form that is understood, or votes that cannot be labelled as asked."""


class JobConflict(InvalidRequest):
    """A job that exists was to be started, one that does not was to be resumed, or a resumed one differs from what was begun."""


class JobBusy(DpSelectError):
    """Another process is working on the job."""


class JobDamaged(DpSelectError):
    """Labels that were drawn are lost or damaged: they may have been seen, so they are not drawn again for the same charge."""


@final
class Job(Frozen):
    """What is labelled and how; public configuration. The mechanism knows all it needs, the number of teachers included.

    `pay="spent"` gives back what the labels of a batch did not use: the winners of rounds that abstained. Theorem F8.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    key: Annotated[str, Field(min_length=1, max_length=150)] = Field(description="1 to 150 characters")
    mechanism: AnyMechanism = Field(description="a Mechanism")
    rounds: Count = Field(description="an integer >= 1")
    batch_size: Count = Field(description="an integer >= 1")
    ledger: str = Field(description="the identity of a ledger")
    dataset: str = Field(description="the name of a dataset")
    period: str | None = Field(default=None, description="the name of a period, or None")
    salt: str = Field(default="", description="public text")
    pay: Pay = Field(default="curve", description="curve or spent")

    @model_validator(mode="after")
    def _has_such_a_price(self) -> Self:
        if self.pay == "spent" and not self.mechanism.pays_as_it_goes:
            raise ValueError(f"a round of {type(self.mechanism).__name__} costs the same whatever comes out: pay its curve")
        return self

    @property
    def batches(self) -> int:
        return -(-self.rounds // self.batch_size)

    @property
    def fingerprint(self) -> str:
        """Hash of all that is not at its default, to which a later version adds nothing: what is resumed is what was begun."""
        stated = {"kind": kind_of(type(self.mechanism)), **self.model_dump(mode="json", exclude_defaults=True)}
        return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()

    def rows(self, batch: int) -> slice:
        """The rounds of a batch."""
        return slice(batch * self.batch_size, min(self.rounds, (batch + 1) * self.batch_size))

    def size(self, batch: int) -> int:
        """How many rounds a batch has."""
        return min(self.batch_size, self.rounds - batch * self.batch_size)

    def charge_key(self, batch: int) -> str:
        """The ledger's idempotency key of a batch."""
        return f"{self.key}/{batch}"

    def spent(self, answered: list[bool]) -> Curve | None:
        """What rounds cost of which these were answered, where that is what is paid; None where each costs its curve."""
        if self.pay == "curve":
            return None
        rounds = {
            True: Selection(indices=(0,), ordered=True, requested=1),
            False: Selection(indices=(), ordered=True, requested=1, complete=False, reason=ABSTAINED),
        }
        return Composed.of([(answered.count(one), self.mechanism.spent(rounds[one])) for one in rounds])

    def item(self, batch: int, state: str) -> BatchItem:
        """What the ledger is charged for one round of a batch, for labels that are kept in the folder with identity `state`."""
        binding = hashlib.sha256(f"{self.fingerprint}/{state}/{batch}".encode()).hexdigest()[:32]
        return BatchItem(self.mechanism, batch, binding)


@dataclass(frozen=True)
class BatchItem:
    """A mechanism as a ledger is charged for one round of it, bound to one batch of one job in one folder.

    A ledger refuses another item under the same key: so a second folder cannot draw under the charges of the first.
    """

    mechanism: Mechanism
    batch: int
    binding: str

    @property
    def curve(self) -> Curve:
        return self.mechanism.curve

    @property
    def relation(self) -> Relation:
        return self.mechanism.relation

    def to_json(self) -> str:
        mechanism = json.loads(self.mechanism.to_json())
        return json.dumps({"kind": "pate_batch", "batch": self.batch, "binding": self.binding, "mechanism": mechanism})


@dataclass(frozen=True)
class Payer:
    """A dataset of a ledger, and the period of it."""

    ledger: Ledger
    dataset: str
    period: str | None = None

    @property
    def identity(self) -> str:
        return self.ledger.heads().ledger_id

    @property
    def total(self) -> Total:
        return self.ledger.total(self.dataset, self.period)

    def require_room(self, job: Job) -> None:
        """Check that every batch that was not charged yet can be paid, before the first is drawn; the next one of a job that
        pays for what came out, which nobody knows beforehand.
        """
        same_relation(self.ledger.dataset(self.dataset).relation, job.mechanism.relation)
        total = self.total
        open_batches = [b for b in range(job.batches) if self.ledger.find(self.dataset, job.charge_key(b)) is None]
        needed = price_of(total.budget, job, open_batches if job.pay == "curve" else open_batches[:1])
        if not total.budget.fits(total.spent, needed):
            raise BudgetExceeded(
                f"the rounds that are left to label do not fit into what is left of dataset={self.dataset!r}, which buys "
                f"{self.buys(job.mechanism)} rounds. Nothing was drawn. {shortfall(total.budget, total.spent, needed)}",
                requested=needed,
                spent=total.spent,
                remaining=total.remaining,
            )

    def buys(self, mechanism: Mechanism) -> int:
        """How many rounds what is left pays for, charged one by one."""
        total = self.total
        return total.budget.how_many(mechanism.curve, spent=total.spent)


def price_of(budget: Budget, job: Job, batches: list[int]) -> Price:
    """What these batches are charged together."""
    prices = {size: budget.price(size * job.mechanism.curve) for size in {job.size(batch) for batch in batches}}
    return reduce(Price.plus, (prices[job.size(batch)] for batch in batches), NOTHING)


def own_ledger(path: Path, mechanism: Mechanism, rounds: int, batch_size: int) -> Payer:
    """A new ledger beside the labels, whose only dataset has the budget that the job costs, in zCDP, and no more."""
    if path.exists():
        _remove_unused(path)
    ledger = Ledger.open(f"sqlite:///{path}")
    ledger.create_dataset(OWN_DATASET, _exact_budget(mechanism, rounds, batch_size), mechanism.relation, unit="teacher")
    return Payer(ledger, OWN_DATASET)


def kept_ledger(path: Path) -> Payer:
    """The ledger that a job was begun with: another one would pay a second time for what was drawn."""
    if not path.exists():
        raise JobDamaged(
            f"{path}, the ledger that the job was begun with, is missing: put it back. Without it nobody knows what was "
            "drawn and paid for; begin another job in another place, which pays again"
        )
    return Payer(Ledger.open(f"sqlite:///{path}", create=False), OWN_DATASET)


def _remove_unused(path: Path) -> None:
    """A ledger of an attempt that ended before it charged anything."""
    with Ledger.open(f"sqlite:///{path}") as ledger:
        if any(head.seq for head in ledger.heads().datasets.values()):
            raise JobDamaged(
                f"{path} has paid for a job whose record, job.json, is missing: put that back, or write to another --output, "
                "which pays again"
            )
    path.unlink()


def _exact_budget(mechanism: Mechanism, rounds: int, batch_size: int) -> Budget:
    ample = Budget(rho=1e6, delta=0.999)
    job = Job(key="any", mechanism=mechanism, rounds=rounds, batch_size=batch_size, ledger="", dataset=OWN_DATASET)
    price = price_of(ample, job, list(range(job.batches)))
    return Budget(rho=float_up(price.main, MAIN_UNIT), delta=float_up(price.failure, FAILURE_UNIT))
