"""The way of an answer to people's eyes: to disk first, then to standard output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from rich.console import RenderableType

from accounting.address import masked
from accounting.errors import OutputError
from dpselect.cli import out
from dpselect.errors import InvalidRequest, Note
from dpselect.release.answer import DryRun
from dpselect.release.record import AnswerFile, rescued


@dataclass
class Delivery:
    """How one answer is shown, and where it is kept."""

    place: AnswerFile
    json: bool
    as_text: Callable[[Any], RenderableType]

    @classmethod
    def of(cls, place: AnswerFile, ledger: object, as_text: Callable[[Any], RenderableType], *, json: bool) -> Self:
        """To a file, which is none of the ledger's, and to standard output."""

        if place.defused and (place.output is None or place.output.suffix.lower() != ".csv"):
            raise InvalidRequest("--spreadsheet-safe changes the text of a CSV: name one with --output, or leave it out")

        def check(place: AnswerFile) -> None:
            out.require_place(place.output, place.known)
            beside = place.record if place.record != place.output else None
            url = ledger if isinstance(ledger, str) else None
            out.require_targets({"--output": place.output, "the answer beside --output": beside}, url)

        return cls(replace(place, check=check), json, as_text)

    def show(self, answer: Any) -> None:
        """Print the answer, or what it would cost. If that fails, it lies in a file, and the error says where."""
        if isinstance(answer, DryRun):
            out.show_dry_run(answer, json=self.json)
            return
        output, failure = self.place.output, self.place.failure
        as_json = self.place.texts[".json"]
        try:
            if answer.kept is not None:  # as it is in the file
                out.emit(answer.kept)
                return
            out.emit(as_json(answer) if self.json else self.as_text(answer))
        except out.NotShown as error:
            lies = f"the answer lies in {masked(output)}"
            if output is None or failure is not None:
                lies = "the answer is lost; name a file with --output"
                if answer.charge is not None:  # what was paid for gets a place
                    lies = rescued(as_json(answer), answer.charge.entry)
            raise out.NotShown(f"{error}; {lies}. {_paid(answer)}") from None
        except BaseException as error:
            lies = f"the answer lies in {masked(output)}" if output is not None and failure is None else ""
            error.add_note(Note("; ".join(words for words in (lies, _paid(answer)) if words)))
            raise
        if failure is not None:
            raise OutputError(f"{failure}. The answer is printed, and nowhere else: copy it. {_paid(answer)}")


def _paid(answer: Any) -> str:
    if (charge := answer.charge) is None:
        return "no ledger was charged"
    return f"it is paid for: entry {charge.entry} of dataset {charge.dataset!r}, key {charge.key!r}"
