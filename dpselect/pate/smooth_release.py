"""Gaussian noise in proportion to a smooth sensitivity: what it costs, and the curve of a release that is tested first."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Annotated, Literal, Self, final

import numpy as np
import scipy
from pydantic import Field, model_validator

from accounting import Approximate, Curve, Relation, RenyiTable, best_epsilon
from accounting.frozen import Count, Frozen, NonNegative, Positive, Probability, Real
from accounting.guarantee import Priced, read_item
from dpselect.errors import InvalidMechanism, InvalidRequest

_BETA_ERROR = 1e-9  # what rounding may add to the smoothness of a computed sensitivity
_LEAST, _WITHIN, _ORDERS = 1e-2, 0.99, 96  # the curve's orders: from just above 1 to nearly where the bound ends
_PAD = 1e-15  # terms of the size of beta and more are taken from one another and divided by order - 1


@final
class SmoothRelease(Frozen):
    """How a data-dependent bound is released: bound + S * sigma * (N(0, 1) + quantile), S its smooth sensitivity. Theorem P25.

    The quantile makes what is released too small with probability `failure` only. Configuration, chosen without looking at votes.

    Args:
        order: the Renyi order whose bound is released, above 1.
        beta: smoothness, in (0, ln(order / (order - 1)) / 2); None is two fifths of the way.
        sigma: noise per smooth sensitivity; None is `order`.
        failure: probability that the released number is below the true one, in (0, 0.5).

    Raises:
        InvalidMechanism: a value is outside its domain.
    """

    error_class = InvalidMechanism
    kind: Literal["smooth_release"] = "smooth_release"
    order: Real = Field(gt=1, description="a number above 1")
    beta: Positive = Field(description="a number above 0 and below ln(order / (order - 1)) / 2")
    sigma: Positive = Field(description="a number above 0")
    failure: Annotated[Real, Field(gt=0, lt=0.5)] = Field(description="a probability below one half")

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        order = data.get("order")
        if not isinstance(order, int | float) or not order > 1:
            order = 2.0  # the order itself will be refused, and nothing else
        usual = {"beta": 0.2 * math.log(order / (order - 1)), "sigma": order}
        return {**data, **{name: value for name, value in usual.items() if data.get(name) is None}}

    @model_validator(mode="after")
    def _has_a_price(self) -> Self:
        most = math.log(self.order / (self.order - 1)) / 2
        if self.beta + _BETA_ERROR >= most:
            raise ValueError(f"beta={self.beta!r} has no Renyi bound of order {self.order!r}: take less than {most:.6g}")
        return self

    @property
    def quantile(self) -> float:
        """The standard normal quantile of 1 - failure."""
        return -float(scipy.special.ndtri(self.failure)) * (1 + 1e-12)

    @property
    def rdp(self) -> float:
        """What the release costs at `order` whatever the data, in nats, rounded up. Theorem P25."""
        return self._rdp_at(self.order)

    @property
    def curve(self) -> RenyiTable:
        """What the release costs whatever the data, at every order that has a bound, `order` among them. Theorem P25.

        The published number is a release of its own, beside the labels, and is charged before it is drawn.
        """
        orders = self._orders()
        return RenyiTable(orders=orders, values=_rising(self._rdp_at(order) for order in orders))

    def tested(self, limit: float, plain: Curve | Priced | None = None) -> Curve:
        """The curve, whatever the data, of: release the bound first, and the labels only if it is at most `limit`. Theorem P27.

        A budget adds up one Renyi order: take that as `order` (`Budget.order`), or give `plain`.

        Args:
            limit: nats at `order`, fixed before anything was released.
            plain: what the labels cost whatever the votes, `rounds * mechanism.curve`; with it the curve has all orders of
                `curve`. Without it, it has none above `order`.
        """
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < math.inf:
            raise InvalidRequest(f"limit={str(limit)[:30]} must be a finite number >= 0, in nats")
        plain = None if plain is None else read_item(plain, None)[0]
        orders = self._orders() if plain is not None else tuple(order for order in self._orders() if order <= self.order)
        labels = [limit if order <= self.order else math.inf for order in orders]
        if plain is not None:
            labels = np.minimum(labels, plain.rdp(orders)).tolist()
        values = _rising(math.nextafter(cost + self._rdp_at(a), math.inf) for cost, a in zip(labels, orders, strict=True))
        return Approximate(curve=RenyiTable(orders=orders, values=values), delta0=self.failure)

    def _orders(self) -> tuple[float, ...]:
        """Orders up to where the bound ends, `order` among them."""
        last = -1 / math.expm1(-2 * (self.beta + _BETA_ERROR))  # there order/(order - 1) = e^(2 beta)
        return tuple(np.unique(np.append(1 + np.geomspace(_LEAST, (last - 1) * _WITHIN, _ORDERS), self.order)).tolist())

    def _rdp_at(self, order: float) -> float:
        beta = self.beta + _BETA_ERROR
        move = 1 / self.sigma + self.quantile * math.expm1(beta)
        mean = order * move**2 / (2 * (1 - (order - 1) * math.expm1(2 * beta)))
        spread = (-order * beta - math.log1p(order * math.expm1(-2 * beta)) / 2) / (order - 1)
        return (mean + spread + _PAD / (order - 1)) * (1 + 1e-12)

    def to_json(self) -> str:
        """The configuration, as a ledger keeps it."""
        return self.model_dump_json()

    @property
    def relation(self) -> Relation:
        """One teacher's ballots in all rounds are replaced."""
        return "replace_one"


@final
class SanitisedEpsilon(Frozen):
    """A noisy upper bound on what given labels cost on given votes. Safe to publish. Theorem P26.

    With probability at least 1 - `release.failure` over the noise in it, the labels and this very number together are
    (epsilon, delta)-indistinguishable between the data at hand and every neighbour of them, both ways round.
    It is a statement on these data. It is not a guarantee of the mechanism, whose price is its curve, and not something that a
    ledger takes: a ledger pays for the mechanism's curve and for `release.curve`, the price of publishing this number.
    For a small price fix a limit first and test against it (`SmoothRelease.tested`).

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
    def of(cls, rdp: float, release: SmoothRelease, delta: float, rounds: int, plain: Curve | None = None) -> SanitisedEpsilon:
        """From a released bound at `release.order`, or from `plain` where that is less.

        `plain` is what the labels cost whatever the votes: together with `release.curve` it needs neither the bound nor its
        chance of failure.

        Raises:
            InvalidRequest: delta leaves nothing beside the failure of the release.
        """
        require_left(release, delta)
        left = math.nextafter(delta - release.failure, 0.0)
        total = RenyiTable(orders=(release.order,), values=(math.nextafter(rdp + release.rdp, math.inf),))
        # One order was fixed beforehand: taking the best one is not a choice, so no warning that it lies at an edge.
        epsilon = best_epsilon(total, left).value
        if plain is not None:
            epsilon = min(epsilon, best_epsilon(plain + release.curve, delta).value)
        return cls(epsilon=epsilon, delta=delta, rdp=rdp, release=release, rounds=rounds)

    def passes(self, limit: float) -> bool:
        """Whether labels may be released under `release.tested(limit)`, whose labels were not released before."""
        return self.rdp <= limit


def _rising(values: Iterable[float]) -> tuple[float, ...]:
    """A bound at a smaller order holds no more than one at a larger order needs: rounding must not turn that round."""
    return tuple(itertools.accumulate(values, max))


def usual_order(teachers: int) -> float:
    """The Renyi order at which to publish the bound for an ensemble of this size: from 4 for 100 teachers to 64 for 7,500.

    Fitted to the least published epsilon of simulated ensembles (docs/pate.md); it depends on a public number only.
    """
    return float(np.clip(round(teachers**0.65 / 5), 4, 64))


def require_left(release: SmoothRelease, delta: float) -> None:
    """Raise InvalidRequest unless delta is more than what the release may fail with."""
    if not release.failure < delta < 1:
        raise InvalidRequest(f"delta={delta!r} must exceed the release's failure={release.failure!r} and lie below 1")
