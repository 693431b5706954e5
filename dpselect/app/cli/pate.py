"""`dpselect pate`, a labeling job. SIGTERM ends it as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated

from rich.progress import MofNCompleteColumn, TimeRemainingColumn
from typer import Argument, Exit, echo

from accounting.address import mask
from accounting.wording import printable
from dpselect.app.cli import guard, out
from dpselect.app.cli.from_model import command, spell_options
from dpselect.app.cli.guard import SPENT, Terminated
from dpselect.app.labeling.job import label_rounds
from dpselect.app.labeling.labeling import ProgressCallback
from dpselect.app.release.answer import DryRun
from dpselect.app.spec.label_spec import LabelSpec
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
        result = label_rounds(votes, spec, progress, announce)
    if isinstance(result, DryRun):
        out.show(result, json=json)
        return
    try:
        out.show(result, json=json)
    except out.NotShown as error:
        raise out.NotShown(
            f"{error}; the labels lie in {mask(Path(spec.output))} and are charged under the"
            f" keys {result.job.key}/..."
        ) from None
    if result.shortage is not None:
        echo(f"error: {printable(spell_options(result.shortage, LabelSpec))}", err=True)
        raise Exit(SPENT)


pate = command(LabelSpec, _label)


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


def labeling() -> AbstractContextManager[ProgressCallback | None]:
    return out.bar("labeling rounds", MofNCompleteColumn(), TimeRemainingColumn())
