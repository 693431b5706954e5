"""What is planned: everything that is public about the releases to come."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal, final

from pydantic import Field

from accounting import Budget
from accounting.frozen import Count, Frozen
from dpselect.counts import Counted
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism
from dpselect.planning.levels import Levels
from dpselect.planning.loads import Bounding
from dpselect.planning.shape import Shape
from dpselect.sensitivity import Sensitivity

Domain = Literal["public", "unknown"]
Charged = Literal["together", "separately"]
Criterion = Literal["recall", "exact_set", "score_loss", "released", "in_place"]


@final
class Part(Frozen):
    """Releases of the same size.

    Args:
        releases: how many, >= 1.
        k: how many items each of them releases, >= 1.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    releases: Count = Field(description="an integer >= 1")
    k: Count = Field(description="an integer >= 1")


@final
@dataclass(frozen=True, eq=False)
class Task:
    """A budget, the releases that share it, and what is known of the data.

    Attributes:
        budget: what all releases together may cost.
        parts: the releases; all parts get the same amount of noise.
        shape: a public or made-up shape of the data.
        domain: whether the set of items is public.
        order: whether the order of the items has to be released.
        sensitivity: what one user may change.
        charged: "together" as one plan that is fixed in advance, or "separately", one by one through the budget's filter, as
            `dpselect topk --ledger` does.
        limit: at most so many items of a user are counted; None for all.
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
    _seen: dict[tuple[Part, Bounding | None], Levels] = field(default_factory=dict, init=False, repr=False)

    @property
    def known(self) -> bool:
        """Whether the domain is public."""
        return self.domain == "public"

    @property
    def releases(self) -> int:
        """How many releases there are in all."""
        return sum(part.releases for part in self.parts)

    @property
    def candidates(self) -> int | None:
        """Size of the public catalogue; None if there is none."""
        return self.shape.size if self.known else None

    @cached_property
    def counted(self) -> Counted | None:
        """The fresh noise of the counts; None without."""
        if self.counts is None:
            return None
        parts = [(part.releases, part.k) for part in self.parts]
        return Counted.within(self.budget, self.counts, parts, self.sensitivity, separately=self.charged == "separately")

    def released(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism, with counts of what it selects where they are asked for: what is charged and run."""
        return mechanism if self.counted is None else self.counted.beside(mechanism)

    def levels(self, part: Part, bounding: Bounding | None = None) -> Levels:
        """The ranking that a release of this part sees once contributions are bounded. Kept: it is asked for many times."""
        if (part, bounding) not in self._seen:
            self._seen[part, bounding] = self.shape.levels(part.k, bounding, known=self.known)
        return self._seen[part, bounding]
