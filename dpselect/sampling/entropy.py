"""The operating system's entropy, stretched by a stream cipher."""

from __future__ import annotations

import os
from typing import ClassVar, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from dpselect.sampling.base import Sampler
from dpselect.sampling.errors import EntropyUnavailable

_DIRECT = 512  # bytes that are read from the operating system itself
_ZEROS = memoryview(bytes(1 << 17))


@final
class EntropySampler(Sampler):
    """Randomness for releases.

    Every request is keyed afresh from the operating system: nothing is kept between requests, so there is no state that a fork
    or a second thread could share, and none that could be read later. Long requests are AES-256 in counter mode under a
    fresh 256-bit key, because the operating system alone is slower than the noise it feeds.

    Args:
        constant_work: True draws the noise of every candidate in every ranking, so that how much work is done does not depend on
            the scores (docs/sampling.md says what still does); slower by about the time of plain NumPy.
    """

    exact: ClassVar[bool] = True

    def __init__(self, *, constant_work: bool = False) -> None:
        self._constant_work = constant_work

    @property
    def constant_work(self) -> bool:
        return self._constant_work

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
        return f"EntropySampler(constant_work={self._constant_work})"


def _entropy(size: int) -> bytes:
    """Bytes from the operating system, or an error: there is no other source to fall back to."""
    try:
        data = os.urandom(size)
    except (OSError, NotImplementedError) as error:
        raise EntropyUnavailable(
            "the operating system gave no random bytes: nothing was released; repair the system's random source and ask again"
        ) from error
    if len(data) != size:
        raise EntropyUnavailable("the operating system gave fewer random bytes than asked for: nothing was released")
    return data
