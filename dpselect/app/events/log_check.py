"""`check`, an exact report on a log and its likely mistakes, for people who may see the data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, final

from dpselect.app.events.catalog import NULLS
from dpselect.app.events.counting import number
from dpselect.app.events.dialect import Tables
from dpselect.app.events.engine import Engine, open_engine
from dpselect.app.events.file_options import normalize_label
from dpselect.app.events.not_pickled import NotPickled
from dpselect.app.events.reading import ProgressCallback, Reading
from dpselect.app.events.rows import read_events
from dpselect.app.events.sources.base import LABELS, SHORT, literal
from dpselect.app.events.staging import prepare
from dpselect.selection import Label

_SHARES: Final = (0.5, 0.9, 0.99)
_LISTED = 5  # examples, and heaviest users
_LISTS = ("|", ";", ",")
_MOST = 0.5  # a share of labels from which on all are taken to be so
_FAR = 5  # times what hardly any user has
_ALIKE = "CASE WHEN strlen({0}) = length({0}) THEN lower(trim({0}, ' \t\r\n')) ELSE alike({0}) END"
# What else ids are written like, as SQL of a text, and the remedy.
_SPELLINGS: Final[Mapping[str, tuple[str, str]]] = {
    "by letter case, Unicode form or spaces": (
        _ALIKE,
        "state normalize='nfkc', 'casefold', 'strip'",
    ),
    "by zeros in front, which a spreadsheet takes away": (
        "coalesce(nullif(ltrim({0}, '0'), ''), {0})",
        "write the ids as text in both",
    ),
    "by '.0', which pandas adds where an id is missing": (
        "regexp_replace({0}, '^(-?[0-9]+)[.]0+$', '\\1')",
        "cast the column to Int64 in pandas before it is written",
    ),
}


@final
@dataclass(frozen=True, slots=True, repr=False)
class Alike(NotPickled):
    """Labels that differ only in how they are written, with their number and some examples.

    **Private**.
    """

    role: str
    spelling: str
    labels: int
    examples: list[list[str]]


@final
@dataclass(frozen=True, slots=True, repr=False)
class Matches(NotPickled):
    """The match of a public list with the log. **Private**.

    It has the number of listed labels, of those that occur, and of users who have one, and the
    numbers of labels that would occur if they were written differently, by the difference.
    """

    listed: int
    occurring: int
    users: int
    otherwise: dict[str, int]


@final
@dataclass(frozen=True, slots=True, repr=False)
class LogCheck(NotPickled):
    """Findings about a log, without noise. **Private**, for people who may see the data.

    Attributes:
        title, layout: the log, and how its fields are found.
        kinds: type of each column; "str" is text, compared exactly as it is written.
        rows: events in the log.
        without: events that lack a value, by role.
        outside: events left out by the time range or the conditions; they are not among the rows.
        users, items, groups: numbers of distinct ones with a whole event; groups are None without a
            group column.
        days: first and last day with an event, by the clock of `time_zone`, including events
            outside the time range; None if no time is read or the log can be read only once.
        items_per_user: quantiles of the number of items per user (or per user and group), by share.
        heaviest: the users with the most items, and their numbers of items.
        nulls: labels that look like a missing value: role, label, and number of pairs of a user and
            an item that have it.
        alike: labels that differ only by letter case, Unicode form, spaces, zeros in front or ".0".
        catalog: the match of the public list with the log; None without a list.
        doubts: likely mistakes to look at, in words; empty if there are none.
    """

    title: str
    layout: str
    kinds: dict[str, str]
    rows: int
    without: dict[str, int]
    outside: int
    users: int
    items: int
    groups: int | None
    days: tuple[str, str] | None
    items_per_user: dict[str, int]
    heaviest: list[tuple[Label, int]]
    nulls: list[tuple[str, str, int]]
    alike: list[Alike]
    catalog: Matches | None
    doubts: list[str] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        """The findings as JSON data."""
        return asdict(self)

    def __repr__(self) -> str:
        return "LogCheck(<private figures hidden>)"


def check(
    source: object,
    reading: Reading,
    catalog: Sequence[Label] | None = None,
    *,
    progress: ProgressCallback | None = None,
) -> LogCheck:
    """Read a log as a release would, and report on it. Nothing is drawn, charged or written.

    An empty log is reported, too. A log that a release would refuse is refused with values and
    where they are, which a release does not show. Only people who may see the data may see the
    result or the error.
    """
    with open_engine(reading.memory_limit, tells=True) as engine:
        tables, staged = prepare(engine, source, reading, progress)
        tables.run(f"CREATE VIEW pairs AS SELECT * FROM {staged.pairs}")
        engine.define("alike", lambda text: normalize_label(text, ("nfkc", "casefold", "strip")))
        roles = [role for role in LABELS if role in staged.kinds]
        owner = "u, g" if reading.group is not None else "u"
        per_user = f"SELECT {owner}, count(*) AS t FROM pairs GROUP BY {owner}"
        shares = tables.run(
            f"SELECT {', '.join(f'quantile_disc(t, {share})' for share in _SHARES)}, max(t) FROM"
            f" ({per_user})"
        )[0]
        share_names = [*(f"{share:g}" for share in _SHARES), "1"]
        heaviest = tables.run(
            f"SELECT u, sum(t) AS n FROM ({per_user}) GROUP BY u ORDER BY n DESC, u LIMIT {_LISTED}"
        )
        texts = [role for role in roles if staged.kinds[role] == "str"]
        nulls = list[tuple[str, str, int]]()
        for role in texts:
            name, words = SHORT[role], ", ".join(map(literal, NULLS))
            missing = f"lower(trim({name}, ' \t\r\n')) IN ({words}) OR trim({name}, ' \t\r\n') = ''"
            sql = (
                f"SELECT {name}, count(*) AS n FROM pairs WHERE {missing} GROUP BY {name} ORDER BY"
                f" n DESC, {name}"
            )
            nulls += [(role, str(label), int(count)) for label, count in tables.run(sql)]
        report = LogCheck(
            title=staged.title,
            layout=staged.layout,
            kinds=dict(staged.kinds),
            rows=staged.report.rows,
            without=dict(staged.without),
            outside=staged.outside,
            users=number(tables, "SELECT count(DISTINCT u) FROM pairs"),
            items=number(tables, "SELECT count(DISTINCT i) FROM pairs"),
            groups=(
                number(tables, "SELECT count(DISTINCT g) FROM pairs")
                if reading.group is not None
                else None
            ),
            days=_days(engine, source, reading),
            items_per_user={
                share: int(number or 0) for share, number in zip(share_names, shares, strict=True)
            },
            heaviest=[(user, int(number)) for user, number in heaviest],
            nulls=nulls,
            alike=[alike for role in texts for alike in _similar_labels(tables, role)],
            catalog=None if catalog is None else _matches(tables, catalog),
        )
        lists = None
        # what stands in most of the items, as between several of them
        if "item" in texts and reading.split is None:
            often = ", ".join(
                f"avg(CAST(contains(i, {literal(separator)}) AS DOUBLE))" for separator in _LISTS
            )
            inside = tables.run(f"SELECT {often} FROM (SELECT DISTINCT i FROM pairs)")[0]
            lists = next(
                (
                    separator
                    for separator, share in zip(_LISTS, inside, strict=True)
                    if share is not None and share > _MOST
                ),
                None,
            )
        report.doubts.extend(_doubts(report, reading, lists))
        report.doubts.extend(_unread_times(engine, source, reading))
        return report


def _days(engine: Engine, source: object, reading: Reading) -> tuple[str, str] | None:
    window = reading.window
    if window is None or source == "-":
        return None
    request = reading.request(source)
    log = read_events(engine, request)
    if log.once:
        return None
    spans = engine.run(
        f"SELECT wall, min(t), max(t) FROM ({log.sql}) WHERE t IS NOT NULL GROUP BY wall",
        title=log.title,
    )
    days = sorted(window.day(t, wall).isoformat() for wall, *ends in spans for t in ends)
    return (days[0], days[-1]) if days else None


def _unread_times(engine: Engine, source: object, reading: Reading) -> Iterator[str]:
    """Texts that `time_format` cannot read, which a release counts as no time."""
    if reading.time_format is None or source == "-":
        return
    request = reading.request(source)
    log = read_events(engine, request, "time")
    if log.once:
        return
    sql = (
        f"SELECT raw, count(*) AS n, sum(n) OVER () FROM ({log.sql}) WHERE raw IS NOT NULL AND t IS"
        f" NULL GROUP BY raw ORDER BY n DESC, raw LIMIT {_LISTED}"
    )
    if rows := engine.run(sql, title=log.title):
        texts = ", ".join(repr(text) for text, *_ in rows)
        yield (
            f"{int(rows[0][2]):,} events have a time that time_format={reading.time_format!r}"
            f" cannot read, such as {texts}: they count as events without a time"
        )


def _similar_labels(tables: Tables, role: str) -> Iterator[Alike]:
    name = SHORT[role]
    labels = f"SELECT DISTINCT {name} AS l FROM pairs WHERE {name} IS NOT NULL"
    for spelling, (key, _) in _SPELLINGS.items():
        same = (
            f"SELECT {key.format('l')} AS k, list(l ORDER BY l) AS many FROM ({labels}) GROUP BY k"
            " HAVING count(*) > 1"
        )
        similar = number(tables, f"SELECT sum(len(many)) FROM ({same})")
        if similar:
            examples = tables.run(
                f"SELECT many[:{_LISTED}] FROM ({same}) ORDER BY k LIMIT {_LISTED}"
            )
            yield Alike(role, spelling, similar, [list(row[0]) for row in examples])


def _matches(tables: Tables, catalog: Sequence[Label]) -> Matches:
    listed = f"(SELECT i AS l FROM {tables.store_labels('listed', catalog, 'str')})"
    tables.run("CREATE TABLE seen AS SELECT DISTINCT CAST(i AS VARCHAR) AS l FROM pairs")
    occurring = number(tables, f"SELECT count(*) FROM {listed} SEMI JOIN seen USING (l)")
    users = number(
        tables,
        f"SELECT count(DISTINCT u) FROM pairs WHERE CAST(i AS VARCHAR) IN {listed}",
    )
    otherwise = dict[str, int]()
    for spelling, (key, _) in _SPELLINGS.items():
        missing = (
            f"SELECT {key.format('l')} AS k FROM (SELECT l FROM {listed} ANTI JOIN seen USING (l))"
        )
        count = number(
            tables,
            f"SELECT count(*) FROM ({missing}) SEMI JOIN (SELECT {key.format('l')} AS k FROM seen)"
            " USING (k)",
        )
        otherwise |= {spelling: count} if count else {}
    return Matches(len(catalog), occurring, users, otherwise)


def _doubts(check: LogCheck, reading: Reading, lists: str | None) -> Iterator[str]:
    """Likely mistakes to look at before a release, the worst first."""
    if not check.users:
        qualifier = (
            " of those that the window and the conditions leave"
            if reading.window or reading.where
            else ""
        )
        yield f"no event can be counted: no row{qualifier} has both a user and an item"
    listed = check.catalog
    if listed is not None and check.users and listed.occurring <= _MOST * listed.listed:
        yield (
            f"of {listed.listed:,} listed items {listed.occurring:,} occur in the log: are ids"
            " written alike in both?"
        )
    if listed is not None:
        for spelling, number in listed.otherwise.items():
            yield (
                f"{number:,} listed items are written otherwise in the log, {spelling}:"
                f" {_SPELLINGS[spelling][1]}"
            )
    for alike in check.alike:
        yield (
            f"{alike.labels:,} {alike.role}s are written in several ways, {alike.spelling}:"
            f" {_SPELLINGS[alike.spelling][1]}, or leave them apart"
        )
    for role, label, number in check.nulls[:_LISTED]:
        yield (
            f"{role} {label!r} ({number:,} pairs) looks like a missing value. State"
            f" missing='{label}' if the file writes one so"
        )
    if lists is not None:
        yield f"most items hold {lists!r}. State split={lists!r} if each is a list of items"
    for role, number in check.without.items():
        if number > _MOST * check.rows:
            form = reading.time_format if role == "time" else None
            field = (
                "column"
                if form is None
                else f"format (time_format={form!r}; without it those that fit are named)"
            )
            yield (
                f"{number:,} of {check.rows:,} events have no {role}: is the {field} the one meant?"
            )
    if check.outside > _MOST * (check.rows + check.outside):
        part = f"{check.outside:,} of {check.rows + check.outside:,} events"
        filters = ["since=, until= and time_unit="] * bool(reading.window) + ["where="] * bool(
            reading.where
        )
        yield f"{part} are left out by {' and '.join(filters)}: is that meant?"
    if check.users > 1 and check.users == check.rows:
        yield "every event has a user of its own: is user= the column of users, and not of events?"
    for user, _ in check.heaviest[:1]:
        if re.fullmatch(r"\d([.,]\d+)?E\+\d+", str(user)):
            yield (
                f"user {str(user)!r} is a long number that a spreadsheet has shortened, and perhaps"
                " many users: export the column as text"
            )
    total = sum(number for _, number in check.heaviest[:1])
    if total > _MOST * check.items and total > _FAR * check.items_per_user["0.99"]:
        yield (
            f"one user has {total:,} of the {check.items:,} items: a robot, or a missing id written"
            " as a label?"
        )
