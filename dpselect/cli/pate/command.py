"""`dpselect pate`."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console, Group
from rich.progress import MofNCompleteColumn, TimeRemainingColumn
from rich.text import Text
from typer import Argument, Exit, Option, echo

import dpselect
from accounting import AccountingError, Budget, Unaffordable, best_epsilon
from accounting.budget.remaining import left_in_words
from dpselect import InvalidRequest
from dpselect.answers.promise import finite, rounded_up
from dpselect.cli import options, out
from dpselect.cli.guard import SPENT, Terminated
from dpselect.cli.pate.request import Kind, PateAnswer, PateRequest, labelled
from dpselect.errors import Note, printable
from dpselect.pate.ballots.ballots import Ballots, Missing
from dpselect.pate.labelling import ProgressCallback, Spool
from dpselect.pate.outlook import Outlook

_noise = partial(Option, rich_help_panel="Noise of a round")
_votes = partial(Option, rich_help_panel="The votes")
_batches = partial(Option, rich_help_panel="Batches")
_CUSTOMARY_DELTA = 1e-6
_SETTINGS = ("sigma", "threshold", "sigma_threshold", "tau", "rho", "failure_delta", "kbar")


_Votes = Annotated[
    Path, Argument(metavar="VOTES", help="A .npz file: an array 'votes', or a sparse matrix. Nothing in it is executed.")
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


def pate(
    votes: _Votes,
    output: Annotated[Path, Option(help="Where the labels go: a .npz, .csv or .jsonl file.")],
    mechanism: Annotated[Kind, Option(help="How teachers' votes become labels.")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    sigma: Annotated[float | None, _noise(help="Noise of a round in votes, in place of a budget. Not for stable.")] = None,
    threshold: _Threshold = None,
    sigma_threshold: _SigmaThreshold = None,
    tau: Annotated[int | None, _noise(min=1, help="Votes on a ballot at most, for tau; longer ballots are cut.")] = None,
    salt: Annotated[str, _noise(help="Public text that decides which votes of a long ballot are kept.")] = "",
    rho: Annotated[float | None, _noise(help="zCDP parameter of a round of stable, in nats, in place of a budget.")] = None,
    failure_delta: Annotated[float | None, _noise(help="Probability of failure of a round of stable.")] = None,
    kbar: Annotated[int | None, _noise(min=1, help="The most labels of an item, for stable. Default: all.")] = None,
    teachers: Annotated[int | None, _votes(min=1, help="How many teachers there are, where VOTES holds a matrix.")] = None,
    stacked: _Stacked = False,
    missing: Annotated[Missing, _votes(help="Whether empty ballots and empty rounds are refused.")] = "refuse",
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
        _announce(ballots, expected, err=json)

    with _kept(request), _terminable(), labelling() as progress:
        answer = labelled(request, progress, announce)
    told = _facts_of(answer, delta)
    try:
        out.emit(out.json_text(told) + "\n" if json else _shown(told))
    except out.NotShown as error:
        raise out.NotShown(
            f"{error}; the labels lie in {str(output)!r} and are paid for under the keys {answer.job.key}/..."
        ) from None
    if answer.progress.stopped is not None:
        echo(f"error: {printable(_stopped(answer))}", err=True)
        raise Exit(SPENT)


def _announce(ballots: Ballots, expected: Outlook, *, err: bool) -> None:
    """Two lines before the first charge; on the error stream where the output is JSON."""
    axes = f"{ballots.rounds:,} rounds x {ballots.teachers:,} teachers x {ballots.labels:,} labels"
    if err:
        echo(f"{axes}; {expected}", err=True)
    else:
        out.emit(f"{axes}; {expected}\n\n")


def _stopped(answer: PateAnswer) -> str:
    """A job that ran out of budget on the way: what it has charged and written."""
    done, job = answer.progress.rounds, answer.job
    written = (
        f"{done} of {job.rounds} rounds are labelled, charged and in {answer.request.output}" if done else "nothing was charged"
    )
    return (
        f"the budget was spent meanwhile: {written}; the other {job.rounds - done} were neither charged nor drawn. Raise the "
        f"budget of dataset={answer.payer.dataset!r} and give --resume to label them"
    )


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
    if not Spool.is_begun(request.folder):
        return "nothing was charged"
    try:
        key = Spool.key(request.folder)
    except AccountingError:
        key = str(request.key)
    return (
        f"batches that were begun are charged once, under the keys {key}/0, {key}/1 and so on, and kept in "
        f"{str(request.folder)!r}: --resume goes on, and charges nothing for them again"
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
    job, done = answer.job, answer.progress
    curve = job.mechanism.curve
    at = max(_CUSTOMARY_DELTA, min(0.5, 2 * done.rounds * curve.delta0)) if delta is None else delta
    epsilon = best_epsilon(done.rounds * curve, at, thorough=True).value if done.rounds else 0.0
    return {
        "dpselect": dpselect.__version__,
        "job": {"key": job.key, "batch_size": job.batch_size, "folder": str(answer.request.folder)},
        "output": str(answer.request.output),
        "rounds": {
            "asked": job.rounds,
            "labelled": done.rounds,
            "answered": done.answered,
            "abstained": done.rounds - done.answered,
        },
        "outlook": {
            "noise": answer.outlook.noise,
            "threshold": answer.outlook.threshold,
            "unanimous_label": answer.outlook.unanimous,
            "label_without_votes": answer.outlook.unvoted,
            "wrong_labels_an_item": answer.outlook.wrong_labels,
            "works": answer.outlook.works,
        },
        "guarantee": {"relation": job.mechanism.relation, "epsilon": finite(epsilon), "delta": at},
        "mechanism": json.loads(job.mechanism.to_json()),
        "curve": json.loads(curve.to_json()),
        "ledger": _ledger(answer),
    }


def _ledger(answer: PateAnswer) -> dict[str, Any]:
    payer, total = answer.payer, answer.payer.total
    left = total.remaining
    return {
        "own": answer.request.ledger is None,
        "dataset": payer.dataset,
        "period": payer.period,
        "remaining": {"main": left.main, "failure": left.failure, "in_words": left_in_words(total.budget, total.spent)},
        "rounds_left": _rounds_left(answer),
    }


def _rounds_left(answer: PateAnswer) -> int:
    try:
        return answer.payer.buys(answer.job.mechanism)
    except Unaffordable:
        return 0


def _shown(told: dict[str, Any]) -> Group:
    """`_facts_of` for people."""
    price = out.heading("Price"), out.facts(_price(told))
    return Group(out.heading(_first(told)), Text(), *price, Text(), *_ledger_text(told))


def _first(told: dict[str, Any]) -> str:
    rounds = told["rounds"]
    start = f"Labelled {rounds['labelled']} of {rounds['asked']} rounds: {rounds['answered']} answered, "
    start += f"{rounds['abstained']} abstained."
    return f"{start} The labels are in {printable(told['output'])}." if rounds["labelled"] else start


def _price(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    stated, mechanism = told["guarantee"], told["mechanism"]
    epsilon = "no bound" if stated["epsilon"] is None else f"epsilon {rounded_up(stated['epsilon'])}"
    yield "all rounds", f"{epsilon} at delta {stated['delta']:g}, whatever the votes"
    yield "protects", "one private record: it changes one teacher's ballots in all rounds (replace_one)"
    settings = (f"{name}={value}" for name, value in mechanism.items() if name != "kind" and value is not None)
    yield "mechanism", f"{mechanism['kind']} ({', '.join(settings)})"


def _ledger_text(told: dict[str, Any]) -> tuple[Any, ...]:
    ledger, folder = told["ledger"], printable(told["job"]["folder"])
    if ledger["own"]:
        pairs = [("ledger", f"its own, in {folder}, with a budget of this job; further jobs on these teachers add to the price")]
    else:
        rounds = f"{ledger['remaining']['in_words']}, which buys {ledger['rounds_left']} more rounds one by one (a plan for "
        rounds += "the whole budget is priced as a whole and buys more: pate.rounds_for)"
        pairs = [("dataset", printable(ledger["dataset"])), ("left", rounds)]
    pairs.append(("key", printable(told["job"]["key"])))
    pairs.append(("folder", f"{folder} keeps the labels of every batch; it may be deleted when the job is done"))
    return out.heading("Ledger"), out.facts(pairs)
