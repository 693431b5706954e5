"""`dpselect topk`; with `--every` a release for each period of a log, resumable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from rich.console import Group
from rich.table import Table
from rich.text import Text
from typer import Argument, echo

from dpselect.cli import options, out, text
from dpselect.cli.from_model import command
from dpselect.cli.topk.delivery import ANSWERS, Delivery
from dpselect.errors import InvalidRequest
from dpselect.release.answer import Answer, DryRun
from dpselect.release.question import Question
from dpselect.release.record import AnswerFile
from dpselect.release.topk import answered
from dpselect.spec import TopKSpec

if TYPE_CHECKING:
    from dpselect.release.series import HorizonAnswer, Series

_Events = Annotated[
    list[str],
    Argument(
        metavar="EVENTS...",
        help="The log, one row per event: CSV, TSV, JSON lines or Parquet; the text formats may be gzipped. Several files, a "
        "folder of Parquet, a pattern in quotes, - for standard input, or postgresql://USER@HOST/NAME.",
    ),
]
_SpreadsheetSafe = Annotated[
    bool,
    options.output(
        "--spreadsheet-safe",
        help="Put an apostrophe before text in a CSV that begins like a formula (= + - @): for spreadsheets.",
    ),
]


def _topk(
    events: _Events,
    spec: TopKSpec,
    spreadsheet_safe: _SpreadsheetSafe = False,
    json: options.Json = False,
) -> None:
    question = Question.of(events[0] if len(events) == 1 else tuple(events), spec)
    place = AnswerFile(None if spec.output is None else Path(spec.output), spreadsheet_safe, ANSWERS)
    delivery = Delivery.of(place, spec.ledger, json=json)
    with out.reading() if spec.every is None else out.counted("periods") as progress:
        unkept = lambda place, answer: Delivery(place, json=True).show(answer)  # noqa: E731
        found = answered(question, delivery.place, progress, unkept, lambda words: echo(words, err=True))
    if isinstance(found, DryRun):
        out.show_dry_run(found, json=json)
    elif isinstance(found, Answer):
        delivery.show(found)
    elif spec.horizon is None:
        _show(cast("Series", found), as_json=json)
    else:
        from dpselect.cli.continual import show_horizon  # what most answers do without

        show_horizon(cast("HorizonAnswer", found), json=json)


topk = command(TopKSpec, _topk)


_STATES = {
    "released": "released now",
    "recorded": "released before",
    "lost": "charged, and its answer lost when the run was stopped; not drawn again",
}


def _show(series: Series, *, as_json: bool) -> None:
    """How each period stands; an error where an answer is lost."""
    if as_json:
        listed = [{"period": one.name, "state": one.state, "output": str(one.output)} for one in series.releases]
        in_all = series.in_all
        stated = {"periods": in_all.periods, "epsilon": in_all.epsilon, "delta": in_all.delta, "in_words": in_all.words}
        out.emit(text.json_text({"periods": listed, "in_all": stated}) + "\n")
    else:
        table = Table.grid(padding=(0, 2))
        for one in series.releases:
            table.add_row(Text(one.name), Text(_STATES[one.state]), Text("" if one.state == "lost" else str(one.output)))
        out.emit(Group(table, Text(f"{series.in_all.words[:1].upper()}{series.in_all.words[1:]}.")))
    if lost := series.lost:
        raise InvalidRequest(
            f"of {len(lost)} periods the answer is lost ({', '.join(lost[:5])}): they are charged, and may be asked for again "
            "under another key, if the budget allows it, from --since to --until of that period"
        )
