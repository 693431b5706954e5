"""`TopKSpec`: the k items with the most users, once or in a series."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import SkipValidation, model_validator

from accounting.frozen import Count
from dpselect.errors import InvalidRequest
from dpselect.events.time_window import Every
from dpselect.noise import NoiseName
from dpselect.spec.base import LOG, PAYS, Contradiction, Flag, Spec, option
from dpselect.spec.shared_fields import (
    BUDGETED,
    KEPT,
    BudgetFields,
    LedgerFields,
    LogFields,
    RunFields,
)

if TYPE_CHECKING:
    from dpselect.mechanisms.base import Mechanism
else:  # not checked by pydantic
    Mechanism = Annotated[Any, "Mechanism"]

EngineName = Literal["memory", "duckdb", "spark"]
"""Where counts stay until they are drawn from: here, in the embedded engine on disk, or on a Spark
cluster.
"""


def size_of(stated: Any) -> int | Literal["all"]:
    """How many items, from text."""
    if stated == "all":
        return "all"
    try:
        return int(str(stated))
    except ValueError:
        raise InvalidRequest(f"k={str(stated)[:40]!r} must be an integer >= 1, or all") from None


class ChoiceFields(Spec):
    """What decides which mechanism releases a top k, beside k."""

    with_counts: Flag = option(
        "Also release a noisy number of users of every item, with an interval; it takes a part of"
        " the budget.",
        default=False,
        place=80,
    )
    min_users: Count | None = option(
        "Never show an item with fewer than N distinct users, whatever the noise; needs delta=.",
        metavar="N",
        place=84,
    )
    mechanism: SkipValidation[str | Mechanism | None] = option(
        "Kind of mechanism, one of those that 'dpselect mechanisms' lists. Default: chosen for the"
        " budget.",
        metavar="KIND",
        place=130,
    )
    noise: NoiseName | None = option(
        "Name of the noise, where mechanism= leaves a choice.", "Question"
    )
    kbar: Count | None = option(
        "How many of the most popular items compete without a catalog. Default: max(1000, 10 k).",
        "Question",
    )
    releases: Count | None = option(
        "How many such releases, charged one by one, share the budget; this is one of them. With"
        " ledger= and no budget stated it is the dataset's. Default: 1.",
        "Privacy",
        rows=False,
    )


class ReleaseFields(ChoiceFields):
    """What a release of the top k is."""

    k: Count | Literal["all"] = option(
        "How many items to release, at least 1; or all that are safe to show.",
        default=...,
        metavar="N|all",
        parse=size_of,
        place=40,
    )


class SeriesFields(Spec):
    """A release for each period, each charged to that period."""

    every: Every | None = option(
        "A release for each day, week or month from since= to until=, charged to that period of the"
        " dataset. With key= and output=FILE{period}.json; run again, it goes on where it was"
        " stopped.",
        place=102,
    )
    go_on: Flag = option(
        "With every=: release the later periods too if noise alone explains the first answer."
        " Default: stop before the second charge then.",
        "Time",
        False,
        unasked=(
            "it decides whether further periods are charged, each of which is a question of its own"
        ),
    )
    partial_last: Flag = option(
        "With every=: let the last period end at until=, before its own end.",
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


class TopKSpec(RunFields, SeriesFields, ReleaseFields, LogFields, LedgerFields, BudgetFields):
    """Release the k items with the most distinct users, and the price of it.

    The budget (epsilon and delta, or rho) is that of the whole release, or of as many as releases
    says. The set of items that occur in a log is private too: without a public catalog an item
    shows only if enough users touched it, and fewer than k may show.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{LOG} --k 10 --epsilon 1 --delta 1e-6",
        f"{LOG} --k 10 --epsilon 1 --domain shops.csv --with-counts",
        f"{LOG} --k 9 --epsilon .1 --delta 1e-7 {PAYS} --key may --output may.json",
    )

    engine: EngineName = option(
        "Where the counts stay until they are drawn from: memory, the default; duckdb, on disk, for"
        " more items than memory holds; or spark, for a table or a path that the Spark session of"
        " the environment finds.",
        "Reading the log",
        "memory",
    )
    pay_for_what_came_out: Flag = option(
        "Reserve the whole price, and have the ledger take what the answer did not use off it: with"
        " mechanism=limited_domain, the items that were not released.",
        "Ledger",
        False,
    )
    use_everything: Flag = option(
        "Let the release take more of the dataset's budget than the part of it that it states.",
        "Ledger",
        False,
        rows=False,
    )
    output: SkipValidation[str | PathLike[str] | None] = option(
        "Also keep the answer in this new private file, .json; or as text, .txt, or its items as a"
        " table, .csv or .parquet, with which the answer is kept as FILE.json. With a ledger no"
        " interruption then loses it: call again with the same key=.",
        metavar="FILE",
        unasked=KEPT,
        place=160,
    )

    @model_validator(mode="after")
    def _sums_up_what_can_be(self) -> Self:
        if isinstance(self.clip, tuple | list):
            raise ValueError("a question has one clip=, not several")
        if self.value is None:
            return self
        for name in self.given("clip", "with_counts", "group"):
            raise Contradiction(
                name, "is for counts of users, and value= sums up a column: leave one of them out"
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
                "needs ledger= and dataset=: without them nothing adds prices up",
            )
        if self.use_everything and self.ledger is None:
            raise Contradiction(
                "use_everything", "needs ledger= and dataset=: it is about their budget"
            )
        if self.engine == "duckdb" and self.group is not None:
            raise Contradiction("group", "is counted in memory: leave out engine='duckdb'")
        if self.engine == "spark" and (
            foreign := self.given("table", "query", "buckets", "memory_limit")
        ):
            raise ValueError(
                "engine='spark' reads one table or path, without"
                f" {', '.join(f'{name}=' for name in foreign)}"
            )
        return self

    @model_validator(mode="after")
    def _keeps_to_a_planned_mechanism(self) -> Self:
        planned = self.planned
        if planned is None:
            return self
        anew = (
            "plan again, or leave mechanism= out (where a file names it, state this release's own"
            " budget, epsilon= or rho=)"
        )
        if self.use_everything:
            raise Contradiction(
                "use_everything",
                "fits the noise, and that of a planned mechanism is fitted: leave one of them out",
            )
        for name in self.given("noise", "kbar"):
            raise Contradiction(
                name, f"contradicts the planned mechanism, which has its own: {anew}"
            )
        if self.min_users is not None:
            raise Contradiction(
                "min_users",
                "is about distinct users, and the mechanism in the file was planned without it:"
                " leave one of them out",
            )
        if (size := planned.most_of_each) not in (None, self.k):
            raise ValueError(
                f"k={self.k} contradicts the planned mechanism, which is for k={size}: {anew}"
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
        """As of any budget; where a budget or a number of releases is stated, the noise of a
        planned mechanism is chosen anew.
        """
        if BUDGETED & stated.keys():
            file = {
                name: value for name, value in file.items() if name not in ("mechanism", "releases")
            }
        elif file.get("mechanism") is not None:
            for name in ("mechanism", "k"):
                if name in stated and stated[name] != file.get(name):
                    raise InvalidRequest(
                        f"{name}= contradicts the mechanism in the file, which was planned with its"
                        " own: plan again, or state this release's own budget (epsilon=, rho=) as"
                        " well"
                    )
        return super().over(file, stated)
