"""`dpselect pate`: from its options to a mechanism, a payer and a job; what is told of it; and the file of labels."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, cast

import numpy as np
from rich.console import Console, Group
from rich.progress import MofNCompleteColumn, TimeRemainingColumn
from rich.text import Text
from typer import Argument, Exit, echo

import dpselect
from accounting import AccountingError, Budget, Ledger, best_epsilon
from accounting.address import masked, without_password
from accounting.arguments import Relation
from accounting.files import PRIVATE, new_file, require_new
from accounting.risk import Risk
from dpselect import InvalidMechanism, InvalidRequest, Mechanism, pate
from dpselect.cli import options, out
from dpselect.cli.from_model import command
from dpselect.cli.guard import SPENT, Terminated
from dpselect.cli.topk.delivery import show_dry_run
from dpselect.errors import Note, printable
from dpselect.mechanisms.base import Pay
from dpselect.pate.ballots import Ballots, Vote
from dpselect.pate.labelling import Answer, Labelling, ProgressCallback, own_session
from dpselect.pate.outlook import Outlook, require_better_than_constant
from dpselect.pate.votes_file import VotesFile
from dpselect.plan.fit import knob_of
from dpselect.release.answer import DryRun
from dpselect.release.promise import rounded_up
from dpselect.release.run import Payer
from dpselect.release.session import Session
from dpselect.selection import Label
from dpselect.spec.label_spec import LabelSpec, RoundFields, Voting

FORMATS = (".npz", ".csv", ".jsonl")
_CUSTOMARY_DELTA = 1e-6
CLASSES: Final[dict[Voting, Any]] = {
    "gnmax": pate.GNMax,
    "confident": pate.ConfidentGNMax,
    "binary": pate.BinaryVoting,
    "tau": pate.TauVoting,
    "top": pate.TopVotes,
    "stable": pate.StableVoting,
}


@dataclass(frozen=True)
class PateRequest:
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


@dataclass(frozen=True)
class PateAnswer:
    """What was labelled, and where the payer stands. All of it is public."""

    request: PateRequest
    job: Labelling
    outlook: pate.Outlook


def labelled(
    request: PateRequest,
    progress: ProgressCallback | None = None,
    announce: Callable[[Ballots, pate.Outlook], None] | None = None,
) -> PateAnswer | DryRun:
    """Label the rounds, or what is left of them, and write the labels. `announce` is called before anything is charged."""
    # Raise InvalidRequest unless the name of the file tells a format that labels are written in.
    if request.output.suffix.lower() not in FORMATS:
        raise InvalidRequest(f"output={masked(request.output)} must end in {', '.join(FORMATS)}: the name tells the format")
    named = ("teachers", "labels", "stacked", "missing", "split")
    votes = VotesFile.read(request.votes, **{name: getattr(request.spec, name) for name in named})
    profile = _profile(request, votes.ballots)
    mechanism = _mechanism(request, votes.ballots, _relation(request))
    ballots = votes.fitting(mechanism, request.spec.salt)
    _check_start(request)
    expected = pate.outlook(mechanism, teachers=ballots.teachers)
    if not (expected.works or request.spec.anyway or request.spec.resume):
        # What would be bought, and what else could be done.
        remedy = "state less noise"
        if request.spec.budget is not None:
            fitting = _rounds_that_work(request, ballots)
            fewer = f"label at most {fitting} rounds" if fitting else "no number of rounds works at this budget"
            remedy = f"{fewer}, raise epsilon=, or train more teachers (`dpselect plan --pate`)"
        described = str(expected).replace("\n", "; ")
        raise pate.PoorOutlook(
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


def _dry_run(request: PateRequest, mechanism: Mechanism, rounds: int) -> DryRun:
    """What all rounds would be charged, and what would be left of the dataset's budget."""
    price = rounds * mechanism
    budget = request.spec.budget or Budget(epsilon=1.0, delta=max(_CUSTOMARY_DELTA, min(0.5, 2 * price.curve.delta0)))
    if request.spec.ledger is None:
        return DryRun(price, (mechanism,), budget)
    with _session(request, mechanism, rounds) as session:
        payer = Payer(session, request.spec.key or uuid.uuid4().hex, "")
        session.require(price, key=payer.key)
        left = payer.left(mechanism, price.curve, after=True)
        return DryRun(price, (mechanism,), budget, () if left is None else (left,))


def _profile(request: PateRequest, ballots: Ballots) -> pate.VotesModel | pate.TrialVotes | None:
    """What is publicly known of such votes, to compare the job with naming the most frequent labels; never the votes at hand."""
    stated = request.spec.given("votes_per_item", "agreement", "label_skew")
    if request.spec.like is not None:
        return VotesFile.trial(Path(request.spec.like))
    if not stated:
        return None
    return pate.VotesModel(teachers=ballots.teachers, labels=ballots.labels, **stated)


def _rounds_that_work(request: PateRequest, ballots: Ballots) -> int:
    """The most rounds, up to 1 in 100, whose outlook is not poor; 0 for none."""
    member, settings = CLASSES[request.spec.mechanism], {**request.settings, "labels": ballots.labels}

    def works(rounds: int) -> bool:
        fitting = pate.fitted(member, cast(Budget, request.spec.budget), rounds=rounds, **settings)
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
        return PateAnswer(request, job, expected)


def _check_start(request: PateRequest) -> None:
    Labelling.check_start(request.folder, resume=request.spec.resume)
    if not _is_ours(request.output, request.record):
        require_new(request.output, "--output")


@contextmanager
def _session(request: PateRequest, mechanism: Mechanism, rounds: int) -> Iterator[Session]:
    """Who pays: a dataset of a ledger, or one with the budget of this job."""
    if request.own is not None:
        with own_session(request.own, mechanism, rounds, request.spec.batch_size, resume=request.spec.resume) as session:
            yield session
        return
    spec = request.spec
    terms: Any = {"period": next(iter(spec.periods), None), "actor": spec.actor, "team": spec.team, "purpose": spec.purpose}
    with _ledger(spec) as ledger:
        yield Session(ledger, str(spec.dataset), **terms)


@contextmanager
def _ledger(spec: LabelSpec) -> Iterator[Ledger]:
    if isinstance(spec.ledger, Ledger):
        yield spec.ledger
    else:
        with Ledger.open(str(spec.ledger), create=False) as ledger:
            yield ledger


def _relation(request: PateRequest) -> Relation:
    """That of the records which the ledger protects; a changed ballot costs the same under either."""
    if request.spec.ledger is None:
        return "replace_one"
    with _ledger(request.spec) as ledger:
        return ledger.dataset(str(request.spec.dataset)).relation


def _mechanism(request: PateRequest, ballots: Ballots, relation: Relation) -> Vote:
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
        return pate.fitted(member, request.spec.budget, rounds=ballots.rounds, **settings)
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


# -- the command -----------------------------------------------------------------------------------------------------------


_Votes = Annotated[
    Path,
    Argument(metavar="VOTES", help="A .npz or .npy file: votes, counts, classes or a sparse matrix. Nothing in it is executed."),
]


def _label(votes: _Votes, spec: LabelSpec, json: options.Json = False, _debug: options.Debug = False) -> None:
    request = PateRequest(votes, spec)

    def announce(ballots: Ballots, expected: Outlook) -> None:
        # Two lines before the first charge; on the error stream where the output is JSON.
        axes = f"{ballots.rounds:,} rounds x {ballots.teachers:,} teachers x {ballots.labels:,} labels"
        if json:
            echo(f"{axes}; {expected}", err=True)
        else:
            out.emit(f"{axes}; {expected}\n\n")

    with _kept(request), _terminable(), labelling() as progress:
        answer = labelled(request, progress, announce)
    if isinstance(answer, DryRun):
        show_dry_run(answer, json=json)
        return
    told = _facts_of(answer, spec.delta)
    try:
        out.emit(out.json_text(told) + "\n" if json else _shown(told))
    except out.NotShown as error:
        raise out.NotShown(
            f"{error}; the labels lie in {masked(request.output)} and are paid for under the keys {answer.job.key}/..."
        ) from None
    if answer.job.stopped is not None:
        # What a job that ran out of budget on the way has charged and written.
        done, asked = len(answer.job.answers), answer.job.ballots.rounds
        written = (
            f"{done} of {asked} rounds are labelled, charged and in {masked(request.output)}" if done else "nothing was charged"
        )
        stopped = (
            f"the budget was spent meanwhile: {written}; the other {asked - done} were neither charged nor drawn. Raise the "
            f"budget of dataset={answer.job.session.dataset.name!r} and give --resume to label them"
        )
        echo(f"error: {printable(stopped)}", err=True)
        raise Exit(SPENT)


label = command(LabelSpec, _label)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends a job as Ctrl-C does: with a line that says where it stands."""

    def end(*_: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _kept(request: PateRequest) -> Iterator[None]:
    """Whatever interrupts a job says where it stands."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, AccountingError):
            error.add_note(Note(_standing(request)))
        raise


def _standing(request: PateRequest) -> str:
    if not Labelling.is_begun(request.folder):
        return "nothing was charged"
    try:
        key = Labelling.key_of(request.folder)
    except AccountingError:
        key = str(request.spec.key)
    return (
        f"batches that were begun are charged once, under the keys {key}/0, {key}/1 and so on, and kept in "
        f"{masked(request.folder)}: --resume goes on, and charges nothing for them again"
    )


def labelling(console: Console | None = None) -> AbstractContextManager[ProgressCallback | None]:
    return out.bar("labelling rounds", MofNCompleteColumn(), TimeRemainingColumn(), console=console)


def _facts_of(answer: PateAnswer, delta: float | None) -> dict[str, Any]:
    """The job and its price as plain data; epsilon is stated at `delta`, by default at a customary one with room for failures."""
    job, curve = answer.job, answer.job.mechanism.curve
    rounds = len(job.answers)
    at = max(_CUSTOMARY_DELTA, min(0.5, 2 * rounds * curve.delta0)) if delta is None else delta
    epsilon = best_epsilon(rounds * curve, at, thorough=True).value if rounds else 0.0
    left, abstained = job.session.affordable(job.mechanism, one_by_one=True), job.answers.count(None)
    return {
        "dpselect": dpselect.__version__,
        "job": {"key": job.key, "batch_size": job.batch_size, "folder": without_password(answer.request.folder)},
        "output": without_password(answer.request.output),
        "rounds": {
            "asked": job.ballots.rounds,
            "labelled": rounds,
            "answered": rounds - abstained,
            "abstained": abstained,
        },
        "outlook": {
            "noise": answer.outlook.noise,
            "threshold": answer.outlook.threshold,
            "unanimous_label": answer.outlook.unanimous,
            "label_without_votes": answer.outlook.unvoted,
            "wrong_labels_an_item": answer.outlook.wrong_labels,
            "works": answer.outlook.works,
        },
        "guarantee": {"relation": job.mechanism.relation, "epsilon": epsilon if math.isfinite(epsilon) else None, "delta": at},
        "risk": Risk.of(rounds * curve).as_data(job.mechanism.relation, "record") if rounds else None,
        "mechanism": json.loads(job.mechanism.to_json()),
        "curve": json.loads(curve.to_json()),
        "ledger": {
            "own": answer.request.spec.ledger is None,
            "dataset": job.session.dataset.name,
            "period": next(iter(answer.request.spec.periods), None),
            "figures": left.as_data(),
            "remaining": {"main": left.main, "failure": left.failure, "in_words": str(left)},
            "rounds_left": left.releases,
        },
    }


def _shown(told: dict[str, Any]) -> Group:
    """`_facts_of` for people."""
    price = out.heading("Price"), out.facts(_price(told))
    rounds = told["rounds"]
    start = f"Labelled {rounds['labelled']} of {rounds['asked']} rounds: {rounds['answered']} answered, "
    start += f"{rounds['abstained']} abstained."
    return Group(
        out.heading(f"{start} The labels are in {printable(without_password(told['output']))}." if rounds["labelled"] else start),
        Text(),
        *price,
        Text(),
        *_ledger_text(told),
    )


def _price(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    stated, mechanism = told["guarantee"], told["mechanism"]
    epsilon = "no bound" if stated["epsilon"] is None else f"epsilon {rounded_up(stated['epsilon'])}"
    yield "all rounds", f"{epsilon} at delta {stated['delta']:g}, whatever the votes"
    if told["risk"] is not None:
        yield "risk", told["risk"]["in_words"]
    yield "protects", f"one private record: it changes one teacher's ballots in all rounds ({stated['relation']})"
    settings = (f"{name}={value}" for name, value in mechanism.items() if name != "kind" and value is not None)
    yield "mechanism", f"{mechanism['kind']} ({', '.join(settings)})"


def _ledger_text(told: dict[str, Any]) -> tuple[Any, ...]:
    ledger, folder = told["ledger"], printable(without_password(told["job"]["folder"]))
    if ledger["own"]:
        pairs = [("ledger", f"its own, in {folder}, with a budget of this job; further jobs on these teachers add to the price")]
    else:
        rounds = f"{ledger['remaining']['in_words']} (a round is a release; a plan for "
        rounds += "the whole budget is priced as a whole and buys more: pate.rounds_for)"
        pairs = [("dataset", printable(ledger["dataset"])), ("standing", rounds)]
    pairs.append(("key", printable(told["job"]["key"])))
    pairs.append(("folder", f"{folder} keeps the labels of every batch; it may be deleted when the job is done"))
    return out.heading("Ledger"), out.facts(pairs)
