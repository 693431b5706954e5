"""Where a job keeps the labels that it has drawn until it is finished: a private folder, a file per batch."""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from dpselect.pate.labelling_errors import JobConflict, JobDamaged
from dpselect.pate.labelling_files import locked, settle, unfinished, write_new
from dpselect.pate.labelling_job import Job
from dpselect.selection import Selections

_VERSION = 1


@dataclass(frozen=True)
class Labels:
    """Released labels of consecutive rounds: positions of each round's labels, and whether the round was answered."""

    labels: list[list[int]]
    answered: list[bool]

    @classmethod
    def of(cls, drawn: Selections) -> Self:
        """What was drawn, without the padding."""
        return cls([row[row >= 0].tolist() for row in drawn.indices], np.asarray(drawn.complete).tolist())


@final
class Spool:
    """The folder of one job. Use it while it is `held`: one process at a time draws.

    Attributes:
        folder: where.
        state: a random identity; the job's charges are bound to it.
        job: what was begun.
    """

    def __init__(self, folder: Path, state: str, job: Job) -> None:
        self.folder, self.state, self.job = folder, state, job

    @staticmethod
    @contextlib.contextmanager
    def held(folder: Path) -> Iterator[None]:
        """Hold the folder, which is made if it is not there.

        Raises:
            JobBusy: another process does.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(folder / "lock"):
            yield

    @staticmethod
    def is_begun(folder: Path) -> bool:
        """Whether the folder holds a job."""
        return (folder / "job.json").exists()

    @classmethod
    def begin(cls, folder: Path, job: Job, votes: str) -> Self:
        """A new job; `votes` is the digest of the file, which stays in the folder.

        Raises:
            JobConflict: the folder holds a job already.
        """
        state = uuid.uuid4().hex
        content = {"version": _VERSION, "state": state, "votes": votes, "job": json.loads(job.model_dump_json())}
        if not write_new(folder / "job.json", _sealed(content)):
            raise JobConflict(_exists(folder))
        return cls(folder, state, job)

    @classmethod
    def resumed(cls, folder: Path, job: Job, votes: str) -> Self:
        """The job that was begun, if it is this one.

        Raises:
            JobConflict: it is another one, or the votes are others.
            JobDamaged: the folder's record of it was changed.
        """
        content = _unsealed(folder / "job.json")
        begun = Job.model_validate(content["job"])
        if begun.fingerprint != job.fingerprint:
            raise JobConflict(
                f"the job that was begun differs in {', '.join(_differences(begun, job))}: resume it as it was begun"
            )
        if content["votes"] != votes:
            raise JobConflict("the file of votes is not the one that the job was begun with: resume it with that file")
        return cls(folder, str(content["state"]), job)

    @staticmethod
    def key(folder: Path) -> str:
        """The key of the job that the folder holds.

        Raises:
            JobDamaged: the folder's record of it was changed.
        """
        return str(_unsealed(folder / "job.json")["job"]["key"])

    def read(self, batch: int) -> Labels | None:
        """The labels of a batch; None if they were never written.

        Raises:
            JobDamaged: the file was changed, or belongs elsewhere.
        """
        path = self._path(batch)
        if not path.exists() and not _recovered(path):
            return None
        content = _unsealed(path)
        if (content.get("job"), content.get("state"), content.get("batch")) != (self.job.fingerprint, self.state, batch):
            raise JobDamaged(f"{path} belongs to another job or batch: put the right file back, or {_ANEW}")
        return Labels(content["labels"], content["answered"])

    def write(self, batch: int, labels: Labels) -> None:
        """Keep the labels of a batch, durably, before anybody sees them.

        Raises:
            JobDamaged: there are some already, which stay.
        """
        content = {"job": self.job.fingerprint, "state": self.state, "batch": batch}
        if not write_new(self._path(batch), _sealed({**content, "labels": labels.labels, "answered": labels.answered})):
            raise JobDamaged(f"batch {batch} has labels already, which are kept: resume the job")

    def _path(self, batch: int) -> Path:
        return self.folder / f"batch-{batch:06d}.json"


_ANEW = "start the job anew under another key and in another place, which pays again"


def _recovered(path: Path) -> bool:
    """Settle a draw whose writing was interrupted if all of it is there; forget it if not. No second one is beside it, then."""
    scratch = unfinished(path)
    if not scratch.exists():
        return False
    try:
        _unsealed(scratch)
    except JobDamaged:
        scratch.unlink()
        return False
    return settle(path)


def _exists(folder: Path) -> str:
    return f"{folder} holds a job already: continue it with --resume, or {_ANEW}"


def _differences(one: Job, other: Job) -> list[str]:
    mine, theirs = one.model_dump(), other.model_dump()
    return [name for name in mine if mine[name] != theirs[name]]


def _sealed(content: dict[str, Any]) -> bytes:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\n".encode()


def _unsealed(path: Path) -> dict[str, Any]:
    try:
        digest, text, rest = path.read_text(encoding="utf-8").split("\n", 2)
        intact = not rest and hashlib.sha256(text.encode()).hexdigest() == digest
        content = json.loads(text) if intact else None
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise JobDamaged(f"{path} cannot be read, or was changed since it was written: put the right file back, or {_ANEW}")
    return content
