"""Logs of users and items for the recall benchmark: real and made-up ones, with users bounded and clipped as the reader does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

import dpselect as dps
from dpselect.sensitivity import Norm

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
LOGS = ["gowalla", "nyc", "tky"]
OVER_TIME = {"films": "movietweetings100k.parquet", "messages": "collegemsg.parquet"}
Numbers = NDArray[np.int64]
_UNIT = 2**20  # weights are whole multiples of 1 / _UNIT, as `events.read` counts them


class Log:
    """Distinct (user, item) pairs; items are numbered, and their numbers are their labels."""

    def __init__(self, name: str, users: Numbers, items: Numbers) -> None:
        self.name = name
        _, items = np.unique(items, return_inverse=True)
        _, users = np.unique(users, return_inverse=True)
        pairs = np.unique(items.astype(np.int64) * (int(users.max()) + 1) + users)
        self.items, self.users = np.divmod(pairs, int(users.max()) + 1)  # by item, so that an item's users lie together
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(self.items))])
        self.size, self.people = len(self.starts) - 1, int(self.users.max()) + 1
        self.counts = np.diff(self.starts)
        self.labels = list(range(self.size))

    def right(self, k: int) -> NDArray[np.bool_]:
        """Which items are right in a top k: with ties at rank k, any of them."""
        return np.asarray(self.counts >= np.sort(self.counts)[-k])

    @cached_property
    def _bounded(self) -> dict[int | None, NDArray[np.bool_]]:
        return {None: np.ones(len(self.users), dtype=np.bool_)}

    def _kept(self, limit: int | None) -> NDArray[np.bool_]:
        """(pairs,) whether a user's item is among those that are kept, at random."""
        if limit not in self._bounded:
            order = np.lexsort((np.random.default_rng(limit).random(len(self.users)), self.users))
            loads = np.bincount(self.users)
            rank = np.arange(len(order)) - np.repeat(np.cumsum(loads) - loads, loads)
            kept = np.empty(len(order), dtype=np.bool_)
            kept[order] = rank < limit
            self._bounded[limit] = kept
        return self._bounded[limit]

    def scores(
        self, domain: str, limit: int | None = None, clip: float | None = None, norm: Norm = "l2", again: float | None = None
    ) -> dps.Scores:
        """What `events.read` gives with these bounds, and a second look at shares of `again` within what was discovered."""
        return _scores(self, domain, limit, clip, norm, again)

    def seen(self, limit: int | None, clip: float | None, norm: Norm) -> NDArray[np.float64]:
        """(items,) counts of bounded and clipped users."""
        kept = self._kept(limit)
        users, items = self.users[kept], self.items[kept]
        if clip is None:
            return np.bincount(items, minlength=self.size).astype(np.float64)
        return np.bincount(items, _weights(np.bincount(users, minlength=self.people), clip, norm)[users], self.size) / _UNIT

    def within(self, items: Sequence[int], clip: float) -> NDArray[np.float64]:
        """Counts of these items, users clipped to an l2 norm of `clip` within them."""
        users = np.concatenate([self.users[self.starts[item] : self.starts[item + 1]] for item in items])
        place = np.repeat(np.arange(len(items)), self.counts[list(items)])
        return np.bincount(place, _weights(np.bincount(users, minlength=self.people), clip, "l2")[users], len(items)) / _UNIT

    def counted(self, items: Sequence[int], clip: float) -> tuple[dps.Scores, float]:
        """What a second look that counts gives for these items: their clipped counts, and what the clip takes away."""
        seen = self.within(items, clip)
        bounds = dps.Sensitivity.of_clipped(clip)
        return dps.Scores(seen, labels=list(items), sensitivity=bounds), float(self.counts[list(items)].sum() - seen.sum())

    def weighed(self, items: Numbers, numbers: Numbers, norm: float, limit: int | None) -> Numbers:
        """What `Pairs.weighed` gives, up to roundings: sums of what users spend on these items, in units of 2^-20."""
        kept = self._kept(limit)
        users, every = self.users[kept], self.items[kept]
        asked = np.zeros(self.size)
        asked[items] = numbers
        spent = asked[every]
        sizes = np.sqrt(np.bincount(users, spent**2, self.people))[users]
        weights = np.floor(np.minimum(1.0, norm * np.divide(spent, sizes, out=np.zeros_like(spent), where=spent > 0)) * _UNIT)
        return np.bincount(every, weights, self.size)[items].astype(np.int64)

    def write(self, folder: Path) -> Path:
        """The log as a Parquet file."""
        path = folder / f"{Path(self.name).stem.replace(',', '_')}.parquet"
        pq.write_table(self.table(), path)
        return path

    def table(self) -> pa.Table:
        """Columns user_id and item_id."""
        return pa.table({"user_id": self.users, "item_id": self.items})

    def check(self) -> None:
        """The reader itself counts the same, to the last bit, clipped or not, within some items or all of them."""
        for clip in (None, 1.0, 1.41):
            found = dps.events.read(self.table(), user="user_id", item="item_id", clip=clip).scores(clip=clip)
            assert np.array_equal(found.values, self.seen(None, clip, "l2")[list(found.labels or ())])
        some = np.argsort(-self.counts)[:20].tolist()
        found = dps.events.read(self.table(), user="user_id", item="item_id", clip=2.0, within=some).scores(some, clip=2.0)
        assert np.array_equal(found.values, self.within(some, 2.0))


@cache
def _scores(log: Log, domain: str, limit: int | None, clip: float | None, norm: Norm, again: float | None) -> dps.Scores:
    declared = dps.Sensitivity.of_counts("add_remove", limit)
    if clip is not None:
        declared = dps.Sensitivity.of_clipped(clip, norm, items_per_user=limit)
    seen = log.seen(limit, clip, norm)
    bounds = dps.Sensitivity.of_clipped(again or 1.0)
    second = dps.SecondLook(
        lambda found: dps.Scores(log.within([int(item) for item in found], again or 1.0), labels=found, sensitivity=bounds),
        bounds,
        weigh=lambda found, numbers, norm: log.weighed(np.array(found, dtype=np.int64), numbers, norm, limit),
    )
    whole = seen.astype(np.int64) if clip is None else seen
    return dps.Scores(
        whole,
        sensitivity=declared,
        labels=log.labels,
        domain="observed" if domain == "unknown" else "public",  # type: ignore[arg-type]
        second=second,
    )


def _weights(loads: Numbers, clip: float, norm: Norm) -> NDArray[np.float64]:
    """(users,) what an item of a user with so many counts, in units of 2^-20: theorem H7."""
    loads = np.maximum(loads, 1)
    if norm == "l1":
        return np.minimum(_UNIT, math.floor(clip * _UNIT) // loads).astype(np.float64)
    return np.minimum(_UNIT, np.floor(np.sqrt((math.floor(clip * clip * _UNIT**2) // loads).astype(np.float64))))


@cache
def load(name: str, user: str = "user_id", item: str = "item_id") -> Log:
    """A log of ../shared/data (`LOGS`, `OVER_TIME`); a made-up log, zipf:EXPONENT,ITEMS,USERS,MOST; or a Parquet or CSV file."""
    if name.startswith("zipf:"):
        return made_up(name, *map(float, name.removeprefix("zipf:").split(",")))
    if name in LOGS or name in OVER_TIME:
        user, item = ("user", "item") if name in OVER_TIME else ("user_id", "item_id")
    table = _table(name, user, item)
    return Log(name, *(_codes(table[column]) for column in (user, item)))


def _codes(column: pa.ChunkedArray) -> Numbers:
    return np.asarray(column.combine_chunks().dictionary_encode().indices).astype(np.int64)


def _table(name: str, user: str, item: str) -> pa.Table:
    if name == "gowalla":
        return pq.read_table(DATA / "gowalla" / "gowalla_10core_pairs.parquet")
    if name in ("nyc", "tky"):
        table = pq.read_table(DATA / "foursquare" / "foursquare_nyc_tky_pairs_reconstructed.parquet")
        return table.filter(np.asarray(table["city"]) == ("nyc", "tky").index(name))
    if name in OVER_TIME:
        return pq.read_table(DATA / "times" / OVER_TIME[name], columns=[user, item])
    table = pq.read_table(name, columns=[user, item]) if Path(name).suffix == ".parquet" else pa.csv.read_csv(name)
    return table.select([user, item]).drop_null()


def made_up(name: str, exponent: float, items: float, users: float, most: float) -> Log:
    """Users draw from Zipf's law, from 1 to `most` times, with a density that falls as the square: few do so often."""
    rng = np.random.default_rng(round(1000 * exponent) + int(users) + int(most))
    loads = np.minimum(1 / (rng.random(int(users)) * (1 - 1 / most) + 1 / most), most).astype(np.int64)
    shares = np.cumsum(np.arange(1, int(items) + 1) ** -exponent)
    drawn = np.searchsorted(shares, rng.random(int(loads.sum())) * shares[-1])
    return Log(name, np.repeat(np.arange(int(users)), loads), drawn)
