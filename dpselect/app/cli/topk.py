"""`dpselect topk`: an answer as text, or with `--every` the state of each period."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text
from typer import Argument, echo

from accounting.wording import format_number, rounded_up
from dpselect.app.cli import guard, out
from dpselect.app.cli.from_model import command, spelled
from dpselect.app.release.answer import Answer, AnswerFile, DryRun, Promise, as_json
from dpselect.app.release.explained import MAY_BE_NOISE
from dpselect.app.release.question import Question
from dpselect.app.release.topk import answered
from dpselect.app.spec import TopKSpec
from dpselect.errors import InvalidRequest, printable
from dpselect.mechanisms.base import Mechanism
from dpselect.plan.counts import Interval
from dpselect.selection import Label

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
    question = Question.of(log, spec)
    place = AnswerFile.of(spec, defused=spreadsheet_safe, texts=ANSWERS)
    if spreadsheet_safe and (place.output is None or place.output.suffix.lower() != ".csv"):
        raise InvalidRequest(
            "--spreadsheet-safe changes the text of a CSV: name one with --output, or leave it out"
        )
    out.require_shown(place)
    with out.reading() if spec.every is None else out.counted("periods") as progress:
        found: Any = answered(
            question,
            log,
            place,
            progress,
            lambda unkept, answer: out.show_answer(answer, unkept, as_text, json=True),
            lambda words: echo(words, err=True),
        )
    if isinstance(found, Answer | DryRun):
        out.show_answer(found, place, as_text, json=json)
        if isinstance(found, Answer) and found.explained_by_noise:
            out.leave_explained(found.cautions, json=json)
    else:
        _show(found, as_json=json)


topk = command(TopKSpec, _topk)


_STATES = {
    "released": "released now",
    "recorded": "released before",
    "lost": "released before, and its file is gone; not drawn again",
    "waiting": "not charged",
}


def _show(series: Series, *, as_json: bool) -> None:
    """Print the state of each period.

    A lost answer is an error, and a separate exit status reports that noise alone explains the
    answers.
    """
    cautions = [spelled(words, TopKSpec) for words in series.cautions]
    if as_json:
        listed = [
            {"period": one.name, "state": one.state, "output": str(one.output)}
            for one in series.releases
        ]
        in_all = series.in_all
        stated = {
            "periods": in_all.periods,
            "epsilon": in_all.epsilon,
            "delta": in_all.delta,
            "in_words": in_all.words,
        }
        out.emit(out.json_text({"periods": listed, "in_all": stated, "notes": cautions}) + "\n")
    else:
        table = Table.grid(padding=(0, 2))
        for one in series.releases:
            kept = one.state in ("released", "recorded")
            table.add_row(
                Text(one.name), Text(_STATES[one.state]), Text(str(one.output) if kept else "")
            )
        faced = Text(f"{series.in_all.words[:1].upper()}{series.in_all.words[1:]}.")
        out.emit(Group(table, faced, *(out.note("Warning", words) for words in cautions)))
    if lost := series.lost:
        raise InvalidRequest(
            f"the answers of {len(lost)} periods are not in their files ({', '.join(lost[:5])})."
            " Put the files back. They were released, and can be released again under another"
            " key, if the budget allows it, with --since and --until of that period"
        )
    if series.explained_by_noise:
        out.leave_explained(cautions, json=as_json)


# -- an answer as text -----------------------------------------------------------------------------


_ALL = 0.98  # of the stated budget: a release that costs less has more noise than that asks for
_ADVICE = (
    "A larger budget, a smaller k or a public catalog releases more, but another release"
    " costs again."
)
_ALL_SHOWN = (
    "No other item is safe to show. A larger budget or a public catalog releases more,"
    " but another release costs again."
)


def as_text(answer: Answer, notes: Mapping[Label, str] | None = None) -> RenderableType:
    """The release and its cost as text, with `notes` beside the items, for synthetic data only."""
    question = answer.question
    stated, reading = answer.guarantee, question.reading
    each = "" if reading.group is None else f" in each {_column(reading.group)}"
    measure = (
        f"distinct {_column(reading.user)}"
        if reading.value is None
        else f"the sum of {_column(reading.value)}"
    )
    last: list[RenderableType] = [
        out.note("Warning", spelled(words, TopKSpec)) for words in answer.cautions
    ]
    last += [] if answer.left is None else [out.note("Budget", answer.left, "bold")]
    last.append(out.note("Warning" if question.spec.ledger is None else "Note", answer.on_record))
    return out.page(
        out.heading(f"Private {_asked(question)} of {_column(reading.item)}{each}, by {measure}"),
        _items(answer, notes, _interval(answer)),
        Text(" ".join(filter(None, [_outcome(answer), _sentence(answer.about_right)]))),
        out.section("What is promised", _promises(stated, question)),
        out.section("How it was made", _means(answer)),
        Group(*last),
    )


def _sentence(words: str | None) -> str | None:
    return words and f"{words[:1].upper()}{words[1:]}."


def _asked(question: Question) -> str:
    return "ranking" if question.spec.k == "all" else f"top {question.k}"


def _outcome(answer: Answer) -> str:
    """Number of released items, compared with the question."""
    selection, everything = answer.selection, answer.question.spec.k == "all"
    asked = (
        ""
        if everything or selection.requested is None
        else f" of the {selection.requested} asked for"
    )
    if selection.groups is not None:
        asked = f" in {len(set(selection.groups)):,} groups"
    kind = "in order of rank" if selection.ordered else "as a set: their order is not released"
    start = (
        f"Released {len(selection)}{asked}, {kind}." if len(selection) else f"Released none{asked}."
    )
    if everything and answer.question.domain is None:
        return f"{start} {_ALL_SHOWN}"
    return (
        start
        if selection.complete
        else f"{start} Not complete: {printable(selection.reason)}. {_ADVICE}"
    )


def _interval(answer: Answer) -> Interval | None:
    """The interval around each shown value. Shares of users, which a clip leaves, have none."""
    return (
        answer.interval if answer.unit is not None and answer.selection.values is not None else None
    )


def _items(
    answer: Answer, notes: Mapping[Label, str] | None, around: Interval | None
) -> RenderableType:
    selection, unit = answer.selection, answer.unit
    whole = answer.question.reading.value is None
    labels = selection.labels if selection.labels is not None else selection.indices
    if not labels:
        return Text("  (no item was released)")
    number = Column(justify="right", no_wrap=True)
    columns = [number, Column(overflow="fold"), number.copy(), number.copy(), Column()]
    table = Table.grid(
        *([] if selection.groups is None else [Column(overflow="fold")]), *columns, padding=(0, 2)
    )
    values = selection.values if unit is not None else None
    heads = ["rank" if selection.ordered else "", "item", "", "", ""]
    if values is not None:
        heads[2] = "users (noisy)" if whole else f"noisy sum of {_column(unit)}"
        heads[3] = (
            ""
            if around is None
            else f"{100 * around.confidence:g}% {'at least' if around.at_least else 'interval'}"
        )
    table.add_row(
        *(
            Text(word, style="bold")
            for word in ([] if selection.groups is None else ["group"]) + heads
        )
    )
    marks = answer.may_be_noise
    for place, (label, rank) in enumerate(zip(labels, selection.columns()["rank"], strict=True)):
        value, between = (
            ("", "")
            if values is None
            else _value(values[place], around, whole=whole, signed=answer.question.signed)
        )
        if marks[place] and (around is None or around.at_least):
            between = MAY_BE_NOISE
        note = Text((notes or {}).get(label, ""), style="dim")
        row = [
            Text("-" if rank is None else str(rank)),
            Text(printable(label)),
            Text(value),
            Text(between),
            note,
        ]
        if selection.groups is not None:  # the name of a group stands beside its first item
            again = place > 0 and selection.groups[place - 1] == selection.groups[place]
            row.insert(0, Text("" if again else printable(selection.groups[place])))
        table.add_row(*row)
    return Padding(table, (0, 0, 0, 2))


def _value(value: float, around: Interval | None, *, whole: bool, signed: bool) -> tuple[str, str]:
    """A noisy score and its interval. Counts are whole users, and intervals are rounded outward."""
    sums = [] if around is None else [value - around.half_width, value + around.half_width]
    sums = sums if signed else [max(0.0, end) for end in sums]
    if not whole:
        return _short(value), " to ".join(map(_short, sums))
    ends = [round_to(end) for round_to, end in zip((math.floor, math.ceil), sums, strict=False)]
    ends = ends[:1] if around is not None and around.at_least else ends
    return f"{value:,.0f}", " to ".join(f"{end:,}" for end in ends)


def _short(value: float) -> str:
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def _column(name: object) -> str:
    if isinstance(name, tuple):
        return " and ".join(map(_column, name))
    return f"column {name}" if str(name).isdecimal() else printable(name)


def _promises(stated: Promise, question: Question) -> Iterator[tuple[str, str]]:
    yield "relation", f"{stated.relation}: {stated.relation_in_words}"
    budget, releases = question.budget, question.releases
    main = f"{'epsilon' if budget.rho is None else 'rho'} {format_number(budget.limit)}"
    delta = f", delta {format_number(budget.delta)}" if budget.delta else ""
    share = (
        "this whole release" if releases == 1 else f"{releases:,} releases, of which this is one"
    )
    yield "budget", f"{main}{delta}, for {share}"
    for point in stated.points:
        epsilon = "none" if point.epsilon is None else rounded_up(point.epsilon, 6)
        yield "epsilon", f"{epsilon} at delta {format_number(point.delta)} (by {point.proved_by})"
    yield (
        "pure epsilon",
        (
            "none"
            if stated.pure_epsilon is None
            else f"{rounded_up(stated.pure_epsilon, 6)}, without any delta"
        ),
    )
    outside = " outside a failure of probability delta0" if stated.delta0 else ""
    yield "zCDP", "none" if stated.rho is None else f"rho {rounded_up(stated.rho, 6)}{outside}"
    if stated.delta0:
        yield "delta0", f"{rounded_up(stated.delta0, 6)}, the probability of failure, part of delta"
    yield "in words", stated.in_words
    yield "risk", stated.risk_in_words


def _means(answer: Answer) -> Iterator[tuple[str, str]]:
    question, mechanism, reading = answer.question, answer.mechanism, answer.question.reading
    yield "mechanism", f"{type(mechanism).__name__} ({_settings(mechanism)})"
    if answer.choice.why:
        yield "chosen", f"by what is public: {answer.choice.why}"
    yield (
        "noise",
        _noise_in_words(
            mechanism, "users" if reading.value is None else f"units of {_column(reading.value)}"
        ),
    )
    if question.domain is None:
        yield (
            "items",
            ("read off the log, so private; an item appears only if enough users touched it"),
        )
    else:
        yield (
            "items",
            (
                f"the public catalog {printable(question.domain_name)}; an item that nobody"
                " touched counts as 0"
            ),
        )
    if reading.group is not None:
        found = (
            "discovered by the number of their users, at a cost; a group appears only if it has"
            " enough"
        )
        if answer.choice.cells:
            found = (
                "one table, with one norm for all cells of a user; a group appears only if one of"
                " its items does, and costs nothing"
            )
        yield (
            "groups",
            (
                found
                if reading.groups is None
                else f"the public list {printable(question.groups_name)}"
            ),
        )
    if reading.value is None or not isinstance(reading.value_clip, tuple):
        yield "counts", f"distinct users per item; {answer.left_out}"
    else:
        low, high = reading.value_clip
        yield (
            "sums",
            (
                f"of {_column(reading.value)}, each user's of each item cut to {low:g} to {high:g};"
                f" {answer.left_out}"
            ),
        )
    if reading.where:
        yield "where", printable(" and ".join(reading.where))
    if reading.time is not None:
        ends = [
            f"{word} {end}"
            for word, end in (("from", reading.since), ("to before", reading.until))
            if end is not None
        ]
        yield "events", f"{' '.join(ends)} by {_column(reading.time)}, in {reading.time_zone}"
    if answer.salt is not None:
        items, groups = answer.choice.max_items_per_user, reading.max_groups_per_user
        most = "" if items is None else f"{items:,} items"
        if answer.choice.cells:
            most += " in all groups together"
        elif groups is not None:
            most = f"{groups:,} groups" + (most and f", and in each of these {most},")
        bound = f"at most {most} of each user, chosen with salt {printable(answer.salt)!r}"
        yield "bound", f"{bound}; no others are counted"
    alone = answer.charge is not None and question.releases == 1
    if (
        alone
        and question.spec.planned is None
        and question.budget.cost(answer.mechanism.curve) < _ALL * question.budget.limit
    ):
        # The ledger's share, not the stated budget, has decided on the noise.
        words = (
            "than the stated budget alone requires, because the release takes no more of the"
            " dataset's budget than its stated part"
        )
        yield "more noise", words
    if answer.choice.clip is not None:
        norm = "a Euclidean" if answer.choice.norm == "l2" else "an l1"
        size = f"{norm} norm of at most {answer.choice.clip:g}"
        yield "clipped", f"each user's counts scaled to {size}"
    if question.spec.min_users is not None:
        yield (
            "shown",
            (
                f"no item with fewer than {question.spec.min_users:,} distinct users, whatever the"
                " noise"
            ),
        )
    if answer.lost is not None:
        yield "counts", answer.lost
    if (around := _interval(answer)) is not None:
        yield "intervals", f"{around.half_width:.6g} either way; {around.words()}"
        yield (
            "order",
            "noisy values may rise with the rank, which other noise may have decided",
        )


def _noise_in_words(mechanism: Mechanism, scores: str) -> str:
    """The amount of noise, in units of the scores or in nats, in words."""
    mechanism = mechanism.selecting
    knob, source = mechanism.traits.noise, "drawn from the operating system's entropy"
    if knob is None:
        return f"as configured, {source}"
    unit = f"nats{knob.each}" if knob.rising else scores
    return f"{knob.field} {getattr(mechanism, knob.field):.6g} ({unit}), {source}"


def _settings(mechanism: Mechanism) -> str:
    """Settings of a mechanism that differ from its class's defaults."""

    def shown(value: object) -> str:
        if isinstance(value, Mechanism):
            return f"{type(value).__name__}({_settings(value)})"
        return f"{value:.6g}" if isinstance(value, float) else str(value)

    usual = {name: field.default for name, field in type(mechanism).model_fields.items()}
    fields = [
        (name, value) for name, value in mechanism if name != "sensitivity" and value != usual[name]
    ]
    return ", ".join(f"{name}={shown(value)}" for name, value in fields)


ANSWERS: Final[dict[str, Callable[[Answer], str]]] = {
    ".json": as_json,
    ".txt": lambda answer: out.plain(as_text(answer)),
}
