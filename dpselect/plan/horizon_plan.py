"""`HorizonPlan`, the forecast of a series with one budget over all periods, without data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from accounting import Budget
from accounting.numbers import Flags, Floats, Integers
from accounting.risk import Risk
from accounting.sections import Section
from accounting.wording import format_number
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import means_over_time as means
from dpselect.mechanisms.continual_top_k import UNIT, ContinualTopK
from dpselect.mechanisms.release import public_grid
from dpselect.plan.forecast import (
    Forecast,
    Forecaster,
    GroupForecast,
    MadeUpUsers,
    count_groups,
    judge,
    top_of,
)
from dpselect.plan.plan import Plan, share
from dpselect.plan.profile import Groups, Profile

_DRAWS = 2  # of the noise, on each profile that fits
_MOST_COUNTS = 10_000_000  # of cells in periods, which are simulated at once


@final
@dataclass(frozen=True)
class HorizonPlan(Plan):
    """The forecast of a series with one budget, as `dpselect.continual.run` would run it.

    Attributes:
        budget: budget of the whole series.
        mechanism: mechanism to open the series with, by `dpselect.continual.open`.
        expected: forecast of a period, on average over periods.
        by_period: (periods,) expected recall of each period.
        by_group: expected numbers of items of each group, on average over periods.
        profile: the profile of the simulation, in words.
        groups: groups with a release each; None for the log as a whole.
        payer: the dataset of a ledger that will be charged, in words; "" without a ledger.
    """

    budget: Budget
    mechanism: ContinualTopK
    expected: Forecast
    by_period: tuple[float, ...]
    by_group: tuple[GroupForecast, ...]
    profile: str
    groups: Groups | None = None
    payer: str = ""

    @property
    def headline(self) -> str:
        mechanism = self.mechanism
        words = f"{mechanism.periods} periods of one budget, the top {mechanism.k} of each"
        return words + ("" if self.groups is None else f", of each of {self.groups.count:,} groups")

    def sections(self) -> Iterator[Section]:
        """The quality of each period, and the cost."""
        expected, mechanism = self.expected, self.mechanism
        limit, delta = map(format_number, (self.budget.limit, self.budget.delta))
        yield Section(
            self.headline,
            facts=[
                ("use", f"ContinualTopK with gaussian noise of scale {mechanism.scale:.4g}"),
                (
                    "expect",
                    f"{expected.in_words(f'the top {mechanism.k:,}')}, on average over periods",
                ),
                (
                    "periods",
                    (
                        f"{_bars(self.by_period)} {share(self.by_period[0])} in the first,"
                        f" {share(self.by_period[-1])} in the last"
                    ),
                ),
                ("cost", f"epsilon {limit} at delta {delta} for all periods together"),
                ("risk", Risk.from_curve(mechanism.curve).in_words(mechanism.relation)),
                *([("ledger", self.payer)] if self.payer else []),
                ("profile", f"{self.profile}, spread evenly over all periods"),
            ],
        )

    def as_data(self) -> dict[str, Any]:
        """The mechanism, its risk and the forecast."""
        return {
            "mechanism": self.mechanism.model_dump(mode="json"),
            "risk": Risk.from_curve(self.mechanism.curve).as_data(self.mechanism.relation),
            "expected": self.expected.model_dump(mode="json"),
            "by_period": self.by_period,
            "profile": self.profile,
        }


def _bars(shares: tuple[float, ...]) -> str:
    """One bar for each period, or for each of forty runs of periods."""
    step = -(-len(shares) // 40)
    averages = [
        sum(part) / len(part)
        for part in (shares[start : start + step] for start in range(0, len(shares), step))
    ]
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * average))] for average in averages)


def plan_horizon(
    budget: Budget,
    mechanism: ContinualTopK,
    profile: Profile,
    *,
    groups: Groups | None = None,
    payer: str = "",
    seed: int = 0,
) -> HorizonPlan:
    """Forecast a series for data with a profile. Nothing private is read.

    Users have the profile's items in all periods together, each item in a period by chance. They
    are counted as the series will count them, and noise of the mechanism's own distribution is
    added (simulated, in floats).

    Args:
        budget: budget of the whole series.
        mechanism: mechanism fitted to the budget.
        profile: description of the data of all periods.
        groups: groups with a release each; None for the log as a whole.
        payer: the dataset that will be charged, in words.
        seed: seed of the simulation.

    Raises:
        InvalidRequest: the profile has fewer than k items, or too many to simulate.
    """
    is_public = mechanism.delta is None
    forecaster = Forecaster(profile, is_public, groups, seed)
    forecaster.require(mechanism.k)
    cells = profile.size * (1 if groups is None else groups.count)
    if cells * mechanism.periods > _MOST_COUNTS:
        raise InvalidRequest(
            f"items={profile.size:,} in {mechanism.periods:,} periods are too many to simulate."
            " State the most popular ones"
        ).at("items")
    rng, results, by_draw = np.random.default_rng([seed, 6]), list[Floats](), list[Floats]()
    for users in forecaster.users(None):
        log = _Log.from_users(users, mechanism, rng)
        series = [log.series(mechanism, rng) for _ in range(_DRAWS)]
        results.append(np.mean([means for means, _ in series], axis=0))
        by_draw += [groups for _, groups in series]
    by_group = tuple(GroupForecast(*of_group) for of_group in np.mean(by_draw, axis=0).T.tolist())
    means_of = np.array(results)  # (profiles, 3, periods)
    expected = Forecast.average(
        Forecast(recall=recall, low=recall, high=recall, all_right=right, released=released)
        for recall, right, released in means_of.mean(axis=2).tolist()
    )
    by_period = tuple(means_of[:, 0].mean(axis=0).tolist())
    words = profile.description
    return HorizonPlan(budget, mechanism, expected, by_period, by_group, words, groups, payer)


@final
@dataclass(frozen=True, eq=False)
class _Log:
    """Made-up pairs of a user and a cell in periods.

    Attributes:
        by_period: (pairs,) positions of the pairs of each period.
        right: (periods, cells) True for the true top k of each group, ties at rank k included.
    """

    made: MadeUpUsers
    by_period: list[Integers]
    right: Flags

    @classmethod
    def from_users(
        cls, users: MadeUpUsers, mechanism: ContinualTopK, rng: np.random.Generator
    ) -> _Log:
        when = rng.integers(0, mechanism.periods, len(users.users))
        order = np.argsort(when, kind="stable")
        by_period = np.split(order, np.searchsorted(when[order], np.arange(1, mechanism.periods)))
        counts = np.array(
            [
                np.bincount(users.cells[pairs], minlength=users.size * users.groups)
                for pairs in by_period
            ]
        )
        totals = _sum_periods(mechanism, counts.astype(np.float64))
        return cls(
            users, by_period, np.array([top_of(each, users.size, mechanism.k) for each in totals])
        )

    def weights(self, mechanism: ContinualTopK, rng: np.random.Generator) -> Floats:
        """Weights (periods, cells) that each period adds to the counts, as by `State.take`."""
        users, number = self.made, self.made.size * self.made.groups
        used = np.zeros(int(users.users.max(initial=0)) + 1, dtype=np.int16)
        added = np.zeros((mechanism.periods, number))

        def coins(pairs: Integers) -> NDArray[np.uint64]:
            return rng.integers(0, 2**64, (2, len(pairs)), dtype=np.uint64)

        for period, pairs in enumerate(self.by_period):
            cells, weights = mechanism.users.count(users.users[pairs], used, coins)
            counted = pairs[cells]
            used += np.bincount(users.users[counted], minlength=len(used)).astype(used.dtype)
            added[period] = users.each * np.bincount(users.cells[counted], weights / UNIT, number)
        return added

    def series(self, mechanism: ContinualTopK, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """A simulated series.

        Returns:
            Means over groups of a period's recall, share all right, and releases, (3, periods); and
            means over periods of a group's right and released items, (2, groups).
        """
        # slow to import, and every list of mechanisms imports this module
        from scipy.signal import lfilter

        users, plan, grid = self.made, mechanism.strategy, public_grid(mechanism.scale)
        added = self.weights(mechanism, rng)
        measured = lfilter(
            plan.measured / UNIT, [1.0], added, axis=0
        ) + mechanism.scale * rng.standard_normal(added.shape)
        measured = np.rint(measured / grid)
        scores = lfilter(plan.estimator, [1.0], measured, axis=0) * grid
        is_shown = np.ones(added.shape, dtype=np.bool_)
        if mechanism.delta is not None:
            exists = np.logical_or.accumulate(added > 0, axis=0)
            passed = (scores > mechanism.thresholds()[:, None]) & (
                added > 0 if mechanism.count == "period" else exists
            )
            if (bars := mechanism.total_thresholds()) is not None:
                passed |= exists & (
                    lfilter(plan.totals, [1.0], measured, axis=0) * grid > bars[:, None]
                )
            is_shown = np.logical_or.accumulate(passed, axis=0)
        results, groups = np.zeros((3, mechanism.periods)), np.zeros((2, users.groups))
        for period, items in enumerate(map(np.flatnonzero, is_shown)):
            order = np.full(added.shape[1], -np.inf)
            if len(items):
                sums = means.columns(mechanism, period + 1) @ measured[: period + 1, items]
                order[items] = means.order_by(
                    mechanism, period + 1, scores[period, items], sums, users.groups
                )
            released = top_of(order, users.size, mechanism.k, least=-np.inf)
            results[:, period] = judge(released, self.right[period], users.size, mechanism.k)
            groups += count_groups(released, self.right[period], users.size) / mechanism.periods
        return results, groups


def _sum_periods(mechanism: ContinualTopK, counts: Floats) -> Floats:
    """Counts (periods, cells) of all periods that each count adds up."""
    totals = np.cumsum(counts, axis=0)
    if mechanism.count == "running":
        return totals
    width = mechanism.window or 1
    return totals - np.concatenate([np.zeros_like(totals[:width]), totals[:-width]])
