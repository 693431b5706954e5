"""`Question`: what is asked of a log, who pays for it, and the mechanism that answers it. All of it is public."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, final

from accounting import Budget, Relation
from accounting.address import without_password
from dpselect.errors import DomainMismatch, InvalidRequest
from dpselect.events.reading import Reading
from dpselect.mechanisms import DiscoverThenSelect, LimitedDomain, Mechanism, PerGroup, SparseHistogram, WithValues
from dpselect.mechanisms.base import Pay
from dpselect.noise import NoiseName
from dpselect.plan.candidates import (
    WHOLE_COUNTS,
    Choice,
    default_choice,
    default_group_choice,
    default_groups,
    default_mechanism,
    with_counts,
)
from dpselect.plan.counts import COUNTS, COUNTS_AGAIN, CountNoise, without_counts
from dpselect.plan.fit import fitted
from dpselect.plan.learn import LEARN, Informed, Learning, Learnt
from dpselect.plan.profile import Profile
from dpselect.plan.request import BudgetShare, TopKRequest
from dpselect.selection import Label
from dpselect.sensitivity import Norm, Sensitivity

if TYPE_CHECKING:  # a release without a ledger does without a database
    from accounting import Ledger

Keeper = Literal["memory", "duckdb", "spark"]
"""Where counts stay until they are drawn from: here, in the embedded engine on disk, or on a Spark cluster."""


@final
@dataclass(frozen=True)
class Release:
    """What is released, and for which budget.

    Attributes:
        k: how many items, of every group where the reading has groups.
        budget: what the release may cost, or all `releases` of them, charged one by one.
        relation: what neighbouring logs differ by.
        domain: a public catalogue of items; None if the items are read off the log.
        domain_name: what it is called: the file's name, for example.
        groups_name: likewise of the public list of groups.
        mechanism, noise, kbar: as for `dpselect.fitted`; None for the default.
        items_per_user: a public guess of how many items users have, for the default.
        users: a public guess of how many users there are, likewise.
        learn: the share of epsilon by which the default learns what is not declared of these two; 0 for none, None for the
            usual one where it can learn (`Question.learns`).
        learnt: numbers that an earlier release of the same data learnt, in place of learning.
        learn_again: learn anew, though the ledger holds numbers that an earlier release learnt.
        as_set: whether a set of items will do, for the default: it then considers mechanisms that do not release the order.
        with_counts: whether noisy counts of the items are released too.
        min_users: the fewest distinct users of an item that is shown, whatever the noise; None for no such rule.
        releases: how many such releases share the budget.
        planned: a mechanism that a plan chose; its noise is not chosen again.
        everything: lets the release take more of the ledger's budget than the part that it states.
        pay: as for `Session.select`.
    """

    k: int
    budget: Budget
    relation: Relation = "add_remove"
    domain: tuple[Label, ...] | None = None
    domain_name: str | None = None
    groups_name: str | None = None
    mechanism: str | None = None
    noise: NoiseName | None = None
    kbar: int | None = None
    items_per_user: float | None = None
    users: float | None = None
    learn: float | None = None
    learnt: Profile | None = None
    learn_again: bool = False
    as_set: bool = False
    with_counts: bool = False
    min_users: int | None = None
    releases: int = 1
    planned: Mechanism | None = None
    everything: bool = False
    pay: Pay = "curve"


@final
@dataclass(frozen=True)
class Payment:
    """What pays for a release: a dataset of a ledger.

    Attributes:
        ledger: a ledger that is open, or its URL.
        dataset: name of the dataset.
        period: the periods whose rows are read, where it has a budget for each.
        key: idempotency key; None for a fresh one.
        team, purpose: as for `Session`.
    """

    ledger: str | Ledger
    dataset: str
    period: tuple[str, ...] = ()
    key: str | None = None
    team: str | None = None
    purpose: str | None = None


@final
@dataclass(frozen=True)
class Question:
    """What is asked of a log: public configuration, nothing that was read.

    Attributes:
        source: as for `dpselect.events.read`.
        reading: how it is read. Its `clip` is the one that is stated; the mechanism may bring its own.
        release: what is released, for which budget.
        payment: what pays; None where no ledger keeps account.
        engine: where the counts stay until they are drawn from.

    Raises:
        InvalidRequest: parts contradict each other.
    """

    source: Any
    reading: Reading
    release: Release
    payment: Payment | None = None
    engine: Keeper = "memory"

    def __post_init__(self) -> None:
        _require_bounds(self.reading)
        _require_sums(self.reading, self.release)
        if self.reading.clip is not None and self.release.with_counts and not self.recounted:
            raise InvalidRequest(WHOLE_COUNTS)
        _require_floor(self)
        if self.release.pay != "curve" and self.payment is None:
            raise InvalidRequest("pay_for_what_came_out= needs ledger= and dataset=: without them nothing adds prices up")
        _require_learnable(self)
        if self.engine == "duckdb" and self.reading.group is not None:
            raise InvalidRequest("group= is counted in memory: leave out engine='duckdb'")
        foreign = [name for name in ("table", "query", "buckets", "memory_limit") if getattr(self.reading, name) is not None]
        if self.engine == "spark" and (foreign or not isinstance(self.source, str)):
            without = ", ".join(f"{name}=" for name in foreign) or "several files"
            raise InvalidRequest(f"engine='spark' reads one table or path, without {without}")

    @property
    def recounted(self) -> bool:
        """Whether counts beside the items come from a second look at the log. They are the scores that chose in groups, where
        the log is read once, and where several periods are read at the price of one, which is that of whole counts."""
        return self.release.with_counts and self.reading.group is None and not _whole_counts_alone(self)

    @property
    def exchanged(self) -> bool:
        """Whether one user's rows of one period may exchange what is counted of that user, where neighbours add or remove rows.

        Several periods are read together and users are bounded: without the rows of one period other rows are kept.
        """
        several = self.payment is not None and len(self.payment.period) > 1
        bounded = any(getattr(self.reading, name) is not None for name in _BOUNDS)
        return several and self.release.relation == "add_remove" and bounded

    @property
    def relation(self) -> Relation:
        """The relation whose price is paid."""
        return "replace_one" if self.exchanged else self.release.relation

    @property
    def learns(self) -> float:
        """The share of epsilon that learning takes: as stated, or the usual one where nothing that is stated hinders it."""
        if self.release.learn is not None or self.release.learnt is not None:
            return self.release.learn or 0.0
        return LEARN if _obstacle(self) is None else 0.0

    @property
    def assumes(self) -> str | None:
        """That users are assumed to be as in other logs, and why, in words; None where they are known or do not matter."""
        release = self.release
        matters = release.mechanism is None and release.planned is None and (self.reading.value or self.reading.clip) is None
        declared = release.items_per_user is not None and (release.users is not None or self.reading.group is not None)
        if not matters or declared or self.learns or release.learnt is not None:
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
        what = asdict(replace(self.release, domain=None, planned=None, learnt=None, budget=Budget(epsilon=1.0)))
        asked = {name: value for name, value in what.items() if name not in _ELSEWHERE and value not in (None, False)}
        if self.learns:
            asked["learn"] = self.learns
        asked["budget"] = self.release.budget.model_dump(mode="json")
        if self.release.learnt is not None:
            asked["learnt"] = self.release.learnt.as_data()
        if self.release.planned is not None:
            asked["planned"] = json.loads(self.release.planned.to_json())
        for name, listed in (("domain", self.release.domain), ("groups", self.reading.groups)):
            if listed is not None:
                asked[name] = {"name": asked.pop(f"{name}_name", None), "sha256": _digest(listed)}
        return {"source": _named(self.source), "reading": how, "release": asked}


UNASKED = {"buckets", "memory_limit", "salt"}
"""Fields of a reading that are not part of the question."""
_BOUNDS = ("max_items_per_user", "max_groups_per_user", "clip", "value")
_ELSEWHERE = ("domain", "planned", "budget", "pay", "everything")


def _named(source: object) -> str | list[str]:
    """The log as it was named; a password in a URL is left out."""
    if isinstance(source, list | tuple):
        return [str(_named(part)) for part in source]
    return without_password(source) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__} in memory"


def _digest(labels: Sequence[Label]) -> str:
    return hashlib.sha256(json.dumps(list(labels)).encode()).hexdigest()


def _require_bounds(reading: Reading) -> None:
    if reading.within is not None or isinstance(reading.clip, tuple):
        raise InvalidRequest("a question has domain= in place of within=, and one clip=, not several")
    if reading.clip_norm != "l2":
        raise InvalidRequest("clip_norm= follows from the budget and the noise: leave it out")


def _obstacle(question: Question) -> str | None:
    """What is stated that settles how users are counted, or keeps them from being counted first; None if nothing does."""
    release, reading = question.release, question.reading
    stated = {
        "mechanism=": release.mechanism,
        "value=": reading.value,
        "clip=": reading.clip,
        "a planned mechanism": release.planned,
        "pay_for_what_came_out=": None if release.pay == "curve" else release.pay,
        "several of period=": None if question.payment is None or len(question.payment.period) < 2 else question.payment.period,
        "engine=": None if question.engine == "memory" else question.engine,
    }
    return next((name for name, given in stated.items() if given is not None), None)


def _require_learnable(question: Question) -> None:
    release = question.release
    if release.learnt is not None and (release.learn or release.users is not None or release.items_per_user is not None):
        raise InvalidRequest("learn=FILE takes numbers that were learnt: leave out users= and items_per_user=")
    wanted = release.learnt is not None or release.learn or release.learn_again
    engine = release.learnt is not None and question.engine != "memory"  # nothing is counted first
    if wanted and (name := _obstacle(question)) is not None and not (engine and name == "engine="):
        raise InvalidRequest(f"learn= chooses how users are counted, which does not go with {name}: leave one of them out")


def _require_floor(question: Question) -> None:
    release = question.release
    if release.min_users is None:
        return
    if release.planned is not None or question.reading.value is not None:
        other = "value= sums up a column" if release.planned is None else "the mechanism in the file was planned without it"
        raise InvalidRequest(f"min_users= is about distinct users, and {other}: leave one of them out")
    if release.budget.delta == 0:
        raise InvalidRequest(
            f"min_users={release.min_users} needs a delta, even with public items: whether an item has that many users may "
            "rest on one of them. Choose far less than 1 / users, for example 1e-6"
        )


def _require_sums(reading: Reading, release: Release) -> None:
    if reading.value is None:
        return
    for option, given in {"clip=": reading.clip, "with_counts=": release.with_counts or None, "group=": reading.group}.items():
        if given is not None:
            raise InvalidRequest(f"{option} is for counts of users, and value= sums up a column: leave one of them out")
    if release.domain is None and _ends(reading)[0] < 0:
        raise InvalidRequest("sums that may be negative need a public catalogue (domain=), or value_clip= from 0")
    if release.domain is None and reading.max_items_per_user is None:
        raise InvalidRequest(
            "value= without a public catalogue (domain=) needs max_items_per_user=: what a user alone brings in must be hidden"
        )


def _ends(reading: Reading) -> tuple[float, float]:
    """What a user's sum of one item is cut to."""
    clip = reading.value_clip
    assert clip is not None, "a reading of sums has both"
    return clip if isinstance(clip, tuple) else (0.0, clip)


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
    said["domain"] = None if question.release.domain is None else _digest(question.release.domain)
    if reading.group is not None:
        said["group"] = [reading.group, None if reading.groups is None else _digest(list(reading.groups))]
    said |= {"relation": question.relation, **learning.drawn}
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def choose_later(question: Question, whole: Budget | None = None) -> Informed | None:
    """What may be chosen once numbers of users are learnt; None where nothing is to be learnt.

    Raises:
        InvalidRequest, CalibrationError: as for `choose`.
    """
    release, limit = question.release, question.reading.max_items_per_user
    if not question.learns:
        return None
    _require_delta(release)
    known: Any = {"users": release.users, "items_per_user": release.items_per_user}
    if question.reading.group is not None:
        known |= {"max_groups_per_user": question.reading.max_groups_per_user, "groups": listed_groups(question.reading)}
    request, order = _request(question, whole), not release.as_set
    return Informed.of(release.budget, request, share=question.learns, **known, limit=limit, order=order)


def listed_groups(reading: Reading) -> int | None:
    """How many groups a public list names; None where they are discovered."""
    return None if reading.groups is None else len(reading.groups)


def choose(question: Question, whole: Budget | None = None, known: Learnt | None = None) -> Choice:
    """The mechanism of the answer, and how the log is read for it; nothing private is looked at.

    Args:
        whole: the budget of the dataset that pays. A release that states a part of it takes no more than that part.
        known: what the ledger holds of users.

    Raises:
        InvalidRequest, DomainMismatch, RelationMismatch, CalibrationError: as for `dpselect.default_choice`.
    """
    reading, release = question.reading, question.release
    clip, limit = _clip(reading), reading.max_items_per_user
    if release.planned is not None:
        return _planned(question, release.planned)
    _require_delta(release)
    request = _request(question, whole)
    bounds: Any = {"max_items_per_user": limit, "clip": clip, "items_per_user": release.items_per_user}
    bounds["norm"] = None if clip is None else _norm(question)
    if reading.max_groups_per_user is not None:
        discover = reading.groups is None
        if release.mechanism is None:
            bounds["profile"] = release.learnt if known is None else known.profile
            return default_group_choice(release.budget, request, reading.max_groups_per_user, discover=discover, **bounds)
        asked = request.model_copy(update={"sensitivity": _sensitivity(question)})
        found: Mechanism = default_groups(
            release.budget, asked, reading.max_groups_per_user, kind=release.mechanism, discover=discover
        )
        return Choice(found, limit, clip, _norm(question))
    profile = release.learnt if known is None else known.profile
    if profile is not None or (reading.value is None and release.mechanism is None and not _whole_counts_alone(question)):
        return default_choice(release.budget, request, **bounds, users=release.users, order=not release.as_set, profile=profile)
    asked = request.model_copy(update={"sensitivity": _sensitivity(question)})
    kind = release.mechanism
    if kind is None and (release.domain is None or release.min_users is not None):
        shown_by_rank = reading.value is None and release.min_users is None
        kind = LimitedDomain.__name__ if shown_by_rank else SparseHistogram.__name__
    found = default_mechanism(release.budget, asked) if kind is None else fitted(kind, release.budget, asked)
    if question.recounted:
        profile = Profile.typical(release.users, release.items_per_user)
        found = with_counts(without_counts(found), CountNoise.of(asked, release.budget), profile, asked)
    return Choice(found, limit) if reading.value is not None else Choice(found, limit, clip, _norm(question))


def _require_delta(release: Release) -> None:
    if release.domain is None and release.budget.delta == 0 and release.mechanism is None and release.planned is None:
        raise InvalidRequest(
            "delta= is missing: without a public list of items (domain=) it is needed; choose far less than 1 / users, for "
            "example 1e-6"
        )


def _request(question: Question, whole: Budget | None) -> TopKRequest:
    release = question.release
    return TopKRequest(
        k=release.k,
        sensitivity=Sensitivity.of_counts(question.relation, question.reading.max_items_per_user),
        candidates=None if release.domain is None else len(release.domain),
        min_users=release.min_users,
        kbar=release.kbar,
        noise=release.noise,
        releases=release.releases,
        counts=(COUNTS_AGAIN if question.recounted else COUNTS) if release.with_counts else None,
        recounted=question.recounted,
        share=None if whole is None or release.everything else BudgetShare.of(release.budget, release.releases, whole),
    )


def _whole_counts_alone(question: Question) -> bool:
    """Whether the default may not bound users on its own: several periods are read together, for the price of one."""
    several = question.payment is not None and len(question.payment.period) > 1
    return several and not question.exchanged and question.release.relation == "add_remove"


def _clip(reading: Reading) -> float | None:
    assert not isinstance(reading.clip, tuple), "checked by Question"
    return reading.clip


def _norm(question: Question) -> Norm:
    """That which the noise pays for: l1 for laplace noise and pure budgets."""
    if question.release.planned is not None:
        return "l1" if question.release.planned.covers.l1 is not None else "l2"
    return "l1" if question.release.noise == "laplace" or question.release.budget.form == "pure" else "l2"


def _sensitivity(question: Question) -> Sensitivity:
    """That of the scores that the log will give."""
    reading = question.reading
    if reading.value is not None:
        return Sensitivity.of_sums(*_ends(reading), question.relation, reading.max_items_per_user)
    if (clip := _clip(reading)) is None:
        return Sensitivity.of_counts(question.relation, reading.max_items_per_user)
    return Sensitivity.of_clipped(clip, _norm(question), question.relation, reading.max_items_per_user)


def _planned(question: Question, planned: Mechanism) -> Choice:
    """The planned mechanism, if it can do what is asked; said before a long read."""
    _require_groups(question, planned)
    if question.release.with_counts and not planned.releases_values:
        name = type(planned).__name__
        raise InvalidRequest(f"{name} was planned without counts: plan with with_counts=, or leave it out here")
    planned.covers.require(_sensitivity(question))
    if question.release.domain is None and not planned.takes_observed:
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
    return Choice(planned, question.reading.max_items_per_user, clip, _norm(question), again)


def _require_groups(question: Question, planned: Mechanism) -> None:
    """Refuse a mechanism that was planned for other groups."""
    reading = question.reading
    if not isinstance(planned, PerGroup):
        if reading.group is None:
            return
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
