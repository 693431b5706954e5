"""`Memory`: what was shown stays, means find more, and a draw that fails closes it."""

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from dpselect.continual import memory as memories
from dpselect.continual.memory import best

FEW = dps.Sensitivity.of_counts(items_per_user=3)
HISTOGRAM = dps.SparseHistogram(scale=2.0, delta=1e-6, sensitivity=FEW)


def seen(**counts: float) -> dps.Scores:
    return dps.Scores(list(counts.values()), labels=list(counts), sensitivity=FEW, domain="observed")


def of(releases: int = 500, shown: Any = (), **settings: Any) -> dps.Memory:
    return dps.Memory(HISTOGRAM.model_copy(update=settings), k=2, releases=releases, shown=shown)


def released(memory: dps.Memory, seed: int = 0, **counts: float) -> dps.Selection:
    return memory.select(seen(**counts), rng=np.random.default_rng(seed))


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_what_was_shown_stays(noise: str) -> None:
    """A known item is shown at a count of 1 and at none, with its noisy score; an unknown one still needs a threshold."""
    memory = of(noise=noise)
    first = released(memory, zoo=9000, park=1)
    assert first.labels == ("zoo",)
    later = [released(memory, seed, park=1, zoo=1) for seed in range(40)]
    later += [released(memory, seed, park=1) for seed in range(40)]
    assert {one.labels for one in later} == {("zoo",)}
    values = np.array([one.values for one in later]).reshape(2, 40)
    assert not (values % 2.0**-9).any()
    assert np.abs(values.mean(axis=1) - [1, 0]).max() < 6 * 3.0 / np.sqrt(40)
    assert released(of(shown=[first, *later], noise=noise), park=1).labels == ("zoo",)


def test_items_are_found_by_their_means() -> None:
    """Of a count that never passes the histogram's threshold, over twenty releases; where an item does not occur it counts 0."""
    memory, count = of(20), 0.6 * HISTOGRAM.threshold
    found = [released(memory, seed, zoo=int(count)).labels for seed in range(20)]
    assert (found[0], found[-1]) == ((), ("zoo",))
    memory = of(20)
    found = [released(memory, seed, **({"zoo": int(count)} if seed < 2 else {"park": 1})).labels for seed in range(20)]
    assert found[-1] == ()
    memory = of(20, noise="laplace")
    assert not any(released(memory, seed, zoo=int(0.6 * of(noise="laplace")._single.threshold)).labels for seed in range(20))


def test_the_order_is_by_means_and_values_are_the_last() -> None:
    """Items whose true order is clear after forty releases are in it, whatever the last scores; equals in the order of labels."""
    memory = of(40)
    shown = [released(memory, seed, zoo=5002, park=5000, pier=400) for seed in range(40)]
    assert len({one.labels for one in shown}) == 2
    assert shown[-1].labels == ("zoo", "park", "pier")
    assert any((one.values or ())[0] < (one.values or ())[1] for one in shown)
    again = of(1, shown[:-1])
    assert released(again, 39, zoo=5002, park=5000, pier=400).labels == shown[-1].labels


def test_the_best_of_what_is_shown() -> None:
    shown = released(of(), zoo=9000, park=5000, pier=700)
    assert shown.labels == ("zoo", "park", "pier")
    assert best(shown, 2) == dps.Selection(ordered=True, requested=2, labels=("zoo", "park"), values=(shown.values or ())[:2])
    assert not best(shown, 4).complete


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"histogram": dps.SparseHistogram(scale=2.0, delta=1e-6, sensitivity=FEW, floor=2.0)}, "floor=0"),
        ({"histogram": dps.SparseHistogram(scale=2.0, delta=1e-6, sensitivity=FEW, k=2)}, "k=None"),
        ({"histogram": dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=1e-6)}, "SparseHistogram"),
        ({"k": 0}, "k=0"),
        ({"releases": 0}, "releases=0"),
        ({"shown": [dps.Selection(ordered=True, labels=(name,), values=(1.0,)) for name in "ab"]}, "leaves out 1 of"),
    ],
)
def test_what_a_memory_is_not_made_of(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(dps.InvalidRequest, match=words):
        dps.Memory(**{"histogram": HISTOGRAM, "k": 1, "releases": 1, **settings})


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ({"labels": None}, "labels"),
        ({"values": [0.1]}, "multiples"),
        ({"values": [2**32]}, "below 2\\^32"),
        ({"sums": True}, "amounts"),
    ],
)
def test_what_a_memory_does_not_draw_from(scores: dict[str, Any], words: str) -> None:
    given = dps.Scores(**{"values": [3.0], "sensitivity": FEW, "domain": "observed", "labels": ["a"], **scores})
    with pytest.raises(dps.InvalidRequest, match=words):
        of().select(given)


def test_a_draw_that_fails_closes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was drawn then may have been kept somewhere: nothing is drawn on it again, and nothing is charged for trying."""
    ledger = acc.Ledger.open(f"sqlite:///{tmp_path}/l.db")
    ledger.create_dataset("visits", acc.Budget(epsilon=100.0, delta=1e-3), "add_remove")
    session, memory = dps.Session(ledger, "visits"), of()
    assert memory.release(session, seen(zoo=9000)).labels == ("zoo",)

    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(memories, "mean_thresholds", fails)
        with pytest.raises(KeyboardInterrupt):
            memory.release(session, seen(zoo=9000))
    before = len(list(ledger.entries("visits")))
    with pytest.raises(dps.InvalidRequest, match="closed"):
        memory.release(session, seen(zoo=9000))
    assert len(list(ledger.entries("visits"))) == before


def test_each_release_is_charged_before_it_is_drawn(tmp_path: Path) -> None:
    """At the histogram's price, under its own key, and no more often than was said."""
    ledger = acc.Ledger.open(f"sqlite:///{tmp_path}/l.db")
    ledger.create_dataset("visits", acc.Budget(epsilon=100.0, delta=1e-3), "add_remove")
    session, memory, kept = dps.Session(ledger, "visits"), of(2), list[dps.Selection]()
    for day in ("monday", "tuesday"):
        shown = memory.release(session, seen(zoo=9000), key=day, keep=lambda one: kept.append(one) or "here")
        assert kept[-1] == shown
        charge, release = (entry for entry in ledger.entries("visits") if entry.key == day)
        assert acc.Curve.from_json(charge.curve or "") == HISTOGRAM.curve
        assert json.loads(charge.mechanism or "")["histogram"] == json.loads(HISTOGRAM.to_json())
        assert (charge.action, release.action, release.label) == ("charge", "release", "here")
    with pytest.raises(dps.InvalidRequest, match="2 releases of this memory are drawn"):
        memory.release(session, seen(zoo=9000), key="wednesday")
    poor = acc.Ledger.open(f"sqlite:///{tmp_path}/poor.db")
    poor.create_dataset("visits", acc.Budget(epsilon=0.01, delta=1e-9), "add_remove")
    with pytest.raises(acc.BudgetExceeded):
        of().release(dps.Session(poor, "visits"), seen(zoo=9000))


def test_it_belongs_to_one_process() -> None:
    """A copy would test the same noise twice."""
    memory = of()
    released(memory, zoo=40)
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="this memory"):
            copied(memory)
    child = multiprocessing.get_context("fork").Process(target=_refused, args=(memory,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert "40" not in repr(memory)


def _refused(memory: dps.Memory) -> None:
    with pytest.raises(acc.AccountingError, match="another process"):
        memory.select(seen(zoo=40))
