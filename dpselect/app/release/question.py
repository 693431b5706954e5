"""`Question`, a public question about a log, and the choice of the mechanism that answers it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Self, final

from accounting import Budget
from accounting.address import hide_passwords
from accounting.relations import Relation
from accounting.wording import format_number
from dpselect.app.events.contributions import Clip, require_weights
from dpselect.app.events.reading import Reading
from dpselect.app.spec import TopKSpec
from dpselect.cells import ANY_GROUPS
from dpselect.errors import DomainMismatch, InvalidRequest
from dpselect.mechanisms import LimitedDomain, Mechanism, SparseHistogram
from dpselect.plan.counts import COUNTS, COUNTS_AGAIN
from dpselect.plan.default import (
    WHOLE_COUNTS,
    Choice,
    Grouping,
    default_choice,
    default_mechanism,
    refuse_unbounded,
)
from dpselect.plan.request import ALL, BudgetShare, TopKRequest
from dpselect.selection import Label
from dpselect.sensitivity import Norm, Sensitivity

_BOUNDS = ("max_items_per_user", "max_groups_per_user", "clip", "value")
_AMOUNTS = ("epsilon", "delta", "rho")
_LISTS = ("domain", "domain_column", "groups", "groups_column")


@final
@dataclass(frozen=True)
class Question:
    """A question about a log. It is public configuration without any data. `from_spec` makes one.

    The log itself is passed separately, because a question is printed and kept with its answer.

    Attributes:
        source: the name of the log, from `source_name`.
        spec: the options as stated.
        reading: options of the reading. Its `clip` is the stated one; the mechanism may bring its
            own.
        budget: the budget of the release, or of all `releases` of them, charged one by one.
        domain: the public catalog of items; None if the items are read off the log.
    """

    source: str | tuple[str, ...]
    spec: TopKSpec
    reading: Reading
    budget: Budget
    domain: Sequence[Label] | None = None

    @classmethod
    def from_spec(cls, source: Any, spec: TopKSpec) -> Self:
        """The question that a spec asks about a log. Files of public lists are read.

        Raises:
            InvalidRequest: parts contradict each other.
        """
        if spec.engine == "spark" and not isinstance(source, str | PathLike):
            raise InvalidRequest("engine='spark' reads one table or path, without several files")
        # A salt is that of the bound that the default may bring where none is stated, and no part
        # of how the log is read without.
        unstated = all(
            option is None
            for option in (
                spec.max_items_per_user,
                spec.clip,
                spec.group,
                spec.value,
                spec.mechanism,
            )
        )
        observed = spec.domain is None or spec.min_users is not None
        several = len(spec.periods) > 1 and spec.relation == "add_remove"
        unsalted = {"salt": None} if unstated and observed and not several else {}
        question = cls(
            source_name(source), spec, spec.reading(**unsalted), _budget(spec), spec.catalog()
        )
        question.require()
        return question

    def require(self) -> None:
        """Refuse a question that no mechanism can answer.

        Raises:
            InvalidRequest: counts of clipped users, or a least number of users without a delta.
        """
        spec = self.spec
        if spec.clip is not None and spec.with_counts and not self.recounted:
            raise InvalidRequest(WHOLE_COUNTS)
        if spec.min_users is not None and self.budget.delta == 0:
            raise InvalidRequest(
                f"min_users={spec.min_users} needs a delta, even with public items, because one"
                " user may decide whether an item has that many users. Choose far less than 1 /"
                " number of users, for example 1e-6"
            )

    @property
    def k(self) -> int:
        """Most items that may be released (per group)."""
        if self.spec.k != "all":
            return self.spec.k
        return ALL if self.domain is None else len(self.domain)

    @property
    def domain_name(self) -> str:
        """Name of the catalog."""
        return _name_of(self.spec.domain)

    @property
    def groups_name(self) -> str:
        """Name of the public list of groups."""
        return _name_of(self.spec.groups)

    @property
    def releases(self) -> int:
        """Number of such releases that share the budget."""
        return self.spec.releases or 1

    @property
    def signed(self) -> bool:
        """True if scores may be negative, because the column's range begins below 0."""
        return isinstance(self.reading.value_clip, tuple) and self.reading.value_clip[0] < 0

    @property
    def held(self) -> bool:
        """True if the scores stay in the engine. Sums that may be negative, and groups, do not."""
        engine, apart = self.spec.engine, self.signed or self.reading.group is not None
        return engine != "memory" and not (engine == "spark" and apart)

    @property
    def tabled(self) -> bool:
        """True if groups may be read as a table of cells: counts of users, in this process."""
        reading = self.reading
        return (
            reading.group is not None
            and reading.value is None
            and self.spec.engine == "memory"
            and not self.exchanged
        )

    @property
    def exchanged(self) -> bool:
        """True if one user's rows of one period may exchange that user's counted items.

        This is under neighbors that add or remove rows, if several periods are read together and
        users are bounded. Without the rows of one period, other rows are kept.
        """
        return self._several and any(getattr(self.reading, name) is not None for name in _BOUNDS)

    @property
    def whole(self) -> bool:
        """True if the default may not bound users on its own.

        Several periods are then read together at the cost of one.
        """
        return self._several and not self.exchanged

    @property
    def _several(self) -> bool:
        return len(self.spec.periods) > 1 and self.spec.relation == "add_remove"

    @property
    def recounted(self) -> bool:
        """True if counts beside the items come from a second pass over the log.

        Otherwise they are the scores that chose the items, for groups, where the log is read once,
        and if users are counted in full.
        """
        return self.spec.with_counts and self.reading.group is None and not self.whole

    @property
    def relation(self) -> Relation:
        """The neighboring relation under which the cost is charged."""
        return "replace_one" if self.exchanged else self.spec.relation

    @property
    def clippable(self) -> bool:
        """True if the default may bound and clip users.

        They must be counted, and not several periods read at the cost of one.
        """
        return self.reading.group is not None or (self.reading.value is None and not self.whole)

    @property
    def grouping(self) -> Grouping | None:
        """The groups with a release each; None for the log as a whole."""
        most, listed = self.reading.max_groups_per_user, self.reading.groups
        return (
            None
            if most is None
            else Grouping(most, None if listed is None else len(listed), self.tabled)
        )

    @property
    def with_ledger_name(self) -> Self:
        """A copy for the answer, with the name of a ledger in place of an open one."""
        if self.spec.ledger is None or type(self.spec.ledger) is str:
            return self
        return replace(self, spec=self.spec.model_copy(update={"ledger": str(self.spec.ledger)}))

    def as_data(self) -> dict[str, Any]:
        """The question as plain data, which is kept with its answer.

        It has every field of the reading and of the spec, except those that change no answer, each
        for the reason that its option gives (`unasked`). A few are replaced by equivalent data:
        amounts by the budget, and lists by their names and digests.
        """
        spec, reading = self.spec, self.reading
        options = reading.model_dump(
            mode="json",
            exclude_defaults=True,
            exclude={*type(spec).unasked_fields(), "groups", "salt"},
        )
        if options.get("max_groups_per_user") == ANY_GROUPS:
            del options["max_groups_per_user"]  # nobody stated it
        # one that is not stated is chance; what is kept under another one is another answer
        if spec.salt is not None:
            options["salt"] = spec.salt
        release: dict[str, Any] = {"relation": spec.relation, "releases": self.releases}
        release["budget"] = self.budget.model_dump(mode="json")
        # Of the reading, and in other words.
        release |= spec.question(
            without={*type(spec).reading_fields(), *_AMOUNTS, *_LISTS, "mechanism"}
        )
        if spec.kind is not None:
            release["mechanism"] = spec.kind
        if spec.planned is not None:
            release["planned"] = json.loads(spec.planned.to_json())
        if self.domain is not None:
            release["domain"] = {"name": self.domain_name, "sha256": _digest(self.domain)}
        if reading.groups is not None:
            release["groups"] = {"name": self.groups_name, "sha256": _digest(reading.groups)}
        return {"source": self.source, "reading": options, "release": release}


def source_name(source: object) -> str | tuple[str, ...]:
    """Name of the log as stated, without a password in a URL."""
    if isinstance(source, list | tuple):
        return tuple(str(source_name(part)) for part in source)
    return (
        hide_passwords(source)
        if isinstance(source, str | os.PathLike)
        else f"a {type(source).__name__} in memory"
    )


def _digest(labels: Sequence[Label]) -> str:
    return hashlib.sha256(json.dumps(labels).encode()).hexdigest()


def _name_of(value: Any) -> str:
    return (
        str(value)
        if value is None or isinstance(value, str | PathLike)
        else f"a list of {len(value):,} items"
    )


def _budget(spec: TopKSpec) -> Budget:
    """The stated budget.

    For releases that share a budget and are charged to a ledger, it is the dataset's budget if no
    other is stated.
    """
    if spec.ledger is not None and spec.releases is not None and spec.planned is None:
        with spec.open_ledger() as ledger:
            declared = ledger.dataset(str(spec.dataset)).budget
        amounts = [getattr(spec, name) or None for name in _AMOUNTS]
        # One that is stated alike has no order and no failure probability, which the dataset's
        # filter has.
        if not spec.stated_values(*_AMOUNTS) or amounts == [
            getattr(declared, name) or None for name in _AMOUNTS
        ]:
            return declared
    return spec.budget


# -- the mechanism ---------------------------------------------------------------------------------


def choose(question: Question, whole: Budget | None = None) -> Choice:
    """The mechanism of the answer, and how the log is read for it, chosen without private data.

    Args:
        whole: the budget of the dataset that is charged. A release that states a part of it takes
            no more than that part.

    Raises:
        InvalidRequest, DomainMismatch, RelationMismatch, CalibrationError: as for
            `dpselect.plan.default_choice`.
        EventLogError: no log can be read with this clip and bound.
    """
    choice = _choose(question, whole)
    # said before anything is read
    if choice.clip is not None and choice.max_items_per_user is not None and not choice.cells:
        listed = None if question.domain is None else len(question.domain)
        require_weights([Clip(choice.clip, choice.norm)], choice.max_items_per_user, listed)
    return choice


def _choose(question: Question, whole: Budget | None) -> Choice:
    reading, spec = question.reading, question.spec
    clip, limit, groups = _clip(reading), reading.max_items_per_user, question.grouping
    if spec.planned is not None:
        return _check_planned(question, spec.planned)
    _require_delta(question, whole)
    request = request_of(question, whole)
    if (
        groups is not None
        and groups.most == ANY_GROUPS
        and (spec.kind is not None or not groups.tabled)
    ):
        refuse_unbounded()
    if spec.mechanism is None and question.clippable:
        norm = None if clip is None else _norm(question)
        bounds: Any = {"max_items_per_user": limit, "clip": clip, "norm": norm}
        return default_choice(
            question.budget, request, **bounds, groups=groups, whole=whole, held=question.held
        )
    adjusted, kind = request.model_copy(update={"sensitivity": _sensitivity(question)}), spec.kind
    if kind is None and (question.domain is None or spec.min_users is not None):
        shown_by_rank = reading.value is None and spec.min_users is None
        kind = LimitedDomain.__name__ if shown_by_rank else SparseHistogram.__name__
    mechanism = default_mechanism(question.budget, adjusted, kind=kind, groups=groups, whole=whole)
    return (
        Choice(mechanism, limit)
        if reading.value is not None
        else Choice(mechanism, limit, clip, _norm(question))
    )


def _require_delta(question: Question, whole: Budget | None) -> None:
    """Refuse a budget without a delta if the default needs one. `whole` is the dataset's budget."""
    if question.domain is not None or question.spec.mechanism is not None:
        return
    if whole is not None and whole.delta == 0:
        raise InvalidRequest(
            "the dataset's budget has no delta, so no release of items that are read off the log"
            " fits it. State a public list of items (domain=)"
        )
    if question.budget.delta == 0:
        raise InvalidRequest(
            "delta= is missing, and it is needed without a public list of items (domain=). Choose"
            " far less than 1 / number of users, for example 1e-6"
        )


def request_of(question: Question, whole: Budget | None) -> TopKRequest:
    """The public request for a release. `whole` is the budget of the dataset that is charged."""
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
            else BudgetShare.from_budget(question.budget, question.releases, whole)
        ),
    )


def _clip(reading: Reading) -> float | None:
    assert not isinstance(reading.clip, tuple), "checked by the spec"
    return reading.clip


def _norm(question: Question) -> Norm:
    """The norm that the noise needs: l1 for laplace noise and pure budgets, otherwise l2."""
    if question.spec.planned is not None:
        return "l1" if question.spec.planned.sensitivity_bound.l1 is not None else "l2"
    return "l1" if question.spec.noise == "laplace" or question.budget.form == "pure" else "l2"


def _sensitivity(question: Question) -> Sensitivity:
    """Sensitivity of the scores that the log will give."""
    reading = question.reading
    if (ends := reading.value_clip) is not None:
        low, high = ends if isinstance(ends, tuple) else (0.0, ends)
        return Sensitivity.of_sums(low, high, question.relation, reading.max_items_per_user)
    if (clip := _clip(reading)) is None:
        return Sensitivity.of_counts(question.relation, reading.max_items_per_user)
    return Sensitivity.of_clipped(
        clip, _norm(question), question.relation, reading.max_items_per_user
    )


def _check_planned(question: Question, planned: Mechanism) -> Choice:
    """The planned mechanism, checked before a long read for its fit to the question."""
    reading, name = question.reading, type(planned).__name__
    _require_groups(question, planned)
    # what is stated for a release is its ceiling, whoever chose the noise
    if not question.budget.admits(planned.curve):
        amounts = ", ".join(
            f"{name}={format_number(value)}"
            for name in _AMOUNTS
            if (value := getattr(question.budget, name))
        )
        raise InvalidRequest(
            f"mechanism= names a {name} that costs more than the budget of this release"
            f" ({amounts}). Plan one for this budget"
        )
    if question.spec.with_counts and not planned.releases_values:
        raise InvalidRequest(
            f"{name} was planned without counts. Plan with with_counts=, or leave it out here"
        ).at("with_counts")
    planned.sensitivity_bound.require(_sensitivity(question))
    if question.domain is None and not planned.takes_observed:
        raise DomainMismatch(
            f"{name} was planned for a public domain. Give its catalog (domain=, or domain in"
            " [data]), or plan with unknown_domain="
        )
    clip = _clip(reading)
    again = None if clip is None else planned.selecting.selected_again
    for look in (again, planned.counted_again):
        if look is not None:  # what no reader can do is said before the charge
            reading.model_copy(update={"clip": look}).contributions()
    cells = planned.traits.cells
    if cells and again is not None:
        raise InvalidRequest(
            "a table of groups and items is counted once, and the planned mechanism clips users"
            " again within the discovered items. Plan one without a second pass"
        )
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
                f"{file} for cells of groups and items. Name the column of groups (group=), and"
                " leave value= and engine= out"
            )
        if question.domain is not None and reading.groups is None:
            raise InvalidRequest("a table of public items has public groups: list them (groups=)")
        if most != ANY_GROUPS:
            raise InvalidRequest(
                "max_groups_per_user= bounds users for a selection in each group, and the planned"
                " mechanism has one norm over all groups of a user. Leave it out"
            )
    elif planned.traits.answers != "groups":
        if reading.group is not None:
            raise InvalidRequest(
                f"{file} for a log as a whole: with group= state the budget (epsilon=)"
            )
    elif reading.group is None:
        raise InvalidRequest(f"{file} for every group. Name their column (group=)")
    elif (most or 0) > planned.max_groups_per_user:
        raise InvalidRequest(
            f"max_groups_per_user= must be at most {planned.max_groups_per_user}, as planned"
        )
    elif (reading.groups is None) != (planned.discovery is not None):
        other = (
            "for groups of a public list. Give it (groups=)"
            if planned.discovery is None
            else "to discover groups"
        )
        raise InvalidRequest(f"{file} {other}")
