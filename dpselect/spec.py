"""What can be asked, each thing once: the fields of a spec are a command's options, the keys of its file and Python's keywords.

A spec is public configuration; it holds no data. Contradictions between fields are its validators, in words that name a field as
Python does, `clip=`; a command shows its own spelling (`cli.from_model`).
"""

from __future__ import annotations

import csv
import types
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

from pydantic import BeforeValidator, Field, SkipValidation, ValidationError, model_validator

from accounting import Budget, InvalidBudget, Relation
from accounting.frozen import Count, Frozen, Positive, Real
from dpselect.errors import InvalidRequest
from dpselect.events.file_options import FileOptions
from dpselect.events.time_window import Every, Unit
from dpselect.events.values import Rule
from dpselect.noise import NoiseName
from dpselect.selection import Label

if TYPE_CHECKING:
    from accounting import Ledger
    from dpselect.mechanisms.base import Mechanism
else:  # not checked by pydantic: a question without a ledger does without a database
    Ledger = Mechanism = Any

Column = str | int
"""A column by its name, or by its number from 1 where there are no names."""
Keeper = Literal["memory", "duckdb", "spark"]
"""Where counts stay until they are drawn from: here, in the embedded engine on disk, or on a Spark cluster."""
Over = Literal["period", "running", "window"]
"""What a count of a horizon is of."""


def _flag(value: object) -> object:
    """Neither 1 nor "yes": what is declared is said explicitly."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


Flag = Annotated[bool, BeforeValidator(_flag)]


def option(
    description: str,
    section: str = "Most used",
    default: Any = None,
    *,
    metavar: str | None = None,
    flags: str | None = None,
    env: str | None = None,
    parse: Callable[[Any], Any] | None = None,
    many: bool = False,
) -> Any:
    """A field: its help, the section of the help that it stands in, and how text states it.

    Args:
        flags: of the command, where they are not `--name`.
        env: environment variable that a command reads it from.
        parse: from a command's or a file's text to the value; else the text itself, or a number.
        many: whether a command takes it several times.
    """
    shown: Any = {"section": section, "metavar": metavar, "flags": flags, "env": env, "parse": parse, "many": many}
    return Field(default=default, description=description, json_schema_extra=shown)


class Spec(Frozen):
    """Base of all specs."""

    error_class: ClassVar[Any] = InvalidRequest  # also where a mixin has another

    @classmethod
    def _own_error(cls, data: Any, validate: Callable[[Any], Any]) -> Any:
        try:
            return validate(data)
        except ValidationError as error:
            raise cls._refusal(error) from None

    @classmethod
    def _refusal(cls, error: ValidationError) -> InvalidRequest:
        """What is wrong with the first field that is."""
        detail = error.errors(include_url=False)[0]
        name, rule = (
            str(next(iter(detail["loc"]), "")),
            detail["msg"].removeprefix("Value error, ").removeprefix("Input should be "),
        )
        if not name:
            return cls.error_class(rule)
        if name not in cls.model_fields:
            known = ", ".join(cls.model_fields)
            return cls.error_class(f"{name}= is not known here: there are {known}")
        if detail["type"] == "missing":
            words = (cls.model_fields[name].description or "").rstrip(".")
            return cls.error_class(f"{name}= is missing: {words[:1].lower()}{words[1:]}")
        given = detail["input"]
        shown = repr(given)[:60] if isinstance(given, bool | int | float | str) else f"<{type(given).__name__}>"
        return cls.error_class(f"{name}={shown} is refused: it must be {rule} ({cls.model_fields[name].description})")

    @classmethod
    def over(cls, file: Mapping[str, Any], stated: Mapping[str, Any]) -> Self:
        """What is stated, on top of what a file says."""
        return cls(**{**file, **stated})

    def given(self, *names: str) -> dict[str, Any]:
        """Those of the named fields that are stated."""
        return {name: getattr(self, name) for name in names if getattr(self, name) not in (None, False, ())}


def typed(annotation: Any) -> Any:
    """What a command line can state of a field: text, or a value of its only type."""
    if get_origin(annotation) is Annotated:
        return typed(get_args(annotation)[0])
    if annotation is Any:
        return str
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    members = [typed(one) for one in get_args(annotation) if one is not type(None)]
    return str if str in members else members[0]


def _delta_refused(delta: float) -> str:
    return f"delta={delta:g} must lie strictly between 0 and 1; leave it out for a budget without delta"


BUDGETED = frozenset({"epsilon", "delta", "rho", "releases"})
"""What states a budget of its own, for which a planned mechanism's noise is chosen anew."""


# -- what several specs ask alike ------------------------------------------------------------------------------------------


class BudgetFields(Spec):
    """What a release may cost."""

    epsilon: Real | None = option("Budget of the whole release, in nats; the noise is chosen to spend it.")
    delta: Real | None = option(
        "Part of the budget: the probability that may fall outside epsilon or rho. Far less than 1 / number of users."
    )
    rho: Real | None = option("Budget of the whole release under zero-concentrated privacy, in place of epsilon=.", "Privacy")

    @model_validator(mode="after")
    def _states_a_budget_once(self) -> Self:
        if self.epsilon is not None and self.rho is not None:
            raise InvalidBudget("epsilon= and rho= are two ways to state one budget: give one of them, with or without delta=")
        for name, value in (("epsilon", self.epsilon), ("rho", self.rho)):
            if value is not None and not value > 0:
                raise InvalidBudget(f"{name}={value:g} must be a finite number above 0, in nats; 1 is a common choice")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise InvalidBudget(_delta_refused(self.delta))
        return self

    @classmethod
    def over(cls, file: Mapping[str, Any], stated: Mapping[str, Any]) -> Self:
        """As of any spec; a budget that is stated replaces the file's, of which a delta stays."""
        if stated.get("delta") is not None and not stated["delta"] > 0:
            raise InvalidBudget(_delta_refused(stated["delta"]))
        if stated.get("epsilon") is not None or stated.get("rho") is not None:
            file = {name: value for name, value in file.items() if name not in ("epsilon", "rho")}
        return cls(**{**file, **stated})

    @property
    def budget(self) -> Budget:
        """The budget that is stated.

        Raises:
            InvalidBudget: none is.
        """
        if self.epsilon is None and self.rho is None:
            raise InvalidBudget("no budget is stated: give epsilon= (with or without delta=), 1 and 1e-6 for example, or rho=")
        return Budget(epsilon=self.epsilon, delta=self.delta or 0.0, rho=self.rho)


class LedgerFields(Spec):
    """Who pays, and what the ledger writes down of it."""

    ledger: SkipValidation[str | Ledger | None] = option(
        "Charge this ledger before anything is drawn: sqlite:///FILE or postgresql://USER@HOST/NAME.",
        metavar="URL",
        env="DPSELECT_LEDGER",
    )
    dataset: str | None = option("Dataset of the ledger whose budget pays.")
    period: SkipValidation[str | Sequence[str] | None] = option(
        "Period whose rows the log holds, where the dataset has a budget per period; may be repeated.", "Ledger", many=True
    )
    team: str | None = option("Whose work it is, where the dataset has quotas by team.", "Ledger")
    purpose: str | None = option("What for, where it has quotas by purpose; stored in clear.", "Ledger")
    actor: str | None = option("On whose behalf. Default: the system's user.", "Ledger")
    label: str | None = option("What for, in words that the ledger stores in clear: no private data.", "Ledger")
    key: str | None = option(
        "Idempotency key: a second release under it is refused; with the same output= its answer is shown.", "Ledger"
    )

    @model_validator(mode="after")
    def _names_who_pays(self) -> Self:
        stated = [name for name in LedgerFields.model_fields if getattr(self, name) not in (None, ())]
        if stated and (self.ledger is None or self.dataset is None):
            theirs = [f"{name}=" for name in stated if name not in ("ledger", "dataset")]
            why = f" ({', '.join(theirs)} is theirs)" if theirs else ""
            raise ValueError(
                f"ledger= and dataset= go together: name both to charge a ledger{why}, for example sqlite:///privacy.db and "
                "visits"
            )
        return self

    @property
    def periods(self) -> tuple[str, ...]:
        """The periods whose rows are read."""
        return () if self.period is None else (self.period,) if isinstance(self.period, str) else tuple(self.period)


def item_columns(stated: Any) -> str | tuple[str, ...]:
    """One column, or several that make up an item: named by several options, or in one with commas, as in a record of CSV."""
    texts = [stated] if isinstance(stated, str) else stated
    try:
        parts = [part for text in texts for part in next(csv.reader([text], strict=True), [])]
    except csv.Error:
        raise InvalidRequest(f"item={texts!r} is not a list of columns: write country,city, quoting a comma in a name") from None
    return parts[0] if len(parts) == 1 else tuple(parts)


def value_clip_of(stated: Any) -> tuple[float, float]:
    """The ends that a user's sum is cut to, from [LOW,]HIGH."""
    try:
        ends = [float(end) for end in str(stated).split(",")]
        low, high = (0.0, *ends) if len(ends) == 1 else ends
    except ValueError:
        raise InvalidRequest(f"value_clip={stated!r} must be a number, or two of them as in -50,50") from None
    return low, high


class SourceFields(Spec, FileOptions):
    """How any log is read. Rules of what is read are those of `events.Reading`, which is made of these."""

    user: SkipValidation[Column] = option(
        "Column of users: its name, or its number from 1 without a header.", default=..., metavar="COLUMN"
    )
    buckets: SkipValidation[int | None] = option(
        "Read the log in this many parts: more need less memory. Default: by size.", "Reading the log"
    )
    memory_limit: str | None = option(
        "Memory of the engine before it spills to disk, 2GiB for example.", "Reading the log", metavar="SIZE"
    )


class LogFields(SourceFields):
    """How a log of items is read, and what one user may contribute."""

    item: SkipValidation[Column | Sequence[Column]] = option(
        "Column of items: its name, or its number from 1 without a header. Several (country,city, or repeated) make up one item.",
        default=...,
        metavar="COLUMN",
        parse=item_columns,
        many=True,
    )
    domain: SkipValidation[Sequence[Label] | str | PathLike[str] | None] = option(
        "A public catalogue of items, made without looking at the log. Without it delta= is needed.", metavar="FILE"
    )
    domain_column: str | None = option(
        "Column of the catalogue that holds the items, if it has several.", "Items", metavar="COLUMN"
    )
    max_items_per_user: SkipValidation[int | None] = option(
        "Keep at most this many items of each user (in each group), chosen by a salted hash.", "Bounds on users"
    )
    clip: SkipValidation[float | None] = option(
        "Scale each user's counts to a norm of at most C (1 to 1.4 is good), so that all items of a heavy user count in part: "
        "the l2 norm, or l1 without delta=. Default: chosen by what is public.",
        "Bounds on users",
        metavar="C",
    )
    salt: str | None = option("Salt of that choice. Default: a fresh random one, which is printed.", "Bounds on users")
    group: SkipValidation[Column | None] = option(
        "Release the k items of every group of this column: each city, country or day.", "Groups", metavar="COLUMN"
    )
    groups: SkipValidation[Sequence[Label] | str | PathLike[str] | None] = option(
        "A public list of groups, made without looking at the log. Without it they are discovered.", "Groups", metavar="FILE"
    )
    groups_column: str | None = option(
        "Column of that list that holds the groups, if it has several.", "Groups", metavar="COLUMN"
    )
    max_groups_per_user: SkipValidation[int | None] = option(
        "Keep at most this many groups of each user, chosen by a salted hash; it is paid for.", "Groups"
    )
    value: SkipValidation[Column | None] = option(
        "Column to sum up, in place of counting users; needs value_clip=.", "Question", metavar="COLUMN"
    )
    value_clip: SkipValidation[float | tuple[float, float] | str | None] = option(
        "Cut each user's sum of each item to 0 to HIGH, or LOW to HIGH where it may be negative (-50,50).",
        "Question",
        metavar="[LOW,]HIGH",
        parse=value_clip_of,
    )
    time: SkipValidation[Column | None] = option(
        "Column of times: timestamps, dates, or ISO 8601 text.", "Time", metavar="COLUMN"
    )
    since: SkipValidation[Any] = option("Read events from this time on; it is public.", "Time", metavar="TIME")
    until: SkipValidation[Any] = option("Read events before this time; it is public.", "Time", metavar="TIME")
    time_zone: str = option(
        "Zone of times that state none, Europe/Berlin for example. Default: UTC.", "Time", "UTC", metavar="ZONE"
    )
    time_unit: SkipValidation[Unit | None] = option("Unit of times that are numbers since 1970, in UTC: s, ms or us.", "Time")
    relation: Relation = option(
        "Neighbouring logs differ by one user (add_remove), or by what one user did (replace_one).", "Privacy", "add_remove"
    )

    @model_validator(mode="after")
    def _names_what_lists_are_of(self) -> Self:
        for name, of in (("groups_column", "groups"), ("domain_column", "domain")):
            if getattr(self, name) is not None and getattr(self, of) is None:
                what = "list" if of == "groups" else "catalogue"
                raise ValueError(f"{name}={getattr(self, name)!r} is a column of no {what}: give {of}= too")
        if self.group is None and (self.groups is not None or self.max_groups_per_user is not None):
            raise ValueError("groups=, groups_column= and max_groups_per_user= are about the column group=: name it too")
        if (self.value is None) != (self.value_clip is None):
            raise ValueError("value= names a column, value_clip= the most that a user may add to an item: give both or neither")
        return self


# -- the specs -------------------------------------------------------------------------------------------------------------


class ReleaseFields(Spec):
    """What a release of the top k is."""

    k: Count = option("How many items to release, at least 1.", default=..., metavar="N")
    with_counts: Flag = option(
        "Also release a noisy number of users of every item, with an interval; it takes a part of the budget.", "Question", False
    )
    min_users: Count | None = option(
        "Never show an item with fewer than N distinct users, whatever the noise; needs delta=.", "Question", metavar="N"
    )
    mechanism: SkipValidation[str | Mechanism | None] = option(
        "Kind of mechanism, one of those that 'dpselect mechanisms' lists. Default: chosen for the budget.",
        "Question",
        metavar="KIND",
    )
    noise: NoiseName | None = option("Name of the noise, where mechanism= leaves a choice.", "Question")
    kbar: Count | None = option(
        "How many of the most popular items compete without a catalogue. Default: max(1000, 10 k).", "Question"
    )
    as_set: Flag = option("A set will do: consider mechanisms that do not release the order.", "Question", False, flags="--set")
    releases: Count | None = option(
        "How many such releases, charged one by one, share the budget; this is one of them. With ledger= and no budget stated "
        "it is the dataset's. Default: 1.",
        "Privacy",
    )
    items_per_user: Positive | None = option("A public guess of how many items users have on average, for the default.", "Items")
    users: Positive | None = option("A public guess of how many users there are, for the default.", "Items")
    learn: SkipValidation[float | str | PathLike[str] | None] = option(
        "Share of epsilon for a noisy histogram of items per user, by which the mechanism is chosen; 0 for none. Nothing is "
        "spent on what is declared, or what a release of the same dataset= has learnt, which is used for nothing unless you say "
        "again. "
        "Default: .03. Or the .json file of an earlier answer, whose learnt numbers are used.",
        "Items",
        metavar="SHARE|again|FILE",
    )


class HorizonFields(Spec):
    """A series of releases over time."""

    every: Every | None = option(
        "A release for each day, week or month from since= to until=, charged to that period of the dataset. With key= and "
        "output=FILE{period}.json; run again, it goes on where it was stopped.",
        "Time",
    )
    horizon: SkipValidation[str | PathLike[str] | None] = option(
        "With every=: the budget is that of all periods together, and bounds each user over all of them. STATE is a private file "
        "of what was counted and drawn so far; 'continual' has more options. output= is one file.",
        "Time",
        metavar="STATE",
    )
    count: Over | None = option(
        "With horizon=: users of each period, of all periods so far (running), or of the last window= of them. Default: period.",
        "Time",
    )
    window: Count | None = option("Periods of a window, with count=window.", "Time")

    @model_validator(mode="after")
    def _counts_over_a_horizon(self) -> Self:
        if self.horizon is None and (self.count is not None or self.window is not None):
            raise ValueError("count= and window= say what the periods of a horizon= count: state that too, or leave them out")
        return self


class TopKSpec(HorizonFields, ReleaseFields, LogFields, LedgerFields, BudgetFields):
    """Release the k items with the most distinct users, and the price of it.

    The budget (epsilon and delta, or rho) is that of the whole release, or of as many as releases says. The set of items that
    occur in a log is private too: without a public catalogue an item shows only if enough users touched it, and fewer than k may
    show.
    """

    engine: Keeper = option(
        "Where the counts stay until they are drawn from: memory, the default; duckdb, on disk, for more items than memory "
        "holds; or spark, for a table or a path that the Spark session of the environment finds.",
        "Reading the log",
        "memory",
    )
    pay_for_what_came_out: Flag = option(
        "Reserve the whole price, and have the ledger take what the answer did not use off it: with mechanism=limited_domain, "
        "the items that were not released.",
        "Ledger",
        False,
    )
    use_everything: Flag = option(
        "Let the release take more of the dataset's budget than the part of it that it states.", "Ledger", False
    )
    output: SkipValidation[str | PathLike[str] | None] = option(
        "Also keep the answer in this new private file, .json or .txt, before the ledger records that it was released; or its "
        "items as a table, .csv or .parquet, with which the answer is kept as FILE.json.",
        "Output",
        metavar="FILE",
    )

    @model_validator(mode="after")
    def _sums_up_what_can_be(self) -> Self:
        if isinstance(self.clip, tuple | list):
            raise ValueError("a question has one clip=, not several")
        if self.value is None:
            return self
        for name, given in {"clip=": self.clip, "with_counts=": self.with_counts or None, "group=": self.group}.items():
            if given is not None:
                raise ValueError(f"{name} is for counts of users, and value= sums up a column: leave one of them out")
        negative = isinstance(self.value_clip, tuple) and self.value_clip[0] < 0
        if self.domain is None and negative:
            raise ValueError("sums that may be negative need a public catalogue (domain=), or value_clip= from 0")
        if self.domain is None and self.max_items_per_user is None:
            raise ValueError(
                "value= without a public catalogue (domain=) needs max_items_per_user=: what a user alone brings in must be "
                "hidden"
            )
        return self

    @model_validator(mode="after")
    def _is_what_an_engine_can_do(self) -> Self:
        if self.pay_for_what_came_out and self.ledger is None:
            raise ValueError("pay_for_what_came_out= needs ledger= and dataset=: without them nothing adds prices up")
        if self.use_everything and self.ledger is None:
            raise ValueError("use_everything= needs ledger= and dataset=: it is about their budget")
        if self.engine == "duckdb" and self.group is not None:
            raise ValueError("group= is counted in memory: leave out engine='duckdb'")
        if self.engine == "spark" and (foreign := self.given("table", "query", "buckets", "memory_limit")):
            raise ValueError(f"engine='spark' reads one table or path, without {', '.join(f'{name}=' for name in foreign)}")
        return self

    @model_validator(mode="after")
    def _keeps_to_a_planned_mechanism(self) -> Self:
        planned = self.planned
        if planned is None:
            return self
        if changed := self.given("noise", "kbar"):
            raise ValueError(
                f"{next(iter(changed))}= contradicts the mechanism in the file, which was planned with its own: plan again, or "
                "state this release's own budget (epsilon=, rho=) as well"
            )
        if self.min_users is not None:
            raise ValueError(
                "min_users= is about distinct users, and the mechanism in the file was planned without it: leave one of them out"
            )
        if planned.most_released not in (None, self.k):
            raise ValueError(
                f"k={self.k} contradicts the mechanism in the file, which was planned with its own: plan again, or state this "
                "release's own budget (epsilon=, rho=) as well"
            )
        return self

    @property
    def planned(self) -> Mechanism | None:
        """A mechanism that is configured already; its noise is not chosen again."""
        return None if self.mechanism is None or isinstance(self.mechanism, str) else self.mechanism

    @property
    def kind(self) -> str | None:
        """The kind of mechanism that is asked for."""
        return self.mechanism if isinstance(self.mechanism, str) else None

    @classmethod
    def over(cls, file: Mapping[str, Any], stated: Mapping[str, Any]) -> Self:
        """As of any budget; where a budget or a number of releases is stated, the noise of a planned mechanism is chosen anew."""
        if BUDGETED & stated.keys():
            file = {name: value for name, value in file.items() if name not in ("mechanism", "releases")}
        elif file.get("mechanism") is not None:
            changed = [name for name in ("mechanism", "k") if name in stated and stated[name] != file.get(name)]
            if changed:
                raise InvalidRequest(
                    f"{changed[0]}= contradicts the mechanism in the file, which was planned with its own: plan again, or state "
                    "this release's own budget (epsilon=, rho=) as well"
                )
        return super().over(file, stated)


def shares_of(stated: Any) -> tuple[float, ...]:
    """Shares in (0, 1), from text with commas."""
    try:
        shares = tuple(float(part) for part in str(stated).split(","))
    except ValueError:
        shares = ()
    if not shares or not all(0 < share < 1 for share in shares):
        raise InvalidRequest(
            f"quantiles={str(stated)[:40]!r} must be numbers between commas, each between 0 and 1: .25,.5,.75 for example"
        )
    return shares


class QuantileSpec(SourceFields, LedgerFields):
    """Release quantiles of one number per user: all of them for one budget, in one exact draw.

    The points low, low + step, ... up to high are the candidates; they are public, and chosen without looking at the log.
    """

    quantiles: SkipValidation[float | Sequence[float]] = option(
        "Shares in (0, 1), rising: .5 or .25,.5,.75.", default=..., metavar="SHARES", parse=shares_of
    )
    low: Real = option("A public lower bound; smaller numbers are moved to it.", default=...)
    high: Real = option("A public upper bound; larger numbers are moved to it.", default=...)
    step: Real = option("Distance of the points that may be released, in the numbers' unit.", default=...)
    epsilon: Real = option("Budget of the whole release, in nats.", default=...)
    value: SkipValidation[Column | None] = option(
        "Column of numbers. Without it: how many events a user has.", "One number per user", metavar="COLUMN"
    )
    rule: Rule | None = option(
        "How a user's numbers become one. Default: pick, one of them by a salted hash.", "One number per user"
    )
    salt: str | None = option("Salt of that choice. Default: a fresh random one.", "One number per user")
    relation: Relation = option("What neighbouring logs differ by, as for topk.", "Privacy", "add_remove")
    output: SkipValidation[str | PathLike[str] | None] = option(
        "Also keep the answer in this new private file, .json or .txt.", "Output", metavar="FILE"
    )
