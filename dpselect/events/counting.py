"""Distinct users per item, or per group and item, bucket by bucket: the pairs of a log in the embedded engine."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpselect.cells import CELL
from dpselect.events.catalogue import DECIMAL
from dpselect.events.contributions import PRESENT, ContributionLimit, Contributions, respent, summed
from dpselect.events.engine import opened
from dpselect.events.held import Tally
from dpselect.events.reading import ProgressCallback, Reading
from dpselect.events.sources.base import Kind, Kinds, literal
from dpselect.events.staging import prepared, report_progress
from dpselect.events.user_counts import EventCounts, GroupCounts
from dpselect.selection import Label

_RANKED_AT_ONCE = 4_000_000  # pairs of integers, about 60 bytes each; texts take as much again, and more


@final
class EmbeddedPairs:
    """The pairs of a log in the embedded engine: in its memory, and on disk what `memory_limit` does not allow. Close it.

    Args:
        several: whether they are kept for several counts; else there is one, which says how far it is and may use them up.
    """

    def __init__(self, source: object, reading: Reading, progress: ProgressCallback | None, *, several: bool) -> None:
        self._several, self._numbers = several, itertools.count()
        bounded = reading.max_items_per_user is not None or reading.group is not None or bool(reading.measures)
        with ExitStack() as stack:
            self._engine = stack.enter_context(opened(reading.memory_limit))
            self._staged = prepared(self._engine, source, reading, progress, counted=not (several or bounded))
            self._at_once = self._staged.counted  # the pass that grouped the log has counted all
            self._stack = stack.pop_all()
        if several:
            report_progress(progress, 1, 1)
        self._progress = None if several else progress

    def counted(self, reading: Reading) -> EventCounts | GroupCounts:
        """The counts of the pairs under the bounds of this reading."""
        allowed, what = reading.contributions(self._staged.kinds), self._staged.what
        totals, pairs = self._tally(allowed)
        summed, integers = f"{allowed.cell}, {_summed(allowed)}", self._item(allowed) == "int"
        # In order of the label, numbers as numbers and text by code point, so that positions do not tell the order of the log.
        if allowed.groups is None:
            grouped = f"SELECT {summed} FROM {totals} GROUP BY i HAVING sum(n) > 0"
            found = self._engine.columns(f"SELECT * FROM ({grouped}) AS g ORDER BY g.i", what=what)
            items, sums = found.pop("i").tolist(), np.array(list(found.values()), dtype=np.int64)
            report = self._staged.figures.report(pairs, int(sums[0].sum()))
            return EventCounts.of(allowed, report, items, sums, integers=integers)
        labels = list[list[Label]]()
        for table, column in (("groups", "g"), ("items", "i")):
            ranked = f"SELECT {column}, row_number() OVER (ORDER BY {column}) - 1 AS place"
            self._run(f"CREATE OR REPLACE TABLE {table} AS {ranked} FROM (SELECT DISTINCT {column} FROM totals)")
            labels.append([row[0] for row in self._run(f"SELECT {column} FROM {table} ORDER BY place")])
        # In columns: a log has many more cells than it has labels.
        places = "SELECT groups.place AS g, items.place AS i, sums.* EXCLUDE (g, i)"
        joined = f"{places} FROM (SELECT {summed} FROM totals GROUP BY g, i) AS sums JOIN groups USING (g) JOIN items USING (i)"
        found = self._engine.columns(f"{joined} ORDER BY 1, 2", what=what)
        present = "SELECT CAST(sum(w) AS BIGINT) AS w FROM presence GROUP BY g ORDER BY g"
        cells, presence = (found.pop("g"), found.pop("i")), self._engine.columns(present, what=what)["w"]
        sums = np.array(list(found.values()), dtype=np.int64)
        report = self._staged.figures.report(pairs, int(sums[0].sum()))
        return GroupCounts.of(allowed, report, (labels[0], labels[1]), cells, sums, presence, integers=integers)

    def tally(self, reading: Reading) -> tuple[Tally, Contributions]:
        """The same counts, which stay in the engine; of pairs that are not for several counts nothing else does."""
        allowed = reading.contributions(self._staged.kinds)
        number, text, listed = next(self._numbers), self._item(allowed) == "str", list[str]()
        table, (totals, pairs) = f"counted_{number}", self._tally(allowed)
        summed = f"SELECT i, {_summed(allowed)} FROM {totals} GROUP BY i HAVING sum(n) > 0"
        self._run(f"CREATE TABLE {table} AS {summed}")
        self._run("DROP TABLE totals")
        if not self._several:
            self._run("DROP VIEW IF EXISTS pairs")
            self._run("DROP TABLE IF EXISTS grouped")
        kept = self._number(f"SELECT sum(n) FROM {table}")

        def listing(labels: Sequence[Label]) -> str:
            listed.append(f"listed_{number}_{len(listed)}")
            self._list(listed[-1], "i", labels, "VARCHAR" if text else "HUGEINT")
            return listed[-1]

        def drop() -> None:
            for name in (table, *listed):
                self._run(f"DROP TABLE {name}")

        held = Tally(
            run=self._run,
            listing=listing,
            bucket="CAST(hash(i) % 4096 AS BIGINT)",  # the engine's own hash: where an item is looked for decides nothing
            relation=table,
            integers=not text,
            report=self._staged.figures.report(pairs, kept),
            drop=drop,
        )
        return held, allowed

    def items(self, reading: Reading) -> NDArray[np.float64]:
        """(users,) how many items each user has, of those that are looked at."""
        looked = self._looked_at(reading.contributions(self._staged.kinds))
        found = self._engine.columns(f"SELECT CAST(count(*) AS DOUBLE) AS t FROM {looked} GROUP BY u", what=self._staged.what)
        return found["t"]

    def weighed(self, reading: Reading, labels: Sequence[Label], numbers: NDArray[np.int64], norm: float) -> NDArray[np.int64]:
        """(n,) sums of what users spend on these items, of the pairs that the bounds of this reading keep: see `respent`."""
        allowed = reading.contributions(self._staged.kinds)
        kept, parameters = self._looked_at(allowed), list[object]()
        if allowed.bound is not None:
            self._run(f"CREATE OR REPLACE TEMP TABLE held AS SELECT u, count(*) AS t FROM {kept} GROUP BY u")
            if self._number("SELECT max(t) FROM held") > allowed.bound.limit:
                sql, parameters = allowed.bound.kept(kept, "held")
                kept = f"({sql})"
        asked = "SELECT unnest(?) AS i, unnest(?) AS d, unnest(range(?)) AS place"
        item, texts = _stored(self._item(allowed)), [str(label) for label in labels]
        self._run(
            f"CREATE OR REPLACE TEMP TABLE asked AS SELECT CAST(i AS {item}) AS i, CAST(d AS HUGEINT) AS d, place FROM ({asked})",
            [texts, numbers.tolist(), len(texts)],
        )
        self._run(f"CREATE OR REPLACE TEMP TABLE spending AS SELECT u, d, place FROM {kept} JOIN asked USING (i)", parameters)
        sizes = "SELECT u, sum(d * d) AS s FROM spending GROUP BY u"
        spent = f"SELECT place, {respent(norm, 'HUGEINT')} AS w FROM spending JOIN ({sizes}) USING (u)"
        found = self._engine.columns(
            f"SELECT place, CAST(sum(w) AS BIGINT) AS w FROM ({spent}) GROUP BY place", what=self._staged.what
        )
        self._run("DROP TABLE spending")
        sums = np.zeros(len(texts), dtype=np.int64)
        sums[found["place"]] = found["w"]
        return sums

    def items_per_group(self, reading: Reading) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(users,) in how many groups each user is, and how many items of each of them they have on average."""
        looked = self._looked_at(reading.contributions(self._staged.kinds))
        each = f"SELECT CAST(count(DISTINCT g) AS DOUBLE) AS n, CAST(count(*) AS DOUBLE) AS t FROM {looked} GROUP BY u"
        found = self._engine.columns(each, what=self._staged.what)
        return found["n"], found["t"] / np.maximum(found["n"], 1.0)

    def close(self) -> None:
        """Drop the pairs, and the totals of every count."""
        self._stack.close()

    def _run(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._engine.run(sql, parameters, what=self._staged.what)

    def _number(self, sql: str) -> int:
        return int(self._run(sql)[0][0] or 0)

    def _tally(self, allowed: Contributions) -> tuple[str, int]:
        """A relation of totals, in which an item may have several rows; and how many pairs there are."""
        if self._at_once:  # the table of totals is there, and has groups of events that do not count, too
            listed = ""
            if allowed.within is not None:
                self._list("listed_items", "i", allowed.within, _stored(self._staged.kinds["item"]))
                listed = " SEMI JOIN listed_items USING (i)"
            found = f"(SELECT * FROM (SELECT i, n FROM totals WHERE apart = 0){listed})"
            report_progress(self._progress, 1, 1)
            return found, self._number(f"SELECT sum(n) FROM {found}")
        looked = self._looked_at(allowed)
        sums = "".join(f", CAST(0 AS BIGINT) AS {name}" for name in ("n", *allowed.sums))
        self._run(f"CREATE OR REPLACE TABLE totals AS SELECT {allowed.cell}{sums} FROM {looked} LIMIT 0")
        if allowed.groups is not None:
            self._run("CREATE OR REPLACE TABLE presence AS SELECT g, CAST(0 AS BIGINT) AS w FROM pairs LIMIT 0")
        parts, pairs = 1 if allowed.groups is None else self._staged.buckets, 0
        for number in range(parts):
            pairs += self._add(looked if parts == 1 else f"(SELECT * FROM {looked} WHERE hash(u) % {parts} = {number})", allowed)
            report_progress(self._progress, number + 1, parts)
        return "totals", pairs

    @property
    def kinds(self) -> Kinds:
        """What users, items and groups are, by the types of the source."""
        return self._staged.kinds

    def _item(self, allowed: Contributions) -> Kind:
        return "str" if allowed.cells else self._staged.kinds["item"]

    def _looked_at(self, allowed: Contributions) -> str:
        """SQL of the pairs of the items and groups that are listed; or of their cells, of which those are."""
        looked = "pairs"
        if allowed.listed is not None:
            self._list("listed_groups", "g", allowed.listed, _stored(self._staged.kinds["group"]))
            looked = f"(SELECT * FROM {looked} SEMI JOIN listed_groups USING (g))"
        if allowed.cells:
            looked = f"({cells_of(looked, None)})"
        if allowed.within is not None:
            self._list("listed_items", "i", allowed.within, _stored(self._item(allowed)))
            looked = f"(SELECT * FROM {looked} SEMI JOIN listed_items USING (i))"
        return looked

    def _list(self, name: str, column: str, labels: Sequence[Label], kind: str) -> None:
        """Make a table of those labels that the type can hold."""
        texts = [str(label) for label in labels]
        known = texts if kind == "VARCHAR" else [int(text) for text in texts if DECIMAL.fullmatch(text)]
        self._run(f"CREATE OR REPLACE TABLE {name} AS SELECT CAST(unnest(?) AS {kind}) AS {column}", [known])

    def _add(self, pairs: str, allowed: Contributions) -> int:
        """Add the pairs of some users to the totals; how many there are, before the bounds."""
        owner, found = allowed.owner, None
        weighed = allowed.bound is not None or bool(allowed.clips)
        if allowed.groups is not None or (allowed.within is not None and weighed):
            self._run(f"CREATE OR REPLACE TEMP TABLE part AS SELECT * FROM {pairs}")
            pairs = "part"
        if allowed.groups is not None:
            found = self._number("SELECT count(*) FROM part")
            self._keep_groups(allowed.groups)
        if not weighed:
            self._insert(pairs, allowed)
            return self._number("SELECT sum(n) FROM totals") if found is None else found
        self._run(f"CREATE OR REPLACE TEMP TABLE held AS SELECT {owner}, count(*) AS t FROM {pairs} GROUP BY {owner}")
        found = self._number("SELECT sum(t) FROM held") if found is None else found
        if allowed.bound is None or self._number("SELECT max(t) FROM held") <= allowed.bound.limit:
            self._insert(_weighed(pairs, "held", allowed), allowed)
            return found
        self._insert(_weighed(pairs, f"(SELECT * FROM held WHERE t <= {allowed.bound.limit})", allowed), allowed)
        self._add_ranked(pairs, allowed, allowed.bound)
        return found

    def _add_ranked(self, pairs: str, allowed: Contributions, bound: ContributionLimit) -> None:
        """Add what is kept of owners beyond the bound, who alone are ranked: in parts, since that takes memory."""
        owner, staged = allowed.owner, self._staged
        beyond = f"SEMI JOIN (SELECT {owner} FROM held WHERE t > {bound.limit}) USING ({owner})"
        many = self._number(f"SELECT sum(t) FROM held WHERE t > {bound.limit}")
        texts = sum(staged.kinds[role] == "str" for role in ("user", "item"))
        parts = max(staged.buckets if staged.stated else 1, -(-many * (1 + 2 * texts) // _RANKED_AT_ONCE))
        for number in range(parts):
            part = "" if parts == 1 else f" WHERE hash(u) % {parts} = {number}"
            ranked, parameters = bound.ranked(f"(SELECT * FROM {pairs} {beyond}{part})", owner)
            kept = f"SELECT *, {bound.limit} AS t FROM ({ranked})"
            self._insert(f"(SELECT *{_weights(allowed)} FROM ({kept}))", allowed, parameters)

    def _insert(self, weighed: str, allowed: Contributions, parameters: Sequence[object] = ()) -> None:
        sums = "".join(f", sum({name})" for name in allowed.sums)
        counted = f"SELECT {allowed.cell}, count(*){sums} FROM {weighed} GROUP BY {allowed.cell}"
        self._run(f"INSERT INTO totals {counted}", parameters)

    def _keep_groups(self, bound: ContributionLimit) -> None:
        """Leave the pairs of the groups that each user keeps, and add these to what is present."""
        self._run("CREATE OR REPLACE TEMP TABLE present AS SELECT DISTINCT u, g FROM part")
        self._run("CREATE OR REPLACE TEMP TABLE attended AS SELECT u, count(*) AS t FROM present GROUP BY u")
        if self._number("SELECT max(t) FROM attended") > bound.limit:
            sql, parameters = bound.kept("present", "attended", chosen="g")
            self._run(f"CREATE OR REPLACE TEMP TABLE present AS {sql}", parameters)
            self._run("CREATE OR REPLACE TEMP TABLE part AS SELECT * FROM part SEMI JOIN present USING (u, g)")
        weights = f"SELECT u, {PRESENT.weight()} AS w FROM (SELECT u, least(t, {bound.limit}) AS t FROM attended)"
        self._run(f"INSERT INTO presence SELECT g, sum(w) FROM present JOIN ({weights}) USING (u) GROUP BY g")


def cells_of(relation: str, groups: Sequence[Label] | None) -> str:
    """SQL of (user, cell) pairs of a relation with the columns u, g and i; of these groups alone, if they are listed."""
    listed = "" if groups is None else f" WHERE CAST(g AS VARCHAR) IN ({', '.join(literal(str(group)) for group in groups)})"
    return f"SELECT u, {CELL} AS i FROM {relation}{listed}"


def _stored(kind: Kind) -> str:
    return "VARCHAR" if kind == "str" else "HUGEINT"


def _weighed(pairs: str, held: str, allowed: Contributions) -> str:
    """The pairs of the owners in `held`, who all keep theirs, each with its weights."""
    owner = allowed.owner
    if summed(allowed.clips) is not None or not allowed.clips:
        return f"(SELECT *{_weights(allowed)} FROM {pairs} SEMI JOIN {held} USING ({owner}))"
    return f"(SELECT * FROM {pairs} JOIN (SELECT {owner}{_weights(allowed)} FROM {held}) USING ({owner}))"


def _weights(allowed: Contributions) -> str:
    """SQL columns of the weights of a pair, from t, how many its owner keeps, or s, what its owner adds."""
    return "".join(f", {clip.weight()} AS {name}" for clip, name in zip(allowed.clips, allowed.sums, strict=True))


def _summed(allowed: Contributions) -> str:
    return ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("n", *allowed.sums))
