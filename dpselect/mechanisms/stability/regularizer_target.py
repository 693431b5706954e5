"""A preference for sizes near a target."""

from __future__ import annotations

import sys
from typing import ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accounting.frozen import Count, Frozen, NonNegative
from dpselect.errors import InvalidMechanism


@final
class TargetSize(Frozen):
    """`-penalty * |j - k|` counts are added to the gap below the top j.

    Args:
        k: the size aimed at, >= 1.
        penalty: counts per item more or fewer, >= 0.
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    kind: Literal["target_size"] = "target_size"
    k: Count = Field(description="an integer >= 1")
    penalty: NonNegative = Field(description="a finite penalty >= 0, in counts per item")

    def first(self, sizes: int) -> NDArray[np.float64]:
        """(sizes,) what is added to the gaps below the top 1, ..., sizes; in counts."""
        return -self.penalty * np.abs(np.arange(1, sizes + 1) - self.k)

    @property
    def most(self) -> int:
        """The largest size that the regulariser knows."""
        return sys.maxsize
