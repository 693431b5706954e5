"""A preference for some sizes over others, listed size by size."""

from __future__ import annotations

from typing import ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accounting.frozen import Frozen, Real
from dpselect.errors import InvalidMechanism


@final
class ListedSizes(Frozen):
    """values[j - 1] counts are added to the gap below the top j. The list is public: never compute it from the scores.

    Args:
        values: (at least kbar,) finite numbers, in counts.
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    kind: Literal["listed"] = "listed"
    values: tuple[Real, ...] = Field(min_length=1, description="one finite number per size, in counts")

    def first(self, sizes: int) -> NDArray[np.float64]:
        """(sizes,) what is added to the gaps below the top 1, ..., sizes; in counts."""
        return np.array(self.values[:sizes])

    @property
    def most(self) -> int:
        """The largest size that the regulariser knows."""
        return len(self.values)
