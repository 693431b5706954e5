"""`dpselect verify horizon`: what users move of a horizon's measurements, held against what its price says."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

import dpselect as dps
from dpselect import verify
from dpselect.cli import options, out
from dpselect.cli.continual import command as continual
from dpselect.cli.guard import FAILED
from dpselect.cli.replay_view import as_data, shown
from dpselect.events import Reading
from dpselect.events.doors.base import SHORT
from dpselect.events.staging import split
from dpselect.events.time_window import periods
from dpselect.verify.log_replay import EVERYBODY


def horizon(
    events: Annotated[str, Argument(metavar="EVENTS", help="The whole log, as for continual run.")],
    user: continual.User,
    item: continual.Item,
    time: continual.Time,
    every: continual.Length,
    since: continual.Since,
    until: continual.Until,
    count: continual.Count = "period",
    window: continual.Window = None,
    relation: continual.Relation = "add_remove",
    exponent: continual.Exponent = 1.5,
    cells: continual.Cells = 20,
    time_zone: continual.TimeZone = "UTC",
    time_unit: continual.TimeUnit = None,
    n_users: Annotated[int, Option(min=1, help="How many users to leave out, one at a time; half of them the heaviest.")] = 20,
    seed: Annotated[int, Option(min=0, help="Seed of the choice of the other half. It releases nothing.")] = 0,
    name_salt: Annotated[
        str | None, Option(help="Secret that users' names are salted with. Default: a fresh one, and a name tells nothing.")
    ] = None,
    format: continual.FileFormat = "auto",
    header: options.Header = None,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """Count all periods of a log again without each of some users, and hold the changes of all measurements against the price.

    What is checked is everything between the log and the noise: periods, bounds on users over all of them, pairs that count once.
    Users appear by a salted name only. The status is 1 where somebody moves more than is paid for.
    """
    times = {"time": time, "since": since, "until": until, "time_zone": time_zone, "time_unit": time_unit}
    about = {"user": user, "item": continual.columns(item), "format": format, "header": header}
    reading = Reading.model_validate({**about, **times})
    assert reading.window is not None, "there is a column of times"
    named = list(periods(reading.window, every))
    bounds = dps.HorizonClip(exponent=exponent, cells=cells)
    settings: Any = {"count": count, "window": window, "users": bounds, "relation": relation}
    mechanism = dps.ContinualTopK(k=1, periods=len(named), scale=1.0, **settings)
    found = _replayed(mechanism, events, reading, named, salt=name_salt, users=n_users, seed=seed)
    stated = _declared(mechanism)
    out.emit(out.json_text(as_data(found, stated)) + "\n" if json else shown(found, stated, relation))
    if not found.holds:
        raise Exit(FAILED)


def _declared(mechanism: dps.ContinualTopK) -> dict[str, float | None]:
    from dpselect.continual.declared import declared

    stated = declared(mechanism)
    return {"l0": stated.l0, "l2": stated.l2}


def _replayed(
    mechanism: dps.ContinualTopK, events: str, reading: Reading, named: list[Any], *, salt: str | None, users: int, seed: int
) -> verify.Replay:
    from dpselect.continual.declared import pipeline
    from dpselect.events.replayed import replayed  # the help does without an engine

    items = [short for role, short in SHORT.items() if role in reading.asked.columns and role.startswith("item")]
    file: Any = {"format": "auto", "header": None}
    timed = reading.model_copy(update={**file, "user": SHORT["user"], "item": items, "time": SHORT["time"]})
    untimed = timed.model_copy(update={"time": None, "since": None, "until": None, "time_unit": None, "time_zone": "UTC"})

    @contextmanager
    def parts(log: Path) -> Iterator[list[Any]]:
        with split(str(log), timed, named) as cut:
            yield [cut[name] for name, *_ in named]

    with replayed(events, reading) as log, out.counted("replaying users") as told:
        whole = log.without(EVERYBODY)
        counted: Any = dps.events.read(str(whole), timed)
        everybody = [str(name) for name in log.users()]
        choices = secrets.token_hex(16)
        run = pipeline(mechanism, parts, untimed, counted.labels, everybody, choices)
        return verify.replay(run, log, salt=salt or secrets.token_hex(16), users=users, seed=seed, progress=told)
