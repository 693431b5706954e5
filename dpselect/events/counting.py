"""Distinct users per item, or per group and item: the pairs of a log in the engine that read it, counted by one SQL in any."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any, Protocol, Self, final

import numpy as np
from numpy.typing import NDArray

from dpselect.cells import CELL
from dpselect.events.contributions import PRESENT, ContributionLimit, Contributions, respent, summed
from dpselect.events.dialect import Dialect
from dpselect.events.held import Tally
from dpselect.events.private import ReadReport
from dpselect.events.reading import Reading
from dpselect.events.sources.base import Kind, Kinds, literal
from dpselect.events.staging import Staged
from dpselect.events.user_counts import EventCounts, GroupCounts
from dpselect.selection import Label


class Tables(Protocol):
    """Relations of one count in an engine, which go when it is closed.

    Attributes:
        dialect: the engine's words.
        bucket: SQL of a number from 0 by which items are looked for: a function of i alone.
        most_ranked: how many pairs of integers are ranked at once.
    """

    dialect: Dialect
    bucket: str
    most_ranked: int

    def another(self) -> Self:
        """Relations of another count, in the same engine."""

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a query."""

    def columns(self, sql: str) -> list[NDArray[Any]]:
        """All columns of a query without nulls: whole numbers, or text."""

    def made(self, name: str, sql: str, *, computed: bool = False) -> str:
        """What the result of a query is called from now on, in place of another that had this name; with one row per group, it is
        small. If `computed`, nothing is read for it again.
        """

    def added(self, name: str, sql: str) -> str:
        """The same with the rows that are there already."""

    def listed(self, name: str, labels: Sequence[Label], kind: Kind, numbers: Sequence[int] | None = None) -> str:
        """The same of labels in the column i; with `numbers` also d, the number of each, and place, where it stands."""

    def close(self) -> None:
        """Drop them."""


@final
class KeptPairs:
    """The pairs of a log in an engine. Close it.

    Args:
        tables: relations of the engine, the pairs among them.
        several: whether the pairs are kept for several counts; else there is one, which may use them up.
        stack: what is closed with it.
    """

    def __init__(self, staged: Staged, tables: Tables, stack: ExitStack, *, several: bool) -> None:
        self._staged, self._tables, self._stack, self._several = staged, tables, stack, several

    @property
    def kinds(self) -> Kinds:
        """What users, items and groups are, by the types of the source."""
        return self._staged.kinds

    def counted(self, reading: Reading) -> EventCounts | GroupCounts:
        """The counts of the pairs under the bounds of this reading."""
        allowed = reading.contributions(self.kinds)
        integers = self._item(allowed) == "int"
        with closing(self._tables.another()) as tables:
            totals, presence, report = self._counted(tables, tables, allowed)
            names = ", ".join(["n", *allowed.sums])
            # In order of the label, numbers as numbers and text by code point: positions do not tell the order of the log.
            if allowed.groups is None:
                items, *sums = tables.columns(f"SELECT i, {names} FROM {totals} ORDER BY i")
                return EventCounts.of(allowed, report, items.tolist(), np.array(sums, dtype=np.int64), integers=integers)
            labels = list[list[Label]]()
            for table, column in (("groups", "g"), ("items", "i")):
                numbered = f"SELECT {column}, row_number() OVER (ORDER BY {column}) - 1 AS place"
                numbers = tables.made(table, f"{numbered} FROM (SELECT DISTINCT {column} FROM {totals})")
                labels.append(tables.columns(f"SELECT {column} FROM {numbers} ORDER BY place")[0].tolist())
                placed = f"SELECT * EXCLUDE ({column}, place), place AS {column}"
                totals = f"({placed} FROM {totals} AS t JOIN {numbers} AS n USING ({column}))"
            # In columns: a log has many more cells than it has labels.
            group, item, *sums = tables.columns(f"SELECT g, i, {names} FROM {totals} ORDER BY g, i")
            present = tables.columns(f"SELECT CAST(sum(w) AS BIGINT) AS w FROM {presence} GROUP BY g ORDER BY g")[0]
        cells = (group.astype(np.int64), item.astype(np.int64))
        found = np.array(sums, dtype=np.int64)
        return GroupCounts.of(allowed, report, (labels[0], labels[1]), cells, found, present, integers=integers)

    def tally(self, reading: Reading) -> tuple[Tally, Contributions]:
        """The same counts, which stay in the engine; of pairs that are not for several counts nothing else does."""
        allowed = reading.contributions(self.kinds)
        kind, numbers = self._item(allowed), iter(range(2**63))
        with ExitStack() as stack:
            kept = self._tables.another()
            stack.callback(kept.close)
            with closing(self._tables.another()) as tables:
                relation, _, report = self._counted(kept, tables, allowed)
            if not self._several:
                self._tables.close()
            stack.pop_all()
        self._stack.callback(kept.close)
        held = Tally(
            run=kept.run,
            listing=lambda labels: kept.listed(f"listed_{next(numbers)}", labels, kind),
            bucket=kept.bucket,
            relation=relation,
            integers=kind == "int",
            report=report,
            drop=kept.close,
        )
        return held, allowed

    def items(self, reading: Reading) -> NDArray[np.float64]:
        """(users,) how many items each user has, of those that are looked at."""
        with closing(self._tables.another()) as tables:
            looked = self._looked_at(tables, reading.contributions(self.kinds))
            return tables.columns(f"SELECT count(*) AS t FROM {looked} GROUP BY u")[0].astype(np.float64)

    def items_per_group(self, reading: Reading) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(users,) in how many groups each user is, and how many items of each of them they have on average."""
        with closing(self._tables.another()) as tables:
            looked = self._looked_at(tables, reading.contributions(self.kinds))
            found = tables.columns(f"SELECT count(DISTINCT g) AS n, count(*) AS t FROM {looked} GROUP BY u")
        groups, items = (each.astype(np.float64) for each in found)
        return groups, items / np.maximum(groups, 1.0)

    def weighed(self, reading: Reading, labels: Sequence[Label], numbers: NDArray[np.int64], norm: float) -> NDArray[np.int64]:
        """(n,) sums of what users spend on these items, of the pairs that the bounds of this reading keep: see `respent`."""
        allowed = reading.contributions(self.kinds)
        sums = np.zeros(len(labels), dtype=np.int64)
        with closing(self._tables.another()) as tables:
            kept = self._looked_at(tables, allowed)
            if allowed.bound is not None:
                held = tables.made("held", f"SELECT u, count(*) AS t FROM {kept} GROUP BY u")
                kept = f"({allowed.bound.kept(kept, held, tables.dialect)})"
            asked = tables.listed("asked", labels, self._item(allowed), numbers.tolist())
            chosen = f"SELECT u, CAST(d AS HUGEINT) AS d, place FROM {kept} AS k JOIN {asked} AS a USING (i)"
            spending = tables.made("spending", chosen)
            sized = f"SELECT * FROM {spending} AS p JOIN (SELECT u, sum(d * d) AS s FROM {spending} GROUP BY u) AS q USING (u)"
            spent = f"SELECT place, {respent(norm)} AS w FROM ({sized})"
            place, total = tables.columns(f"SELECT place, CAST(sum(w) AS BIGINT) AS w FROM ({spent}) GROUP BY place")
        sums[place.astype(np.int64)] = total
        return sums

    def close(self) -> None:
        """Drop the pairs, and the totals of every count."""
        self._stack.close()

    def _item(self, allowed: Contributions) -> Kind:
        return "str" if allowed.cells else self.kinds["item"]

    def _looked_at(self, tables: Tables, allowed: Contributions) -> str:
        """SQL of the pairs of the items and groups that are listed; or of their cells, of which those are."""
        looked = self._staged.pairs
        if allowed.listed is not None:
            groups = tables.listed("listed_groups", allowed.listed, self.kinds["group"])
            looked = f"(SELECT * FROM {looked} AS p SEMI JOIN (SELECT i AS g FROM {groups}) AS l USING (g))"
        if allowed.cells:
            looked = f"({cells_of(looked, None)})"
        if allowed.within is not None:
            items = tables.listed("listed_items", allowed.within, self._item(allowed))
            looked = f"(SELECT * FROM {looked} AS p SEMI JOIN {items} AS l USING (i))"
        return looked

    def _counted(self, kept: Tables, tables: Tables, allowed: Contributions) -> tuple[str, str, ReadReport]:
        """A relation in `kept` of what is counted, with n users and sums of weights; users present in groups; and the report.

        Args:
            tables: for what is needed until then.
        """
        staged, presence, pairs = self._staged, "presence", 0
        if staged.counted:  # the pass that grouped the log has counted all, and has events that do not count, too
            found = f"(SELECT i, n FROM {staged.counted} WHERE apart = 0)"
            if allowed.within is not None:
                items = tables.listed("listed_items", allowed.within, self._item(allowed))
                found = f"(SELECT * FROM {found} AS p SEMI JOIN {items} AS l USING (i))"
            pairs = number(tables, f"SELECT sum(n) FROM {found}")
            staged.report_progress(1, 1)
        else:
            looked, parts = self._looked_at(tables, allowed), 1 if allowed.groups is None else staged.buckets
            for at in range(parts):
                part = looked if parts == 1 else f"(SELECT * FROM {looked} WHERE hash(u) % {parts} = {at})"
                added, found, presence = self._add(tables, part, allowed)
                pairs += added
                staged.report_progress(at + 1, parts)
        sums = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("n", *allowed.sums))
        cells = f"SELECT {allowed.cell}, {sums} FROM {found} GROUP BY {allowed.cell} HAVING sum(n) > 0"
        relation = kept.made("counted", cells, computed=True)
        counted = number(kept, f"SELECT sum(n) FROM {relation}")
        return relation, presence, staged.figures.report(pairs, counted)

    def _add(self, tables: Tables, pairs: str, allowed: Contributions) -> tuple[int, str, str]:
        """Add the pairs of some users to the totals: how many there are before the bounds, the totals, and users in groups."""
        owner, bound, presence = allowed.owner, allowed.bound, ""
        weighed = bound is not None or bool(allowed.clips)
        if allowed.groups is not None or (allowed.within is not None and weighed):
            pairs = tables.made("part", f"SELECT * FROM {pairs}")
        found, many, beyond = number(tables, f"SELECT count(*) FROM {pairs}"), 0, ""
        if allowed.groups is not None:
            pairs, presence = _in_groups(tables, pairs, allowed.groups)
        light = pairs
        if weighed:
            held = tables.made("held", f"SELECT {owner}, count(*) AS t FROM {pairs} GROUP BY {owner}")
            if bound is not None:
                beyond = f"(SELECT * FROM {held} WHERE t > {bound.limit})"
                many = number(tables, f"SELECT sum(t) FROM {beyond}")
            if many or _by_owner(allowed):
                fine = held if bound is None or not many else f"(SELECT * FROM {held} WHERE t <= {bound.limit})"
                columns = f"{owner}{_weights(allowed)}" if _by_owner(allowed) else owner
                join = "JOIN" if _by_owner(allowed) else "SEMI JOIN"
                light = f"(SELECT * FROM {pairs} AS p {join} (SELECT {columns} FROM {fine}) AS h USING ({owner}))"
            if not _by_owner(allowed) and allowed.clips:
                light = f"(SELECT *{_weights(allowed)} FROM {light})"
        totals = tables.added("totals", _total(light, allowed))
        if bound is not None and many:  # only who is beyond the bound is ranked: in parts, since that takes memory
            texts = sum(self.kinds[role] == "str" for role in ("user", "item"))
            parts = max(self._staged.buckets if self._staged.stated else 1, -(-many * (1 + 2 * texts) // tables.most_ranked))
            owners = f"SELECT * FROM {pairs} AS p SEMI JOIN {beyond} AS h USING ({owner})"
            for at in range(parts):
                part = "" if parts == 1 else f" WHERE hash(u) % {parts} = {at}"
                ranked = bound.ranked(f"({owners}{part})", tables.dialect, owner)
                heavy = f"(SELECT *{_weights(allowed)} FROM (SELECT *, {bound.limit} AS t FROM ({ranked})))"
                totals = tables.added("totals", _total(heavy, allowed))
        return found, totals, presence


def _in_groups(tables: Tables, pairs: str, bound: ContributionLimit) -> tuple[str, str]:
    """The pairs of the groups that each user keeps, and who is present in these, with those that were there already."""
    present = tables.made("present", f"SELECT DISTINCT u, g FROM {pairs}")
    attended = tables.made("attended", f"SELECT u, count(*) AS t FROM {present} GROUP BY u")
    if number(tables, f"SELECT max(t) FROM {attended}") > bound.limit:
        present = tables.made("kept", bound.kept(present, attended, tables.dialect, chosen="g"))
        pairs = tables.made("part", f"SELECT * FROM {pairs} AS p SEMI JOIN {present} AS k USING (u, g)")
    weights = f"SELECT u, {PRESENT.weight()} AS w FROM (SELECT u, least(t, {bound.limit}) AS t FROM {attended})"
    presence = f"SELECT g, sum(w) AS w FROM {present} AS p JOIN ({weights}) AS w USING (u) GROUP BY g"
    return pairs, tables.added("presence", presence)


def cells_of(relation: str, groups: Sequence[Label] | None) -> str:
    """SQL of (user, cell) pairs of a relation with the columns u, g and i; of these groups alone, if they are listed."""
    listed = "" if groups is None else f" WHERE CAST(g AS VARCHAR) IN ({', '.join(literal(str(group)) for group in groups)})"
    return f"SELECT u, {CELL} AS i FROM {relation}{listed}"


def number(tables: Tables, sql: str) -> int:
    """The one number of a query, 0 for none."""
    return int(tables.run(sql)[0][0] or 0)


def _by_owner(allowed: Contributions) -> bool:
    """Whether all pairs of an owner have the same weights."""
    return bool(allowed.clips) and summed(allowed.clips) is None


def _weights(allowed: Contributions) -> str:
    """SQL columns of the weights of a pair, from t, how many its owner keeps, or s, what its owner adds."""
    return "".join(f", {clip.weight()} AS {name}" for clip, name in zip(allowed.clips, allowed.sums, strict=True))


def _total(weighed: str, allowed: Contributions) -> str:
    sums = "".join(f", sum({name}) AS {name}" for name in allowed.sums)
    return f"SELECT {allowed.cell}, count(*) AS n{sums} FROM {weighed} GROUP BY {allowed.cell}"
