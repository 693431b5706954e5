"""What a release may learn before it chooses how to read a log: how many users there are, and how many items they have.

`Learning` is the noisy histogram and its curve, of a log or of its groups; `Informed` what is chosen by it, and both their price.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from accounting import Budget, Curve, GaussianDP, calibrate
from accounting.address import masked
from accounting.arguments import Relation, shown
from accounting.curves import AnyCurve, ChosenAfter
from accounting.errors import CalibrationError
from accounting.files import read_text
from accounting.frozen import Count, Frozen, Positive
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import OneshotTopK
from dpselect.plan.candidates import Candidates, Choice, Grouping, part, require_ways, sharing
from dpselect.plan.profile import MOST_USERS, SHARES, Floats, Profile, Quantiles
from dpselect.plan.request import TopKRequest
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
# The share of epsilon that learning takes is half the square of its own epsilon over mu, and a little more: delta0 leaves a
# smaller mu, and losses are skewed. It decides what is tried first; the joint curve is held against the budget all the same.
_QUADRATIC = 1.15
_UNLISTED = 10  # groups of a log that names none
_MISFIT = 0.03  # of the users: what a cell of a real log differs by from that of a lognormal law


@final
class Learning(Frozen):
    """A noisy histogram of items per user: one user is in one cell, so that one noisy vector tells how many users there are and
    how many items they have. Theorem A5 prices what it decides.

    With groups a cell is a number of groups and a mean number of items in each of them: the same vector, at the same price, tells
    how many users a group has and how many of its items they have.

    Args:
        epsilon: nats of all cells together, Laplace noise.
        users, items: whether the number of users is learnt, and how many items they have; what is declared is not.
        relation: "add_remove", or "replace_one", under which a user moves from one cell to another.
        groups: in how many groups one user is at most, where it is about a group; None for the log as a whole.
        listed: how many groups a public list names; None where groups are discovered.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    epsilon: Positive = Field(description="an epsilon > 0")
    users: bool = Field(default=True, strict=True, description="true or false")
    items: bool = Field(default=True, strict=True, description="true or false")
    relation: Relation = Field(default="add_remove", description="'add_remove' or 'replace_one'")
    groups: Count | None = Field(default=None, description="an integer >= 1, or None")
    listed: Count | None = Field(default=None, description="an integer >= 1, or None")

    @property
    def drawn(self) -> dict[str, Any]:
        """Which numbers are learnt, by their names in an answer."""
        found: dict[str, Any] = {"users": self.users, "items_per_user": self.items}
        return found if self.groups is None else found | {"groups": [self.groups, self.listed]}

    @property
    def cells(self) -> int:
        """Of the histogram: those of items, a single one where only the number of users is learnt, for each of groups."""
        return self._items * self._groups

    @property
    def _items(self) -> int:
        return _CELLS if self.items else 1

    @property
    def _groups(self) -> int:
        """Cells of groups per user: 1, 2 or 3, 4 to 7, ..."""
        return 1 if self.groups is None else min(self.groups.bit_length(), _CELLS)

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

    def learn(
        self, items: ArrayLike, assumed: Profile, *, groups: ArrayLike | None = None, rng: np.random.Generator | None = None
    ) -> Profile:
        """Draw the histogram for the number of items of every user, and describe such users. Charge `curve` first.

        Where users are so few that a cell is mostly noise, it stays near what is assumed.

        Args:
            items: (users,) private numbers of items, each >= 1, one per user; with groups the mean over those that a user is in.
            assumed: what is declared, or taken to be where it is not learnt; users of one group where there are groups.
            groups: (users,) private numbers of groups, each >= 1, where there are groups.
            rng: None draws from the operating system's entropy.
        """
        counts = self._counts(items, groups)
        drawn = self.histogram.select(Scores(counts, sensitivity=self.histogram.covers), rng=rng)
        noisy = np.empty(self.cells)
        noisy[list(drawn.indices)] = np.clip(drawn.values or (), -MOST_USERS, MOST_USERS)
        return self._described(noisy, assumed)

    def likely(self, items: ArrayLike, assumed: Profile, *, groups: ArrayLike | None = None) -> Profile:
        """What `learn` finds of these users, without noise. **Private**: it may say what to read first, and decides nothing."""
        return self._described(self._counts(items, groups).astype(np.float64), assumed)

    def _counts(self, items: ArrayLike, groups: ArrayLike | None) -> NDArray[np.int64]:
        """(cells,) users."""
        numbers = np.maximum(np.asarray(items, dtype=np.float64), 1.0)
        place = _cell(numbers) if self.items else np.zeros(len(numbers), dtype=np.int64)
        if self.groups is not None:
            many = np.clip(np.asarray(groups, dtype=np.float64), 1.0, self.groups)
            place = place + self._items * np.minimum(_cell(many), self._groups - 1)
        return np.bincount(place, minlength=self.cells)

    def _described(self, noisy: Floats, assumed: Profile) -> Profile:
        """Users of (cells,) noisy numbers of them."""
        noisy = self._members @ noisy.reshape(self._groups, self._items)
        assert assumed.users is not None
        assert assumed.quantiles is not None
        if not self.items:
            return Profile.of_quantiles(_users(max(float(noisy[0]), self._deviation)), assumed.quantiles)
        cells = _likely(noisy, self._deviation, assumed.quantiles[2], users=None if self.users else assumed.users)
        users = _users(max(float(cells.sum()), self._deviation)) if self.users else assumed.users
        return Profile.of_quantiles(users, _quantiles(cells))

    @property
    def _members(self) -> Floats:
        """(cells of groups,) of how many users of a group, on average over groups, one user of each cell is one."""
        if self.groups is None:
            return np.ones(1)
        low = 2.0 ** np.arange(self._groups)
        high = np.minimum(2 * low - 1, self.groups)
        return np.asarray((low + high) / 2 / (self.listed or _UNLISTED))

    @property
    def _deviation(self) -> float:
        """Of one noisy cell of items, users."""
        return min(math.sqrt(2) * self.histogram.scale * float(np.linalg.norm(self._members)), float(MOST_USERS))

    def at(self, profile: Profile, end: End) -> Profile:
        """An end of the interval around what was learnt: the number of users, and how many users each quantile may be off by."""
        if end == "middle" or profile.users is None or profile.quantiles is None:
            return profile
        side = -1 if end == "low" else 1
        off = side * _NORMAL * self._deviation * math.sqrt(self._items)
        users = _users(profile.users + off) if self.users else profile.users
        moved = _moved(profile.quantiles, off / profile.users) if self.items else profile.quantiles
        return Profile.of_quantiles(users, moved)


def _users(number: float) -> float:
    """The number of users nearest to this one that a profile may have."""
    return min(max(number, 1.0), float(MOST_USERS))


def _moved(quantiles: Quantiles, by: float) -> Quantiles:
    """At shares of the users that are larger by `by`."""
    logs = np.interp(np.clip(np.array(SHARES) + by, SHARES[0], SHARES[-1]), SHARES, np.log(quantiles))
    return cast(Quantiles, tuple(np.maximum(1.0, np.exp(logs)).tolist()))


def _cell(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.minimum(np.log2(numbers).astype(np.int64), _CELLS - 1)


def _likely(noisy: Floats, deviation: float, median_items: float, users: float | None) -> Floats:
    """(cells,) users, from noisy numbers of them: items per user follow a lognormal law, or nearly.

    The mean over such laws, each weighed by how well it explains the noisy numbers and by how near it is to what is assumed: few
    users leave that, many leave nothing of it. A cell then moves towards its noisy number, as far as the noise is small beside
    `_MISFIT` of all users: many users are counted, whatever law they follow.

    Args:
        noisy: (cells,) noisy numbers of users.
        deviation: of their noise.
        median_items: of a user, the likeliest.
        users: how many there are; None where that is not known.
    """
    median, spread = (each.ravel() for each in np.meshgrid(*_GRID))
    ends = np.concatenate([[-math.inf], np.log(2.0 ** np.arange(1, _CELLS) - 0.5), [math.inf]])
    # Not by scipy, which takes longer to import than all else here.
    below = [math.erfc(z) / 2 for z in ((median[:, None] - ends) / (math.sqrt(2) * spread[:, None])).ravel().tolist()]
    laws = np.diff(np.reshape(below, (len(median), -1)))
    sizes = (laws**2).sum(axis=1)
    scales = np.full(len(laws), users) if users else np.maximum(1.0, laws @ noisy / sizes)
    misfit = _MISFIT * max(float(noisy.sum()), 1.0)
    far = ((noisy - scales[:, None] * laws) ** 2).sum(axis=1) / (deviation**2 + misfit**2)
    middle = (math.log(median_items), _SPREAD)
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
        profile: these numbers.
        learning: what drew them.
        entry: of the ledger, which recorded them; None if they come from a file.
    """

    profile: Profile
    learning: Learning
    entry: int | None = None

    def at(self, end: End) -> Profile:
        """An end of the interval that the noise leaves around them."""
        found = self.learning.at(self.profile, end)
        said = f"{found.in_words()}, as learnt" + ("" if end == "middle" else f" ({end} end)")
        return replace(found, description=said)

    def claim(self, about: str) -> str:
        """For the ledger's record of the release, under what they are about: see `in_claim`."""
        said = self.profile.as_data() | {"learning": self.learning.model_dump(mode="json")}
        return f"{CLAIM}{about} {json.dumps(said, separators=(',', ':'))}"

    @classmethod
    def of_answer(cls, held: Mapping[str, Any]) -> Self:
        """Those of the part "learnt" of an answer's JSON."""
        return cls(Profile.of_data(held), Learning.model_validate(held["paid"]["learning"]))

    @classmethod
    def in_answer(cls, path: Path | str) -> Self:
        """Those of an answer, from the JSON file that keeps it.

        Raises:
            InvalidRequest: the file cannot be read, or is not the answer of a release that learnt.
        """
        text = read_text(Path(path), InvalidRequest, "learnt numbers")
        try:
            return cls.of_answer(json.loads(text)["learnt"])
        except _UNREADABLE:
            raise InvalidRequest(f"{masked(path)} holds no learnt numbers: name the JSON file of an answer that learnt") from None

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
            return cls(Profile.of_data(held), Learning.model_validate(held["learning"]), entry)
        except (*_UNREADABLE, IndexError):
            raise InvalidRequest(
                f"entry {entry} of the ledger holds no learnt numbers that can be read: take --learn again, which learns anew"
            ) from None


_UNREADABLE = (ValueError, KeyError, TypeError, RecursionError)


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


# -- what is chosen by it --------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Informed:
    """Candidates that are chosen from by learnt numbers, and what both together cost.

    Attributes:
        candidates: fitted to what learning leaves of the budget.
        item: what is charged.
        declared: what is not learnt.
    """

    candidates: Candidates
    item: LearnThenSelect
    declared: Profile

    @classmethod
    def of(
        cls,
        budget: Budget,
        request: TopKRequest,
        *,
        share: float = LEARN,
        users: float | None = None,
        items_per_user: float | None = None,
        groups: Grouping | None = None,
        **ways: Any,
    ) -> Self | None:
        """None where nothing is to be learnt: all is declared, or one thing only can be chosen.

        Args:
            share: of epsilon, for learning; of rho its square.
            users, items_per_user: as declared, which is then not learnt; with groups of one of them.
            groups: each of which gets a release.
            ways: as for `Candidates.of`.

        Raises:
            InvalidRequest: share is not in [0, 1), or as for `default_choice`.
        """
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= share < 1:
            raise InvalidRequest(f"learn={shown(share)} must be a share of epsilon in [0, 1): 0.03 is usual, 0 learns nothing")
        wanted = {"users": users is None, "items": items_per_user is None}
        if share == 0 or not any(wanted.values()):
            return None
        require_ways(request, ways.get("limit"), ways.get("clip"))
        declared = Profile.typical(users, items_per_user, in_a_group=groups is not None)
        if groups is not None and groups.unbounded:
            return None  # refused where it is asked without learning
        about: dict[str, Any] = {} if groups is None else {"groups": groups.most, "listed": groups.listed}
        # Nats: of a zCDP budget those whose square is twice rho, which they cost at most.
        whole = math.sqrt(2 * budget.limit) if budget.form == "zcdp" else budget.limit
        epsilon = share * whole / max(1, request.releases)
        if epsilon == 0:
            return None  # below what a float holds: what fits such a budget, if anything does, is not learnt for
        learning = Learning(epsilon=epsilon, relation=request.sensitivity.relation, **about, **wanted)
        for vectors, rest, selecting in _rests(budget, learning.curve, request):
            try:
                found = Candidates.of(vectors, rest, groups=groups, **selecting, **ways)
            except CalibrationError:  # the whole budget may do without learning, or is named by what refuses it
                return None
            if len(found.choices) < 2:
                return None
            item = LearnThenSelect(learning=learning, options=found.curves)
            if _covered(budget, item.curve, request):
                return cls(found, item, declared)
        return None

    def chosen(self, learnt: Profile) -> Choice:
        """What to run on the same data, by numbers that `item.learning` released."""
        return self.candidates.best(learnt)


def _rests(budget: Budget, curve: Curve, request: TopKRequest) -> Iterator[tuple[Budget, TopKRequest, dict[str, Any]]]:
    """Ways to divide the budget of all releases, the one that leaves most first; the last one surely fits one release.

    What learning leaves for noisy vectors, the request with its part of a ledger's share, and where that is less what
    `selections` may cost, and as a `pure` epsilon: as for `Candidates.of`.

    Privacy losses of what is learnt and of what is released add up like independent numbers (A5), so that squares of Gaussian
    parameters do: a small epsilon takes little from a noisy vector, all of itself from a pure epsilon, and from a selection,
    whose loss is a sum of a few, about the mean of the two.
    """
    releases = request.releases
    spent = releases * (curve.rho if budget.form == "zcdp" else curve.core_epsilon)
    pure = 1 - spent / budget.limit
    if budget.form == "approximate":
        with suppress(CalibrationError):  # an epsilon so small or large that no Gaussian parameter is known
            mu = calibrate(lambda size: GaussianDP(mu=size), Budget(epsilon=budget.epsilon, delta=budget.delta), (1e-6, 1e3))
            share = curve.core_epsilon / mu
            whole = 1 - _QUADRATIC * releases * share * share / 2
            if pure < whole:
                most, selections = (part(budget, share, chances=1.0) for share in (whole, (pure + whole) / 2))
                selecting = {"selections": selections, "pure": pure * (1 - 2**-40) * budget.limit}
                yield most, sharing(request, whole**2), selecting
    yield part(budget, pure, chances=1.0), sharing(request, pure), {}


def _covered(budget: Budget, curve: ChosenAfter, request: TopKRequest) -> bool:
    """Whether the budget pays for it, for one release as (epsilon, delta), for several one by one; and a ledger's share too."""
    share = request.share
    if share is not None and not share.budget.covers(share.budget.cost_of_each(curve, share.charges)):
        return False
    if request.charges is not None:
        return budget.covers(budget.cost_of_each(curve, request.charges))
    if budget.form != "approximate":
        return budget.covers(budget.cost(curve))
    found = curve.inverse(budget.delta)
    return found is not None and found <= budget.limit
