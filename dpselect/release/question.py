"""`Question`: what is asked of a log, and the mechanism that answers it. All of it is public."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Self, final

from accounting import Budget
from accounting.address import without_password
from accounting.arguments import Relation
from dpselect.cells import ANY_GROUPS
from dpselect.errors import DomainMismatch, InvalidRequest
from dpselect.events.contributions import Clip, require_weights
from dpselect.events.reading import Reading
from dpselect.mechanisms import LimitedDomain, Mechanism, SparseHistogram
from dpselect.plan.counts import COUNTS, COUNTS_AGAIN
from dpselect.plan.default import (
    WHOLE_COUNTS,
    Choice,
    Grouping,
    default_choice,
    default_mechanism,
    unbounded,
)
from dpselect.plan.request import ALL, BudgetShare, TopKRequest
from dpselect.selection import Label
from dpselect.sensitivity import Norm, Sensitivity
from dpselect.spec import TopKSpec

_BOUNDS = ("max_items_per_user", "max_groups_per_user", "clip", "value")
_AMOUNTS = ("epsilon", "delta", "rho")
_LISTS = ("domain", "domain_column", "groups", "groups_column")


@final
@dataclass(frozen=True)
class Question:
    """What is asked of a log: public configuration, nothing that was read, nor what it is read
    from. `of` makes one.

    The log itself goes beside it, to whatever reads: a question is printed, and kept with its
    answer.

    Attributes:
        source: what the log is called: see `named`.
        spec: what is asked, as it was stated.
        reading: how the log is read. Its `clip` is the one that is stated; the mechanism may bring
            its own.
        budget: what the release may cost, or all `releases` of them, charged one by one.
        domain: the public catalog of items; None if the items are read off the log.
    """

    source: str | tuple[str, ...]
    spec: TopKSpec
    reading: Reading
    budget: Budget
    domain: Sequence[Label] | None = None

    @classmethod
    def of(cls, source: Any, spec: TopKSpec) -> Self:
        """What a spec asks of a log; the files of public lists that it names are read.

        Raises:
            InvalidRequest: parts contradict each other.
        """
        if spec.engine == "spark" and not isinstance(source, str):
            raise InvalidRequest("engine='spark' reads one table or path, without several files")
        # A salt is that of the bound that the default may bring where none is stated, and no part
        # of how the log is read without.
        unstated = all(
            one is None
            for one in (spec.max_items_per_user, spec.clip, spec.group, spec.value, spec.mechanism)
        )
        observed = spec.domain is None or spec.min_users is not None
        several = len(spec.periods) > 1 and spec.relation == "add_remove"
        unsalted = {"salt": None} if unstated and observed and not several else {}
        asked = cls(named(source), spec, spec.reading(**unsalted), _budget(spec), spec.catalog())
        asked.require()
        return asked

    def require(self) -> None:
        """Refuse what no mechanism can do.

        Raises:
            InvalidRequest: counts of clipped users, or a least number of users without a delta.
        """
        spec = self.spec
        if spec.clip is not None and spec.with_counts and not self.recounted:
            raise InvalidRequest(WHOLE_COUNTS)
        if spec.min_users is not None and self.budget.delta == 0:
            raise InvalidRequest(
                f"min_users={spec.min_users} needs a delta, even with public items: whether an item"
                " has that many users may rest on one of them. Choose far less than 1 / users, for"
                " example 1e-6"
            ).at("min_users")

    @property
    def k(self) -> int:
        """How many items may be released (of each group)."""
        if self.spec.k != "all":
            return self.spec.k
        return ALL if self.domain is None else len(self.domain)

    @property
    def domain_name(self) -> str:
        """What the catalog is called."""
        return _name_of(self.spec.domain)

    @property
    def groups_name(self) -> str:
        """What the public list of groups is called."""
        return _name_of(self.spec.groups)

    @property
    def releases(self) -> int:
        """How many such releases share the budget."""
        return self.spec.releases or 1

    @property
    def signed(self) -> bool:
        """True if scores may be negative: sums of a column that is cut to a range from below 0."""
        return isinstance(self.reading.value_clip, tuple) and self.reading.value_clip[0] < 0

    @property
    def tabled(self) -> bool:
        """Whether groups may be read as a table of cells: counts of users, in the engine that this
        process has.
        """
        reading = self.reading
        return (
            reading.group is not None
            and reading.value is None
            and self.spec.engine == "memory"
            and not self.exchanged
        )

    @property
    def exchanged(self) -> bool:
        """Whether one user's rows of one period may exchange what is counted of that user, where
        neighbors add or remove rows.

        Several periods are read together and users are bounded: without the rows of one period
        other rows are kept.
        """
        return self._several and any(getattr(self.reading, name) is not None for name in _BOUNDS)

    @property
    def whole(self) -> bool:
        """Whether the default may not bound users on its own: several periods are read together,
        for the price of one.
        """
        return self._several and not self.exchanged

    @property
    def _several(self) -> bool:
        return len(self.spec.periods) > 1 and self.spec.relation == "add_remove"

    @property
    def recounted(self) -> bool:
        """Whether counts beside the items come from a second look at the log. They are the scores
        that chose in groups, where the log is read once, and where users are counted in full.
        """
        return self.spec.with_counts and self.reading.group is None and not self.whole

    @property
    def relation(self) -> Relation:
        """The relation whose price is paid."""
        return "replace_one" if self.exchanged else self.spec.relation

    @property
    def clippable(self) -> bool:
        """Whether the default may bound and clip users: they are counted, and no several periods
        are read at the price of one.
        """
        return self.reading.group is not None or (self.reading.value is None and not self.whole)

    @property
    def grouping(self) -> Grouping | None:
        """The groups, each of which gets a release; None for the log as a whole."""
        most, listed = self.reading.max_groups_per_user, self.reading.groups
        return (
            None
            if most is None
            else Grouping(most, None if listed is None else len(listed), self.tabled)
        )

    @property
    def kept(self) -> Self:
        """The same question as an answer keeps it: with the name of a ledger, and no way to open
        it.
        """
        if self.spec.ledger is None or type(self.spec.ledger) is str:
            return self
        return replace(self, spec=self.spec.model_copy(update={"ledger": str(self.spec.ledger)}))

    def as_data(self) -> dict[str, Any]:
        """What is asked, as plain data: an answer that is kept says which question it answers.

        It is every field of the reading and of the spec, but those that change no answer, each for
        the reason that its option gives (`unasked`). A few are said by what they stand for: amounts
        by the budget, lists by their names and digests.
        """
        spec, reading = self.spec, self.reading
        how = reading.model_dump(
            mode="json", exclude_defaults=True, exclude={*type(spec).unasked(), "groups", "salt"}
        )
        if how.get("max_groups_per_user") == ANY_GROUPS:
            del how["max_groups_per_user"]  # nobody stated it
        # one that is not stated is chance; what is kept under another one is another answer
        if spec.salt is not None:
            how["salt"] = spec.salt
        asked: dict[str, Any] = {"relation": spec.relation, "releases": self.releases}
        asked["budget"] = self.budget.model_dump(mode="json")
        # Of the reading, and in other words.
        asked |= spec.question(
            without={*type(spec).reading_fields(), *_AMOUNTS, *_LISTS, "mechanism"}
        )
        if spec.kind is not None:
            asked["mechanism"] = spec.kind
        if spec.planned is not None:
            asked["planned"] = json.loads(spec.planned.to_json())
        if self.domain is not None:
            asked["domain"] = {"name": self.domain_name, "sha256": _digest(self.domain)}
        if reading.groups is not None:
            asked["groups"] = {"name": self.groups_name, "sha256": _digest(reading.groups)}
        return {"source": self.source, "reading": how, "release": asked}


def named(source: object) -> str | tuple[str, ...]:
    """The log as it was named; a password in a URL is left out."""
    if isinstance(source, list | tuple):
        return tuple(str(named(part)) for part in source)
    return (
        without_password(source)
        if isinstance(source, str | os.PathLike)
        else f"a {type(source).__name__} in memory"
    )


def _digest(labels: Sequence[Label]) -> str:
    return hashlib.sha256(json.dumps(labels).encode()).hexdigest()


def _name_of(stated: Any) -> str:
    return (
        str(stated)
        if stated is None or isinstance(stated, str | PathLike)
        else f"a list of {len(stated):,} items"
    )


def _budget(spec: TopKSpec) -> Budget:
    """As stated. Releases that share a budget and are charged to a ledger share that of its
    dataset, where no other is stated.
    """
    if spec.ledger is not None and spec.releases is not None and spec.planned is None:
        with spec.opened() as ledger:
            declared = ledger.dataset(str(spec.dataset)).budget
        stated = [getattr(spec, name) or None for name in _AMOUNTS]
        # One that is stated alike has no order and no failure probability, which the dataset's
        # filter has.
        if not spec.given(*_AMOUNTS) or stated == [
            getattr(declared, name) or None for name in _AMOUNTS
        ]:
            return declared
    return spec.budget


# -- the mechanism ---------------------------------------------------------------------------------


def choose(question: Question, whole: Budget | None = None) -> Choice:
    """The mechanism of the answer, and how the log is read for it; nothing private is looked at.

    Args:
        whole: the budget of the dataset that pays. A release that states a part of it takes no more
            than that part.

    Raises:
        InvalidRequest, DomainMismatch, RelationMismatch, CalibrationError: as for
        `dpselect.plan.default_choice`. EventLogError: no log can be read with this clip and bound.
    """
    found = _chosen(question, whole)
    # said before anything is read
    if found.clip is not None and found.max_items_per_user is not None and not found.cells:
        listed = None if question.domain is None else len(question.domain)
        require_weights([Clip(found.clip, found.norm)], found.max_items_per_user, listed)
    return found


def _chosen(question: Question, whole: Budget | None) -> Choice:
    reading, spec = question.reading, question.spec
    clip, limit, groups = _clip(reading), reading.max_items_per_user, question.grouping
    if spec.planned is not None:
        return _planned(question, spec.planned)
    _require_delta(question, whole)
    request = request_of(question, whole)
    if (
        groups is not None
        and groups.most == ANY_GROUPS
        and (spec.kind is not None or not groups.tabled)
    ):
        unbounded()
    if spec.mechanism is None and question.clippable:
        norm = None if clip is None else _norm(question)
        bounds: Any = {"max_items_per_user": limit, "clip": clip, "norm": norm}
        return default_choice(question.budget, request, **bounds, groups=groups, whole=whole)
    asked, kind = request.model_copy(update={"sensitivity": _sensitivity(question)}), spec.kind
    if kind is None and (question.domain is None or spec.min_users is not None):
        shown_by_rank = reading.value is None and spec.min_users is None
        kind = LimitedDomain.__name__ if shown_by_rank else SparseHistogram.__name__
    found = default_mechanism(question.budget, asked, kind=kind, groups=groups, whole=whole)
    return (
        Choice(found, limit)
        if reading.value is not None
        else Choice(found, limit, clip, _norm(question))
    )


def _require_delta(question: Question, whole: Budget | None) -> None:
    """Refuse a budget without a delta where the default needs one; `whole` is the budget of the
    dataset that pays.
    """
    if question.domain is not None or question.spec.mechanism is not None:
        return
    if whole is not None and whole.delta == 0:
        raise InvalidRequest(
            "the dataset's budget has no delta, so it pays for no release of items that are read"
            " off the log: state a public list of items (domain=)"
        )
    if question.budget.delta == 0:
        raise InvalidRequest(
            "delta= is missing: without a public list of items (domain=) it is needed; choose far"
            " less than 1 / users, for example 1e-6"
        ).at("delta")


def request_of(question: Question, whole: Budget | None) -> TopKRequest:
    """What is public about the release; `whole` is the budget of the dataset that pays."""
    spec = question.spec
    return TopKRequest(
        k=question.k,
        sensitivity=Sensitivity.of_counts(question.relation, question.reading.max_items_per_user),
        candidates=None if question.domain is None else len(question.domain),
        min_users=spec.min_users,
        kbar=spec.kbar,
        noise=spec.noise,
        releases=question.releases,
        counts=(COUNTS_AGAIN if question.recounted else COUNTS) if spec.with_counts else None,
        recounted=question.recounted,
        share=(
            None
            if whole is None or spec.use_everything
            else BudgetShare.of(question.budget, question.releases, whole)
        ),
    )


def _clip(reading: Reading) -> float | None:
    assert not isinstance(reading.clip, tuple), "checked by the spec"
    return reading.clip


def _norm(question: Question) -> Norm:
    """That which the noise pays for: l1 for laplace noise and pure budgets."""
    if question.spec.planned is not None:
        return "l1" if question.spec.planned.sensitivity_bound.l1 is not None else "l2"
    return "l1" if question.spec.noise == "laplace" or question.budget.form == "pure" else "l2"


def _sensitivity(question: Question) -> Sensitivity:
    """That of the scores that the log will give."""
    reading = question.reading
    if (ends := reading.value_clip) is not None:
        low, high = ends if isinstance(ends, tuple) else (0.0, ends)
        return Sensitivity.of_sums(low, high, question.relation, reading.max_items_per_user)
    if (clip := _clip(reading)) is None:
        return Sensitivity.of_counts(question.relation, reading.max_items_per_user)
    return Sensitivity.of_clipped(
        clip, _norm(question), question.relation, reading.max_items_per_user
    )


def _planned(question: Question, planned: Mechanism) -> Choice:
    """The planned mechanism, if it can do what is asked; said before a long read."""
    reading, name = question.reading, type(planned).__name__
    _require_groups(question, planned)
    # what is stated for a release is its ceiling, whoever chose the noise
    if not question.budget.admits(planned.curve):
        stated = ", ".join(
            f"{name}={value:g}" for name in _AMOUNTS if (value := getattr(question.budget, name))
        )
        raise InvalidRequest(
            f"mechanism= names a {name} that costs more than the budget of this release ({stated}):"
            " plan one for this budget"
        ).at("mechanism")
    if question.spec.with_counts and not planned.releases_values:
        raise InvalidRequest(
            f"{name} was planned without counts: plan with with_counts=, or leave it out here"
        ).at("with_counts")
    planned.sensitivity_bound.require(_sensitivity(question))
    if question.domain is None and not planned.takes_observed:
        raise DomainMismatch(
            f"{name} was planned for a public domain: give its catalog (domain=, or domain in"
            " [data]), or plan with unknown_domain="
        )
    clip = _clip(reading)
    again = None if clip is None else planned.selecting.selected_again
    for look in (again, planned.counted_again):
        if look is not None:  # what no reader can do is said before the charge
            reading.model_copy(update={"clip": look}).contributions()
    cells = planned.traits.cells
    return Choice(planned, reading.max_items_per_user, clip, _norm(question), again, cells=cells)


def _require_groups(question: Question, planned: Any) -> None:
    """Refuse a mechanism that was planned for other groups."""
    reading, most, file = (
        question.reading,
        question.reading.max_groups_per_user,
        "the mechanism in the file was planned",
    )
    if planned.traits.cells:
        if not question.tabled:
            raise InvalidRequest(
                f"{file} for cells of groups and items: name the column of groups (group=), and"
                " leave value= and engine= out"
            )
        if question.domain is not None and reading.groups is None:
            raise InvalidRequest("a table of public items has public groups: list them (groups=)")
        if most != ANY_GROUPS:
            raise InvalidRequest(
                "max_groups_per_user= bounds users for a selection in each group, and the planned"
                " mechanism has one norm over all groups of a user: leave it out"
            ).at("max_groups_per_user")
    elif planned.traits.answers != "groups":
        if reading.group is not None:
            raise InvalidRequest(
                f"{file} for a log as a whole: with group= state the budget (epsilon=)"
            )
    elif reading.group is None:
        raise InvalidRequest(f"{file} for every group: name their column (group=)")
    elif (most or 0) > planned.max_groups_per_user:
        raise InvalidRequest(
            f"max_groups_per_user= must be at most {planned.max_groups_per_user}, as planned"
        ).at("max_groups_per_user")
    elif (reading.groups is None) != (planned.discovery is not None):
        other = (
            "for groups of a public list: give it (groups=)"
            if planned.discovery is None
            else "to discover groups"
        )
        raise InvalidRequest(f"{file} {other}")
