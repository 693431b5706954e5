"""`Sampler`: the one interface through which mechanisms use randomness, and its members, which
supply random words.
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

from dpselect.errors import DpSelectError, InvalidRequest
from dpselect.noise import Noise
from dpselect.sampling import discrete, exact, plain, thresholds
from dpselect.sampling.contest import (
    TINY,
    WIDER,
    Entries,
    Flags,
    Floats,
    Indices,
    LazyUniform,
    Numbers,
    RankingProblem,
    Words,
    WordSource,
    certain,
    exceeds,
    numbers,
    rational,
    scaled,
)

_WHOLE = 2.0**51  # half of where floats stop being able to tell a number from its half
_DIRECT = 512  # bytes that are read from the operating system itself
_ZEROS = memoryview(bytes(1 << 17))
_CONSTANT_WORK: ContextVar[bool] = ContextVar("dpselect_constant_work", default=False)


class Sampler(ABC):
    """Noise, noisy rankings and coin flips from uniformly random 64-bit words.

    Methods named exact return what infinitely precise noise would: see docs/sampling.md. `noise`
    and `uniform` compute in float64 from 52 random bits a draw: their law is the real-valued one up
    to rounding.
    """

    exact: ClassVar[bool]
    """Whether rankings are exact; if not they are computed from `noise`."""
    constant_work: bool
    """Whether rankings draw the noise of every candidate, whatever the scores."""

    @abstractmethod
    def words(self, count: int) -> Words:
        """(count,) independent uniformly random 64-bit words."""

    @final
    def uniform(self, count: int) -> Floats:
        """(count,) uniform numbers strictly between 0 and 1, centers of 2^52 equal cells."""
        words = self.words(count)
        words >>= np.uint64(12)
        numbers = words.astype(np.float64)
        numbers += 0.5
        numbers *= 2.0**-52
        return numbers

    @final
    def noise(self, noise: Noise, count: int) -> Floats:
        """(count,) draws of the standard noise."""
        return noise.from_uniform(self.uniform(count))

    @final
    def top_k(self, values: Numbers, noise: Noise, scale: float, k: int) -> Indices:
        """(k,) positions of the k largest values + scale * noise, largest first; values (m,)
        integers or floats, m >= k.

        Exact if `self.exact` (Theorems X2 and X6): scores and scale are the real numbers that they
        represent.
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
        multiplicities: Indices | None = None,
    ) -> Drawn:
        """The k largest values + scale * noise, largest first, each with its noise; grouped if
        there are `multiplicities`.

        As `top_k` and `top_k_grouped`, and raises as they do. Exact if `self.exact`, whatever is
        asked of it: Theorem X13.
        """
        values = numbers(values)
        problem = RankingProblem(values, noise, float(scale), k, self.words)
        if multiplicities is not None:
            find = exact.grouped_drawn_all if self.constant_work else exact.grouped
            return self._drawn(values, noise, scale, find(problem, multiplicities))
        if not self.exact:
            return _plainly_drawn(
                *plain.above(values, partial(self.noise, noise), scale, -np.inf, k)
            )
        return self._drawn(
            values,
            noise,
            scale,
            exact.drawn_all(problem) if self.constant_work else exact.top_k(problem),
        )

    @final
    def above(
        self,
        values: Numbers,
        noise: Noise,
        scale: float,
        level: float,
        k: int | None = None,
        multiplicities: Indices | None = None,
    ) -> Drawn:
        """Those values + scale * noise above `level`, at most the k largest of them (all if None),
        largest first; score units.

        Grouped if there are `multiplicities`, and raises as `top_k_grouped` then. Exact if
        `self.exact`, and if grouped for every sampler, whatever is asked of the result:
        Theorems X13 and X14.
        """
        values = numbers(values)
        if multiplicities is not None:
            size = int(multiplicities.sum(dtype=object))
            problem = RankingProblem(
                values, noise, float(scale), size if k is None else min(k, size), self.words
            )
            found = (thresholds.grouped_drawn_all if self.constant_work else thresholds.grouped)(
                problem, multiplicities, level
            )
            return self._drawn(values, noise, scale, found)
        if not self.exact:
            return _plainly_drawn(*plain.above(values, partial(self.noise, noise), scale, level, k))
        few = len(values) if k is None else min(k, len(values))
        problem = RankingProblem(values, noise, float(scale), max(few, 1), self.words)
        entries = (
            thresholds.drawn_all(problem, level)
            if self.constant_work
            else thresholds.above(problem, level)
        )
        return self._drawn(values, noise, scale, entries[:few])

    @final
    def peel(self, values: Numbers, noise: Noise, scale: float, k: int) -> Indices:
        """(k,) positions of k rounds of `top_k` with k=1, each on what is left and with fresh
        noise; exact if `self.exact`.
        """
        problem = RankingProblem(numbers(values), noise, float(scale), k, self.words)
        if self.exact and not self.constant_work and exact.should_sweep(problem):
            return exact.peeled(problem)
        left, order = np.arange(len(values)), np.empty(k, dtype=np.int64)
        for place in range(k):
            winner = int(self.top_k(problem.values[left], noise, scale, 1)[0])
            order[place] = left[winner]
            left = np.delete(left, winner)
        return order

    @final
    def above_rows(
        self, matrix: Numbers, noise: Noise, scale: float, level: float, *, listed: Flags
    ) -> Indices:
        """(rounds, m) positions of those above `level` in every row, largest first, then -1; exact
        if `self.exact`.

        Only candidates that are `listed` (rounds, m) take part.
        """
        matrix = numbers(matrix)
        if not self.exact:
            noisy = np.where(
                listed, plain.noisy(matrix, partial(self.noise, noise), scale), -np.inf
            )
            return thresholds.in_order(noisy, noisy > level)
        return thresholds.rows(
            RankingProblem(matrix, noise, float(scale), matrix.shape[1], self.words), level, listed
        )

    @final
    def top_k_rows(self, matrix: Numbers, noise: Noise, scale: float, k: int) -> Indices:
        """(rounds, k) the same for every row of a (rounds, m) matrix."""
        matrix = numbers(matrix)
        if not self.exact:
            return plain.top_k_rows(matrix, partial(self.noise, noise), scale, k)
        return exact.top_k_rows(
            RankingProblem(matrix, noise, float(scale), k, self.words),
            constant_work=self.constant_work,
        )

    @final
    def top_k_grouped(
        self, values: Numbers, multiplicities: Indices, noise: Noise, scale: float, k: int
    ) -> tuple[Indices, Indices]:
        """(k,) groups and places in them of the k largest where `multiplicities[g]` candidates
        share the score `values[g]`.

        Exact for every sampler (Theorem X6); nothing of the size of the candidates is held, but in
        constant work.
        """
        chosen = self.ranking(values, noise, scale, k, multiplicities)
        return chosen.index, chosen.member

    @final
    def require_drawable(self, candidates: int) -> None:
        """Raise `TooManyCandidates` where `top_k_grouped` would for that many candidates."""
        if self.constant_work:
            exact.require_drawable(candidates)

    @final
    def exceeds(self, values: Numbers, noise: Noise, scale: float, level: float) -> Flags:
        """(count,) whether value + scale * Z > level, for an own draw of the noise each; all in
        score units.

        Exact if `self.exact` (Theorem X2): P[True] is sf((level - value) / scale) of the real
        numbers that are represented.
        """
        if not self.exact:
            return np.asarray(plain.noisy(values, partial(self.noise, noise), scale) > level)
        return exceeds(numbers(values), noise, float(scale), float(level), self.words)

    @final
    def thresholds(self, noise: Noise, scales: Sequence[float], rows: int) -> Thresholds:
        """(rows,) noisy thresholds to compare with, each the sum of scale * Y over `scales` with
        own draws Y; score units.

        For comparisons that come one after the other: `passes` compares, `renew` draws afresh.
        Exact for every sampler.
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
        """(rows, m) whether above - minus + answer_scale * Z > scale * Y, with one Y for every row;
        all in score units.

        Several scales are those of as many Y, added up. Exact for every sampler (Theorem X2), the
        difference of (rows, m) `above` and all of `minus`, which broadcast, included.
        """
        scales = scale if isinstance(scale, Sequence) else [scale]
        parts = [numbers(np.asarray(part)) for part in minus]
        return self.thresholds(noise, scales, len(above)).passes(
            numbers(above), float(answer_scale), parts
        )

    @final
    def rounded(self, values: Numbers, noise: Noise, scale: float, grid: float) -> Floats:
        """(count,) values + scale * noise, each rounded to the nearest multiple of `grid`, a power
        of two.

        Exact if `self.exact` (Theorem X7): the multiple is that of the real-valued sum. As a float
        it is rounded again if it has more than 53 bits.
        """
        if not self.exact:
            return np.rint(plain.noisy(values, partial(self.noise, noise), scale) / grid) * grid
        entries = Entries.at(np.arange(len(values)), self.words(len(values)))
        return self._drawn(values, noise, scale, entries).rounded(grid)

    @final
    def categorical(
        self, low: Floats, high: Floats, weights: Callable[[], Sequence[arb]], count: int
    ) -> Indices:
        """(count,) independent classes, each with probability exactly in proportion to its weight.
        Theorem X9.

        `low` and `high` are (classes,) bounds on the logarithms of the weights, both -inf for a
        weight of zero; `weights`, rarely asked, returns balls around them that shrink to them as
        Arb's working precision grows.
        """
        return discrete.categorical(low, high, weights, count, self.words)

    @final
    def subset(self, size: int, count: int) -> Indices:
        """(count,) distinct positions below `size`, uniform over sets, in random order; exact."""
        while True:
            keys = self.words(size)
            order = np.argsort(keys, kind="stable")
            # Given that all keys differ every order is equally likely; the sort's own rule must not
            # break a tie.
            if (np.diff(keys[order]) != 0).all():
                return order[:count].astype(np.int64)

    @final
    def below(self, bounds: Indices) -> Indices:
        """(count,) independent uniform integers, each at least 0 and less than its bound >= 1;
        exact, by rejection.
        """
        limits = bounds.astype(np.uint64)
        # The words up to here split evenly among the residues.
        last = ~np.uint64(0) - (~np.uint64(0) % limits + np.uint64(1)) % limits
        words = self.words(len(limits))
        while len(late := np.flatnonzero(words > last)):
            words[late] = self.words(len(late))
        return (words % limits).astype(np.int64)

    @final
    def _drawn(self, values: Numbers, noise: Noise, scale: float, entries: Entries) -> Drawn:
        held = values[entries.index]
        return Drawn(
            entries.index,
            entries.member,
            lambda grid: nearest(held, noise, float(scale), grid, entries, self.words),
        )


@final
@dataclass(frozen=True, eq=False, repr=False)
class Drawn:
    """Some of values + scale * noise, largest first. Private: never shown, but for what is released
    of them.
    """

    index: Indices  # (count,) which value each has
    # (count,) which member of that value's group it is; 0 for values that stand for one candidate
    member: Indices
    rounded: Callable[[float], Floats]
    """(count,) each number rounded to the nearest multiple of a grid, a power of two; score units.
    Where it is exact, what one answer had to look at is known to the next: Theorem X13.
    """

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return "Drawn(<hidden>)"


def _plainly_drawn(index: Indices, noisy: Floats) -> Drawn:
    return Drawn(index, np.zeros_like(index), lambda grid: np.rint(noisy / grid) * grid)


def nearest(
    values: Numbers, noise: Noise, scale: float, grid: float, entries: Entries, words: WordSource
) -> Floats:
    """(entries,) the multiples of `grid` nearest to values + scale * Z, for what is known of their
    noise. Theorem X7.

    The whole multiples of the grid in a value are set apart, exactly: what is left is as small as
    the noise, and so are its roundings. Where these leave two multiples possible, or a multiple is
    not a float, the bits decide.
    """
    whole, rest, moderate = _split(values, grid)
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = scaled(noise, scale / grid, entries.words, entries.level)
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
    """values / grid as a whole number and a rest in [0, 1), both exact where the third is True."""
    floats = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        multiples = floats / grid  # by a power of two: exact unless beyond the floats or below them
        whole = np.floor(multiples)
        same = floats == values if values.dtype != np.int64 else np.abs(floats) < _WHOLE
        exact = same & (np.abs(multiples) < _WHOLE) & ((np.abs(multiples) > TINY) | (floats == 0))
        return whole, multiples - whole, exact


def _as_float(value: Fraction) -> float:
    """The nearest float, the largest where it is beyond."""
    largest = sys.float_info.max
    return float(min(max(value, -Fraction(largest)), Fraction(largest)))


def _nearest(value: fmpq, scale: fmpq, noise: Noise, draw: LazyUniform) -> int:
    def floor(cell: arb) -> fmpz | None:
        return (arb(value) + arb(scale) * noise.isf_ball(cell) + arb(0.5)).floor().unique_fmpz()

    magnitude = abs(int(value.p.bit_length()) - int(value.q.bit_length()))
    return int(draw.decide(floor, 64 + magnitude))


@final
class Thresholds:
    """(rows,) thresholds, each the sum of scale * Y over a few scales with own draws Y of a noise.
    Private: never shown.

    Exact: every bit of a threshold that one comparison had to draw is known to the next.
    Theorem X2.
    """

    def __init__(self, noise: Noise, scales: Sequence[float], rows: int, words: WordSource) -> None:
        self._noise, self._scales, self._source = noise, tuple(scales), words
        self._words = np.zeros((len(self._scales), rows), dtype=np.uint64)
        self._low, self._high, self._size = np.zeros(rows), np.zeros(rows), np.zeros(rows)
        self._lazy: dict[int, list[LazyUniform]] = {}
        self.renew(np.arange(rows))

    def renew(self, rows: Indices) -> None:
        """Draw the thresholds of these rows afresh."""
        words = self._source(len(self._scales) * len(rows)).reshape(len(self._scales), len(rows))
        self._words[:, rows] = words
        self._low[rows] = self._high[rows] = self._size[rows] = 0.0
        for scale, drawn in zip(self._scales, words, strict=True):
            low, high = scaled(self._noise, scale, drawn)
            self._low[rows] += low
            self._high[rows] += high
            self._size[rows] += np.maximum(np.abs(low), np.abs(high))
        for row in rows.tolist():
            self._lazy.pop(row, None)

    def passes(self, values: Numbers, answer_scale: float, minus: Sequence[Numbers] = ()) -> Flags:
        """(rows, m) whether value - the sum of `minus` + answer_scale * Z > the row's threshold,
        with an own Z each.

        `values` (rows, m) and each of `minus` broadcast against one another; the difference is that
        of the real numbers.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            middle, size = _subtracted(values, minus)
            answers = self._source(middle.size).reshape(middle.shape)
            low, high = scaled(self._noise, answer_scale, answers)
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
            first, *others = (
                rational(np.broadcast_to(part, middle.shape)[row, column].item())
                for part in (values, *minus)
            )
            if row not in self._lazy:
                self._lazy[row] = [
                    LazyUniform(self._source, word=int(word)) for word in self._words[:, row]
                ]
            kept = [
                (-rational(scale), draw)
                for scale, draw in zip(self._scales, self._lazy[row], strict=True)
            ]
            result[i] = (
                LazyUniform.sign_of_total(first - sum(others), self._noise, [own, *kept]) > 0
            )
        return result.reshape(middle.shape)

    def __repr__(self) -> str:
        return "Thresholds(<hidden>)"


def _subtracted(values: Numbers, minus: Sequence[Numbers]) -> tuple[Floats, Floats]:
    """values less all of `minus`, as float64, and the sum of the sizes of the terms, of which its
    few roundings are a part.
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
    """Randomness for releases.

    Every request is keyed afresh from the operating system: nothing is kept between requests, so no
    state exists that a fork or a second thread could share, and none that could be read later. Long
    requests are AES-256 in counter mode under a fresh 256-bit key, because the operating system
    alone is slower than the noise it feeds.

    Args:
        constant_work: True draws the noise of every candidate in every ranking, so that how much
            work is done does not depend on the scores (docs/sampling.md says what still does);
            slower by about the time of plain NumPy.
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
    """Bytes from the operating system, or an error: no other source exists to fall back to."""
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
    """Simulation, with rankings in float64, from a `numpy.random.Generator`.

    Whoever knows the seed can undo the noise: never for a release.
    """

    exact: ClassVar[bool] = False

    def __repr__(self) -> str:
        return "SeededSampler()"


@final
class ExactSampler(_Generated):
    """The exact path driven by a `numpy.random.Generator`, for tests: algorithms of
    `EntropySampler`, never for a release.
    """

    exact: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"ExactSampler(constant_work={self.constant_work})"


def sampler(rng: np.random.Generator | None) -> Sampler:
    """The operating system's entropy if `rng` is None, in the mode of `constant_work`; a simulation
    driven by `rng` otherwise.

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
    """Releases inside draw and look at one noise for every candidate, so that how much is drawn
    does not show the scores.

        with dpselect.sampling.constant_work():
            session.select(mechanism, scores)

    It holds for this thread (or asynchronous task), and for rankings by noisy scores and
    comparisons with noisy thresholds. `CanonicalTopK` and `JointTopK` take as long as the scores
    make them; docs/sampling.md says what else depends on the scores.
    """
    token = _CONSTANT_WORK.set(True)
    try:
        yield
    finally:
        _CONSTANT_WORK.reset(token)
