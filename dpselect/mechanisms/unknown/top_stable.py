"""Top Stable: top-k over candidates that are not known in advance, at a price that does not grow with k."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import Approximate, BoundedRange, Curve
from accounting.frozen import NonNegative, Positive, Probability
from dpselect.mechanisms.base import Mechanism, enumerable
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.queries.above_threshold import Floats, first, margins
from dpselect.mechanisms.queries.stable_queries import StableRule, first_law
from dpselect.mechanisms.ranks import count_blocks, highest, ranked_rows
from dpselect.mechanisms.release import release
from dpselect.mechanisms.stability.gaps import Rank, Top, gaps_below, heights, read_top, top_set
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import by_name, top_set_probabilities
from dpselect.sampling import Sampler
from dpselect.sampling.contest import Indices
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

_REASON = "fewer items than requested were found stable"


@final
class TopStable(Mechanism):
    """The top i for the first i <= kbar whose gap passes a stability test, or k of them if i > k (Carvalho et al. 2020).

    Reads the kbar + 1 highest counts only, so the domain may be unknown; releases a set, never its order, of at most k items.
    Guarantee for distinct-user counts under add_remove, whatever k: Approximate(SparseVectorDP(split * epsilon,
    (1 - split) * epsilon), delta), plus k * BoundedRange(epsilon_em) if that is not 0; Theorem V6. A replacement is two such
    steps: `group_privacy(curve, 2)`.

    Args:
        k: how many items at most, >= 1.
        kbar: the largest i considered, from k to 10,000,000.
        epsilon: nats for the search, > 0.
        delta: in (0, 1), the chance that an unstable set passes.
        split: share of epsilon for the threshold, in (0, 1).
        epsilon_em: nats for each of k picks by the exponential mechanism out of a stable set of more than k; 0 picks at random.
        search: the order of the tests: "from_kbar" takes i = kbar, ..., 1; "from_k" takes k, ..., kbar, then k - 1, ..., 1.

    Example:
        >>> import dpselect as dps
        >>> mechanism = dps.TopStable(k=2, kbar=3, epsilon=1.0, delta=1e-12)
        >>> sorted(mechanism.select(dps.Scores([9000, 8990, 10, 9], sensitivity=dps.Sensitivity())).indices)
        [0, 1]
    """

    kind: Literal["top_stable"] = "top_stable"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=EPSILON,
        failure="delta",
        ordered=False,
        most="k",
        domain="unknown",
        reads=lambda mechanism: mechanism.kbar + 1,
        relations=("add_remove",),
        usual=lambda _: {"search": "from_k"},
        tried={"split": (0.25, 0.37, 0.5)},
        law="dpselect.planning.laws.independent_noise:top_stable",
        variants="dpselect.planning.families:searches",
    )
    k: Rank = Field(description="an integer from 1 to 10,000,000")
    kbar: Rank = Field(description="an integer from k to 10,000,000")
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    delta: Probability = Field(description="a delta in (0, 1)")
    split: Probability = Field(default=0.37, description="a share in (0, 1)")
    epsilon_em: NonNegative = Field(default=0.0, description="a finite epsilon >= 0, in nats")
    search: Literal["from_kbar", "from_k"] = Field(default="from_kbar", description="from_kbar or from_k")

    @model_validator(mode="after")
    def _can_fill_k(self) -> Self:
        if self.kbar < self.k:
            raise ValueError(f"kbar={self.kbar} is less than k={self.k}: let at least k items compete")
        return self

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity()

    @property
    def curve(self) -> Curve:
        core: Curve = self.rule.curve
        if self.epsilon_em > 0 and self.kbar > self.k:
            core = core + self.k * BoundedRange(epsilon=self.epsilon_em)
        return Approximate(curve=core, delta0=self.delta)

    @property
    def rule(self) -> StableRule:
        """The test by itself: its threshold and its noise, in counts of the gap minus 1."""
        return StableRule(self.epsilon, self.split, self.delta, self.kbar)

    @property
    def _pick_scale(self) -> float:
        """Scale of the noise by which k of more stable items are picked; any will do where they are picked at random."""
        return ratio_up(1.0, self.epsilon_em) if self.epsilon_em > 0 else 1.0

    def _check_stated(self) -> None:
        _ = self.rule.threshold, self._pick_scale  # refused before a charge, not at the draw

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        top = read_top(scores, self.kbar)
        size = int(self._sizes(top.gaps[None], source)[0])
        stable = top_set(top, size)
        if len(stable) > self.k:
            stable = stable[self._pick_rows(_relative(scores.ranked(size)[1][None]), source)[0]]
        return release(scores, stable, ordered=False, requested=self.k, reason=_REASON)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        indices = np.concatenate([self._rows(block, source) for block in count_blocks(matrix)])
        return Selections(indices, ordered=False, requested=self.k, reason=_REASON)

    def _rows(self, block: Numbers, source: Sampler) -> Indices:
        """(rows, min(k, m)) the released positions of every row, ascending; -1 where there are fewer."""
        top = highest(block, self.kbar + 1)
        sizes, ranks = self._sizes(gaps_below(top)[:, : self.kbar], source), ranked_rows(block)
        indices = np.full((len(block), min(self.k, block.shape[1])), -1, dtype=np.int64)
        for size in np.unique(sizes[sizes > 0]).tolist():
            rows = np.flatnonzero(sizes == size)
            stable = ranks[rows, :size]
            if size > self.k:
                stable = np.take_along_axis(stable, self._pick_rows(_relative(top[rows, :size]), source), axis=1)
            stable.sort(axis=1)
            indices[rows, : stable.shape[1]] = stable
        return indices

    def search_order(self, ranks: int) -> Indices:
        """The sizes 1, ..., ranks in the order in which they are tested."""
        upwards = np.arange(1, ranks + 1)
        if self.search == "from_kbar":
            return upwards[::-1]
        return np.concatenate([upwards[self.k - 1 :], upwards[: self.k - 1][::-1]])

    def _ordered(self, gaps: Floats) -> Floats:
        """(rows, ranks) gaps in the order of the tests; each less 1 is a distance to instability."""
        return gaps[:, self.search_order(gaps.shape[1]) - 1]

    def _sizes(self, gaps: Floats, source: Sampler) -> Indices:
        """(rows,) the first size whose gap passes, 0 if none does; from (rows, ranks) gaps."""
        rule, one = self.rule, np.ones((1, 1))
        minus = [one, rule.threshold * one]
        flags = source.passing(self._ordered(gaps), by_name("laplace"), rule.scale, rule.test_scale, minus=minus)
        found = first(flags, 1)[:, 0]
        return np.where(found >= 0, self.search_order(gaps.shape[1])[found], 0)

    def _pick_rows(self, relative: Floats, source: Sampler) -> Indices:
        """(rows, k) places in stable sets of one size > k."""
        if self.epsilon_em == 0:
            relative = np.zeros_like(relative)  # equal scores with independent noise: a set at random
        return source.top_k_rows(relative, by_name("gumbel"), self._pick_scale, self.k)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        top = read_top(scores, self.kbar)
        enumerable(sum(math.comb(size, min(size, self.k)) for size in range(len(top.gaps) + 1)), 2e4)
        *chances, nothing = first_law(margins(self._ordered(top.gaps[None])[0] - 1, self.rule.threshold), self.rule).tolist()
        law = {frozenset[int](): nothing}
        for size, chance in zip(self.search_order(len(top.gaps)).tolist(), chances, strict=True):
            for members, share in self._subsets(scores, top, size).items():
                law[members] = law.get(members, 0.0) + chance * share
        return dict(law)

    def _subsets(self, scores: Scores, top: Top, size: int) -> dict[frozenset[int], float]:
        """Law of the released set, once the top `size` has passed."""
        stable = top_set(top, size)
        if len(stable) <= self.k:
            return {frozenset(stable.tolist()): 1.0}
        relative = self.epsilon_em * _relative(scores.ranked(size)[1][None])[0]
        law = top_set_probabilities(by_name("gumbel"), 1.0, relative, self.k)
        return {frozenset(stable[list(members)].tolist()): share for members, share in law.items()}


def _relative(descending: Numbers) -> Floats:
    """(rows, size) descending counts, each minus the lowest of its row."""
    return heights(descending, descending[:, -1:])
