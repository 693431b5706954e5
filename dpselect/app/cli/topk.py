"""`dpselect topk`: an answer as text, or with `--every` the state of each period."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, echo

from dpselect.app.cli import guard, out
from dpselect.app.cli.from_model import command, spell_options
from dpselect.app.release.answer import Answer, AnswerFile, DryRun, as_json
from dpselect.app.release.question import Question
from dpselect.app.release.topk import answer_question
from dpselect.app.spec import TopKSpec
from dpselect.errors import InvalidRequest

if TYPE_CHECKING:
    from dpselect.app.release.series import Series

_Events = Annotated[
    list[str],
    Argument(
        metavar="EVENTS...",
        help=(
            "Log with one row per event: CSV, TSV, JSON lines or Parquet. Text formats may be"
            " gzipped. Several files, a folder of Parquet, a pattern in quotes, - for standard"
            " input, or postgresql://USER@HOST/NAME."
        ),
    ),
]
_SpreadsheetSafe = Annotated[
    bool,
    guard.output(
        "--spreadsheet-safe",
        help=(
            "Put an apostrophe before text in a CSV that begins like a formula (= + - @), to"
            " protect spreadsheets."
        ),
    ),
]


def _topk(
    events: _Events,
    spec: TopKSpec,
    spreadsheet_safe: _SpreadsheetSafe = False,
    json: guard.Json = False,
) -> None:
    log = events[0] if len(events) == 1 else tuple(events)
    question = Question.from_spec(log, spec)
    place = AnswerFile.from_spec(spec, defused=spreadsheet_safe, texts=ANSWERS)
    if spreadsheet_safe and (place.output is None or place.output.suffix.lower() != ".csv"):
        raise InvalidRequest(
            "--spreadsheet-safe changes the text of a CSV. Name one with --output, or leave it out"
        )
    out.require_shown(place)
    with out.reading() if spec.every is None else out.step_bar("periods") as progress:
        result: Any = answer_question(
            question,
            log,
            place,
            progress,
            lambda unkept, answer: out.show_answer(answer, unkept, json=True),
            lambda words: echo(words, err=True),
        )
    if isinstance(result, Answer | DryRun):
        out.show_answer(result, place, json=json)
        if isinstance(result, Answer) and result.explained_by_noise:
            out.leave_explained(result.cautions, json=json)
    else:
        _show(result, as_json=json)


topk = command(TopKSpec, _topk)


def _spell_options(words: str) -> str:
    return spell_options(words, TopKSpec)


def _show(series: Series, *, as_json: bool) -> None:
    """Print the state of each period.

    A lost answer is an error, and a separate exit status reports that noise alone explains the
    answers.
    """
    cautions = list(map(_spell_options, series.cautions))
    if as_json:
        listed = [
            {"period": release.name, "state": release.state, "output": str(release.output)}
            for release in series.releases
        ]
        in_all = series.in_all
        total = {
            "periods": in_all.periods,
            "epsilon": in_all.epsilon,
            "delta": in_all.delta,
            "in_words": in_all.words,
        }
        out.emit(out.json_text({"periods": listed, "in_all": total, "notes": cautions}) + "\n")
    else:
        out.emit(section.spell(_spell_options) for section in series.sections())
    if lost := series.lost:
        raise InvalidRequest(
            f"the answers of {len(lost)} periods are not in their files ({', '.join(lost[:5])})."
            " Put the files back. They were released, and can be released again under another"
            " key, if the budget allows it, with --since and --until of that period"
        )
    if series.explained_by_noise:
        out.leave_explained(cautions, json=as_json)


ANSWERS: Final[dict[str, Callable[[Answer], str]]] = {
    ".json": as_json,
    ".txt": lambda answer: out.plain(answer.sections()),
}
