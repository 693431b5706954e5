"""Noisy counts of the released items: the noise for a share of a budget, and intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, Self, final

from accounting import Budget, Curve, calibrate
from accounting.errors import CalibrationError
from accounting.wording import format_number
from dpselect import mechanisms
from dpselect.mechanisms import Mechanism
from dpselect.mechanisms.noise_curves import vector
from dpselect.mechanisms.traits import SCALE, fields_of
from dpselect.noise import VECTOR_NORMS, NoiseName
from dpselect.plan.request import TopKRequest
from dpselect.sensitivity import Norm, Sensitivity, sqrt_up

COUNTS = 0.2
"""Default share of a budget for counts."""

COUNTS_AGAIN = 0.05
"""Default share of a budget for counts of a second pass, which are almost unclipped."""

_LOST = 0.1  # of the share of counts, what tells how much the clip takes away from all of them
# clips of counts, beyond which noise costs more than clipped users
_WIDEST: Mapping[Norm, float] = {"l2": 4.0, "l1": 8.0}
_ROUNDING = 1 + 2.0**-40  # above that of the scales of one clip and another

MOST_ITEMS = 1_000_000
"""Number of items of an unknown domain for which simultaneous intervals hold.

It applies if the values show the noise that chose the items.
"""

_UP = Context(prec=6, rounding=ROUND_CEILING)


@final
@dataclass(frozen=True)
class CountNoise:
    """Fresh noise for the counts of the items that a selection releases.

    Attributes:
        noise: noise for an l2 norm, or for an l1 norm if only pure epsilon adds up.
        scale: scale of that noise, in score units; if `unit_sensitivity` is not None, for users
            clipped to a norm of 1.
        unit_sensitivity: sensitivity of a second pass to a user clipped to a norm of 1; None if the
            counts are the scores.
        k: most items.
    """

    noise: NoiseName
    scale: float
    unit_sensitivity: Sensitivity | None = None
    k: int = 1

    @classmethod
    def from_request(cls, request: TopKRequest, budget: Budget, times: int = 1) -> Self:
        """Noise for a request's releases, each charged `times` times, in its share of a budget.

        This is a choice only. The charge is the curve of the selection and the counts together.
        """
        assert request.counts is not None
        budgets = [budget] if request.share is None else [budget, request.share.budget]
        sensitivity, unit_sensitivity = request.sensitivity, None
        if request.recounted:  # an l1 norm where either of the budgets asks for it
            sensitivity = unit_sensitivity = Sensitivity.of_clipped(
                1.0, min(map(_norm_of, budgets)), sensitivity.relation
            )
        noises = [
            _scale(
                budget,
                request.counts,
                times * request.releases,
                request.k,
                sensitivity,
                request.charges is not None,
            )
        ]
        if (share := request.share) is not None:
            noises.append(
                _scale(
                    share.budget,
                    request.counts,
                    share.charges,
                    request.k,
                    sensitivity,
                    separately=True,
                )
            )
        _, scale, noise = max(noises)
        return cls(noise, scale, unit_sensitivity, request.k)

    def beside(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism with its counts, or as it is if it releases noisy scores of its own."""
        if self.unit_sensitivity is not None:
            return self._wrap(mechanism, self.scale / _ROUNDING)
        if mechanism.releases_values:
            return mechanism
        return mechanisms.WithValues(mechanism=mechanism, noise=self.noise, scale=self.scale)

    @property
    def norm(self) -> Norm:
        """The norm that the noise hides."""
        return VECTOR_NORMS[self.noise]

    @property
    def clip(self) -> float:
        """Norm to which a user's counts are clipped among the k items that may be chosen."""
        return min(
            _WIDEST[self.norm], sqrt_up(Fraction(self.k)) if self.norm == "l2" else float(self.k)
        )

    def wrap(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism with second-pass counts of users clipped to `clip`.

        The cost is the same for every k (Theorem W9).
        """
        return self._wrap(mechanism, self.scale * _ROUNDING)

    def _wrap(self, mechanism: Mechanism, scale: float) -> Mechanism:
        assert self.unit_sensitivity is not None
        settings: dict[str, Any] = {"mechanism": mechanism, "noise": self.noise, "clip": self.clip}
        unit = scale / self._size(self.unit_sensitivity, None)
        trial = mechanisms.WithValues(**settings, scale=self.scale)
        size, has_lost = self._size(trial.counted, self.k), trial.most_lost > 0
        part = _LOST if has_lost else 0.0
        power = 1.0 if self.norm == "l1" else 0.5  # as epsilons add up
        settings["scale"] = unit * size / (1 - part) ** power
        if has_lost:
            settings["lost_scale"] = unit * trial.most_lost / part**power
        return mechanisms.WithValues(**settings)

    def _size(self, sensitivity: Sensitivity, items: int | None) -> float:
        return sensitivity.l2_of(items) if self.norm == "l2" else sensitivity.l1_of(items)


def limits_of(budget: Budget) -> str:
    """The amounts of a budget, as fields of a question."""
    limits = {"epsilon": budget.epsilon, "rho": budget.rho, "delta": budget.delta}
    return ", ".join(
        f"{name}={format_number(value)}" for name, value in limits.items() if value is not None
    )


def _norm_of(budget: Budget) -> Norm:
    """The norm that suits a budget: l1 if epsilons add up, l2 if their squares do."""
    return "l1" if budget.measure.is_pure else "l2"


def _scale(
    budget: Budget,
    share: float,
    releases: int | Fraction,
    k: int,
    sensitivity: Sensitivity,
    separately: bool,
) -> tuple[bool, float, NoiseName]:
    """Noise that spends `share` of the budget of all releases of k counts.

    Args:
        separately: True if releases are charged one by one.

    Returns:
        True if the noise is for an l1 norm, its scale, and its name.
    """
    norm = _norm_of(budget)
    noise: NoiseName = "laplace" if norm == "l1" else "gaussian"

    def curve_at(scale: float) -> Curve:
        single = vector(noise, scale, sensitivity, k)
        return single if separately else int(releases) * single

    bracket = (SCALE.low * sensitivity.linf, SCALE.high * sensitivity.linf)
    try:
        whole = calibrate(curve_at, budget, bracket, charges=releases if separately else None)
    except CalibrationError:
        raise CalibrationError(
            f"no amount of noise makes counts of users fit {limits_of(budget)}. Raise the budget,"
            " or leave out with_counts="
        ) from None
    scale = whole / (share if norm == "l1" else math.sqrt(share))
    return norm == "l1", float(_UP.create_decimal(Decimal(repr(scale)))), noise


def takes_its_own(member: type[Mechanism], settings: Mapping[str, Any]) -> bool:
    """True if the noisy scores that choose are released at no extra cost, within a bounded norm."""
    norm = member.traits.clips.get(settings.get("noise") or "")
    if norm is None or "values" not in fields_of(member):
        return False
    sensitivity: Sensitivity = settings["sensitivity"]
    return (sensitivity.l2_of(None) if norm == "l2" else sensitivity.l1_of(None)) < math.inf


def without_counts(mechanism: Mechanism) -> Mechanism:
    """The mechanism that selects, without its counts and groups."""
    return mechanism.selecting


@final
@dataclass(frozen=True)
class Interval:
    """An interval around each noisy score that is released. All of them hold at the same time.

    Attributes:
        half_width: half of the width, in score units.
        confidence: probability that all intervals hold.
        among: most items for which they hold at once: the released ones, or all that take part if
            the values show the noise that chose them.
        chose: True if the values show the noise that chose the items.
        at_least: True if users were clipped or bounded, so that their true number is at least the
            low end, and may be above the high end, which is left out.
    """

    half_width: float
    confidence: float = 0.95
    among: int = 1
    chose: bool = False
    at_least: bool = False

    def words(self) -> str:
        """Meaning of the interval, as a phrase."""
        ends = "lower bounds" if self.at_least else "intervals"
        words = (
            f"with {100 * self.confidence:g}% probability, all {ends} shown hold at the same time"
        )
        if self.chose:
            words += (
                f", if at most {self.among:,} items take part (values include the noise that chose"
                " the items)"
            )
        return words + (". True numbers may be higher, since users count in part" * self.at_least)


def interval(mechanism: Mechanism, confidence: float = 0.95, count: int = 1) -> Interval | None:
    """The interval around each noisy score of a release of `mechanism`; None if none is known.

    All intervals hold at once, by a union bound. Fresh noise did not choose the items, so the bound
    is over the released values, given what was chosen. Values that show the noise that chose them
    are those of the luckiest items, so their bound is over all candidates, of which there are at
    most `MOST_ITEMS` if the mechanism states no number.

    Args:
        mechanism: the mechanism as configured.
        confidence: probability in (0, 1) that all intervals hold.
        count: number of released values, >= 1.

    Raises:
        InvalidRequest: `confidence` is not in (0, 1), or `count` is below 1.
    """
    shows = mechanism.showing
    if shows is None or not shows.values_are_scores:
        return None
    chose = shows.shows_what_chose
    among = (mechanism.compared or MOST_ITEMS) if chose else count
    half = shows.margin(confidence, among)
    return Interval(half, confidence, among, chose, mechanism.counts_in_part)
