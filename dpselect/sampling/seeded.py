"""Reproducible randomness, for tests and simulation only."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dpselect.errors import InvalidRequest
from dpselect.sampling.base import Sampler
from dpselect.sampling.constant_work import constant_work_wanted
from dpselect.sampling.entropy import EntropySampler


@final
class SeededSampler(Sampler):
    """Words from a `numpy.random.Generator`: whoever knows the seed can undo the noise, so never for a release."""

    exact: ClassVar[bool] = False

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)

    @property
    def constant_work(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "SeededSampler()"


def sampler(rng: np.random.Generator | None) -> Sampler:
    """The operating system's entropy if `rng` is None, in the mode of `constant_work`; a simulation driven by `rng` otherwise.

    Raises:
        InvalidRequest: rng is anything else, an integer seed for example.
    """
    if rng is None:
        return EntropySampler(constant_work=constant_work_wanted())
    if isinstance(rng, np.random.Generator):
        return SeededSampler(rng)
    raise InvalidRequest(
        f"rng must be None (a release) or a numpy.random.Generator (a simulation), not {type(rng).__name__}: "
        "for a simulation pass numpy.random.default_rng(seed)"
    )


# Reproducible randomness through the algorithms of a release.


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
