"""The second round of a log: users' items weighed anew in the engine, as the definition says, and
the same items as the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from event_oracle import kept
from weights import UNIT, weighed

from dpselect import events
from dpselect.app.release.question import Question, choose
from dpselect.app.spec import TopKSpec
from dpselect.errors import EventLogError

PAIRS = pd.DataFrame(
    [(f"u{n * n % 23}", f"i{(7 * n + n * n) % 11}") for n in range(400)], columns=["who", "what"]
)


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("limit", [None, 3])
def test_the_engine_weighs_as_the_definition_says(limit: int | None, text: bool) -> None:
    """Held pairs, text and whole numbers, bounded or not: the sums are those of the items that were
    kept, to the unit.
    """
    log = PAIRS if text else PAIRS.apply(lambda column: column.str[1:].astype(int))
    look: dict[str, Any] = {} if limit is None else {"max_items_per_user": limit, "salt": "s"}
    whole = {str(user): {str(item) for item in rows} for user, rows in log.groupby("who")["what"]}
    mine = (
        list(whole.values())
        if limit is None
        else [set(kept(user, items, limit, "s")) for user, items in whole.items()]
    )
    with events.pairs(log, user="who", item="what") as pairs:
        counts = pairs.read(**look)
        asked = list(counts.labels)[::2]  # type: ignore[union-attr]
        found = pairs.second_round(counts)([*asked, "none" if text else 10**30], 1.3)
    names = {name: place for place, name in enumerate(map(str, asked))}
    rows = [frozenset(names[item] for item in items if item in names) for items in mine]
    assert found.tolist() == [*weighed(rows, range(len(asked)), 1.3), 0]


@pytest.mark.parametrize(
    "look",
    [
        {},
        {"max_items_per_user": 2},
        {"max_items_per_user": 3, "clip": 1.0},
        {"within": ["i1", "i2"]},
    ],
)
def test_both_rounds_read_the_same_items_of_a_user(look: dict[str, Any]) -> None:
    """A fresh salt, a bound or a list decide once: with a norm that clips nobody the second round
    counts what the first did.
    """
    with events.pairs(PAIRS, user="who", item="what") as pairs, pairs.hold(**look) as held:
        for counts in (pairs.read(**look), held):
            names = sorted(set(PAIRS["what"]))
            again = pairs.second_round(counts)(names, 2.0**11)
            asked = [name for name in names if name in look.get("within", names)]
            seen = dict.fromkeys(names, 0) | dict(zip(asked, _users(counts, asked), strict=True))
            assert (again // UNIT).tolist() == list(seen.values())


def _users(counts: Any, names: list[str]) -> list[int]:
    seen = (
        (counts.labels, counts.counts.tolist())
        if isinstance(counts, events.EventCounts)
        else counts.scores()._highest(10_000)
    )
    found = dict(zip(*seen, strict=True))
    return [int(found.get(name, 0)) for name in names]  # nobody may keep an item


def test_unsupported_second_rounds_are_refused() -> None:
    """Items of groups; sums, of which a user may add 0; and a clip that leaves nothing of very many
    items: before any draw.
    """
    table = PAIRS.assign(where="here", spent=1.0)
    one: dict[str, Any] = {"user": "who", "item": "what"}
    readings: list[tuple[str, dict[str, Any]]] = [
        ("not weighed", {"group": "where", "max_groups_per_user": 1}),
        ("may add 0", {"value": "spent", "value_clip": 1.0, "max_items_per_user": 3}),
        ("very many", {"clip": 1.0}),
    ]
    for words, reading in readings:
        with (
            events.pairs(table, **one, **reading) as pairs,
            pytest.raises(EventLogError, match=words),
        ):
            pairs.second_round(pairs.read())


@pytest.mark.parametrize("held", [False, True])
def test_every_item_that_a_user_keeps_occurs(held: bool) -> None:
    """Attained: of the most items that a clip of 2^-10 allows each adds 2^-20, the least weight;
    one more is refused.
    """
    clip, most = 2.0**-10, 1024
    log = pd.DataFrame(
        [("many", item) for item in range(1500)] + [("few", 0)], columns=["who", "what"]
    )
    look: dict[str, Any] = {
        "clip": clip,
        "clip_norm": "l1",
        "max_items_per_user": most,
        "salt": "s",
    }
    with events.pairs(log, user="who", item="what") as pairs, pairs.hold(**look) as counts:
        scores: Any = counts.scores(clip=clip) if held else pairs.read(**look).scores(clip=clip)
        names = list(range(1500))
        found = scores._highest(len(names)) if held else (scores.labels, scores.values)
        seen = dict(zip(*found, strict=True))
        mine = set(kept("many", names, most, "s")) | {0}
        assert {name for name in names if seen.get(name, 0) > 0} == mine
        weights = pairs.second_round(counts)(names, 1.0)
        assert set(np.flatnonzero(weights).tolist()) == mine
        assert min(seen[name] for name in mine) * UNIT == 1
        with pytest.raises(
            EventLogError, match=r"clip=0.000976562 in l1, .*items to 1024 or fewer"
        ):
            pairs.read(**look | {"max_items_per_user": most + 1})
        assert (
            len(
                pairs.read(**look | {"max_items_per_user": most + 1, "within": names[:most]}).labels
            )
            == most
        )  # type: ignore[union-attr]
    with pytest.raises(EventLogError, match=r"max_items_per_user=1000001 must be .* at most 10\^6"):
        events.Reading(user="who", item="what", max_items_per_user=10**6 + 1)
    # in l2 the least clip leaves a unit of each
    events.Reading(user="who", item="what", max_items_per_user=10**6, clip=clip)


def test_a_clip_that_leaves_nothing_is_refused_before_the_log_is_opened() -> None:
    """Clip and bound are public, and so is the norm, that of the mechanism's noise: what is planned
    says so, before a budget.
    """
    asked: Any = {
        "user": "who",
        "item": "what",
        "k": 1,
        "epsilon": 1.0,
        "delta": 1e-6,
        "noise": "laplace",
        "clip": 2.0**-10,
    }
    choose(Question.from_spec(None, TopKSpec(**asked, max_items_per_user=1024)))
    with pytest.raises(EventLogError, match="items to 1024 or fewer"):
        choose(Question.from_spec(None, TopKSpec(**asked, max_items_per_user=1025)))
