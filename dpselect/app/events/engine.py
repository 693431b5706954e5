"""The embedded engine, a private in-memory DuckDB per reading, and local files."""

from __future__ import annotations

import bz2
import codecs
import csv
import ctypes
import errno
import gzip
import importlib
import itertools
import os
import re
import shutil
import signal
import tempfile
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast, final

from accounting.address import mask
from accounting.errors import AccountingError, missing_extra
from dpselect.app.events.dialect import EMBEDDED
from dpselect.app.events.sources.logged_tables import require_whole
from dpselect.errors import NO_MEMORY, EventLogError, is_memory_fault
from dpselect.selection import Label, is_integer

if TYPE_CHECKING:
    import duckdb  # takes a tenth of a second: whoever reads nothing does without
    from numpy.typing import NDArray


_LEAST_MEMORY, _MEMORY_OF_A_CORE = 320, 80  # MiB: what the engine may use by default
_MEMORY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B)\s*", re.IGNORECASE)
# Of the memory, which a grouping is tried with: with all of it, DuckDB 2.0.1 fails at the default
# limit, and is asked again.
_SHARES = (0.85, 0.65, 0.5)
_CONFIGURATION: dict[str, Any] = {
    # Rows that each thread holds back per period while it cuts a log by time: few, since it does so
    # for all periods at once.
    "partitioned_write_flush_threshold": 20_000,
    "preserve_insertion_order": False,
    # A log is read from this machine only: nothing may be fetched because of what a file is called
    # or holds.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_BETWEEN_INTERRUPTIONS = 0.05  # seconds
_PATIENCE = 100  # interruptions, before a query is left that none of them ends
_STANDSTILL, _IDLE = 600, 0.0005  # waits, in each of which less than these CPU seconds were used

_STILL = "the engine stands still"

T = TypeVar("T")


@final
class Engine:
    """A runner of SQL whose errors never quote the data, unlike DuckDB's. Threads may share it.

    A connection has only one result, that of its latest query, and temporary tables belong to one
    connection. There is therefore one connection, and a thread uses it only after another has
    fetched its answer.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        folder: Path,
        memory: str,
        *,
        tells: bool = False,
    ) -> None:
        self.dialect = EMBEDDED
        self.folder: Path = folder
        self.tells: bool = tells  # whoever reads may see the data: a refusal may say where it is
        self.abandoned: bool = False  # a query never ended
        self._connection = connection
        self._memory = memory
        self._lock = threading.Lock()
        self.numbers: Iterator[int] = itertools.count()

    @staticmethod
    def require_memory(limit: object) -> None:
        """Refuse a limit that is not a size."""
        if limit is not None and (not isinstance(limit, str) or not _MEMORY.fullmatch(limit)):
            raise EventLogError(
                f"memory_limit={limit!r} is not a size. Give a number and a unit such as '2GiB' or"
                " '800MB'"
            )

    def path(self, name: str) -> Path:
        """A path called `name` in the reading's temporary folder, which only this user can read."""
        return self.folder / name

    def fresh_path(self, name: str) -> Path:
        """A fresh path in the folder of this reading, with a unique number before the name."""
        return self.path(f"{next(self.numbers)}-{name}")

    def register(self, name: str, table: object, *, title: str) -> None:
        """Make an in-memory table known to SQL as `name`."""
        with self._lock:
            run_guarded(title, lambda: self._connection.register(name, table), tells=self.tells)

    def define(self, name: str, function: Callable[[str], str]) -> None:
        """Define a text function for SQL as `name`. Null stays null."""
        with self._lock:
            self._connection.create_function(name, function, ["VARCHAR"], "VARCHAR")

    def run(
        self, sql: str, parameters: Sequence[object] = (), *, title: str
    ) -> list[tuple[Any, ...]]:
        """All rows of a query. An error names the source by `title` and the rule, never a value."""
        return self._run_alone(
            title, lambda: self._connection.execute(sql, list(parameters)).fetchall()
        )

    def group(self, sql: str, *, title: str) -> None:
        """Run a grouping statement over a repeatable source, with less memory if it does not fit.

        The engine's hash tables double. A limit just below the size of a table makes it fail, in
        some versions, where a lower limit makes it spill in time.
        """
        self._run_alone(title, lambda: self._store_groups(sql))

    def _store_groups(self, sql: str) -> None:
        import duckdb

        size = _MEMORY.fullmatch(self._memory)
        assert size is not None, "require_memory saw to it"
        try:
            for share in _SHARES:
                try:
                    self._connection.execute(
                        f"SET memory_limit = '{share * float(size[1])}{size[2]}'"
                    )
                    self._connection.execute(sql).fetchall()
                    return
                except duckdb.OutOfMemoryException:
                    if share == _SHARES[-1]:
                        raise
        finally:
            self._connection.execute(f"SET memory_limit = '{self._memory}'")

    def columns(self, sql: str, *, title: str) -> dict[str, NDArray[Any]]:
        """All columns of a query without nulls, by name, as integers of at most 64 bits or text."""
        arrays = self._run_alone(title, lambda: self._connection.execute(sql).fetchnumpy())
        import numpy as np

        return {name: np.ascontiguousarray(column) for name, column in arrays.items()}

    def _run_alone(self, title: str, work: Callable[[], T]) -> T:
        # Taken by the thread that waits, not by the one that works: Ctrl-C then never ends another
        # thread's query.
        with self._lock:
            return run_guarded(title, lambda: self._run_interruptible(work), tells=self.tells)

    def _run_interruptible(self, work: Callable[[], T]) -> T:
        """Return the result of `work`. Ctrl-C ends a query at once, and abandons a hanging one.

        The engine's CSV reader sometimes waits for itself forever when it meets a malformed row,
        and no interruption ends it. Its thread and its connection are then left behind, because
        closing the connection would wait for the thread.
        """
        finished, results, errors = threading.Event(), list[T](), list[BaseException]()

        def record_result() -> None:
            try:
                results.append(work())
            except BaseException as error:
                errors.append(error)
            finally:
                finished.set()

        try:
            threading.Thread(target=record_result, daemon=True).start()
            self._wait(finished)
        except BaseException:
            # Again and again: the engine forgets an interruption that comes before its query has
            # begun.
            for _ in range(_PATIENCE):
                self._connection.interrupt()
                if finished.wait(_BETWEEN_INTERRUPTIONS):
                    break
            else:  # never close this connection, nor let Python destroy it
                self.abandoned = True
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
            raise
        if errors:
            raise errors[0]
        return results[0]

    def _wait(self, finished: threading.Event) -> None:
        """Wait for `finished`. Raise an error if this process has been idle for half a minute."""
        idle, cpu_time = 0, time.process_time()
        # In short waits: the handler of another library (Polars has one) may let a long one go on.
        # They are counted, and not the time: a process that was stopped, and goes on, has not stood
        # still.
        while not finished.wait(_BETWEEN_INTERRUPTIONS):
            before, cpu_time = cpu_time, time.process_time()
            idle = idle + 1 if cpu_time - before < _IDLE else 0
            if idle > _STANDSTILL:
                raise RuntimeError(_STILL)


@final
class EmbeddedTables:
    """Relations of one count in the embedded engine. The first ones belong to the reading."""

    dialect = EMBEDDED
    # the engine's own hash: where an item is looked for decides nothing
    bucket = "CAST(hash({0}) % 4096 AS BIGINT)"
    most_ranked = 4_000_000  # about 60 bytes each; texts take as much again, and more

    def __init__(self, engine: Engine, title: str) -> None:
        self._engine, self._what, self._prefix = engine, title, f"count_{next(engine.numbers)}"
        self._names: list[str] = []

    def another(self) -> EmbeddedTables:
        return EmbeddedTables(self._engine, self._what)

    def run(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._engine.run(sql, parameters, title=self._what)

    def columns(self, sql: str) -> list[NDArray[Any]]:
        return list(self._engine.columns(sql, title=self._what).values())

    def store(
        self, name: str, sql: str, *, computed: bool = False, parameters: Sequence[object] = ()
    ) -> str:
        table = f"{self._prefix}_{name}"
        self.run(f"CREATE OR REPLACE TEMP TABLE {table} AS {sql}", parameters)
        if table not in self._names:
            self._names.append(table)
        return table

    def store_groups(self, sql: str, *, once: bool = False) -> str:
        make = self._engine.run if once else self._engine.group
        make(f"CREATE TABLE grouped AS {sql}", title=self._what)
        self._names.append("grouped")
        return "grouped"

    def append(self, name: str, sql: str) -> str:
        table = f"{self._prefix}_{name}"
        if table not in self._names:
            return self.store(name, sql)
        self.run(f"INSERT INTO {table} {sql}")
        return table

    def store_labels(
        self, name: str, labels: Sequence[Label], kind: str, *, placed: bool = False
    ) -> str:
        columns = f"CAST(unnest(?) AS {'VARCHAR' if kind == 'str' else 'HUGEINT'}) AS i"
        # Among integers, text that is no integer's stands for no item.
        parameters: list[object] = [
            [str(label) if kind == "str" or is_integer(label) else None for label in labels]
        ]
        if placed:
            columns += ", unnest(range(?)) AS place"
            parameters.append(len(labels))
        return self.store(name, f"SELECT {columns}", parameters=parameters)

    def save(self, relation: str, path: Path) -> None:
        self.run(
            f"COPY {relation} TO {EMBEDDED.literal(str(path))} (FORMAT parquet, COMPRESSION"
            " uncompressed)"
        )

    def close(self) -> None:
        with suppress(EventLogError):  # of an engine that failed, and goes as a whole
            for name in self._names if not self._engine.abandoned else ():
                self.run(f"DROP TABLE IF EXISTS {name}")
        self._names.clear()


def was_interrupted(error: Exception) -> bool:
    """True if an engine's error reports Ctrl-C."""
    import duckdb

    if isinstance(error, RuntimeError) and not isinstance(error, duckdb.Error):
        return "interrupted" in str(error).lower()
    return isinstance(error, duckdb.InterruptException)


def run_guarded(title: str, work: Callable[[], T], *, tells: bool = False) -> T:
    """Return the result of `work`, and replace engine, Arrow and driver errors by safe ones.

    A safe error never quotes the data. An interruption, which engines report as an error of their
    own, stays one. This is not a `with` block, because an error raised at the end of a block is
    chained to the engine's error, whose message quotes the data.
    """
    try:
        return work()
    except AccountingError:
        raise
    except Exception as error:
        interrupted, failure = was_interrupted(error), _explain(error, title, tells=tells)
    if interrupted:
        raise KeyboardInterrupt
    raise EventLogError(failure)


@contextmanager
def open_engine(memory_limit: str | None = None, *, tells: bool = False) -> Iterator[Engine]:
    """An engine with a temporary folder that only this user can read, both gone after the block.

    If it `tells`, errors show where a file is malformed, for callers who may see the data.
    """
    import duckdb

    Engine.require_memory(memory_limit)
    cores = os.cpu_count() or 1
    memory = (
        f"{max(_LEAST_MEMORY, _MEMORY_OF_A_CORE * cores)}MiB"
        if memory_limit is None
        else memory_limit.strip()
    )
    with temporary_folder() as folder:
        engine = None
        configuration: dict[str, Any] = {
            **_CONFIGURATION,
            "memory_limit": memory,
            "temp_directory": str(folder / "spill"),
            "max_temp_directory_size": f"{shutil.disk_usage(folder).free * 9 // 10 // 2**20}MiB",
        }
        connection = run_guarded(
            "the log", lambda: duckdb.connect(":memory:", config=configuration)
        )
        try:
            disable_progress_bar(connection)
            yield (engine := Engine(connection, folder, memory, tells=tells))
        finally:
            if engine is None or not engine.abandoned:
                connection.close()


def disable_progress_bar(connection: duckdb.DuckDBPyConnection) -> None:
    """Turn off the engine's progress bar, which would write to the caller's standard output."""
    import duckdb

    # Without ipywidgets a notebook has no bar, and the engine refuses to turn it off.
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")


def lack_of_room(error: object) -> str | None:
    """Message for temporary files that could not be written, or None for another system error."""
    text = str(error)
    if os.strerror(errno.EFBIG) in text:
        return (
            "needs a temporary file larger than this process may write. Raise that limit"
            " (ulimit -f)"
        )
    if any(os.strerror(number) in text for number in (errno.ENOSPC, errno.EDQUOT)):
        return (
            "needs more room for temporary files than there is. Make room, or point TMPDIR at a"
            " larger disk"
        )
    return None


def _explain(error: Exception, title: str, *, tells: bool) -> str:
    import duckdb

    # what follows quotes the log, and is searched for nothing else
    text, _, quoted = str(error).partition("Original Line")
    if is_memory_fault(error):
        return f"{title} did not fit in memory: {NO_MEMORY}"
    if isinstance(error, duckdb.OutOfMemoryException):
        return (
            f"{title} did not fit in the memory and temporary disk allowed. Raise memory_limit=,"
            " state more buckets=, or point TMPDIR at a larger disk"
        )
    if isinstance(error, duckdb.IOException | duckdb.FatalException | OSError) and (
        lack := lack_of_room(text)
    ):
        return f"{title} {lack}"
    if isinstance(error, UnicodeError) or "unicode" in text.lower() or "UTF-8" in text:
        return f"{title} {not_encoded()}"
    if not isinstance(error, duckdb.Error | RuntimeError):
        return (
            f"{title} cannot be read: {type(error).__name__}; its message may quote the data and is"
            " not shown"
        )
    if text == _STILL:
        return (
            f"{title} cannot be read: it made no progress for half a minute. A row is malformed, or"
            " its disk does not answer"
        )
    line = re.search(r"CSV Error on Line: (\d+)", text) if tells else None  # a line counts rows
    place = f" (near line {line[1]})" if line else ""
    if "Maximum line size" in quoted or "Maximum line size" in text:
        return (
            f"{title} cannot be read{place}: a line is longer than 2 MB, the most that is read."
            " Leave its long column out"
        )
    if "Parallel CSV Reader" in text:
        return (
            f"{title} cannot be read: it has quoted text with line ends, in which other text looks"
            " like rows, and is too long to be read by one thread. Leave that column out, or"
            " convert the file to Parquet"
        )
    if re.search(r"^Expected Number of Columns: \d+ Found: \d+$", quoted, re.MULTILINE):
        return (
            f"{title} cannot be read{place}: it has a malformed row, of another number of fields"
            " than the first line: a footnote or a total below the table, a comment line"
            " (state comment=), or a delimiter in a label that is not quoted. Such a file is"
            " refused whole. Correct it"
        )
    if "invalid state" in text:
        return (
            f"{title} cannot be read: its lines do not all end alike (\\n in some, \\r\\n in"
            " others), or text follows a quote. Such a malformed file is refused whole. Give all"
            " lines one end, with dos2unix for example"
        )
    if "Could not set lock" in text or "is already attached" in text:
        return (
            f"{title} is in use by another process or connection, which may write to it. Close it"
            " there, or read a copy of the file"
        )
    if "Need at least one non-root column" in text:
        return f"{title} is empty: it has no columns. Write them, also where there is no event"
    if isinstance(error, duckdb.NotImplementedException) and "Data type" in text:
        return f"{title} cannot be read, because of a column's type. Cast it to text or integers"
    if "CSV Error" in text:
        return (
            f"{title} cannot be read{place}: it has a malformed row, such as a quote that is not"
            " closed, or that a backslash escapes (Spark writes so: state escape='\\'), or is of"
            " another format than stated. It is refused whole. Correct it, or say what it is with"
            " format="
        )
    if "JSON" in text:
        return (
            f"{title} cannot be read: it has a malformed line, or one that is no JSON object, and"
            " then is refused whole. Correct it, or say what it is with format="
        )
    if isinstance(error, duckdb.CatalogException | duckdb.BinderException | duckdb.ParserException):
        return (
            f"{title} cannot be read: it names something that is not there, or is no query. Correct"
            " table= or query="
        )
    return (
        f"{title} cannot be read: it is damaged, or of another format than stated. Write or fetch"
        " it again, or say what it is with format="
    )


_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*://")
_PACKED = {
    ".gz": re.compile(b"\x1f\x8b"),
    ".bz2": re.compile(b"BZh[1-9]1AY&SY"),
    ".zst": re.compile(b"[(]\xb5/\xfd"),
}
_BOM = b"\xef\xbb\xbf"
_PART, _FAR = 1 << 16, 1 << 22  # bytes


_FOLDERS: set[Path] = set()
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def temporary_folder(
    prefix: str = "dpselect-events-", within: Path | None = None
) -> Iterator[Path]:
    """A folder that only this user can read, removed after the block and on SIGTERM or SIGHUP.

    It lies in the folder `within`, or in the system's folder for temporary files. Signals are
    caught if the block is in the main thread and nothing else handles them. After SIGKILL or a
    power cut the folder is left behind.
    """
    folder = Path(within or tempfile.gettempdir(), f"{prefix}{uuid.uuid4().hex}")
    with ExitStack() as stack:
        # Known before it is made and until it is gone: a signal may come while it is removed, which
        # takes a while.
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) is signal.SIG_DFL:
                    stack.callback(signal.signal, number, signal.signal(number, _end_process))
        _FOLDERS.add(folder)
        stack.callback(_FOLDERS.discard, folder)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        yield folder


def _end_process(number: int, _frame: object) -> None:
    """Remove the folders, and end the process as the signal would have."""
    for _ in range(2):  # a thread of the engine may add a file to one while it goes
        for folder in tuple(_FOLDERS):
            shutil.rmtree(folder, ignore_errors=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def path_of(source: object) -> Path:
    """The file at the path `source`, taken literally. Patterns and addresses are refused."""
    if (address := _ADDRESS.match(str(source))) is not None:
        # What follows may hold a password.
        raise EventLogError(
            f"addresses that begin with {address[0]} are not read. Save the log to a file, or name"
            " a database"
        )
    path, failure = Path(cast(str, source)), ""
    try:
        if path.is_dir():
            require_whole(path)
            failure = "is a directory. Give a file, or a folder of them alone"
        elif not path.exists():
            failure = "does not exist. Check the path"
        elif not path.is_file():
            failure = "is not a regular file. Save it to one first"
        else:
            path.open("rb").close()
    except ValueError:
        failure = "is not a path: it holds a null character"
    except OSError as error:
        failure = f"cannot be opened: {error.strerror or 'input or output error'}"
    if failure:
        raise EventLogError(f"{mask(source)} {failure}")
    return path


def not_encoded(encoding: str | None = None) -> str:
    """Message for a file that does not match its encoding."""
    return (
        f"is not valid {encoding or 'UTF-8'}. State its encoding=, such as cp1252, or convert it to"
        " UTF-8"
    )


def inner_suffix(path: Path) -> str:
    """Suffix of a file name in lower case, without the suffix of its compression."""
    return (path.with_suffix("") if path.suffix.lower() in _PACKED else path).suffix.lower()


def plain(
    path: Path,
    target: Path,
    encoding: str | None = None,
    is_open: Callable[[str], bool] | None = None,
    comment: str = "",
) -> Path:
    """`target`, made a file (or link) with the contents of `path`: unpacked, in UTF-8, without BOM.

    With `is_open`, which is true of lines that end within a quoted field, it holds only the first
    record, below lines that begin with `comment`. The rest of the file changes nothing. A packed
    file that is damaged further down is refused when it is read.

    Unpacking gzip here costs 5 CPU s per 10^9 bytes, and it checks the checksum, which the engine
    does not. The engine also never sees a name in which it would find a pattern (*, ?, [) or a
    key=value to read columns from.
    """
    file_name, codec_name, suffix = (
        mask(path),
        None if encoding is None else codecs.lookup(encoding).name,
        None,
    )
    try:
        with path.open("rb") as raw:
            begin = raw.read(10)
        suffix = next((ending for ending, magic in _PACKED.items() if magic.match(begin)), None)
        if suffix is None and path.suffix.lower() in _PACKED:
            raise gzip.BadGzipFile
        with _unpack(path, suffix) as stream:
            head = stream.read(len(_BOM))
            if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and encoding is None:
                raise UnicodeError
            if is_open is not None:
                parts = itertools.chain(
                    [b"" if head == _BOM else head], iter(lambda: _next_part(stream), b"")
                )
                target.write_bytes(_first_record(parts, codec_name, is_open, comment))
                return target
            if not suffix and head != _BOM and codec_name in (None, "utf-8"):
                target.symlink_to(path.resolve())
                return target
            with target.open("wb") as copy:
                if codec_name in (None, "utf-8"):
                    copy.write(b"" if head == _BOM else head)
                    shutil.copyfileobj(stream, copy, 1 << 20)
                else:
                    assert codec_name is not None, "other than UTF-8"
                    decoder = codecs.getincrementaldecoder(codec_name)()
                    while head:
                        copy.write(decoder.decode(head).encode())
                        head = stream.read(1 << 20)
                    copy.write(decoder.decode(b"", final=True).encode())
            return target
    except (gzip.BadGzipFile, EOFError, zlib.error):
        kind = {".bz2": "bzip2", ".zst": "Zstandard"}.get(suffix or path.suffix.lower(), "gzip")
        failure = (
            f"is not a whole {kind} file: it is damaged, cut short, or not {kind}. Fetch or"
            " compress it again"
        )
    except UnicodeError:
        failure = "is UTF-16. Say encoding='utf-16'" if encoding is None else not_encoded(encoding)
    except OSError as error:
        failure = lack_of_room(error) or (
            "cannot be read: " + error.strerror
            if error.strerror
            else (
                "is not a whole packed file, or its disk does not answer. Fetch or compress it"
                " again"
            )
        )
    raise EventLogError(f"{file_name} {failure}")


# in place of bytes that are not of a stated encoding; no text has it
UNDECODED = "\ud800".encode(errors="surrogatepass")
codecs.register_error("dpselect.undecoded", lambda error: ("\ud800", cast(Any, error).end))


def _first_record(
    parts: Iterable[bytes],
    codec_name: str | None,
    is_open: Callable[[str], bool],
    comment: str,
) -> bytes:
    """The first record of data that is read in parts, in UTF-8, if its line end is not far.

    Comments and blank lines above it are left out if there may be comments. `UNDECODED` stands for
    bytes that are not of a stated encoding, because lines below the header must decide nothing.
    """
    decoding, encoding = (
        ("dpselect.undecoded", "surrogatepass") if codec_name else ("surrogateescape",) * 2
    )
    decoder = codecs.getincrementaldecoder(codec_name or "utf-8")(decoding)
    data, start = b"", 0
    with suppress(csv.Error):  # a field that is too long
        for part in parts:
            data += decoder.decode(part).encode(errors=encoding)
            while (
                end := min(
                    (at for mark in (b"\n", b"\r") if (at := data.find(mark, start)) >= 0),
                    default=-1,
                )
            ) >= 0:
                start = end + 1
                if comment and data[:1] in (b"\n", b"\r", comment.encode()):
                    data, start = data[start:], 0
                elif not is_open(data[:start].decode(errors="surrogateescape")):
                    return data[:start]
            if len(data) > _FAR:
                break
    return data


def _next_part(stream: IO[bytes]) -> bytes:
    """Read only the bytes available now, so that damage below the header is not found."""
    return cast(bytes, getattr(stream, "read1", stream.read)(_PART))


def _unpack(path: Path, suffix: str | None) -> IO[bytes]:
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if suffix == ".bz2":
        return cast(IO[bytes], bz2.open(path, "rb"))
    if suffix == ".zst":
        try:
            arrow = importlib.import_module("pyarrow")
        except ImportError:
            raise missing_extra(".zst files are unpacked by pyarrow", "arrow") from None
        return cast(IO[bytes], arrow.CompressedInputStream(arrow.OSFile(str(path)), "zstd"))
    return path.open("rb")
