"""Reproducible randomness through the algorithms of a release."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dpselect.sampling.base import Sampler


@final
class ExactSampler(Sampler):
    """The exact path driven by a `numpy.random.Generator`, for tests: algorithms of `EntropySampler`, never for a release."""

    exact: ClassVar[bool] = True

    def __init__(self, generator: np.random.Generator, *, constant_work: bool = False) -> None:
        self._generator, self._constant_work = generator, constant_work

    @property
    def constant_work(self) -> bool:
        return self._constant_work

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)

    def __repr__(self) -> str:
        return f"ExactSampler(constant_work={self._constant_work})"
