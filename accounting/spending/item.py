"""What may be charged: a curve, or a mechanism that has one."""

from __future__ import annotations

from accounting.accountant import Priced
from accounting.curves import Curve
from accounting.errors import InvalidArgument
from accounting.relation import Relation, same_relation


def read_item(item: Curve | Priced, relation: Relation | None) -> tuple[Curve, Relation | None]:
    """The curve of `item` and the relation that it or the caller states.

    Raises:
        InvalidArgument: item has no curve.
        RelationMismatch: a mechanism states another relation than the caller.
    """
    if isinstance(item, Curve):
        return item, same_relation(None, relation)
    if isinstance(getattr(item, "curve", None), Curve) and hasattr(item, "relation"):
        return item.curve, same_relation(relation, item.relation)
    raise InvalidArgument(f"cannot charge a {type(item).__name__}: pass a Curve, or a mechanism that has one")
