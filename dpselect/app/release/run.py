"""`run`, the one path from a question to a private answer: check, stage, charge, draw, record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, final
from uuid import uuid4

import accounting as acc
import dpselect as dps
from dpselect.app import events
from dpselect.app.events import (
    EventCounts,
    GroupCounts,
    HeldCounts,
    HeldScores,
    ProgressCallback,
    spark,
)
from dpselect.app.events.contributions import MOST_EXACT
from dpselect.app.events.rows import PeriodEvents
from dpselect.app.events.time_window import Window
from dpselect.app.release.answer import (
    Answer,
    AnswerFile,
    DryRun,
    PaidCharge,
    promise,
    raise_to_0,
    report_charge_on_error,
)
from dpselect.app.release.preview import Preview, forecast_release
from dpselect.app.release.question import Question, choose
from dpselect.app.spec import LedgerFields, PayerFields
from dpselect.cells import cell
from dpselect.errors import EventLogError, InvalidRequest
from dpselect.mechanisms.base import Mechanism, Pay
from dpselect.mechanisms.gate import MechanismInput
from dpselect.mechanisms.top_of_groups import REASON
from dpselect.mechanisms.weighs_again import WeighsAgain
from dpselect.plan.default import Choice
from dpselect.scores import Scores, SecondLook
from dpselect.selection import Label, Selection
from dpselect.sensitivity import Norm, Sensitivity

if TYPE_CHECKING:
    from accounting.ledger.request import Chargeable
    from accounting.ledger.stored_text import Window as BudgetWindow
    from accounting.remaining import Remaining

# Names of `acc` and `dps` are imported when they are asked for: a release without a ledger does
# without a database.

T = TypeVar("T")
A = TypeVar("A")


# -- the executor: whatever is released ------------------------------------------------------------


@final
@dataclass(frozen=True)
class Ready(Generic[T]):
    """A release ready to be drawn, from a log that has been read.

    After the charge nothing is read except staged data.

    Attributes:
        draw: function that is called once, after the charge.
        salt: salt of the contribution bound.
        scores: the mechanism's input, already checked.
        spent: as for `Session.publish`.
    """

    draw: Callable[[], T]
    salt: str | None
    scores: Scores | MechanismInput
    spent: Callable[[T], acc.Curve] | None


@final
@dataclass(frozen=True)
class Charged:
    """A charge with its receipt, so that the ledger is not read between the draw and its record.

    Attributes:
        receipt: receipt of the charge.
        accounts: all charged accounts, with their budgets after it.
    """

    receipt: acc.ledger.Receipt
    accounts: tuple[Remaining, ...]

    @classmethod
    def from_receipt(
        cls, receipt: acc.ledger.Receipt, before: Sequence[Remaining], cost: acc.Curve
    ) -> Self:
        """The charge of a receipt, from the accounts before it.

        If an earlier call made the charge, the accounts already include it.
        """
        if receipt.replayed:
            return cls(receipt, tuple(before))
        return cls(receipt, tuple(account.after(cost) for account in before))

    @property
    def paid(self) -> PaidCharge:
        """The charge as an answer states it."""
        return PaidCharge.from_receipt(self.receipt)

    def remaining(self, curve: acc.Curve) -> str:
        """The line of `ChargeTarget.remaining`, in releases of a curve."""
        return _in_words(
            self.receipt.dataset,
            min(
                (replace(account, curve=curve) for account in self.accounts),
                key=lambda account: account.releases,
            ),
        )


def _in_words(dataset: str, rest: Remaining) -> str:
    return f"{dataset}, {rest.account}: {rest}" if rest.account else f"{dataset}: {rest}"


@final
@dataclass(frozen=True)
class ChargeTarget:
    """The session that a release is charged to, and the idempotency key of the charge.

    Attributes:
        session: the session; None if no ledger is named.
        label: note in the ledger on what is charged.
        describe: function that gives the question as plain data, to which a charge is bound; None
            binds it to nothing.
    """

    session: dps.Session | None
    key: str
    label: str = ""
    pay: Pay = "curve"
    describe: Callable[[], dict[str, Any]] | None = None

    def bind(self, item: Chargeable) -> Chargeable:
        """The item to charge, bound to the question.

        The key then cannot be used to draw for any other question.
        """
        if self.describe is None:
            return item
        from dpselect.session import BoundItem

        return BoundItem(
            item,
            hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()[:32],
        )

    def remaining(
        self, mechanism: Mechanism, cost: acc.Curve | None = None, *, after: bool = False
    ) -> str | None:
        """A line on the fullest account: budget, share used, cost, and number of releases that fit.

        Args:
            cost: cost of a release, if it is not that of the mechanism alone.
            after: True for the account after the charge.
        """
        if self.session is None:
            return None
        rest, name = self.session.affordable(mechanism, one_by_one=True), self.session.dataset.name
        if after:
            rest = rest.after(mechanism.curve if cost is None else cost)
        return _in_words(name, rest if cost is None else replace(rest, curve=cost))

    def require(self, item: Chargeable, *, is_kept: bool) -> None:
        """Raise as a release would, before a long read. The charge itself is checked again.

        Args:
            is_kept: as for `stage_release`.
        """
        if self.session is not None:
            self.session.require(self.bind(item), pay=self.pay, key=self.key, resumes=is_kept)

    @contextmanager
    def stage_release(
        self,
        item: Chargeable,
        stage: Callable[[ExitStack], Ready[T]],
        *,
        is_kept: bool | None = None,
    ) -> Iterator[tuple[Ready[T], list[acc.ledger.Receipt]]]:
        """Check the cost against the budget, then read the log. Errors say if it was charged.

        Args:
            item: the item that will be charged.
            stage: function that reads all data that can fail; its open resources close with the
                block.
            is_kept: True if a file keeps the answer, so that a charge without a release is resumed;
                None for a question that is not released.

        Yields:
            The staged release, and a list that takes the receipt.
        """
        with self._affordable(item, is_kept=is_kept) as receipts, ExitStack() as stack:
            yield stage(stack), receipts

    @contextmanager
    def _affordable(
        self, item: Chargeable, *, is_kept: bool | None = None
    ) -> Iterator[list[acc.ledger.Receipt]]:
        """Check the cost against the budget. Errors in the block say if it was charged.

        Args:
            is_kept: as for `stage_release`.
        """
        session = self.session
        with report_charge_on_error(
            session and session.ledger, session and session.dataset.name, self.key, is_kept=is_kept
        ) as receipts:
            self.require(item, is_kept=bool(is_kept))
            yield receipts

    def dry_run(
        self,
        item: Chargeable,
        mechanism: Mechanism,
        budget: acc.Budget,
        look: Callable[[], object] = lambda: None,
        *,
        is_kept: bool | None = None,
    ) -> DryRun:
        """The charge that `release` would make. No row is read, and nothing is charged or drawn.

        Args:
            look: checks the header or schema of the log.
            is_kept: as for `stage_release`; without a ledger no charge could stay without its
                answer.
        """
        session = self.session
        with self._affordable(item, is_kept=is_kept):
            look()
            is_charged = (
                is_kept
                and session is not None
                and session.ledger.find(session.dataset.name, self.key) is not None
            )
            remaining = self.remaining(mechanism, item.curve, after=not is_charged)
        return DryRun(
            item,
            mechanism,
            budget,
            () if remaining is None else (remaining,),
            is_kept=is_kept is not False or session is None,
        )

    def release(
        self,
        item: Chargeable,
        stage: Callable[[ExitStack], Ready[T]],
        make_answer: Callable[[T, Charged | None], A],
        place: AnswerFile,
    ) -> A:
        """Check the budget, stage, charge, draw, keep a draft, claim and name it, each durably.

        Called again under the key, with a file, it resumes a charge without a release. By then
        `AnswerFile.recorded_answer` has found that there is no answer. If two calls draw at once,
        the ledger accepts one.

        Args:
            item, stage: as for `stage_release`.
            make_answer: function that makes the answer to keep from the draw.
        """
        is_kept = place.output is not None
        with self.stage_release(item, stage, is_kept=is_kept) as (staged, receipts):
            draws, session = list[T](), self.session

            def draw(charged: Charged | None) -> tuple[A, str | None]:
                draws.append(_draw_from(staged))
                answer = make_answer(draws[0], charged)
                return answer, None if session is None and not is_kept else place.draft(answer)

            if session is None:
                answer, _ = draw(None)
            else:
                before = session.ledger.room(session.dataset.name, item, **session.charge_options)

                def start_draw(receipt: acc.ledger.Receipt) -> tuple[A, str | None]:
                    receipts.append(receipt)
                    if not is_kept or receipt.state == "released":
                        session.require_new(receipt)
                    return draw(Charged.from_receipt(receipt, before, item.curve))

                spent = staged.spent
                notes: Any = {
                    "key": self.key,
                    "label": self.label,
                    "salt": staged.salt,
                    "scores": staged.scores,
                }
                notes["spent"] = None if spent is None else lambda _: spent(draws[0])
                try:
                    answer = session.resume(self.bind(item), start_draw, **notes)
                except acc.ledger.ClaimConflict:
                    place.drop()
                    raise
            place.name(answer)
        return answer


def _draw_from(staged: Ready[T]) -> T:
    """Draw from the staged release.

    The log was read by then, so an error of its engine is one of memory, disk or temporary files.
    """
    try:
        return staged.draw()
    except EventLogError as error:
        cause = (
            str(error)
            if "did not fit" in str(error)
            else "the temporary files (TMPDIR) cannot be read, or were removed"
        )
    raise EventLogError(f"the draw failed, after the whole log had been read: {cause}")


def _behalf(spec: PayerFields) -> dict[str, Any]:
    """Arguments of a session for the people and the rows that a release concerns."""
    periods = spec.periods if isinstance(spec, LedgerFields) else ()
    return {
        "actor": spec.actor,
        "team": spec.team,
        "purpose": spec.purpose,
        "period": periods or None,
    }


@contextmanager
def session_of(
    spec: PayerFields, time_zone: str | None = None, time_range: Window | None = None
) -> Iterator[dps.Session]:
    """The session to charge. A ledger that is named is closed at the end.

    If the dataset has a budget for each period, those in the `time_range` are charged.
    """
    with spec.open_ledger() as ledger:
        yield _session(spec, ledger, time_zone, time_range)


def _session(
    spec: PayerFields, ledger: acc.Ledger, time_zone: str | None, time_range: Window | None
) -> dps.Session:
    """The session to charge. Rows are read by the clock of `time_zone`.

    If the dataset has a budget for each period and the spec names no period, the periods that the
    `time_range` lies in are charged.
    """
    about, name = {**_behalf(spec), "time_zone": time_zone}, str(spec.dataset)
    session = dps.Session(ledger, name, **about)
    touched = () if about["period"] else _touched_periods(session.dataset.window, time_range)
    return dps.Session(ledger, name, **{**about, "period": touched}) if touched else session


def once(
    question: Any,
    place: AnswerFile,
    restored: Callable[[str], A],
    release: Callable[[], A],
    dry_run: Callable[[], DryRun],
) -> A | DryRun:
    """The answer kept under the question's key, without reading a log; a new one; or its cost."""
    spec = question.spec
    before: Any = place.recorded_answer(spec, question.as_data, restored, writing=not spec.dry_run)
    if before is None:
        place.require()
        if spec.dry_run:
            return dry_run()
        try:
            return release()
        # another process was first: its answer is the answer
        except (acc.ledger.ClaimConflict, acc.ledger.AlreadyCharged):
            before = place.recorded_answer(spec, question.as_data, restored)
            if before is None:
                raise
    if not spec.dry_run:
        return before
    paid = (
        f"nothing more would be charged, because entry {before.charge.entry} covers the answer"
        " in the file"
    )
    return DryRun(before.mechanism, before.mechanism, question.budget, paid=paid)


# -- the top k -------------------------------------------------------------------------------------


def choose_mechanism(question: Question, session: dps.Session | None) -> Choice:
    """The mechanism of the answer, and how the log is read for it, chosen by public facts.

    Nothing has been read or charged at that time.

    Raises:
        InvalidRequest, CalibrationError, DomainMismatch, RelationMismatch: as for `choose`; or the
            charge would be another period's.
    """
    if session is None:
        return choose(question)
    _require_periods(question, session.dataset.window)
    return choose(question, session.dataset.budget)


def run(
    question: Question,
    log: object,
    progress: ProgressCallback | None = None,
    place: AnswerFile | None = None,
    *,
    choice: Choice | None = None,
    preview: Preview | None = None,
) -> Answer:
    """Choose by public facts, read the log, charge, draw and record.

    Args:
        log: as for `dpselect.events.read`; or the events within the question's time range, if they
            have been cut out of it.
        place: file of the answer; None keeps it nowhere.
        choice: the mechanism and reading, if already known.
        preview: the forecast to keep with the answer, if already known.
    """
    payer = payer_of(question)
    choice = choose_mechanism(question, payer.session) if choice is None else choice
    preview = forecast_release(question, choice) if preview is None else preview

    def complete(result: Answer, charge: Charged | None) -> Answer:
        result = replace(result, preview=preview)
        if charge is None:
            return result
        # Were two draws that came out alike one claim, a refused one would tell that it had come
        # out otherwise.
        about: Any = {"charge": charge.paid, "draw": uuid4().hex}
        # it is paid and drawn, and kept without what cannot be said of the rest
        with suppress(acc.AccountingError):
            about["left"] = charge.remaining(result.mechanism.curve)
        return replace(result, **about)

    place = AnswerFile(None) if place is None else place
    # what the answer says of its cost, before the charge
    if place.output is not None or payer.session is not None:
        promise(choice.mechanism, question.budget)
    answer = payer.release(
        choice.mechanism, partial(stage, question, choice, log, progress), complete, place
    )
    if payer.pay == "curve":
        return answer
    # what was given back is counted where the ledger can be read now
    with suppress(acc.AccountingError):
        return replace(answer, left=payer.remaining(answer.mechanism))
    return answer


def run_once(
    question: Question, log: object, place: AnswerFile, progress: ProgressCallback | None = None
) -> Answer | DryRun:
    """The answer to a question, by `once`. It raises as `run`, and a dry run up to the charge."""

    def dry_run() -> DryRun:
        payer = payer_of(question)
        choice = choose_mechanism(question, payer.session)
        mechanism = choice.mechanism
        source, reading = _source(question, log, unread=True)
        # of a bound still to come
        look = partial(events.require_columns, source, reading.model_copy(update={"salt": None}))
        result = payer.dry_run(
            mechanism, mechanism, question.budget, look, is_kept=place.output is not None
        )
        return replace(result, preview=forecast_release(question, choice, compared=True))

    return once(
        question,
        place,
        partial(Answer.restore, question),
        lambda: run(question, log, progress, place),
        dry_run,
    )


def payer_of(question: Question) -> ChargeTarget:
    """The session and key that the answer is charged to."""
    spec, zone = question.spec, question.reading.time_zone
    label = "dpselect topk" + ("" if zone == "UTC" else f", times without a zone in {zone}")
    pay: Pay = "spent" if spec.pay_for_what_came_out else "curve"
    session = None
    if (location := spec.ledger) is not None and spec.dataset is not None:
        ledger = (
            location
            if isinstance(location, acc.Ledger)
            else acc.Ledger.open(location, create=False)
        )
        session = _session(spec, ledger, zone, question.reading.window)
    # whatever interrupts it can name the key
    key = uuid4().hex if spec.key is None else spec.key
    label = label if spec.label is None else spec.label
    return ChargeTarget(session, key, label, pay, question.as_data)


def stage(
    question: Question,
    choice: Choice,
    log: object,
    progress: ProgressCallback | None,
    stack: ExitStack,
) -> Ready[Answer]:
    """Read the log into the scores of the draw."""
    staged = _read(question, choice, stack, log, progress)
    choice.mechanism.check(staged.scores)
    spent = (
        (lambda drawn: choice.mechanism.cost_of(drawn.selection))
        if question.spec.pay_for_what_came_out
        else None
    )
    return Ready(lambda: _draw(question, choice, staged), staged.salt, staged.scores, spent)


def _draw(question: Question, choice: Choice, read: _Read) -> Answer:
    selection = choice.mechanism.select(read.scores)
    selection = selection if question.signed else raise_to_0(selection)
    return Answer(
        question,
        _restore_labels(question, read.integers, selection) if choice.cells else selection,
        choice,
        read.salt,
    )


def _restore_labels(
    question: Question, integers: frozenset[str], selection: Selection
) -> Selection:
    """A selection whose cells are groups and items as in their lists, or integers as in the log."""

    def restore(
        labels: Sequence[Label] | None, listed: Sequence[Label] | None, role: str
    ) -> tuple[Label, ...] | None:
        by_text: dict[str, Label] = {str(label): label for label in listed or ()}
        restored = (
            by_text.get(str(label), int(label) if role in integers else label)
            for label in labels or ()
        )
        return None if labels is None else tuple(restored)

    groups = restore(selection.groups, question.reading.groups, "group")
    updates: dict[str, Any] = {
        "labels": restore(selection.labels, question.domain, "item"),
        "groups": groups,
    }
    # a listed group of which nothing was shown
    if not set(question.reading.groups or ()) <= set(groups or ()):
        updates |= {"complete": False, "reason": REASON}
    return selection.model_copy(update=updates)


# -- read ------------------------------------------------------------------------------------------


def _source(question: Question, log: object, *, unread: bool = False) -> tuple[Any, events.Reading]:
    """The log, and options for reading it. If it stays `unread`, no row is looked at."""
    reading = question.reading
    if isinstance(log, PeriodEvents):  # the part of a log that was cut out by time, as Parquet
        whole = {
            "time": None,
            "since": None,
            "until": None,
            "time_unit": None,
            "time_format": None,
            "table": None,
            "query": None,
        }
        return log, reading.model_copy(update={**whole, "format": "auto", "header": None})
    if question.spec.engine == "spark":
        columns = reading.role_columns if unread else None
        return spark.open_frame(str(log), reading, unread=columns)
    return log, reading


@final
@dataclass(frozen=True)
class _Read:
    """Scores, the salt of the contribution bounds, and the roles whose labels are integers."""

    scores: Scores | MechanismInput
    salt: str | None
    integers: frozenset[str]


def _read(
    question: Question,
    choice: Choice,
    stack: ExitStack,
    log: object,
    progress: ProgressCallback | None,
) -> _Read:
    """The scores that the mechanism draws from. The engine's resources close with the stack.

    The log is read once. For a second pass its pairs are kept.
    """
    pairs = None
    domain: Sequence[Label] | None = question.domain
    if domain is not None and choice.cells:
        domain = [cell(group, item) for group in question.reading.groups or () for item in domain]
    within = None if choice.clip is None else domain  # users are clipped within the catalog
    look: Any = {
        "max_items_per_user": choice.max_items_per_user,
        "clip": choice.clip,
        "clip_norm": choice.norm,
    }
    look |= {"within": within, "cells": choice.cells}
    if choice.cells:
        look["max_groups_per_user"] = None  # one norm holds over all groups
    if choice.max_items_per_user is not None and question.spec.salt is not None:
        look["salt"] = question.spec.salt  # of a bound that the default brings, too
    source, reading = _source(question, log)
    twice = (
        choice.again is not None
        or choice.mechanism.counted_again is not None
        or _weighs_again(question, choice)
    )
    counts: EventCounts | GroupCounts | HeldCounts
    if choice.cells or (twice and reading.group is None):
        pairs = stack.enter_context(events.pairs(source, reading, progress=progress))
        counts = stack.enter_context(pairs.hold(**look)) if question.held else pairs.read(**look)
    elif not question.held:
        counts = events.read(source, reading.model_copy(update=look), progress=progress)
    else:
        counts = stack.enter_context(
            events.hold(source, reading.model_copy(update=look), progress=progress)
        )
    scores: Scores | MechanismInput = counts.scores(
        None if within else domain, relation=question.relation, clip=choice.clip
    )
    second = None if pairs is None else _second_look(question, choice, pairs, counts)
    if second is not None and isinstance(scores, Scores | HeldScores):
        scores = scores.with_second(second)
    return _Read(scores, counts.salt, frozenset() if pairs is None else pairs.integers)


def _weighs_again(question: Question, choice: Choice) -> bool:
    """True if the mechanism weighs users' items again.

    Sums of a column are not weighed again, and their scores are reused.
    """
    return isinstance(choice.mechanism.selecting, WeighsAgain) and question.reading.value is None


def _second_look(
    question: Question,
    choice: Choice,
    log: events.Pairs,
    first: EventCounts | GroupCounts | HeldCounts,
) -> SecondLook | None:
    """Functions that clip users anew within released items and that weigh items, for a second pass.

    They clip to select or to count. None if there is no second pass. `first` has the counts behind
    the scores.
    """
    valued: Any = None if choice.mechanism.counted_again is None else choice.mechanism
    relation = question.relation
    weigh = log.second_round(first) if _weighs_again(question, choice) else None
    if choice.again is None and valued is None and weigh is None:
        return None

    def read(labels: Sequence[Label], clip: float | None, norm: Norm) -> EventCounts:
        counts = log.read(
            max_items_per_user=None, salt=None, clip=clip, clip_norm=norm, within=labels
        )
        assert isinstance(counts, EventCounts), "groups are looked at once"
        return counts

    def select(labels: Sequence[Label]) -> Scores:
        return read(labels, choice.again, choice.norm).scores(relation=relation, clip=choice.again)

    def count(labels: Sequence[Label]) -> tuple[Scores, float]:
        counts = read(labels, valued.clip, valued.norm)
        clipped = counts.scores(relation=relation, clip=valued.clip)
        # Whole multiples of the clip's unit below 2^53 of them: a rounded sum would move by more
        # than is paid for.
        lost = int(counts.counts.sum()) - int(counts.clipped[0].sum()) * counts.clips[0].unit
        return clipped, float(min(lost, MOST_EXACT * counts.clips[0].unit))

    again = None if valued is None else count
    if choice.again is None:
        return SecondLook(select, Sensitivity.of_counts(relation), again, weigh)
    return SecondLook(select, Sensitivity.of_clipped(choice.again, choice.norm, relation), again)


def _require_periods(question: Question, budget_window: BudgetWindow) -> None:
    """Refuse to charge the events of some days to the budget of others."""
    window = question.reading.window
    if window is None or budget_window == "whole":
        return
    if window.since is None or window.until is None:
        raise InvalidRequest(
            f"the dataset has a budget for each {budget_window}. Give since= and until=,"
            " to say which are read"
        )
    touched = _touched_periods(budget_window, window)
    if question.spec.periods and set(question.spec.periods) != set(touched):
        names = f"{touched[0]} to {touched[-1]}" if len(touched) > 3 else ", ".join(touched)
        raise InvalidRequest(
            f"since= and until= read {names}, and period= says otherwise. Charge what is read, all"
            " of it"
        )


def _touched_periods(budget_window: BudgetWindow, window: Window | None) -> tuple[str, ...]:
    """The periods of a dataset that overlap a time range with two ends, in order."""
    if budget_window == "whole" or window is None or window.since is None or window.until is None:
        return ()
    from accounting.ledger.stored_text import period_of

    return tuple(dict.fromkeys(period_of(budget_window, day) for day in window.days()))
