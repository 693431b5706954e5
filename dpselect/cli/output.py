"""Where a command may write: new files only, none of a ledger's; and standard output, whole or with an error."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType

from accounting.errors import AccountingError, OutputError, OutputRefused
from accounting.files import PRIVATE, new_file, require_new
from dpselect.cli.guard import Note
from dpselect.errors import InvalidRequest

if TYPE_CHECKING:
    from accounting import Ledger

_BESIDE = ("", "-journal", "-wal", "-shm")  # files that SQLite keeps, or would take for its own


class NotShown(OutputError):
    """Standard output is closed or cannot be written."""


def emit(content: str | RenderableType) -> None:
    """Write to standard output, all of it, now: what a command prints is not lost in silence.

    Raises:
        NotShown: it cannot be written.
    """
    try:
        words = content if isinstance(content, str) else _rendered(content)
        if sys.stdout is None:
            raise ValueError("closed")
        sys.stdout.write(words)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        _abandon_standard_output()
        raise NotShown(f"standard output cannot be written ({getattr(error, 'strerror', None) or 'it is closed'})") from None


def rescued(content: str, entry: int) -> str:
    """Write an answer that cannot be shown to a file of its own, as it was paid for by that entry; and say where."""
    path = Path(f"dpselect-answer-{entry}-{os.getpid()}.json")
    try:
        with new_file(path, "--output", mode=PRIVATE, encoding="utf-8") as file:
            file.write(content)
    except OutputError as error:
        return f"the answer is lost, for {error}"
    return f"the answer was written to {str(path.absolute())!r} instead"


def _rendered(content: RenderableType) -> str:
    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(content)
    return captured.get()


def _abandon_standard_output() -> None:
    """Python flushes it once more at the end, and would complain again."""
    stream = sys.__stdout__
    if stream is not None and sys.stdout is stream:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def told(ledger: Ledger | None, dataset: str | None, key: str) -> Iterator[None]:
    """Add to whatever interrupts the block whether the charge with this key was made; to an ordinary error only if it was."""
    try:
        yield
    except BaseException as error:
        words, charged = standing(ledger, dataset, key)
        if _is_repeated(error):
            error.add_note(Note("no answer of it is stored in a file that --output FILE.json names"))
        if (charged and not _names_its_charge(error)) or not isinstance(error, AccountingError):
            error.add_note(Note(words))
        raise


def _is_repeated(error: BaseException) -> bool:
    from accounting.ledger import AlreadyCharged  # a release without a ledger does without a database

    return isinstance(error, AlreadyCharged)


def _names_its_charge(error: BaseException) -> bool:
    from accounting.ledger import KeyConflict  # as above

    return isinstance(error, KeyConflict) or _is_repeated(error)


def standing(ledger: Ledger | None, dataset: str | None, key: str) -> tuple[str, bool]:
    """Whether a charge was made, in words, as the ledger has it now; True unless it certainly was not."""
    if ledger is None or dataset is None:
        return "nothing was charged: no ledger is named", False
    try:
        receipt = ledger.find(dataset, key)
    except AccountingError:
        return f"whether it was charged cannot be told now: look for key {key!r} with 'dpselect ledger show'", True
    if receipt is None:
        return "nothing was charged", False
    return f"entry {receipt.seq} of dataset {dataset!r}, key {key!r}, is charged and stays charged ({receipt.state})", True


def require_place(output: Path | None, known: Collection[str]) -> None:
    """Check, before any work, that an answer will have a place: a file whose name tells its format, or standard output.

    Raises:
        InvalidRequest: it has none.
    """
    if output is None and sys.stdout is None:
        raise InvalidRequest("standard output is closed, and the answer would be lost: name a file with --output")
    if output is not None and output.suffix.lower() not in known:
        raise InvalidRequest(f"--output={str(output)!r} must end in {' or '.join(known)}: the name tells the format")


def require_targets(targets: dict[str, Path | None], ledger: str | None = None) -> None:
    """Check, before any work, that every file that was asked for can be made; options by name.

    Raises:
        OutputRefused: one exists, cannot be made, is a file of the ledger's, or is asked for twice.
    """
    seen: dict[Path, str] = {}
    taken = _files_of(ledger)
    for option, path in targets.items():
        if path is None:
            continue
        place = path.absolute()
        if place.parent.resolve() / place.name in taken:
            raise OutputRefused(f"{option} {str(path)!r} is a file of the ledger's: name another")
        if (earlier := seen.setdefault(place, option)) != option:
            raise OutputRefused(f"{option} and {earlier} name one file, {str(path)!r}: name two")
        require_new(path, option)


def _files_of(ledger: str | None) -> set[Path]:
    if ledger is None or not ledger.startswith("sqlite"):
        return set()
    from accounting.ledger.database import checked_url  # as above

    file = Path(str(checked_url(ledger).database)).resolve()
    return {file.with_name(file.name + suffix) for suffix in _BESIDE}
