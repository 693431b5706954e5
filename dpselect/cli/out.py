"""Where a command may write: new files, none of a ledger's; standard output, whole or with an error; bars on stderr."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from accounting.address import masked
from accounting.errors import OutputError, OutputRefused
from accounting.files import require_new
from dpselect import InvalidRequest
from dpselect.cli.guard import abandon_standard_output

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from dpselect.events import ProgressCallback

_BESIDE = ("", "-journal", "-wal", "-shm")  # files that SQLite keeps, or would take for its own
_NARROWEST = 40  # columns that a table of an answer needs for its items


class NotShown(OutputError):
    """Standard output is closed or cannot be written."""


def emit(content: str | RenderableType) -> None:
    """Write to standard output, all of it, now: what a command prints is not lost in silence."""
    try:
        if not isinstance(content, str):
            console = screen()
            with console.capture() as captured:
                console.print(content)
            content = captured.get()
        if sys.stdout is None:
            raise ValueError("closed")
        sys.stdout.write(content)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        abandon_standard_output()
        raise NotShown(f"standard output cannot be written ({getattr(error, 'strerror', None) or 'it is closed'})") from None


def json_text(data: dict[str, Any] | list[dict[str, Any]]) -> str:
    """JSON text; fails rather than write NaN or Infinity, which are not JSON."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=True)


def heading(words: str) -> Text:
    """A line above facts."""
    return Text(words, style="bold")


def facts(pairs: Iterable[tuple[str, str]]) -> RenderableType:
    """Names and what they stand for, in two columns."""
    table = Table.grid(Column(style="cyan", no_wrap=True), Column(overflow="fold"), padding=(0, 2))
    for name, value in pairs:
        table.add_row(Text(name), Text(value))
    return Padding(table, (0, 0, 0, 2))


@contextlib.contextmanager
def bar(
    what: str, *columns: str | ProgressColumn, total: int | None = None, console: Console | None = None
) -> Iterator[ProgressCallback | None]:
    """A callback that moves a bar on stderr; None where stderr is not a terminal."""
    target = console or Console(stderr=True)
    if not target.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn  # no script watches a bar

    shown = [TextColumn(column) if isinstance(column, str) else column for column in columns]
    with Progress(TextColumn(what), BarColumn(), *shown, console=target, transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda done, whole: progress.update(task, completed=done, total=whole)


def reading(console: Console | None = None) -> contextlib.AbstractContextManager[ProgressCallback | None]:
    """A bar for `dpselect.events.read`. It tells how far the reading is, never how much there is."""
    return bar("reading the log", "{task.percentage:>3.0f}%", console=console)


def counted(what: str, console: Console | None = None) -> contextlib.AbstractContextManager[ProgressCallback | None]:
    """A bar that tells (done, of how many) steps of a computation on public numbers."""
    return bar(what, "{task.completed:.0f} of {task.total:.0f}", total=1, console=console)


def plain(content: RenderableType) -> str:
    """As text for a file."""
    written = io.StringIO()
    Console(file=written, width=100, highlight=False, no_color=True).print(content)
    return written.getvalue()


def screen(*, highlight: bool = False) -> Console:
    """Standard output. One of fewer columns, or of none (COLUMNS=0), wraps lines by itself: cells have room for words."""
    console = Console(highlight=highlight)
    console.width = max(console.width, _NARROWEST)
    return console


def require_place(output: Path | None, known: Collection[str]) -> None:
    """Check, before any work, that an answer will have a place: a file whose name tells its format, or standard output."""
    if output is None and sys.stdout is None:
        raise InvalidRequest("standard output is closed, and the answer would be lost: name a file with --output")
    if output is not None and output.suffix.lower() not in known:
        raise InvalidRequest(f"--output={masked(output)} must end in {' or '.join(known)}: the name tells the format")


def require_targets(targets: dict[str, Path | None], ledger: str | None = None) -> None:
    """Check, before any work, that every file that was asked for can be made; options by name."""
    seen, taken = dict[Path, str](), set[Path]()
    if ledger is not None and ledger.startswith("sqlite"):
        from accounting.ledger.store import checked_url  # a release without a ledger does without a database

        file = Path(str(checked_url(ledger).database)).resolve()
        taken = {file.with_name(file.name + suffix) for suffix in _BESIDE}
    for option, path in targets.items():
        if path is None:
            continue
        place = path.absolute()
        if place.parent.resolve() / place.name in taken:
            raise OutputRefused(f"{option} {masked(path)} is a file of the ledger's: name another")
        if (earlier := seen.setdefault(place, option)) != option:
            raise OutputRefused(f"{option} and {earlier} name one file, {masked(path)}: name two")
        require_new(path, option)
