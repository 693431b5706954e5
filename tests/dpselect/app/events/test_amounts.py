"""Clipped sums of a column: the integers of the definition, from every source, in any order; and
what is no amount is refused.
"""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from event_oracle import SECRET, Sources, refused
from sums_oracle import sums

import dpselect as dps
from dpselect import events
from dpselect.app.events.contributions import Amount
from dpselect.errors import EventLogError

pytestmark = pytest.mark.usefixtures("shared_database")

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
# Values beyond 2^40 units are cut to that before they are added, with either sign.
LOG += [(12, "a", 1e300)] * 2 + [(12, "a", -(2.0**46))] * 3
LOG += [(13, "b", 1.7e308), (13, "b", -1e17), (13, "c", -1e17), (13, "c", 1e-300)]


def frame(log: list[Any]) -> pl.DataFrame:
    return pl.DataFrame(log, schema={"u": pl.Int64, "i": pl.String, "v": pl.Float64}, orient="row")


def found(source: Any, **options: Any) -> dict[object, Fraction]:
    read = events.read(source, **{**NAMES, **options})
    signed = isinstance(options["value_clip"], tuple) and options["value_clip"][0] < 0
    values = read.scores(list(read.labels) if signed else None).values.tolist()
    return {label: Fraction(value) for label, value in zip(read.labels, values, strict=True)}


@pytest.mark.parametrize(
    ("clip", "limit"),
    [
        *itertools.product((50, 10.7, (-5.0, 5.0), (-3, 11)), (None, 2)),
        *(pytest.param(clip, None, marks=pytest.mark.slow) for clip in (2.0**-40, (-(2.0**50), 1))),
    ],
)
def test_sums_are_those_of_the_definition(clip: Any, limit: int | None) -> None:
    """To the last bit, in whatever order and buckets the rows come, with and without a bound on a
    user's items. No value is refused under any clip: that would compare them, free of charge.
    """
    low, high = clip if isinstance(clip, tuple) else (0.0, clip)
    bound = {} if limit is None else {"max_items_per_user": limit, "salt": "s"}
    expected = sums(LOG, low, high, limit)
    for seed, buckets in ((1, 1), (2, 5)):
        shuffled = random.Random(seed).sample(LOG, len(LOG))
        assert found(frame(shuffled), value_clip=clip, buckets=buckets, **bound) == expected


def test_typed_columns_sum_as_text_does(tmp_path: Path) -> None:
    """Floats, decimals and text of the same numbers; what lies in which source is a law of
    test_neighbors.py.
    """
    log = [(user, item, round(value * 4) / 4) for user, item, value in LOG[:200]]
    table = frame(log)
    table.write_csv(tmp_path / "log.csv")
    decimals = table.with_columns(v=pl.col("v").cast(pl.Decimal(20, 2)))
    for source in (tmp_path / "log.csv", table.to_pandas(), decimals, decimals.to_pandas()):
        assert found(source, value_clip=50) == sums(log, 0.0, 50.0)


def test_sums_are_released() -> None:
    """One-sided sums go to a histogram of an unknown domain, two-sided ones to a public domain
    alone.
    """
    log = frame([(user, "abc"[user % 3], 40.0) for user in range(3000)])
    one_sided = events.read(log, **NAMES, value_clip=50, max_items_per_user=1).scores()
    histogram = dps.SparseHistogram(k=3, scale=60.0, delta=1e-6, sensitivity=one_sided.sensitivity)
    assert set(histogram.select(one_sided).labels or ()) == set("abc")
    with pytest.raises(dps.errors.SensitivityMismatch):
        dps.LimitedDomain(k=1, kbar=3, epsilon=1, delta=1e-6).select(one_sided)
    both = events.read(log, **NAMES, value_clip=(-50, 50), max_items_per_user=1)
    with pytest.raises(EventLogError, match="public catalog"):
        both.scores()
    scores = both.scores(["a", "b", "nothing"])
    assert (scores.kind, scores.values.tolist()) == ("utilities", [40000.0, 40000.0, 0.0])


@pytest.mark.fast(6)
@pytest.mark.parametrize("value", [SECRET, "nan", "inf", "-Infinity", "1,5", "true"])
@pytest.mark.parametrize("form", ["csv", "json", "polars"])
def test_non_finite_values_are_refused_without_the_row(
    value: str, form: str, tmp_path: Path
) -> None:
    """NaN, infinities and text: one error that shows the rule and not the row."""
    rows = [("1", "a", "1"), (SECRET, SECRET, value)]
    source = getattr(Sources(tmp_path, [*"uiv"]), form)(rows)
    refused(source, r"'v' of .* not a finite number", value="v", value_clip=50)
    if value in ("nan", "inf"):
        typed = pl.DataFrame({"u": ["1"], "i": ["a"], "v": [float(value)]})
        refused(typed, r"'v' of .* not a finite number", value="v", value_clip=50)


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
