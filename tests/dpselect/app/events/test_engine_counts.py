"""Counts that stay in the engine: what a release moves here is what it needs, and its law is the
dense draw's. Theorem X14.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from chance import fit
from spread import spread

import dpselect as dps
from dpselect.app.events.engine_counts import HeldCounts
from dpselect.app.events.pairs import hold
from dpselect.errors import DomainMismatch, EventLogError, InvalidRequest, SensitivityMismatch
from dpselect.sampling import ExactSampler

FEW = dps.Sensitivity.of_counts(items_per_user=5)
CLIPPED = dps.Sensitivity.of_clipped(1.0, "l2", items_per_user=5)
ASKED: dict[str, Any] = {
    "user": "u",
    "item": "i",
    "max_items_per_user": 5,
    "salt": "s",
    "clip": (1.0, 1.4),
}


def log(text: bool = False) -> pa.Table:
    """20,000 events with many items of few users."""
    rng = np.random.default_rng(1)
    items = rng.zipf(1.3, 20_000) % 5000
    names = pa.array([f"é{n}" for n in items] if text else items.astype(np.int64))
    return pa.table({"u": pa.array(rng.integers(0, 2000, len(items))), "i": names})


@pytest.fixture(scope="module", params=[False, True], ids=["integers", "text"])
def both(request: pytest.FixtureRequest) -> Iterator[tuple[dps.events.EventCounts, HeldCounts]]:
    """The same log in memory and held."""
    with hold(log(request.param), **ASKED) as held:
        yield dps.events.read(log(request.param), **ASKED), held


@pytest.mark.parametrize("clip", [None, 1.0, 1.4])
def test_the_engine_tells_the_top_and_how_many_have_each_count(
    both: Any, clip: float | None
) -> None:
    """The highest counts with ties by label, the histogram, and the report, are those of the counts
    in memory; and every number below a group's size names another item of that count: drawn numbers
    become items without a change of law.
    """
    counts, held = both
    dense, engine = counts.scores(clip=clip), held.scores(clip=clip)
    positions, values = dense.rank(700)
    labels, highest = engine._highest(700)
    assert labels == [counts.labels[at] for at in positions]
    assert highest.tolist() == values.tolist()
    assert highest.dtype == values.dtype
    distinct, sizes = engine._histogram()
    expected = np.unique(dense.values, return_counts=True)
    assert (distinct.tolist(), sizes.tolist()) == (expected[0].tolist(), expected[1].tolist())
    assert held.report == counts.report
    for group in (0, 1, len(distinct) - 1):
        pairs = [(group, member) for member in range(sizes[group])]
        named = engine._labels(pairs, distinct, ExactSampler(np.random.default_rng(1)))
        assert sorted(named) == sorted(
            counts.labels[at] for at in np.flatnonzero(dense.values == distinct[group])
        )


CATALOGS = [
    range(-8, 5, 3),
    range(-4, 6),
    range(5, -5, -1),
    range(4, -9, -3),
    [5, 3, -4, 1, 0, 2],
]


@pytest.mark.parametrize("catalog", spread(CATALOGS, 1), ids=str)
def test_untouched_candidates_are_drawn_uniformly(catalog: Any) -> None:
    """Those of a public domain that nobody touched come back with equal chances, those that
    somebody did never.
    """
    seen: Counter[tuple[Any, ...]] = Counter()
    touched = [1, -2 if 2 not in catalog else 2]
    foreign = [99, 6 if 0 in catalog else 0]  # within a range, but not of its step
    with hold(pa.table({"u": [1, 2, 3, 4], "i": [*touched, *foreign]}), user="u", item="i") as held:
        engine, source = held.scores(catalog), ExactSampler(np.random.default_rng(2))
        values, sizes = engine._histogram()
        assert dict(zip(values.tolist(), sizes.tolist(), strict=True)) == {
            0: len(catalog) - 2,
            1: 2,
        }
        for _ in range(300):
            seen[tuple(engine._labels([(0, 0), (0, 1)], values, source))] += 1
    orders = list(itertools.permutations([label for label in catalog if label not in touched], 2))
    assert set(seen) <= set(orders)
    assert fit([seen[order] for order in orders], [1 / len(orders)] * len(orders)) > 1e-8


WORDS = ["ant", "bee", "cat", "dog", "elk", "fox"]
SMALL = pa.table(
    {"u": list(range(13)), "i": [WORDS[n] for n in (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3)]}
)
RELEASES = [
    (dps.LimitedDomain(k=2, kbar=3, epsilon=1.0, delta=0.2), None),
    (dps.StableTopK(rho=0.5, failure_delta=0.3, kbar=3), None),
    (
        dps.SparseHistogram(
            k=2, scale=1.0, delta=0.3, sensitivity=dps.Sensitivity.of_counts(items_per_user=1)
        ),
        None,
    ),
    (
        dps.DiscoverThenSelect(
            discovery=dps.LimitedDomain(k=3, kbar=3, epsilon=1.0, delta=0.2),
            selection=dps.OneshotTopK(k=1, noise="gumbel", scale=2.0),
            candidates=2,
        ),
        None,
    ),
    (dps.OneshotTopK(k=2, noise="gumbel", scale=2.0), WORDS),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "catalog"), RELEASES, ids=lambda one: getattr(one, "kind", "domain")
)
def test_a_release_from_held_scores_has_the_law_of_the_dense_draw(
    mechanism: dps.Mechanism, catalog: list[str] | None
) -> None:
    """Labels, and their order where it is released: 150 draws against the exact law; false alarm
    below 1e-8 each.
    """
    rng, seen = np.random.default_rng(3), Counter[Any]()
    asked: Any = {"user": "u", "item": "i", "max_items_per_user": 1}
    dense = dps.events.read(SMALL, **asked).scores(catalog)
    with hold(SMALL, **asked) as held:
        scores = held.scores(catalog)
        for _ in range(150):
            seen[mechanism.select(scores, rng=rng).outcome.chosen] += 1
    names, law = dense.labels or (), dict[Any, float]()
    for outcome, chance in mechanism.probabilities(dense).items():
        law[type(outcome)(names[at] for at in outcome)] = chance
    assert set(seen) <= set(law)
    assert fit([seen[one] for one in law], list(law.values())) > 1e-8


def test_released_values_match_their_labels_in_both_passes(both: Any) -> None:
    """Noisy values lie near the counts of the labels next to them, and a discovered domain is
    looked at anew.
    """
    counts, held = both
    of = dict(zip(counts.labels, counts.counts.tolist(), strict=True))
    find = dps.SparseHistogram(k=20, scale=1.0, delta=1e-6, sensitivity=FEW)
    noisy = dps.WithValues(
        mechanism=dps.LimitedDomain(k=3, kbar=20, epsilon=5.0, delta=1e-6, l0=5),
        noise="gaussian",
        scale=0.5,
    )
    for mechanism in (find, noisy):
        released = mechanism.select(held.scores())
        near = zip(released.labels, released.values, strict=True)
        assert all(abs(of[label] - value) < 12 for label, value in near)
    best = dps.OneshotTopK(k=3, noise="gaussian", scale=1.0, sensitivity=CLIPPED)
    looks: list[Any] = []

    def look(labels: Any) -> dps.Scores:
        looks.append(labels)
        return dps.Scores(np.arange(len(labels)) * 100.0, labels=labels, sensitivity=CLIPPED)

    for selection, scores in (
        (best, held.scores().with_second(dps.SecondLook(look, CLIPPED))),
        (dps.OneshotTopK(k=3, noise="gumbel", scale=0.1), held.scores()),
    ):
        twice = dps.DiscoverThenSelect(discovery=find, selection=selection, candidates=20)
        found = twice.select(scores).labels
        top = [counts.labels[at] for at in counts.scores().rank(3)[0]]
        assert found == tuple(looks[0][:-4:-1] if selection is best else top)


def test_engine_counts_refuse_unsuitable_mechanisms_before_a_draw() -> None:
    """Mechanisms that look at all scores, domains that do not fit, rounds, and reports of a number
    that is private. Candidates found by their counts have lost their order and their group.
    """
    limited = dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=0.1)
    sparse = dps.SparseHistogram(k=1, scale=2.0, delta=0.1, sensitivity=FEW)
    two, nine = (dps.OneshotTopK(k=k, noise="gumbel", scale=2.0) for k in (2, 9))
    found, listed, each = (
        dps.PerGroup(mechanism=one, max_groups_per_user=1, discovery=discovery)
        for one, discovery in (
            (limited, sparse.model_copy(update={"k": None})),
            (limited, None),
            (dps.PermuteAndFlip(epsilon=1.0), None),
        )
    )
    with hold(SMALL, user="u", item="i") as held:
        observed, public = held.scores(), held.scores(WORDS)
        assert "hidden" in repr(held)
        assert "hidden" in repr(observed)
        refused: list[tuple[type[Exception], str, Callable[[], object]]] = [
            (
                InvalidRequest,
                "stay in the",
                lambda: dps.CanonicalTopK(k=2, epsilon=1).check(public),
            ),
            (InvalidRequest, "LimitedDomain looks at all scores", lambda: limited.check(public)),
            (DomainMismatch, "public domain", lambda: two.check(observed)),
            (SensitivityMismatch, "wider in l0", lambda: sparse.check(observed)),
            (InvalidRequest, "at least 9", lambda: nine.check(public)),
            (DomainMismatch, "private", lambda: observed.candidates),
            *(
                (InvalidRequest, "PerGroup looks at all scores", partial(one.select, scores))
                for one, scores in ((found, observed), (listed, observed), (each, public))
            ),
            (EventLogError, "is empty", lambda: held.scores(range(0))),
            (EventLogError, "none of those", lambda: held.scores(clip=1.0)),
            (InvalidRequest, "select_many", lambda: two.select_many(public)),
        ]
        for error, words, call in refused:
            with pytest.raises(error, match=words):
                call()
    for more, words in (
        ({"value": "v", "value_clip": (-1, 1)}, "may be negative are for events.read"),
        ({"group": "g", "max_groups_per_user": 1}, "group= is for events.read"),
    ):
        with pytest.raises(EventLogError, match=words):
            hold(SMALL, user="u", item="i", **more)


def test_a_billion_implied_candidates_take_no_memory() -> None:
    """A range is never listed: the top is found, and what else is drawn lies in the range."""
    with hold(log(), user="u", item="i") as held:
        scores = held.scores(range(10**9))
        assert scores.candidates == 10**9
        top = dps.OneshotTopK(k=5, noise="gumbel", scale=1.0).select(scores).labels
        wide = dps.OneshotTopK(k=5, noise="gumbel", scale=1e6).select(scores).labels
    assert top is not None
    assert wide is not None
    assert set(top) <= set(range(10))
    assert all(0 <= label < 10**9 for label in wide)  # type: ignore[operator]


def test_sums_stay_in_the_engine_too() -> None:
    """The top, the histogram and what a user changes are those of the sums in memory, from above 0
    to 2^53 units.
    """
    rng = np.random.default_rng(2)
    paid = np.where(np.arange(20_000) % 40 == 0, 1e300, rng.normal(3, 9, 20_000))
    paying = log().append_column("paid", pa.array(paid))
    asked = {**ASKED, "clip": None, "value": "paid", "value_clip": 7.3}
    counts = dps.events.read(paying, **asked)
    with hold(paying, **asked) as held:
        for catalog in (None, [3, 1, 10**6]):
            dense, engine = counts.scores(catalog), held.scores(catalog)
            distinct, sizes = np.unique(dense.values[dense.values > 0], return_counts=True)
            found = [part[engine._histogram()[0] > 0].tolist() for part in engine._histogram()]
            assert found == [distinct.tolist(), sizes.tolist()]
            assert engine._highest(1)[1].tolist() == [dense.values.max()]
            assert held.scores(catalog).sensitivity == dense.sensitivity
        # 3 to 5 lie beyond
        engine.counts.tables.run(
            f"UPDATE {engine.counts.relation} SET w0 = 9007199254740990 + i WHERE i <= 5"
        )
        cut = held.scores()
        assert cut._highest(4)[1].tolist() == [2.0**53 * float(counts.clips[0].unit)] * 4
