"""What was read from an event log, for its owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from dpselect.events.private import NotPickled


@final
@dataclass(frozen=True, slots=True, repr=False)
class ReadReport(NotPickled):
    """Exact figures of one reading. **Every one of them is private**: for the data's owner, never for a release.

    Attributes:
        rows: events in the log.
        rows_without_user: events whose user is null (in CSV and TSV: null or empty).
        rows_without_item: events whose item is null (in CSV and TSV: null or empty).
        rows_left_out: events without a user, without an item, or without both; none of them is counted.
        pairs: distinct (user, item) pairs among the other events.
        pairs_left_out: those dropped by `max_items_per_user`.
    """

    rows: int
    rows_without_user: int
    rows_without_item: int
    rows_left_out: int
    pairs: int
    pairs_left_out: int

    def __repr__(self) -> str:
        return "ReadReport(<private figures hidden>)"
