"""Propose, test, release: a top set, if the gap below it is wide enough to hide every user.
Theorems S4 to S6.

Its size is fixed, or chosen by the data; what an unstable set lacks may be filled up by noisy
picks.
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
from accounting.arguments import Relation
from accounting.frozen import NonNegative, Positive, Probability
from dpselect.errors import InvalidMechanism
from dpselect.mechanisms.base import RHO, SCALE, Mechanism, Traits, require_enumerable
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
from dpselect.mechanisms.ranks import centered, columns, count_blocks, highest, joined, ranked_rows
from dpselect.mechanisms.release import release
from dpselect.noise import VECTOR_NORMS, GapNoise, NoiseName, VectorNoise, by_name, in_words
from dpselect.sampling import Sampler
from dpselect.sampling.contest import Flags, Floats, Indices
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity
from dpselect.verify.quadrature import top_set_probabilities

NOT_PASSED = "stability test did not pass"


@final
@dataclass(frozen=True)
class StabilityRule:
    """Pass iff max(gap, g) + scale * noise exceeds g + scale * (the noise's upper failure_delta
    quantile), g = `gap_shift`.

    All in counts; `failure_delta` is the chance that a gap of g or less passes.
    """

    noise: VectorNoise
    scale: float
    failure_delta: float
    relation: Relation

    @property
    def curve(self) -> Curve:
        """What one test costs, the release of a set that passes included."""
        step = ratio_up(gap_shift(self.relation), self.scale)
        core = GaussianDP(mu=step) if VECTOR_NORMS[self.noise] == "l2" else LaplaceDP(epsilon=step)
        return Approximate(curve=core, delta0=self.failure_delta)

    @property
    def threshold(self) -> float:
        """How far, in units of the scale, the noisy gap has to exceed g."""
        quantile = float(by_name(self.noise).isf(self.failure_delta))
        # A few ulps up, so that rounding cannot let an unstable set pass more often than
        # failure_delta.
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
        return source.exceeds(
            excess,
            by_name(self.noise),
            self.scale,
            math.nextafter(self.scale * self.threshold, math.inf),
        )

    def _excess(self, gaps: ArrayLike) -> Floats:
        return (
            np.maximum(np.asarray(gaps, dtype=np.float64) - gap_shift(self.relation), 0.0)
            / self.scale
        )


class StabilityGatedSet(Mechanism, ABC):
    """The top set of a size that is fixed or proposed, as it is, if the gap below it passes a test;
    else nothing.
    """

    @property
    @abstractmethod
    def rule(self) -> StabilityRule:
        """The test by itself: pass probabilities of hypothetical gaps, for planning."""

    @property
    @abstractmethod
    def _largest(self) -> int:
        """The largest size."""

    @abstractmethod
    def propose(self, gaps: Floats, source: Sampler) -> Indices:
        """(rows,) the sizes that are tested for (rows, ranks) gaps: private until they are
        released.
        """

    @abstractmethod
    def rank_law(self, gaps: Floats) -> Floats:
        """(ranks,) the probability that each size is tested, for (ranks,) gaps."""

    @property
    def _requested(self) -> int | None:
        return None

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        top = read_top(scores, self._largest)
        size = int(self.propose(top.gaps[None], source)[0])
        positions = top_set(top, size)
        passed = bool(self.rule.passes(top.gaps[size - 1 : size], source)[0]) and len(positions) > 0
        chosen = positions if passed else ()
        return release(
            scores,
            chosen,
            ordered=False,
            requested=self._requested,
            complete=passed,
            reason=NOT_PASSED,
        )

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        results = [self.sets_that_pass(block, source) for block in count_blocks(matrix)]
        indices = joined(columns(members) for members, _ in results)
        complete = np.concatenate([passed for _, passed in results])
        return Selections(
            indices, ordered=False, requested=self._requested, complete=complete, reason=NOT_PASSED
        )

    def sets_that_pass(self, block: Numbers, source: Sampler) -> tuple[Flags, Flags]:
        """(rows, m) membership of the sets that passed, empty where none did, and (rows,) whether
        one did.
        """
        top = highest(block, self._largest + 1)
        gaps, rows = gaps_below(top)[:, : self._largest], np.arange(len(block))
        sizes = self.propose(gaps, source)
        chosen = gaps[rows, sizes - 1]
        passed = self.rule.passes(chosen, source)
        members = (block >= top[rows, sizes - 1][:, None]) & passed[:, None]
        for row in np.flatnonzero(passed & (chosen == 0)):
            # More scores than asked for reach the level: ties go by position.
            members[row] = False
            members[row, ranked_rows(block[row : row + 1])[0, : sizes[row]]] = True
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
    """The set of the k highest counts if the gap below it passes a noisy test, nothing otherwise;
    the set itself is exact.

    Reads the k + 1 highest counts only, so the domain may be unknown. With g = 1 (add_remove) or 2
    (replace_one) counts: Approximate(GaussianDP(g/scale), failure_delta) for gaussian noise,
    LaplaceDP in its place for laplace, Theorem S4.

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
    def covers(self) -> Sensitivity:
        return Sensitivity(relation=self.neighbors)

    @property
    def curve(self) -> Curve:
        return self.rule.curve

    @property
    def shared_group_curve(self) -> Curve | None:
        return _doubled_failure(self.curve)

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

    def propose(self, gaps: Floats, source: Sampler) -> Indices:
        return np.full(len(gaps), self.k)

    def rank_law(self, gaps: Floats) -> Floats:
        return (np.arange(1, len(gaps) + 1) == self.k).astype(np.float64)

    def _check_stated(self) -> None:
        # refused before a charge, not at the draw
        if not math.isfinite(self.scale * self.rule.threshold):
            raise InvalidMechanism(
                f"scale={self.scale:g} puts the test's threshold beyond the floats: use less noise"
            )


def _doubled_failure(curve: Curve) -> Curve | None:
    """The curve where each of two users may bring about a failure of its own; None where that is
    certain.
    """
    failure = 2 * curve.delta0
    return (
        Approximate(curve=curve.curve, delta0=failure)
        if isinstance(curve, Approximate) and failure < 1
        else None
    )


@final
class StableTopK(WidestGap, StabilityGatedSet):
    """The top j for a privately chosen j <= kbar if the gap below it passes a stability test, else
    nothing (Zhu, Wang 2022).

    Reads the kbar + 1 highest counts only, so the domain may be unknown. The set is released, not
    its order. With gap shift g = 1 (add_remove) or 2 (replace_one) counts: j by the largest gap
    with Gumbel noise of scale g/sqrt(rho), the test with Gaussian noise of standard deviation
    g/sqrt(rho). Guarantee, within failure_delta-approximate rho-zCDP under either relation:
    Approximate(BoundedRange(2 sqrt(rho)) + GaussianDP(sqrt(rho)), failure_delta), Theorem S5.

    Args:
        rho: zCDP parameter, nats, > 0: one half for the choice, one half for the test.
        regularizer: public preference for some sizes: an array of at least kbar numbers,
            `TargetSize`, or None.
        gap_noise: "gumbel", or "gaussian" for noise of standard deviation 2g/sqrt(rho) in the
            choice, whose cost is GaussianMax instead: not bounded by rho.

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
        return _doubled_failure(self.curve) if self._is_ranged else None  # a union is not halved

    @property
    def _is_ranged(self) -> bool:
        """Whether the choice has a bounded range, and no union over the sizes. Theorem C8 (ii)."""
        return by_name(self.gap_noise).winner_price == "bounded_range"

    @property
    def core(self) -> Curve:
        """What the choice and the test cost unless an unstable set passes."""
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
        """Expected number of released items if the first gaps (ranks,), in counts, were these.

        For planning with public or made-up gaps: on private ones the answer is private too.
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
    """A set of exactly k items: the stable part exactly, the rest by the exponential mechanism
    (Zhu, Wang 2022).

    `StableTopK` at rho/2 with the regularizer `-penalty * |j - k|` proposes the top j. If it
    passes, and j = k: done; j > k: k of the j are peeled off; j < k: k - j more are peeled off the
    rest. If it does not: k are peeled off all candidates. Of n picks each is an exponential
    mechanism of 2 sqrt(rho/n) nats: few picks are sharp ones. Peeling needs a public domain.

    Guarantee, within failure_delta-approximate rho-zCDP under either relation:
    Approximate(BoundedRange(2 sqrt(rho/2)) + GaussianDP(sqrt(rho/2)) + the Renyi divergences of k *
    BoundedRange(2 sqrt(rho/k)), failure_delta), Theorem S6.

    Args:
        rho: zCDP parameter, nats, > 0: a quarter each for choice and test, one half for the picks.
        penalty: counts by which a gap must be larger for every item that it is away from k, >= 0.

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
    def covers(self) -> Sensitivity:
        return Sensitivity(relation=self.neighbors)

    @property
    def curve(self) -> Curve:
        return Approximate(curve=self.stable.core + self.picks, delta0=self.failure_delta)

    @property
    def shared_group_curve(self) -> Curve | None:
        return _doubled_failure(self.curve)

    @property
    def picks(self) -> Curve:
        """What all picks cost together, however many there are: the Renyi divergences of k of them,
        and no more (Theorem S6).
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
        """The first stage by itself."""
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
        """Scale of the Gumbel noise of each of the picks, in counts, rounded up."""
        return ratio_up(self.covers.range, self._pick_epsilon(picks))

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        chosen = self._select_many(scores.dense()[None], source).indices[0]
        return release(scores, chosen, ordered=False, requested=self.k)

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

    def _fill_rows(self, values: Numbers, members: Flags, size: int, source: Sampler) -> Indices:
        """(rows, k) positions from stable sets of one size."""
        kept = _columns(members) if size <= self.k else np.empty((len(values), 0), dtype=np.int64)
        wanted = self.k - kept.shape[1]
        if wanted == 0:
            return kept
        pool = _columns(members if size > self.k else ~members)
        competing: Numbers = np.take_along_axis(values, pool, axis=1)  # type: ignore[assignment]
        picks = source.top_k_rows(competing, by_name("gumbel"), self.pick_scale(wanted), wanted)
        return np.concatenate([kept, np.take_along_axis(pool, picks, axis=1)], axis=1)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        require_enumerable(math.comb(scores.size, self.k))
        values, law = centered(scores.dense()), dict[Any, float]()
        for stable, chance in self.stable._probabilities(scores).items():
            kept = frozenset[int]() if len(stable) > self.k else stable
            pool = sorted(stable - kept or {*range(len(values))} - kept)
            wanted = self.k - len(kept)
            picks: dict[frozenset[int], float] = {frozenset(): 1.0}
            if wanted:
                picks = top_set_probabilities(
                    by_name("gumbel"), self.pick_scale(wanted), values[pool], wanted
                )
            for places, probability in picks.items():
                chosen = kept | {pool[place] for place in places}
                law[chosen] = law.get(chosen, 0.0) + chance * probability
        return law


def _columns(flags: Flags) -> Indices:
    """(rows, count) columns that are set; every row has the same count."""
    return np.nonzero(flags)[1].reshape(len(flags), -1)
