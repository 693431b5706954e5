"""What `plan` is asked: the command line on top of the configuration file; and `plan --quick`, which asks for no simulations."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from rich.console import Group
from rich.text import Text
from typer import echo

from accounting import Budget, Ledger, Relation
from accounting.address import masked
from accounting.risk import Risk
from dpselect import InvalidRequest, Sensitivity
from dpselect.cli import config, options, out
from dpselect.cli.config import Config
from dpselect.plan.candidates import Candidates, Choice
from dpselect.plan.counts import COUNTS_AGAIN
from dpselect.plan.learn import End, Learnt
from dpselect.plan.plan import Part, Plan, PlannedMechanism, Progress, budget_for, plan
from dpselect.plan.profile import EXPONENTS, Groups, Profile
from dpselect.plan.request import TopKRequest

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
    shape: Profile
    only: tuple[str, ...]

    @classmethod
    def of(cls, stated: Mapping[str, Any], *, file: Path | None, schedule: str | None, only: tuple[str, ...]) -> Self:
        """From options by their names, None where they are not given, and a file."""
        base = Config() if file is None else config.read(file)
        budget = options.budget_over(base.budget, stated["epsilon"], stated["delta"], stated["rho"])
        parts = None if schedule is None else _schedule(schedule)
        tables = {
            "data": _over(base.data, stated, ("user", "item", "relation", "max_items_per_user", "max_groups_per_user")),
            "release": base.release if stated["k"] is None else {"k": stated["k"]},
            "budget": budget,
            "ledger": _ledger(base, stated),
            "plan": _plan_over(base, stated, parts),
        }
        asked = Config.model_validate(tables)
        if asked.plan.schedule is not None and asked.release.k is not None:
            raise InvalidRequest("--schedule says how many items each release has: leave --k ([release] k) out")
        if asked.plan.schedule is None and asked.release.k is None:
            raise InvalidRequest("no size is stated: give --k, how many items each release has, or --schedule")
        return cls(asked, budget, _shape(asked), only)

    def _groups(self) -> Groups | None:
        asked, data = self.config.plan, self.config.data
        stated = options.given({"per_user": asked.groups_per_user, "exponent": asked.group_exponent})
        if asked.groups is None:
            if stated or data.group is not None or data.max_groups_per_user is not None:
                raise InvalidRequest("a plan for groups needs --groups N, how many there are (roughly)")
            return None
        if data.max_groups_per_user is None:
            raise InvalidRequest("--groups needs --max-groups-per-user: a release costs as much as that many of one group")
        return Groups(count=asked.groups, max_groups_per_user=data.max_groups_per_user, **stated)

    def answer(self, progress: Progress | None = None) -> Plan:
        """The plan; what is not stated is left to the defaults of `dpselect.plan`."""
        asked, data = self.config.plan, self.config.data
        stated = {name: getattr(asked, name) for name in ("order", "rank_by", "rounds", "level", "seed")}
        size: dict[str, Any] = {"k": self.config.release.k, "releases": asked.releases or 1}
        if asked.schedule is not None:
            size = {"schedule": [(part.releases, part.k) for part in asked.schedule]}
        return plan(
            self.budget,
            profile=self.shape,
            progress=progress,
            **options.given(stated),
            **size,
            domain="unknown" if asked.unknown_domain else "public",
            relation=data.relation,
            max_items_per_user=data.max_items_per_user,
            # By default separately where there is a ledger, since `topk` charges it release by release.
            charged=asked.charged or ("together" if self.config.ledger is None else "separately"),
            mechanisms=self.only or None,
            with_counts=bool(asked.with_counts),
            groups=self._groups(),
        )

    def chosen(self, found: Plan, planned: PlannedMechanism) -> Config:
        """The file with the mechanism to release with."""
        if len(planned.mechanisms) > 1:
            raise InvalidRequest(
                "a file holds one mechanism, and this schedule has one for every part: plan the parts one by one"
            )
        quality = planned.quality
        low, high = planned.forecast or (quality.recall.low, quality.recall.high)
        expected = {"recall": planned.expected, "recall_low": low, "recall_high": high}
        expected |= {"exact_set": quality.exact_set.value, "released": quality.released.value}
        release = {"k": found.parts[0].k, "mechanism": planned.mechanisms[0], "expected": expected}
        data = dict(self.config.data) | {"max_items_per_user": planned.max_items_per_user, "clip": planned.clip}
        return self.config.model_copy(update={"release": release, "data": data})


_SEARCHED = 100  # simulated runs of each plan of a search
_KINDS = 3  # mechanisms that are looked at in it


def needed_for(
    recall: float, stated: Mapping[str, Any], *, file: Path | None, schedule: str | None, only: tuple[str, ...]
) -> dict[str, Any]:
    """The least epsilon whose plan expects this recall or, where a budget is stated, the least number of users.

    Raises:
        InvalidRequest: both are stated, the profile is not one that has a number of users to find, or nothing is enough.
    """
    base = Config() if file is None else config.read(file)
    budgeted = base.budget is not None or stated["epsilon"] is not None or stated["rho"] is not None
    if budgeted and (stated["users"] is not None or base.plan.users is not None):
        raise InvalidRequest("--recall says how large --epsilon, or --users, has to be: leave one of them out")
    shape = stated["shape"] or base.plan.shape or ""
    if budgeted and shape.partition(":")[0] not in ("zipf", "uniform"):
        raise InvalidRequest("--recall finds users for --shape zipf:EXPONENT or uniform: leave --epsilon out for any other")
    name, start, low, high = ("users", 1e5, 10.0, 1e9) if budgeted else ("epsilon", 1.0, 1e-3, 1e2)

    def answered(amount: float, kinds: tuple[str, ...]) -> Plan:
        of_it = round(amount) if budgeted else amount
        return PlanQuestion.of({**stated, name: of_it, "rounds": _SEARCHED}, file=file, schedule=schedule, only=kinds).answer()

    found = answered(start, only)
    kinds = tuple(dict.fromkeys(one.name.partition(",")[0] for one in found.ranked))[:_KINDS]
    least, _ = budget_for(recall, lambda amount: answered(amount, kinds), low, high)
    return {name: round(least) if budgeted else least}


def _plan_over(base: Config, stated: Mapping[str, Any], schedule: tuple[Part, ...] | None) -> Any:
    """The file's [plan] with what the command line says in its place."""
    table = base.plan
    if schedule is not None and stated["releases"] is not None:
        raise InvalidRequest("--schedule says how many releases there are: leave --releases out")
    if schedule is not None:
        table = table.model_copy(update={"schedule": schedule, "releases": None})
    elif stated["releases"] is not None:
        table = table.model_copy(update={"schedule": None})
    if stated["shape"] is not None:
        # Another shape: nothing of the old one may stay.
        gone = dict.fromkeys(("items", "users", "items_per_user", "column", "log")) | {"declared_public": False}
        table = table.model_copy(update=gone)
    elif stated["column"] is not None:  # what was declared is another column
        table = table.model_copy(update={"declared_public": False})
    if stated["user"] is not None or stated["item"] is not None:
        table = table.model_copy(update={"log": True})
    return _over(table, stated, tuple(name for name in type(table).model_fields if name not in ("schedule", "log")))


def _over(base: T, stated: Mapping[str, Any], names: tuple[str, ...]) -> T:
    given = {name: stated[name] for name in names if stated.get(name) is not None}
    try:
        return type(base).model_validate({**dict(base), **given})
    except InvalidRequest as error:
        message, table = str(error), type(base).__name__
    if message.startswith(f"{table}."):  # the option's name in place of the table's key
        name, equals, rest = message.removeprefix(f"{table}.").partition("=")
        raise InvalidRequest(f"{options.flags(name)}{equals}{rest}")
    raise InvalidRequest(message.replace(table, "the command line"))


def _schedule(words: str) -> tuple[Part, ...]:
    try:
        pairs = [tuple(map(int, part.split("x"))) for part in words.split(",")]
        return tuple(Part(releases=count, k=k) for count, k in pairs)
    except ValueError:
        raise InvalidRequest(f"--schedule={words!r} is refused: write RELEASESxK,RELEASESxK, 30x10,1x100 for example") from None


def _shape(asked: Config) -> Profile:
    """The shape that the words stand for."""
    stated = asked.plan
    if stated.shape is None:
        raise InvalidRequest(f"no shape is stated: give --shape, one of {_KNOWN}")
    if stated.shape.partition(":")[0] in ("zipf", "uniform"):
        if stated.log:
            raise InvalidRequest(f"--user and --item are columns of a log, and --shape={stated.shape} is made up: leave them out")
        if stated.items is None or stated.users is None:
            raise InvalidRequest(f"--shape={stated.shape} needs --items and --users: how many there are, roughly")
        if stated.column is not None:
            raise InvalidRequest("--column is about a CSV file of counts: leave it out")
        return Profile.zipf(_exponent(stated.shape), stated.items, stated.users, items_per_user=stated.items_per_user or 1.0)
    if learnt := _learnt_shape(stated.shape, None if asked.ledger is None else (asked.ledger.ledger, asked.ledger.dataset)):
        if stated.users is not None or stated.items_per_user is not None or stated.column is not None:
            raise InvalidRequest(
                f"--shape={stated.shape} tells users and their items: leave --users, --items-per-user and --column out"
            )
        return learnt[0].at(learnt[1]).on_curve(items=stated.items)
    missing = "\0" in stated.shape or not os.access(stated.shape, os.F_OK)
    if missing and (":" in stated.shape or Path(stated.shape).suffix == ""):
        raise InvalidRequest(f"--shape={stated.shape!r} is not a shape: it must be {_KNOWN}")
    return _published(asked, Path(stated.shape))


def _ledger(base: Config, stated: Mapping[str, Any]) -> dict[str, Any] | None:
    """The file's [ledger] with what the command line says in its place."""
    named = {field: stated[name] for field, name in (("url", "ledger"), ("dataset", "dataset")) if stated.get(name) is not None}
    if base.ledger is None and named and len(named) < 2:
        raise InvalidRequest("ledger= and dataset= go together: name both, or give a file with [ledger] (config=)")
    return ({} if base.ledger is None else base.ledger.model_dump(by_alias=True)) | named or None


def _learnt_shape(words: str, dataset: tuple[str, str] | None) -> tuple[Learnt, End] | None:
    """What `--shape learned...` names: learnt numbers, of a file or a dataset of a ledger, and the end of their interval.

    None for any other shape.
    """
    kind, _, file = words.partition(":")
    if kind not in _LEARNED:
        return None
    if file:
        return Learnt.in_answer(file), _LEARNED[kind]
    if dataset is None:
        raise InvalidRequest("--learned takes what releases of a dataset have learnt: name it, --ledger and --dataset")
    with Ledger.open(dataset[0], create=False) as ledger:
        return Learnt.of_dataset(ledger, dataset[1]), _LEARNED[kind]


def _published(asked: Config, path: Path) -> Profile:
    stated, data = asked.plan, asked.data
    for name in ("items", "users"):
        if getattr(stated, name) is not None:
            raise InvalidRequest(f"{options.flags(name)} does not go with a file of counts, which tells it: leave it out")
    if stated.log or path.suffix == ".parquet":
        if data.user is None or data.item is None:
            raise InvalidRequest(f"--shape={masked(path)} is a log: name its columns, --user COLUMN and --item COLUMN")
        for name in ("column", "items_per_user"):
            if getattr(stated, name) is not None:
                raise InvalidRequest(f"{options.flags(name)} is about a file of counts, and a log tells it: leave it out")
        return Profile.of_log(path, user=data.user, item=data.item, public=stated.declared_public)
    return Profile.of_csv(path, stated.column, public=stated.declared_public, items_per_user=stated.items_per_user)


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


# -- plan --quick: what `topk` would choose by itself, from a few numbers of users -----------------------------------------


_BUDGET, _USERS = ("epsilon", "delta", "rho"), ("users", "items_per_user")
_ASKED = ("k", "items", "relation", "max_items_per_user", "releases", "with_counts", "unknown_domain", "order")
_LEARNT = ("shape", "ledger", "dataset")


def answer_quick(stated: Mapping[str, Any], *, json: bool) -> None:
    """Show the default's choice for the users that are declared, learnt or assumed. Nothing private is read, nothing is spent.

    Args:
        stated: options by their names, None where they are not given.

    Raises:
        InvalidRequest: an option needs a plan with simulations, or the number of public items is missing.
        CalibrationError: no amount of noise fits the budget.
    """
    for name, value in stated.items():
        if value is not None and value is not False and value != [] and name not in (*_BUDGET, *_USERS, *_ASKED, *_LEARNT):
            raise InvalidRequest(
                f"{options.flags(name)} does not go with --quick, which simulates nothing: leave one of them out"
            )
    budget = options.budget_over(None, *(stated[name] for name in _BUDGET))
    request, profile = _request(stated), _users(stated)
    limit = stated["max_items_per_user"]
    found = Candidates.of(budget, request, limit=limit, order=stated["order"] is not False)
    choice = found.best(profile)
    told = _as_data(choice, found.recalls(choice, profile), profile)
    risk, relation = Risk.of(request.releases * choice.mechanism.curve), request.sensitivity.relation
    if json:
        echo(out.json_text({**told, "risk": risk.as_data(relation), "mechanism": choice.mechanism.model_dump(mode="json")}))
    else:
        alone = stated["shape"] is None and stated["ledger"] is None
        assumed = [options.flags(name) for name in _USERS if alone and stated[name] is None]
        recalls = list(told["recall"].values())
        reading = [] if choice.clip is None else [f"users clipped to an {choice.norm} norm of {choice.clip:g}"]
        reading += [] if choice.again is None else [f"then to {choice.again:g} among the items found"]
        reading += [] if choice.max_items_per_user is None else [f"at most {choice.max_items_per_user} items per user"]
        rows = [
            ("mechanism", type(choice.mechanism).__name__),
            ("reading", ", ".join(reading) or "every item in full"),
            ("chosen for", profile.in_words() + (f" ({' and '.join(assumed)} assumed)" if assumed else "")),
            (
                "finds",
                f"about {sum(recalls) / len(recalls):.2f} of the true top k; {min(recalls):.2f} to {max(recalls):.2f} "
                "on standard shapes",
            ),
            ("risk", risk.in_words(relation)),
        ]
        alike = "learns what is not declared first" if assumed else "chooses so for such users"
        last = f"dpselect topk {alike}. A plan with --shape simulates, and is closer."
        out.screen().print(
            Group(out.heading("Quick plan: the default's choice, without simulations"), out.facts(rows), Text(), Text(last))
        )


def _request(stated: Mapping[str, Any]) -> TopKRequest:
    if stated["k"] is None:
        raise InvalidRequest("no size is stated: give --k, how many items each release has")
    unknown = bool(stated["unknown_domain"])
    if unknown == (stated["items"] is not None):
        raise InvalidRequest("--quick needs --items, how many items the public catalogue has, or --unknown-domain; not both")
    relation: Relation = stated["relation"] or "add_remove"
    return TopKRequest(
        k=stated["k"],
        sensitivity=Sensitivity.of_counts(relation, stated["max_items_per_user"]),
        candidates=stated["items"],
        releases=stated["releases"] or 1,
        counts=COUNTS_AGAIN if stated["with_counts"] else None,
        recounted=bool(stated["with_counts"]),
    )


def _users(stated: Mapping[str, Any]) -> Profile:
    words = stated["shape"]
    if words is None and (stated["ledger"] is not None or stated["dataset"] is not None):
        words = "learned"
    if words is None:
        return Profile.typical(*(stated[name] for name in _USERS))
    if any(stated[name] is not None for name in _USERS):
        raise InvalidRequest(f"--shape={words} tells users and their items: leave --users and --items-per-user out")
    named = stated["ledger"], stated["dataset"]
    learnt = _learnt_shape(words, None if None in named else named)
    if learnt is None:
        raise InvalidRequest(
            f"--shape={words} does not go with --quick: give --users and --items-per-user, --learned, or "
            "--shape learned:ANSWER.json"
        )
    return learnt[0].at(learnt[1])


def _as_data(choice: Choice, recalls: Sequence[float], profile: Profile) -> dict[str, Any]:
    return {
        "max_items_per_user": choice.max_items_per_user,
        "clip": choice.clip,
        "norm": None if choice.clip is None else choice.norm,
        "again": choice.again,
        "users": profile.users,
        "median_items_per_user": None if profile.quantiles is None else profile.quantiles[2],
        "recall": dict(zip(map(str, EXPONENTS), recalls, strict=True)),
    }
