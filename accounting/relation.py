"""Neighbouring relations: what one person's data may change.

`add_remove`: one user is added or removed. `replace_one`: one user's data are replaced, the number of users being public.
A guarantee holds for one relation only, so guarantees under different relations are never mixed.
"""

from __future__ import annotations

from typing import Literal

from accounting.errors import InvalidArgument, RelationMismatch

Relation = Literal["add_remove", "replace_one"]

WORDS: dict[Relation, str] = {"add_remove": "adding or removing any one user", "replace_one": "replacing any one user's data"}


def same_relation(first: Relation | None, second: Relation | None) -> Relation | None:
    """The common relation of two statements, where None means "not stated"."""
    for stated in (first, second):
        if stated is not None and stated not in tuple(WORDS):
            raise InvalidArgument(f"relation={stated!r} is not a neighbouring relation: it must be one of {', '.join(WORDS)}")
    if first is not None and second is not None and first != second:
        raise RelationMismatch(
            f"relation={second!r} cannot be combined with relation={first!r}: a guarantee holds for one neighbouring "
            f"relation only. Configure every mechanism of one plan with relation={first!r}, or charge what is proved for "
            f"{second!r} alone, as votes are for replace_one, to a dataset that was declared with it"
        )
    return second if first is None else first
