"""`Case`: a mechanism and the boxes on which its law is enumerated, and the sensitivities that
cases share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import dpselect as dps
from dpselect.scores import Domain

COUNTS = dps.Sensitivity()
REPLACED = dps.Sensitivity(relation="replace_one")
TWO_SIDED = dps.Sensitivity(monotone=False)
TWO_ITEMS = dps.Sensitivity(l0=2)
TWO_ITEMS_TWO_SIDED = dps.Sensitivity(l0=2, monotone=False)
HALF = dps.Sensitivity(linf=0.5)


Boxes = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Case:
    """A mechanism and the boxes of count vectors on which its law is enumerated.

    boxes: (candidates, highest count) pairs.
    tight: whether the pure epsilon is reached within 1e-6 on the largest box.
    rounds: how many are drawn at once; fewer where a draw is slow and the member's own file draws
    more. values: scores to draw from, if those of the boxes are too small to show all that may come
    out.
    """

    mechanism: dps.Mechanism
    boxes: Boxes = ((1, 3), (2, 5), (3, 3))
    tight: bool = False
    domain: Domain = "public"
    rounds: int = 20_000
    values: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.mechanism!r}-{self.domain}".replace(" ", "")


def each(
    kind: Callable[..., Any],
    fields: str,
    rows: Iterable[Iterable[Any]],
    boxes: Boxes | Callable[[Any], Boxes],
    domains: tuple[Domain, ...] = ("public",),
    **more: Any,
) -> list[Case]:
    """A case of a mechanism for each row of its fields, and each domain."""
    made = [kind(**dict(zip(fields.split(), row, strict=True))) for row in rows]
    return [
        Case(one, boxes(one) if callable(boxes) else boxes, domain=domain, **more)
        for one in made
        for domain in domains
    ]
