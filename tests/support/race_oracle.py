"""The race of Theorem H13 once more, from its definition: exact laws on grids, draws, lone items.

It shares nothing with `dpselect.mechanisms.racing` but the numbers that a mechanism shows:
deviations of the noise, thresholds, floors, bands and norms. Scores of items are arrays of shape
(rows, items), where a row is one outcome so far, or one draw.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpselect import RacingTopK

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Places = NDArray[np.int64]
Log = Sequence[frozenset[int]]
"""The kept items of every user, by their places."""

Fault = Literal[
    "",
    "rank among items that occur",
    "norm by items that occur",
    "no floor",
    "weights for items of others",
    "noise without the norm",
    "third rank among contested items",
]
"""What a design must not do. The first is none of them."""

JUST = 1e-9  # above the lower end of a bin, which does not belong to it


@dataclass(frozen=True)
class Race:
    """Public numbers of a race, in deviations of the noise unless another unit is stated."""

    k: int
    combine: float
    sigmas: Mapping[float, tuple[float, ...]]
    """Deviations of the noise of each round by the norm that is taken, score units."""
    thresholds: Mapping[float, tuple[float, ...]]
    """Thresholds of each round by the norm that is taken; minus infinity in a public domain."""
    floors: tuple[float, ...]
    bands: tuple[tuple[float, float], ...]
    norm: float
    clip: float | None
    """The l2 norm of a user in the first round; None adds 1 to each item."""
    groups: tuple[int, ...]
    """The group of every item."""
    ahead: float = 3.0
    """The least bar at which the larger norm is taken."""
    fault: Fault = ""

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.floors) + 1

    @property
    def is_public(self) -> bool:
        """True if nothing is hidden by a threshold."""
        return math.isinf(self.thresholds[1.0][0])

    @property
    def rest(self) -> float:
        """The weight of the fresh score in a running one."""
        return math.sqrt(1 - self.combine**2)

    def occurring(self, log: Log) -> Flags:
        """(items,) items that take part: of a public domain all."""
        seen = np.zeros(len(self.groups), dtype=bool)
        seen[[item for user in log for item in user]] = True
        return seen | self.is_public

    def share(self, kept: int) -> float:
        """The first weight of a user with this number of items."""
        return 1.0 if self.clip is None else min(1.0, self.clip / math.sqrt(kept))

    def first(self, log: Log) -> Floats:
        """(items,) means of the first scores."""
        sums = np.zeros(len(self.groups))
        for user in log:
            sums[sorted(user)] += self.share(len(user))
        return sums / self.sigmas[1.0][0]

    def later(self, turn: int, log: Log, contested: Flags, norms: Floats) -> Floats:
        """(rows, items) means of the scores of round `turn`, 2 or 3.

        Every user weighs the contested items that it keeps.
        """
        sums = np.zeros(contested.shape)
        all_items = sorted(set().union(*log)) if log else []
        for user in log:
            kept = all_items if self.fault == "weights for items of others" else sorted(user)
            size = np.maximum(contested[:, kept].sum(axis=1), 1)
            sums[:, kept] += contested[:, kept] * np.minimum(1.0, norms / np.sqrt(size))[:, None]
        return sums / self._sigma(turn, norms)[:, None]

    def _sigma(self, turn: int, norms: Floats) -> Floats:
        steady = self.fault == "noise without the norm"
        return np.array([self.sigmas[1.0 if steady else norm][turn - 1] for norm in norms.tolist()])

    def threshold(self, turn: int, norms: Floats) -> Floats:
        """(rows,) thresholds of round `turn`."""
        by_norm = {norm: found[turn - 1] for norm, found in self.thresholds.items()}
        if len(by_norm) == 1 or turn == 1:
            return np.full(len(norms), next(iter(by_norm.values())))
        return np.where(norms == 1.0, by_norm[1.0], by_norm[self.norm])


@dataclass(frozen=True)
class Rows:
    """Outcomes so far, one a row, with everything that the next round needs."""

    scores: Floats
    """(rows, items) running scores."""
    passed: Flags
    """(rows, items) released in the last round."""
    contested: Flags
    """(rows, items) open in the next round."""
    settled: Places
    """(rows, items) 1 or 2, the round that settled a released item; 0 where none did."""
    norms: Floats
    """(rows,) the norm of later rounds."""
    bounds: Floats
    """(rows, bounds) what was open so far: both ends of the band of every group and round."""

    def take(self, rows: Places) -> Rows:
        """These rows."""
        return Rows(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """All rows of these parts."""
        held = ([getattr(part, name) for part in parts] for name in cls.__dataclass_fields__)
        return cls(*map(np.concatenate, held))


def bars(race: Race, scores: Floats, shown: Flags, ranks: Places) -> tuple[Floats, Flags, Places]:
    """The score at a rank among the items shown of each group, written at every item of it.

    Of a public domain with fewer items than places it is the least score there is.

    Returns:
        (rows, items) bars, meaningless where too few are shown; True where enough are; the number
        shown.
    """
    found, enough = np.zeros(scores.shape), np.zeros(scores.shape, dtype=bool)
    number = np.zeros(scores.shape, dtype=np.int64)
    for group in set(race.groups):
        mine = [place for place, one in enumerate(race.groups) if one == group]
        best = -np.sort(-np.where(shown[:, mine], scores[:, mine], -np.inf), axis=1)
        count, rank = shown[:, mine].sum(axis=1), ranks[:, mine[0]]
        if race.is_public:
            rank = np.clip(rank, 1, np.maximum(count, 1))
        at = np.minimum(rank, len(mine)) - 1
        found[:, mine] = np.take_along_axis(best, at[:, None], axis=1)
        enough[:, mine] = (count >= rank)[:, None]
        number[:, mine] = count[:, None]
    return found, enough, number


def _band(
    race: Race, at: int, scores: Floats, ranked: Flags, ranks: Places, least: Floats | float
) -> tuple[Floats, Places, Floats, Floats]:
    """Bars, numbers ranked, and both ends of the band around the bars; its lower end lies above the
    floor where that hides something.
    """
    found, enough, number = bars(race, scores, ranked, ranks)
    bar = np.where(enough, found, least)
    beta, extra = race.bands[at]
    wide = beta * np.maximum(bar, 0) + extra
    low = np.where(enough, bar - wide, -np.inf)
    if not race.is_public and race.fault != "no floor":
        low = np.maximum(low, race.floors[at])
    return bar, number, low, bar + wide


def after_first(race: Race, scores: Floats, occurs: Flags) -> Rows:
    """What the first scores settle, and what they leave open: 27.2 with the top k."""
    low_bar = race.thresholds[1.0][0]
    passed = occurs & (scores > low_bar)
    ranked = passed
    if race.fault == "rank among items that occur":
        ranked = np.broadcast_to(occurs, passed.shape)
    ranks = np.full(scores.shape, race.k)
    bar, number, low, high = _band(race, 0, scores, ranked, ranks, low_bar)
    far = (bar >= race.ahead) & (number >= race.k / 2)
    if race.is_public:
        size = np.array([race.groups.count(group) for group in race.groups])
        far &= bar > ndtri(1 - np.minimum(0.5, race.k / size)) + 1
    if race.fault == "norm by items that occur":
        many = ((scores > race.floors[0]) & occurs).sum(axis=1, keepdims=True) >= race.k
        far = np.repeat(many, len(occurs), axis=1)
        number = np.ones_like(number)
    norms = np.where(_most(race, far, number > 0), race.norm, 1.0)
    settled = np.where(passed & (scores > high), 1, 0)
    bounds = np.column_stack([low, high])
    return Rows(scores, passed, (low < scores) & (scores <= high), settled, norms, bounds)


def _most(race: Race, far: Flags, shown: Flags) -> Flags:
    """(rows,) True if half of the groups that show an item are ahead, or more."""
    one_each = [race.groups.index(group) for group in sorted(set(race.groups))]
    there = shown[:, one_each]
    ahead = (far[:, one_each] & there).sum(axis=1)
    return there.any(axis=1) & (2 * ahead >= there.sum(axis=1))


def after_second(race: Race, rows: Rows, scores: Floats, occurs: Flags) -> Rows:
    """What the second scores settle of the contested items."""
    low_bar = race.threshold(2, rows.norms)[:, None]
    passed = occurs & rows.contested & (rows.passed | (scores > low_bar))
    rows = replace(rows, scores=np.where(rows.contested, scores, rows.scores), passed=passed)
    if race.rounds == 2:
        return rows
    settled = np.zeros(scores.shape, dtype=np.int64)
    for group in set(race.groups):
        mine = [place for place, one in enumerate(race.groups) if one == group]
        settled[:, mine] = (rows.settled[:, mine] == 1).sum(axis=1, keepdims=True)
    ranks = np.maximum(race.k - settled, 1)
    ranked = occurs & rows.contested if race.fault == "third rank among contested items" else passed
    _, _, low, high = _band(race, 1, scores, ranked, ranks, low_bar)
    return replace(
        rows,
        contested=rows.contested & (low < scores) & (scores <= high),
        settled=np.where(passed & (scores > high), 2, rows.settled),
        bounds=np.column_stack([rows.bounds, low, high]),
    )


def of(product: RacingTopK, clip: float | None, groups: tuple[int, ...]) -> Race:
    """The race with the numbers that a mechanism of the library shows."""
    return Race(
        k=product.k,
        combine=product.combine,
        sigmas={norm: product.scales(norm) for norm in product.norms},
        thresholds={norm: product.thresholds(norm) for norm in product.norms},
        floors=(product.floor / product.scales()[0], *product.floors[1:]),
        bands=product.bands,
        norm=product.norm,
        clip=clip,
        groups=groups,
    )


# -- exact laws on grids ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """Ends of the bins that scores are rounded down to, one array for each round and norm.

    A rounded score stands at the lower end of its bin, so that no lone item passes more often than
    a threshold allows. Thresholds and floors are ends of bins. The first bin stands one deviation
    below its end.
    """

    first: Floats
    later: Mapping[float, tuple[Floats, ...]]

    @classmethod
    def over(cls, race: Race, spans: Sequence[tuple[float, float]], sizes: Sequence[int]) -> Grid:
        """About so many bins for the scores of each round, between two ends each."""
        first = _ends([*race.floors[:1], *_finite(race.thresholds[1.0][0])], *spans[0], sizes[0])
        later = {
            norm: tuple(
                _ends([*race.floors[at : at + 1], *_finite(found[at])], *spans[at], sizes[at])
                for at in range(1, race.rounds)
            )
            for norm, found in race.thresholds.items()
        }
        return cls(first, later)


def _finite(number: float) -> list[float]:
    return [number] if math.isfinite(number) else []


def _ends(marks: Sequence[float], low: float, high: float, size: int) -> Floats:
    """Ends of bins: the marks, and evenly spaced ones that keep a distance from them."""
    step = (high - low) / size
    plain = np.linspace(low, high, size).tolist()
    apart = [end for end in plain if all(abs(end - mark) > 0.05 * step for mark in marks)]
    return np.unique(np.array([*apart, *marks]))


def _stand(ends: Floats) -> Floats:
    """(bins,) the score that stands for each bin."""
    return np.append(ends[0] - 1.0, ends + JUST)


def _chances(ends: Floats, means: Floats, deviation: float) -> Floats:
    """(..., bins) chances of a normal score to be in each bin, small ones without cancellation."""
    z = np.concatenate([[-np.inf], ends, [np.inf]]) - means[..., None]
    z /= deviation
    return _difference(z[..., :-1], z[..., 1:])


@dataclass(frozen=True)
class Law:
    """Chances of outcomes, which are whole numbers that stand for all that may be released."""

    outcomes: Places
    chances: Floats
    shown: float
    """The chance that any item is released."""


def _split(chances: Floats, bins: Sequence[Floats]) -> tuple[Places, Floats, Places]:
    """Every combination of a bin for each item.

    Returns the rows they come from, their chances, and (rows, items) bins.

    Args:
        chances: (rows,) of the rows.
        bins: for each item (rows, bins) chances; a column of ones for an item that takes no part.
    """
    rows, kept = np.arange(len(chances)), chances
    seen = np.zeros((len(rows), 0), dtype=np.int64)
    for one in bins:
        mine = one[rows]
        at, place = np.nonzero(mine > 0)
        kept, seen = kept[at] * mine[at, place], np.column_stack([seen[at], place])
        rows = rows[at]
    return rows, kept, seen


_ODD = 2 * np.random.default_rng(61).integers(2**20, 2**61, size=64) + 1


def law(race: Race, log: Log, grid: Grid, heard: Log | None = None) -> Law:
    """The exact law of everything that may be released, of scores that are rounded down to a grid.

    Args:
        race: what is drawn.
        log: the kept items of every user.
        grid: the bins.
        heard: another log that the first round reads, and by which items occur: a fault.
    """
    items, occurs = len(race.groups), race.occurring(log if heard is None else heard)
    means = race.first(log if heard is None else heard)
    absent = np.eye(1, len(grid.first) + 1)
    mine = _chances(grid.first, means, 1.0)
    split = [mine[[item]] if occurs[item] else absent for item in range(items)]
    _, chances, bins = _split(np.ones(1), split)
    rows = after_first(race, _stand(grid.first)[bins], occurs)
    codes = np.where(rows.passed, bins + 1, 0)
    held = bins + 1
    base = len(grid.first) + 2
    for turn in range(2, race.rounds + 1):
        means2 = race.later(turn, log, rows.contested, rows.norms)
        parts = []
        for norm, ends in ((norm, found[turn - 2]) for norm, found in grid.later.items()):
            at = np.flatnonzero(rows.norms == norm)
            if len(at) == 0:
                continue
            here, open_ = rows.take(at), rows.contested[at] & occurs
            center = race.combine * here.scores + race.rest * means2[at]
            mine = _open(_chances(ends, center, race.rest), open_)
            split = [mine[:, item] for item in range(items)]
            from_, kept, seen = _split(chances[at], split)
            here, open_ = here.take(from_), open_[from_]
            scores = np.where(open_, _stand(ends)[seen], here.scores)
            before, now = codes[at][from_], held[at][from_]
            if turn == 2:
                after = after_second(race, here, scores, occurs)
            else:
                bar = race.threshold(3, here.norms)[:, None]
                passed = open_ & (here.passed | (scores > bar))
                after = replace(here, scores=scores, passed=passed)
            now = np.where(open_, now + base * (seen + 1), now)
            parts.append((after, kept, np.where(after.passed, now, before), now))
        rows = Rows.joined([part[0] for part in parts])
        chances = np.concatenate([part[1] for part in parts])
        codes, held = (np.concatenate([part[place] for part in parts]) for place in (2, 3))
        base *= max(len(found[turn - 2]) for found in grid.later.values()) + 2
    # Bounds and norm are released too. In a sound design they follow from the rest.
    said = np.ascontiguousarray(np.round(np.column_stack([rows.norms, rows.bounds]), 6))
    mixed = said.view(np.int64) @ _ODD[: said.shape[1]]
    outcomes, place = np.unique(mixed * 31 + codes @ base ** np.arange(items), return_inverse=True)
    return Law(outcomes, np.bincount(place, chances), float(chances[codes.any(axis=1)].sum()))


def _open(chances: Floats, is_open: Flags) -> Floats:
    """The chances of items that are open, and one bin of chance 1 of those that are not."""
    closed = np.zeros(chances.shape[-1])
    closed[0] = 1.0
    return np.where(is_open[..., None], chances, closed)


def aligned(one: Law, other: Law) -> tuple[Floats, Floats]:
    """Chances of both laws on one list of outcomes."""
    outcomes, place = np.unique(np.concatenate([one.outcomes, other.outcomes]), return_inverse=True)
    p = np.bincount(place[: len(one.outcomes)], one.chances, len(outcomes))
    q = np.bincount(place[len(one.outcomes) :], other.chances, len(outcomes))
    return p, q


def divergences(p: Floats, q: Floats, epsilons: Sequence[float]) -> Floats:
    """(2, epsilons) hockey-stick divergences, in both directions."""
    sides = (p, q), (q, p)
    found = [[np.maximum(a - math.exp(e) * b, 0).sum() for e in epsilons] for a, b in sides]
    return np.array(found)


# -- draws -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """Drawn races: (draws, items) running scores, nan where not contested, and decisions."""

    scores: tuple[Floats, ...]
    released: tuple[Flags, ...]
    settled: Places
    norms: Floats

    def values(self, race: Race) -> Floats:
        """(draws, items) last running scores as means of users' weights, score units."""
        found = np.zeros(self.settled.shape)
        for norm, sigmas in race.sigmas.items():
            parts: list[float] = []
            for turn, sigma in enumerate(sigmas):
                fresh = race.rest if turn else 1.0
                parts = [*(race.combine * part for part in parts), fresh / sigma]
                shown = self.released[turn] & (self.norms == norm)[:, None]
                found = np.where(shown, self.scores[turn] / sum(parts), found)
        return found

    def order(self, groups: Sequence[int], k: int) -> list[tuple[int, ...]]:
        """The list of every draw: the k first of each group, group by group."""
        kind = np.full(self.settled.shape, len(self.scores) + 2)
        key = np.zeros(self.settled.shape)
        *first, last = self.released
        # Last come other items released in the first round, before them those of the second.
        for turn, shown in enumerate(first):
            kind = np.where(shown, 1 + len(self.scores) - turn, kind)
            key = np.where(shown, self.scores[turn], key)
        for turn in range(1, len(self.scores)):
            mine = self.settled == turn
            kind = np.where(mine, turn - len(self.scores) - 2, kind)
            key = np.where(mine, self.scores[turn - 1], key)
        kind, key = np.where(last, 0, kind), np.where(last, self.scores[-1], key)
        best = np.lexsort((-key, kind), axis=1)
        none = len(self.scores) + 2
        lists = []
        for row, found in enumerate(best.tolist()):
            of_group: dict[int, list[int]] = {group: [] for group in sorted(set(groups))}
            for place in found:
                if kind[row, place] != none:
                    of_group[groups[place]].append(place)
            lists.append(tuple(itertools.chain(*(named[:k] for named in of_group.values()))))
        return lists


def draw(race: Race, log: Log, count: int, rng: np.random.Generator) -> Draws:
    """Independent draws of the whole mechanism, with numpy's normals and no grid."""
    shape = count, len(race.groups)

    def fresh(turn: int, rows: Rows) -> Floats:
        return race.later(turn, log, rows.contested, rows.norms) + rng.standard_normal(shape)

    return played(race, race.first(log) + rng.standard_normal(shape), fresh, race.occurring(log))


def played(race: Race, first: Floats, fresh: Callable[[int, Rows], Floats], occurs: Flags) -> Draws:
    """Races from these first scores; later rounds ask for fresh ones."""
    rows = after_first(race, first, occurs)
    scores, released = [first], [rows.passed]
    for turn in range(2, race.rounds + 1):
        new = race.combine * rows.scores + race.rest * fresh(turn, rows)
        now = np.where(rows.contested, new, np.nan)
        if turn == 2:
            rows = after_second(race, rows, np.where(rows.contested, now, rows.scores), occurs)
        else:
            bar = race.threshold(3, rows.norms)[:, None]
            rows = replace(rows, passed=occurs & rows.contested & (rows.passed | (now > bar)))
        scores.append(now)
        released.append(rows.passed)
    return Draws(tuple(scores), tuple(released), rows.settled, rows.norms)


# -- lone items ------------------------------------------------------------------------------------

POINTS = 1201  # of Simpson's rule, a hundred or more in a deviation


def lone_chances(
    race: Race, norm: float, first: Floats, later: Sequence[float], lowered: Sequence[float]
) -> Floats:
    """Chances that an item to which one user alone gives is released, by Simpson's rule.

    Args:
        race: whose thresholds, floors and weight of the running score hold.
        norm: the norm of later rounds.
        first: (n,) means of the first score.
        later: the means of the fresh scores of later rounds.
        lowered: the most that rounding lifts the running score of each round, by which thresholds
            and floors are lower.

    Returns:
        (rounds, n) chances to be released first in each round, the last row an exact chance.
    """
    bars_ = np.array(race.thresholds[norm]) - lowered
    floors = np.array(race.floors) - lowered[: len(race.floors)]
    found = [ndtr(first - bars_[0])]
    at, weight = simpson(floors[0], bars_[0])
    density = normal(at - first[:, None])
    second = race.combine * at + race.rest * later[0]
    found.append((density * weight * ndtr((second - bars_[1]) / race.rest)).sum(axis=1))
    if race.rounds == 3:
        # Given the running score s of the second round, the first one is normal, with mean `given`.
        s, weight = simpson(floors[1], bars_[1])
        center = race.combine * first + race.rest * later[0]
        given = first[:, None] + race.combine * (s - center[:, None])
        between = _difference((floors[0] - given) / race.rest, (bars_[0] - given) / race.rest)
        passing = ndtr((race.combine * s + race.rest * later[1] - bars_[2]) / race.rest)
        found.append((normal(s - center[:, None]) * between * weight * passing).sum(axis=1))
    return np.array(found)


def simpson(low: float, high: float) -> tuple[Floats, Floats]:
    """Points and weights from `low` to `high`; an empty range weighs nothing."""
    high = max(high, low)
    at = np.linspace(low, high, POINTS)
    weight = np.ones(POINTS)
    weight[1:-1:2], weight[2:-1:2] = 4.0, 2.0
    return at, weight * (high - low) / (POINTS - 1) / 3


def normal(z: Floats) -> Floats:
    """The standard normal density."""
    return np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def _difference(low: Floats, high: Floats) -> Floats:
    return np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
