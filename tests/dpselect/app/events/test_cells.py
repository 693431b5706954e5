"""Cells of a group and an item: counted like items, with one bound and one norm for all that a user
has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pandas as pd
import pytest

import accounting as acc
import dpselect as dps
from dpselect import events
from dpselect.cells import cell, parts_of
from dpselect.errors import EventLogError

CELLS: dict[str, Any] = {"user": "u", "item": "i", "group": "g", "cells": True}


def log(users: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rows = [
        (f"u{user}", int(g), int(rng.zipf(1.6)) % 40)
        for user in range(users)
        for g in rng.integers(0, 5, 4)
    ]
    return pd.DataFrame(rows, columns=["u", "g", "i"])


def counted(found: Any, place: int | None = None) -> dict[Any, int]:
    numbers = found.counts if place is None else found.clipped[place]
    return {
        parts_of(label): int(number)
        for label, number in zip(found.labels, numbers, strict=True)
        if number
    }


def test_cells_are_counted_as_a_dictionary_counts_them() -> None:
    """Every distinct (user, group, item) once; a weight is that of a user with so many cells in all
    groups together.
    """
    table = log()
    found = events.read(table, **CELLS, clip=1.0)
    triples = set(table.itertuples(index=False, name=None))
    expected = Counter((str(g), str(i)) for _, g, i in triples)
    assert counted(found) == expected
    size, weights = Counter(u for u, *_ in triples), defaultdict[Any, int](int)
    for user, group, item in triples:
        weights[str(group), str(item)] += int(np.floor(np.sqrt(2**40 // size[user])))
    assert counted(found, 0) == weights


def test_cell_labels_match_python_and_are_unique() -> None:
    """A group's length counts characters, as Python does: read in the engine, written by `cell`,
    taken apart again.
    """
    groups = ["Köln", "東京", "a", "2:a", "", "\U0001f30a", "e\u0301"]
    table = pd.DataFrame(
        [(f"u{g}{i}", g, i) for g in groups for i in ("é1", "1", ":")], columns=["u", "g", "i"]
    )
    with events.pairs(
        table[table["g"] != ""], user="u", item="i", group="g", max_groups_per_user=1
    ) as pairs:
        found = pairs.read(cells=True, max_groups_per_user=None)
        asked = [cell(group, "é1") for group in groups if group]
        assert pairs.read(cells=True, max_groups_per_user=None, within=asked).counts.tolist() == [
            1
        ] * len(asked)
    written = {(g, i): cell(g, i) for _, g, i in table.itertuples(index=False)}
    assert len(set(written.values())) == len(written)
    assert {parts_of(label): label for label in written.values()} == written
    assert {label for (g, _), label in written.items() if g} == set(found.labels)  # type: ignore[union-attr]
    assert all(label.startswith(f"{len(g)}:") for (g, _), label in written.items())


def test_a_bound_holds_over_all_groups_together() -> None:
    """At most so many cells of each user, whichever groups they are in, by the hash of the cell;
    nobody else's change.
    """
    table = log()
    bounded = events.read(table, **CELLS, max_items_per_user=2, salt="s")
    assert bounded.counts.sum() == 2 * table["u"].nunique() - sum(
        n == 1 for n in table.drop_duplicates().groupby("u").size()
    )
    rest = counted(events.read(table[table["u"] != "u7"], **CELLS, max_items_per_user=2, salt="s"))
    whole = counted(bounded)
    assert sum(whole.values()) - sum(rest.values()) == 2
    assert all(whole[name] - rest.get(name, 0) in (0, 1) for name in whole)


def test_only_listed_groups_count_toward_the_bound() -> None:
    """What is in no listed group is looked at no more than what is in no log."""
    table = log()
    listed = events.read(table, **CELLS, groups=[1, 3, 9], max_items_per_user=2, salt="s", clip=1.0)
    alone = events.read(
        table[table["g"].isin([1, 3])], **CELLS, max_items_per_user=2, salt="s", clip=1.0
    )
    assert counted(listed) == counted(alone)
    assert counted(listed, 0) == counted(alone, 0)


def test_pairs_are_counted_as_cells_after_they_were_read_for_groups() -> None:
    """One reading serves both: of each group, and of the table; a second round weighs cells."""
    table = log()
    with events.pairs(table, user="u", item="i", group="g", max_groups_per_user=2) as pairs:
        assert pairs.integers == {"group", "item"}
        assert isinstance(pairs.read(), events.GroupCounts)
        cells: dict[str, Any] = {"cells": True, "max_groups_per_user": None}
        assert counted(pairs.read(**cells, clip=1.0)) == counted(events.read(table, **CELLS))
        label = cell(2, 1)
        (weight,) = pairs.second_round(pairs.read(**cells))([label], 1.0)
        assert weight == 2**20 * counted(pairs.read(**cells))["2", "1"]
        with pytest.raises(EventLogError, match="max_groups_per_user=2 bounds no cells="):
            pairs.read(cells=True)
    with pytest.raises(EventLogError, match="Name the group"):
        events.read(table, user="u", item="i", cells=True)


def test_the_top_of_each_group_is_a_function_of_what_was_released() -> None:
    """The same cells under the same noise: the k first of each group, groups by name; what is short
    of k says so.
    """
    few = dps.Sensitivity.of_clipped(1.0, items_per_user=100)
    inner = dps.SparseHistogram(scale=2.0, delta=1e-3, sensitivity=few)
    outer = dps.mechanisms.TopOfGroups(k=2, mechanism=inner)
    scores = events.read(log(4000), **CELLS, max_items_per_user=100, clip=1.0).scores(clip=1.0)
    whole, kept = (one.select(scores, rng=np.random.default_rng(3)) for one in (inner, outer))
    expected = defaultdict[str, list[str]](list)
    for label in whole.labels or ():
        group, item = parts_of(label)
        expected[group] += [item] if len(expected[group]) < 2 else []
    assert {group: list(one.labels or ()) for group, one in kept.by_group().items()} == expected
    assert list(kept.by_group()) == sorted(expected)
    assert kept.complete == all(len(items) == 2 for items in expected.values())
    assert outer.curve == inner.curve
    assert isinstance(outer.curve, acc.Approximate)
    assert dps.Mechanism.from_json(outer.to_json()) == outer


def test_labels_that_are_no_cells_are_of_no_group() -> None:
    """A refusal would show that somebody has such an item, and no item may pass for another
    group's.
    """
    few = dps.Sensitivity.of_clipped(1.0, items_per_user=100)
    mechanism = dps.mechanisms.TopOfGroups(
        k=3, mechanism=dps.SparseHistogram(scale=2.0, delta=1e-3, sensitivity=few)
    )
    labels = ("9:zoo", ":zoo", "zoo")
    scores = dps.Scores([900.0] * 3, sensitivity=few, labels=labels, domain="observed")
    found = mechanism.select(scores)
    assert (found.groups, sorted(found.labels or ())) == (("", "", ""), sorted(labels))
    with pytest.raises(dps.errors.InvalidMechanism, match="releases no order"):
        dps.mechanisms.TopOfGroups(k=1, mechanism=dps.CanonicalTopK(k=2, epsilon=1.0))
