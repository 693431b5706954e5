"""What may be published of a data-dependent bound."""

from __future__ import annotations

import math
from typing import final

from pydantic import Field

from accounting import RenyiTable, best_epsilon
from accounting.frozen import Count, Frozen, NonNegative, Probability
from dpselect.errors import InvalidRequest
from dpselect.pate.data_dependent.release import SmoothRelease


@final
class SanitisedEpsilon(Frozen):
    """A noisy upper bound on what given labels cost on given votes. Safe to publish. Theorem P26.

    With probability at least 1 - `release.failure` over the noise in it, the labels and this very number together are
    (epsilon, delta)-indistinguishable between the data at hand and every neighbour of them, both ways round.
    It is a statement on these data. It is no guarantee of the mechanism, whose price is its curve, and nothing that a
    ledger takes: for that fix a limit first and test against it (`SmoothRelease.tested`).

    Args:
        epsilon: nats.
        delta: of which `release.failure` is set aside.
        rdp: the released bound on the labels' Renyi divergence at `release.order`, in nats.
        release: how it was released; its own cost is part of epsilon.
        rounds: how many rounds.
    """

    error_class = InvalidRequest
    epsilon: NonNegative = Field(description="a number >= 0, in nats")
    delta: Probability = Field(description="a probability")
    rdp: NonNegative = Field(description="a number >= 0, in nats")
    release: SmoothRelease = Field(description="a SmoothRelease")
    rounds: Count = Field(description="an integer >= 1")

    @classmethod
    def of(cls, rdp: float, release: SmoothRelease, delta: float, rounds: int) -> SanitisedEpsilon:
        """From a released bound at `release.order`.

        Raises:
            InvalidRequest: delta leaves nothing beside the failure of the release.
        """
        require_left(release, delta)
        left = math.nextafter(delta - release.failure, 0.0)
        total = RenyiTable(orders=(release.order,), values=(math.nextafter(rdp + release.rdp, math.inf),))
        # One order was fixed beforehand: the best one is no choice, so no warning that it lies at an edge.
        return cls(epsilon=best_epsilon(total, left).value, delta=delta, rdp=rdp, release=release, rounds=rounds)

    def passes(self, limit: float) -> bool:
        """Whether labels may be released under `release.tested(limit)`, whose labels were not released before."""
        return self.rdp <= limit


def require_left(release: SmoothRelease, delta: float) -> None:
    """Check that delta is more than what the release may fail with.

    Raises:
        InvalidRequest: it is not.
    """
    if not release.failure < delta < 1:
        raise InvalidRequest(f"delta={delta!r} must exceed the release's failure={release.failure!r} and lie below 1")
