"""The session: nothing is drawn that was not charged, and nothing leaves that is not on record."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from accounting.ledger import (
    AlreadyCharged,
    ClaimConflict,
    InvalidTransition,
    KeyConflict,
    Ledger,
    LedgerUnavailable,
    Receipt,
    UnknownDataset,
)
from accounting.ledger import ledger as ledger_module
from dpselect.errors import InvalidRequest, InvalidScores
from dpselect.session import Schedule, Session

SENSITIVITY = dps.Sensitivity()
MECHANISM = dps.ExponentialMechanism(epsilon=0.25, sensitivity=SENSITIVITY)
SCORES = dps.Scores([30, 10, 20], sensitivity=SENSITIVITY, labels=["a", "b", "c"])


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A dataset "clicks" with epsilon = 1, under add_remove."""
    with Ledger.open(f"sqlite:///{tmp_path / 'privacy.db'}") as opened:
        opened.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        yield opened


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """A session on it."""
    return Session(ledger, "clicks")


def left(session: Session) -> float:
    """Epsilon that is left."""
    return session.totals()[0].main


def actions(session: Session) -> list[str]:
    """What is on record, in order."""
    return [entry.action for entry in session.ledger.entries("clicks")]


def test_a_release_is_charged_drawn_and_recorded(session: Session) -> None:
    """One select is one charge at the mechanism's curve, with the mechanism as provenance, and one
    release; its key pays once.
    """
    selection = session.select(MECHANISM, SCORES, label="best page", key="monday", salt="pepper")
    assert set(selection.labels or ()) < {"a", "b", "c"}
    for again in (partial(session.select, MECHANISM, SCORES), partial(session.require, MECHANISM)):
        with pytest.raises(AlreadyCharged, match="released"):
            again(key="monday")
    assert actions(session) == ["charge", "release"]
    entry = next(session.ledger.entries("clicks"))
    assert (entry.label, entry.key, entry.salt, left(session)) == (
        "best page",
        "monday",
        "pepper",
        0.75,
    )
    assert dps.Mechanism.from_json(entry.mechanism or "") == MECHANISM


def test_the_budget_ends_releases(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fifth quarter raises BudgetExceeded before anything is drawn."""
    for _ in range(4):
        session.select(MECHANISM, SCORES)
    monkeypatch.setattr(dps.ExponentialMechanism, "_select", lambda *_: pytest.fail("it was drawn"))
    with pytest.raises(acc.BudgetExceeded) as refused:
        session.select(MECHANISM, SCORES)
    assert refused.value.would_fit == 0
    with pytest.raises(acc.BudgetExceeded):
        session.require(MECHANISM)


@pytest.mark.parametrize(
    ("owner", "name"), [(dps.ExponentialMechanism, "_select"), (Ledger, "release")]
)
def test_a_failed_draw_stays_charged(
    session: Session, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    """Whatever interrupts a draw or its record, nothing leaves the session, there is no refund and
    no release on record.
    """

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(KeyboardInterrupt):
        session.select(MECHANISM, SCORES, key="interrupted")
    assert actions(session) == ["charge"]
    with pytest.raises(InvalidTransition):
        session.ledger.void("clicks", "interrupted", actor="ada", reason="it failed")


def test_require_reads_the_ledger_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """`require` opens the ledger once, for a key that is new, has paid, or has paid for something
    else.
    """
    session.select(MECHANISM, SCORES, key="monday")
    opened, reading = list[str](), ledger_module.reading
    monkeypatch.setattr(
        ledger_module, "reading", lambda store, name: (opened.append(name), reading(store, name))[1]
    )
    session.require(MECHANISM, key="tuesday")
    for item, error in ((MECHANISM, AlreadyCharged), (FLIP, KeyConflict)):
        with pytest.raises(error, match="monday"):
            session.require(item, key="monday")
    assert opened == ["clicks"] * 3


def test_misconfigured_releases_cost_nothing(session: Session) -> None:
    """Dataset, relation, sensitivity, domain, size, plan and keywords are checked before anything
    is charged.
    """
    swapped = dps.Sensitivity(relation="replace_one")
    other = dps.ExponentialMechanism(epsilon=0.25, sensitivity=swapped)
    peeling = dps.PeelingTopK(k=9, noise="gumbel", scale=99.0, sensitivity=SENSITIVITY)
    observed = dps.Scores([1, 2], sensitivity=SENSITIVITY, labels=["x", "y"], domain="observed")
    wide, exchanged = (
        dps.Scores([1, 2], sensitivity=one) for one in (dps.Sensitivity(linf=5.0), swapped)
    )
    matrix: Any = np.arange(12).reshape(4, 3)
    plans: list[Any] = [
        [],
        [(0, MECHANISM)],
        [(1.5, MECHANISM)],
        [MECHANISM],
        [(1, MECHANISM.curve)],
    ]
    several = partial(session.select_many, MECHANISM, matrix)
    refused: list[tuple[type[Exception], Callable[[], Any]]] = [
        (UnknownDataset, lambda: Session(session.ledger, "click")),
        (LedgerUnavailable, lambda: Session.open("sqlite:///nowhere.db", "clicks")),
        (acc.RelationMismatch, partial(session.select, other, exchanged)),
        (acc.RelationMismatch, partial(session.require, other)),
        (dps.errors.SensitivityMismatch, partial(session.select, MECHANISM, wide)),
        (dps.errors.DomainMismatch, partial(session.select, MECHANISM, observed)),
        (InvalidScores, partial(session.select_many, MECHANISM, np.zeros(3))),
        (InvalidRequest, partial(session.select_many, peeling, np.zeros((2, 3)))),
        *((InvalidRequest, partial(session.schedule, plan)) for plan in plans),
        # No keyword overrides what is charged, seeds the noise, or is ignored because it is
        # mistyped.
        *(
            (acc.errors.InvalidArgument, partial(several, **{keyword: 1}))
            for keyword in ("count", "period", "rng", "lable")
        ),
    ]
    for error, call in refused:
        with pytest.raises(error):
            call()
    assert actions(session) == []


def test_many_rounds_are_one_charge(session: Session) -> None:
    """select_many charges rounds times the curve, as one item, and releases one selection per
    row.
    """
    assert len(session.select_many(MECHANISM, np.arange(12).reshape(4, 3))) == 4
    entry = next(session.ledger.entries("clicks"))
    assert (entry.count, left(session)) == (4, 0.0)
    with pytest.raises(acc.BudgetExceeded):
        session.select_many(MECHANISM, np.arange(3).reshape(1, 3))


def test_releases_one_by_one_are_counted_as_they_are_charged(ledger: Ledger) -> None:
    """After one release the count is one less, where the same runs as one plan no longer fit; a
    period that is short decides.
    """
    mechanism = dps.LimitedDomain(k=2, kbar=10, epsilon=0.2, delta=1e-8)
    budget, months = acc.Budget(epsilon=1.0, delta=1e-6), ["2024-01", "2024-02"]
    ledger.create_dataset("monthly", budget, "add_remove", window="month")
    both, first, second = (
        Session(ledger, "monthly", period=period) for period in (months, *months)
    )
    counted = both.affordable(mechanism, one_by_one=True)
    assert counted.releases == budget.how_many(mechanism.curve) >= 2
    second.select(mechanism, SCORES)
    after, alone = (one.affordable(mechanism, one_by_one=True) for one in (both, first))
    assert after.releases == counted.releases - 1
    assert (after.account, after.runs_out) == ("2024-02", "divergence")
    assert first.affordable(mechanism) >= alone.releases == counted.releases
    exchanged = dps.Sensitivity(relation="replace_one")
    with pytest.raises(acc.RelationMismatch):
        first.affordable(
            dps.ExponentialMechanism(epsilon=1, sensitivity=exchanged), one_by_one=True
        )


# -- schedules -------------------------------------------------------------------------------------


@pytest.fixture
def schedule(session: Session) -> Schedule:
    """Two exponential mechanisms and one permute-and-flip, reserved."""
    return session.schedule([(2, MECHANISM), (1, FLIP)], key="plan")


FLIP = dps.PermuteAndFlip(epsilon=0.5, sensitivity=SENSITIVITY)


def test_a_schedule_draws_what_was_planned_and_no_more(
    session: Session, schedule: Schedule
) -> None:
    """One item at the composition of its runs, once under its key; they are drawn in any order,
    each once, without a charge.
    """
    (entry,) = session.ledger.entries("clicks")
    assert acc.Curve.from_json(entry.curve or "") == 2 * MECHANISM.curve + FLIP.curve
    assert (entry.action, left(session)) == ("reserve", 0.0)
    with pytest.raises(AlreadyCharged):
        session.schedule([(2, MECHANISM), (1, FLIP)], key="plan")
    for mechanism in (FLIP, MECHANISM, MECHANISM):
        schedule.select(mechanism, SCORES)
    assert schedule.remaining == {}
    for mechanism in (FLIP, MECHANISM, dps.PermuteAndFlip(epsilon=0.1, sensitivity=SENSITIVITY)):
        with pytest.raises(InvalidRequest, match="no remaining run"):
            schedule.select(mechanism, SCORES)
    assert actions(session) == ["reserve", "commit", "release"]
    assert session.ledger.verify().ok


def test_a_schedule_is_voided_until_something_is_drawn(
    session: Session, schedule: Schedule
) -> None:
    """Before the first draw the reservation is given back; a voided plan draws nothing, a used one
    is not voided.
    """
    schedule.void(actor="ada", reason="cancelled")
    assert left(session) == 1.0
    with pytest.raises(InvalidTransition):
        schedule.select(MECHANISM, SCORES)
    used = session.schedule([(2, MECHANISM)])
    used.select(MECHANISM, SCORES)
    with pytest.raises(InvalidTransition):
        used.void(actor="ada", reason="cancelled")


def test_no_run_of_a_schedule_is_drawn_twice(
    schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose draw failed is used up; a forked or pickled copy would draw the same runs for one
    charge, and is refused.
    """
    with monkeypatch.context() as patch:
        patch.setattr(dps.PermuteAndFlip, "_select", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            schedule.select(FLIP, SCORES)
    with pytest.raises(InvalidRequest):
        schedule.select(FLIP, SCORES)
    assert schedule.remaining == {MECHANISM: 2}
    with pytest.raises(TypeError, match="one process"):
        pickle.dumps(schedule)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            schedule.select(MECHANISM, SCORES)
        except acc.errors.ForeignProcess:
            os.write(write, b"refused")
        os._exit(0)
    os.close(write)
    assert os.read(read, 100) == b"refused"
    os.close(read)
    os.waitpid(child, 0)


# the chance that an item of one user shows
LIMITED = dps.LimitedDomain(k=3, kbar=3, epsilon=0.1, delta=1e-12)
ONE = dps.Scores([9000, 1], sensitivity=SENSITIVITY, labels=["a", "b"], domain="observed")


@pytest.fixture
def filtered(tmp_path: Path) -> Iterator[Session]:
    """A session on a dataset with epsilon = 1, delta = 1e-4, added up as pure epsilons."""
    with Ledger.open(f"sqlite:///{tmp_path / 'filter.db'}") as opened:
        opened.create_dataset(
            "clicks", acc.Budget(epsilon=1.0, delta=1e-4, order="inf"), "add_remove"
        )
        opened.create_dataset("ballots", acc.Budget(rho=100.0), "replace_one")
        yield Session(opened, "clicks")


def test_release_charges_only_the_cost_of_its_outcome(filtered: Session) -> None:
    """One item and the threshold are two picks of three: the third is given back with the record of
    the release.
    """
    selection = filtered.select(LIMITED, ONE, pay="spent", key="one")
    assert selection.labels == ("a",)
    assert actions(filtered) == ["reserve", "commit", "release"]
    for pay, error in (("spent", AlreadyCharged), ("curve", KeyConflict)):
        with pytest.raises(error, match="'one'"):
            filtered.require(LIMITED, pay=pay, key="one")  # type: ignore[arg-type]
    assert left(filtered) == pytest.approx(0.8, abs=1e-12)
    with_values = dps.WithValues(mechanism=LIMITED, noise="laplace", scale=30.0)
    nothing = dps.Scores([1], sensitivity=SENSITIVITY, labels=["a"], domain="observed")
    assert len(filtered.select(with_values, nothing, pay="spent")) == 0  # one pick, and no values
    assert left(filtered) == pytest.approx(0.7, abs=1e-12)
    # two picks, and values at the price of three
    assert len(filtered.select(with_values, ONE, pay="spent")) == 1
    # three vectors of 1/30 each, rounded up to whole units of 1e-12
    assert 0.4 - 3e-12 <= left(filtered) <= 0.4
    assert filtered.ledger.verify().ok


def test_rounds_that_abstain_pay_for_their_test(filtered: Session) -> None:
    """Of many rounds charged as one item, those without an answer cost the test alone."""
    votes = dps.pate.Ballots(np.array([[50, 0], [25, 25], [0, 50]]), teachers=50)
    mechanism = dps.pate.ConfidentGNMax(threshold=40, sigma_threshold=0.5, sigma=0.4, labels=2)
    session = Session(filtered.ledger, "ballots")
    assert session.select_many(mechanism, votes, pay="spent").complete.tolist() == [
        True,
        False,
        True,
    ]
    assert session.totals()[0].spent == session.dataset.budget.filter_cost(
        mechanism.test_curve + 2 * mechanism.curve
    )


def test_interrupted_release_keeps_its_whole_charge(
    filtered: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draw or a price that fails leaves the reservation committed, at the mechanism's whole
    price, and its key used.
    """

    def fail(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    stages = [(dps.LimitedDomain, "_select"), (dps.LimitedDomain, "cost_of"), (Ledger, "release")]
    for number, (owner, name) in enumerate(stages, 1):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises(OSError, match="full"):
                filtered.select(LIMITED, ONE, pay="spent", key=str(number))
        assert left(filtered) == pytest.approx(1 - 0.3 * number, abs=1e-12)
        with pytest.raises(AlreadyCharged):
            filtered.select(LIMITED, ONE, pay="spent", key=str(number))
    # one pick would fit into what is left, but not all three
    with pytest.raises(acc.BudgetExceeded):
        filtered.select(LIMITED, ONE, pay="spent")
    assert "release" not in actions(filtered)


def test_outcome_payment_needs_an_outcome_dependent_cost(filtered: Session) -> None:
    """A mechanism that costs the same whatever comes out is refused before anything is charged, and
    so is an unknown word.
    """
    for mechanism in (MECHANISM, dps.WithValues(mechanism=MECHANISM, noise="laplace", scale=9.0)):
        with pytest.raises(InvalidRequest, match="costs the same"):
            filtered.select(mechanism, SCORES, pay="spent")
        with pytest.raises(InvalidRequest, match="costs the same"):
            filtered.require(mechanism, pay="spent")
    with pytest.raises(InvalidRequest, match="pay='all'"):
        filtered.select(LIMITED, ONE, pay="all")  # type: ignore[arg-type]
    assert actions(filtered) == []


def test_a_session_of_queries_pays_for_the_runs_it_began(filtered: Session) -> None:
    """A session that is closed answers nothing more, and costs one run for every unstable query and
    one more, at most c.
    """
    mechanism, ledger = dps.OnlineStableQueries(epsilon=0.1, delta=1e-12, c=4), filtered.ledger
    for key, distances, runs in (("a", [0.0, 5000.0], 2), ("b", [5000.0], 1)):
        ledger.reserve("clicks", mechanism, key=key)
        ledger.commit("clicks", key)
        queries = mechanism.session()
        assert [queries.answer(distance) for distance in distances] == [
            distance > 0 for distance in distances
        ]
        before = left(filtered)
        ledger.release("clicks", key, spent=queries.close())
        assert left(filtered) - before == pytest.approx(0.1 * (4 - runs), abs=1e-12)
        assert not queries.is_open
        with pytest.raises(InvalidRequest, match="closed"):
            queries.answer(5000.0)
    ended = mechanism.session()
    assert [ended.answer(0.0) for _ in range(4)] == 4 * [False]
    assert ended.close() == mechanism.curve


def test_a_resumed_release_is_charged_once_and_has_one_draw(session: Session) -> None:
    """Called again under its key it charges nothing, says if the draw may have been seen, and takes
    no other draw's claim.
    """
    seen: list[tuple[bool, bool]] = []

    def drawn(claim: str) -> Callable[[Receipt], tuple[str, str]]:
        def draw(receipt: Receipt) -> tuple[str, str]:
            seen.append((receipt.replayed, receipt.state == "released"))
            return claim, claim

        return draw

    assert [session.resume(MECHANISM, drawn("one"), key="job/0") for _ in range(2)] == [
        "one",
        "one",
    ]
    with pytest.raises(ClaimConflict):
        session.resume(MECHANISM, drawn("two"), key="job/0")
    assert seen == [(False, False), (True, True), (True, True)]
    assert actions(session) == ["charge", "release"]
