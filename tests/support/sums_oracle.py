"""What one user adds to clipped sums, by exact arithmetic: the definition of Theorem H9, written
once more.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction

from event_oracle import kept

Event = tuple[object, object, float]


def _nearest_even(x: Fraction) -> int:
    return round(x)


def _nearest_away(x: Fraction) -> int:
    return math.floor(x + Fraction(1, 2)) if x >= 0 else -math.floor(-x + Fraction(1, 2))


def contribution(
    events: Iterable[tuple[object, float]], low: float, high: float
) -> dict[object, Fraction]:
    """A user's part of each item, from (item, value) pairs, in value units."""
    power = Fraction(2) ** math.floor(math.log2(max(-low, high)))
    fine, unit, most = power / 2**40, power / 2**24, power * 2**40
    sums: dict[object, int] = defaultdict(int)
    for item, value in events:
        sums[item] += _nearest_even(min(most, max(-most, Fraction(value))) / fine)
    ends = math.ceil(Fraction(low) / unit), math.floor(Fraction(high) / unit)
    return {
        item: min(ends[1], max(ends[0], _nearest_away(Fraction(total, 2**16)))) * unit
        for item, total in sums.items()
    }


def sums(
    log: Sequence[Event], low: float, high: float, limit: int | None = None, salt: str = "s"
) -> dict[object, Fraction]:
    """The sum of every item that some user kept."""
    of_user: dict[object, list[tuple[object, float]]] = defaultdict(list)
    for user, item, value in log:
        of_user[user].append((item, value))
    found: dict[object, Fraction] = defaultdict(Fraction)
    for user, events in of_user.items():
        held = {item for item, _ in events}
        chosen = held if limit is None else kept(user, held, limit, salt)
        for item, amount in contribution(
            ((item, value) for item, value in events if item in chosen), low, high
        ).items():
            found[item] += amount
    return dict(found)
