"""Distinct users per item, or per group and item, counted by the same SQL in every engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from accounting.numbers import Integers
from dpselect.app.events.contributions import (
    PRESENT,
    Clip,
    ContributionLimit,
    Contributions,
    ReadReport,
    amount_of,
)
from dpselect.app.events.dialect import Tables
from dpselect.app.events.sources.base import Kind, literal
from dpselect.app.events.staging import Staged
from dpselect.app.events.user_counts import EventCounts, GroupCounts
from dpselect.cells import CELL
from dpselect.selection import Label


@final
@dataclass(frozen=True, slots=True)
class Count:
    """One count of the pairs of a log.

    Attributes:
        staged: the pairs.
        tables: the relations of this count, in the engine that has the pairs.
        allowed: the contribution bounds.
        parts: number of parts in which users beyond the bound are ranked, if the caller chose it.
    """

    staged: Staged
    tables: Tables
    allowed: Contributions
    parts: int | None

    @property
    def kind(self) -> Kind:
        """Type of the items."""
        return "str" if self.allowed.cells else self.staged.kinds["item"]

    def read(self) -> EventCounts | GroupCounts:
        """The counts, in memory."""
        tables, allowed = self.tables, self.allowed
        totals, presence, report = self.totals(tables)
        names = ", ".join(["n", *allowed.sums])
        # In order of the label, numbers as numbers and text by code point: positions do not tell
        # the order of the log.
        if allowed.groups is None:
            items, *sums = tables.columns(f"SELECT i, {names} FROM {totals} ORDER BY i")
            return EventCounts.from_sums(
                allowed, report, items.tolist(), np.array(sums, dtype=np.int64)
            )
        labels = list[list[Label]]()
        for table, column in (("groups", "g"), ("items", "i")):
            rank_sql = f"SELECT {column}, row_number() OVER (ORDER BY {column}) - 1 AS place"
            numbers = tables.store(
                table, f"{rank_sql} FROM (SELECT DISTINCT {column} FROM {totals})"
            )
            labels.append(
                tables.columns(f"SELECT {column} FROM {numbers} ORDER BY place")[0].tolist()
            )
            place_sql = f"SELECT * EXCLUDE ({column}, place), place AS {column}"
            totals = f"({place_sql} FROM {totals} AS t JOIN {numbers} AS n USING ({column}))"
        # In columns: a log has many more cells than it has labels.
        group, item, *sums = tables.columns(f"SELECT g, i, {names} FROM {totals} ORDER BY g, i")
        present = tables.columns(
            f"SELECT CAST(sum(w) AS BIGINT) AS w FROM {presence} GROUP BY g ORDER BY g"
        )[0]
        cells = (group.astype(np.int64), item.astype(np.int64))
        cell_sums = np.array(sums, dtype=np.int64)
        return GroupCounts.from_sums(
            allowed, report, (labels[0], labels[1]), cells, cell_sums, present
        )

    def weigh(self, labels: Sequence[Label], norm: float) -> Integers:
        """Return (n,) sums of users' weights of these items, in units of 2^-20.

        A user's pairs among them, of those that were kept for the counts, share the l2 norm `norm`.
        """
        tables, bound, pairs = self.tables, self.allowed.bound, self._candidate_pairs()
        if bound is not None:
            sizes = tables.store("held", f"SELECT u, count(*) AS t FROM {pairs} GROUP BY u")
            pairs = f"({bound.kept_rows(pairs, sizes, tables.dialect)})"
        listed = tables.store_labels("asked", labels, self.kind, placed=True)
        spending = tables.store(
            "spending", f"SELECT u, place FROM {pairs} AS k JOIN {listed} AS a USING (i)"
        )
        rows = (
            f"SELECT * FROM {spending} AS p JOIN (SELECT u, count(*) AS t FROM {spending} GROUP"
            " BY u) AS q USING (u)"
        )
        weights = f"SELECT place, {Clip(norm, 'l2').weight()} AS w FROM ({rows})"
        place, total = tables.columns(
            f"SELECT place, CAST(sum(w) AS BIGINT) AS w FROM ({weights}) GROUP BY place"
        )
        sums = np.zeros(len(labels), dtype=np.int64)
        sums[place.astype(np.int64)] = total
        return sums

    def totals(self, target: Tables) -> tuple[str, str, ReadReport]:
        """The counted relation in `target`, the relation of users per group, and the report.

        The counted relation has n, the users, and the sums of weights.
        """
        staged, allowed, presence, pairs = self.staged, self.allowed, "presence", 0
        source, parts = self._candidate_pairs(), 1 if allowed.groups is None else staged.buckets
        for at in range(parts):
            part = self._part(at, parts)
            pair_count, totals, presence = self._add(
                source if parts == 1 else f"(SELECT * FROM {source}{part})"
            )
            pairs += pair_count
            staged.report_progress(at + 1, parts)
        sums = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("n", *allowed.sums))
        cells = f"SELECT {allowed.cell}, {sums} FROM {totals} GROUP BY {allowed.cell}"
        relation = target.store("counted", cells, computed=True)
        left_out = pairs - number(target, f"SELECT sum(n) FROM {relation}")
        return relation, presence, replace(staged.report, pairs=pairs, pairs_left_out=left_out)

    def _candidate_pairs(self) -> str:
        """SQL of the pairs of the listed items and groups, or of their cells."""
        source, allowed, tables = self.staged.pairs, self.allowed, self.tables
        if allowed.listed is not None:
            groups = tables.store_labels(
                "listed_groups", allowed.listed, self.staged.kinds["group"]
            )
            source = (
                f"(SELECT * FROM {source} AS p SEMI JOIN (SELECT i AS g FROM {groups}) AS l USING"
                " (g))"
            )
        if allowed.cells:
            source = f"({cells_of(source, None)})"
        if allowed.within is not None:
            items = tables.store_labels("listed_items", allowed.within, self.kind)
            source = f"(SELECT * FROM {source} AS p SEMI JOIN {items} AS l USING (i))"
        return source

    def _add(self, pairs: str) -> tuple[int, str, str]:
        """Add the pairs of some users to the totals.

        Returns:
            The number of pairs before the bounds, the totals, and the relation of users per group.
        """
        tables, allowed, bound, owner = (
            self.tables,
            self.allowed,
            self.allowed.bound,
            self.allowed.owner,
        )
        by_owner, presence, many = (bool(allowed.clips) and amount_of(allowed.clips) is None, "", 0)
        if allowed.groups is not None or (
            allowed.within is not None and (bound is not None or allowed.clips)
        ):
            pairs = tables.store("part", f"SELECT * FROM {pairs}")
        pair_count = number(tables, f"SELECT count(*) FROM {pairs}")
        if allowed.groups is not None:
            pairs, presence = self._pairs_in_groups(pairs, allowed.groups)
        light = pairs
        if bound is not None or by_owner:
            light = sizes = tables.store(
                "held", f"SELECT {owner}, count(*) AS t FROM {pairs} GROUP BY {owner}"
            )
            if bound is not None:
                heavy = f"(SELECT * FROM {sizes} WHERE t > {bound.limit})"
                many = number(tables, f"SELECT sum(t) FROM {heavy}")
                light = f"(SELECT * FROM {sizes} WHERE t <= {bound.limit})" if many else sizes
            light = (
                f"(SELECT * FROM {pairs} AS p JOIN {light} AS h USING ({owner}))"
                if many or by_owner
                else pairs
            )
        totals = tables.append("totals", self._total(light))
        # only who is beyond the bound is ranked: in parts, since that takes memory
        if bound is not None and many:
            texts = sum(self.staged.kinds[role] == "str" for role in ("user", "item"))
            parts = max(self.parts or 1, -(-many * (1 + 2 * texts) // tables.most_ranked))
            owners = f"SELECT * FROM {pairs} AS p SEMI JOIN {heavy} AS h USING ({owner})"
            for at in range(parts):
                part = self._part(at, parts)
                ranked = bound.rank_rows(f"({owners}{part})", tables.dialect, owner)
                totals = tables.append(
                    "totals", self._total(f"(SELECT *, {bound.limit} AS t FROM ({ranked}))")
                )
        return pair_count, totals, presence

    def _part(self, part: int, parts: int) -> str:
        """SQL that is true for the users of one of several parts."""
        return "" if parts == 1 else f" WHERE {self.tables.bucket.format('u')} % {parts} = {part}"

    def _total(self, pairs: str) -> str:
        """SQL of the number of users and the sums of weights of some pairs.

        The pairs have t, the number of items that their owner keeps, or s, the amount that the
        owner adds.
        """
        weights = zip(self.allowed.clips, self.allowed.sums, strict=True)
        sums = "".join(f", sum({clip.weight()}) AS {name}" for clip, name in weights)
        return (
            f"SELECT {self.allowed.cell}, count(*) AS n{sums} FROM {pairs} GROUP BY"
            f" {self.allowed.cell}"
        )

    def _pairs_in_groups(self, pairs: str, bound: ContributionLimit) -> tuple[str, str]:
        """The pairs of the groups that each user keeps, and the relation of users per group.

        Users per group are added to those of earlier parts of the log.
        """
        tables = self.tables
        present = tables.store("present", f"SELECT DISTINCT u, g FROM {pairs}")
        sizes = tables.store("attended", f"SELECT u, count(*) AS t FROM {present} GROUP BY u")
        if number(tables, f"SELECT max(t) FROM {sizes}") > bound.limit:
            present = tables.store(
                "kept", bound.kept_rows(present, sizes, tables.dialect, chosen="g")
            )
            pairs = tables.store(
                "part", f"SELECT * FROM {pairs} AS p SEMI JOIN {present} AS k USING (u, g)"
            )
        weights = (
            f"SELECT u, {PRESENT.weight()} AS w FROM (SELECT u, least(t, {bound.limit}) AS t FROM"
            f" {sizes})"
        )
        presence = (
            f"SELECT g, sum(w) AS w FROM {present} AS p JOIN ({weights}) AS w USING (u) GROUP BY g"
        )
        return pairs, tables.append("presence", presence)


def cells_of(relation: str, groups: Sequence[Label] | None) -> str:
    """SQL of (user, cell) pairs of a relation with columns u, g and i, in these groups or all."""
    listed = (
        ""
        if groups is None
        else f" WHERE CAST(g AS VARCHAR) IN ({', '.join(literal(str(group)) for group in groups)})"
    )
    return f"SELECT u, {CELL} AS i FROM {relation}{listed}"


def number(tables: Tables, sql: str) -> int:
    """The single number that a query returns, or 0 if it is null."""
    return int(tables.run(sql)[0][0] or 0)
