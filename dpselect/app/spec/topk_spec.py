"""`TopKSpec`, the question for the k items with the most users, once or in a series."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import SkipValidation, model_validator

from accounting.frozen import Count
from dpselect.app.events.time_window import Every
from dpselect.app.spec.base import LOG, PAYS, Contradiction, Flag, Spec, option
from dpselect.app.spec.shared_fields import (
    BUDGETED,
    NAMES_OUTPUT,
    BudgetFields,
    ForecastFields,
    LedgerFields,
    LogFields,
    RunFields,
)
from dpselect.errors import InvalidRequest
from dpselect.noise import NoiseName

if TYPE_CHECKING:
    from dpselect.mechanisms.base import Mechanism
else:  # not checked by pydantic
    Mechanism = Annotated[Any, "Mechanism"]

EngineName = Literal["memory", "duckdb", "spark"]
"""Place of the counts until the draw: in memory, in DuckDB on disk, or on a Spark cluster."""


def size_of(value: Any) -> int | Literal["all"]:
    """Number of items, parsed from text."""
    if value == "all":
        return "all"
    try:
        return int(str(value))
    except ValueError:
        raise InvalidRequest(f"k={str(value)[:40]!r} must be an integer >= 1, or all") from None


class ChoiceFields(Spec):
    """Options that decide, beside k, which mechanism releases a top k."""

    with_counts: Flag = option(
        "Also release a noisy number of users of every item, with an interval. It takes a part"
        " of the budget.",
        default=False,
        place=80,
    )
    min_users: Count | None = option(
        "Fewest distinct users of an item to show, whatever the noise. It needs delta=.",
        metavar="N",
        place=84,
    )
    mechanism: SkipValidation[str | Mechanism | None] = option(
        "Kind of mechanism, from the list of 'dpselect mechanisms'. Default: chosen for the"
        " budget.",
        metavar="KIND",
        place=130,
    )
    noise: NoiseName | None = option(
        "Name of the noise, if mechanism= leaves a choice.", "Question"
    )
    kbar: Count | None = option(
        "Number of the most popular items that compete if there is no catalog. Default:"
        " max(1000, 10 k).",
        "Question",
    )
    releases: Count | None = option(
        "Number of such releases that share the budget, charged one by one; this is one of"
        " them. With ledger= and no stated budget they share the dataset's. Default: 1.",
        "Privacy",
        rows=False,
    )


class ReleaseFields(ChoiceFields):
    """Options for a release of the top k."""

    k: Count | Literal["all"] = option(
        "Number of items to release, at least 1; or all that are safe to show.",
        default=...,
        metavar="N|all",
        parse=size_of,
        place=40,
    )


class SeriesFields(Spec):
    """Options for a series of releases, each charged to its own period."""

    every: Every | None = option(
        "Release each day, week or month from since= to until=, charged to that period of the"
        " dataset. State key= and output=FILE{period}.json. After an interruption, run the same"
        " command again.",
        place=102,
    )
    go_on: Flag = option(
        "With every=: release the later periods even if noise alone explains the first answer."
        " Default: stop before the second charge in that case.",
        "Time",
        False,
        unasked=(
            "it decides whether further periods are charged, each of which is a question of its own"
        ),
    )
    partial_last: Flag = option(
        "With every=: end the last period at until=, before its own end.",
        "Time",
        False,
        unasked="each period is asked for by its own since= and until=, which say where it ends",
    )

    @model_validator(mode="after")
    def _names_the_periods(self) -> Self:
        for name in ("partial_last", "go_on") if self.every is None else ():
            if getattr(self, name):
                raise ValueError(
                    f"{name}= is about the periods of every=: state that too, or leave it out"
                )
        return self


class TopKSpec(
    RunFields, SeriesFields, ForecastFields, ReleaseFields, LogFields, LedgerFields, BudgetFields
):
    """Release the k items with the most distinct users, and report the privacy cost.

    The budget (epsilon and delta, or rho) is for the whole release, or for all of releases=
    together. The set of items that occur in a log is private too. Without a public catalog an item
    therefore appears only if enough users touched it, and fewer than k may appear.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{LOG} --k 10 --epsilon 1 --delta 1e-6",
        f"{LOG} --k 10 --epsilon 1 --domain shops.csv --with-counts",
        f"{LOG} --k 9 --epsilon 0.1 --delta 1e-7 {PAYS} --key may --output may.json",
    )

    own_fields: ClassVar[Any] = (ForecastFields,)

    engine: EngineName = option(
        "Place of the counts until the draw: memory, the default; duckdb, on disk, for more"
        " items than memory holds; or spark, for a table or a path in the environment's Spark"
        " session.",
        "Reading the log",
        "memory",
    )
    pay_for_what_came_out: Flag = option(
        "Reserve the whole cost, then charge only the part that the answer used. With"
        " mechanism=limited_domain, that leaves out items that were not released.",
        "Ledger",
        False,
    )
    use_everything: Flag = option(
        "Let the release take more of the dataset's budget than its stated part.",
        "Ledger",
        False,
        rows=False,
    )
    output: SkipValidation[str | PathLike[str] | None] = option(
        "New private file for the answer: .json; or .txt for text, .csv or .parquet for a"
        " table, each with the answer beside it as FILE.json. With a ledger an interruption"
        " then loses nothing. Call again with the same key=.",
        metavar="FILE",
        unasked=NAMES_OUTPUT,
        place=160,
    )

    @model_validator(mode="after")
    def _sums_up_what_can_be(self) -> Self:
        if isinstance(self.clip, tuple | list):
            raise ValueError("clip= must be one number for a question, not several")
        if self.value is None:
            return self
        for name in self.stated_values("clip", "with_counts", "group"):
            raise Contradiction(
                name, "is for counts of users, and value= sums up a column. Leave one of them out"
            )
        negative = isinstance(self.value_clip, tuple) and self.value_clip[0] < 0
        if self.domain is None and negative:
            raise ValueError(
                "sums that may be negative need a public catalog (domain=), or value_clip= from 0"
            )
        if self.domain is None and self.max_items_per_user is None:
            raise Contradiction(
                "value",
                "without a public catalog (domain=) needs max_items_per_user=: what a user alone"
                " brings in must be hidden",
            )
        return self

    @model_validator(mode="after")
    def _is_what_an_engine_can_do(self) -> Self:
        if self.pay_for_what_came_out and self.ledger is None:
            raise Contradiction(
                "pay_for_what_came_out",
                "needs ledger= and dataset=: without them nothing adds costs up",
            )
        if self.use_everything and self.ledger is None:
            raise Contradiction(
                "use_everything", "needs ledger= and dataset=: it is about their budget"
            )
        if self.engine == "duckdb" and self.group is not None:
            raise Contradiction("group", "is counted in memory. Leave out engine='duckdb'")
        if self.engine == "spark" and (
            unsupported := self.stated_values("table", "query", "buckets", "memory_limit")
        ):
            raise ValueError(
                "engine='spark' reads one table or path, without"
                f" {', '.join(f'{name}=' for name in unsupported)}"
            )
        return self

    @model_validator(mode="after")
    def _keeps_to_a_planned_mechanism(self) -> Self:
        planned = self.planned
        if planned is None:
            return self
        if not hasattr(planned, "most_of_each"):
            raise Contradiction("mechanism", "must be the name of a kind, or a Mechanism")
        anew = (
            "plan again, or leave mechanism= out (where a file names it, state this release's own"
            " budget, epsilon= or rho=)"
        )
        if self.use_everything:
            raise Contradiction(
                "use_everything",
                "fits the noise, and that of a planned mechanism is fitted. Leave one of them out",
            )
        for name in self.stated_values("noise", "kbar"):
            raise Contradiction(
                name, f"contradicts the planned mechanism, which has its own: {anew}"
            )
        if self.min_users is not None:
            raise Contradiction(
                "min_users",
                "is about distinct users, and the mechanism in the file was planned without it."
                " Leave one of them out",
            )
        if (size := planned.most_of_each) not in (None, self.k):
            raise ValueError(
                f"k={self.k} contradicts the planned mechanism, which is for k={size}: {anew}"
            )
        return self

    @property
    def planned(self) -> Mechanism | None:
        """A mechanism that is already configured, and whose noise is not chosen again."""
        return None if self.mechanism is None or isinstance(self.mechanism, str) else self.mechanism

    @property
    def kind(self) -> str | None:
        """Kind of the stated mechanism."""
        return self.mechanism if isinstance(self.mechanism, str) else None

    @classmethod
    def merge(cls, file: Mapping[str, Any], overrides: Mapping[str, Any]) -> Self:
        """The spec of a file's values, with the stated values in their place.

        If a budget or a number of releases is stated, the noise of a planned mechanism is chosen
        anew.
        """
        if BUDGETED & overrides.keys():
            file = {
                name: value for name, value in file.items() if name not in ("mechanism", "releases")
            }
        elif file.get("mechanism") is not None:
            for name in ("mechanism", "k"):
                if name in overrides and overrides[name] != file.get(name):
                    raise InvalidRequest(
                        f"{name}= contradicts the mechanism in the file, which was planned with its"
                        " own. Plan again, or state this release's own budget (epsilon=, rho=) as"
                        " well"
                    )
        return super().merge(file, overrides)
