"""The sparse vector technique: answers above a threshold, and the best candidate by its lead."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import ApproxDP, Approximate, BoundedRange, Curve, GaussianDP, LaplaceDP, tighter
from accounting.curves import GaussianMax
from accounting.curves.sparse_vector import SparseVectorDP
from accounting.frozen import Count, Positive, Probability, Real
from accounting.numbers import ROOT_UP, Floats, Integers
from accounting.relations import Relation
from dpselect.errors import InvalidMechanism, InvalidRequest
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import ratio_up, vector
from dpselect.mechanisms.ranks import blocks, center, first, margins
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import EPSILON, SCALE, Traits
from dpselect.noise import ThresholdCost, ThresholdNoise, in_words, noise_of
from dpselect.sampling import Sampler
from dpselect.sampling.ranked import rank_rows
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity, fraction_up
from dpselect.verify.quadrature import NoisyComparisons, gumbel_softmax, require_enumerable

_REASON = "fewer than c answers exceeded the noisy threshold"
_MOST_LOG_PATTERNS = 41.4  # beyond about 10^18 outcomes GaussianMax counts no further


@final
class AboveThreshold(Mechanism):
    """The first c answers that exceed a noisy threshold, each with noise of its own.

    `select(scores)` takes the answers of the queries as scores, in the order in which they are
    asked. `Selection.indices` are those found above. One noise is drawn for the threshold and kept
    for the whole run, which ends with the c-th answer above. After Dwork et al. (2009) and Lyu, Su
    and Li (2017).

    The cost uses D = linf, and K D, the range of a change (K = 1 for monotone scores, at most 2).
    laplace costs SparseVectorDP(D/scale, c K D/answer_scale, c), Theorems V1, V8 and V10, for any
    number of queries, or the vector of all noisy answers (Theorem H10) if one user changes few of
    them. exponential, less its mean, costs LaplaceDP(D/scale + c K D/answer_scale), and its
    standard deviation is smaller by a factor sqrt(2), Theorem V9, so it suits a small c. gaussian
    is the variant of Zhu and Wang (2020), Theorem V2, and its cost depends on `candidates`.

    Args:
        threshold: public threshold, score units.
        scale: scale of the threshold's noise in score units, > 0 (the standard deviation for
            gaussian and exponential).
        answer_scale: scale of the noise on every answer, score units. None takes the ratio that
            minimizes the noise at its cost, `scale * sqrt(K sqrt(c))` for gaussian and
            `scale * (c K)^(1/3)` for the others.
        c: largest number of answers above the threshold that are reported, >= 1.
        noise: "laplace", "exponential" or "gaussian".
        sensitivity: bounds on what one user may change in the answers.
        candidates: public upper bound on the number of queries. gaussian needs it.

    Example:
        >>> import dpselect as dps
        >>> mechanism = dps.AboveThreshold(threshold=100.0, scale=2.0)
        >>> mechanism.select(dps.Scores([3, 5000, 9000], sensitivity=dps.Sensitivity())).indices
        (1,)
    """

    kind: Literal["above_threshold"] = "above_threshold"
    traits: ClassVar[Traits] = Traits(
        answers="queries", noise=SCALE, ordered=False, most="c", domain="public"
    )
    threshold: Real = Field(description="a finite public number, in score units")
    scale: Positive = Field(description="a finite scale > 0, in score units")
    answer_scale: Positive | None = Field(
        default=None, description="a finite scale > 0 in score units, or None"
    )
    c: Count = Field(default=1, description="an integer >= 1")
    noise: ThresholdNoise = Field(default="laplace", description=in_words(ThresholdNoise))
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")
    candidates: Count | None = Field(
        default=None, description="a public number of queries, or None"
    )

    @model_validator(mode="after")
    def _has_a_cost(self) -> Self:
        if self._cost != "gaussian":
            return self
        if self.candidates is None:
            raise ValueError(
                "noise='gaussian' needs candidates= (the public number of queries), because"
                " its guarantee depends on it"
            )
        # bounds the logarithm of `_patterns`, without huge integers
        above = min(self.c, self.candidates)
        if (
            min(self.candidates * math.log(2), above * (1 + math.log(self.candidates / above)))
            > _MOST_LOG_PATTERNS
        ):
            raise ValueError(
                f"c={self.c} of candidates={self.candidates} is too much for the gaussian"
                " guarantee. Use laplace"
            )
        return self

    @property
    def curve(self) -> Curve:
        if self.candidates is not None and self._cost == "gaussian":
            threshold_change, answer = (
                ratio_up(self.sensitivity.linf, self.scale),
                ratio_up(self.answer_shift, self.noise_on_answers),
            )
            mu = ROOT_UP * math.hypot(threshold_change, math.sqrt(self.c) * answer)
            answer_change = (
                self.candidates
                if self.sensitivity.l0 is None
                else min(self.sensitivity.l0, self.candidates)
            )
            vectors = GaussianDP(
                mu=ROOT_UP
                * math.sqrt(answer_change)
                * ratio_up(self.sensitivity.linf, self.noise_on_answers)
            )
            return tighter(
                GaussianMax(mu=mu, candidates=_patterns(self.candidates, self.c)), vectors
            )
        if self._cost == "exponential":
            threshold = Fraction(self.sensitivity.linf) / Fraction(self.scale)
            above = self.c * Fraction(self.answer_shift) / Fraction(self.noise_on_answers)
            return LaplaceDP(epsilon=fraction_up(threshold + above))
        if self._cost != "laplace":
            raise InvalidMechanism(
                f"noise={self.noise!r} declares no threshold_cost, so no theorem states the"
                " cost of comparisons with it. Prove one and declare it in the noise's class,"
                " or use another noise"
            )
        answers = ratio_up(self.c * self.answer_shift, self.noise_on_answers)
        alone = ratio_up(self.sensitivity.linf, self.noise_on_answers)
        sparse = SparseVectorDP(
            epsilon1=ratio_up(self.sensitivity.linf, self.scale),
            epsilon2=answers,
            positives=self.c,
            alone=alone if alone < answers / self.c else None,
        )
        if self.sensitivity.l1_of(None) == math.inf:
            return sparse
        return tighter(sparse, vector("laplace", self.noise_on_answers, self.sensitivity, None))

    @property
    def _cost(self) -> ThresholdCost | None:
        return noise_of(self.noise).threshold_cost

    @property
    def answer_shift(self) -> float:
        """Largest change of an answer against the threshold, in score units.

        In the comparison, the neighbor's threshold is moved along.
        """
        return max(self.sensitivity.linf, self.sensitivity.range)

    @property
    def noise_on_answers(self) -> float:
        """Scale of the noise on every answer, score units."""
        if self.answer_scale is not None:
            return self.answer_scale
        factor = self.answer_shift / self.sensitivity.linf
        return self.scale * (
            math.sqrt(factor * math.sqrt(self.c))
            if self._cost == "gaussian"
            else math.cbrt(self.c * factor)
        )

    @property
    def _level(self) -> float:
        """Level that noisy answers have to exceed, if all noises have mean 0."""
        return self.threshold + (
            self.noise_on_answers - self.scale if self._cost == "exponential" else 0.0
        )

    def _check_stated(self) -> None:
        if not math.isfinite(self._level):  # refused before a charge, not at the draw
            raise InvalidMechanism(
                f"scale={self.scale:g} puts the threshold beyond the floats. Use less noise"
            )

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        indices = self._rows(scores.dense()[None], source)[0]
        return release(
            scores, indices[indices >= 0], ordered=False, requested=self.c, reason=_REASON
        )

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        indices = np.concatenate([self._rows(block, source) for block in blocks(matrix)])
        return Selections(indices, ordered=False, requested=self.c, reason=_REASON)

    def _rows(self, matrix: Numbers, source: Sampler) -> Integers:
        level = np.array([[self._level]])
        return first(
            source.passing(
                matrix, noise_of(self.noise), self.scale, self.noise_on_answers, minus=[level]
            ),
            self.c,
        )

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        require_enumerable(_patterns(scores.size, self.c), 2e4)
        above = margins(scores.dense(), self._level)
        return dict(
            NoisyComparisons(
                above, noise_of(self.noise), self.scale, self.noise_on_answers
            ).passing_sets(self.c)
        )


def _patterns(queries: int, most: int) -> int:
    """Number of sets of at most `most` queries."""
    return sum(math.comb(queries, above) for above in range(min(most, queries) + 1))


@final
class LargeMargin(Mechanism):
    """One candidate, by the exponential mechanism on the top l, with l found by the best's lead.

    l is the first r with h_(1) - h_(r+1) + Exponential(3R/(2 s)) > Exponential(3R/s) + T(r), or all
    candidates if there is none. R is the range: 1 for monotone scores, 2 for scores that any user
    moves by at most 1, up or down. Guarantee: ApproxDP(epsilon, delta) and at once, outside an
    event of probability delta, a Laplace guarantee of s = split * epsilon for the search and a
    bounded range of the rest for the choice; Theorem V7. After Chaudhuri et al. (2014).

    Args:
        monotone: True if all scores move one way between neighbors, as counts do under add_remove.
            This halves the noise and the margin.
        split: share of epsilon for the search, 0.01 to 0.99. 0.4 suits uses that compose, and 0.55
            has the least margin in one use.
    """

    kind: Literal["large_margin"] = "large_margin"
    traits: ClassVar[Traits] = Traits(
        answers="one_item", noise=EPSILON, failure="delta", ordered=True, most=1, domain="public"
    )
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    delta: Probability = Field(description="a delta in (0, 1)")
    candidates: Count | None = Field(
        default=None, description="a public number of candidates, or None"
    )
    neighbors: Relation = Field(
        default="add_remove", alias="relation", description="'add_remove' or 'replace_one'"
    )
    monotone: bool = Field(
        default=False, strict=True, description="true or false; false under replace_one"
    )
    split: Probability = Field(
        default=0.4, ge=0.01, le=0.99, description="a share from 0.01 to 0.99"
    )

    @model_validator(mode="after")
    def _has_a_range(self) -> Self:
        if self.monotone and self.neighbors == "replace_one":
            raise ValueError(
                "monotone=True cannot hold under relation='replace_one'. Leave monotone out"
            )
        return self

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return Sensitivity(monotone=self.monotone, relation=self.neighbors)

    @property
    def curve(self) -> Curve:
        return tighter(
            ApproxDP(epsilon=self.epsilon, delta=self.delta),
            Approximate(curve=self.core, delta0=self.delta),
        )

    @property
    def core(self) -> Curve:
        """Cost of the search and the choice, outside the event of probability `delta`.

        In that event, a candidate is released that one user could push out of the top l.
        """
        threshold, comparison, choice = self._scales
        span = self.sensitivity_bound.range
        search = Fraction(span) / Fraction(threshold) + Fraction(span) / Fraction(comparison)
        return LaplaceDP(epsilon=fraction_up(search)) + BoundedRange(epsilon=ratio_up(span, choice))

    def margin(self, size: int) -> float:
        """Return T(size), the lead that lets the top `size` be tested, in score units.

        The lead is that of the best over the candidate of rank size + 1.

        Raises:
            InvalidRequest: size is less than 1.
        """
        return float(self._margins(np.array([_check_size(size)], dtype=np.float64))[0])

    def needed_lead(self, size: int, failure: float) -> float:
        """Return the lead over rank size + 1, in score units, that makes `error_bound` hold.

        Args:
            size: number of the best candidates, >= 1.
            failure: in (0, 1), probability that the bound does not hold.

        Raises:
            InvalidRequest: size is less than 1, or failure not in (0, 1).
        """
        return self.margin(size) + self._scales[0] * math.log(2 / _check_failure(failure))

    def error_bound(self, size: int, failure: float) -> float:
        """Return a bound on the best score minus the released one, in score units. Theorem V7.

        It fails with probability at most `failure`, provided that the best leads the candidate of
        rank size + 1 by at least `needed_lead(size, failure)`. This is an assumption, not read off
        the data.

        Raises:
            InvalidRequest: size is less than 1, or failure not in (0, 1).
        """
        return self._scales[2] * math.log(2 * _check_size(size) / _check_failure(failure))

    @property
    def _scales(self) -> tuple[float, float, float]:
        """Scales of the noise on the threshold, every comparison, and the choice."""
        span, search = Fraction(self.sensitivity_bound.range), Fraction(repr(self.split))
        shares = (3 * span / search, 3 * span / (2 * search), span / (1 - search))
        threshold, comparison, choice = (
            ratio_up(fraction_up(over), self.epsilon) for over in shares
        )
        return threshold, comparison, choice

    def _margins(self, sizes: Floats) -> Floats:
        _, comparison, choice = self._scales
        noise = comparison * (np.log(2 / 3 * sizes) + np.log1p(sizes) - math.log(self.delta))
        lead = self.sensitivity_bound.range + choice * (np.log(2 * sizes) - math.log(self.delta))
        # A few ulps up, so that rounding cannot let a margin pass too easily.
        return (noise + lead) * (1 + 1e-14)

    def _check_stated(self) -> None:
        with np.errstate(over="ignore"):
            # refused before a charge, not at the draw
            if not np.isfinite(self._margins(np.array([2.0**53]))).all():
                raise InvalidMechanism(
                    f"epsilon={self.epsilon:g} puts the margins beyond the floats. Raise it"
                )

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return release(
            scores, self._positions(scores.dense()[None], source), ordered=True, requested=1
        )

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        positions = [self._positions(block, source) for block in blocks(matrix)]
        return Selections(np.concatenate(positions)[:, None], ordered=True, requested=1)

    def _positions(self, block: Numbers, source: Sampler) -> Integers:
        """Return (rows,) the chosen candidate of every row."""
        ranks = rank_rows(block)
        ordered: Numbers = np.take_along_axis(block, ranks, axis=1)  # type: ignore[assignment]
        sizes = self._sizes(ordered, source)
        places = np.empty(len(block), dtype=np.int64)
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            places[rows] = source.top_k_rows(
                ordered[rows, :size], noise_of("gumbel"), self._scales[2], 1
            )[:, 0]
        return ranks[np.arange(len(block)), places]

    def _sizes(self, descending: Numbers, source: Sampler) -> Integers:
        """Return (rows,) numbers of best candidates that compete."""
        threshold, comparison, _ = self._scales
        ranks = descending.shape[1] - 1
        if ranks == 0:
            return np.ones(len(descending), dtype=np.int64)
        minus = [descending[:, 1:], self._margins(np.arange(1.0, ranks + 1))[None]]
        flags = source.passing(
            descending[:, :1], noise_of("exponential"), threshold, comparison, minus=minus
        )
        places = first(flags, 1)[:, 0]
        return np.where(places >= 0, places + 1, ranks + 1)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        require_enumerable(scores.size, 1000)
        positions, ordered = scores.rank(scores.size)
        chances = np.zeros(scores.size)
        for size, chance in enumerate(self._size_law(ordered).tolist(), start=1):
            chances[:size] += chance * gumbel_softmax(center(ordered[:size]), self._scales[2])
        return dict(sorted(zip(positions.tolist(), chances.tolist(), strict=True)))

    def _size_law(self, ordered: Numbers) -> Floats:
        """Return (m,) probabilities that 1, ..., m candidates compete."""
        if len(ordered) == 1:
            return np.ones(1)
        threshold, comparison, _ = self._scales
        beyond = -center(ordered)[1:] - self._margins(np.arange(1.0, len(ordered)))
        return NoisyComparisons(
            beyond, noise_of("exponential"), threshold, comparison
        ).first_passing()


def _check_size(size: int) -> int:
    if size < 1:
        raise InvalidRequest(f"size={size!r} must be at least 1")
    return size


def _check_failure(failure: float) -> float:
    if not 0 < failure < 1:
        raise InvalidRequest(f"failure={failure!r} must be a probability in (0, 1)")
    return failure
