"""From a drawn answer to somebody's eyes: to disk first, then to standard output; and what is said where either fails."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from accounting import OutputError
from accounting.files import PRIVATE, new_file
from dpselect.cli import json_output, text
from dpselect.cli.guard import Note
from dpselect.cli.output import NotShown, emit, require_targets
from dpselect.cli.release import Answer, Question
from dpselect.errors import InvalidRequest

_WIDTH = 100


def _as_text(answer: Answer) -> str:
    shown = io.StringIO()
    Console(file=shown, width=_WIDTH, highlight=False, no_color=True).print(text.shown(answer))
    return shown.getvalue()


def _as_json(answer: Answer) -> str:
    return json_output.as_json(json_output.as_data(answer)) + "\n"


# What the end of a file's name stands for.
WRITERS: Final[dict[str, Callable[[Answer], str]]] = {".json": _as_json, ".txt": _as_text}


@dataclass
class Delivery:
    """Where one answer goes.

    Attributes:
        output: the file, or None.
        as_json: whether standard output gets JSON.
        failure: why there is no file.
    """

    output: Path | None
    as_json: bool
    failure: OutputError | None = None

    def require(self, question: Question) -> None:
        """Check, before anything is read or charged, that the answer will have a place.

        Raises:
            InvalidRequest: the file's name tells no format, or standard output is closed and no file is named.
            OutputRefused: the file exists, is one of the ledger's, or cannot be made.
        """
        if self.output is None and sys.stdout is None:
            raise InvalidRequest("standard output is closed, and the answer would be lost: name a file with --output")
        if self.output is not None and self.output.suffix.lower() not in WRITERS:
            raise InvalidRequest(f"--output={str(self.output)!r} must end in {' or '.join(WRITERS)}: the name tells the format")
        require_targets({"--output": self.output}, question.ledger)

    def keep(self, answer: Answer) -> None:
        """Write the file, before the ledger is told that the answer was released. A failure waits until it is on the screen."""
        if self.output is None:
            return
        try:
            _write(self.output, answer)
        except OutputError as error:
            self.failure = error

    def show(self, answer: Answer) -> None:
        """Print the answer. If that fails, it lies in a file, and the error says where.

        Raises:
            NotShown: it cannot be printed.
            OutputError: it is on the screen, and the file could not be written.
        """
        try:
            emit(_as_json(answer) if self.as_json else text.shown(answer))
        except NotShown as error:
            if self.output is None or self.failure is not None:
                raise NotShown(f"{error}; {self._rescued(answer)}. {_paid(answer)}") from None
            raise NotShown(f"{error}; the answer lies in {str(self.output)!r}. {_paid(answer)}") from None
        except BaseException as error:
            lies = f"the answer lies in {str(self.output)!r}" if self.output is not None and self.failure is None else ""
            error.add_note(Note("; ".join(words for words in (lies, _paid(answer)) if words)))
            raise
        if self.failure is not None:
            raise OutputError(f"{self.failure}. The answer is printed, and nowhere else: copy it. {_paid(answer)}")

    def _rescued(self, answer: Answer) -> str:
        """A place for an answer that has none: it was paid for."""
        if answer.charge is None:
            return "the answer is lost; name a file with --output"
        path = Path(f"dpselect-answer-{answer.charge.entry}-{os.getpid()}.json")
        try:
            _write(path, answer)
        except OutputError as error:
            return f"the answer is lost, for {error}"
        return f"the answer was written to {str(path.absolute())!r} instead"


def _write(path: Path, answer: Answer) -> None:
    with new_file(path, "--output", mode=PRIVATE, encoding="utf-8") as file:
        file.write(WRITERS[path.suffix.lower()](answer))


def _paid(answer: Answer) -> str:
    charge = answer.charge
    if charge is None:
        return "no ledger was charged"
    return f"it is paid for: entry {charge.entry} of dataset {charge.dataset!r}, key {charge.key!r}"
