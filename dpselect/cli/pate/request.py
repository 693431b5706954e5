"""From the options of `dpselect pate` to a mechanism, a payer and a job.

The file of labels that `dpselect pate` writes: .npz, .csv or .jsonl.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

import numpy as np

from accounting import Budget, Ledger
from accounting.files import PRIVATE, new_file, require_new
from dpselect import InvalidMechanism, InvalidRequest, Mechanism, pate
from dpselect.choose.calibration import knob_of
from dpselect.mechanisms.traits import Pay
from dpselect.pate.ballots.ballots import Ballots, Missing
from dpselect.pate.ballots.votes_file import VotesFile, VotesFileError, read_votes
from dpselect.pate.labelling import (
    Job,
    JobConflict,
    Labelling,
    Payer,
    Progress,
    ProgressCallback,
    Row,
    Spool,
    finished,
    kept_ledger,
    own_ledger,
)
from dpselect.selection import Label

FORMATS = (".npz", ".csv", ".jsonl")
Kind = Literal["gnmax", "confident", "binary", "tau", "stable"]
CLASSES: Final[dict[Kind, Any]] = {
    "gnmax": pate.GNMax,
    "confident": pate.ConfidentGNMax,
    "binary": pate.BinaryVoting,
    "tau": pate.TauVoting,
    "stable": pate.StableVoting,
}


@dataclass(frozen=True)
class PateRequest:
    """What is asked for; public configuration, nothing that was read."""

    votes: Path
    output: Path
    mechanism: Kind
    settings: dict[str, Any]
    budget: Budget | None
    teachers: int | None = None
    stacked: bool = False
    missing: Missing = "refuse"
    salt: str = ""
    batch_size: int = 100
    ledger: str | None = None
    dataset: str | None = None
    period: str | None = None
    key: str | None = None
    resume: bool = False
    anyway: bool = False
    pay: Pay = "curve"

    @property
    def folder(self) -> Path:
        """Where the job keeps its state."""
        return self.output.with_name(f"{self.output.name}.job")

    @property
    def own(self) -> Path | None:
        """The job's own ledger, where no other one pays."""
        return self.folder / "ledger.db" if self.ledger is None else None

    @property
    def record(self) -> Path:
        """What the job has written to its output."""
        return self.folder / "output.sha256"


@dataclass(frozen=True)
class PateAnswer:
    """What was labelled, and where the payer stands. All of it is public."""

    request: PateRequest
    job: Job
    outlook: pate.Outlook
    progress: Progress
    payer: Payer


def labelled(
    request: PateRequest,
    progress: ProgressCallback | None = None,
    announce: Callable[[Ballots, pate.Outlook], None] | None = None,
) -> PateAnswer:
    """Label the rounds, or what is left of them, and write the labels. `announce` is called before anything is charged."""
    _check_format(request.output)
    _check_payer(request)
    votes = read_votes(request.votes, teachers=request.teachers, stacked=request.stacked, missing=request.missing)
    mechanism = _mechanism(request, votes.ballots)
    ballots = _fit(votes, mechanism, request)
    _check_start(request)
    expected = pate.outlook(mechanism, teachers=ballots.teachers)
    if not (expected.works or request.anyway or request.resume):
        raise pate.PoorOutlook(_hopeless(request, ballots, expected))
    if announce is not None:
        announce(ballots, expected)
    with Spool.held(request.folder):
        return _run(request, votes, ballots, ballots.settled(mechanism), expected, progress)


def _hopeless(request: PateRequest, ballots: Ballots, expected: pate.Outlook) -> str:
    """What would be bought, and what else could be done."""
    remedy = "state less noise"
    if request.budget is not None:
        fitting = _rounds_that_work(request, ballots)
        fewer = f"label at most {fitting} rounds" if fitting else "no number of rounds works at this budget"
        remedy = f"{fewer}, raise --epsilon, or train more teachers (`dpselect plan --pate`)"
    described = str(expected).replace("\n", "; ")
    return (
        f"--mechanism {request.mechanism} would release little but noise for {ballots.rounds} rounds and {ballots.teachers} "
        f"teachers: {described}. Remedy: {remedy}; --anyway labels them all the same"
    )


def _rounds_that_work(request: PateRequest, ballots: Ballots) -> int:
    """The most rounds, up to 1 in 100, whose outlook is not poor; 0 for none."""
    member, settings = CLASSES[request.mechanism], {**request.settings, "labels": ballots.labels}

    def works(rounds: int) -> bool:
        fitting = pate.fitted(member, cast(Budget, request.budget), rounds=rounds, **settings)
        return pate.outlook(fitting, teachers=ballots.teachers).works

    low, high = 0, ballots.rounds
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low


def _run(
    request: PateRequest,
    votes: VotesFile,
    ballots: Ballots,
    mechanism: Mechanism,
    expected: pate.Outlook,
    progress: ProgressCallback | None,
) -> PateAnswer:
    _check_start(request)  # again, now that nobody else can begin
    with _payer(request, mechanism, ballots.rounds) as payer:
        job = Job(
            key=request.key or (Spool.key(request.folder) if request.resume else uuid.uuid4().hex),
            mechanism=mechanism,
            rounds=ballots.rounds,
            batch_size=request.batch_size,
            ledger=payer.identity,
            dataset=payer.dataset,
            period=payer.period,
            salt=request.salt,
            pay=request.pay,
        )
        if not request.resume:
            payer.require_room(job)  # before there is a job that would have to be resumed
        spool = (Spool.resumed if request.resume else Spool.begin)(request.folder, job, votes.digest, request.own)
        done = Labelling(spool, payer, ballots).run(progress)
        if done.rounds:
            write_output(request.output, finished(spool, done.rounds), ballots.names, request.record)
        return PateAnswer(request, job, expected, done, payer)


def _check_start(request: PateRequest) -> None:
    begun = Spool.is_begun(request.folder)
    if request.resume and not begun:
        raise JobConflict(f"{request.folder} does not hold a job to resume: leave --resume out to begin one")
    if begun and not request.resume:
        raise JobConflict(
            f"{request.folder} holds a job already: continue it with --resume, or write to another --output (under another "
            "--key), which pays again"
        )
    if not _is_ours(request.output, request.record):
        require_new(request.output, "--output")


def _check_payer(request: PateRequest) -> None:
    if (request.ledger is None) != (request.dataset is None):
        raise InvalidRequest("--ledger and --dataset go together: name both, or none to keep a ledger beside the output")
    if request.ledger is None and request.pay != "curve":
        raise InvalidRequest("--pay-for-what-came-out needs --ledger and --dataset: the job's own ledger pays for nothing else")
    if request.ledger is None and request.period is not None:
        raise InvalidRequest("--period belongs to a dataset of a ledger: name it with --ledger and --dataset")


@contextmanager
def _payer(request: PateRequest, mechanism: Mechanism, rounds: int) -> Iterator[Payer]:
    if request.own is not None:
        payer = kept_ledger(request.own) if request.resume else own_ledger(request.own, mechanism, rounds, request.batch_size)
    else:
        payer = Payer(Ledger.open(str(request.ledger), create=False), str(request.dataset), request.period)
    with payer.ledger:
        yield payer


def _mechanism(request: PateRequest, ballots: Ballots) -> Mechanism:
    member, settings = CLASSES[request.mechanism], {**request.settings, "labels": ballots.labels}
    knob = knob_of(member).field
    if (request.budget is None) == (knob not in settings):
        raise InvalidRequest(f"state either --{knob}, the noise of a round, or --epsilon and --delta, the budget of all rounds")
    _check_settings(request, member)
    try:
        if request.budget is None:
            return _sure(member(**settings), ballots.rounds)
        return pate.fitted(member, request.budget, rounds=ballots.rounds, **settings)
    except InvalidMechanism as error:
        raise InvalidRequest(_as_options(str(error), member)) from None


def _sure(mechanism: Mechanism, rounds: int) -> Mechanism:
    if (failure := rounds * mechanism.curve.delta0) >= 1:
        raise InvalidRequest(
            f"{rounds} rounds that may each fail with probability {mechanism.curve.delta0:g} promise nothing ({failure:g} "
            "in all): lower --failure-delta to far less than 1 / rounds"
        )
    return mechanism


def _as_options(message: str, member: type[Mechanism]) -> str:
    """The message about fields of a mechanism, as one about the options that set them."""
    for name in member.model_fields:
        message = message.replace(f"{member.__name__}.{name}=", f"--{name.replace('_', '-')}=")
    return message


def _check_settings(request: PateRequest, member: type[Mechanism]) -> None:
    for name in request.settings:
        if name not in member.model_fields:
            raise InvalidRequest(f"--{name.replace('_', '-')} is not a setting of --mechanism {request.mechanism}: leave it out")
    needed = {"confident": "threshold", "tau": "tau"}.get(request.mechanism)
    if needed is not None and needed not in request.settings:
        raise InvalidRequest(f"--mechanism {request.mechanism} needs --{needed}")


def _fit(votes: VotesFile, mechanism: Mechanism, request: PateRequest) -> Ballots:
    """Ballots that the mechanism's guarantee covers: cut by a public rule where it is for few votes, each of them known."""
    cuts = isinstance(mechanism, pate.TauVoting) and votes.single
    try:
        fit = votes.ballots.cut(request.settings["tau"], salt=request.salt) if cuts else votes.ballots
        mechanism.check_many(fit)
    except pate.InvalidBallots as error:
        raise VotesFileError(f"{request.votes}: {error}") from None
    return fit


def _check_format(path: Path) -> None:
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
    with new_file(path, "--output", replace=_is_ours(path, record)) as stream:
        stream.write(content)


def _is_ours(path: Path, record: Path) -> bool:
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
