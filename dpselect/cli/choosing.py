"""From a question to a mechanism and to how the log is read for it: by what is public alone."""

from __future__ import annotations

from typing import Any

from dpselect import events
from dpselect.calibration import fitted
from dpselect.cli.question import Question, require_sums
from dpselect.counts import COUNTS
from dpselect.default_groups import default_group_choice, default_groups
from dpselect.defaults import WHOLE_COUNTS, Choice, default_choice, default_mechanism
from dpselect.errors import DomainMismatch, InvalidRequest
from dpselect.events.clipping import Norm
from dpselect.mechanisms import DiscoverThenSelect, Mechanism, PerGroup, SparseHistogram
from dpselect.request import TopKRequest
from dpselect.selection import Label
from dpselect.sensitivity import Sensitivity


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


def configured(question: Question) -> Mechanism:
    """The mechanism of the answer, from what is public: its catalogue is read unless it was planned, its log is not.

    Raises:
        AccountingError: as `answer`.
    """
    return question.planned if question.planned is not None else chosen(question).mechanism


def chosen(question: Question) -> Choice:
    """The mechanism, and how the log is read for it; nothing private is looked at.

    Raises:
        AccountingError: as `answer`.
    """
    return choice_of(question, catalogue_of(question))


def choice_of(question: Question, catalogue: list[Label] | None) -> Choice:
    """The mechanism, and how the log is read for it, once all that is asked goes together."""
    clip, norm, limit = question.clip, _norm(question), question.max_items_per_user
    _require_held(question)
    if clip is not None and question.with_counts:
        raise InvalidRequest(WHOLE_COUNTS)
    groups_of(question)
    require_sums(question, public=catalogue is not None)
    if question.planned is not None:
        _require_groups(question, question.planned)
        again = question.planned.again if isinstance(question.planned, DiscoverThenSelect) and clip is not None else None
        return Choice(_checked(question.planned, question, catalogue), limit, clip, norm, again)
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
    if question.value is not None:
        asked = request.model_copy(update={"sensitivity": _sensitivity(question)})
        kind = question.mechanism or (SparseHistogram.__name__ if catalogue is None else None)
        return Choice(default_mechanism(question.budget, asked) if kind is None else fitted(kind, question.budget, asked), limit)
    if question.mechanism is None:
        return default_choice(question.budget, request, **_bounds(question))
    asked = request.model_copy(update={"sensitivity": _sensitivity(question)})
    return Choice(fitted(question.mechanism, question.budget, asked), limit, clip, norm)


def _bounds(question: Question) -> Any:
    """What is stated about one user's items."""
    return {
        "max_items_per_user": question.max_items_per_user,
        "clip": question.clip,
        "norm": None if question.clip is None else _norm(question),
        "items_per_user": question.items_per_user,
    }


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
    if not isinstance(planned, PerGroup):
        if question.group is not None:
            words = "the mechanism in the file was planned for a log as a whole: with --group state the budget (--epsilon)"
            raise InvalidRequest(words)
        return
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
        raise InvalidRequest(
            f"{type(planned).__name__} was planned without counts: plan with --with-counts, or leave it out here"
        )
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
