"""Stable top-k: as many items as the data make stable."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from accounting import Approximate, BoundedRange, Curve, GaussianDP, Relation
from accounting.frozen import Positive, Probability
from dpselect.mechanisms.noise_curves import ratio_up, winner_curve
from dpselect.mechanisms.stability.gaps import Rank, gap_sensitivity, gap_shift, read_top
from dpselect.mechanisms.stability.large_gap import AnyRegularizer, WidestGap
from dpselect.mechanisms.stability.stability_test import StabilityRule, doubled_failure, release_rows, released, set_law
from dpselect.mechanisms.traits import RHO, Traits
from dpselect.noise import NoiseName
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections


@final
class StableTopK(WidestGap):
    """The top j for a privately chosen j <= kbar if the gap below it passes a stability test, else nothing (Zhu, Wang 2022).

    Reads the kbar + 1 highest counts only, so the domain may be unknown. The set is released, not its order. With gap shift
    g = 1 (add_remove) or 2 (replace_one) counts: j by the largest gap with Gumbel noise of scale g/sqrt(rho), the test with
    Gaussian noise of standard deviation g/sqrt(rho). Guarantee, within failure_delta-approximate rho-zCDP under either
    relation: Approximate(BoundedRange(2 sqrt(rho)) + GaussianDP(sqrt(rho)), failure_delta), Theorem S5.

    Args:
        rho: zCDP parameter, nats, > 0: one half for the choice, one half for the test.
        failure_delta: in (0, 1), the chance that a set that a user could change passes.
        kbar: the largest size considered, from 1 to 10,000,000.
        regularizer: public preference for some sizes: an array of at least kbar numbers, `TargetSize`, or None.
        gap_noise: "gumbel", or "gaussian" for noise of standard deviation 2g/sqrt(rho) in the choice, whose cost is
            GaussianMax instead: not bounded by rho.
        relation: what a neighbour is.

    Example:
        >>> import dpselect as dps
        >>> mechanism = dps.StableTopK(rho=0.1, failure_delta=1e-6, kbar=3)
        >>> sorted(mechanism.select(dps.Scores([9000, 8990, 100, 90], sensitivity=dps.Sensitivity())).indices)
        [0, 1]
    """

    kind: Literal["stable_top_k"] = "stable_top_k"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=RHO,
        failure="failure_delta",
        ordered=False,
        most="kbar",
        domain="unknown",
        reads=lambda mechanism: mechanism.kbar + 1,
        usual=lambda k: {"kbar": k},
        law="dpselect.planning.laws.stable:stable_top_k",
        variants="dpselect.planning.families:targets",
    )
    rho: Positive = Field(description="a finite rho > 0, in nats")
    failure_delta: Probability = Field(description="a probability in (0, 1)")
    kbar: Rank = Field(description="an integer from 1 to 10,000,000")
    regularizer: AnyRegularizer | None = Field(default=None, description="a public array, a TargetSize, or None")
    gap_noise: Literal["gumbel", "gaussian"] = Field(default="gumbel", description="gumbel or gaussian")
    neighbours: Relation = Field(default="add_remove", alias="relation", description="'add_remove' or 'replace_one'")

    @property
    def curve(self) -> Curve:
        return Approximate(curve=self.core, delta0=self.failure_delta)

    @property
    def shared_group_curve(self) -> Curve | None:
        return doubled_failure(self.curve) if self.gap_noise == "gumbel" else None  # a union is not halved

    @property
    def core(self) -> Curve:
        """What the choice and the test cost unless an unstable set passes."""
        choice: Curve = BoundedRange(epsilon=2 * math.sqrt(self.rho))
        if self.gap_noise == "gaussian":
            choice = winner_curve("gaussian", self.gap_scale, gap_sensitivity(self.neighbours), self.kbar)
        return choice + GaussianDP(mu=math.sqrt(self.rho))

    @property
    def gap_scale(self) -> float:
        """Scale of the noise in the choice of j, in counts, rounded up."""
        shift = gap_shift(self.neighbours)
        return ratio_up(shift if self.gap_noise == "gumbel" else 2 * shift, math.sqrt(self.rho))

    @property
    def _noise(self) -> tuple[NoiseName, float]:
        return self.gap_noise, self.gap_scale

    @property
    def rule(self) -> StabilityRule:
        """The test by itself: pass probabilities of hypothetical gaps, for planning."""
        sigma = ratio_up(gap_shift(self.neighbours), math.sqrt(self.rho))
        return StabilityRule("gaussian", sigma, self.failure_delta, self.neighbours)

    def expected_size(self, gaps: ArrayLike) -> float:
        """Expected number of released items if the first gaps (ranks,), in counts, were these.

        For planning with public or made-up gaps: on private ones the answer is private too.
        """
        array = np.asarray(gaps, dtype=np.float64)[: self.kbar]
        sizes = np.arange(1, len(array) + 1)
        return float((self.rank_law(array) * self.rule.pass_probability(array)) @ sizes)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        top = read_top(scores, self.kbar)
        size = int(self.propose(top.gaps[None], source)[0])
        return released(scores, top, size, rule=self.rule, requested=None, source=source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        return release_rows(matrix, self.kbar, lambda gaps: self.propose(gaps, source), self.rule, source, requested=None)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        top = read_top(scores, self.kbar)
        return set_law(top, self.rank_law(top.gaps), self.rule)
