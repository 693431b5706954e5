"""`TopKRequest`: what is public about a release of the top k."""

from __future__ import annotations

from typing import ClassVar, Self, final

from pydantic import Field, model_validator

from accounting.frozen import Count, Frozen, Probability
from dpselect.errors import InvalidRequest
from dpselect.noise import NoiseName
from dpselect.sensitivity import Sensitivity


@final
class TopKRequest(Frozen):
    """What is public about a release of the top k.

    Args:
        k: how many items, >= 1.
        sensitivity: what one user may change; distinct-user counts under add_remove by default.
        candidates: size of the public catalogue; None if the candidates are read off the log, an unknown domain.
        kbar: how many of the most popular items compete, for mechanisms that have such a number; None is `default_kbar(k)`, or k
            for mechanisms that choose themselves how many to release.
        noise: name of the noise, for mechanisms that leave a choice; None is the mechanism's default or, if it has none,
            exponential for a pure budget and gumbel otherwise.
        releases: how many such releases share the budget, each charged by itself as a ledger charges them. Each then has as
            much noise as `Budget.how_many` asks for, and an equal part of the budget's chance of failure. 1: one has all of it.
        counts: the share of the budget, in (0, 1), that noisy counts of the released items get; None: no counts. Mechanisms whose
            own noisy scores are free (`SparseHistogram`, one-shot gaussian and laplace noise on bounded users) release those.

    Raises:
        InvalidRequest: a value is outside its domain, or k exceeds candidates.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    k: Count = Field(description="an integer >= 1")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")
    candidates: Count | None = Field(default=None, description="the size of the public catalogue, or None")
    kbar: Count | None = Field(default=None, description="an integer >= k, or None")
    noise: NoiseName | None = Field(default=None, description="the name of a noise, or None")
    releases: Count = Field(default=1, description="an integer >= 1")
    counts: Probability | None = Field(default=None, description="a share in (0, 1), or None")

    @property
    def charges(self) -> int | None:
        """For `calibrated`: how many charges share the budget; None where one release may have all of it."""
        return self.releases if self.releases > 1 else None

    @model_validator(mode="after")
    def _can_fill_k(self) -> Self:
        if self.candidates is not None and self.candidates < self.k:
            raise ValueError(f"k={self.k} items cannot come out of a catalogue of {self.candidates}: ask for fewer")
        return self
