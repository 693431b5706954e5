"""Neighboring relations: what one user may change.

`add_remove` means that one user is added or removed. `replace_one` means that one user's data are
replaced, and the number of users is public. A guarantee holds for one relation only, so guarantees
under different relations are never mixed.
"""

from __future__ import annotations

from typing import Literal

from accounting.errors import InvalidArgument, RelationMismatch

Relation = Literal["add_remove", "replace_one"]

WORDS: dict[Relation, str] = {
    "add_remove": "adding or removing any one user",
    "replace_one": "replacing any one user's data",
}


def same_relation(first: Relation | None, second: Relation | None) -> Relation | None:
    """Return the common relation of two statements, where None means "not stated"."""
    for relation in (first, second):
        if relation is not None and relation not in tuple(WORDS):
            raise InvalidArgument(f"relation={relation!r} must be one of {', '.join(WORDS)}")
    if first is not None and second is not None and first != second:
        raise RelationMismatch(
            f"relation={second!r} cannot be combined with relation={first!r}, because a"
            " guarantee holds for one neighboring relation only. Configure every mechanism of"
            f" one plan with relation={first!r}, or charge what is proved for {second!r} alone"
            " to a dataset that was declared with it"
        )
    return second if first is None else first


def common_relation(
    common: Relation | None, item_relation: Relation | None, *, begun: bool
) -> Relation | None:
    """Return the relation of a sum that states `common` and a new item that states `item_relation`.

    Args:
        common: relation of the sum; None if it states none.
        item_relation: relation of the item; None if it states none.
        begun: True if the sum has items already.

    Raises:
        RelationMismatch: the two differ, or only some of the items state one.
    """
    if common is not None and item_relation is None:
        raise RelationMismatch(
            "a bare curve does not say which relation it was proved for, and the rest has"
            f" relation={common!r}. Pass the mechanism itself (n * mechanism keeps the"
            " relation), or the relation that the curve was proved for (relation=, --relation)"
        )
    if common is None and item_relation is not None and begun:
        raise RelationMismatch(
            f"relation={item_relation!r} comes after curves without a relation. State it for all of"
            " them, or pass their mechanisms"
        )
    return same_relation(common, item_relation)
