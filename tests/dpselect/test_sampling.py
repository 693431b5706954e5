"""Randomness: fresh for every request, safe across forks and threads, and the right law."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from flint import arb, ctx
from mechanism_laws import misfit, outcome
from scipy.stats import binomtest

import dpselect as dps
from dpselect.sampling import EntropySampler, EntropyUnavailable, SeededSampler
from dpselect.sampling.contest import LazyUniform, precision

LIMIT = 1e-8  # of draws from a seed
# the entropy source has no seed, and a false alarm would be another one every time: below 1e-9 of
# each test
UNSEEDED = 1e-10


@pytest.mark.parametrize("count", [1, 64, 65, 50_000])
def test_requests_never_repeat(count: int) -> None:
    """Two requests of the same size share no stream, short ones and ciphered ones alike."""
    source = EntropySampler()
    first, second = source.words(count), source.words(count)
    assert len(first) == count
    assert not np.array_equal(first, second)
    assert len(np.unique(np.concatenate([first, second]))) == 2 * count


def test_a_fork_does_not_repeat_its_parent() -> None:
    """After a fork, parent and child draw different words."""
    source = EntropySampler()
    source.words(1000)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.words(1000)[:4].tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 32) != source.words(1000)[:4].tobytes()


def test_threads_do_not_share_a_stream() -> None:
    """Words drawn by many threads at once are all different."""
    source = EntropySampler()
    with ThreadPoolExecutor(8) as pool:
        words = np.concatenate(list(pool.map(lambda _: source.words(2500), range(40))))
    assert len(np.unique(words)) == len(words)


@pytest.mark.parametrize(
    "source", [EntropySampler(), SeededSampler(np.random.default_rng(5))], ids=repr
)
def test_bits_are_balanced(source: EntropySampler | SeededSampler) -> None:
    """Each of the 64 bit positions is set half of the time."""
    words = source.words(200_000)
    ones = np.array([int((words >> np.uint64(bit) & np.uint64(1)).sum()) for bit in range(64)])
    assert 64 * min(binomtest(int(one), 200_000).pvalue for one in ones) > UNSEEDED
    # no generator's bits are this even, but a counter's are
    assert np.abs(ones - 100_000).max() > 20


def test_uniforms_stay_inside_the_unit_interval() -> None:
    """The smallest and the largest word both map strictly between 0 and 1."""

    class Fixed(np.random.Generator):
        def integers(self, *args: object, **kwargs: object) -> np.ndarray:
            return np.array([0, 2**64 - 1], dtype=np.uint64)

    uniform = SeededSampler(Fixed(np.random.PCG64(0))).uniform(2)
    assert 0 < uniform[0] < uniform[1] < 1


@pytest.mark.parametrize("count", [1, 1000])
@pytest.mark.parametrize(
    ("urandom", "words"),
    [
        (Mock(side_effect=OSError("no entropy")), "nothing was released"),
        (Mock(side_effect=NotImplementedError("no source")), "nothing was released"),
        (lambda size: b"x" * (size - 1), "fewer random bytes"),
    ],
    ids=["OSError", "NotImplemented", "short"],
)
def test_no_entropy_is_an_error(
    monkeypatch: pytest.MonkeyPatch, count: int, urandom: Any, words: str
) -> None:
    """Where the operating system has no random bytes, or fewer than asked for, nothing else is
    used: the release fails, in the library's own words.
    """
    monkeypatch.setattr(os, "urandom", urandom)
    with pytest.raises(EntropyUnavailable, match=words):
        EntropySampler().words(count)


def test_peeling_draws_fresh_noise_in_every_round() -> None:
    """Noise that stays would rank the candidates as one shot does: simulated draws follow the law
    of peeling.
    """
    mechanism, rng = dps.PeelingTopK(k=2, noise="exponential", scale=2.0), np.random.default_rng(9)
    scores = dps.Scores([3, 2, 1], sensitivity=mechanism.sensitivity_bound)
    law = mechanism.probabilities(scores)
    assert (
        misfit([outcome(mechanism.select(scores, rng=rng), law) for _ in range(15_000)], law)
        > LIMIT
    )


def test_a_fork_inside_a_refinement_does_not_hang() -> None:
    """A child forked while its parent holds Arb's precision can refine comparisons of its own."""
    with precision(100):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            LazyUniform(EntropySampler().words).below(lambda: arb(1) / 3)
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.slow
def test_threads_refine_side_by_side() -> None:
    """Many threads refining at once give coins of the right chance, and leave Arb's precision as it
    was.
    """
    before, source = ctx.prec, EntropySampler()
    with ThreadPoolExecutor(8) as pool:
        heads = sum(
            pool.map(lambda _: LazyUniform(source.words).below(lambda: arb(1) / 3), range(6000))
        )
    assert ctx.prec == before
    assert abs(heads - 2000) < 7 * np.sqrt(6000 * 2 / 9)
