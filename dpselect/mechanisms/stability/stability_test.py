"""Propose, test, release: the top k, if the gap below it is wide enough to hide every user."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, final, get_args

import numpy as np
from pydantic import Field

from accounting import Curve, Relation
from accounting.frozen import Positive, Probability
from dpselect.errors import InvalidMechanism
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.release import release
from dpselect.mechanisms.stability.gaps import NOT_PASSED, Floats, GapNoise, Rank, StabilityRule, Top, read_top, top_set
from dpselect.mechanisms.stability.many import release_rows
from dpselect.mechanisms.traits import SCALE, Traits
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


@final
class StabilityTest(Mechanism):
    """The set of the k highest counts if the gap below it passes a noisy test, nothing otherwise; the set itself is exact.

    Reads the k + 1 highest counts only, so the domain may be unknown. With g = 1 (add_remove) or 2 (replace_one) counts:
    Approximate(GaussianDP(g/scale), failure_delta) for gaussian noise, LaplaceDP in its place for laplace, Theorem S4.

    Args:
        k: size of the set, from 1 to 10,000,000.
        noise: "gaussian" or "laplace".
        scale: of the noise in counts, > 0 (the standard deviation for gaussian).
        failure_delta: in (0, 1), the chance that a set that a user could change passes.
        relation: what a neighbour is.

    Example:
        >>> import dpselect as dps
        >>> test = dps.StabilityTest(k=2, scale=5.0, failure_delta=1e-9)
        >>> sorted(test.select(dps.Scores([9000, 100, 8990], sensitivity=dps.Sensitivity())).indices)
        [0, 2]
        >>> test.select(dps.Scores([9000, 8990, 8990], sensitivity=dps.Sensitivity())).complete
        False
    """

    kind: Literal["stability_test"] = "stability_test"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=SCALE,
        failure="failure_delta",
        ordered=False,
        most="k",
        domain="unknown",
        reads=lambda mechanism: mechanism.k + 1,
        tried={"noise": get_args(GapNoise)},
        law="dpselect.planning.laws.stable:stability_test",
    )
    k: Rank = Field(description="an integer from 1 to 10,000,000")
    noise: GapNoise = Field(default="gaussian", description="gaussian or laplace")
    scale: Positive = Field(description="a finite scale > 0, in counts")
    failure_delta: Probability = Field(description="a probability in (0, 1)")
    neighbours: Relation = Field(default="add_remove", alias="relation", description="'add_remove' or 'replace_one'")

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(relation=self.neighbours)

    @property
    def curve(self) -> Curve:
        return self.rule.curve

    @property
    def least_candidates(self) -> int:
        return self.k

    @property
    def rule(self) -> StabilityRule:
        """The test by itself: pass probabilities of hypothetical gaps, for planning."""
        return StabilityRule(self.noise, self.scale, self.failure_delta, self.neighbours)

    def _check_stated(self) -> None:
        if not math.isfinite(self.scale * self.rule.threshold):  # refused before a charge, not at the draw
            raise InvalidMechanism(f"scale={self.scale:g} puts the test's threshold beyond the floats: use less noise")

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        top = read_top(scores, self.k)
        return released(scores, top, self.k, rule=self.rule, requested=self.k, source=source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        return release_rows(matrix, self.k, lambda gaps: np.full(len(gaps), self.k), self.rule, source, requested=self.k)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        top = read_top(scores, self.k)
        return set_law(top, np.append(np.zeros(self.k - 1), 1.0), self.rule)


def released(scores: Scores, top: Top, size: int, *, rule: StabilityRule, requested: int | None, source: Sampler) -> Selection:
    """Test the gap below the top `size`; release the set or nothing."""
    positions = top_set(top, size)
    passed = bool(rule.passes(top.gaps[size - 1 : size], source)[0]) and len(positions) > 0
    return release(scores, positions if passed else (), ordered=False, requested=requested, complete=passed, reason=NOT_PASSED)


def set_law(top: Top, chances: Floats, rule: StabilityRule) -> dict[Any, float]:
    """Law of the released set when size j is proposed with probability chances[j - 1]."""
    passing, failing = rule.pass_probability(top.gaps), rule.fail_probability(top.gaps)
    law: dict[Any, float] = {}
    nothing = 0.0
    for place in np.flatnonzero(chances).tolist():
        released_set, chance = frozenset(top_set(top, place + 1).tolist()), float(chances[place])
        nothing += chance * float(failing[place])
        law[released_set] = law.get(released_set, 0.0) + chance * float(passing[place])
    law[frozenset()] = law.get(frozenset(), 0.0) + nothing
    return law
