"""Fields that several specs share: the budget, the ledger, the reading of a log, and its bounds."""

from __future__ import annotations

import csv
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import SkipValidation, model_validator

from accounting import Budget
from accounting.arguments import MOST_COUNT
from accounting.errors import InvalidBudget, locate_errors
from accounting.frozen import Count, Positive, Real
from accounting.relations import Relation
from accounting.wording import format_number
from dpselect.app.events.file_options import FileOptions
from dpselect.app.events.time_window import Unit
from dpselect.app.spec.base import LEDGER, Column, Contradiction, Flag, Spec, option
from dpselect.cells import ANY_GROUPS
from dpselect.errors import EventLogError, InvalidRequest, UncomposedLabels
from dpselect.selection import Label

if TYPE_CHECKING:
    from accounting import Ledger
    from dpselect.app.events.reading import Reading
else:  # not checked by pydantic: a question without a ledger does without a database
    Ledger = Annotated[Any, "Ledger"]


def _delta_refused(delta: float) -> str:
    return (
        f"delta={format_number(delta)} must lie strictly between 0 and 1. Leave it out for a budget"
        " without delta"
    )


BUDGETED = frozenset({"epsilon", "delta", "rho", "releases"})
"""Fields that state a budget of their own, for which a planned mechanism's noise is chosen anew."""


class BudgetFields(Spec):
    """Options for the budget of a release."""

    epsilon: Real | None = option(
        "Budget of the whole release, in nats. The noise is chosen to spend it.",
        rows=False,
        place=50,
    )
    delta: Real | None = option(
        "Part of the budget: the probability that may fall outside epsilon or rho. Choose far"
        " less than 1 / number of users.",
        rows=False,
        place=60,
    )
    rho: Real | None = option(
        "Budget of the whole release under zero-concentrated privacy, in place of epsilon=.",
        "Privacy",
        rows=False,
    )

    @model_validator(mode="after")
    def _states_a_budget_once(self) -> Self:
        if self.epsilon is not None and self.rho is not None:
            raise InvalidBudget(
                "epsilon= and rho= are two ways to state one budget. Give one of them, with or"
                " without delta="
            )
        for name, value in (("epsilon", self.epsilon), ("rho", self.rho)):
            if value is not None and not value > 0:
                raise InvalidBudget(
                    f"{name}={value:g} must be a finite number above 0, in nats; 1 is a common"
                    " choice"
                )
        if self.delta is not None and not 0 <= self.delta < 1:
            raise InvalidBudget(_delta_refused(self.delta))
        return self

    @classmethod
    def merge(cls, file: Mapping[str, Any], overrides: Mapping[str, Any]) -> Self:
        """The spec of a file's values, with the stated values in their place.

        A stated budget replaces the file's budget, except for its delta.
        """
        if overrides.get("delta") is not None and not overrides["delta"] > 0:
            raise InvalidBudget(_delta_refused(overrides["delta"]))
        if overrides.get("epsilon") is not None or overrides.get("rho") is not None:
            file = {name: value for name, value in file.items() if name not in ("epsilon", "rho")}
        return cls(**{**file, **overrides})

    @property
    def budget(self) -> Budget:
        """The stated budget.

        Raises:
            InvalidBudget: no budget is stated.
        """
        if self.epsilon is None and self.rho is None:
            raise InvalidBudget(
                "no budget is stated. Give epsilon= (with or without delta=), 1 and 1e-6 for"
                " example, or rho="
            )
        return Budget(epsilon=self.epsilon, delta=self.delta or 0.0, rho=self.rho)


# Why fields are no part of a question.
CHARGED = "an answer names its charge, which is compared with the ledger's"
_NOTED = "the ledger notes it beside the charge, whose cost and draw are the same"
_READ = "it decides how much memory reads the log, and no count"
NAMES_OUTPUT = "it names where the answer is kept, which is there before the question is compared"


class PayerFields(Spec):
    """Options for the dataset to charge, and for the notes in its ledger."""

    ledger: SkipValidation[str | Ledger | None] = option(
        f"Charge this ledger before anything is drawn: the {LEDGER}.",
        metavar="URL",
        env="DPSELECT_LEDGER",
        unasked=CHARGED,
        place=140,
    )
    dataset: str | None = option("Dataset of the ledger to charge.", unasked=CHARGED, place=142)
    team: str | None = option(
        "Team to charge, if the dataset has quotas by team.", "Ledger", unasked=_NOTED
    )
    purpose: str | None = option(
        "Purpose to charge, if the dataset has quotas by purpose. It is stored unencrypted.",
        "Ledger",
        unasked=_NOTED,
    )
    actor: str | None = option(
        "Person or service that makes the charge. Default: the system's user.",
        "Ledger",
        unasked=_NOTED,
    )
    label: str | None = option(
        "Note to store in the ledger, unencrypted. Do not include private data.",
        "Ledger",
        unasked=_NOTED,
    )
    key: str | None = option(
        "Idempotency key: a release under it is charged once. With the same output= a retry"
        " prints the same answer; otherwise it is refused.",
        unasked=CHARGED,
        place=144,
    )

    @model_validator(mode="after")
    def _names_who_pays(self) -> Self:
        fields = (*PayerFields.model_fields, *LedgerFields.model_fields)
        if self.key == "":
            raise Contradiction(
                "key",
                "is empty, as a variable that is not set is. Name what is released, its date for"
                " example, so that a retry is charged once, or leave key= out",
                "",
            )
        names = [
            name for name in dict.fromkeys(fields) if getattr(self, name, None) not in (None, ())
        ]
        missing = [name for name in ("ledger", "dataset") if getattr(self, name) is None]
        if names and missing:
            theirs = ", ".join(f"{name}=" for name in names)
            are = "and dataset= are" if len(missing) == 2 else "is"
            raise Contradiction(
                missing[0],
                f"{are} missing, but stated: {theirs}. To charge a ledger, name it and a dataset,"
                " for example sqlite:///privacy.db and visits. In a shell, DPSELECT_LEDGER names"
                " the ledger too",
            )
        return self

    @contextmanager
    def open_ledger(self) -> Iterator[Ledger]:
        """Open the ledger to charge, if one is named."""
        assert self.ledger is not None, "who asks for the ledger has looked"
        with open_ledger(self.ledger) as ledger:
            yield ledger


@contextmanager
def open_ledger(source: str | PathLike[str] | Ledger) -> Iterator[Ledger]:
    """Open a ledger, and close it at the end if it was named by a URL or a path."""
    from accounting import Ledger  # a release without a ledger does without a database

    if isinstance(source, Ledger):
        yield source
        return
    with Ledger.open(source, create=False) as ledger:
        yield ledger


class LedgerFields(PayerFields):
    """Options for the charge of one release, and for the rows that it covers."""

    period: str | Sequence[str] | None = option(
        "Period of the log's rows, if the dataset has a budget per period. May be repeated.",
        "Ledger",
        many=True,
    )

    @property
    def periods(self) -> tuple[str, ...]:
        """The periods of the rows that are read."""
        return (
            ()
            if self.period is None
            else (self.period,)
            if isinstance(self.period, str)
            else tuple(self.period)
        )


class RunFields(Spec):
    """Options for running or only trying a release."""

    dry_run: Flag = option(
        "Show the charge, the mechanism and the remaining budget, from the options, the budget"
        " and the header or schema of the data. No row is read, and nothing is charged, drawn"
        " or written.",
        default=False,
        unasked="a dry run answers nothing",
        place=165,
    )


def columns_of(value: Any) -> str | tuple[str, ...]:
    """One column, or several columns that make up a label, from an option.

    Several are stated by several options, or by one with commas, as in a CSV record.
    """
    texts = [value] if isinstance(value, str | int) else value
    try:
        parts = [part for text in texts for part in next(csv.reader([str(text)], strict=True), [])]
    except csv.Error:
        raise InvalidRequest(
            f"{texts!r} is not a list of columns. Write country,city, quoting a comma in a name"
        ) from None
    return parts[0] if len(parts) == 1 else tuple(parts)


def value_clip_of(text: Any) -> tuple[float, float]:
    """Ends of the range to which a user's sum is cut, parsed from [LOW,]HIGH."""
    try:
        ends = list(map(float, str(text).split(",")))
        low, high = (0.0, *ends) if len(ends) == 1 else ends
    except ValueError:
        raise InvalidRequest(
            f"value_clip={text!r} must be a number, or two of them as in -50,50"
        ) from None
    return low, high


class FileFields(Spec, FileOptions):
    """Options for reading any file of events."""

    buckets: SkipValidation[int | None] = option(
        "Number of parts in which to read the log. More parts need less memory. Default: by size.",
        "Reading the log",
        rows=True,
        unasked=_READ,
    )
    memory_limit: str | None = option(
        "Memory that the engine may use before it spills to disk, for example 2GiB.",
        "Reading the log",
        rows=True,
        metavar="SIZE",
        unasked=_READ,
    )

    def group_list(self) -> tuple[Label, ...] | None:
        """The public groups, in specs that have groups."""
        return None

    @classmethod
    def reading_fields(cls) -> frozenset[str]:
        """Fields that `Reading` has too, and which are passed on to it."""
        from dpselect.app.events.reading import Reading

        # a spec may call something else as a reading does
        names = LogFields.model_fields.keys() & Reading.model_fields.keys()
        return frozenset(names & cls.model_fields.keys())

    def reading(self, **overrides: Any) -> Reading:
        """Options of the reading, with the stated values in place of the spec's own.

        Raises:
            InvalidRequest: fields contradict each other; nothing has been read.
        """
        from dpselect.app.events.reading import Reading  # the help of a command does without it

        fields = {name: getattr(self, name) for name in self.reading_fields()}
        if fields.get("groups") is not None:
            fields["groups"] = self.group_list()
        if fields.get("group") is not None:
            most, listed = fields.get("max_groups_per_user"), fields.get("groups")
            if most is None:
                fields["max_groups_per_user"] = ANY_GROUPS  # one norm bounds a user over all groups
            elif isinstance(most, int) and listed is not None:
                # nobody is in more groups than there are
                fields["max_groups_per_user"] = min(most, len(listed))
        try:
            return Reading(**fields | overrides)
        except EventLogError as error:
            raise InvalidRequest(str(error)).at(*error.path) from None


class ItemFields(FileFields):
    """Options for reading a log of items, under the rules of `events.Reading`."""

    user: SkipValidation[Column | Sequence[Column]] = option(
        "Column of users: its name, or its number from 1 if there is no header. Several"
        " (tenant,number or repeated) make up one user.",
        default=...,
        metavar="COLUMN",
        parse=columns_of,
        many=True,
        place=10,
    )
    where: SkipValidation[str | Sequence[str]] = option(
        "Read only events with this public condition, for example 'device = phone'. Use =, !=,"
        " <, <=, > or >= on any column except the users'. May be repeated; all must hold.",
        "Question",
        (),
        metavar="CONDITION",
        many=True,
    )
    item: SkipValidation[Column | Sequence[Column]] = option(
        "Column of items: its name, or its number from 1 if there is no header. Several"
        " (country,city or repeated) make up one item.",
        default=...,
        metavar="COLUMN",
        parse=columns_of,
        many=True,
        place=20,
    )


def read_labels(
    spec: Any, source: Any, column: str | None, names: Any, title: str
) -> tuple[Label, ...] | None:
    """Labels of a public list or its file, in the log's form, or None if there is no list."""
    from dpselect.app.events.catalog import public_list  # the help of a command does without it

    if source is None:
        return None
    names = tuple(map(str, names)) if isinstance(names, tuple | list) else str(names)
    with locate_errors(title):
        labels = public_list(source, column, names, spec, title)
    composed = (unicodedata.is_normalized("NFC", label) for label in map(str, labels))
    if decomposed := sum(not is_composed for is_composed in composed):
        warnings.warn(
            f"{decomposed:,} labels of {title}= are not in Unicode's composed form (NFC), which"
            " most logs are in, and labels are compared exactly. Unless the log has them so, state"
            " normalize='nfc'",
            UncomposedLabels,
            stacklevel=2,
        )
    return labels


class CatalogFields(Spec):
    """Options for a public list of items."""

    domain: SkipValidation[Sequence[Label] | str | PathLike[str] | None] = option(
        "Public catalog of items, made without looking at the log. Without it you need delta=.",
        metavar="FILE",
        place=70,
    )
    domain_column: str | None = option(
        "Column of items in the catalog, if it has several columns.",
        "Items",
        metavar="COLUMN",
    )

    @model_validator(mode="after")
    def _names_the_catalog(self) -> Self:
        if self.domain_column is not None and self.domain is None:
            raise Contradiction(
                "domain_column", "is a column of no catalog. Give domain= too", self.domain_column
            )
        return self

    def catalog(self) -> tuple[Label, ...] | None:
        """The public items, from the option or its file, in the form of the log's labels."""
        item = getattr(self, "item", "item")
        return read_labels(self, self.domain, self.domain_column, item, "domain")


class GroupFields(Spec):
    """Options for groups of events, each with its own items."""

    group: SkipValidation[Column | None] = option(
        "Column of groups, such as cities, countries or days. The top k of each is released.",
        metavar="COLUMN",
        place=90,
    )
    groups: SkipValidation[Sequence[Label] | str | PathLike[str] | None] = option(
        "Public list of groups, made without looking at the log. Default: they are discovered.",
        "Groups",
        metavar="FILE",
    )
    groups_column: str | None = option(
        "Column of groups in the list of groups, if it has several columns.",
        "Groups",
        metavar="COLUMN",
    )

    @model_validator(mode="after")
    def _names_the_column(self) -> Self:
        if self.groups_column is not None and self.groups is None:
            raise Contradiction(
                "groups_column", "is a column of no list. Give groups= too", self.groups_column
            )
        if self.group is None and self.groups is not None:
            raise Contradiction(
                "groups", "and groups_column= are about the column group=: name it too"
            )
        return self

    def group_list(self) -> tuple[Label, ...] | None:
        """The public groups, read from their file if they are in one."""
        return read_labels(self, self.groups, self.groups_column, self.group, "groups")


class TimeFields(Spec):
    """Options for the times of events."""

    time: SkipValidation[Column | None] = option(
        "Column of times: timestamps, dates, or ISO 8601 text.", metavar="COLUMN", place=100
    )
    since: SkipValidation[Any] = option(
        "Start of the time range to read; public.", metavar="TIME", place=104
    )
    until: SkipValidation[Any] = option(
        "End of the time range to read, itself excluded; public.", metavar="TIME", place=106
    )
    time_zone: str = option(
        "Time zone of times that state none, for example Europe/Berlin. Default: UTC.",
        "Time",
        "UTC",
        metavar="ZONE",
    )
    time_unit: SkipValidation[Unit | None] = option(
        "Unit of times that are numbers since 1970, in UTC: s, ms or us.", "Time"
    )


def group_sizes_of(value: Any) -> dict[str, int]:
    """Numbers of users by group, parsed from texts like Germany=12000, or a mapping of a file."""
    if isinstance(value, Mapping):
        return dict(value)
    texts = [value] if isinstance(value, str) else value
    try:
        pairs = [str(text).rsplit("=", 1) for text in texts]
        return {group: int(users) for group, users in pairs}
    except ValueError:
        raise InvalidRequest(
            f"group_users={texts!r} must be groups with their numbers of users: Germany=12000"
        ).at("group_users") from None


_FORECAST = "Forecast"
_FORECASTS = "it describes the data for a forecast, and changes neither the charge nor the draw"


class ForecastFields(Spec):
    """Options that describe the data, roughly and publicly, for a forecast."""

    shape: str | None = option(
        "Popularity of items: zipf:EXPONENT or uniform. Default: zipf:1.",
        _FORECAST,
        unasked=_FORECASTS,
    )
    users: Count | None = option(
        "Number of users, roughly. With it the dry run and the answer forecast how many of the"
        " items shown will be right.",
        _FORECAST,
        unasked=_FORECASTS,
    )
    items: Count | None = option(
        "Number of items, roughly, of which 100,000 are simulated. Default: those of the catalog,"
        " else a tenth of users' items.",
        _FORECAST,
        unasked=_FORECASTS,
    )
    items_per_user: Positive | None = option(
        "Mean number of items per user, in all periods. Default: 1.", _FORECAST, unasked=_FORECASTS
    )
    group_users: SkipValidation[Mapping[str, int] | None] = option(
        "Number of users of a group, such as Germany=12000. May be repeated.",
        _FORECAST,
        metavar="GROUP=N",
        parse=group_sizes_of,
        many=True,
        unasked=_FORECASTS,
    )

    @model_validator(mode="after")
    def _describes_groups(self) -> Self:
        if self.group_users is not None and not (
            isinstance(self.group_users, Mapping)
            and self.group_users
            and all(
                isinstance(size, int) and 1 <= size <= MOST_COUNT
                for size in self.group_users.values()
            )
        ):
            raise Contradiction("group_users", "names groups and their numbers of users, >= 1")
        return self


class LogFields(TimeFields, GroupFields, CatalogFields, ItemFields):
    """Options for reading a log of items, and for contribution bounds."""

    max_items_per_user: SkipValidation[int | None] = option(
        "Most items to keep of each user (in each group), chosen by a salted hash.",
        place=120,
    )
    clip: SkipValidation[float | None] = option(
        "Scale each user's counts to a norm of at most C (1 to 1.4 is good), so that all items"
        " of a heavy user count in part. The norm is l2, or l1 without delta=. Default: chosen"
        " by public facts.",
        "Bounds on users",
        metavar="C",
    )
    salt: str | None = option(
        "Salt of the hash that chooses the items and groups to keep. Default: a fresh random one,"
        " which is printed.",
        "Bounds on users",
    )
    max_groups_per_user: SkipValidation[int | None] = option(
        "Most groups to keep of each user, chosen by a salted hash. The cost grows with it.",
        "Groups",
    )
    value: SkipValidation[Column | None] = option(
        "Column to sum up instead of counting users. It needs value_clip=.",
        "Question",
        metavar="COLUMN",
    )
    value_clip: SkipValidation[float | tuple[float, float] | str | None] = option(
        "Range to which each user's sum of each item is cut: 0 to HIGH, or LOW to HIGH if it"
        " may be negative (-50,50).",
        "Question",
        metavar="[LOW,]HIGH",
        parse=value_clip_of,
    )
    relation: Relation = option(
        "Difference of neighboring logs: add or remove one user (add_remove), or replace one"
        " user's data (replace_one).",
        "Privacy",
        "add_remove",
    )

    @model_validator(mode="after")
    def _bounds_what_there_is(self) -> Self:
        if self.group is None and self.max_groups_per_user is not None:
            raise Contradiction("max_groups_per_user", "is about the column group=: name it too")
        if (self.value is None) != (self.value_clip is None):
            raise Contradiction(
                "value",
                "names a column, value_clip= the most that a user may add to an item. Give both or"
                " neither",
            )
        return self
