"""`read_values`: one number per user, by a map of that user's events alone, whatever the source, the order and the parts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpselect as dps
from dpselect.events import read_values

ROWS = [("ann", 1.5), ("ann", 2.5), ("ann", 2.5), ("bob", 7.0), ("bob", 7.0), ("eve", -3.25), ("zoe", 0.1), ("zoe", 0.2)]
RULES: dict[str, Callable[[list[float]], float]] = {
    "sum": lambda held: sum(np.floor(x * 2**32) for x in held) / 2**32,
    "mean": lambda held: sum(np.floor(x * 2**32) for x in held) / 2**32 / len(held),
    "min": min,
    "max": max,
    "events": len,
}


def table(rows: list[tuple[str, float]] = ROWS) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["who", "paid"])


def expected(rule: str) -> list[float]:
    held: dict[str, list[float]] = {}
    for user, number in ROWS:
        held.setdefault(user, []).append(number)
    return sorted(float(RULES[rule](numbers)) for numbers in held.values())


@pytest.mark.parametrize("rule", RULES)
def test_rules_are_what_they_say(rule: Any) -> None:
    """Against plain Python, in one part and in five, forwards and backwards."""
    value = None if rule == "events" else "paid"
    for rows, buckets in ((ROWS, None), (ROWS[::-1], 5)):
        found = read_values(table(rows), user="who", value=value, rule=rule, buckets=buckets)
        assert found.numbers.tolist() == expected(rule)
        assert (found.rows, found.rows_left_out, found.salt) == (len(ROWS), 0, None)


def test_sums_are_the_same_in_any_order() -> None:
    """Numbers whose float sum depends on the order are added up exactly: the number of a user depends on nobody else."""
    rng = np.random.default_rng(1)
    numbers = rng.normal(0, 1, 3000) * 10.0 ** rng.integers(-6, 7, 3000)
    exact = sum(int(np.floor(x * 2**32)) for x in numbers) / 2**32
    for order in (np.arange(3000), rng.permutation(3000)):
        frame = pd.DataFrame({"u": 1, "v": numbers[order]})
        assert read_values(frame, user="u", value="v", rule="sum").numbers.tolist() == [exact]


@pytest.mark.slow
def test_a_pick_is_the_smallest_hash() -> None:
    """Of the distinct numbers of a user, by sha256 of user, number and salt: independent of repetition and of other users."""

    def rank(user: str, number: float) -> str:
        text = str(number)
        return hashlib.sha256(f"{len(user)}:{user}:{len(text)}:{text}:s{salt}".encode()).hexdigest()

    seen = set()
    for salt in range(12):
        found = read_values(table(), user="who", value="paid", salt=f"s{salt}")
        picked = [
            min({n for u, n in ROWS if u == user}, key=lambda n, user=user: rank(user, n))
            for user in ("ann", "bob", "eve", "zoe")
        ]
        assert found.numbers.tolist() == sorted(picked)
        seen.add(tuple(picked))
    assert len(seen) > 1
    assert read_values(table(), user="who", value="paid").salt != read_values(table(), user="who", value="paid").salt


@pytest.mark.slow
def test_a_pick_does_not_tell_zeros_apart() -> None:
    """0 and -0 are one number: which of them came first in the log, or in another thread, decides nothing."""
    for salt in ("0", "1", "2"):
        rows = ([("ann", zero), ("ann", 5.0)] for zero in (0.0, -0.0))
        one, other = (read_values(table(row), user="who", value="paid", salt=salt).numbers.tolist() for row in rows)
        assert one == other


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rule": "mode"}, "must be one of 'pick'"),
        ({"value": None}, "contradict"),
        ({"rule": "events"}, "contradict"),
        ({"rule": "sum", "salt": "s"}, "leave it out"),
        ({"salt": 7}, "must be text"),
        ({"value": "prise"}, "not a column"),
        ({"value": "who"}, "same column"),
        ({"value": "when"}, "values must be numbers"),
        ({"value": "odd"}, "not a finite number"),
        ({"value": "word"}, "not a finite number"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, Any], words: str) -> None:
    """Errors name field and rule and quote nothing of the data."""
    frame = table().assign(when=pd.Timestamp("2026-01-01"), odd=[1.0] * 7 + [np.inf], word="secret")
    with pytest.raises(dps.errors.EventLogError, match=words) as caught:
        read_values(frame, **{"user": "who", "value": "paid", **options})
    assert "secret" not in str(caught.value)
