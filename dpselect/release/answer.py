"""`answer`: the one path from a question to a private answer. Plan, read, release, deliver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Self, final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

import accounting as acc
import dpselect as dps
from dpselect import events
from dpselect.continual.history import History
from dpselect.errors import InvalidRequest, Note, printable
from dpselect.events import EventCounts, GroupCounts, HeldCounts, HeldScores, ProgressCallback, spark
from dpselect.events.contributions import MOST_EXACT
from dpselect.mechanisms.base import Mechanism, Rounds
from dpselect.plan.candidates import Choice
from dpselect.plan.counts import interval, without_counts
from dpselect.plan.learn import CLAIM, Informed, Learning, Learnt, LearnThenSelect
from dpselect.release.promise import Promise, promise, promise_in_words, risk_in_words
from dpselect.release.question import Question, choose, choose_later, learns_about, listed_groups
from dpselect.scores import Scores, SecondLook
from dpselect.selection import Label, Selection
from dpselect.sensitivity import Norm, Sensitivity
from dpselect.spec import LedgerFields

# Names of `acc` and `dps` are imported when they are asked for: a release without a ledger does without a database.


_LARGE_EPSILON, _LARGE_DELTA = 10.0, 1e-4  # beyond which an answer says so


@final
@dataclass(frozen=True)
class PaidCharge:
    """What paid for an answer: an entry of a dataset of the ledger, and its key."""

    dataset: str
    period: list[str]
    key: str
    entry: int

    @classmethod
    def of(cls, receipt: acc.ledger.Receipt) -> Self:
        """What an answer says about its charge."""
        periods = [entry.period for entry in receipt.entries if entry.period]
        return cls(receipt.dataset, periods, receipt.key, receipt.seq)

    @classmethod
    def under(cls, session: dps.Session | None, key: str) -> Self | None:
        """The charge that was made under a key; None without a ledger or such a charge."""
        receipt = None if session is None else session.ledger.find(session.dataset.name, key)
        return None if receipt is None else cls.of(receipt)


@final
@dataclass(frozen=True, repr=False, eq=False)
class Answer:
    """A release with everything that is public about it.

    Attributes:
        question: what was asked.
        selection: what was released.
        choice: the mechanism that drew it, and how users' contributions were bounded for it.
        salt: what chose the items kept under the bound on contributions; None without a bound.
        charge: what paid for it; None without a ledger.
        learnt: what was paid for, where numbers of users were learnt first (`choice.profile`) and chose the mechanism; else None.
        known_from: the ledger's entry that held such numbers of an earlier release (`choice.profile`), for nothing; else None.
        left: what the charge used, what is left of the budget and how many more releases like it fit, in words.
        shown: all that was released, of which `selection` is the best part; None without a history of earlier releases.
    """

    question: Question
    selection: Selection
    choice: Choice
    salt: str | None
    charge: PaidCharge | None = None
    left: str | None = None
    learnt: LearnThenSelect | None = None
    shown: Selection | None = None
    known_from: int | None = None

    @property
    def paid(self) -> Mechanism | LearnThenSelect:
        """What has the price of the answer: its mechanism, or learning and all that it might have chosen."""
        return self.choice.mechanism if self.learnt is None else self.learnt

    @property
    def mechanism(self) -> Mechanism:
        """What drew the answer."""
        return self.choice.mechanism

    @property
    def items(self) -> tuple[Label, ...]:
        """What was released, the best first where `selection.ordered`; of many groups those of each after the other."""
        return self.selection.labels or ()

    @property
    def values(self) -> tuple[float, ...] | None:
        """The noisy scores of the items, score units; None where none is released. They need not fall with the rank."""
        return self.selection.values

    @property
    def unit(self) -> str | None:
        """What the values are in, users or the column that was summed up; None where they are shares of users, cut by a clip."""
        if self.question.reading.value is not None:
            return str(self.question.reading.value)
        return "users" if self.choice.clip is None or self._recounted else None

    @property
    def _recounted(self) -> bool:
        """Whether values are counts of a second look."""
        return isinstance(self.mechanism, dps.WithValues) and self.mechanism.clip is not None

    @property
    def lost(self) -> str | None:
        """What the clip on users' counts took away from all of them together, in words; None where that is not released."""
        if self.selection.lost is None or not isinstance(self.mechanism, dps.WithValues):
            return None
        around, told = self.mechanism.lost_margin(), max(0.0, self.selection.lost)
        return (
            f"each user counts for at most a norm of {self.mechanism.clip:g} among these items; that takes about {told:,.0f} "
            f"(+- {around:,.0f}) from all {len(self.selection)} counts together"
        )

    @property
    def guarantee(self) -> Promise:
        """What the release promises, at the deltas that its budget gives reason to look at."""
        return promise(self.paid, self.question.budget)

    @property
    def claim(self) -> str:
        """What the ledger records of the numbers that were learnt."""
        assert self.learnt is not None
        assert self.choice.profile is not None, "it was chosen by them"
        return Learnt(self.choice.profile, self.learnt.learning).claim(learns_about(self.question, self.learnt.learning))

    def to_arrow(self) -> Any:
        """A pyarrow Table of one row per item: see `Selection.to_arrow`, with intervals around noisy values."""
        return self.selection.to_arrow(self._margin())

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame."""
        return self.selection.to_pandas(self._margin())

    def lines(self) -> list[str]:
        """What is promised and what it cost, in words, and what to beware of."""
        told = [line for line in (self.lost, self.left) if line is not None]
        stated = self.guarantee
        return [promise_in_words(stated), f"Risk: {risk_in_words(stated)}.", *cautions(self.question), *told]

    def __repr__(self) -> str:
        held = self.selection.columns()
        columns = [held["rank"]] * self.selection.ordered + [held[name] for name in ("group", "item") if name in held]
        columns += [tuple(f"{value:,.6g} {self.unit}" for value in self.values)] if self.unit and self.values else []
        shown = ["  " + "  ".join(map(str, row)) for row in zip(*columns, strict=True)]
        missing = "" if self.selection.complete else f" ({self.selection.reason})"
        asked = "" if self.question.spec.k == "all" else f" of the top {self.question.k}"
        start = f"Answer: {len(shown)}{asked or ' items'}, by {type(self.mechanism).__name__}{missing}"
        return "\n".join(map(printable, [start, *shown, *self.lines()]))

    def _repr_html_(self) -> str:
        held = self.selection.columns(self._margin())
        hidden = () if self.unit else ("value", "low", "high")
        columns = {name: cells for name, cells in held.items() if name not in hidden and any(cell is not None for cell in cells)}
        head = "".join(f"<th>{escape(f'{name} ({self.unit})' if name == 'value' else name)}</th>" for name in columns)
        cells = ("".join(f"<td>{escape(printable(cell))}</td>" for cell in row) for row in zip(*columns.values(), strict=True))
        rows = "".join(f"<tr>{row}</tr>" for row in cells)
        below = "".join(f"<p>{escape(line)}</p>" for line in self.lines())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{below}"

    def _margin(self) -> float | None:
        around = interval(self.mechanism)
        return None if around is None or self.values is None else around.half_width


def cautions(question: Question) -> list[str]:
    """What to beware of in a question: by public numbers alone, whatever was read."""
    budget, said = question.budget, list[str]()
    if budget.epsilon is not None and budget.epsilon > _LARGE_EPSILON:
        said.append(f"epsilon {budget.epsilon:g} protects hardly anybody: 1 is a common choice, above {_LARGE_EPSILON:g} is not")
    if budget.delta > _LARGE_DELTA:
        said.append(
            f"delta {budget.delta:g} lets one user in {1 / budget.delta:,.0f} be shown whole: choose far less than 1 / users, "
            "for example 1e-6"
        )
    if question.assumes is not None:
        said.append(question.assumes)
    return said


def answer(
    question: Question,
    progress: ProgressCallback | None = None,
    keep: Callable[[Answer], str | None] | None = None,
    *,
    choice: Choice | None = None,
    staged: object = None,
    memory: History | None = None,
) -> Answer:
    """Choose by what is public, charge, read the log, draw.

    Args:
        keep: called with the answer before the ledger is told that it was released: to put it where it is not lost. The text that
            it returns, a hash of what was kept, is part of the ledger's record. What it raises ends the release.
        choice: what `choose` says, if it is known: of many questions that differ in their period alone it is asked once.
        staged: the events of the source within the question's window, if they have been cut out of it.
        memory: of earlier releases of the same mechanism, which draws this one; `question.k` of what it shows are the
            answer.

    Whatever interrupts it says whether it was charged, under which entry and key.
    """
    session = session_of(question.spec, question.reading.time_zone)
    if session is not None:
        _require_periods(question, session.dataset.window)
    whole = None if session is None else session.dataset.budget
    known = None if choice is not None or session is None else _learnt_before(question, session.ledger, session.dataset.name)
    informed = None if choice is not None or known is not None else choose_later(question, whole)
    if informed is not None:
        return _after_learning(question, informed, session, progress, keep)
    if choice is None:
        choice = choose(question, whole, known)  # which names what the budget does not pay for even so
        if known is None:
            _require_learnt(question)
    key = question.spec.key or uuid4().hex  # whatever interrupts it can name it
    with told(None if session is None else session.ledger, None if session is None else session.dataset.name, key):
        if session is not None:
            # Before a long read; the charge itself is checked again.
            session.require(choice.mechanism, pay=question.pay, key=key)
        with ExitStack() as stack:
            scores, salt = _read(question, choice, progress, staged, stack)
            return _released(question, choice, scores, salt, session, key, keep, memory, known)


def _require_learnt(question: Question) -> None:
    """InvalidRequest where a stated share for learning was left out: what is asked for is done or refused."""
    spec = question.spec
    if question.learn and question.learnt is None and (spec.users is None or spec.items_per_user is None):
        raise InvalidRequest(
            f"learn={question.learn!r} leaves no two mechanisms to choose from within this budget: state a smaller share, or "
            "learn=0 to learn nothing"
        )


def _learnt_before(question: Question, ledger: acc.Ledger, dataset: str) -> Learnt | None:
    """Numbers that the ledger holds of an earlier release of the dataset; None where it holds none that were learnt of the same
    columns, catalogue and relation and about as much time, or where nothing is to be learnt, or all anew.

    They are released, so that to choose by them costs nothing, whatever they say: what is chosen is charged its own price. A
    retry of a key looks at what was there when the key was charged, and asks the same.

    Raises:
        InvalidRequest: what was recorded as learnt cannot be read.
    """
    spec = question.spec
    if not question.learns or question.learn_again:
        return None
    paid = None if spec.key is None else ledger.find(dataset, spec.key)
    users, items = spec.users is None, spec.items_per_user is None
    about: Any = {"groups": question.reading.max_groups_per_user, "listed": listed_groups(question.reading)}
    every, some = Learning(epsilon=1.0, **about), Learning(epsilon=1.0, users=users, items=items, **about)
    for drawn in (every, *([some] if users != items else [])):
        start = CLAIM + learns_about(question, drawn)
        entry = ledger.last_claim(dataset, start, before=None if paid is None else paid.seq)
        if entry is not None and (users or items):
            found = Learnt.in_claim(entry.label or "", entry.seq)
            return replace(found, profile=found.profile.declaring(spec.users, spec.items_per_user))
    return None


def _after_learning(
    question: Question,
    informed: Informed,
    session: dps.Session | None,
    progress: ProgressCallback | None,
    keep: Callable[[Answer], str | None] | None,
) -> Answer:
    """Charge for numbers of users and for all that they may choose, draw them, choose, read, draw."""
    made = list[Answer]()
    key = question.spec.key or uuid4().hex
    ledger, dataset = (None, None) if session is None else (session.ledger, session.dataset.name)
    with told(ledger, dataset, key), ExitStack() as stack:
        source, reading = _source(question, None)
        # Read before the charge: a log that cannot be read costs nothing.
        log = stack.enter_context(events.pairs(source, reading, progress=progress))
        groups, items = None, np.empty(0)
        if question.reading.group is None:
            items = log.items_per_user(question.domain)
        else:
            groups, items = log.items_per_group(question.domain)

        def draw() -> Answer:
            choice = informed.chosen(informed.item.learning.learn(items, informed.declared, groups=groups))
            scores, salt = _read(question, choice, None, None, stack, log)
            selection = choice.mechanism.select(scores)
            charge = PaidCharge.under(session, key)
            left = None if session is None else standing(session, choice.mechanism, informed.item.curve)
            made.append(Answer(question, selection, choice, salt, charge, left, informed.item))
            return made[0]

        def kept(answer: Answer) -> str:
            claim, written = answer.claim, None if keep is None else keep(answer)
            return claim if written is None else f"{claim} {written}"

        if session is not None:
            return session.publish(informed.item, draw, keep=kept, key=key, label=_label(question))
        if keep is not None:
            keep(draw())
        return made[0] if made else draw()


# -- read -------------------------------------------------------------------------------------------------------------


def _source(question: Question, staged: object) -> tuple[Any, events.Reading]:
    """The log, and how it is read there."""
    source, reading = question.source, question.reading
    if staged is not None:
        return staged, _of_parquet(reading)
    if question.spec.engine == "spark":
        source = spark.found(str(source), reading.format, header=reading.header)
        reading = reading.model_copy(update={"format": "auto", "header": None})
    return source, reading


def _read(
    question: Question,
    choice: Choice,
    progress: ProgressCallback | None,
    staged: object,
    stack: ExitStack,
    log: events.Pairs | None = None,
) -> tuple[Scores | Rounds, str | None]:
    """The scores that the mechanism draws from, and the salt of the bound; what an engine keeps goes with the stack.

    The log is read once: `log` is what was made of it, if something was; otherwise it is kept here for a second look.
    """
    domain, relation = question.domain, question.relation
    within = None if choice.clip is None else domain  # users are clipped within the catalogue
    look: Any = {
        "max_items_per_user": choice.max_items_per_user,
        "clip": choice.clip,
        "clip_norm": choice.norm,
        "within": within,
    }
    if log is None:
        source, reading = _source(question, staged)
        twice = choice.again is not None or _counted_again(choice) is not None or _weighed_again(choice)
        if twice and reading.group is None:
            log = stack.enter_context(events.pairs(source, reading, progress=progress))
        else:
            reading = reading.model_copy(update=look)
    if log is not None:
        counts: EventCounts | GroupCounts | HeldCounts = (
            log.read(**look) if _in_memory(question) else stack.enter_context(log.hold(**look))
        )
    elif _in_memory(question):
        counts = events.read(source, reading, progress=progress)
    else:
        counts = stack.enter_context(events.hold(source, reading, progress=progress))
    scores: Scores | Rounds = counts.scores(None if within else domain, relation=relation, clip=choice.clip)
    second = None if log is None else _second_look(question, choice, log, {**look, "salt": counts.salt})
    if second is None or not isinstance(scores, Scores | HeldScores):
        return scores, counts.salt
    if isinstance(scores, HeldScores):
        return scores.with_second(second), counts.salt
    whole: Any = {"sensitivity": scores.sensitivity, "labels": scores.labels, "domain": scores.domain, "sums": scores.sums}
    return Scores(scores.values, **whole, kind=scores.kind, second=second), counts.salt


def _counted_again(choice: Choice) -> dps.WithValues | None:
    """The mechanism, if it takes values from a second look."""
    return choice.mechanism if isinstance(choice.mechanism, dps.WithValues) and choice.mechanism.clip is not None else None


def _weighed_again(choice: Choice) -> bool:
    """Whether the mechanism weighs users' items in a second round."""
    return isinstance(without_counts(choice.mechanism), dps.TwoRoundHistogram)


def _second_look(question: Question, choice: Choice, log: events.Pairs, first: dict[str, Any]) -> SecondLook | None:
    """How users are clipped anew within released items, to select or to count, and how their items are weighed in a second round;
    None where that is not wanted. `first` is how the scores were read.
    """
    relation, valued = question.relation, _counted_again(choice)
    if choice.again is None and valued is None and not _weighed_again(choice):
        return None

    def weigh(labels: Sequence[Label], numbers: NDArray[np.int64], norm: float) -> NDArray[np.int64]:
        # Of the items that the scores count, or what a user weighs would depend on which items occur (Theorem H11).
        return log.weighed(labels, numbers, norm, **first)

    def read(labels: Sequence[Label], clip: float | None, norm: Norm) -> EventCounts:
        found = log.read(max_items_per_user=None, salt=None, clip=clip, clip_norm=norm, within=labels)
        assert isinstance(found, EventCounts), "groups are looked at once"
        return found

    def select(labels: Sequence[Label]) -> Scores:
        return read(labels, choice.again, choice.norm).scores(relation=relation, clip=choice.again)

    def count(labels: Sequence[Label]) -> tuple[Scores, float]:
        assert valued is not None
        found = read(labels, valued.clip, valued.norm)
        clipped = found.scores(relation=relation, clip=valued.clip)
        # Whole multiples of the clip's unit below 2^53 of them: a rounded sum would move by more than is paid for.
        lost = int(found.counts.sum()) - int(found.clipped[0].sum()) * found.clips[0].unit
        return clipped, float(min(lost, MOST_EXACT * found.clips[0].unit))

    again = None if valued is None else count
    if choice.again is None:
        return SecondLook(select, Sensitivity.of_counts(relation), again, weigh if _weighed_again(choice) else None)
    return SecondLook(select, Sensitivity.of_clipped(choice.again, choice.norm, relation), again)


def _of_parquet(reading: events.Reading) -> events.Reading:
    """How the part of a log that was cut out by time is read."""
    whole = {"time": None, "since": None, "until": None, "time_unit": None, "table": None, "query": None}
    return reading.model_copy(update={**whole, "format": "auto", "header": None})


def _in_memory(question: Question) -> bool:
    """Whether counts come to this process: those of groups and sums that may be negative do, whatever engine is asked for."""
    clip = question.reading.value_clip
    low = clip[0] if isinstance(clip, tuple) else 0.0
    engine = question.spec.engine
    return engine == "memory" or (engine == "spark" and (low < 0 or question.reading.group is not None))


# -- release ----------------------------------------------------------------------------------------------------------


def _released(
    question: Question,
    choice: Choice,
    scores: Scores | Rounds,
    salt: str | None,
    session: dps.Session | None,
    key: str,
    keep: Callable[[Answer], str | None] | None,
    memory: History | None,
    known: Learnt | None,
) -> Answer:
    made: list[Answer] = []
    mechanism = choice.mechanism

    def kept(selection: Selection) -> str | None:
        charge = PaidCharge.under(session, key)
        left = None if session is None else standing(session, choice.mechanism)
        shown = None
        if memory is not None:
            shown, selection = selection, memory.best(selection)
        entry = None if known is None else known.entry
        made.append(Answer(question, selection, choice, salt, charge, left, shown=shown, known_from=entry))
        return None if keep is None else keep(made[0])

    if session is None:
        kept(mechanism.select(scores))
        return made[0]
    label, pay = _label(question), question.pay
    if memory is not None:
        assert isinstance(scores, Scores)
        memory.release(session, scores, keep=kept, key=key, label=label, salt=salt)
    else:
        session.select(mechanism, scores, keep=kept, pay=pay, key=key, label=label, salt=salt)
    return made[0] if pay == "curve" else replace(made[0], left=standing(session, choice.mechanism))


def _label(question: Question) -> str:
    """What the ledger writes down of what is charged."""
    zone = question.reading.time_zone
    usual = "dpselect topk" + ("" if zone == "UTC" else f", times without a zone in {zone}")
    return question.spec.label or usual


def session_of(payment: LedgerFields, time_zone: str | None = None) -> dps.Session | None:
    """What pays for rows that are read by the clock of `time_zone`; None where no ledger is named."""
    if payment.ledger is None or payment.dataset is None:
        return None
    terms: Any = {"period": payment.periods or None, **{name: getattr(payment, name) for name in ("actor", "team", "purpose")}}
    terms["time_zone"] = time_zone
    if isinstance(payment.ledger, str):
        return dps.Session.open(payment.ledger, payment.dataset, **terms)
    return dps.Session(payment.ledger, payment.dataset, **terms)


def _require_periods(question: Question, of: str) -> None:
    """Refuse to charge the events of some days to the budget of others."""
    read = question.reading.window
    if read is None or of == "whole":
        return
    if read.since is None or read.until is None:
        raise InvalidRequest(f"the dataset has a budget for each {of}: give since= and until=, to say which are read")
    from accounting.ledger.stored_text import period_of

    touched = {period_of(of, day) for day in read.days()}  # type: ignore[arg-type]
    if set(question.spec.periods) != touched:
        names = f"{min(touched)} to {max(touched)}" if len(touched) > 3 else ", ".join(sorted(touched))
        raise InvalidRequest(f"since= and until= read {names}, and period= says otherwise: charge what is read, all of it")


def standing(session: dps.Session, mechanism: Mechanism, price: acc.Curve | None = None) -> str:
    """The budget, what is spent so far and how many more releases like this one fit: one line, of the fullest account.

    `price`: of the release, where it is not that of the mechanism alone.
    """
    left, name = session.affordable(mechanism, one_by_one=True), session.dataset.name
    left = left if price is None else replace(left, curve=price)
    return f"{name}, {left.account}: {left}" if left.account else f"{name}: {left}"


@contextmanager
def told(ledger: acc.Ledger | None, dataset: str | None, key: str) -> Iterator[None]:
    """Add to whatever interrupts the block whether the charge with this key was made; to an ordinary error only if it was."""
    try:
        yield
    except BaseException as error:
        words, charged = _whether(ledger, dataset, key)
        if isinstance(error, acc.ledger.AlreadyCharged):
            error.add_note(Note("no answer of it is stored in a file that --output FILE.json names"))
        named = isinstance(error, acc.ledger.AlreadyCharged | acc.ledger.KeyConflict)
        if (charged and not named) or not isinstance(error, acc.AccountingError):
            error.add_note(Note(words))
        raise


def _whether(ledger: acc.Ledger | None, dataset: str | None, key: str) -> tuple[str, bool]:
    """Whether a charge was made, in words, as the ledger has it now; True unless it certainly was not."""
    if ledger is None or dataset is None:
        return "nothing was charged: no ledger is named", False
    try:
        receipt = ledger.find(dataset, key)
    except acc.AccountingError:
        return f"whether it was charged cannot be told now: look for key {key!r} with 'dpselect ledger show'", True
    if receipt is None:
        return "nothing was charged", False
    return f"entry {receipt.seq} of dataset {dataset!r}, key {key!r}, is charged and stays charged ({receipt.state})", True
