"""Cells of a table: labels of a group and an item together.

No two cells have the same label.
"""

from __future__ import annotations

import re
from typing import Final

from dpselect.selection import Label

ANY_GROUPS = 10**12
"""Number of groups of a user that bounds nothing, if one norm holds over all groups together."""
_FORM = re.compile(r"(0|[1-9][0-9]{0,9}):(.*)", re.DOTALL)
CELL: Final = "length(CAST(g AS VARCHAR)) || ':' || CAST(g AS VARCHAR) || CAST(i AS VARCHAR)"
"""SQL expression of `cell`, for the columns g and i."""


def cell(group: Label, item: Label) -> str:
    """Return the label of the cell of a group and an item."""
    return f"{len(str(group))}:{group}{item}"


def parts_of(label: Label) -> tuple[str, str]:
    """Return the group and the item of a cell. The label of no cell is an item of the group "".

    It is not refused, because a refusal would show whether somebody has such an item.
    """
    match = _FORM.fullmatch(str(label))
    if match is None or int(match[1]) > len(match[2]):
        return "", str(label)
    return match[2][: int(match[1])], match[2][int(match[1]) :]
