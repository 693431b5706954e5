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
from typer import Argument, Exit, Typer

import dpselect as dps
from accounting.arguments import Relation
from dpselect import Sensitivity, events, verify
from dpselect.cli import options, out, text
from dpselect.cli.from_model import command
from dpselect.cli.guard import FAILED, PLAIN, GuardedGroup, SectionedCommand
from dpselect.errors import InvalidRequest
from dpselect.events import Reading
from dpselect.events.catalogue import public_list
from dpselect.events.engine import Engine, opened
from dpselect.events.file_options import FILE_OPTIONS
from dpselect.events.sources.base import SHORT, is_condition, literal
from dpselect.events.staging import rows, split
from dpselect.events.time_window import periods
from dpselect.selection import Label
from dpselect.sensitivity import Norm
from dpselect.spec import HorizonReplaySpec, ReplaySpec
from dpselect.verify.log_replay import EVERYBODY

app: Typer = Typer(cls=GuardedGroup, no_args_is_help=True, **PLAIN)


@app.callback()
def _verify() -> None:
    """Check what a release rests on. What these commands print is computed from private data without noise: keep it."""


def _replay(
    events: Annotated[list[str], Argument(metavar="EVENTS...", help="The log, as topk reads it.")],
    spec: ReplaySpec,
    config: Path | None,
    json: options.Json = False,
) -> None:
    planned = None
    if config is not None:
        from dpselect.cli.config import read  # every spec, which a replay without a file does without

        planned = read(config).release.mechanism
    usual: Norm = "l2" if planned is None or planned.covers.l1 is None else "l1"
    norm = spec.clip_norm or usual
    bounded = spec.group is not None or spec.max_items_per_user is not None
    salt = spec.salt or (secrets.token_hex(16) if bounded else None)  # of what is kept, the same for all logs
    groups = None if spec.groups is None else public_list(spec.groups, spec.groups_column, str(spec.group), spec, "groups")
    reading = spec.reading(groups=groups, clip_norm=norm, salt=salt, max_groups_per_user=spec.max_groups_per_user)
    with _loaded(events[0] if len(events) == 1 else events, reading) as log, out.counted("replaying users") as told:
        users, names = spec.n_users or 100, spec.name_salt or secrets.token_hex(16)
        found = verify.replay(_pipeline(spec, reading), log, salt=names, users=users, seed=spec.seed, progress=told)
    _report(found, _declared(spec, norm), spec.relation, json=json)


def _pipeline(spec: ReplaySpec, reading: Reading) -> Callable[[Path], Any]:
    """The reading, as `topk` does it, of the log's columns under their short names."""
    named = tuple(map(str, spec.item)) if isinstance(spec.item, tuple | list) else str(spec.item)
    catalogue = None if spec.domain is None else public_list(spec.domain, spec.domain_column, named, reading, "domain")
    items = [short for role, short in SHORT.items() if role in reading.asked.columns and role.startswith("item")]
    within = None if reading.clip is None else catalogue  # users are clipped within the catalogue
    columns: dict[str, Any] = {role: SHORT[role] for role in ("user", "group", "value", "time") if role in reading.asked.columns}
    file = {name: Reading.model_fields[name].default for name in (*FILE_OPTIONS, "where", "memory_limit")}  # of our file
    short = reading.model_copy(update={**columns, **file, "item": items, "within": within})

    def scores(log: Path) -> Any:
        return events.read(log, short).scores(None if within else catalogue, relation=spec.relation, clip=spec.clip)

    return scores


def _declared(spec: ReplaySpec, norm: Norm) -> dict[str, float | None]:
    """What a user may change, None for any amount."""
    relation, most = spec.relation, spec.max_items_per_user
    stated = Sensitivity.of_counts(relation, most)
    if isinstance(spec.value_clip, tuple):
        low, high = spec.value_clip
        stated = Sensitivity.of_sums(low, high, relation, most)
    if spec.clip is not None:
        stated = Sensitivity.of_clipped(spec.clip, norm, relation, most)
    declared: dict[str, float | None] = {"linf": stated.linf, "l0": stated.l0}
    declared |= {
        name: None if math.isinf(norm) else norm for name, norm in (("l1", stated.l1_of(None)), ("l2", stated.l2_of(None)))
    }
    users = 2 if relation == "replace_one" else 1
    return declared if spec.max_groups_per_user is None else declared | {"groups": users * spec.max_groups_per_user}


def _horizon(
    events: Annotated[str, Argument(metavar="EVENTS", help="The whole log, as for continual run.")],
    spec: HorizonReplaySpec,
    json: options.Json = False,
) -> None:
    from dpselect.continual.continual_top_k import ContinualTopK, declared  # the help does without it

    reading = spec.reading()
    assert reading.window is not None, "there is a column of times"
    named = list(periods(reading.window, spec.every or "day"))
    settings: Any = {"count": spec.count, "window": spec.window, "users": spec.users, "relation": spec.relation}
    mechanism = ContinualTopK(k=1, periods=len(named), scale=1.0, **settings)
    found = _horizon_replayed(mechanism, events, reading, named, spec)
    stated = declared(mechanism)
    _report(found, {"l0": stated.l0, "l2": stated.l2}, spec.relation, json=json)


app.command("replay", cls=SectionedCommand)(command(ReplaySpec, _replay))
app.command("horizon", cls=SectionedCommand)(command(HorizonReplaySpec, _horizon))


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
        out.emit(text.json_text(said) + "\n")
    else:
        table = Table.grid(Column(), Column(justify="right"), Column(justify="right"), padding=(0, 2))
        table.add_row(*map(text.heading, ("", "declared", "largest change")))
        for name, value in declared.items():
            table.add_row(name, "any" if value is None else f"{value:.6g}", f"{getattr(found, name):.6g}")
        heading = f"Replayed {found.users:,} {'users' if relation == 'add_remove' else 'pairs of users'} ({relation})"
        who = f"the first who breaks it is the user with the salted name {found.offender}."
        verdict = "The declaration holds for all of them." if found.holds else f"Broken in {', '.join(found.broken)}; {who}"
        verdict = verdict if found.linf or not found.holds else _NOTHING
        note = Text.assemble(("Note: ", "bold yellow"), _PRIVATE)
        out.emit(Group(text.heading(heading), Text(), table, Text(), Text(verdict), note))
    if not found.holds:
        raise Exit(FAILED)


def _horizon_replayed(
    mechanism: dps.ContinualTopK, events: str, reading: Reading, named: list[Any], spec: HorizonReplaySpec
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
        names = spec.name_salt or secrets.token_hex(16)
        return verify.replay(run, log, salt=names, users=spec.n_users or 20, seed=spec.seed, progress=told)


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
