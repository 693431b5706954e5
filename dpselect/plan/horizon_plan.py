"""What a horizon will find: the mechanism and releases that are charged one by one, tried on a public or made-up log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal, final

import numpy as np
from numpy.typing import NDArray

from accounting import Budget
from accounting.arguments import Relation
from accounting.risk import Risk
from dpselect.continual import means
from dpselect.continual.continual_top_k import UNIT, ContinualTopK, HorizonClip, Over
from dpselect.continual.history import TESTED, mean_thresholds, single_test
from dpselect.continual.means import Means
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import OneshotTopK, SparseHistogram
from dpselect.mechanisms.base import settings_of
from dpselect.mechanisms.release import public_grid
from dpselect.plan.arrivals import Arrivals, Integers
from dpselect.plan.fit import fitted
from dpselect.plan.plan import Plan, Section
from dpselect.plan.profile import Floats, Profile
from dpselect.plan.request import TopKRequest
from dpselect.sensitivity import Sensitivity

_TRIED = ((1.5, 20), (0.0, 10), (0.0, 50), (1.0, 20), (1.0, 50), (1.5, 10), (1.5, 50), (2.0, 10))
CLIPS: Final = tuple(HorizonClip(exponent=p, cells=n) for p, n in _TRIED)
_MOST_ITEMS = 20  # of a user, in a release that is charged by itself
_ROUGH, _DRAWS = 2, 8  # of every clip, and of what is shown
_ALIKE = 0.01  # of recall: a difference that nobody plans by
_LONGER = (2, 4)  # periods at once, as alternatives


@final
@dataclass(frozen=True)
class HorizonPlan(Plan):
    """What a horizon is expected to find, and what releases charged one by one would.

    Attributes:
        mechanism: to open the horizon with: `dpselect.continual.open`.
        recall: (periods,) the share of the true top k that each period finds, on average over draws of the noise.
        one_by_one: (periods,) the same for releases of the same budget that are charged one by one.
        remembered: (periods,) the same if what was shown stays (`History`).
        clips: the mean recall for each way to bound users that was tried, roughly, best first.
        longer: the mean recall of a horizon whose periods are this many times as long.
        log: what it was tried on, in words.
    """

    mechanism: ContinualTopK
    recall: tuple[float, ...]
    one_by_one: tuple[float, ...]
    remembered: tuple[float, ...]
    clips: tuple[tuple[HorizonClip, float], ...]
    longer: tuple[tuple[int, float], ...]
    log: str

    @property
    def mean(self) -> float:
        """The share of the true top k that a period finds, on average."""
        return float(np.mean(self.recall))

    @property
    def way(self) -> Literal["horizon", "one by one", "either"]:
        """Which way finds more on average: either, where they differ by .01 at most."""
        other = float(np.mean(self.remembered))
        if abs(self.mean - other) <= _ALIKE:
            return "either"
        return "horizon" if self.mean > other else "one by one"

    @property
    def headline(self) -> str:
        """How many periods."""
        return f"A horizon of {self.mechanism.periods} periods, the top {self.mechanism.k} of each"

    def lines(self) -> Iterator[str]:
        """What to do, in words."""
        other, users = float(np.mean(self.remembered)), self.mechanism.users
        drawn = "" if self.mechanism.delta is None else ", with a histogram"
        found = f"a horizon finds {self.mean:.2f} of the true top {self.mechanism.k} on average, releases one by one {other:.2f}"
        yield {
            "horizon": f"Take a horizon: {found}.",
            "either": f"Nothing is gained by a horizon: {found}. It still bounds a user over all periods.",
            "one by one": f"A horizon loses here: {found}. Release one by one (topk --every{drawn}).",
        }[self.way]
        yield f"Bound users by HorizonClip(exponent={users.exponent:g}, cells={users.cells})."
        for periods, mean in self.longer:
            yield f"Periods {periods} times as long find {mean:.2f} each."

    def words(self) -> Iterator[Section]:
        """What each way finds, and what to do."""
        mechanism = self.mechanism
        ways = {"one horizon": self.recall, "one by one": self.one_by_one, "one by one, with a memory": self.remembered}
        yield Section(
            f"Share of the true top {mechanism.k} that is found: on average, and from period 1 to {mechanism.periods}",
            facts=[(name, f"{sum(found) / len(found):.2f}   {_bars(found)}") for name, found in ways.items()],
        )
        yield Section(lines=list(self.lines()))
        count = f"window --window {mechanism.window}" if mechanism.window else mechanism.count
        start = f"dpselect continual start --k {mechanism.k} --periods {mechanism.periods} --count {count}"
        bounds = f"--exponent {mechanism.users.exponent:g} --cells {mechanism.users.cells}"
        risk = Risk.of(mechanism.curve).in_words(mechanism.relation)
        yield Section(facts=[("risk", risk), ("shape", self.log), ("next", f"{start} {bounds} ...")])

    def rows(self) -> Iterator[Section]:
        """Nothing more."""
        yield from ()

    def as_data(self) -> dict[str, Any]:
        """What each way finds, the mechanism and its risk."""
        return {
            "way": self.way,
            "in_words": list(self.lines()),
            "mechanism": self.mechanism.model_dump(mode="json"),
            "risk": Risk.of(self.mechanism.curve).as_data(self.mechanism.relation),
            "recall": {"horizon": self.recall, "one_by_one": self.one_by_one, "one_by_one_remembered": self.remembered},
            "clips": [{"exponent": users.exponent, "cells": users.cells, "recall": mean} for users, mean in self.clips],
            "longer_periods": [{"periods_at_once": periods, "recall": mean} for periods, mean in self.longer],
            "shape": self.log,
        }


def _bars(shares: tuple[float, ...]) -> str:
    """One bar for each period, or for each of forty stretches of them."""
    step = -(-len(shares) // 40)
    means = [sum(part) / len(part) for part in (shares[at : at + step] for at in range(0, len(shares), step))]
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * mean))] for mean in means)


def plan_horizon(
    budget: Budget,
    k: int,
    profile: Profile,
    *,
    count: Over = "period",
    window: int | None = None,
    unknown: bool = True,
    relation: Relation = "add_remove",
    clips: Sequence[HorizonClip] = CLIPS,
    seed: int = 0,
) -> HorizonPlan:
    """Choose how users are bounded over a horizon, and say what it finds; nothing private is looked at.

    The log is counted as the horizon will count it, and noise of the mechanism's own law is added (simulated, in floats). True
    tops are those of distinct users, any item that is tied at rank k counts as right.

    Args:
        budget: of the whole horizon.
        k: how many items each period releases.
        profile: of a log like the one to come, with events over as many periods: `Profile.of_log(..., time=, periods=)`, or
            `arriving(periods)` of any other profile.
        count, window, relation: as for `ContinualTopK`.
        unknown: whether items are read off the log; False for a public catalogue of all its items.
        clips: the ways to bound users that are tried.
        seed: of the simulation.

    Raises:
        CalibrationError: the budget pays for no amount of noise.
        InvalidMechanism, InvalidRequest: a setting is refused.
    """
    arrivals = getattr(profile, "arrivals", None)
    if not isinstance(profile, Profile) or arrivals is None:
        raise InvalidRequest(
            "profile must be a dpselect.Profile that says when users come: Profile.of_log(..., time=, periods=), or "
            "profile.arriving(periods) for one that is made up"
        )
    if not clips:
        raise InvalidRequest("clips is empty: name a HorizonClip, or leave it out")

    def made(periods: int, users: HorizonClip, window: int | None) -> ContinualTopK:
        settings: Any = {"k": k, "periods": periods, "count": count, "window": window, "users": users, "relation": relation}
        return ContinualTopK.fitted(budget, unknown=unknown, **settings)

    log, first = _Log.of(arrivals, k, count, window), made(arrivals.number, clips[0], window)
    found: list[tuple[float, HorizonClip]] = []
    for users in clips:  # the noise does not depend on them
        tried = ContinualTopK.model_validate({**settings_of(first), "users": users})
        found.append((float(_simulated(tried, log, draws=_ROUGH, seed=seed).mean()), users))
    found.sort(key=lambda one: -one[0])
    chosen = first if found[0][1] == first.users else made(arrivals.number, found[0][1], window)
    longer = []
    for periods in _LONGER if len(clips) > 1 else ():
        if periods < arrivals.number and (window is None or window % periods == 0):
            merged, of_these = arrivals.merged(periods), None if window is None else window // periods
            other = made(merged.number, chosen.users, of_these)
            shares = _simulated(other, _Log.of(merged, k, count, of_these), draws=_ROUGH, seed=seed)
            longer.append((periods, float(shares.mean())))
    alone = _one_by_one(budget, log, unknown=unknown, relation=relation, draws=_DRAWS, seed=seed)
    return HorizonPlan(
        mechanism=chosen,
        recall=tuple(_simulated(chosen, log, draws=_DRAWS, seed=seed + 1).tolist()),
        one_by_one=tuple(alone[0].tolist()),
        remembered=tuple(alone[1].tolist()),
        clips=tuple((users, mean) for mean, users in found),
        longer=tuple(longer),
        log=profile.description,
    )


@final
@dataclass(frozen=True)
class _Log:
    """Distinct (user, item) pairs of a log.

    Attributes:
        by_period: which pairs each period has.
        seen: which pairs each period's count is of.
        domain: how many items there are.
        right: of each period the items of the true top k, those that are tied at rank k included.
    """

    users: Integers
    items: Integers
    by_period: list[Integers]
    seen: list[Integers]
    domain: int
    k: int
    right: list[NDArray[np.bool_]]

    @classmethod
    def of(cls, log: Arrivals, k: int, count: Over, window: int | None) -> _Log:
        domain = int(log.items.max(initial=0)) + 1
        codes, place = np.unique(log.users * domain + log.items, return_inverse=True)
        period, pair = np.divmod(np.unique(log.periods * len(codes) + place), len(codes))
        ends = np.searchsorted(period, np.arange(1, log.number + 2))
        by_period = [pair[start:end] for start, end in pairwise(ends)]
        last, seen, right = np.zeros(len(codes), dtype=np.int64), list[Integers](), list[NDArray[np.bool_]]()
        for at, pairs in enumerate(by_period, start=1):
            last[pairs] = at
            since = {"period": at, "running": 1, "window": at - (window or 1) + 1}[count]
            seen.append(np.flatnonzero(last >= max(since, 1)))
            counts = np.bincount(codes[seen[-1]] % domain, minlength=domain)
            size = min(k, int((counts > 0).sum()))
            right.append(counts >= max(1, np.partition(counts, -size)[-size] if size else 1))
        return cls(codes // domain, codes % domain, by_period, seen, domain, k, right)

    def recall(self, at: int, scores: Floats, shown: NDArray[np.bool_]) -> float:
        """The share of a period's true top k among the k best of what is shown."""
        found, right = np.flatnonzero(shown), self.right[at]
        best = found[np.argsort(-scores[found], kind="stable")[: self.k]]
        return float(right[best].sum() / max(1, min(self.k, int(right.sum()))))

    def weights(self, mechanism: ContinualTopK, rng: np.random.Generator) -> Floats:
        """(periods, items) what each period adds to the counts, in weights: `State.take` without its tables."""
        users = int(self.users.max(initial=0)) + 1
        used, counted_at = np.zeros(users, dtype=np.int16), np.full(len(self.users), -mechanism.periods - 1)
        added = np.zeros((mechanism.periods, self.domain))

        def coins(cells: Integers) -> NDArray[np.uint64]:
            return rng.integers(0, 2**64, (2, len(cells)), dtype=np.uint64)

        for at, cells in enumerate(self.by_period, start=1):
            if mechanism.count != "period":
                cells = cells[counted_at[cells] <= at - (mechanism.window or at + mechanism.periods)]
            kept, weights = mechanism.users.counted(self.users[cells], used, coins)
            cells = cells[kept]
            used += np.bincount(self.users[cells], minlength=users).astype(used.dtype)
            counted_at[cells] = at
            added[at - 1] = np.bincount(self.items[cells], weights / UNIT, self.domain)
        return added

    def clipped(self, at: int, rng: np.random.Generator) -> Floats:
        """(items,) counts of a period's pairs, of each user at most this many, scaled to a norm of 1."""
        seen = self.seen[at]
        order = seen[np.lexsort((rng.random(len(seen)), self.users[seen]))]
        owner = self.users[order]
        kept = order[np.arange(len(owner)) - np.searchsorted(owner, owner) < _MOST_ITEMS]
        owner = self.users[kept]
        return np.asarray(np.bincount(self.items[kept], 1 / np.sqrt(np.bincount(owner)[owner]), self.domain), dtype=np.float64)


def _simulated(mechanism: ContinualTopK, log: _Log, *, draws: int, seed: int) -> Floats:
    """(periods,) the share of the true top k that each period of a horizon finds, a mean over draws."""
    from scipy.signal import lfilter  # slow to import, and every list of mechanisms imports this module

    rng, found = np.random.default_rng(seed), np.zeros(mechanism.periods)
    grid, plan = public_grid(mechanism.scale), mechanism.strategy
    for _ in range(draws):
        added = log.weights(mechanism, rng)
        measured = lfilter(plan.measured / UNIT, [1.0], added, axis=0) + mechanism.scale * rng.standard_normal(added.shape)
        measured = np.rint(measured / grid)
        scores = lfilter(plan.estimator, [1.0], measured, axis=0) * grid
        shown = np.ones(added.shape, dtype=np.bool_)
        if mechanism.delta is not None:
            exists = np.logical_or.accumulate(added > 0, axis=0)
            passed = (scores > mechanism.thresholds()[:, None]) & (added > 0 if mechanism.count == "period" else exists)
            if (bars := mechanism.total_thresholds()) is not None:
                passed |= exists & (lfilter(plan.totals, [1.0], measured, axis=0) * grid > bars[:, None])
            shown = np.logical_or.accumulate(passed, axis=0)
        for at, items in enumerate(map(np.flatnonzero, shown)):
            order = scores[at].copy()
            if len(items):
                sums = means.columns(mechanism, at + 1) @ measured[: at + 1, items]
                order[items] = means.order_by(mechanism, at + 1, scores[at, items], sums)
            found[at] += log.recall(at, order, shown[at]) / draws
    return found


def _one_by_one(budget: Budget, log: _Log, *, unknown: bool, relation: Relation, draws: int, seed: int) -> tuple[Floats, Floats]:
    """(periods,) shares that releases find which are charged one by one, each on counts clipped to a norm of 1; and the same with
    a `History`."""
    rng, many = np.random.default_rng(seed), len(log.seen)
    request = TopKRequest(
        k=log.k,
        sensitivity=Sensitivity.of_clipped(1.0, relation=relation, items_per_user=_MOST_ITEMS),
        releases=many,
        candidates=None if unknown else log.domain,
        noise=None if unknown else "gaussian",
    )
    mechanism: Any = fitted((SparseHistogram if unknown else OneshotTopK).__name__, budget, request)
    single = single_test(mechanism).threshold if unknown else 0.0
    averages, known, there = [Means(log.k, log.domain) for _ in range(draws)], *np.zeros((2, draws, log.domain), dtype=np.bool_)
    alone, remembered = np.zeros((2, many))
    for at in range(many):
        bars = np.array(mean_thresholds(mechanism, at + 1, many))[:, None] if unknown else np.inf
        for draw, average in enumerate(averages):
            x = log.clipped(at, rng)
            noisy = x + mechanism.scale * rng.standard_normal(log.domain)
            shown = (x > 0) & (noisy > mechanism.threshold) if unknown else np.ones(log.domain, dtype=np.bool_)
            alone[at] += log.recall(at, noisy, shown) / draws
            average.add(noisy)
            there[draw] |= x > 0
            known[draw] |= (x > 0) & (noisy > single) if unknown else shown
            known[draw] |= there[draw] & (average.values[TESTED] > bars).any(axis=0)
            noisy[known[draw]] = average.order(mechanism.scale**2, known[draw])
            remembered[at] += log.recall(at, noisy, known[draw]) / draws
    return alone, remembered
