"""Releases for each period of a log: `run_every`, each charged to its period; `close_all`, all of them for one price."""

from __future__ import annotations

import csv
import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, final

import accounting as acc
import dpselect as dps
from accounting.errors import OutputError, missing_extra
from accounting.files import PRIVATE, new_file
from accounting.remaining import in_all_in_words
from dpselect.continual import ContinualTopK, Horizon, HorizonClip, Period
from dpselect.continual.history import History
from dpselect.continual.horizon import of_pairs, records
from dpselect.errors import InvalidRequest, Note
from dpselect.events import ProgressCallback, Reading
from dpselect.events.staging import split
from dpselect.events.time_window import Every, periods
from dpselect.mechanisms import OneshotTopK, SparseHistogram
from dpselect.mechanisms.base import settings_of
from dpselect.plan.candidates import Choice
from dpselect.release.answer import Answer, DryRun, promise
from dpselect.release.question import Question, opened
from dpselect.release.record import AnswerFile, as_json, as_text, rescued, restored
from dpselect.release.run import Payer, Planned, Ready, learnt_before, payer_of, run, stage
from dpselect.selection import Label, Selection
from dpselect.spec import ReleaseFields

if TYPE_CHECKING:
    from accounting.ledger.item import Chargeable

PLACE = "{period}"  # in the name of the files that keep the answers
_MORE_NOISE = 1.1  # that averages over periods outweigh
State = Literal["released", "recorded", "lost"]
"""Of a period: released now; released before; charged, and its answer lost when the run was stopped, so not drawn again."""


class _OfPeriods(ABC):
    """Releases of several periods as one table."""

    @property
    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """One for each item: its period, the group where there are groups, rank and item, and what is released of its number."""

    @property
    def items(self) -> tuple[Label, ...]:
        """What was released, of each period after the other."""
        return tuple(row["item"] for row in self.rows)

    def to_arrow(self) -> Any:
        """A pyarrow Table of `rows`; items as text, since they may be integers and text."""
        try:
            arrow = import_module("pyarrow")
        except ImportError:
            raise missing_extra("Parquet is written by pyarrow, and tables are made by it", "arrow") from None
        rows = [{**row, "item": str(row["item"])} for row in self.rows]
        kinds = {"rank": arrow.int64()} | dict.fromkeys(("users", "score", "value", "low", "high"), arrow.float64())
        names = list(rows[0]) if rows else ["period", "rank", "item"]
        return arrow.table({name: arrow.array([row[name] for row in rows], kinds.get(name)) for name in names})

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The same as a Polars DataFrame."""
        try:
            polars = import_module("polars")
        except ImportError:
            raise missing_extra("a Polars table is made by polars", "polars") from None
        return polars.from_arrow(self.to_arrow())


# -- every period at its own price -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class InAll:
    """What somebody faces who is in every period of a dataset.

    Attributes:
        periods: how many there are.
        epsilon: None where none is stated.
    """

    periods: int
    epsilon: float | None
    delta: float | None
    words: str

    @classmethod
    def of(
        cls, ledger: acc.Ledger, dataset: acc.ledger.Dataset, item: Chargeable | None = None, todo: Sequence[str] = ()
    ) -> Self:
        """By what the ledger has charged, and if it charged an item to some periods as well.

        Raises:
            BudgetExceeded: the dataset declares less (`ledger init --most-in-all`).
        """
        epsilon, delta = ledger.in_all(dataset.name, item, todo)
        many = len({total.period for total in ledger.totals(dataset.name)} | set(todo))
        words = in_all_in_words(epsilon, delta, many, dataset.window)
        return cls(many, epsilon, delta, words) if math.isfinite(epsilon) else cls(many, None, None, words)


@final
@dataclass(frozen=True)
class PeriodRelease:
    """How one period stands: its name, its state, the file of its answer, and the answer where it is not lost."""

    name: str
    state: State
    output: Path
    answer: Answer | None


@final
@dataclass(frozen=True, repr=False)
class Series(_OfPeriods):
    """A release for each period, each charged to itself.

    Attributes:
        releases: of all periods, in order.
        in_all: what somebody faces who is in every period that was charged: each has a budget of its own, and these add up.
    """

    releases: tuple[PeriodRelease, ...]
    in_all: InAll

    @property
    def answers(self) -> dict[str, Answer]:
        """By the names of periods; without those that are lost."""
        return {one.name: one.answer for one in self.releases if one.answer is not None}

    @property
    def lost(self) -> tuple[str, ...]:
        """Periods that are charged and whose answer is lost."""
        return tuple(one.name for one in self.releases if one.state == "lost")

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One for each item: its period, and the columns of its answer's table: see `Answer.columns`."""
        found = []
        for name, answer in self.answers.items():
            held = answer.columns()
            found += [{"period": name, **dict(zip(held, row, strict=True))} for row in zip(*held.values(), strict=True)]
        return found

    @property
    def values(self) -> tuple[float, ...] | None:
        """The noisy scores of the items; None where none is released."""
        found = [answer.values for answer in self.answers.values()]
        return None if None in found else tuple(value for values in found for value in values or ())

    def lines(self) -> list[str]:
        """How the periods stand and what they cost, in words."""
        return [*(f"{one.name}: {one.state}, {one.output}" for one in self.releases), self.in_all.words]

    def __repr__(self) -> str:
        return "\n".join(["Series:", *(f"  {line}" for line in self.lines())])


@final
@dataclass(frozen=True)
class _Period:
    """One period's question, and where its answer is kept."""

    name: str
    ends: tuple[datetime, datetime]
    question: Question
    place: AnswerFile


def run_every(
    question: Question,
    place: AnswerFile,
    progress: ProgressCallback | None = None,
    unkept: Callable[[AnswerFile, Answer], None] | None = None,
    announce: Callable[[str], None] | None = None,
) -> Series:
    """Release every period that is not released yet, each charged to itself under the key KEY:PERIOD, and say how each stands.

    The log is read once, and cut by time. What one period has learnt of users chooses for those after it, for nothing. What a
    histogram has shown in one period it shows without a threshold in those released after it, and it finds more items by means
    over the periods of one run (`History`); Gaussian noise on a public domain is averaged over periods. A period that is charged
    and has no answer, because the run was stopped in between, is left alone: its draw may have been seen.

    Args:
        place: where answers are kept, `PLACE` standing for the period.
        progress: called with the periods that are done, and all.
        unkept: called with an answer that is drawn and cannot be kept; it raises. None writes it to a file of its own.
        announce: called with what will be released and what it adds up to, before anything is read.
    """
    with _standing(question, place) as (todo, before, plans):
        pending, ledger, dataset = [period for period in todo if period.name not in before], plans.ledger, plans.dataset
        answers = dict(before)
        if pending:
            in_all = plans.in_all(pending[0].question, [period.name for period in pending])
            if announce is not None:
                announce(f"to be released, {len(pending):,} of {len(todo):,} periods: {in_all.words}")
            for period in pending:
                period.place.require()
                payer = payer_of(period.question)
                assert payer.session is not None
                payer.session.require(plans.of(period.question).item, pay=payer.pay, key=payer.key)
            with _cut(question, todo) as parts:
                for number, period in enumerate(pending):
                    if progress is not None:
                        progress(len(answers), len(todo))
                    planned = plans.of(period.question)
                    try:
                        # Again: what was learnt since then chose it.
                        InAll.of(ledger, dataset, planned.item, [each.name for each in pending[number:]])
                        answer = run(period.question, keep=period.place.keep, planned=planned, staged=parts[period.name])
                    except acc.AccountingError as error:
                        if number:
                            names = ", ".join(one.name for one in pending[:number])
                            error.add_note(Note(f"released before that, charged and kept: {names}"))
                        raise
                    if period.place.failure is not None:
                        (unkept or _unkept)(period.place, answer)
                    answers[period.name] = answer
                    plans.take(answer)
        states: dict[str, State] = {name: "lost" if answer is None else "recorded" for name, answer in before.items()}
        made = []
        for period in todo:
            assert period.place.output is not None
            state = states.get(period.name, "released")
            made.append(PeriodRelease(period.name, state, period.place.output, answers[period.name]))
        return Series(tuple(made), InAll.of(ledger, dataset))


def dry_every(question: Question, place: AnswerFile) -> DryRun:
    """What `run_every` would charge to each period that is not released yet; see `run.dry_run`."""
    with _standing(question, place, restoring=False) as (todo, before, plans):
        pending = [period for period in todo if period.name not in before]
        if not pending:
            raise InvalidRequest("all periods are charged already: nothing would be")
        for period in pending:
            period.place.require()
        plan = plans.of(pending[0].question)
        left = [plans.in_all(pending[0].question, [period.name for period in pending]).words]
        with _cut(question, todo) as parts:
            for period in pending:
                payer = payer_of(period.question)
                with payer.staged(plan.item, partial(stage, period.question, plan, None, parts[period.name])):
                    left.append(f"{period.name}: {payer.left(plan.mechanisms[0], plan.item.curve, after=True)}")
        return DryRun(plan.item, plan.mechanisms, question.budget, tuple(left))


def _unkept(place: AnswerFile, answer: Answer) -> None:
    assert answer.charge is not None
    raise OutputError(f"{place.failure}; {rescued(as_json(answer), answer.charge.entry)}")


def _cut(question: Question, todo: Sequence[_Period]) -> AbstractContextManager[dict[str, Any]]:
    """The log, read once and cut by time."""
    return split(question.source, question.reading, [(period.name, *period.ends) for period in todo])


def needed(question: Question) -> dict[str, object]:
    """What releases over time need, by the names of options."""
    return {name: getattr(question.spec, name) for name in ("time", "since", "until", "key", "ledger", "dataset")}


@contextmanager
def _standing(
    question: Question, place: AnswerFile, *, restoring: bool = True
) -> Iterator[tuple[list[_Period], dict[str, Answer | None], _Plans]]:
    """The periods, what was released of them before, None for what is lost, and the plans for the others.

    Finding an answer restores its table and its record; without `restoring` nothing is written, and all of them count as lost.
    """
    spec, every = question.spec, question.spec.every
    assert every is not None
    if missing := [f"{name}=" for name, given in needed(question).items() if given is None]:
        raise InvalidRequest(f"every= needs {', '.join(missing)}: which periods there are is public, and each is charged once")
    if spec.engine != "memory":
        raise InvalidRequest(f"every= counts in memory, a period at a time: leave out engine={spec.engine}")
    if spec.periods:
        raise InvalidRequest("period= is named by every=: leave it out")
    output = place.output
    if output is None or PLACE not in output.name or output.suffix.lower() == ".txt":
        raise InvalidRequest(f"every= needs output= like top-{PLACE}.json, .csv or .parquet: a file for each period")
    assert question.reading.window is not None, "there is a column of times"
    named = list(periods(question.reading.window, every, partial=spec.partial_last))
    with opened(spec) as ledger:
        dataset = ledger.dataset(str(spec.dataset))
        if dataset.window != every:
            has = "one budget for all rows" if dataset.window == "whole" else f"a budget for each {dataset.window}"
            raise InvalidRequest(
                f"every={every} charges each {every} to its own budget, and dataset={dataset.name} has {has}: declare one "
                f"with `dpselect ledger init --window {every}`, or add horizon=STATE, one price for all of them"
            )
        todo = []
        for name, start, end in named:
            alone = question.reading.model_copy(update={"since": _written(start), "until": _written(end)})
            asked = spec.model_copy(update={"period": (name,), "key": f"{spec.key}:{name}", "ledger": ledger})
            own = replace(place, output=output.with_name(output.name.replace(PLACE, name)))
            todo.append(_Period(name, (start, end), replace(question, reading=alone, spec=asked), own))
        before: dict[str, Answer | None] = {}
        for period in todo:
            if ledger.find(dataset.name, str(period.question.spec.key)) is not None:
                held = period.place.recorded(period.question.spec, period.question.as_data) if restoring else None
                before[period.name] = None if held is None else restored(held, period.question)
        shown = [answer.shown for answer in before.values() if answer is not None and answer.shown is not None]
        yield todo, before, _Plans(question, ledger, dataset, len(todo) - len(before), shown)


def _written(moment: datetime) -> str:
    """A day where the moment begins one, as all ends of periods do but the last one that is cut short."""
    return f"{moment:%Y-%m-%d}" if moment.time() == time() else moment.replace(tzinfo=None).isoformat()


@final
@dataclass
class _Plans:
    """What answers the periods: asked once for all that know the same of users, with a memory of what was shown.

    Attributes:
        question: of all of them.
        ledger, dataset: what pays.
        releases: how many there may be.
        shown: what was shown so far, in order.
    """

    question: Question
    ledger: acc.Ledger
    dataset: acc.ledger.Dataset
    releases: int
    shown: list[Selection]
    _plans: dict[int | None, Planned] = field(default_factory=dict)
    _memories: dict[dps.Mechanism, tuple[Choice, History | None]] = field(default_factory=dict)

    def of(self, question: Question) -> Planned:
        """Of one period, by what the ledger holds now."""
        session = payer_of(question).session
        assert session is not None
        known = learnt_before(question, session.ledger, session.dataset.name)
        entry = None if known is None else known.entry
        if entry not in self._plans:
            self._plans[entry] = replace(Planned.of(question, session), remember=self._remember)
        return self._plans[entry]

    def in_all(self, question: Question, todo: Sequence[str]) -> InAll:
        """What somebody faces if these periods are charged as well: what will be learnt chooses the prices, which differ little.

        Raises:
            BudgetExceeded: as for `InAll.of`.
        """
        session = payer_of(question).session
        plans = [self.of(question)]
        if plans[0].informed is not None:
            plans.append(Planned.of(replace(question, learn=0.0, learn_again=False), session))
        found = [InAll.of(self.ledger, self.dataset, plan.item, todo) for plan in plans]
        return max(found, key=lambda one: one.epsilon or 0.0)

    def take(self, answer: Answer) -> None:
        """Remember what was shown."""
        self.releases -= 1
        if answer.shown is not None:
            self.shown.append(answer.shown)

    def _remember(self, choice: Choice) -> tuple[Choice, History | None]:
        """The same noise on all items, whose best k are the answer, and what was shown before; None for what neither helps."""
        if choice.mechanism not in self._memories:
            whole = self._on_all_items(choice)
            k, memory = self.question.k, None
            if whole is not None:
                memory = History(whole, k=k, releases=self.releases, shown=self.shown)
            self._memories[choice.mechanism] = (choice if whole is None else replace(choice, mechanism=whole), memory)
        return self._memories[choice.mechanism]

    def _on_all_items(self, choice: Choice) -> SparseHistogram | OneshotTopK | None:
        """The mechanism that shows all items, at no higher price; None where that does not help, or asks for much more noise.

        A bound on the fewest users of an item holds in every period, so that nothing is shown below it because it was shown
        before.
        """
        mechanism, reading, domain = choice.mechanism, self.question.reading, self.question.domain
        if reading.value is not None or reading.group is not None or choice.again is not None:
            return None
        if isinstance(mechanism, SparseHistogram) and mechanism.floor == 0 and mechanism.k is not None:
            return SparseHistogram.model_validate({**settings_of(mechanism), "k": None})
        if not isinstance(mechanism, OneshotTopK) or not domain:
            return None
        price, scale = mechanism.curve, mechanism.scale
        if mechanism.noise != "gaussian" or mechanism.value_scale is not None or not isinstance(price, acc.GaussianDP):
            return None
        settings = {**settings_of(mechanism), "k": len(domain), "values": True}
        while scale <= _MORE_NOISE * mechanism.scale:
            whole = OneshotTopK.model_validate({**settings, "scale": scale})
            assert isinstance(whole.curve, acc.GaussianDP)
            if whole.curve.mu <= price.mu:
                return whole
            scale = max(scale * whole.curve.mu / price.mu, math.nextafter(scale, math.inf))
        return None


# -- all periods at one price ------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, repr=False)
class HorizonAnswer(_OfPeriods):
    """What a horizon has released so far.

    Attributes:
        key: of its charge.
        periods_left: how many can still be closed.
        released: what each closed period has shown.
        left: where the dataset's budget stands, in words.
        names: of the periods; None for their numbers.
        group: what the column of groups is called.
    """

    mechanism: ContinualTopK
    key: str
    periods_left: int
    released: tuple[Period, ...]
    left: str
    names: tuple[str, ...] | None = None
    group: str = "group"

    @classmethod
    def of(
        cls,
        horizon: Horizon,
        released: Sequence[Period] | None = None,
        *,
        names: Sequence[str] | None = None,
        group: str | None = None,
    ) -> HorizonAnswer:
        """What a horizon has released, or some of it."""
        shown = horizon.released() if released is None else released
        about: Any = {"names": None if names is None else tuple(names), "group": group or "group"}
        return cls(horizon.mechanism, horizon.key, horizon.periods_left, tuple(shown), horizon.left, **about)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """See `continual.horizon.records`."""
        return records(self.mechanism, self.released, names=self.names, group=self.group)

    @property
    def values(self) -> tuple[float, ...] | None:
        """Estimates of numbers of users, or scores, of the items."""
        return tuple(row["users"] if "users" in row else row["score"] for row in self.rows)

    def as_data(self) -> dict[str, Any]:
        """All of it as plain data, `rows` among it, with the guarantee for the whole horizon."""
        mechanism, names = self.mechanism, self.names
        stated = promise(mechanism, of_horizon(mechanism))
        return {
            "dpselect": dps.__version__,
            "horizon": {"key": self.key, "periods": mechanism.periods, "periods_left": self.periods_left},
            "count": mechanism.count,
            "window": mechanism.window,
            "guarantee": {**stated.as_data(), "covers": "all periods of the horizon together"},
            "budget": self.left,
            "mechanism": json.loads(mechanism.to_json()),
            "intervals": self._intervals,
            "released": [
                {
                    "period": one.number,
                    "name": None if names is None else names[one.number - 1],
                    "deviation": float(mechanism.deviations[one.number - 1]),
                    "selection": json.loads(one.selection.model_dump_json()),
                }
                for one in self.released
            ],
            "table": self.rows,
        }

    @property
    def _intervals(self) -> dict[str, Any] | None:
        """How the ends in `rows` hold; None where scores count nothing."""
        if self.mechanism.users.unit is None:
            return None
        part = self.mechanism.in_part
        ends = "the low ends are of users, at least so many: " if part else ""
        holds = "each holds with 95 % for the noise, where it was not that item's own noise of the period that chose it"
        return {"confidence": 0.95, "at_least": part, "in_words": f"{ends}{holds}"}

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of `rows`."""
        group = (self.group,) if self.mechanism.grouped else ()
        shown = ("score",) if self._intervals is None else ("users", "low", "high")
        return ("period", *group, "rank", "item", *shown)

    def to_html(self) -> str:
        """A page: for each group its items over time, with their intervals, and the whole table."""
        from dpselect.release.series_page import page  # jinja2, which other answers do without

        told, around = self.as_data(), self._intervals
        drawn = "reaches down to the low end" if self.mechanism.in_part else "is the interval"
        bands = "" if around is None else f"The band {drawn} of each number: {around['in_words']}."
        stated = told["guarantee"]
        facts = [("In words", stated["in_words"]), ("Risk", stated["risk"]["in_words"]), ("Budget", self.left)]
        title = f"The top {self.mechanism.k}" + (f" of each {self.group}" if self.mechanism.grouped else "") + f", {self.key}"
        number = "score" if around is None else "users"
        return page(self.rows, self.columns, title=title, number=number, facts=facts, bands=bands)

    def write(self, path: Path) -> None:
        """To a new private file: a table as .csv or .parquet, a page as .html, else all as JSON."""
        with new_file(path, "--output", mode=PRIVATE) as stream:
            stream.write(self._written(path.suffix.lower()))

    def _written(self, suffix: str) -> bytes:
        written = io.BytesIO()
        if suffix == ".parquet":
            import_module("pyarrow.parquet").write_table(self.to_arrow(), written)
            return written.getvalue()
        if suffix == ".html":
            return self.to_html().encode()
        if suffix != ".csv":
            return as_text(self.as_data()).encode()
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue().encode()


ITEMS_PER_PERIOD = 3
"""Of a user, that count in a period where counts are numbers of users and nobody says how many."""


@final
@dataclass(frozen=True)
class HorizonOfLog:
    """A horizon over the periods of a log that is there already.

    Attributes:
        reading: how the log is read, with the window of all periods.
        settings: fields of the mechanism; its `periods` may be None, for those of the log.
        clip: what a user may contribute, unless `with_counts`.
        unknown: whether items are read off the log.
        with_counts: whether all items of a user weigh the same; `items_per_period` of them, or the reading's bound on items.
        partial_last: whether the last period may end with the window, before its own end.
    """

    reading: Reading
    every: Every
    budget: acc.Budget
    settings: dict[str, Any]
    clip: HorizonClip = field(default_factory=HorizonClip)
    unknown: bool = True
    with_counts: bool = False
    items_per_period: int | None = None
    partial_last: bool = False

    @property
    def named(self) -> list[tuple[str, datetime, datetime]]:
        """The periods of the log, with their ends."""
        assert self.reading.window is not None, "there is a column of times"
        found = list(periods(self.reading.window, self.every, partial=self.partial_last))
        if (many := self.settings["periods"]) is not None and many < len(found):
            raise InvalidRequest(
                f"periods={many} is fewer than the {len(found)} periods from since= to until=: declare at least as many, or none"
            )
        return found

    @property
    def mechanism(self) -> ContinualTopK:
        """What is released at the end of every period, fitted to the budget."""
        stated = {**self.settings, "periods": self.settings["periods"] or len(self.named)}
        stated["grouped"] = self.reading.group is not None
        bound = self.items_per_period
        if self.with_counts and bound is None:
            bound = self.reading.max_items_per_user
        users = counted_users(stated, self.clip, with_counts=self.with_counts, items_per_period=bound)
        return ContinualTopK.fitted(self.budget, unknown=self.unknown, **stated, users=users)

    @contextmanager
    def cut(self, source: Any) -> Iterator[tuple[dict[str, Any], Reading]]:
        """The events of each period, from one pass over the log to its end, and how they are read."""
        reading = self.reading
        if self.with_counts and self.items_per_period is None and reading.max_items_per_user is not None:
            reading = reading.model_copy(update={"max_items_per_user": None})
        reading = of_pairs(reading, grouped=reading.group is not None)
        untimed = {"time": None, "since": None, "until": None, "time_unit": None, "time_zone": "UTC"}
        with split(source, reading, self.named) as parts:
            yield parts, reading.model_copy(update=untimed)

    def close(self, source: Any, opens: Callable[[ContinualTopK], AbstractContextManager[Horizon]]) -> HorizonAnswer:
        """Close all periods, or those that are left.

        Args:
            opens: opens the horizon, once the log is read: what cannot be read costs nothing. One that is finished reads it too,
                and answers for no other log.
        """
        mechanism = self.mechanism
        with self.cut(source) as (parts, reading), opens(mechanism) as horizon:
            names = [name for name, *_ in self.named]
            for number, name in enumerate(names, start=1):
                horizon.close(number, parts[name], reading)
            group = None if reading.group is None else str(reading.group)
            return HorizonAnswer.of(horizon, horizon.released()[: len(names)], names=names, group=group)


def cells_listed(domain: Sequence[Label] | None, groups: Sequence[Label] | None) -> int | None:
    """How many items a public list names, in all listed groups; None without a list."""
    return None if domain is None else len(domain) * (1 if groups is None else len(groups))


def counted_users(settings: dict[str, Any], clip: HorizonClip, *, with_counts: bool, items_per_period: int | None) -> HorizonClip:
    """What a user may contribute: `clip`, or equal weights whose scores count users."""
    if not with_counts:
        if items_per_period is not None:
            raise InvalidRequest("items_per_period= says how many items count with with_counts=: state both, or neither")
        return clip
    if settings["count"] == "running":  # each item of a user counts once: nothing runs out before `cells` of them
        return HorizonClip(exponent=0.0, cells=clip.cells, per_period=items_per_period)
    return HorizonClip.counting(settings["periods"], items_per_period or ITEMS_PER_PERIOD)


def run_horizon(question: Question) -> HorizonAnswer:
    """Release every period from one budget for all of them, and keep what follows from them in the state."""
    horizon, session = _of_log(question), payer_of(question).session
    assert session is not None
    spec = question.spec
    about: Any = {"domain": question.domain, "groups": question.reading.groups, "label": spec.label or "dpselect continual"}
    about |= {"state": str(spec.horizon), "key": str(spec.key)}
    return horizon.close(question.source, lambda mechanism: nullcontext(session.continual(mechanism, **about)))


def dry_horizon(question: Question) -> DryRun:
    """What `run_horizon` would charge; see `run.dry_run`."""
    horizon = _of_log(question)
    return dry_close(horizon.mechanism, horizon.budget, payer_of(question), partial(horizon.cut, question.source))


def dry_close(
    mechanism: ContinualTopK,
    budget: acc.Budget | None,
    payer: Payer,
    cut: Callable[[], AbstractContextManager[object]] = nullcontext,
    *,
    reads: bool = True,
) -> DryRun:
    """What a horizon would charge, or that it is charged already; see `run.dry_run`.

    Args:
        budget: as it was stated, if it was.
        cut: reads the log.
        reads: whether anything is read at all.
    """
    session = payer.session
    assert session is not None
    held, stated = session.ledger.find(session.dataset.name, payer.key), budget or of_horizon(mechanism)

    def read(stack: ExitStack) -> Ready[None]:
        stack.enter_context(cut())
        return Ready(lambda: None)

    if held is None:
        return replace(payer.dry_run(mechanism, (mechanism,), stated, read), reads=reads)
    if acc.Curve.from_json(held.entries[0].curve or "") != mechanism.curve:
        raise acc.ledger.KeyConflict(f"key={payer.key!r} has paid for something else (entry {held.seq}): name another key")
    paid = f"nothing more would be charged, for entry {held.seq} has {held.state} it"
    with cut():
        left = payer.left(mechanism)
    return DryRun(mechanism, (mechanism,), stated, () if left is None else (left,), paid, reads=reads)


def of_horizon(mechanism: ContinualTopK) -> acc.Budget:
    """A budget at whose delta the promise of a horizon is stated: a customary one, with room for failures."""
    return acc.Budget(epsilon=1.0, delta=max(1e-6, mechanism.curve.delta0 * 4 / 3))


def _of_log(question: Question) -> HorizonOfLog:
    """The horizon that is asked for.

    Raises:
        InvalidRequest: what is stated is not for a horizon, or something is missing.
    """
    spec = question.spec
    if missing := [f"{name}=" for name, given in {"every": spec.every, **needed(question)}.items() if given is None]:
        raise InvalidRequest(
            f"horizon= needs {', '.join(missing)}: which periods there are is public, and all are charged in one"
        )
    assert spec.every is not None
    other = {*ReleaseFields.model_fields, "period", "use_everything", "pay_for_what_came_out"} - {"k", "with_counts"}
    if given := spec.given(*other):
        raise InvalidRequest(f"{min(given)}= is not for a horizon, whose mechanism is ContinualTopK: leave it out")
    if spec.engine != "memory":
        raise InvalidRequest("engine= is not for a horizon, which counts in memory: leave it out")
    settings = {
        "k": question.k,
        "candidates": cells_listed(question.domain, question.reading.groups),
        "periods": None,
        "count": spec.count or "period",
        "window": spec.window,
        "relation": spec.relation,
    }
    about: Any = {"unknown": question.domain is None, "with_counts": spec.with_counts, "partial_last": spec.partial_last}
    return HorizonOfLog(question.reading, spec.every, question.budget, settings, **about)
