"""Mechanisms that release the largest of scores plus noise, once or k times, and shared code."""

from __future__ import annotations

import bisect
import itertools
import math
from abc import ABC, abstractmethod
from functools import partial
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import BoundedRange, Curve, LaplaceDP, tighter
from accounting.curves.profile_table import ProfileTable
from accounting.frozen import Count, Positive
from accounting.numbers import SUM_UP, Floats, Integers
from dpselect.errors import InvalidMechanism, InvalidRequest, NoClosedForm
from dpselect.mechanisms.base import Mechanism, ShowsValues
from dpselect.mechanisms.gate import Between
from dpselect.mechanisms.noise_curves import (
    centered_gaussian,
    epsilon_curve,
    ratio_up,
    shared_vector,
    vector,
    winner_curve,
)
from dpselect.mechanisms.ranks import center
from dpselect.mechanisms.release import (
    cell_law,
    expand,
    half_width,
    largest,
    public_grid,
    release,
    with_values,
)
from dpselect.mechanisms.traits import EPSILON, SCALE, Traits
from dpselect.noise import VECTOR_NORMS, LipschitzNoise, Noise, NoiseName, in_words, noise_of
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity
from dpselect.verify.quadrature import (
    argmax_probabilities,
    ordered_probabilities,
    require_enumerable,
    top_set_probabilities,
)


def select_winner(scores: Scores, noise: Noise, scale: float, source: Sampler) -> Selection:
    """Draw one candidate from one noisy score each."""
    return release(scores, largest(scores, noise, scale, 1, source), ordered=True, requested=1)


def select_winners(matrix: Numbers, noise: Noise, scale: float, source: Sampler) -> Selections:
    """Draw one candidate per row."""
    return Selections(source.top_k_rows(matrix, noise, scale, 1), ordered=True, requested=1)


def winner_probabilities(scores: Scores, noise: Noise, scale: float) -> dict[Any, float]:
    """Return the distribution of the winner, by quadrature."""
    require_enumerable(scores.size, 64)
    law = argmax_probabilities(noise, scale, center(scores.dense()))
    return dict(enumerate(law.tolist()))


winner_traits: partial[Traits] = partial(
    Traits, answers="one_item", ordered=True, most=1, domain="public", groups=True
)
"""Traits of a `NoisyWinner`, to be completed with its noise."""


class NoisyWinner(Mechanism, ABC):
    """Base class of mechanisms that release the position of the largest of scores + scale * noise.

    A member has a field `sensitivity`.
    """

    @property
    @abstractmethod
    def _noise(self) -> tuple[Noise, float]:
        """The noise on every score and its scale, in score units."""

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return select_winner(scores, *self._noise, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        return select_winners(matrix, *self._noise, source)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return winner_probabilities(scores, *self._noise)


class EpsilonWinner(NoisyWinner, ABC):
    """Base class of `NoisyWinner`s with noise of scale range / epsilon; members name the noise."""

    noise_name: ClassVar[LipschitzNoise]
    kind: str
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")

    @final
    @property
    def curve(self) -> BoundedRange | LaplaceDP:
        return epsilon_curve(self.noise_name, self.epsilon)

    @property
    def shared_group_curve(self) -> Curve | None:
        return self.curve

    @final
    @property
    def scale(self) -> float:
        """Scale of the noise, in score units, rounded up."""
        return ratio_up(self.sensitivity.range, self.epsilon)

    @final
    @property
    def _noise(self) -> tuple[Noise, float]:
        return noise_of(self.noise_name), self.scale


noisy_traits: partial[Traits] = partial(
    Traits, answers="top_k", noise=SCALE, most="k", domain="public", groups=True
)
"""Traits of a `NoisyTopK`, to be completed with its released fields."""


class NoisyTopK(Mechanism, ABC):
    """Base class of mechanisms that release the k best by scores + scale * noise.

    A member states how often the noise is drawn, and the cost.
    """

    kind: str
    k: Count = Field(description="an integer >= 1")
    noise: NoiseName = Field(description=in_words(NoiseName))
    scale: Positive = Field(description="a finite scale > 0, in score units")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")
    candidates: Count | None = Field(
        default=None, description="a public number of candidates >= k, or None"
    )

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        _require_gaussian_width(self.noise, self.sensitivity, self.candidates)
        if self.candidates is not None and self.candidates < self.k:
            raise ValueError(
                f"candidates={self.candidates} is less than k={self.k}. Ask for fewer items"
            )
        return self


@final
class ReportNoisyMax(NoisyWinner):
    """The index of the largest of score + scale * noise.

    Guarantee with R the range: BoundedRange(R/scale) for gumbel, LaplaceDP(R/scale) for
    exponential, laplace, logistic and half_logistic (Theorems C8 and N7), and the Renyi curves of
    Theorem C9 for gaussian.

    Example:
        >>> import dpselect as dps
        >>> dps.ReportNoisyMax(noise="laplace", scale=2.0).curve.pure_epsilon
        0.5
    """

    kind: Literal["report_noisy_max"] = "report_noisy_max"
    traits: ClassVar[Traits] = winner_traits(noise=SCALE)
    noise: NoiseName = Field(description=in_words(NoiseName))
    scale: Positive = Field(description="a finite scale > 0, in score units")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")
    candidates: Count | None = Field(
        default=None, description="a public number of candidates >= 1, or None"
    )

    @model_validator(mode="after")
    def _has_a_cost(self) -> Self:
        _require_gaussian_width(self.noise, self.sensitivity, self.candidates)
        return self

    @property
    def curve(self) -> Curve:
        return winner_curve(self.noise, self.scale, self.sensitivity, self.candidates)

    @property
    def shared_group_curve(self) -> Curve:
        return _shared_winner(self.noise, self.scale, self.sensitivity, self.candidates)

    @property
    def _noise(self) -> tuple[Noise, float]:
        return noise_of(self.noise), self.scale


def _require_gaussian_width(
    noise: NoiseName, sensitivity: Sensitivity, candidates: int | None
) -> None:
    """Refuse Gaussian noise whose cost nothing bounds."""
    if noise_of(noise).winner_cost == "gaussian" and sensitivity.l2_of(candidates) == math.inf:
        raise InvalidMechanism(
            f"noise={noise!r} needs candidates= (the public number of candidates) or a"
            " sensitivity with l0= or l2=. Without one of them nothing bounds one user's"
            " change of the scores in l2"
        )


@final
class ExponentialMechanism(EpsilonWinner):
    """One candidate with probability proportional to exp(epsilon * score / range).

    This is the largest of scores with Gumbel noise. Guarantee: BoundedRange(epsilon), Theorem C8.
    It is the cheapest choice under zCDP and Renyi accounting.

    Example:
        >>> import dpselect as dps
        >>> law = dps.ExponentialMechanism(epsilon=1.0).probabilities(
        ...     dps.Scores([3, 1], sensitivity=dps.Sensitivity())
        ... )
        >>> round(law[0], 4)
        0.8808
    """

    kind: Literal["exponential_mechanism"] = "exponential_mechanism"
    traits: ClassVar[Traits] = winner_traits(noise=EPSILON)
    noise_name: ClassVar[LipschitzNoise] = "gumbel"


@final
class PermuteAndFlip(EpsilonWinner):
    """The largest of scores with exponential noise, which has the distribution of permute-and-flip.

    Guarantee: LaplaceDP(epsilon), Theorem N7, so pure epsilon; not bounded-range. It is the most
    accurate choice under pure differential privacy. After McKenna and Sheldon (2020).

    Example:
        >>> import dpselect as dps
        >>> law = dps.PermuteAndFlip(epsilon=1.0).probabilities(
        ...     dps.Scores([3, 1], sensitivity=dps.Sensitivity())
        ... )
        >>> round(law[0], 4)
        0.9323
    """

    kind: Literal["permute_and_flip"] = "permute_and_flip"
    traits: ClassVar[Traits] = winner_traits(noise=EPSILON)
    noise_name: ClassVar[LipschitzNoise] = "exponential"


@final
class PeelingTopK(NoisyTopK):
    """The best of k rounds of `ReportNoisyMax`, each on the remaining candidates; ordered.

    Every round has fresh noise. Guarantee: k times that of one round, by adaptive composition
    (Theorem A3).

    Example:
        >>> import dpselect as dps
        >>> dps.PeelingTopK(k=10, noise="exponential", scale=20.0).curve.pure_epsilon
        0.5
    """

    kind: Literal["peeling_top_k"] = "peeling_top_k"
    traits: ClassVar[Traits] = noisy_traits(ordered=True)

    @property
    def curve(self) -> Curve:
        return self.k * winner_curve(self.noise, self.scale, self.sensitivity, self.candidates)

    @property
    def shared_group_curve(self) -> Curve:
        return self.k * _shared_winner(self.noise, self.scale, self.sensitivity, self.candidates)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        noise = noise_of(self.noise)
        if noise.name == "gumbel":
            best = largest(scores, noise, self.scale, self.k, source)  # one draw serves all rounds
        elif scores.multiplicities is not None:
            best = _peel_groups(
                scores.values, scores.multiplicities, noise, self.scale, self.k, source
            )
        else:
            best = source.peel(scores.values, noise, self.scale, self.k).tolist()
        return release(scores, best, ordered=True, requested=self.k)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        noise = noise_of(self.noise)
        if noise.name == "gumbel":
            return Selections(
                source.top_k_rows(matrix, noise, self.scale, self.k), ordered=True, requested=self.k
            )
        rows = [source.peel(row, noise, self.scale, self.k) for row in matrix]
        return Selections(np.stack(rows), ordered=True, requested=self.k)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        values, noise = center(scores.dense()), noise_of(self.noise)
        require_enumerable(math.perm(len(values), self.k))
        law: dict[tuple[int, ...], float] = {(): 1.0}
        for _ in range(self.k):
            longer: dict[tuple[int, ...], float] = {}
            for sequence, probability in law.items():
                remaining = [item for item in range(len(values)) if item not in sequence]
                chances = argmax_probabilities(noise, self.scale, values[remaining]).tolist()
                longer |= {
                    (*sequence, item): probability * chance
                    for item, chance in zip(remaining, chances, strict=True)
                }
            law = longer
        return dict(law)


def _shared_winner(
    noise: NoiseName, scale: float, sensitivity: Sensitivity, candidates: int | None
) -> Curve:
    """Cost of `winner_curve` for a group that two users share. Theorem W8.

    A union over candidates is paid for each of the two.
    """
    whole = winner_curve(noise, scale, sensitivity, candidates)
    if noise_of(noise).winner_cost != "gaussian":
        return whole
    return tighter(2 * whole, centered_gaussian(scale, sensitivity, candidates))


def _peel_groups(
    values: Numbers, multiplicities: Integers, noise: Noise, scale: float, k: int, source: Sampler
) -> list[int]:
    """Return (k,) positions in the order in which they are peeled off.

    `multiplicities[g]` candidates share `values[g]`.
    """
    first = list(itertools.accumulate(multiplicities.tolist(), initial=0))
    remaining = multiplicities.copy()
    members_of: dict[int, list[int]] = {}
    order = []
    for _ in range(k):
        groups = np.flatnonzero(remaining)
        winner, member = source.top_k_grouped(values[groups], remaining[groups], noise, scale, 1)
        group, place = int(groups[winner[0]]), int(member[0])
        # Members that are left are numbered in order: skip those taken before.
        for other in members_of.setdefault(group, []):
            place += other <= place
        bisect.insort(members_of[group], place)
        remaining[group] -= 1
        order.append(first[group] + place)
    return order


@final
class OneshotTopK(NoisyTopK, ShowsValues):
    """The k largest of score + scale * noise, all noise drawn once.

    R is the range. gumbel releases the order too and equals k rounds of the exponential mechanism:
    k * BoundedRange(R/scale). gaussian releases the order and costs GaussianDP(l2/scale) whatever
    k, where l2 is that of the change or, if it is less, of the change without its mean (Theorems C9
    and H2). exponential and half_logistic release the set for LaplaceDP(k R/scale). laplace and
    logistic release its order too (Theorems C10, N7 and N8).

    If `candidates` is stated and makes the set cheaper, laplace and logistic release it without
    order. The cost then has min(k, candidates - k) in place of k, and for laplace also the sqrt(k)
    family of Qiao, Su and Zhang (2021), which joins the Laplace bound where it is smaller
    (Theorem M2). If users have few items, laplace costs at most the whole noisy vector, order
    included (Theorem H10).

    Args:
        value_scale: None releases no values. A number releases each selected score plus fresh
            Laplace noise of that scale, in score units, and adds the cost of a vector of k scores
            (Theorems H3 and H10). The noise that chose is never shown.
        values: True to release each selected score with the noise that chose it, for gaussian and
            laplace noise. Order and values then cost the vector, and no more (Theorems H2 and H10).

    Example:
        >>> import dpselect as dps
        >>> mechanism = dps.OneshotTopK(k=2, noise="gumbel", scale=10.0)
        >>> scores = dps.Scores([5000, 20, 9000], sensitivity=dps.Sensitivity())
        >>> mechanism.select(scores).indices
        (2, 0)
    """

    kind: Literal["oneshot_top_k"] = "oneshot_top_k"
    traits: ClassVar[Traits] = noisy_traits(
        ordered=lambda mechanism: (
            mechanism.values
            or _shows_order(
                mechanism.noise, mechanism.sensitivity, mechanism.candidates, mechanism.k
            )
        ),
        values=lambda mechanism: mechanism.values or mechanism.value_scale is not None,
        clips=VECTOR_NORMS,
    )
    value_scale: Positive | None = Field(
        default=None, description="a finite scale > 0 in score units, or None for no values"
    )
    values: bool = Field(default=False, strict=True, description="true or false")

    @model_validator(mode="after")
    def _has_a_cost(self) -> Self:
        if self.values and self.value_scale is not None:
            raise ValueError(
                "values=True shows the noise that chose, but value_scale adds fresh noise."
                " State one of them"
            )
        if self.values:
            vector(self.noise, self.scale, self.sensitivity, self.candidates)
        return self

    @property
    def curve(self) -> Curve:
        if self.values:
            return vector(self.noise, self.scale, self.sensitivity, self.candidates)
        winners = winners_curve(self.noise, self.scale, self.sensitivity, self.candidates, self.k)
        return (
            winners
            if self.value_scale is None
            else winners + vector("laplace", self.value_scale, self.sensitivity, self.k)
        )

    @property
    def shared_group_curve(self) -> Curve:
        if self.values:
            return shared_vector(self.noise, self.scale, self.sensitivity, self.candidates)
        curve_of = partial(
            winners_curve, self.noise, self.scale, self.sensitivity, self.candidates, self.k
        )
        shared, plain = curve_of(), curve_of(family=False)
        # The family of Theorem M2 is paid for each of two users (Theorem W8).
        shared = plain if shared == plain else tighter(2 * shared, plain)
        if self.value_scale is None:
            return shared
        return shared + shared_vector("laplace", self.value_scale, self.sensitivity, self.k)

    def true_set_bound(self, gap: float, candidates: int) -> float:
        """Return a lower bound on the probability that the released set is the true one.

        `gap` is the least difference between scores adjacent in rank, in score units. It is an
        assumption, not read off data. Theorem M4 (Qiao, Su and Zhang 2021, Theorem 2.3).

        Raises:
            InvalidRequest: the noise is not laplace, the only one that the theorem covers, or an
                argument is outside its domain.
        """
        if self.noise != "laplace":
            raise InvalidRequest(
                f"the bound is proved for noise='laplace', not {self.noise!r}: simulate instead"
            )
        if not 0 <= gap < math.inf or candidates < 1:
            raise InvalidRequest(
                f"gap={gap!r} must be finite and >= 0, and candidates={candidates!r} at least 1"
            )
        width = gap / self.scale
        return max(0.0, 1 - (candidates - 1) * (2 + width) / 4 * math.exp(-width))

    @property
    def shows_what_chose(self) -> bool:
        return self.values

    def margin(self, confidence: float = 0.95, among: int = 1) -> float:
        if self.value_scale is not None:
            return half_width("laplace", self.value_scale, confidence, among)
        if not self.values:
            raise InvalidRequest("no values are released: configure values or value_scale")
        return half_width(self.noise, self.scale, confidence, among)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        if self.values:
            ranking = source.ranking(
                scores.values, noise_of(self.noise), self.scale, self.k, scores.multiplicities
            )
            noisy = ranking.rounded(public_grid(self.scale)).tolist()
            values = dict(zip(expand(scores, ranking.index, ranking.member), noisy, strict=True))
            return release(scores, values, ordered=True, requested=self.k, values=values)
        best = largest(scores, noise_of(self.noise), self.scale, self.k, source)
        selection = release(scores, best, ordered=self.ordered, requested=self.k)
        return (
            selection
            if self.value_scale is None
            else with_values(selection, scores, "laplace", self.value_scale, source)
        )

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        if self.releases_values:
            raise InvalidRequest(
                "select_many releases no values. Call select for every row, or leave values and"
                " value_scale out"
            )
        best = source.top_k_rows(matrix, noise_of(self.noise), self.scale, self.k)
        if not self.ordered:
            best.sort(axis=1)
        return Selections(best, ordered=self.ordered, requested=self.k)

    def _cell_probabilities(
        self, scores: Scores, edges: Floats, between: Between
    ) -> dict[Any, float]:
        if self.value_scale is None:
            raise NoClosedForm(
                "values that show the noise that chose have no exact law. Use"
                " dpselect.verify.lower_bound"
                if self.values
                else "no values are released. Ask for probabilities, or configure value_scale"
            )
        require_enumerable(math.comb(scores.size, self.k) * len(between) ** self.k)
        return cell_law(
            scores, self._item_distribution(scores), "laplace", self.value_scale, edges, between
        )

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        if self.releases_values:
            instead = (
                "Leave values out"
                if self.values
                else "Ask for cell_probabilities, or leave value_scale out"
            )
            raise NoClosedForm(f"released values have a density, not probabilities. {instead}")
        return self._item_distribution(scores)

    def _item_distribution(self, scores: Scores) -> dict[Any, float]:
        """Return the distribution of the items."""
        values, noise = center(scores.dense()), noise_of(self.noise)
        if self.ordered:
            require_enumerable(math.perm(len(values), self.k))
            return dict(ordered_probabilities(noise, self.scale, values, self.k))
        require_enumerable(math.comb(len(values), self.k))
        return dict(top_set_probabilities(noise, self.scale, values, self.k))


# Cost of the k largest of scores + scale * noise, drawn once. Theorems C10, H2, H10, M2 and N8.

# Qiao, Su and Zhang (2021), Theorem 2.2, is proved for epsilon and delta up to these.
_FAMILY_EPSILON, _FAMILY_DELTA = 0.2, 0.05
_FAMILY_POINTS, _LEAST_DELTA = 24, 1e-60


def winners_curve(
    noise: NoiseName,
    scale: float,
    sensitivity: Sensitivity,
    candidates: int | None,
    k: int,
    *,
    family: bool = True,
) -> Curve:
    """Cost of the k largest of scores + scale * noise, drawn once.

    Their order is included if `_shows_order`, otherwise it covers the set. `family` is True if the
    bounds of Theorem M2 may lower the cost of a set.
    """
    single = winner_curve(noise, scale, sensitivity, candidates)
    cost = noise_of(noise).winner_cost
    if cost == "gaussian":
        return centered_gaussian(scale, sensitivity, candidates)
    if cost == "bounded_range":
        return k * single
    times = _times(noise, candidates, k)
    curve: Curve = (whole := LaplaceDP(epsilon=ratio_up(times * sensitivity.range, scale)))
    if noise == "laplace" and candidates is not None and times > 0 and family:
        curve = _with_family(whole, times, candidates, ratio_up(sensitivity.range, scale))
    if noise != "laplace" or sensitivity.l1_of(None) == math.inf:
        return curve
    histogram = vector(noise, scale, sensitivity, None)
    # never more than the set (Theorem H10)
    if sensitivity.l1_of(None) <= times * sensitivity.range:
        return histogram
    return tighter(histogram, curve)


def _shows_order(
    noise: NoiseName, sensitivity: Sensitivity, candidates: int | None, k: int
) -> bool:
    """True if the cost by `winners_curve` includes the order of the k largest.

    The order costs as much as the set under smooth noise, unless the complement or the family of
    Theorem M2 makes the set cheaper. Theorems C10, H2 and N8.
    """
    law, times = noise_of(noise), _times(noise, candidates, k)
    if law.winner_cost in ("bounded_range", "gaussian"):
        return True
    if noise == "laplace" and sensitivity.l1_of(None) <= times * sensitivity.range:
        return True
    family = (
        noise == "laplace"
        and candidates is not None
        and times > 16 * math.log(candidates / _FAMILY_DELTA)
    )
    return law.smooth and times == k and not family


def _times(noise: NoiseName, candidates: int | None, k: int) -> int:
    # With symmetric noise the set left out is the top set of the negated scores.
    return (
        min(k, max(candidates - k, 0))
        if noise_of(noise).symmetric and candidates is not None
        else k
    )


def _with_family(whole: LaplaceDP, times: int, candidates: int, ratio: float) -> Curve:
    """Cost of one-shot Laplace noise: the Laplace bound and the sqrt(k) family where it is smaller.

    Theorem M2.
    """

    def log_delta(epsilon: float) -> float:
        return math.log(candidates) - (epsilon / (4 * ratio)) ** 2 / times

    def epsilon_at(delta: float) -> float:
        return 4 * ratio * math.sqrt(times * math.log(candidates / delta))

    least, most = (
        epsilon_at(_FAMILY_DELTA) * SUM_UP,
        min(_FAMILY_EPSILON, epsilon_at(_LEAST_DELTA), whole.epsilon0),
    )
    if candidates < 2 or least >= most:
        return whole
    family = {
        float(e): math.exp(log_delta(float(e))) * SUM_UP
        for e in np.linspace(least, most, _FAMILY_POINTS)
    }
    points = {e: d for e, d in family.items() if e < whole.epsilon0 and d < whole.profile(e)}
    if not points:
        return whole
    return tighter(
        whole, ProfileTable(epsilons=(*points, whole.epsilon0), deltas=(*points.values(), 0.0))
    )
