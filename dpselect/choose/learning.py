"""What a release may learn before it chooses how to read a log: how many users there are, and how many items they have."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from accounting import ChosenAfter, Composed, Curve, Relation
from accounting.curves import AnyCurve
from accounting.frozen import Frozen, Positive, Real
from dpselect.choose.forecast import SHARES, Crowd, Quantiles
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import JointQuantiles, OneshotTopK
from dpselect.scores import Scores
from dpselect.sensitivity import Sensitivity

LEARN = 0.03
"""The share of epsilon (of rho: its square) that learning takes, where nobody says."""

_OF_COUNT = 0.2  # of that, what the number of users takes: it is a sum, and needs less than quantiles
_MOST_DOUBLINGS, _STEP = 10.0, 0.25  # items per user on a grid of quarter doublings, up to 1,024: more are counted as 1,024
# Users times epsilon with which learnt quantiles weigh as much as assumed ones: a rank is off by a few times 8/epsilon.
_AS_GOOD = 30.0


@final
class Learning(Frozen):
    """A noisy number of users and five quantiles of items per user, in one answer. Theorem A5 prices what it decides.

    Args:
        count_epsilon: nats for the number of users, Laplace noise; None where it is declared.
        quantile_epsilon: nats for the quantiles, by `JointQuantiles`; None where items per user are declared.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    count_epsilon: Positive | None = Field(default=None, description="an epsilon > 0, or None")
    quantile_epsilon: Positive | None = Field(default=None, description="an epsilon > 0, or None")

    @classmethod
    def of(cls, epsilon: float, *, users: bool, items: bool) -> Self:
        """That spends `epsilon` on what is not declared."""
        share = _OF_COUNT if users and items else 1.0
        # Both roundings together stay below epsilon: it is rounded down first.
        left = epsilon * (1 - 2**-40)
        return cls(
            count_epsilon=share * left if users else None,
            quantile_epsilon=((1 - share) if users else 1.0) * left if items else None,
        )

    @cached_property
    def count(self) -> OneshotTopK | None:
        """What tells the number of users."""
        if self.count_epsilon is None:
            return None
        one = Sensitivity.of_counts(items_per_user=1)
        return OneshotTopK(k=1, noise="laplace", scale=1 / self.count_epsilon, sensitivity=one, values=True)

    @cached_property
    def quantiles(self) -> JointQuantiles | None:
        """What tells quantiles of the logarithm of items per user."""
        if self.quantile_epsilon is None:
            return None
        return JointQuantiles(quantiles=SHARES, low=0.0, high=_MOST_DOUBLINGS, step=_STEP, epsilon=self.quantile_epsilon)

    @property
    def curve(self) -> Curve:
        """Of both together."""
        return Composed.of([(1, part.curve) for part in (self.count, self.quantiles) if part is not None])

    def learn(self, items: ArrayLike, assumed: Crowd, *, rng: np.random.Generator | None = None) -> Crowd:
        """Draw both, for the number of items of every user. Charge `curve` first.

        Where users are so few that quantiles are noise, which the noisy number tells, they stay near the assumed ones.

        Args:
            items: (users,) private numbers of items, each >= 1, one per user.
            assumed: what is declared, or taken to be where it is not learnt.
            rng: None draws from the operating system's entropy.
        """
        users, quantiles = assumed.users, assumed.quantiles
        numbers = np.asarray(items, dtype=np.float64)
        if self.count is not None:
            total = Scores([len(numbers)], sensitivity=self.count.covers)
            noisy = cast(tuple[float, ...], self.count.select(total, rng=rng).values)
            users = max(float(noisy[0]), 1.0)
        if self.quantiles is not None:
            scores = self.quantiles.scores(np.log2(np.maximum(numbers, 1.0)), rng=rng)
            drawn = self.quantiles.values(self.quantiles.select(scores, rng=rng))
            quantiles = _weighed(drawn, quantiles, users * self.quantiles.epsilon)
        return Crowd(users, quantiles)


def _weighed(drawn: tuple[float, ...], assumed: Quantiles, users: float) -> Quantiles:
    """Learnt logarithms and assumed numbers, the former by the square of how many users there are for their noise."""
    weight = users**2 / (users**2 + _AS_GOOD**2)
    found = (2.0 ** (weight * log + (1 - weight) * math.log2(guess)) for log, guess in zip(drawn, assumed, strict=True))
    return cast(Quantiles, tuple(found))


@final
class LearnThenSelect(Frozen):
    """What is charged for a release that learns first: `learning`, then one of the mechanisms whose curves are `options`.

    Args:
        learning: what is learnt.
        options: curves of all mechanisms that it may choose; each of these is below one of them.
        relation: "add_remove".
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    kind: str = Field(default="learn_then_select", description="'learn_then_select'")
    learning: Learning
    options: tuple[AnyCurve, ...] = Field(min_length=1, description="one or more curves")
    relation: Relation = Field(default="add_remove", description="'add_remove'")

    @property
    def curve(self) -> ChosenAfter:
        """Of the learnt numbers and the answer together. Theorem A5."""
        return ChosenAfter(first=self.learning.curve, options=self.options)

    def to_json(self) -> str:
        """For the ledger."""
        return self.model_dump_json()


@final
class Learnt(Frozen):
    """Numbers that were learnt, as they are kept with the answer and in a ledger.

    Args:
        users: a noisy number of users.
        quantiles: noisy items per user at the shares .1, .25, .5, .75 and .9 of the users.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    users: Real = Field(description="a number > 0")
    quantiles: tuple[Real, Real, Real, Real, Real] = Field(description="five rising numbers >= 1")

    @property
    def crowd(self) -> Crowd:
        """To choose by."""
        return Crowd(self.users, self.quantiles)
