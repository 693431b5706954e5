"""Events over time, of a log that is public or of users that are made up: what a plan of a horizon is tried on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from accounting.address import masked
from dpselect.errors import EventLogError, InvalidRequest

Integers = NDArray[np.int64]

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE")
_READ = """
WITH log AS (SELECT u, i, {time} AS t FROM ({log})), ends AS (SELECT min(t) AS first, max(t) AS last FROM log)
SELECT dense_rank() OVER (ORDER BY u) - 1 AS u, dense_rank() OVER (ORDER BY i) - 1 AS i, {place} AS p
FROM log, ends WHERE u IS NOT NULL AND i IS NOT NULL AND t IS NOT NULL
"""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Arrivals:
    """Events as (user, item, period), all by number; never those of the data of a release.

    Attributes:
        users, items: (n,) whose event it is and of what, from 0.
        periods: (n,) when, from 1.
        number: how many periods there are.
    """

    users: Integers
    items: Integers
    periods: Integers
    number: int

    @classmethod
    def of_log(cls, path: Path, columns: Mapping[str, Any], time: Any, periods: int, form: str | None = None) -> Self:
        """Those of a public log, cut into periods of one length: the first begins with the first event, the last ends with the
        last. Times are numbers, timestamps or dates.

        Args:
            columns: fields of `events.Reading`: the columns user and item, and how the file is read.
            form: of times that are text, as `time_format`; None for ISO 8601.
        """
        from dpselect.events.dialect import EMBEDDED
        from dpselect.events.engine import opened
        from dpselect.events.reading import Reading
        from dpselect.events.rows import rows
        from dpselect.events.sources.base import Asked  # a profile of numbers reads no file

        try:
            given = (reading := Reading(**columns)).given(path)
            given = replace(given, asked=Asked.of(columns["user"], columns["item"], None, None, time))
            with opened(reading.memory_limit) as engine:
                log = rows(engine, given)
                (kind,) = engine.run(f"SELECT any_value(typeof(t)) FROM ({log.sql})", what=log.what)[0]
                iso = "coalesce(TRY_CAST(t AS DOUBLE), epoch_us(CAST(t AS TIMESTAMP)))"
                text = iso if form is None else EMBEDDED.of_format("t", form)
                moment = "t" if kind in _NUMBERS else text if kind == "VARCHAR" else "epoch_us(CAST(t AS TIMESTAMP))"
                place = f"least({periods}, 1 + CAST(floor((t - first) * {periods}.0 / (last - first + 1)) AS BIGINT))"
                found = engine.columns(_READ.format(log=log.sql, time=moment, place=place), what=log.what)
        except EventLogError as error:
            raise InvalidRequest(str(error)) from None
        if len(found["u"]) == 0:
            raise InvalidRequest(f"{masked(path)} holds no event with a user, an item and a time: name another log")
        who, what, when = (np.ascontiguousarray(found[name], dtype=np.int64) for name in ("u", "i", "p"))
        return cls(who, what, when, periods)

    @classmethod
    def drawn(
        cls,
        owner: Integers,
        counts: NDArray[np.float64],
        periods: int,
        *,
        active: float,
        later: int,
        rng: np.random.Generator,
    ) -> Self:
        """Made-up events of users.

        Args:
            owner: (n,) whose each event is, from 0.
            counts: (items,) in proportion to the chances of each.
            active: the share of periods, in (0, 1], in which a user has events at all.
            later: how many of the items, of any rank, come after the first period.
        """
        users = int(owner.max(initial=0)) + 1
        # A user's events fall into this many periods, at a distance that visits all periods before one again.
        days = max(1, round(active * periods))
        strides = np.array([step for step in range(1, periods + 1) if np.gcd(step, periods) == 1], dtype=np.int64)
        start, stride = rng.integers(0, periods, users), strides[rng.integers(0, len(strides), users)]
        when = (start[owner] + stride[owner] * rng.integers(0, days, len(owner))) % periods + 1
        since = np.ones(len(counts), dtype=np.int64)
        if later:
            since[rng.permutation(len(counts))[:later]] = rng.integers(2, max(periods, 2) + 1, later)
        chances, what, open_ = np.cumsum(counts), np.zeros(len(owner), dtype=np.int64), np.arange(len(owner))
        while len(open_):
            what[open_] = np.searchsorted(chances, rng.random(len(open_)) * chances[-1])
            open_ = open_[since[what[open_]] > when[open_]]
        return cls(owner, what, when, periods)

    def merged(self, periods: int) -> Arrivals:
        """The same events in periods that are this many times as long."""
        return replace(self, periods=(self.periods - 1) // periods + 1, number=-(-self.number // periods))
