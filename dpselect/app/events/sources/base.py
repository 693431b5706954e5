"""The interface of event sources: the columns asked for, and the rows that a source returns."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, final

from accounting.address import mask
from accounting.arguments import quote_setting
from dpselect.app.events.dialect import EMBEDDED
from dpselect.app.events.file_options import FileOptions
from dpselect.app.events.not_pickled import NotPickled
from dpselect.app.events.where import Condition
from dpselect.errors import EventLogError

if TYPE_CHECKING:
    from dpselect.app.events.contributions import Amount
    from dpselect.app.events.engine import Engine
    from dpselect.app.events.time_window import Window

Column = str | int
# What `Rows.sql` calls the column of each role; further parts of a user or an item are roles of
# their own.
SHORT = {
    **{"user": "u", "item": "i", "group": "g"},
    **{f"item_{n}": f"i{n}" for n in range(2, 9)},
    **{f"user_{n}": f"u{n}" for n in range(2, 9)},
    **{"value": "v", "time": "t"},
    **{f"where_{n}": f"f{n}" for n in range(1, 9)},
}
# Two short identifiers written as text: what makes `Rows.size` comparable with the size of a CSV
# file.
BYTES_PER_ROW = 20
LONGEST_LINE = 2_000_000  # bytes, as the engine has it
# bytes that all conditions' columns add to a line of a file that is written here
MOST_COMPARED = 100_000
_NUMBERED = re.compile(r"(?P<one>[1-9]\d*)|column(?P<zero>\d+)", re.ASCII)
_MOST_LISTED = 50
_MOST_TYPE = 1000  # characters of a type that SQL repeats
_LIST = re.compile(r"\[\d*\]$")
Kind = Literal["int", "str", "number", "wall", "instant"]
"""Type of a column: integers of at most 64 bits, text, numbers, clock times ("wall") or instants.

Wider integers and decimals are printed as text. Values and times may be text, too.
"""
Kinds = Mapping[str, Kind]
"""The kind of the column of every role."""
OF_TEXT = ("header", "delimiter", "quote", "escape", "comment", "encoding", "decimal")
"""Options that apply to delimited text alone."""
LABELS = ("user", "item", "group")
"""Roles whose values are labels. Further parts of a label have roles of their own."""


def is_label(role: str) -> bool:
    """True if the role's values are labels, or parts of one."""
    return role not in ("value", "time") and not is_condition(role)


def refusal(role: str) -> int:
    """The number below 0 that marks a malformed value of a role, which refuses the log."""
    return -1 - list(SHORT).index(role_field(role))


def role_of(number: int) -> str:
    """The role of such a number."""
    return list(SHORT)[-1 - number]


def is_condition(role: str) -> bool:
    """True if the role's column is only for a condition."""
    return role.startswith("where_")


def role_field(role: str) -> str:
    """The field that states the role's column."""
    return role.partition("_")[0]


@final
@dataclass(frozen=True, slots=True)
class RoleColumns:
    """The columns a caller asked for, by role, in the order of `SHORT`."""

    by_role: Mapping[str, Column]

    @classmethod
    def from_columns(
        cls,
        user: Column | Sequence[Column] | None,
        item: Column | Sequence[Column],
        group: Column | None = None,
        value: Column | None = None,
        time: Column | None = None,
        where: Sequence[Column] = (),
    ) -> Self:
        """Columns by role, where up to eight columns may make up a user or an item.

        `where` has the columns of conditions. A public list has no users, so `user` is None.
        """
        by_role = {"group": group, "value": value, "time": time}
        for role, argument in (("user", user), ("item", item)):
            parts = (
                [argument]
                if isinstance(argument, str) or not isinstance(argument, Sequence)
                else list(argument)
            )
            if not 1 <= len(parts) <= 8 or (
                None in parts and not (role == "user" and argument is None)
            ):
                raise EventLogError(
                    f"{role}={argument!r} must be a column, or from 1 to 8 that make up one {role}."
                    " Give names"
                )
            by_role |= {
                f"{role}_{number}" if number > 1 else role: part
                for number, part in enumerate(parts, start=1)
            }
        by_role |= {f"where_{number}": column for number, column in enumerate(where, start=1)}
        columns = {role: column for role in SHORT if (column := by_role.get(role)) is not None}
        for field, column in columns.items():
            if type(column) not in (str, int) or (isinstance(column, int) and abs(column) >= 2**31):
                raise EventLogError(
                    f"{field}={quote_setting(column)} is not a column. Give its name, or its"
                    " number from 1"
                )
        for first, second in itertools.combinations(columns, 2):
            if columns[first] == columns[second]:
                require_apart(first, second, f"{columns[first]!r}")
        return cls(columns)

    def parts(self, whole: str) -> list[str]:
        """The roles of the columns that make up a user, or an item."""
        return [role for role in self.by_role if role_field(role) == whole]

    @property
    def roles(self) -> list[str]:
        """The roles in which an event needs a value, a user and an item being one each."""
        return [role for role in self.by_role if role == role_field(role)]

    def without(self, roles: Iterable[str]) -> Self:
        """A copy without some roles."""
        return replace(
            self,
            by_role={
                role: column for role, column in self.by_role.items() if role not in set(roles)
            },
        )

    def uses_positions(self) -> bool:
        """True if all columns are positions, so that no header is needed."""
        return all(_position(column) is not None for column in self.by_role.values())

    def refuse_malformed(self, malformed: AbstractSet[str], title: str, detail: str = "") -> None:
        """Raise an error for a role with a malformed value, with `detail` for a data owner."""
        for field, rule in _MALFORMED.items():
            if roles := sorted(
                role for role in malformed if (role if not is_label(role) else "") == field
            ):
                raise EventLogError(
                    f"{roles[0]}={self.by_role[roles[0]]!r} of {title} holds"
                    f" {rule}{detail or _SHOWN_BY}"
                )


_MALFORMED = {
    "time": (
        "something that is not a time of the years 1900 to 9999. Write times as in"
        " 2024-07-14T08:00:00, with Z or an offset where they have one, or state time_format=;"
        " numbers since 1970 need the right time_unit=; say with missing= what the file writes"
        " where there is none"
    ),
    "value": (
        "something that is not a finite number. Correct it, leave it empty, state decimal=',' where"
        " that is the decimal point of a CSV or TSV file, or say with missing= what the file writes"
        " where there is none"
    ),
    "": (
        "values that are neither text nor whole numbers (fractions, booleans, nested values, or"
        " lists in two columns)."
        " Write them as text (whole numbers that pandas wrote as fractions, since one is missing,"
        " become integers by a cast to Int64)"
    ),
}
_SHOWN_BY = "; dpselect check shows examples"


@final
@dataclass(frozen=True, slots=True)
class SourceRequest(NotPickled):
    """The input of a source. **Private**, as the source is.

    Attributes:
        source: as for `read`.
        columns: the columns by role.
        options: options of the file or the database.
        name: name of the source in messages, if it is not its path.
        amount, window, where: the sum, the time range and the conditions, if stated.
        unread: True if no row is read and the answer covers only what is public: the existence of
            the source, its header or declared schema, and the options. The `Rows` are then of a
            relation that must not be queried.
    """

    source: object = dataclasses.field(repr=False)
    columns: RoleColumns
    options: FileOptions
    name: str | None = None
    amount: Amount | None = None
    window: Window | None = None
    where: tuple[Condition, ...] = ()
    unread: bool = False

    def tests(self) -> dict[str, Condition]:
        """The condition of each condition role.

        Two conditions on one column have a role each, because no text of a number equals both 7 and
        7.0.
        """
        return {
            f"where_{number}": condition for number, condition in enumerate(self.where, start=1)
        }

    def missing(self) -> tuple[Condition, ...]:
        """Conditions that match the values which stand for a missing one in conditions."""
        return tuple(
            Condition("", "=", text)
            for text in dict.fromkeys((*self.options.missing, *self.options.null))
        )

    def unread_rows(self, title: str) -> Rows:
        """Rows of a source whose columns only its rows tell, if none may be read."""
        return Rows("", 0, title, dict.fromkeys(self.columns.by_role, "str"))

    def title(self, kind: str) -> str:
        """Name of the file in messages."""
        return self.name or f"{kind} file {mask(self.source)}"

    def refuse_options(self, title: str, *fields: str) -> None:
        """Refuse options that do not apply to a source of this kind."""
        kinds = {"format": "files", "table": "a database", "query": "a database"}
        for field in fields:
            if (value := getattr(self.options, field)) != FileOptions.model_fields[field].default:
                whose = kinds.get(field, "csv and tsv")
                raise EventLogError(
                    f"{field}={quote_setting(value)} is for {whose}, and this is {title}. Leave it"
                    " out"
                )

    def table_name(self) -> str:
        """Name in messages of a database's table or query, one of which must be stated."""
        self.refuse_options("a database", "format", *OF_TEXT)
        if (self.options.table is None) == (self.options.query is None):
            raise EventLogError(
                "a database needs table= or query=, and not both: what to read of it"
            )
        return f"table {self.options.table!r}" if self.options.table is not None else "the query"

    def require_unit(self, kind: Kind, title: str) -> None:
        """Check that the time column's type matches the stated time unit."""
        assert self.window is not None, "times are read for a window"
        time, unit = self.columns.by_role["time"], self.window.unit
        if self.options.time_format is not None and (kind != "str" or unit is not None):
            raise EventLogError(
                f"time_format={self.options.time_format!r} is for times that are text, without"
                f" time_unit=, and time={time!r} of {title} holds others. Leave it out"
            )
        if kind == "int" and unit is None:
            raise EventLogError(
                f"time={time!r} of {title} holds numbers. Say with time_unit= what they count since"
                " 1970"
            )
        if kind in ("wall", "instant") and unit is not None:
            raise EventLogError(
                f"time_unit={unit!r} is for numbers, and time={time!r} of {title} holds times."
                " Leave it out"
            )


@final
@dataclass(frozen=True, slots=True)
class Rows:
    """A relation with one event per row.

    Attributes:
        sql: a query with a column for each role, called by `SHORT`, and any others that `kinds`
            looks at.
        size: rough size in bytes as text, which decides the number of buckets.
        title: name of the source in messages.
        kinds: types of users, items and groups in the source, not inferred from values.
        once: True for a stream, which can be read only once.
        bad: SQL of the `refusal` of an event that refuses the log, null for others; "" if none
            does. A source has it in a column, `refused`.
        nothing: roles whose columns hold nothing by their types, and are of any type: their SQL is
            NULL, as text.
        kept_column: "kept", a column that is true if an event satisfies all conditions, once it is
            `evaluate_conditions`; "" before, or if there are none.
        apart: SQL of the reason why an event is not counted, once it is shaped.
        layout: how fields are found, in words, if that is not plain.
    """

    sql: str
    size: int
    title: str
    kinds: Kinds
    once: bool = False
    bad: str = ""
    nothing: frozenset[str] = frozenset()
    kept_column: str = ""
    apart: str = ""
    layout: str = ""


def name_sql(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


literal = EMBEDDED.literal
"""An SQL string."""


def path_sql(path: Path | str) -> str:
    """SQL string of exactly this file, although its folder (TMPDIR) may hold pattern characters."""
    return literal(re.sub(r"[*?\[]", r"[\g<0>]", str(path)))


def spool_sql(path: Path, types: Mapping[str, str]) -> str:
    r"""SQL of a CSV file that was written here, with text in quotes and missing values as \N."""
    declared = ", ".join(f"'{SHORT.get(role, role)}': '{kind}'" for role, kind in types.items())
    return (
        f"read_csv({path_sql(path)}, auto_detect = false, columns = {{{declared}}}, header = false,"
        " delim = ',', quote = '\"', escape = '\"', nullstr = '\\N', allow_quoted_nulls = false,"
        " compression = 'none', strict_mode = true, max_line_size ="
        f" {LONGEST_LINE + MOST_COMPARED}, new_line = '\\n', hive_partitioning = false)"
    )


Place = tuple[str, tuple[str, ...]]
"""Place of a column: SQL of the outer column, and the names of the fields that lead to it."""


def select_columns(
    engine: Engine,
    relation: str,
    places: Mapping[str, Place],
    role_columns: RoleColumns,
    title: str,
) -> Rows:
    """The query for columns of `relation`, by role: integers as they are, all others as VARCHAR.

    A list is one event per element, and an empty list is an event without a value. Fractions in a
    label or time column refuse the log. A column of fractions that holds no value is a column of
    nothing, because pandas and other writers store nulls as fractions.
    """
    selections, kinds, lists, nothing, bad = (
        list[str](),
        dict[str, Kind](),
        list[str](),
        set[str](),
        list[str](),
    )
    for role, (column, fields) in places.items():
        name = role_columns.by_role[role]
        sql, stored, absent = _nested_field(engine, relation, column, fields, title)
        # for a condition it is one of nulls: rows may have decided what fields there are
        if absent and not is_condition(role):
            raise EventLogError(
                f"{role}={name!r} is not a column of {title}: there is no field {absent!r} within"
            )
        if fractions := stored in _FRACTIONS and (is_label(role) or role == "time"):
            bad.append(f"WHEN {sql} IS NOT NULL AND NOT isnan({sql}) THEN {refusal(role)}")
        kind = (
            None
            if fractions
            else kind_of(role, name, _LIST.sub("", stored) if is_label(role) else stored, title)
        )
        if kind is None:
            nothing.add(role)
            kinds[role] = "str"
            selections.append(f"CAST(NULL AS VARCHAR) AS {SHORT[role]}")
            continue
        if _LIST.search(stored) and is_label(role):
            stored = _LIST.sub("", stored)
            sql = f"CAST({sql} AS {stored}[])" if len(stored) < _MOST_TYPE else sql
            lists.append(role)
        kinds[role] = kind
        if kinds[role] == "str":
            sql = f"CAST({sql} AS VARCHAR{'[]' if role in lists else ''})"
        elif kinds[role] == "number":
            sql = f"CAST({sql} AS DOUBLE)"
        elif make := _NANOSECONDS.get(stored):
            exact = f"epoch_ns({sql})"
            whole = f"{make}({exact} // 1000 - CAST({exact} % 1000 < 0 AS BIGINT))"
            sql = (
                f"CASE WHEN abs({exact}) < {2**63 - 1} THEN {whole}"
                f" WHEN {sql} IS NOT NULL THEN 'infinity' END"
            )
        if role in lists:
            sql = f"unnest(CASE WHEN len({sql}) > 0 THEN {sql} ELSE [NULL] END)"
        selections.append(f"{sql} AS {SHORT[role]}")
    if len(lists) > 1:
        raise EventLogError(
            f"{lists[0]} and {lists[1]} of {title} are both lists, and which elements belong"
            " together is not known. Write one event per row"
        )
    if bad:
        selections.append(f"CASE {' '.join(bad)} END AS refused")
    sql = f"SELECT {', '.join(selections)} FROM {relation}"
    return Rows(sql, 0, title, kinds, nothing=frozenset(nothing), bad="refused" if bad else "")


def _nested_field(
    engine: Engine, relation: str, column: str, fields: Sequence[str], title: str
) -> tuple[str, str, str]:
    """SQL of a field within a column, its type, and the name of a missing field.

    If lists lie on the way, the SQL gives each element. A missing field is one of nulls.
    """
    sql = column
    stored = str(engine.run(f"DESCRIBE SELECT {sql} FROM {relation}", title=title)[0][1])
    for field in fields:
        element, inside = _LIST.search(stored), literal(field)
        if _LIST.sub("", stored) == _NULLS:
            return "NULL", _NULLS, ""
        if not _LIST.sub("", stored).startswith("STRUCT"):
            return "NULL", _NULLS, field
        sql = (
            f"[struct_extract(x, {inside}) for x in {sql}]"
            if element
            else f"struct_extract({sql}, {inside})"
        )
        try:
            stored = str(engine.run(f"DESCRIBE SELECT {sql} FROM {relation}", title=title)[0][1])
        except EventLogError:
            return "NULL", _NULLS, field
    return sql, stored, ""


def find_column(name: str, names: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """The column that `name` is, or the longest one before a dot in it, and the fields within it.

    None if there is no such column.
    """
    if name in names:
        return name, ()
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        if (outer := ".".join(parts[:end])) in names:
            return outer, tuple(parts[end:])
    return None


_INTEGER = "U?(TINYINT|SMALLINT|INTEGER|BIGINT)"
_FRACTIONS = ("FLOAT", "DOUBLE")
# Makers of microseconds, because a cast could round into the next period. Infinity is the largest
# integer, or null.
_NANOSECONDS = {"TIMESTAMP_NS": "make_timestamp", "TIMESTAMPTZ_NS": "make_timestamptz"}
# of a column of nothing, which is of any type: whoever wrote it may have taken the type from the
# rows
_NULLS = '"NULL"'
_TEXT = r"VARCHAR|UUID|U?HUGEINT|DECIMAL\(.*\)|ENUM\(.*\)"  # printed exactly, and compared as text
_LABELS: tuple[tuple[Kind, str], ...] = (("int", _INTEGER), ("str", _TEXT))
_OF_LABELS = (
    "users, items and groups must be integers, decimals or text; cast the column to one of them"
)
# The kinds of each role's types, as the engine calls them, the first that fits; and what is said of
# others.
_KINDS: dict[str, tuple[tuple[tuple[Kind, str], ...], str]] = {
    "value": (
        (("int", _INTEGER), ("number", r"FLOAT|DOUBLE|U?HUGEINT|DECIMAL\(.*\)"), ("str", _TEXT)),
        "values must be numbers or text; cast the column to one of them",
    ),
    "time": (
        (
            ("wall", "DATE|TIMESTAMP(_S|_MS|_NS)?"),
            ("instant", "TIMESTAMP WITH TIME ZONE|TIMESTAMPTZ_NS"),
            ("int", _INTEGER),
            ("str", "VARCHAR"),
        ),
        "times must be dates, timestamps or ISO 8601 text",
    ),
}
_COMPARED: tuple[tuple[Kind, str], ...] = (
    ("int", _INTEGER),
    ("number", "FLOAT|DOUBLE"),
    ("str", f"BOOLEAN|DATE|{_TEXT}"),
)


def kind_of(
    role: str, name: object, stored: str, title: str, type_name: str | None = None
) -> Kind | None:
    """Kind of a column for its role, from its type in the engine.

    None for a column of nothing, or for values that no condition compares. Errors call the type as
    the source does.
    """
    if stored == _NULLS:
        return None
    type_name = re.split(r"[<(]", type_name or stored)[0][:40]  # an ENUM lists its values
    kinds, rule = (_COMPARED, "") if is_condition(role) else _KINDS.get(role, (_LABELS, _OF_LABELS))
    for kind, types in kinds:
        if re.fullmatch(types, stored, re.DOTALL):
            return kind
    if is_condition(role):
        return None
    if is_label(role) and stored in ("FLOAT", "DOUBLE"):
        rule = (
            "1 would be written 1.0 (pandas stores integers so where one is missing); cast the"
            " column to integers (Int64 in pandas) or to text"
        )
    type_name = "STRUCT" if stored.startswith("STRUCT") else type_name
    raise EventLogError(f"{role}={name!r} of {title} is of type {type_name}: {rule}")


def _position(column: Column) -> int | None:
    """0-based position for 1, "1" or "column0" (all the first column), or None for a name."""
    if isinstance(column, int):
        return column - 1 if column >= 1 else None
    match = _NUMBERED.fullmatch(column)
    if match is None:
        return None
    return int(match["one"]) - 1 if match["one"] else int(match["zero"])


def positions_by_name(
    role_columns: RoleColumns,
    names: Sequence[str],
    title: str,
    *,
    header: bool = True,
    listed: bool = True,
) -> dict[str, int]:
    """0-based positions, by role, among `names`, which the error lists if `listed`.

    An integer is a position from 1. Without a header the columns have no names, and all are given
    by position.
    """
    return {
        role: place
        for role, (place, _) in positions_by_path(
            role_columns, names, title, header=header, listed=listed, paths=False
        ).items()
    }


def positions_by_path(
    role_columns: RoleColumns,
    names: Sequence[Any],
    title: str,
    *,
    header: bool = True,
    listed: bool = True,
    paths: bool = True,
    positions: bool = True,
) -> dict[str, tuple[int, tuple[str, ...]]]:
    """0-based positions, by role, and the fields within the column if a name has dots.

    A column of exactly that name comes first. With `positions=False` an integer is no position,
    because a table's columns may have integers as names.
    """
    places = dict[str, tuple[int, tuple[str, ...]]]()
    for role, column in role_columns.by_role.items():
        if not header or (positions and isinstance(column, int)):
            place, count = _position(column), len(names)
            if place is None or place >= count:
                columns = (
                    f"{count} columns, so give a number from 1 to {count} ('column0' to"
                    f" 'column{count - 1}' mean the same)"
                )
                if count == 1:
                    columns = "one column, so give 1 ('column0' means the same)"
                raise EventLogError(
                    f"{role_field(role)}={column!r} is not a column of {title}, read without a"
                    f" header: it has {columns}, or state header= if its first line has names"
                )
            places[role] = place, ()
        elif (
            paths
            and isinstance(column, str)
            and column not in names
            and (match := find_column(column, names)) is not None
        ):
            places[role] = place_of(role, match[0], names, title), match[1]
        elif listed or column in names:
            places[role] = place_of(role, column, names, title), ()
        else:
            numbers = "number 1" if len(names) == 1 else f"numbers from 1 to {len(names)}"
            raise EventLogError(
                f"{role_field(role)}={column!r} is not a column of {title}: its first line does not"
                " name it, and may be data, so is not shown; without a header, give column"
                f" {numbers}; with one, state header= to see its names, and remove lines above it,"
                " such as a title, or state comment= if they begin with one character"
            )
    for first, second in itertools.combinations(places, 2):
        if places[first] == places[second]:
            require_apart(first, second, f"number {places[first][0] + 1} of {title}")
    return places


def require_apart(first: str, second: str, column: str) -> None:
    """Refuse one column for two roles.

    A condition may be about a column that has another role, except for the users' column.
    """
    if not is_condition(second):
        raise EventLogError(
            f"{first} and {second} are the same column, {column}: an event needs one of each"
        )
    if role_field(first) == "user":
        raise EventLogError(
            f"where= is about the column of users, {column}: which users are looked at is no"
            " condition on their events. Use a column of another kind"
        )


def place_of(field: str, column: object, names: Sequence[object], title: str) -> int:
    """0-based position of the one column of exactly this name. The error lists the columns."""
    field = role_field(field)
    if column not in names:
        listing = ", ".join(map(repr, names[:_MOST_LISTED])) or "none"
        more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
        raise EventLogError(
            f"{field}={column!r} is not a column of {title}: its columns are {listing}{more}"
        )
    if names.count(column) > 1:
        raise EventLogError(
            f"{field}={column!r} names more than one column of {title}. Rename all but one of them"
        )
    return names.index(column)
