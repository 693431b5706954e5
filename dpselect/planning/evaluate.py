"""From a mechanism and a shape to the quality of a release."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from pkgutil import resolve_name

from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism
from dpselect.planning.levels import Levels
from dpselect.planning.quality import Outcomes, Quality
from dpselect.planning.runs import Runs


def outcomes(mechanism: Mechanism, levels: Levels, runs: Runs) -> Outcomes:
    """What a release of `mechanism` may look like on this ranking.

    Raises:
        InvalidRequest: it is not planned yet.
    """
    place = mechanism.traits.law
    if place is None:
        raise InvalidRequest(f"{type(mechanism).__name__} is not planned yet: no law of its quality is known")
    return _law(place)(mechanism, levels, runs)


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
