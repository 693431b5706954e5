"""`dpselect topk`; with `--every` a release for each period of a log, resumable."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Group
from rich.table import Table
from rich.text import Text
from typer import Argument, echo

import accounting as acc
from accounting.remaining import in_all_in_words
from dpselect.cli import options, out
from dpselect.cli.from_model import command
from dpselect.cli.topk.delivery import Delivery
from dpselect.continual.history import History
from dpselect.errors import InvalidRequest
from dpselect.events import ProgressCallback
from dpselect.events.staging import split
from dpselect.events.time_window import Every, periods
from dpselect.mechanisms import OneshotTopK, SparseHistogram
from dpselect.mechanisms.base import settings_of
from dpselect.plan.candidates import Choice
from dpselect.release.answer import answer
from dpselect.release.question import Question, choose, opened
from dpselect.selection import Selection
from dpselect.spec import LedgerFields, ReleaseFields, TopKSpec

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
    _debug: options.Debug = False,
) -> None:
    question = Question.of(events[0] if len(events) == 1 else tuple(events), spec)
    output = None if spec.output is None else Path(spec.output)
    if spec.horizon is not None:
        _released_at_once(question, output, as_json=json)
        return
    if spec.every is not None:
        if question.learn:
            raise InvalidRequest("learn= learns of one log, every= releases many times: declare users= and items_per_user=")
        question = replace(question, learn=0.0)
        with out.counted("periods") as progress:
            _released_every(question, spec.every, output, as_json=json, defused=spreadsheet_safe, progress=progress)
        return
    delivery = Delivery(output, json, spreadsheet_safe)
    if (before := delivery.recorded(question)) is not None:
        out.emit(before)
        return
    delivery.require(question)
    with out.reading() as callback:
        released = answer(question, callback, delivery.keep)
    delivery.show(released)


topk = command(TopKSpec, _topk)


# -- --every and --horizon -------------------------------------------------------------------------------------------------


State = Literal["released", "recorded", "lost"]
_PLACE = "{period}"
_MORE_NOISE = 1.1  # that averages over periods outweigh
_STATES: dict[State, str] = {
    "released": "released now",
    "recorded": "released before",
    "lost": "charged, and its answer lost when the run was stopped; not drawn again",
}


@dataclass(frozen=True)
class _Period:
    """One period's question, and where its answer goes."""

    name: str
    ends: tuple[datetime, datetime]
    question: Question
    delivery: Delivery


def _released_every(
    question: Question, every: Every, output: Path | None, *, as_json: bool, defused: bool, progress: ProgressCallback | None
) -> None:
    """Release every period that is not released yet, each charged to itself under the key KEY:PERIOD, and say how each stands.

    The log is read once, and cut by time. What a histogram has shown in one period it shows without a threshold in those released
    after it, and it finds more items by means over the periods of one run (`History`); Gaussian noise on a public domain is
    averaged over periods. A period that is charged and has no answer, because the run was stopped in between, is
    told apart and left alone: its draw may have been seen.
    """
    todo = _periods(question, every, output, defused=defused)
    dataset, states, shown = _standing(todo, every, question.spec)
    pending = [period for period in todo if period.name not in states]
    for period in pending:
        period.delivery.require(period.question)
    choice = choose(question, dataset.budget)
    in_all = _in_all(dataset, choice, [period.name for period in pending], question.spec)
    if pending:
        echo(f"to be released, {len(pending):,} of {len(todo):,} periods: {in_all[0]}", err=True)
        _release(question, choice, todo, states, shown, progress)
    _show([(period, states[period.name]) for period in todo], in_all, as_json=as_json)
    if lost := [name for name, state in states.items() if state == "lost"]:
        raise InvalidRequest(
            f"of {len(lost)} periods the answer is lost ({', '.join(lost[:5])}): they are charged, and may be asked for again "
            "under another key, if the budget allows it, from --since to --until of that period"
        )


def _released_at_once(question: Question, output: Path | None, *, as_json: bool) -> None:
    """Release every period from one budget for all of them: `dpselect continual run`."""
    from dpselect.cli.continual import closed_at_once  # what most answers do without

    spec, reading = question.spec, question.reading
    needed = {"every": spec.every, **_needed(question)}
    if missing := [f"--{name}" for name, given in needed.items() if given is None]:
        raise InvalidRequest(
            f"--horizon needs {', '.join(missing)}: which periods there are is public, and all are charged in one"
        )
    assert spec.every is not None
    other = {*ReleaseFields.model_fields, "period", "use_everything", "pay_for_what_came_out"} - {"k", "with_counts"}
    if given := spec.given(*other):
        raise InvalidRequest(f"{min(given)}= is not for a horizon, whose mechanism is ContinualTopK: leave it out")
    if spec.engine != "memory":
        raise InvalidRequest("engine= is not for a horizon, which counts in memory: leave it out")
    out.require_targets({"--output": output}, str(spec.ledger))
    settings = {
        "k": question.k,
        "periods": None,
        "count": spec.count or "period",
        "window": spec.window,
        "relation": spec.relation,
    }
    paid = spec.given("ledger", "dataset", "key", "team", "purpose", "actor", "label") | {"path": Path(str(spec.horizon))}
    closed_at_once(
        question.source,
        reading,
        spec.every,
        question.budget,
        settings,
        question.domain,
        paid,
        with_counts=spec.with_counts,
        json=as_json,
        output=output,
    )


def _needed(question: Question) -> dict[str, object]:
    """What releases over time need, by the names of options."""
    return {name: getattr(question.spec, name) for name in ("time", "since", "until", "key", "ledger", "dataset")}


def _periods(question: Question, every: Every, output: Path | None, *, defused: bool) -> list[_Period]:
    reading, spec = question.reading, question.spec
    if missing := [f"--{name}" for name, given in _needed(question).items() if given is None]:
        raise InvalidRequest(f"--every needs {', '.join(missing)}: which periods there are is public, and each is charged once")
    if spec.engine != "memory":
        raise InvalidRequest(f"--every counts in memory, a period at a time: leave out --engine {spec.engine}")
    if spec.periods:
        raise InvalidRequest("--period is named by --every: leave it out")
    if output is None or _PLACE not in output.name or output.suffix.lower() == ".txt":
        raise InvalidRequest(f"--every needs --output like top-{_PLACE}.json, .csv or .parquet: a file for each period")
    assert reading.window is not None, "there is a column of times"
    todo = []
    for name, start, end in periods(reading.window, every):
        alone = reading.model_copy(update={"since": f"{start:%Y-%m-%d}", "until": f"{end:%Y-%m-%d}"})
        alone_asked = spec.model_copy(update={"period": (name,), "key": f"{spec.key}:{name}"})
        delivery = Delivery(output.with_name(output.name.replace(_PLACE, name)), json=True, defused=defused)
        todo.append(_Period(name, (start, end), replace(question, reading=alone, spec=alone_asked), delivery))
    return todo


def _standing(
    todo: Sequence[_Period], every: Every, payment: LedgerFields
) -> tuple[acc.ledger.Dataset, dict[str, State], list[Selection]]:
    """The dataset that pays, the periods that were charged before, released or lost, and all that histograms showed then."""
    states: dict[str, State] = {}
    shown = []
    name = str(payment.dataset)
    with opened(payment) as ledger:
        dataset = ledger.dataset(name)
        if dataset.window != every:
            has = "one budget for all rows" if dataset.window == "whole" else f"a budget for each {dataset.window}"
            raise InvalidRequest(
                f"--every {every} charges each {every} to its own budget, and --dataset {dataset.name} has {has}: declare one "
                f"with `dpselect ledger init --window {every}`, or add --horizon STATE, one price for all of them"
            )
        for period in todo:
            if ledger.find(name, str(period.question.spec.key)) is not None:
                before = period.delivery.recorded(period.question)
                states[period.name] = "lost" if before is None else "recorded"
                if before is not None and (held := json.loads(before).get("shown")) is not None:
                    shown.append(Selection.from_json(json.dumps(held)))
    return dataset, states, shown


def _release(
    question: Question,
    choice: Choice,
    todo: Sequence[_Period],
    states: dict[str, State],
    shown: Sequence[Selection],
    progress: ProgressCallback | None,
) -> None:
    pending = [period for period in todo if period.name not in states]
    choice, memory = _with_memory(question, choice, shown, len(pending))
    with split(question.source, question.reading, [(period.name, *period.ends) for period in todo]) as parts:
        for period in pending:
            if progress is not None:
                progress(len(states), len(todo))
            released = answer(period.question, keep=period.delivery.keep, choice=choice, staged=parts[period.name], memory=memory)
            if period.delivery.failure is not None:
                period.delivery.show(released)
            states[period.name] = "released"


def _with_memory(question: Question, choice: Choice, shown: Sequence[Selection], releases: int) -> tuple[Choice, History | None]:
    """The same noise on all items, whose best k are the answer, and what was shown before; None for what neither helps.

    A bound on the fewest users of an item holds in every period, so that nothing is shown below it because it was shown before.
    """
    mechanism, reading, domain = choice.mechanism, question.reading, question.domain
    if reading.value is not None or reading.group is not None or choice.again is not None:
        return choice, None
    if isinstance(mechanism, SparseHistogram) and mechanism.floor == 0 and mechanism.k is not None:
        keeping = SparseHistogram.model_validate({**settings_of(mechanism), "k": None})
        return replace(choice, mechanism=keeping), History(keeping, k=question.k, releases=releases, shown=shown)
    if isinstance(mechanism, OneshotTopK) and domain and (whole := _on_all_items(mechanism, len(domain))) is not None:
        return replace(choice, mechanism=whole), History(whole, k=question.k, releases=releases, shown=shown)
    return choice, None


def _on_all_items(mechanism: OneshotTopK, size: int) -> OneshotTopK | None:
    """The same Gaussian noise on all items, values included, at no higher price; None where that asks for much more noise."""
    price = mechanism.curve
    if mechanism.noise != "gaussian" or mechanism.value_scale is not None or not isinstance(price, acc.GaussianDP):
        return None
    settings, scale = {**settings_of(mechanism), "k": size, "values": True}, mechanism.scale
    while scale <= _MORE_NOISE * mechanism.scale:
        whole = OneshotTopK.model_validate({**settings, "scale": scale})
        assert isinstance(whole.curve, acc.GaussianDP)
        if whole.curve.mu <= price.mu:
            return whole
        scale = max(scale * whole.curve.mu / price.mu, math.nextafter(scale, math.inf))
    return None


def _in_all(
    dataset: acc.ledger.Dataset, choice: Choice, todo: Sequence[str], payment: LedgerFields
) -> tuple[str, dict[str, Any]]:
    """What somebody faces who is in every period, those that were charged before included; as words and as plain data.

    Raises:
        BudgetExceeded: the dataset declares less (`ledger init --most-in-all`).
    """
    with opened(payment) as ledger:
        epsilon, delta = ledger.in_all(dataset.name, choice.mechanism if todo else None, todo)
        many = len({total.period for total in ledger.totals(dataset.name)} | set(todo))
    words = in_all_in_words(epsilon, delta, many, dataset.window)
    stated = {"epsilon": epsilon, "delta": delta} if math.isfinite(epsilon) else {"epsilon": None, "delta": None}
    return words, {"periods": many, **stated, "in_words": words}


def _show(standing: Sequence[tuple[_Period, State]], in_all: tuple[str, dict[str, Any]], *, as_json: bool) -> None:
    words, stated = in_all
    if as_json:
        listed = [{"period": period.name, "state": state, "output": str(period.delivery.output)} for period, state in standing]
        out.emit(out.json_text({"periods": listed, "in_all": stated}) + "\n")
        return
    table = Table.grid(padding=(0, 2))
    for period, state in standing:
        table.add_row(Text(period.name), Text(_STATES[state]), Text("" if state == "lost" else str(period.delivery.output)))
    out.emit(Group(table, Text(f"{words[:1].upper()}{words[1:]}.")))
