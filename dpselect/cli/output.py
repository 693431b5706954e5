"""Where a command may write: new files only, and none that belongs to a ledger."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from accounting import OutputRefused
from accounting.files import require_new

_BESIDE = ("", "-journal", "-wal", "-shm")  # files that SQLite keeps, or would take for its own


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
    try:
        url = None if ledger is None else make_url(ledger)
    except ArgumentError:
        return set()
    if url is None or not url.drivername.startswith("sqlite") or not url.database:
        return set()
    file = Path(url.database).resolve()
    return {file.with_name(file.name + suffix) for suffix in _BESIDE}
