"""From a mechanism and a shape to the quality of a release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpselect.mechanisms import (
    CanonicalTopK,
    ExponentialMechanism,
    JointTopK,
    LargeMargin,
    LimitedDomain,
    Mechanism,
    OneshotTopK,
    PeelingTopK,
    PermuteAndFlip,
    ReportNoisyMax,
    StabilityTest,
    StableTopK,
    StableTopKFixed,
    TopStable,
)
from dpselect.planning.laws import canonical as laws_canonical
from dpselect.planning.laws import joint as laws_joint
from dpselect.planning.laws import noise as laws_noise
from dpselect.planning.laws import stable as laws_stable
from dpselect.planning.levels import Levels
from dpselect.planning.quality import Outcomes, Quality
from dpselect.planning.runs import Runs

_EXACT: dict[type[Mechanism], Callable[[Any, Levels], Outcomes]] = {
    JointTopK: laws_joint.joint,
    StabilityTest: laws_stable.stability_test,
    StableTopK: laws_stable.stable_top_k,
    TopStable: laws_stable.top_stable,
}
_SIMULATED: dict[type[Mechanism], Callable[[Any, Levels, Runs], Outcomes]] = {
    CanonicalTopK: laws_canonical.canonical,  # exact for Gumbel noise
    ExponentialMechanism: laws_noise.exponential,
    LargeMargin: laws_stable.large_margin,
    LimitedDomain: laws_noise.limited_domain,
    OneshotTopK: laws_noise.oneshot,
    PeelingTopK: laws_noise.peeling,
    PermuteAndFlip: laws_noise.permute_and_flip,
    ReportNoisyMax: laws_noise.noisy_max,
    StableTopKFixed: laws_stable.stable_top_k_fixed,
}


def outcomes(mechanism: Mechanism, levels: Levels, runs: Runs) -> Outcomes:
    """What a release of `mechanism` may look like on this ranking."""
    member = type(mechanism)
    return _EXACT[member](mechanism, levels) if member in _EXACT else _SIMULATED[member](mechanism, levels, runs)


def quality(mechanism: Mechanism, levels: Levels, runs: Runs, level: float) -> Quality:
    """The expected quality of a release, with intervals of confidence `level` where it is simulated."""
    return Quality.of(outcomes(mechanism, levels, runs), levels, level)
