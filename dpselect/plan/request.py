"""`TopKRequest`, the public facts about a release of the top k."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self, final

from pydantic import Field, SkipValidation, model_validator

from accounting.budget import Budget
from accounting.frozen import Count, Frozen, Probability
from accounting.numbers import exact
from dpselect.errors import InvalidRequest
from dpselect.noise import NoiseName
from dpselect.sensitivity import Sensitivity

ALL = 1_000_000
"""Value of k for all items that are safe to show, if no catalog states their number."""

_NEAR = Fraction(1, 10**12)  # a float that is an n-th but for its rounding is one


@final
@dataclass(frozen=True)
class BudgetShare:
    """The part of a ledger's budget that one charge states, and takes at most.

    Attributes:
        budget: the dataset's budget.
        part: share in (0, 1].
    """

    budget: Budget
    part: Fraction

    @classmethod
    def from_budget(cls, whole: Budget, releases: int, budget: Budget) -> Self | None:
        """The part of `budget` for one of `releases` that share `whole`; None if it is all of it.

        Epsilons, or rhos, are compared as the decimals that they print as. If one budget states
        epsilon and the other rho, deltas are compared.
        """
        alike = (whole.rho is None) == (budget.rho is None)
        amounts = (whole.limit, budget.limit) if alike else (whole.delta, budget.delta)
        part = (
            Fraction(exact(amounts[0])) / Fraction(exact(amounts[1])) / releases
            if all(amounts)
            else Fraction(1)
        )
        times = Fraction(round(1 / part))
        if abs(part * times - 1) < _NEAR:
            part = min(part, 1 / times)
        return cls(budget, part) if part < 1 else None

    @property
    def charges(self) -> Fraction:
        """Number of such charges that fit the budget; see `calibrate`."""
        return 1 / self.part

    def times(self, part: float) -> Self:
        """A part of this share."""
        return type(self)(self.budget, self.part * Fraction(part))


@final
class TopKRequest(Frozen):
    """Public facts about a release of the top k.

    Args:
        k: number of items, >= 1.
        sensitivity: sensitivity to one user; by default that of distinct-user counts under
            add_remove.
        candidates: size of the public catalog; None if the candidates are read off the log, an
            unknown domain.
        kbar: number of the most popular items that compete, for mechanisms that have such a number;
            None is `default_kbar(k)`, or k for mechanisms that choose the number of released items
            themselves.
        noise: name of the noise, for mechanisms that leave a choice; None is the mechanism's
            default or, if it has none, exponential for a pure budget and gumbel otherwise.
        releases: number of such releases that share the budget, each charged by itself as a ledger
            charges them. Each then has as much noise as `Budget.how_many` requires, and an equal
            part of the budget's failure probability. With 1, one release has all of it.
        share: the part of a ledger's budget that the release may take, if it states a part of that;
            None for all.
        counts: the share of the budget, in (0, 1), for noisy counts of the released items; None: no
            counts. Mechanisms whose own noisy scores are free (`SparseHistogram`, one-shot gaussian
            and laplace noise on bounded users) release those.
        recounted: True if these counts come from a second pass over the users of the released
            items, as in `dpselect.topk`: `WithValues` with a clip. Otherwise they are the scores
            that chose the items.
        min_users: the fewest distinct users that an item must have to be released, whatever the
            noise; None for no such rule. Only `SparseHistogram` can keep it, and mechanisms that
            discover by one.

    Raises:
        InvalidRequest: a value is outside its domain, or k exceeds candidates.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    k: Count = Field(description="an integer >= 1")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")
    candidates: Count | None = Field(
        default=None, description="the size of the public catalog, or None"
    )
    kbar: Count | None = Field(default=None, description="an integer >= k, or None")
    noise: NoiseName | None = Field(default=None, description="the name of a noise, or None")
    releases: Count = Field(default=1, description="an integer >= 1")
    share: SkipValidation[BudgetShare | None] = Field(
        default=None, description="a BudgetShare, or None"
    )
    counts: Probability | None = Field(default=None, description="a share in (0, 1), or None")

    recounted: bool = Field(default=False, strict=True, description="true or false")
    min_users: Count | None = Field(default=None, description="an integer >= 1, or None")

    @property
    def charges(self) -> int | None:
        """Number of charges that share the budget, for `calibrate_mechanism`, None for one."""
        return self.releases if self.releases > 1 else None

    @model_validator(mode="after")
    def _can_fill_k(self) -> Self:
        if self.candidates is not None and self.candidates < self.k:
            raise InvalidRequest(
                f"k={self.k} items cannot come out of a catalog of {self.candidates}. Ask for fewer"
            )
        return self
