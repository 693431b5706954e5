"""Where a job keeps the labels that it has drawn until it is finished: a private folder, a file per batch."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from accounting import AccountingError, OutputError
from accounting.files import PRIVATE, new_file, read_bytes, settle
from dpselect.pate.labelling.job import Job, JobBusy, JobConflict, JobDamaged
from dpselect.selection import Selections

VERSION = 2
_ANEW = "start the job anew under another key and in another place, which pays again"
_LONGEST = 2**28


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
        if not all(type(one) is bool for one in answered) or not all(_is_row(row, size) for row in labels):
            return None
        return cls(labels, answered)


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
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise JobBusy("another process is working on this job: wait for it, then use --resume if it did not finish") from None
        except OSError as error:
            raise OutputError(
                f"the folder {str(folder)!r} cannot be written or locked ({error.strerror}): write elsewhere"
            ) from None
        try:
            yield
        finally:
            lock.release()

    @staticmethod
    def is_begun(folder: Path) -> bool:
        return os.path.lexists(folder / "job.json")

    @classmethod
    def begin(cls, folder: Path, job: Job, votes: str, own: Path | None = None) -> Self:
        """A new job on the votes with this digest, which stays in the folder; `own` is its ledger, where no other one pays."""
        if cls.is_begun(folder):
            raise JobConflict(f"{folder} holds a job already: continue it with --resume, or {_ANEW}")
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
        if own is not None and not _is_there(own, content["own"]):
            raise JobConflict(
                f"{folder} is a copy of a job, together with the ledger inside it: a copied ledger would pay a second time. "
                "Resume the job where it was begun, or put the folder back there; give jobs that are copied a --ledger"
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

    def _path(self, batch: int) -> Path:
        return self.folder / f"batch-{batch:06d}.json"

    def _kept(self, path: Path, batch: int) -> Kept:
        content, sealed = _unsealed(path)
        if (content.get("job"), content.get("state"), content.get("batch")) != (self.job.fingerprint, self.state, batch):
            raise JobDamaged(f"{path} belongs to another job or batch: put the right file back, or {_ANEW}")
        size = getattr(self.job.mechanism, "labels", None)
        labels = Labels.checked(content.get("labels"), content.get("answered"), self.job.size(batch), size)
        if labels is None:
            raise JobDamaged(f"{path} holds no labels of {self.job.size(batch)} rounds: put the right file back, or {_ANEW}")
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
        raise JobDamaged(f"{path} is no record of a job: put the right file back, or {_ANEW}")
    return job, content


def _are_texts(content: Any, *names: str) -> bool:
    return isinstance(content, dict) and all(isinstance(content.get(name), str) for name in names)


def _is_row(row: object, size: int | None) -> bool:
    if not isinstance(row, list) or not all(type(label) is int and label >= 0 for label in row):
        return False
    return len(set(row)) == len(row) and (size is None or all(label < size for label in row))


def _place(ledger: Path) -> dict[str, str]:
    """Where a file is, by name and by number: a copy differs in both, a moved or restored file in one."""
    return {"path": str(ledger.resolve()), "number": str(ledger.stat().st_ino)}


def _is_there(ledger: Path, begun: dict[str, str] | None) -> bool:
    return begun is not None and any(begun[name] == now for name, now in _place(ledger).items())


def _draft(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


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
        raise JobDamaged(f"{path} cannot be read, or was changed since it was written: put the right file back, or {_ANEW}")
    if content.get("version") != VERSION or type(content["version"]) is not int:
        raise JobDamaged(f"{path} is of another version than {VERSION}, the one this package writes: finish the job with its own")
    return content, sealed
