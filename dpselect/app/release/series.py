"""Releases for each period of a log, with a budget each (`ByPeriod`) or one (`release_horizon`)."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, final

import accounting as acc
import dpselect as dps
from accounting.address import hide_passwords, mask
from accounting.errors import OutputError
from accounting.remaining import periods_in_words
from accounting.sections import Section, Sectioned
from accounting.wording import format_number, printable, round_up
from dpselect.app import events
from dpselect.app.continual import Horizon, Period
from dpselect.app.continual.horizon import open as open_horizon
from dpselect.app.continual.horizon import require_pairs
from dpselect.app.continual.state import State as HorizonState
from dpselect.app.events import ProgressCallback, Reading
from dpselect.app.events.rows import PeriodEvents
from dpselect.app.events.staging import split
from dpselect.app.events.time_window import iso_moment, periods
from dpselect.app.release.answer import (
    HEADS,
    TABLES,
    UNRECORDED,
    Answer,
    AnswerFile,
    DryRun,
    as_json,
    group_head,
    plain_data,
    promise,
    raise_to_0,
    rescue,
)
from dpselect.app.release.noise_check import (
    HARDLY_ANY,
    bounds_in_words,
    explained_by_noise,
    like_missing,
    noise_bar,
)
from dpselect.app.release.preview import Described, Preview, forecast_release, forecast_series
from dpselect.app.release.question import Question
from dpselect.app.release.run import ChargeTarget, choose_mechanism, payer_of, run
from dpselect.app.spec.continual_spec import KeptFields
from dpselect.errors import HorizonError, HorizonUnavailable, InvalidRequest, Note
from dpselect.mechanisms.continual_top_k import ITEMS_PER_PERIOD, ContinualTopK, HorizonClip
from dpselect.plan.default import Choice
from dpselect.selection import Label, Selection, Tabled

if TYPE_CHECKING:
    from accounting.ledger.request import Chargeable

PLACE = "{period}"  # in the name of the files that keep the answers
State = Literal["released", "recorded", "lost", "waiting"]
"""State of a period: released now, recorded before, lost or waiting.

A lost answer was released but is not in its file, and is not drawn again. A waiting period was not
charged, because noise alone explains the first answer.
"""
Named = Sequence[tuple[str, datetime, datetime]]
"""Named periods with their start and end."""


# -- what was released -----------------------------------------------------------------------------


class _OfPeriods(Tabled, Sectioned):
    """Releases of several periods as one table."""

    @property
    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """One row for each item: period, group if there are groups, rank, item, and number."""

    @property
    @abstractmethod
    def heads(self) -> tuple[str, ...]:
        """The columns of `rows`."""

    @property
    def items(self) -> tuple[Label, ...]:
        """The released items, period after period."""
        return tuple(row["item"] for row in self.rows)

    def columns(self) -> dict[str, tuple[Any, ...]]:
        """The columns of `rows`. Items are integers if all of them are, and otherwise text."""
        rows = self.rows
        columns = {name: tuple(row[name] for row in rows) for name in self.heads}
        whole = all(isinstance(item, int) for item in columns["item"])
        return columns if whole else columns | {"item": tuple(map(str, columns["item"]))}


_STATES = {
    "released": "released now",
    "recorded": "released before",
    "lost": "released before, and its file is gone; not drawn again",
    "waiting": "not charged",
}
_WITH_ANSWER = ("released", "recorded")


@final
@dataclass(frozen=True)
class InAll:
    """The total privacy cost to a user who is in every period of a dataset.

    Attributes:
        periods: number of periods.
        epsilon: the total epsilon, or None if none is stated.
    """

    periods: int
    epsilon: float | None
    delta: float | None
    words: str

    @classmethod
    def from_ledger(
        cls,
        ledger: acc.Ledger,
        dataset: acc.ledger.Dataset,
        item: Chargeable | None = None,
        todo: Sequence[str] = (),
    ) -> Self:
        """The total cost of the ledger's charges, and of charging an item to some more periods.

        Raises:
            BudgetExceeded: the dataset declares less (`ledger init --most-in-all`).
        """
        # Where all periods are charged, and some only have to be drawn, nothing is added up for
        # them.
        epsilon, delta = (
            ledger.cost_over_periods(dataset.name, item, todo)
            if todo
            else ledger.cost_over_periods(dataset.name)
        )
        periods = len({total.account for total in ledger.totals(dataset.name)} | set(todo))
        words = periods_in_words(epsilon, delta, periods, dataset.window)
        return (
            cls(periods, epsilon, delta, words)
            if math.isfinite(epsilon)
            else cls(periods, None, None, words)
        )


@final
@dataclass(frozen=True)
class PeriodRelease:
    """A period's name, its state, the file of its answer, and the answer if there is one."""

    name: str
    state: State
    output: Path
    answer: Answer | None


@final
@dataclass(frozen=True, repr=False)
class Series(_OfPeriods):
    """A release for each period, each charged to that period's own budget.

    Attributes:
        releases: the releases of all periods, in order.
        in_all: total cost to a user who is in every charged period. Each period has a budget of its
            own, and these add up.
    """

    releases: tuple[PeriodRelease, ...]
    in_all: InAll

    @property
    def answers(self) -> dict[str, Answer]:
        """Answers by the names of periods, without periods that are lost or waiting."""
        return {
            release.name: release.answer for release in self.releases if release.answer is not None
        }

    @property
    def lost(self) -> tuple[str, ...]:
        """Periods that were released and whose answer is not in its file."""
        return tuple(release.name for release in self.releases if release.state == "lost")

    @property
    def waiting(self) -> tuple[str, ...]:
        """Periods that were not charged, because noise alone explains the first answer."""
        return tuple(release.name for release in self.releases if release.state == "waiting")

    @property
    def explained_by_noise(self) -> bool:
        """True if noise alone explains every answer, by `Answer.explained_by_noise`."""
        return bool(self.answers) and all(
            answer.explained_by_noise for answer in self.answers.values()
        )

    @property
    def cautions(self) -> list[str]:
        """Warnings about the answers as a whole."""
        waiting = self.waiting
        rest = (
            f"; {len(waiting):,} further periods were not charged. State go_on= to release them"
            if waiting
            else ""
        )
        return [HARDLY_ANY + rest] if self.explained_by_noise else []

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row for each item: its period, and the columns of `Answer.columns`."""
        rows = []
        for name, answer in self.answers.items():
            columns = answer.columns()
            rows += [
                {"period": name, **dict(zip(columns, row, strict=True))}
                for row in zip(*columns.values(), strict=True)
            ]
        return rows

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(self.rows[0]) if self.rows else ("period", "rank", "item")

    @property
    def values(self) -> tuple[float, ...] | None:
        """Noisy scores of the items; None if no scores are released."""
        scores = [answer.values for answer in self.answers.values()]
        return (
            None if None in scores else tuple(value for values in scores for value in values or ())
        )

    def lines(self) -> list[str]:
        """The states of the periods and the cost, in words."""
        return [
            *(f"{release.name}: {release.state}, {release.output}" for release in self.releases),
            self.in_all.words,
            *self.cautions,
        ]

    def __repr__(self) -> str:
        return "\n".join(["Series:", *(f"  {line}" for line in self.lines())])

    def sections(self) -> Iterator[Section]:
        """Return the state of each period, and the cost."""
        rows = [
            (
                release.name,
                _STATES[release.state],
                release.output if release.state in _WITH_ANSWER else "",
            )
            for release in self.releases
        ]
        heads = ("period", "state", "file")
        sentence = f"{self.in_all.words[:1].upper()}{self.in_all.words[1:]}."
        notes = [("Warning", words) for words in self.cautions]
        yield Section(heads=heads, rows=rows, left=heads, lines=[sentence], notes=notes)


@final
@dataclass(frozen=True, repr=False)
class HorizonAnswer(_OfPeriods):
    """The answer of a horizon: all of its releases so far.

    Attributes:
        key: key of the charge.
        state: file of the private state.
        periods_left: number of periods that can still be closed.
        released: the release of each closed period.
        left: the rest of the dataset's budget, in words; None without a ledger.
        names: names of the periods; None for their numbers.
        group: name of the column of groups.
        question: the question, as plain data.
        preview: the forecast from what the question declares about the data; None if it does not.
        files: in a file, the hashes of the table beside it, and before that of the one in whose
            place it was written.
    """

    mechanism: ContinualTopK
    key: str
    state: str
    periods_left: int
    released: tuple[Period, ...]
    left: str | None
    names: tuple[str, ...] | None = None
    group: str = "group"
    question: dict[str, Any] | None = None
    files: tuple[str, ...] = ()
    preview: Preview | None = None

    def __post_init__(self) -> None:
        if self.mechanism.counts is not None:
            periods = tuple(
                replace(period, selection=raise_to_0(period.selection)) for period in self.released
            )
            object.__setattr__(self, "released", periods)

    @classmethod
    def from_horizon(
        cls, horizon: Horizon, released: Iterable[Period] | None = None, **about: Any
    ) -> Self:
        """The answer with all releases of a horizon, or some. `about` has further attributes."""
        periods = tuple(horizon.releases() if released is None else released)
        return cls(
            horizon.mechanism,
            horizon.key,
            hide_passwords(horizon.state),
            horizon.periods_left,
            periods,
            horizon.left,
            **about,
        )

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row for each item: period, group, rank, item, and `users` with ends, or a `score`.

        `users` is there if users are counted. It estimates the number of users who have the item,
        except those with more released items than count, with an interval from `low` to `high`.
        With 95% probability all intervals of all periods hold (Theorem T10). If users count in
        part, at least `low` of them have the item, and `high` is None. A `score` is a sum of
        weights, and counts nothing.
        """
        mechanism, rows = self.mechanism, list[dict[str, Any]]()
        for period in self.released:
            columns = period.selection.columns()
            margin = mechanism.margin(period.number, max(1, len(columns["value"])))
            for place, value in enumerate(columns["value"]):
                row: dict[str, Any] = {
                    "period": period.number if self.names is None else self.names[period.number - 1]
                }
                row |= {self.group: columns["group"][place]} if "group" in columns else {}
                row |= {"rank": columns["rank"][place], "item": columns["item"][place]}
                if mechanism.counts is None:
                    row["score"] = value
                else:
                    high = None if mechanism.in_part else value + margin
                    row |= {"users": value, "low": max(0.0, value - margin), "high": high}
                rows.append(row)
        return rows

    @property
    def explained_by_noise(self) -> bool:
        """True if noise alone explains every period, by `Answer.explained_by_noise`."""
        return bool(self.released) and all(map(self._is_explained, self.released))

    @property
    def cautions(self) -> list[str]:
        """Warnings about the answers as a whole."""
        notes = [] if self._candidates is not None else [self._like_missing]
        return [*filter(None, notes), *([HARDLY_ANY] if self.explained_by_noise else [])]

    @property
    def _like_missing(self) -> str | None:
        """A note about released labels that look like a missing value."""
        selections = (period.selection for period in self.released)
        return like_missing(
            label
            for selection in selections
            for label in (*(selection.labels or ()), *(selection.groups or ()))
        )

    @property
    def notes(self) -> list[str]:
        """Warnings about the answers, and about a missing ledger."""
        return [*self.cautions, *([UNRECORDED] if self.left is None else [])]

    @property
    def about_right(self) -> str | None:
        """The forecast of how many of the items are right, in words; None without one."""
        return None if self.preview is None else self.preview.about_right(len(self.rows))

    def _is_explained(self, period: Period) -> bool:
        return explained_by_noise(
            self.mechanism, period.selection, self._candidates, period=period.number
        )

    @property
    def _candidates(self) -> int | None:
        """Number of candidates of a public list; None if they are read off the log."""
        return self.mechanism.candidates if self.mechanism.delta is None else None

    def _may_be_noise(self, period: Period) -> tuple[bool, ...]:
        """Marks of a period's items, as of `Answer.may_be_noise`."""
        mechanism, values = self.mechanism, period.selection.values or ()
        if mechanism.counts is None:
            # a discovered item stays one, and may have nobody in a later period
            cells = {
                cell
                for before in self.released
                if before.number <= period.number
                for cell in _cells(before.selection)
            }
            listed = self._candidates or len(cells)
            bar = noise_bar(mechanism, len(values), listed, period=period.number)
        else:  # users are whole
            bar = mechanism.margin(period.number, max(1, len(values))) + (1 - 1e-9)
        return tuple(bar is not None and value <= bar for value in values)

    @property
    def values(self) -> tuple[float, ...] | None:
        """Estimated numbers of users, or scores, of the items."""
        return tuple(row["users"] if "users" in row else row["score"] for row in self.rows)

    def as_data(self) -> dict[str, Any]:
        """The answer as plain data, with `rows` and the guarantee for the whole horizon."""
        mechanism, names = self.mechanism, self.names
        guarantee = promise(mechanism, horizon_budget(mechanism))
        return {
            "dpselect": dps.__version__,
            "question": self.question,
            "horizon": {
                "key": self.key,
                "state": self.state,
                "periods": mechanism.periods,
                "periods_left": self.periods_left,
            },
            "count": mechanism.count,
            "window": mechanism.window,
            "guarantee": {**guarantee.as_data(), "covers": "all periods of the horizon together"},
            "budget": self.left,
            "mechanism": plain_data(mechanism),
            "intervals": self._intervals,
            **(
                {} if self.preview is None else {"expected": self.preview.as_data(self.about_right)}
            ),
            "released": [
                {
                    "period": period.number,
                    "name": None if names is None else names[period.number - 1],
                    "deviation": (
                        float(mechanism.deviations[period.number - 1])
                        if mechanism.counts is None
                        else mechanism.counts.scale
                    ),
                    "explained_by_noise": self._is_explained(period),
                    "may_be_noise": list(self._may_be_noise(period)),
                    "selection": plain_data(period.selection),
                }
                for period in self.released
            ],
            "table": self.rows,
            "notes": self.notes,
            **({"files": list(self.files)} if self.files else {}),
        }

    @property
    def _intervals(self) -> dict[str, Any] | None:
        """Meaning of the ends in `rows`; None if scores count nothing."""
        if self.mechanism.counts is None:
            return None
        part = self.mechanism.in_part
        words = (
            f"with 95% probability, all {'lower bounds' if part else 'intervals'} shown hold at the"
            " same time, in all periods of the series"
        )
        return {"confidence": 0.95, "at_least": part, "in_words": words}

    @property
    def heads(self) -> tuple[str, ...]:
        group = (self.group,) if self.mechanism.grouped else ()
        numbers = ("score",) if self._intervals is None else ("users", "low", "high")
        return ("period", *group, "rank", "item", *numbers)

    def lines(self) -> list[str]:
        """Text on the rest of the horizon, the guarantee, the cost and the warnings."""
        mechanism = self.mechanism
        guarantee = promise(mechanism, horizon_budget(mechanism))
        status = (
            f"horizon {self.key}, state {self.state}: {self.periods_left:,} of"
            f" {mechanism.periods:,} periods left"
        )
        return [
            status,
            guarantee.in_words,
            f"Risk: {guarantee.risk_in_words}.",
            *self.notes,
            *filter(None, [self.about_right, self.left]),
        ]

    def __repr__(self) -> str:
        start = f"HorizonAnswer: {len(self.released):,} periods with {len(self.rows):,} items"
        return "\n".join(map(printable, [start, *(f"  {line}" for line in self.lines())]))

    def sections(self) -> Iterator[Section]:
        """Return the items of each period, and the guarantee for the whole horizon."""
        mechanism, names = self.mechanism, self.names
        for release in self.released:
            period = release.number if names is None else names[release.number - 1]
            name = "" if names is None else f", {period}"
            period_rows = (row for row in self.rows if row["period"] == period)
            marks = self._may_be_noise(release)
            rows = [
                _fact(row, may_be_noise=mark) for row, mark in zip(period_rows, marks, strict=True)
            ]
            yield Section(f"Period {release.number} of {mechanism.periods}{name}", rows)
        guarantee = promise(mechanism, horizon_budget(mechanism))
        over = {"period": "users of each period", "running": "users of all periods so far"}
        count = over.get(mechanism.count, f"users of the last {mechanism.window} periods")
        strongest = min(
            (point for point in guarantee.points if point.epsilon is not None),
            key=lambda point: point.epsilon or 0.0,
            default=None,
        )
        facts = [
            ("horizon", f"{self.key}: {mechanism.periods} periods, {self.periods_left} left"),
            ("state", f"{self.state}, as private as the log"),
            ("count", f"{count}, as {self._value_meaning()}"),
            *([] if self.about_right is None else [("forecast", self.about_right)]),
            (
                "epsilon",
                "see --json"
                if strongest is None or strongest.epsilon is None
                else f"{round_up(strongest.epsilon, 6)} at delta {format_number(strongest.delta)}",
            ),
            ("in words", guarantee.in_words),
            ("risk", guarantee.risk_in_words),
        ]
        yield Section("What is promised, for the whole horizon", facts)
        last = [("Warning", words) for words in self.notes]
        yield Section(notes=last + ([] if self.left is None else [("Budget", self.left)]))

    def _value_meaning(self) -> str:
        """Meaning of the values, in words."""
        if (counts := self.mechanism.counts) is None or self._intervals is None:
            return "scores: sums of users' falling weights, which do not estimate a number of users"
        return (
            f"numbers of users, each counted for at most {counts.items:,} of a period's items;"
            f" {self._intervals['in_words']}"
        )

    def to_html(self, title: str | None = None) -> str:
        """Return a page: the last period's list of each group, its items over time with their
        intervals, and the whole table.

        Args:
            title: Heading of the page. None makes one of the question and the key.
        """
        from dpselect.app.release.series_page import page  # jinja2, which other answers do without

        intervals = self._intervals
        reach = "reaches down to the low end" if self.mechanism.in_part else "is the interval"
        bands = (
            ""
            if intervals is None
            else f"The band {reach} of each number: {intervals['in_words']}."
        )
        guarantee = promise(self.mechanism, horizon_budget(self.mechanism))
        notes = (("Forecast", self.about_right), ("Budget", self.left))
        facts = [
            ("In words", guarantee.in_words),
            ("Risk", guarantee.risk_in_words),
            *((name, words) for name, words in notes if words),
        ]
        heading = (
            f"The top {self.mechanism.k}"
            + (f" of each {self.group}" if self.mechanism.grouped else "")
            + f", {self.key}"
        )
        marks = [mark for period in self.released for mark in self._may_be_noise(period)]
        return page(
            [row | {"may_be_noise": mark} for row, mark in zip(self.rows, marks, strict=True)],
            self.heads,
            periods=[
                period.number if self.names is None else self.names[period.number - 1]
                for period in self.released
            ],
            k=self.mechanism.k,
            csv=TABLES[".csv"](self, defused=True),
            title=heading if title is None else title,
            number="score" if intervals is None else "users",
            facts=facts,
            bands=bands,
        )


def _cells(selection: Selection) -> Iterable[tuple[Label, Label]]:
    """Released items with their groups."""
    labels = selection.labels or ()
    return zip(selection.groups or ("",) * len(labels), labels, strict=True)


def _fact(row: dict[str, Any], *, may_be_noise: bool) -> tuple[str, str]:
    """An item, in its group, and the text beside it: users with an interval, or a score."""
    item = ": ".join(str(cell) for name, cell in row.items() if name == "item" or name not in HEADS)
    number = f"score {row['score']:z.1f}" if "score" in row else f"{row['users']:,.0f} users"
    words = bounds_in_words(row.get("low"), row.get("high"), may_be_noise=may_be_noise)
    return item, f"{number} ({words})" if words else number


def horizon_file(spec: KeptFields) -> AnswerFile:
    """File that keeps the releases of a horizon, as JSON, a page or a table."""
    page = partial(HorizonAnswer.to_html, title=spec.title)
    return AnswerFile.from_spec(spec, texts={".json": as_json, ".html": page})


@final
@dataclass(frozen=True)
class KeptHorizon:
    """The file of a horizon's answer, which later calls of the same question renew.

    Attributes:
        place: the file.
        question: the question, as plain data.
        state: the file of the horizon's state, which has every answer.
        earlier: the plain data of the answer in the file, if it answers the same question.
    """

    place: AnswerFile
    question: dict[str, Any]
    state: Path
    earlier: dict[str, Any] | None

    @classmethod
    def find(cls, place: AnswerFile, question: dict[str, Any], state: Path) -> Self:
        """Look for the answer, before anything is read, reserved or charged.

        Raises:
            InvalidRequest, OutputRefused: as for `AnswerFile.read_answer`.
            HorizonError: the file has such an answer, and there is no state that could go on.
        """
        earlier = place.read_answer(question)
        if earlier is not None and not state.exists():
            raise HorizonError(
                f"state={mask(state)} does not exist, and output= holds answers of its series. If"
                " the state lies elsewhere, name it (state=); a series without its state has ended."
                " For another series, name another file"
            )
        return cls(place, question, state, earlier)

    def write(self, answer: HorizonAnswer) -> HorizonAnswer:
        """The answer, after writing it to its file.

        The file's contents must equal the state's answers, or the first of them.

        One call at a time does so, under the state's lock. Of calls that overlap, the one that has
        released more stays in the file, whichever comes last.
        """
        if self.place.output is None:
            return answer
        try:
            with HorizonState.open(self.state) as state:
                earlier = self.place.read_answer(self.question)
                released = json.loads(as_json(answer))["released"]
                in_file = [] if earlier is None else earlier["released"]
                more = len(released) < len(in_file) <= len(state.closed_periods())
                if more and in_file[: len(released)] == released:
                    return answer
                if in_file != released[: len(in_file)]:
                    self.place.require()
                self.place.renew(answer, earlier)
        except (OutputError, HorizonUnavailable) as error:
            error.add_note(
                Note(
                    f"what was released is kept in state={mask(self.state)}, and the same call"
                    " gives it again"
                )
            )
            raise
        return answer


# -- what is asked of several periods --------------------------------------------------------------


def series_of(
    question: Question,
    source: object,
    place: AnswerFile,
    progress: ProgressCallback | None = None,
    unkept: Callable[[AnswerFile, Answer], None] | None = None,
    announce: Callable[[str], None] | None = None,
) -> Series | DryRun:
    """Release the periods of a question with `every`, or report their charge as a `DryRun`.

    Args:
        source: as for `dpselect.events.read`.
        place: file of the answers, with `PLACE` for the period.
        progress: called with the number of finished periods, and of all periods.
        unkept, announce: as for `ByPeriod`.

    Raises:
        InvalidRequest: an option is not for a series, or one is missing.
    """
    spec, window = question.spec, question.reading.window
    needs = ("time", "since", "until", "key", "ledger", "dataset")
    if missing := [f"{name}=" for name in needs if getattr(spec, name) is None]:
        raise InvalidRequest(
            f"every= needs {', '.join(missing)}: the periods must be public, and each is charged"
            " once"
        )
    if spec.engine != "memory":
        raise InvalidRequest(
            f"every= counts in memory, a period at a time. Leave out engine={spec.engine}"
        )
    assert spec.every is not None
    assert window is not None, "there is a column of times"
    named = list(periods(window, spec.every, partial=spec.partial_last))
    with spec.open_ledger() as ledger:
        by_period = ByPeriod(question, source, named, place, ledger, unkept, announce)
        return by_period.dry_run() if spec.dry_run else by_period.release(progress)


# -- a charge for each period ----------------------------------------------------------------------


@final
class ByPeriod:
    """Periods that are each charged to their own budget, under the key KEY:PERIOD.

    Released periods stay as they are. Each period is answered by itself, as if it were the only
    one. `dpselect.continual` is for periods that share their noise.

    Args:
        unkept: called with an answer that is drawn and cannot be kept; it raises. None writes it to
            a file of its own.
        announce: called with the planned releases and their total cost, before anything is read.
    """

    def __init__(
        self,
        question: Question,
        source: object,
        named: Named,
        place: AnswerFile,
        ledger: acc.Ledger,
        unkept: Callable[[AnswerFile, Answer], None] | None = None,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        spec, output, every = question.spec, place.output, question.spec.every
        if spec.periods:
            raise InvalidRequest("period= is named by every=: leave it out")
        if output is None or PLACE not in output.name or output.suffix.lower() == ".txt":
            raise InvalidRequest(
                f"every= needs output= like top-{PLACE}.json, .csv or .parquet: a file for each"
                " period"
            )
        self._question, self._source, self._ledger = question, source, ledger
        self._dataset = ledger.dataset(str(spec.dataset))
        self._unkept, self._announce = unkept, announce
        if self._dataset.window != every:
            has = (
                "one budget for all rows"
                if self._dataset.window == "whole"
                else f"a budget for each {self._dataset.window}"
            )
            raise InvalidRequest(
                f"every={every} charges each {every} to its own budget, and"
                f" dataset={self._dataset.name} has {has}. Declare one with `dpselect ledger init"
                f" --window {every}`, or use `dpselect continual run`, with one budget for all of"
                " them"
            )
        self._cut = partial(split, source, question.reading, named)
        self._parts: dict[str, tuple[Question, AnswerFile]] = {}
        self._done: dict[str, PeriodRelease] = {}
        # charged, and nothing was released of them: they are drawn under their charge
        self._begun = set[str]()
        for name, start, end in named:
            part_reading = question.reading.model_copy(
                update={"since": iso_moment(start), "until": iso_moment(end)}
            )
            of_period = spec.model_copy(
                update={"period": (name,), "key": f"{spec.key}:{name}", "ledger": ledger}
            )
            part = replace(question, reading=part_reading, spec=of_period)
            file = output.with_name(output.name.replace(PLACE, name))
            own = replace(place, output=file)
            self._parts[name] = part, own
            if (charge := ledger.find(self._dataset.name, str(of_period.key))) is not None:
                # Finding an answer restores its table and its record, and a dry run writes nothing.
                answer = (
                    None
                    if spec.dry_run
                    else own.recorded_answer(of_period, part.as_data, partial(Answer.restore, part))
                )
                if answer is None and charge.state in ("reserved", "committed"):
                    self._begun.add(name)
                else:
                    self._done[name] = PeriodRelease(
                        name, "lost" if answer is None else "recorded", file, answer
                    )

    @property
    def _pending(self) -> list[str]:
        return [name for name in self._parts if name not in self._done]

    @property
    def _uncharged(self) -> list[str]:
        return [name for name in self._pending if name not in self._begun]

    def release(self, progress: ProgressCallback | None = None) -> Series:
        """Release the remaining periods, in order, after all checks without the log. Return all.

        Without `go_on` it stops before the second charge if noise alone explains the first answer.
        """
        if (pending := self._pending) and not self._is_quiet:
            in_all = self._total_cost()
            if self._announce is not None:
                self._announce(
                    f"to be released, {len(pending):,} of {len(self._parts):,} periods:"
                    f" {in_all.words}"
                )
            for name in pending:
                question, place = self._parts[name]
                place.require()
                payer_of(question).require(self._choice.mechanism, is_kept=True)
            with self._cut() as parts:
                for number, name in enumerate(pending):
                    if progress is not None:
                        progress(number, len(pending))
                    self._release(name, parts[name])
                    if self._is_quiet:
                        break
        for name in self._pending:
            output = self._parts[name][1].output
            assert output is not None
            self._done[name] = PeriodRelease(name, "waiting", output, None)
        return Series(
            tuple(self._done[name] for name in self._parts),
            InAll.from_ledger(self._ledger, self._dataset),
        )

    @property
    def _is_quiet(self) -> bool:
        """True if noise alone explains the only answer so far and `go_on` is not stated."""
        answers = [release.answer for release in self._done.values() if release.answer is not None]
        return not self._question.spec.go_on and len(answers) == 1 and answers[0].explained_by_noise

    def _release(self, name: str, part: PeriodEvents) -> None:
        question, place = self._parts[name]
        try:
            answer = run(question, part, place=place, choice=self._choice, preview=self._preview)
        except BaseException as error:
            if names := [
                release.name for release in self._done.values() if release.state == "released"
            ]:
                error.add_note(Note(f"released before that, charged and kept: {', '.join(names)}"))
            raise
        if place.failure is not None:
            if self._unkept is not None:
                self._unkept(place, answer)
            where = (
                rescue(answer) if place.path is None else f"the answer lies in {mask(place.path)}"
            )
            raise OutputError(f"{place.failure}; {where}")
        assert place.output is not None
        self._done[name] = PeriodRelease(name, "released", place.output, answer)

    def dry_run(self) -> DryRun:
        """The charge of `release` to each remaining period, as of `ChargeTarget.dry_run`."""
        pending = self._pending
        if not pending:
            raise InvalidRequest(
                "all periods are charged already. Leave dry_run= out to see their states, which"
                " costs nothing"
            )
        for name in pending:
            self._parts[name][1].require()
        events.require_columns(self._source, self._question.reading)
        mechanism, remaining = self._choice.mechanism, list[str]()
        for name in pending:
            dry_run = payer_of(self._parts[name][0]).dry_run(
                mechanism, mechanism, self._question.budget, is_kept=True
            )
            remaining += [f"{name}: {words}" for words in dry_run.left]
        in_all = f"once all of them are charged, {self._total_cost().words}"
        preview = forecast_release(self._question, self._choice, compared=True)
        return DryRun(
            mechanism,
            mechanism,
            self._question.budget,
            tuple(remaining),
            in_all=in_all,
            preview=preview,
        )

    def _total_cost(self) -> InAll:
        """The total cost to one user once all periods are charged.

        Raises:
            BudgetExceeded: as for `InAll.from_ledger`.
        """
        return InAll.from_ledger(
            self._ledger, self._dataset, self._choice.mechanism, self._uncharged
        )

    @cached_property
    def _preview(self) -> Preview | None:
        """The forecast of each period, from the declared data of one."""
        return forecast_release(self._question, self._choice)

    @cached_property
    def _choice(self) -> Choice:
        """The mechanism of all periods, chosen once by public facts."""
        question, _ = self._parts[self._pending[0]]
        return choose_mechanism(question, payer_of(question).session)


# -- one cost for all periods ---------------------------------------------------------------------


def release_horizon(
    session: dps.Session | None,
    source: Any,
    reading: Reading,
    named: Named,
    budget: acc.Budget,
    settings: dict[str, Any],
    opens: dict[str, Any],
    *,
    ended: int,
    dry_run: bool,
    question: dict[str, Any] | None = None,
    data: Described | None = None,
) -> HorizonAnswer | DryRun:
    """Release periods with one budget, reserved once the log is read, committed by the first.

    Closed periods are answered from the state, whatever the log is now. The log is read for periods
    that have ended and are open, if there are any. Rows that came late for a closed period are in
    none.

    Args:
        session: the session to charge; None charges nothing.
        named: all periods that the question names.
        budget: budget of all of them.
        settings: fields of the mechanism, and other arguments of `horizon_mechanism`; `periods` may
            be None, for the named ones.
        opens: arguments of `dpselect.continual.open` for the horizon.
        ended: number of the named periods that are closed afterwards, at least.
        question: the question, as plain data.
        data: the data of all periods, as the question describes them; None if it does not.

    Raises:
        InvalidRequest: no period has ended.
        HorizonError, KeyConflict: the horizon cannot be opened or continued with these options.
    """
    if settings["with_counts"] and settings.get("items_per_period") is None:
        settings = {**settings, "items_per_period": reading.max_items_per_user}
        reading = reading.model_copy(update={"max_items_per_user": None})
    declared, grouped = settings["periods"] or len(named), reading.group is not None
    if declared < len(named):
        raise InvalidRequest(
            f"periods={declared} is fewer than the {len(named)} periods from since= to until=:"
            " declare at least as many, or none"
        )
    lists = {name: opens[name] for name in ("domain", "groups")}

    def fit(budget: acc.Budget, listed: Sequence[Label] | None = None) -> ContinualTopK:
        more = {**lists, "domain": lists["domain"] if listed is None else listed}
        return horizon_mechanism(
            budget, **{**settings, **more, "periods": declared, "grouped": grouped}
        )

    mechanism = fit(budget)
    reading = require_pairs(reading, grouped=grouped)

    def begin(**more: Any) -> Horizon:
        try:
            return open_horizon(session, mechanism, **opens, **more)
        except HorizonError as error:
            if error.field == "periods" and settings["periods"] is None:
                error.add_note(Note(_END_OF_SERIES))
            raise

    if dry_run:
        result = dry_close(
            session, begin(dry_run=True), budget, partial(events.require_columns, source, reading)
        )
        return replace(result, preview=forecast_series(budget, mechanism, data, fit))
    if not ended:
        raise InvalidRequest(
            "no period has ended by up_to=, which is now unless it is stated: the first ends at"
            f" {iso_moment(named[0][2])}, so run the same call after that"
        )
    readings = [
        reading.model_copy(update={"since": iso_moment(start), "until": iso_moment(end)})
        for _, start, end in named
    ]
    # before the draw: nothing comes between it and the file that keeps its answer
    preview = forecast_series(budget, mechanism, data)
    closed = 0
    if Path(opens["state"]).exists():
        horizon = begin()
        closed = horizon.count_closed(readings)
    if closed < ended:
        with split(source, reading, named[closed:ended]) as parts:
            horizon = begin()
            for number, (name, *_) in enumerate(named[closed:ended], closed + 1):
                horizon.close(number, parts[name], readings[number - 1])
    about: Any = {
        "names": tuple(name for name, *_ in named),
        "group": group_head(reading.group),
        "question": question,
        "preview": preview,
    }
    return HorizonAnswer.from_horizon(horizon, horizon.releases()[: len(named)], **about)


_END_OF_SERIES = (
    "without periods= they are those from since= to until=. Keep until= at the end of the whole"
    " series, and state up_to= for how far this run closes"
)


def horizon_mechanism(
    budget: acc.Budget,
    *,
    domain: Sequence[Label] | None,
    groups: Sequence[Label] | None,
    with_counts: bool,
    users: HorizonClip | None = None,
    items_per_period: int | None = None,
    **settings: Any,
) -> ContinualTopK:
    """The mechanism that releases at the end of every period, fitted to the budget.

    Args:
        domain, groups: public lists.
        with_counts: True to count users beside the items, each for `items_per_period` of the
            released ones.
        users: contribution bounds otherwise.
        settings: fields of the mechanism.

    Raises:
        InvalidMechanism, CalibrationError: as for `ContinualTopK.fitted`.
    """
    counted = items_per_period or ITEMS_PER_PERIOD if with_counts else None
    listed = None if domain is None else len(domain) * (1 if groups is None else len(groups))
    about: Any = {
        "unknown": domain is None,
        "counted": counted,
        "users": users or HorizonClip(),
        "candidates": listed,
    }
    return ContinualTopK.fitted(budget, **about, **settings)


def dry_close(
    session: dps.Session | None,
    horizon: Horizon,
    budget: acc.Budget | None = None,
    look: Callable[[], object] = lambda: None,
) -> DryRun:
    """The charge of a horizon, or a statement that it is charged already, as a `DryRun`.

    Args:
        budget: the budget if it was stated.
        look: checks the header or schema of the log.
    """
    key, mechanism = horizon.key, horizon.mechanism
    place = {"key": key, "state": hide_passwords(horizon.state)}
    payer, total = ChargeTarget(session, key), budget or horizon_budget(mechanism)
    receipt = None if session is None else session.ledger.find(session.dataset.name, key)
    if receipt is None:
        return replace(payer.dry_run(mechanism, mechanism, total, look), horizon=place)
    if acc.Curve.from_json(receipt.entries[0].curve or "") != mechanism.curve:
        raise acc.ledger.KeyConflict(
            f"key={key!r} was charged for something else (entry {receipt.seq}). Use the options"
            " with which the horizon was opened, which charges nothing more, or a new key for"
            " another horizon"
        )
    look()
    remaining = payer.remaining(mechanism)
    words = f"nothing more would be charged, because entry {receipt.seq} has {receipt.state} it"
    return DryRun(
        mechanism, mechanism, total, () if remaining is None else (remaining,), words, horizon=place
    )


def horizon_budget(mechanism: ContinualTopK) -> acc.Budget:
    """A budget with the delta at which a horizon's guarantee is stated.

    The delta is a customary one, with room for failures.
    """
    return acc.Budget(epsilon=1.0, delta=max(1e-6, mechanism.curve.delta0 * 4 / 3))
