"""`Question`: what is asked of a log, who pays for it, and the mechanism that answers it. All of it is public."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, final

from accounting import Budget
from accounting.address import without_password
from accounting.arguments import Relation
from dpselect.cells import ANY_GROUPS
from dpselect.errors import DomainMismatch, InvalidRequest
from dpselect.events.reading import Reading
from dpselect.mechanisms import DiscoverThenSelect, LimitedDomain, Mechanism, PerGroup, SparseHistogram, TopOfGroups, WithValues
from dpselect.mechanisms.base import Pay
from dpselect.plan.candidates import (
    WHOLE_COUNTS,
    Choice,
    Grouping,
    default_choice,
    default_mechanism,
    unbounded,
    with_counts,
)
from dpselect.plan.counts import COUNTS, COUNTS_AGAIN, CountNoise, without_counts
from dpselect.plan.learn import LEARN, Informed, Learning, Learnt, learning_asked
from dpselect.plan.profile import Profile
from dpselect.plan.request import ALL, BudgetShare, TopKRequest
from dpselect.selection import Label
from dpselect.sensitivity import Norm, Sensitivity
from dpselect.spec import PayerFields, TopKSpec

if TYPE_CHECKING:  # a release without a ledger does without a database
    from accounting import Ledger


@final
@dataclass(frozen=True)
class Question:
    """What is asked of a log: public configuration, nothing that was read. `of` makes one.

    Attributes:
        source: as for `dpselect.events.read`.
        spec: what is asked, as it was stated.
        reading: how the log is read. Its `clip` is the one that is stated; the mechanism may bring its own.
        budget: what the release may cost, or all `releases` of them, charged one by one.
        domain: the public catalogue of items; None if the items are read off the log.
        learn: the share of epsilon by which the default learns what is not declared of users; 0 for none, None for the usual one
            where it can learn (`learns`).
        learnt: numbers that an earlier release of the same data learnt, in place of learning.
        learn_again: learn anew, though the ledger holds numbers that an earlier release learnt.
    """

    source: Any
    spec: TopKSpec
    reading: Reading
    budget: Budget
    domain: tuple[Label, ...] | None = None
    learn: float | None = None
    learnt: Profile | None = None
    learn_again: bool = False

    @classmethod
    def of(cls, source: Any, spec: TopKSpec) -> Self:
        """What a spec asks of a log; the files of public lists that it names are read.

        Raises:
            InvalidRequest: parts contradict each other.
        """
        if spec.engine == "spark" and not isinstance(source, str):
            raise InvalidRequest("engine='spark' reads one table or path, without several files")
        # A salt is that of the bound that the default may bring where none is stated, and no part of how the log is read without.
        unstated = all(one is None for one in (spec.max_items_per_user, spec.clip, spec.group, spec.value, spec.mechanism))
        observed = spec.domain is None or spec.min_users is not None
        whole = len(spec.periods) > 1 and spec.relation == "add_remove"
        unsalted = {"salt": None} if unstated and observed and not whole else {}
        question = cls(source, spec, spec.reading(**unsalted), _budget(spec), spec.catalogue(), **learning_asked(spec.learn))
        if spec.clip is not None and spec.with_counts and not question.recounted:
            raise InvalidRequest(WHOLE_COUNTS)
        if spec.min_users is not None and question.budget.delta == 0:
            raise InvalidRequest(
                f"min_users={spec.min_users} needs a delta, even with public items: whether an item has that many users may "
                "rest on one of them. Choose far less than 1 / users, for example 1e-6"
            )
        question._require_a_choice()
        return question

    def _require_a_choice(self) -> None:
        """Refuse what is said of users for the choice of a mechanism where nothing is chosen by it, or by other numbers."""
        spec = self.spec
        if self.learnt is not None and (self.learn or spec.users is not None or spec.items_per_user is not None):
            raise InvalidRequest("learn=FILE takes numbers that were learnt: leave out users= and items_per_user=")
        wanted = self.learnt is not None or self.learn or self.learn_again
        engine = self.learnt is not None and spec.engine != "memory"  # nothing is counted first
        if wanted and (name := _obstacle(self)) is not None and not (engine and name == "engine="):
            raise InvalidRequest(f"learn= chooses how users are counted, which does not go with {name}: leave one of them out")
        settled = "mechanism=" if spec.kind is not None else "value=" if spec.value is not None else None
        without_effect = ("as_set",) if self.recounted else ("as_set", "items_per_user", "users")
        if settled is not None and spec.planned is None and (given := spec.given(*without_effect)):
            raise InvalidRequest(
                f"{next(iter(given))}= is about which mechanism is chosen, and {settled} settles that: leave one of them out"
            )

    @property
    def k(self) -> int:
        """How many items may be released (of each group)."""
        if self.spec.k != "all":
            return self.spec.k
        return ALL if self.domain is None else len(self.domain)

    @property
    def domain_name(self) -> str:
        """What the catalogue is called."""
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
    def pay(self) -> Pay:
        """As for `Session.select`."""
        return "spent" if self.spec.pay_for_what_came_out else "curve"

    @property
    def tabled(self) -> bool:
        """Whether groups may be read as a table of cells: counts of users, in the engine that this process has."""
        reading = self.reading
        return reading.group is not None and reading.value is None and self.spec.engine == "memory" and not self.exchanged

    @property
    def recounted(self) -> bool:
        """Whether counts beside the items come from a second look at the log. They are the scores that chose in groups, where
        the log is read once, and where several periods are read at the price of one, which is that of whole counts."""
        return self.spec.with_counts and self.reading.group is None and not _whole_counts_alone(self)

    @property
    def exchanged(self) -> bool:
        """Whether one user's rows of one period may exchange what is counted of that user, where neighbours add or remove rows.

        Several periods are read together and users are bounded: without the rows of one period other rows are kept.
        """
        several = len(self.spec.periods) > 1
        bounded = any(getattr(self.reading, name) is not None for name in _BOUNDS)
        return several and self.spec.relation == "add_remove" and bounded

    @property
    def relation(self) -> Relation:
        """The relation whose price is paid."""
        return "replace_one" if self.exchanged else self.spec.relation

    @property
    def learns(self) -> float:
        """The share of epsilon that learning takes: as stated, or the usual one where nothing that is stated hinders it."""
        if self.learn is not None or self.learnt is not None:
            return self.learn or 0.0
        return LEARN if _obstacle(self) is None else 0.0

    @property
    def assumes(self) -> str | None:
        """That users are assumed to be as in other logs, and why, in words; None where they are known or do not matter."""
        spec = self.spec
        matters = spec.mechanism is None and (self.reading.value or self.reading.clip) is None
        declared = spec.items_per_user is not None and (spec.users is not None or self.reading.group is not None)
        if not matters or declared or self.learns or self.learnt is not None:
            return None
        why = _obstacle(self) or "learn=0"
        return (
            f"nothing is learnt with {why}, and the mechanism was chosen for users as in other logs: declare items_per_user= and "
            "users= if they are public"
        )

    def as_data(self) -> dict[str, Any]:
        """What is asked, as plain data: an answer that is kept says which question it answers.

        Left out is what changes no answer, such as how much memory reads it, and the salt, which is chance and not a question.
        """
        how = self.reading.model_dump(mode="json", exclude_defaults=True, exclude=UNASKED | {"groups"})
        if how.get("max_groups_per_user") == ANY_GROUPS:
            del how["max_groups_per_user"]  # nobody stated it
        asked = {"relation": self.spec.relation, "releases": self.releases} | self.spec.given(*_ASKED)
        if self.spec.kind is not None:
            asked["mechanism"] = self.spec.kind
        if self.learnt is not None:
            asked["learnt"] = self.learnt.as_data()
        if self.learn_again:
            asked["learn_again"] = True
        if self.learns:
            asked["learn"] = self.learns
        asked["budget"] = self.budget.model_dump(mode="json")
        if self.spec.planned is not None:
            asked["planned"] = json.loads(self.spec.planned.to_json())
        for name, called, held in (
            ("domain", self.domain_name, self.domain),
            ("groups", self.groups_name, self.reading.groups),
        ):
            if held is not None:
                asked[name] = {"name": called, "sha256": _digest(held)}
        return {"source": named(self.source), "reading": how, "release": asked}


UNASKED = {"buckets", "memory_limit", "salt"}
"""Fields of a reading that are not part of the question."""
_BOUNDS = ("max_items_per_user", "max_groups_per_user", "clip", "value")
_ASKED = ("k", "noise", "kbar", "items_per_user", "users", "as_set", "with_counts", "min_users")


def named(source: object) -> str | list[str]:
    """The log as it was named; a password in a URL is left out."""
    if isinstance(source, list | tuple):
        return [str(named(part)) for part in source]
    return without_password(source) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__} in memory"


def _digest(labels: Sequence[Label]) -> str:
    return hashlib.sha256(json.dumps(list(labels)).encode()).hexdigest()


def _obstacle(question: Question) -> str | None:
    """What is stated that settles how users are counted, or keeps them from being counted first; None if nothing does."""
    spec = question.spec
    stated = {
        "mechanism=": spec.kind,
        "value=": spec.value,
        "clip=": spec.clip,
        "a planned mechanism": spec.planned,
        "pay_for_what_came_out=": spec.pay_for_what_came_out or None,
        "several of period=": spec.periods if len(spec.periods) > 1 else None,
        "engine=": None if spec.engine == "memory" else spec.engine,
    }
    return next((name for name, given in stated.items() if given is not None), None)


def _name_of(stated: Any) -> str:
    if stated is None or isinstance(stated, str | PathLike):
        return str(stated)
    return f"a list of {len(stated):,} items"


_AMOUNTS = ("epsilon", "delta", "rho")


def _budget(spec: TopKSpec) -> Budget:
    """As stated. Releases that share a budget and are charged to a ledger share that of its dataset, where no other is stated."""
    declared = None
    if spec.ledger is not None and spec.releases is not None and spec.planned is None:
        with opened(spec) as ledger:
            declared = ledger.dataset(str(spec.dataset)).budget
    if declared is not None and all(getattr(spec, name) is None for name in _AMOUNTS):
        return declared
    if declared is not None and all((getattr(spec, name) or None) == (getattr(declared, name) or None) for name in _AMOUNTS):
        return declared  # with the order and the failure probability that its filter has
    return spec.budget


@contextmanager
def opened(payment: PayerFields) -> Iterator[Ledger]:
    """The ledger that pays; one that is named by its URL is closed at the end."""
    if not isinstance(payment.ledger, str):
        assert payment.ledger is not None, "who asks for the ledger has looked"
        yield payment.ledger
        return
    from accounting import Ledger  # a release without a ledger does without a database

    with Ledger.open(payment.ledger, create=False) as ledger:
        yield ledger


# -- the mechanism ----------------------------------------------------------------------------------------------------


def learns_about(question: Question, learning: Learning) -> str:
    """A digest of what a user's items are, and of which numbers are learnt.

    Rows of about as much time count as alike, to half a doubling: a month is like any other.
    """
    reading, window = question.reading, question.reading.window
    said: dict[str, Any] = {name: getattr(reading, name) for name in ("user", "item", "time", "table", "query")}
    if window is not None and window.since is not None and window.until is not None:
        said["days"] = round(2 * math.log2(max((window.until - window.since) / timedelta(days=1), 2**-40)))
    elif window is not None:
        said["open"] = [str(window.since), str(window.until)]
    said["domain"] = None if question.domain is None else _digest(question.domain)
    if reading.where:
        said["where"] = list(reading.where)
    if reading.group is not None:
        said["group"] = [reading.group, None if reading.groups is None else _digest(list(reading.groups))]
    said |= {"relation": question.relation, **learning.drawn}
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def choose_later(question: Question, whole: Budget | None = None) -> Informed | None:
    """What may be chosen once numbers of users are learnt; None where nothing is to be learnt.

    Raises:
        InvalidRequest, CalibrationError: as for `choose`.
    """
    spec, limit = question.spec, question.reading.max_items_per_user
    if not question.learns:
        return None
    _require_delta(question)
    known: Any = {"users": spec.users, "items_per_user": spec.items_per_user, "groups": _grouping(question)}
    request, order = request_of(question, whole), not spec.as_set
    return Informed.of(question.budget, request, share=question.learns, **known, limit=limit, order=order)


def _grouping(question: Question) -> Grouping | None:
    reading = question.reading
    if reading.max_groups_per_user is None:
        return None
    return Grouping(reading.max_groups_per_user, listed_groups(reading), question.tabled)


def listed_groups(reading: Reading) -> int | None:
    """How many groups a public list names; None where they are discovered."""
    return None if reading.groups is None else len(reading.groups)


def choose(question: Question, whole: Budget | None = None, known: Learnt | None = None) -> Choice:
    """The mechanism of the answer, and how the log is read for it; nothing private is looked at.

    Args:
        whole: the budget of the dataset that pays. A release that states a part of it takes no more than that part.
        known: what the ledger holds of users.

    Raises:
        InvalidRequest, DomainMismatch, RelationMismatch, CalibrationError: as for `dpselect.plan.default_choice`.
    """
    reading, spec = question.reading, question.spec
    clip, limit = _clip(reading), reading.max_items_per_user
    if spec.planned is not None:
        return _planned(question, spec.planned)
    _require_delta(question)
    request = request_of(question, whole)
    groups = _grouping(question)
    if groups is not None and groups.most == ANY_GROUPS and (spec.kind is not None or not groups.tabled):
        unbounded()
    profile = question.learnt if known is None else known.profile
    chosen = groups is not None or (reading.value is None and not _whole_counts_alone(question))
    if profile is not None or (chosen and spec.kind is None):
        users = None if groups else spec.users
        profile = profile or Profile.typical(users, spec.items_per_user, in_a_group=groups is not None)
        bounds: Any = {"max_items_per_user": limit, "clip": clip, "norm": None if clip is None else _norm(question)}
        return default_choice(question.budget, request, **bounds, groups=groups, profile=profile, order=not spec.as_set)
    asked = request.model_copy(update={"sensitivity": _sensitivity(question)})
    kind = spec.kind
    if kind is None and (question.domain is None or spec.min_users is not None):
        shown_by_rank = reading.value is None and spec.min_users is None
        kind = LimitedDomain.__name__ if shown_by_rank else SparseHistogram.__name__
    found = default_mechanism(question.budget, asked, kind=kind, groups=groups)
    if question.recounted:
        profile = Profile.typical(spec.users, spec.items_per_user)
        found = with_counts(without_counts(found), CountNoise.of(asked, question.budget), profile, asked)
    return Choice(found, limit) if reading.value is not None else Choice(found, limit, clip, _norm(question))


def _require_delta(question: Question) -> None:
    if question.domain is None and question.budget.delta == 0 and question.spec.mechanism is None:
        raise InvalidRequest(
            "delta= is missing: without a public list of items (domain=) it is needed; choose far less than 1 / users, for "
            "example 1e-6"
        )


def request_of(question: Question, whole: Budget | None) -> TopKRequest:
    """What a plan is asked; `whole` is the budget of the dataset that pays."""
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
        share=None if whole is None or spec.use_everything else BudgetShare.of(question.budget, question.releases, whole),
    )


def _whole_counts_alone(question: Question) -> bool:
    """Whether the default may not bound users on its own: several periods are read together, for the price of one."""
    several = len(question.spec.periods) > 1
    return several and not question.exchanged and question.spec.relation == "add_remove"


def _clip(reading: Reading) -> float | None:
    assert not isinstance(reading.clip, tuple), "checked by Question"
    return reading.clip


def _norm(question: Question) -> Norm:
    """That which the noise pays for: l1 for laplace noise and pure budgets."""
    if question.spec.planned is not None:
        return "l1" if question.spec.planned.covers.l1 is not None else "l2"
    return "l1" if question.spec.noise == "laplace" or question.budget.form == "pure" else "l2"


def _sensitivity(question: Question) -> Sensitivity:
    """That of the scores that the log will give."""
    reading = question.reading
    if (ends := reading.value_clip) is not None:
        low, high = ends if isinstance(ends, tuple) else (0.0, ends)
        return Sensitivity.of_sums(low, high, question.relation, reading.max_items_per_user)
    if (clip := _clip(reading)) is None:
        return Sensitivity.of_counts(question.relation, reading.max_items_per_user)
    return Sensitivity.of_clipped(clip, _norm(question), question.relation, reading.max_items_per_user)


def _planned(question: Question, planned: Mechanism) -> Choice:
    """The planned mechanism, if it can do what is asked; said before a long read."""
    cells = _require_groups(question, planned)
    if not question.budget.admits(planned.curve):  # what is stated for a release is its ceiling, whoever chose the noise
        stated = ", ".join(f"{name}={value:g}" for name in _AMOUNTS if (value := getattr(question.budget, name)))
        raise InvalidRequest(
            f"mechanism= names a {type(planned).__name__} that costs more than the budget of this release ({stated}): "
            "plan one for this budget"
        )
    if question.spec.with_counts and not planned.releases_values:
        name = type(planned).__name__
        raise InvalidRequest(f"{name} was planned without counts: plan with with_counts=, or leave it out here")
    planned.covers.require(_sensitivity(question))
    if question.domain is None and not planned.takes_observed:
        raise DomainMismatch(
            f"{type(planned).__name__} was planned for a public domain: give its catalogue (domain=, or domain in [data]), or "
            "plan with unknown_domain="
        )
    clip = _clip(question.reading)
    selecting = without_counts(planned)
    again = selecting.again if isinstance(selecting, DiscoverThenSelect) and clip is not None else None
    for look in (again, planned.clip if isinstance(planned, WithValues) else None):
        if look is not None:  # what no reader can do is said before the charge
            question.reading.model_copy(update={"clip": look}).contributions()
    return Choice(planned, question.reading.max_items_per_user, clip, _norm(question), again, cells=cells)


def _require_groups(question: Question, planned: Mechanism) -> bool:
    """Whether it was planned for a table of cells; refuse a mechanism that was planned for other groups."""
    reading = question.reading
    if isinstance(planned, TopOfGroups):
        if not question.tabled:
            raise InvalidRequest(
                "the mechanism in the file was planned for cells of groups and items: name the column of groups (group=), "
                "and leave value= and engine= out"
            )
        if question.domain is not None and reading.groups is None:
            raise InvalidRequest("a table of public items has public groups: list them (groups=)")
        if reading.max_groups_per_user != ANY_GROUPS:
            raise InvalidRequest(
                "max_groups_per_user= bounds users for a selection in each group, and the planned mechanism has one norm over "
                "all groups of a user: leave it out"
            )
        return True
    if not isinstance(planned, PerGroup):
        if reading.group is None:
            return False
        raise InvalidRequest(
            "the mechanism in the file was planned for a log as a whole: with group= state the budget (epsilon=)"
        )
    if reading.group is None:
        raise InvalidRequest("the mechanism in the file was planned for every group: name their column (group=)")
    if (reading.max_groups_per_user or 0) > planned.max_groups_per_user:
        raise InvalidRequest(f"max_groups_per_user= must be at most {planned.max_groups_per_user}, as planned")
    if (reading.groups is None) != (planned.discovery is not None):
        other = "for groups of a public list: give it (groups=)" if planned.discovery is None else "to discover groups"
        raise InvalidRequest(f"the mechanism in the file was planned {other}")
    return False
