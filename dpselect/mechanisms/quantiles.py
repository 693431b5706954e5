"""Quantiles of one number per user: every point of a public grid is a candidate; one by selection, several in one draw.

Several are a rising tuple of points, with probability exactly in proportion to its weight, by sums over runs of points that have
as many users below (Theorem W7). Sums run forwards over the quantiles, and a tuple is drawn backwards: which run the last
quantiles lie in, then the ones before. Float64 logarithms with a bound on their error decide what they can, the same sums in ball
arithmetic the rest (X9).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self, final

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from accounting import BoundedRange
from accounting.arguments import Relation
from accounting.frozen import Count, Frozen, Positive, Probability, Real
from dpselect.errors import InvalidRequest, InvalidScores
from dpselect.mechanisms.base import EPSILON, Mechanism, Traits, enumerable
from dpselect.mechanisms.noise_curves import rate_down
from dpselect.mechanisms.ranks import draw_sequences
from dpselect.mechanisms.release import release
from dpselect.sampling import Sampler, sampler
from dpselect.sampling.contest import Indices, rational
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

_MOST_POINTS, _MOST_PARTS = 2**53, 10**6


def _share_of(q: float) -> Fraction:
    """The decimal that prints a share; ValueError if it has more than six digits."""
    share = Fraction(repr(q))
    if share.denominator > _MOST_PARTS:
        raise ValueError(f"q={q} has more than six decimals: round it")
    return share


def _points_of(low: float, high: float, step: float) -> int:
    """How many points low, low + step, ... there are up to high; ValueError for none, and for more than 2^53."""
    if not low < high:
        raise ValueError(f"low={low} must be less than high={high}: they are public bounds of the numbers")
    if Fraction(high) - Fraction(low) >= Fraction(step) * (_MOST_POINTS - 1):
        raise ValueError(f"step={step} makes more than 2^53 points between low and high: take wider steps")
    return int((Fraction(high) - Fraction(low)) // Fraction(step)) + 1


def _places_of(values: ArrayLike, low: float, high: float, step: float) -> NDArray[np.int64]:
    """(users,) the last point that is not above each number, numbers outside moved to the bounds: a map of each number alone."""
    try:
        numbers = np.asarray(values if np.size(values) else np.empty(0), dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise InvalidScores("values must be numbers that a float64 holds, one per user") from None
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidScores("values is a masked array, whose mask would be lost: leave out who has no number first")
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise InvalidScores("values must be a one-dimensional array of finite numbers, one per user: clean them first")
    with np.errstate(over="ignore"):  # beyond the floats is beyond the last point; a warning would tell that somebody is there
        places = np.floor((np.clip(numbers, low, high) - low) / step)
    return np.clip(places, 0, _points_of(low, high, step) - 1).astype(np.int64)


def _gaps_and_points(places: NDArray[np.int64], points: int) -> NDArray[np.int64]:
    """(2 n + 1,) by turns how many points lie between two of n rising places, or beyond them, and 1 for a place itself."""
    many = np.ones(2 * len(places) + 1, dtype=np.int64)
    many[0::2] = np.diff(np.append(places, points), prepend=-1) - 1
    return many


@final
class Quantile(Frozen):
    """The question "where does a share q of the users lie below?", for any mechanism that selects one item by scores.

    The candidates are the points low, low + step, ... up to high. The score of a point is minus the distance of q times all
    users from the range of those below it to those up to it, in parts of one user, an integer; points between two
    users share it, so that 10^12 points are as quick as ten. Theorem W3.

    Args:
        q: the share; 0.5 for the median. Read as the decimal that prints it, of at most six digits.
        low, high: public bounds, in the unit of the numbers; numbers outside of them are moved to them.
        step: distance of the points, in the same unit; of at most 2^53 points.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    q: Probability = Field(description="a share in (0, 1)")
    low: Real = Field(description="a finite public number")
    high: Real = Field(description="a finite public number > low")
    step: Positive = Field(description="a finite number > 0")
    relation: Relation = Field(default="add_remove", description="'add_remove' or 'replace_one'")

    @model_validator(mode="after")
    def _is_a_grid(self) -> Self:
        _points_of(self.low, self.high, self.step)
        _share_of(self.q)
        return self

    @property
    def points(self) -> int:
        """How many candidates there are, a public number."""
        return _points_of(self.low, self.high, self.step)

    @property
    def sensitivity(self) -> Sensitivity:
        """What one user changes, in the scores' unit: configure the mechanism with it."""
        share = _share_of(self.q)
        if self.relation == "replace_one":
            return Sensitivity(linf=share.denominator, relation="replace_one")
        return Sensitivity(linf=max(share.numerator, share.denominator - share.numerator), monotone=False)

    def scores(self, values: ArrayLike) -> Scores:
        """The private scores of all points, for (users,) numbers: exactly one per user; there may be none.

        Raises:
            InvalidScores: not a one-dimensional array of finite numbers.
        """
        places, counts = np.unique(_places_of(values, self.low, self.high, self.step), return_counts=True)
        many = _gaps_and_points(places, self.points)
        total = np.repeat(np.append(0, np.cumsum(counts)), 2)
        below, upto = total[:-1], total[1:]
        share = _share_of(self.q)
        target = share.numerator * int(counts.sum())
        distance = np.maximum(np.maximum(share.denominator * below - target, target - share.denominator * upto), 0)
        kept = many > 0
        return Scores.grouped(-distance[kept], many[kept], sensitivity=self.sensitivity, kind="utilities")

    def value(self, selection: Selection) -> float:
        """The selected point, in the unit of the numbers.

        Raises:
            InvalidRequest: the selection is not of one point of this grid.
        """
        chosen = selection.indices if isinstance(selection, Selection) else ()
        if len(chosen) != 1 or not 0 <= chosen[0] < self.points:
            raise InvalidRequest("selection must be of one of this quantile's points: select among its scores, with k=1")
        return self.low + self.step * chosen[0]


Terms = NDArray[Any]
_ROUNDING = 2.0**-52
_MOST_QUANTILES, _MOST_USERS, _MOST_PLACES = 100, 2**40, 2**53


@final
class JointQuantiles(Mechanism):
    """Several quantiles at once by one exponential mechanism over rising tuples of points (Gillenwater, Joseph, Kulesza 2021).

    One number per user on a public grid: `scores(values)` counts users per point, `select` draws a tuple of points, exactly, and
    `values(selection)` puts it into the numbers' unit. A tuple cuts the users into parts; its loss is how many users too many or
    too few these have, summed up. Guarantee: BoundedRange(epsilon), however many quantiles, Theorem W7.

    Args:
        quantiles: rising shares in (0, 1), decimals of at most six digits; 0.5 for the median.
        low, high, step: the grid, as of `Quantile`.
        spread: parts of a point, among which `scores` spreads the users at it at random, >= 1: where many have the same number, a
            quantile is that number and not one somewhere beyond it. Positions of a selection count these parts.
    """

    kind: Literal["joint_quantiles"] = "joint_quantiles"
    traits: ClassVar[Traits] = Traits(
        answers="quantiles",
        noise=EPSILON,
        ordered=True,
        most=lambda mechanism: len(mechanism.quantiles),
        domain="public",
        zeros=True,
        groups=True,
    )
    quantiles: tuple[Probability, ...] = Field(
        min_length=1, max_length=_MOST_QUANTILES, description="rising shares in (0, 1), at most 100"
    )
    low: Real = Field(description="a finite public number")
    high: Real = Field(description="a finite public number > low")
    step: Positive = Field(description="a finite number > 0")
    epsilon: Annotated[Positive, Field(le=1e6)] = Field(description="an epsilon > 0, at most 10^6, in nats")
    neighbours: Relation = Field(default="add_remove", alias="relation", description="'add_remove' or 'replace_one'")
    spread: Count = Field(default=256, description="an integer >= 1: parts of a point")

    @model_validator(mode="after")
    def _is_a_grid(self) -> Self:
        if self.candidates > _MOST_PLACES:
            raise ValueError(f"step={self.step} and spread={self.spread} make more than 2^53 places: take wider steps")
        if any(after <= before for before, after in itertools.pairwise(map(_share_of, self.quantiles))):
            raise ValueError("quantiles must rise strictly: sort them, and ask for each once")
        if sum(self._parts) > 10**6:
            raise ValueError("quantiles have no common denominator up to 10^6: round them")
        return self

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity.of_counts(self.neighbours, 1)

    @property
    def curve(self) -> BoundedRange:
        return BoundedRange(epsilon=self.epsilon)

    @property
    def points(self) -> int:
        """How many numbers may be released, a public number."""
        return _points_of(self.low, self.high, self.step)

    @property
    def candidates(self) -> int:
        """How many places there are: the parts of all points."""
        return self.points * self.spread

    @property
    def least_candidates(self) -> int:
        return self.candidates

    @property
    def most_candidates(self) -> int:
        return self.candidates

    @property
    def _parts(self) -> list[int]:
        """The shares of the users between quantiles, over their least common denominator, which they add up to."""
        shares = [Fraction(0), *map(_share_of, self.quantiles), Fraction(1)]
        whole = math.lcm(*(share.denominator for share in shares))
        return [int((after - before) * whole) for before, after in itertools.pairwise(shares)]

    @property
    def rate(self) -> float:
        """Nats per unit of loss, in parts of a user: epsilon over the range of what one user changes, rounded down."""
        parts = self._parts
        span = 4 * (sum(parts) if self.neighbours == "replace_one" else sum(parts) - min(parts))
        return rate_down(self.epsilon, span)

    def scores(self, values: ArrayLike, *, rng: np.random.Generator | None = None) -> Scores:
        """The private number of users at every place, for (users,) numbers: exactly one per user; there may be none.

        Places within a point are drawn here, before a charge, by `rng` as of `select`: each user's by itself, whatever the
        numbers are. Theorem W7 holds for any places, so that scores that are made again, or used twice, cost nothing more.

        Raises:
            InvalidScores: not a one-dimensional array of finite numbers.
        """
        points = _places_of(values, self.low, self.high, self.step)
        parts = sampler(rng).below(np.full(len(points), self.spread, dtype=np.int64))
        places, counts = np.unique(points * self.spread + parts, return_counts=True)
        many = _gaps_and_points(places, self.candidates)
        held = np.zeros_like(many)
        held[1::2] = counts
        kept = many > 0
        return Scores.grouped(held[kept], many[kept], sensitivity=self.covers)

    def values(self, selection: Selection) -> tuple[float, ...]:
        """The selected points, one per quantile, in the unit of the numbers.

        Raises:
            InvalidRequest: the selection is not of as many places of this grid.
        """
        chosen = selection.indices if isinstance(selection, Selection) else ()
        if len(chosen) != len(self.quantiles) or not all(0 <= place < self.candidates for place in chosen):
            raise InvalidRequest("selection must be of this mechanism's places, one per quantile")
        return tuple(self.low + self.step * (place // self.spread) for place in chosen)

    def _check_scores(self, scores: Scores) -> None:
        values = scores.values
        if not (values == np.floor(values)).all():
            raise InvalidScores("quantiles need whole numbers of users at every point")
        many = 1 if scores.multiplicities is None else scores.multiplicities
        if float((values.astype(np.float64) * many).sum()) > _MOST_USERS:
            raise InvalidScores("quantiles are of at most 2^40 users")

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return release(scores, self._tuples(scores).draw(source), ordered=True, requested=len(self.quantiles))

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        rows = [self._tuples(Scores(row, sensitivity=self.covers)).draw(source) for row in matrix]
        return Selections(np.array(rows, dtype=np.int64), ordered=True, requested=len(self.quantiles))

    def _tuples(self, scores: Scores) -> Tuples:
        parts, (below, points, users) = self._parts, _runs(scores)
        return Tuples(below * sum(parts), points, tuple(part * users for part in parts), sum(parts) * users, self.rate)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        enumerable(math.comb(self.candidates + len(self.quantiles) - 1, len(self.quantiles)))
        counts = scores.dense().astype(np.int64)
        tuples = list(itertools.combinations_with_replacement(range(self.candidates), len(self.quantiles)))
        losses = np.array([self._loss(counts, chosen) for chosen in tuples], dtype=np.float64)
        weights = np.exp(-self.rate * (losses - losses.min()))
        return dict(zip(tuples, (weights / weights.sum()).tolist(), strict=True))

    def _loss(self, counts: Indices, chosen: tuple[int, ...]) -> int:
        """Users too many or too few in all parts, in parts of a user, by the definition."""
        below, users, parts = np.concatenate([[0], np.cumsum(counts)]), int(counts.sum()), self._parts
        cuts = [0, *(int(below[point]) for point in chosen), users]
        between = [after - before for before, after in itertools.pairwise(cuts)]
        return sum(abs(sum(parts) * held - part * users) for held, part in zip(between, parts, strict=True))


def _runs(scores: Scores) -> tuple[Indices, Indices, int]:
    """(runs,) users below the points of each run, and how many points it has: a run ends with a point that somebody is at.

    And all users.
    """
    counts = scores.values.astype(np.int64)
    many = np.ones_like(counts) if scores.multiplicities is None else scores.multiplicities
    # Of points with users each is a run's end by itself.
    repeated = np.where(counts > 0, many, 1)
    counts, many = np.repeat(counts, repeated), np.repeat(np.where(counts > 0, 1, many), repeated)
    ends = np.flatnonzero(counts > 0)
    points = np.diff(np.concatenate([[0], np.cumsum(many)[ends], [many.sum()]]))
    below = np.concatenate([[0], np.cumsum(counts[ends])])
    kept = points > 0
    return below[kept].astype(np.int64), points[kept].astype(np.int64), int(below[-1])


@final
class _Logarithms:
    """How weights are written, multiplied and added: as logarithms in float64.

    `error` bounds that of all that was computed: no product has two sums as factors.
    """

    nothing = -math.inf

    def __init__(self, rate: float) -> None:
        self._rate, self.error = rate, 0.0

    def power(self, losses: Indices) -> Terms:
        return self._rounded(self._rate * losses.astype(np.float64))

    def tuples(self, points: Indices, size: int) -> Terms:
        total = np.log(points[:, None] + np.arange(size, dtype=np.float64)).sum(axis=1) - math.lgamma(size + 1)
        return self._rounded(total, 4 * size + 4)

    def times(self, first: Terms, second: Terms) -> Terms:
        return self._rounded(first + second)

    def plus(self, first: Terms, second: Terms) -> Terms:
        return self._rounded(np.logaddexp(first, second))

    def _rounded(self, values: Terms, steps: int = 1) -> Terms:
        finite = np.abs(values[np.isfinite(values)])
        self.error += steps * _ROUNDING * (float(finite.max(initial=0.0)) + 2)
        return values


@final
class _Balls:
    """The same as balls, at Arb's working precision."""

    nothing = arb(0)

    def __init__(self, rate: float) -> None:
        self._rate = rational(rate)

    def power(self, losses: Indices) -> Terms:
        return np.array([arb(self._rate * loss).exp() for loss in losses.tolist()], dtype=object)

    def tuples(self, points: Indices, size: int) -> Terms:
        return np.array([arb(math.comb(count + size - 1, size)) for count in points.tolist()], dtype=object)

    def times(self, first: Terms, second: Terms) -> Terms:
        return np.asarray(first * second)

    def plus(self, first: Terms, second: Terms) -> Terms:
        return np.asarray(first + second)


_Ring = _Logarithms | _Balls


@final
@dataclass(frozen=True, eq=False, repr=False)
class Tuples:
    """The weights of all rising tuples of points. Private. Users are counted in parts, by the shares' common denominator."""

    below: Indices  # (runs,) users below the points of each run, rising
    points: Indices  # (runs,) how many points each run has
    shares: tuple[int, ...]  # (quantiles + 1,) of all users, between two quantiles and beyond the last
    end: int  # all users
    rate: float  # nats per unit of loss, the sum of the distances of differences of `below` from `shares`

    def draw(self, source: Sampler) -> list[int]:
        """One tuple of points, counted from 0."""
        logs = _Logarithms(self.rate)
        entering = self._entering(logs)
        chosen: list[int] = []
        left, end = len(self.shares) - 1, len(self.below)
        while left:
            value = self._ways(logs, entering, left, end).ravel()
            balls = partial(self._balls, left, end)
            cell = source.categorical(value - logs.error, value + logs.error, balls, 1)
            size, end = 1 + int(cell[0]) // end, int(cell[0]) % end
            chosen = self._within(end, size, source) + chosen
            left -= size
        return chosen

    def _balls(self, left: int, end: int) -> list[arb]:
        balls = _Balls(self.rate)
        return list(self._ways(balls, self._entering(balls), left, end).ravel())

    def _entering(self, ring: _Ring) -> list[Terms]:
        """For every quantile (runs,): the weight of all that comes before, if it lies in that run and the one before does not."""
        entering = [ring.power(-np.abs(self.below - self.shares[0]))]
        while len(entering) < len(self.shares) - 1:
            blocks = [self._block(ring, entering, len(entering), size) for size in range(1, len(entering) + 1)]
            leaving = blocks[0]
            for block in blocks[1:]:
                leaving = ring.plus(leaving, block)
            entering.append(self._crossing(ring, leaving, self.shares[len(entering)]))
        return entering

    def _block(self, ring: _Ring, entering: list[Terms], left: int, size: int) -> Terms:
        """(runs,) the weight of the first `left` quantiles, the last `size` of them, and no more, in that run."""
        alone = ring.power(np.array([-sum(self.shares[left - size + 1 : left])], dtype=np.int64))
        return ring.times(ring.times(entering[left - size], alone), ring.tuples(self.points, size))

    def _ways(self, ring: _Ring, entering: list[Terms], left: int, end: int) -> Terms:
        """(left, end) the weight of the first `left` quantiles, by how many share the last run, and which it is, before `end`."""
        at = self.end if end == len(self.below) else int(self.below[end])
        onward = ring.power(-np.abs(at - self.below[:end] - self.shares[left]))
        blocks = [self._block(ring, entering, left, size)[:end] for size in range(1, left + 1)]
        return np.stack([ring.times(block, onward) for block in blocks])

    def _crossing(self, ring: _Ring, leaving: Terms, share: int) -> Terms:
        """(runs,) sum over the earlier runs of their weight times that of the users between."""
        place = np.arange(len(self.below))
        target = self.below - share
        middle = np.minimum(np.searchsorted(self.below, target, side="right"), place)
        far = _sums(ring, ring.times(leaving, ring.power(self.below)), np.zeros_like(place), middle)
        near = _sums(ring, ring.times(leaving, ring.power(-self.below)), middle, place)
        return ring.plus(ring.times(ring.power(-target), far), ring.times(ring.power(target), near))

    def _within(self, run: int, size: int, source: Sampler) -> list[int]:
        """Uniformly random rising points of one run, equal ones allowed: a set of `size` among as many more, moved together."""
        ranks = draw_sequences(np.full((1, size), int(self.points[run]) + size - 1), source)[0]
        first = int(self.points[:run].sum())
        return [first + rank - 1 - place for place, rank in enumerate(sorted(ranks.tolist()))]


def _sums(ring: _Ring, terms: Terms, low: Indices, high: Indices) -> Terms:
    """(n,) sums over [low, high), of terms without cancellation: each is put together from sums over powers of two."""
    total = np.full(len(low), ring.nothing, dtype=terms.dtype)
    lengths, place, blocks = high - low, low.copy(), [terms]
    while 2 ** len(blocks) <= int(lengths.max(initial=0)):
        half, last = 2 ** (len(blocks) - 1), blocks[-1]
        blocks.append(ring.plus(last[: len(last) - half], last[half:]))
    for level, block in enumerate(blocks):
        wanted = np.flatnonzero(lengths >> level & 1)
        total[wanted] = ring.plus(total[wanted], block[place[wanted]])
        place[wanted] += 2**level
    return total
