"""`History`: what was shown stays, means order and find more, and a draw that fails closes it."""

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spread import spread

import accounting as acc
import dpselect as dps
from dpselect.app.continual import history as histories
from dpselect.mechanisms.means_over_time import Means
from dpselect.mechanisms.release import public_grid

FEW = dps.Sensitivity.of_counts(items_per_user=3)
HISTOGRAM = dps.SparseHistogram(scale=2.0, delta=1e-6, sensitivity=FEW)
LABELS = ["zoo", "park", "pier"]
WHOLE = dps.OneshotTopK(k=3, noise="gaussian", scale=2.0, values=True, sensitivity=FEW)
RATES = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)


def public(*counts: float, labels: Any = LABELS) -> dps.Scores:
    return dps.Scores(list(counts), labels=labels, sensitivity=FEW)


def counted(**counts: float) -> dps.Scores:
    return dps.Scores(
        list(counts.values()), labels=list(counts), sensitivity=FEW, domain="observed"
    )


def of(releases: int = 500, shown: Any = (), **settings: Any) -> dps.continual.History:
    return dps.continual.History(
        HISTOGRAM.model_copy(update=settings), k=2, releases=releases, shown=shown
    )


@pytest.fixture
def session(tmp_path: Path) -> dps.Session:
    ledger = acc.Ledger.open(f"sqlite:///{tmp_path}/l.db")
    ledger.create_dataset("visits", acc.Budget(epsilon=100.0, delta=1e-3), "add_remove")
    return dps.Session(ledger, "visits")


def released(history: dps.continual.History, seed: int = 0, **counts: float) -> dps.Selection:
    return history.select(counted(**counts), rng=np.random.default_rng(seed))


@pytest.mark.parametrize("noise", spread(["laplace", "gaussian"], 1))
def test_released_item_stays_in_later_releases(noise: str) -> None:
    """A known item is shown at a count of 1 and at none, with its noisy score; an unknown one still
    needs a threshold.
    """
    history = of(noise=noise)
    first = released(history, zoo=9000, park=1)
    assert first.labels == ("zoo",)
    later = [released(history, seed, park=1, zoo=1) for seed in range(40)]
    later += [released(history, seed, park=1) for seed in range(40)]
    assert {one.labels for one in later} == {("zoo",)}
    values = np.array([one.values for one in later]).reshape(2, 40)
    assert not (values % 2.0**-9).any()
    assert np.abs(values.mean(axis=1) - [1, 0]).max() < 6 * 3.0 / np.sqrt(40)
    assert released(of(shown=[first, *later], noise=noise), park=1).labels == ("zoo",)


@pytest.mark.parametrize("releases", [1, 9])
def test_tests_make_room_for_the_rounding_of_scores(
    releases: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T8: a score that was rounded up to its bar, by half the public grid, was not above it; nine
    in a row are a mean.
    """
    single = histories.single_test(HISTOGRAM).threshold
    bar = single if releases == 1 else min(histories.mean_thresholds(HISTOGRAM, releases, releases))
    assert releases == 1 or bar < 0.9 * single
    for share, labels in ((0.98, ()), (1.02, ("zoo",))):
        drawn = bar + share * public_grid(HISTOGRAM.scale) / 2
        monkeypatch.setattr(
            histories, "_noisy", lambda _, true, __, drawn=drawn: np.full(len(true), drawn)
        )
        history = of(releases)
        assert [released(history, zoo=1).labels for _ in range(releases)] == [()] * (
            releases - 1
        ) + [labels]


@pytest.mark.parametrize(
    ("mechanism", "scores"),
    [
        pytest.param(HISTOGRAM, counted(zoo=61, park=60, pier=40), marks=pytest.mark.slow),
        (WHOLE, public(61, 60, 40)),
    ],
    ids=["observed", "public"],
)
def test_the_order_is_by_means_and_values_are_the_last(
    mechanism: dps.Mechanism, scores: dps.Scores
) -> None:
    """Items whose true order is clear after thirty releases are in it, whatever the last scores,
    which are those shown; each release costs what the mechanism does.
    """

    def drawn(history: dps.continual.History, seed: int) -> dps.Selection:
        return history.select(scores, rng=np.random.default_rng(seed))

    history = dps.continual.History(mechanism, k=2, releases=31)
    shown = [drawn(history, seed) for seed in range(30)]
    assert len({one.labels for one in shown}) == 2
    assert shown[-1].labels == ("zoo", "park", "pier")
    assert any((one.values or ())[0] < (one.values or ())[1] for one in shown)
    again = dps.continual.History(mechanism, k=2, releases=1, shown=shown[:-1])
    assert drawn(again, 29) == shown[-1]
    assert history.best(shown[-1]).labels == ("zoo", "park")
    assert not dps.continual.History(mechanism, k=4, releases=1).best(shown[-1]).complete
    assert history.curve == mechanism.curve


DRAWN: dict[str, Any] = {"values": [3.0], "sensitivity": FEW, "domain": "observed", "labels": ["a"]}
OTHERS = [dps.Selection(ordered=True, labels=(name,), values=(1.0,)) for name in "ab"]


@pytest.mark.parametrize(
    ("made", "drawn", "words"),
    [
        ({"mechanism": HISTOGRAM.model_copy(update={"floor": 2.0})}, None, "floor=0"),
        ({"mechanism": HISTOGRAM.model_copy(update={"k": 2})}, None, "k=None"),
        (
            {"mechanism": dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=1e-6)},
            None,
            "SparseHistogram",
        ),
        ({"mechanism": WHOLE.model_copy(update={"values": False})}, None, "values=True"),
        ({"k": 0}, None, "k=0"),
        ({"releases": 0}, None, "releases=0"),
        ({"shown": OTHERS}, None, "leaves out 1 of"),
        ({}, {**DRAWN, "labels": None}, "labels"),
        ({}, {**DRAWN, "values": [0.1]}, "multiples"),
        ({}, {**DRAWN, "values": [2**32]}, r"below 2\^32"),
        ({}, {**DRAWN, "sums": True}, "amounts"),
        ({"mechanism": WHOLE.model_copy(update={"k": 2})}, LABELS, "k=2"),
        ({"mechanism": WHOLE, "shown": WHOLE}, ["a", "b", "c"], "domain"),
        ({"mechanism": WHOLE, "shown": WHOLE}, None, "labels"),
    ],
    ids=str,
)
def test_history_refuses_unsuitable_mechanisms_and_scores(
    made: dict[str, Any], drawn: Any, words: str
) -> None:
    """A mechanism without values of every item, and numbers that do not go with it, are refused;
    and so are scores whose items cannot be told apart in the next release, and of a public domain
    other items, or not all of them.
    """
    if made.get("shown") is WHOLE:
        made = {**made, "shown": [WHOLE.select(public(9, 5, 1))]}
    scores = dps.Scores(**drawn) if isinstance(drawn, dict) else public(1.0, 2.0, 3.0, labels=drawn)
    settings: Any = {"mechanism": HISTOGRAM, "k": 1, "releases": 3, **made}
    with pytest.raises(dps.errors.InvalidRequest, match=words):
        dps.continual.History(**settings).select(scores)


def test_failed_draw_closes_the_history(
    session: dps.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was drawn then may have been kept somewhere: nothing is drawn on it again, and nothing
    is charged for trying.
    """
    history = of()
    assert history.release(session, counted(zoo=9000)).labels == ("zoo",)

    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(histories, "mean_thresholds", fails)
        with pytest.raises(KeyboardInterrupt):
            history.release(session, counted(zoo=9000))
    before = len(list(session.ledger.entries("visits")))
    with pytest.raises(dps.errors.InvalidRequest, match="closed"):
        history.release(session, counted(zoo=9000))
    assert len(list(session.ledger.entries("visits"))) == before


def test_each_release_is_charged_before_it_is_drawn(session: dps.Session, tmp_path: Path) -> None:
    """At the histogram's price, under its own key, and no more often than was said."""
    history, kept = of(2), list[dps.Selection]()
    for day in ("monday", "tuesday"):
        shown = history.release(
            session, counted(zoo=9000), key=day, keep=lambda one: kept.append(one) or "here"
        )
        assert kept[-1] == shown
        charge, release = (entry for entry in session.ledger.entries("visits") if entry.key == day)
        assert acc.Curve.from_json(charge.curve or "") == HISTOGRAM.curve
        assert json.loads(charge.mechanism or "")["mechanism"] == json.loads(HISTOGRAM.to_json())
        assert (charge.action, release.action, release.label) == ("charge", "release", "here")
    with pytest.raises(dps.errors.InvalidRequest, match="2 releases of this history are drawn"):
        history.release(session, counted(zoo=9000), key="wednesday")


def test_history_cannot_be_copied_or_forked() -> None:
    """A copy would test the same noise twice."""
    history = of()
    released(history, zoo=40)
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="this history"):
            copied(history)
    child = multiprocessing.get_context("fork").Process(target=_refused, args=(history,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert "40" not in repr(history).split(" at 0x")[0]  # an address may hold any digits


def _refused(history: dps.continual.History) -> None:
    with pytest.raises(acc.AccountingError, match="another process"):
        history.select(counted(zoo=40))


def test_all_items_cost_what_some_cost() -> None:
    """Theorem T7: the price of a whole Gaussian vector is that of its k best items, whatever k."""
    clipped = dps.Sensitivity.of_clipped(1.0, items_per_user=20)
    for candidates in (None, 100):
        settings: dict[str, Any] = {
            "noise": "gaussian",
            "scale": 25.0,
            "sensitivity": clipped,
            "candidates": candidates,
        }
        few, whole = (
            dps.OneshotTopK(k=10, **settings),
            dps.OneshotTopK(k=100, values=True, **settings),
        )
        assert whole.curve == few.curve


def test_means_and_rates_are_those_of_a_direct_sum() -> None:
    """Every release's order is by the mean, of seven, whose estimated squared error over borderline
    items is least; all computed anew from the definition.
    """
    rng, k, chosen = np.random.default_rng(1), 4, []
    means, seen = Means(k, 40), []
    for at in range(12):
        truth = np.linspace(30, 0, 40) if at < 8 else np.linspace(0, 30, 40)
        seen.append(truth + 3 * rng.standard_normal(40))
        means.add(seen[-1])
        found = means.order(9.0)
        ages = np.arange(len(seen))[::-1]
        weights = [np.array([float(rate) ** age for age in ages]) for rate in RATES]
        all_means = [weight / weight.sum() @ np.array(seen) for weight in weights]
        if at == 0:
            assert (found == seen[0]).all()
            continue
        before = weights[3][1:] / weights[3][1:].sum() @ np.array(seen[:-1])
        border = np.argsort(-before, kind="stable")[k : 4 * k]
        risks = [
            np.square(mean - seen[-1])[border].mean() + 2 * 9.0 / weight.sum()
            for mean, weight in zip(all_means, weights, strict=True)
        ]
        chosen.append(int(np.argmin(risks)))
        np.testing.assert_allclose(found, all_means[chosen[-1]], rtol=1e-9)
    assert len(set(chosen)) > 1, "a log that changes is forgotten faster"
