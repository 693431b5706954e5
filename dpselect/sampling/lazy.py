"""Numbers with infinitely many random bits, of which a few are drawn and the rest on demand."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import NamedTuple, TypeVar, final

import numpy as np
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

from dpselect.noise.base import Noise

T = TypeVar("T")
WordSource = Callable[[int], NDArray[np.uint64]]

_WORD = 64
_BEYOND = 4096  # a power of two that no float64 and no float64 times any noise ever drawn reaches
_GUARD = 64  # bits of precision beyond those drawn


_LOCK = [threading.RLock()]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _LOCK.__setitem__(0, threading.RLock()))


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Arb's working precision, which belongs to the process: one thread at a time sets it."""
    with _LOCK[0], ctx.workprec(bits):
        yield


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

    def decide(self, answer: Callable[[arb], T | None], more: int = 0) -> T:
        """What `answer` says of the cell of V at the working precision, and `more` bits; bits are drawn while that is None."""
        while True:
            with precision(self.precision + more):
                found = answer(self.ball())
            if found is not None:
                return found
            self.extend()


Term = tuple[fmpq, LazyUniform]


def rational(value: float | int) -> fmpq:
    """The exact value of a number; for minus infinity, one so low that only another such candidate can lose to it."""
    if value == -math.inf:
        return fmpq(-(1 << _BEYOND))
    return fmpq(*Fraction(value).as_integer_ratio())


def sign_of_total(rest: fmpq, noise: Noise, terms: list[Term]) -> int:
    """The sign of rest + the sum of factor * isf(V) over the terms, drawing bits until it is certain.

    Theorem X2. The sum is zero with probability 0.
    """

    def total() -> arb:
        return sum((arb(factor) * noise.isf_ball(draw.ball()) for factor, draw in terms), arb(rest))

    return _certain_sign(total, [draw for _, draw in terms])


def _certain_sign(number: Callable[[], arb], draws: Collection[LazyUniform]) -> int:
    """The sign of a real number, from balls around it that shrink as the draws it depends on are extended."""
    while True:
        with precision(max(draw.precision for draw in draws)):
            ball = number()
            sign = int(bool(ball > 0)) - int(bool(ball < 0))
        if sign:
            return sign
        for draw in draws:
            draw.extend()


# Races: the best of contestants whose noise is the largest of many draws.
#
# If a set of M independent draws has the distribution function F, then -ln F at the largest of them is E/M with E standard
# exponential: the time at which the first of M arrives. Times of subsets are sums of such terms. Theorem X8.


class Wait(NamedTuple):
    """E/M, with E = -ln(1 - V). `size()` is a ball around M that shrinks to it as Arb's working precision grows."""

    size: Callable[[], arb]
    draw: LazyUniform


class Runner(NamedTuple):
    """A contestant: score + scale * F^-1(exp(-t)), t the sum of the waits."""

    score: fmpq
    waits: Sequence[Wait]


def winner(runners: Sequence[Runner], noise: Noise, scale: fmpq) -> int:
    """The place of the best contestant, drawing bits until every comparison is certain."""
    best = 0
    for place in range(1, len(runners)):
        if sign_of_lead(runners[place], runners[best], noise, scale) > 0:
            best = place
    return best


def sign_of_lead(first: Runner, second: Runner, noise: Noise, scale: fmpq) -> int:
    """The sign of the first total less the second. Theorem X8; the difference is zero with probability 0."""
    draws = {id(wait.draw): wait.draw for runner in (first, second) for wait in runner.waits}.values()
    rest = (first.score - second.score) / scale
    return _certain_sign(lambda: arb(rest) + _noise(first, noise) - _noise(second, noise), draws)


def _noise(runner: Runner, noise: Noise) -> arb:
    time = arb(0)
    for size, draw in runner.waits:
        time -= (-draw.ball()).log1p() / size()
    return noise.isf_ball(-(-time).expm1())
