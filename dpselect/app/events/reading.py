"""`Reading`, all options of how a log is read, in one frozen object."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import Any, Self, final

from pydantic import Field, SkipValidation, model_validator

from accounting.arguments import quote, quote_setting
from dpselect.app.events.catalog import (
    Labels,
    ListOptions,
    catalog_labels,
    list_labels,
    normalize_labels,
    public_list,
)
from dpselect.app.events.contributions import (
    Amount,
    Clip,
    ContributionLimit,
    Contributions,
    Measure,
    amount_of,
    require_weights,
)
from dpselect.app.events.engine import Engine
from dpselect.app.events.file_options import FILE_OPTIONS, FileKeywords, FileOptions
from dpselect.app.events.sources.base import Column, RoleColumns, SourceRequest
from dpselect.app.events.time_window import Moment, Unit, Window
from dpselect.app.events.where import conditions
from dpselect.errors import EventLogError
from dpselect.selection import Label
from dpselect.sensitivity import Norm

ProgressCallback = Callable[[int, int], None]
"""A function called with (steps done, steps in all). It gets nothing else about the data."""

_MOST_BUCKETS = 1024
# Of either bound a user's weights are 2^-20 or more: each item in l2 under the least clip, each
# group as `PRESENT` clips it.
_MOST_ITEMS, _MOST_GROUPS = 10**6, 10**12
_LEAST_CLIP, _MOST_CLIP = 2.0**-10, 2.0**11
_LEAST_AMOUNT, _MOST_AMOUNT = 2.0**-40, 2.0**50


@final
class Reading(FileOptions):
    """Options of how a log is read: columns, events, items and contribution bounds. Frozen, public.

    Make it once and pass it on: `events.read(log, reading)` and `events.hold(log, reading)` take it
    in place of their keywords, which are its fields. Change it by
    `model_copy(update={"clip": 2.0})`, which checks everything again. All checks that need no log
    are made here, and an unknown field is refused. It does not hold the log itself, the `progress`
    callback or any result.

    Attributes:
        user: the column of users: its exact name or, in CSV and TSV, its position (1, "1" and
            "column0" are the first). Several columns (at most 8), such as a tenant and a number
            within it, make up one user, as those of an item do.
        item: the column of items, likewise. Several columns (at most 8) make up one item: its label
            is a record of CSV, "DE,Berlin", with quotes where a part has a comma, a quote or a line
            end, or is empty; an event needs all parts.
        group: the column of groups, likewise; None to count the log as a whole.
        groups: the groups to look at, a public list, or a file of them for `read_catalog`; other
            groups take no place under the bound. None takes those of the log, which are private, so
            `PerGroup` then needs a `discovery`.
        max_groups_per_user: keep at most this many groups of each user, chosen as items are, with
            the group in place of the item; needed with `group`. `max_items_per_user` and `clip`
            then hold within each of a user's groups.
        cells: with `group`, count cells of a group and an item (`dpselect.cells`) in place of
            items: a user's bound and clip then hold for all of its groups together, and there is
            none on groups.
        max_items_per_user: keep at most this many distinct items of each user: those with the
            smallest first 64 bits of sha256(length(user) ":" user ":" length(item) ":" item ":"
            salt), lengths in code points, integers in decimal; ties by item. The choice for one
            user depends on no other user, nor on the order of the log. At most 10^6, and with a
            clip no more than leave 2^-20 for each item.
        salt: text that makes that choice repeatable; a fresh random one for each reading if None.
            The result records it.
        clip: also sum up clipped counts, in the same reading: a user with t items (kept under the
            bound) adds min(1, clip/sqrt(t)) to each, so that all of a heavy user's items count in
            part and its vector has an l2 norm of at most `clip`; a number from 2^-10 to 2^11, or
            several. Weights are rounded down to multiples of 2^-20, sums are exact.
        clip_norm: "l2", or "l1" for weights min(1, clip/t), which pure budgets need.
        value: a column of numbers to sum up in place of counting users: a user's values of an item
            are added up, the sum is cut to `value_clip`, and these are added up over users. Numbers
            are read as doubles and become whole multiples of 2^-40 of the largest power of two
            within the clip, a user's sum one of 2^-24, to the nearest; sums of these are exact.
            NaN, infinities and text that is not a number are refused; single numbers beyond 2^40
            times that power are cut to it.
        value_clip: C for sums from 0 to C (a user's negative sum counts as 0), or (low, high) with
            low <= 0 < high, score units.
        where: conditions that an event must satisfy to be read, "device = phone" or several:
            `events.where.Condition` says how values compare. Events without a value in the column
            satisfy none. A malformed event still refuses the log if it does not satisfy them.
        time: the column of times, of which only those in [since, until) are read: timestamps,
            dates, or ISO 8601 text. Those with an offset are instants; those without are what a
            clock in `time_zone` showed. Malformed events outside the time range still refuse the
            log.
        since, until: dates or times; in `time_zone` unless they have an offset. They must be
            public.
        time_zone: "UTC", "Europe/Berlin" and so on.
        time_unit: unit of times that are numbers since 1970 in UTC: "s", "ms" or "us".
        within: look at these items only, public or released before: a user's other items are not
            counted and take no place under the bound. The result has one entry for each, in this
            order, 0 where nobody touched it.
        format, header, delimiter, quote, escape, comment, encoding, decimal, time_format, missing,
            null, split, normalize, table, query: options of a file or a database and of how its
            labels are written, explained at `FileOptions`.
        buckets: number of parts, by user, into which the log is cut if that saves memory, 1 to
            1024; None goes by size. It never changes the result.
        memory_limit: memory that the engine may use before it spills to disk, such as "2GiB"; None
            is 320 MiB, or 80 MiB for each core where that is more.

    Raises:
        EventLogError: a value is refused, a field is unknown, or fields contradict each other.

    Example:
        >>> reading = Reading(user="who", item="where", max_items_per_user=5, clip=1.0)
        >>> reading.model_copy(update={"clip": None}).contributions().bound.limit
        5
    """

    # Validated below, so that messages name field, value, rule and remedy in the words of a log.
    user: SkipValidation[Column | tuple[Column, ...]]
    item: SkipValidation[Column | tuple[Column, ...]]
    group: SkipValidation[Column | None] = None
    groups: SkipValidation[tuple[Label, ...] | None] = Field(default=None, repr=False)
    max_groups_per_user: SkipValidation[int | None] = None
    cells: SkipValidation[bool] = False
    max_items_per_user: SkipValidation[int | None] = None
    salt: SkipValidation[str | None] = None
    clip: SkipValidation[float | tuple[float, ...] | None] = None
    clip_norm: SkipValidation[Norm] = "l2"
    value: SkipValidation[Column | None] = None
    value_clip: SkipValidation[float | tuple[float, float] | None] = None
    where: SkipValidation[tuple[str, ...]] = ()
    time: SkipValidation[Column | None] = None
    since: SkipValidation[Moment | None] = None
    until: SkipValidation[Moment | None] = None
    time_zone: SkipValidation[str] = "UTC"
    time_unit: SkipValidation[Unit | None] = None
    within: SkipValidation[tuple[Label, ...] | None] = Field(default=None, repr=False)
    buckets: SkipValidation[int | None] = None
    memory_limit: SkipValidation[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _frozen(cls, data: Any) -> Any:
        """Sequences as tuples, and lists of labels as written. A list of groups may be a file."""
        if not isinstance(data, dict):
            return data
        fields = dict(data)
        for name in ("user", "item", "clip", "value_clip"):
            if isinstance(fields.get(name), Sequence) and not isinstance(fields[name], str):
                fields[name] = tuple(fields[name])
        if "where" in fields:
            fields["where"] = tuple(
                str(condition)
                for condition in conditions(() if fields["where"] is None else fields["where"])
            )
        options = ListOptions(**{name: fields[name] for name in FILE_OPTIONS if name in fields})
        if fields.get("within") is not None:
            fields["within"] = normalize_labels(
                list_labels(fields["within"], "catalog"), options.normalize
            )
        if (groups := fields.get("groups")) is not None:
            fields["groups"] = public_list(
                groups, None, str(fields.get("group")), options, "groups"
            )
        return fields

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.buckets is not None and (
            type(self.buckets) is not int or not 1 <= self.buckets <= _MOST_BUCKETS
        ):
            raise EventLogError(
                f"buckets={quote_setting(self.buckets)} must be a whole number from 1 to"
                f" {_MOST_BUCKETS}, or None to choose by size"
            )
        Engine.require_memory(self.memory_limit)
        if self.group is None and (self.groups is not None or self.max_groups_per_user is not None):
            raise EventLogError(
                "groups= and max_groups_per_user= are about the column group=: name it, or leave"
                " them out"
            )
        if self.cells and (self.group is None or self.value is not None):
            raise EventLogError(
                "cells= counts users of a group and an item. Name the group, group=, and leave"
                " value= out"
            )
        if self.cells and self.max_groups_per_user is not None:
            raise EventLogError(
                f"max_groups_per_user={self.max_groups_per_user!r} bounds no cells=: one bound"
                " holds over all groups together. Leave it out, or bound a user's cells by"
                " max_items_per_user="
            )
        if self.group is not None and self.max_groups_per_user is None and not self.cells:
            raise EventLogError(
                "group= needs max_groups_per_user=: a release costs that many times what it costs"
                " for one group, and a user in any number of groups could not be hidden"
            )
        self.contributions()
        self.request(None)
        return self

    @cached_property
    def role_columns(self) -> RoleColumns:
        """The columns to read."""
        if self.user is None:
            raise EventLogError("user=None is not a column. Give its name, or its number from 1")
        where = [condition.column for condition in conditions(self.where)]
        return RoleColumns.from_columns(
            self.user, self.item, self.group, self.value, self.time, where
        )

    @cached_property
    def window(self) -> Window | None:
        """The time range to read; None for all events."""
        if self.time is not None:
            return Window.between(self.since, self.until, self.time_zone, self.time_unit)
        if (
            self.since is not None
            or self.until is not None
            or self.time_unit is not None
            or self.time_format is not None
        ):
            raise EventLogError(
                "since=, until=, time_unit= and time_format= are about the column time=: name it,"
                " or leave them out"
            )
        return None

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """Quantities per user that are summed up with the count: clips, or the sums of a column."""
        if (self.value is None) != (self.value_clip is None):
            raise EventLogError(
                "value= names a column and value_clip= the most that a user may add to an item."
                " Give both or neither"
            )
        if self.value_clip is not None:
            if self.clip is not None:
                raise EventLogError(
                    "clip= is for counts of users, value_clip= for sums of a column. Give one of"
                    " them"
                )
            return (_amount(self.value_clip),)
        if self.clip_norm not in ("l1", "l2"):
            raise EventLogError(
                f"clip_norm={self.clip_norm!r} must be 'l2' (for gaussian noise) or 'l1' (for"
                " laplace noise)"
            )
        clips = (
            () if self.clip is None else self.clip if isinstance(self.clip, tuple) else (self.clip,)
        )
        for clip in clips:
            if not _LEAST_CLIP <= _number(clip) <= _MOST_CLIP:
                raise EventLogError(
                    f"clip={quote(clip)} must be a number from {_LEAST_CLIP:g} to {_MOST_CLIP:g}:"
                    " the most that one user measures"
                )
        return tuple(dict.fromkeys(Clip(_number(clip), self.clip_norm) for clip in clips))

    def contributions(self) -> Contributions:
        """Contribution bounds of one user, with `salt` or a fresh one, and the lists."""
        salt = check_salt(self.salt)
        if (
            salt is not None
            and self.max_items_per_user is None
            and self.max_groups_per_user is None
        ):
            raise EventLogError(
                f"salt={salt!r} chooses which items are kept, and without max_items_per_user= all"
                " are. Set that too, or leave salt= out"
            )
        salt = secrets.token_hex(16) if salt is None else salt
        bounds: list[ContributionLimit | None] = []
        for field, most in (
            ("max_items_per_user", _MOST_ITEMS),
            ("max_groups_per_user", _MOST_GROUPS),
        ):
            limit = getattr(self, field)
            if limit is not None and (type(limit) is not int or not 1 <= limit <= most):
                power = f"10^{len(str(most)) - 1}"
                raise EventLogError(
                    f"{field}={quote(limit)} must be a whole number >= 1, at most {power}, or None"
                    " for no bound"
                )
            bounds.append(None if limit is None else ContributionLimit(limit, salt))
        items, groups = bounds
        if items is not None:
            require_weights(
                self.measures, items.limit, None if self.within is None else len(self.within)
            )
        allowed = Contributions(
            items, self.measures, groups=groups, normalize=self.normalize, cells=self.cells
        )
        within = None if self.within is None else catalog_labels(self.within)
        listed = None if self.groups is None else catalog_labels(self.groups, title="groups")
        return replace(allowed, within=within, listed=listed)

    def request(self, source: object) -> SourceRequest:
        """The input of a source to read `source` this way."""
        amount = amount_of(self.measures)
        return SourceRequest(
            source,
            self.role_columns,
            self,
            amount=amount,
            window=self.window,
            where=conditions(self.where),
        )


def check_salt(salt: object) -> str | None:
    """Refuse a salt that cannot be hashed."""
    if salt is None:
        return None
    if not isinstance(salt, str) or any("\ud800" <= letter <= "\udfff" for letter in salt):
        raise EventLogError(
            f"salt={salt!r} must be text, without a lone surrogate, which UTF-8 has not; or None"
            " for a fresh one"
        )
    return salt


def _amount(value: Any) -> Amount:
    parts = value if isinstance(value, tuple) else (value,)
    ends = list(map(_number, parts if parts is value else (0.0, value)))
    if len(ends) == 2:
        low, high = ends
        if -_MOST_AMOUNT <= low <= 0 < high <= _MOST_AMOUNT and max(-low, high) >= _LEAST_AMOUNT:
            return Amount(low + 0.0, high + 0.0)  # no negative zero
    raise EventLogError(
        f"value_clip={','.join(map(quote, parts))} must be a number from {_LEAST_AMOUNT:g} to"
        f" {_MOST_AMOUNT:g}, or two of them, (low, high) with low <= 0 < high: the least and the"
        " most that one user may add to an item"
    )


def _number(value: object) -> float:
    """The number as a float, or NaN if it is not one."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.inf


class Options(FileKeywords, total=False):
    """The fields of `Reading` as keywords, except those on which the type of the result depends."""

    max_items_per_user: int | None
    salt: str | None
    clip: float | Sequence[float] | None
    clip_norm: Norm
    value: Column | None
    value_clip: float | tuple[float, float] | None
    where: str | Sequence[str]
    time: Column | None
    since: Moment | None
    until: Moment | None
    time_zone: str
    time_unit: Unit | None
    within: Labels | None
    buckets: int | None
    memory_limit: str | None


class ReadingKeywords(Options, total=False):
    """All fields of `Reading`."""

    user: Column | Sequence[Column]
    item: Column | Sequence[Column]
    group: Column | None
    cells: bool
    groups: Labels | str | os.PathLike[str] | None
    max_groups_per_user: int | None


def reading_of(reading: Reading | None, options: dict[str, Any]) -> Reading:
    """The reading that a function was given, as one object or as keywords."""
    if reading is None:
        return Reading(**options)
    if options:
        raise EventLogError(
            f"{min(options)}= is a field of the reading that was given. State it there, by"
            " model_copy(update=...)"
        )
    return reading
