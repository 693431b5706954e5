"""A Spark table's events as SQL in Spark's words: labels, amounts, and which are of the window.

What this refuses the embedded engine may still read (`24:00`, `1_000`); what both read is one number or moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from dpselect.errors import EventLogError
from dpselect.events.contributions import Amount
from dpselect.events.doors.base import SHORT, Asked, Given, Kind, by_name
from dpselect.events.staging import stated
from dpselect.events.time_window import MICROSECONDS, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WHAT = "this Spark table"
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_TIMES: Mapping[str, Kind] = {"timestamp": "instant", "timestamp_ntz": "wall", "date": "wall"}
_LONGEST = 20  # decimal digits of an unsigned integer of 64 bits, which Spark reads from Parquet as a decimal without fraction
_NUMBER = r"r'\A\s*[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?\s*\z'"
_CLOCK = "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]+)?)?"
_WALL = rf"r'\A(?:[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}|{_CLOCK})\z'"
_INSTANT = rf"r'\A({_CLOCK})(Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)\z'"
_HALF = 2**40  # a whole number of doubles up to 2^80 is added up in two parts: Spark makes no exact decimal of such a double


@final
class SparkLog:
    """The events of a frame, of which every column asked for has a name of its own.

    Attributes:
        stored: Spark's types of users, items and groups.
        sql: a query with u, i, perhaps g and v, beyond (it is outside the window), lacking (it has no value in some role) and
            refused (the role whose value is none, as in `staging.shaped`).
    """

    def __init__(self, given: Given, frame: DataFrame, relation: str) -> None:
        places, asked = by_name(given.asked, frame.columns, WHAT), given.asked
        kinds = {role: frame.dtypes[place][1] for role, place in places.items()}
        names = {role: f"c{place}" for role, place in places.items()}
        parts = [role for role in places if role not in ("user", "group", "value", "time")]
        stored = {role: _stored(role, asked.columns[role], kinds[role]) for role in places if role not in ("value", "time")}
        casts = {role: f"CAST({names[role]} AS {kind})" for role, kind in stored.items()}
        if asked.further:
            casts["item"], stored["item"] = " || ',' || ".join(_record(casts[role]) for role in parts), "STRING"
        self.stored = {role: kind for role, kind in stored.items() if role in ("user", "item", "group")}
        columns = [f"{casts[role]} AS {SHORT[role]}" for role in self.stored]
        beyond, bad = "false", ""
        if given.window is not None:
            moment, wall = _moment(names["time"], kinds["time"], asked, given.window)
            columns += [f"{names['time']} IS NOT NULL AS timed", f"{moment} AS t", f"{wall} AS wall"]
            beyond, bad = f"t IS NOT NULL AND NOT ({given.window.holds('t', 'wall')})", "WHEN timed AND t IS NULL THEN 'time' "
        if given.amount is not None:
            columns += [f"{names['value']} IS NOT NULL AS valued", f"{_number(names['value'], kinds['value'], asked)} AS x"]
            bad += "WHEN valued AND v IS NULL THEN 'value' "
        inner = f"SELECT {', '.join(columns)} FROM {relation}"
        if given.amount is not None:  # the largest double is also below NaN, as Spark orders them
            most = f"{given.amount.most!r}D"
            cut = f"IF(abs(x) <= 1.7976931348623157E308D, greatest(-{most}, least({most}, x)), NULL)"
            inner = f"SELECT *, {cut} AS v FROM ({inner})"
        lacking = " OR ".join(f"{SHORT[role]} IS NULL" for role in asked.roles)
        refused = f"CASE {bad}END" if bad else "CAST(NULL AS STRING)"
        self.sql = f"SELECT *, {beyond} AS beyond, {lacking} AS lacking, {refused} AS refused FROM ({inner})"


def fine(amount: Amount) -> str:
    """SQL of the sum of values v in units of 2^(exponent - 40), as `Amount.fine` has it, cut to where every clip cuts it."""
    whole = f"rint(v * {2.0 ** (40 - amount.exponent)!r}D)"
    high = f"floor({whole} / {_HALF}D)"
    low = f"CAST({whole} - {high} * {_HALF}D AS BIGINT)"
    total = f"sum(CAST({high} AS DECIMAL(20, 0))) * {_HALF} + sum(CAST({low} AS DECIMAL(20, 0)))"
    return f"CAST(greatest(-{2**60}, least({2**60}, {total})) AS BIGINT)"


def _stored(role: str, name: object, kind: str) -> str:
    if kind in _WHOLE:
        return "BIGINT"
    if _is_text(kind):
        return "STRING"
    if kind.startswith("decimal(") and kind.endswith(",0)") and int(kind[8:-3]) <= _LONGEST:
        return "DECIMAL(20, 0)"
    raise EventLogError(
        f"{role}={name!r} of {WHAT} is of type {kind.split('<')[0]}: users, items and groups must be integers of at most 64 bits "
        "or text of the binary collation; cast the column to one of them"
    )


def _is_text(kind: str) -> bool:
    return kind == "string" or kind.startswith(("varchar(", "char("))


def _record(part: str) -> str:
    """SQL of a field of a record, as `catalogue.joined` writes it."""
    text = f"CAST({part} AS STRING)"
    return f"IF({text} = '' OR {text} RLIKE r'[,\"\\r\\n]', '\"' || replace({text}, '\"', '\"\"') || '\"', {text})"


def _number(column: str, kind: str, asked: Asked) -> str:
    if _is_text(kind):
        return f"IF({column} RLIKE {_NUMBER}, TRY_CAST({column} AS DOUBLE), NULL)"
    if kind in _WHOLE or kind in ("float", "double") or kind.startswith("decimal("):
        return f"CAST({column} AS DOUBLE)"
    raise EventLogError(
        f"value={asked.value!r} of {WHAT} is of type {kind.split('<')[0]}: values must be numbers or text; cast the column"
    )


def _moment(column: str, kind: str, asked: Asked, window: Window) -> tuple[str, str]:
    """SQL of a time as microseconds, null if it is none, and of whether they are of the clock on the wall."""
    known: Kind | None = "int" if kind in _WHOLE else "str" if _is_text(kind) else _TIMES.get(kind)
    if known is None:
        raise EventLogError(
            f"time={asked.time!r} of {WHAT} is of type {kind.split('<')[0]}: times must be dates, timestamps or ISO 8601 text"
        )
    stated(known, asked, window, WHAT)
    if window.unit is not None:
        whole = column if known == "int" else f"IF({column} RLIKE r'\\A-?[0-9]{{1,19}}\\z', {column}, NULL)"
        return f"CAST({whole} AS DECIMAL(20, 0)) * {MICROSECONDS[window.unit]}", "false"
    if known == "instant":
        return f"unix_micros({column})", "false"
    if known == "wall":
        return _microseconds(f"CAST({column} AS TIMESTAMP_NTZ)"), "true"
    texts = column, f"regexp_extract({column}, {_INSTANT}, 1)"
    clock, local = (_microseconds(f"TRY_CAST({text} AS TIMESTAMP_NTZ)") for text in texts)
    zone = f"regexp_extract({column}, {_INSTANT}, 2)"
    digits = f"regexp_replace({zone}, '[^0-9]', '')"
    hours, minutes = (f"CAST(concat('0', substring({digits}, {start}, 2)) AS BIGINT)" for start in (1, 3))
    offset = f"IF({zone} LIKE '-%', -1L, 1L) * ({hours} * 60L + {minutes}) * 60000000L"
    text = f"CASE WHEN {column} RLIKE {_WALL} THEN {clock} WHEN {column} RLIKE {_INSTANT} THEN {local} - {offset} END"
    return text, f"coalesce({column} RLIKE {_WALL}, true)"


def _microseconds(clock: str) -> str:
    """SQL of microseconds since 1970 of a time without a zone; what the session's zone is does not matter."""
    day, second = f"unix_date(CAST({clock} AS DATE)) * 86400000000L", f"CAST(extract(SECOND FROM {clock}) * 1000000 AS BIGINT)"
    return f"({day} + hour({clock}) * 3600000000L + minute({clock}) * 60000000L + {second})"
