"""What a release from a log rests on, tried by leaving users out: `dpselect verify` in Python.

Each function takes the fields of its spec, which are the options of its command.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, final

from accounting.arguments import Relation
from dpselect.cells import cell
from dpselect.continual.continual_top_k import ContinualTopK, declared
from dpselect.continual.horizon import pipeline
from dpselect.errors import InvalidRequest
from dpselect.events import Reading, pairs, read
from dpselect.events.engine import Engine, opened
from dpselect.events.file_options import FILE_OPTIONS
from dpselect.events.sources.base import SHORT, is_condition, literal, refused
from dpselect.events.staging import rows, split
from dpselect.events.time_window import periods
from dpselect.scores import Scores, SecondLook
from dpselect.selection import Label
from dpselect.sensitivity import Norm, Sensitivity
from dpselect.spec.base import asked_by
from dpselect.spec.replay_spec import HorizonReplaySpec, ReplaySpec
from dpselect.verify.log_replay import EVERYBODY, Replay, replay

if TYPE_CHECKING:
    from dpselect.spec.keyword_types import HorizonReplayKeywords, ReplayKeywords

Progress = Callable[[int, int], None] | None
PRIVATE = (
    "These figures are exact, and private: for holders of the data alone. They do not prove the declaration: "
    "other users, and other logs, were not tried."
)
_NOTHING = (
    "No event matched: none of them changed a score, so the declaration was not tried. "
    "Are ids written alike in log and catalogue?"
)


@final
@dataclass(frozen=True, repr=False)
class LogReplay:
    """The largest changes that users of a log made, and what a reading declares of them. Private: for holders of the data alone.

    Attributes:
        declared: the most that a user may change, by the names of `found`; None for any amount.
    """

    found: Replay
    declared: Mapping[str, float | None]
    relation: Relation

    @property
    def verdict(self) -> str:
        """Whether the declaration holds for all who were tried, in words."""
        if not self.found.holds:
            who = f"the first who breaks it is the user with the salted name {self.found.offender}."
            return f"Broken in {', '.join(self.found.broken)}; {who}"
        return "The declaration holds for all of them." if self.found.linf else _NOTHING

    def as_data(self) -> dict[str, Any]:
        """All of it as plain data."""
        about = {"holds": self.found.holds, "declared": dict(self.declared), "matched": bool(self.found.linf)}
        return asdict(self.found) | about | {"notes": [PRIVATE]}

    def __repr__(self) -> str:
        return f"LogReplay(users={self.found.users})"


@asked_by(ReplaySpec)
def replay_log(data: object, *, progress: Progress = None, **asked: Unpack[ReplayKeywords]) -> LogReplay:
    """Read a log again without each of some users, and hold the changes against what the reading declares.

    Args:
        data: as for `dpselect.topk`.
        progress: called with the users that are left out so far, and all.
        asked: the fields of `dpselect.spec.ReplaySpec`.

    Raises:
        InvalidRequest, EventLogError: as `dpselect.topk`, of how a log is read; or there are too few users.
    """
    spec = ReplaySpec(**asked)
    norm: Norm = spec.clip_norm or "l2"
    bounded = spec.max_groups_per_user is not None or spec.max_items_per_user is not None
    salt = spec.salt or (secrets.token_hex(16) if bounded else None)  # of what is kept, the same for all logs
    most = spec.max_groups_per_user
    reading = spec.reading(clip_norm=norm, salt=salt, max_groups_per_user=most, cells=_counts_cells(spec))
    with _loaded(data, reading) as log, _pipeline(spec, reading) as run:
        users, names = spec.n_users or 100, spec.name_salt or secrets.token_hex(16)
        found = replay(run, log, salt=names, users=users, seed=spec.seed, progress=progress)
    return LogReplay(found, _declared(spec, norm), spec.relation)


@asked_by(HorizonReplaySpec)
def replay_horizon(data: object, *, progress: Progress = None, **asked: Unpack[HorizonReplayKeywords]) -> LogReplay:
    """Count all periods of a log again without each of some users, and hold the changes against what a horizon pays for.

    Args:
        data: the whole log, as for `dpselect.continual.run`.
        progress: as for `replay_log`.
        asked: the fields of `dpselect.spec.HorizonReplaySpec`.

    Raises:
        InvalidRequest, EventLogError: as for `replay_log`.
    """
    spec = HorizonReplaySpec(**asked)
    reading = spec.reading()
    assert reading.window is not None, "there is a column of times"
    named = list(periods(reading.window, spec.every or "day", partial=True))  # as a horizon may have been run
    settings: Any = {"count": spec.count, "window": spec.window, "users": spec.users, "relation": spec.relation}
    mechanism = ContinualTopK(k=1, periods=len(named), scale=1.0, **settings)
    timed, stated = _in_short(reading), declared(mechanism)
    untimed = timed.model_copy(update={"time": None, "since": None, "until": None, "time_unit": None, "time_zone": "UTC"})

    @contextmanager
    def parts(log: Path) -> Iterator[list[Any]]:
        with split(str(log), timed, named) as cut:
            yield [cut[name] for name, *_ in named]

    with _loaded(data, reading) as log:
        labels = read(str(log.without(EVERYBODY)), timed).labels  # type: ignore[union-attr]
        everybody = [str(name) for name in log.users()]
        run = pipeline(mechanism, parts, untimed, labels, everybody, secrets.token_hex(16))
        names = spec.name_salt or secrets.token_hex(16)
        found = replay(run, log, salt=names, users=spec.n_users or 20, seed=spec.seed, progress=progress)
    return LogReplay(found, {"l0": stated.l0, "l2": stated.l2}, spec.relation)


@contextmanager
def _pipeline(spec: ReplaySpec, reading: Reading) -> Iterator[Callable[[Path], Any]]:
    """The reading, as `topk` does it, of the log's columns under their short names; and a second round, if there may be one."""
    catalogue = spec.catalogue()
    if reading.cells and catalogue is not None:
        catalogue = tuple(cell(group, item) for group in reading.groups or () for item in catalogue)
    within = None if reading.clip is None else catalogue  # users are clipped within the catalogue
    short = _in_short(reading).model_copy(update={"within": within})

    with ExitStack() as held:

        def scores(log: Path) -> Any:
            held.close()  # the pairs of the log before
            kept = held.enter_context(pairs(log, short)) if _weighs(spec) else None
            counts = read(log, short) if kept is None else kept.read()
            found = counts.scores(None if within else catalogue, relation=spec.relation, clip=spec.clip)
            if kept is None or not isinstance(found, Scores):
                return found
            return found.with_second(SecondLook(lambda _: found, found.sensitivity, weigh=kept.second_round(counts)))

        yield scores


def _in_short(reading: Reading) -> Reading:
    """The same of a file of ours, that has the log's columns under their short names."""
    asked = reading.asked.columns
    columns: dict[str, Any] = {role: SHORT[role] for role in ("user", "group", "value", "time") if role in asked}
    items = [short for role, short in SHORT.items() if role in asked and role.startswith("item")]
    file: dict[str, Any] = {name: Reading.model_fields[name].default for name in (*FILE_OPTIONS, "where")}
    return reading.model_copy(update={**columns, **file, "item": items})


def _weighs(spec: ReplaySpec) -> bool:
    """Whether scores that are read so may be those of a first round."""
    one_norm = spec.group is None or _counts_cells(spec)
    bounded = spec.max_items_per_user is not None or spec.domain is not None
    return spec.clip is not None and spec.clip_norm in (None, "l2") and spec.value is None and one_norm and bounded


def _counts_cells(spec: ReplaySpec) -> bool:
    """Whether groups are one table, as `topk` reads them where no bound on groups is stated: one norm holds over all cells.

    Of a table of public items the groups are public too.
    """
    unbounded = spec.group is not None and spec.max_groups_per_user is None
    return unbounded and spec.value is None and (spec.domain is None or spec.groups is not None)


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
    if _weighs(spec):
        declared["second_round"] = math.sqrt(users)
    return declared if spec.max_groups_per_user is None else declared | {"groups": users * spec.max_groups_per_user}


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
        if log.bad:
            bad = engine.run(f"SELECT DISTINCT {log.bad} AS bad FROM loaded WHERE bad < 0", what=log.what)
            given.asked.refuse_malformed({refused(row[0]) for row in bad}, log.what)
        kept = f" WHERE {log.kept}" if log.kept else ""
        engine.run(f"CREATE TABLE replayed AS SELECT {', '.join(short.values())} FROM loaded{kept}", what=log.what)
        engine.run("DROP TABLE loaded", what=log.what)
        yield _ReplayedLog(engine)
