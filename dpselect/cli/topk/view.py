"""An answer as text for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from accounting import Budget
from dpselect.answers.answer import Answer, cautions
from dpselect.answers.promise import Promise, promise, promise_in_words, relation_in_words, rounded_up, route_in_words
from dpselect.answers.question import Question
from dpselect.answers.record import left_out, on_record
from dpselect.choose.counts import Interval, interval, without_counts
from dpselect.cli import out
from dpselect.errors import printable
from dpselect.mechanisms.base import Mechanism
from dpselect.selection import Label, Selection

_ALL = 0.98  # of the stated budget: a release that costs less has more noise than that asks for
_ADVICE = "A larger budget, a smaller k or a public catalogue releases more; asking again costs again."


def as_text(answer: Answer, notes: Mapping[Label, str] | None = None) -> RenderableType:
    """The release and its price; `notes` stand beside the items, for synthetic data only."""
    question, selection = answer.question, answer.selection
    stated = promise(answer.paid, question.release.budget)
    return Group(
        out.heading(f"{_title(question)}, by {_measure(question)}"),
        Text(),
        _items(answer, notes, _interval(answer)),
        Text(),
        Text(outcome(selection)),
        Text(),
        out.heading("What is promised"),
        out.facts(_promises(stated, question)),
        Text(),
        out.heading("How it was made"),
        out.facts(_means(answer)),
        Text(),
        *(Text.assemble(("Warning: ", "bold yellow"), words) for words in cautions(question)),
        *([] if answer.left is None else [Text.assemble(("Budget: ", "bold"), answer.left)]),
        Text.assemble(("Warning: " if question.payment is None else "Note: ", "bold yellow"), on_record(question)),
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


def _interval(answer: Answer) -> Interval | None:
    """The interval around each value that is shown: shares of users, which a clip leaves, are not."""
    return interval(answer.mechanism) if answer.unit is not None and answer.selection.values is not None else None


def _items(answer: Answer, notes: Mapping[Label, str] | None, around: Interval | None) -> RenderableType:
    selection, unit = answer.selection, answer.unit
    whole = answer.question.reading.value is None
    labels = selection.labels if selection.labels is not None else selection.indices
    if not labels:
        return Text("  (no item was released)")
    number = Column(justify="right", no_wrap=True)
    columns = [number, Column(overflow="fold"), number.copy(), number.copy(), Column()]
    table = Table.grid(*([] if selection.groups is None else [Column(overflow="fold")]), *columns, padding=(0, 2))
    values = selection.values if unit is not None else None
    heads = ["rank" if selection.ordered else "", "item", "", "", ""]
    if values is not None:
        heads[2] = "users (noisy)" if whole else f"noisy sum of {_column(unit)}"
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
    """A noisy score and the interval around it; counts in whole users, the interval rounded outward."""
    if not whole:
        ends = () if around is None else (value - around.half_width, value + around.half_width)
        return _short(value), " to ".join(map(_short, ends))
    ends = () if around is None else (math.floor(value - around.half_width), math.ceil(value + around.half_width))
    return f"{value:,.0f}", " to ".join(f"{end:,}" for end in ends)


def _short(value: float) -> str:
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def _title(question: Question) -> str:
    each = "" if question.reading.group is None else f" in each {_column(question.reading.group)}"
    item = question.reading.item
    item = " and ".join(map(str, item)) if isinstance(item, tuple) else item
    return f"Private top {question.release.k} of {_column(item)}{each}"


def _measure(question: Question) -> str:
    return (
        f"distinct {_column(question.reading.user)}"
        if question.reading.value is None
        else f"the sum of {_column(question.reading.value)}"
    )


def _column(name: object) -> str:
    return f"column {name}" if str(name).isdecimal() else printable(name)


def _promises(stated: Promise, question: Question) -> Iterator[tuple[str, str]]:
    yield "relation", f"{stated.relation}: {relation_in_words(stated.relation)}"
    yield "budget", budget_in_words(question.release.budget, question.release.releases)
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
    if answer.learnt is not None and answer.choice.crowd is not None:
        yield "chosen", f"for {answer.choice.crowd.in_words()}: noisy numbers, released with the answer and part of its price"
    elif answer.known_from is not None and answer.choice.crowd is not None:
        yield "chosen", f"for {answer.choice.crowd.in_words()}: learnt before, by entry {answer.known_from}, and free"
    yield (
        "noise",
        noise_in_words(mechanism, "users" if question.reading.value is None else f"units of {_column(question.reading.value)}"),
    )
    if question.release.domain is None:
        yield "items", "read off the log, and therefore private: an item shows only if enough users touched it"
    else:
        yield "items", f"the public catalogue {printable(question.release.domain_name)}; an item that nobody touched counts as 0"
    if question.reading.group is not None:
        listed = "discovered by the number of their users, and paid for: a group shows only if it has enough"
        yield (
            "groups",
            listed if question.reading.groups is None else f"the public list {printable(question.release.groups_name)}",
        )
    if question.reading.value is None or not isinstance(question.reading.value_clip, tuple):
        yield "counts", f"distinct users per item; {left_out(question)}"
    else:
        low, high = question.reading.value_clip
        yield (
            "sums",
            f"of {_column(question.reading.value)}, each user's of each item cut to {low:g} to {high:g}; {left_out(question)}",
        )
    if question.reading.time is not None:
        ends = [
            f"{word} {end}"
            for word, end in (("from", question.reading.since), ("to before", question.reading.until))
            if end is not None
        ]
        yield "events", f"{' '.join(ends)} by {_column(question.reading.time)}, in {question.reading.time_zone}"
    if answer.salt is not None:
        bound = f"at most {_bounds(answer)} of each user, chosen with salt {printable(answer.salt)!r}"
        yield "bound", f"{bound}; no others are counted"
    if (priced := more_noise(answer)) is not None:
        yield "more noise", priced
    if answer.choice.clip is not None:
        norm = "a Euclidean" if answer.choice.norm == "l2" else "an l1"
        size = f"{norm} norm of at most {answer.choice.clip:g}"
        yield "clipped", f"each user's counts scaled to {size}"
    if question.release.min_users is not None:
        yield "shown", f"no item with fewer than {question.release.min_users:,} distinct users, whatever the noise"
    if answer.lost is not None:
        yield "counts", answer.lost
    if (around := _interval(answer)) is not None:
        yield "intervals", f"{around.half_width:.6g} either way; {around.words()}"
        yield "order", "noisy values need not fall with the rank, which other noise may have decided"


def more_noise(answer: Answer) -> str | None:
    """That the ledger's share, not the stated budget, decided on the noise, where it did."""
    release = answer.question.release
    if answer.charge is None or release.planned is not None or release.releases > 1:
        return None
    if release.budget.cost(answer.paid.curve) >= _ALL * release.budget.limit:
        return None
    return "than the stated budget alone asks for: the release takes no more of the dataset's budget than the part it states"


def _bounds(answer: Answer) -> str:
    items, groups = answer.choice.max_items_per_user, answer.question.reading.max_groups_per_user
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
