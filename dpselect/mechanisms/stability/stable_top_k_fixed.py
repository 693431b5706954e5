"""Stable top-k with a fixed number of items."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import ZCDP, Approximate, BoundedRange, Curve, Relation, RenyiTable, tighter
from accounting.frozen import NonNegative, Positive, Probability
from dpselect.mechanisms.base import Mechanism, enumerable
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.ranks import centred, count_blocks
from dpselect.mechanisms.release import release
from dpselect.mechanisms.stability.gaps import Rank, read_top, top_set
from dpselect.mechanisms.stability.large_gap import TargetSize
from dpselect.mechanisms.stability.stability_test import Flags, doubled_failure, sets_that_pass
from dpselect.mechanisms.stability.stable_top_k import StableTopK
from dpselect.mechanisms.traits import RHO, Traits
from dpselect.noise import by_name, top_set_probabilities
from dpselect.sampling import Sampler
from dpselect.sampling.heights import Indices
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

# Where the Renyi divergences of the picks are tabulated: dense enough to lose less than a thousandth of epsilon.
_ORDERS = tuple((1 + np.geomspace(0.05, 5e3, 72)).tolist())
_UP = 1 + 2.0**-40  # above the roundings of the table


@final
class StableTopKFixed(Mechanism):
    """A set of exactly k items: the stable part exactly, the rest by the exponential mechanism (Zhu, Wang 2022).

    `StableTopK` at rho/2 with the regulariser `-penalty * |j - k|` proposes the top j. If it passes, and j = k: done; j > k: k of
    the j are peeled off; j < k: k - j more are peeled off the rest. If it does not: k are peeled off all candidates. Of n picks
    each is an exponential mechanism of 2 sqrt(rho/n) nats: few picks are sharp ones. Peeling needs a public domain.

    Guarantee, within failure_delta-approximate rho-zCDP under either relation: Approximate(BoundedRange(2 sqrt(rho/2)) +
    GaussianDP(sqrt(rho/2)) + the Renyi divergences of k * BoundedRange(2 sqrt(rho/k)), failure_delta), Theorem S6.

    Args:
        k: how many candidates to release, >= 1.
        rho: zCDP parameter, nats, > 0: a quarter each for choice and test, one half for the picks.
        failure_delta: in (0, 1), the chance that a set that a user could change passes.
        penalty: counts by which a gap must be larger for every item that it is away from k, >= 0.
        kbar: the largest size considered, from k to 10,000,000.
        relation: what a neighbour is.

    Example:
        >>> import dpselect as dps
        >>> mechanism = dps.StableTopKFixed(k=2, rho=0.1, failure_delta=1e-6, penalty=1.0, kbar=3)
        >>> sorted(mechanism.select(dps.Scores([9000, 8990, 100, 90], sensitivity=dps.Sensitivity())).indices)
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
        law="dpselect.planning.laws.stable:stable_top_k_fixed",
        variants="dpselect.planning.families:sizes_and_penalties",
    )
    k: Rank = Field(description="an integer from 1 to 10,000,000")
    rho: Positive = Field(description="a finite rho > 0, in nats")
    failure_delta: Probability = Field(description="a probability in (0, 1)")
    penalty: NonNegative = Field(description="a finite penalty >= 0, in counts per item")
    kbar: Rank = Field(description="an integer from k to 10,000,000")
    neighbours: Relation = Field(default="add_remove", alias="relation", description="'add_remove' or 'replace_one'")

    @model_validator(mode="after")
    def _can_reach_k(self) -> Self:
        if self.kbar < self.k:
            raise ValueError(f"kbar={self.kbar} is less than k={self.k}: consider sizes up to k at least")
        return self

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(relation=self.neighbours)

    @property
    def curve(self) -> Curve:
        return Approximate(curve=self.stable.core + self.picks, delta0=self.failure_delta)

    @property
    def shared_group_curve(self) -> Curve | None:
        return doubled_failure(self.curve)

    @property
    def picks(self) -> Curve:
        """What all picks cost together, however many there are: the Renyi divergences of k of them, and no more (Theorem S6)."""
        most = self.k * BoundedRange(epsilon=self._pick_epsilon(self.k))
        if self.k == 1:
            return most
        return tighter(RenyiTable(orders=_ORDERS, values=(most.rdp(_ORDERS) * _UP).tolist()), ZCDP(rho=self.rho / 2))

    @property
    def stable(self) -> StableTopK:
        """The first stage by itself."""
        return StableTopK(
            rho=self.rho / 2,
            failure_delta=self.failure_delta,
            kbar=self.kbar,
            regularizer=TargetSize(k=self.k, penalty=self.penalty),
            relation=self.neighbours,
        )

    def _pick_epsilon(self, picks: int) -> float:
        return 2 * math.sqrt(self.rho / picks)

    def pick_scale(self, picks: int) -> float:
        """Scale of the Gumbel noise of each of the picks, in counts, rounded up."""
        return ratio_up(self.covers.range, self._pick_epsilon(picks))

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        top, stage = read_top(scores, self.kbar), self.stable
        size = int(stage.propose(top.gaps[None], source)[0])
        passed = bool(stage.rule.passes(top.gaps[size - 1 : size], source)[0])
        chosen = self._fill(scores.dense(), top_set(top, size if passed else 0), source)
        return release(scores, chosen, ordered=False, requested=self.k)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        rows = [self._fill_block(block, self.stable, source) for block in count_blocks(matrix)]
        return Selections(np.concatenate(rows), ordered=False, requested=self.k)

    def _fill_block(self, block: Numbers, stage: StableTopK, source: Sampler) -> Indices:
        members, _ = sets_that_pass(block, self.kbar, lambda gaps: stage.propose(gaps, source), stage.rule, source)
        sizes = members.sum(axis=1)
        result = np.empty((len(block), self.k), dtype=np.int64)
        for size in np.unique(sizes):
            rows = sizes == size
            result[rows] = self._fill_rows(block[rows], members[rows], int(size), source)
        return np.sort(result, axis=1)

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

    def _fill(self, values: Numbers, stable: Indices, source: Sampler) -> Indices:
        """k positions from a stable set (empty if there is none) and the values of all candidates."""
        kept, pool, wanted = _plan(stable, len(values), self.k)
        picks = source.top_k(values[pool], by_name("gumbel"), self.pick_scale(wanted), wanted) if wanted else pool[:0]
        return np.concatenate([kept, pool[picks]])

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        enumerable(math.comb(scores.size, self.k))
        values, top, rule = centred(scores.dense()), read_top(scores, self.kbar), self.stable.rule
        chances = self.stable.rank_law(top.gaps)
        law: dict[Any, float] = {}
        self._add(law, values, top.positions[:0], float(chances @ rule.fail_probability(top.gaps)))
        for size, chance in enumerate((chances * rule.pass_probability(top.gaps)).tolist(), start=1):
            self._add(law, values, top_set(top, size), chance)
        return law

    def _add(self, law: dict[Any, float], values: Numbers, stable: Indices, chance: float) -> None:
        kept, pool, wanted = _plan(stable, len(values), self.k)
        noise = by_name("gumbel")
        picks = top_set_probabilities(noise, self.pick_scale(wanted), values[pool], wanted) if wanted else {frozenset(): 1.0}
        for places, probability in picks.items():
            chosen = frozenset(kept.tolist()) | {int(pool[place]) for place in places}
            law[chosen] = law.get(chosen, 0.0) + chance * probability


def _plan(stable: Indices, candidates: int, k: int) -> tuple[Indices, Indices, int]:
    """Which positions are kept, and how many are picked from which others."""
    if len(stable) > k:
        return stable[:0], stable, k
    return stable, np.delete(np.arange(candidates), stable), k - len(stable)


def _columns(flags: Flags) -> Indices:
    """(rows, count) columns that are set; every row has the same count."""
    return np.nonzero(flags)[1].reshape(len(flags), -1)
