"""Public preferences for the number of items that a gap mechanism chooses."""

from __future__ import annotations

import sys
from typing import Annotated, Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from accounting.frozen import Count, Frozen, NonNegative, Real
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


Regularizer = ListedSizes | TargetSize


def _from_array(data: Any) -> Any:
    """A bare public array is `ListedSizes`."""
    values = data.tolist() if isinstance(data, np.ndarray) else data
    return ListedSizes(values=tuple(values)) if isinstance(values, list | tuple) else data


def added(regularizer: Regularizer | None, sizes: int) -> NDArray[np.float64]:
    """(sizes,) what the regulariser adds to the first gaps; zeros without one."""
    return np.zeros(sizes) if regularizer is None else regularizer.first(sizes)


def require_sizes(regularizer: Regularizer | None, kbar: int) -> None:
    """Check that a regulariser says something about every size up to kbar.

    Raises:
        ValueError: it does not; pydantic turns it into the mechanism's own error.
    """
    if regularizer is not None and regularizer.most < kbar:
        raise ValueError(f"the regularizer lists {regularizer.most} sizes and kbar={kbar}: list one number per size up to kbar")


AnyRegularizer = Annotated[Annotated[Regularizer, Field(discriminator="kind")], BeforeValidator(_from_array)]
