"""`dpselect continual`, a horizon of releases from a shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer import Argument

from accounting.address import mask
from dpselect.app.cli import guard, out
from dpselect.app.cli.from_model import verb
from dpselect.app.cli.guard import PLAIN, GuardedGroup
from dpselect.app.continual import lifecycle
from dpselect.app.release.answer import DryRun
from dpselect.app.release.series import HorizonAnswer
from dpselect.app.spec import CloseSpec, ContinualSpec, RechargeSpec, ShowSpec, StartSpec
from dpselect.app.spec.continual_spec import KeptFields
from dpselect.errors import Note

app: typer.Typer = typer.Typer(
    name="continual",
    cls=GuardedGroup,
    help=(
        "Release the top k of a log at the end of every period, with one budget for the whole"
        " horizon."
    ),
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
def _show_releases(spec: ShowSpec, json: guard.Json = False) -> None:
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
    _print(lifecycle.run_spec(events, spec), spec.output, json=json)


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
        out.show(answer, json=json)
        return
    place = f"is kept in state={mask(answer.state)}, and the same call prints it at no cost"
    place = f"the answer {place if output is None else f'lies in {mask(output)}'}"
    try:
        out.show(answer, json=json)
    except out.NotShown as error:
        raise out.NotShown(f"{error}; {place}") from None
    except BaseException as error:
        error.add_note(Note(place))
        raise
    if answer.explained_by_noise:
        out.leave_explained(answer.cautions, json=json)
