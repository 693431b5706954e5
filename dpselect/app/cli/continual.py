"""`dpselect continual`, a horizon of releases from a shell."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from typer import Argument

from accounting.address import masked
from accounting.wording import format_number, rounded_up
from dpselect.app.cli import guard, out
from dpselect.app.cli.from_model import spelled, verb
from dpselect.app.cli.guard import PLAIN, GuardedGroup
from dpselect.app.continual import lifecycle
from dpselect.app.release.answer import HEADS, DryRun
from dpselect.app.release.explained import MAY_BE_NOISE
from dpselect.app.release.series import HorizonAnswer
from dpselect.app.spec import CloseSpec, ContinualSpec, RechargeSpec, ShowSpec, StartSpec
from dpselect.app.spec.continual_spec import KeptFields
from dpselect.errors import Note, printable

app: typer.Typer = typer.Typer(
    name="continual",
    cls=GuardedGroup,
    help=(
        "Release the top k of a log at the end of every period, with one budget for the whole"
        " horizon."
    ),
    no_args_is_help=True,
    **PLAIN,
)


@verb(app, "start", StartSpec)
def _start(spec: StartSpec, json: guard.Json = False) -> None:
    _show(lifecycle.start, spec, json=json)


@verb(app, "close", CloseSpec)
def _close(
    period: Annotated[
        int,
        Argument(metavar="PERIOD", help="Number of the period to close: the first that is open."),
    ],
    events: Annotated[
        str, Argument(metavar="EVENTS", help="Log of the new events of the period, as for topk.")
    ],
    spec: CloseSpec,
    json: guard.Json = False,
) -> None:
    _show(lifecycle.close, spec, period, events, json=json)


@verb(app, "show", ShowSpec)
def _released(spec: ShowSpec, json: guard.Json = False) -> None:
    _show(lifecycle.show, spec, json=json)


@verb(app, "recharge", RechargeSpec)
def _recharge(spec: RechargeSpec, json: guard.Json = False) -> None:
    _show(lifecycle.recharge, spec, json=json)


@verb(app, "run", ContinualSpec)
def _run(
    events: Annotated[str, Argument(metavar="EVENTS", help="Whole log, as for topk.")],
    spec: ContinualSpec,
    json: guard.Json = False,
) -> None:
    _print(lifecycle.ran(events, spec), spec.output, json=json)


def _show(
    ask: Callable[..., HorizonAnswer | DryRun], spec: KeptFields, *data: Any, json: bool
) -> None:
    _print(ask(*data, **spec.fields()), spec.output, json=json)


def _print(answer: HorizonAnswer | DryRun, output: Any, *, json: bool) -> None:
    """Print a horizon's releases, which are in its file and its state by now.

    If that fails, the error says where they are. A separate exit status reports that noise alone
    explains all of them.
    """
    if isinstance(answer, DryRun):
        out.show_dry_run(answer, json=json)
        return
    lies = f"is kept in state={masked(answer.state)}, and the same call prints it at no cost"
    lies = f"the answer {lies if output is None else f'lies in {masked(output)}'}"
    try:
        out.show(answer.as_data(), _as_text, json=json)
    except out.NotShown as error:
        raise out.NotShown(f"{error}; {lies}") from None
    except BaseException as error:
        error.add_note(Note(lies))
        raise
    if answer.explained_by_noise:
        out.leave_explained(answer.cautions, json=json)


def _row(row: dict[str, Any], *, may_be_noise: bool) -> tuple[str, str]:
    """An item, in its group, and the text beside it: users with an interval, or a score."""
    item = ": ".join(
        printable(str(cell)) for name, cell in row.items() if name == "item" or name not in HEADS
    )
    if "score" in row:
        mark = f" ({MAY_BE_NOISE})" if may_be_noise else ""
        return item, f"score {row['score']:.1f}{mark}"
    low = math.floor(row["low"])  # rounded outward; the low end alone, where users count in part
    ends = f"at least {low:,}" if row["high"] is None else f"{low:,} to {math.ceil(row['high']):,}"
    if may_be_noise and row["high"] is None:
        ends = MAY_BE_NOISE
    return item, f"{row['users']:,.0f} users ({ends})"


def _counted(told: dict[str, Any]) -> str:
    """Meaning of the values, in words."""
    if told["intervals"] is None:
        return "scores: sums of users' falling weights, which do not estimate a number of users"
    most = told["mechanism"]["counts"]["items"]
    return (
        f"numbers of users, each counted for at most {most:,} of a period's items;"
        f" {told['intervals']['in_words']}"
    )


def _as_text(told: dict[str, Any]) -> RenderableType:
    horizon, points = told["horizon"], told["guarantee"]["points"]
    over = {"period": "users of each period", "running": "users of all periods so far"}
    parts: list[RenderableType] = []
    for one in told["released"]:
        period = one["period"] if one["name"] is None else one["name"]
        name = "" if one["name"] is None else f", {one['name']}"
        table = (row for row in told["table"] if row["period"] == period)
        rows = [
            _row(row, may_be_noise=mark)
            for row, mark in zip(table, one["may_be_noise"], strict=True)
        ]
        parts.append(out.section(f"Period {one['period']} of {horizon['periods']}{name}", rows))
    strongest = min(
        (one for one in points if one["epsilon"] is not None),
        key=lambda one: one["epsilon"],
        default=None,
    )
    promised = (
        "see --json"
        if strongest is None
        else f"{rounded_up(strongest['epsilon'], 6)} at delta {format_number(strongest['delta'])}"
    )
    facts = [
        (
            "horizon",
            (
                f"{printable(horizon['key'])}: {horizon['periods']} periods,"
                f" {horizon['periods_left']} left"
            ),
        ),
        ("state", f"{printable(horizon['state'])}, as private as the log"),
        (
            "count",
            over.get(told["count"], f"users of the last {told['window']} periods")
            + f", as {_counted(told)}",
        ),
        *([("forecast", told["expected"]["in_words"])] if "expected" in told else []),
        ("epsilon", promised),
        ("in words", told["guarantee"]["in_words"]),
        ("risk", told["guarantee"]["risk"]["in_words"]),
    ]
    last = [out.note("Warning", spelled(words, ContinualSpec)) for words in told["notes"]]
    last += [] if told["budget"] is None else [out.note("Budget", told["budget"], "bold")]
    return out.page(
        *parts, out.section("What is promised, for the whole horizon", facts), Group(*last)
    )
