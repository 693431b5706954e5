"""The best of contestants whose noise is the largest of many draws, decided by as many bits as it takes.

If a set of M independent draws has the distribution function F, then -ln F at the largest of them is E/M with E standard
exponential: the time at which the first of M arrives. Times of subsets are sums of such terms. Theorem X8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flint import arb, fmpq

from dpselect.noise.base import Noise
from dpselect.sampling.lazy import LazyUniform, precision


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
    draws = list({id(wait.draw): wait.draw for runner in (first, second) for wait in runner.waits}.values())
    rest = (first.score - second.score) / scale
    while True:
        with precision(max(draw.precision for draw in draws)):
            lead = arb(rest) + _noise(first, noise) - _noise(second, noise)
            sign = int(bool(lead > 0)) - int(bool(lead < 0))
        if sign:
            return sign
        for draw in draws:
            draw.extend()


def _noise(runner: Runner, noise: Noise) -> arb:
    time = arb(0)
    for size, draw in runner.waits:
        time -= (-draw.ball()).log1p() / size()
    return noise.isf_ball(-(-time).expm1())
