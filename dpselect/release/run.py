"""`run`: the one path from a question to a private answer. Check, stage, charge, draw, record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, final
from uuid import uuid4

import accounting as acc
import dpselect as dps
from dpselect import events
from dpselect.cells import cell
from dpselect.continual.history import History
from dpselect.errors import InvalidRequest
from dpselect.events import EventCounts, GroupCounts, HeldCounts, HeldScores, ProgressCallback, spark
from dpselect.events.contributions import MOST_EXACT
from dpselect.events.staging import PeriodEvents
from dpselect.mechanisms.base import Mechanism, Pay, Rounds
from dpselect.mechanisms.top_of_groups import REASON
from dpselect.plan.candidates import Choice
from dpselect.plan.counts import without_counts
from dpselect.plan.learn import CLAIM, Informed, Learning, Learnt
from dpselect.release.answer import Answer, AnswerFile, DryRun, PaidCharge, promise, told
from dpselect.release.question import Question, choose, learns_about, request_of, require_delta
from dpselect.scores import Scores, SecondLook
from dpselect.selection import Label, Selection
from dpselect.sensitivity import Norm, Sensitivity
from dpselect.spec import LedgerFields, PayerFields

if TYPE_CHECKING:
    from accounting.ledger.item import Chargeable

# Names of `acc` and `dps` are imported when they are asked for: a release without a ledger does without a database.

T = TypeVar("T")
A = TypeVar("A")
_MANY = 500_000  # pairs of users and items, which take about as long to count as it takes to choose by learnt numbers
Keep = Callable[[A], str | None]
"""Puts an answer where it is not lost, before the ledger is told that it was released. The text that it returns, a hash of what
was kept, is part of the ledger's record. What it raises ends the release."""


# -- the executor: whatever is released ------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Ready(Generic[T]):
    """How a release is drawn, from a log that has been read: after the charge nothing is read but what is staged.

    Attributes:
        draw: called once, after the charge.
        salt: of the bound on contributions.
        scores: what a mechanism draws from, checked already.
        spent: as for `Session.publish`.
    """

    draw: Callable[[], T]
    salt: str | None = None
    scores: Scores | Rounds | None = None
    spent: Callable[[T], acc.Curve] | None = None


@final
@dataclass(frozen=True)
class Payer:
    """Who pays for one release, and under which key.

    Attributes:
        session: None where no ledger is named.
        label: what the ledger writes down of what is charged.
    """

    session: dps.Session | None
    key: str
    label: str = ""
    pay: Pay = "curve"

    @classmethod
    def of(cls, spec: LedgerFields, label: str, *, time_zone: str | None = None, pay: Pay = "curve") -> Self:
        """What a spec says; rows are read by the clock of `time_zone`."""
        session = None
        if spec.ledger is not None and spec.dataset is not None:
            opens: Any = dps.Session.open if isinstance(spec.ledger, str) else dps.Session
            session = opens(spec.ledger, spec.dataset, **_behalf(spec), time_zone=time_zone)
        return cls(session, spec.key or uuid4().hex, spec.label or label, pay)  # whatever interrupts it can name the key

    @property
    def charge(self) -> PaidCharge | None:
        """That which was made; None without a ledger."""
        receipt = None if self.session is None else self.session.ledger.find(self.session.dataset.name, self.key)
        return None if receipt is None else PaidCharge.of(receipt)

    def left(self, mechanism: Mechanism, price: acc.Curve | None = None, *, after: bool = False) -> str | None:
        """The budget, what is spent so far and how many more releases like this one fit: one line, of the fullest account.

        Args:
            price: of the release, where it is not that of the mechanism alone.
            after: as if it had been charged.
        """
        if self.session is None:
            return None
        found, name = self.session.affordable(mechanism, one_by_one=True), self.session.dataset.name
        spent = found.spent.plus(found.budget.price(mechanism.curve if price is None else price)) if after else found.spent
        found = replace(found, curve=found.curve if price is None else price, spent=spent)
        return f"{name}, {found.account}: {found}" if found.account else f"{name}: {found}"

    @contextmanager
    def staged(self, item: Chargeable, stage: Callable[[ExitStack], Ready[T]]) -> Iterator[Ready[T]]:
        """Hold the price against the budget, then read the log. What interrupts the block says whether it was charged.

        Args:
            item: what will be charged.
            stage: reads all that can fail; what it opens goes with the block.
        """
        with self._affordable(item), ExitStack() as stack:
            yield stage(stack)

    @contextmanager
    def _affordable(self, item: Chargeable) -> Iterator[None]:
        """Hold the price against the budget. What interrupts the block says whether it was charged."""
        session = self.session
        with told(session and session.ledger, session and session.dataset.name, self.key):
            if session is not None:
                session.require(item, pay=self.pay, key=self.key)  # before a long read; the charge itself is checked again
            yield

    def dry_run(
        self,
        item: Chargeable,
        mechanisms: tuple[Mechanism, ...],
        budget: acc.Budget,
        look: Callable[[], object] = lambda: None,
        *,
        is_kept: bool = True,
    ) -> DryRun:
        """What `release` would charge. No row is read, and nothing is charged or drawn.

        Args:
            look: checks the header or schema of what would be read.
            is_kept: as for `DryRun`; without a ledger there is no charge that could stay without its answer.
        """
        with self._affordable(item):
            look()
            left = self.left(mechanisms[0], item.curve, after=True)
        return DryRun(item, mechanisms, budget, () if left is None else (left,), is_kept=is_kept or self.session is None)

    def release(
        self,
        item: Chargeable,
        stage: Callable[[ExitStack], Ready[T]],
        answered: Callable[[T, PaidCharge | None], A],
        keep: Keep[A] | None,
    ) -> A:
        """Check the budget, stage, charge, draw, keep, record: in this order.

        Args:
            item, stage: as for `staged`.
            answered: what was drawn, as an answer that is kept.
        """
        made = list[A]()
        with self.staged(item, stage) as staged:

            def kept(drawn: T) -> str | None:
                made.append(answered(drawn, self.charge))
                return None if keep is None else keep(made[0])

            if self.session is None:
                kept(staged.draw())
            else:
                notes: Any = {"key": self.key, "label": self.label, "salt": staged.salt, "scores": staged.scores}
                self.session.publish(item, staged.draw, keep=kept, spent=staged.spent, **notes)
        return made[0]


def _behalf(spec: PayerFields) -> dict[str, Any]:
    """Whose release it is and which rows it reads, as a session takes it."""
    periods = spec.periods if isinstance(spec, LedgerFields) else ()
    return {"actor": spec.actor, "team": spec.team, "purpose": spec.purpose, "period": periods or None}


@contextmanager
def session_of(spec: PayerFields, time_zone: str | None = None) -> Iterator[dps.Session]:
    """The session that pays; a ledger that is named is closed at the end."""
    with spec.opened() as ledger:
        yield dps.Session(ledger, str(spec.dataset), **_behalf(spec), time_zone=time_zone)


def once(
    question: Any, place: AnswerFile, restored: Callable[[str], A], release: Callable[[], A], dry_run: Callable[[], DryRun]
) -> A | DryRun:
    """The answer that is kept under the question's key, before anything is read; or a new one; or what that would cost."""
    spec = question.spec
    before: Any = place.recorded(spec, question.as_data, restored, writing=not spec.dry_run)
    if before is None:
        place.require()
        return dry_run() if spec.dry_run else release()
    if not spec.dry_run:
        return before
    paid = f"nothing more would be charged, for entry {before.charge.entry} has paid for the answer that is in its file"
    return DryRun(before.paid, (before.mechanism,), question.budget, paid=paid)


# -- the top k ---------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Planned:
    """What answers a question: a mechanism, or those of which one is chosen once numbers of users are learnt.

    Attributes:
        choice: None where it is still to be learnt, and then `informed` learns first.
        known: what the ledger holds of users, which chose it for nothing.
        remember: what earlier releases of a series make of a choice.
    """

    choice: Choice | None
    informed: Informed | None = None
    known: Learnt | None = None
    remember: Callable[[Choice], tuple[Choice, History | None]] = lambda choice: (choice, None)

    @classmethod
    def of(cls, question: Question, session: dps.Session | None) -> Self:
        """By what is public; nothing is read.

        Raises:
            InvalidRequest, CalibrationError, DomainMismatch, RelationMismatch: as for `choose`; or the charge would be another
                period's.
        """
        spec, learn, whole, known = question.spec, question.learn, None, None
        if session is not None:
            _require_periods(question, session.dataset.window)
            whole, known = session.dataset.budget, learnt_before(question, session.ledger, session.dataset.name)
        if question.learns and known is None:
            require_delta(question)
            declared: Any = {"users": spec.users, "items_per_user": spec.items_per_user, "groups": question.grouping}
            ways: Any = {"limit": question.reading.max_items_per_user, "order": not spec.as_set}
            asked = request_of(question, whole)
            if (informed := Informed.of(question.budget, asked, share=question.learns, **declared, **ways)) is not None:
                return cls(None, informed)
        choice = choose(question, whole, known)  # which names what the budget does not pay for even so
        stated = isinstance(learn, float | int) and learn > 0
        if stated and known is None and (spec.users is None or spec.items_per_user is None):
            raise InvalidRequest(
                f"learn={learn!r} leaves no two mechanisms to choose from within this budget: state a smaller share, or "
                "learn=0 to learn nothing"
            )
        return cls(choice, known=known)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """That which draws the answer, or all of which it is chosen."""
        assert self.informed is not None or self.choice is not None
        choices = (self.choice,) if self.informed is None else self.informed.candidates.choices
        return tuple(choice.mechanism for choice in choices if choice is not None)

    @property
    def item(self) -> Chargeable:
        """What is charged."""
        if self.choice is None:
            assert self.informed is not None
            return self.informed.item
        choice, memory = self.remember(self.choice)
        return choice.mechanism if memory is None else memory


def run(
    question: Question,
    log: object,
    progress: ProgressCallback | None = None,
    keep: Keep[Answer] | None = None,
    *,
    planned: Planned | None = None,
) -> Answer:
    """Choose by what is public, read the log, charge, draw, record.

    Args:
        log: as for `dpselect.events.read`; or the events within the question's window, if they have been cut out of it.
        keep: called with the answer before the ledger is told that it was released.
        planned: what answers it, if that is known.
    """
    payer = payer_of(question)
    plan = Planned.of(question, payer.session) if planned is None else planned

    def answered(drawn: Answer, charge: PaidCharge | None) -> Answer:
        learnt, known = None if plan.informed is None else plan.informed.item, plan.known
        try:
            left = payer.left(drawn.mechanism, None if learnt is None else learnt.curve)
        except acc.AccountingError:  # it is paid and drawn: kept, though the ledger cannot say now what is left
            left = None
        return replace(drawn, charge=charge, left=left, learnt=learnt, known_from=None if known is None else known.entry)

    def kept(answer: Answer) -> str | None:
        written = None if keep is None else keep(answer)
        return written if answer.learnt is None else " ".join(filter(None, (answer.claim, written)))

    if keep is not None:  # what the answer says of its price is worked out before the charge
        promise(plan.item if plan.choice is None else plan.choice.mechanism, question.budget)
    answer = payer.release(plan.item, partial(stage, question, plan, log, progress), answered, kept)
    return answer if payer.pay == "curve" else replace(answer, left=payer.left(answer.mechanism))


def run_once(question: Question, log: object, place: AnswerFile, progress: ProgressCallback | None = None) -> Answer | DryRun:
    """The answer to a question, as `once` has it. Raises as `run`; a dry run up to the charge."""

    def dry_run() -> DryRun:
        payer = payer_of(question)
        plan = Planned.of(question, payer.session)
        source, reading = _source(question, log)
        look = partial(events.require_columns, source, reading.model_copy(update={"salt": None}))  # of a bound still to come
        return payer.dry_run(plan.item, plan.mechanisms, question.budget, look, is_kept=place.output is not None)

    return once(question, place, partial(Answer.restored, question), lambda: run(question, log, progress, place.keep), dry_run)


def payer_of(question: Question) -> Payer:
    """Who pays for the answer."""
    spec, zone = question.spec, question.reading.time_zone
    label = "dpselect topk" + ("" if zone == "UTC" else f", times without a zone in {zone}")
    return Payer.of(spec, label, time_zone=zone, pay="spent" if spec.pay_for_what_came_out else "curve")


def learnt_before(question: Question, ledger: acc.Ledger, dataset: str) -> Learnt | None:
    """Numbers that the ledger holds of an earlier release of the dataset; None where it holds none that were learnt of the same
    columns, catalogue and relation and about as much time, or where nothing is to be learnt, or all anew.

    They are released, so that to choose by them costs nothing, whatever they say: what is chosen is charged its own price. A
    retry of a key looks at what was there when the key was charged, and asks the same.

    Raises:
        InvalidRequest: what was recorded as learnt cannot be read.
    """
    spec = question.spec
    users, items = spec.users is None, spec.items_per_user is None
    if not question.learns or question.learn == "again" or not (users or items):
        return None
    paid = None if spec.key is None else ledger.find(dataset, spec.key)
    for part in [{}] if users == items else [{}, {"users": users, "items": items}]:
        about: Any = {"groups": question.reading.max_groups_per_user, "listed": question.listed_groups, **part}
        start = CLAIM + learns_about(question, Learning(epsilon=1.0, **about))
        entry = ledger.last_claim(dataset, start, before=None if paid is None else paid.seq)
        if entry is not None:
            found = Learnt.in_claim(entry.label or "", entry.seq)
            return replace(found, profile=found.profile.declaring(spec.users, spec.items_per_user))
    return None


def stage(question: Question, plan: Planned, log: object, progress: ProgressCallback | None, stack: ExitStack) -> Ready[Answer]:
    """Read the log: its pairs where something is to be learnt of users first, else the scores that are drawn from."""
    if plan.choice is not None:
        choice, memory = plan.remember(plan.choice)
        read = _read(question, choice, stack, log, progress=progress)
        (choice.mechanism if memory is None else memory).check(read.scores)  # type: ignore[arg-type]
        used = (lambda drawn: choice.mechanism.spent(drawn.selection)) if question.spec.pay_for_what_came_out else None
        return Ready(lambda: _drawn(question, choice, memory, read), read.salt, read.scores, used)
    assert plan.informed is not None
    informed, learning, groups, ahead = plan.informed, plan.informed.item.learning, None, None
    pairs = stack.enter_context(events.pairs(*_source(question, log), progress=progress))
    if question.reading.group is None:
        items = pairs.items_per_user(question.domain)
    else:
        groups, items = pairs.items_per_group(question.domain)
    if items.sum() >= _MANY:  # most of the work is done before the charge: what interrupts it then costs nothing
        likely = informed.chosen(learning.likely(items, informed.declared, groups=groups))
        ahead = _read(question, likely, stack, pairs)

    def draw() -> Answer:
        found = informed.chosen(learning.learn(items, informed.declared, groups=groups))
        choice, memory = plan.remember(found)
        return _drawn(question, choice, memory, _read(question, choice, stack, pairs, ahead=ahead))

    return Ready(draw)


def _drawn(question: Question, choice: Choice, memory: History | None, read: _Read) -> Answer:
    if memory is None:
        found = choice.mechanism.select(read.scores)
        return Answer(question, _named(question, read.integers, found) if choice.cells else found, choice, read.salt)
    assert isinstance(read.scores, Scores)
    shown = memory.select(read.scores)
    return Answer(question, memory.best(shown), choice, read.salt, shown=shown)


def _named(question: Question, integers: frozenset[str], selection: Selection) -> Selection:
    """Groups and items of cells, which are text, as their lists write them, or as integers where the columns hold these."""

    def written(labels: Sequence[Label] | None, listed: Sequence[Label] | None, role: str) -> tuple[Label, ...] | None:
        known: dict[str, Label] = {str(label): label for label in listed or ()}
        named = (known.get(str(label), int(label) if role in integers else label) for label in labels or ())
        return None if labels is None else tuple(named)

    groups = written(selection.groups, question.reading.groups, "group")
    found: dict[str, Any] = {"labels": written(selection.labels, question.domain, "item"), "groups": groups}
    if not set(question.reading.groups or ()) <= set(groups or ()):  # a listed group of which nothing was shown
        found |= {"complete": False, "reason": REASON}
    return selection.model_copy(update=found)


# -- read -------------------------------------------------------------------------------------------------------------


def _source(question: Question, log: object) -> tuple[Any, events.Reading]:
    """The log, and how it is read there."""
    reading = question.reading
    if isinstance(log, PeriodEvents):  # the part of a log that was cut out by time, as Parquet
        whole = {"time": None, "since": None, "until": None, "time_unit": None, "table": None, "query": None}
        return log, reading.model_copy(update={**whole, "format": "auto", "header": None})
    if question.spec.engine == "spark":
        return spark.found(str(log), reading)
    return log, reading


@final
@dataclass(frozen=True)
class _Read:
    """Scores as they were read under a look at the log, which names the bounds on users; the counts that they are of; and the
    roles whose labels are integers, which cells do not tell."""

    look: dict[str, Any]
    scores: Scores | Rounds
    counts: EventCounts | GroupCounts | HeldCounts
    integers: frozenset[str] = frozenset()

    @property
    def salt(self) -> str | None:
        """Of the bounds on users."""
        return self.counts.salt


def _read(
    question: Question,
    choice: Choice,
    stack: ExitStack,
    log: object,
    *,
    progress: ProgressCallback | None = None,
    ahead: _Read | None = None,
) -> _Read:
    """The scores that the mechanism draws from; what an engine keeps goes with the stack.

    The log is read once: it may be the pairs that were made of it already, and `ahead` is what was counted of these; otherwise
    it is kept here for a second look.
    """
    pairs = log if isinstance(log, events.Pairs) else None
    domain: Sequence[Label] | None = question.domain
    if domain is not None and choice.cells:
        domain = [cell(group, item) for group in question.reading.groups or () for item in domain]
    within = None if choice.clip is None else domain  # users are clipped within the catalogue
    look: Any = {"max_items_per_user": choice.max_items_per_user, "clip": choice.clip, "clip_norm": choice.norm}
    look |= {"within": within, "cells": choice.cells}
    if choice.cells:
        look["max_groups_per_user"] = None  # one norm holds over all groups
    if choice.max_items_per_user is not None and question.spec.salt is not None:
        look["salt"] = question.spec.salt  # of a bound that the default brings, too
    clip = question.reading.value_clip
    signed = isinstance(clip, tuple) and clip[0] < 0  # sums that may be negative, and groups, come to this process
    in_memory = question.spec.engine == "memory" or (
        question.spec.engine == "spark" and (signed or question.reading.group is not None)
    )
    if pairs is None:
        source, reading = _source(question, log)
        twice = choice.again is not None or _counted_again(choice) is not None or _weighed_again(question, choice)
        if choice.cells or (twice and reading.group is None):
            pairs = stack.enter_context(events.pairs(source, reading, progress=progress))
        else:
            reading = reading.model_copy(update=look)
    if ahead is None or ahead.look != look:
        counts: EventCounts | GroupCounts | HeldCounts
        if pairs is not None:
            counts = pairs.read(**look) if in_memory else stack.enter_context(pairs.hold(**look))
        elif in_memory:
            counts = events.read(source, reading, progress=progress)
        else:
            counts = stack.enter_context(events.hold(source, reading, progress=progress))
        scores: Scores | Rounds = counts.scores(None if within else domain, relation=question.relation, clip=choice.clip)
        ahead = _Read(look, scores, counts, frozenset() if pairs is None else pairs.integers)
    second = None if pairs is None else _second_look(question, choice, pairs, ahead.counts)
    if second is None or not isinstance(ahead.scores, Scores | HeldScores):
        return ahead
    return replace(ahead, scores=ahead.scores.with_second(second))


def _counted_again(choice: Choice) -> dps.WithValues | None:
    """The mechanism, if it takes values from a second look."""
    return choice.mechanism if isinstance(choice.mechanism, dps.WithValues) and choice.mechanism.clip is not None else None


def _weighed_again(question: Question, choice: Choice) -> bool:
    """Whether the mechanism weighs users' items in a second round. Sums of a column have none: their scores are used again."""
    mechanism = without_counts(choice.mechanism)
    whole = mechanism.mechanism if isinstance(mechanism, dps.mechanisms.TopOfGroups) else mechanism
    return isinstance(whole, dps.TwoRoundHistogram) and question.reading.value is None


def _second_look(
    question: Question, choice: Choice, log: events.Pairs, first: EventCounts | GroupCounts | HeldCounts
) -> SecondLook | None:
    """How users are clipped anew within released items, to select or to count, and how their items are weighed in a second round;
    None where that is not wanted. `first` is what the scores are of.
    """
    relation, valued = question.relation, _counted_again(choice)
    weigh = log.second_round(first) if _weighed_again(question, choice) else None
    if choice.again is None and valued is None and weigh is None:
        return None

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
        return SecondLook(select, Sensitivity.of_counts(relation), again, weigh)
    return SecondLook(select, Sensitivity.of_clipped(choice.again, choice.norm, relation), again)


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
