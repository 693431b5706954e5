"""`forecast`: what a mechanism finds among made-up users who look like a profile, by its own draws.

Nothing private is looked at. Users are made up one by one, since mechanisms that weigh users' items again depend on who has what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from dpselect.errors import InvalidRequest
from dpselect.plan.counts import without_counts
from dpselect.plan.default import Choice
from dpselect.plan.profile import Bounding, Floats, Indices, Loads, Profile
from dpselect.scores import WEIGHT_UNIT, Domain, Scores, SecondLook
from dpselect.selection import Label
from dpselect.sensitivity import Sensitivity

_MOST_PAIRS = 1_000_000  # of a user and an item; of more users so many are made up, and each stands for several
_MOST_TIMES = 30  # that items are drawn for a user until they differ
_STEPS = 40  # of the search for what makes an item as popular as its count
# What logs look like of which somebody states Zipf's law and its numbers: counts to these powers, since people guess an exponent
# of about 1, and the laws of logs have .5 to .8; or a head that is flat for half a rank for each item of a user, and for _SINGLE
# more, since nobody touches every popular item.
_POWERS, _HEAD, _SINGLE = (0.55, 0.65, 0.75), 0.5, 4.0


@final
@dataclass(frozen=True, eq=False, repr=False)
class MadeUpUsers:
    """Distinct pairs of a user and an item, drawn from a profile: never those of a release.

    Attributes:
        users, items: (pairs,) by number, in order of items.
        size: how many items there are.
        each: for how many users one of these stands.
    """

    users: Indices
    items: Indices
    size: int
    each: float = 1.0

    @classmethod
    def of(cls, profile: Profile, rng: np.random.Generator) -> Self:
        """Users with as many items as the profile says, who prefer popular ones so far that counts are its own on average.

        Raises:
            InvalidRequest: the profile does not say how many users there are.
        """
        loads = Loads.of_mean(1.0) if profile.loads is None else profile.loads
        total = float(profile.values @ profile.multiplicities)
        number = total / loads.mean if profile.users is None else profile.users
        if number < 1:
            raise InvalidRequest("the profile has no users: state how many there are")
        made = max(1, min(round(number), int(_MOST_PAIRS / loads.mean)))
        # A mean of less than one item says that some users have none.
        sizes = np.rint(rng.choice(loads.sizes, made, p=loads.users / loads.users.sum())).astype(np.int64)
        busy = min(1.0, total / (number * loads.mean))
        sizes = np.minimum(sizes, profile.touched)[rng.random(made) < busy] if profile.users else sizes
        chances = np.cumsum(np.repeat(_appeal(profile, loads), profile.multiplicities))
        return cls(*_drawn(sizes, chances, rng), profile.size, number / made)

    @cached_property
    def counts(self) -> Floats:
        """(items,) how many users have each."""
        return np.asarray(np.bincount(self.items, minlength=self.size) * self.each, dtype=np.float64)

    def right(self, k: int) -> NDArray[np.bool_]:
        """(items,) whether an item is one of the top k; with ties at rank k, any of them."""
        return np.asarray((self.counts > 0) & (self.counts >= np.sort(self.counts)[-k]))

    def scores(self, choice: Choice, *, known: bool, rng: np.random.Generator) -> Scores:
        """What a release sees once contributions are bounded, labeled by the items' numbers, with a second look at users."""
        users, items = self._kept(choice.max_items_per_user, rng)
        relation, starts = choice.mechanism.covers.relation, np.searchsorted(items, np.arange(self.size + 1))
        loads = np.bincount(users, minlength=1).astype(np.float64)
        values = np.bincount(items, choice.bounding.weight(loads[users]), self.size) * self.each
        shown = np.arange(self.size) if known else np.flatnonzero(values > 0)

        def spent(labels: Sequence[Label], numbers: Floats, weight: Callable[[Floats, Floats], Any]) -> Floats:
            """(n,) sums of what users give these items: from numbers of pairs, and the sum of their squares over each user."""
            at = np.array([int(label) for label in labels], dtype=np.int64)
            many = starts[at + 1] - starts[at]
            place, own = _spans(starts[at], many), np.repeat(numbers, many)
            squares = np.asarray(np.bincount(users[place], own**2, len(loads)), dtype=np.float64)[users[place]]
            sums = np.bincount(np.repeat(np.arange(len(at)), many), weight(own, squares), len(at))
            return np.asarray(sums * self.each, dtype=np.float64)

        def weigh(labels: Sequence[Label], numbers: Indices, norm: float) -> Indices:
            relative = numbers.astype(np.float64)
            found = spent(labels, relative, lambda own, squares: np.minimum(1.0, norm * own / np.sqrt(squares)))
            return np.floor(found * WEIGHT_UNIT).astype(np.int64)

        again = Bounding(None, choice.again, choice.norm)
        bound = Sensitivity.of_counts(relation)
        if choice.again is not None:
            bound = Sensitivity.of_clipped(choice.again, choice.norm, relation)

        def score(labels: Sequence[Label]) -> Scores:
            found = spent(labels, np.ones(len(labels)), lambda _, many: again.weight(many))
            return Scores(found, sensitivity=bound, labels=labels)

        domain: Domain = "public" if known else "observed"
        found = Scores(values[shown], sensitivity=choice.mechanism.covers, labels=shown.tolist(), domain=domain)
        return found.with_second(SecondLook(score, bound, weigh=weigh))

    def _kept(self, limit: int | None, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """The pairs of which at most so many are left of each user."""
        if limit is None:
            return self.users, self.items
        many = np.flatnonzero((np.bincount(self.users) > limit)[self.users])
        order = many[np.lexsort((rng.random(len(many)), self.users[many]))]
        own = self.users[order]
        cut = order[np.arange(len(own)) - np.searchsorted(own, own) >= limit]
        kept = np.delete(np.arange(len(self.users)), cut)
        return self.users[kept], self.items[kept]


def _spans(starts: Indices, sizes: Indices) -> Indices:
    """So many whole numbers from each start."""
    return np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)


def _appeal(profile: Profile, loads: Loads) -> Floats:
    """(levels,) how likely the next item of a user is one of each level, so that as many users have it as its count says.

    An item of appeal w is among a user's first n distinct ones with a chance of 1 - exp(-t w), for the t at which the user is
    expected to have n.
    """
    members, users = profile.multiplicities.astype(np.float64), loads.users / loads.users.sum()
    total = float(profile.values @ members)
    wanted = profile.values / max(total, 1e-300) * loads.mean  # of each user on average
    sizes = np.minimum(loads.sizes, 0.999 * max(1, profile.touched))
    appeal, waits = wanted / max(float(wanted @ members), 1e-300), sizes
    wanted = np.minimum(wanted, 1 - 1e-6)
    for _ in range(_STEPS):  # in turn: users who have too few wait longer, and what too few have appeals more
        waits = waits * sizes / (-np.expm1(-np.multiply.outer(waits, appeal)) @ members)
        appeal = appeal * wanted / np.maximum(-np.expm1(-np.multiply.outer(appeal, waits)) @ users, 1e-300)
    return np.asarray(appeal)


def _drawn(sizes: Indices, chances: Floats, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """(pairs,) users and items in order of items: for each user so many distinct items, the next one always by its chance."""
    items, people, left = len(chances), len(sizes), sizes.copy()
    held = np.empty(0, dtype=np.int64)
    for _ in range(_MOST_TIMES):
        owner = np.repeat(np.arange(people), left)
        if len(owner) == 0:
            break
        item = np.minimum(np.searchsorted(chances, rng.random(len(owner)) * chances[-1], side="right"), items - 1)
        held = np.sort(np.concatenate([held, np.sort(item * people + owner)]), kind="stable")  # two sorted parts, in one pass
        held = held[np.diff(held, prepend=-1) > 0]
        left = sizes - np.bincount(held % people, minlength=people)
    return held % people, held // people


@final
@dataclass(frozen=True)
class Forecast:
    """What a release is expected to find, on average over profiles that fit what is stated.

    Attributes:
        recall: share of the top k.
        low, high: the least and the greatest recall of one of these profiles.
        all_right: chance that all of the k items are there and right.
        released: how many items are released.
    """

    recall: float
    low: float
    high: float
    all_right: float
    released: float

    @classmethod
    def average(cls, found: Iterable[Self]) -> Self:
        """Over profiles, each as likely."""
        all_of = list(found)
        recall, right, released = (
            float(np.mean([getattr(one, name) for one in all_of])) for name in ("recall", "all_right", "released")
        )
        return cls(recall, min(one.low for one in all_of), max(one.high for one in all_of), right, released)


def fitting(profile: Profile, rng: np.random.Generator) -> Iterator[Profile]:
    """Profiles that fit what is stated: counts as they are; of a smooth curve, the laws of logs around which counts scatter."""
    if profile.law == "counts":
        yield profile
    else:
        width = _SINGLE + (1.0 if profile.loads is None else profile.loads.mean)
        yield from (profile.tempered(power).uneven(rng) for power in _POWERS)
        yield profile.flattened(_HEAD * width).uneven(rng)


def forecast(choice: Choice, profile: Profile, k: int, *, known: bool, draws: int = 20, seed: int = 0) -> Forecast:
    """What a choice finds of the top k of made-up users, whose contributions are bounded as the release bounds them.

    Args:
        choice: of one release of the log as a whole; its counts are left out.
        known: whether the items are public; else they are those that users touched.
        draws: releases of each profile that fits.
        seed: of the users and the draws; nothing is released.

    Raises:
        InvalidRequest: the profile says too little to make up users, or has fewer than k items.
    """
    rng = np.random.default_rng([seed, 3])
    laws = list(fitting(profile, rng))
    if (most := min(one.size if known else one.touched for one in laws)) < k:
        raise InvalidRequest(f"k={k} items cannot come out of a profile with {most:,} items: ask for fewer")
    run = replace(choice, mechanism=without_counts(choice.mechanism))
    return Forecast.average(_on(MadeUpUsers.of(one, rng), run, k, known=known, draws=draws, rng=rng) for one in laws)


def _on(made: MadeUpUsers, choice: Choice, k: int, *, known: bool, draws: int, rng: np.random.Generator) -> Forecast:
    """What it finds among these users."""
    scores, right = made.scores(choice, known=known, rng=rng), made.right(k)
    found, shown = np.zeros(draws), np.zeros(draws)
    for place in range(draws):
        labels = np.array(choice.mechanism.select(scores, rng=rng).labels or (), dtype=np.int64)[:k]
        found[place], shown[place] = right[labels].sum(), len(labels)
    recall = float(found.mean()) / k
    return Forecast(recall, recall, recall, float((found == k).mean()), float(shown.mean()))
