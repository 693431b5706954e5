"""Two noisy histograms, the second of which gives users' weight to the items that stood out in the
first. Theorem H11.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import Approximate, Curve, GaussianDP
from accounting.frozen import Count, Positive, Probability, Real
from dpselect.errors import DomainMismatch, NoClosedForm
from dpselect.mechanisms.base import SCALE, Between, Traits, require_enumerable
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.release import half_width, in_own_order, public_grid, release
from dpselect.mechanisms.sparse_histogram import OrderLaw, Places, nodes_of, steps
from dpselect.mechanisms.weighs_again import WeighsAgain, normal_cdf, normal_pdf
from dpselect.noise import by_name
from dpselect.sampling import Sampler
from dpselect.sampling.contest import Floats, Indices
from dpselect.scores import WEIGHT_UNIT, Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity, sqrt_up

_REASON = "fewer items than requested exceeded the threshold"
# of the grid up to the mask: beyond it floats are no multiples of half a step
_MOST_STEPS = 2.0**50
# of the terms of a noisy mean and its threshold: above the roundings of their sums
_ROUNDING = 2.0**-40
_PIECE, _NODES = 0.25, 16  # deviations, and nodes in them, that densities are integrated over
_REACH = 40.0  # deviations from a mean, beyond which densities are below the floats
# deviations above a mean, beyond which what is left out of the integral is added as it is
_BEYOND = 10.0
# deviations that one user moves the first score: the mask then hides nothing, and is left out
_FAR = 12.0
_TAIL_UP = 1 + 1e-9  # above the errors of the quadrature and of the tails of the normal law
_HALVINGS = 60


@final
class TwoRoundHistogram(WeighsAgain):
    """The top k by two noisy histograms of one log: the second gives users' weight to items that
    stood out in the first.

    In the first round users are clipped as the scores say. An item passes the *mask* if its noisy
    score lies more than `mask` deviations above 0. In the second round each user spends a norm of
    `norm` on those of its items that passed, however many others it has: a `SecondLook(weigh=)`.
    Scores without one are used again, as far as they pass. Items are ordered by a mean of both
    noisy scores, and those of an unknown domain have to exceed a `threshold` as well. The first
    round is not shown. Guarantee: Approximate(GaussianDP(mu), delta), and GaussianDP(mu) for a
    public domain, with mu the l2 norm of `sensitivity` over `scale`: that of a `SparseHistogram` of
    the same scale. Theorem H11.

    Args:
        k: how many items at most, >= 1; None for all that exceed the threshold.
        scale: of the noise of one histogram that would cost as much, score units, > 0: `scales` has
            those of the two rounds.
        share: the part of mu^2 that the first round spends.
        combine: the weight of the first round's score in its own deviations, against sqrt(1 -
            combine^2) of the second: what is compared is the sum of both.
        taper: where the first score lies more than so many deviations above 0, a user spends less
            on the item: in proportion to the root of taper/score. None: as much on every item that
            passed.
        delta: in (0, 1), the chance that an item of one user alone passes mask and threshold; None
            for a public domain, where items that did not pass come after all that did.
        sensitivity: what one user may change in the first round, at most 1 per item; `l0`, the most
            items of a user, must be stated for an unknown domain.
        values: whether the noisy means are released, at no further price: counts of users as far as
            nobody was clipped.
    """

    kind: Literal["two_round_histogram"] = "two_round_histogram"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=SCALE,
        failure="delta",
        ordered=True,
        most="k",
        domain=lambda mechanism: "public" if mechanism.delta is None else "unknown",
        values=lambda mechanism: mechanism.values,
        groups=lambda mechanism: mechanism.delta is not None,
    )
    k: Count | None = Field(default=None, description="an integer >= 1, or None for all")
    scale: Positive = Field(description="a finite scale > 0, in score units")
    share: Probability = Field(default=0.4, description="a share in (0, 1)")
    mask: Annotated[Real, Field(ge=-8, le=64)] = Field(
        default=2.0, description="a number of deviations from -8 to 64"
    )
    combine: Annotated[Real, Field(ge=0, le=0.99)] = Field(
        default=0.4, description="a weight from 0 to 0.99"
    )
    norm: Annotated[Positive, Field(ge=2.0**-8, le=2.0**11)] = Field(
        default=1.0, description="a norm from 2^-8 to 2^11"
    )
    taper: Positive | None = Field(default=None, description="a number of deviations > 0, or None")
    delta: Probability | None = Field(
        default=None, description="a delta in (0, 1), or None for a public domain"
    )
    sensitivity: Sensitivity = Field(description="a Sensitivity whose linf is at most 1")
    values: bool = Field(default=False, strict=True, description="true or false")

    @model_validator(mode="after")
    def _two_rounds(self) -> Self:
        if self.sensitivity.linf > 1:
            raise ValueError(
                f"sensitivity.linf={self.sensitivity.linf:g} must be at most 1: in both rounds a"
                " user adds a weight of at most 1 to an item"
            )
        if self.sensitivity.l2_of(None) == math.inf:
            raise ValueError(
                "sensitivity bounds no l2 norm: clip the users (clip=), or bound their items"
                " (max_items_per_user=, or l0 of a Sensitivity)"
            )
        if self.delta is None:
            if self.k is None:
                raise ValueError(
                    "k=None releases all that exceed a threshold, which delta=None leaves out:"
                    " state one of them"
                )
        elif not self.sensitivity.items_alone:
            raise ValueError(
                "sensitivity states no l0: what a user with any number of items brings in cannot be"
                " hidden; bound the items per user, generously if they are clipped"
            )
        self._mu()  # refuses noise that is beyond the floats
        if not abs(self.mask_level) < math.inf or (
            self.delta is not None and not math.isfinite(self.threshold)
        ):
            raise ValueError(f"scale={self.scale} puts the threshold beyond the floats: lower it")
        return self

    @property
    def scales(self) -> tuple[float, float]:
        """Standard deviations of the noise of both rounds, score units."""
        return (
            self.scale / math.sqrt(self.share),
            self.scale / math.sqrt(1 - self.share) * self.norm / self._one_user,
        )

    def _mu(self) -> float:
        """The root of the sum of both rounds' squares, of the noise as it is configured; rounded
        up. Theorem H11.
        """
        first, second = self.scales
        moved = (
            ratio_up(self.sensitivity.l2_of(None), first),
            ratio_up(self._users * self.norm * (1 + 2.0**-50), second),
        )
        return sqrt_up(sum((Fraction(one) ** 2 for one in moved), Fraction(0)))

    @property
    def curve(self) -> Curve:
        both = GaussianDP(mu=self._mu())
        return both if self.delta is None else Approximate(curve=both, delta0=self.delta)

    @property
    def shared_group_curve(self) -> Curve | None:
        # one norm for what both users weigh in all groups, and no more than the lone items of one
        # fail
        return self.curve

    @property
    def mask_level(self) -> float:
        """What a first score has to exceed, score units: halfway between two multiples of its grid,
        which tell the same.
        """
        first, _ = self.scales
        grid = public_grid(first)
        steps_up = math.floor(self.mask * (first / grid)) + 0.5
        return steps_up * grid if abs(steps_up) < _MOST_STEPS else math.inf

    @property
    def parts(self) -> tuple[float, float]:
        """How much of either score is in a noisy mean; together 1."""
        first, second = (
            self.combine / self.scales[0],
            math.sqrt(1 - self.combine**2) / self.scales[1],
        )
        return first / (first + second), second / (first + second)

    @property
    def threshold(self) -> float:
        """What the noisy mean of an item has to exceed as well, score units; -inf for a public
        domain. Theorem H11.
        """
        if self.delta is None:
            return -math.inf
        first, second = self.scales
        most = self.sensitivity.items_alone or 1
        runs = steps(most)
        starts, ends = np.array(runs).T
        alone = np.broadcast_to(self.sensitivity.alone(starts), starts.shape)
        height = _threshold(
            self.mask_level / first,
            self.combine,
            tuple((alone / first).tolist()),
            tuple(ends.tolist()),
            min(1.0, self.norm) / second,
            self.delta,
            most if self.relation == "replace_one" else 0,
        )
        unit = 1 / (self.combine / first + math.sqrt(1 - self.combine**2) / second)
        whole = height * unit
        rounded = sum(
            part * public_grid(scale) / 2
            for part, scale in zip(self.parts, self.scales, strict=True)
        )
        return whole + rounded + _ROUNDING * (abs(whole) + first + second)

    def margin(self, confidence: float = 0.95, among: int = 1) -> float:
        """As of others, around means of the users' weights of both rounds: their number, as far as
        nobody was clipped.
        """
        both = list(zip(self.parts, self.scales, strict=True))
        deviation = math.hypot(*(part * scale for part, scale in both))
        if self.delta is None:  # what did not pass the mask shows its first score
            deviation = max(deviation, self.scales[0])
        return half_width("gaussian", deviation, confidence, among) + sum(
            part * public_grid(scale) / 2 for part, scale in both
        )

    def demands(self, first: Floats) -> Indices:
        """(n,) of what users spend on items with these first scores (score units) that passed, in
        proportion; units of 2^-20.
        """
        return np.maximum(np.floor(self.tapered(first) * WEIGHT_UNIT), 1).astype(np.int64)

    def tapered(self, first: Floats) -> Floats:
        """What users spend on items with these first scores (score units) that passed, relative to
        the most; same shape.
        """
        if self.taper is None:
            return np.ones_like(first)
        return np.asarray(np.sqrt(self.taper / np.maximum(first / self.scales[0], self.taper)))

    def _check_scores(self, scores: Scores) -> None:
        if self.delta is None and scores.domain == "observed":
            raise DomainMismatch(
                "delta=None is for a public domain: state the chance of failure, delta=, for these"
                " candidates"
            )

    def masked(self, scores: Scores, source: Sampler) -> tuple[list[int], Floats]:
        """Positions of the items that pass the mask, and their first scores, on the grid. Neither
        is ever released.
        """
        return self._drawn_above(scores, self.scales[0], self.mask_level, source)

    def means(self, first: Floats, again: Floats, source: Sampler) -> Floats:
        """(n,) noisy means of items that passed, from their first scores and what users weigh in
        the second round.
        """
        scale = self.scales[1]
        second = source.rounded(again, by_name("gaussian"), scale, public_grid(scale))
        return np.asarray(self.parts[0] * first + self.parts[1] * second)

    def again(self, scores: Scores, positions: list[int], first: Floats) -> Floats:
        """(n,) what users weigh in the second round, score units, of items that passed at these
        positions.
        """
        return self._weighed(scores, positions, self.demands(first), self.norm)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        if self.delta is None:
            return self._of_public(scores, source)
        return self.finished(scores, *self.masked(scores, source), source)

    def finished(
        self, scores: Scores, positions: list[int], first: Floats, source: Sampler
    ) -> Selection:
        means = self.means(first, self.again(scores, positions, first), source)
        threshold = self.threshold  # is searched for
        shown = {
            place: mean
            for place, mean in zip(positions, means.tolist(), strict=True)
            if mean > threshold
        }
        best = sorted(in_own_order(scores, shown), key=lambda place: -shown[place])[: self.k]
        values = shown if self.values else None
        return release(scores, best, ordered=True, requested=self.k, reason=_REASON, values=values)

    def _of_public(self, scores: Scores, source: Sampler) -> Selection:
        """Of a public domain every item has noise, and what did not pass comes last, by the first
        scores.
        """
        scale = self.scales[0]
        first = source.rounded(scores.values, by_name("gaussian"), scale, public_grid(scale))
        passed = np.flatnonzero(first > self.mask_level)
        means = first.copy()
        means[passed] = self.means(
            first[passed], self.again(scores, passed.tolist(), first[passed]), source
        )
        best = np.lexsort((-means, first <= self.mask_level))[: self.k].tolist()
        values = dict(enumerate(means.tolist())) if self.values else None
        return release(scores, best, ordered=True, requested=self.k, values=values)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        scale = self.scales[0]
        first = source.rounded(
            matrix.ravel(), by_name("gaussian"), scale, public_grid(scale)
        ).reshape(matrix.shape)
        passed = first > self.mask_level
        if self.delta is not None:
            passed &= matrix > 0
        means = first.copy()
        means[passed] = self.means(
            first[passed],
            np.asarray(matrix[passed] * self._used_again(self.norm), dtype=np.float64),
            source,
        )
        order = np.lexsort((-means, ~passed), axis=1)[:, : self.k]
        seen = np.take_along_axis(means, order, axis=1)
        if self.delta is not None:
            shown = np.take_along_axis(passed, order, axis=1) & (seen > self.threshold)
            # What passes the mask and not the threshold lies behind what passes both.
            order, seen = np.where(shown, order, -1), np.where(shown, seen, np.nan)
        return Selections(
            order,
            ordered=True,
            requested=self.k,
            reason=_REASON,
            values=seen if self.values else None,
        )

    # -- its law -----------------------------------------------------------------------------------

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return {order: chance for (order, _), chance in self.cell_probabilities(scores, ()).items()}

    def _cell_probabilities(
        self, scores: Scores, edges: Floats, between: Between
    ) -> dict[Any, float]:
        # Of scores before they are rounded to their grids: of the order a millionth off at most, of
        # the values a thousandth.
        looked = (
            scores.second is not None
            and scores.second.weigh is not None
            and scores.labels is not None
        )
        if looked and self.taper is not None:
            raise NoClosedForm(
                "weights that taper depend on the first scores in ways that no closed form covers:"
                " leave taper out"
            )
        values = scores.dense()
        listed = np.flatnonzero(values > 0) if self.delta is not None else np.arange(len(values))
        most = len(listed) if self.k is None else min(self.k, len(listed))
        orders = sum(math.perm(len(listed), size) for size in range(most + 1))
        require_enumerable(2.0 ** len(listed) * orders * len(between) ** most, 20_000)
        law: dict[Any, float] = {}
        for kept in itertools.product((False, True), repeat=len(listed)):
            passed, failed = listed[np.array(kept, dtype=bool)], listed[~np.array(kept, dtype=bool)]
            again = self.again(scores, passed.tolist(), np.full(len(passed), self.mask_level))
            for order, places, chance in self._given(values, passed, again, failed, most, edges):
                seen = order, tuple(between[place] for place in places)
                law[seen] = law.get(seen, 0.0) + chance
        return law

    def _given(
        self,
        values: Numbers,
        passed: Indices,
        again: Floats,
        failed: Indices,
        most: int,
        bars: Floats,
    ) -> Iterator[tuple[Places, Places, float]]:
        """What is released where these items pass the mask and those fail, with cells of the
        values, and the chance of both.
        """
        from scipy.special import ndtr

        first, second = self.scales
        bar, rest = self.mask_level / first, math.sqrt(1 - self.combine**2)
        means, lower = values[passed] / first, values[failed] / first
        centers, unit = (
            self.combine * means + rest * (again / second),
            self.combine / first + rest / second,
        )

        def density(s: Floats) -> Floats:
            """Of the sum at `s` together with a first score above the bar."""
            z = s - centers[:, None, None]
            return np.asarray(
                normal_pdf(z) * ndtr((means[:, None, None] - bar + self.combine * z) / rest)
            )

        level = (
            min(centers.min(initial=0.0), 0.0) - _REACH
            if self.delta is None
            else self.threshold * unit
        )
        ends = _pieces(level, max(level, centers.max(initial=level)) + _REACH, bars * unit)
        ahead = OrderLaw.of_densities(ends, density(nodes_of(ends)), ndtr(means - bar), bars * unit)
        missed = float(np.prod(ndtr(bar - lower)))
        if self.delta is not None:
            for order, seen, chance in ahead.outcomes(min(most, len(passed))):
                yield tuple(passed[list(order)].tolist()), seen, chance * missed
            return
        ends = _pieces(min(bar, lower.min(initial=bar)) - _REACH, bar, bars / first)
        densities = normal_pdf(nodes_of(ends) - lower[:, None, None])
        behind = OrderLaw.of_densities(ends, densities, ndtr(bar - lower), bars / first)
        now = min(most, len(passed))
        for best, seen, chance in ahead.outcomes(now, least=now):
            for others, below, share in behind.outcomes(most - now, least=most - now):
                order = (*passed[list(best)].tolist(), *failed[list(others)].tolist())
                yield order, (*seen, *below), chance * (share if most > now else missed)


def _pieces(low: float, high: float, bars: Floats) -> Floats:
    """Ends of short pieces from `low` to `high`, the bars between them included."""
    return np.unique(
        np.concatenate([np.arange(low, high, _PIECE), bars[(bars > low) & (bars < high)], [high]])
    )


@lru_cache(maxsize=1024)
def _threshold(
    bar: float,
    combine: float,
    alone: tuple[float, ...],
    items: tuple[int, ...],
    again: float,
    delta: float,
    absent: int,
) -> float:
    """The least height, in deviations of the sum of both rounds, that hides the items of one user
    alone; rounded up.

    For every run of numbers of items t with the first scores `alone`, up to `items` of them: t
    items, each with the chance p that its first score exceeds the bar and its sum the height, and
    `absent` items of another user, of which there is nothing in this log, pass with a chance of at
    most `delta` in all. Theorem H11.
    """
    means, most, rest = (
        np.array(alone),
        np.array(items, dtype=np.float64),
        math.sqrt(1 - combine**2),
    )
    near = means < _FAR
    starts = bar - np.append(means[near], 0.0)
    length = max(_BEYOND, float(-starts.min()) + _BEYOND)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    pieces = np.arange(0.0, length, _PIECE)
    # by how much the first score exceeds the bar
    beyond = (pieces[:, None] + _PIECE * (0.5 + 0.5 * nodes)).ravel()
    masses = normal_pdf(starts[:, None] + beyond) * np.tile(weights * (_PIECE / 2), len(pieces))
    left = normal_cdf(-(starts + pieces[-1] + _PIECE))

    def hidden(height: float) -> bool:
        # of the second score, for either first one
        needed = (height - combine * (bar + beyond)) / rest
        passing = np.asarray(normal_cdf(combine * means + rest * again - height))
        passing[near] = np.minimum(
            passing[near], masses[:-1] @ normal_cdf(again - needed) + left[:-1]
        )
        absentees = absent * (masses[-1] @ normal_cdf(-needed) + left[-1])
        return float((most * passing).max() + absentees) * _TAIL_UP <= delta

    low, high = -_FAR, 1.0
    while not hidden(high):
        if high > 1e300:
            return math.inf
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if hidden(middle) else (middle, high)
    return high
