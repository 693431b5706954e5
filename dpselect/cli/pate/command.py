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
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

import numpy as np
from rich.console import Console, Group
from rich.progress import MofNCompleteColumn, TimeRemainingColumn
from rich.text import Text
from typer import Argument, Exit, Option, echo

import dpselect
from accounting import AccountingError, Budget, Ledger, Relation, best_epsilon
from accounting.address import masked, without_password
from accounting.files import PRIVATE, new_file, require_new
from accounting.risk import Risk
from dpselect import InvalidMechanism, InvalidRequest, Mechanism, pate
from dpselect.cli import options, out
from dpselect.cli.guard import SPENT, Terminated
from dpselect.errors import Note, printable
from dpselect.mechanisms.base import Pay
from dpselect.pate.ballots import Ballots, Missing, Split, Vote
from dpselect.pate.labelling import Answer, Labelling, ProgressCallback, own_session
from dpselect.pate.outlook import Outlook, require_better_than_constant
from dpselect.pate.votes_file import VotesFile
from dpselect.plan.fit import knob_of
from dpselect.release.promise import rounded_up
from dpselect.release.session import Session
from dpselect.selection import Label

FORMATS = (".npz", ".csv", ".jsonl")
Kind = Literal["gnmax", "confident", "binary", "tau", "top", "stable"]
CLASSES: Final[dict[Kind, Any]] = {
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
    output: Path
    mechanism: Kind
    settings: dict[str, Any]
    budget: Budget | None
    teachers: int | None = None
    labels: int | None = None
    votes_per_item: float | None = None
    agreement: float | None = None
    label_skew: float | None = None
    like: Path | None = None
    public_votes: bool = False
    stacked: bool = False
    missing: Missing = "refuse"
    split: Split = "position"
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
    job: Labelling
    outlook: pate.Outlook


def labelled(
    request: PateRequest,
    progress: ProgressCallback | None = None,
    announce: Callable[[Ballots, pate.Outlook], None] | None = None,
) -> PateAnswer:
    """Label the rounds, or what is left of them, and write the labels. `announce` is called before anything is charged."""
    # Raise InvalidRequest unless the name of the file tells a format that labels are written in.
    if request.output.suffix.lower() not in FORMATS:
        raise InvalidRequest(f"--output {masked(request.output)} must end in {', '.join(FORMATS)}: the name tells the format")
    if (request.ledger is None) != (request.dataset is None):
        raise InvalidRequest("--ledger and --dataset go together: name both, or none to keep a ledger beside the output")
    if request.ledger is None and request.pay != "curve":
        raise InvalidRequest("--pay-for-what-came-out needs --ledger and --dataset: the job's own ledger pays for nothing else")
    if request.ledger is None and request.period is not None:
        raise InvalidRequest("--period belongs to a dataset of a ledger: name it with --ledger and --dataset")
    votes = VotesFile.read(
        request.votes,
        teachers=request.teachers,
        labels=request.labels,
        stacked=request.stacked,
        missing=request.missing,
        split=request.split,
    )
    profile = _profile(request, votes.ballots)
    mechanism = _mechanism(request, votes.ballots, _relation(request))
    ballots = votes.fitting(mechanism, request.salt)
    _check_start(request)
    expected = pate.outlook(mechanism, teachers=ballots.teachers)
    if not (expected.works or request.anyway or request.resume):
        # What would be bought, and what else could be done.
        remedy = "state less noise"
        if request.budget is not None:
            fitting = _rounds_that_work(request, ballots)
            fewer = f"label at most {fitting} rounds" if fitting else "no number of rounds works at this budget"
            remedy = f"{fewer}, raise --epsilon, or train more teachers (`dpselect plan --pate`)"
        described = str(expected).replace("\n", "; ")
        raise pate.PoorOutlook(
            f"--mechanism {request.mechanism} would release little but noise for {ballots.rounds} rounds and {ballots.teachers} "
            f"teachers: {described}. Remedy: {remedy}; --anyway labels them all the same"
        )
    if profile is not None and not (request.anyway or request.resume):
        require_better_than_constant(mechanism.with_teachers(ballots.teachers), profile)
    if announce is not None:
        announce(ballots, expected)
    with Labelling.held(request.folder):
        return _run(request, votes, ballots, ballots.settled(mechanism), expected, progress)


def _profile(request: PateRequest, ballots: Ballots) -> pate.VotesModel | pate.TrialVotes | None:
    """What is publicly known of such votes, to compare the job with naming the most frequent labels; never the votes at hand."""
    numbers = {"votes_per_item": request.votes_per_item, "agreement": request.agreement, "label_skew": request.label_skew}
    stated = {name: value for name, value in numbers.items() if value is not None}
    if (request.like is not None) != request.public_votes:
        raise InvalidRequest(
            "--like FILE and --public-votes go together: the second declares that the teachers of that file learnt from public "
            "or made-up records, since figures of its votes are shown and no ledger is charged for them"
        )
    if request.like is not None:
        if stated:
            raise InvalidRequest(f"--like says what {options.flags(*stated)} say: leave them out")
        return VotesFile.trial(request.like)
    if not stated:
        return None
    if missing := [name for name in ("votes_per_item", "agreement") if name not in stated]:
        raise InvalidRequest(f"{options.flags(*stated)} needs {options.flags(*missing)}: all are about what is true of an item")
    return pate.VotesModel(teachers=ballots.teachers, labels=ballots.labels, **stated)


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
    with _session(request, mechanism, ballots.rounds) as session:
        job = Labelling(
            session,
            mechanism,
            ballots,
            request.folder,
            key=request.key or (Labelling.key_of(request.folder) if request.resume else uuid.uuid4().hex),
            batch_size=request.batch_size,
            pay=request.pay,
            salt=request.salt,
            votes=votes.digest,
            own=request.own,
        )
        (job.resume if request.resume else job.begin)()
        job.run(progress)
        if job.answers:
            write_output(request.output, job.answers, ballots.names, request.record)
        return PateAnswer(request, job, expected)


def _check_start(request: PateRequest) -> None:
    Labelling.check_start(request.folder, resume=request.resume)
    if not _is_ours(request.output, request.record):
        require_new(request.output, "--output")


@contextmanager
def _session(request: PateRequest, mechanism: Mechanism, rounds: int) -> Iterator[Session]:
    """Who pays: a dataset of a ledger, or one with the budget of this job."""
    if request.own is not None:
        with own_session(request.own, mechanism, rounds, request.batch_size, resume=request.resume) as session:
            yield session
        return
    with Ledger.open(str(request.ledger), create=False) as ledger:
        yield Session(ledger, str(request.dataset), period=request.period)


def _relation(request: PateRequest) -> Relation:
    """That of the records which the ledger protects; a changed ballot costs the same under either."""
    if request.ledger is None:
        return "replace_one"
    with Ledger.open(request.ledger, create=False) as ledger:
        return ledger.dataset(str(request.dataset)).relation


def _mechanism(request: PateRequest, ballots: Ballots, relation: Relation) -> Vote:
    member, settings = CLASSES[request.mechanism], {**request.settings, "labels": ballots.labels, "relation": relation}
    knob = knob_of(member).field
    if (request.budget is None) == (knob not in settings):
        raise InvalidRequest(f"state either --{knob}, the noise of a round, or --epsilon and --delta, the budget of all rounds")
    for name in request.settings:
        if name not in member.model_fields:
            raise InvalidRequest(f"{options.flags(name)} is not a setting of --mechanism {request.mechanism}: leave it out")
    needed = {"confident": "threshold", "tau": "tau", "top": "k"}.get(request.mechanism)
    if needed is not None and needed not in request.settings:
        raise InvalidRequest(f"--mechanism {request.mechanism} needs --{needed}")
    try:
        if request.budget is None:
            mechanism = member(**settings)
            if (failure := ballots.rounds * mechanism.curve.delta0) >= 1:
                raise InvalidRequest(
                    f"{ballots.rounds} rounds that may each fail with probability {mechanism.curve.delta0:g} promise nothing "
                    f"({failure:g} in all): lower --failure-delta to far less than 1 / rounds"
                )
            return mechanism
        return pate.fitted(member, request.budget, rounds=ballots.rounds, **settings)
    except InvalidMechanism as error:
        # The message about fields of a mechanism, as one about the options that set them.
        message = str(error)
        for name in member.model_fields:
            message = message.replace(f"{member.__name__}.{name}=", f"{options.flags(name)}=")
        raise InvalidRequest(message) from None


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


_noise = partial(Option, rich_help_panel="Noise of a round")
_votes = partial(Option, rich_help_panel="The votes")
_public = partial(Option, rich_help_panel="Compare with naming the most frequent labels (public knowledge of such votes)")
_batches = partial(Option, rich_help_panel="Batches")
_CUSTOMARY_DELTA = 1e-6
_SETTINGS = ("sigma", "scale", "threshold", "sigma_threshold", "tau", "k", "rho", "failure_delta", "kbar")


_Votes = Annotated[
    Path,
    Argument(metavar="VOTES", help="A .npz or .npy file: votes, counts, classes or a sparse matrix. Nothing in it is executed."),
]
_Threshold = Annotated[
    float | None, Option(help="Votes that a noisy count must exceed: confident; binary and tau, where half is the default.")
]
_SigmaThreshold = Annotated[
    float | None, _noise(help="Noise of the test of confident, in votes. Default with a budget: 2 sigma.")
]
_Stacked = Annotated[
    bool, _votes("--stacked", help="The matrix has a row for each teacher and round, not one of counts for each round.")
]
_Split = Annotated[
    Split,
    _votes(
        help="Declare how records found their teacher: by their position in the data, or by an identifier that no other record "
        "changes (a hash of the person's), which a dataset under add_remove needs."
    ),
]
_Ledger = Annotated[
    str | None, options.ledger(help="Ledger that is charged before each batch. Default: one made beside the output.")
]
_Period = Annotated[
    str | None, options.ledger(help="Period whose rows the votes come from, where the dataset has a budget per period.")
]
_PayForWhatCameOut = Annotated[
    bool,
    options.ledger("--pay-for-what-came-out", help="Rounds of confident that abstain cost their test alone; with --ledger."),
]
_Resume = Annotated[bool, _batches("--resume", help="Continue a job that was interrupted. Nothing is charged or drawn twice.")]


def label(
    votes: _Votes,
    output: Annotated[Path, Option(help="Where the labels go: a .npz, .csv or .jsonl file.")],
    mechanism: Annotated[Kind, Option(help="How teachers' votes become labels.")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    sigma: Annotated[float | None, _noise(help="Noise of a round in votes, in place of a budget: not of top, stable.")] = None,
    threshold: _Threshold = None,
    sigma_threshold: _SigmaThreshold = None,
    scale: Annotated[float | None, _noise(help="Scale of the noise of a round of top, in votes, in place of a budget.")] = None,
    k: Annotated[int | None, _noise(min=1, help="Labels that every item gets, for top.")] = None,
    tau: Annotated[int | None, _noise(min=1, help="Votes on a ballot at most, for tau; longer ballots are cut.")] = None,
    salt: Annotated[str, _noise(help="Public text that decides which votes of a long ballot are kept.")] = "",
    rho: Annotated[float | None, _noise(help="zCDP parameter of a round of stable, in nats, in place of a budget.")] = None,
    failure_delta: Annotated[float | None, _noise(help="Probability of failure of a round of stable.")] = None,
    kbar: Annotated[int | None, _noise(min=1, help="The most labels of an item, for stable. Default: all.")] = None,
    teachers: Annotated[int | None, _votes(min=1, help="How many teachers there are, where VOTES holds a matrix.")] = None,
    labels: Annotated[int | None, _votes(min=1, help="How many labels there are, where VOTES holds classes.")] = None,
    stacked: _Stacked = False,
    missing: Annotated[Missing, _votes(help="Whether empty ballots and empty rounds are refused.")] = "refuse",
    split: _Split = "position",
    votes_per_item: Annotated[float | None, _public(help="Labels that are true of an item, on average.")] = None,
    agreement: Annotated[float | None, _public(help="The share of teachers who vote for a true label.")] = None,
    label_skew: Annotated[float | None, _public(min=0, help="Zipf exponent of how often labels are true. Default: 0.75.")] = None,
    like: Annotated[Path | None, _public(help="A file of votes on such items and their truth; needs --public-votes.")] = None,
    public_votes: Annotated[bool, _public("--public-votes", help="Declare that --like is of public or made-up records.")] = False,
    batch_size: Annotated[int, _batches(min=1, help="Rounds that are charged and kept together.")] = 100,
    ledger: _Ledger = None,
    dataset: options.Payer = None,
    period: _Period = None,
    key: Annotated[str | None, options.ledger(help="Idempotency key of the job. Default: a random one.")] = None,
    pay_for_what_came_out: _PayForWhatCameOut = False,
    resume: _Resume = False,
    anyway: Annotated[bool, _noise("--anyway", help="Label although the noise leaves little of the votes.")] = False,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """Label public items by the votes of teachers, and tell the price.

    Each round is one item. A budget (--epsilon and --delta) is that of all rounds together; without one, the noise of a round is
    stated. The guarantee protects one private record, which changes one teacher's ballots in all rounds. What the noise does to a
    unanimous label, and to one without votes, is said before anything is charged.
    """
    stated = locals()
    request = PateRequest(
        **{field.name: stated[field.name] for field in fields(PateRequest) if field.name in stated},
        settings={name: stated[name] for name in _SETTINGS if stated[name] is not None},
        budget=_budget(epsilon, delta),
        pay="spent" if pay_for_what_came_out else "curve",
    )

    def announce(ballots: Ballots, expected: Outlook) -> None:
        # Two lines before the first charge; on the error stream where the output is JSON.
        axes = f"{ballots.rounds:,} rounds x {ballots.teachers:,} teachers x {ballots.labels:,} labels"
        if json:
            echo(f"{axes}; {expected}", err=True)
        else:
            out.emit(f"{axes}; {expected}\n\n")

    with _kept(request), _terminable(), labelling() as progress:
        answer = labelled(request, progress, announce)
    told = _facts_of(answer, delta)
    try:
        out.emit(out.json_text(told) + "\n" if json else _shown(told))
    except out.NotShown as error:
        raise out.NotShown(
            f"{error}; the labels lie in {masked(output)} and are paid for under the keys {answer.job.key}/..."
        ) from None
    if answer.job.stopped is not None:
        # What a job that ran out of budget on the way has charged and written.
        done, asked = len(answer.job.answers), answer.job.ballots.rounds
        written = f"{done} of {asked} rounds are labelled, charged and in {masked(output)}" if done else "nothing was charged"
        stopped = (
            f"the budget was spent meanwhile: {written}; the other {asked - done} were neither charged nor drawn. Raise the "
            f"budget of dataset={answer.job.session.dataset.name!r} and give --resume to label them"
        )
        echo(f"error: {printable(stopped)}", err=True)
        raise Exit(SPENT)


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
        key = str(request.key)
    return (
        f"batches that were begun are charged once, under the keys {key}/0, {key}/1 and so on, and kept in "
        f"{masked(request.folder)}: --resume goes on, and charges nothing for them again"
    )


def _budget(epsilon: float | None, delta: float | None) -> Budget | None:
    if epsilon is None:
        if delta is not None and not 0 < delta < 1:
            raise InvalidRequest(f"--delta={delta:g} must lie strictly between 0 and 1")
        return None
    return options.budget(epsilon, delta, None)


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
            "own": answer.request.ledger is None,
            "dataset": job.session.dataset.name,
            "period": answer.request.period,
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
