"""`dpselect verify`: checks for the keeper of the data. What they print is private."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, final

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text
from typer import Argument, Exit, Option, Typer

import dpselect as dps
from accounting import Relation
from dpselect import InvalidRequest, Sensitivity, events, verify
from dpselect.cli import continual, options, out
from dpselect.cli.config import Config, read
from dpselect.cli.guard import FAILED, PLAIN, GuardedGroup, SectionedCommand
from dpselect.events import Reading
from dpselect.events.catalogue import public_list
from dpselect.events.doors.base import SHORT, is_condition, literal
from dpselect.events.engine import Engine, opened
from dpselect.events.file_options import FILE_OPTIONS
from dpselect.events.staging import rows, split
from dpselect.events.time_window import periods
from dpselect.selection import Label
from dpselect.spec import item_columns, value_clip_of
from dpselect.verify.log_replay import EVERYBODY

app = Typer(cls=GuardedGroup, no_args_is_help=True, **PLAIN)


@app.callback()
def _verify() -> None:
    """Check what a release rests on. What these commands print is computed from private data without noise: keep it."""


@app.command(cls=SectionedCommand)
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
    from dpselect.continual.continual_top_k import declared  # the help does without it

    found = _horizon_replayed(mechanism, events, reading, named, salt=name_salt, users=n_users, seed=seed)
    stated = declared(mechanism)
    _report(found, {"l0": stated.l0, "l2": stated.l2}, relation, json=json)


_ClipNorm = Annotated[
    str | None, options.users(metavar="NORM", help="That norm: l2 or l1. Default: the planned mechanism's, or l2.")
]
_NameSalt = Annotated[
    str | None,
    options.output(help="Secret that users' names are salted with. Default: a fresh one, and a name tells nothing."),
]


@app.command(cls=SectionedCommand)
def replay(
    events: Annotated[list[str], Argument(metavar="EVENTS...", help="The log, as topk reads it.")],
    user: options.User = None,
    item: options.Item = None,
    domain: Annotated[Path | None, options.items(help="A public catalogue of items.")] = None,
    domain_column: options.CatalogueColumn = None,
    group: Annotated[
        str | None, options.groups(metavar="COLUMN", help="Column of groups: its name, or its number from 1.")
    ] = None,
    groups: options.Groups = None,
    groups_column: options.GroupsColumn = None,
    max_groups_per_user: options.MaxGroupsPerUser = None,
    max_items_per_user: options.MaxItemsPerUser = None,
    clip: Annotated[float | None, options.users(metavar="C", help="Scale each user's counts to a norm of at most C.")] = None,
    clip_norm: _ClipNorm = None,
    value: options.Value = None,
    value_clip: options.ValueClip = None,
    where: options.Where = None,
    time: options.Time = None,
    since: options.Since = None,
    until: options.Until = None,
    time_zone: Annotated[str, options.time(metavar="ZONE", help="Zone of times that state none.")] = "UTC",
    time_unit: options.TimeUnit = None,
    salt: Annotated[str | None, options.users(help="Salt of these choices. Default: a fresh random one.")] = None,
    relation: options.Neighbours = None,
    n_users: Annotated[int, Option(min=1, help="How many users to leave out, one at a time; half of them the heaviest.")] = 100,
    seed: Annotated[int, options.output(min=0, help="Seed of the choice of the other half. It releases nothing.")] = 0,
    name_salt: _NameSalt = None,
    format: options.LogFormat = None,
    header: options.Header = None,
    table: options.DatabaseTable = None,
    query: options.DatabaseQuery = None,
    memory_limit: options.MemoryLimit = None,
    config: options.Config = None,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """Read the log again without each of some users, and hold the changes against what the reading declares.

    What is checked is everything between the log and the mechanism: columns, bounds, clips and groups as topk uses them. Users
    appear by a salted name only. The status is 1 where the declaration is broken.
    """
    asked = _whole({name: value for name, value in locals().items() if name not in ("config", "json", "_debug")}, config)
    found, declared = _replayed(asked)
    _report(found, declared, asked["relation"], json=json)


_USUAL = {"relation": "add_remove", "format": "auto", "clip_norm": "l2"}


def _whole(stated: dict[str, Any], file: Path | None) -> dict[str, Any]:
    """The options, on top of the tables of a file that say how a log is read."""
    base = Config() if file is None else read(file)
    planned = base.release.mechanism
    norm = {"clip_norm": "l1"} if planned is not None and planned.covers.l1 is not None else {}
    asked: dict[str, Any] = dict.fromkeys(stated) | _USUAL | norm | options.given(dict(base.data)) | options.given(stated)
    for name in ("user", "item"):
        if asked.get(name) is None:
            raise InvalidRequest(f"--{name} is missing: give it, or {name} in [data] of the file given with --config")
    asked |= {"item": item_columns(asked["item"]), "value_clip": asked["value_clip"] and value_clip_of(asked["value_clip"])}
    if asked["group"] is None and any(asked[name] is not None for name in ("groups", "groups_column", "max_groups_per_user")):
        raise InvalidRequest("--groups, --groups-column and --max-groups-per-user are about the column --group: name it too")
    for column, public in (("domain_column", "domain"), ("groups_column", "groups")):
        if asked[column] is not None and asked[public] is None:
            raise InvalidRequest(f"{options.flags(column)}={asked[column]!r} is a column of no file: give --{public} too")
    if (asked["value"] is None) != (asked["value_clip"] is None):
        raise InvalidRequest("--value names a column, --value-clip the most that a user may add to an item: give both or neither")
    return asked


def _replayed(asked: dict[str, Any]) -> tuple[Any, dict[str, float | None]]:
    """The replay, and what was declared."""
    source = asked["events"][0] if len(asked["events"]) == 1 else asked["events"]
    # How the log is read; what chooses the items and groups that are kept is the same for all logs.
    stated = {name: asked[name] for name in Reading.model_fields if name in asked and name not in ("groups", "buckets")}
    if asked["groups"] is not None:
        stated["groups"] = events.read_catalogue(asked["groups"], asked["groups_column"], item=asked["group"])
    if asked["salt"] is None and (asked["group"] is not None or asked["max_items_per_user"] is not None):
        stated["salt"] = secrets.token_hex(16)
    reading = Reading(**stated)
    pipeline, names = _pipeline(asked, reading), asked["name_salt"] or secrets.token_hex(16)
    with _loaded(source, reading) as log, out.counted("replaying users") as told:
        found = verify.replay(pipeline, log, salt=names, users=asked["n_users"], seed=asked["seed"], progress=told)
    return found, _declared(asked)


def _pipeline(asked: dict[str, Any], reading: Reading) -> Callable[[Path], Any]:
    """The reading, as `topk` does it, of the log's columns under their short names."""
    catalogue = asked["domain"] and public_list(asked["domain"], asked["domain_column"], asked["item"], reading, "domain")
    items = [short for role, short in SHORT.items() if role in reading.asked.columns and role.startswith("item")]
    within = None if reading.clip is None else catalogue  # users are clipped within the catalogue
    columns: dict[str, Any] = {role: SHORT[role] for role in ("user", "group", "value", "time") if role in reading.asked.columns}
    file = {name: Reading.model_fields[name].default for name in (*FILE_OPTIONS, "where", "memory_limit")}  # of our file
    short = reading.model_copy(update={**columns, **file, "item": items, "within": within})

    def scores(log: Path) -> Any:
        return events.read(log, short).scores(None if within else catalogue, relation=asked["relation"], clip=asked["clip"])

    return scores


def _declared(asked: dict[str, Any]) -> dict[str, float | None]:
    """What a user may change, None for any amount."""
    clip, relation, most = asked["clip"], asked["relation"], asked["max_items_per_user"]
    stated = Sensitivity.of_counts(relation, most)
    if asked["value_clip"] is not None:
        low, high = asked["value_clip"]
        stated = Sensitivity.of_sums(low, high, relation, most)
    if clip is not None:
        stated = Sensitivity.of_clipped(clip, asked["clip_norm"], relation, most)
    declared: dict[str, float | None] = {"linf": stated.linf, "l0": stated.l0}
    declared |= {
        name: None if math.isinf(norm) else norm for name, norm in (("l1", stated.l1_of(None)), ("l2", stated.l2_of(None)))
    }
    users = 2 if relation == "replace_one" else 1
    return declared if asked["group"] is None else declared | {"groups": users * asked["max_groups_per_user"]}


# -- what a replay found ---------------------------------------------------------------------------------------------------


_NOTHING = (
    "No event matched: none of them changed a score, so the declaration was not tried. "
    "Are ids written alike in log and catalogue?"
)
_PRIVATE = (
    "These figures are exact, and private: for the data's keeper alone. They do not prove the declaration: "
    "other users, and other logs, were not tried."
)


def _report(found: Any, declared: dict[str, float | None], relation: Relation, *, json: bool) -> None:
    """Print what a replay found; the status is 1 where the declaration is broken."""
    if json:
        said = asdict(found) | {"holds": found.holds, "declared": declared, "matched": bool(found.linf), "notes": [_PRIVATE]}
        out.emit(out.json_text(said) + "\n")
    else:
        table = Table.grid(Column(), Column(justify="right"), Column(justify="right"), padding=(0, 2))
        table.add_row(*map(out.heading, ("", "declared", "largest change")))
        for name, value in declared.items():
            table.add_row(name, "any" if value is None else f"{value:.6g}", f"{getattr(found, name):.6g}")
        heading = f"Replayed {found.users:,} {'users' if relation == 'add_remove' else 'pairs of users'} ({relation})"
        who = f"the first who breaks it is the user with the salted name {found.offender}."
        verdict = "The declaration holds for all of them." if found.holds else f"Broken in {', '.join(found.broken)}; {who}"
        verdict = verdict if found.linf or not found.holds else _NOTHING
        note = Text.assemble(("Note: ", "bold yellow"), _PRIVATE)
        out.emit(Group(out.heading(heading), Text(), table, Text(), Text(verdict), note))
    if not found.holds:
        raise Exit(FAILED)


def _horizon_replayed(
    mechanism: dps.ContinualTopK, events: str, reading: Reading, named: list[Any], *, salt: str | None, users: int, seed: int
) -> verify.Replay:
    from dpselect.continual.horizon import pipeline

    items = [short for role, short in SHORT.items() if role in reading.asked.columns and role.startswith("item")]
    file: Any = {name: Reading.model_fields[name].default for name in (*FILE_OPTIONS, "where")}
    timed = reading.model_copy(update={**file, "user": SHORT["user"], "item": items, "time": SHORT["time"]})
    untimed = timed.model_copy(update={"time": None, "since": None, "until": None, "time_unit": None, "time_zone": "UTC"})

    @contextmanager
    def parts(log: Path) -> Iterator[list[Any]]:
        with split(str(log), timed, named) as cut:
            yield [cut[name] for name, *_ in named]

    with _loaded(events, reading) as log, out.counted("replaying users") as told:
        whole = log.without(EVERYBODY)
        counted: Any = dps.events.read(str(whole), timed)
        everybody = [str(name) for name in log.users()]
        choices = secrets.token_hex(16)
        run = pipeline(mechanism, parts, untimed, counted.labels, everybody, choices)
        return verify.replay(run, log, salt=salt or secrets.token_hex(16), users=users, seed=seed, progress=told)


# -- the log without one of its users ------------------------------------------------------------------------------------


_LOG = "the log"


@final
class _ReplayedLog:
    """The columns of a log in a temporary folder that only this user can read; what is handed on is Parquet beside them.

    Its columns are called u, i and, where a group was asked for, g.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def users(self) -> Mapping[Label, int]:
        """How many events every user has, those without a user left out."""
        return dict(self._engine.run("SELECT u, count(*) FROM replayed WHERE u IS NOT NULL GROUP BY u ORDER BY u", what=_LOG))

    def without(self, user: Any) -> Path:
        """A file of the events of all others, or of everybody; the next one takes its place."""
        path, others = self._engine.path("without.parquet"), "SELECT * FROM replayed"
        where, parameters = ("", []) if user is EVERYBODY else (" WHERE u IS DISTINCT FROM ?", [user])
        self._engine.run(f"CREATE OR REPLACE TEMP TABLE others AS {others}{where}", parameters, what=_LOG)
        self._engine.run(f"COPY others TO {literal(str(path))} (FORMAT parquet)", what=_LOG)
        return path


@contextmanager
def _loaded(source: object, reading: Reading) -> Iterator[_ReplayedLog]:
    """The columns of the log as `read` would read them, for as long as the block lasts."""
    given = reading.given(source)
    with opened(reading.memory_limit) as engine:
        log = rows(engine, given)
        engine.run(f"CREATE TABLE loaded AS {log.sql}", what=log.what)
        short = {role: SHORT[role] for role in given.asked.columns if not is_condition(role)}
        present = engine.run(f"SELECT {', '.join(f'count({name})' for name in short.values())} FROM loaded", what=log.what)[0]
        missing = frozenset(role for role, count in zip(short, present, strict=True) if count == 0)
        if missing:
            raise InvalidRequest(f"{log.what} has no event with a {' or a '.join(sorted(missing))}: check the columns meant")
        if log.checked:
            bad = engine.run("SELECT DISTINCT refused FROM loaded WHERE refused IS NOT NULL", what=log.what)
            given.asked.refuse_malformed({row[0] for row in bad}, log.what)
        kept = " WHERE kept" if given.where else ""
        engine.run(f"CREATE TABLE replayed AS SELECT {', '.join(short.values())} FROM loaded{kept}", what=log.what)
        engine.run("DROP TABLE loaded", what=log.what)
        yield _ReplayedLog(engine)
