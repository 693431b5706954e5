"""What a mechanism releases: order only where it is covered, nothing private, refusals before any
draw.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import accounting as acc
import dpselect as dps

S = dps.Sensitivity()
SCORES = dps.Scores([5, 3, 3, 1], sensitivity=S)
OBSERVED = dps.Scores([50, 3, 30, 1], sensitivity=S, labels=["b", "c", "a", "z"], domain="observed")


@pytest.mark.parametrize(
    "mechanism",
    [
        dps.StabilityTest(k=3, scale=10.0, failure_delta=1e-6),
        dps.StableTopK(
            rho=1.0,
            failure_delta=1e-6,
            kbar=3,
            regularizer=dps.mechanisms.TargetSize(k=3, penalty=50_000.0),
        ),
        dps.TopStable(k=3, kbar=3, epsilon=1.0, delta=1e-6),
    ],
    ids=lambda mechanism: mechanism.kind,
)
def test_a_set_of_observed_items_is_released_in_the_order_of_labels(
    mechanism: dps.Mechanism,
) -> None:
    """However the counts are ranked, the labels come sorted: their ranks are not paid for."""
    for names in (["m", "z", "a", "k"], ["z", "m", "a", "k"], ["a", "z", "m", "k"]):
        scores = dps.Scores(
            [120_000, 90_000, 60_000, 1],
            sensitivity=mechanism.sensitivity_bound,
            labels=names,
            domain="observed",
        )
        released = mechanism.select(scores)
        assert (released.labels, released.ordered) == (("a", "m", "z"), False)


def test_dominant_first_item_leaves_the_remaining_distribution() -> None:
    """LimitedDomain's law after an item beyond any weight that floats hold is the one without that
    item.
    """
    mechanism = dps.LimitedDomain(k=3, kbar=3, epsilon=0.1, delta=0.2)
    after = mechanism.probabilities(dps.Scores([10**6, 4, 1], sensitivity=S, domain="observed"))
    alone = mechanism.model_copy(update={"k": 2}).probabilities(
        dps.Scores([4, 1], sensitivity=S, domain="observed")
    )
    assert {
        outcome[1:]: chance for outcome, chance in after.items() if outcome[:1] == (0,)
    } == pytest.approx(
        {tuple(place + 1 for place in outcome): chance for outcome, chance in alone.items()},
        rel=1e-12,
    )


EM = dps.ExponentialMechanism(epsilon=1)
REFUSED: dict[type[Exception], list[Callable[[], object]]] = {
    dps.errors.InvalidRequest: [
        lambda: dps.OneshotTopK(k=5, noise="gumbel", scale=1).select(SCORES),
        lambda: dps.PeelingTopK(k=5, noise="gumbel", scale=1).select(SCORES),
        lambda: dps.OneshotTopK(k=1, noise="laplace", scale=1, candidates=3).select(SCORES),
        lambda: EM.select(SCORES, rng=7),
    ],
    dps.errors.InvalidScores: [
        lambda: EM.select([1, 2]),
        *(
            partial(EM.select_many, rows)
            for rows in ([1, 2], np.empty((0, 3)), [[np.nan, 2]], [[1], [1, 2]], SCORES)
        ),
    ],
    dps.errors.InvalidMechanism: [
        lambda: dps.ExponentialMechanism(epsilon=1e-309).select(SCORES),
        lambda: dps.ReportNoisyMax(noise="laplace", scale=1e-310).curve,
        lambda: dps.ReportNoisyMax(noise="gaussian", scale=1),
        lambda: dps.OneshotTopK(k=3, noise="gumbel", scale=1, candidates=2),
        lambda: dps.LimitedDomain(k=3, kbar=2, epsilon=1, delta=0.1),
        *(partial(dps.Mechanism.from_json, text) for text in ('{"kind": "nonsense"}', "{")),
    ],
}


@pytest.mark.parametrize(
    ("make", "error"), [(make, error) for error, calls in REFUSED.items() for make in calls]
)
def test_bad_requests_are_refused(make: Callable[[], object], error: type[Exception]) -> None:
    """A wrong configuration or request raises its own error class, a subclass of
    AccountingError.
    """
    assert issubclass(error, acc.AccountingError)
    with pytest.raises(error):
        make()


def test_batches_are_sequences_of_selections() -> None:
    """select_many returns one selection per row, sliceable, with what single selections carry."""
    batch = dps.LimitedDomain(k=2, kbar=2, epsilon=50, delta=0.1).select_many(
        [[90, 1, 50, 0], [0, 0, 0, 0], [0, 70, 0, 90]]
    )
    assert len(batch) == 3
    assert [s.indices for s in batch] == [(0, 2), (), (3, 1)]
    assert [s.complete for s in batch] == [True, False, True]
    assert batch[1].reason is not None
    assert batch[0].reason is None
    assert [s.indices for s in batch[1:]] == [(), (3, 1)]


def _everything_that_leaves(selection: dps.Selection) -> str:
    """A selection in every form in which it could be passed on."""
    forms = (
        selection.to_json(),
        dict(selection),
        list(selection),
        vars(selection),
        pickle.dumps(selection),
        repr(selection),
    )
    return " ".join(
        map(
            repr,
            (*forms, selection.model_dump(), copy.deepcopy(selection), selection.__getstate__()),
        )
    )


def test_selection_hides_the_number_of_other_items() -> None:
    """Selections of the same items are the same object in every form, whatever other items were
    observed before them.
    """
    mechanism = dps.LimitedDomain(k=1, kbar=2, epsilon=50, delta=0.01)
    crowd = dps.Scores(
        [1] * 70 + [90],
        sensitivity=S,
        labels=[f"x{i}" for i in range(70)] + ["b"],
        domain="observed",
    )
    few, many = (mechanism.select(scores) for scores in (OBSERVED, crowd))
    assert few == many
    assert hash(few) == hash(many)
    assert pickle.dumps(few) == pickle.dumps(many)
    assert _everything_that_leaves(few) == _everything_that_leaves(many)
    assert "70" not in _everything_that_leaves(many)
    assert many.labels == ("b",)
    assert many.to_arrow()["item"].to_pylist() == ["b"]
    assert not {"indices", "positions"} & {*repr(many).split("="), *json.loads(many.to_json())}
    assert dps.Selection.from_json(many.to_json()).labels == many.labels
    with pytest.raises(dps.errors.DomainMismatch, match="labels"):
        _ = many.indices


@pytest.mark.parametrize(
    "selection",
    [
        dps.LimitedDomain(k=1, kbar=2, epsilon=20, delta=0.01).select(OBSERVED),
        dps.LimitedDomain(k=1, kbar=2, epsilon=1, delta=1e-9).select(OBSERVED),
        dps.OneshotTopK(k=2, noise="gumbel", scale=1.0).select(SCORES),
        dps.StabilityTest(k=2, scale=9.0, failure_delta=1e-9).select(SCORES),
        dps.Selection(ordered=True, indices=(3, 1), values=(0.1, -2.5), labels=(7, "7")),
        dps.Selection(ordered=False),
    ],
    ids=["a label", "nothing", "indices", "no set", "values", "empty"],
)
def test_a_selection_survives_json_and_pickle(selection: dps.Selection) -> None:
    """from_json(to_json(s)) == s, and so does what pickle carries."""
    assert dps.Selection.from_json(selection.to_json()) == selection
    assert pickle.loads(pickle.dumps(selection)) == copy.deepcopy(selection) == selection
    assert (
        dict(selection)
        == selection.model_dump()
        == json.loads(selection.to_json(), object_hook=_tuples)
    )


def _tuples(data: dict[str, object]) -> dict[str, object]:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
    }
