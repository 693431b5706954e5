"""Where random words come from: the operating system's entropy for releases, a seeded generator for tests and simulation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ClassVar, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from dpselect.errors import DpSelectError, InvalidRequest
from dpselect.sampling.base import Sampler

_DIRECT = 512  # bytes that are read from the operating system itself
_ZEROS = memoryview(bytes(1 << 17))
_CONSTANT_WORK: ContextVar[bool] = ContextVar("dpselect_constant_work", default=False)


class EntropyUnavailable(DpSelectError):
    """The operating system's random source failed. Nothing is drawn from any other."""


@final
class EntropySampler(Sampler):
    """Randomness for releases.

    Every request is keyed afresh from the operating system: nothing is kept between requests, so no state exists that a fork
    or a second thread could share, and none that could be read later. Long requests are AES-256 in counter mode under a
    fresh 256-bit key, because the operating system alone is slower than the noise it feeds.

    Args:
        constant_work: True draws the noise of every candidate in every ranking, so that how much work is done does not depend on
            the scores (docs/sampling.md says what still does); slower by about the time of plain NumPy.
    """

    exact: ClassVar[bool] = True

    def __init__(self, *, constant_work: bool = False) -> None:
        self.constant_work = constant_work

    def words(self, count: int) -> NDArray[np.uint64]:
        size = 8 * count
        if size <= _DIRECT:
            return np.frombuffer(bytearray(_entropy(size)), dtype=np.uint64)
        stream = np.empty(count + 2, dtype=np.uint64)  # update_into wants room for one block more
        seed = _entropy(48)
        encryptor = Cipher(algorithms.AES256(seed[:32]), modes.CTR(seed[32:])).encryptor()
        view = stream.data.cast("B")
        for start in range(0, size, len(_ZEROS)):
            encryptor.update_into(_ZEROS[: size - start], view[start:])
        return stream[:count]

    def __repr__(self) -> str:
        return f"EntropySampler(constant_work={self.constant_work})"


def _entropy(size: int) -> bytes:
    """Bytes from the operating system, or an error: no other source exists to fall back to."""
    try:
        data = os.urandom(size)
    except (OSError, NotImplementedError) as error:
        raise EntropyUnavailable(
            "the operating system gave no random bytes: nothing was released; repair the system's random source and ask again"
        ) from error
    if len(data) != size:
        raise EntropyUnavailable("the operating system gave fewer random bytes than asked for: nothing was released")
    return data


class _Generated(Sampler):
    """Words from a `numpy.random.Generator`."""

    def __init__(self, generator: np.random.Generator, *, constant_work: bool = False) -> None:
        self._generator, self.constant_work = generator, constant_work

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)


@final
class SeededSampler(_Generated):
    """Simulation in float64 from a `numpy.random.Generator`. Whoever knows the seed can undo the noise: never for a release."""

    exact: ClassVar[bool] = False

    def __init__(self, generator: np.random.Generator) -> None:
        super().__init__(generator)

    def __repr__(self) -> str:
        return "SeededSampler()"


@final
class ExactSampler(_Generated):
    """The exact path driven by a `numpy.random.Generator`, for tests: algorithms of `EntropySampler`, never for a release."""

    exact: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"ExactSampler(constant_work={self.constant_work})"


def sampler(rng: np.random.Generator | None) -> Sampler:
    """The operating system's entropy if `rng` is None, in the mode of `constant_work`; a simulation driven by `rng` otherwise.

    Raises:
        InvalidRequest: rng is anything else, an integer seed for example.
    """
    if rng is None:
        return EntropySampler(constant_work=_CONSTANT_WORK.get())
    if isinstance(rng, np.random.Generator):
        return SeededSampler(rng)
    raise InvalidRequest(
        f"rng must be None (a release) or a numpy.random.Generator (a simulation), not {type(rng).__name__}: "
        "for a simulation pass numpy.random.default_rng(seed)"
    )


@contextmanager
def constant_work() -> Iterator[None]:
    """Releases inside draw and look at one noise for every candidate, so that how much is drawn does not show the scores.

        with dpselect.sampling.constant_work():
            session.select(mechanism, scores)

    It holds for this thread (or asynchronous task), for `select`, `select_many`, `Session` and schedules alike; a simulation with
    `rng=` is not affected. It covers rankings by noisy scores and comparisons with noisy thresholds. `CanonicalTopK` and
    `JointTopK` search classes of sets, which takes as long as the scores make it. docs/sampling.md says what else still
    depends on the scores, and by how much.
    """
    token = _CONSTANT_WORK.set(True)
    try:
        yield
    finally:
        _CONSTANT_WORK.reset(token)
