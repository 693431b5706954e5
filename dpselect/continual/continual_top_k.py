"""The top k of a log as it grows, at the end of every period of a horizon, for one price."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final, Literal, NoReturn, Self, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from accounting import Approximate, Budget, Curve, GaussianDP, Relation
from accounting.frozen import Count, Probability, Real
from dpselect.choose.calibration import calibrated
from dpselect.continual.strategy import HorizonClip, Over, Strategy, strategy, thresholds
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import SCALE, Mechanism, Traits
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.release import public_grid
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.sensitivity import Sensitivity, sqrt_up

# Where C x is exact in 64-bit integers and the grid of values no finer than its units of 2^-40.
_LEAST, _MOST = 2.0**-10, 2.0**32
_ROOT_UP = 1 + 2.0**-50  # above the roundings of a root and a product
_SHARES: Final = (0.75, 0.9, 0.5, 0.25)  # of a budget's delta for thresholds; the rest converts to epsilon
_COMPARED = 16  # the most periods whose thresholds tell which share is best

Floats = NDArray[np.float64]


@final
class ContinualTopK(Mechanism):
    """The k best items at the end of each of `periods` periods, with their noisy scores; one price for the whole horizon.

    What an item scores is the sum of its users' weights (`users`), over the events of one period ("period"), of all periods so
    far ("running") or of the last `window` ("window"). A user's weights are bounded over the whole horizon, and noise is
    correlated over the periods. `Session.continual` draws from it, period by period; `select` does not, as it sees one table of
    scores. Under "running" each item of a user is counted once, and under "window" again only `window` or more periods later,
    so that a count of a window is a lower bound. An item of an unknown domain is discovered, and stays so, once its score passes
    a threshold, or its total over all periods so far does.

    Guarantee: GaussianDP(D/scale) for a public domain and Approximate(GaussianDP(D/scale), delta) for an unknown one, where D is
    `strategy.norm`, Theorems T1 to T4; under replace_one sqrt(2) D.

    Args:
        k: how many items at most at the end of each period, >= 1.
        periods: how many periods the horizon has, 1 to 4000. Public, and fixed: declare more rather than fewer.
        count: "period", "running" or "window".
        window: how many periods a window has, >= 1; None unless `count` is "window".
        scale: standard deviation of the noise of a measurement, in weights, from 2^-10 to 2^32.
        delta: the chance, in (0, 1), that items of one user alone pass the thresholds of a domain that is unknown; None for a
            public domain.
        candidates: the most items that the public domain has; None for any number, and for an unknown domain.
        users: what one user may contribute.
        relation: "add_remove" or "replace_one".

    Raises:
        InvalidMechanism: a value is outside its domain, or two do not go together.

    Example:
        >>> import dpselect as dps
        >>> month = dps.ContinualTopK(k=10, periods=30, count="running", scale=6.0, delta=1e-6)
        >>> round(month.curve.epsilon(1e-5), 2)
        0.91
    """

    kind: Literal["continual_top_k"] = "continual_top_k"
    traits: ClassVar[Traits] = Traits(
        answers="periods",
        noise=SCALE,
        failure="delta",
        ordered=True,
        most="k",
        domain=lambda mechanism: "public" if mechanism.delta is None else "unknown",
        values=True,
    )
    k: Count = Field(description="an integer >= 1")
    periods: Annotated[Count, Field(le=4000)] = Field(description="an integer from 1 to 4000")
    count: Over = Field(default="period", description="'period', 'running' or 'window'")
    window: Count | None = Field(default=None, description="an integer >= 1, or None")
    scale: Annotated[Real, Field(ge=_LEAST, le=_MOST)] = Field(description="a scale from 2^-10 to 2^32, in weights")
    delta: Probability | None = Field(default=None, description="a delta in (0, 1), or None for a public domain")
    candidates: Count | None = Field(default=None, description="an integer >= k, or None")
    users: HorizonClip = Field(default=HorizonClip(), description="a HorizonClip")
    stated: Relation = Field(default="add_remove", alias="relation", description="'add_remove' or 'replace_one'")

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if (self.count == "window") != (self.window is not None):
            raise ValueError("window= is the number of periods of count='window': state both, or neither")
        if self.delta is not None and self.candidates is not None:
            raise ValueError("delta= is for an unknown domain and candidates= for a public one: leave one of them out")
        if self.candidates is not None and self.candidates < self.k:
            raise ValueError(f"k={self.k} items cannot come out of candidates={self.candidates}: ask for fewer")
        return self

    @classmethod
    def fitted(cls, budget: Budget, *, unknown: bool = True, **settings: Any) -> Self:
        """The mechanism with these settings whose noise spends `budget`, for the whole horizon.

        Of a few splits of the budget's delta between thresholds and noise the one with the lowest thresholds is taken.

        Args:
            budget: what the whole horizon may cost.
            unknown: whether the items are read off the log; False for a public domain.
            settings: all fields but `scale` and `delta`.

        Raises:
            CalibrationError: the budget pays for no amount of noise, for example a pure one.
            InvalidMechanism: a setting is missing or refused.
        """
        bracket = (_LEAST, _MOST)
        if not unknown:
            found: Any = calibrated(lambda scale: cls(scale=scale, **settings), budget, bracket)
            return cls.model_validate(found)
        tried: list[Any] = []
        for share in _SHARES:
            delta = share * budget.delta
            tried.append(calibrated(lambda scale, delta=delta: cls(scale=scale, delta=delta, **settings), budget, bracket))  # type: ignore[misc]
        some = slice(None, None, -(-tried[0].periods // _COMPARED))
        return cls.model_validate(min(tried, key=lambda found: found.thresholds_at(some).mean()))

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(relation=self.stated)

    @property
    def curve(self) -> Curve:
        norm = self.strategy.norm
        moved = norm if self.stated == "add_remove" else math.nextafter(sqrt_up(Fraction(2)) * norm, math.inf)
        core = GaussianDP(mu=ratio_up(moved, self.scale))
        return core if self.delta is None else Approximate(curve=core, delta0=self.delta)

    @property
    def strategy(self) -> Strategy:
        """What is measured and how the counts are estimated from it."""
        return strategy(self.count, self.periods, self.window)

    @property
    def deviations(self) -> Floats:
        """(periods,) standard deviations of the released scores, in weights."""
        return self.scale * self.strategy.deviations

    @property
    def thresholds(self) -> Floats:
        """(periods,) what a noisy score must exceed for its item to be discovered, in weights, rounded up; of an unknown domain.

        Raises:
            InvalidRequest: the domain is public.
        """
        return self.thresholds_at(slice(None))

    @property
    def total_thresholds(self) -> Floats | None:
        """(periods,) what a noisy total of all periods so far must exceed for its item to be discovered, in weights, rounded up.

        None where scores are such totals themselves.

        Raises:
            InvalidRequest: the domain is public.
        """
        return self.total_thresholds_at(slice(None))

    def thresholds_at(self, periods: slice) -> Floats:
        """Some of `thresholds`; each takes its time to be found."""
        rounding, once = self._rounding(self.strategy.estimator)[periods], self.count == "period"
        deviations = self.deviations[:1] if once else self.deviations[periods]
        chance = self._lone_chance / (1 if once else self.periods)
        return np.asarray(thresholds(tuple(deviations.tolist()), self.users.most, self.users.cells, chance)) + rounding

    def total_thresholds_at(self, periods: slice) -> Floats | None:
        """Some of `total_thresholds`."""
        if not self._tests_totals:
            return None
        repeats = np.sqrt(np.minimum(self.strategy.repeats, self.users.cells))[periods] * _ROOT_UP
        shared = self.scale * self.strategy.total_deviations[periods] / repeats
        found = thresholds(tuple(shared.tolist()), 1.0, self.users.cells, self._lone_chance / self.periods)
        return repeats * np.array(found) + self._rounding(self.strategy.totals)[periods]

    @property
    def _tests_totals(self) -> bool:
        return bool(self.strategy.counted.sum() < self.periods)

    @property
    def _lone_chance(self) -> float:
        """The chance of all tests of one kind together that items of one user alone pass."""
        if self.delta is None:
            raise InvalidRequest("a public domain has no thresholds: all its items may be released")
        return self.delta / (1 if self.stated == "add_remove" else 2) / (2 if self._tests_totals else 1)

    def _rounding(self, estimator: Floats) -> Floats:
        """(periods,) by how much the rounding of measurements to the public grid may raise an estimate."""
        return np.cumsum(np.abs(estimator)) * (public_grid(self.scale) / 2) * (1 + 1e-9)

    def _check_scores(self, scores: Scores) -> NoReturn:
        raise InvalidRequest(_NOT_AT_ONCE)

    def _select(self, scores: Scores, source: Sampler) -> NoReturn:
        raise InvalidRequest(_NOT_AT_ONCE)

    def _select_many(self, matrix: Numbers, source: Sampler) -> NoReturn:
        raise InvalidRequest(_NOT_AT_ONCE)

    def _probabilities(self, scores: Scores) -> NoReturn:
        raise InvalidRequest(_NOT_AT_ONCE)


_NOT_AT_ONCE = (
    "ContinualTopK releases at the end of each period of a horizon, from the events of that period and a private state: use "
    "Session.continual, which opens the horizon"
)
