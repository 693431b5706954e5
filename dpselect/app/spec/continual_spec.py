"""`ContinualSpec` and related specs: a series of releases with one budget for all periods."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, SkipValidation, model_validator

from accounting import Budget
from accounting.errors import InvalidBudget
from accounting.frozen import Count, Real
from accounting.relations import Relation
from accounting.wording import format_number
from dpselect.app.events.file_options import FileOptions
from dpselect.app.events.time_window import Every
from dpselect.app.spec.base import LEDGER, LOG, PAYS, Column, Contradiction, Flag, Spec, option
from dpselect.app.spec.shared_fields import (
    CHARGED,
    NAMES_OUTPUT,
    CatalogFields,
    ForecastFields,
    GroupFields,
    ItemFields,
    PayerFields,
    RunFields,
    TimeFields,
    read_labels,
)
from dpselect.mechanisms.continual_top_k import ITEMS_PER_PERIOD, HorizonClip, Over
from dpselect.selection import Label

if TYPE_CHECKING:
    from accounting import Ledger
else:  # not checked by pydantic
    Ledger = Annotated[Any, "Ledger"]

_COUNTS = "What is counted"


class WeightFields(Spec):
    """Options for the count that ranks items, and for a user's contribution to all counts."""

    count: Over = option(
        "Users to count: of each period, of all periods so far (running), or of the last"
        " window= periods (window).",
        default="period",
        place=110,
    )
    window: Count | None = option(
        "Number of periods in a sliding window, with count=window.", place=112
    )
    exponent: Annotated[Real, Field(ge=0, le=4)] = option(
        "Rate from 0 to 4 at which a user's later items count less than the first ones.",
        "Bounds on users",
        1.5,
    )
    cells: Annotated[Count, Field(le=1000)] = option(
        "Most items of a user that count. With count=period, an item counts anew in each period.",
        "Bounds on users",
        20,
    )


class EveryFields(Spec):
    """Option for the length of periods."""

    every: Every | None = option("Length of a period.", default=..., place=102)


class StateFields(Spec):
    """Option for the file of a horizon's private state."""

    state: SkipValidation[str | PathLike[str] | None] = option(
        "File of the horizon's private state. It is as private as the log. Never restore a backup.",
        default=...,
        metavar="FILE",
        unasked="it is of the horizon that the key names, which is compared",
        place=146,
    )


class HorizonTimeFields(EveryFields, TimeFields):
    """Options for the periods of a horizon."""

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
        "Close the periods that have ended by this time, so that you can repeat one command"
        " every night. Default: now.",
        "Time",
        metavar="TIME",
        unasked="a later run goes on with the same periods, of which it closes more",
    )


class KeptFields(PayerFields):
    """Options for the file of a horizon's answer, and for the dataset to charge."""

    output: SkipValidation[str | PathLike[str] | None] = option(
        "File for the answer, which later calls renew: .json; or .csv, .parquet or .html, with"
        " the JSON beside it.",
        metavar="FILE",
        unasked=NAMES_OUTPUT,
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
            raise Contradiction("title", "is that of a page. Name an output= that ends in .html")
        return self


class HeldFields(StateFields, KeptFields):
    """Options for a horizon's private state, its answer, and the dataset to charge."""

    ledger: SkipValidation[str | Ledger | None] = option(
        f"The {LEDGER}.",
        default=...,
        metavar="URL",
        env="DPSELECT_LEDGER",
        unasked=CHARGED,
        place=140,
    )
    dataset: str | None = option(
        "Dataset of the ledger to charge.", default=..., unasked=CHARGED, place=142
    )
    key: str | None = option(
        "Name of the horizon, which is the idempotency key of its charge.",
        default=...,
        unasked=CHARGED,
        place=144,
    )


class PeriodFields(WeightFields):
    """Options for the counts in each period."""

    with_counts: Flag = option(
        "Also release the numbers of users of the items, with intervals.", default=False, place=80
    )
    items_per_period: Annotated[Count, Field(le=1000)] | None = option(
        "With with_counts=: most items of a period for which one user counts. Default:"
        f" {ITEMS_PER_PERIOD}.",
        _COUNTS,
    )

    @property
    def user_clip(self) -> HorizonClip:
        """Contribution bounds of one user."""
        return HorizonClip(exponent=self.exponent, cells=self.cells)


class HorizonBudgetFields(PeriodFields):
    """Options for the releases of a horizon and their common budget."""

    k: Count = option("Number of items to release, at least 1.", default=..., metavar="N", place=40)
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
        "Difference of neighboring logs: add or remove one user (add_remove), or replace one"
        " user's data (replace_one).",
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
        """The stated budget."""
        return Budget(epsilon=self.epsilon, delta=self.delta)


class StartSpec(RunFields, HorizonBudgetFields, CatalogFields, HeldFields, FileOptions):
    """Reserve the budget of a horizon and create its state, before any data are read.

    The first closed period commits the charge. A second call under the key reserves nothing more,
    and `dpselect ledger void` returns the reservation of a horizon that has no closed period.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{PAYS} --key march --state march.state --k 10 --periods 31 --epsilon 1 --delta 1e-6",
    )

    own_fields: ClassVar[Any] = (PeriodFields, StateFields)

    periods: Count = option(
        "Number of periods of the horizon. It is fixed, so declare more rather than fewer.",
        default=...,
        place=108,
    )
    dry_run: Flag = option(
        "Show the charge, the mechanism and the remaining budget. Nothing is reserved or written.",
        "Output",
        False,
        unasked="a dry run answers nothing",
    )
    grouped: Flag = option("Release the top k of each group of events.", "Groups", False)
    groups: SkipValidation[Sequence[Label] | str | PathLike[str] | None] = option(
        "Public list of groups. Other groups are not counted. Default: all.",
        "Groups",
        metavar="FILE",
    )

    def group_list(self) -> tuple[Label, ...] | None:
        """The public groups, read from their file if they are in one."""
        return read_labels(self, self.groups, None, "group", "groups")


class CloseSpec(RunFields, ItemFields, HeldFields):
    """Count the new events of a period and release its top k.

    The same call again prints the same answer.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"1 monday.csv {PAYS} --key march --state march.state --user who --item shop",
    )

    own_fields: ClassVar[Any] = (StateFields,)

    group: SkipValidation[Column | None] = option(
        "Column of groups. The top k of each is released.", metavar="COLUMN", place=90
    )


class ShowSpec(HeldFields):
    """Print the released answers, the privacy guarantee, and the number of periods that remain."""

    examples: ClassVar[tuple[str, ...]] = (f"{PAYS} --key march --state march.state",)

    own_fields: ClassVar[Any] = (StateFields,)


class RechargeSpec(HeldFields):
    """Charge a horizon again, on a ledger restored from a backup that is older than the charge.

    This also records every period that the horizon's state has released.
    """

    own_fields: ClassVar[Any] = (StateFields,)


class ContinualSpec(
    RunFields,
    ForecastFields,
    HorizonBudgetFields,
    HorizonTimeFields,
    GroupFields,
    CatalogFields,
    ItemFields,
    KeptFields,
):
    """Close the periods of a log that have ended.

    Repeat the same call as the log grows, or after it was interrupted, to go on.
    """

    examples: ClassVar[tuple[str, ...]] = (
        (
            f"{LOG} --time at --every day --since 2026-03-01 --until 2026-03-31 --k 10 --epsilon 1"
            f" --delta 1e-6 {PAYS}"
        ),
    )

    own_fields: ClassVar[Any] = (PeriodFields, StateFields, EveryFields, ForecastFields)

    state: SkipValidation[str | PathLike[str] | None] = option(
        "File of the horizon's private state. It is as private as the log. Never restore a"
        " backup. Default: a file in this folder, named after the log and the question.",
        metavar="FILE",
        unasked="it is of the horizon that the key names, which is compared",
        place=146,
    )
    key: str | None = option(
        "Name of the horizon, which is the idempotency key of its charge. Default: made of the"
        " log's name and the question.",
        unasked=CHARGED,
        place=144,
    )
    periods: Count | None = option(
        "Number of periods of the whole series. With it, until= may be later in each call."
        " Default: the periods from since= to until=.",
        place=108,
    )
    partial_last: Flag = option(
        "End the last period at until=, before its own end. It is then closed for good.",
        "Time",
        False,
    )
