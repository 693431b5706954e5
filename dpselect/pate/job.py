"""`labelled`: from a `LabelSpec` and votes to labels in a file, and what they cost."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, final

import numpy as np

import dpselect
from accounting import AccountingError, Budget, best_epsilon
from accounting.address import masked, without_password
from accounting.arguments import Relation
from accounting.files import PRIVATE, new_file, require_new
from accounting.risk import Risk
from dpselect.errors import InvalidMechanism, InvalidRequest, Note
from dpselect.mechanisms.base import Mechanism, Pay
from dpselect.pate.ballots import Ballots, Vote
from dpselect.pate.labelling import Answer, Labelling, ProgressCallback, own_session
from dpselect.pate.votes_file import VotesFile
from dpselect.plan.fit import knob_of
from dpselect.plan.voting_plan import (
    CLASSES,
    Outlook,
    PoorOutlook,
    TrialVotes,
    VotesModel,
    fitted,
    outlook,
    require_better_than_constant,
)
from dpselect.release.answer import DryRun
from dpselect.release.question import opened
from dpselect.release.run import Payer, Ready, session_of
from dpselect.release.session import Session
from dpselect.selection import Label
from dpselect.spec.label_spec import LabelSpec, RoundFields

FORMATS = (".npz", ".csv", ".jsonl")
_CUSTOMARY_DELTA = 1e-6


@final
@dataclass(frozen=True)
class LabelRequest:
    """What is asked for; public configuration, nothing that was read."""

    votes: Path
    spec: LabelSpec

    @property
    def output(self) -> Path:
        """Where the labels go."""
        return Path(self.spec.output)

    @property
    def settings(self) -> dict[str, Any]:
        """Fields of the mechanism that are stated."""
        known = {name for member in CLASSES.values() for name in member.model_fields}
        return self.spec.given(*(name for name in RoundFields.model_fields if name in known))

    @property
    def pay(self) -> Pay:
        """As for `Session.select`."""
        return "spent" if self.spec.pay_for_what_came_out else "curve"

    @property
    def folder(self) -> Path:
        """Where the job keeps its state."""
        return self.output.with_name(f"{self.output.name}.job")

    @property
    def own(self) -> Path | None:
        """The job's own ledger, where no other one pays."""
        return self.folder / "ledger.db" if self.spec.ledger is None else None

    @property
    def record(self) -> Path:
        """What the job has written to its output."""
        return self.folder / "output.sha256"

    @property
    def standing(self) -> str:
        """What of it is charged and kept, in words."""
        if not Labelling.is_begun(self.folder):
            return "nothing was charged"
        try:
            key = Labelling.key_of(self.folder)
        except AccountingError:
            key = str(self.spec.key)
        return (
            f"batches that were begun are charged once, under the keys {key}/0, {key}/1 and so on, and kept in "
            f"{masked(self.folder)}: --resume goes on, and charges nothing for them again"
        )


@final
@dataclass(frozen=True)
class Labels:
    """What was labelled, and where the payer stands. All of it is public.

    Attributes:
        job: its `answers` are the labels.
        outlook: what its noise does with the clearest votes.
    """

    request: LabelRequest
    job: Labelling
    outlook: Outlook

    @property
    def shortage(self) -> str | None:
        """What a job that ran out of budget on the way has charged and written; None of one that did not."""
        if self.job.stopped is None:
            return None
        done, asked = len(self.job.answers), self.job.ballots.rounds
        at = masked(self.request.output)
        written = f"{done} of {asked} rounds are labelled, charged and in {at}" if done else "nothing was charged"
        return (
            f"the budget was spent meanwhile: {written}; the other {asked - done} were neither charged nor drawn. Raise the "
            f"budget of dataset={self.job.session.dataset.name!r} and give resume=True to label them"
        )

    def as_data(self) -> dict[str, Any]:
        """The job and its price as plain data; epsilon is at the delta that was stated, else at a customary one."""
        job, curve, delta = self.job, self.job.mechanism.curve, self.request.spec.delta
        rounds = len(job.answers)
        at = _room(rounds * curve.delta0) if delta is None else delta
        bound = best_epsilon(rounds * curve, at, thorough=True).value if rounds else 0.0
        epsilon = bound if math.isfinite(bound) else None
        left, abstained = job.session.affordable(job.mechanism, one_by_one=True), job.answers.count(None)
        return {
            "dpselect": dpselect.__version__,
            "job": {"key": job.key, "batch_size": job.batch_size, "folder": without_password(self.request.folder)},
            "output": without_password(self.request.output),
            "rounds": {"asked": job.ballots.rounds, "labelled": rounds, "answered": rounds - abstained, "abstained": abstained},
            "outlook": self.outlook.as_data(),
            "guarantee": {"relation": job.mechanism.relation, "epsilon": epsilon, "delta": at},
            "risk": Risk.of(rounds * curve).as_data(job.mechanism.relation, "record") if rounds else None,
            "mechanism": json.loads(job.mechanism.to_json()),
            "curve": json.loads(curve.to_json()),
            "ledger": {
                "own": self.request.spec.ledger is None,
                "dataset": job.session.dataset.name,
                "period": next(iter(self.request.spec.periods), None),
                "figures": left.as_data(),
                "remaining": {"main": left.main, "failure": left.failure, "in_words": str(left)},
                "rounds_left": left.releases,
            },
        }


def labelled(
    request: LabelRequest,
    progress: ProgressCallback | None = None,
    announce: Callable[[Ballots, Outlook], None] | None = None,
) -> Labels | DryRun:
    """Label the rounds, or what is left of them, and write the labels. Whatever interrupts it says where it stands.

    Args:
        announce: called with the ballots and what to expect of them, before anything is charged.
    """
    try:
        return _labelled(request, progress, announce)
    except BaseException as error:
        if not isinstance(error, AccountingError):
            error.add_note(Note(request.standing))
        raise


def _labelled(
    request: LabelRequest, progress: ProgressCallback | None, announce: Callable[[Ballots, Outlook], None] | None
) -> Labels | DryRun:
    if request.output.suffix.lower() not in FORMATS:
        raise InvalidRequest(f"output={masked(request.output)} must end in {', '.join(FORMATS)}: the name tells the format")
    named = ("teachers", "labels", "stacked", "missing", "split")
    votes = VotesFile.read(request.votes, **{name: getattr(request.spec, name) for name in named})
    profile = _profile(request, votes.ballots)
    mechanism = _mechanism(request, votes.ballots, _relation(request))
    ballots = votes.fitting(mechanism, request.spec.salt)
    _check_start(request)
    expected = outlook(mechanism, teachers=ballots.teachers)
    if not (expected.works or request.spec.anyway or request.spec.resume):
        # What would be bought, and what else could be done.
        remedy = "state less noise"
        if request.spec.budget is not None:
            fitting = _rounds_that_work(request, ballots)
            fewer = f"label at most {fitting} rounds" if fitting else "no number of rounds works at this budget"
            remedy = f"{fewer}, raise epsilon=, or train more teachers (`dpselect plan --pate`)"
        described = str(expected).replace("\n", "; ")
        raise PoorOutlook(
            f"mechanism={request.spec.mechanism} would release little but noise for {ballots.rounds} rounds and "
            f"{ballots.teachers} teachers: {described}. Remedy: {remedy}; anyway=True labels them all the same"
        )
    if profile is not None and not (request.spec.anyway or request.spec.resume):
        require_better_than_constant(mechanism.with_teachers(ballots.teachers), profile)
    if announce is not None:
        announce(ballots, expected)
    if request.spec.dry_run:
        return _dry_run(request, ballots.settled(mechanism), ballots.rounds)
    with Labelling.held(request.folder):
        return _run(request, votes, ballots, ballots.settled(mechanism), expected, progress)


def _room(failure: float) -> float:
    """A customary delta, with room for failures."""
    return max(_CUSTOMARY_DELTA, min(0.5, 2 * failure))


def _dry_run(request: LabelRequest, mechanism: Mechanism, rounds: int) -> DryRun:
    """What all rounds would be charged, and what would be left of the dataset's budget."""
    price = rounds * mechanism
    budget = request.spec.budget or Budget(epsilon=1.0, delta=_room(price.curve.delta0))
    with nullcontext() if request.spec.ledger is None else session_of(request.spec) as session:
        payer = Payer(session, request.spec.key or uuid.uuid4().hex, "")
        return payer.dry_run(price, (mechanism,), budget, lambda _: Ready(lambda: None))


def _profile(request: LabelRequest, ballots: Ballots) -> VotesModel | TrialVotes | None:
    """What is publicly known of such votes, to compare the job with naming the most frequent labels; never the votes at hand."""
    stated = request.spec.given("votes_per_item", "agreement", "label_skew")
    if request.spec.like is not None:
        return VotesFile.trial(Path(request.spec.like))
    if not stated:
        return None
    return VotesModel(teachers=ballots.teachers, labels=ballots.labels, **stated)


def _rounds_that_work(request: LabelRequest, ballots: Ballots) -> int:
    """The most rounds, up to 1 in 100, whose outlook is not poor; 0 for none."""
    member, settings = CLASSES[request.spec.mechanism], {**request.settings, "labels": ballots.labels}

    def works(rounds: int) -> bool:
        fitting = fitted(member, cast(Budget, request.spec.budget), rounds=rounds, **settings)
        return outlook(fitting, teachers=ballots.teachers).works

    low, high = 0, ballots.rounds
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low


def _run(
    request: LabelRequest,
    votes: VotesFile,
    ballots: Ballots,
    mechanism: Mechanism,
    expected: Outlook,
    progress: ProgressCallback | None,
) -> Labels:
    _check_start(request)  # again, now that nobody else can begin
    with _session(request, mechanism, ballots.rounds) as session:
        job = Labelling(
            session,
            mechanism,
            ballots,
            request.folder,
            key=request.spec.key or (Labelling.key_of(request.folder) if request.spec.resume else uuid.uuid4().hex),
            batch_size=request.spec.batch_size,
            pay=request.pay,
            salt=request.spec.salt,
            votes=votes.digest,
            own=request.own,
            label=request.spec.label or "dpselect pate",
        )
        (job.resume if request.spec.resume else job.begin)()
        job.run(progress)
        if job.answers:
            write_output(request.output, job.answers, ballots.names, request.record)
        return Labels(request, job, expected)


def _check_start(request: LabelRequest) -> None:
    Labelling.check_start(request.folder, resume=request.spec.resume)
    if not _is_ours(request.output, request.record):
        require_new(request.output, "--output")


@contextmanager
def _session(request: LabelRequest, mechanism: Mechanism, rounds: int) -> Iterator[Session]:
    """Who pays: a dataset of a ledger, or one with the budget of this job."""
    if request.own is not None:
        with own_session(request.own, mechanism, rounds, request.spec.batch_size, resume=request.spec.resume) as session:
            yield session
        return
    with session_of(request.spec) as session:
        yield session


def _relation(request: LabelRequest) -> Relation:
    """That of the records which the ledger protects; a changed ballot costs the same under either."""
    if request.spec.ledger is None:
        return "replace_one"
    with opened(request.spec) as ledger:
        return ledger.dataset(str(request.spec.dataset)).relation


def _mechanism(request: LabelRequest, ballots: Ballots, relation: Relation) -> Vote:
    member, settings = CLASSES[request.spec.mechanism], {**request.settings, "labels": ballots.labels, "relation": relation}
    knob = knob_of(member).field
    if (request.spec.budget is None) == (knob not in settings):
        raise InvalidRequest(f"state either {knob}=, the noise of a round, or epsilon= and delta=, the budget of all rounds")
    for name in request.settings:
        if name not in member.model_fields:
            raise InvalidRequest(f"{name}= is not a setting of mechanism={request.spec.mechanism}: leave it out")
    needed = {"confident": "threshold", "tau": "tau", "top": "k"}.get(request.spec.mechanism)
    if needed is not None and needed not in request.settings:
        raise InvalidRequest(f"mechanism={request.spec.mechanism} needs {needed}=")
    try:
        if request.spec.budget is None:
            mechanism = member(**settings)
            if (failure := ballots.rounds * mechanism.curve.delta0) >= 1:
                raise InvalidRequest(
                    f"{ballots.rounds} rounds that may each fail with probability {mechanism.curve.delta0:g} promise nothing "
                    f"({failure:g} in all): lower failure_delta= to far less than 1 / rounds"
                )
            return mechanism
        return fitted(member, request.spec.budget, rounds=ballots.rounds, **settings)
    except InvalidMechanism as error:
        raise InvalidRequest(str(error).replace(f"{member.__name__}.", "").replace(" is missing", "= is missing", 1)) from None


def write_output(path: Path, answers: Sequence[Answer], names: Sequence[Label] | None, record: Path) -> None:
    """Write answers: positions to .npz; names, where there are some, to .csv and .jsonl.

    What the job has written to `path` before, of which `record` knows, is replaced; OutputRefused for any other file.
    """
    suffix = path.suffix.lower()
    content = {".npz": _npz, ".csv": _csv, ".jsonl": _jsonl}[suffix](answers, names)
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


def _npz(answers: Sequence[Answer], names: Sequence[Label] | None) -> bytes:
    labels = np.full((len(answers), max(1, max(len(answer or []) for answer in answers))), -1, dtype=np.int64)
    for place, answer in enumerate(answers):
        labels[place, : len(answer or [])] = answer or []
    stream, answered = io.BytesIO(), np.array([answer is not None for answer in answers])
    named: dict[str, Any] = {} if names is None else {"names": np.array(names)}
    np.savez_compressed(stream, labels=labels, answered=answered, **named)
    return stream.getvalue()


def _csv(answers: Sequence[Answer], names: Sequence[Label] | None) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(["round", "answered", "labels"])
    writer.writerows((place, int(one is not None), json.dumps(_named(one or [], names))) for place, one in enumerate(answers))
    return stream.getvalue().encode()


def _jsonl(answers: Sequence[Answer], names: Sequence[Label] | None) -> bytes:
    lines = (
        json.dumps({"round": place, "answered": answer is not None, "labels": _named(answer or [], names)})
        for place, answer in enumerate(answers)
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _named(labels: list[int], names: Sequence[Label] | None) -> list[Label]:
    return list(labels) if names is None else [names[label] for label in labels]
