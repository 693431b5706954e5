"""Clipped sums of a column: the integers of the definition, from every source, in any order; and
what is no amount is refused.
"""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from event_oracle import SECRET
from sums_oracle import sums

import dpselect as dps
from dpselect import events
from dpselect.app.events.contributions import Amount
from dpselect.errors import EventLogError

NAMES = {"user": "u", "item": "i", "value": "v"}
_RANDOM = random.Random(7)
LOG = [
    (_RANDOM.randrange(12), _RANDOM.choice("abcde"), _RANDOM.uniform(-9, 20)) for _ in range(200)
]
LOG += [
    (1, "a", 1e9),
    (1, "a", -1e9),
    (2, "b", 2.0**-30),
    (3, "b", 0.1),
    (3, "b", 0.2),
    (4, "c", 12.34),
]


def frame(log: list[Any]) -> pl.DataFrame:
    return pl.DataFrame(log, schema={"u": pl.Int64, "i": pl.String, "v": pl.Float64}, orient="row")


def found(source: Any, **options: Any) -> dict[object, Fraction]:
    read = events.read(source, **{**NAMES, **options})
    signed = isinstance(options["value_clip"], tuple) and options["value_clip"][0] < 0
    values = read.scores(list(read.labels) if signed else None).values.tolist()
    return {label: Fraction(value) for label, value in zip(read.labels, values, strict=True)}


@pytest.mark.parametrize("clip", [50, 10.7, (-5.0, 5.0), (-3, 11)])
@pytest.mark.parametrize("limit", [None, 2])
def test_sums_are_those_of_the_definition(clip: Any, limit: int | None) -> None:
    """To the last bit, in whatever order and buckets the rows come, with and without a bound on a
    user's items.
    """
    low, high = clip if isinstance(clip, tuple) else (0.0, clip)
    bound = {} if limit is None else {"max_items_per_user": limit, "salt": "s"}
    expected = sums(LOG, low, high, limit)
    for seed, buckets in ((1, 1), (2, 5)):
        shuffled = random.Random(seed).sample(LOG, len(LOG))
        assert found(frame(shuffled), value_clip=clip, buckets=buckets, **bound) == expected


@pytest.mark.slow
def test_every_source_sums_alike(tmp_path: Path) -> None:
    """CSV and JSON lines write numbers as text, tables hold floats, integers or decimals; the sums
    are the same.
    """
    log = [(user, item, round(value * 4) / 4) for user, item, value in LOG]
    table = frame(log)
    table.write_csv(tmp_path / "log.csv")
    table.write_ndjson(tmp_path / "log.jsonl")
    table.write_parquet(tmp_path / "log.parquet")
    expected = sums(log, 0.0, 50.0)
    decimals = table.with_columns(v=pl.col("v").cast(pl.Decimal(20, 2)))
    relation = duckdb.connect().from_arrow(table.to_arrow())
    sources = [
        tmp_path / "log.csv",
        tmp_path / "log.jsonl",
        tmp_path / "log.parquet",
        table.lazy(),
        decimals,
        relation,
    ]
    for source in [*sources, table.to_pandas(), decimals.to_pandas()]:
        assert found(source, value_clip=50) == expected


def test_sums_are_released() -> None:
    """The scores go to a histogram of an unknown domain, or to any public mechanism; two-sided sums
    to the latter alone.
    """
    log = frame([(user, "abc"[user % 3], 40.0) for user in range(3000)])
    one_sided = events.read(log, **NAMES, value_clip=50, max_items_per_user=1).scores()
    assert one_sided.sensitivity == dps.Sensitivity.of_sums(0, 50, items_per_user=1)
    histogram = dps.SparseHistogram(k=3, scale=60.0, delta=1e-6, sensitivity=one_sided.sensitivity)
    assert set(histogram.select(one_sided).labels or ()) == set("abc")
    with pytest.raises(dps.errors.SensitivityMismatch):
        dps.LimitedDomain(k=1, kbar=3, epsilon=1, delta=1e-6).select(one_sided)
    both = events.read(log, **NAMES, value_clip=(-50, 50), max_items_per_user=1)
    with pytest.raises(EventLogError, match="public catalog"):
        both.scores()
    scores = both.scores(["a", "b", "nothing"])
    assert (scores.kind, scores.values.tolist()) == ("utilities", [40000.0, 40000.0, 0.0])
    assert dps.PeelingTopK(
        k=2, noise="exponential", scale=60.0, sensitivity=scores.sensitivity
    ).select(scores).labels in (("a", "b"), ("b", "a"))


@pytest.mark.fast(6)
@pytest.mark.parametrize("value", [SECRET, "nan", "inf", "-Infinity", "1,5", "true"])
@pytest.mark.parametrize("form", ["csv", "jsonl", "table"])
def test_what_is_no_amount_is_refused(value: str, form: str, tmp_path: Path) -> None:
    """NaN, infinities and text: one error that shows the rule and not the row."""
    table = pl.DataFrame({"u": ["1", SECRET], "i": ["a", SECRET], "v": ["1", value]})
    source: Any = table
    if form != "table":
        source = tmp_path / f"log.{form}"
        (table.write_csv if form == "csv" else table.write_ndjson)(source)
    if form == "table" and value in ("nan", "inf"):
        source = table.with_columns(v=pl.Series([1.0, float(value)]))
    with pytest.raises(EventLogError, match=r"'v' of .* not a finite number") as caught:
        events.read(source, **NAMES, value_clip=50)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.slow
def test_no_refusal_depends_on_the_clip() -> None:
    """Values of any size are read under any clip, each cut alone: a refusal would compare it with
    the clip, free of charge.
    """
    for value in (70_000.0, 1e17, 1.7e308):
        for clip in (2.0**-40, 2.0**-24, 50.0, 2.0**50):
            log = [
                (1, "a", value),
                (1, "b", value),
                (1, "b", -value),
                (2, "c", -value),
                (2, "c", 1e-300),
                (3, "d", "7"),
            ]
            table = pl.DataFrame(
                [(u, i, str(v)) for u, i, v in log], schema=["u", "i", "v"], orient="row"
            )
            for low in (0.0, -clip):
                assert found(table, value_clip=(low, clip)) == sums(
                    [(u, i, float(v)) for u, i, v in log], low, clip
                )


def test_a_value_is_cut_before_it_is_added() -> None:
    """To exactly 2^40 E, with either sign: two of 10^300 and three of -2^40 E make -2^40 E, which
    the clip then cuts.
    """
    most = 2.0**40
    for high, low_ones, expected in ((1e300, 3, -1), (1e300, 1, 1), (most, 2, 0), (2 * most, 2, 0)):
        log = [(1, "a", high)] * 2 + [(1, "a", -most)] * low_ones
        assert found(frame(log), value_clip=(-1.0, 1.0)) == {"a": expected}


def test_sums_of_very_many_users_are_cut() -> None:
    """At 2^53 units, where floats are exact; they are not refused, since how many there are would
    show.
    """
    amount = Amount(-50.0, 50.0)
    units = np.array([2**53 - 1, 2**53, 2**53 + 1, -(2**60), 5])
    expected = [2**53 - 1, 2**53, 2**53, -(2**53), 5]
    assert [Fraction(score) / amount.unit for score in amount.as_scores(units).tolist()] == expected
    assert amount.as_scores(units[:0]).tolist() == []


def test_events_without_an_amount_are_left_out() -> None:
    """A null is no 0: the event is left out and counted as such."""
    read = events.read(
        pl.DataFrame({"u": [1, 2], "i": ["a", "b"], "v": [None, 3.0]}), **NAMES, value_clip=5
    )
    assert (read.labels, read.scores().values.tolist(), read.report.rows_left_out) == (
        ("b",),
        [3.0],
        1,
    )


@pytest.mark.slow
def test_units_are_a_power_of_two() -> None:
    """A clip of any size has at most 2^25 units, so that a quarter of a billion users add up
    exactly.
    """
    for high in (2.0**-30, 0.1, 1.0, 1.5, 1e6, 2.0**50):
        (amount,) = events.read(frame([(1, "a", 1.0)]), **NAMES, value_clip=high).clips
        assert 2**24 <= Fraction(high) / amount.unit < 2**25
    assert list(itertools.islice(found(frame([(1, "a", 7.0)]), value_clip=50).values(), 1)) == [7]
