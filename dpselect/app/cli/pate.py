"""`dpselect pate`, a labeling job. SIGTERM ends it as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console, Group
from rich.progress import MofNCompleteColumn, TimeRemainingColumn
from typer import Argument, Exit, echo

from accounting.address import masked, without_password
from accounting.wording import format_number, rounded_up
from dpselect.app.cli import guard, out
from dpselect.app.cli.from_model import command, spelled
from dpselect.app.cli.guard import SPENT, Terminated
from dpselect.app.labeling.job import labeled
from dpselect.app.labeling.labeling import ProgressCallback
from dpselect.app.release.answer import DryRun
from dpselect.app.spec.label_spec import LabelSpec
from dpselect.errors import printable
from dpselect.pate.ballots import Ballots
from dpselect.pate.plan import Outlook

_Votes = Annotated[
    Path,
    Argument(
        metavar="VOTES",
        help=(
            "File of votes, counts, classes or a sparse matrix, .npz, .npy or .csv. Nothing in it"
            " is executed."
        ),
    ),
]


def _label(votes: _Votes, spec: LabelSpec, json: guard.Json = False) -> None:
    def announce(ballots: Ballots, expected: Outlook) -> None:
        # Two lines before the first charge; on the error stream where the output is JSON.
        lines = (
            f"{ballots.rounds:,} rounds x {ballots.teachers:,} teachers x {ballots.labels:,}"
            f" labels; {expected}"
        )
        if json:
            echo(lines, err=True)
        else:
            out.emit(f"{lines}\n\n")

    with _terminable(), labeling() as progress:
        found = labeled(votes, spec, progress, announce)
    if isinstance(found, DryRun):
        out.show_dry_run(found, json=json)
        return
    try:
        out.show(found.as_data(), _shown, json=json)
    except out.NotShown as error:
        raise out.NotShown(
            f"{error}; the labels lie in {masked(Path(spec.output))} and are charged under the"
            f" keys {found.job.key}/..."
        ) from None
    if found.shortage is not None:
        echo(f"error: {printable(spelled(found.shortage, LabelSpec))}", err=True)
        raise Exit(SPENT)


label = command(LabelSpec, _label)


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end a job as Ctrl-C does, with a line on its progress."""

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


def labeling(console: Console | None = None) -> AbstractContextManager[ProgressCallback | None]:
    return out.bar("labeling rounds", MofNCompleteColumn(), TimeRemainingColumn(), console=console)


def _shown(told: dict[str, Any]) -> Group:
    """The job and its cost, as text."""
    rounds = told["rounds"]
    start = (
        f"Labeled {rounds['labeled']} of {rounds['asked']} rounds: {rounds['answered']} answered, "
    )
    start += f"{rounds['abstained']} abstained."
    start += (
        f" The labels are in {printable(without_password(told['output']))}."
        if rounds["labeled"]
        else ""
    )
    return out.page(
        out.heading(start), out.section("Price", _price(told)), out.section("Ledger", _ledger(told))
    )


def _price(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    stated, mechanism = told["guarantee"], told["mechanism"]
    epsilon = (
        "no bound" if stated["epsilon"] is None else f"epsilon {rounded_up(stated['epsilon'], 6)}"
    )
    yield "all rounds", f"{epsilon} at delta {format_number(stated['delta'])}, whatever the votes"
    if told["risk"] is not None:
        yield "risk", told["risk"]["in_words"]
    yield (
        "protects",
        (
            "one private record: it changes one teacher's ballots in all rounds"
            f" ({stated['relation']})"
        ),
    )
    settings = (
        f"{name}={value}"
        for name, value in mechanism.items()
        if name != "kind" and value is not None
    )
    yield "mechanism", f"{mechanism['kind']} ({', '.join(settings)})"


def _ledger(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    ledger, folder = told["ledger"], printable(without_password(told["job"]["folder"]))
    if ledger["own"]:
        yield (
            "ledger",
            (
                f"its own, in {folder}, with a budget of this job; further jobs on these teachers"
                " add to the price"
            ),
        )
    else:
        rounds = f"{ledger['remaining']['in_words']} (a round is a release)"
        yield from (("dataset", printable(ledger["dataset"])), ("standing", rounds))
    yield "key", printable(told["job"]["key"])
    yield (
        "folder",
        f"{folder} keeps the labels of every batch; it may be deleted when the job is done",
    )
