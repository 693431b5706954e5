"""An answer as data, and the file that keeps it: a retry under a key that has paid shows that answer, and draws nothing."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import accounting as acc
import dpselect
from accounting.address import masked
from accounting.errors import OutputError, missing_extra
from accounting.files import PRIVATE, new_file, read_text, require_new
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import Mechanism
from dpselect.plan.candidates import Choice
from dpselect.plan.learn import Learnt, LearnThenSelect
from dpselect.plan.profile import Profile
from dpselect.release.answer import Answer, PaidCharge, promise
from dpselect.release.question import Question, learns_about, opened
from dpselect.selection import Selection
from dpselect.spec import LedgerFields

A = TypeVar("A")

UNRECORDED = (
    "nothing was recorded in a ledger. Every further release from these data adds to the price: keep this record, and do not "
    "repeat the release to get another answer."
)
RECORDED = "this release was charged to the ledger before it was drawn, and is on record there."
SETTLED = f"{RECORDED} What the answer did not use of the price above is given back there, unless that was interrupted."


def on_record(question: Question) -> str:
    """Whether the release is in a ledger, in words."""
    if question.spec.ledger is None:
        return UNRECORDED
    return RECORDED if question.pay == "curve" else SETTLED


def left_out(question: Question) -> str:
    """Which rows are not counted."""
    parts = ["user", "item", *(name for name in ("group", "value", "time") if getattr(question.reading, name) is not None)]
    return f"rows with a null {', '.join(parts[:-1])} or {parts[-1]} were left out by rule"


def as_json(answer: Answer) -> str:
    """The release and its price, what was asked included; no guarantee is null."""
    return as_text(as_data(answer))


def as_text(data: dict[str, Any]) -> str:
    """JSON of plain data; no NaN or Infinity, which are not JSON."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=True) + "\n"


def as_data(answer: Answer) -> dict[str, Any]:
    """The release and its price as plain data."""
    question, mechanism, paid = answer.question, answer.mechanism, answer.paid
    reading, stated, profile = question.reading, question.budget, answer.choice.profile
    asked = {"epsilon": stated.epsilon, "delta": stated.delta, "rho": stated.rho}
    budget = {name: value for name, value in asked.items() if value}
    window = {name: None if (end := getattr(reading, name)) is None else str(end) for name in ("since", "until")}
    chosen: dict[str, Any] = {}
    if answer.learnt is not None:
        assert profile is not None, "it was chosen by them"
        declared = [name for name, part in answer.learnt.learning.drawn.items() if not part]
        said = {"declared": declared, "in_words": profile.in_words(), "paid": json.loads(answer.learnt.to_json())}
        chosen = {"learnt": {**profile.as_data(), **said, "about": learns_about(question, answer.learnt.learning)}}
    if answer.known_from is not None and profile is not None:
        chosen["known"] = {**profile.as_data(), "entry": answer.known_from}
    over = {"over": "all groups"} if answer.choice.cells else {"max_groups_per_user": reading.max_groups_per_user}
    # All that was released; a position in the catalogue says nothing new.
    selection, released = answer.selection, answer.selection.model_dump(mode="json")
    named = [name for name in type(selection).model_fields if name not in ("positions", "groups", "lost")]
    shown = {name: released.get(name) for name in named}
    groups = {} if selection.groups is None else {"groups": list(selection.groups)}
    lost = {} if selection.lost is None else {"lost": selection.lost}
    return {
        "dpselect": dpselect.__version__,
        "question": question.as_data(),
        "selection": shown | {"labels": list(selection.labels or ())} | groups | lost,
        **({} if answer.shown is None else {"shown": json.loads(answer.shown.to_json())}),
        **({} if answer.selection.values is None else {"unit": answer.unit or "shares of users, cut by the clip"}),
        "intervals": None if (around := answer.interval) is None else asdict(around),
        "guarantee": {"budget": budget, **promise(paid, question.budget).as_data()},
        "planned_releases": None if question.spec.planned is None and question.releases == 1 else question.releases,
        "mechanism": json.loads(mechanism.to_json()),
        "curve": json.loads(paid.curve.to_json()),
        **chosen,
        **({} if question.pay == "curve" else {"spent": json.loads(mechanism.spent(answer.selection).to_json())}),
        "domain": "observed" if question.domain is None else "public",
        **({} if reading.group is None else {"groups": "discovered" if reading.groups is None else "public"}),
        **({} if reading.value is None else {"sums": {"column": reading.value, "clip": reading.value_clip}}),
        **({} if reading.time is None else {"time": {**window, "time_zone": reading.time_zone, "column": reading.time}}),
        "contributions": {
            "max_items_per_user": answer.choice.max_items_per_user,
            **({} if reading.group is None else over),
            "clip": answer.choice.clip,
            "salt": answer.salt,
        },
        "ledger": None if answer.charge is None else asdict(answer.charge),
        "notes": [note for note in (left_out(question), on_record(question), *answer.cautions, answer.lost, answer.left) if note],
    }


# -- the file ---------------------------------------------------------------------------------------------------------


def write_private(path: Path, content: str) -> str:
    """Write an answer to its new file, which only its owner can read; what names it in the ledger, a hash."""
    with new_file(path, "output=", mode=PRIVATE, encoding="utf-8") as file:
        file.write(content)
    return _claim(content)


def rescued(content: str, entry: int) -> str:
    """Write an answer that cannot be shown to a file of its own, as it was paid for by that entry; and say where."""
    path = Path(f"dpselect-answer-{entry}-{os.getpid()}.json")
    try:
        write_private(path, content)
    except OutputError as error:
        return f"the answer is lost, for {error}"
    return f"the answer was written to {str(path.absolute())!r} instead"


def _claim(content: str) -> str:
    return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"


def _recorded_claim(content: str) -> str:
    """What the ledger's record of the release says: what was learnt, if anything was, and the hash."""
    learnt = json.loads(content).get("learnt")
    if learnt is None or "about" not in learnt:
        return _claim(content)
    return f"{Learnt.of_answer(learnt).claim(learnt['about'])} {_claim(content)}"


def _paid(content: str, receipt: acc.ledger.Receipt) -> dict[str, Any] | None:
    """The answer that a file's text holds, if it is one that the receipt's charge has paid for."""
    try:
        answer = json.loads(content)
        held = {name: answer[name] for name in ("ledger", "mechanism", "question")} | {"learnt": answer.get("learnt")}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return held if held["ledger"] == asdict(PaidCharge.of(receipt)) and receipt.state in ("committed", "released") else None


def _is_paid(held: dict[str, Any], receipt: acc.ledger.Receipt) -> bool:
    learnt: Any = held["learnt"]
    paid = LearnThenSelect.model_validate(learnt["paid"]) if learnt else Mechanism.from_json(json.dumps(held["mechanism"]))
    return acc.Curve.from_json(receipt.entries[0].curve or "") == paid.curve


def _differing(held: Any, asked: dict[str, Any]) -> str | None:
    """What two questions differ in, by its name."""
    asked = json.loads(json.dumps(asked))
    if held == asked:
        return None
    parts = held if isinstance(held, dict) else {}
    for part, said in asked.items():
        other = parts.get(part)
        if other != said and isinstance(said, dict) and isinstance(other, dict):
            return next(name for name in sorted({*said, *other}) if said.get(name) != other.get(name))
        if other != said:
            return part
    return "question"


def restored(question: Question, content: str) -> Answer:
    """The answer that was kept as JSON, to a question that is the same."""
    held = json.loads(content)
    mechanism, how = Mechanism.from_json(json.dumps(held["mechanism"])), held["contributions"]
    learnt, known, shown = held.get("learnt"), held.get("known"), held.get("shown")
    users = learnt or known
    choice = Choice(
        mechanism,
        how["max_items_per_user"],
        how["clip"],
        "l2" if mechanism.covers.l1 is None else "l1",
        profile=None if users is None else Profile.of_data(users),
        cells=how.get("over") == "all groups",
    )
    return Answer(
        question,
        Selection.from_json(json.dumps(held["selection"])),
        choice,
        how["salt"],
        PaidCharge(**held["ledger"]),
        learnt=None if learnt is None else LearnThenSelect.model_validate(learnt["paid"]),
        shown=None if shown is None else Selection.from_json(json.dumps(shown)),
        known_from=None if known is None else known["entry"],
        kept=content,
    )


# -- where an answer is kept -------------------------------------------------------------------------------------------


# What a cell that is calculated begins with, the last ones as on East Asian keyboards; also after what parts cells or rows where
# a comma does not, as in countries that write decimals with one.
_FORMULA = re.compile('(^|[;\t\r\n])(?=["\\s]*[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])')


def _as_csv(answer: Any, *, defused: bool) -> bytes:
    held, text = answer.columns(), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(held)
    for row in zip(*held.values(), strict=True):
        # Text that a spreadsheet would take for a formula, after an apostrophe, which tells it not to.
        writer.writerow([_FORMULA.sub(r"\1'", cell) if defused and isinstance(cell, str) else cell for cell in row])
    return text.getvalue().encode()


def _as_parquet(answer: Any, *, defused: bool) -> bytes:  # noqa: ARG001 - no text to a spreadsheet
    written = io.BytesIO()
    import_module("pyarrow.parquet").write_table(answer.to_arrow(), written)
    return written.getvalue()


TABLES: Final[dict[str, Callable[..., bytes]]] = {".csv": _as_csv, ".parquet": _as_parquet}
"""What the end of a file's name stands for: a table of what was released, beside which the answer is kept as JSON."""


@dataclass
class AnswerFile:
    """The new private file that an answer is kept in, and in which forms; `failure` says why it is missing.

    Attributes:
        output: of a table, beside which the answer is kept as JSON; or of one of the `texts`. None keeps it nowhere.
        defused: whether text in a CSV that begins like a formula gets an apostrophe, for spreadsheets.
        texts: by the end of the file's name.
        tables: whether the answer can be a table.
    """

    output: Path | None
    defused: bool = False
    texts: Mapping[str, Callable[[Any], str]] = field(default_factory=lambda: {".json": as_json})
    tables: bool = True
    failure: OutputError | None = None

    @classmethod
    def of(cls, spec: Any, **how: Any) -> Self:
        """The file that a spec names."""
        return cls(None if spec.output is None else Path(spec.output), **how)

    @property
    def record(self) -> Path | None:
        """Where the answer is kept as JSON: a table has no place for what it cost."""
        if self.output is None or self.output.suffix.lower() not in TABLES:
            return self.output
        return self.output.with_name(self.output.name + ".json")

    def require(self) -> None:
        """Check, before anything is read or charged, that the answer will have a place."""
        if self.output is None or self.record is None:
            return
        known = (*self.texts, *TABLES) if self.tables else tuple(self.texts)
        if self.output.suffix.lower() not in known:
            raise InvalidRequest(f"output={masked(self.output)} must end in {' or '.join(known)}: the name tells the format")
        if self.output.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
            raise missing_extra("Parquet is written by pyarrow (a .csv needs nothing more)", "arrow")
        for path in {self.output, self.record}:
            require_new(path, "output=")

    def recorded(
        self, spec: LedgerFields, asked: Callable[[], dict[str, Any]], answer_of: Callable[[str], A], *, writing: bool = True
    ) -> A | None:
        """The answer that the file holds, if the spec's key has paid for it: a retry costs nothing and draws nothing.

        A table and a record of the release that an interruption has lost are made up for. None without such a file, or it holds
        the answer of another charge: then it is in the way, as any file.

        Args:
            asked: what is asked for now, as `Question.as_data` has it.
            answer_of: the answer of its JSON.
            writing: whether what was lost is made up for; a dry run only looks.

        Raises:
            KeyConflict: the file answers another question, or is not as it was when the ledger recorded it.
        """
        file, key = self.record, spec.key
        if file is None or spec.ledger is None or key is None or file.suffix.lower() != ".json" or not file.is_file():
            return None
        content, dataset = read_text(file, InvalidRequest, "output="), str(spec.dataset)
        with opened(spec) as ledger:
            receipt = ledger.find(dataset, key)
            held = None if receipt is None else _paid(content, receipt)
            if receipt is None or held is None:
                return None
            if (other := _differing(held["question"], asked())) or not _is_paid(held, receipt):
                named = f"{other}=" if other and "_" in other else other
                raise acc.ledger.KeyConflict(
                    f"key={key!r} has paid for another release of dataset={dataset!r} (entry {receipt.seq}), whose answer "
                    f"output= holds: another {named or 'mechanism'} was asked for then. Ask as you did then, or under a new key "
                    "and with a new file"
                )
            try:  # to restore what an interruption has lost, once the content is what the ledger recorded; or to record it
                if receipt.state == "released":
                    ledger.release(dataset, key, claim=_recorded_claim(content))
                answer = answer_of(content)
                if writing and self.output != file and self.output is not None and not self.output.exists():
                    self._write_table(answer)
                if writing and receipt.state == "committed":
                    ledger.release(dataset, key, claim=_recorded_claim(content))
            except acc.ledger.ClaimConflict:
                raise acc.ledger.KeyConflict(
                    f"output= holds an answer under key={key!r} that is not the one recorded (entry {receipt.seq}): the file "
                    "was edited since. Take it from a backup, or ask under a new key and with a new file: that is another release"
                ) from None
        return answer

    def _write_table(self, answer: Any) -> None:
        assert self.output is not None
        with new_file(self.output, "output=", mode=PRIVATE) as file:
            file.write(TABLES[self.output.suffix.lower()](answer, defused=self.defused))

    def keep(self, answer: Any) -> str | None:
        """Write the file, before the ledger is told that the answer was released; its hash is told as well.

        A failure waits until the answer has been seen.
        """
        if self.output is None or self.record is None:
            return None
        try:
            written = write_private(self.record, self.texts[self.record.suffix.lower()](answer))
            if self.record != self.output:
                self._write_table(answer)
        except OutputError as error:
            self.failure = error
            return None
        return written
