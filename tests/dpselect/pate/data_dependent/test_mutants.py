"""The laws of data-dependent accounting notice planted bugs."""

from __future__ import annotations

import math
from typing import Any

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


BUGS: dict[str, tuple[Any, str, Any]] = {
    "a bound on D(P||Q) alone": (
        unsanitised,
        "_excess",
        lambda true: lambda *args: true(*args) if args[4] == 0.0 else np.full_like(args[1], -np.inf),
    ),
    "the noise of add_remove": (
        unsanitised,
        "_censored",
        lambda true: lambda order, shift, log_q: true(order, shift / math.sqrt(2), log_q),
    ),
    "gaps that move by one vote": (Lattice, "reach", lambda _: property(lambda self: self.per_move // 2)),
    "the local sensitivity": (LossProfile, "smooth", lambda _: lambda self, states, beta: self.local(states, 0)),  # noqa: ARG005
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the laws hold."""
    owner, attribute, mutant = BUGS[name]
    assert _bound_holds()
    assert _smoothing_holds(0.02)
    monkeypatch.setattr(owner, attribute, mutant(getattr(owner, attribute)))
    assert not (_bound_holds() if owner is unsanitised else _smoothing_holds(0.02))


def test_a_forgotten_quantile_is_noticed() -> None:
    """The cost of noise alone is less than that of noise and a quantile of the private scale."""
    plain = pate.SmoothRelease(order=8.0, failure=0.4999999)
    assert pate.SmoothRelease(order=8.0, failure=1e-9).rdp > 1.2 * plain.rdp
