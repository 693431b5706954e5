"""A labelling job: rounds that are labelled batch by batch, each under a charge of its own; and what can go wrong with one.

Messages tell no vote and no label.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self, final

from pydantic import Field, model_validator

from accounting import Composed, Curve, Relation
from accounting.frozen import Count, Frozen
from accounting.registry import kind_of
from dpselect.errors import DpSelectError, InvalidRequest
from dpselect.mechanisms.base import AnyMechanism, Mechanism
from dpselect.mechanisms.traits import Pay
from dpselect.pate.voting.confident_gnmax import ABSTAINED
from dpselect.selection import Selection


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
    """What is labelled and how; public configuration.

    Args:
        key: of the job; batch b is charged under `key/b`.
        mechanism: with all it needs to know, the number of teachers included.
        rounds: how many, >= 1.
        batch_size: rounds in a batch, >= 1.
        ledger: identity of the ledger.
        dataset: that pays.
        period: whose rows the votes come from, where the dataset has a budget per period.
        salt: of the rule by which ballots are cut.
        pay: "spent" gives back what the labels of a batch did not use: the winners of rounds that abstained. Theorem F8.

    Raises:
        InvalidRequest: a value is outside its domain.
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
        """How many batches there are."""
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
        rows = self.rows(batch)
        return int(rows.stop - rows.start)

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
    """A mechanism as a ledger is charged for it, bound to one batch of one job in one folder.

    A ledger refuses another item under the same key: so a second folder cannot draw under the charges of the first.
    """

    mechanism: Mechanism
    batch: int
    binding: str

    @property
    def curve(self) -> Curve:
        """What one round costs."""
        return self.mechanism.curve

    @property
    def relation(self) -> Relation:
        """The neighbouring relation of the mechanism."""
        return self.mechanism.relation

    def to_json(self) -> str:
        """The mechanism and the binding, as provenance."""
        mechanism = json.loads(self.mechanism.to_json())
        return json.dumps({"kind": "pate_batch", "batch": self.batch, "binding": self.binding, "mechanism": mechanism})
