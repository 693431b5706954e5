"""The exact law of stable queries asked in a fixed order, with a fresh threshold after every unstable one."""

from __future__ import annotations

from typing import Any

from dpselect.mechanisms.queries.stable_rule import StableRule
from dpselect.mechanisms.queries.threshold_law import Comparisons, Floats, scaled
from dpselect.mechanisms.queries.threshold_run import margins
from dpselect.noise import by_name
from dpselect.scores import Numbers


def law(distances: Numbers, rule: StableRule, most: int) -> dict[Any, float]:
    """Probability of every set of answered queries, when the `most`-th unstable query ends it."""
    ends = [_first_unstable(distances[start:], rule).tolist() for start in range(len(distances))]
    chances: dict[frozenset[int], float] = {}

    def run(start: int, left: int, answered: frozenset[int], chance: float) -> None:
        if left == 0 or start == len(distances):
            chances[answered] = chances.get(answered, 0.0) + chance
            return
        for length, probability in enumerate(ends[start]):
            stop = start + length
            run(min(stop + 1, len(distances)), left - 1, answered | set(range(start, stop)), chance * probability)

    run(0, most, frozenset(), 1.0)
    return dict(chances)


def _first_unstable(distances: Numbers, rule: StableRule) -> Floats:
    """(m + 1,) the probability that one threshold first fails each query; last, that it fails none."""
    laplace = by_name("laplace")
    # A query fails iff T - distance + noise > threshold noise: both noises are symmetric.
    return Comparisons(-margins(distances, rule.threshold), scaled(laplace, rule.scale), laplace, rule.test_scale).first_passing()
