"""The laws of data-dependent accounting notice planted bugs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact_votes import all_votes, divergence, neighbours

from dpselect import pate
from dpselect.pate import unsanitised
from dpselect.pate.unsanitised import Lattice, LossProfile, States


def _bound_holds() -> bool:
    lattice, votes, other = Lattice(8, 2, 1.0), (0, 8), (1, 7)
    cost = unsanitised.censored_rdp(2.0, 1.0, lattice.log_q(lattice.steps(np.array([votes]))))[0]
    return max(divergence(votes, other, 1.0, 2.0), divergence(other, votes, 1.0, 2.0)) <= cost


def _smoothing_holds(beta: float) -> bool:
    profile = LossProfile(10.0, Lattice(8, 2, 1.5), None)
    smooth, cost = {}, {}
    for votes in all_votes(8, 2):
        states = States(np.array([max(votes)]), profile.lattice.steps(np.array([votes])))
        smooth[votes], cost[votes] = profile.smooth(states, beta), profile.total(states)
    pairs = [(votes, other) for votes in smooth for other in neighbours(votes)]
    return all(abs(cost[a] - cost[b]) <= smooth[a] <= math.exp(beta) * smooth[b] * (1 + 1e-12) for a, b in pairs)


def test_the_laws_hold() -> None:
    """Without a bug the checks below pass."""
    assert _bound_holds()
    assert _smoothing_holds(0.02)


def test_one_direction_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on D(P||Q) alone does not pass."""
    original = unsanitised._excess
    monkeypatch.setattr(
        unsanitised, "_excess", lambda *args: original(*args) if args[4] == 0.0 else np.full_like(args[1], -np.inf)
    )
    assert not _bound_holds()


def test_half_the_shift_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of add_remove, a pair at distance 1/sigma, does not pass."""
    original = unsanitised._censored
    monkeypatch.setattr(unsanitised, "_censored", lambda order, shift, log_q: original(order, shift / math.sqrt(2), log_q))
    assert not _bound_holds()


def test_a_short_reach_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps that are taken to move by one vote, as under add_remove, do not pass."""
    monkeypatch.setattr(Lattice, "reach", property(lambda self: self.per_move // 2))
    assert not _smoothing_holds(0.02)


def test_a_fixed_local_sensitivity_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The local sensitivity in place of the smooth one does not pass."""
    monkeypatch.setattr(LossProfile, "smooth", lambda self, states, _: self.local(states, 0))
    assert not _smoothing_holds(0.02)


def test_a_forgotten_quantile_is_noticed() -> None:
    """The cost of noise alone is less than that of noise and a quantile of the private scale."""
    plain = pate.SmoothRelease(order=8.0, failure=0.4999999)
    assert pate.SmoothRelease(order=8.0, failure=1e-9).rdp > 1.2 * plain.rdp
