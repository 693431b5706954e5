"""Size-limited reads and atomic writes that never overwrite an existing file."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from accounting.address import mask
from accounting.errors import AccountingError, OutputError, OutputRefused

PUBLIC, PRIVATE = 0o666, 0o600
_PIECE = 1 << 20
# the longest text that is read as a whole: a plan's counts, heads, a configuration
_TEXT_BYTES = 2**26


def read_bytes(
    path: Path, error: type[AccountingError], title: str = "the file", most: int = _TEXT_BYTES
) -> bytes:
    """Return the content of a regular file.

    Args:
        path: the file.
        error: class of the error to raise.
        title: name of the file in messages.
        most: largest size allowed, in bytes.

    Raises:
        error: it cannot be read, is not a regular file, or is too large.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise error(f"{title} {mask(path)} is not a regular file. Name one")
            buffer = io.BytesIO()
            # read at once, it would take `most` bytes for any file
            while buffer.tell() <= most and (piece := stream.read(_PIECE)):
                buffer.write(piece)
            content = buffer.getvalue()
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or "no name of a file"
        raise error(
            f"{title} {mask(path)} cannot be read ({reason}). Check its name and its permissions"
        ) from None
    if len(content) > most:
        raise error(
            f"{title} {mask(path)} has more than {most:,} bytes, which is the limit. Give a"
            " smaller one"
        )
    return content


def read_text(
    path: Path, error: type[AccountingError], title: str = "the file", most: int = _TEXT_BYTES
) -> str:
    """Return a file's content as UTF-8 text without byte order mark; arguments as `read_bytes`."""
    try:
        return read_bytes(path, error, title, most).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise error(f"{title} {mask(path)} cannot be read as text. Save it as UTF-8") from None


def require_new(path: Path, title: str = "the file") -> None:
    """Check, before any work, that a new file can be made at `path`.

    Args:
        path: the file.
        title: name of the file in messages.

    Raises:
        OutputRefused: the file exists, has no folder, or may not be written there.
    """
    name = f"{title} {mask(path)}"
    if "\0" in str(path) or not path.name:
        raise OutputRefused(f"{name} is not the name of a file. Name one")
    if os.path.lexists(path):
        raise OutputRefused(
            f"{name} exists and is not overwritten. Name another file, or move that one away first"
        )
    if not os.access(path.parent / ".", os.F_OK):
        raise OutputRefused(
            f"{name} cannot be written, because its folder does not exist. Make it first"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputRefused(
            f"{name} cannot be written, because its folder is not writable. Name another"
        )


@contextlib.contextmanager
def new_file(
    path: Path,
    title: str = "the file",
    *,
    mode: int = PUBLIC,
    encoding: str | None = None,
    replace: bool = False,
) -> Iterator[IO[Any]]:
    """Open a stream whose content becomes the file at `path` when the block ends, durably.

    If the block fails, no file appears.

    Args:
        path: the file. The content is first written beside it, under another name.
        title: name of the file in messages.
        mode: permissions of the file, before the process's mask.
        encoding: encoding of a text stream; None for bytes.
        replace: True to replace an existing file. Use it only for a file that the same work wrote
            before. A link stays, and the file that it leads to is replaced.

    Raises:
        OutputRefused: as `require_new`, before the block or after it.
        OutputError: it cannot be written.
    """
    if not replace:
        require_new(path, title)
    elif path.is_symlink():
        path = path.resolve()
    scratch = path.with_name(f".dpselect-{uuid.uuid4().hex}")
    try:
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        kind, newline = ("wb", None) if encoding is None else ("w", "\n")
        with os.fdopen(handle, kind, encoding=encoding, newline=newline) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if replace:
            with contextlib.suppress(FileNotFoundError):
                # who may read it stays as its owner has set it
                scratch.chmod(stat.S_IMODE(path.stat().st_mode))
            scratch.replace(path)
            sync_folder(path.parent)
        elif not settle(scratch, path):
            raise OutputRefused(
                f"{title} {mask(path)} was made by another process meanwhile and is not"
                " overwritten. Name another file"
            )
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise OutputError(
            f"{title} {mask(path)} cannot be written ({reason}), and no part of it is left"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)


def write_text(target: Path | str | IO[str], title: str, pieces: Iterable[str], mode: int) -> None:
    """Write text piece by piece to a new file, or to an open one.

    Arguments and errors are those of `new_file`.
    """
    try:
        with (
            new_file(Path(target), title, mode=mode, encoding="utf-8")
            if isinstance(target, Path | str)
            else contextlib.nullcontext(target)
        ) as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise OutputError(
            f"{title} cannot be written ({error.strerror}), and the written part is incomplete"
        ) from None


def write_draft(path: Path, content: bytes) -> None:
    """Write a private file durably, its name included, and replace an existing one.

    An interruption may leave a part of it.
    """
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def settle(scratch: Path, path: Path) -> bool:
    """Give a finished scratch file its name, durably, and return True.

    If the name is taken, drop the content and return False.
    """
    try:
        return name_file(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def name_file(scratch: Path, path: Path) -> bool:
    """Give a finished scratch file its name, durably, and return True.

    If the name is taken, return False and keep the scratch file.
    """
    try:
        _link(scratch, path)
        # before the other name goes: a power cut might undo the new name and not that
        sync_folder(path.parent)
    except FileExistsError:
        return False
    scratch.unlink(missing_ok=True)
    return True


def durable_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter, and those above it, durably.

    An existing folder stays as it is.
    """
    if folder.is_dir():
        return
    durable_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable.

    If folders cannot be opened (Windows), they are as durable as the system makes them.
    """
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _link(scratch: Path, path: Path) -> None:
    try:
        os.link(scratch, path)  # unlike a rename, it never takes the place of a file
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        # A file system without links: take the name, then put the content in the place of the empty
        # file.
        os.close(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, scratch.stat().st_mode & 0o777)
        )
        scratch.replace(path)
