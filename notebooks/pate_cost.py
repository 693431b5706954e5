"""What equal utility costs: epsilons read off F1 curves by interpolation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pate_teachers import Floats

LEVELS = (
    0.25,
    0.5,
    0.75,
    0.9,
)  # shares of the way from a trivial F1 to the F1 that both mechanisms reach
HEADLINE = 0.75
Measure = Literal["released", "student"]


@dataclass(frozen=True)
class Curve:
    """Measures of one mechanism, (epsilons, seeds) each, as in `pate_multilabel.Outcome`."""

    name: str
    epsilons: tuple[float, ...]
    released: Floats
    student: Floats
    answered: Floats
    precise: Floats

    def mean(self, measure: Measure) -> Floats:
        """(epsilons,) mean over the seeds."""
        return np.asarray(getattr(self, measure).mean(axis=1))


@dataclass(frozen=True)
class Comparison:
    """At one F1, epsilon of the cheapest rival and of StableVoting (nats).

    Attributes:
        level: the F1.
        share: of the way from the trivial F1 to the F1 that both reach.
        rival: name of the cheapest rival.
        epsilon: of that rival.
        below: whether the rival reaches the level at the least epsilon already, so that ratios are
            at least what they say.
        stable: epsilon of StableVoting.
        spread: standard deviation over the seeds of the ratio; NaN if fewer than two seeds tell.
    """

    level: float
    share: float
    rival: str
    epsilon: float
    below: bool
    stable: float
    spread: float

    @property
    def ratio(self) -> float:
        """Epsilon of StableVoting over that of the rival."""
        return self.stable / self.epsilon

    @property
    def sign(self) -> str:
        """What stands before a ratio."""
        return ">" if self.below else ""

    def line(self) -> str:
        """One line of the table."""
        spread = "" if math.isnan(self.spread) else f"±{self.spread:.1f}"
        both = (
            f"{self.rival} eps {self.epsilon:.2f}; StableVoting eps {self.stable:.2f}"
        )
        return f"    F1 {self.level:.3f}: {both}; ratio {self.sign}{self.ratio:.1f} {spread}".rstrip()


def epsilon_at(level: float, epsilons: Sequence[float], values: Floats) -> float:
    """The least epsilon at which the curve reaches `level`, linear in ln epsilon between points;
    inf if it never does.

    A curve that starts above the level gives the first epsilon: it may have crossed before.
    """
    above = np.flatnonzero(values >= level)
    if len(above) == 0:
        return math.inf
    i = int(above[0])
    if i == 0:
        return float(epsilons[0])
    share = float((level - values[i - 1]) / (values[i] - values[i - 1]))
    return math.exp(
        (1 - share) * math.log(epsilons[i - 1]) + share * math.log(epsilons[i])
    )


@dataclass(frozen=True)
class Costs:
    """What StableVoting, without regularizer, costs of its rivals.

    Args:
        curves: of all mechanisms.
        floor: micro-F1 of saying the same labels for all items: F1 below it is worth nothing, and
            is not compared.
    """

    curves: Sequence[Curve]
    floor: float

    def comparisons(
        self, measure: Measure, rivals: str = "TauVoting"
    ) -> list[Comparison]:
        """One per level, with the rival that is cheapest there: its tau is chosen with hindsight,
        which favors TauVoting.

        Empty if one of the two never gets above the floor.
        """
        others = [curve for curve in self.curves if curve.name.startswith(rivals)]
        stable = next(curve for curve in self.curves if curve.name == "StableVoting")
        top = min(
            max(float(curve.mean(measure).max()) for curve in others),
            float(stable.mean(measure).max()),
        )
        levels = [
            (share, self.floor + share * (top - self.floor))
            for share in LEVELS
            if top > self.floor
        ]
        return [
            _compared(others, stable, measure, share, level) for share, level in levels
        ]

    def lines(self) -> Iterator[str]:
        """Level by level."""
        for measure, title in TITLES.items():
            yield f"  equal F1 of {title}: epsilons, and StableVoting's over the other's"
            for rivals in RIVALS:
                found = self.comparisons(measure, rivals)
                yield from (
                    (each.line() for each in found)
                    if found
                    else [f"    {rivals}: {NEVER}"]
                )

    def sentence(self) -> str:
        """The headline."""
        return "; ".join(
            self._headline(measure, title) for measure, title in TITLES.items()
        )

    def _headline(self, measure: Measure, title: str) -> str:
        found = {rivals: self.comparisons(measure, rivals) for rivals in RIVALS}
        costs = [
            f"{_at_headline(each)} that of {rivals}"
            for rivals, each in found.items()
            if each
        ]
        if not costs:
            return f"no F1 of {title} to compare: {NEVER}"
        return f"at equal F1 of {title} StableVoting costs an epsilon {' and '.join(costs)}"


def _at_headline(found: Sequence[Comparison]) -> str:
    chosen = next(each for each in found if each.share == HEADLINE)
    return f"{chosen.sign}{chosen.ratio:.1f} times"


def _compared(
    rivals: Sequence[Curve], stable: Curve, measure: Measure, share: float, level: float
) -> Comparison:
    best = min(
        rivals, key=lambda curve: epsilon_at(level, curve.epsilons, curve.mean(measure))
    )
    values = best.mean(measure)
    at = epsilon_at(level, stable.epsilons, stable.mean(measure))
    spread = _spread(best, stable, measure, level)
    return Comparison(
        level,
        share,
        best.name,
        epsilon_at(level, best.epsilons, values),
        bool(values[0] >= level),
        at,
        spread,
    )


def _spread(rival: Curve, stable: Curve, measure: Measure, level: float) -> float:
    pairs = zip(getattr(rival, measure).T, getattr(stable, measure).T, strict=True)
    ratios = np.array(
        [
            epsilon_at(level, stable.epsilons, other)
            / epsilon_at(level, rival.epsilons, one)
            for one, other in pairs
        ]
    )
    reached = ratios[np.isfinite(ratios)]
    return float(reached.std(ddof=1)) if len(reached) > 1 else math.nan


NEVER = "one of the two is nowhere better than saying the most frequent labels for all items"
RIVALS = ("TauVoting", "BinaryVoting")
TITLES: dict[Measure, str] = {"released": "released labels", "student": "the student"}
