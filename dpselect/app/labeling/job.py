"""`label`, the job of `dpselect pate`: labels of voted items in a file, and their cost."""

from __future__ import annotations

import hashlib
import io
import json
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, final, overload

import numpy as np

import dpselect
from accounting import AccountingError, Budget
from accounting.address import hide_passwords, mask
from accounting.convert.bounds import best_epsilon
from accounting.files import PRIVATE, new_file, require_new
from accounting.ledger import Dataset
from accounting.risk import Risk
from accounting.sections import Section, Sectioned
from accounting.wording import format_number, printable, round_up
from dpselect.app.csv_text import csv_records
from dpselect.app.labeling.labeling import (
    Answer,
    Labeling,
    ProgressCallback,
    own_session,
    require_unpaid,
)
from dpselect.app.labeling.votes_file import VotesFile
from dpselect.app.release.answer import DryRun
from dpselect.app.release.run import ChargeTarget, session_of
from dpselect.app.spec.base import takes_fields_of
from dpselect.app.spec.label_spec import LabelSpec
from dpselect.errors import InvalidMechanism, InvalidRequest, Note
from dpselect.mechanisms.base import Mechanism
from dpselect.pate.ballots import Ballots, Vote
from dpselect.pate.plan import CLASSES, Outlook, PoorOutlook, fitted, outlook
from dpselect.plan.fit import knob_of
from dpselect.selection import Label

if TYPE_CHECKING:
    from dpselect.app.spec.keyword_types import LabelKeywords

Announce = Callable[[Ballots, Outlook], None]

_CUSTOMARY_DELTA = 1e-6


@overload
def label(
    votes: str | PathLike[str],
    *,
    dry_run: Literal[False] = False,
    progress: ProgressCallback | None = None,
    **fields: Unpack[LabelKeywords],
) -> Labels: ...


@overload
def label(
    votes: str | PathLike[str],
    *,
    dry_run: bool,
    progress: ProgressCallback | None = None,
    **fields: Unpack[LabelKeywords],
) -> Labels | DryRun: ...


@takes_fields_of(LabelSpec)
def label(
    votes: str | PathLike[str], *, progress: ProgressCallback | None = None, **fields: Any
) -> Labels | DryRun:
    """Label public items by the votes of teachers, batch by batch, into a file.

    This is `dpselect pate` in Python. Every batch is charged before it is drawn, to the dataset of
    a ledger or to a ledger that the job keeps beside its output. An interrupted job continues with
    `resume=True`, and charges nothing twice.

    Args:
        votes: a .npz or .npy file: votes, counts, classes or a sparse matrix. Nothing in it is
            executed.
        fields: the fields of `dpselect.app.spec.LabelSpec`.
        progress: called with the number of labeled rounds, and the number of all rounds.

    Returns:
        The labels, their place and their cost; with `dry_run` the cost that they would have.

    Raises:
        InvalidRequest, InvalidBallots, CalibrationError: the job cannot be done; nothing was
            charged.
        PoorOutlook: the labels would be noise, and `anyway` is not stated.
        BudgetExceeded, JobConflict, JobBusy, JobDamaged: see `dpselect.app.labeling.labeling`.
    """
    if not isinstance(votes, str | PathLike):
        raise InvalidRequest(
            f"votes must name a .npz or .npy file, not be a {type(votes).__name__}. Write an array"
            " with numpy.save, and name its file"
        )
    return label_rounds(Path(votes), LabelSpec(**fields), progress)


@final
@dataclass(frozen=True, repr=False)
class Labels(Sectioned):
    """Public result of a labeling job: the labels (`job.answers`), the forecast, and the budget."""

    spec: LabelSpec
    job: Labeling
    outlook: Outlook

    @property
    def shortage(self) -> str | None:
        """The charged and written part of a job that ran out of budget, or None if it did not."""
        if self.job.stopped is None:
            return None
        done, total = len(self.job.answers), self.job.ballots.rounds
        output = mask(Path(self.spec.output))
        state = (
            f"{done} of {total} rounds are labeled, charged and in {output}"
            if done
            else "nothing was charged"
        )
        return (
            f"the budget was spent meanwhile: {state}; the other {total - done} were neither"
            " charged nor drawn. No budget is raised: resume=True labels them only if it was a"
            f" quota of dataset={self.job.session.dataset.name!r}, and that is"
        )

    def __repr__(self) -> str:
        return f"Labels: {printable(self._summary)}"

    @property
    def _summary(self) -> str:
        answers = self.job.answers
        done, abstained = len(answers), answers.count(None)
        where = f" The labels are in {hide_passwords(Path(self.spec.output))}." if done else ""
        return (
            f"Labeled {done} of {self.job.ballots.rounds} rounds: {done - abstained} answered,"
            f" {abstained} abstained.{where}"
        )

    def sections(self) -> Iterator[Section]:
        """Return the number of labels, and their cost."""
        data = self.as_data()
        yield Section(self._summary)
        yield Section("Cost", list(_cost(data)))
        yield Section("Ledger", list(_ledger(data)))

    def as_data(self) -> dict[str, Any]:
        """Return the job and its cost as plain data.

        epsilon is at the delta that was stated, or else at a customary one.
        """
        job, curve, delta = self.job, self.job.mechanism.curve, self.spec.delta
        rounds, relation = len(job.answers), job.mechanism.relation
        target = _room(rounds * curve.delta0) if delta is None else delta
        bound = best_epsilon(rounds * curve, target, thorough=True).value if rounds else 0.0
        rest, abstained = (
            job.session.affordable(job.mechanism, one_by_one=True),
            job.answers.count(None),
        )
        return {
            "dpselect": dpselect.__version__,
            "job": {
                "key": job.key,
                "batch_size": job.batch_size,
                "folder": hide_passwords(job.folder),
            },
            "output": hide_passwords(Path(self.spec.output)),
            "rounds": {
                "asked": job.ballots.rounds,
                "labeled": rounds,
                "answered": rounds - abstained,
                "abstained": abstained,
            },
            "outlook": self.outlook.as_data(),
            "guarantee": {
                "relation": relation,
                "epsilon": bound if math.isfinite(bound) else None,
                "delta": target,
            },
            "risk": Risk.from_curve(rounds * curve).as_data(relation, "record") if rounds else None,
            "mechanism": json.loads(job.mechanism.to_json()),
            "curve": json.loads(curve.to_json()),
            "ledger": {
                "own": self.spec.ledger is None,
                "dataset": job.session.dataset.name,
                "period": next(iter(self.spec.periods), None),
                "figures": rest.as_data(),
                "remaining": {"main": rest.main, "failure": rest.failure, "in_words": str(rest)},
                "rounds_left": rest.releases,
            },
        }


def _cost(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    guarantee, mechanism = data["guarantee"], data["mechanism"]
    epsilon = (
        "no bound"
        if guarantee["epsilon"] is None
        else f"epsilon {round_up(guarantee['epsilon'], 6)}"
    )
    yield (
        "all rounds",
        f"{epsilon} at delta {format_number(guarantee['delta'])}, whatever the votes",
    )
    if data["risk"] is not None:
        yield "risk", data["risk"]["in_words"]
    yield (
        "protects",
        (
            "one private record: it changes one teacher's ballots in all rounds"
            f" ({guarantee['relation']})"
        ),
    )
    settings = (
        f"{name}={value}"
        for name, value in mechanism.items()
        if name != "kind" and value is not None
    )
    yield "mechanism", f"{mechanism['kind']} ({', '.join(settings)})"


def _ledger(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    ledger, folder = data["ledger"], data["job"]["folder"]
    if ledger["own"]:
        yield (
            "ledger",
            (
                f"its own, in {folder}, with a budget of this job; further jobs on these teachers"
                " add to the cost"
            ),
        )
    else:
        rounds = f"{ledger['remaining']['in_words']} (a round is a release)"
        yield from (("dataset", ledger["dataset"]), ("standing", rounds))
    yield "key", data["job"]["key"]
    yield (
        "folder",
        f"{folder} keeps the labels of every batch; it may be deleted when the job is done",
    )


def label_rounds(
    votes: Path,
    spec: LabelSpec,
    progress: ProgressCallback | None = None,
    announce: Announce | None = None,
) -> Labels | DryRun:
    """Label the rounds, or the rest of them, and write the labels.

    Whatever interrupts it gets a note that says what was charged and kept.

    Args:
        announce: called with the ballots and their forecast, before anything is charged.
    """
    try:
        return _label_rounds(votes, spec, progress, announce)
    except BaseException as error:
        if not isinstance(error, AccountingError):
            error.add_note(Note(_standing(spec)))
        raise


def _label_rounds(
    votes: Path, spec: LabelSpec, progress: ProgressCallback | None, announce: Announce | None
) -> Labels | DryRun:
    output = Path(spec.output)
    if output.suffix.lower() not in _FORMATS:
        raise InvalidRequest(
            f"output={mask(output)} must end in {', '.join(_FORMATS)}, because the name"
            " decides the format"
        )
    with nullcontext() if spec.ledger is None else spec.open_ledger() as ledger:
        dataset = None if ledger is None else ledger.dataset(str(spec.dataset))
    read_votes = VotesFile.read_size if spec.dry_run else VotesFile.read
    file = read_votes(
        votes,
        **{
            name: getattr(spec, name)
            for name in ("teachers", "labels", "stacked", "header", "missing", "split")
        },
    )
    # The relation is that of the records which the ledger protects; a changed ballot costs the same
    # under either.
    relation = "replace_one" if dataset is None else dataset.relation
    settings = {**spec.settings, "labels": file.ballots.labels, "relation": relation}
    mechanism = _mechanism(spec, settings, file.ballots.rounds)
    ballots = file.fitting(mechanism, spec.salt)
    Labeling.check_start(spec.folder, resume=spec.resume)
    if not _is_ours(output, spec.folder):
        require_new(output, "output")
    expected = _forecast(spec, mechanism, ballots)
    if announce is not None:
        announce(ballots, expected)
    mechanism = cast(Vote, ballots.complete(mechanism))
    if spec.dry_run:
        return _dry_run(spec, dataset, mechanism, ballots.rounds)
    own_ledger = spec.folder / "ledger.db"
    with Labeling.lock(spec.folder, resume=spec.resume), ExitStack() as stack:
        if dataset is None:
            payer = own_session(
                own_ledger, mechanism, ballots.rounds, spec.batch_size, resume=spec.resume
            )
        else:
            payer = session_of(spec, dataset.time_zone)  # whose periods begin by its own clock
        job = Labeling(
            stack.enter_context(payer),
            mechanism,
            ballots,
            spec.folder,
            key=_key_of(spec) if spec.key is None else spec.key,
            batch_size=spec.batch_size,
            pay=spec.pay,
            salt=spec.salt,
            votes=file.digest,
            own=own_ledger if dataset is None else None,
            label="dpselect pate" if spec.label is None else spec.label,
            question=spec.question(),
        )
        job.run(progress, resume=spec.resume)
        if job.answers:
            single = mechanism.traits.most == 1
            _write_output(output, job.answers, ballots.names, spec.folder, single=single)
        return Labels(spec, job, expected)


def _key_of(spec: LabelSpec) -> str:
    """Return the key of a job that states none: that with which it was begun, or a new one."""
    return Labeling.key_of(spec.folder) if spec.resume else uuid.uuid4().hex


def _mechanism(spec: LabelSpec, settings: dict[str, Any], rounds: int) -> Vote:
    member = CLASSES[spec.mechanism]
    knob = knob_of(member).field
    if (spec.budget is None) == (knob not in settings):
        raise InvalidRequest(
            f"state either {knob}=, the noise of a round, or epsilon= and delta=, the budget of all"
            " rounds"
        )
    for name in spec.settings:
        if name not in member.model_fields:
            raise InvalidRequest(
                f"{name}= is not a setting of mechanism={spec.mechanism}. Leave it out"
            )
    required = {"confident": "threshold", "tau": "tau", "top": "k"}.get(spec.mechanism)
    if required is not None and required not in settings:
        raise InvalidRequest(f"mechanism={spec.mechanism} needs {required}=")
    try:
        if spec.budget is not None:
            return fitted(member, spec.budget, rounds=rounds, **settings)
        mechanism = member.model_validate(settings)
    except InvalidMechanism as error:
        raise InvalidRequest(
            str(error).replace(f"{member.__name__}.", "").replace(" is missing", "= is missing", 1)
        ) from None
    if (failure := rounds * mechanism.curve.delta0) >= 1:
        raise InvalidRequest(
            f"{rounds} rounds that may each fail with probability"
            f" {format_number(mechanism.curve.delta0)} have no guarantee"
            f" ({format_number(failure)} in all). Lower failure_delta= to far less than 1 /"
            " rounds"
        )
    return mechanism


def _forecast(spec: LabelSpec, mechanism: Vote, ballots: Ballots) -> Outlook:
    """Return the forecast of the mechanism.

    Raises:
        PoorOutlook: the noise leaves little of any votes, those at hand or others.
    """
    expected = outlook(mechanism, teachers=ballots.teachers)
    if not (expected.works or spec.anyway or spec.resume):
        remedy = (
            "State less noise"
            if spec.budget is None
            else "Label fewer rounds, raise epsilon=, or train more teachers"
        )
        described = str(expected).replace("\n", "; ")
        raise PoorOutlook(
            f"mechanism={spec.mechanism} would release little but noise for {ballots.rounds}"
            f" rounds and {ballots.teachers} teachers: {described}. {remedy} (`dpselect plan"
            " --pate` shows what works). anyway=True labels them nevertheless"
        )
    return expected


def _room(failure: float) -> float:
    """Return a customary delta, with room for failures."""
    return max(_CUSTOMARY_DELTA, min(0.5, 2 * failure))


def _dry_run(spec: LabelSpec, dataset: Dataset | None, mechanism: Mechanism, rounds: int) -> DryRun:
    """Return the charge of all rounds, and the rest of the dataset's budget after it."""
    cost = rounds * mechanism
    budget = spec.budget or Budget(epsilon=1.0, delta=_room(cost.curve.delta0))
    with nullcontext() if dataset is None else session_of(spec, dataset.time_zone) as session:
        if session is not None and spec.key is not None:
            require_unpaid(session, spec.key, spec.folder)
        payer = ChargeTarget(session, uuid.uuid4().hex if spec.key is None else spec.key)
        return payer.dry_run(cost, mechanism, budget)


def _standing(spec: LabelSpec) -> str:
    """Describe the charged and kept part of a job."""
    if not Labeling.is_begun(spec.folder):
        return "nothing was charged"
    try:
        key = Labeling.key_of(spec.folder)
    except AccountingError:
        key = str(spec.key)
    return (
        f"batches that were begun are charged once, under the keys {key}/0, {key}/1 and so on, and"
        f" kept in {mask(spec.folder)}: resume=True goes on, and charges nothing for them again"
    )


# -- the file of labels ----------------------------------------------------------------------------


def _write_output(
    path: Path,
    answers: Sequence[Answer],
    names: Sequence[Label] | None,
    folder: Path,
    *,
    single: bool,
) -> None:
    """Write answers: positions to .npz; names, if there are any, to .csv and .jsonl.

    Labels of a mechanism that gives a `single` one are written as such, and not as a list.

    A file that the job has written to `path` before, which its folder says, is replaced.

    Raises:
        OutputRefused: another file is at `path`.
    """
    content = _FORMATS[path.suffix.lower()](answers, names, single)
    with new_file(
        folder / _RECORD, "the record of the output", mode=PRIVATE, replace=True
    ) as stream:
        stream.write(
            "".join(
                f"{digest}\n" for digest in {*_recorded_digests(folder), _digest(content)}
            ).encode()
        )
    with new_file(path, "output", replace=_is_ours(path, folder)) as stream:
        stream.write(content)


_RECORD = "output.sha256"


def _is_ours(path: Path, folder: Path) -> bool:
    """True if the file at `path` is one that the job has written."""
    return path.is_file() and _digest(path.read_bytes()) in _recorded_digests(folder)


def _recorded_digests(folder: Path) -> set[str]:
    return set((folder / _RECORD).read_text().split()) if (folder / _RECORD).exists() else set()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _npz(answers: Sequence[Answer], names: Sequence[Label] | None, _: bool) -> bytes:
    labels = np.full(
        (len(answers), max(1, max(len(answer or []) for answer in answers))), -1, dtype=np.int64
    )
    for place, answer in enumerate(answers):
        labels[place, : len(answer or [])] = answer or []
    stream, has_answer = io.BytesIO(), np.array([answer is not None for answer in answers])
    named: dict[str, Any] = {} if names is None else {"names": np.array(names)}
    np.savez_compressed(stream, labels=labels, answered=has_answer, **named)
    return stream.getvalue()


def _rows(
    answers: Sequence[Answer], names: Sequence[Label] | None, single: bool
) -> Iterator[tuple[int, bool, Label | list[Label] | None]]:
    """Yield each round, True if it was answered, and its labels, by name if there are names.

    A `single` label is itself, or None without an answer.
    """
    for place, answer in enumerate(answers):
        labels = [label if names is None else names[label] for label in answer or ()]
        yield place, answer is not None, next(iter(labels), None) if single else labels


def _csv(answers: Sequence[Answer], names: Sequence[Label] | None, single: bool) -> bytes:
    rows = (
        (place, int(answered), json.dumps(labels) if isinstance(labels, list) else labels)
        for place, answered, labels in _rows(answers, names, single)
    )
    return "".join(csv_records([("round", "answered", "labels"), *rows])).encode()


def _jsonl(answers: Sequence[Answer], names: Sequence[Label] | None, single: bool) -> bytes:
    heads = ("round", "answered", "labels")
    return "".join(
        f"{json.dumps(dict(zip(heads, row, strict=True)))}\n"
        for row in _rows(answers, names, single)
    ).encode()


_FORMATS = {".npz": _npz, ".csv": _csv, ".jsonl": _jsonl}
