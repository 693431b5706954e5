"""The one path from a question to a private answer; every verb that releases something takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from uuid import uuid4

import accounting as acc
import dpselect as dps
from dpselect import Choice, InvalidRequest, Scores, SecondLook, Selection, Sensitivity, events
from dpselect.cli.payment import charge_of, session_of, told
from dpselect.cli.question import Answer, Question, catalogue_of, choice_of, groups_of
from dpselect.events import EventCounts, GroupCounts, HeldCounts, HeldScores, ProgressCallback, Reading, spark
from dpselect.events.doors import formats
from dpselect.events.doors.paths import temporary_folder
from dpselect.rounds import Rounds
from dpselect.selection import Label


def answer(
    question: Question,
    progress: ProgressCallback | None = None,
    keep: Callable[[Answer], None] | None = None,
    choice: Choice | None = None,
) -> Answer:
    """Calibrate on what is public, then read the log, then draw.

    Args:
        keep: called with the answer before the ledger is told that it was released: to put it where it is not lost. What it
            raises ends the release.
        choice: what `chosen` says, if it is known: of many questions that differ in their period alone it is asked once.

    Whatever interrupts it says whether it was charged, under which entry and key.
    """
    catalogue = catalogue_of(question)
    choice = choice or choice_of(question, catalogue)
    session = _session(question)
    key = question.key or uuid4().hex  # known before the charge: whatever interrupts it can name it
    with told(None if session is None else session.ledger, question.dataset, key):
        if session is not None:
            # Before a long read; the charge itself is checked again.
            session.require(choice.mechanism, pay=question.pay, key=key)
        with _at_hand(question) as held:
            return _answered(held, catalogue, choice, session, key, progress, keep)


@contextmanager
def _at_hand(question: Question) -> Iterator[Question]:
    """The question, of a copy of what is on standard input: a log may be looked at twice."""
    if question.log != formats.STANDARD_INPUT:
        yield question
        return
    with temporary_folder() as folder:
        yield replace(question, log=formats.spooled(folder / "standard input", question.format))


def _answered(
    question: Question,
    catalogue: list[Label] | None,
    choice: Choice,
    session: dps.Session | None,
    key: str,
    progress: ProgressCallback | None,
    keep: Callable[[Answer], None] | None,
) -> Answer:
    mechanism = choice.mechanism
    within = None if choice.clip is None else catalogue  # users are clipped within the catalogue
    with ExitStack() as stack:
        counts = _kept_where_asked(question, choice, progress, within, stack)
        scores: Scores | Rounds = counts.scores(None if within else catalogue, relation=question.relation, clip=choice.clip)
        if choice.again is not None and isinstance(scores, Scores | HeldScores):
            scores = _looked_at_twice(scores, question, choice, choice.again)
        made: list[Answer] = []

        def kept(selection: Selection) -> None:
            made.append(Answer(question, mechanism, selection, choice, counts.salt, charge_of(session, question.period, key)))
            if keep is not None:
                keep(made[0])

        if session is None:
            kept(mechanism.select(scores))
        else:
            zone = "" if question.time_zone == "UTC" else f", times without a zone in {question.time_zone}"
            about = {"key": key, "label": f"dpselect topk{zone}", "salt": counts.salt}
            session.select(mechanism, scores, keep=kept, pay=question.pay, **about)
    return made[0]


def _kept_where_asked(
    question: Question, choice: Choice, progress: ProgressCallback | None, within: Sequence[Label] | None, stack: ExitStack
) -> EventCounts | GroupCounts | HeldCounts:
    """The log, whose counts stay in the engine that is asked for until the stack ends; those of groups, and sums that may be
    negative, come from Spark to this process."""
    signed = question.value_clip is not None and question.value_clip[0] < 0
    if question.engine == "memory" or (question.engine == "spark" and (signed or question.group is not None)):
        return _read(question, choice, choice.clip, progress, within)
    reading = reading_of(question, choice).model_copy(update={"within": within})
    return stack.enter_context(events.hold(_source(question), reading, progress=progress))


def _source(question: Question) -> object:
    if question.engine != "spark":
        return question.log
    return spark.found(str(question.log), question.format, header=question.header)


def _read(
    question: Question,
    choice: Choice,
    clip: float | None,
    progress: ProgressCallback | None = None,
    within: Sequence[Label] | None = None,
    *,
    bounded: bool = True,
) -> EventCounts | GroupCounts:
    """The log; `within` some items only, perhaps with users bounded by the clip alone."""
    change = {"within": within, "clip": clip} | ({} if bounded else {"max_items_per_user": None, "salt": None})
    return events.read(_source(question), reading_of(question, choice).model_copy(update=change), progress=progress)


def reading_of(question: Question, choice: Choice) -> Reading:
    """How the log is read for the mechanism that was chosen."""
    named = ["user", "item", "group", "max_groups_per_user", "salt", "value", "value_clip"]
    named += ["time", "since", "until", "time_zone", "time_unit"]
    if question.engine != "spark":
        named += ["format", "header", "table", "query", "buckets", "memory_limit"]
    bounds = {"max_items_per_user": choice.max_items_per_user, "clip": choice.clip, "clip_norm": choice.norm}
    return Reading(groups=groups_of(question), **{name: getattr(question, name) for name in named}, **bounds)


def _looked_at_twice(scores: Scores | HeldScores, question: Question, choice: Choice, clip: float) -> Scores | HeldScores:
    """The same scores, and how to clip users anew within the items that a first step discovers."""

    def look(labels: Sequence[Label]) -> Scores:
        again = _read(question, choice, clip, within=labels, bounded=False).scores(relation=question.relation, clip=clip)
        assert isinstance(again, Scores), "groups are looked at once"
        return again

    second = SecondLook(look, Sensitivity.of_clipped(clip, choice.norm, question.relation))
    if isinstance(scores, HeldScores):
        return scores.with_second(second)
    return Scores(scores.values, sensitivity=scores.sensitivity, labels=scores.labels, domain=scores.domain, second=second)


def _require_periods(question: Question, of: acc.ledger.Window) -> None:
    """Refuse to charge the events of some days to the budget of others."""
    read = question.window
    if read is None or of == "whole":
        return
    if read.since is None or read.until is None:
        raise InvalidRequest(f"the dataset has a budget for each {of}: give --since and --until, to say which are read")
    from accounting.ledger.periods import period_of

    touched = {period_of(of, day) for day in read.days()}
    if set(question.period) != touched:
        names = f"{min(touched)} to {max(touched)}" if len(touched) > 3 else ", ".join(sorted(touched))
        raise InvalidRequest(f"--since and --until read {names}, and --period says otherwise: charge what is read, all of it")


def _session(question: Question) -> dps.Session | None:
    if question.pay != "curve" and (question.ledger is None or question.dataset is None):
        raise InvalidRequest("--pay-for-what-came-out needs --ledger and --dataset: without them nothing adds prices up")
    about = question.ledger, question.dataset, question.period, question.key
    session = session_of(*about, team=question.team, purpose=question.purpose)
    if session is not None:
        _require_periods(question, session.dataset.window)
    return session
