"""Conversion that an `Accountant` reports. Theorem A7.

The result is dp-accounting's figure beside the proved bound. dp-accounting's composition of privacy
losses is no proof, because the error of its transforms is absolute and grows with the count. Its
figure is therefore compared with the proved bound of `convert.bounds`, and never replaces it by a
smaller one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, final

import numpy as np

from accounting.convert.bounds import Bound, ConvertibleCurve, best_delta, best_epsilon
from accounting.convert.pld.compose import can_compose, coarsen_losses, joint_interval
from accounting.convert.pld.loss import Losses, PrivacyLossDistribution

Why = Literal[
    "agreed",
    "recursion",
    "closed_form",
    "no_distribution",
    "resolution",
    "unexplained",
    "not_confirmed",
    "no_figure",
]
WHY: dict[Why, str] = {
    "agreed": "the larger of two figures that agree within 1%",
    "recursion": "the proved bound, lower by the optimal recursion for bounded ranges",
    "closed_form": "the proved bound, lower by a closed form",
    "no_distribution": "the proved bound, lower by losses that no dp-accounting object holds",
    "resolution": "the proved bound, because delta is near the error of dp-accounting's transforms",
    "unexplained": "dp-accounting's figure, because the proved bound is lower for no known reason",
    "not_confirmed": "the proved bound, because dp-accounting's is over 1% lower and is no proof",
    "no_figure": "the proved bound, because dp-accounting has no figure",
}

_MARGIN = 1.01  # by how much the two may differ and still be said to agree
# of delta: a share of it that a step's transform, and each cut tail, may decide
_RESOLUTION, _CUTS = 1e-14, 10
_LEAST_DIVERGENCE = 1e-15  # below, dp-accounting's compute_delta raises


@final
@dataclass(frozen=True)
class Reported:
    """The reported epsilon (nats) or delta.

    Attributes:
        value: the figure that is reported.
        proved: the proved bound, its route and its Renyi order.
        dp_accounting: dp-accounting's figure; None if dp-accounting has none.
        why: a key of `WHY`.
    """

    value: float
    proved: Bound
    dp_accounting: float | None
    why: Why


@final
class PlanConverter:
    """The conversions of one plan, whose privacy losses are composed only once."""

    def __init__(self, plan: ConvertibleCurve) -> None:
        self.plan = plan

    def epsilon(self, delta: float) -> Reported:
        """Return the epsilon to report at `delta` in [0, 1)."""
        proved = best_epsilon(self.plan, delta, thorough=True)
        core = delta - self.plan.delta0
        figures = [self._renyi("compute_epsilon", core, proved.order)] if core > 0 else []
        if delta > 0 and self._distribution is not None:  # at 0 it states where its grid ends
            figures.append(_figure(self._distribution.get_epsilon_for_delta, delta))
        return self._decide(proved, figures, core)

    def delta(self, epsilon: float) -> Reported:
        """Return the delta to report at `epsilon` >= 0 (nats)."""
        proved = best_delta(self.plan, epsilon, thorough=True)
        renyi = self._renyi("compute_delta", epsilon, proved.order)
        figures = [None if renyi is None else min(1.0, renyi + self.plan.delta0)]
        if self._distribution is not None:
            figures.append(_figure(self._distribution.get_delta_for_epsilon, epsilon))
        return self._decide(proved, figures, proved.value - self.plan.delta0)

    def _decide(self, proved: Bound, figures: list[float | None], core: float) -> Reported:
        theirs = min((figure for figure in figures if figure is not None), default=None)
        if theirs is None:
            return Reported(proved.value, proved, None, "no_figure")
        if theirs > proved.value * _MARGIN:
            why = self._reason(proved, core)
        else:
            why = (
                "agreed"
                if theirs == proved.value or theirs * _MARGIN >= proved.value
                else "not_confirmed"
            )
        value = max(theirs, proved.value) if why in ("agreed", "unexplained") else proved.value
        return Reported(value, proved, theirs, why)

    def _reason(self, proved: Bound, core: float) -> Why:
        """Return the reason why the proved bound may be lower than dp-accounting's figure."""
        if proved.route == "adaptive":
            return "recursion"
        if core <= _RESOLUTION * (_CUTS + sum(count for count, _ in self._losses.steps)):
            return "resolution"
        if proved.route == "profile" or (
            self._distribution is None and proved.route in ("pure", "basic")
        ):
            return "closed_form"
        return (
            "no_distribution"
            if self._distribution is None and proved.route == "pld"
            else "unexplained"
        )

    def _renyi(self, function: str, argument: float, order: float | None) -> float | None:
        """Return dp-accounting's conversion at its own orders and at the orders known here.

        These are the orders of tables, and the one that proved the bound.
        """
        # a second of imports: only where a plan is converted
        from dp_accounting.rdp import rdp_privacy_accountant

        own_orders = {*rdp_privacy_accountant.DEFAULT_RDP_ORDERS, *self.plan.table_orders}
        orders = np.array(sorted(own_orders if order is None else own_orders | {order}))
        with np.errstate(all="ignore"):
            bounds = self.plan.rdp(orders)
        bounds = np.where(bounds > 0, np.maximum(bounds, _LEAST_DIVERGENCE), bounds)
        return _figure(
            lambda value: getattr(rdp_privacy_accountant, function)(
                orders.tolist(), bounds.tolist(), value
            )[0],
            argument,
        )

    @cached_property
    def _losses(self) -> Losses:
        return coarsen_losses(self.plan.losses() or Losses())

    @cached_property
    def _distribution(self) -> PrivacyLossDistribution | None:
        """The plan as composed by dp-accounting; None if it cannot be composed there.

        It cannot if its steps have no losses, or more than two directions.
        """
        if not can_compose(self._losses):
            return None
        with np.errstate(all="ignore"):
            return self._losses.to_dp_accounting(joint_interval(self._losses))


def _figure(convert: Callable[[float], Any], argument: float) -> float | None:
    """Return dp-accounting's answer; None if it fails or is not a number."""
    try:
        with np.errstate(all="ignore"):
            figure = float(convert(argument))
    except (ArithmeticError, ValueError):
        return None
    return figure if figure >= 0 else None
