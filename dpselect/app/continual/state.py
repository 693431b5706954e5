"""The private state of a horizon between its periods, in one DuckDB file. Theorem T4.

The noisy measurements of one period are exact, and so are the estimates from them (Theorems T1, T2
and T4).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from accounting import AccountingError
from accounting.address import mask
from accounting.files import read_text, settle, write_draft
from accounting.numbers import Floats, Integers
from dpselect.app.events.engine import (
    disable_progress_bar,
    lack_of_room,
    temporary_folder,
    was_interrupted,
)
from dpselect.app.events.not_pickled import NotPickled
from dpselect.app.events.sources.base import Kinds
from dpselect.errors import (
    NO_MEMORY,
    HorizonError,
    HorizonUnavailable,
    InvalidRequest,
    is_memory_fault,
)
from dpselect.mechanisms.continual_top_k import UNIT, ContinualTopK, choose_cells
from dpselect.mechanisms.release import public_grid
from dpselect.noise import noise_of
from dpselect.sampling import Sampler
from dpselect.selection import Label, Selection

if TYPE_CHECKING:
    import duckdb


T = TypeVar("T")
Exact = tuple[Integers, Integers]
"""Whole multiples of the public grid, and the rest in multiples of UNIT^-2."""
_UNIT_BITS = 20
_SLICE = 2**23  # measurements that are held in memory at a time


@final
@dataclass(frozen=True)
class Increment:
    """Additions of one period to the counts: (n,) distinct items, and weights in units 1/UNIT."""

    period: int
    items: Integers
    weights: Integers


def true_measurements(
    mechanism: ContinualTopK, period: int, items: int, increments: Iterable[Increment]
) -> Exact:
    """Measurements C x (items,) at the end of a period, without noise.

    They are exact, because weights are split at 1, so that products with C stay below 2^60 for 2^40
    users.
    """
    measured = mechanism.strategy.measured
    high, low = np.zeros(items, dtype=np.int64), np.zeros(items, dtype=np.int64)
    for increment in increments:
        if (lag := period - increment.period) < len(measured):
            high[increment.items] += measured[lag] * (increment.weights >> _UNIT_BITS)
            low[increment.items] += measured[lag] * (increment.weights & (UNIT - 1))
    high += low >> _UNIT_BITS
    low &= UNIT - 1
    bits = _UNIT_BITS + math.frexp(public_grid(mechanism.scale))[1] - 1  # the grid is 2^-20 or more
    return high >> bits, ((high & ((1 << bits) - 1)) << _UNIT_BITS) | low


def measure(mechanism: ContinualTopK, true: Exact, source: Sampler) -> Integers:
    """Noisy measurements (items,) in multiples of the public grid: C x plus noise, rounded.

    Each is rounded to the nearest multiple, exactly (Theorem X7). Whole multiples of the grid are
    added after the rounding, which commutes with them.
    """
    whole, rest = true
    if len(rest) == 0:
        return whole
    unit = float(UNIT) ** 2
    grid = public_grid(mechanism.scale) * unit
    return whole + (
        source.draw_rounded(rest, noise_of("gaussian"), mechanism.scale * unit, grid) / grid
    ).astype(np.int64)


def _slices(mechanism: ContinualTopK, first: int, end: int) -> Iterator[tuple[int, int]]:
    """The items from `first` up to `end` in slices.

    Each slice fits into memory with the measurements of all periods.
    """
    width = max(_SLICE // mechanism.periods, 1)
    for start in range(first // width * width, end, width) if first < end else ():
        yield max(first, start), min(start + width, end)


_SCHEMA: Final = 10
_MEMORY = "1GiB"
# to read a blob that is compressed costs ten times as much
_PLAIN: Final = "BLOB USING COMPRESSION uncompressed"
_TABLES = """
CREATE TABLE meta (
    schema INTEGER, identity VARCHAR, mechanism VARCHAR, belongs_to VARCHAR,
    user_key VARCHAR, domain VARCHAR, groups VARCHAR
);
CREATE TABLE reading (who VARCHAR, integers BOOLEAN);
CREATE TABLE users (u BLOB, uid INTEGER);
CREATE TABLE items (i VARCHAR, iid INTEGER);
CREATE TABLE discovered (iid INTEGER);
CREATE TABLE positions (used PLAIN);
CREATE TABLE pairs (uid INTEGER, iid INTEGER, period SMALLINT);
CREATE TABLE closed (period SMALLINT, asked VARCHAR, mark VARCHAR, selection VARCHAR);
""".replace("PLAIN", _PLAIN)
# What grows by the period is in tables of a few periods each: a checkpoint writes a table's last
# rows again, blobs included.
_TOGETHER: Final = 16
_GROWING = """
CREATE TABLE IF NOT EXISTS increments_{number} (period SMALLINT, items PLAIN, weights PLAIN);
CREATE TABLE IF NOT EXISTS measured_{number} (
    period SMALLINT, start INTEGER, width INTEGER, bytes TINYINT, body PLAIN
);
""".replace("PLAIN", _PLAIN)
# Labels are compared as text: integers and text of one label are one, whatever the column is in one
# period and in another. A keyed hash of the label is stored, nested as in HMAC.
_FRESH: Final = """
CREATE OR REPLACE TEMP TABLE fresh AS WITH read AS (
    SELECT CAST(u AS VARCHAR) AS u, CAST(i AS VARCHAR) AS i FROM {relation}
),
hashed AS (
    SELECT u, unhex(sha256($key || sha256($key || u))) AS h FROM (SELECT DISTINCT u FROM read)
)
SELECT i, h AS u FROM read JOIN hashed USING (u)
"""
_LOW = 2**32 - 1
_THESE: Final = "(SELECT unnest(CAST(? AS INTEGER[])) AS iid)"
# how the engine's message begins where another process has the file
_IN_USE = "Could not set lock on file"
_MADE_MEANWHILE = (
    "another call made it meanwhile. Repeat this one with the same state= and key=, which charges"
    " nothing twice"
)
_DAMAGED = "it is damaged, or no state of a horizon"
_UNREADABLE = "what the horizon keeps cannot be read or written"
_AGAIN = (
    "Nothing is wrong with it. Call again with the same events, and never restore an earlier copy"
)
# What the system says, whatever class an engine's error has.
_REFUSED = re.compile(
    r"permission denied|read-only file system|input/output error|too many open files", re.IGNORECASE
)

# One thread of a process at a time; the engine's own lock keeps other processes out. A fork leaves
# the child a lock that a thread of its parent may hold, so each process has its own, and the
# parent's connections without the threads that serve them.
_TURNS: dict[int, threading.RLock] = {}
_OPEN: dict[str, int] = {}  # the process that has a state open, by its path


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Lock the state at `path` for this thread, and add its path to every error about it."""
    name, process = os.path.realpath(path), os.getpid()
    try:
        with _TURNS.setdefault(process, threading.RLock()):
            if _OPEN.setdefault(name, process) != process:
                raise HorizonUnavailable(
                    "it was in use when this process was forked from the one that used it. Open it"
                    " there, or in a process of its own"
                )
            try:
                yield
            finally:
                _OPEN.pop(name, None)
    except HorizonError as error:
        error.args = (f"state={mask(path)}: {error}",)
        raise


def _fresh_coins(cells: Integers) -> NDArray[np.uint64]:
    """Fair coins for (n,) cells, as (2, n) words of 64 bits."""
    return np.frombuffer(secrets.token_bytes(16 * len(cells)), dtype=np.uint64).reshape(2, -1)


@final
@dataclass(frozen=True, repr=False)
class Events:
    """The new events of a period.

    Attributes:
        relation: in SQL, with the columns u and i.
        kinds: types of these in the source, without columns that hold nothing; empty if there is no
            source.
        who: the options that say which events are one user's, by name; None if nothing was read.
        options: all options of the reading, as JSON.
    """

    relation: str
    kinds: Kinds
    who: Mapping[str, Any] | None = None
    options: str = "null"


@final
@dataclass(frozen=True, repr=False)
class Closed:
    """A closed period, with its release.

    Attributes:
        options: options of the reading of its events, as JSON.
        mark: mark of the period in the ledger.
    """

    period: int
    options: str
    mark: str
    selection: Selection


@final
@dataclass(frozen=True, repr=False)
class Meta:
    """The identity of a state and of its horizon.

    `identity` is a secret of the state. Nobody without it can name its periods.
    """

    identity: str
    mechanism: ContinualTopK
    belongs_to: str
    domain: tuple[Label, ...] | None
    groups: tuple[Label, ...] | None

    @property
    def claim(self) -> str:
        """The claim of the horizon's charge, by the first copy of a state to release anything."""
        return self._hash("claim")

    def key_of(self, period: int) -> str:
        """The ledger's key for the mark of a period.

        It is in a name space of this state, so that no other charge can have it.
        """
        return f"horizon-{self._hash(str(period))}"

    def _hash(self, what: str) -> str:
        return hashlib.sha256(f"{self.identity}\n{self.belongs_to}\n{what}".encode()).hexdigest()


class State(NotPickled):
    """The tables of one horizon, on an open connection. **Private.**

    They are changed only inside `transaction`.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, user_key: Callable[[], str]) -> None:
        self._connection, self._user_key = connection, user_key
        self._fresh = Events("fresh", {})  # what was loaded last
        try:
            schema, identity, mechanism, belongs_to, self._key_hash, *lists = self._run(
                "SELECT * FROM meta"
            )[0]
        except HorizonUnavailable:
            raise
        except (HorizonError, ValueError, IndexError):
            raise HorizonError(
                "the file is damaged, or not the state of a horizon. Name the one that was started"
            ) from None
        if schema != _SCHEMA:
            raise HorizonError(
                f"it has schema {schema} and this version of dpselect reads {_SCHEMA}. Use the one"
                " it needs"
            )
        domain, groups = (None if listed is None else tuple(json.loads(listed)) for listed in lists)
        self.meta = Meta(
            identity, ContinualTopK.model_validate_json(mechanism), belongs_to, domain, groups
        )

    @classmethod
    def in_memory(cls, mechanism: ContinualTopK, domain: Sequence[Label] | None = None) -> Self:
        """A state in memory, for simulation."""
        import duckdb

        connection = duckdb.connect(":memory:", config={"threads": 1})
        key = secrets.token_hex(32)
        _create_tables(connection, mechanism, "simulation", key, domain, None)
        return cls(connection, lambda: key)

    @classmethod
    def create(
        cls,
        path: Path,
        mechanism: ContinualTopK,
        belongs_to: str,
        domain: Sequence[Label] | None,
        groups: Sequence[Label] | None = None,
    ) -> None:
        """Create a state at `path` and its key of users beside it, mode 0600, both or neither."""
        reason, new_key = "", False
        try:
            with temporary_folder(".dpselect-", path.parent) as folder:
                draft = folder / "state"
                write_draft(folder / "key", secrets.token_hex(32).encode())
                new_key = settle(folder / "key", key_file(path))
                key = _read_key(path)
                _run_guarded(
                    lambda: _write_state(draft, mechanism, belongs_to, key, domain, groups)
                )
                draft.chmod(0o600)
                with draft.open("rb") as file:
                    os.fsync(file.fileno())
                reason = "" if settle(draft, path) else _MADE_MEANWHILE
        except OSError as error:
            why = error.strerror or "input or output error"
            reason = f"it cannot be written ({why}); nothing is left of it. Check its folder"
        except HorizonError:
            reason = (
                "it cannot be written (its disk or the memory is full, or the size of files is"
                " limited); nothing is left of it. Make room"
            )
        finally:
            if new_key and not path.exists():
                cls.remove(path)
        # said outside the block: an error that is raised in it is chained to the engine's
        if reason:
            raise HorizonUnavailable(f"state={mask(path)}: {reason}")

    @staticmethod
    def remove(path: Path) -> None:
        """Remove a state that nothing was drawn from, and its key of users."""
        for file in (path, key_file(path)):
            file.unlink(missing_ok=True)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Open the state at `path`, for this process and thread alone."""
        import duckdb

        with _turn(path), temporary_folder("dpselect-horizon-") as spill:
            if not path.exists():  # the engine would make it
                raise HorizonError(
                    "it does not exist: no horizon was started there, or it is lost, and then has"
                    " ended"
                )
            configuration: dict[str, Any] = {
                "memory_limit": _MEMORY,
                "temp_directory": str(spill),
                "max_temp_directory_size": f"{shutil.disk_usage(spill).free * 9 // 10 // 2**20}MiB",
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
            connection = _run_guarded(
                lambda: duckdb.connect(str(path), config=configuration), "it cannot be opened", path
            )
            try:
                disable_progress_bar(connection)
                state = cls(connection, lambda: _read_key(path))
                yield state
                # What is committed stands in the engine's log beside the file, and is read from
                # there until there is room.
                with suppress(HorizonUnavailable):
                    state._run("CHECKPOINT")
            finally:
                connection.close()

    def __repr__(self) -> str:
        return "State(<private>)"

    def _run(
        self, sql: str, parameters: Sequence[object] | dict[str, object] = ()
    ) -> list[tuple[Any, ...]]:
        values = parameters if isinstance(parameters, dict) else list(parameters)
        return _run_guarded(lambda: self._connection.execute(sql, values).fetchall())

    def _columns(self, sql: str, parameters: Sequence[object] = ()) -> dict[str, Integers]:
        arrays = _run_guarded(lambda: self._connection.execute(sql, list(parameters)).fetchnumpy())
        return {
            name: np.ascontiguousarray(column, dtype=np.int64) for name, column in arrays.items()
        }

    def _run_with(
        self, table: Mapping[str, Integers], sql: str, parameters: Sequence[object] = ()
    ) -> None:
        """Run a statement that reads the table `given`."""
        self._connection.register("given", dict(table))
        self._run(sql, parameters)
        self._connection.unregister("given")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Store all changes of the block when it ends, or none of them."""
        self._run("BEGIN TRANSACTION")
        try:
            yield
        except BaseException:
            # of an engine that failed and goes as a whole, as does what is not committed
            with suppress(HorizonError):
                self._run("ROLLBACK")
            raise
        # The engine makes its log of the transaction here, for this user alone. The mask holds for
        # the whole process.
        before = os.umask(0o077)
        try:
            self._run("COMMIT")
        finally:
            os.umask(before)

    # -- what was released -------------------------------------------------------------------------

    def closed_periods(self) -> list[Closed]:
        """All closed periods, in order."""
        rows = self._run("SELECT period, asked, mark, selection FROM closed ORDER BY period")
        return [
            Closed(period, options, mark, Selection.model_validate_json(text))
            for period, options, mark, text in rows
        ]

    def add_closed(self, period: int, options: str, selection: Selection) -> None:
        """Record a period's release, under an unguessable mark that follows from the last one."""
        before = self._run("SELECT mark FROM closed WHERE period = ?", [period - 1])
        released = selection.model_dump_json()
        parts = [before[0][0] if before else self.meta.identity, secrets.token_hex(32), released]
        mark = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        self._run("INSERT INTO closed VALUES (?, ?, ?, ?)", [period, options, mark, released])

    # -- what was read -----------------------------------------------------------------------------

    def load(self, events: Events) -> None:
        """Store the (user, item) pairs of a period in the table `fresh`, for `take`."""
        self._fresh = events
        self._run(_FRESH.format(relation=events.relation), {"key": self._user_key()})

    def require_users(self, events: Events) -> None:
        """Refuse events whose reading would give a user another label than in earlier periods.

        Only the options and the key of users are compared.
        """
        if _hash_of_key(self._user_key()) != self._key_hash:
            raise HorizonError(f"the key of its users is that of another state: {_KEY_BACK}")
        identity = events.who or {}
        for (record,) in self._run("SELECT who FROM reading") if identity else ():
            before: dict[str, Any] = json.loads(record)
            for name, present in identity.items():
                if present != before[name]:
                    then = "not stated" if before[name] is None else repr(before[name])
                    raise InvalidRequest(
                        f"{name}={present!r} was {then} in earlier periods. A horizon"
                        " bounds each user over all of its periods, and read otherwise one person"
                        " is several users. State it as then, for events in a format that takes it,"
                        " or open another horizon"
                    )

    def _settle(self) -> None:
        """Record the reading of users, and whether items are integers, by options and types.

        A column of nothing has no type. Labels then stay as they are, as with the next value that
        may come.
        """
        self.require_users(self._fresh)
        identity, kinds = self._fresh.who, self._fresh.kinds
        for record, integers in (
            self._run("SELECT who, integers FROM reading") or [(None, True)]
            if identity is not None or kinds
            else ()
        ):
            self._run("DELETE FROM reading")
            text = (
                json.dumps(identity if identity is None else dict(identity))
                if record is None
                else record
            )
            self._run(
                "INSERT INTO reading VALUES (?, ?)",
                [text, integers and kinds.get("item", "int") == "int"],
            )

    # -- users: what counts, Theorem T3 ------------------------------------------------------------

    def take(self, period: int) -> Increment:
        """Count `fresh` under the users' clip, store positions, pairs and items, return weights.

        Fresh coins choose among the cells of a user who has too many.
        """
        self._settle()
        mechanism, items_before = self.meta.mechanism, self.number_of_items()
        since = period - (mechanism.window or period)  # a pair counts again this many periods later
        cells, rows = self._cells(since), self._run("SELECT used FROM positions")
        # how many cells of each user were counted so far
        used = np.frombuffer(rows[0][0] if rows else b"", dtype=np.int16)
        used = np.pad(used, (0, self._run("SELECT count(*) FROM users")[0][0] - len(used)))
        cells = cells[used[cells >> 32] < mechanism.users.cells]
        users, items = cells >> 32, cells & _LOW
        chosen, weights = mechanism.users.count(users, used, _fresh_coins)
        users, items = users[chosen], items[chosen]
        # Sums of integers in floats: exact below 2^53, for 2^33 cells.
        sums = np.bincount(items, weights).astype(np.int64)
        touched = np.flatnonzero(sums)
        # Existence by weight: of a new item nothing stays unless some user gives it one.
        new = touched >= items_before
        numbers = np.where(new, items_before + np.cumsum(new) - 1, touched)
        self._run_with(
            {"was": touched[new], "iid": numbers[new]},
            "INSERT INTO items SELECT i, given.iid FROM given JOIN appeared ON appeared.iid ="
            " given.was",
        )
        if mechanism.count != "period":
            if mechanism.window is not None:
                self._run("DELETE FROM pairs WHERE period <= ?", [since])
            item_numbers = numbers[np.searchsorted(touched, items)]
            self._run_with(
                {"uid": users, "iid": item_numbers},
                "INSERT INTO pairs SELECT uid, iid, ? FROM given",
                [period],
            )
        used += np.bincount(users, minlength=len(used)).astype(used.dtype)
        self._run("DELETE FROM positions")
        self._run("INSERT INTO positions VALUES (?)", [used.tobytes()])
        return Increment(period, numbers, sums[touched])

    def _cells(self, since: int) -> Integers:
        """Distinct cells (n,) of `fresh` that were not counted after a period, in order.

        A cell is 2^32 times the user plus the item. New users are stored. New items are in the
        table `appeared`, if the domain is unknown.
        """
        for into, table, name, number, unknown in (
            ("INSERT INTO users", "users", "u", "uid", True),
            (
                "CREATE OR REPLACE TEMP TABLE appeared AS",
                "items",
                "i",
                "iid",
                self.meta.domain is None,
            ),
        ):
            met = (
                f"SELECT DISTINCT {name} FROM fresh ANTI JOIN {table} USING ({name}) WHERE"
                f" {unknown}"
            )
            numbers = f"(SELECT count(*) FROM {table}) + row_number() OVER () - 1 AS {number}"
            self._run(f"{into} SELECT {name}, {numbers} FROM ({met})")
        tables = "fresh JOIN users USING (u) JOIN (FROM items UNION ALL FROM appeared) USING (i)"
        unseen = "ANTI JOIN (FROM pairs WHERE period > ?) USING (uid, iid)"
        cells = np.sort(
            self._columns(
                f"SELECT CAST(uid AS BIGINT) << 32 | iid AS cell FROM {tables} {unseen}", [since]
            )["cell"]
        )
        return cells[np.diff(cells, prepend=-1) != 0]

    def count_users(self, period: int, items: Sequence[int]) -> Integers:
        """Users (items,) of each released item. Private.

        Each user counts for at most `counts.items` of them, chosen by fresh coins (Theorem T10).
        They are users of the period's events, or of the cells that earlier periods and this one
        have counted.
        """
        mechanism = self.meta.mechanism
        assert mechanism.counts is not None
        each = mechanism.count == "period"
        cells = "fresh JOIN users USING (u) JOIN items USING (i)" if each else "pairs"
        since = [] if each else [period - mechanism.window if mechanism.window else 0]
        within = "" if each else "WHERE period > ?"
        pairs = self._columns(
            f"SELECT DISTINCT uid, iid FROM {cells} SEMI JOIN {_THESE} USING (iid) {within}",
            [list(items), *since],
        )
        users, order = pairs["uid"].astype(np.int64), np.argsort(np.array(items, dtype=np.int64))
        chosen = choose_cells(
            users,
            np.bincount(users, minlength=1)[users],
            np.full(len(users), mechanism.counts.items),
            _fresh_coins,
        )
        places = order[
            np.searchsorted(np.array(items, dtype=np.int64)[order], pairs["iid"][chosen])
        ]
        return np.bincount(places, minlength=len(items))

    # -- items: what was measured ------------------------------------------------------------------

    def number_of_items(self) -> int:
        """Number of items that exist.

        They are those to which some user has given a weight above 0, or a public domain.
        """
        return int(self._run("SELECT count(*) FROM items")[0][0])

    def discovered_items(self) -> Integers:
        """Items that passed a test, or all items of a public domain."""
        if self.meta.domain is not None:
            return np.arange(len(self.meta.domain))
        return self._columns("SELECT iid FROM discovered")["iid"]

    def discover(self, items: Integers) -> None:
        """Record that these items passed a test."""
        self._run_with({"iid": items}, "INSERT INTO discovered FROM given")

    def labels(self, items: Integers) -> list[Label]:
        """Labels of these items, in order.

        They are integers if the columns of all periods were of integers, else text.
        """
        if self.meta.domain is not None:
            return [self.meta.domain[item] for item in items]
        kind = (
            int
            if all(integers for (integers,) in self._run("SELECT integers FROM reading"))
            else str
        )
        names = dict(
            self._run(f"SELECT iid, i FROM items SEMI JOIN {_THESE} USING (iid)", [items.tolist()])
        )
        return [kind(names[item]) for item in items.tolist()]

    def increments(self, since: int, until: int) -> Iterator[Increment]:
        """Additions of the periods from `since` to `until`, if they are still kept."""
        for number in range(max(since, 1) // _TOGETHER, until // _TOGETHER + 1):
            source = f"FROM increments_{number} WHERE period BETWEEN ? AND ?"
            for period, items, weights in self._run(source, [since, until]):
                yield Increment(
                    period, np.frombuffer(items, np.int32), np.frombuffer(weights, np.int64)
                )

    def add_increment(self, increment: Increment, since: int) -> None:
        """Keep the additions of a period.

        Earlier ones are dropped once all of their table are before `since`.
        """
        number, items = increment.period // _TOGETHER, increment.items.astype(np.int32).tobytes()
        self._run(_GROWING.format(number=number))
        if since > 0 and since % _TOGETHER == 0:
            self._run(f"DROP TABLE increments_{since // _TOGETHER - 1}")
        self._run(
            f"INSERT INTO increments_{number} VALUES (?, ?, ?)",
            [increment.period, items, increment.weights.tobytes()],
        )

    def true_measurements(self, period: int) -> Exact:
        """The result of `true_measurements` for all items, from the kept increments."""
        mechanism = self.meta.mechanism
        since = period + 1 - len(mechanism.strategy.measured)
        return true_measurements(
            mechanism, period, self.number_of_items(), self.increments(since, period)
        )

    def draw(self, increment: Increment, count: int, source: Sampler) -> None:
        """Draw the measurements of every item that exists.

        For items that are not among the first `count`, those of earlier periods are drawn too.
        """
        mechanism, period = self.meta.mechanism, increment.period
        self.add_increment(increment, period + 1 - len(mechanism.strategy.measured))
        self.add_measured(
            period, 0, measure(mechanism, self.true_measurements(period), source)[None], period
        )
        # Of items that nobody had before, noise that was not looked at is drawn now. Its clock is
        # that of all items: where noise started with an item, a shared one would have other noise
        # without its first user (Theorem T4).
        for since, until in _slices(mechanism, count, self.number_of_items()) if period > 1 else ():
            nothing = np.zeros(until - since, dtype=np.int64)
            late = np.stack(
                [measure(mechanism, (nothing, nothing), source) for _ in range(1, period)]
            )
            self.add_measured(1, since, late, period)

    def measurements(self, period: int, items: int) -> Iterator[tuple[int, Floats]]:
        """Measurements (period, n) of n items at a time, with the first item's number.

        Those of `period` must be drawn. Some of an earlier period may have been drawn later, since
        their items came later. A missing one is never taken for 0.
        """
        tables = " UNION ALL ".join(
            f"FROM measured_{number}" for number in range(period // _TOGETHER + 1)
        )
        sql = (
            f"SELECT period - 1, start - ?, width, bytes, body FROM ({tables}) WHERE start >= ? AND"
            " start < ?"
        )
        for since, until in _slices(self.meta.mechanism, 0, items):
            rows, count = np.zeros((period, until - since)), 0
            for index, start, width, size, body in self._run(sql, [since, since, until]):
                values = np.frombuffer(body, f"i{size}").reshape(-1, width)
                rows[index : index + len(values), start : start + width] = values
                count += values.size
            if count != rows.size:
                raise HorizonError(f"{_UNREADABLE}: {_DAMAGED}")
            yield since, rows

    def add_measured(self, start: int, first: int, values: Integers, period: int) -> None:
        """Keep measurements (periods, items) that were drawn in `period`.

        They begin at period `start` and item `first`.
        """
        into = f"INSERT INTO measured_{period // _TOGETHER} VALUES (?, ?, ?, ?, ?)"
        for since, until in _slices(self.meta.mechanism, first, first + values.shape[1]):
            part = values[:, since - first : until - first]
            largest = int(np.abs(part).max(initial=0))
            size = next(size for size in (2, 4, 8) if largest < 2 ** (8 * size - 1))
            self._run(into, [start, since, until - since, size, part.astype(f"i{size}").tobytes()])


def key_file(path: Path) -> Path:
    """Path of the key with which the users of a state are hashed."""
    return path.with_name(f"{path.name}.key")


_KEY_BACK: Final = (
    "put back the file that was made with the state. Without it no further period can be closed,"
    " because the same people would count anew; what was released stays"
)


def _read_key(path: Path) -> str:
    """The key of users of the state at `path`."""
    file = key_file(path)
    if not file.exists():
        raise HorizonError(f"the key of its users, {mask(file)}, does not exist: {_KEY_BACK}")
    key = read_text(file, HorizonError, "the key of its users", 2**10)
    if re.fullmatch("[0-9a-f]{64}", key) is None:
        raise HorizonError(f"{mask(file)} holds no key that a state made: {_KEY_BACK}")
    return key


def _hash_of_key(key: str) -> str:
    return hashlib.sha256(f"user key\n{key}".encode()).hexdigest()


def _create_tables(
    connection: Any,
    mechanism: ContinualTopK,
    belongs_to: str,
    user_key: str,
    domain: Sequence[Label] | None,
    groups: Sequence[Label] | None,
) -> None:
    connection.execute(_TABLES)
    lists = [None if listed is None else json.dumps(list(listed)) for listed in (domain, groups)]
    about = [
        _SCHEMA,
        secrets.token_hex(32),
        mechanism.model_dump_json(),
        belongs_to,
        _hash_of_key(user_key),
        *lists,
    ]
    connection.execute("INSERT INTO meta VALUES (?, ?, ?, ?, ?, ?, ?)", about)
    if domain is not None:
        names = list(map(str, domain))
        connection.execute(
            "INSERT INTO items SELECT unnest(?), unnest(?)", [names, list(range(len(names)))]
        )


def _write_state(
    path: Path,
    mechanism: ContinualTopK,
    belongs_to: str,
    user_key: str,
    domain: Sequence[Label] | None,
    groups: Sequence[Label] | None,
) -> None:
    """Write a state to a new file, and check that it can be read."""
    import duckdb

    with duckdb.connect(str(path)) as connection:
        _create_tables(connection, mechanism, belongs_to, user_key, domain, groups)
        # closing does that too, and says nothing where the disk is full
        connection.execute("CHECKPOINT")
    with duckdb.connect(str(path), read_only=True) as connection:
        State(connection, lambda: user_key)


def _run_guarded(work: Callable[[], T], failed: str = _UNREADABLE, path: Path | None = None) -> T:
    """Run `work` on the engine, and turn its errors into ones without data and with a remedy.

    An engine that a full disk has stopped reports it only in words, because the class of its error
    is that of damage.
    """
    import duckdb

    try:
        return work()
    except AccountingError:
        raise
    except Exception as error:
        interrupted, text = was_interrupted(error), str(error)
        full = lack_of_room(text) is not None or isinstance(error, duckdb.OutOfMemoryException)
        no_memory, refusal = is_memory_fault(error), _REFUSED.search(text)
        in_use = (
            path is not None
            and isinstance(error, duckdb.IOException)
            and text.removeprefix("IO Error: ").startswith(_IN_USE)
        )
    if interrupted:
        raise KeyboardInterrupt
    if in_use:
        raise HorizonUnavailable(
            f"{failed}: another process uses it. Repeat the call once that has ended"
        )
    if full:
        raise HorizonUnavailable(
            f"{failed}: its disk is full, or files and memory are limited. Make room. {_AGAIN}"
        )
    if no_memory:
        raise HorizonUnavailable(f"{failed}: {NO_MEMORY}. {_AGAIN}")
    if refusal:
        raise HorizonUnavailable(f"{failed} ({refusal[0].lower()}). See to that. {_AGAIN}")
    raise HorizonError(f"{failed}: {_DAMAGED}")
