"""Scores of every group of a public list, on disjoint parts of a log."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, final

from dpselect.errors import InvalidRequest, InvalidScores, SensitivityMismatch
from dpselect.mechanisms.base import enumerable
from dpselect.rounds import Rounds
from dpselect.sampling import Sampler
from dpselect.scores import Scores
from dpselect.selection import Label, Selection


@final
class GroupedScores(Rounds):
    """The input of `PerGroup`: scores for each group of a public list. Immutable; its repr shows no value.

    Each group's scores are a function of that group's part of the log, and declare what a user changes within one group. A group
    in which nobody is present is listed as well, with counts of 0: which groups occur is private.

    Args:
        groups: scores by group name (int or str), at least one. All of one kind and domain, all with labels or all without.
        max_groups_per_user: in how many groups one user is present at most, >= 1; enforced by the caller, as the l0 of scores is.

    Raises:
        InvalidScores: no groups, names that are neither int nor str, what is no Scores, groups that differ in form, or a bound
            that is no integer >= 1.

    Example:
        >>> import dpselect as dps
        >>> one = dps.Sensitivity()
        >>> cities = {"Rome": dps.Scores([900, 4], sensitivity=one), "Oslo": dps.Scores([7, 800], sensitivity=one)}
        >>> len(dps.GroupedScores(cities, max_groups_per_user=2).groups)
        2
    """

    __slots__ = ("_scores", "groups", "max_groups_per_user")

    def __init__(self, groups: Mapping[Any, Scores], *, max_groups_per_user: int) -> None:
        self._scores = tuple(_checked(groups))
        self.groups: tuple[Label, ...] = tuple(groups)
        if type(max_groups_per_user) is not int or max_groups_per_user < 1:
            raise InvalidScores(f"max_groups_per_user={max_groups_per_user!r} must be an integer >= 1: bound it in the log first")
        self.max_groups_per_user = max_groups_per_user

    def __len__(self) -> int:
        """One: the groups are released together."""
        return 1

    @property
    def candidates(self) -> int:
        return max(scores.size for scores in self._scores)

    def items(self) -> Iterator[tuple[Label, Scores]]:
        """Every group and its scores."""
        return zip(self.groups, self._scores, strict=True)

    def check(self, mechanism: Any) -> None:
        """Raise unless `mechanism` is made for groups, and for as many per user.

        Raises:
            InvalidRequest: it is made for one group.
            SensitivityMismatch: users are in more groups than it is made for.
        """
        most = getattr(mechanism, "max_groups_per_user", None)
        if most is None:
            raise InvalidRequest(f"{type(mechanism).__name__} selects for one group: wrap it in PerGroup(mechanism=...)")
        if self.max_groups_per_user > most:
            raise SensitivityMismatch(
                f"the scores declare max_groups_per_user={self.max_groups_per_user}, more than the mechanism's {most}: configure "
                "the mechanism with the scores' bound, or bound the groups per user in the log first"
            )

    def require(self, mechanism: Any, source: Sampler) -> None:
        self.check(mechanism)
        for scores in self._scores:
            mechanism.mechanism._require(scores, source)

    def release(self, mechanism: Any, source: Sampler) -> Selection:
        """One selection of all groups, in their own order, best first within a group where the order is released."""
        chosen = [mechanism.mechanism._select(scores, source) for scores in self._scores]
        late = [one.reason for one in chosen if not one.complete]
        return Selection(
            indices=_joined([one.positions for one in chosen]),
            ordered=mechanism.mechanism.ordered,
            complete=not late,
            reason=late[0] if late else None,
            values=_joined([one.values for one in chosen]),
            labels=_joined([one.labels for one in chosen]),
            groups=tuple(group for group, one in zip(self.groups, chosen, strict=True) for _ in range(len(one))),
        )

    def law(self, mechanism: Any) -> dict[Any, float]:
        """The exact law of pairs (group, position): groups are independent."""
        laws = [_named(group, mechanism.mechanism._probabilities(scores)) for group, scores in self.items()]
        enumerable(math.prod(map(len, laws)))
        ordered = mechanism.mechanism.ordered
        joint = {}
        for outcomes in itertools.product(*(law.items() for law in laws)):
            pairs = itertools.chain.from_iterable(items for items, _ in outcomes)
            joint[tuple(pairs) if ordered else frozenset(pairs)] = math.prod(chance for _, chance in outcomes)
        return joint

    def only(self, mechanism: Any) -> NoReturn:
        raise InvalidRequest("scores of groups are no scores of one: the mechanism selects for every group")

    def settled(self, mechanism: Any) -> Any:
        return mechanism

    def draw(self, mechanism: Any, source: Sampler) -> NoReturn:
        raise InvalidRequest("groups are released together, by select: select_many is for rounds")

    def __repr__(self) -> str:
        return f"GroupedScores(groups={len(self.groups)}, max_groups_per_user={self.max_groups_per_user})"


def _joined(parts: list[Any]) -> tuple[Any, ...] | None:
    """What the groups have one after the other; None where they have none."""
    return None if any(part is None for part in parts) else tuple(itertools.chain.from_iterable(parts))


def _named(group: Label, law: dict[Any, float]) -> dict[tuple[tuple[Label, int], ...], float]:
    """The law of one group, with outcomes as pairs (group, position)."""
    items = {outcome: (outcome,) if isinstance(outcome, int) else tuple(outcome) for outcome in law}
    return {tuple((group, item) for item in items[outcome]): chance for outcome, chance in law.items()}


def _checked(groups: Mapping[Any, Scores]) -> list[Scores]:
    if not isinstance(groups, Mapping) or not groups:
        raise InvalidScores("groups must map at least one name of a public list to its Scores")
    if not all(type(name) in (int, str) for name in groups):
        raise InvalidScores("names of groups must be int or str: convert other types to text first")
    scores = list(groups.values())
    if not all(isinstance(one, Scores) for one in scores):
        raise InvalidScores("groups must hold dpselect.Scores, which declare what a user changes within the group")
    if len({(one.domain, one.kind, one.labels is None) for one in scores}) > 1:
        raise InvalidScores("groups differ in domain, kind or in whether they have labels: state the same for all")
    return scores
