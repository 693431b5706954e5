"""Why a mechanism is not in a plan."""

from __future__ import annotations

from accounting import AccountingError
from dpselect.mechanisms import members
from dpselect.mechanisms.traits import INSTEAD, Traits
from dpselect.planning.families import Family, families
from dpselect.planning.task import Task

_FEW = 2  # items, which a clip does not distort
_TRY = 1e-6  # a chance of failure, and a price, to construct an example with


def not_planned() -> dict[str, str]:
    """The mechanisms that no plan considers, and why."""
    planned = {family.kind for family in families()}
    return {kind: _not_planned(member.traits) for kind, member in sorted(members().items()) if kind not in planned}


def _not_planned(traits: Traits) -> str:
    if traits.answers in INSTEAD:
        return INSTEAD[traits.answers]
    if traits.noise is None and traits.recipe is None:
        return "has no single amount of noise to plan: configure it in the library"
    return "is not planned yet, as no law of its quality is known: configure it in the library or in [release.mechanism]"


def unsuited(family: Family, task: Task) -> str | None:
    """Why the family cannot do what the task asks, whatever its noise; None if it may."""
    if family.one_item and any(part.k > 1 for part in task.parts):
        return "releases one item: it is for k=1"
    if not task.known and family.member.traits.domain == "public":
        return "needs a public domain: it would show items that are read off private data"
    if task.order and family.member.traits.ordered is False:
        return "does not release the order"
    if family.member.traits.recipe is not None and task.groups is not None:
        return "looks at users twice, which is not done for groups"
    if family.member.traits.recipe is not None and (
        task.stated or task.shape.loads is None or task.shape.loads.sizes[-1] <= _FEW
    ):
        return "clips users twice: the shape has to say how many items they have, more than two"
    if family.failure is not None and task.budget.delta == 0:
        return "may fail, so the budget needs a delta: the chance of that"
    if family.clip is not None and task.counts is not None:
        return "clips users: what it would show are sums of their shares, no counts"
    return _uncovered(family, task)


def _uncovered(family: Family, task: Task) -> str | None:
    """Why the proof does not cover the relation or the sensitivity."""
    try:
        example = family.build(task, task.parts[0], 1.0, None if family.failure is None else _TRY)
        if example.relation != task.sensitivity.relation:
            return f"has no guarantee under relation={task.sensitivity.relation!r}, only under {example.relation!r}"
        task.released(example).covers.require(family.sensitivity(task))
        if not (task.known or example.takes_observed):
            return "needs a public domain as it is configured"
        if task.order and not example.ordered:
            return "does not release the order"
    except AccountingError as error:
        return f"is not proved for this: {error}"
    return None
