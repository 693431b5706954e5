"""Propose, test, release: the top k, if the gap below it is wide enough to hide every user. Theorem S4."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from accounting import Approximate, Curve, GaussianDP, LaplaceDP, Relation
from accounting.frozen import Positive, Probability
from dpselect.errors import InvalidMechanism
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.ranks import columns, count_blocks, highest, joined, ranked_rows
from dpselect.mechanisms.release import release
from dpselect.mechanisms.stability.gaps import Rank, Top, gap_shift, gaps_below, read_top, top_set
from dpselect.mechanisms.traits import SCALE, Traits
from dpselect.noise import by_name
from dpselect.sampling import Sampler
from dpselect.sampling.contest import Floats, Indices
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

Choose = Callable[[Floats], Indices]
"""(rows, ranks) gaps -> (rows,) proposed sizes."""
Flags = NDArray[np.bool_]
GapNoise = Literal["gaussian", "laplace"]
NOT_PASSED = "stability test did not pass"


@final
@dataclass(frozen=True)
class StabilityRule:
    """Pass iff max(gap, g) + scale * noise exceeds g + scale * (the noise's upper failure_delta quantile), g = `gap_shift`.

    All in counts; `failure_delta` is the chance that a gap of g or less passes.
    """

    noise: GapNoise
    scale: float
    failure_delta: float
    relation: Relation

    @property
    def curve(self) -> Curve:
        """What one test costs, the release of a set that passes included."""
        step = ratio_up(gap_shift(self.relation), self.scale)
        core = GaussianDP(mu=step) if self.noise == "gaussian" else LaplaceDP(epsilon=step)
        return Approximate(curve=core, delta0=self.failure_delta)

    @property
    def threshold(self) -> float:
        """How far, in units of the scale, the noisy gap has to exceed g."""
        quantile = float(by_name(self.noise).isf(self.failure_delta))
        # A few ulps up, so that rounding cannot let an unstable set pass more often than failure_delta.
        return quantile + 1e-15 * (1 + abs(quantile))

    def pass_probability(self, gaps: ArrayLike) -> Floats:
        """The chance that each gap (counts) passes."""
        return by_name(self.noise).sf(self.threshold - self._excess(gaps))

    def fail_probability(self, gaps: ArrayLike) -> Floats:
        """One minus `pass_probability`, accurate where that is near 1."""
        return by_name(self.noise).cdf(self.threshold - self._excess(gaps))

    def least_gap(self, probability: float) -> float:
        """The smallest gap (counts) that passes with at least this probability."""
        needed = self.threshold - float(by_name(self.noise).isf(probability))
        return gap_shift(self.relation) + self.scale * needed if needed > 0 else 0.0

    def passes(self, gaps: Floats, source: Sampler) -> Flags:
        """Draw: which of the gaps pass, each with fresh noise."""
        excess = np.maximum(gaps - gap_shift(self.relation), 0.0)
        # The public level is rounded up, and the comparison itself is exact.
        return source.exceeds(excess, by_name(self.noise), self.scale, math.nextafter(self.scale * self.threshold, math.inf))

    def _excess(self, gaps: ArrayLike) -> Floats:
        return np.maximum(np.asarray(gaps, dtype=np.float64) - gap_shift(self.relation), 0.0) / self.scale


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
        law="dpselect.planning.laws.independent_noise:stability_test",
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
    def shared_group_curve(self) -> Curve | None:
        return doubled_failure(self.curve)

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


def doubled_failure(curve: Curve) -> Curve | None:
    """The curve where each of two users may bring about a failure of its own; None where that is certain."""
    failure = 2 * curve.delta0
    return Approximate(curve=curve.curve, delta0=failure) if isinstance(curve, Approximate) and failure < 1 else None


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


def sets_that_pass(block: Numbers, kbar: int, choose: Choose, rule: StabilityRule, source: Sampler) -> tuple[Flags, Flags]:
    """(rows, m) membership of the sets that passed, empty where none did, and (rows,) whether one did."""
    top = highest(block, kbar + 1)
    gaps = gaps_below(top)[:, :kbar]
    sizes = choose(gaps)
    rows = np.arange(len(block))
    chosen = gaps[rows, sizes - 1]
    passed = rule.passes(chosen, source)
    members = (block >= top[rows, sizes - 1][:, None]) & passed[:, None]
    for row in np.flatnonzero(passed & (chosen == 0)):
        # More scores than asked for reach the level: ties go by position.
        members[row] = False
        members[row, ranked_rows(block[row : row + 1])[0, : sizes[row]]] = True
    return members, passed


def release_rows(
    matrix: Numbers, kbar: int, choose: Choose, rule: StabilityRule, source: Sampler, *, requested: int | None
) -> Selections:
    """Choose a size, test the gap below it, release the set or nothing: for every row."""
    results = [sets_that_pass(block, kbar, choose, rule, source) for block in count_blocks(matrix)]
    indices = joined(columns(members) for members, _ in results)
    complete = np.concatenate([passed for _, passed in results])
    return Selections(indices, ordered=False, requested=requested, complete=complete, reason=NOT_PASSED)
