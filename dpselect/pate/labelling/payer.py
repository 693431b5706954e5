"""Which ledger pays for a job, and whether it can."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from pathlib import Path

from accounting import Budget, BudgetExceeded, Ledger
from accounting.decimal_sum import float_up
from accounting.ledger import Total
from accounting.relation import same_relation
from accounting.spending.budget import NOTHING, Price
from accounting.spending.equivalent import shortfall
from dpselect.mechanisms import Mechanism
from dpselect.pate.labelling.job import Job, JobDamaged

_MAIN, _FAILURE = Decimal("1e-12"), Decimal("1e-18")
OWN_DATASET = "votes"


@dataclass(frozen=True)
class Payer:
    """A dataset of a ledger, and the period of it."""

    ledger: Ledger
    dataset: str
    period: str | None = None

    @property
    def identity(self) -> str:
        """Which ledger it is."""
        return self.ledger.heads().ledger_id

    @property
    def total(self) -> Total:
        """What is spent and what is left."""
        return self.ledger.total(self.dataset, self.period)

    def require_room(self, job: Job) -> None:
        """Check that every batch that was not charged yet can be paid, before the first is drawn; the next one of a job that
        pays for what came out, which nobody knows beforehand.

        Raises:
            BudgetExceeded, Unaffordable: the budget does not allow it.
            RelationMismatch: the mechanism's guarantee is for another relation than the dataset's.
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
    """A new ledger beside the labels, whose only dataset has the budget that the job costs, in zCDP, and no more.

    Raises:
        JobDamaged: there is one that has paid for something, and the record of its job is gone.
    """
    if path.exists():
        _remove_unused(path)
    ledger = Ledger.open(f"sqlite:///{path}")
    ledger.create_dataset(OWN_DATASET, _exact_budget(mechanism, rounds, batch_size), mechanism.relation, unit="teacher")
    return Payer(ledger, OWN_DATASET)


def kept_ledger(path: Path) -> Payer:
    """The ledger that a job was begun with.

    Raises:
        JobDamaged: it is not there. Another one would pay a second time for what was drawn.
    """
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
    return Budget(rho=float_up(price.main, _MAIN), delta=float_up(price.failure, _FAILURE))
