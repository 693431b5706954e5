"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from dpselect.pate.labelling_errors import JobBusy


def write_new(path: Path, content: bytes) -> bool:
    """Make a private file that did not exist, durably; False, and nothing changes, if it does.

    For the holder of a lock: what was being written when a process ended is left at `unfinished(path)`.
    """
    _write(unfinished(path), content, 0o600)
    return settle(path)


def unfinished(path: Path) -> Path:
    """Where the content of a file is while `write_new` writes it."""
    return path.with_name(f"{path.name}.new")


def settle(path: Path) -> bool:
    """Give a file whose content is whole, at `unfinished(path)`, its name, durably; False if the name is taken."""
    scratch = unfinished(path)
    try:
        os.link(scratch, path)  # unlike a rename, it never takes the place of a file
    except FileExistsError:
        return False
    finally:
        scratch.unlink()
        _sync_folder(path.parent)
    return True


def replace(path: Path, content: bytes) -> None:
    """Make a file, or put another in its place, durably."""
    scratch = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        _write(scratch, content, 0o666)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _write(path: Path, content: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that a file stands for; the operating system gives it back when the process ends, however it ends.

    Raises:
        JobBusy: another process holds it.
    """
    import fcntl  # not on Windows, where the rest of the package works

    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise JobBusy("another process is working on this job: wait for it, then use --resume if it did not finish") from None
        yield
    finally:
        os.close(handle)
