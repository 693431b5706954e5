"""One selection for every group, public or discovered, and its input, the scores of the groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NoReturn, Self, final

from pydantic import Field, model_validator

from accounting import Curve
from accounting.frozen import Count
from dpselect.errors import DomainMismatch, InvalidRequest, InvalidScores, SensitivityMismatch
from dpselect.mechanisms.base import AnyMechanism
from dpselect.mechanisms.delegating import DelegatingMechanism, around_traits
from dpselect.mechanisms.gate import MechanismInput
from dpselect.mechanisms.traits import Traits
from dpselect.sampling import Sampler
from dpselect.scores import Scores
from dpselect.selection import Label, Selection, label_key
from dpselect.verify.quadrature import mixture, require_enumerable


@final
class GroupedScores(MechanismInput):
    """The input of `PerGroup`: scores for each group. Immutable; its repr shows no value.

    Each group's scores are a function of that group's part of the log, and declare what a user
    changes within one group. A public list must also include groups in which nobody is present,
    with counts of 0, because it is private which groups occur.

    Args:
        groups: scores by group name (int or str), for at least one group if the list is public. All
            have one kind and domain, and all have labels or none has. A mapping other than a dict
            is asked for a group's scores each time they are used, and must always give the same.
        max_groups_per_user: largest number of groups in which one user is present, >= 1. The caller
            enforces it, like the l0 of scores.
        presence: if the groups were read off private data, the users of each group as scores of an
            observed domain whose labels are the groups. `PerGroup` then needs a `discovery`. None
            for a public list.
        nobody: scores of a group in which nobody is present. A mechanism is also checked against
            these, whatever groups there are.

    Raises:
        InvalidScores: a public list without groups, or they differ in form; or a bound or a
            presence that is not one of these groups.
    """

    __slots__ = ("_max_groups_per_user", "_nobody", "_presence", "_scores")

    def __init__(
        self,
        groups: Mapping[Any, Scores],
        *,
        max_groups_per_user: int,
        presence: Scores | None = None,
        nobody: Scores | None = None,
    ) -> None:
        self._scores: Mapping[Label, Scores] = dict(groups) if isinstance(groups, dict) else groups
        self._nobody = [] if nobody is None else [nobody]
        _require_groups(self._scores, self._nobody, least=1 if presence is None else 0)
        self._presence = presence
        if presence is not None and (
            presence.domain != "observed" or set(presence.labels or ()) != set(self._scores)
        ):
            raise InvalidScores(
                "presence must be scores of domain='observed', labeled by the groups and by"
                " nothing else"
            )
        if type(max_groups_per_user) is not int or max_groups_per_user < 1:
            raise InvalidScores(
                f"max_groups_per_user={max_groups_per_user!r} must be an integer >= 1. Bound it in"
                " the log first"
            )
        self._max_groups_per_user = max_groups_per_user

    def __len__(self) -> int:
        """One: the groups are released together."""
        return 1

    @property
    def max_groups_per_user(self) -> int:
        """Largest number of groups in which one user is present."""
        return self._max_groups_per_user

    @property
    def presence(self) -> Scores | None:
        """Users of each group, if the groups were read off private data, or None."""
        return self._presence

    @property
    def groups(self) -> tuple[Label, ...]:
        """Names of the groups. **Private** if there is a `presence`."""
        return tuple(self._scores)

    @property
    def candidates(self) -> int:
        return max((scores.size for scores in self._scores.values()), default=0)

    @property
    def by_group(self) -> Mapping[Label, Scores]:
        """Scores of every group, by name of the group."""
        return MappingProxyType(self._scores)

    def items(self) -> Iterator[tuple[Label, Scores]]:
        """Iterate over pairs of a group and its scores."""
        return iter(self._scores.items())

    def check(self, mechanism: Any) -> None:
        """Raise unless `mechanism` selects from groups that are declared like these.

        It must allow as many groups per user, and have a `discovery` if and only if the groups are
        private.
        """
        most = getattr(mechanism, "max_groups_per_user", None)
        if most is None:
            raise InvalidRequest(
                f"{type(mechanism).__name__} selects for one group: wrap it in"
                " PerGroup(mechanism=...)"
            )
        if self.presence is not None and mechanism.discovery is None:
            raise DomainMismatch(
                "the groups were read off private data, so their names are private. Give"
                " PerGroup a discovery (for example SparseHistogram), or state a public list"
                " of groups when the log is read"
            )
        if self.presence is None and mechanism.discovery is not None:
            raise InvalidRequest(
                "the groups are a public list, but the mechanism spends budget to discover"
                " groups. Leave discovery out"
            )
        if self.max_groups_per_user > most:
            raise SensitivityMismatch(
                f"the scores declare max_groups_per_user={self.max_groups_per_user}, more than the"
                f" mechanism's {most}: configure the mechanism with the scores' bound, or bound the"
                " groups per user in the log first"
            )

    def require(self, mechanism: Any, source: Sampler) -> None:
        self.check(mechanism)
        if self.presence is not None:
            mechanism.discovery._require(self.presence, source)
        for scores in itertools.chain(self._nobody, self._scores.values()):
            mechanism.mechanism._require(scores, source)
            looks = (
                [scores.sensitivity]
                if scores.second is None
                else [scores.sensitivity, scores.second.sensitivity]
            )
            if mechanism.shares and not all(look.uniform for look in looks):
                raise SensitivityMismatch(
                    "the mechanism's cost assumes uniform shares, but the scores do not"
                    " declare them. State uniform=True in their sensitivity if a user gives"
                    " the same amount to each item it touches, or configure uniform=False"
                )

    def release(self, mechanism: Any, source: Sampler) -> Selection:
        """Return one selection of all groups, which follow one another in their own order.

        Within a group the best item is first, if the order is released.
        """
        groups = self.groups
        if self.presence is not None:
            discovered = mechanism.discovery._select(self.presence, source)
            groups = _sort_groups(
                discovered.labels or ()
            )  # the order of their noise is not released
        selections = [mechanism.mechanism._select(self._scores[group], source) for group in groups]
        late = (
            [part.reason for part in selections if not part.complete]
            if selections
            else ["no group was discovered"]
        )
        return Selection(
            indices=_join([part.positions for part in selections]),
            ordered=mechanism.mechanism.ordered,
            complete=not late,
            reason=late[0] if late else None,
            values=_join([part.values for part in selections]),
            labels=_join([part.labels for part in selections]),
            groups=tuple(
                group
                for group, part in zip(groups, selections, strict=True)
                for _ in range(len(part))
            ),
        )

    def law(self, mechanism: Any) -> dict[Any, float]:
        """Return the exact distribution of sequences or sets of (group, position) pairs.

        The selections of known groups are independent.
        """
        if self.presence is None:
            return self._law(mechanism, self.groups)
        names, law = self.presence.labels or (), mechanism.discovery._probabilities(self.presence)
        discovered = (
            (chance, _sort_groups(names[place] for place in _items(outcome)))
            for outcome, chance in law.items()
        )
        return mixture((chance, self._law(mechanism, groups)) for chance, groups in discovered)

    def _law(self, mechanism: Any, groups: tuple[Label, ...]) -> dict[Any, float]:
        laws = [
            _name_outcomes(group, mechanism.mechanism._probabilities(self._scores[group]))
            for group in groups
        ]
        require_enumerable(math.prod(map(len, laws)))
        ordered = mechanism.mechanism.ordered
        joint = {}
        for outcomes in itertools.product(*(law.items() for law in laws)):
            pairs = itertools.chain.from_iterable(items for items, _ in outcomes)
            joint[tuple(pairs) if ordered else frozenset(pairs)] = math.prod(
                chance for _, chance in outcomes
            )
        return joint

    def only(self, mechanism: Any) -> NoReturn:
        raise InvalidRequest(
            "grouped scores are released as a whole. Pass the Scores of one group to a"
            " mechanism of one group"
        )

    def complete(self, mechanism: Any) -> Any:
        return mechanism

    def draw(self, mechanism: Any, source: Sampler) -> NoReturn:
        raise InvalidRequest(
            "groups are released together. Call select, because select_many is for rounds"
        )

    def __repr__(self) -> str:
        size = f"groups={len(self._scores)}, " if self.presence is None else ""
        return f"GroupedScores({size}max_groups_per_user={self.max_groups_per_user})"


def _join(parts: list[Any]) -> tuple[Any, ...] | None:
    """Concatenate the tuples of all groups, or return None if there are none or any is None."""
    return (
        None
        if not parts or any(part is None for part in parts)
        else tuple(itertools.chain.from_iterable(parts))
    )


def _name_outcomes(
    group: Label, law: dict[Any, float]
) -> dict[tuple[tuple[Label, int], ...], float]:
    """Return the distribution of one group's outcomes, as pairs (group, position)."""
    return {
        tuple((group, item) for item in _items(outcome)): chance for outcome, chance in law.items()
    }


def _items(outcome: Any) -> tuple[int, ...]:
    return (outcome,) if isinstance(outcome, int) else tuple(outcome)


def _sort_groups(groups: Iterable[Label]) -> tuple[Label, ...]:
    return tuple(sorted(groups, key=label_key))


def _require_groups(groups: Mapping[Any, Scores], nobody: list[Scores], least: int) -> None:
    if not isinstance(groups, Mapping) or len(groups) < least:
        raise InvalidScores(
            "groups must map names to their Scores, and a public list has at least one"
        )
    if not all(type(name) in (int, str) for name in groups):
        raise InvalidScores("names of groups must be int or str. Convert other types to text first")
    forms = set()
    for scores in itertools.chain(nobody, groups.values()):
        if not isinstance(scores, Scores):
            raise InvalidScores(
                "groups must hold dpselect.Scores, which declare what a user changes within the"
                " group"
            )
        forms.add((scores.domain, scores.kind, scores.labels is None))
    if len(forms) > 1:
        raise InvalidScores(
            "groups differ in domain, kind or in whether they have labels. State the same for all"
        )


@final
class PerGroup(DelegatingMechanism):
    """The selection of `mechanism` for every group at once: the top k of each city, country or day.

    `select` takes `GroupedScores` and returns one Selection, whose `groups` name the group of every
    item. Bare Scores are those of a single group. The cost does not depend on the number of groups.
    Guarantee: max_groups_per_user * mechanism.curve under add_remove, Theorem W2. Under replace_one
    it is twice that, or max_groups_per_user * mechanism.shared_group_curve if users give `uniform`
    shares, Theorem W8. If groups are discovered first, discovery.curve is added, Theorem W5, and
    charged at once.

    Args:
        mechanism: the selection within a group, by scores. Its sensitivity bounds what a user
            changes within one group.
        max_groups_per_user: largest number of groups in which one user is present, >= 1.
        discovery: the selection of the groups by their users, if no public list names them. It must
            take an unknown domain, for example SparseHistogram(k=None, ...). None for a public
            list.
        uniform: True if scores must be sums over users who each give the same amount >= 0 to each
            item that they touch, as counts and clipped counts are (`Sensitivity.uniform`). It is
            also required if the mechanism's own sensitivity states it.
    """

    kind: Literal["per_group"] = "per_group"
    traits: ClassVar[Traits] = around_traits(
        answers="groups",
        level=3,
        ordered=lambda mechanism: mechanism.mechanism.ordered,
        most=None,  # as many as there are groups
        each=lambda mechanism: mechanism.mechanism.most_released,
    )
    mechanism: AnyMechanism = Field(description="a selection by scores")
    max_groups_per_user: Count = Field(description="an integer >= 1")
    discovery: AnyMechanism | None = Field(
        default=None, description="a selection of an unknown domain, or None"
    )
    uniform: bool = Field(default=False, strict=True, description="true or false")

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if not self.mechanism.traits.ranks_counts:
            name = type(self.mechanism).__name__
            raise ValueError(
                f"mechanism={name} selects no items by their scores. Pass a top k or a selection of"
                " one item"
            )
        if self.mechanism.counted_again is not None:
            raise ValueError(
                f"mechanism has clip={self.mechanism.counted_again:g}, for counts of a second pass,"
                " and groups are counted once. Leave its clip out"
            )
        if self.shares and (l0 := self.mechanism.sensitivity_bound.l0) is not None and l0 % 2:
            raise ValueError(
                "uniform=True needs an even l0 under relation='replace_one', where it is twice the"
                f" most items of one user, and the mechanism's sensitivity states l0={l0}. State"
                " twice that number there, or leave uniform out"
            )
        if self.discovery is None:
            return self
        name = type(self.discovery).__name__
        if not (self.discovery.traits.ranks_counts and self.discovery.takes_observed):
            raise ValueError(
                f"discovery={name} does not select from an unknown domain. Pass"
                " SparseHistogram, for example"
            )
        if self.discovery.relation != self.mechanism.relation:
            raise ValueError(
                "discovery and mechanism have guarantees under different relations. State the"
                " same relation for both"
            )
        return self

    @property
    def curve(self) -> Curve:
        each = self.mechanism.curve  # what counts for each of the groups that one user is in
        if self.relation == "replace_one":
            shared = self.mechanism.shared_group_curve if self.shares else None
            each = 2 * each if shared is None else shared
        selected = self.max_groups_per_user * each
        return selected if self.discovery is None else self.discovery.curve + selected

    @property
    def counts_in_part(self) -> bool:
        return True

    @property
    def compared(self) -> None:
        return None  # the number of groups may be private

    @property
    def shares(self) -> bool:
        """True if the cost assumes uniform shares, of every look at the users."""
        return self.relation == "replace_one" and (
            self.uniform or self.mechanism.sensitivity_bound.uniform
        )

    @staticmethod
    def _read(data: Any) -> Any:
        if isinstance(data, GroupedScores):
            raise InvalidRequest(
                "groups are released together. Call select, because select_many is for rounds"
                " of a single group"
            )
        return data

    def _check_stated(self) -> None:
        super()._check_stated()
        if self.discovery is not None:
            self.discovery._check_stated()
