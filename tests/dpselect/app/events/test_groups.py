"""Counts per group: the definition, row for row, and what one user may change about them, reached
and never exceeded.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from event_oracle import kept
from weights import UNIT as ONE
from weights import spent

import dpselect as dps
from dpselect import events

COLUMNS: dict[str, Any] = {"user": "u", "item": "i", "group": "g"}
RNG = np.random.default_rng(11)
Triple = tuple[Any, Any, Any]
LOG: list[Triple] = [
    (int(u), int(g), int(i))
    for u, g, i in zip(
        RNG.zipf(1.5, 1500) % 60, RNG.integers(0, 7, 1500), RNG.integers(0, 9, 1500), strict=True
    )
]


def table(log: list[Triple]) -> pa.Table:
    """Events as a table of user, group and item."""
    return pa.table(dict(zip("ugi", map(list, zip(*log, strict=True)), strict=True)))


def counted(
    log: list[Triple], most: int, limit: int | None, clip: float, listed: Any = None
) -> tuple[dict[Any, Any], dict[Any, int]]:
    """(group, item) -> (users, sum of weights), and group -> presence: by sets of Python, user by
    user.
    """
    held: dict[Any, dict[Any, set[Any]]] = defaultdict(lambda: defaultdict(set))
    for user, group, item in log:
        if None not in (user, group, item) and (listed is None or group in listed):
            held[user][group].add(item)
    cells, present = defaultdict(lambda: [0, 0]), defaultdict(int)
    for user, groups in held.items():
        some = kept(user, groups, most, "s")
        for group in some:
            present[group] += spent(len(some), 1.0)
            items = kept(user, groups[group], limit or len(LOG), "s")
            for item in items:
                cells[group, item][0] += 1
                cells[group, item][1] += spent(len(items), clip)
    return {cell: tuple(sums) for cell, sums in cells.items()}, dict(present)


def found(counts: events.GroupCounts) -> dict[Any, Any]:
    """The same cells of a reading."""
    sums = zip(counts.counts.tolist(), counts.clipped[0].tolist(), strict=True)
    keys = [
        (group, counts.items[place])
        for group, span in counts.spans.items()
        for place in counts.place[span].tolist()
    ]
    return dict(zip(keys, sums, strict=True)) if not counts.listed else {}


@pytest.mark.parametrize(("most", "limit", "buckets"), [(1, None, 1), (2, 3, 3), (9, 2, 1)])
def test_cells_are_those_of_the_definition(most: int, limit: int | None, buckets: int) -> None:
    """Groups are kept first, then items within each of a user's groups; sums are exact, whatever
    the order and the buckets.
    """
    order = np.random.default_rng(buckets).permutation(len(LOG))
    log = table([LOG[place] for place in order])
    counts = events.read(
        log,
        **COLUMNS,
        max_groups_per_user=most,
        max_items_per_user=limit,
        salt="s",
        clip=1.3,
        buckets=buckets,
    )
    cells, present = counted(LOG, most, limit, 1.3)
    assert found(counts) == cells
    assert counts.present == present
    assert list(counts.spans) == sorted(present)
    assert counts.report.pairs == len(set(map(tuple, LOG)))
    assert counts.report.pairs - counts.report.pairs_left_out == sum(
        users for users, _ in cells.values()
    )


def test_listed_groups_have_scores_and_others_are_ignored(tmp_path: Path) -> None:
    """A list of groups, of a sequence or a file, in its order; of public items every group has a
    score for each.
    """
    (tmp_path / "towns.csv").write_text("g\n5\n99\n0\n")
    for groups in ([5, 99, 0], tmp_path / "towns.csv"):
        counts = events.read(
            table(LOG),
            **COLUMNS,
            groups=groups,
            max_groups_per_user=1,
            max_items_per_user=2,
            salt="s",
            clip=1.0,
        )
        cells, _ = counted(LOG, 1, 2, 1.0, listed={5, 0})
        names = (5, 99, 0) if isinstance(groups, list) else ("5", "99", "0")
        for clip, place in ((None, 0), (1.0, 1)):
            scores = counts.scores(["8", 3, 77], clip=clip)
            assert (scores.groups, scores.presence) == (names, None)
            for group, one in scores.items():
                expected = [cells.get((int(group), item), (0, 0))[place] for item in (8, 3, 77)]
                assert one.labels == ("8", 3, 77)
                assert (one.dense() * (1 if clip is None else ONE)).tolist() == expected
        assert [one.domain for _, one in counts.scores().items()] == ["observed"] * 3


def test_sums_of_a_column_are_those_of_each_group_alone() -> None:
    """Two-sided sums by group are those of a reading of that group's rows; without a catalog they
    are refused.
    """
    log = LOG[:300]
    rows = table(log).append_column("v", pa.array(np.random.default_rng(3).normal(0, 2, len(log))))
    options: dict[str, Any] = {"user": "u", "item": "i", "value": "v", "value_clip": (-1.5, 2.0)}
    counts = events.read(rows, **options, group="g", groups=[2, 5], max_groups_per_user=9)
    for group, found in counts.scores(range(9)).items():
        alone = events.read(rows.filter([place[1] == group for place in log]), **options).scores(
            range(9)
        )
        assert found.dense().tolist() == alone.dense().tolist()
        assert (found.kind, found.sensitivity) == (alone.kind, alone.sensitivity)
    with pytest.raises(dps.errors.EventLogError, match="may be negative"):
        counts.scores()


PLACES = list(itertools.product(range(3), range(3)))  # groups and items
HISTORIES = [
    [cell for bit, cell in enumerate(PLACES) if number >> bit & 1]
    for number in range(1, 1 << len(PLACES))
]


def contributions(
    relation: Any, most: int, limit: int | None, clip: float
) -> tuple[Any, Any, Any, Any]:
    """(users, 3 groups, 3 items) counts and weights, and (users, 3) presences, of one user of each
    history; and the scores.

    Each user's items are its own, so that one reading tells all users apart.
    """
    log = [
        (user, group, 10 * user + item)
        for user, history in enumerate(HISTORIES)
        for group, item in history
    ]
    counts = events.read(
        table(log),
        **COLUMNS,
        max_groups_per_user=most,
        max_items_per_user=limit,
        salt="s",
        clip=clip,
    )
    cells = np.zeros((2, len(HISTORIES), 3, 3))
    for (group, name), sums in found(counts).items():
        cells[:, name // 10, group, name % 10] = sums[0], sums[1] / ONE
    here = cells[0].any(axis=2)
    assert counts.present == {
        g: sum(spent(int(row.sum()), 1.0) for row in here if row[g]) for g in range(3)
    }
    stated = counts.scores().presence
    assert stated is not None
    assert (stated.sensitivity.l2, stated.sensitivity.l0) == (1.0, most)
    return (
        cells[0],
        cells[1],
        counts.scores(relation=relation),
        counts.scores(relation=relation, clip=clip),
    )


@pytest.mark.parametrize(
    "relation", ["add_remove", pytest.param("replace_one", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("most", "limit"),
    [(2, 2), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((1, 1), (1, None)))],
)
def test_added_user_stays_within_declared_group_sensitivity(
    relation: Any, most: int, limit: int | None
) -> None:
    """All 511 histories over 3 groups and 3 items, and all pairs of them: no user, or two, change
    more than is declared, in as many groups, and some do change so much. Theorem W6.
    """
    users = 1 if relation == "add_remove" else 2
    whole, weighed, plain, clipped = contributions(relation, most, limit, 1.0)
    for vectors, scores in ((whole, plain), (weighed, clipped)):
        stated = next(iter(scores.items()))[1].sensitivity
        changes = vectors if users == 1 else (vectors[:, None] - vectors[None]).reshape(-1, 3, 3)
        size = np.abs(changes)
        touched = size > 0
        groups = touched.any(axis=2).sum(axis=1).max()
        assert groups == min(3, users * scores.max_groups_per_user)
        assert size.max() == pytest.approx(stated.linf, rel=1e-6)
        assert size.max() <= stated.linf
        assert touched.sum(axis=2).max() == min(3, stated.l0 or 3)
        assert size.sum(axis=2).max() <= stated.l1_of(3)
        norm = np.sqrt((size**2).sum(axis=2)).max()
        assert norm <= stated.l2_of(3) * (1 + 1e-12)
        if users == 1:
            assert norm == pytest.approx(stated.l2_of(3), rel=1e-5)
        assert not stated.monotone or (changes >= 0).all()
