"""A race of noisy histograms, in which items that one round settled take no weight in the next.

Theorem H13.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import Approximate, Curve, GaussianDP
from accounting.frozen import Count, NonNegative, Positive, Probability, Real
from accounting.numbers import Flags, Floats, Integers
from accounting.wording import format_number
from dpselect.cells import parts_of
from dpselect.errors import NoClosedForm
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.release import half_width, public_grid, release, sort_positions
from dpselect.mechanisms.sparse_histogram import steps
from dpselect.mechanisms.traits import SCALE, Traits
from dpselect.mechanisms.weighs_again import WeighsAgain, normal_cdf, normal_pdf
from dpselect.noise import noise_of
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Label, Selection, Selections
from dpselect.sensitivity import Sensitivity, sqrt_up

Band = tuple[Annotated[NonNegative, Field(le=8)], Annotated[NonNegative, Field(le=64)]]
Floor = Annotated[Real, Field(ge=-8, le=64)]
Again = Callable[[Integers, float], tuple[Numbers, float]]
"""Function from positions of contested items and a norm to what `WeighsAgain._weigh` returns."""

_FAR_BAR: Final = 3.0
"""Deviations of a bar from which clipped users cost more than noise."""
_REASON: Final = "fewer items than requested exceeded the thresholds"
_SUM: Final = 1e-9  # largest error of a sum of parts: the cost is computed from the noise
_LEAST_PART: Final = 1e-290  # of a delta: tails of the normal law are floats above it
_MOST_MEAN: Final = 2.0**38  # deviations that a user moves a score: grid points are floats below
_MOST_SCALE: Final = 1e290
_ROUNDING = 2.0**-40  # of a score or threshold in deviations: above the roundings of floats
_TAIL_UP = 1 + 1e-9  # above the errors of the quadrature and of the tails of the normal law
_PIECE, _NODES = 0.6, 12  # deviations of a new score, and nodes in them, of the quadrature
_BEYOND = 10.0  # deviations above a mean, beyond which what is left out is added as if it passed
_REACH = 40.0  # deviations from a mean, beyond which densities are below the floats
_FAR = 12.0  # deviations that one user moves a score: floors hide nothing then, and are left out
_HALVINGS = 50


@final
class RacingTopK(WeighsAgain):
    """The top k by a race of two or three noisy histograms, at the cost of one.

    The first round is a histogram of users who are clipped as the scores say. Items above its
    threshold are released at once, with their noisy scores. From these alone follow the *bar* (the
    score of the k-th of them), the *band* of scores around the bar whose place is still open, and
    the norm that a user may spend in later rounds. In each later round users spend that norm on
    those of their items that lie in the band, and on nothing else. Items above it are settled.

    Guarantee: Approximate(GaussianDP(mu), delta), and GaussianDP(mu) for a public domain, with mu
    the l2 norm of `sensitivity` over `scale`, as of a `SparseHistogram` of that scale. Theorem H13.

    Args:
        k: the number of items to release, or of each group, >= 1.
        scale: standard deviation of the noise of one histogram of the same cost, score units, > 0.
        shares: parts of mu^2 that the two or three rounds spend; together 1.
        combine: weight a in [0, 0.99] of the running score against sqrt(1 - a^2) of the new one.
        floors: for each later round, the number of deviations that a running score has to exceed to
            be contested. A public domain has no floors.
        bands: for each later round a pair (part, deviations): the band reaches from the bar by that
            part of the bar plus so many deviations, up and down.
        norm: the l2 norm that a user spends in later rounds if the bar is at least 3 deviations and
            at least k/2 items are released. Otherwise the norm is 1.
        failures: parts of delta that the threshold of each round spends; together 1.
        delta: in (0, 1), the chance that an item of one user alone is released; None for a public
            domain.
        sensitivity: bounds on what one user may change in the first round, at most 1 per item.
            `l0`, the most items of a user, must be stated for an unknown domain.
        values: True to release noisy scores as well, at no further cost: the mean over the rounds
            that an item was in, which is a count of users as far as nobody was clipped.
        cells: True if scores are labeled by `dpselect.cells.cell(group, item)`: then each group has
            a bar of its own, and its k best are released. `TopOfGroups` splits the answer.

    Example:
        >>> import dpselect as dps
        >>> few = dps.Sensitivity.of_counts(items_per_user=3)
        >>> race = dps.RacingTopK(k=2, scale=8.0, delta=1e-6, sensitivity=few)
        >>> counts, names = [9000, 5000, 1], ["zoo", "park", "pier"]
        >>> seen = dps.Scores(counts, labels=names, sensitivity=few, domain="observed")
        >>> race.select(seen).labels
        ('zoo', 'park')
    """

    kind: Literal["racing_top_k"] = "racing_top_k"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=SCALE,
        failure="delta",
        ordered=True,
        most=lambda mechanism: None if mechanism.cells else mechanism.k,
        domain=lambda mechanism: "public" if mechanism.delta is None else "unknown",
        values=lambda mechanism: mechanism.values,
        groups=lambda mechanism: mechanism.delta is not None,
    )
    k: Count = Field(description="an integer >= 1")
    scale: Positive = Field(description="a finite scale > 0, in score units")
    shares: tuple[Probability, ...] = Field(
        default=(0.35, 0.3, 0.35), description="two or three shares in (0, 1) that add up to 1"
    )
    combine: Annotated[Real, Field(ge=0, le=0.99)] = Field(
        default=0.5, description="a weight from 0 to 0.99"
    )
    floors: tuple[Floor, ...] = Field(
        default=(1.25, 3.0), description="a number of deviations from -8 to 64 for each later round"
    )
    bands: tuple[Band, ...] = Field(
        default=((0.2, 2.0), (0.1, 1.0)), description="a pair of numbers >= 0 for each later round"
    )
    norm: Annotated[Positive, Field(ge=2.0**-8, le=2.0**11)] = Field(
        default=2.0, description="a norm from 2^-8 to 2^11"
    )
    failures: tuple[Probability, ...] = Field(
        default=(0.1, 0.1, 0.8), description="a part in (0, 1) for each round; together 1"
    )
    delta: Probability | None = Field(
        default=None, description="a delta in (0, 1), or None for a public domain"
    )
    sensitivity: Sensitivity = Field(description="a Sensitivity whose linf is at most 1")
    values: bool = Field(default=False, strict=True, description="true or false")
    cells: bool = Field(default=False, strict=True, description="true or false")

    @model_validator(mode="after")
    def _can_race(self) -> Self:
        rounds = len(self.shares)
        if rounds not in (2, 3) or abs(math.fsum(self.shares) - 1) > _SUM:
            raise ValueError(
                f"shares={self.shares} must be two or three parts of mu^2 that add up to 1"
            )
        for name, entries in (("floors", self.floors), ("bands", self.bands)):
            if len(entries) != rounds - 1:
                raise ValueError(
                    f"{name}={entries} must have {rounds - 1} entries, one for each round after "
                    f"the first: shares={self.shares} are of {rounds} rounds"
                )
        if len(self.failures) != rounds or abs(math.fsum(self.failures) - 1) > _SUM:
            raise ValueError(
                f"failures={self.failures} must be {rounds} parts that add up to 1, one for each "
                "round: the part of delta that its threshold spends"
            )
        if self.sensitivity.linf > 1:
            raise ValueError(
                f"sensitivity.linf={self.sensitivity.linf:g} must be at most 1, because in all"
                " rounds a user adds a weight of at most 1 to an item"
            )
        if self.sensitivity.l2_of(None) == math.inf:
            raise ValueError(
                "sensitivity bounds no l2 norm: clip the users (clip=), or bound their items "
                "(max_items_per_user=, or l0 of a Sensitivity)"
            )
        if self.delta is not None:
            self._require_hidden(self.delta)
        self._mu()  # refuses noise that is beyond the floats
        scales = [scale for norm in self.norms for scale in self.scales(norm)]
        if max(scales) > _MOST_SCALE:
            raise ValueError(f"scale={self.scale} puts the thresholds beyond the floats. Lower it")
        if 1 / min(scales) > _MOST_MEAN:
            raise ValueError(f"scale={self.scale} puts the scores beyond the floats. Raise it")
        return self

    def _require_hidden(self, delta: float) -> None:
        """Raise if no threshold can hide the items of one user alone."""
        if not self.sensitivity.items_alone:
            raise ValueError(
                "sensitivity states no l0, so nothing can hide the items of a user with any"
                " number of them. Bound the items per user, generously if they are clipped"
            )
        if delta * min(self.failures) < _LEAST_PART:
            raise ValueError(
                f"delta={format_number(delta)} leaves less than {format_number(_LEAST_PART)}"
                " for the threshold of a round, where the tails of the noise are below the"
                " floats. Raise it"
            )

    # -- what is public ----------------------------------------------------------------------------

    @property
    def least_candidates(self) -> int:
        return self.k if self.delta is None and not self.cells else 1

    @property
    def norms(self) -> tuple[float, ...]:
        """Norms that users may spend in later rounds: 1, and `norm` if it is another."""
        return tuple(dict.fromkeys((1.0, self.norm)))

    def scales(self, norm: float = 1.0) -> tuple[float, ...]:
        """Return standard deviations of the noise of all rounds, if `norm` is spent, score units.

        In later rounds they grow with the norm, so that the cost does not depend on it.
        """
        first, *later = (self.scale / math.sqrt(share) for share in self.shares)
        relative = norm / self._one_user
        return (first, *(each * relative for each in later))

    def _mu(self) -> float:
        """Root of the sum of all rounds' squared shifts, for the noise as configured; rounded up.

        It is the largest over the norms that may be spent.
        """
        return max(self._mu_of(norm) for norm in self.norms)

    def _mu_of(self, norm: float) -> float:
        first, *later = self.scales(norm)
        spent = self._users * norm * (1 + 2.0**-50)
        ratios = [ratio_up(self.sensitivity.l2_of(None), first)]
        ratios += [ratio_up(spent, scale) for scale in later]
        return sqrt_up(sum((Fraction(ratio) ** 2 for ratio in ratios), Fraction(0)))

    @property
    def curve(self) -> Curve:
        rounds = GaussianDP(mu=self._mu())
        return rounds if self.delta is None else Approximate(curve=rounds, delta0=self.delta)

    @property
    def shared_group_curve(self) -> Curve | None:
        # One norm for what both users weigh in all groups; the lone items of both fail together.
        return self.curve

    @property
    def _rest(self) -> float:
        """Weight of a new score, if `combine` is the weight of the running one."""
        return math.sqrt(1 - self.combine**2)

    @property
    def floor(self) -> float:
        """First score that an item has to exceed to be contested, score units.

        It is halfway between two multiples of the grid, so that a rounded score exceeds it if and
        only if the score does.
        """
        scale = self.scales()[0]
        grid = public_grid(scale)
        return (math.floor(self.floors[0] * (scale / grid)) + 0.5) * grid

    @property
    def _floors(self) -> tuple[float, ...]:
        """Running scores to exceed to be contested in each later round, in deviations."""
        return (self.floor / self.scales()[0], *self.floors[1:])

    @property
    def first_threshold(self) -> float:
        """First score that an item has to exceed to be released at once, score units.

        It is halfway between two multiples of the grid, like `floor`, and -inf for a public domain.
        """
        if self.delta is None:
            return -math.inf
        scale = self.scales()[0]
        grid = public_grid(scale)
        alone, items = self._alone
        part = self.failures[0] * self.delta
        height = _first_threshold(alone, items, part, self._absent)
        return (math.ceil(height * (scale / grid)) + 0.5) * grid

    def thresholds(self, norm: float = 1.0) -> tuple[float, ...]:
        """Return running scores that an item has to exceed to be released, for each round.

        In deviations, for users who spend `norm` in later rounds, rounded up. -inf for a public
        domain. Theorem H13.
        """
        if self.delta is None:
            return (-math.inf,) * len(self.shares)
        alone, items = self._alone
        first, *later = self.scales(norm)
        before = (self.failures[:stop] for stop in range(2, len(self.shares)))
        whole = [self.delta * min(1.0, math.fsum(parts)) for parts in before]
        start = self.first_threshold / first
        return start, *_thresholds(
            start,
            self._floors,
            alone,
            items,
            tuple(min(1.0, norm) / scale for scale in later),
            self.combine,
            (*whole, self.delta),
            self._roundings(norm)[1:],
            self._absent,
        )

    @property
    def _alone(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Means of lone items of one user, in deviations, and their numbers, by runs.

        For each run of numbers of items: the largest mean over the run, and its last number.
        """
        starts, ends = np.array(steps(self.sensitivity.items_alone or 1)).T
        alone = np.broadcast_to(self.sensitivity.alone(starts), starts.shape)
        return tuple((alone / self.scales()[0]).tolist()), tuple(ends.tolist())

    @property
    def _absent(self) -> int:
        """The most lone items of a user who is in the other log only."""
        return (self.sensitivity.items_alone or 1) if self.relation == "replace_one" else 0

    def _roundings(self, norm: float) -> tuple[float, ...]:
        """Largest change of the running score of each round by rounding to grids, in deviations."""
        halves = [public_grid(scale) / 2 / scale for scale in self.scales(norm)]
        errors = [halves[0]]
        for half in halves[1:]:
            errors.append(self.combine * errors[-1] + self._rest * half)
        return tuple(errors)

    def _units(self, norm: float) -> tuple[float, ...]:
        """Score units in one deviation of the running score of each round, as a mean of scores."""
        parts: list[float] = []
        units = []
        for scale in self.scales(norm):
            new = self._rest / scale if parts else 1 / scale
            parts = [*(self.combine * part for part in parts), new]
            units.append(1 / math.fsum(parts))
        return tuple(units)

    def margin(self, confidence: float = 0.95, among: int = 1) -> float:
        """Half the width of intervals around the values for the users' weights, score units.

        Users are clipped, and not alike in all rounds, so only the low ends hold for numbers of
        users. Which round a value comes from depends on its noise, so each round takes an equal
        part of the failure probability.
        """
        rounds = [
            (unit, unit * rounding)
            for norm in self.norms
            for unit, rounding in zip(self._units(norm), self._roundings(norm), strict=True)
        ]
        widest, rounded = (max(column) for column in zip(*rounds, strict=True))
        return half_width("gaussian", widest, confidence, among * len(self.shares)) + rounded

    # -- a release ---------------------------------------------------------------------------------

    def _check_stated(self) -> None:
        for norm in self.norms:
            self.thresholds(norm)  # are searched for, once

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return self._finish(scores, *self._choose_entrants(scores, source), source)

    def _choose_entrants(self, scores: Scores, source: Sampler) -> tuple[list[int], Floats]:
        """Return positions of the items that take part, and their first scores, both private."""
        scale = self.scales()[0]
        if self.delta is not None:
            level = min(self.first_threshold, self.floor)
            return self._draw_above(scores, scale, level, source)
        first = source.draw_rounded(scores.dense(), noise_of("gaussian"), scale, public_grid(scale))
        return list(range(len(first))), first

    def _finish(
        self, scores: Scores, positions: list[int], first: Floats, source: Sampler
    ) -> Selection:
        names = scores.labels_at(
            positions
        )  # all at once: an engine that holds them answers one turn
        rows, groups = self._groups(names, len(positions))

        def again(at: Integers, norm: float) -> tuple[Numbers, float]:
            return self._weigh(scores, [positions[place] for place in at.tolist()], norm)

        race = self._race(first, rows, groups, again, source, together=True)
        released_places = np.flatnonzero(race.released)
        # among equals positions of named groups tell scores, those of a public list nothing
        if self.delta is not None or scores.hides_positions:
            place_of = {positions[place]: place for place in released_places.tolist()}
            places = [place_of[place] for place in sort_positions(scores, place_of)]
            released_places = np.array(places, dtype=np.int64)
        best = [
            positions[place] for place in self._best(race, rows, groups, released_places).tolist()
        ]
        values = dict(zip(positions, race.values.tolist(), strict=True)) if self.values else None
        requested = None if self.cells else self.k
        return release(
            scores, best, ordered=True, requested=requested, reason=_REASON, values=values
        )

    def _groups(self, names: list[Label] | None, count: int) -> tuple[Integers, int]:
        """Return (n,) places of the items' groups among their groups, and the number of groups."""
        if not self.cells or names is None:
            return np.zeros(count, dtype=np.int64), 1
        groups = [parts_of(name)[0] for name in names]  # most of them private
        places = {group: place for place, group in enumerate(sorted(set(groups)))}
        return np.array([places[group] for group in groups], dtype=np.int64), len(places)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        scale, (rounds, size), flat = self.scales()[0], matrix.shape, matrix.ravel()
        entrants = np.arange(flat.size) if self.delta is None else np.flatnonzero(flat > 0)
        first = source.draw_rounded(flat[entrants], noise_of("gaussian"), scale, public_grid(scale))
        if self.delta is not None:
            taking_part = first > min(self.first_threshold, self.floor)
            entrants, first = entrants[taking_part], first[taking_part]
        rows = entrants // size

        def again(at: Integers, norm: float) -> tuple[Numbers, float]:
            return flat[entrants[at]], self._reuse_factor(norm)

        race = self._race(first, rows, rounds, again, source, together=False)
        best = self._best(race, rows, rounds, np.flatnonzero(race.released))
        places = _ranks(rows[best], rounds)
        most = min(self.k, size)
        indices = np.full((rounds, most), -1, dtype=np.int64)
        values = np.full((rounds, most), np.nan)
        indices[rows[best], places] = entrants[best] % size
        values[rows[best], places] = race.values[best]
        shown_values = values if self.values else None
        return Selections(
            indices, ordered=True, requested=self.k, reason=_REASON, values=shown_values
        )

    def _best(self, race: _Raced, rows: Integers, groups: int, items: Integers) -> Integers:
        """Return the k first of each group among `items`, group by group.

        Ties keep the order of `items`.
        """
        order = items[np.lexsort((-race.scores[items], race.tiers[items], rows[items]))]
        return order[_ranks(rows[order], groups) < self.k]

    def _race(
        self,
        first: Floats,
        rows: Integers,
        groups: int,
        again: Again,
        source: Sampler,
        *,
        together: bool,
    ) -> _Raced:
        """Draw all later rounds of (n,) items with these first scores, each in a group of `groups`.

        Only the scores of released items decide about later rounds. `together` is True if all
        groups are of one release, and spend one norm.
        """
        heights = np.array([self.thresholds(norm) for norm in self.norms])
        units = np.array([self._units(norm) for norm in self.norms])
        running, rounds = first / self.scales()[0], len(self.shares)
        released, live = first > self.first_threshold, np.ones(len(first), dtype=np.bool_)
        tiers, seen = np.zeros(len(first), dtype=np.int64), np.zeros(len(first), dtype=np.int64)
        places, spends = np.full(groups, self.k), np.zeros(groups, dtype=np.int64)
        for round_number in range(rounds - 1):
            survivors = np.flatnonzero(live & released)
            bar, enough = self._bars(
                running[survivors], rows[survivors], places, heights[spends, round_number]
            )
            if round_number == 0:
                number = np.bincount(rows[survivors], minlength=groups)
                spends = self._spends(bar, number, together=together)
            low, high = self._reach(bar, round_number, enough)
            contested = live & (running > low[rows]) & (running <= high[rows])
            settled = live & released & (running > high[rows])
            tiers[settled] = round_number
            tiers[live & released & ~settled & ~contested] = 2 * rounds - round_number
            places = np.maximum(places - np.bincount(rows[settled], minlength=groups), 1)
            live = contested
            for place in np.unique(spends).tolist():
                norm = self.norms[place]
                scale = self.scales(norm)[round_number + 1]
                drawn = np.flatnonzero(live & (spends[rows] == place))
                (sums, factor), grid = again(drawn, norm), public_grid(scale)
                scale /= factor
                noisy = source.draw_rounded(sums, noise_of("gaussian"), scale, grid)
                running[drawn] = self.combine * running[drawn] + self._rest * (noisy / scale)
            seen[live] = round_number + 1
            released |= live & (running > heights[spends, round_number + 1][rows])
        tiers[live & released] = rounds
        return _Raced(tiers, running, running * units[spends[rows], seen], released)

    def _bars(
        self, scores: Floats, rows: Integers, places: Integers, heights: Floats
    ) -> tuple[Floats, Flags]:
        """Return (groups,) scores of released items at the last open place, and flags.

        A flag is True if a group has so many released items. If not, its score is the threshold
        that they had to exceed, or the least of their scores in a public domain, where nothing is
        hidden.
        """
        order = np.lexsort((-scores, rows))
        number = np.bincount(rows, minlength=len(places))
        start = np.cumsum(number) - number
        enough = number >= places
        bar = heights.copy()
        if self.delta is None:
            places, enough = np.minimum(places, number), number > 0
            bar[~enough] = 0.0  # of a group in which nothing is contested
        bar[enough] = scores[order[(start + places - 1)[enough]]]
        return bar, enough

    def _reach(self, bar: Floats, at: int, enough: Flags) -> tuple[Floats, Floats]:
        """Return (groups,) both ends of the band around each bar, before the later round `at`."""
        part, deviations = self.bands[at]
        reach = part * np.maximum(bar, 0.0) + deviations
        low = np.where(enough, bar - reach, -np.inf)
        if self.delta is not None:  # on a public list a floor hides nothing
            low = np.maximum(low, self._floors[at])
        return low, bar + reach

    def _spends(self, bar: Floats, number: Integers, *, together: bool) -> Integers:
        """Return (groups,) places in `norms`, from bars and numbers of released items.

        The second norm is spent if noise is small beside the bar. `together` takes one norm for all
        groups, by the majority of those in which something is released.
        """
        least = np.full(len(bar), _FAR_BAR)
        if self.delta is None:  # noise alone lifts the k-th of many
            expected = noise_of("gaussian").isf(np.minimum(0.5, self.k / np.maximum(number, 1)))
            least = np.maximum(least, expected + 1)
        is_far = (bar >= least) & (2 * number >= self.k)
        if together:
            is_filled = number > 0
            is_far = np.full(
                len(bar), is_filled.any() and 2 * (is_far & is_filled).sum() >= is_filled.sum()
            )
        return np.where(is_far, len(self.norms) - 1, 0)

    # -- its law -----------------------------------------------------------------------------------

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        # Of scores before they are rounded to their grids: a millionth off at most.
        values = scores.dense()
        entrants = np.arange(len(values)) if self.delta is None else np.flatnonzero(values > 0)
        if len(entrants) > 1:
            raise NoClosedForm(
                "the bar of a race is a rank of noisy scores, so exact probabilities exist"
                " for at most one item. Draw with select_many, or use"
                " dpselect.verify.lower_bound"
            )
        if len(entrants) == 0:
            return {(): 1.0}
        chance = 1.0 if self.delta is None else self._alone_probability(scores, int(entrants[0]))
        return {(int(entrants[0]),): chance} | ({} if chance == 1 else {(): 1 - chance})

    def _alone_probability(self, scores: Scores, place: int) -> float:
        """Return the probability that the only item is released.

        Nothing else is released, so the norm is 1.
        """
        first, *later = self.scales()
        sums, factor = self._weigh(scores, [place], 1.0)
        again = float(sums[0]) * factor
        start, *heights = self.thresholds()
        mean = np.array([float(scores.dense()[place]) / first])
        chances = _Chances(mean, start, self._floors[0], self.combine, far=math.inf)
        for number, (height, scale) in enumerate(zip(heights, later, strict=True)):
            floor = None if number + 1 == len(later) else self._floors[number + 1]
            chances.race(again / scale, height, floor)
        return min(1.0, float(chances.passed[0]))


@final
@dataclass(frozen=True, eq=False, repr=False)
class _Raced:
    """Outcome of a race for each item. **Private** except for released items."""

    tiers: Integers  # (n,) first sort key of the listing, before the score
    scores: Floats  # (n,) last running scores, in deviations
    values: Floats  # (n,) the same as means of users' weights, score units
    released: Flags  # (n,)


def _ranks(rows: Integers, groups: int) -> Integers:
    """Return (n,) places of items within their groups, where groups follow one another."""
    number = np.bincount(rows, minlength=groups)
    return np.arange(len(rows)) - (np.cumsum(number) - number)[rows]


class _Chances:
    """Probabilities that lone items are released, round by round. Theorem H13.

    Args:
        means: (n,) means of their first scores, in deviations.
        start: bar that a first score has to exceed to be released.
        floor: bar that it has to exceed to be contested.
        combine: weight of a running score.
        far: means from which on probabilities without floors may be used, which are larger.

    Attributes:
        passed: (n,) upper bounds on the probabilities to be released in the rounds so far.
    """

    def __init__(
        self, means: Floats, start: float, floor: float, combine: float, far: float = _FAR
    ) -> None:
        self._combine, self._rest, self._far = combine, math.sqrt(1 - combine**2), far
        self._means, self.passed = means, normal_cdf(means - start)
        # Contested and not released so far: a density over the running score at nodes, times their
        # weights, and all that may lie above the nodes.
        self._at, weights, above = self._nodes(floor, start)
        self._mass = normal_pdf(self._at - means[:, None]) * weights
        self._above = above

    def _nodes(self, low: float, high: float) -> tuple[Floats, Floats, Floats]:
        """Return nodes and weights of an integral from `low` to `high`, for means below `far`.

        Also returns the (n,) probabilities that a running score lies above the last node.
        """
        if high <= low:
            return np.zeros(0), np.zeros(0), np.zeros(len(self._means))
        near = self._means[self._means < self._far]
        low = max(low, float(near.min(initial=self._far)) - _REACH) if len(near) else low
        top = min(high, max(low, float(near.max(initial=-math.inf)) + _BEYOND))
        ends = np.append(np.arange(low, top, _PIECE * self._rest), top)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        lengths = np.diff(ends)[:, None]
        points = ends[:-1, None] + lengths * (0.5 + 0.5 * nodes)
        above = normal_cdf(self._means - top) if top < high else np.zeros(len(self._means))
        return points.ravel(), (lengths * weights / 2).ravel(), above

    def passing(self, again: float, height: float) -> Floats:
        """Return (n,) upper bounds on probabilities to be released in the next round, not before.

        Args:
            again: the mean of the next score, in deviations.
            height: bar that the running score has to exceed.
        """
        whole = normal_cdf(self._combine * self._means + self._rest * again - height)
        tail = normal_cdf(again - (height - self._combine * self._at) / self._rest)
        return np.asarray(np.minimum(whole, self._mass @ tail + self._above))

    def race(self, again: float, height: float, floor: float | None) -> None:
        """Go on to the next round, in which items that exceed `height` are released.

        Those above `floor` are contested in the round after it; None if there is none.
        """
        self.passed = self.passed + self.passing(again, height)
        if floor is None:
            return
        before, mass = self._at, self._mass
        self._means = self._combine * self._means + self._rest * again
        self._at, weights, above = self._nodes(floor, height)
        noise = (self._at - self._combine * before[:, None]) / self._rest - again
        self._mass = (mass @ normal_pdf(noise)) * (weights / self._rest)
        self._above = self._above + above


def _least(low: float, high: float, hidden: Callable[[float], bool]) -> float:
    """Return the least height in [low, high] that hides enough, rounded up; `high` does."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if hidden(middle) else (middle, high)
    return high


def _spent(items: Floats, chances: Floats, absent: int, chances_of_absent: Floats) -> float:
    """Part of a delta that lone items of a user, and of one who is absent, spend; rounded up."""
    return (float((items * chances).max()) + absent * float(chances_of_absent[0])) * _TAIL_UP


@lru_cache(maxsize=1024)
def _first_threshold(
    alone: tuple[float, ...], items: tuple[int, ...], part: float, absent: int
) -> float:
    """Return the least first-round height that lone items exceed with at most probability `part`.

    For every run of numbers of items t up to `items`, t items of one user with means of at most
    `alone`, in deviations, and `absent` ones of a user who is not there.
    """
    means, most = np.array(alone), np.array(items, dtype=np.float64)

    def hidden(height: float) -> bool:
        gone = normal_cdf(np.full(1, -height))
        return _spent(most, normal_cdf(means - height), absent, gone) <= part

    return _least(-40.0, float(means.max()) + 40.0, hidden)


@lru_cache(maxsize=1024)
def _thresholds(
    start: float,
    floors: tuple[float, ...],
    alone: tuple[float, ...],
    items: tuple[int, ...],
    again: tuple[float, ...],
    combine: float,
    parts: tuple[float, ...],
    roundings: tuple[float, ...],
    absent: int,
) -> tuple[float, ...]:
    """Return the least heights of all later rounds that hide lone items.

    As for `_first_threshold`, they may be exceeded with a stated probability.

    Args:
        start: bar that a first score has to exceed to be released, in deviations.
        floors: bars that running scores have to exceed to be contested in each later round.
        again: the largest change of each later score by one user.
        parts: part of delta that may be spent up to each later round, all rounds before included.
        roundings: largest change of each running score by the grids.
    """
    lone = _Chances(np.array(alone), start, floors[0], combine)
    nobody = _Chances(np.zeros(1), start, floors[0], combine)
    rest, most, highest = math.sqrt(1 - combine**2), np.array(items, dtype=np.float64), max(alone)
    heights: list[float] = []
    for number, (mean, part, rounding) in enumerate(zip(again, parts, roundings, strict=True)):

        def hidden(height: float, mean: float = mean, part: float = part) -> bool:
            chances = lone.passed + lone.passing(mean, height)
            gone = nobody.passed + nobody.passing(0.0, height)
            return _spent(most, chances, absent, gone) <= part

        highest = combine * highest + rest * mean
        height = _least(-40.0, highest + 40.0, hidden)
        heights.append(height + rounding + _ROUNDING * (1 + abs(height)))
        if number + 1 < len(again):
            floor = floors[number + 1] - rounding - _ROUNDING * (1 + abs(floors[number + 1]))
            lone.race(mean, height, floor)
            nobody.race(0.0, height, floor)
    return tuple(heights)
