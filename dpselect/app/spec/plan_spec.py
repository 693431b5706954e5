"""`PlanSpec`, the question for a plan: releases, a horizon of them, or rounds of votes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import SkipValidation, model_validator

from accounting.frozen import Count, Positive, Real
from accounting.relations import Relation
from dpselect.app.spec.base import Column, Flag, Seed, Spec, option
from dpselect.app.spec.continual_spec import ContinualSpec, WeightFields
from dpselect.app.spec.shared_fields import (
    BudgetFields,
    FileFields,
    ForecastFields,
    columns_of,
)
from dpselect.app.spec.topk_spec import ChoiceFields, size_of

if TYPE_CHECKING:
    from accounting import Ledger
else:  # not checked by pydantic: a plan without a ledger does without a database
    Ledger = Annotated[Any, "Ledger"]

_MOST_GROUPS = 1_000_000

Way = Literal["releases", "periods", "pate"]
"""Kind of a plan: releases of `topk`, a series with one budget, or a labeling job."""

_SHAPE, _NEEDS, _VOTES = (
    "The shape of the data",
    "What is needed of the answer",
    "Votes of teachers",
)


class ShapeFields(ForecastFields):
    """Options that describe the popularity of items by public facts."""

    shape: str | None = option(
        "Description of the data: zipf:EXPONENT, uniform, a file of public counts or, with"
        " user= and item=, a public log of events, for example last year's if it was published.",
        place=5,
    )
    log: Flag | None = option(
        "Read the file of shape= as a log of events or as counts. Default: a log if user= and"
        " item= are stated.",
        _SHAPE,
        flags="--log/--counts",
    )
    items: Count | None = option("Number of items, for zipf and uniform.", place=22)
    users: Count | None = option("Number of users, for zipf and uniform.", place=24)
    items_per_user: Positive | None = option(
        "Mean number of items per user, for zipf and uniform. Default: 1.", place=26
    )
    column: str | None = option(
        "Column of counts in the file of shape=, if it has several columns.", _SHAPE
    )
    public: Flag = option(
        "Declare that the counts or the log of shape= were published or made up. Without this"
        " the file is refused, because a plan that looks at private data leaks them, and no"
        " ledger is charged for it.",
        default=False,
        flags="--public --i-declare-public",
        place=7,
    )


class ProfileFields(ShapeFields):
    """Options that describe the data by public facts."""

    unknown_domain: Flag | None = option(
        "State that there is no public catalog of items, or that there is one. Default: there"
        " is one.",
        flags="--unknown-domain/--public-domain",
        place=28,
    )
    groups: Count | None = option("Number of groups. The top k of each is released.", place=92)
    groups_per_user: Real | None = option(
        "Mean number of groups per user, at least 1. Default: 1.", "Groups", ge=1.0
    )
    group_exponent: Real | None = option(
        "Exponent of Zipf's law of users per group; with 0 all groups are alike. Default: 1.",
        "Groups",
        ge=0.0,
    )


class OverTimeFields(WeightFields):
    """Options for a series with one budget over all of its periods."""

    periods: Count | None = option(
        "Number of periods of a weekly or daily series with one budget (dpselect continual run).",
        place=108,
    )
    items_per_period: Count | None = option(
        "With periods= and with_counts=: most items of a period for which one user counts."
        " Default: 3.",
        _NEEDS,
    )


class VotesFields(Spec):
    """Options that describe the votes of teachers by public facts."""

    pate: Flag = option(
        "Plan a job of `dpselect pate` instead: releases= rounds, or as many as possible at"
        " their quality.",
        _VOTES,
        False,
    )
    teachers: Count | None = option("With pate=: number of teachers.", _VOTES)
    labels: Count | None = option("With pate=: number of labels, at least 2.", _VOTES)
    votes_per_item: Real | None = option("With pate=: mean number of true labels per item.", _VOTES)
    agreement: Real | None = option(
        "With pate=: share of teachers who vote for a true label.", _VOTES
    )
    stray_votes: Real | None = option(
        "With pate=: mean votes per ballot for other labels. Default: 2 (1 - agreement) times"
        " the votes for an item.",
        _VOTES,
    )
    correlation: Real | None = option(
        "With pate=: correlation of two teachers' votes on one label, 0.09 to 0.44 on public"
        " data sets.",
        _VOTES,
    )
    label_skew: Real | None = option(
        "With pate=: Zipf exponent of the frequency of true labels; with 0 all are alike."
        " Default: 0.75.",
        _VOTES,
    )
    votes: SkipValidation[str | PathLike[str] | None] = option(
        "With pate=: .npz file of votes on public items and their truth, in place of numbers"
        " that describe votes.",
        _VOTES,
        metavar="FILE",
    )
    public_votes: Flag = option(
        "Declare that the teachers of votes= were trained on public or made-up records. Without"
        " this the file is refused, because a plan shows figures of the votes, and no ledger is"
        " charged for them.",
        _VOTES,
        False,
    )


class AnswerFields(Spec):
    """Options for the quality that the answer needs."""

    releases: Count | None = option(
        "Number of releases that share the budget, charged one by one. Default: 1.", place=135
    )
    compare: SkipValidation[Sequence[str] | None] = option(
        "Kind of mechanism to compare the plan with. May be repeated.",
        metavar="KIND",
        many=True,
        place=138,
    )
    recall: Real | None = option(
        "Wanted share of true items. Without a budget the plan finds the epsilon for it; with"
        " epsilon= it finds users=.",
        _NEEDS,
    )
    seed: Seed | None = option(
        "Seed of the simulations, at least 0. It never seeds a release. Default: 0.", _NEEDS
    )


class PlanFields(VotesFields, OverTimeFields, AnswerFields, ProfileFields):
    """Options of a plan without the budget and the reading of a log: the file's table [plan]."""


class PlanSpec(PlanFields, FileFields, BudgetFields, ChoiceFields):
    """Predict the quality and the privacy cost of a release, before any data are read.

    State the options that you will use for topk or continual run, without the log, and describe the
    data by public facts. The plan shows the mechanism that will run, with its noise, and draws from
    it on made-up users. Nothing is spent.
    """

    examples: ClassVar[tuple[str, ...]] = (
        (
            "--k 10 --releases 30 --epsilon 1 --delta 1e-6 --shape zipf:1.1 --items 50000 --users"
            " 100000 --unknown-domain"
        ),
        "--k 10 --epsilon 1 --shape last_year.csv --column users --public",
        (
            "--k 10 --epsilon 1 --delta 1e-6 --shape last_year.parquet --user who --item shop"
            " --public --write plan.toml"
        ),
    )

    own_fields: ClassVar[Any] = (PlanFields,)

    k: Count | Literal["all"] | None = option(
        "Number of items to release, at least 1; or all that are safe to show.",
        metavar="N|all",
        parse=size_of,
        place=40,
    )
    epsilon: Real | None = option("Budget of all releases together, in nats.", place=50)
    rho: Real | None = option(
        "Budget of all releases under zero-concentrated privacy, in place of epsilon=.",
        "Privacy",
    )
    ledger: SkipValidation[str | Ledger | None] = option(
        "Ledger to charge later.", _NEEDS, metavar="URL"
    )
    dataset: str | None = option("Dataset to charge later.", _NEEDS)
    user: SkipValidation[Column | Sequence[Column] | None] = option(
        "Column of users, if shape= is a log. Several make up one user.",
        _SHAPE,
        metavar="COLUMN",
        parse=columns_of,
        many=True,
    )
    item: SkipValidation[Column | Sequence[Column] | None] = option(
        "Column of items, if shape= is a log. Several make up one item.",
        _SHAPE,
        metavar="COLUMN",
        parse=columns_of,
        many=True,
    )
    relation: Relation | None = option(
        "Difference of neighboring logs: add or remove one user (add_remove), or replace one"
        " user's data (replace_one).",
        "Privacy",
    )
    max_items_per_user: Count | None = option(
        "Most items to keep of each user (in each group), chosen by a salted hash.",
        "Bounds on users",
    )
    max_groups_per_user: Count | None = option(
        "Most groups to keep of each user, chosen by a salted hash. The cost grows with it."
        " Default: any number, with all groups as one table and one norm for all cells of a"
        " user.",
        "Groups",
    )

    @property
    def way(self) -> Way:
        """Kind of the plan."""
        return _way(dict(self))

    @property
    def kind_of_shape(self) -> str | None:
        """Part of `shape=` before a colon."""
        return None if self.shape is None else self.shape.partition(":")[0]

    @property
    def is_log(self) -> bool:
        """True if the file of `shape=` is a log."""
        named = self.user is not None or self.item is not None
        return (named if self.log is None else self.log) or Path(
            self.shape or ""
        ).suffix == ".parquet"

    @model_validator(mode="after")
    def _asks_for_one_thing(self) -> Self:
        if (self.ledger is None) != (self.dataset is None):
            raise ValueError(
                "ledger= and dataset= go together. Name both, or give a file with [ledger]"
                " (config=)"
            )
        names = [
            name
            for name, field in type(self).model_fields.items()
            if getattr(self, name) not in (field.default, None)
        ]
        for name in names:
            if self._takes(self.way, name):
                continue
            for way, fields in _OWN.items():
                if name in fields and name != way:
                    raise ValueError(
                        f"{name}= belongs to plan with {way}=: state that too, or leave it out"
                    )
            raise ValueError(f"{name}= does not go with {self.way}=: leave one of them out")
        if self.way == "pate":
            return self
        if self.groups is not None and self.groups > _MOST_GROUPS:
            raise ValueError(
                f"groups={self.groups:,} are more than {_MOST_GROUPS:,}, the most that are planned."
                " State fewer"
            )
        if self.items_per_period is not None and not self.with_counts:
            raise ValueError(
                "items_per_period= says how many items count with with_counts=: state both, or"
                " neither"
            )
        if self.k is None:
            raise ValueError("no size is stated. Give k=, how many items each release has")
        if self.group_users is not None and self.groups not in (None, len(self.group_users)):
            raise ValueError(
                f"group_users= names {len(self.group_users)} groups, and groups={self.groups} says"
                " otherwise. Leave groups= out"
            )
        if self.group_users is not None and (
            shares := self.stated_values("groups_per_user", "group_exponent")
        ):
            raise ValueError(
                f"group_users= says what {next(iter(shares))}= says. Leave one of them out"
            )
        if (
            self.groups is None
            and self.group_users is None
            and (
                self.groups_per_user,
                self.group_exponent,
                self.max_groups_per_user,
            )
            != (None, None, None)
        ):
            raise ValueError("a plan for groups needs groups=, how many there are (roughly)")
        return self

    @classmethod
    def _takes(cls, way: Way, name: str) -> bool:
        """True if a field applies to this kind of plan."""
        return (
            name in _TAKES[way]
            if way in _TAKES
            else not any(name in fields for fields in _OWN.values())
        )

    @classmethod
    def merge(cls, file: Mapping[str, Any], overrides: Mapping[str, Any]) -> Self:
        """The spec of a file's values, without values that contradict a stated one."""
        from dpselect.plan.default import GENEROUS  # help does without mechanisms

        # the one that an earlier plan wrote, and a bound that it brought, which nobody stated
        excluded = {"mechanism"}
        if file.get("mechanism") is not None and file.get("max_items_per_user") == GENEROUS:
            excluded |= {"max_items_per_user"}
        if overrides.get("shape") is not None:  # nothing of another shape may stay
            excluded |= ShapeFields.__annotations__.keys()
        elif overrides.get("column") is not None:  # what was declared is another column
            excluded |= {"public"}
        if not file.get("log") or excluded & {"log"}:  # columns of what topk reads
            excluded |= {"user", "item"}
            if not any(map(overrides.get, ("log", "user", "item"))):  # and how topk reads it
                excluded |= FileFields.model_fields.keys()
        way = _way(overrides)
        way = _way(file) if way == "releases" else way
        values = {
            name: value
            for name, value in file.items()
            if name not in excluded and cls._takes(way, name)
        }
        return super().merge(values, overrides)


def _way(values: Mapping[str, Any]) -> Way:
    """Kind of the plan for these values."""
    if values.get("pate"):
        return "pate"
    return "releases" if values.get("periods") is None else "periods"


_OWN: Mapping[Way, Any] = {"periods": OverTimeFields.model_fields, "pate": VotesFields.model_fields}
# What is asked where it is said, beside releases, of which all is but what others own.
_TAKES: Mapping[Way, Collection[str]] = {
    "periods": {
        *OverTimeFields.model_fields,
        *ProfileFields.model_fields,
        *ContinualSpec.model_fields,
        "seed",
    },
    "pate": {*VotesFields.model_fields, *BudgetFields.model_fields, "releases", "seed"},
}
