"""An answer as text for people, and as JSON for machines, where no guarantee is null."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

import dpselect
from accounting import Budget
from dpselect import Mechanism
from dpselect.choose.counts import Interval, interval, without_counts
from dpselect.cli import out
from dpselect.cli.guarantee import Guarantee, guarantee, promise_in_words, relation_in_words, rounded_up, route_in_words
from dpselect.cli.guard import printable
from dpselect.cli.payment import RECORDED, SETTLED, UNRECORDED
from dpselect.cli.question import Answer, Question
from dpselect.selection import Label, Selection

_ADVICE = "A larger budget, a smaller k or a public catalogue releases more; asking again costs again."


def recorded(question: Question) -> str:
    """Whether the release is in a ledger, in words."""
    if question.ledger is None:
        return UNRECORDED
    return RECORDED if question.pay == "curve" else SETTLED


def as_text(answer: Answer, notes: Mapping[Label, str] | None = None) -> RenderableType:
    """The release and its price; `notes` stand beside the items, for synthetic data only."""
    question, selection = answer.question, answer.selection
    stated = guarantee(answer.mechanism, question.budget)
    return Group(
        out.heading(f"{_title(question)}, by {_measure(question)}"),
        Text(),
        _items(selection, notes, interval(answer.mechanism), whole=answer.reading.clip is None and question.value is None),
        Text(),
        Text(outcome(selection)),
        Text(),
        out.heading("What is promised"),
        out.facts(_promises(stated, question)),
        Text(),
        out.heading("How it was made"),
        out.facts(_means(answer)),
        Text(),
        Text.assemble(("Warning: " if question.ledger is None else "Note: ", "bold yellow"), recorded(question)),
    )


def outcome(selection: Selection) -> str:
    """How much of what was asked for is there."""
    asked = "" if selection.requested is None else f" of the {selection.requested} asked for"
    if selection.groups is not None:
        asked = f" in {len(set(selection.groups)):,} groups"
    kind = "in order of rank" if selection.ordered else "as a set: their order is not released"
    start = f"Released {len(selection)}{asked}, {kind}." if len(selection) else f"Released none{asked}."
    return start if selection.complete else f"{start} Not complete: {printable(selection.reason)}. {_ADVICE}"


def budget_in_words(budget: Budget, releases: int = 1) -> str:
    """The stated budget, and how many releases share it."""
    main = f"rho {budget.rho:g}" if budget.rho is not None else f"epsilon {budget.epsilon:g}"
    delta = f", delta {budget.delta:g}" if budget.delta else ""
    share = "this whole release" if releases == 1 else f"{releases:,} releases, of which this is one"
    return f"{main}{delta}, for {share}"


def _items(selection: Selection, notes: Mapping[Label, str] | None, around: Interval | None, *, whole: bool) -> RenderableType:
    labels = selection.labels if selection.labels is not None else selection.indices
    if not labels:
        return Text("  (no item was released)")
    number = Column(justify="right", no_wrap=True)
    columns = [number, Column(overflow="fold"), number.copy(), number.copy(), Column()]
    table = Table.grid(*([] if selection.groups is None else [Column(overflow="fold")]), *columns, padding=(0, 2))
    values = selection.values
    heads = ["rank" if selection.ordered else "", "item", "", "", ""]
    if values is not None:
        heads[2] = "users (noisy)" if whole else "noisy value"
        heads[3] = "" if around is None else f"{100 * around.confidence:g} % interval"
    table.add_row(*(Text(word, style="bold") for word in ([] if selection.groups is None else ["group"]) + heads))
    for place, (label, rank) in enumerate(zip(labels, selection.columns()["rank"], strict=True)):
        value, between = ("", "") if values is None else _value(values[place], around, whole=whole)
        note = Text((notes or {}).get(label, ""), style="dim")
        row = (Text("-" if rank is None else str(rank)), Text(printable(label)), Text(value), Text(between), note)
        table.add_row(*_beside(selection, place), *row)
    return Padding(table, (0, 0, 0, 2))


def _beside(selection: Selection, place: int) -> list[Text]:
    """The name of a group beside its first item."""
    if selection.groups is None:
        return []
    again = place > 0 and selection.groups[place - 1] == selection.groups[place]
    return [Text("" if again else printable(selection.groups[place]))]


def _value(value: float, around: Interval | None, *, whole: bool) -> tuple[str, str]:
    """A noisy score and the interval around it; counts in whole users, the interval rounded outward and never below 0."""
    if not whole:
        ends = () if around is None else (value - around.half_width, value + around.half_width)
        return _short(value), " to ".join(map(_short, ends))
    ends = () if around is None else (max(0, math.floor(value - around.half_width)), math.ceil(value + around.half_width))
    return f"{value:,.0f}", " to ".join(f"{end:,}" for end in ends)


def _short(value: float) -> str:
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def _title(question: Question) -> str:
    each = "" if question.group is None else f" in each {_column(question.group)}"
    item = question.item if isinstance(question.item, str) else " and ".join(question.item)
    return f"Private top {question.k} of {_column(item)}{each}"


def _measure(question: Question) -> str:
    return f"distinct {_column(question.user)}" if question.value is None else f"the sum of {_column(question.value)}"


def left_out(question: Question) -> str:
    """Which rows are not counted."""
    parts = ["user", "item", *(name for name in ("group", "value", "time") if getattr(question, name) is not None)]
    return f"rows with a null {', '.join(parts[:-1])} or {parts[-1]} were left out by rule"


def _column(name: str) -> str:
    return f"column {name}" if name.isdecimal() else printable(name)


def _promises(stated: Guarantee, question: Question) -> Iterator[tuple[str, str]]:
    yield "relation", f"{stated.relation}: {relation_in_words(stated.relation)}"
    yield "budget", budget_in_words(question.budget, question.releases)
    for point in stated.points:
        epsilon = "none" if point.epsilon is None else rounded_up(point.epsilon)
        yield "epsilon", f"{epsilon} at delta {point.delta:g} (by {route_in_words(point)})"
    yield "pure epsilon", "none" if stated.pure_epsilon is None else f"{rounded_up(stated.pure_epsilon)}, without any delta"
    outside = " outside a failure of probability delta0" if stated.delta0 else ""
    yield "zCDP", "none" if stated.rho is None else f"rho {rounded_up(stated.rho)}{outside}"
    if stated.delta0:
        yield "delta0", f"{rounded_up(stated.delta0)}, the probability of failure, part of delta"
    yield "in words", promise_in_words(stated)


def _means(answer: Answer) -> Iterator[tuple[str, str]]:
    question, mechanism = answer.question, answer.mechanism
    yield "mechanism", f"{type(mechanism).__name__} ({_settings(mechanism)})"
    yield "noise", noise_in_words(mechanism, "users" if question.value is None else f"units of {_column(question.value)}")
    if question.domain is None:
        yield "items", "read off the log, and therefore private: an item shows only if enough users touched it"
    else:
        yield "items", f"the public catalogue {printable(question.domain)}; an item that nobody touched counts as 0"
    if question.group is not None:
        listed = "discovered by the number of their users, and paid for: a group shows only if it has enough"
        yield "groups", listed if question.groups is None else f"the public list {printable(question.groups)}"
    if question.value is None or question.value_clip is None:
        yield "counts", f"distinct users per item; {left_out(question)}"
    else:
        low, high = question.value_clip
        yield "sums", f"of {_column(question.value)}, each user's of each item cut to {low:g} to {high:g}; {left_out(question)}"
    if question.time is not None:
        ends = [f"{word} {end}" for word, end in (("from", question.since), ("to before", question.until)) if end is not None]
        yield "events", f"{' '.join(ends)} by {_column(question.time)}, in {question.time_zone}"
    if answer.salt is not None:
        bound = f"at most {_bounds(answer)} of each user, chosen with salt {printable(answer.salt)!r}"
        yield "bound", f"{bound}; no others are counted"
    if answer.reading.clip is not None:
        norm = "a Euclidean" if answer.reading.norm == "l2" else "an l1"
        size = f"{norm} norm of at most {answer.reading.clip:g}"
        yield "clipped", f"each user's counts scaled to {size}; values are sums of these shares"
    if (around := interval(mechanism)) is not None:
        yield "intervals", f"{around.half_width:.6g} either way; {around.words()}"


def _bounds(answer: Answer) -> str:
    items, groups = answer.reading.max_items_per_user, answer.question.max_groups_per_user
    if groups is None:
        return f"{items:,} items"
    return f"{groups:,} groups" + ("" if items is None else f", and in each of these {items:,} items,")


def noise_in_words(mechanism: Mechanism, scores: str) -> str:
    """The amount of noise, in units of the scores or in nats, fresh from the operating system."""
    mechanism = without_counts(mechanism)
    knob, source = mechanism.traits.noise, "drawn from the operating system's entropy"
    if knob is None:
        return f"as configured, {source}"
    unit = f"nats{knob.each}" if knob.rising else scores
    return f"{knob.field} {getattr(mechanism, knob.field):.6g} ({unit}), {source}"


def _settings(mechanism: Mechanism) -> str:
    fields = [(name, value) for name, value in mechanism if name not in ("kind", "sensitivity") and value is not None]
    return ", ".join(f"{name}={_setting(value)}" for name, value in fields)


def _setting(value: object) -> str:
    if isinstance(value, Mechanism):
        return f"{type(value).__name__}({_settings(value)})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def as_data(answer: Answer) -> dict[str, Any]:
    """The release and its price as plain data."""
    question, mechanism = answer.question, answer.mechanism
    return {
        "dpselect": dpselect.__version__,
        "selection": _selection(answer.selection),
        "intervals": None if (around := interval(mechanism)) is None else asdict(around),
        "guarantee": _guarantee(guarantee(mechanism, question.budget), question.budget),
        "planned_releases": None if question.planned is None and question.releases == 1 else question.releases,
        "mechanism": json.loads(mechanism.to_json()),
        "curve": json.loads(mechanism.curve.to_json()),
        **({} if question.pay == "curve" else {"spent": json.loads(mechanism.spent(answer.selection).to_json())}),
        "domain": "observed" if question.domain is None else "public",
        **({} if question.group is None else {"groups": "discovered" if question.groups is None else "public"}),
        **_measured(question),
        "contributions": {
            "max_items_per_user": answer.reading.max_items_per_user,
            **({} if question.group is None else {"max_groups_per_user": question.max_groups_per_user}),
            "clip": answer.reading.clip,
            "salt": answer.salt,
        },
        "ledger": None if answer.charge is None else asdict(answer.charge),
        "notes": [left_out(question), recorded(question)],
    }


def _measured(question: Question) -> dict[str, Any]:
    """What was summed up, and which events were read, where that was asked for."""
    summed = {"column": question.value, "clip": question.value_clip}
    window = {name: getattr(question, name) for name in ("since", "until", "time_zone")} | {"column": question.time}
    named = {"sums": summed if question.value else None, "time": window if question.time else None}
    return {name: held for name, held in named.items() if held is not None}


def _selection(selection: Selection) -> dict[str, Any]:
    """All that was released; a position in the catalogue is no news."""
    released = selection.model_dump(mode="json")
    named = {name: released.get(name) for name in type(selection).model_fields if name not in ("positions", "groups")}
    groups = {} if selection.groups is None else {"groups": list(selection.groups)}
    return named | {"labels": list(selection.labels or ())} | groups


def _guarantee(stated: Guarantee, budget: Budget) -> dict[str, Any]:
    asked = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    return {
        "budget": {name: value for name, value in asked.items() if value},
        "relation": stated.relation,
        "relation_in_words": relation_in_words(stated.relation),
        "pure_epsilon": stated.pure_epsilon,
        "rho": stated.rho,
        "delta0": stated.delta0,
        "points": [asdict(point) for point in stated.points],
        "in_words": promise_in_words(stated),
    }
