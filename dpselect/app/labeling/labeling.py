"""`Labeling`: rounds of votes, batch by batch, so that an interruption charges nothing twice.

It also answers nothing twice. A job is a session with a key per batch, and a folder that keeps the
drawn labels. For each batch it charges the ledger, draws, keeps the labels in a private draft,
releases the charge with a claim that names this draw, and gives the draft its name. All steps are
durable and may be repeated.

After an interruption, a batch with a file is taken from it, if its claim is the ledger's. A batch
that is charged and has no file was never seen by anybody, and is drawn under its charge. A batch
that is released and has no file is refused, because it may have been seen. If two copies of a
folder draw the same batch at once, the ledger accepts one claim, and the other draw is dropped
unseen. Messages contain no vote and no label.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Literal, Self, final

from pydantic import BaseModel, ConfigDict, ValidationError

from accounting import Budget, BudgetExceeded, Curve, Ledger
from accounting.address import mask
from accounting.cost import FAILURE_UNIT, MAIN_UNIT, NOTHING, Cost
from accounting.curves import Composed
from accounting.errors import OutputError
from accounting.files import PRIVATE, durable_folder, new_file, read_bytes, settle, write_draft
from accounting.ledger import ClaimConflict, KeyConflict, Receipt
from accounting.numbers import float_up
from accounting.process_state import ProcessState
from accounting.refusals import shortfall
from accounting.remaining import Remaining
from dpselect.errors import DpSelectError, InvalidRequest
from dpselect.mechanisms.base import Mechanism, Pay
from dpselect.pate.ballots import Ballots
from dpselect.pate.voting import ABSTAINED
from dpselect.plan.fit import knob_of
from dpselect.selection import Selection
from dpselect.session import BoundItem, Session

OWN_DATASET = "votes"
_LOST = "Without it these labels are lost, and their charge stays"
_LONGEST = 2**28  # bytes of a file of labels
_LONGEST_KEY = 150  # characters; batches append their number
Answer = list[int] | None
"""The labels of a round, by position; None if it was not answered."""
ProgressCallback = Callable[[int, int], None]


class JobConflict(InvalidRequest):
    """A job that cannot be started because it exists, or not be resumed because it does not.

    Also one that is resumed with other settings than it was begun with.
    """


class JobBusy(DpSelectError):
    """A job that another process is working on."""


class JobDamaged(DpSelectError):
    """A job whose drawn labels are lost or damaged.

    They may have been seen, so they are not drawn again for the same charge.
    """


# -- files -----------------------------------------------------------------------------------------


class _JobFile(BaseModel):
    """The content of a file of the folder, behind a checksum."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    version: Literal[3] = 3
    state: str

    def seal(self, length: int = 0) -> bytes:
        """Return the bytes of the file, with spaces up to so many characters of content."""
        text = self.model_dump_json().ljust(length)
        return f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\n".encode()

    @classmethod
    def read(cls, path: Path) -> tuple[Self, bytes]:
        """Return the content of a file, and its bytes.

        Raises:
            JobDamaged: the job has not written it so.
        """
        sealed = read_bytes(path, JobDamaged, "the job's file", _LONGEST)
        digest, _, text = sealed.partition(b"\n")
        try:
            if hashlib.sha256(text.removesuffix(b"\n")).hexdigest().encode() == digest:
                return cls.model_validate_json(text), sealed
        except ValidationError:
            pass
        raise JobDamaged(
            f"{mask(path)} was changed since it was written, or another version of dpselect"
            " wrote it. Put the right file back, or finish the job with the version that"
            f" began it. {_LOST}"
        )


class _JobRecord(_JobFile):
    """The record of a job. `own` is the place of the ledger inside its folder."""

    votes: str
    job: dict[str, Any]
    own: dict[str, str] | None


class _BatchRecord(_JobFile):
    """The labels of a batch. `draw` distinguishes draws that have the same labels."""

    job: str
    batch: int
    draw: str
    answers: list[Answer]


def _draft(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _place(ledger: Path) -> dict[str, str]:
    """Return the name and the number of a file.

    A copy differs in both, and a moved or restored file in one.
    """
    return {"path": str(ledger.resolve()), "number": str(ledger.stat().st_ino)}


# -- the job ---------------------------------------------------------------------------------------


@final
class Labeling:
    """A labeling job in its folder, which is `held` while it runs.

    The job's charges are bound to the folder's `state`, a random identity, so that a second folder
    cannot draw under the charges of the first.

    Args:
        session: the session that is charged, under the keys `key`/0, `key`/1 and so on.
        key, batch_size, label: see `LabelSpec`; a key has at most 150 characters.
        pay: "spent" gives back the cost that the labels of a batch did not use: the winners of
            rounds that abstained. Theorem F8.
        salt: public text by which ballots were cut.
        votes: digest of the source of the ballots, because a job is resumed with the same votes.
        own: file of the session's ledger, if it was made for this job and lies in its folder.
        asked: the other settings of the job, as `Spec.question` has them. A job is resumed with the
            same settings.

    Attributes:
        answers: answers of the labeled rounds, in order from the first.
        stopped: error that ended `run` early, because another process spent the budget.

    Raises:
        InvalidRequest: an argument is outside its domain, or `pay` is "spent" and a round costs the
            same whatever comes out.
        InvalidBallots: the mechanism's guarantee does not cover the ballots.
    """

    mechanism: Mechanism
    answers: list[Answer]
    stopped: BudgetExceeded | None
    state: str

    def __init__(
        self,
        session: Session,
        mechanism: Mechanism,
        ballots: Ballots,
        folder: Path,
        *,
        key: str,
        batch_size: int = 100,
        pay: Pay = "curve",
        salt: str = "",
        votes: str = "",
        own: Path | None = None,
        label: str = "dpselect pate",
        question: Mapping[str, Any] | None = None,
    ) -> None:
        mechanism.check_many(ballots)
        if pay == "spent" and not mechanism.cost_depends_on_outcome:
            raise InvalidRequest(
                f"a round of {type(mechanism).__name__} costs the same for every outcome."
                " Leave pay at 'curve'"
            )
        if not 1 <= len(key) <= _LONGEST_KEY:
            raise InvalidRequest(f"key has {len(key)} characters: it must have 1 to {_LONGEST_KEY}")
        self.session, self.mechanism, self.ballots = (session, ballots.complete(mechanism), ballots)
        # A draw that no file can hold would be drawn again, so all have the size of the longest.
        most = mechanism.most_released or ballots.labels
        self._widest = max(len("null"), most * len(f"{ballots.labels - 1},") + 1) + 1
        if min(batch_size, ballots.rounds) * self._widest > _LONGEST - 2**10:
            raise InvalidRequest(
                f"batch_size={batch_size} makes files of more than {_LONGEST:,} bytes. State at"
                f" most {(_LONGEST - 2**10) // self._widest}"
            )
        self.folder, self.key, self.batch_size, self.pay = folder, key, batch_size, pay
        self.answers, self.stopped, self.state = [], None, ""
        # a fork does not have the lock of the folder, and its drafts have the same names
        self._process = ProcessState(None, owner="this job", remedy="resume it once that has ended")
        self._votes, self._own, self._label_of_charges = votes, own, label
        periods = session.charge_options["period"]
        self._terms: dict[str, Any] = {
            **(question or {}),
            "key": key,
            "mechanism": json.loads(self.mechanism.to_json()),
            "rounds": ballots.rounds,
            "batch_size": batch_size,
            "ledger": session.ledger.heads().ledger_id,
            "dataset": session.dataset.name,
            "period": periods if periods is None or isinstance(periods, str) else sorted(periods),
            "salt": salt,
            "pay": pay,
        }
        self.fingerprint: str = hashlib.sha256(
            json.dumps(self._terms, sort_keys=True).encode()
        ).hexdigest()

    # -- the folder --------------------------------------------------------------------------------

    @classmethod
    @contextlib.contextmanager
    def lock(cls, folder: Path, *, resume: bool = False) -> Iterator[None]:
        """Hold the folder, made if it is not there. Raises JobBusy if another process holds it.

        It also raises as `check_start`. The operating system gives the lock back when the process
        ends, however it ends. A fork does not inherit it.
        """
        from filelock import FileLock, Timeout

        # Never the library's lock by existence: a killed process would leave it behind.
        lock = FileLock(folder / "lock", mode=PRIVATE, blocking=False, fallback_to_soft=False)
        try:
            durable_folder(folder)
            lock.acquire()
        except Timeout:
            raise JobBusy(
                "another process is working on this job. Wait for it, then give resume=True if it"
                " did not finish"
            ) from None
        except OSError as error:
            raise OutputError(
                f"the folder {mask(folder)} cannot be written or locked ({error.strerror}). Write"
                " elsewhere"
            ) from None
        try:
            cls.check_start(folder, resume=resume)
            yield
        finally:
            lock.release()

    @staticmethod
    def is_begun(folder: Path) -> bool:
        """True if the folder holds a job."""
        return os.path.lexists(folder / "job.json")

    @classmethod
    def check_start(cls, folder: Path, *, resume: bool) -> None:
        """Raise JobConflict unless there is a job to resume, or none that would have to be."""
        begun = cls.is_begun(folder)
        if resume and not begun:
            raise JobConflict(
                f"{mask(folder)} does not hold a job to resume. State the output= that the job"
                " was begun with. Only a job that was never begun starts without resume="
            )
        if begun and not resume:
            raise JobConflict(
                f"{mask(folder)} holds a job already: continue it with resume=True, which charges"
                " nothing twice. Labels of other votes go to another output="
            )

    def _begin(self) -> None:
        """Put the record of a new job in the folder."""
        self.state = uuid.uuid4().hex
        own = None if self._own is None else _place(self._own)
        with new_file(self.folder / "job.json", "the job's record", mode=PRIVATE) as stream:
            stream.write(
                _JobRecord(state=self.state, votes=self._votes, job=self._terms, own=own).seal()
            )

    def _take_up(self) -> None:
        """Continue the job that was begun, if job, votes and folder are the same."""
        record, _ = _JobRecord.read(self.folder / "job.json")
        names = dict.fromkeys((*self._terms, *record.job))
        if differing := [name for name in names if record.job.get(name) != self._terms.get(name)]:
            raise JobConflict(
                f"the job that was begun differs in {', '.join(differing)}: resume it as it was"
                " begun"
            )
        if record.votes != self._votes:
            raise JobConflict(
                "the file of votes is not the one that the job was begun with: resume it with that"
                " file"
            )
        if self._own is not None and not (record.own or {}).items() & _place(self._own).items():
            raise JobConflict(
                f"{mask(self.folder)} is a copy of a job, together with the ledger inside it: a"
                " copied ledger would be charged a second time. Resume the job where it was begun,"
                " or put the folder back. Give jobs that are copied a ledger="
            )
        self.state = record.state

    @staticmethod
    def key_of(folder: Path) -> str:
        """Return the key of the job that the folder holds.

        Raises:
            JobDamaged: its record was changed.
        """
        return str(_JobRecord.read(folder / "job.json")[0].job.get("key"))

    # -- what it costs -----------------------------------------------------------------------------

    def _require_room(self) -> None:
        """Check that every batch that was not charged yet fits the budget.

        For a job that pays by outcome, whose cost is not known beforehand, only the next batch is
        checked.
        """
        ledger, name, rounds = (
            self.session.ledger,
            self.session.dataset.name,
            range(self.ballots.rounds),
        )
        batches = [rounds[start : start + self.batch_size] for start in rounds[:: self.batch_size]]
        sizes = [
            len(batch)
            for place, batch in enumerate(batches)
            if ledger.find(name, f"{self.key}/{place}") is None
        ]
        if not sizes:
            return
        rooms = ledger.room(name, self._item(0), **self.session.charge_options)
        for room in rooms:
            cost = _cost_of(room, sizes if self.pay == "curve" else sizes[:1])
            if not room.budget.fits(room.spent, cost):
                assert room.curve is not None, "of the charge"
                raise BudgetExceeded(
                    "the remaining rounds do not fit into the remaining budget of"
                    f" dataset={name!r}, which allows"
                    f" {room.budget.how_many(room.curve, spent=room.spent)} rounds. Nothing"
                    " was drawn. They need"
                    f" {shortfall(room.budget, room.spent, cost, repr(name))}."
                    f" {self._remedy(rooms)}",
                    requested=cost,
                    spent=room.spent,
                    remaining=room,
                )

    def _remedy(self, rooms: Sequence[Remaining]) -> str:
        """Return a remedy for batches that do not fit.

        Rounds of one batch are charged as a plan, by the best accounting, and batches one after the
        other are not.
        """
        if self.is_begun(self.folder):
            return (
                "The job is begun, so its rounds and noise are fixed. They fit only if a"
                " quota was the limit and is raised"
            )
        rounds = self.ballots.rounds
        if all(room.budget.fits(room.spent, _cost_of(room, [rounds])) for room in rooms):
            return (
                "As one batch all of them fit, because a plan that is charged at once costs less."
                f" State batch_size={rounds}"
            )
        knob = knob_of(type(self.mechanism))
        noisier = f"{'smaller' if knob.rising else 'larger'} {knob.field}="
        return (
            f"Label fewer rounds, or add noise to each (a smaller epsilon=, or a {noisier} if that"
            " was stated)"
        )

    def _item(self, batch: int) -> BoundItem:
        binding = hashlib.sha256(f"{self.fingerprint}/{self.state}/{batch}".encode()).hexdigest()[
            :32
        ]
        return BoundItem(self.mechanism, binding)

    def _answers_cost(self, answers: list[Answer]) -> Curve:
        """Return the cost of rounds with these answers."""
        answered = Selection(indices=(0,), ordered=True, requested=1)
        abstained = Selection(
            indices=(), ordered=True, requested=1, complete=False, reason=ABSTAINED
        )
        silent = answers.count(None)
        counted = (len(answers) - silent, answered), (silent, abstained)
        return Composed.from_parts(
            [(count, self.mechanism.cost_of(selection)) for count, selection in counted]
        )

    # -- the loop ----------------------------------------------------------------------------------

    def run(self, progress: ProgressCallback | None = None, *, resume: bool = False) -> None:
        """Label the rounds that are not labeled yet.

        If another process spends the budget meanwhile, the finished batches stay: see `stopped`.

        Raises:
            BudgetExceeded, Unaffordable, RelationMismatch: not all of it fits the budget; nothing
                was drawn, and no job begun.
            JobDamaged: the job's record was changed, or labels of an earlier run are lost.
            JobConflict: job, votes or folder are not those that it was begun with, or another copy
                of it has drawn a batch.
            ForeignProcess: `progress` forked, and this is the child.
        """
        if resume:
            self._take_up()
        else:
            require_unpaid(self.session, self.key, self.folder)
        self._require_room()
        if not resume:
            self._begin()
        for batch, start in enumerate(range(0, self.ballots.rounds, self.batch_size)):
            try:
                with self._process.lock():
                    self.answers += self._label(
                        batch, self.ballots[start : start + self.batch_size]
                    )
            except BudgetExceeded as error:
                self.stopped = error
                return
            if progress is not None:
                progress(len(self.answers), self.ballots.rounds)

    def _label(self, batch: int, ballots: Ballots) -> list[Answer]:
        """Return the labels of a batch, kept or drawn."""
        kept_labels = self._read(batch)

        def labels(receipt: Receipt) -> tuple[list[Answer], str]:
            if kept_labels is not None:
                return kept_labels
            if receipt.state == "released":
                raise JobDamaged(
                    f"the labels of batch {batch} were drawn and are missing from"
                    f" {mask(self.folder)}: they may have been seen, so they are not drawn"
                    " again. Put the file back (if the folder was copied, it is in the other"
                    f" copy). {_LOST}"
                )
            selections = self.mechanism.select_many(ballots)
            return self._keep(
                batch,
                [
                    row[row >= 0].tolist() if whole else None
                    for row, whole in zip(selections.indices, selections.complete, strict=True)
                ],
            )

        path, spent = self._path(batch), self._answers_cost if self.pay == "spent" else None
        notes: Any = {"key": f"{self.key}/{batch}", "label": self._label_of_charges}
        try:
            answers = self.session.resume(
                self._item(batch), labels, count=ballots.rounds, spent=spent, **notes
            )
        except KeyConflict:
            require_unpaid(self.session, self.key, self.folder)
            raise
        except ClaimConflict:
            _draft(path).unlink(missing_ok=True)
            raise JobConflict(
                f"batch {batch} was drawn and handed out by another copy of {mask(self.folder)},"
                " or its labels were changed: this copy's draw is dropped, and nobody has seen it."
                " Resume the job in the folder that has the labels"
            ) from None
        if os.path.lexists(_draft(path)):
            settle(_draft(path), path)
        return answers

    # -- what is kept ------------------------------------------------------------------------------

    def _path(self, batch: int) -> Path:
        return self.folder / f"batch-{batch:06d}.json"

    def _read(self, batch: int) -> tuple[list[Answer], str] | None:
        """Return the labels of a batch and their claim, or None if they were never whole.

        A draft that waits for its claim counts too.
        """
        path, draft = self._path(batch), _draft(self._path(batch))
        if os.path.lexists(path):
            return self._read_labels(path, batch)
        if not os.path.lexists(draft):
            return None
        try:
            return self._read_labels(draft, batch)
        except JobDamaged:
            draft.unlink()  # its writing was interrupted: nobody can have claimed it
            return None

    def _keep(self, batch: int, answers: list[Answer]) -> tuple[list[Answer], str]:
        """Keep a draw, durably, until the ledger accepts its claim."""
        record = _BatchRecord(
            state=self.state,
            job=self.fingerprint,
            batch=batch,
            draw=uuid.uuid4().hex,
            answers=answers,
        )
        empty = record.model_copy(update={"answers": []}).model_dump_json()
        length = len(empty) + len(answers) * self._widest
        try:
            write_draft(_draft(self._path(batch)), sealed := record.seal(length))
        except OSError as error:
            raise OutputError(
                f"{mask(self.folder)} cannot be written ({error.strerror}). The batch is charged"
                " and nobody has seen its labels. Make room and give resume=True, which charges"
                " nothing more for it"
            ) from None
        return answers, _claim(sealed)

    def _read_labels(self, path: Path, batch: int) -> tuple[list[Answer], str]:
        """Return the labels of a file, and their claim.

        Changed labels are refused by the ledger, which has their claim.
        """
        record, sealed = _BatchRecord.read(path)
        if (record.job, record.state, record.batch) != (self.fingerprint, self.state, batch):
            raise JobDamaged(
                f"{mask(path)} belongs to another job or batch. Put the right file back. {_LOST}"
            )
        return record.answers, _claim(sealed)


def require_unpaid(session: Session, key: str, folder: Path) -> None:
    """Raise JobConflict if batches of a job in another folder were charged under the key.

    Its labels lie where it was begun, and a remedy that names another key would pay for them twice.
    """
    paid = session.ledger.find(session.dataset.name, f"{key}/0")
    if paid is not None and paid.state != "void":
        raise JobConflict(
            f"key={key!r} was charged for another job (entry {paid.seq} of"
            f" dataset={paid.dataset!r}, key {paid.key!r}), which is not in {mask(folder)}."
            " Continue it where it was begun. State its output=, beside which its folder lies,"
            " and resume=True, which charges nothing twice. Labels of other votes need a key of"
            " their own"
        )


def _claim(sealed: bytes) -> str:
    return f"labels sha256:{hashlib.sha256(sealed).hexdigest()}"


# -- a ledger of its own ---------------------------------------------------------------------------


def _cost_of(room: Remaining, sizes: list[int]) -> Cost:
    """Return the charge of an account for batches of these sizes together."""
    assert room.curve is not None, "of the charge"
    return cost_of_batches(room.budget, room.curve, sizes)


def cost_of_batches(budget: Budget, curve: Curve, sizes: list[int]) -> Cost:
    """Return the charge of batches of these sizes together."""
    costs = {size: budget.filter_cost(size * curve) for size in set(sizes)}
    return reduce(Cost.plus, (costs[size] for size in sizes), NOTHING)


@contextlib.contextmanager
def own_session(
    path: Path, mechanism: Mechanism, rounds: int, batch_size: int, *, resume: bool
) -> Iterator[Session]:
    """Open a session on a ledger beside the labels, with a dataset for this job only.

    The dataset's budget is the cost of the job, in zCDP, and no more.

    Raises:
        JobDamaged: the job was begun and its ledger is gone, or the ledger has paid for a job whose
            record is gone.
    """
    if resume and not path.exists():
        raise JobDamaged(
            f"{mask(path)}, the ledger that the job was begun with, is missing. Put it back."
            " Without it nothing records what was drawn and charged, so the job cannot go on"
        )
    if not resume and path.exists():
        with Ledger.open(path) as ledger:
            if any(head.seq for head in ledger.heads().datasets.values()):
                raise JobDamaged(
                    f"{mask(path)} was charged for a job whose record, job.json, is missing. Put"
                    " that back, because without it the job cannot go on"
                )
        path.unlink()  # of an attempt that ended before it charged anything
    with Ledger.open(path, create=not resume) as ledger:
        if not resume:
            sizes = [min(batch_size, rounds - start) for start in range(0, rounds, batch_size)]
            # of a budget that is ample
            cost = cost_of_batches(Budget(rho=1e6, delta=0.999), mechanism.curve, sizes)
            exact = Budget(
                rho=float_up(cost.main, MAIN_UNIT), delta=float_up(cost.failure, FAILURE_UNIT)
            )
            ledger.create_dataset(OWN_DATASET, exact, mechanism.relation, unit="record")
        yield Session(ledger, OWN_DATASET)
