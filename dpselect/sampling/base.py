"""`Sampler`, the one interface through which mechanisms use randomness, and its members.

The members supply random words.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from flint import arb, fmpq, fmpz

from accounting.numbers import Flags, Floats, Integers
from dpselect.errors import DpSelectError, InvalidRequest
from dpselect.noise import Noise
from dpselect.sampling import discrete, exact, plain, thresholds
from dpselect.sampling.contest import (
    TINY,
    WIDER,
    Entries,
    LazyUniform,
    Numbers,
    RankingProblem,
    Words,
    WordSource,
    certain,
    exceeds,
    numbers,
    rational,
    scaled_bounds,
)

_WHOLE = 2.0**51  # half of where floats stop being able to tell a number from its half
_DIRECT = 512  # bytes that are read from the operating system itself
_ZEROS = memoryview(bytes(1 << 17))
_CONSTANT_WORK: ContextVar[bool] = ContextVar("dpselect_constant_work", default=False)


class Sampler(ABC):
    """Noise, noisy rankings and coin flips from uniformly random 64-bit words.

    Methods named exact return what infinitely precise noise would: see docs/sampling.md. `noise`
    and `uniform` compute in float64 from 52 random bits a draw, so their distribution is the
    real-valued one up to rounding.
    """

    exact: ClassVar[bool]
    """True if rankings are exact; False if they are computed from `noise`."""
    constant_work: bool
    """True if rankings draw the noise of every candidate, whatever the scores."""

    @abstractmethod
    def words(self, count: int) -> Words:
        """Draw (count,) independent uniformly random 64-bit words."""

    @final
    def uniform(self, count: int) -> Floats:
        """Draw (count,) uniform numbers strictly between 0 and 1, centers of 2^52 equal cells."""
        words = self.words(count)
        words >>= np.uint64(12)
        numbers = words.astype(np.float64)
        numbers += 0.5
        numbers *= 2.0**-52
        return numbers

    @final
    def noise(self, noise: Noise, count: int) -> Floats:
        """Draw (count,) standard noise."""
        return noise.from_uniform(self.uniform(count))

    @final
    def top_k(self, values: Numbers, noise: Noise, scale: float, k: int) -> Integers:
        """Return (k,) positions of the k largest values + scale * noise, largest first.

        `values` are (m,) integers or floats, m >= k. Exact if `self.exact` (Theorems X2 and X6):
        scores and scale are the real numbers that they represent.
        """
        values = numbers(values)
        if not self.exact:
            return plain.top_k_rows(values[None], partial(self.noise, noise), scale, k)[0]
        return self.ranking(values, noise, scale, k).index

    @final
    def ranking(
        self,
        values: Numbers,
        noise: Noise,
        scale: float,
        k: int,
        multiplicities: Integers | None = None,
    ) -> Drawn:
        """Return the k largest values + scale * noise, largest first, each with its noise.

        They are grouped if there are `multiplicities`. It behaves as `top_k` and `top_k_grouped`,
        and raises as they do. Exact if `self.exact`, whatever is computed from the result:
        Theorem X13.
        """
        values = numbers(values)
        problem = RankingProblem(values, noise, float(scale), k, self.words)
        if multiplicities is not None:
            find = exact.draw_all_groups if self.constant_work else exact.rank_groups
            return self._draw(values, noise, scale, find(problem, multiplicities))
        if not self.exact:
            return _plainly_drawn(
                *plain.above(values, partial(self.noise, noise), scale, -np.inf, k)
            )
        return self._draw(
            values,
            noise,
            scale,
            exact.draw_all(problem) if self.constant_work else exact.top_k(problem),
        )

    @final
    def above(
        self,
        values: Numbers,
        noise: Noise,
        scale: float,
        level: float,
        k: int | None = None,
        multiplicities: Integers | None = None,
    ) -> Drawn:
        """Return at most the k largest values + scale * noise above `level`, largest first.

        All of them if k is None. In score units. They are grouped if there are `multiplicities`,
        and it then raises as `top_k_grouped`. Exact if `self.exact`, and for every sampler if
        grouped, whatever is computed from the result: Theorems X13 and X14.
        """
        values = numbers(values)
        if multiplicities is not None:
            size = int(multiplicities.sum(dtype=object))
            problem = RankingProblem(
                values, noise, float(scale), size if k is None else min(k, size), self.words
            )
            entries = (
                thresholds.draw_all_groups if self.constant_work else thresholds.groups_above
            )(problem, multiplicities, level)
            return self._draw(values, noise, scale, entries)
        if not self.exact:
            return _plainly_drawn(*plain.above(values, partial(self.noise, noise), scale, level, k))
        most = len(values) if k is None else min(k, len(values))
        problem = RankingProblem(values, noise, float(scale), max(most, 1), self.words)
        entries = (
            thresholds.draw_all(problem, level)
            if self.constant_work
            else thresholds.above(problem, level)
        )
        return self._draw(values, noise, scale, entries[:most])

    @final
    def peel(self, values: Numbers, noise: Noise, scale: float, k: int) -> Integers:
        """Return (k,) positions of the winners of k rounds, each on the remaining candidates.

        Every round is `top_k` with k=1 and fresh noise. Exact if `self.exact`.
        """
        problem = RankingProblem(numbers(values), noise, float(scale), k, self.words)
        if self.exact and not self.constant_work and exact.should_sweep(problem):
            return exact.peel(problem)
        remaining, order = np.arange(len(values)), np.empty(k, dtype=np.int64)
        for place in range(k):
            winner = int(self.top_k(problem.values[remaining], noise, scale, 1)[0])
            order[place] = remaining[winner]
            remaining = np.delete(remaining, winner)
        return order

    @final
    def above_rows(
        self, matrix: Numbers, noise: Noise, scale: float, level: float, *, listed: Flags
    ) -> Integers:
        """Return (rounds, m) positions of noisy values above `level` in every row, then -1.

        The largest is first. Only candidates that are `listed` (rounds, m) take part. Exact if
        `self.exact`.
        """
        matrix = numbers(matrix)
        if not self.exact:
            noisy = np.where(
                listed, plain.noisy(matrix, partial(self.noise, noise), scale), -np.inf
            )
            return thresholds.sort_kept(noisy, noisy > level)
        return thresholds.rows(
            RankingProblem(matrix, noise, float(scale), matrix.shape[1], self.words), level, listed
        )

    @final
    def top_k_rows(self, matrix: Numbers, noise: Noise, scale: float, k: int) -> Integers:
        """Return (rounds, k) positions of `top_k` for every row of a (rounds, m) matrix."""
        matrix = numbers(matrix)
        if not self.exact:
            return plain.top_k_rows(matrix, partial(self.noise, noise), scale, k)
        return exact.top_k_rows(
            RankingProblem(matrix, noise, float(scale), k, self.words),
            constant_work=self.constant_work,
        )

    @final
    def top_k_grouped(
        self, values: Numbers, multiplicities: Integers, noise: Noise, scale: float, k: int
    ) -> tuple[Integers, Integers]:
        """Return (k,) groups of the k largest, and (k,) places of the winners in their groups.

        `multiplicities[g]` candidates share the score `values[g]`. Exact for every sampler
        (Theorem X6). The memory does not grow with the number of candidates, except in constant
        work.
        """
        ranking = self.ranking(values, noise, scale, k, multiplicities)
        return ranking.index, ranking.member

    @final
    def require_drawable(self, candidates: int) -> None:
        """Raise `TooManyCandidates` if `top_k_grouped` would for that many candidates."""
        if self.constant_work:
            exact.require_drawable(candidates)

    @final
    def exceeds(self, values: Numbers, noise: Noise, scale: float, level: float) -> Flags:
        """Return (count,) flags of values with value + scale * Z > level, in score units.

        Each has its own draw of the noise. Exact if `self.exact` (Theorem X2): P[True] is sf((level
        - value) / scale) of the real numbers that are represented.
        """
        if not self.exact:
            return np.asarray(plain.noisy(values, partial(self.noise, noise), scale) > level)
        return exceeds(numbers(values), noise, float(scale), float(level), self.words)

    @final
    def thresholds(self, noise: Noise, scales: Sequence[float], rows: int) -> Thresholds:
        """Draw (rows,) noisy thresholds, each the sum of scale * Y over `scales`, in score units.

        Each Y is its own draw. They serve comparisons that come one after the other: `passes`
        compares, and `renew` draws afresh. Exact for every sampler.
        """
        return Thresholds(noise, [float(scale) for scale in scales], rows, self.words)

    @final
    def passing(
        self,
        above: Numbers,
        noise: Noise,
        scale: float | Sequence[float],
        answer_scale: float,
        *,
        minus: Sequence[Numbers] = (),
    ) -> Flags:
        """Return (rows, m) flags of above - minus + answer_scale * Z > scale * Y, in score units.

        There is one Y for every row. Several scales are those of as many Y, added up. Exact for
        every sampler (Theorem X2), and so is the difference of (rows, m) `above` and all of
        `minus`, which broadcast.
        """
        scales = scale if isinstance(scale, Sequence) else [scale]
        parts = [numbers(np.asarray(part)) for part in minus]
        return self.thresholds(noise, scales, len(above)).passes(
            numbers(above), float(answer_scale), parts
        )

    @final
    def draw_rounded(self, values: Numbers, noise: Noise, scale: float, grid: float) -> Floats:
        """Return (count,) values + scale * noise, each rounded to the nearest multiple of `grid`.

        The grid is a power of two. Exact if `self.exact` (Theorem X7): the multiple is that of the
        real-valued sum. As a float it is rounded again if it has more than 53 bits.
        """
        if not self.exact:
            return np.rint(plain.noisy(values, partial(self.noise, noise), scale) / grid) * grid
        entries = Entries.from_index(np.arange(len(values)), self.words(len(values)))
        return self._draw(values, noise, scale, entries).rounded(grid)

    @final
    def categorical(
        self, low: Floats, high: Floats, weights: Callable[[], Sequence[arb]], count: int
    ) -> Integers:
        """Draw (count,) independent classes, with probabilities exactly in proportion to weights.

        `low` and `high` are (classes,) bounds on the logarithms of the weights, both -inf for a
        weight of zero. `weights` is rarely called, and returns balls around them that shrink to
        them as Arb's working precision grows. Theorem X9.
        """
        return discrete.categorical(low, high, weights, count, self.words)

    @final
    def subset(self, size: int, count: int) -> Integers:
        """Draw (count,) distinct positions below `size`, uniform over sets, in random order.

        Exact.
        """
        while True:
            keys = self.words(size)
            order = np.argsort(keys, kind="stable")
            # Given that all keys differ every order is equally likely; the sort's own rule must not
            # break a tie.
            if (np.diff(keys[order]) != 0).all():
                return order[:count].astype(np.int64)

    @final
    def below(self, bounds: Integers) -> Integers:
        """Draw (count,) independent uniform integers, each at least 0 and less than its bound >= 1.

        Exact, by rejection.
        """
        limits = bounds.astype(np.uint64)
        # The words up to here split evenly among the residues.
        last = ~np.uint64(0) - (~np.uint64(0) % limits + np.uint64(1)) % limits
        words = self.words(len(limits))
        while len(rejected := np.flatnonzero(words > last)):
            words[rejected] = self.words(len(rejected))
        return (words % limits).astype(np.int64)

    @final
    def _draw(self, values: Numbers, noise: Noise, scale: float, entries: Entries) -> Drawn:
        scores = values[entries.index]
        return Drawn(
            entries.index,
            entries.member,
            lambda grid: nearest(scores, noise, float(scale), grid, entries, self.words),
        )


@final
@dataclass(frozen=True, eq=False, repr=False)
class Drawn:
    """Some of values + scale * noise, largest first. **Private** except for the released part."""

    index: Integers  # (count,) places of their values
    # (count,) places in the groups of these values; 0 for values that stand for one candidate
    member: Integers
    rounded: Callable[[float], Floats]
    """Function from a grid, a power of two, to (count,) numbers rounded to its nearest multiple.

    In score units. If it is exact, bits drawn by one call are known to the next: Theorem X13.
    """

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return "Drawn(<hidden>)"


def _plainly_drawn(index: Integers, noisy: Floats) -> Drawn:
    return Drawn(index, np.zeros_like(index), lambda grid: np.rint(noisy / grid) * grid)


def nearest(
    values: Numbers, noise: Noise, scale: float, grid: float, entries: Entries, words: WordSource
) -> Floats:
    """Return (entries,) multiples of `grid` nearest to values + scale * Z, from known bits of Z.

    The whole multiples of the grid in a value are set apart, exactly. The remainder is as small as
    the noise, and so are its roundings. If these leave two multiples possible, or a multiple is not
    a float, the bits decide. Theorem X7.
    """
    whole, rest, moderate = _split(values, grid)
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = scaled_bounds(noise, scale / grid, entries.words, entries.level)
        margin = WIDER * (2.0 + np.maximum(np.abs(low), np.abs(high)))
        below, above = np.floor(low + rest + 0.5 - margin), np.floor(high + rest + 0.5 + margin)
        result: Floats = (whole + below) * grid
        sure = moderate & (below == above) & (np.abs(below) < _WHOLE) & (scale / grid < _WHOLE)
    for i in np.flatnonzero(~sure).tolist():
        value, ratio = rational(values[i].item()) / rational(grid), rational(scale) / rational(grid)
        result[i] = _as_float(
            _nearest(value, ratio, noise, entries.draw(i, words)) * Fraction(grid)
        )
    return result


def _split(values: Numbers, grid: float) -> tuple[Floats, Floats, Flags]:
    """Return values / grid as a whole number and a rest in [0, 1), and flags of exact pairs."""
    floats = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        multiples = floats / grid  # by a power of two: exact unless beyond the floats or below them
        whole = np.floor(multiples)
        is_exact = floats == values if values.dtype != np.int64 else np.abs(floats) < _WHOLE
        exact = (
            is_exact & (np.abs(multiples) < _WHOLE) & ((np.abs(multiples) > TINY) | (floats == 0))
        )
        return whole, multiples - whole, exact


def _as_float(value: Fraction) -> float:
    """Return the nearest float, or the largest if the value is beyond."""
    largest = sys.float_info.max
    return float(min(max(value, -Fraction(largest)), Fraction(largest)))


def _nearest(value: fmpq, scale: fmpq, noise: Noise, draw: LazyUniform) -> int:
    def floor(cell: arb) -> fmpz | None:
        return (arb(value) + arb(scale) * noise.isf_ball(cell) + arb(0.5)).floor().unique_fmpz()

    magnitude = abs(int(value.p.bit_length()) - int(value.q.bit_length()))
    return int(draw.decide(floor, 64 + magnitude))


@final
class Thresholds:
    """Thresholds (rows,) that are sums of scale * Y over a few scales, with own draws Y of a noise.

    They are private and never shown. Exact: every bit of a threshold that one comparison had to
    draw is known to the next. Theorem X2.
    """

    def __init__(self, noise: Noise, scales: Sequence[float], rows: int, words: WordSource) -> None:
        self._noise, self._scales, self._source = noise, tuple(scales), words
        self._words = np.zeros((len(self._scales), rows), dtype=np.uint64)
        self._low, self._high, self._size = np.zeros(rows), np.zeros(rows), np.zeros(rows)
        self._lazy: dict[int, list[LazyUniform]] = {}
        self.renew(np.arange(rows))

    def renew(self, rows: Integers) -> None:
        """Draw the thresholds of these rows afresh."""
        words = self._source(len(self._scales) * len(rows)).reshape(len(self._scales), len(rows))
        self._words[:, rows] = words
        self._low[rows] = self._high[rows] = self._size[rows] = 0.0
        for scale, bits in zip(self._scales, words, strict=True):
            low, high = scaled_bounds(self._noise, scale, bits)
            self._low[rows] += low
            self._high[rows] += high
            self._size[rows] += np.maximum(np.abs(low), np.abs(high))
        for row in rows.tolist():
            self._lazy.pop(row, None)

    def passes(self, values: Numbers, answer_scale: float, minus: Sequence[Numbers] = ()) -> Flags:
        """Return (rows, m) flags of value - sum of `minus` + answer_scale * Z > the threshold.

        Each has its own Z, and each row one threshold. `values` (rows, m) and each of `minus`
        broadcast against one another. The difference is that of the real numbers.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            middle, size = _subtract(values, minus)
            answers = self._source(middle.size).reshape(middle.shape)
            low, high = scaled_bounds(self._noise, answer_scale, answers)
            low += middle - self._high[:, None]
            high += middle - self._low[:, None]
            result, unsure = certain(
                low.ravel(), high.ravel(), (size + self._size[:, None]).ravel()
            )
        for i in unsure.tolist():
            row, column = divmod(i, middle.shape[1])
            own = (
                rational(answer_scale),
                LazyUniform(self._source, word=int(answers[row, column])),
            )
            first, *subtrahends = (
                rational(np.broadcast_to(part, middle.shape)[row, column].item())
                for part in (values, *minus)
            )
            if row not in self._lazy:
                self._lazy[row] = [
                    LazyUniform(self._source, word=int(word)) for word in self._words[:, row]
                ]
            threshold_draws = [
                (-rational(scale), draw)
                for scale, draw in zip(self._scales, self._lazy[row], strict=True)
            ]
            result[i] = (
                LazyUniform.sign_of_total(
                    first - sum(subtrahends), self._noise, [own, *threshold_draws]
                )
                > 0
            )
        return result.reshape(middle.shape)

    def __repr__(self) -> str:
        return "Thresholds(<hidden>)"


def _subtract(values: Numbers, minus: Sequence[Numbers]) -> tuple[Floats, Floats]:
    """Return values less all of `minus`, as float64, and the sum of the sizes of the terms.

    The few roundings are a part of that sum.
    """
    if minus and values.dtype == np.int64 and minus[0].dtype == np.int64:
        # Rounded once: the halves of 64-bit integers do not overflow.
        half, low = np.int64(32), np.int64(2**32 - 1)
        first, second = values.astype(np.int64, copy=False), minus[0].astype(np.int64, copy=False)
        middle = ((first >> half) - (second >> half)).astype(np.float64) * 2.0**32
        middle = middle + ((first & low) - (second & low)).astype(np.float64)
        parts = minus = minus[1:]
    else:
        middle, parts = values.astype(np.float64), (values, *minus)
    for part in minus:
        middle = middle - part
    return middle, np.asarray(
        np.abs(middle) + 2.0 * sum(np.abs(part.astype(np.float64)) for part in parts)
    )


class EntropyUnavailable(DpSelectError):
    """The operating system's random source failed. Nothing is drawn from any other."""


@final
class EntropySampler(Sampler):
    """The sampler of releases: randomness of the operating system.

    Every request is keyed afresh from the operating system. Nothing is kept between requests, so no
    state exists that a fork or a second thread could share, and none that could be read later. Long
    requests are AES-256 in counter mode under a fresh 256-bit key, because the operating system
    alone is slower than the noise it feeds.

    Args:
        constant_work: True to draw the noise of every candidate in every ranking, so that the
            amount of work does not depend on the scores (docs/sampling.md lists what still does).
            It adds about the time of plain NumPy.
    """

    exact: ClassVar[bool] = True

    def __init__(self, *, constant_work: bool = False) -> None:
        self.constant_work = constant_work

    def words(self, count: int) -> Words:
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
    """Return bytes from the operating system, or raise an error: there is no other source."""
    try:
        data = os.urandom(size)
    except (OSError, NotImplementedError) as error:
        raise EntropyUnavailable(
            "the operating system gave no random bytes: nothing was released; repair the system's"
            " random source and ask again"
        ) from error
    if len(data) != size:
        raise EntropyUnavailable(
            "the operating system gave fewer random bytes than asked for: nothing was released"
        )
    return data


class _Generated(Sampler):
    """Words from a `numpy.random.Generator`."""

    def __init__(self, generator: np.random.Generator, *, constant_work: bool = False) -> None:
        self._generator = generator
        self.constant_work: bool = constant_work

    def words(self, count: int) -> Words:
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)


@final
class SeededSampler(_Generated):
    """A sampler for simulation, with rankings in float64, from a `numpy.random.Generator`.

    Anyone who knows the seed can undo the noise, so never use it for a release.
    """

    exact: ClassVar[bool] = False

    def __repr__(self) -> str:
        return "SeededSampler()"


@final
class ExactSampler(_Generated):
    """A sampler for tests: the algorithms of `EntropySampler`, driven by a seeded generator.

    It takes a `numpy.random.Generator`. Never use it for a release.
    """

    exact: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"ExactSampler(constant_work={self.constant_work})"


def sampler(rng: np.random.Generator | None) -> Sampler:
    """Return a sampler of the operating system's entropy if `rng` is None, or else a simulation.

    The former is in the mode of `constant_work`, and the latter is driven by `rng`.

    Raises:
        InvalidRequest: rng is anything else, an integer seed for example.
    """
    if rng is None:
        return EntropySampler(constant_work=_CONSTANT_WORK.get())
    if isinstance(rng, np.random.Generator):
        return SeededSampler(rng)
    raise InvalidRequest(
        "rng must be None (a release) or a numpy.random.Generator (a simulation), not"
        f" {type(rng).__name__}: for a simulation pass numpy.random.default_rng(seed)"
    )


@contextmanager
def constant_work() -> Iterator[None]:
    """Make releases inside the block draw one noise for every candidate.

    The amount of randomness then does not show the scores.

        with dpselect.sampling.constant_work():
            session.select(mechanism, scores)

    It holds for this thread (or asynchronous task), and for rankings by noisy scores and
    comparisons with noisy thresholds. The time of `CanonicalTopK` and `JointTopK` still depends on
    the scores. docs/sampling.md lists what else does.
    """
    token = _CONSTANT_WORK.set(True)
    try:
        yield
    finally:
        _CONSTANT_WORK.reset(token)
