"""The one path from a question to a private answer; every verb that releases something takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dpselect import events
from dpselect.calibration import fitted
from dpselect.cli.output import told
from dpselect.cli.question import Answer, Charge, Question, require_sums
from dpselect.counts import COUNTS
from dpselect.default_groups import default_groups
from dpselect.defaults import WHOLE_COUNTS, Choice, default_choice, default_mechanism
from dpselect.errors import DomainMismatch, InvalidRequest
from dpselect.events import EventCounts, GroupCounts, HeldCounts, HeldScores, ProgressCallback, spark
from dpselect.events.clipping import Norm
from dpselect.events.doors import standard_input
from dpselect.events.doors.files import temporary_folder
from dpselect.events.reader import Options
from dpselect.mechanisms import DiscoverThenSelect, Mechanism, SparseHistogram
from dpselect.request import TopKRequest
from dpselect.rounds import Rounds
from dpselect.scores import Scores
from dpselect.second_look import SecondLook
from dpselect.selection import Label, Selection
from dpselect.sensitivity import Sensitivity

if TYPE_CHECKING:
    from dpselect.session import Notes, Session


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

    Raises:
        AccountingError: the question is ill-posed, a file cannot be read as asked, or no mechanism fits the budget.
    """
    catalogue = _catalogue(question)
    choice = choice or _choice(question, catalogue)
    session = _session(question)
    key = question.key or uuid4().hex  # known before the charge: whatever interrupts it can name it
    with told(None if session is None else session.ledger, question.dataset, key):
        if session is not None:
            session.require(choice.mechanism)  # before a long read; the charge itself is checked again
        with _at_hand(question) as held:
            return _answered(held, catalogue, choice, session, key, progress, keep)


@contextmanager
def _at_hand(question: Question) -> Iterator[Question]:
    """The question, of a copy of what is on standard input: a log may be looked at twice."""
    if question.log != standard_input.NAME:
        yield question
        return
    with temporary_folder() as folder:
        yield replace(question, log=standard_input.spooled(folder / "standard input", question.format))


def _answered(
    question: Question,
    catalogue: list[Label] | None,
    choice: Choice,
    session: Session | None,
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
            made.append(Answer(question, mechanism, selection, choice, counts.salt, _charge(session, key)))
            if keep is not None:
                keep(made[0])

        if session is None:
            kept(mechanism.select(scores))
        else:
            notes: Notes = {"key": key, "label": "dpselect topk", "salt": counts.salt}
            session.select(mechanism, scores, keep=kept, **notes)
    return made[0]


def _kept_where_asked(
    question: Question, choice: Choice, progress: ProgressCallback | None, within: Sequence[Label] | None, stack: ExitStack
) -> EventCounts | GroupCounts | HeldCounts:
    """The log, whose counts stay in the engine that is asked for until the stack ends."""
    if question.engine == "memory":
        return _read(question, choice, choice.clip, progress, within)
    options = _options(question, choice, choice.clip, within, bounded=True)
    options["progress"] = progress
    return stack.enter_context(events.hold(_source(question), user=question.user, item=question.item, **options))


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
    options = _options(question, choice, clip, within, bounded=bounded)
    options["progress"] = progress
    if question.group is None:
        return events.read(_source(question), user=question.user, item=question.item, **options)
    about: Any = {"groups": _groups(question), "max_groups_per_user": question.max_groups_per_user}
    return events.read(question.log, user=question.user, item=question.item, group=question.group, **about, **options)


def _options(question: Question, choice: Choice, clip: float | None, within: Sequence[Label] | None, *, bounded: bool) -> Options:
    users: Options = {
        "clip": clip,
        "clip_norm": choice.norm,
        "value": question.value,
        "value_clip": question.value_clip,
        "time": question.time,
        "since": question.since,
        "until": question.until,
        "time_zone": question.time_zone,
        "time_unit": question.time_unit,
        "within": within,
    }
    if bounded:
        users |= {"max_items_per_user": choice.max_items_per_user, "salt": question.salt}
    if question.engine == "spark":
        return users
    return {
        **users,
        "format": question.format,
        "header": question.header,
        "table": question.table,
        "query": question.query,
        "buckets": question.buckets,
        "memory_limit": question.memory_limit,
    }


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


def _charge(session: Session | None, key: str) -> Charge | None:
    receipt = None if session is None else session.ledger.find(session.dataset.name, key)
    return None if receipt is None else Charge(receipt.dataset, key, receipt.seq)


def _session(question: Question) -> Session | None:
    if question.ledger is not None and question.dataset is not None:
        from dpselect.session import Session  # a release without a ledger does without a database

        terms = {"team": question.team, "purpose": question.purpose}
        return Session.open(question.ledger, question.dataset, period=question.period or None, **terms)
    if question.ledger is not None or question.dataset is not None or question.period or question.key is not None:
        raise InvalidRequest("--ledger and --dataset go together: name both to charge a ledger (--period and --key are theirs)")
    return None


def _catalogue(question: Question) -> list[Label] | None:
    if question.domain is not None:
        return events.read_catalogue(question.domain, question.domain_column, item=question.item)
    if question.domain_column is not None:
        raise InvalidRequest(f"--domain-column={question.domain_column!r} is a column of no catalogue: give --domain too")
    return None


def _groups(question: Question) -> list[Label] | None:
    """The public list of groups, once all that is said about groups goes together."""
    about = question.groups, question.groups_column, question.max_groups_per_user
    if question.group is None and about != (None, None, None):
        raise InvalidRequest("--groups, --groups-column and --max-groups-per-user are about the column --group: name it too")
    if question.group is not None and question.max_groups_per_user is None:
        raise InvalidRequest("--group needs --max-groups-per-user: a release costs as much as that many of one group")
    if question.groups is not None:
        return events.read_catalogue(question.groups, question.groups_column, item=question.group)
    if question.groups_column is not None:
        raise InvalidRequest(f"--groups-column={question.groups_column!r} is a column of no list: give --groups too")
    return None


def _require_held(question: Question) -> None:
    inside = [name for name in ("group", "value") if getattr(question, name) is not None]
    if question.engine != "memory" and inside:
        raise InvalidRequest(f"--{inside[0]} is counted in memory: leave out --engine {question.engine}")
    foreign = [name for name in ("table", "query", "buckets", "memory_limit") if getattr(question, name) is not None]
    if question.engine == "spark" and (foreign or not isinstance(question.log, str)):
        raise InvalidRequest(f"--engine spark reads one table or path, without {', '.join(foreign) or 'several files'}")


def configured(question: Question) -> Mechanism:
    """The mechanism of the answer, from what is public: its catalogue is read unless it was planned, its log is not.

    Raises:
        AccountingError: as `answer`.
    """
    return question.planned if question.planned is not None else chosen(question).mechanism


def chosen(question: Question) -> Choice:
    """The mechanism, and how the log is read for it; nothing private is looked at.

    Raises:
        AccountingError: as `answer`.
    """
    return _choice(question, _catalogue(question))


def _choice(question: Question, catalogue: list[Label] | None) -> Choice:
    clip, norm, limit = question.clip, _norm(question), question.max_items_per_user
    _require_held(question)
    if clip is not None and question.with_counts:
        raise InvalidRequest(WHOLE_COUNTS)
    _groups(question)
    require_sums(question, public=catalogue is not None)
    if question.planned is not None and question.group is not None:
        raise InvalidRequest(
            "the mechanism in the file was planned for a log as a whole: with --group state the budget (--epsilon)"
        )
    if question.planned is not None:
        again = question.planned.again if isinstance(question.planned, DiscoverThenSelect) and clip is not None else None
        return Choice(_checked(question.planned, question, catalogue), limit, clip, norm, again)
    request = TopKRequest(
        k=question.k,
        sensitivity=Sensitivity.of_counts(question.relation, limit),
        candidates=None if catalogue is None else len(catalogue),
        kbar=question.kbar,
        noise=question.noise,
        releases=question.releases,
        counts=COUNTS if question.with_counts else None,
    )
    if question.group is not None and question.max_groups_per_user is not None:
        asked = request.model_copy(update={"sensitivity": _sensitivity(question)})
        most, discover = question.max_groups_per_user, question.groups is None
        found = default_groups(question.budget, asked, most, kind=question.mechanism, discover=discover)
        return Choice(found, limit, clip, norm)
    if question.value is not None:
        asked = request.model_copy(update={"sensitivity": _sensitivity(question)})
        kind = question.mechanism or (SparseHistogram.__name__ if catalogue is None else None)
        return Choice(default_mechanism(question.budget, asked) if kind is None else fitted(kind, question.budget, asked), limit)
    if question.mechanism is None:
        stated = None if clip is None else norm
        return default_choice(
            question.budget,
            request,
            max_items_per_user=limit,
            clip=clip,
            norm=stated,
            items_per_user=question.items_per_user,
        )
    asked = request.model_copy(update={"sensitivity": _sensitivity(question)})
    return Choice(fitted(question.mechanism, question.budget, asked), limit, clip, norm)


def _sensitivity(question: Question) -> Sensitivity:
    """That of the scores that the log will give."""
    if question.value_clip is not None:
        return Sensitivity.of_sums(*question.value_clip, question.relation, question.max_items_per_user)
    if question.clip is None:
        return Sensitivity.of_counts(question.relation, question.max_items_per_user)
    return Sensitivity.of_clipped(question.clip, _norm(question), question.relation, question.max_items_per_user)


def _checked(planned: Mechanism, question: Question, catalogue: list[Label] | None) -> Mechanism:
    """The planned mechanism, if it can do what is asked; said before a long read."""
    if question.with_counts and not planned.releases_values:
        raise InvalidRequest(
            f"{type(planned).__name__} was planned without counts: plan with --with-counts, or leave it out here"
        )
    planned.covers.require(_sensitivity(question))
    if catalogue is None and not planned.takes_observed:
        raise DomainMismatch(
            f"{type(planned).__name__} was planned for a public domain: give its catalogue (--domain, or domain in [data]), or "
            "plan with --unknown-domain"
        )
    return planned


def _norm(question: Question) -> Norm:
    """That which the noise pays for: l1 for laplace noise and pure budgets."""
    if question.planned is not None:
        return "l1" if question.planned.covers.l1 is not None else "l2"
    return "l1" if question.noise == "laplace" or question.budget.form == "pure" else "l2"
