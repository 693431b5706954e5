"""Sections of an answer: what was released, what is promised, and how it was made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from accounting.sections import Section
from accounting.wording import format_number, printable, round_up
from dpselect.app.release.answer import Answer, Promise
from dpselect.app.release.noise_check import MAY_BE_NOISE
from dpselect.app.release.question import Question
from dpselect.mechanisms.base import Mechanism
from dpselect.plan.counts import Interval
from dpselect.selection import Label

_ALL = 0.98  # of the stated budget: a release that costs less has more noise than that asks for
_ADVICE = (
    "A larger budget, a smaller k or a public catalog releases more, but another release"
    " costs again."
)
_ALL_SHOWN = (
    "No other item is safe to show. A larger budget or a public catalog releases more,"
    " but another release costs again."
)


def answer_sections(answer: Answer, notes: Mapping[Label, str] | None = None) -> Iterator[Section]:
    """The release and its cost, with `notes` beside the items, for synthetic data only."""
    question, reading = answer.question, answer.question.reading
    each = "" if reading.group is None else f" in each {_column(reading.group)}"
    measure = (
        f"distinct {_column(reading.user)}"
        if reading.value is None
        else f"the sum of {_column(reading.value)}"
    )
    yield Section(f"Private {_subject(question)} of {_column(reading.item)}{each}, by {measure}")
    yield _items(answer, notes or {}, _interval(answer))
    right = answer.about_right
    forecast = [] if right is None else [f"{right[:1].upper()}{right[1:]}."]
    yield Section(lines=[" ".join([_outcome(answer), *forecast])])
    yield Section("What is promised", list(_promises(answer.guarantee, question)))
    yield Section("How it was made", list(_means(answer)))
    last = [("Warning", words) for words in answer.cautions]
    last += [] if answer.left is None else [("Budget", answer.left)]
    last.append(("Warning" if question.spec.ledger is None else "Note", answer.on_record))
    yield Section(notes=last)


def _subject(question: Question) -> str:
    return "ranking" if question.spec.k == "all" else f"top {question.k}"


def _outcome(answer: Answer) -> str:
    """Number of released items, compared with the question."""
    selection, everything = answer.selection, answer.question.spec.k == "all"
    scope = (
        ""
        if everything or selection.requested is None
        else f" of the {selection.requested} asked for"
    )
    if selection.groups is not None:
        scope = f" in {len(set(selection.groups)):,} groups"
    kind = "in order of rank" if selection.ordered else "as a set: their order is not released"
    start = (
        f"Released {len(selection)}{scope}, {kind}." if len(selection) else f"Released none{scope}."
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


def _items(answer: Answer, notes: Mapping[Label, str], interval: Interval | None) -> Section:
    selection, unit = answer.selection, answer.unit
    whole = answer.question.reading.value is None
    labels = selection.labels if selection.labels is not None else selection.indices
    if not labels:
        return Section(lines=["(no item was released)"])
    ranks = ["-" if rank is None else rank for rank in selection.columns()["rank"]]
    columns: dict[str, Sequence[object]] = {
        "rank" if selection.ordered else "": ranks,
        "item": labels,
    }
    if (groups := selection.groups) is not None:  # its name stands beside a group's first item
        again = [place > 0 and groups[place - 1] == name for place, name in enumerate(groups)]
        group_names = ["" if same else name for same, name in zip(again, groups, strict=True)]
        columns = {"group": group_names, **columns}
    if selection.values is not None and unit is not None:
        formatted = [
            _value(value, interval, whole=whole, signed=answer.question.signed)
            for value in selection.values
        ]
        columns["users (noisy)" if whole else f"noisy sum of {_column(unit)}"] = [
            value for value, _ in formatted
        ]
        marks = [MAY_BE_NOISE if mark else "" for mark in answer.may_be_noise]
        ends = [ends for _, ends in formatted]
        if interval is not None and interval.at_least:
            columns[f"{100 * interval.confidence:g}% at least"] = [
                mark or end for mark, end in zip(marks, ends, strict=True)
            ]
        else:
            if interval is not None:
                columns[f"{100 * interval.confidence:g}% interval"] = ends
            if any(marks):
                columns["  "] = marks
    if notes:
        columns[" "] = [notes.get(label, "") for label in labels]
    rows = list(zip(*columns.values(), strict=True))
    return Section(heads=list(columns), rows=rows, left=["group", "item", " ", "  "])


def _value(
    value: float, interval: Interval | None, *, whole: bool, signed: bool
) -> tuple[str, str]:
    """A noisy score and its interval. Counts are whole users, and intervals are rounded outward."""
    sums = [] if interval is None else [value - interval.half_width, value + interval.half_width]
    sums = sums if signed else [max(0.0, end) for end in sums]
    if not whole:
        return _short(value), " to ".join(map(_short, sums))
    ends = [round_to(end) for round_to, end in zip((math.floor, math.ceil), sums, strict=False)]
    ends = ends[:1] if interval is not None and interval.at_least else ends
    return f"{value:,.0f}", " to ".join(f"{end:,}" for end in ends)


def _short(value: float) -> str:
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def _column(name: object) -> str:
    if isinstance(name, tuple):
        return " and ".join(map(_column, name))
    return f"column {name}" if str(name).isdecimal() else printable(name)


def _promises(promise: Promise, question: Question) -> Iterator[tuple[str, str]]:
    yield "relation", f"{promise.relation}: {promise.relation_in_words}"
    budget, releases = question.budget, question.releases
    main = f"{'epsilon' if budget.rho is None else 'rho'} {format_number(budget.limit)}"
    delta = f", delta {format_number(budget.delta)}" if budget.delta else ""
    share = (
        "this whole release" if releases == 1 else f"{releases:,} releases, of which this is one"
    )
    yield "budget", f"{main}{delta}, for {share}"
    for point in promise.points:
        epsilon = "none" if point.epsilon is None else round_up(point.epsilon, 6)
        yield "epsilon", f"{epsilon} at delta {format_number(point.delta)} (by {point.proved_by})"
    yield (
        "pure epsilon",
        (
            "none"
            if promise.pure_epsilon is None
            else f"{round_up(promise.pure_epsilon, 6)}, without any delta"
        ),
    )
    outside = " outside a failure of probability delta0" if promise.delta0 else ""
    yield "zCDP", "none" if promise.rho is None else f"rho {round_up(promise.rho, 6)}{outside}"
    if promise.delta0:
        yield (
            "delta0",
            f"{round_up(promise.delta0, 6)}, the probability of failure, part of delta",
        )
    yield "in words", promise.in_words
    yield "risk", promise.risk_in_words


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
        origin = (
            "discovered by the number of their users, at a cost; a group appears only if it has"
            " enough"
        )
        if answer.choice.cells:
            origin = (
                "one table, with one norm for all cells of a user; a group appears only if one of"
                " its items does, and costs nothing"
            )
        yield (
            "groups",
            (
                origin
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
    if (interval := _interval(answer)) is not None:
        yield "intervals", f"{interval.half_width:.6g} either way; {interval.words()}"
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

    def text_of(value: object) -> str:
        if isinstance(value, Mechanism):
            return f"{type(value).__name__}({_settings(value)})"
        return format_number(value) if isinstance(value, float) else str(value)

    usual = {name: field.default for name, field in type(mechanism).model_fields.items()}
    fields = [
        (name, value) for name, value in mechanism if name != "sensitivity" and value != usual[name]
    ]
    return ", ".join(f"{name}={text_of(value)}" for name, value in fields)
