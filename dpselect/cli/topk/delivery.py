"""From a drawn answer to somebody's eyes: to disk first, then to standard output; and what is said where either fails."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from accounting import MissingExtra, OutputError
from accounting.files import PRIVATE, new_file
from dpselect.answers.answer import Answer
from dpselect.answers.question import Question
from dpselect.answers.record import as_json, recorded, rescued, write_private
from dpselect.choose.counts import interval
from dpselect.cli import out
from dpselect.cli.topk import view
from dpselect.errors import InvalidRequest, Note
from dpselect.mechanisms.base import Mechanism
from dpselect.selection import Selection

# What a cell that is calculated begins with, the last ones as on East Asian keyboards; also after what parts cells or rows where
# a comma does not, as in countries that write decimals with one.
_FORMULA = re.compile('(^|[;\t\r\n])(?=["\\s]*[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])')


def _as_csv(selection: Selection, margin: float | None, *, defused: bool) -> bytes:
    held, text = selection.columns(margin), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(held)
    writer.writerows([_defused(cell) if defused else cell for cell in row] for row in zip(*held.values(), strict=True))
    return text.getvalue().encode()


def _defused(cell: object) -> object:
    """Text that a spreadsheet would take for a formula, after an apostrophe, which tells it not to."""
    return _FORMULA.sub(r"\1'", cell) if isinstance(cell, str) else cell


def _as_parquet(selection: Selection, margin: float | None, *, defused: bool) -> bytes:  # noqa: ARG001 - no text to a spreadsheet
    written = io.BytesIO()
    import_module("pyarrow.parquet").write_table(selection.to_arrow(margin), written)
    return written.getvalue()


# What the end of a file's name stands for: an answer, or a table of what was released, beside which the answer is kept as JSON.
ANSWERS: Final[dict[str, Callable[[Answer], str]]] = {".json": as_json, ".txt": lambda answer: out.plain(view.as_text(answer))}
TABLES: Final[dict[str, Callable[..., bytes]]] = {".csv": _as_csv, ".parquet": _as_parquet}


@dataclass
class Delivery:
    """Where one answer goes; `failure` says why the file is missing."""

    output: Path | None
    json: bool
    defused: bool = False
    failure: OutputError | None = None

    def require(self, question: Question) -> None:
        """Check, before anything is read or charged, that the answer will have a place."""
        out.require_place(self.output, [*ANSWERS, *TABLES])
        if self.defused and (self.output is None or self.output.suffix.lower() != ".csv"):
            raise InvalidRequest("--spreadsheet-safe changes the text of a CSV: name one with --output, or leave it out")
        if self.output is not None and self.output.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
            raise MissingExtra("Parquet is written by pyarrow: install it with pip install 'dpselect[arrow]', or name a .csv")
        beside = self.record if self.record != self.output else None
        ledger = None if question.payment is None else question.payment.ledger
        url = ledger if isinstance(ledger, str) else None
        out.require_targets({"--output": self.output, "the answer beside --output": beside}, url)

    @property
    def record(self) -> Path | None:
        """Where the answer is kept as JSON: a table has no place for what it cost."""
        if self.output is None or self.output.suffix.lower() not in TABLES:
            return self.output
        return self.output.with_name(self.output.name + ".json")

    def recorded(self, question: Question) -> str | None:
        """The answer that the file holds, if the question's key has paid for it: a retry costs nothing and draws nothing.

        A table that an interruption has lost is written. None if the file is missing or holds another answer.
        """
        return recorded(self.record, question.payment, question.as_data, self._restore)

    def _restore(self, content: str) -> None:
        """Write the table of a recorded answer, unless it is there."""
        if self.output is None or self.output == self.record or self.output.exists():
            return
        held = {name: json.dumps(part) for name, part in json.loads(content).items()}
        self._table(Selection.from_json(held["selection"]), Mechanism.from_json(held["mechanism"]))

    def _table(self, selection: Selection, mechanism: Mechanism) -> None:
        assert self.output is not None
        margin = None if (around := interval(mechanism)) is None else around.half_width
        with new_file(self.output, "--output", mode=PRIVATE) as file:
            file.write(TABLES[self.output.suffix.lower()](selection, margin, defused=self.defused))

    def keep(self, answer: Answer) -> str | None:
        """Write the file, before the ledger is told that the answer was released; its hash is told as well.

        A failure waits until the answer is on the screen.
        """
        if self.output is None or self.record is None:
            return None
        try:
            written = write_private(self.record, ANSWERS[self.record.suffix.lower()](answer))
            if self.record != self.output:
                self._table(answer.selection, answer.mechanism)
        except OutputError as error:
            self.failure = error
            return None
        return written

    def show(self, answer: Answer) -> None:
        """Print the answer. If that fails, it lies in a file, and the error says where."""
        try:
            out.emit(as_json(answer) if self.json else view.as_text(answer))
        except out.NotShown as error:
            if self.output is None or self.failure is not None:
                raise out.NotShown(f"{error}; {self._rescued(answer)}. {_paid(answer)}") from None
            raise out.NotShown(f"{error}; the answer lies in {str(self.output)!r}. {_paid(answer)}") from None
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
        return rescued(as_json(answer), answer.charge.entry)


def _paid(answer: Answer) -> str:
    if (charge := answer.charge) is None:
        return "no ledger was charged"
    return f"it is paid for: entry {charge.entry} of dataset {charge.dataset!r}, key {charge.key!r}"
