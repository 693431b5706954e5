"""The unsanitised cost is private: nothing takes it, prints it or stores it."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from accounting.ledger import AlreadyCharged
from dpselect import pate
from dpselect.errors import InvalidMechanism, InvalidRequest
from dpselect.pate.unsanitised import Lattice, LossProfile, States

COUNTS = np.array([[37, 2, 1], [31, 5, 4], [20, 18, 2]])
MECHANISM = pate.GNMax(sigma=5.0, labels=3)


@pytest.fixture
def private() -> pate.UnsanitisedPrivacy:
    """The cost of three rounds of forty teachers."""
    return pate.data_dependent(COUNTS, MECHANISM, teachers=40)


def test_it_is_no_curve_no_number_and_no_text(private: pate.UnsanitisedPrivacy) -> None:
    """It has neither curve nor kind nor JSON; text shows public numbers only; it is neither pickled, copied nor looked into."""
    assert not isinstance(private, acc.Curve | dps.Mechanism)
    assert not {"curve", "kind", "to_json", "relation", "__float__", "__dict__"} & set(dir(private))
    other = pate.data_dependent(COUNTS[::-1] * 0 + [14, 13, 13], MECHANISM, teachers=40)
    assert repr(private) == str(private) == f"{private}" == repr(other)
    takes: tuple[Callable[[Any], object], ...] = (pickle.dumps, copy.copy, copy.deepcopy, json.dumps, float, vars, iter)
    for take in (*takes, lambda private: format(private, ".3f")):
        with pytest.raises(TypeError):
            take(private)


def test_a_release_that_leaves_no_delta_is_refused_before_it_is_charged(private: pate.UnsanitisedPrivacy, tmp_path: Path) -> None:
    """A failure that takes all of delta leaves nothing to state an epsilon at: refused before the charge, so nothing is lost."""
    session = _votes(tmp_path, acc.Budget(epsilon=50.0, delta=1e-2))
    for failure in (1e-5, 1e-3):
        with pytest.raises(InvalidRequest, match="must exceed the release's failure"):
            private.sanitised(order=8.0, delta=1e-5, failure=failure, session=session)
    assert list(session.ledger.entries("votes")) == []


def test_accounting_refuses_it(private: pate.UnsanitisedPrivacy, tmp_path: Path) -> None:
    """Ledgers, sessions, accountants, budgets, calibration and curves take neither it nor the number that is published of it."""
    session = _votes(tmp_path, acc.Budget(epsilon=5.0, delta=1e-5))
    ledger = session.ledger
    published = private.sanitised(order=8.0, delta=1e-5, rng=np.random.default_rng(1))
    for value in (private, published):
        for attempt in (
            lambda value=value: ledger.charge("votes", value),
            lambda value=value: ledger.reserve("votes", value),
            lambda value=value: session.select_many(value, COUNTS),
            lambda value=value: acc.Accountant().compose(value),
            lambda value=value: acc.calibrate(lambda _: value, acc.Budget(epsilon=1.0, delta=1e-5)),
            lambda value=value: acc.Budget(epsilon=1.0, delta=1e-5).price(value),
            lambda value=value: acc.Approximate(curve=value, delta0=0.0),
            lambda value=value: acc.Curve.from_json(value),
            lambda value=value: acc.tighter(value, acc.PureDP(epsilon=1.0)),
        ):
            with pytest.raises((acc.AccountingError, AttributeError, TypeError)) as caught:
                attempt()
            assert not any(f"{number:.4g}" in str(caught.value) for number in private.expose_private())
    assert list(ledger.entries("votes")) == []
    with pytest.raises(acc.AccountingError):
        acc.Curve.from_json(published.model_dump_json())


def _votes(tmp_path: Path, budget: acc.Budget, relation: acc.arguments.Relation = "replace_one") -> dps.Session:
    tmp_path.mkdir(exist_ok=True)
    ledger = acc.Ledger.open(f"sqlite:///{tmp_path / 'v.db'}")
    ledger.create_dataset("votes", budget, relation)
    return dps.Session(ledger, "votes")


def test_what_is_published_is_charged_first(private: pate.UnsanitisedPrivacy, tmp_path: Path) -> None:
    """A published bound is a release: its curve is charged to the votes' ledger, once, and the charge names what it was for."""
    session = _votes(tmp_path, acc.Budget(epsilon=9.0, delta=1e-5))
    published = private.sanitised(order=8.0, delta=1e-5, session=session, key="bound", label="what the labels cost")
    (opened, released) = session.ledger.entries("votes")
    assert (opened.action, released.action) == ("charge", "release")
    assert (opened.curve, opened.label) == (published.release.curve.to_json(), "what the labels cost")
    assert pate.SmoothRelease.model_validate_json(opened.mechanism) == published.release
    with pytest.raises(AlreadyCharged):
        private.sanitised(order=8.0, delta=1e-5, session=session, key="bound")


def test_nothing_is_published_that_is_not_paid_for(
    private: pate.UnsanitisedPrivacy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a session, under another relation or beyond the budget, no noise is drawn and nothing is charged."""
    monkeypatch.setattr(pate.UnsanitisedPrivacy, "_released", lambda *_: pytest.fail("drawn before it was paid for"))
    poor = _votes(tmp_path, acc.Budget(epsilon=0.5, delta=1e-5))
    other = _votes(tmp_path / "other", acc.Budget(epsilon=9.0, delta=1e-5), "add_remove")
    for arguments, error in (
        ({}, InvalidRequest),
        ({"session": poor, "rng": np.random.default_rng(1)}, InvalidRequest),
        ({"session": poor}, (acc.BudgetExceeded, acc.errors.Unaffordable)),
        ({"session": other}, acc.RelationMismatch),
    ):
        with pytest.raises(error):
            private.sanitised(order=8.0, delta=1e-5, sigma=0.5, **arguments)
    assert list(poor.ledger.entries("votes")) == []


def test_the_noise_has_a_public_floor_and_the_walk_a_public_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unanimous votes, whose sensitivity underflows, keep a public least noise; as many distances are tried as for any votes."""
    walked: list[int] = []
    local = LossProfile.local
    monkeypatch.setattr(
        LossProfile, "local", lambda self, states, distance: walked.append(distance) or local(self, states, distance)
    )
    profile = LossProfile(2.0, Lattice(4000, 3, 5.0), None)
    found = []
    for row in ([4000, 0, 0], [1334, 1333, 1333], [3000, 900, 100]):
        walked.clear()
        counts = np.array([row])
        states = States(counts.max(axis=1), profile.lattice.steps(counts))
        found.append((profile.smooth(states, 0.3), tuple(walked)))
    assert len({tried for _, tried in found}) == 1
    assert found[0][1] == tuple(range(71))
    assert 1e-12 < found[0][0] < 1e-6 * found[1][0]


def test_reading_it_says_so(private: pate.UnsanitisedPrivacy) -> None:
    """The holder of the votes reads it by name; values bound the Renyi divergence, do not fall with the order, and are those of
    counts as of ballots."""
    values = private.expose_private()
    cast = pate.Ballots.of_classes([np.repeat(range(3), row) for row in COUNTS], labels=3)
    assert pate.data_dependent(cast, MECHANISM).expose_private().tolist() == values.tolist()
    assert np.all(np.diff(values) >= 0)
    assert np.all(values <= 3 * MECHANISM.curve.rdp(private.orders) * (1 + 1e-9))
    assert private.expose_private_epsilon(1e-5) <= (3 * MECHANISM.curve).epsilon(1e-5)


@pytest.mark.parametrize(
    ("mechanism", "orders", "error"),
    [
        (pate.BinaryVoting(sigma=5.0, labels=3), (2.0,), InvalidMechanism),
        (pate.GNMax(sigma=5.0, labels=3, relation="add_remove", unit="teacher"), (2.0,), acc.RelationMismatch),
        (pate.GNMax(sigma=5.0, labels=1), (2.0,), InvalidMechanism),
        (pate.GNMax(sigma=5.0, labels=4), (2.0,), InvalidRequest),
        *((MECHANISM, orders, acc.errors.InvalidArgument) for orders in ((), (1.0,), (2.0, float("nan")), (float("inf"),))),
    ],
)
def test_only_what_is_proved(mechanism: Any, orders: tuple[float, ...], error: type[Exception]) -> None:
    """Other mechanisms, other relations, a single label, other numbers of labels, and orders that are none are refused."""
    with pytest.raises(error):
        pate.data_dependent(COUNTS if mechanism.labels > 1 else COUNTS[:, :1], mechanism, teachers=40, orders=orders)
