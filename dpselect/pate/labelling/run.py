"""Label rounds batch by batch, so that an interruption costs neither a second charge nor a second answer.

For each batch: charge the ledger, draw, keep the labels in a private draft, release the charge with a claim that names this
draw, give the draft its name. All steps are durable and may be repeated. After an interruption, a batch with a file is taken from
it, if its claim is the ledger's; a batch that is charged and has none was never seen by anybody, and is drawn under its charge; a
batch that is released and has no file is refused: it may have been seen. Of two copies of a folder that draw the same batch at
once, the ledger accepts one claim, and the other draw is dropped unseen.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from accounting import BudgetExceeded
from accounting.files import PRIVATE, new_file
from accounting.ledger import ClaimConflict
from dpselect.errors import InvalidRequest
from dpselect.pate.ballots.ballots import Ballots
from dpselect.pate.labelling.job import JobConflict, JobDamaged, Payer
from dpselect.pate.labelling.spool import Kept, Labels, Spool
from dpselect.selection import Label

ProgressCallback = Callable[[int, int], None]
Row = tuple[int, list[int], bool]
"""A round, its labels, and whether it was answered."""

FORMATS = (".npz", ".csv", ".jsonl")


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


def finished(spool: Spool, rounds: int) -> Iterator[Row]:
    """The first `rounds` rounds. JobDamaged where a file is damaged or missing."""
    for batch in range(-(-rounds // spool.job.batch_size)):
        if (kept := spool.read(batch)) is None:
            raise JobDamaged(f"the labels of batch {batch} are missing from {spool.folder}: resume the job")
        for place, (labels, answered) in enumerate(zip(kept.labels.labels, kept.labels.answered, strict=True)):
            yield spool.job.rows(batch).start + place, labels, answered


def check_format(path: Path) -> None:
    """Raise InvalidRequest unless the name of the file tells a format that labels are written in."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidRequest(f"--output {path} must end in {', '.join(FORMATS)}: the name tells the format")


def write_output(path: Path, rows: Iterable[Row], names: Sequence[Label] | None, record: Path) -> None:
    """Write rows: positions to .npz; names, where there are some, to .csv and .jsonl.

    What the job has written to `path` before, of which `record` knows, is replaced; OutputRefused for any other file.
    """
    suffix = path.suffix.lower()
    content = _npz(rows, names) if suffix == ".npz" else _csv(rows, names) if suffix == ".csv" else _jsonl(rows, names)
    with new_file(record, "the record of the output", mode=PRIVATE, replace=True) as stream:
        stream.write("".join(f"{one}\n" for one in {*_written(record), _digest(content)}).encode())
    with new_file(path, "--output", replace=is_ours(path, record)) as stream:
        stream.write(content)


def is_ours(path: Path, record: Path) -> bool:
    """Whether the file at `path` is one that the job has written."""
    return path.is_file() and _digest(path.read_bytes()) in _written(record)


def _written(record: Path) -> set[str]:
    return set(record.read_text().split()) if record.exists() else set()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _npz(rows: Iterable[Row], names: Sequence[Label] | None) -> bytes:
    held = list(rows)
    labels = np.full((len(held), max(1, max(len(row[1]) for row in held))), -1, dtype=np.int64)
    for place, row in enumerate(held):
        labels[place, : len(row[1])] = row[1]
    stream, answered = io.BytesIO(), np.array([row[2] for row in held])
    if names is None:
        np.savez_compressed(stream, labels=labels, answered=answered)
    else:
        np.savez_compressed(stream, labels=labels, answered=answered, names=np.array(names))
    return stream.getvalue()


def _csv(rows: Iterable[Row], names: Sequence[Label] | None) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(["round", "answered", "labels"])
    writer.writerows((number, int(answered), json.dumps(_named(labels, names))) for number, labels, answered in rows)
    return stream.getvalue().encode()


def _jsonl(rows: Iterable[Row], names: Sequence[Label] | None) -> bytes:
    lines = (
        json.dumps({"round": number, "answered": answered, "labels": _named(labels, names)}) for number, labels, answered in rows
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _named(labels: list[int], names: Sequence[Label] | None) -> list[Label]:
    return list(labels) if names is None else [names[label] for label in labels]
