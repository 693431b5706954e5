"""Why a mechanism is not in a plan."""

from __future__ import annotations

from accounting import AccountingError
from dpselect.mechanisms import members
from dpselect.planning.families import FAMILIES, Family
from dpselect.planning.task import Task

_OTHER_QUESTIONS = {
    "above_threshold": "answers which queries exceed a threshold, not which items are the top k",
    "binary_voting": "aggregates teachers' ballots, not an event log",
    "confident_gnmax": "aggregates teachers' ballots, not an event log",
    "first_stable": "finds the first stable one of several queries, not the top k of one ranking",
    "gaussian_gap": "releases how many items stand above a gap, not which",
    "gnmax": "aggregates teachers' ballots, not an event log",
    "large_gap": "releases how many items stand above a gap, not which",
    "online_stable_queries": "answers a stream of stable queries, not the top k of one ranking",
    "spectral_top_k": "ranks from pairwise comparisons, not from counts",
    "stable_voting": "aggregates teachers' ballots, not an event log",
    "tau_voting": "aggregates teachers' ballots, not an event log",
}
_TRY = 1e-6  # a chance of failure, and a price, to construct an example with


def other_questions() -> dict[str, str]:
    """The mechanisms that do not release a top k of counts, and what they do."""
    planned = {family.kind for family in FAMILIES}
    return {
        kind: _OTHER_QUESTIONS.get(kind, "does not release the top k of a ranking by counts: configure it in the library")
        for kind in sorted(members())
        if kind not in planned
    }


def unsuited(family: Family, task: Task) -> str | None:
    """Why the family cannot do what the task asks, whatever its noise; None if it may."""
    if family.one_item and any(part.k > 1 for part in task.parts):
        return "releases one item: it is for k=1"
    if not task.known and not family.member.unknown_domain:
        return "needs a public domain: it would show items that are read off private data"
    if task.order and not family.ordered:
        return "does not release the order"
    if family.failure is not None and task.budget.delta == 0:
        return "may fail, so the budget needs a delta: the chance of that"
    return _uncovered(family, task)


def _uncovered(family: Family, task: Task) -> str | None:
    """Why the proof does not cover the relation or the sensitivity."""
    try:
        example = family.build(task, task.parts[0], 1.0, None if family.failure is None else _TRY)
        if example.relation != task.sensitivity.relation:
            return f"has no guarantee under relation={task.sensitivity.relation!r}, only under {example.relation!r}"
        example.covers.require(task.sensitivity)
    except AccountingError as error:
        return f"is not proved for this: {error}"
    return None
