"""Public preferences for the number of items that a gap mechanism chooses."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from dpselect.mechanisms.stability.regularizer_listed import ListedSizes
from dpselect.mechanisms.stability.regularizer_target import TargetSize

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
