"""Noisy counts of what a selection releases: how much noise a share of a budget buys, and how far they are to be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, Literal, Self, final

from accounting import Budget, Curve, GaussianDP, LaplaceDP, calibrate
from accounting.curves import Composed
from dpselect import mechanisms
from dpselect.mechanisms import Mechanism
from dpselect.mechanisms.base import SCALE, fields_of
from dpselect.mechanisms.noise_curves import ratio_up, vector
from dpselect.plan.request import TopKRequest
from dpselect.sensitivity import Norm, Sensitivity, sqrt_up

COUNTS = 0.2
"""The share of a budget for counts, where nobody says."""

COUNTS_AGAIN = 0.1
"""The same for counts of a second look, which are told almost unclipped."""

CLIPS = (1.0, 1.41, 2.0, 2.83, 4.0, 5.66, 8.0)
"""Norms to which users are clipped: l2 norms; their squares are l1 norms."""

_LOST = 0.1  # of the share of counts, what tells how much the clip takes away from all of them
_WIDEST = 2.0**11  # that a log is read with
_ROUNDING = 1 + 2.0**-40  # above that of the scales of one clip and another

MOST_ITEMS = 1_000_000
"""Items of an unknown domain for which intervals hold all at once, where values show the noise that chose."""

_UP = Context(prec=6, rounding=ROUND_CEILING)


@final
@dataclass(frozen=True)
class CountNoise:
    """Fresh noise for the counts of the items that a selection releases.

    Attributes:
        noise: gaussian, or laplace where only pure epsilon adds up.
        scale: of that noise, score units; where `one` is not None for users clipped to a norm of 1.
        one: what a user of whom that norm is left may change, where counts come from a second look; None: they are the scores.
        k: how many items at most.
    """

    noise: Literal["gaussian", "laplace"]
    scale: float
    one: Sensitivity | None = None
    k: int = 1

    @classmethod
    def of(cls, request: TopKRequest, budget: Budget, times: int = 1) -> Self:
        """For the releases of a request, each of which is paid `times` times, and its share of the budget."""
        assert request.counts is not None
        parts = [(times * releases, k) for releases, k in request.parts]
        share, sensitivity, one = request.share, request.sensitivity, None
        if request.recounted:  # laplace noise needs the l1 norm, whichever of the two budgets asks for it
            pure = "epsilon" in (budget.measure, None if share is None else share.budget.measure)
            norm: Norm = "l1" if pure else "l2"
            sensitivity = one = Sensitivity.of_clipped(1.0, norm, sensitivity.relation)
        found = cls.within(budget, request.counts, parts, sensitivity, separately=request.charges is not None)
        if share is not None:
            part = cls.within(share.budget, request.counts, [(share.charges, request.k)], sensitivity, separately=True)
            found = max(found, part, key=lambda each: (each.noise == "laplace", each.scale))
        return cls(found.noise, found.scale, one, request.k)

    @classmethod
    def within(
        cls,
        budget: Budget,
        share: float,
        parts: Sequence[tuple[int | Fraction, int]],
        sensitivity: Sensitivity,
        *,
        separately: bool,
    ) -> Self:
        """The noise that spends `share` of the budget: of squared epsilons (Gaussian noise adds up in these), or of epsilons.

        A choice only: what is charged is the curve of the selection and the counts together. The budget is that of all releases,
        `parts` are (releases, k) pairs, and `separately` is whether releases are charged one by one.
        """
        pure = budget.measure == "epsilon"
        noise: Literal["gaussian", "laplace"] = "laplace" if pure else "gaussian"
        bracket = (SCALE.low * sensitivity.linf, SCALE.high * sensitivity.linf)
        if separately:
            most, charges = max(k for _, k in parts), sum(count for count, _ in parts)
            whole = calibrate(lambda scale: vector(noise, scale, sensitivity, most), budget, bracket, charges=charges)
        else:
            whole = calibrate(
                lambda scale: Composed.of([(int(count), vector(noise, scale, sensitivity, k)) for count, k in parts]),
                budget,
                bracket,
            )
        scale = whole / (share if pure else math.sqrt(share))
        return cls(noise, float(_UP.create_decimal(Decimal(repr(scale)))))

    def beside(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism with its counts; as it is if it releases noisy scores of its own, and these are the counts."""
        if self.one is not None:
            return self._around(mechanism, self.clips[0], self.scale / _ROUNDING)  # at no less than `price`
        if mechanism.releases_values:
            return mechanism
        return mechanisms.WithValues(mechanism=mechanism, noise=self.noise, scale=self.scale)

    @property
    def norm(self) -> Norm:
        """That which the noise pays for."""
        return "l2" if self.noise == "gaussian" else "l1"

    @property
    def clips(self) -> tuple[float, ...]:
        """Norms of one user's counts among k items that may be chosen, rising; with the last one nothing is clipped."""
        sizes = [size if self.norm == "l2" else float(f"{size**2:.3g}") for size in CLIPS]
        whole = sqrt_up(Fraction(self.k)) if self.norm == "l2" else float(self.k)
        return (*(size for size in sizes if size < whole), *([whole] if whole <= _WIDEST else []))

    def around(self, mechanism: Mechanism, clip: float) -> Mechanism:
        """The mechanism with counts of a second look at users clipped to this norm, at `price` whatever the norm."""
        return self._around(mechanism, clip, self.scale * _ROUNDING)

    def _around(self, mechanism: Mechanism, clip: float, scale: float) -> Mechanism:
        assert self.one is not None
        settings: dict[str, Any] = {"mechanism": mechanism, "noise": self.noise, "clip": clip}
        unit = scale / _norm_of(self.one, self.norm, None)
        found = mechanisms.WithValues(**settings, scale=self.scale)
        size, told = _norm_of(found.counted, self.norm, self.k), found.most_lost > 0
        part = _LOST if told else 0.0
        power = 1.0 if self.norm == "l1" else 0.5  # Gaussian noise adds up in squares
        settings["scale"] = unit * size / (1 - part) ** power
        if told:
            settings["lost_scale"] = unit * found.most_lost / part**power
        return mechanisms.WithValues(**settings)

    @property
    def price(self) -> Curve:
        """An upper bound on what the counts cost, with any of `clips`. Theorem W9."""
        assert self.one is not None
        ratio = ratio_up(_norm_of(self.one, self.norm, None), self.scale)
        return GaussianDP(mu=ratio) if self.noise == "gaussian" else LaplaceDP(epsilon=ratio)


def _norm_of(sensitivity: Sensitivity, norm: Norm, items: int | None) -> float:
    return sensitivity.l2_of(items) if norm == "l2" else sensitivity.l1_of(items)


def takes_its_own(member: type[Mechanism], settings: Mapping[str, Any]) -> bool:
    """Whether the noisy scores that choose are released at no further price: a norm of what a user moves bounds them."""
    norm = member.traits.clips.get(settings.get("noise") or "")
    sensitivity: Sensitivity = settings["sensitivity"]
    size = math.inf if norm is None else (sensitivity.l2_of(None) if norm == "l2" else sensitivity.l1_of(None))
    return "values" in fields_of(member) and size < math.inf


def without_counts(mechanism: Mechanism) -> Mechanism:
    """What selects, of every group the same."""
    if isinstance(mechanism, mechanisms.PerGroup | mechanisms.TopOfGroups):
        return without_counts(mechanism.mechanism)
    if not mechanism.releases_values:
        return mechanism
    return mechanism.mechanism if isinstance(mechanism, mechanisms.WithValues) else mechanism


@final
@dataclass(frozen=True)
class Interval:
    """An interval around each noisy score that is released.

    Attributes:
        half_width: score units.
        confidence: with which it holds: for each item by itself, whatever was selected, or for all of them at once.
        among: None for each by itself; otherwise for all of at most this many items, selected or not.
        at_least: whether users were clipped or bounded, so that their true number is the low end at least, and may be above the
            high one, which is left out.
    """

    half_width: float
    confidence: float = 0.95
    among: int | None = None
    at_least: bool = False

    def words(self) -> str:
        """How they hold, as a phrase."""
        percent = f"{100 * self.confidence:g} %"
        if self.at_least:
            return f"users count in part, so that only the low ends are of users, at least so many: {self._how(percent)}"
        return self._how(percent)

    def _how(self, percent: str) -> str:
        if self.among is None:
            return f"each holds with {percent}, whatever was selected"
        return f"all hold at once with {percent}, if at most {self.among:,} items take part (values show the noise that chose)"


def interval(mechanism: Mechanism, confidence: float = 0.95, among: int | None = None) -> Interval | None:
    """The interval around each noisy score that a release of `mechanism` gives; None where it gives none, or none is known.

    Fresh noise was not selected by: an interval holds for each value. Values that show the noise that chose are those of the
    luckiest, so the interval is one that holds for all candidates at once (a union bound).

    Args:
        mechanism: as configured.
        confidence: in (0, 1).
        among: how many candidates there are at most; None: as the mechanism states, and `MOST_ITEMS` where it does not.

    Raises:
        InvalidRequest: `confidence` is not in (0, 1).
    """
    found = _interval(mechanism, confidence, among) if mechanism.releases_values else None
    return None if found is None else replace(found, at_least=_in_part(mechanism))


def _in_part(mechanism: Mechanism) -> bool:
    """Whether some users may count for less than they are, or in fewer items and groups."""
    if isinstance(mechanism, mechanisms.PerGroup):
        return True
    if isinstance(mechanism, mechanisms.WithValues) and mechanism.clip is not None:
        return mechanism.most_lost > 0
    covers = mechanism.covers
    return (covers.l0, covers.l1, covers.l2) != (None, None, None)


def _interval(mechanism: Mechanism, confidence: float, among: int | None) -> Interval | None:
    if isinstance(mechanism, mechanisms.WithValues):
        return Interval(mechanism.margin(confidence), confidence)
    if isinstance(mechanism, mechanisms.PerGroup):
        return interval(mechanism.mechanism, confidence, among or MOST_ITEMS)  # items of all groups together
    if isinstance(mechanism, mechanisms.DiscoverThenSelect):
        return interval(mechanism.selection, confidence, mechanism.candidates)
    among = among or mechanism.most_candidates or MOST_ITEMS
    if isinstance(mechanism, mechanisms.SparseHistogram | mechanisms.OneshotTopK):
        alone = isinstance(mechanism, mechanisms.OneshotTopK) and not mechanism.values
        return Interval(mechanism.margin(confidence, among), confidence, None if alone else among)
    return None
