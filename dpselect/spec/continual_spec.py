"""`ContinualSpec` and its like: a horizon of releases, for one price over all of its periods."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, SkipValidation, field_validator, model_validator

from accounting import Budget
from accounting.arguments import Relation
from accounting.errors import InvalidBudget
from accounting.frozen import Count, Real
from accounting.wording import format_number
from dpselect.continual.continual_top_k import ITEMS_PER_PERIOD, HorizonClip, Over
from dpselect.events.file_options import FileOptions
from dpselect.events.time_window import Every
from dpselect.selection import Label
from dpselect.spec.base import LOG, PAYS, Column, Contradiction, Flag, Spec, option
from dpselect.spec.shared_fields import (
    CHARGED,
    KEPT,
    CatalogFields,
    GroupFields,
    ItemFields,
    PayerFields,
    RunFields,
    TimeFields,
    listed,
)

if TYPE_CHECKING:
    from accounting import Ledger
else:  # not checked by pydantic
    Ledger = Any

_COUNTS = "What is counted"


class WeightFields(Spec):
    """What a count is of, and what a user may contribute to all of them."""

    count: Over = option(
        "Users of each period, of all so far (running), or of the last window= periods.",
        default="period",
        place=110,
    )
    window: Count | None = option("Periods of a window, with count=window.", place=112)
    exponent: Annotated[Real, Field(ge=0, le=4)] = option(
        "How much more a user's first items count: 0 to 4.", "Bounds on users", 1.5
    )
    cells: Annotated[Count, Field(le=1000)] = option(
        "How many items of a user count at most (per period: items in periods).",
        "Bounds on users",
        20,
    )


class EveryFields(Spec):
    """How long periods are."""

    every: Every | None = option("How long a period is.", default=..., place=102)


class StateFields(Spec):
    """Where a horizon is kept."""

    state: SkipValidation[str | PathLike[str] | None] = option(
        "The private state of the horizon. As private as the log; never restore a backup.",
        default=...,
        metavar="FILE",
        unasked="it is of the horizon that the key names, which is compared",
        place=146,
    )


class HorizonTimeFields(EveryFields, TimeFields):
    """Which periods there are."""

    time: SkipValidation[Column | None] = option(
        "Column of times: timestamps, dates, or ISO 8601 text.",
        default=...,
        metavar="COLUMN",
        place=100,
    )
    since: SkipValidation[Any] = option(
        "Start of the first period; public.", default=..., metavar="TIME", place=104
    )
    until: SkipValidation[Any] = option(
        "End of the whole series; public.", default=..., metavar="TIME", place=106
    )
    up_to: SkipValidation[Any] = option(
        "Close the periods that have ended by this time, so that one command serves every night."
        " Default: now.",
        "Time",
        metavar="TIME",
        unasked="a later run goes on with the same periods, of which it closes more",
    )


class KeptFields(PayerFields):
    """Where the answer of a horizon is kept, and who pays for it."""

    output: SkipValidation[str | PathLike[str] | None] = option(
        "Also keep it in this file, which later calls renew: .json; or .csv, .parquet or .html,"
        " with the JSON beside it.",
        metavar="FILE",
        unasked=KEPT,
        place=160,
    )
    title: str | None = option(
        "Title of the page, with output= as .html.",
        "Output",
        unasked="it says how the answer is shown",
    )

    @model_validator(mode="after")
    def _titles_a_page(self) -> Self:
        if self.title is not None and not str(self.output).lower().endswith(".html"):
            raise Contradiction("title", "is that of a page: name an output= that ends in .html")
        return self

    @field_validator("ledger", mode="before", check_fields=False)
    @classmethod
    def _by_its_url(cls, stated: Any) -> Any:
        """The path of a file stands for its URL."""
        return (
            f"sqlite:///{stated}"
            if isinstance(stated, str | PathLike) and "://" not in str(stated)
            else stated
        )


class HeldFields(StateFields, KeptFields):
    """A horizon that a ledger is charged for, and where its private state is."""

    ledger: SkipValidation[str | Ledger | None] = option(
        "The ledger: its URL, or the path of its SQLite file.",
        default=...,
        metavar="URL",
        env="DPSELECT_LEDGER",
        unasked=CHARGED,
        place=140,
    )
    dataset: str | None = option(
        "Dataset of the ledger whose budget pays.", default=..., unasked=CHARGED, place=142
    )
    key: str | None = option(
        "Name of the horizon: the idempotency key of its charge.",
        default=...,
        unasked=CHARGED,
        place=144,
    )


class PeriodFields(WeightFields):
    """What is counted in periods."""

    with_counts: Flag = option(
        "Release numbers of users beside the items, with intervals.", default=False, place=80
    )
    items_per_period: Annotated[Count, Field(le=1000)] | None = option(
        "With with_counts=: for how many of a period's items one user counts. Default:"
        f" {ITEMS_PER_PERIOD}.",
        _COUNTS,
    )

    @property
    def users(self) -> HorizonClip:
        """What a user may contribute."""
        return HorizonClip(exponent=self.exponent, cells=self.cells)


class HorizonBudgetFields(PeriodFields):
    """What is released every period, and for what."""

    k: Count = option("How many items to release, at least 1.", default=..., metavar="N", place=40)
    epsilon: Real = option(
        "Budget of the whole horizon, in nats.", default=..., rows=False, place=50
    )
    delta: Real = option(
        "Part of the budget: the probability that may fall outside epsilon.",
        default=...,
        rows=False,
        place=60,
    )
    relation: Relation = option(
        "Neighboring logs differ by one user (add_remove), or by what one user did (replace_one).",
        "Privacy",
        "add_remove",
    )

    @model_validator(mode="after")
    def _states_a_budget(self) -> Self:
        if not self.epsilon > 0:
            raise InvalidBudget(
                f"epsilon={format_number(self.epsilon)} must be a finite number above 0, in nats; 1"
                " is a common choice"
            )
        if not 0 < self.delta < 1:
            raise InvalidBudget(
                f"delta={format_number(self.delta)} must lie strictly between 0 and 1: 1e-6 for"
                " example, far less than 1 / users"
            )
        if self.items_per_period is not None and not self.with_counts:
            raise Contradiction(
                "items_per_period",
                "says how many items count with with_counts=: state both, or neither",
            )
        return self

    @property
    def budget(self) -> Budget:
        """The budget that is stated."""
        return Budget(epsilon=self.epsilon, delta=self.delta)


class StartSpec(RunFields, HorizonBudgetFields, CatalogFields, HeldFields, FileOptions):
    """Reserve a horizon and make its state, before any data are read: its first period commits the
    charge.

    A second call under the key reserves nothing more; `dpselect ledger void` gives a horizon back
    that has no closed period.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{PAYS} --key march --state march.state --k 10 --periods 31 --epsilon 1 --delta 1e-6",
    )

    own_fields: ClassVar[Any] = (PeriodFields, StateFields)

    periods: Count = option(
        "How many periods the horizon has. Fixed: declare more rather than fewer.",
        default=...,
        place=108,
    )
    dry_run: Flag = option(
        "Say what would be charged, by which mechanism, and what would be left: nothing is reserved"
        " or made.",
        "Output",
        False,
        unasked="a dry run answers nothing",
    )
    grouped: Flag = option("Events have groups: release the top k of each.", "Groups", False)
    groups: SkipValidation[Sequence[Label] | str | PathLike[str] | None] = option(
        "A public list of groups; others are not counted. Default: all.", "Groups", metavar="FILE"
    )

    def group_list(self) -> tuple[Label, ...] | None:
        """The public groups, read from their file if they are in one."""
        return listed(self, self.groups, None, "group", "groups")


class CloseSpec(RunFields, ItemFields, HeldFields):
    """Count the new events of a period and release its top k. The same call again prints the same
    answer.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"1 monday.csv {PAYS} --key march --state march.state --user who --item shop",
    )

    own_fields: ClassVar[Any] = (StateFields,)

    group: SkipValidation[Column | None] = option(
        "Column of groups: the top k of each.", metavar="COLUMN", place=90
    )


class ShowSpec(HeldFields):
    """Print what was released so far, what is promised, and how many periods are left."""

    examples: ClassVar[tuple[str, ...]] = (f"{PAYS} --key march --state march.state",)

    own_fields: ClassVar[Any] = (StateFields,)


class RechargeSpec(HeldFields):
    """Charge a horizon again on a ledger that was restored to before it, and record every period
    that its state has released.
    """

    own_fields: ClassVar[Any] = (StateFields,)


class ContinualSpec(
    RunFields,
    HorizonBudgetFields,
    HorizonTimeFields,
    GroupFields,
    CatalogFields,
    ItemFields,
    KeptFields,
):
    """Close the periods of a log that have ended. The same call goes on as the log grows, or where
    it was stopped.
    """

    examples: ClassVar[tuple[str, ...]] = (
        (
            f"{LOG} --time at --every day --since 2026-03-01 --until 2026-03-31 --k 10 --epsilon 1"
            f" --delta 1e-6 {PAYS}"
        ),
    )

    own_fields: ClassVar[Any] = (PeriodFields, StateFields, EveryFields)

    state: SkipValidation[str | PathLike[str] | None] = option(
        "The private state of the horizon. As private as the log; never restore a backup. Default:"
        " a file in this folder, named after the log and the question.",
        metavar="FILE",
        unasked="it is of the horizon that the key names, which is compared",
        place=146,
    )
    key: str | None = option(
        "Name of the horizon: the idempotency key of its charge. Default: made of the log's name"
        " and the question.",
        unasked=CHARGED,
        place=144,
    )
    periods: Count | None = option(
        "Number of periods of the whole series; then until= may move on. Default: those from since="
        " to until=.",
        place=108,
    )
    partial_last: Flag = option(
        "Let the last period end at until=, before its own end; it is closed for good.",
        "Time",
        False,
    )
