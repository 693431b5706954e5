"""The operating system's entropy, stretched by a stream cipher."""

from __future__ import annotations

import os
from typing import final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from dpselect.sampling.base import Sampler

_DIRECT = 512  # bytes that are read from the operating system itself


@final
class EntropySampler(Sampler):
    """Randomness for releases.

    Every request is keyed afresh from the operating system: nothing is kept between requests, so there is no state that a fork
    or a second thread could share, and none that could be read later. Long requests are AES-256 in counter mode under a
    fresh 256-bit key, because the operating system alone is slower than the noise it feeds.
    """

    def words(self, count: int) -> NDArray[np.uint64]:
        size = 8 * count
        if size <= _DIRECT:
            return np.frombuffer(bytearray(os.urandom(size)), dtype=np.uint64)
        stream = np.zeros(count + 2, dtype=np.uint64)  # update_into wants room for one block more
        encryptor = Cipher(algorithms.AES256(os.urandom(32)), modes.CTR(os.urandom(16))).encryptor()
        encryptor.update_into(bytes(size), stream.data.cast("B"))
        return stream[:count]

    def __repr__(self) -> str:
        return "EntropySampler()"
