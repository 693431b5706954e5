"""Numbers with infinitely many random bits, of which a few are drawn and the rest on demand."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import final

import numpy as np
from flint import arb, ctx, fmpq, fmpz
from numpy.typing import NDArray

from dpselect.noise.base import Noise

WordSource = Callable[[int], NDArray[np.uint64]]

_WORD = 64
_BEYOND = 4096  # a power of two that no float64 and no float64 times any noise ever drawn reaches
_GUARD = 64  # bits of precision beyond those drawn


class _Precision:
    """Arb's working precision belongs to the process, so that one thread at a time may set it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def of(self, bits: int) -> Iterator[None]:
        with self._lock, ctx.workprec(bits):
            yield


_PRECISION = _Precision()
precision = _PRECISION.of


@final
class LazyUniform:
    """V = 2^-level * 0.b1 b2 b3 ... with independent fair bits, of which the first `count` are known as an integer."""

    __slots__ = ("_source", "bits", "count", "level")

    def __init__(self, source: WordSource, *, level: int = 0, word: int | None = None) -> None:
        self._source, self.level = source, level
        self.bits, self.count = (0, 0) if word is None else (word, _WORD)

    def extend(self) -> None:
        """Draw one more word."""
        self.bits = self.bits << _WORD | int(self._source(1)[0])
        self.count += _WORD

    def ball(self) -> arb:
        """The closed cell in which V lies, at a precision that holds its ends exactly."""
        half = -(self.count + self.level + 1)
        return arb(arb((2 * self.bits + 1, half)), arb((1, half)))

    @property
    def precision(self) -> int:
        """A working precision at which the cell and not the rounding limits what is known."""
        return self.count + self.level + _GUARD


Term = tuple[fmpq, LazyUniform]


def rational(value: float | int) -> fmpq:
    """The exact value of a number; for minus infinity, one so low that only another such candidate can lose to it."""
    if value == -math.inf:
        return fmpq(-(1 << _BEYOND))
    return fmpq(*Fraction(value).as_integer_ratio())


def sign_of_sum(difference: fmpq, noise: Noise, above: LazyUniform, below: LazyUniform) -> int:
    """The sign of difference + isf(above) - isf(below), drawing bits until it is certain. Theorem X2."""
    return sign_of_total(difference, noise, [(fmpq(1), above), (fmpq(-1), below)])


def sign_of_total(rest: fmpq, noise: Noise, terms: list[Term]) -> int:
    """The sign of rest + the sum of factor * isf(V) over the terms, drawing bits until it is certain.

    Theorem X2. The sum is zero with probability 0.
    """
    while True:
        sign = _sign(rest, noise, terms)
        if sign:
            return sign
        for _, draw in terms:
            draw.extend()


def _sign(rest: fmpq, noise: Noise, terms: list[Term]) -> int:
    with precision(max(draw.precision for _, draw in terms)):
        total = arb(rest)
        for factor, draw in terms:
            total += arb(factor) * noise.isf_ball(draw.ball())
        return int(bool(total > 0)) - int(bool(total < 0))


def bernoulli(probability: Callable[[], arb], draw: LazyUniform) -> bool:
    """True with the exact probability p that `probability()` encloses at the precision it is called under. Theorem X4.

    Args:
        probability: returns a ball around p that shrinks to it as Arb's working precision grows.
        draw: the uniform number that decides, of which bits may be known.
    """
    while True:
        with precision(draw.precision):
            bound, cell = probability(), draw.ball()
            if cell < bound:
                return True
            if cell > bound:
                return False
        draw.extend()


def certain_integer(bits: int, number: Callable[[], arb]) -> int:
    """The floor of a real number, from balls at growing precision. The number must not be an integer."""
    while True:
        with precision(bits):
            floor: fmpz | None = number().floor().unique_fmpz()
        if floor is not None:
            return int(floor)
        bits *= 2
