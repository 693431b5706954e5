"""Who touches which item in which period: of a log that was published or made up, for planning."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from dpselect.errors import InvalidRequest

Integers = NDArray[np.int64]
_READ = """
WITH log AS (SELECT {user} AS u, {item} AS i, {time} AS t FROM read), ends AS (SELECT min(t) AS first, max(t) AS last FROM log)
SELECT dense_rank() OVER (ORDER BY u) - 1 AS u, dense_rank() OVER (ORDER BY i) - 1 AS i, {place} AS p
FROM log, ends WHERE u IS NOT NULL AND i IS NOT NULL AND t IS NOT NULL
"""
_MOST_EVENTS = 50_000_000


@final
class Arrivals:
    """Events as (user, item, period), all by number; never those of the data of a release.

    Attributes:
        users, items: (n,) whose event it is and of what, from 0.
        periods: (n,) when, from 1.
        number: how many periods there are.
        description: where they come from, in words.
    """

    def __init__(self, users: Integers, items: Integers, periods: Integers, number: int, description: str) -> None:
        self.users, self.items, self.periods = users, items, periods
        self.number, self.description = number, description

    @classmethod
    def from_log(cls, path: Path | str, *, user: str, item: str, time: str, periods: int, public: bool = False) -> Self:
        """Those of a log that was published or made up, last year's for example, cut into periods of one length.

        Args:
            path: a CSV or Parquet file, one row per event.
            user, item, time: names of its columns; times are numbers, timestamps or dates.
            periods: how many; the first begins with the first event, and the last ends with the last.
            public: your statement that the log is public or made up.

        Raises:
            InvalidRequest: `public` is not True, or the file cannot be read, holds no event or has no such columns.
        """
        if public is not True:
            raise InvalidRequest(
                f"the log {str(path)!r} may be private: a plan that looks at a private log leaks it. If it was published or made "
                "up, declare it (public=True in the library, --public at the command line)"
            )
        _require_count("periods", periods)
        import duckdb

        columns = {name: '"' + column.replace('"', '""') + '"' for name, column in (("user", user), ("item", item))}
        quoted = '"' + time.replace('"', '""') + '"'
        try:
            with duckdb.connect() as connection:
                name = str(path)
                log = connection.read_parquet(name) if Path(path).suffix == ".parquet" else connection.read_csv(name)
                connection.register("read", log)
                kind = str(connection.execute(f"SELECT any_value(typeof({quoted})) FROM read").fetchall()[0][0])
                moment = quoted if kind in _NUMBERS else f"epoch_us(CAST({quoted} AS TIMESTAMP))"
                place = f"least({periods}, 1 + CAST(floor((t - first) * {periods}.0 / (last - first + 1)) AS BIGINT))"
                found = connection.execute(_READ.format(**columns, time=moment, place=place)).fetchnumpy()
        except (duckdb.Error, OSError) as error:
            raise InvalidRequest(
                f"{str(path)!r} cannot be read as a log ({type(error).__name__}): name a CSV or Parquet file with the columns "
                f"{user!r}, {item!r} and {time!r}"
            ) from None
        if len(found["u"]) == 0:
            raise InvalidRequest(f"{str(path)!r} holds no event with a user, an item and a time: name another log")
        who, what, when = (np.ascontiguousarray(found[name], dtype=np.int64) for name in ("u", "i", "p"))
        return cls(who, what, when, periods, f"the public log {Path(path).name}")

    @classmethod
    def made_up(
        cls,
        *,
        exponent: float,
        items: int,
        users: int,
        periods: int,
        items_per_user: float = 1.0,
        active: float = 1.0,
        new_items: float = 0.0,
        seed: int = 0,
    ) -> Self:
        """Events by Zipf's law, drawn once.

        Args:
            exponent: of Zipf's law of users per item, >= 0.
            items: how many items there are in the first period.
            users: how many users there are in all.
            periods: how many periods.
            items_per_user: events of a user in all periods together: a mean, around which users are spread geometrically.
            active: the share of periods, in (0, 1], in which a user has events at all.
            new_items: how many items come with each further period, of any rank.
            seed: of this draw; it releases nothing.

        Raises:
            InvalidRequest: an argument is outside its domain, or there are more than 50,000,000 events.
        """
        for name, count in (("items", items), ("users", users), ("periods", periods)):
            _require_count(name, count)
        for name, number, holds, rule in (
            ("exponent", exponent, exponent >= 0, "a number >= 0"),
            ("items_per_user", items_per_user, items_per_user >= 1, "a mean >= 1, over all periods"),
            ("active", active, 0 < active <= 1, "a share of periods in (0, 1]"),
            ("new_items", new_items, new_items >= 0, "a number >= 0, for each period"),
        ):
            if not holds or not np.isfinite(number):
                raise InvalidRequest(f"{name}={number!r} must be {rule}")
        if users * items_per_user > _MOST_EVENTS:
            raise InvalidRequest(f"users={users:,} with {items_per_user:g} items each are too many events to make up: try fewer")
        rng = np.random.default_rng(seed)
        owner = np.repeat(np.arange(users), rng.geometric(1 / items_per_user, users))
        # A user's events fall into so many periods, at a distance that visits all periods before one again.
        days, strides = max(1, round(active * periods)), _coprime(periods)
        start, stride = rng.integers(0, periods, users), strides[rng.integers(0, len(strides), users)]
        when = (start[owner] + stride[owner] * rng.integers(0, days, len(owner))) % periods + 1
        all_items = items + round(new_items * (periods - 1))
        since = np.ones(all_items, dtype=np.int64)
        later = rng.permutation(all_items)[items:]
        since[later] = rng.integers(2, max(periods, 2) + 1, len(later)) if len(later) else 0
        chances = np.cumsum(np.arange(1, all_items + 1, dtype=np.float64) ** -exponent)
        what, open_ = np.zeros(len(owner), dtype=np.int64), np.arange(len(owner))
        while len(open_):
            what[open_] = np.searchsorted(chances, rng.random(len(open_)) * chances[-1])
            open_ = open_[since[what[open_]] > when[open_]]
        words = (
            f"Zipf's law with exponent {exponent:g}, {items:,} items and {new_items:g} more each period, {users:,} users with "
        )
        words += f"{items_per_user:g} items in {days} of {periods} periods"
        return cls(owner, what, when, periods, words)

    def crowd(self, factor: int) -> Arrivals:
        """`factor` users like each."""
        copies = np.arange(factor).repeat(len(self.users)) * (self.users.max(initial=0) + 1)
        many: Any = [np.tile(column, factor) for column in (self.users, self.items, self.periods)]
        return Arrivals(many[0] + copies, many[1], many[2], self.number, f"{factor} times the users of {self.description}")

    def merged(self, periods: int) -> Arrivals:
        """The same events in periods that are so many times as long."""
        longer = (self.periods - 1) // periods + 1
        words = f"{self.description}, {periods} periods at once"
        return Arrivals(self.users, self.items, longer, -(-self.number // periods), words)


_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE")


def _coprime(periods: int) -> Integers:
    """Strides that visit all periods before one again."""
    return np.array([step for step in range(1, periods + 1) if np.gcd(step, periods) == 1])


def _require_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidRequest(f"{name}={value!r} must be an integer >= 1")
