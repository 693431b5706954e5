"""The embedded engine: one private in-memory DuckDB connection and one temporary folder for each reading."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from accounting.errors import AccountingError
from dpselect.errors import EventLogError
from dpselect.events.doors.paths import temporary_folder

if TYPE_CHECKING:
    import duckdb  # takes a tenth of a second: whoever reads nothing does without

# Buckets are cut so that one fits (see buckets.py); what does not is spilled to the temporary folder.
_DEFAULT_MEMORY = "1GiB"
_MEMORY = re.compile(r"\s*\d+(\.\d+)?\s*([KMGT]i?B)\s*", re.IGNORECASE)
# Rows that each thread holds back per bucket while it splits the log: few, since it does so for all buckets at once.
_ROWS_HELD_BACK = 20_000
_BETWEEN_INTERRUPTIONS = 0.05  # seconds

T = TypeVar("T")


@final
class Engine:
    """Runs SQL and turns the engine's errors, whose messages quote the data, into ones that do not. Threads may share it.

    A connection has one result, that of its latest query, and temporary tables are of one connection: so there is one connection,
    and no thread asks it before another has fetched its answer.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self.folder = folder
        self._connection = connection
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}

    def path(self, name: str) -> Path:
        """A path called `name` in the folder of this reading, which only this user can read and which goes with it."""
        return self.folder / name

    def unused(self, name: str) -> Path:
        """`path`, with a number before the name where it is taken: several files of one reading."""
        number = 0
        while (found := self.path(f"{number}-{name}" if number else name)).is_symlink() or found.exists():
            self._numbers[name] = number = self._numbers.get(name, 0) + 1
        return found

    def register(self, name: str, table: object, *, what: str) -> None:
        """Make an in-memory table known under `name`."""
        with self._lock:
            guarded(what, lambda: self._connection.register(name, table))

    def run(self, sql: str, parameters: Sequence[object] = (), *, what: str) -> list[tuple[Any, ...]]:
        """All rows of a query.

        Raises:
            EventLogError: the engine refused; the message names `what` was being read and the rule, never a value.
        """
        return self._alone(what, lambda: self._connection.execute(sql, list(parameters)).fetchall())

    def columns(self, sql: str, *, what: str) -> dict[str, NDArray[Any]]:
        """All columns of a query without nulls, by name: integers of at most 64 bits, or text."""
        found = self._alone(what, lambda: self._connection.execute(sql).fetchnumpy())
        return {name: np.ascontiguousarray(column) for name, column in found.items()}

    def _alone(self, what: str, work: Callable[[], T]) -> T:
        # Taken by the thread that waits, not by the one that works: Ctrl-C then never ends another thread's query.
        with self._lock:
            return guarded(what, lambda: self._interruptible(work))

    def _interruptible(self, work: Callable[[], T]) -> T:
        """Ctrl-C ends a query at once. Left alone the engine looks for it, or does not, until the query has ended."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        begun, ended = threading.Event(), threading.Event()

        def noted() -> T:
            begun.set()
            try:
                return work()
            finally:
                ended.set()

        with ThreadPoolExecutor(1) as pool:
            try:
                running = pool.submit(noted)
                # In short waits: the handler of another library (Polars has one) may let a long one go on.
                while not ended.wait(_BETWEEN_INTERRUPTIONS):
                    pass
                return running.result()
            except KeyboardInterrupt:
                # Again and again: the engine forgets an interruption that comes before its query has begun.
                pool.shutdown(wait=False, cancel_futures=True)
                self._connection.interrupt()
                while not ended.wait(_BETWEEN_INTERRUPTIONS) and begun.is_set():
                    self._connection.interrupt()
                raise


def guarded(what: str, work: Callable[[], T]) -> T:
    """What `work` returns; whatever an engine, Arrow or a database driver raises in it becomes an error without data.

    Not a `with` block: an error that is raised while one ends is chained to the engine's, whose message quotes the data.

    Raises:
        EventLogError: it raised anything but an error of this library's; the message states `what` and the rule, never a value.
        KeyboardInterrupt: it was interrupted, which engines report as errors of their own.
    """
    try:
        return work()
    except AccountingError:
        raise
    except Exception as error:
        interrupted, failure = _is_interrupt(error), _explained(error, what)
    if interrupted:
        raise KeyboardInterrupt
    raise EventLogError(failure)


@contextmanager
def opened(memory_limit: str | None = None) -> Iterator[Engine]:
    """An engine with a temporary folder that only this user can read; both are gone afterwards."""
    import duckdb

    require_memory(memory_limit)
    memory = _DEFAULT_MEMORY if memory_limit is None else memory_limit.strip()
    with temporary_folder() as folder:
        connection = duckdb.connect(":memory:", config=_configuration(memory, folder))
        try:
            # It would write to standard output, beside what the caller prints.
            connection.execute("SET enable_progress_bar = false")
            yield Engine(connection, folder)
        finally:
            connection.close()


def _configuration(memory: str, folder: Path) -> dict[str, Any]:
    return {
        "memory_limit": memory,
        "temp_directory": str(folder / "spill"),
        "max_temp_directory_size": f"{shutil.disk_usage(folder).free * 9 // 10 // 2**20}MiB",
        "partitioned_write_flush_threshold": _ROWS_HELD_BACK,
        "preserve_insertion_order": False,
        # A log is read from this machine only: nothing may be fetched because of what a file is called or holds.
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }


def require_memory(limit: object) -> None:
    """Refuse a limit that is not a size."""
    if limit is not None and (not isinstance(limit, str) or not _MEMORY.fullmatch(limit)):
        raise EventLogError(f"memory_limit={limit!r} is not a size: give a number and a unit such as '2GiB' or '800MB'")


def _is_interrupt(error: Exception) -> bool:
    import duckdb

    if isinstance(error, duckdb.Error):
        return isinstance(error, duckdb.InterruptException)
    return isinstance(error, RuntimeError) and "interrupted" in str(error).lower()


def _explained(error: Exception, what: str) -> str:
    import duckdb

    text, _, quoted = str(error).partition("Original Line")  # what follows quotes the log, and is searched for nothing else
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or "No space left" in text:
        return (
            f"{what} did not fit in the memory and temporary disk allowed: raise memory_limit, use more buckets, "
            "or point TMPDIR at a larger disk"
        )
    if isinstance(error, UnicodeError) or "unicode" in text.lower() or "UTF-8" in text:
        return f"{what} is not valid UTF-8: convert it to UTF-8 first"
    if not isinstance(error, duckdb.Error | RuntimeError):
        return f"{what} cannot be read: {type(error).__name__}; its message may quote the data and is not shown"
    line = re.search(r"CSV Error on Line: (\d+)", text)
    place = f" (near line {line[1]})" if line else ""
    if "Maximum line size" in quoted or "Maximum line size" in text:
        return f"{what} cannot be read{place}: a line is longer than 2 MB, the most that is read; leave its long column out"
    if "invalid state" in text:
        return (
            f"{what} cannot be read: its lines do not all end alike (\\n in some, \\r\\n in others), or text follows a quote. "
            "Such a malformed file is refused whole: give all lines one end, with dos2unix for example"
        )
    return (
        f"{what} cannot be read{place}: it is damaged, of another format than stated, or has a malformed row, and then is "
        "refused whole; correct it, or say what a file is with format="
    )
