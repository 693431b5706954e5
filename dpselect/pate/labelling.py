"""Label rounds of votes batch by batch, so that an interruption costs neither a second charge nor a second answer.

For each batch: charge the ledger, draw, keep the labels in a private draft, release the charge with a claim that names this
draw, give the draft its name. All steps are durable and may be repeated. After an interruption, a batch with a file is taken from
it, if its claim is the ledger's; a batch that is charged and has none was never seen by anybody, and is drawn under its charge; a
batch that is released and has no file is refused: it may have been seen. Of two copies of a folder that draw the same batch at
once, the ledger accepts one claim, and the other draw is dropped unseen.

From top to bottom: `Job`, what is labelled and how; `Payer`, who pays; `Spool`, the folder that keeps draws; `Labelling`,
the loop over batches. Messages contain no vote and no label.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import AccountingError, Budget, BudgetExceeded, Composed, Curve, Ledger, OutputError, Relation
from accounting.address import masked
from accounting.arguments import same_relation
from accounting.budget import NOTHING, Price
from accounting.decimal_sum import float_up
from accounting.files import PRIVATE, durable_folder, new_file, read_bytes, settle, sync_folder
from accounting.frozen import Count, Frozen, kind_of
from accounting.ledger import ClaimConflict, Total
from accounting.price import FAILURE_UNIT, MAIN_UNIT
from accounting.remaining import shortfall
from dpselect.errors import DpSelectError, InvalidRequest
from dpselect.mechanisms.base import AnyMechanism, Mechanism, Pay
from dpselect.pate.ballots import Ballots
from dpselect.pate.voting import ABSTAINED
from dpselect.selection import Selection, Selections

OWN_DATASET = "votes"


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

    def item(self, batch: int, state: str) -> _BatchItem:
        """What the ledger is charged for one round of a batch, for labels that are kept in the folder with identity `state`."""
        binding = hashlib.sha256(f"{self.fingerprint}/{state}/{batch}".encode()).hexdigest()[:32]
        return _BatchItem(self.mechanism, batch, binding)


@dataclass(frozen=True)
class _BatchItem:
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

    @classmethod
    def own(cls, path: Path, mechanism: Mechanism, rounds: int, batch_size: int) -> Self:
        """A new ledger beside the labels, whose only dataset has the budget that the job costs, in zCDP, and no more."""
        if path.exists():
            _remove_unused(path)
        ledger = Ledger.open(f"sqlite:///{path}")
        job = Job(key="any", mechanism=mechanism, rounds=rounds, batch_size=batch_size, ledger="", dataset=OWN_DATASET)
        price = price_of(Budget(rho=1e6, delta=0.999), job, list(range(job.batches)))  # of a budget that is ample
        exact = Budget(rho=float_up(price.main, MAIN_UNIT), delta=float_up(price.failure, FAILURE_UNIT))
        ledger.create_dataset(OWN_DATASET, exact, mechanism.relation, unit="teacher")
        return cls(ledger, OWN_DATASET)

    @classmethod
    def kept(cls, path: Path) -> Self:
        """The ledger that a job was begun with: another one would pay a second time for what was drawn."""
        if not path.exists():
            raise JobDamaged(
                f"{masked(path)}, the ledger that the job was begun with, is missing: put it back. Without it nothing "
                "records what was drawn and paid for; begin another job in another place, which pays again"
            )
        return cls(Ledger.open(f"sqlite:///{path}", create=False), OWN_DATASET)

    @property
    def identity(self) -> str:
        return self.ledger.heads().ledger_id

    @property
    def total(self) -> Total:
        return self.ledger.total(self.dataset, self.period)

    def require_room(self, job: Job) -> None:
        """Check that every batch that was not charged yet can be paid, before the first is drawn; the next one of a job that
        pays for what came out, whose price is not known beforehand.
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


def _remove_unused(path: Path) -> None:
    """A ledger of an attempt that ended before it charged anything."""
    with Ledger.open(f"sqlite:///{path}") as ledger:
        if any(head.seq for head in ledger.heads().datasets.values()):
            raise JobDamaged(
                f"{masked(path)} has paid for a job whose record, job.json, is missing: put that back, or write to another "
                "--output, which pays again"
            )
    path.unlink()


# -- the folder ---------------------------------------------------------------------------------------------------------------

VERSION = 2
_ANEW = "start the job anew under another key and in another place, which pays again"
_LONGEST = 2**28
Row = tuple[int, list[int], bool]
"""A round, its labels, and whether it was answered."""


@dataclass(frozen=True)
class Labels:
    """Released labels of consecutive rounds: positions of each round's labels, and whether the round was answered."""

    labels: list[list[int]]
    answered: list[bool]

    @classmethod
    def of(cls, drawn: Selections) -> Self:
        """What was drawn, without the padding."""
        return cls([row[row >= 0].tolist() for row in drawn.indices], np.asarray(drawn.complete).tolist())

    @classmethod
    def checked(cls, labels: object, answered: object, rounds: int, size: int | None) -> Self | None:
        """What a file holds, if it can be the labels of `rounds` rounds with `size` labels to choose from."""
        if not isinstance(labels, list) or not isinstance(answered, list) or len(labels) != rounds or len(answered) != rounds:
            return None
        if not all(type(one) is bool for one in answered) or not all(isinstance(row, list) for row in labels):
            return None
        end = math.inf if size is None else size
        if not all(type(label) is int and 0 <= label < end for row in labels for label in row):
            return None
        return cls(labels, answered) if all(len(set(row)) == len(row) for row in labels) else None


@dataclass(frozen=True)
class Kept:
    """The labels of a batch in the folder, and the claim on the batch that they are: a hash of them, of job and of draw."""

    labels: Labels
    claim: str


@final
class Spool:
    """The folder of one job. Use it while it is `held`: one process at a time draws.

    A copied folder is another folder with the same charges, and may draw the same batch. Labels count once the ledger has
    accepted their claim, which it does for one draw of a batch; a draw that comes second is dropped unseen. The job's charges
    are bound to the folder's `state`, a random identity.
    """

    def __init__(self, folder: Path, state: str, job: Job) -> None:
        self.folder, self.state, self.job = folder, state, job

    @staticmethod
    @contextlib.contextmanager
    def held(folder: Path) -> Iterator[None]:
        """Hold the folder, which is made if it is not there; JobBusy where another process does.

        The operating system gives the lock back when the process ends, however it ends; a fork does not inherit it.
        """
        from filelock import FileLock, Timeout

        # Never the library's lock by existence: a killed process would leave it behind.
        lock = FileLock(folder / "lock", mode=PRIVATE, blocking=False, fallback_to_soft=False)
        try:
            durable_folder(folder)
            lock.acquire()
        except Timeout:
            raise JobBusy("another process is working on this job: wait for it, then use --resume if it did not finish") from None
        except OSError as error:
            raise OutputError(
                f"the folder {masked(folder)} cannot be written or locked ({error.strerror}): write elsewhere"
            ) from None
        try:
            yield
        finally:
            lock.release()

    @staticmethod
    def is_begun(folder: Path) -> bool:
        return os.path.lexists(folder / "job.json")

    @classmethod
    def check_start(cls, folder: Path, *, resume: bool) -> None:
        """Raise JobConflict unless there is a job to resume, or none that would have to be."""
        begun = cls.is_begun(folder)
        if resume and not begun:
            raise JobConflict(f"{masked(folder)} does not hold a job to resume: leave --resume out to begin one")
        if begun and not resume:
            raise JobConflict(
                f"{masked(folder)} holds a job already: continue it with --resume, or write to another --output (under another "
                "--key), which pays again"
            )

    @classmethod
    def begin(cls, folder: Path, job: Job, votes: str, own: Path | None = None) -> Self:
        """A new job on the votes with this digest, which stays in the folder; `own` is its ledger, where no other one pays."""
        if cls.is_begun(folder):
            raise JobConflict(f"{masked(folder)} holds a job already: continue it with --resume, or {_ANEW}")
        state = uuid.uuid4().hex
        content = {"version": VERSION, "state": state, "votes": votes, "own": None if own is None else _place(own)}
        with new_file(folder / "job.json", "the job's record", mode=PRIVATE) as stream:
            stream.write(_sealed({**content, "job": json.loads(job.model_dump_json())}))
        return cls(folder, state, job)

    @classmethod
    def resumed(cls, folder: Path, job: Job, votes: str, own: Path | None = None) -> Self:
        """The job that was begun, if it is this one. JobConflict if job, votes or folder are others; JobDamaged as for `key`."""
        begun, content = _begun(folder)
        if begun.fingerprint != job.fingerprint:
            was, asked = begun.model_dump(), job.model_dump()
            differing = [name for name in was if was[name] != asked[name]]
            raise JobConflict(f"the job that was begun differs in {', '.join(differing)}: resume it as it was begun")
        if content["votes"] != votes:
            raise JobConflict("the file of votes is not the one that the job was begun with: resume it with that file")
        if own is not None and not any((content["own"] or {}).get(name) == now for name, now in _place(own).items()):
            raise JobConflict(
                f"{masked(folder)} is a copy of a job, together with the ledger inside it: a copied ledger would pay a second "
                "time. Resume the job where it was begun, or put the folder back there; give jobs that are copied a --ledger"
            )
        return cls(folder, content["state"], job)

    @staticmethod
    def key(folder: Path) -> str:
        """The key of the job that the folder holds. JobDamaged where its record of it was changed."""
        return _begun(folder)[0].key

    def read(self, batch: int) -> Kept | None:
        """The labels of a batch, or a draw of them that waits for its claim; None if they were never written as a whole.

        JobDamaged where the file was changed, or belongs elsewhere.
        """
        path, draft = self._path(batch), _draft(self._path(batch))
        if os.path.lexists(path):
            return self._kept(path, batch)
        if not os.path.lexists(draft):
            return None
        try:
            return self._kept(draft, batch)
        except JobDamaged:
            draft.unlink()  # its writing was interrupted: nobody can have claimed it
            return None

    def draft(self, batch: int, labels: Labels) -> Kept:
        """Keep a draw, durably, until the ledger accepts its claim."""
        content = {"version": VERSION, "job": self.job.fingerprint, "state": self.state, "batch": batch, "draw": uuid.uuid4().hex}
        sealed = _sealed({**content, "labels": labels.labels, "answered": labels.answered})
        try:
            _write(_draft(self._path(batch)), sealed)
        except OSError as error:
            raise OutputError(
                f"{self.folder} cannot be written ({error.strerror}). The batch is charged and nobody has seen its labels: make "
                "room and use --resume, which charges nothing more for it"
            ) from None
        return Kept(labels, _claim(sealed))

    def settle(self, batch: int) -> None:
        """Give the labels whose claim was accepted their name; labels that have it stay."""
        path = self._path(batch)
        if os.path.lexists(_draft(path)):
            settle(_draft(path), path)

    def drop(self, batch: int) -> None:
        """Forget a draw whose claim came second."""
        _draft(self._path(batch)).unlink(missing_ok=True)

    def finished(self, rounds: int) -> Iterator[Row]:
        """The first `rounds` rounds. JobDamaged where a file is damaged or missing."""
        for batch in range(-(-rounds // self.job.batch_size)):
            if (kept := self.read(batch)) is None:
                raise JobDamaged(f"the labels of batch {batch} are missing from {self.folder}: resume the job")
            for place, (labels, answered) in enumerate(zip(kept.labels.labels, kept.labels.answered, strict=True)):
                yield self.job.rows(batch).start + place, labels, answered

    def _path(self, batch: int) -> Path:
        return self.folder / f"batch-{batch:06d}.json"

    def _kept(self, path: Path, batch: int) -> Kept:
        content, sealed = _unsealed(path)
        if (content.get("job"), content.get("state"), content.get("batch")) != (self.job.fingerprint, self.state, batch):
            raise JobDamaged(f"{masked(path)} belongs to another job or batch: put the right file back, or {_ANEW}")
        size = getattr(self.job.mechanism, "labels", None)
        labels = Labels.checked(content.get("labels"), content.get("answered"), self.job.size(batch), size)
        if labels is None:
            raise JobDamaged(
                f"{masked(path)} does not hold labels of {self.job.size(batch)} rounds: put the right file back, or {_ANEW}"
            )
        return Kept(labels, _claim(sealed))


def _begun(folder: Path) -> tuple[Job, dict[str, Any]]:
    path = folder / "job.json"
    content, _ = _unsealed(path)
    try:
        job = Job.model_validate(content.get("job"))
    except AccountingError:
        job = None
    own = content.get("own")
    if job is None or not _are_texts(content, "state", "votes") or not (own is None or _are_texts(own, "path", "number")):
        raise JobDamaged(f"{masked(path)} is not the record of a job: put the right file back, or {_ANEW}")
    return job, content


def _are_texts(content: Any, *names: str) -> bool:
    return isinstance(content, dict) and all(isinstance(content.get(name), str) for name in names)


def _place(ledger: Path) -> dict[str, str]:
    """Where a file is, by name and by number: a copy differs in both, a moved or restored file in one."""
    return {"path": str(ledger.resolve()), "number": str(ledger.stat().st_ino)}


def _draft(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)  # the draft's name too, before the ledger is told that the batch was released


def _claim(sealed: bytes) -> str:
    return f"labels sha256:{hashlib.sha256(sealed).hexdigest()}"


def _sealed(content: dict[str, Any]) -> bytes:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\n".encode()


def _unsealed(path: Path) -> tuple[dict[str, Any], bytes]:
    sealed = read_bytes(path, JobDamaged, "the job's file", _LONGEST)
    try:
        digest, text, rest = sealed.decode().split("\n", 2)
        intact = not rest and hashlib.sha256(text.encode()).hexdigest() == digest
        content = json.loads(text) if intact else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise JobDamaged(
            f"{masked(path)} cannot be read, or was changed since it was written: put the right file back, or {_ANEW}"
        )
    if content.get("version") != VERSION or type(content["version"]) is not int:
        raise JobDamaged(
            f"{masked(path)} is of another version than {VERSION}, the one this package writes: finish the job with its own"
        )
    return content, sealed


# -- the loop -----------------------------------------------------------------------------------------------------------------

ProgressCallback = Callable[[int, int], None]


@dataclass(frozen=True)
class Progress:
    """How far a job got: rounds that are labelled, in order from the first, how many were answered, and what stopped it."""

    rounds: int
    answered: int
    stopped: BudgetExceeded | None = None


@final
class Labelling:
    """A job at work on ballots whose rounds are the job's, for a process that holds its folder."""

    def __init__(self, spool: Spool, payer: Payer, ballots: Ballots) -> None:
        self._spool, self._payer, self._ballots = spool, payer, ballots

    def run(self, progress: ProgressCallback | None = None) -> Progress:
        """Label what is not labelled yet. If somebody else spends the budget meanwhile, what is done stays: see `stopped`.

        Raises:
            BudgetExceeded, Unaffordable: the budget does not pay for what is left; nothing was drawn.
            JobDamaged: labels of an earlier run are lost.
            JobConflict: another copy of the folder has drawn a batch.
            LedgerUnavailable, LedgerCorrupt, KeyConflict: as the ledger; what is done stays.
        """
        job = self._spool.job
        job.mechanism.check_many(self._ballots)
        self._payer.require_room(job)
        rounds = answered = 0
        for batch in range(job.batches):
            try:
                labels = self._batch(batch)
            except BudgetExceeded as error:
                return Progress(rounds, answered, error)
            rounds, answered = rounds + job.size(batch), answered + sum(labels.answered)
            if progress is not None:
                progress(rounds, job.rounds)
        return Progress(rounds, answered)

    def _batch(self, batch: int) -> Labels:
        ledger, dataset, job = self._payer.ledger, self._payer.dataset, self._spool.job
        kept = self._spool.read(batch)
        receipt = (ledger.charge if job.pay == "curve" else ledger.reserve)(
            dataset,
            job.item(batch, self._spool.state),
            count=job.size(batch),
            key=job.charge_key(batch),
            period=self._payer.period,
            label="dpselect pate",
        )
        if receipt.state == "reserved":
            ledger.commit(dataset, receipt.key)
        if kept is None:
            if receipt.state == "released":
                raise JobDamaged(
                    f"the labels of batch {batch} were drawn and are missing from {self._spool.folder}: they may have been seen, "
                    "so they are not drawn again. Put the file back (if the folder was copied, it is in the other copy), or "
                    "start the job anew under another key, which pays again"
                )
            drawn = job.mechanism.select_many(self._ballots[job.rows(batch)])
            kept = self._spool.draft(batch, Labels.of(drawn))
        self._claim(batch, kept)
        return kept.labels

    def _claim(self, batch: int, kept: Kept) -> None:
        job, spent = self._spool.job, self._spool.job.spent(kept.labels.answered)
        try:
            self._payer.ledger.release(self._payer.dataset, job.charge_key(batch), claim=kept.claim, spent=spent)
        except ClaimConflict:
            self._spool.drop(batch)
            raise JobConflict(
                f"batch {batch} was drawn and handed out by another copy of {self._spool.folder}, or its labels were changed: "
                "this copy's draw is dropped, and nobody has seen it. Resume the job in the folder that has the labels"
            ) from None
        self._spool.settle(batch)
