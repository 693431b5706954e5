"""From a path to a plain local file under a name that the engine cannot misread."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import tempfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

from dpselect.errors import EventLogError

_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*://")
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


_FOLDERS: set[str] = set()
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that only this user can read, gone afterwards: also if SIGTERM or SIGHUP, which nobody handles, ends the process.

    Signals are caught where the block is in the main thread. Nothing catches SIGKILL or a power cut: these leave it behind.
    """
    with tempfile.TemporaryDirectory(prefix="dpselect-events-") as name, ExitStack() as stack:
        _FOLDERS.add(name)
        stack.callback(_FOLDERS.discard, name)
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) is signal.SIG_DFL:
                    stack.callback(signal.signal, number, signal.signal(number, _ended))
        yield Path(name)


def _ended(number: int, _frame: object) -> None:
    """Remove the folders, and end as the signal would have."""
    for _ in range(2):  # a thread of the engine may add a file to one while it goes
        for name in _FOLDERS:
            shutil.rmtree(name, ignore_errors=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def checked(source: object) -> Path:
    """The file at the path `source`, taken literally: no pattern, no address."""
    if (address := _ADDRESS.match(str(source))) is not None:
        # What follows may hold a password.
        raise EventLogError(f"addresses that begin with {address[0]} are not read: save the log to a file, or name a database")
    path = Path(cast(str, source))
    failure = _unusable(path)
    if failure is not None:
        raise EventLogError(f"{str(source)!r} {failure}")
    return path


def plain(path: Path, target: Path) -> Path:
    """`target`, made a file with the contents of `path`: unpacked if gzipped, without byte order mark, otherwise a link.

    Unpacking here costs 5 CPU s per 10^9 bytes and checks the checksum, which the engine does not; and the engine never sees
    a name in which it would find a pattern (*, ?, [) or a key=value to read columns from.
    """
    failure = None
    try:
        _provide(path, target)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        failure = "is not a whole gzip file: it is damaged, cut short, or not gzip; fetch or compress it again"
    except OSError as error:
        failure = f"cannot be read: {error.strerror or 'input or output error'}"
    if failure is not None:
        raise EventLogError(f"{str(path)!r} {failure}")
    return target


def _unusable(path: Path) -> str | None:
    try:
        if path.is_dir():
            return "is a directory: give a file, or a folder of them alone"
        if not path.exists():
            return "does not exist: check the path"
        if not path.is_file():
            return "is not a regular file: save it to one first"
        with path.open("rb"):
            return None
    except ValueError:
        return "is not a path: it holds a null character"
    except OSError as error:
        return f"cannot be opened: {error.strerror or 'input or output error'}"


def _provide(path: Path, target: Path) -> None:
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
    if path.suffix.lower() == ".gz" and not packed:
        raise gzip.BadGzipFile
    with gzip.open(path, "rb") if packed else path.open("rb") as stream:
        head = stream.read(len(_BOM))
        if not packed and head != _BOM:
            target.symlink_to(path.resolve())
            return
        with target.open("wb") as copy:
            copy.write(b"" if head == _BOM else head)
            shutil.copyfileobj(stream, copy, 1 << 20)
