"""Forecasts of a mechanism's result, by its own draws on made-up users with a public profile.

Nothing private is read. Users are made up one by one, because mechanisms that weigh users' items
again depend on the items of each user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, final

import numpy as np
from pydantic import Field

from accounting.frozen import Real
from accounting.numbers import Flags, Floats, Integers
from dpselect.cells import cell
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism, TopOfGroups
from dpselect.mechanisms.weighs_again import WeighsAgain
from dpselect.plan.counts import without_counts
from dpselect.plan.default import Choice
from dpselect.plan.plan import share
from dpselect.plan.profile import Bounding, Groups, Loads, PlanPart, Profile
from dpselect.scores import WEIGHT_UNIT, Domain, Scores, SecondLook
from dpselect.selection import Label
from dpselect.sensitivity import Sensitivity

DRAWS = 80
"""Simulated releases of a forecast, over all profiles that fit."""

# of a user and an item; of more users so many are made up, and each stands for several
_MOST_PAIRS = 1_000_000
_MOST_CELLS = 10_000_000  # of groups and items, which are simulated
_MANY, _FEWER = 100_000, 20  # items of which a draw takes long, and the draws that are then made
_MOST_TIMES = 30  # that items are drawn for a user until they differ
_STEPS = 40  # of the search for what makes an item as popular as its count
# Ranks up to which a log's head is flat where somebody states Zipf's law: none, or these parts of
# 400, or of a tenth of all items if that is less. No public fact tells which (bench_forecast.py).
_FLAT, _PARTS = 400.0, (0.0, 0.5, 1.0)


@final
@dataclass(frozen=True, eq=False, repr=False)
class MadeUpUsers:
    """Distinct pairs of a user and a cell, drawn from a profile and never from a release.

    A cell is an item or, if there are groups, an item in a group: group times `size` plus item.

    Attributes:
        users, cells: (pairs,) numbers of users and cells, in order of cells.
        size: number of items.
        groups: number of groups; 1 without groups.
        each: number of users that one of these stands for.
    """

    users: Integers
    cells: Integers
    size: int
    groups: int = 1
    each: float = 1.0

    @classmethod
    def from_profile(
        cls, profile: Profile, rng: np.random.Generator, groups: Groups | None = None
    ) -> Self:
        """Made-up users with the profile's numbers of items, whose counts match its own on average.

        Args:
            groups: a user is in some of them, larger ones more often, and has as many items in
                each.

        Raises:
            InvalidRequest: the profile does not state the number of users.
        """
        loads = Loads.of_mean(1.0) if profile.loads is None else profile.loads
        total = float(profile.values @ profile.multiplicities)
        # nobody has an item twice
        mean = float(np.minimum(loads.sizes, profile.touched) @ loads.users)
        number = total / mean if profile.users is None else profile.users
        if number < 1:
            raise InvalidRequest("the profile has no users. State how many there are")
        per_user = 1.0 if groups is None else min(groups.per_user, groups.count)
        count = max(1, min(round(number), int(_MOST_PAIRS / mean / per_user)))
        owners, within = np.arange(count), np.zeros(count, dtype=np.int64)
        if groups is not None:
            shares = np.cumsum(groups.weights)
            groups_of_users = _sample(Loads.of_mean(groups.per_user), count, rng)
            owners, within = _draw_pairs(np.minimum(groups_of_users, groups.count), shares, rng)
        # A mean of less than one item says that some users have none.
        sizes, busy = _sample(loads, len(owners), rng), min(1.0, total / (number * mean))
        sizes = (
            np.minimum(sizes, profile.touched)[rng.random(len(owners)) < busy]
            if profile.users
            else sizes
        )
        chances = np.cumsum(np.repeat(_appeal(profile, loads), profile.multiplicities))
        member, item = _draw_pairs(sizes, chances, rng)
        cells = within[member] * profile.size + item
        order = np.argsort(cells, kind="stable")
        return cls(
            owners[member][order],
            cells[order],
            profile.size,
            1 if groups is None else groups.count,
            number / count,
        )

    @cached_property
    def counts(self) -> Floats:
        """Number of users of each cell, (cells,)."""
        return np.asarray(
            np.bincount(self.cells, minlength=self.size * self.groups) * self.each, dtype=np.float64
        )

    def scores(self, choice: Choice, *, is_public: bool, rng: np.random.Generator) -> Scores:
        """Scores of a release with bounded contributions, labeled by cell, with a second pass."""
        users, cells = self._bounded_pairs(choice.max_items_per_user, rng)
        number = self.size * self.groups
        relation, starts = (
            choice.mechanism.sensitivity_bound.relation,
            np.searchsorted(cells, np.arange(number + 1)),
        )
        loads = np.bincount(users, minlength=1).astype(np.float64)
        values = np.bincount(cells, choice.bounding.weight(loads[users]), number) * self.each
        cells_shown = np.arange(number) if is_public else np.flatnonzero(values > 0)
        labels: list[Any] = cells_shown.tolist()
        if choice.cells:
            labels = [cell(place // self.size, place % self.size) for place in labels]
        place_of = dict(zip(labels, cells_shown.tolist(), strict=True))

        def spent(labels: Sequence[Label], weight: Callable[[Floats], Floats]) -> Floats:
            """Return (n,) sums of users' weights of these items, by each user's number of them."""
            at = np.array([place_of[label] for label in labels], dtype=np.int64)
            many = starts[at + 1] - starts[at]
            place = _spans(starts[at], many)
            own = np.bincount(users[place], minlength=len(loads)).astype(np.float64)[users[place]]
            sums = np.bincount(np.repeat(np.arange(len(at)), many), weight(own), len(at))
            return np.asarray(sums * self.each, dtype=np.float64)

        def weigh(labels: Sequence[Label], norm: float) -> Integers:
            weights = spent(labels, lambda own: np.minimum(1.0, norm / np.sqrt(own)))
            return np.floor(weights * WEIGHT_UNIT).astype(np.int64)

        again = Bounding(None, choice.again, choice.norm)
        bound = Sensitivity.of_counts(relation)
        if choice.again is not None:
            bound = Sensitivity.of_clipped(choice.again, choice.norm, relation)

        def score(labels: Sequence[Label]) -> Scores:
            counts = spent(labels, again.weight)
            return Scores(counts, sensitivity=bound, labels=labels)

        domain: Domain = "public" if is_public else "observed"
        scores = Scores(
            values[cells_shown],
            sensitivity=choice.mechanism.sensitivity_bound,
            labels=labels,
            domain=domain,
        )
        return scores.with_second(SecondLook(score, bound, weigh=weigh))

    def _bounded_pairs(
        self, limit: int | None, rng: np.random.Generator
    ) -> tuple[Integers, Integers]:
        """The pairs after at most `limit` of each user are kept."""
        if limit is None:
            return self.users, self.cells
        crowded = np.flatnonzero((np.bincount(self.users) > limit)[self.users])
        order = crowded[np.lexsort((rng.random(len(crowded)), self.users[crowded]))]
        own = self.users[order]
        cut = order[np.arange(len(own)) - np.searchsorted(own, own) >= limit]
        places = np.delete(np.arange(len(self.users)), cut)
        return self.users[places], self.cells[places]


def _spans(starts: Integers, sizes: Integers) -> Integers:
    """Ranges of whole numbers with these starts and sizes."""
    return np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)


def _appeal(profile: Profile, loads: Loads) -> Floats:
    """Appeal (levels,) of an item of each level, so that its expected users equal its count.

    An item of appeal w is among a user's first n distinct ones with a probability of 1 - exp(-t w),
    for the t at which the user is expected to have n.
    """
    members, users = profile.multiplicities.astype(np.float64), loads.users / loads.users.sum()
    total = float(profile.values @ members)
    chances = profile.values / max(total, 1e-300) * loads.mean  # of each user on average
    sizes = np.minimum(loads.sizes, 0.999 * max(1, profile.touched))
    appeal, waits = chances / max(float(chances @ members), 1e-300), sizes
    chances = np.minimum(chances, 1 - 1e-6)
    # in turn: users who have too few wait longer, and what too few have appeals more
    for _ in range(_STEPS):
        waits = waits * sizes / (-np.expm1(-np.multiply.outer(waits, appeal)) @ members)
        appeal = (
            appeal
            * chances
            / np.maximum(-np.expm1(-np.multiply.outer(appeal, waits)) @ users, 1e-300)
        )
    return np.asarray(appeal)


def _sample(loads: Loads, number: int, rng: np.random.Generator) -> Integers:
    """A sample (number,) of users' numbers of items."""
    return np.rint(rng.choice(loads.sizes, number, p=loads.users / loads.users.sum())).astype(
        np.int64
    )


def _draw_pairs(
    sizes: Integers, chances: Floats, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Users and items of (pairs,), in order of items, drawn item by item for each user."""
    items, people, missing = len(chances), len(sizes), sizes.copy()
    pairs = np.empty(0, dtype=np.int64)
    for _ in range(_MOST_TIMES):
        owner = np.repeat(np.arange(people), missing)
        if len(owner) == 0:
            break
        item = np.minimum(
            np.searchsorted(chances, rng.random(len(owner)) * chances[-1], side="right"), items - 1
        )
        # two sorted parts, in one pass
        pairs = np.sort(np.concatenate([pairs, np.sort(item * people + owner)]), kind="stable")
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        missing = sizes - np.bincount(pairs % people, minlength=people)
    return pairs % people, pairs // people


# -- what is expected ------------------------------------------------------------------------------


@final
class Forecast(PlanPart):
    """Expected quality of a release, averaged over profiles that match the description.

    Args:
        recall: expected share of the true top k; with ties at rank k, any of the tied items counts.
        low, high: least and greatest expected recall of one of these profiles.
        all_right: probability that all of the k items are found.
        released: expected number of released items (of each group).
    """

    recall: Real = Field(description="a share of 1")
    low: Real = Field(description="a share of 1")
    high: Real = Field(description="a share of 1")
    all_right: Real = Field(description="a probability")
    released: Real = Field(description="a number >= 0")

    def in_words(self, top: str) -> str:
        """The forecast as a phrase, with `top` as the name of the true items."""
        words = f"{share(self.recall)} of {top}"
        if self.low < self.high:
            words = (
                f"between {share(self.low)} and {share(self.high)} of {top} for data that match"
                f" your description, and {share(self.recall)} on average"
            )
        return f"{words}; {self.released:.3g} items are shown"

    @classmethod
    def average(cls, forecasts: Iterable[Self], weights: Sequence[float] | None = None) -> Self:
        """The mean of forecasts; `low` and `high` are the extremes of their recalls."""
        all_of = list(forecasts)
        recall, right, released = (
            float(np.average([getattr(each, name) for each in all_of], weights=weights))
            for name in ("recall", "all_right", "released")
        )
        low, high = min(each.recall for each in all_of), max(each.recall for each in all_of)
        recall = min(max(recall, low), high)  # which rounding may leave
        return cls(recall=recall, low=low, high=high, all_right=right, released=released)


class GroupForecast(NamedTuple):
    """Expected numbers of items that a release shows of one group.

    Attributes:
        right: number of those that are in the true top k; with ties at rank k, any of the tied
            items is.
        released: number of all of them.
    """

    right: float
    released: float


def fitting(profile: Profile, rng: np.random.Generator) -> Iterator[Profile]:
    """Profiles that match the description.

    Counts are used as they are. Heads of public logs are flatter than Zipf's law by more or less.
    """
    if profile.law is None:
        yield profile
    else:
        flat = min(_FLAT, profile.size / 10)
        yield from (profile.sample_log(part * flat, rng) for part in _PARTS)


@final
@dataclass(frozen=True, eq=False)
class Forecaster:
    """Made-up data with a profile, drawn once, on which any number of mechanisms are tried.

    Attributes:
        profile: public description of the data.
        is_public: True if the items are public; else they are those that users touched.
        groups: the groups with a release each; None for the log as a whole.
        seed: seed of the users and of the draws, which release nothing.
    """

    profile: Profile
    is_public: bool
    groups: Groups | None = None
    seed: int = 0
    _users: dict[float | None, list[MadeUpUsers]] = field(default_factory=dict, repr=False)

    def forecast(self, choice: Choice, k: int, *, draws: int = DRAWS) -> Forecast:
        """Forecast of a choice for the top k of data that are bounded as in the release.

        Args:
            choice: the choice of `dpselect.topk`; its counts are left out.
            k: number of items (of each group).
            draws: number of releases, over all profiles that fit.

        Raises:
            InvalidRequest: the profile has fewer than k items, or does not state the number of
                items per user.
        """
        self.require(k)
        if self.groups is None or choice.cells:
            return Forecast.average(self._try(choice, k, 1.0, draws)[0])
        # One group of each size, since no group looks at another.
        by_size = [
            (count, self._try(choice, k, share, draws)[0])
            for count, share in self._sizes()
            if self.profile.in_group(share).touched
        ]
        if not by_size:
            raise InvalidRequest(
                "the groups have no users. State more users=, or fewer groups="
            ).at("groups")
        counts = [float(count) for count, _ in by_size]
        of_profiles = zip(*(each for _, each in by_size), strict=True)
        return Forecast.average(Forecast.average(sizes, counts) for sizes in of_profiles)

    def forecast_by_group(
        self, choice: Choice, k: int, *, draws: int = DRAWS
    ) -> list[GroupForecast]:
        """Expected numbers of items of every group, or class of `Groups.sizes` without cells.

        Arguments and errors are those of `forecast`.
        """
        self.require(k)
        if self.groups is None or choice.cells:
            return self._try(choice, k, 1.0, draws)[1]
        return [
            self._try(choice, k, share, draws)[1][0]
            if self.profile.in_group(share).touched
            else GroupForecast(0.0, float(k) if self.is_public else 0.0)
            for _, share in self._sizes()
        ]

    def _sizes(self) -> list[tuple[int, float]]:
        """Numbers of groups, and the share of the users whom the bound keeps in each."""
        assert self.groups is not None
        return [(count, share * self.groups.kept_share) for count, share in self.groups.sizes()]

    def require(self, k: int) -> None:
        """Refuse more items than the profile has.

        Raises:
            InvalidRequest: k is larger.
        """
        most = self.profile.size if self.is_public else self.profile.touched
        if self.profile.touched == 0:
            raise InvalidRequest("no item of the profile has a user. State more users=").at("users")
        if most < k:
            raise InvalidRequest(
                f"k={k} items cannot come out of a profile with {most:,} items. Ask for fewer"
            )

    def _try(
        self, choice: Choice, k: int, share: float, draws: int
    ) -> tuple[list[Forecast], list[GroupForecast]]:
        """Forecasts for a group with this share of the users, or for all cells.

        Returns:
            One forecast for each profile that fits, and the numbers of items of each group.
        """
        inner = without_counts(choice.mechanism)
        if (
            choice.cells
            and self.groups is not None
            and self.profile.size * self.groups.count > _MOST_CELLS
        ):
            raise InvalidRequest(
                f"{self.groups.count:,} groups of {self.profile.size:,} items are too many cells to"
                " simulate. State the most popular items, or fewer groups"
            ).at("items")
        mechanism = TopOfGroups(k=k, mechanism=inner) if choice.cells else inner
        run, data = (replace(choice, mechanism=mechanism), list[tuple[Scores, Flags, int]]())
        if (
            run.bounding.idle
            and not choice.cells
            and not isinstance(inner, WeighsAgain)
            and choice.again is None
        ):
            rng = np.random.default_rng([self.seed, 3])
            profile = self.profile if share == 1.0 else self.profile.in_group(share)
            for case in fitting(profile, rng):
                counts = case.dense() if case is profile else _draw_counts(case, rng)
                scores = _made_up_scores(counts, inner, is_public=self.is_public)
                data.append((scores, top_of(counts, case.size, k), case.size))
        elif self.profile.loads is None:
            raise InvalidRequest(
                "the profile does not say how many items users have, which decides what bounding"
                " them takes away. State items_per_user=, 1 if each user has one item"
            ).at("items_per_user")
        else:
            rng = np.random.default_rng([self.seed, 5])
            for users in self.users(None if choice.cells else share):
                data.append(
                    (
                        users.scores(run, is_public=self.is_public, rng=rng),
                        top_of(users.counts, users.size, k),
                        users.size,
                    )
                )
        draws = draws if self.profile.size <= _MANY else min(draws, _FEWER)
        rng, each = np.random.default_rng([self.seed, 4]), max(1, round(draws / len(data)))
        results = [_on(run, k, *case, draws=each, rng=rng) for case in data]
        by_group = np.mean([groups for _, groups in results], axis=0)
        return [whole for whole, _ in results], [
            GroupForecast(*of_group) for of_group in by_group.T.tolist()
        ]

    def users(self, share: float | None = 1.0) -> list[MadeUpUsers]:
        """Made-up users of every matching profile, in a group with this share of the users.

        None is for cells of all groups.
        """
        if share not in self._users:
            rng = np.random.default_rng([self.seed, 3])
            profile = self.profile if share in (None, 1.0) else self.profile.in_group(share or 1.0)
            groups = self.groups if share is None else None
            self._users[share] = [
                MadeUpUsers.from_profile(shape, rng, groups) for shape in fitting(profile, rng)
            ]
        return self._users[share]


def _draw_counts(profile: Profile, rng: np.random.Generator) -> Floats:
    """Counts (m,) of users who have an item by chance each, highest first."""
    assert profile.users is not None, "of a law"
    chances = np.minimum(profile.dense() / profile.users, 1)
    counts = rng.binomial(max(1, round(profile.users)), chances)
    return -np.sort(-counts.astype(np.float64))


def _made_up_scores(counts: Floats, mechanism: Mechanism, *, is_public: bool) -> Scores:
    """Scores without bounds for counts (m,), highest first, labeled by rank."""
    values = counts if is_public else counts[counts > 0]
    domain: Domain = "public" if is_public else "observed"
    return Scores(
        values, sensitivity=mechanism.sensitivity_bound, labels=range(len(values)), domain=domain
    )


def top_of(values: Floats, size: int, k: int, least: float = 0.0) -> Flags:
    """True (cells,) for the k highest values above `least` per group of `size` cells, with ties."""
    table = values.reshape(-1, size)
    k = min(k, size)
    bar = np.partition(table, -k, axis=1)[:, -k]
    return np.asarray((table > least) & (table >= bar[:, None])).ravel()


def judge(released: Flags, right: Flags, size: int, k: int) -> tuple[float, float, float]:
    """Mean recall, share of groups with all items right, and number of released items per group.

    Means are over groups with any user.
    """
    hits, totals = count_groups(released, right, size)
    possible = np.minimum(right.reshape(-1, size).sum(axis=1), k)
    is_possible = possible > 0
    if not is_possible.any():
        return 0.0, 0.0, 0.0
    recalls = hits[is_possible] / possible[is_possible]
    return (
        float(np.minimum(recalls, 1).mean()),
        float((recalls >= 1).mean()),
        float(totals[is_possible].mean()),
    )


def count_groups(released: Flags, right: Flags, size: int) -> Integers:
    """Numbers of right and of all released items of each group, (2, groups)."""
    totals, true = released.reshape(-1, size), right.reshape(-1, size)
    return np.array([(totals & true).sum(axis=1), totals.sum(axis=1)])


def _on(
    choice: Choice,
    k: int,
    scores: Scores,
    right: Flags,
    size: int,
    *,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Forecast, Floats]:
    """Forecast of a choice on these scores, and numbers of items of each group (2, groups)."""
    results, groups = np.zeros((draws, 3)), np.zeros((2, len(right) // size))
    for place in range(draws):
        selection, released = (
            choice.mechanism.select(scores, rng=rng),
            np.zeros(len(right), dtype=np.bool_),
        )
        positions = np.array(selection.labels or (), dtype=np.int64)
        released[
            positions + size * np.array(selection.groups, dtype=np.int64)
            if choice.cells and len(positions)
            else positions[:k]
        ] = True
        results[place] = judge(released, right, size, k)
        groups += count_groups(released, right, size) / draws
    recall, all_right, totals = results.mean(axis=0).tolist()
    return (
        Forecast(recall=recall, low=recall, high=recall, all_right=all_right, released=totals),
        groups,
    )
