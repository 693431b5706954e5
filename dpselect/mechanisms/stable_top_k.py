"""Release a top set exactly if the gap below it is wide enough to hide every user.

These are propose-test-release mechanisms. The size of the set is fixed, or chosen by the data. If a
set is unstable, noisy picks may fill it up. Theorems S4 to S6.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from accounting import (
    ZCDP,
    Approximate,
    BoundedRange,
    Curve,
    GaussianDP,
    LaplaceDP,
    RenyiTable,
    tighter,
)
from accounting.frozen import NonNegative, Positive, Probability
from accounting.numbers import Flags, Floats, Integers, next_up
from accounting.relations import Relation
from dpselect.errors import InvalidMechanism
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.gaps import (
    Rank,
    TargetSize,
    WidestGap,
    gap_shift,
    gaps_below,
    read_top,
    top_set,
)
from dpselect.mechanisms.noise_curves import ratio_up, winner_curve
from dpselect.mechanisms.ranks import center, columns, count_blocks, highest, join_rows
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import RHO, SCALE, Traits
from dpselect.noise import VECTOR_NORMS, GapNoise, NoiseName, VectorNoise, in_words, noise_of
from dpselect.sampling import Sampler
from dpselect.sampling.ranked import rank_rows
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity
from dpselect.verify.quadrature import require_enumerable, top_set_probabilities

NOT_PASSED = "stability test did not pass"


@final
@dataclass(frozen=True)
class StabilityRule:
    """A noisy test of a gap, which gaps of g or less pass with probability `failure_delta`.

    A gap passes iff max(gap, g) + scale * noise exceeds g + scale * (the noise's upper
    failure_delta quantile), with g = `gap_shift`. All are in counts.
    """

    noise: VectorNoise
    scale: float
    failure_delta: float
    relation: Relation

    @property
    def curve(self) -> Curve:
        """Cost of one test, including the release of a set that passes."""
        step = ratio_up(gap_shift(self.relation), self.scale)
        core = GaussianDP(mu=step) if VECTOR_NORMS[self.noise] == "l2" else LaplaceDP(epsilon=step)
        return Approximate(curve=core, delta0=self.failure_delta)

    @property
    def threshold(self) -> float:
        """Excess over g that a noisy gap needs to pass, in units of the scale."""
        quantile = float(noise_of(self.noise).isf(self.failure_delta))
        # A few ulps up, so that rounding cannot let an unstable set pass more often than
        # failure_delta.
        return quantile + 1e-15 * (1 + abs(quantile))

    def pass_probability(self, gaps: ArrayLike) -> Floats:
        """Return the probability that each gap (counts) passes."""
        return noise_of(self.noise).sf(self.threshold - self._excess(gaps))

    def fail_probability(self, gaps: ArrayLike) -> Floats:
        """Return one minus `pass_probability`, accurate even if that is near 1."""
        return noise_of(self.noise).cdf(self.threshold - self._excess(gaps))

    def least_gap(self, probability: float) -> float:
        """Return the smallest gap (counts) that passes with at least this probability."""
        quantile = self.threshold - float(noise_of(self.noise).isf(probability))
        return gap_shift(self.relation) + self.scale * quantile if quantile > 0 else 0.0

    def passes(self, gaps: Floats, source: Sampler) -> Flags:
        """Draw fresh noise for each gap, and return flags of the gaps that pass."""
        excess = np.maximum(gaps - gap_shift(self.relation), 0.0)
        # The public level is rounded up, and the comparison itself is exact.
        return source.exceeds(
            excess, noise_of(self.noise), self.scale, next_up(self.scale * self.threshold)
        )

    def _excess(self, gaps: ArrayLike) -> Floats:
        return (
            np.maximum(np.asarray(gaps, dtype=np.float64) - gap_shift(self.relation), 0.0)
            / self.scale
        )


class StabilityGatedSet(Mechanism, ABC):
    """Base class of mechanisms that release a top set exactly if the gap below it passes a test.

    Otherwise they release nothing. The size is fixed or proposed.
    """

    @property
    @abstractmethod
    def rule(self) -> StabilityRule:
        """The test alone, for example to plan with pass probabilities of hypothetical gaps."""

    @property
    @abstractmethod
    def _largest(self) -> int:
        """The largest size."""

    @abstractmethod
    def propose(self, gaps: Floats, source: Sampler) -> Integers:
        """Return (rows,) sizes to test for (rows, ranks) gaps. They are private until released."""

    @abstractmethod
    def rank_law(self, gaps: Floats) -> Floats:
        """Return (ranks,) probabilities that each size is tested, for (ranks,) gaps."""

    @property
    def _requested(self) -> int | None:
        return None

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        top = read_top(scores, self._largest)
        size = int(self.propose(top.gaps[None], source)[0])
        positions = top_set(top, size)
        passed = bool(self.rule.passes(top.gaps[size - 1 : size], source)[0]) and len(positions) > 0
        released = positions if passed else ()
        return release(
            scores,
            released,
            ordered=False,
            requested=self._requested,
            complete=passed,
            reason=NOT_PASSED,
        )

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        results = [self.sets_that_pass(block, source) for block in count_blocks(matrix)]
        indices = join_rows(columns(members) for members, _ in results)
        complete = np.concatenate([passed for _, passed in results])
        return Selections(
            indices, ordered=False, requested=self._requested, complete=complete, reason=NOT_PASSED
        )

    def sets_that_pass(self, block: Numbers, source: Sampler) -> tuple[Flags, Flags]:
        """Return membership (rows, m) of the sets that passed, and (rows,) flags of rows with one.

        Rows without a passing set are empty.
        """
        top = highest(block, self._largest + 1)
        gaps, rows = gaps_below(top)[:, : self._largest], np.arange(len(block))
        sizes = self.propose(gaps, source)
        size_gaps = gaps[rows, sizes - 1]
        passed = self.rule.passes(size_gaps, source)
        members = (block >= top[rows, sizes - 1][:, None]) & passed[:, None]
        for row in np.flatnonzero(passed & (size_gaps == 0)):
            # More scores than asked for reach the level: ties go by position.
            members[row] = False
            members[row, rank_rows(block[row : row + 1])[0, : sizes[row]]] = True
        return members, passed

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        top = read_top(scores, self._largest)
        chances, law = self.rank_law(top.gaps), dict[Any, float]()
        passing, failing = (
            chances * self.rule.pass_probability(top.gaps),
            chances * self.rule.fail_probability(top.gaps),
        )
        for place in np.flatnonzero(chances).tolist():
            released = frozenset(top_set(top, place + 1).tolist())
            law[released] = law.get(released, 0.0) + float(passing[place])
        law[frozenset()] = law.get(frozenset(), 0.0) + float(failing.sum())
        return law


@final
class StabilityTest(StabilityGatedSet):
    """The set of the k highest counts if the gap below it passes a noisy test, nothing otherwise.

    The set itself is exact. It reads only the k + 1 highest counts, so the domain may be unknown.
    With g = 1 (add_remove) or 2 (replace_one) counts, the guarantee is
    Approximate(GaussianDP(g/scale), failure_delta) for gaussian noise, and has LaplaceDP in place
    of GaussianDP for laplace. Theorem S4.

    Example:
        >>> import dpselect as dps
        >>> test = dps.StabilityTest(k=2, scale=5.0, failure_delta=1e-9)
        >>> sorted(
        ...     test.select(dps.Scores([9000, 100, 8990], sensitivity=dps.Sensitivity())).indices
        ... )
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
    )
    k: Rank = Field(description="an integer from 1 to 10,000,000")
    noise: VectorNoise = Field(default="gaussian", description=in_words(VectorNoise))
    scale: Positive = Field(description="a finite scale > 0, in counts")
    failure_delta: Probability = Field(description="a probability in (0, 1)")
    neighbors: Relation = Field(
        default="add_remove", alias="relation", description="'add_remove' or 'replace_one'"
    )

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return Sensitivity(relation=self.neighbors)

    @property
    def curve(self) -> Curve:
        return self.rule.curve

    @property
    def shared_group_curve(self) -> Curve | None:
        return _double_failure(self.curve)

    @property
    def least_candidates(self) -> int:
        return self.k

    @property
    def rule(self) -> StabilityRule:
        return StabilityRule(self.noise, self.scale, self.failure_delta, self.neighbors)

    @property
    def _largest(self) -> int:
        return self.k

    @property
    def _requested(self) -> int:
        return self.k

    def propose(self, gaps: Floats, source: Sampler) -> Integers:
        return np.full(len(gaps), self.k)

    def rank_law(self, gaps: Floats) -> Floats:
        return (np.arange(1, len(gaps) + 1) == self.k).astype(np.float64)

    def _check_stated(self) -> None:
        # refused before a charge, not at the draw
        if not math.isfinite(self.scale * self.rule.threshold):
            raise InvalidMechanism(
                f"scale={self.scale:g} puts the test's threshold beyond the floats. Use less noise"
            )


def _double_failure(curve: Curve) -> Curve | None:
    """Return the curve with twice the failure probability, or None if failure is then certain.

    Each of two users may bring about a failure of its own.
    """
    failure = 2 * curve.delta0
    return (
        Approximate(curve=curve.curve, delta0=failure)
        if isinstance(curve, Approximate) and failure < 1
        else None
    )


@final
class StableTopK(WidestGap, StabilityGatedSet):
    """The top j for a privately chosen j <= kbar if the gap below it is stable, else nothing.

    It reads only the kbar + 1 highest counts, so the domain may be unknown. The set is released,
    not its order. The gap shift is g = 1 (add_remove) or 2 (replace_one) counts. The size j has the
    largest gap with Gumbel noise of scale g/sqrt(rho), and the test has Gaussian noise of standard
    deviation g/sqrt(rho). Guarantee, within failure_delta-approximate rho-zCDP under either
    relation: Approximate(BoundedRange(2 sqrt(rho)) + GaussianDP(sqrt(rho)), failure_delta),
    Theorem S5. After Zhu and Wang (2022).

    Args:
        rho: zCDP parameter, nats, > 0: one half for the choice, one half for the test.
        regularizer: public preference for some sizes: an array of at least kbar numbers,
            `TargetSize`, or None.
        gap_noise: "gumbel", or "gaussian" for noise of standard deviation 2g/sqrt(rho) in the
            choice. The latter costs GaussianMax instead, which rho does not bound.

    Example:
        >>> import dpselect as dps
        >>> mechanism = dps.StableTopK(rho=0.1, failure_delta=1e-6, kbar=3)
        >>> sorted(
        ...     mechanism.select(
        ...         dps.Scores([9000, 8990, 100, 90], sensitivity=dps.Sensitivity())
        ...     ).indices
        ... )
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
    )
    rho: Positive = Field(description="a finite rho > 0, in nats")
    failure_delta: Probability = Field(description="a probability in (0, 1)")
    gap_noise: GapNoise = Field(default="gumbel", description=in_words(GapNoise))

    @property
    def curve(self) -> Curve:
        return Approximate(curve=self.core, delta0=self.failure_delta)

    @property
    def shared_group_curve(self) -> Curve | None:
        return _double_failure(self.curve) if self._is_ranged else None  # a union is not halved

    @property
    def _is_ranged(self) -> bool:
        """True if the choice has a bounded range, and no union over the sizes. Theorem C8 (ii)."""
        return noise_of(self.gap_noise).winner_cost == "bounded_range"

    @property
    def core(self) -> Curve:
        """Cost of the choice and the test, unless an unstable set passes."""
        choice: Curve = BoundedRange(epsilon=2 * math.sqrt(self.rho))
        if not self._is_ranged:
            choice = winner_curve(self.gap_noise, self.gap_scale, self._of_gaps, self.kbar)
        return choice + GaussianDP(mu=math.sqrt(self.rho))

    @property
    def gap_scale(self) -> float:
        """Scale of the noise in the choice of j, in counts, rounded up."""
        shift = gap_shift(self.neighbors)
        return ratio_up(shift if self._is_ranged else 2 * shift, math.sqrt(self.rho))

    @property
    def _noise(self) -> tuple[NoiseName, float]:
        return self.gap_noise, self.gap_scale

    @property
    def _largest(self) -> int:
        return self.kbar

    @property
    def rule(self) -> StabilityRule:
        sigma = ratio_up(gap_shift(self.neighbors), math.sqrt(self.rho))
        return StabilityRule("gaussian", sigma, self.failure_delta, self.neighbors)

    def expected_size(self, gaps: ArrayLike) -> float:
        """Return the expected number of released items for first gaps (ranks,) in counts.

        This is for planning with public or made-up gaps. The result for private gaps is private
        too.
        """
        array = np.asarray(gaps, dtype=np.float64)[: self.kbar]
        sizes = np.arange(1, len(array) + 1)
        return float((self.rank_law(array) * self.rule.pass_probability(array)) @ sizes)


# Where the Renyi divergences of the picks are tabulated: dense enough to lose less than a
# thousandth of epsilon.
_ORDERS = tuple((1 + np.geomspace(0.05, 5e3, 72)).tolist())
_UP = 1 + 2.0**-40  # above the roundings of the table


@final
class StableTopKFixed(Mechanism):
    """A set of exactly k items: the stable part exactly, the rest by the exponential mechanism.

    `StableTopK` at rho/2 with the regularizer `-penalty * |j - k|` proposes the top j. If it passes
    with j = k, that is the release. If j > k, k of the j are peeled off. If j < k, k - j more are
    peeled off the rest. If it does not pass, k are peeled off all candidates. Each of n picks is an
    exponential mechanism of 2 sqrt(rho/n) nats, so fewer picks are more accurate. Peeling needs a
    public domain. After Zhu and Wang (2022).

    Guarantee, within failure_delta-approximate rho-zCDP under either relation:
    Approximate(BoundedRange(2 sqrt(rho/2)) + GaussianDP(sqrt(rho/2)) + the Renyi divergences of k *
    BoundedRange(2 sqrt(rho/k)), failure_delta), Theorem S6.

    Args:
        rho: zCDP parameter, nats, > 0: a quarter each for choice and test, one half for the picks.
        penalty: counts by which a gap must be larger for every item that its size is away from k,
            >= 0.

    Example:
        >>> import dpselect as dps
        >>> mechanism = dps.StableTopKFixed(k=2, rho=0.1, failure_delta=1e-6, penalty=1.0, kbar=3)
        >>> sorted(
        ...     mechanism.select(
        ...         dps.Scores([9000, 8990, 100, 90], sensitivity=dps.Sensitivity())
        ...     ).indices
        ... )
        [0, 1]
    """

    kind: Literal["stable_top_k_fixed"] = "stable_top_k_fixed"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=RHO,
        failure="failure_delta",
        ordered=False,
        most="k",
        domain="public",
        zeros=True,
        usual=lambda k: {"kbar": k, "penalty": 0.0},
    )
    k: Rank = Field(description="an integer from 1 to 10,000,000")
    rho: Positive = Field(description="a finite rho > 0, in nats")
    failure_delta: Probability = Field(description="a probability in (0, 1)")
    penalty: NonNegative = Field(description="a finite penalty >= 0, in counts per item")
    kbar: Rank = Field(description="an integer from k to 10,000,000")
    neighbors: Relation = Field(
        default="add_remove", alias="relation", description="'add_remove' or 'replace_one'"
    )

    @model_validator(mode="after")
    def _can_reach_k(self) -> Self:
        if self.kbar < self.k:
            raise ValueError(
                f"kbar={self.kbar} is less than k={self.k}: consider sizes up to k at least"
            )
        return self

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return Sensitivity(relation=self.neighbors)

    @property
    def curve(self) -> Curve:
        return Approximate(curve=self.stable.core + self.picks, delta0=self.failure_delta)

    @property
    def shared_group_curve(self) -> Curve | None:
        return _double_failure(self.curve)

    @property
    def picks(self) -> Curve:
        """Cost of all picks together, for any number of them up to k.

        It consists of the Renyi divergences of k picks, and of nothing else (Theorem S6).
        """
        most = self.k * BoundedRange(epsilon=self._pick_epsilon(self.k))
        if self.k == 1:
            return most
        return tighter(
            RenyiTable(orders=_ORDERS, values=(most.rdp(_ORDERS) * _UP).tolist()),
            ZCDP(rho=self.rho / 2),
        )

    @property
    def stable(self) -> StableTopK:
        """The first stage alone."""
        return StableTopK(
            rho=self.rho / 2,
            failure_delta=self.failure_delta,
            kbar=self.kbar,
            regularizer=TargetSize(k=self.k, penalty=self.penalty),
            relation=self.neighbors,
        )

    def _pick_epsilon(self, picks: int) -> float:
        return 2 * math.sqrt(self.rho / picks)

    def pick_scale(self, picks: int) -> float:
        """Return the scale of the Gumbel noise of each of the picks, in counts, rounded up."""
        return ratio_up(self.sensitivity_bound.range, self._pick_epsilon(picks))

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        positions = self._select_many(scores.dense()[None], source).indices[0]
        return release(scores, positions, ordered=False, requested=self.k)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        stage, parts = self.stable, []
        for block in count_blocks(matrix):
            members, _ = stage.sets_that_pass(block, source)
            sizes = members.sum(axis=1)
            filled = np.empty((len(block), self.k), dtype=np.int64)
            for size in np.unique(sizes):
                rows = sizes == size
                filled[rows] = self._fill_rows(block[rows], members[rows], int(size), source)
            parts.append(np.sort(filled, axis=1))
        return Selections(np.concatenate(parts), ordered=False, requested=self.k)

    def _fill_rows(self, values: Numbers, members: Flags, size: int, source: Sampler) -> Integers:
        """Fill up or thin out stable sets of one size, and return (rows, k) positions."""
        stable = _columns(members) if size <= self.k else np.empty((len(values), 0), dtype=np.int64)
        missing = self.k - stable.shape[1]
        if missing == 0:
            return stable
        pool = _columns(members if size > self.k else ~members)
        competing: Numbers = np.take_along_axis(values, pool, axis=1)  # type: ignore[assignment]
        picks = source.top_k_rows(competing, noise_of("gumbel"), self.pick_scale(missing), missing)
        return np.concatenate([stable, np.take_along_axis(pool, picks, axis=1)], axis=1)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        require_enumerable(math.comb(scores.size, self.k))
        values, law = center(scores.dense()), dict[Any, float]()
        for stable, chance in self.stable._probabilities(scores).items():
            core = frozenset[int]() if len(stable) > self.k else stable
            pool = sorted(stable - core or {*range(len(values))} - core)
            missing = self.k - len(core)
            picks: dict[frozenset[int], float] = {frozenset(): 1.0}
            if missing:
                picks = top_set_probabilities(
                    noise_of("gumbel"), self.pick_scale(missing), values[pool], missing
                )
            for places, probability in picks.items():
                outcome = core | {pool[place] for place in places}
                law[outcome] = law.get(outcome, 0.0) + chance * probability
        return law


def _columns(flags: Flags) -> Integers:
    """Return (rows, count) set columns, for rows with the same count."""
    return np.nonzero(flags)[1].reshape(len(flags), -1)
