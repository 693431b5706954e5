"""Output of commands: text, tables and JSON on standard output, new files, and bars on stderr."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console
from typer import Exit, echo

from accounting.address import mask
from accounting.errors import OutputError, OutputRefused
from accounting.files import require_new
from accounting.sections import Section, write
from accounting.wording import printable
from dpselect.app.cli.guard import EXPLAINED, abandon_standard_output
from dpselect.errors import InvalidRequest, Note

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from dpselect.app.events import ProgressCallback
    from dpselect.app.release.answer import AnswerFile

_BESIDE = ("", "-journal", "-wal", "-shm")  # files that SQLite keeps, or would take for its own


_NARROWEST = 40  # columns that a table of an answer needs for its items


class NotShown(OutputError):
    """An error of standard output, which is closed or cannot be written."""


# -- as text or JSON -------------------------------------------------------------------------------


def json_text(data: dict[str, Any] | list[dict[str, Any]]) -> str:
    """JSON text. It raises an error for NaN or Infinity, which are not JSON."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=True)


def plain(sections: Iterable[Section]) -> str:
    """Sections as text for a file."""
    buffer = io.StringIO()
    write(sections, Console(file=buffer, width=100, highlight=False, no_color=True))
    return buffer.getvalue()


def screen() -> Console:
    """Standard output as a console with a minimum width.

    A narrower one, or one of unknown width (COLUMNS=0), wraps lines itself, so cells have room for
    words.
    """
    console = Console(highlight=False)
    console.width = max(console.width, _NARROWEST)
    return console


# -- standard output, files and bars ---------------------------------------------------------------


def show(result: Any, *, json: bool) -> None:
    """Print a result, as plain data or as text."""
    emit(json_text(result.as_data()) + "\n" if json else result.sections())


def strip_padding(text: str, console: Console) -> str:
    """Text of a console, without the padding of cells if it goes to a file or a pipe."""
    return (
        text if console.is_terminal else "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    )


def emit(content: str | Iterable[Section]) -> None:
    """Write all of the content to standard output now, so that no error goes unnoticed."""
    try:
        if not isinstance(content, str):
            console = screen()
            with console.capture() as captured:
                write(content, console)
            content = strip_padding(captured.get(), console)
        if sys.stdout is None:
            raise ValueError("closed")
        sys.stdout.write(content)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        abandon_standard_output()
        raise NotShown(
            "standard output cannot be written"
            f" ({getattr(error, 'strerror', None) or 'it is closed'})"
        ) from None


@contextlib.contextmanager
def bar(
    title: str, *columns: str | ProgressColumn, total: int | None = None
) -> Iterator[ProgressCallback | None]:
    """A callback that moves a progress bar on stderr, or None if stderr is not a terminal."""
    target = Console(stderr=True)
    if not target.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn  # no script watches a bar

    widgets = [TextColumn(column) if isinstance(column, str) else column for column in columns]
    with Progress(
        TextColumn(title), BarColumn(), *widgets, console=target, transient=True
    ) as progress:
        task = progress.add_task("", total=total)
        yield lambda done, whole: progress.update(task, completed=done, total=whole)


def reading() -> contextlib.AbstractContextManager[ProgressCallback | None]:
    """A progress bar for `dpselect.events.read`.

    It shows the progress of the reading, and never the size of the log.
    """
    return bar("reading the log", "{task.percentage:>3.0f}%")


def step_bar(title: str) -> contextlib.AbstractContextManager[ProgressCallback | None]:
    """A progress bar for the steps of a computation on public numbers."""
    return bar(title, "{task.completed:.0f} of {task.total:.0f}", total=1)


def show_answer(answer: Any, place: AnswerFile, *, json: bool) -> None:
    """Print an answer, which is in its file by now, or its dry run.

    If that fails, the error says where the answer is.
    """
    from dpselect.app.release.answer import DryRun, as_json, rescue  # other commands do without

    if isinstance(answer, DryRun):
        show(answer, json=json)
        return
    charge, is_kept = answer.charge, answer.kept is not None or place.path is not None
    place_of_answer, charge_text = (
        f"the answer lies in {mask(place.path or place.record)}" if is_kept else "",
        "no ledger was charged",
    )
    if charge is not None:
        charge_text = (
            f"it is charged as entry {charge.entry} of dataset {charge.dataset!r}, key"
            f" {charge.key!r}"
        )
    try:
        emit((answer.kept or as_json(answer)) if json else answer.sections())
    except NotShown as error:
        if not is_kept:  # what was paid for gets a place
            loss = "the answer is lost. Name a file with --output"
            place_of_answer = loss if charge is None else rescue(answer)
        raise NotShown(f"{error}; {place_of_answer}. {charge_text}") from None
    except BaseException as error:
        error.add_note(Note("; ".join(words for words in (place_of_answer, charge_text) if words)))
        raise
    if place.failure is not None:
        where = place_of_answer or "the answer is only printed, so copy it"
        raise OutputError(f"{place.failure}. {where[:1].upper()}{where[1:]}. {charge_text}")


def leave_explained(cautions: Sequence[str], *, json: bool) -> NoReturn:
    """Exit with a separate status after an answer that noise alone explains.

    As text the answer itself has already said so.
    """
    if json:
        echo(f"warning: {printable(cautions[-1])}", err=True)
    raise Exit(EXPLAINED)


def require_shown(place: AnswerFile) -> None:
    """Check, before any work, that an answer can be written to a file or standard output."""
    if place.output is None and sys.stdout is None:
        raise InvalidRequest(
            "standard output is closed, so the answer would be lost. Name a file with --output"
        )


def require_target(option: str, path: Path | None, ledger: str | None = None) -> None:
    """Check, before any work, that the file of an option can be created."""
    if path is None:
        return
    if ledger is not None:
        # a release without a ledger does without a database
        from accounting.ledger.store import parse_url

        url, place = parse_url(ledger), path.absolute()
        file = Path(str(url.database)).resolve()
        if url.get_backend_name() == "sqlite" and place.parent.resolve() / place.name in {
            file.with_name(file.name + suffix) for suffix in _BESIDE
        }:
            raise OutputRefused(f"{option} {mask(path)} is a file of the ledger's. Name another")
    require_new(path, option)
