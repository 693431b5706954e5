"""What a release may learn before it chooses how to read a log: how many users there are, and how many items they have."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from accounting import ChosenAfter, Curve, Relation
from accounting.address import masked
from accounting.curves import AnyCurve
from accounting.files import read_text
from accounting.frozen import Frozen, Positive
from dpselect.choose.forecast import MOST, SHARES, Crowd, Floats, Quantiles
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import OneshotTopK
from dpselect.noise import by_name
from dpselect.scores import Scores
from dpselect.sensitivity import Sensitivity

if TYPE_CHECKING:  # a release without a ledger does without a database
    from accounting import Ledger

LEARN = 0.03
"""The share of epsilon (of rho: its square) that learning costs by itself, where nobody says."""

_NORMAL = 1.96  # deviations of an interval of 95 %: sums of Laplace noise are nearly normal
_CELLS = 10  # of users: with 1 item, 2 or 3, 4 to 7, ..., 512 or more
_GRID = (np.linspace(0.0, 5.5, 23), np.linspace(0.2, 2.2, 11))  # logs of items per user: their median and deviation
_SPREAD, _DOUBT = 1.2, (1.5, 0.7)  # the usual deviation, and how far median and deviation may well be from what is usual
_MISFIT = 0.03  # of the users: what a cell of a real log differs by from that of a lognormal law


@final
class Learning(Frozen):
    """A noisy histogram of items per user: one user is in one cell, so that one noisy vector tells how many users there are and
    how many items they have. Theorem A5 prices what it decides.

    Args:
        epsilon: nats of all cells together, Laplace noise.
        users, items: whether the number of users is learnt, and how many items they have; what is declared is not.
        relation: "add_remove", or "replace_one", under which a user moves from one cell to another.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    epsilon: Positive = Field(description="an epsilon > 0")
    users: bool = Field(default=True, strict=True, description="true or false")
    items: bool = Field(default=True, strict=True, description="true or false")
    relation: Relation = Field(default="add_remove", description="'add_remove' or 'replace_one'")

    @property
    def drawn(self) -> dict[str, bool]:
        """Which numbers are learnt, by their names in an answer."""
        return {"users": self.users, "items_per_user": self.items}

    @property
    def cells(self) -> int:
        """Of the histogram: a single one where only the number of users is learnt."""
        return _CELLS if self.items else 1

    @cached_property
    def histogram(self) -> OneshotTopK:
        """What releases it."""
        moved = 1 if self.relation == "add_remove" else 2
        one = Sensitivity(l0=min(moved, self.cells), relation=self.relation)
        scale = one.l1_of(None) / self.epsilon * (1 + 2**-40)
        return OneshotTopK(k=self.cells, noise="laplace", scale=scale, sensitivity=one, candidates=self.cells, values=True)

    @property
    def curve(self) -> Curve:
        """Of the histogram."""
        return self.histogram.curve

    def learn(self, items: ArrayLike, assumed: Crowd, *, rng: np.random.Generator | None = None) -> Crowd:
        """Draw the histogram for the number of items of every user, and describe such users. Charge `curve` first.

        Where users are so few that a cell is mostly noise, it stays near what is assumed.

        Args:
            items: (users,) private numbers of items, each >= 1, one per user.
            assumed: what is declared, or taken to be where it is not learnt.
            rng: None draws from the operating system's entropy.
        """
        numbers = np.maximum(np.asarray(items, dtype=np.float64), 1.0)
        counts = np.bincount(_cell(numbers) if self.items else np.zeros(len(numbers), dtype=np.int64), minlength=self.cells)
        drawn = self.histogram.select(Scores(counts, sensitivity=self.histogram.covers), rng=rng)
        noisy = np.empty(self.cells)
        noisy[list(drawn.indices)] = np.clip(drawn.values or (), -MOST, MOST)
        if not self.items:
            return Crowd(_users(max(float(noisy[0]), self._deviation)), assumed.quantiles)
        cells = _likely(noisy, self._deviation, assumed, users=None if self.users else assumed.users)
        users = _users(max(float(cells.sum()), self._deviation)) if self.users else assumed.users
        return Crowd(users, _quantiles(cells))

    @property
    def _deviation(self) -> float:
        """Of one noisy cell, users."""
        return min(math.sqrt(2) * self.histogram.scale, MOST)

    def at(self, crowd: Crowd, end: End) -> Crowd:
        """An end of the interval around what was learnt: the number of users, and how many users each quantile may be off by."""
        if end == "middle":
            return crowd
        side = -1 if end == "low" else 1
        off = side * _NORMAL * self._deviation * math.sqrt(self.cells)
        users = _users(crowd.users + off) if self.users else crowd.users
        return Crowd(users, _moved(crowd.quantiles, off / crowd.users) if self.items else crowd.quantiles)


def _users(number: float) -> float:
    """The number of users nearest to this one that a `Crowd` may have."""
    return min(max(number, 1.0), MOST)


def _moved(quantiles: Quantiles, by: float) -> Quantiles:
    """At shares of the users that are larger by `by`."""
    logs = np.interp(np.clip(np.array(SHARES) + by, SHARES[0], SHARES[-1]), SHARES, np.log(quantiles))
    return cast(Quantiles, tuple(np.maximum(1.0, np.exp(logs)).tolist()))


def _cell(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.minimum(np.log2(numbers).astype(np.int64), _CELLS - 1)


def _likely(noisy: Floats, deviation: float, assumed: Crowd, users: float | None) -> Floats:
    """(cells,) users, from noisy numbers of them: items per user follow a lognormal law, or nearly.

    The mean over such laws, each weighed by how well it explains the noisy numbers and by how near it is to what is assumed: few
    users leave that, many leave nothing of it. A cell then moves towards its noisy number, as far as the noise is small beside
    `_MISFIT` of all users: many users are counted, whatever law they follow.

    Args:
        noisy: (cells,) noisy numbers of users.
        deviation: of their noise.
        assumed: its median is the likeliest.
        users: how many there are; None where that is not known.
    """
    median, spread = (each.ravel() for each in np.meshgrid(*_GRID))
    ends = np.concatenate([[-math.inf], np.log(2.0 ** np.arange(1, _CELLS) - 0.5), [math.inf]])
    laws = np.diff(by_name("gaussian").cdf((ends - median[:, None]) / spread[:, None]))
    sizes = (laws**2).sum(axis=1)
    scales = np.full(len(laws), users) if users else np.maximum(1.0, laws @ noisy / sizes)
    misfit = _MISFIT * max(float(noisy.sum()), 1.0)
    far = ((noisy - scales[:, None] * laws) ** 2).sum(axis=1) / (deviation**2 + misfit**2)
    middle = (math.log(assumed.quantiles[2]), _SPREAD)
    unlikely = sum(((each - usual) / width) ** 2 for each, usual, width in zip((median, spread), middle, _DOUBT, strict=True))
    logs = -(far + unlikely) / 2 - (0.0 if users else np.log(sizes) / 2)
    weights = np.exp(logs - logs.max())
    guess = weights / weights.sum() @ (scales[:, None] * laws)
    trust = deviation**2 / (deviation**2 + (_MISFIT * float(guess.sum())) ** 2)
    cells = np.maximum(0.0, trust * guess + (1 - trust) * noisy)
    return np.asarray(cells if cells.any() else guess)  # nobody is there, and all noise is negative


def _quantiles(cells: Floats) -> Quantiles:
    """Of items per user, from (cells,) users of which some are > 0."""
    ends = np.concatenate([[0.0], np.cumsum(cells)]) / cells.sum()
    cell = np.clip(np.searchsorted(ends, SHARES) - 1, 0, _CELLS - 1)
    inside = (np.array(SHARES) - ends[cell]) / np.maximum(ends[cell + 1] - ends[cell], 1e-12)
    return cast(Quantiles, tuple(np.floor(2.0 ** (cell + np.minimum(inside, 1.0))).tolist()))


End = Literal["low", "middle", "high"]
"""Of the interval, of 95 % or nearly, around learnt numbers: few users with few items, what was learnt, many with many."""

CLAIM = "learnt:"
"""What the ledger's record of a release that learnt starts with."""


@final
@dataclass(frozen=True)
class Learnt:
    """Numbers of users that a release has paid for: public, and used again for nothing.

    They choose among mechanisms and plans, each of which is charged its own price. So numbers that are wrong or forged cost
    utility, and no privacy.

    Attributes:
        crowd: these numbers.
        learning: what drew them.
        entry: of the ledger, which recorded them; None if they come from a file.
    """

    crowd: Crowd
    learning: Learning
    entry: int | None = None

    def at(self, end: End) -> Crowd:
        """An end of the interval that the noise leaves around them."""
        return self.learning.at(self.crowd, end)

    def claim(self, about: str) -> str:
        """For the ledger's record of the release, under what they are about: see `in_claim`."""
        said = self.crowd.as_data() | {"learning": self.learning.model_dump(mode="json")}
        return f"{CLAIM}{about} {json.dumps(said, separators=(',', ':'))}"

    @classmethod
    def of_answer(cls, held: Mapping[str, Any]) -> Self:
        """Those of the part "learnt" of an answer's JSON."""
        return cls(Crowd.of_data(held), Learning.model_validate(held["paid"]["learning"]))

    @classmethod
    def in_answer(cls, path: Path | str) -> Self:
        """Those of an answer, from the file that keeps it (`--output FILE.json`).

        Raises:
            InvalidRequest: the file cannot be read, or is not the answer of a release that learnt.
        """
        text = read_text(Path(path), InvalidRequest, "learnt numbers")
        try:
            return cls.of_answer(json.loads(text)["learnt"])
        except _UNREADABLE:
            raise InvalidRequest(
                f"{masked(path)} holds no learnt numbers: name a file that --output FILE.json wrote for a release that learnt"
            ) from None

    @classmethod
    def of_dataset(cls, ledger: Ledger, dataset: str) -> Self:
        """The latest that the ledger holds of a dataset.

        Raises:
            InvalidRequest: it holds none.
        """
        entry = ledger.last_claim(dataset, CLAIM)
        if entry is None:
            raise InvalidRequest(
                f"no release of dataset={dataset!r} has learnt how many items users have: dpselect topk learns it, charged there"
            )
        return cls.in_claim(entry.label or "", entry.seq)

    @classmethod
    def in_claim(cls, claim: str, entry: int) -> Self:
        """Those that an entry of the ledger recorded.

        Raises:
            InvalidRequest: it holds none.
        """
        try:
            held = json.loads(claim.split(" ")[1])
            return cls(Crowd.of_data(held), Learning.model_validate(held["learning"]), entry)
        except (*_UNREADABLE, IndexError):
            raise InvalidRequest(
                f"entry {entry} of the ledger holds no learnt numbers that can be read: take --learn again, which learns anew"
            ) from None


_UNREADABLE = (ValueError, KeyError, TypeError, RecursionError)


def learning_asked(stated: float | str | PathLike[str] | None) -> dict[str, Any]:
    """Fields of a release, from what `learn` states: a share, "again", or the file of an answer that learnt."""
    if stated == "again":
        return {"learn_again": True}
    if isinstance(stated, str):
        with suppress(ValueError):
            return {"learn": float(stated)}
    return {"learnt": Learnt.in_answer(str(stated)).crowd} if isinstance(stated, str | PathLike) else {"learn": stated}


@final
class LearnThenSelect(Frozen):
    """What is charged for a release that learns first: `learning`, then one of the mechanisms whose curves are `options`.

    Args:
        learning: what is learnt.
        options: curves of all mechanisms that it may choose; each of these is below one of them.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    kind: str = Field(default="learn_then_select", description="'learn_then_select'")
    learning: Learning
    options: tuple[AnyCurve, ...] = Field(min_length=1, description="one or more curves")

    @property
    def relation(self) -> Relation:
        """What neighbouring logs differ by."""
        return self.learning.relation

    @property
    def curve(self) -> ChosenAfter:
        """Of the learnt numbers and the answer together. Theorem A5."""
        return ChosenAfter(first=self.learning.curve, options=self.options)

    def to_json(self) -> str:
        """For the ledger."""
        return self.model_dump_json()
