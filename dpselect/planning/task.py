"""What is planned: everything that is public about the releases to come."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal, final

import numpy as np
from pydantic import Field

from accounting import Budget
from accounting.frozen import Count, Frozen, Real
from dpselect.choose.counts import CountNoise
from dpselect.choose.defaults import standard_shapes, with_counts
from dpselect.choose.forecast import Norm
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism, PerGroup
from dpselect.planning.score_levels import Bounding, Levels, Loads
from dpselect.planning.shape import Shape
from dpselect.sensitivity import Sensitivity

Domain = Literal["public", "unknown"]
Charged = Literal["together", "separately"]
_CLASSES = 5
Criterion = Literal["recall", "exact_set", "score_loss", "released", "in_place"]


class Stated(Frozen):
    """Part of a question to the planner or of its answer."""

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest


@final
class Part(Stated):
    """Releases of the same size.

    Args:
        releases: how many, >= 1.
        k: how many items each of them releases, >= 1.
    """

    releases: Count = Field(description="an integer >= 1")
    k: Count = Field(description="an integer >= 1")


@final
class Groups(Stated):
    """Groups of a public list, of each of which the top k is released, by `PerGroup`.

    A group looks like the whole log with fewer users. What is found is the mean over the groups.

    Args:
        count: how many groups there are, >= 1. The price does not depend on it.
        max_groups_per_user: in how many of them one user is kept, >= 1: the price of one group is paid that many times.
        per_user: in how many a user is on average before that, >= 1; users are spread geometrically.
        exponent: the users of the groups follow Zipf's law with this exponent, >= 0; 0 makes all groups alike.
    """

    count: Count = Field(description="an integer >= 1")
    max_groups_per_user: Count = Field(description="an integer >= 1")
    per_user: Real = Field(default=1.0, ge=1.0, le=1e6, description="a number from 1 to 10^6")
    exponent: Real = Field(default=1.0, ge=0.0, description="a finite number >= 0")

    @property
    def kept(self) -> float:
        """The share of the (user, group) pairs that the bound keeps."""
        loads = Loads.of_mean(self.per_user)
        sizes = np.minimum(loads.sizes, self.count)
        return float(np.minimum(sizes, self.max_groups_per_user) @ loads.users / (sizes @ loads.users))

    def sizes(self) -> list[tuple[int, float]]:
        """Up to five classes, largest first: how many groups, and the share of the users that one of them has on average."""
        shares = np.arange(1, self.count + 1) ** -self.exponent
        users = np.minimum(1.0, min(self.per_user, self.count) * shares / shares.sum())
        classes = 1 if self.exponent == 0 else min(_CLASSES, self.count)
        return [(len(part), float(part.mean())) for part in np.array_split(users, classes)]


@final
@dataclass(frozen=True, eq=False)
class Task:
    """A budget, the releases that share it, and what is known of the data, as `plan` is asked.

    Attributes:
        limit: at most this many items of a user are counted; None for all.
        stated: whether the sensitivity was stated as such: contributions are then left as they are.
        counts: the share of the budget that noisy counts of the released items get; None: none are released.
    """

    budget: Budget
    parts: tuple[Part, ...]
    shape: Shape
    domain: Domain
    order: bool
    sensitivity: Sensitivity
    charged: Charged
    limit: int | None = None
    stated: bool = False
    counts: float | None = None
    groups: Groups | None = None
    _seen: dict[tuple[Part, Bounding | None], list[tuple[int, Levels]]] = field(default_factory=dict, init=False, repr=False)

    @property
    def known(self) -> bool:
        """Whether the domain is public."""
        return self.domain == "public"

    @property
    def releases(self) -> int:
        """How many releases there are in all."""
        return sum(part.releases for part in self.parts)

    @property
    def charges(self) -> int:
        """How many times the price of one group's mechanism is paid."""
        users = 2 if self.sensitivity.relation == "replace_one" else 1
        return self.releases if self.groups is None else self.releases * users * self.groups.max_groups_per_user

    @property
    def kept(self) -> float:
        """The share of a group's users that a bound on the groups of a user keeps."""
        return 1.0 if self.groups is None else self.groups.kept

    @cached_property
    def shapes(self) -> list[tuple[int, Shape]]:
        """How many groups look how; one like the whole without groups."""
        if self.groups is None:
            return [(1, self.shape)]
        return [(count, self.shape.in_group(share)) for count, share in self.groups.sizes()]

    def has(self, k: int) -> bool:
        """Whether k items can come out, of the largest group at least."""
        return any(k <= self._items(shape) for _, shape in self.shapes)

    def _items(self, shape: Shape) -> int:
        return shape.size if self.known else shape.touched

    @property
    def candidates(self) -> int | None:
        """Size of the public catalogue; None if there is none."""
        return self.shape.size if self.known else None

    @cached_property
    def counted(self) -> CountNoise | None:
        """The fresh noise of the counts; None without."""
        if self.counts is None:
            return None
        parts = [(part.releases * self.charges // self.releases, part.k) for part in self.parts]
        separately, one = self.charged == "separately", None
        if self.recounted:
            norm: Norm = "l1" if self.budget.measure == "epsilon" else "l2"
            one = Sensitivity.of_clipped(1.0, norm, self.sensitivity.relation)
        found = CountNoise.within(self.budget, self.counts, parts, one or self.sensitivity, separately=separately)
        return replace(found, one=one)

    @property
    def recounted(self) -> bool:
        """Whether counts come from a second look at users, as `topk` takes it: not in groups, nor of scores of another kind."""
        return self.counts is not None and self.groups is None and not self.stated

    def clipped(self, mechanism: Mechanism, part: Part) -> Mechanism:
        """What is released: where counts come from a second look, with the clip that suits the users of the shape."""
        if self.counted is None or self.counted.one is None:
            return self.released(mechanism)
        shapes = standard_shapes(self.shape.crowd, part.k, self.candidates)
        return with_counts(mechanism, replace(self.counted, k=part.k), shapes)

    def released(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism, with counts of what it selects and for every group where that is asked for: what is charged and run,
        or something of that kind that costs no less."""
        one = mechanism if self.counted is None else self.counted.beside(mechanism)
        if self.groups is None:
            return one
        shared = self.sensitivity.uniform and self.sensitivity.relation == "replace_one"
        return PerGroup(mechanism=one, max_groups_per_user=self.groups.max_groups_per_user, uniform=shared)

    def rankings(self, part: Part, bounding: Bounding | None = None) -> list[tuple[int, Levels]]:
        """The rankings that a release of this part sees once contributions are bounded, and how many groups have each.

        Groups with fewer than k items are left out. Kept: it is asked for many times.
        """
        if (part, bounding) not in self._seen:
            self._seen[part, bounding] = [
                (count, shape.levels(part.k, bounding, known=self.known))
                for count, shape in self.shapes
                if part.k <= self._items(shape)
            ]
        return self._seen[part, bounding]

    def levels(self, part: Part, bounding: Bounding | None = None) -> Levels:
        """That of a middling group."""
        found = self.rankings(part, bounding)
        return found[len(found) // 2][1]
