"""What is asked of a log, and the mechanism and the reading that it is given: by what is public alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from accounting import Budget, Relation
from dpselect import Mechanism, Sensitivity, TopKRequest, events, fitted, mechanisms
from dpselect.choose.counts import COUNTS
from dpselect.choose.defaults import WHOLE_COUNTS, Choice, default_choice, default_group_choice, default_groups, default_mechanism
from dpselect.cli.payment import Charge
from dpselect.errors import DomainMismatch, EventLogError, InvalidRequest
from dpselect.events import Format
from dpselect.events.contributions import Norm, measures
from dpselect.events.doors.parts import Part
from dpselect.events.time_window import Unit, Window, window
from dpselect.mechanisms.traits import Pay
from dpselect.noise import NoiseName
from dpselect.selection import Label, Selection

Keeper = Literal["memory", "duckdb", "spark"]
"""Where counts stay until they are drawn from: here, in the embedded engine on disk, or on a Spark cluster."""


@dataclass(frozen=True)
class Question:
    """What is asked of a log: public configuration, nothing that was read.

    `planned` is a mechanism that a plan has chosen, whose noise makes `releases` of them cost the budget; without it the noise is
    chosen so that the budget pays for `releases`, charged one by one. With `group` it is asked of every group; `groups` is a
    public list of these.
    """

    log: str | tuple[str, ...] | Path | Part
    user: str
    item: str | tuple[str, ...]
    k: int
    budget: Budget
    domain: Path | None = None
    domain_column: str | None = None
    mechanism: str | None = None
    noise: NoiseName | None = None
    kbar: int | None = None
    group: str | None = None
    groups: Path | None = None
    groups_column: str | None = None
    max_groups_per_user: int | None = None
    max_items_per_user: int | None = None
    clip: float | None = None
    value: str | None = None
    value_clip: tuple[float, float] | None = None
    time: str | None = None
    since: str | None = None
    until: str | None = None
    time_zone: str = "UTC"
    time_unit: Unit | None = None
    items_per_user: float | None = None
    salt: str | None = None
    relation: Relation = "add_remove"
    format: Format = "auto"
    header: bool | None = None
    table: str | None = None
    query: str | None = None
    engine: Keeper = "memory"
    buckets: int | None = None
    memory_limit: str | None = None
    ledger: str | None = None
    dataset: str | None = None
    period: tuple[str, ...] = ()
    team: str | None = None
    purpose: str | None = None
    key: str | None = None
    planned: Mechanism | None = None
    releases: int = 1
    with_counts: bool = False
    pay: Pay = "curve"

    @property
    def window(self) -> Window | None:
        return window(self.time, self.since, self.until, self.time_zone, self.time_unit)


@dataclass(frozen=True)
class Answer:
    """A release with everything that is public about it.

    Attributes:
        reading: how users' contributions were bounded for the mechanism.
        salt: what chose the items kept under the bound on contributions; None without a bound.
        charge: what paid for it; None without a ledger.
    """

    question: Question
    mechanism: Mechanism
    selection: Selection
    reading: Choice
    salt: str | None
    charge: Charge | None = None


def catalogue_of(question: Question) -> list[Label] | None:
    """The public catalogue, if there is one."""
    if question.domain is not None:
        return events.read_catalogue(question.domain, question.domain_column, item=question.item)
    if question.domain_column is not None:
        raise InvalidRequest(f"--domain-column={question.domain_column!r} is a column of no catalogue: give --domain too")
    return None


def groups_of(question: Question) -> list[Label] | None:
    """The public list of groups, once all that is said about groups goes together."""
    about = question.groups, question.groups_column, question.max_groups_per_user
    if question.group is None and about != (None, None, None):
        raise InvalidRequest("--groups, --groups-column and --max-groups-per-user are about the column --group: name it too")
    if question.group is not None and question.max_groups_per_user is None:
        raise InvalidRequest("--group needs --max-groups-per-user: a release costs as much as that many of one group")
    if question.groups is not None:
        return events.read_catalogue(question.groups, question.groups_column, item=question.group)
    if question.groups_column is not None:
        raise InvalidRequest(f"--groups-column={question.groups_column!r} is a column of no list: give --groups too")
    return None


def _require_held(question: Question) -> None:
    if question.engine == "duckdb" and question.group is not None:
        raise InvalidRequest("--group is counted in memory: leave out --engine duckdb")
    foreign = [name for name in ("table", "query", "buckets", "memory_limit") if getattr(question, name) is not None]
    if question.engine == "spark" and (foreign or not isinstance(question.log, str)):
        raise InvalidRequest(f"--engine spark reads one table or path, without {', '.join(foreign) or 'several files'}")


def _require_sums(question: Question, *, public: bool) -> None:
    if (question.value is None) != (question.value_clip is None):
        raise InvalidRequest("--value names a column, --value-clip the most that a user may add to an item: give both or neither")
    if question.value is None or question.value_clip is None:
        return
    for_counts = {"--clip": question.clip, "--with-counts": question.with_counts or None, "--group": question.group}
    for option, given in for_counts.items():
        if given is not None:
            raise InvalidRequest(f"{option} is for counts of users, and --value sums up a column: leave one of them out")
    if not public and question.value_clip[0] < 0:
        raise InvalidRequest("sums that may be negative need a public catalogue (--domain), or --value-clip from 0")
    if not public and question.max_items_per_user is None:
        raise InvalidRequest("--value without a catalogue needs --max-items-per-user: what a user alone brings in must be hidden")
    try:
        measures(None, "l2", question.value, question.value_clip)  # before noise is looked for at sizes that no log is read with
    except EventLogError as error:
        raise InvalidRequest(f"--value-clip: {error}") from None


def configured(question: Question) -> Mechanism:
    """The mechanism of the answer, from what is public: its catalogue is read unless it was planned, its log is not."""
    return question.planned if question.planned is not None else chosen(question).mechanism


def chosen(question: Question) -> Choice:
    """The mechanism, and how the log is read for it; nothing private is looked at."""
    return choice_of(question, catalogue_of(question))


def choice_of(question: Question, catalogue: list[Label] | None) -> Choice:
    """The mechanism, and how the log is read for it, once all that is asked goes together."""
    clip, norm, limit = question.clip, _norm(question), question.max_items_per_user
    _require_held(question)
    if clip is not None and question.with_counts:
        raise InvalidRequest(WHOLE_COUNTS)
    groups_of(question)
    _require_sums(question, public=catalogue is not None)
    if (planned := question.planned) is not None:
        _require_groups(question, planned)
        again = planned.again if isinstance(planned, mechanisms.DiscoverThenSelect) and clip is not None else None
        return Choice(_checked(planned, question, catalogue), limit, clip, norm, again)
    request = TopKRequest(
        k=question.k,
        sensitivity=Sensitivity.of_counts(question.relation, limit),
        candidates=None if catalogue is None else len(catalogue),
        kbar=question.kbar,
        noise=question.noise,
        releases=question.releases,
        counts=COUNTS if question.with_counts else None,
    )
    if question.group is not None and question.max_groups_per_user is not None:
        return _of_groups(question, request, question.max_groups_per_user)
    if question.value is None and question.mechanism is None:
        return default_choice(question.budget, request, **_bounds(question))
    asked = request.model_copy(update={"sensitivity": _sensitivity(question)})
    kind = question.mechanism or (mechanisms.SparseHistogram.__name__ if catalogue is None else None)
    found = default_mechanism(question.budget, asked) if kind is None else fitted(kind, question.budget, asked)
    return Choice(found, limit) if question.value is not None else Choice(found, limit, clip, norm)


def _bounds(question: Question) -> Any:
    """What is stated about one user's items."""
    norm = None if question.clip is None else _norm(question)
    stated = {name: getattr(question, name) for name in ("max_items_per_user", "clip", "items_per_user")}
    return {**stated, "norm": norm}


def _of_groups(question: Question, request: TopKRequest, most: int) -> Choice:
    """For every group, its items bounded and clipped within it."""
    discover = question.groups is None
    if question.mechanism is None:
        return default_group_choice(question.budget, request, most, discover=discover, **_bounds(question))
    asked = request.model_copy(update={"sensitivity": _sensitivity(question)})
    found = default_groups(question.budget, asked, most, kind=question.mechanism, discover=discover)
    return Choice(found, question.max_items_per_user, question.clip, _norm(question))


def _require_groups(question: Question, planned: Mechanism) -> None:
    """Refuse a mechanism that was planned for other groups; said before a long read."""
    if not isinstance(planned, mechanisms.PerGroup):
        if question.group is None:
            return
        words = "the mechanism in the file was planned for a log as a whole: with --group state the budget (--epsilon)"
        raise InvalidRequest(words)
    if question.group is None:
        raise InvalidRequest("the mechanism in the file was planned for every group: name their column (--group)")
    if (question.max_groups_per_user or 0) > planned.max_groups_per_user:
        raise InvalidRequest(f"--max-groups-per-user must be at most {planned.max_groups_per_user}, as planned")
    if (question.groups is None) != (planned.discovery is not None):
        other = "for groups of a public list: give it (--groups)" if planned.discovery is None else "to discover groups"
        raise InvalidRequest(f"the mechanism in the file was planned {other}")


def _sensitivity(question: Question) -> Sensitivity:
    """That of the scores that the log will give."""
    if question.value_clip is not None:
        return Sensitivity.of_sums(*question.value_clip, question.relation, question.max_items_per_user)
    if question.clip is None:
        return Sensitivity.of_counts(question.relation, question.max_items_per_user)
    return Sensitivity.of_clipped(question.clip, _norm(question), question.relation, question.max_items_per_user)


def _checked(planned: Mechanism, question: Question, catalogue: list[Label] | None) -> Mechanism:
    """The planned mechanism, if it can do what is asked; said before a long read."""
    if question.with_counts and not planned.releases_values:
        name = type(planned).__name__
        raise InvalidRequest(f"{name} was planned without counts: plan with --with-counts, or leave it out here")
    planned.covers.require(_sensitivity(question))
    if catalogue is None and not planned.takes_observed:
        raise DomainMismatch(
            f"{type(planned).__name__} was planned for a public domain: give its catalogue (--domain, or domain in [data]), or "
            "plan with --unknown-domain"
        )
    return planned


def _norm(question: Question) -> Norm:
    """That which the noise pays for: l1 for laplace noise and pure budgets."""
    if question.planned is not None:
        return "l1" if question.planned.covers.l1 is not None else "l2"
    return "l1" if question.noise == "laplace" or question.budget.form == "pure" else "l2"
