"""`read_values`: from an event log to one number per user."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import Final, Literal, Unpack, final, get_args

import numpy as np
from numpy.typing import NDArray

from dpselect.errors import EventLogError
from dpselect.events.contributions import ContributionLimit, NotPickled
from dpselect.events.dialect import EMBEDDED
from dpselect.events.engine import opened
from dpselect.events.reading import ProgressCallback, Reading, ReadingKeywords, checked_salt, reading_of
from dpselect.events.staging import prepared

Rule = Literal["pick", "sum", "mean", "min", "max", "events"]
"""How many numbers of a user become one."""

_UNIT = 2**32  # sums are of whole multiples of one part in this many: they are the same in any order
_MOST = 2.0**53
_EXACT = f"CAST(floor(greatest(least(v, {_MOST!r}), {-_MOST!r}) * {_UNIT}.0) AS HUGEINT) * m"
_RULES: Final[dict[Rule, str]] = {
    "sum": f"CAST(sum({_EXACT}) AS DOUBLE) / {_UNIT}.0",
    "mean": f"CAST(sum({_EXACT}) AS DOUBLE) / {_UNIT}.0 / sum(m)",
    "min": "min(v)",
    "max": "max(v)",
    "events": "CAST(sum(m) AS DOUBLE)",
}


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class UserValues(NotPickled):
    """One number for each user of a log. **Private**: for `Quantile.scores` and `JointQuantiles.scores`.

    Attributes:
        numbers: (users,) in rising order; whose each is, is not kept.
        rule: how many numbers of a user became one.
        salt: what chose, for the rule "pick"; None for others.
        rows, rows_left_out: events of the log, and those without a user or a value. Private.
    """

    numbers: NDArray[np.float64]
    rule: Rule
    salt: str | None
    rows: int
    rows_left_out: int

    def __repr__(self) -> str:
        return f"UserValues(<private numbers hidden>, rule={self.rule!r})"


def read_values(
    source: str | os.PathLike[str] | object,
    reading: Reading | None = None,
    *,
    rule: Rule = "pick",
    progress: ProgressCallback | None = None,
    **options: Unpack[ReadingKeywords],
) -> UserValues:
    """One number per user of a log with one row per event, in any order: a map of that user's events alone.

    Args:
        source, progress: as for `read`.
        reading: how the log is read, without an item; or its fields as keywords: user, value, salt and what is said about a file.
            `value` is the column of numbers: integers, fractions, or text that says one; None for the rule "events". `salt` makes
            the choice of "pick" repeatable; a fresh random one if None.
        rule: "pick" keeps of a user's distinct numbers the one with the smallest sha256(user, number, salt), as `read` keeps
            items; "sum" and "mean" are exact sums of multiples of 2^-32 (numbers are rounded down to one, beyond 2^53 cut);
            "min" and "max"; "events" is how many events the user has.

    Events without a user or a value (in CSV and TSV: an empty one) are left out, and a user who has no others too. A log with a
    value that is not a finite number, of whomever, is refused whole.

    Raises:
        EventLogError: what was asked for is wrong or cannot be read. It never quotes the data.

    Example:
        >>> from pathlib import Path
        >>> import dpselect as dps
        >>> _ = Path("paid.csv").write_text("who,paid\\nann,3.5\\nann,4\\nbob,10\\n")
        >>> paid = dps.events.read_values("paid.csv", user="who", value="paid", rule="sum")
        >>> median = dps.mechanisms.JointQuantiles(quantiles=(0.5,), low=0, high=100, step=0.01, epsilon=1.0)
        >>> len(median.values(median.select(median.scores(paid.numbers))))
        1
    """
    reading = reading_of(reading, dict(options))
    if reading.item is not None:
        raise EventLogError(f"item={reading.item!r} is for events.read: a number per user needs a reading without it")
    chosen = _checked(rule, reading.value, reading.salt)
    with opened(reading.memory_limit) as engine:
        staged = prepared(engine, source, reading, progress)
        found = []
        for number in range(staged.buckets):
            sql = f"(SELECT * FROM pairs WHERE hash(u) % {staged.buckets} = {number})"
            if chosen is None:
                sql = f"SELECT {_RULES[rule]} AS v FROM {sql} GROUP BY u"
            else:
                engine.run(
                    f"CREATE OR REPLACE TEMP TABLE held AS SELECT u, count(*) AS t FROM {sql} GROUP BY u", what=staged.what
                )
                sql = f"SELECT v FROM ({chosen.kept(sql, 'held', EMBEDDED, chosen='v')})"
            found += engine.run(sql, what=staged.what)
            staged.report_progress(number + 1, staged.buckets)
    numbers = np.sort(np.array([row[0] for row in found], dtype=np.float64))
    numbers.setflags(write=False)
    return UserValues(numbers, rule, None if chosen is None else chosen.salt, staged.report.rows, staged.report.rows_left_out)


def _checked(rule: Rule, value: object, salt: str | None) -> ContributionLimit | None:
    """What picks one of a user's numbers, where that is the rule."""
    if rule not in get_args(Rule):
        raise EventLogError(f"rule={rule!r} must be one of {', '.join(map(repr, get_args(Rule)))}")
    if (value is None) != (rule == "events"):
        raise EventLogError(f"rule={rule!r} and value={value!r} contradict: 'events' counts rows, the others need a column")
    if checked_salt(salt) is not None and rule != "pick":
        raise EventLogError(f"salt={salt!r} is for rule='pick', which alone chooses: leave it out")
    return ContributionLimit(1, secrets.token_hex(16) if salt is None else salt) if rule == "pick" else None
