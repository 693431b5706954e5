"""`dpselect pate`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from accounting import AccountingError, Budget
from dpselect.cli import json_output, options
from dpselect.cli.guard import FAILED, Note
from dpselect.cli.output import NotShown, emit
from dpselect.cli.pate import text as pate_text
from dpselect.cli.pate.request import Kind, PateRequest, labelled
from dpselect.cli.printable import printable
from dpselect.errors import InvalidRequest
from dpselect.pate.ballots.ballots import Missing
from dpselect.pate.labelling.spool import Spool

Option = typer.Option


def pate(
    votes: Annotated[
        Path,
        typer.Argument(metavar="VOTES", help="A .npz file: an array 'votes', or a sparse matrix. Nothing in it is executed."),
    ],
    output: Annotated[Path, Option("--output", help="Where the labels go: a .npz, .csv or .jsonl file.")],
    mechanism: Annotated[Kind, Option("--mechanism", help="How teachers' votes become labels.")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    sigma: Annotated[
        float | None, Option("--sigma", help="Noise of a round in votes, in place of a budget. Not for stable.")
    ] = None,
    threshold: Annotated[
        float | None,
        Option("--threshold", help="Votes that a noisy count must exceed: confident; binary and tau, where half is the default."),
    ] = None,
    sigma_threshold: Annotated[
        float | None,
        Option("--sigma-threshold", help="Noise of the test of confident, in votes. Default with a budget: 2 sigma."),
    ] = None,
    tau: Annotated[int | None, Option("--tau", min=1, help="Votes on a ballot at most, for tau; longer ballots are cut.")] = None,
    salt: Annotated[str, Option("--salt", help="Public text that decides which votes of a long ballot are kept.")] = "",
    rho: Annotated[
        float | None, Option("--rho", help="zCDP parameter of a round of stable, in nats, in place of a budget.")
    ] = None,
    failure_delta: Annotated[float | None, Option("--failure-delta", help="Probability of failure of a round of stable.")] = None,
    kbar: Annotated[int | None, Option("--kbar", min=1, help="The most labels of an item, for stable. Default: all.")] = None,
    teachers: Annotated[
        int | None, Option("--teachers", min=1, help="How many teachers there are, where VOTES holds a matrix.")
    ] = None,
    stacked: Annotated[
        bool, Option("--stacked", help="The matrix has a row for each teacher and round, not one of counts for each round.")
    ] = False,
    missing: Annotated[Missing, Option("--missing", help="Whether empty ballots and empty rounds are refused.")] = "refuse",
    batch_size: Annotated[int, Option("--batch-size", min=1, help="Rounds that are charged and kept together.")] = 100,
    ledger: Annotated[
        str | None, Option("--ledger", help="Ledger that is charged before each batch. Default: one made beside the output.")
    ] = None,
    dataset: Annotated[str | None, Option("--dataset", help="Dataset of the ledger whose budget pays.")] = None,
    period: Annotated[
        str | None, Option("--period", help="Period whose rows the votes come from, where the dataset has a budget per period.")
    ] = None,
    key: Annotated[str | None, Option("--key", help="Idempotency key of the job. Default: a random one.")] = None,
    pay_for_what_came_out: Annotated[
        bool,
        Option("--pay-for-what-came-out", help="Rounds of confident that abstain cost their test alone; with --ledger."),
    ] = False,
    resume: Annotated[
        bool, Option("--resume", help="Continue a job that was interrupted. Nothing is charged or drawn twice.")
    ] = False,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """Label public items by the votes of teachers, and tell the price.

    Each round is one item. A budget (--epsilon and --delta) is that of all rounds together; without one, the noise of a round is
    stated. The guarantee protects one private record, which changes one teacher's ballots in all rounds.
    """
    stated = {
        "sigma": sigma,
        "threshold": threshold,
        "sigma_threshold": sigma_threshold,
        "tau": tau,
        "rho": rho,
        "failure_delta": failure_delta,
        "kbar": kbar,
    }
    request = PateRequest(
        votes=votes,
        output=output,
        mechanism=mechanism,
        settings={name: value for name, value in stated.items() if value is not None},
        budget=_budget(epsilon, delta),
        teachers=teachers,
        stacked=stacked,
        missing=missing,
        salt=salt,
        batch_size=batch_size,
        ledger=ledger,
        dataset=dataset,
        period=period,
        key=key,
        resume=resume,
        pay="spent" if pay_for_what_came_out else "curve",
    )
    with _kept(request), pate_text.bar() as progress:
        answer = labelled(request, progress)
    told = pate_text.facts_of(answer, delta)
    try:
        emit(json_output.as_json(told) + "\n" if json else pate_text.shown(told))
    except NotShown as error:
        raise NotShown(
            f"{error}; the labels lie in {str(output)!r} and are paid for under the keys {answer.job.key}/..."
        ) from None
    if answer.progress.stopped is not None:
        typer.echo(f"error: {printable(answer.progress.stopped)}", err=True)
        raise typer.Exit(FAILED)


@contextmanager
def _kept(request: PateRequest) -> Iterator[None]:
    """Whatever interrupts a job says where it stands."""
    try:
        yield
    except AccountingError:
        raise
    except BaseException as error:
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
