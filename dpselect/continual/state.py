"""What a horizon remembers between its periods: private, in one DuckDB file. Theorem T4."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
from numpy.typing import NDArray

from dpselect.continual.continual_top_k import ContinualTopK
from dpselect.continual.measurements import Block, Increment, Integers
from dpselect.errors import EventLogError, HorizonError
from dpselect.events.doors.base import Kind, Kinds
from dpselect.events.engine import guarded, without_progress_bar
from dpselect.events.private import NotPickled
from dpselect.selection import Label, Selection

if TYPE_CHECKING:
    import duckdb

_SCHEMA: Final = 2
_MEMORY = "1GiB"
_TABLES = """
CREATE TABLE meta (schema INTEGER, identity VARCHAR, mechanism VARCHAR, belongs_to VARCHAR, domain VARCHAR);
CREATE TABLE kinds (role VARCHAR, integers BOOLEAN);
CREATE TABLE users (u VARCHAR, uid INTEGER);
CREATE TABLE positions (used BLOB);
CREATE TABLE items (i VARCHAR, iid INTEGER, discovered SMALLINT);
CREATE TABLE pairs (uid INTEGER, iid INTEGER, period SMALLINT);
CREATE TABLE increments (period SMALLINT, items BLOB, weights BLOB);
CREATE TABLE measurements (period SMALLINT, start INTEGER, narrow BOOLEAN, body BLOB);
CREATE TABLE closed (period SMALLINT, read VARCHAR, mark VARCHAR, selection VARCHAR);
"""
_THE_STATE = "the state of the horizon"
Coins = Callable[[Integers, Integers], NDArray[np.uint64]]
"""(2, n) words of fair bits for (n,) cells, by the numbers of their users and items."""
_ALONE = threading.RLock()  # one writer in this process; DuckDB's own lock keeps other processes out


def _tossed(users: Integers, _: Integers) -> NDArray[np.uint64]:
    return np.frombuffer(secrets.token_bytes(16 * len(users)), dtype=np.uint64).reshape(2, -1)


@final
@dataclass(frozen=True, repr=False)
class Closed:
    """A closed period: what was read (a hash), the mark that the ledger keeps, and what was released."""

    period: int
    read: str
    mark: str
    selection: Selection


@final
@dataclass(frozen=True)
class Meta:
    """Which horizon a state is of."""

    identity: str
    mechanism: ContinualTopK
    belongs_to: str
    domain: tuple[Label, ...] | None


class State(NotPickled):
    """The tables of one horizon, on an open connection. **Private.** What changes it does so inside `transaction`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.meta = self._read_meta()

    def __repr__(self) -> str:
        return "State(<private>)"

    def _run(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return guarded(_THE_STATE, lambda: self._connection.execute(sql, list(parameters)).fetchall())

    def _columns(self, sql: str) -> dict[str, Integers]:
        found = guarded(_THE_STATE, lambda: self._connection.execute(sql).fetchnumpy())
        return {name: np.ascontiguousarray(column, dtype=np.int64) for name, column in found.items()}

    def _read_meta(self) -> Meta:
        try:
            schema, identity, mechanism, belongs_to, domain = self._run("SELECT * FROM meta")[0]
        except (EventLogError, ValueError, IndexError):
            raise HorizonError("the file is not the state of a horizon: name the one that was started") from None
        if schema != _SCHEMA:
            raise HorizonError(
                f"the state has schema {schema} and this version of dpselect reads {_SCHEMA}: use the one it needs"
            )
        listed = None if domain is None else tuple(json.loads(domain))
        return Meta(identity, ContinualTopK.model_validate_json(mechanism), belongs_to, listed)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of the block is stored when it ends, or nothing of it."""
        self._run("BEGIN TRANSACTION")
        try:
            yield
        except BaseException:
            self._run("ROLLBACK")
            raise
        with _private_files():  # the engine makes its log of the transaction here
            self._run("COMMIT")

    # -- what was released ----------------------------------------------------------------------------------------------

    def closed(self) -> list[Closed]:
        """All closed periods, in order."""
        rows = self._run("SELECT period, read, mark, selection FROM closed ORDER BY period")
        return [Closed(period, read, mark, Selection.model_validate_json(text)) for period, read, mark, text in rows]

    def add_closed(self, period: int, read: str, selection: Selection) -> None:
        """Record what a period releases, under a mark that nobody can guess and that follows from the one before."""
        before = self._run("SELECT mark FROM closed WHERE period = ?", [period - 1])
        told = selection.model_dump_json()
        parts = [before[0][0] if before else self.meta.identity, secrets.token_hex(32), told]
        mark = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        self._run("INSERT INTO closed VALUES (?, ?, ?, ?)", [period, read, mark, told])

    # -- what was read --------------------------------------------------------------------------------------------------

    def load(self, relations: Sequence[str], kinds: Kinds) -> str:
        """Take the (user, item) pairs of SQL relations into the temporary table `fresh`; a hash of them."""
        self._run("CREATE OR REPLACE TEMP TABLE fresh (u VARCHAR, i VARCHAR)")
        for relation in relations:
            columns = (f"CAST({_number(name, kinds[role])} AS VARCHAR)" for role, name in (("user", "u"), ("item", "i")))
            self._run(f"INSERT INTO fresh SELECT DISTINCT {', '.join(columns)} FROM {relation}")
        # Not a matter of privacy: whether the same events are given again.
        digest = "md5_number(concat(length(u), ':', u, i))"
        rows, mixed = self._run(f"SELECT count(*), bit_xor({digest}) FROM fresh")[0]
        return f"{rows}:{mixed or 0}"

    def require_kinds(self, kinds: Kinds) -> None:
        """Remember whether users and items are integers, and refuse events in which that is different from before."""
        if not self._run("SELECT count(*) FROM fresh")[0][0]:
            return
        known = dict(self._run("SELECT role, integers FROM kinds"))
        for role in ("user", "item"):
            integers = kinds[role] != "str"
            if role not in known:
                self._run("INSERT INTO kinds VALUES (?, ?)", [role, integers])
            elif known[role] != integers:
                was, now = ("integers", "text") if known[role] else ("text", "integers")
                raise EventLogError(f"{role}= held {was} in earlier periods and holds {now} now: read the column as before")

    # -- users: what counts, Theorem T3 ---------------------------------------------------------------------------------

    def take(self, period: int, coins: Coins = _tossed) -> Increment:
        """Count `fresh` under the users' clip: positions, pairs and new items are stored, and the weights of items returned.

        `coins` choose among the cells of a user who has too many: fresh ones, but in a replay, which compares two logs.
        """
        mechanism, known = self.meta.mechanism, self.number_of_items()
        self._enumerate("users", "u", "uid")
        self._run("CREATE OR REPLACE TEMP TABLE named AS SELECT i, iid FROM items")
        if self.meta.domain is None:
            self._enumerate("named", "i", "iid")  # of a new item nothing stays unless it gets a weight: existence by weight
        again = ""
        if mechanism.count != "period":
            since = period - (mechanism.window or period)  # a pair counts again so many periods later
            again = f" ANTI JOIN (SELECT uid, iid FROM pairs WHERE period > {since}) USING (uid, iid)"
        cells = self._columns(
            f"SELECT uid, iid FROM (SELECT uid, iid FROM fresh JOIN users USING (u) JOIN named USING (i)){again}"
        )
        used = self._positions()
        counted, weights = mechanism.users.counted(cells["uid"], used, lambda at: coins(cells["uid"][at], cells["iid"][at]))
        users, touched = cells["uid"][counted], cells["iid"][counted]
        # Sums of integers in floats: exact below 2^53, for 2^33 cells.
        each, sums = np.bincount(touched), np.bincount(touched, weights).astype(np.int64)
        items = np.flatnonzero(each)
        sums = sums[items]
        used += np.bincount(users, minlength=len(used)).astype(used.dtype)
        self._run("DELETE FROM positions")
        self._run("INSERT INTO positions VALUES (?)", [used.tobytes()])
        new = items >= known
        numbers = np.where(new, known + np.cumsum(new) - 1, items)
        number_of = np.zeros(len(each), dtype=np.int64)
        number_of[items] = numbers
        self._connection.register("numbered", {"was": items[new], "iid": numbers[new]})
        self._run("INSERT INTO items SELECT i, numbered.iid, NULL FROM numbered JOIN named ON named.iid = numbered.was")
        self._connection.unregister("numbered")
        if mechanism.count != "period":
            if mechanism.window is not None:
                self._run("DELETE FROM pairs WHERE period <= ?", [period + 1 - mechanism.window])
            self._connection.register("counted", {"uid": users, "iid": number_of[touched]})
            self._run("INSERT INTO pairs SELECT uid, iid, ? FROM counted ORDER BY ALL", [period])
            self._connection.unregister("counted")
        return Increment(period, numbers, sums)

    def number_users(self, users: Sequence[Label]) -> None:
        """Give users their numbers before they come, in order: for a replay."""
        names = [str(user) for user in users]
        self._run("INSERT INTO users SELECT unnest(?), unnest(?)", [names, list(range(len(names)))])

    def _positions(self) -> NDArray[np.int16]:
        """(users,) how many cells of each user were counted so far."""
        stored = self._run("SELECT used FROM positions")
        before = np.frombuffer(stored[0][0], dtype=np.int16) if stored else np.zeros(0, dtype=np.int16)
        return np.pad(before, (0, self._run("SELECT count(*) FROM users")[0][0] - len(before)))

    def _enumerate(self, table: str, label: str, number: str) -> None:
        """Add the labels of `fresh` that have no number yet."""
        start = f"(SELECT count(*) FROM {table})"
        new = f"SELECT DISTINCT {label} FROM fresh ANTI JOIN {table} USING ({label})"
        self._run(f"INSERT INTO {table} SELECT {label}, {start} + row_number() OVER () - 1 FROM ({new})")

    # -- items: what was measured ---------------------------------------------------------------------------------------

    def number_of_items(self) -> int:
        """How many items exist: some user has given them a weight above 0, or the domain is public."""
        return int(self._run("SELECT count(*) FROM items")[0][0])

    def discovered(self) -> Integers:
        """The items that passed a test, or all of a public domain."""
        return self._columns("SELECT iid FROM items WHERE discovered IS NOT NULL ORDER BY iid")["iid"]

    def discover(self, period: int, items: Integers) -> None:
        """Record that these items passed."""
        self._connection.register("passed", {"iid": items})
        self._run("UPDATE items SET discovered = ? WHERE iid IN (SELECT iid FROM passed)", [period])
        self._connection.unregister("passed")

    def labels(self, items: Integers) -> list[Label]:
        """What these items are called, in order."""
        if self.meta.domain is not None:
            return [self.meta.domain[item] for item in items]
        integers = dict(self._run("SELECT role, integers FROM kinds")).get("item", False)
        names = dict(self._run("SELECT iid, i FROM items WHERE list_contains(?, iid)", [items.tolist()]))
        return [int(names[item]) if integers else names[item] for item in items.tolist()]

    def increments(self, since: int) -> Iterator[Increment]:
        """What the periods from `since` on added."""
        for period, items, weights in self._run("SELECT * FROM increments WHERE period >= ? ORDER BY period", [since]):
            yield Increment(period, np.frombuffer(items, np.int32).astype(np.int64), np.frombuffer(weights, np.int64))

    def add_increment(self, increment: Increment, since: int) -> None:
        """Keep what a period added, and forget those before `since`."""
        items = increment.items.astype(np.int32).tobytes()
        self._run("DELETE FROM increments WHERE period < ?", [since])
        self._run("INSERT INTO increments VALUES (?, ?, ?)", [increment.period, items, increment.weights.tobytes()])

    def measured(self) -> Iterator[Block]:
        """All measurements, one block at a time."""
        for period, start in self._run("SELECT period, start FROM measurements ORDER BY ALL"):
            ((narrow, body),) = self._run("SELECT narrow, body FROM measurements WHERE period = ? AND start = ?", [period, start])
            yield Block(period, start, np.frombuffer(body, np.int32 if narrow else np.int64))

    def add_measured(self, block: Block) -> None:
        """Keep measurements."""
        narrow = bool(np.abs(block.values).max(initial=0) < 2**31)
        body = block.values.astype(np.int32 if narrow else np.int64).tobytes()
        self._run("INSERT INTO measurements VALUES (?, ?, ?, ?)", [block.period, block.first, narrow, body])


def _number(column: str, kind: Kind) -> str:
    """SQL of a column of labels, in which integers that are stored as text are integers."""
    return f"CAST({column} AS HUGEINT)" if kind == "digits" else column


def _made(connection: Any, mechanism: ContinualTopK, belongs_to: str, domain: Sequence[Label] | None) -> None:
    connection.execute(_TABLES)
    listed = None if domain is None else json.dumps(list(domain))
    told = [_SCHEMA, secrets.token_hex(32), mechanism.model_dump_json(), belongs_to, listed]
    connection.execute("INSERT INTO meta VALUES (?, ?, ?, ?, ?)", told)
    if domain is not None:
        names = [str(label) for label in domain]
        connection.execute("INSERT INTO items SELECT unnest(?), unnest(?), 0", [names, list(range(len(names)))])


def in_memory(mechanism: ContinualTopK, domain: Sequence[Label] | None = None) -> State:
    """A state that goes with the process: for simulation."""
    import duckdb

    connection = duckdb.connect(":memory:", config={"threads": 1})
    _made(connection, mechanism, "simulation", domain)
    return State(connection)


def create(path: Path, mechanism: ContinualTopK, belongs_to: str, domain: Sequence[Label] | None) -> None:
    """Make a state at `path`, mode 0600, whole or not at all.

    Raises:
        HorizonError: the file exists or cannot be written.
    """
    import duckdb

    try:
        with tempfile.TemporaryDirectory(prefix=".dpselect-", dir=path.parent) as folder:
            made = Path(folder) / "state"
            with duckdb.connect(str(made)) as connection:
                _made(connection, mechanism, belongs_to, domain)
            made.chmod(0o600)
            _synced(made)
            os.link(made, path)  # unlike a renaming, never in another file's place
    except FileExistsError:
        raise HorizonError("the state's file exists: name another") from None
    except OSError as error:
        raise HorizonError(f"the state cannot be written ({error.strerror}): check its folder") from None
    _synced(path.parent)


@contextmanager
def opened(path: Path) -> Iterator[State]:
    """The state at `path`, for this process and thread alone.

    Raises:
        HorizonError: it is in use, or no state.
    """
    import duckdb

    with _ALONE, tempfile.TemporaryDirectory(prefix="dpselect-") as spill:
        configuration: dict[str, Any] = {
            "memory_limit": _MEMORY,
            "temp_directory": spill,
            "max_temp_directory_size": f"{shutil.disk_usage(spill).free * 9 // 10 // 2**20}MiB",
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        try:
            connection = duckdb.connect(str(path), config=configuration)
        except duckdb.Error as error:
            in_use = "lock" in str(error).lower()
            why = "another process uses it: one at a time" if in_use else "it is damaged, or no state of a horizon"
            raise HorizonError(f"the state cannot be opened: {why}") from None
        try:
            without_progress_bar(connection)
            state = State(connection)
            yield state
            state._run("CHECKPOINT")
        finally:
            connection.close()


@contextmanager
def _private_files() -> Iterator[None]:
    """Files that are made meanwhile are this user's alone. Of the whole process: so for as short a time as possible."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
