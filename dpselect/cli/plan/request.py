"""What `plan` is asked: the command line on top of the configuration file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from accounting import Budget, Ledger
from dpselect import InvalidRequest
from dpselect.choose.learning import End, Learnt
from dpselect.cli import config, options
from dpselect.cli.config import Config, Expectation, LedgerTable, PlanTable, ReleaseTable
from dpselect.planning import Groups, Part, PlannedMechanism, ReleasePlan, Shape, plan
from dpselect.planning.compare import Progress
from dpselect.planning.task import Charged

_LEARNED: dict[str, End] = {"learned": "middle", "learned-low": "low", "learned-high": "high"}
_KNOWN = (
    "zipf:EXPONENT, uniform, learned (by the dataset), learned:ANSWER.json, the name of a CSV file with public counts, or that "
    "of a public log with --user and --item"
)
T = TypeVar("T", bound=config.ConfigTable)


@dataclass(frozen=True)
class PlanQuestion:
    """A task for `dpselect.plan`, and the file that states it in full."""

    config: Config
    budget: Budget
    shape: Shape
    only: tuple[str, ...]

    @property
    def charged(self) -> Charged:
        """As stated; by default separately where there is a ledger, since `topk` charges it release by release."""
        return self.config.plan.charged or ("together" if self.config.ledger is None else "separately")

    @property
    def arguments(self) -> dict[str, Any]:
        """For `dpselect.plan`, but for budget and shape; what is not stated is left to its defaults."""
        asked, data = self.config.plan, self.config.data
        stated = {name: getattr(asked, name) for name in ("order", "rank_by", "rounds", "level", "seed")}
        return {
            **{name: value for name, value in stated.items() if value is not None},
            **self._size(),
            "domain": "unknown" if asked.unknown_domain else "public",
            "relation": data.relation,
            "max_items_per_user": data.max_items_per_user,
            "charged": self.charged,
            "mechanisms": self.only or None,
            "with_counts": bool(asked.with_counts),
            "groups": self._groups(),
        }

    def _groups(self) -> Groups | None:
        asked, data = self.config.plan, self.config.data
        about = {"per_user": asked.groups_per_user, "exponent": asked.group_exponent}
        stated = {name: value for name, value in about.items() if value is not None}
        if asked.groups is None:
            if stated or data.group is not None or data.max_groups_per_user is not None:
                raise InvalidRequest("a plan for groups needs --groups N, how many there are (roughly)")
            return None
        if data.max_groups_per_user is None:
            raise InvalidRequest("--groups needs --max-groups-per-user: a release costs as much as that many of one group")
        return Groups(count=asked.groups, max_groups_per_user=data.max_groups_per_user, **stated)

    def answer(self, progress: Progress | None = None) -> ReleasePlan:
        return plan(self.budget, shape=self.shape, progress=progress, **self.arguments)

    def _size(self) -> dict[str, Any]:
        parts = self.config.plan.schedule
        if parts is not None:
            return {"schedule": [(part.releases, part.k) for part in parts]}
        return {"k": self.config.release.k, "releases": self.config.plan.releases or 1}


def question(stated: Mapping[str, Any], *, file: Path | None, schedule: str | None, only: tuple[str, ...]) -> PlanQuestion:
    """From options by their names, None where they are not given, and a file."""
    base = Config() if file is None else config.read(file)
    budget = options.budget_over(base.budget, stated["epsilon"], stated["delta"], stated["rho"])
    parts = None if schedule is None else _schedule(schedule)
    asked = Config(
        data=_over(base.data, stated, ("user", "item", "relation", "max_items_per_user", "max_groups_per_user")),
        release=base.release if stated["k"] is None else ReleaseTable(k=stated["k"]),
        budget=budget,
        ledger=_ledger(base.ledger, stated),
        plan=_plan_table(base.plan, stated, parts),
    )
    _require_size(asked)
    return PlanQuestion(asked, budget, _shape(asked), only)


def chosen(asked: Config, found: ReleasePlan, planned: PlannedMechanism) -> Config:
    """The file with the mechanism to release with."""
    if len(planned.mechanisms) > 1:
        raise InvalidRequest("a file holds one mechanism, and this schedule has one for every part: plan the parts one by one")
    quality = planned.quality
    low, high = planned.forecast or (quality.recall.low, quality.recall.high)
    expected = Expectation(
        recall=planned.expected,
        recall_low=low,
        recall_high=high,
        exact_set=quality.exact_set.value,
        released=quality.released.value,
    )
    release = ReleaseTable(k=found.parts[0].k, mechanism=planned.mechanisms[0], expected=expected)
    reading = {"max_items_per_user": planned.max_items_per_user, "clip": planned.clip}
    data = config.DataTable.model_validate({**dict(asked.data), **reading})
    return asked.model_copy(update={"release": release, "data": data})


def _plan_table(base: PlanTable, stated: Mapping[str, Any], schedule: tuple[Part, ...] | None) -> PlanTable:
    """The file's table with what the command line says in its place."""
    if schedule is not None and stated["releases"] is not None:
        raise InvalidRequest("--schedule says how many releases there are: leave --releases out")
    if schedule is not None:
        base = base.model_copy(update={"schedule": schedule, "releases": None})
    elif stated["releases"] is not None:
        base = base.model_copy(update={"schedule": None})
    if stated["shape"] is not None:
        # Another shape: nothing of the old one may stay.
        gone = dict.fromkeys(("items", "users", "items_per_user", "column", "log")) | {"declared_public": False}
        base = base.model_copy(update=gone)
    elif stated["column"] is not None:  # what was declared is another column
        base = base.model_copy(update={"declared_public": False})
    if stated["user"] is not None or stated["item"] is not None:
        base = base.model_copy(update={"log": True})
    return _over(base, stated, tuple(name for name in PlanTable.model_fields if name not in ("schedule", "log")))


def _over(base: T, stated: Mapping[str, Any], names: tuple[str, ...]) -> T:
    given = {name: stated[name] for name in names if stated.get(name) is not None}
    try:
        return type(base).model_validate({**dict(base), **given})
    except InvalidRequest as error:
        raise InvalidRequest(_as_option(str(error), type(base).__name__)) from None


def _as_option(message: str, table: str) -> str:
    """The message with the option's name in place of the table's key."""
    if not message.startswith(f"{table}."):
        return message.replace(table, "the command line")
    name, equals, rest = message.removeprefix(f"{table}.").partition("=")
    return f"--{name.replace('_', '-')}{equals}{rest}"


def _schedule(words: str) -> tuple[Part, ...]:
    try:
        pairs = [tuple(map(int, part.split("x"))) for part in words.split(",")]
        return tuple(Part(releases=count, k=k) for count, k in pairs)
    except ValueError:
        raise InvalidRequest(f"--schedule={words!r} is refused: write RELEASESxK,RELEASESxK, 30x10,1x100 for example") from None


def _require_size(asked: Config) -> None:
    if asked.plan.schedule is not None and asked.release.k is not None:
        raise InvalidRequest("--schedule says how many items each release has: leave --k ([release] k) out")
    if asked.plan.schedule is None and asked.release.k is None:
        raise InvalidRequest("no size is stated: give --k, how many items each release has, or --schedule")


def _shape(asked: Config) -> Shape:
    """The shape that the words stand for."""
    stated = asked.plan
    if stated.shape is None:
        raise InvalidRequest(f"no shape is stated: give --shape, one of {_KNOWN}")
    if stated.shape.partition(":")[0] in ("zipf", "uniform"):
        if stated.log:
            raise InvalidRequest(f"--user and --item are columns of a log, and --shape={stated.shape} is made up: leave them out")
        return _made_up(stated, _exponent(stated.shape))
    if (learnt := learnt_shape(stated.shape, asked.ledger)) is not None:
        if stated.users is not None or stated.items_per_user is not None or stated.column is not None:
            raise InvalidRequest(
                f"--shape={stated.shape} tells users and their items: leave --users, --items-per-user and --column out"
            )
        return Shape.learned(learnt[0], end=learnt[1], items=stated.items)
    missing = "\0" in stated.shape or not os.access(stated.shape, os.F_OK)
    if missing and (":" in stated.shape or Path(stated.shape).suffix == ""):
        raise InvalidRequest(f"--shape={stated.shape!r} is not a shape: it must be {_KNOWN}")
    return _published(stated, Path(stated.shape), asked.data)


def _ledger(base: LedgerTable | None, stated: Mapping[str, Any]) -> LedgerTable | None:
    """The file's table with what the command line says in its place."""
    named = {field: stated[name] for field, name in (("url", "ledger"), ("dataset", "dataset")) if stated.get(name) is not None}
    if base is None and named and len(named) < 2:
        raise InvalidRequest("ledger= and dataset= go together: name both, or give a file with [ledger] (config=)")
    return base if not named else LedgerTable.model_validate({**({} if base is None else dict(base)), **named})


def learnt_shape(words: str, ledger: LedgerTable | None) -> tuple[Learnt, End] | None:
    """What `--shape learned...` names: learnt numbers and the end of their interval; None for any other shape."""
    kind, _, file = words.partition(":")
    if kind not in _LEARNED:
        return None
    return Learnt.in_answer(file) if file else _learned_by(ledger), _LEARNED[kind]


def _learned_by(named: LedgerTable | None) -> Learnt:
    """What releases of the dataset have learnt."""
    if named is None:
        raise InvalidRequest("--learned takes what releases of a dataset have learnt: name it, --ledger and --dataset")
    with Ledger.open(named.url, create=False) as ledger:
        return Learnt.of_dataset(ledger, named.dataset)


def _made_up(stated: PlanTable, exponent: float) -> Shape:
    if stated.items is None or stated.users is None:
        raise InvalidRequest(f"--shape={stated.shape} needs --items and --users: how many there are, roughly")
    if stated.column is not None:
        raise InvalidRequest("--column is about a CSV file of counts: leave it out")
    return Shape.zipf(exponent, stated.items, stated.users, items_per_user=stated.items_per_user or 1.0)


def _published(stated: PlanTable, path: Path, data: config.DataTable) -> Shape:
    for name in ("items", "users"):
        if getattr(stated, name) is not None:
            raise InvalidRequest(f"--{name.replace('_', '-')} does not go with a file of counts, which tells it: leave it out")
    if stated.log or path.suffix == ".parquet":
        if data.user is None or data.item is None:
            raise InvalidRequest(f"--shape={str(path)!r} is a log: name its columns, --user COLUMN and --item COLUMN")
        for name in ("column", "items_per_user"):
            if getattr(stated, name) is not None:
                raise InvalidRequest(f"--{name.replace('_', '-')} is about a file of counts, and a log tells it: leave it out")
        return Shape.from_log(path, user=data.user, item=data.item, public=stated.declared_public)
    return Shape.from_csv(path, stated.column, public=stated.declared_public, items_per_user=stated.items_per_user)


def _exponent(words: str) -> float:
    kind, _, exponent = words.partition(":")
    if kind == "uniform":
        if exponent:
            raise InvalidRequest("--shape=uniform takes nothing after a colon")
        return 0.0
    try:
        return float(exponent)
    except ValueError:
        raise InvalidRequest(f"--shape={words!r} is refused: after zipf: comes the exponent, zipf:1.1 for example") from None
