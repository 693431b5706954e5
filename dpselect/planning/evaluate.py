"""From a mechanism and a shape to the quality of a release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from inspect import signature
from pkgutil import resolve_name

import numpy as np

from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism
from dpselect.planning.levels import Levels
from dpselect.planning.quality import Outcomes, Quality
from dpselect.planning.runs import Runs

_LOST = 0.1  # of the noise: what adds half a percent to it
_CASES = 4  # ways in which bounded scores may turn out


def outcomes(mechanism: Mechanism, levels: Levels, runs: Runs) -> Outcomes:
    """What a release of `mechanism` may look like on this ranking; where bounding leaves scores to chance, on average over that.

    Raises:
        InvalidRequest: it is not planned yet.
    """
    place = mechanism.traits.law
    if place is None:
        raise InvalidRequest(f"{type(mechanism).__name__} is not planned yet: no law of its quality is known")
    law = _law(place)
    if levels.spread is None or all(_adds_up(step, float(levels.spread.max())) for step in _steps(mechanism)):
        return law(mechanism, levels, runs)
    rng = np.random.default_rng([runs.seed, runs.stage, 3])
    share = replace(runs, count=max(2, runs.count // _CASES))
    return Outcomes.pooled([law(mechanism, levels.realised(rng), share) for _ in range(_CASES)])


def _steps(mechanism: Mechanism) -> tuple[Mechanism, ...]:
    return tuple(getattr(mechanism, name, mechanism) for name in ("discovery", "selection"))


def _adds_up(mechanism: Mechanism, spread: float) -> bool:
    """Whether that chance is one with the noise: of Gaussian noise it is, and beside much noise it is lost."""
    return getattr(mechanism, "noise", None) == "gaussian" or spread < _LOST * getattr(mechanism, "scale", 0.0)


@cache
def _law(place: str) -> Callable[[Mechanism, Levels, Runs], Outcomes]:
    """The law; an exact one has no use for runs."""
    function: Callable[..., Outcomes] = resolve_name(place)
    if "runs" in signature(function).parameters:
        return function
    return lambda mechanism, levels, _: function(mechanism, levels)


def quality(mechanism: Mechanism, levels: Levels, runs: Runs, level: float) -> Quality:
    """The expected quality of a release, with intervals of confidence `level` where it is simulated."""
    return Quality.of(outcomes(mechanism, levels, runs), levels, level)
