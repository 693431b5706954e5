"""What a release may look like on a ranking, by the law that the traits of its mechanism name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from inspect import signature
from pkgutil import resolve_name
from typing import Self, final

import numpy as np

from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism
from dpselect.planning.score_levels import Floats, Indices, Levels

_LOST = 0.1  # of the noise: what adds half a percent to it
_CASES = 4  # ways in which bounded scores may turn out
_WORK = 1e9  # elementary steps, some ten seconds
_CHUNK = 1 << 18  # draws at once


@final
@dataclass(frozen=True, eq=False)
class Outcomes:
    """What may come out: independent simulated runs, or outcomes of a known law. Every number is in [0, 1].

    Attributes:
        exact_set: whether, or how likely, all k items are there and right.
        recall: share of the k places that a right item fills.
        kept: sum of the released items' true counts over that of the k best.
        released: number of released items over k.
        in_place: share of the k places that hold an item with the true count of that rank; None if no order is released.
        weights: probability of each outcome; None for simulated runs.
        error: the most by which means under these weights are off, where they are found by quadrature.
    """

    exact_set: Floats
    recall: Floats
    kept: Floats
    released: Floats
    in_place: Floats | None = None
    weights: Floats | None = None
    error: float = 0.0

    @classmethod
    def of_items(cls, drawn: Indices, levels: Levels, *, ordered: bool) -> Self:
        """From the (rounds, k) levels of the released items, -1 where there is none; in order of rank if `ordered`."""
        k, there = levels.k, drawn >= 0
        hits = (there & (levels.rights > 0)[drawn]).sum(axis=1)
        counts = np.where(there, levels.truth[drawn], np.nan)
        return cls(
            exact_set=(hits == k).astype(np.float64),
            recall=hits / k,
            kept=share(np.where(there, counts, 0.0).sum(axis=1), levels.best),
            released=there.sum(axis=1) / k,
            in_place=(counts == levels.best_counts).sum(axis=1) / k if ordered else None,
        )

    @classmethod
    def of_tops(cls, sizes: Indices, chances: Floats, levels: Levels) -> Self:
        """From the law of how many of the highest are released; of more than k, k are drawn at random."""
        released = np.minimum(sizes, levels.k)
        part = released / np.maximum(sizes, 1)
        hits = levels.hits(sizes)
        places = np.arange(levels.k)
        lucky = np.clip((hits[:, None] - places) / np.maximum(sizes[:, None] - places, 1), 0.0, 1.0).prod(axis=1)
        return cls(
            exact_set=np.where(sizes >= levels.k, lucky, 0.0),
            recall=part * hits / levels.k,
            kept=share(part * levels.sums(sizes), levels.best),
            released=released / levels.k,
            weights=chances,
        )

    @classmethod
    def pooled(cls, parts: Sequence[Self]) -> Self:
        """Equally likely cases, each with its outcomes."""

        def joined(name: str) -> Floats:
            return np.concatenate([getattr(part, name) for part in parts])

        first = parts[0]
        simulated = first.weights is None
        return cls(
            **{name: joined(name) for name in ("exact_set", "recall", "kept", "released")},
            in_place=None if first.in_place is None else joined("in_place"),
            weights=None if simulated else joined("weights") / len(parts),
            error=max(part.error for part in parts),
        )


def share(total: Floats, best: float) -> Floats:
    """`total` over `best`, within [0, 1]; all of it where there is nothing to gain."""
    return np.clip(total / best, 0.0, 1.0) if best > 0 else np.ones_like(total)


@final
@dataclass(frozen=True)
class Runs:
    """A number of simulated runs. Every mechanism starts from the same seed, so that luck is shared.

    Attributes:
        count: how many runs, >= 2.
        seed: of the simulation.
        stage: 0 to choose parameters, 1 to judge the choice: other draws, so that the choice does not flatter it.
        fine: whether quadrature is as fine as it gets; coarse, it is off by .01 at most.
        places: whether it matters which item stands in which place.
    """

    count: int
    seed: int
    stage: int = 1
    fine: bool = True
    places: bool = True

    def within(self, work: float) -> Runs:
        """Fewer runs, but at least 100, where the elementary steps of all runs would take minutes."""
        return replace(self, count=min(self.count, max(100, int(_WORK / work))))

    def generator(self) -> np.random.Generator:
        """A fresh generator."""
        return np.random.default_rng([self.seed, self.stage])


def chunks(rounds: int, width: int) -> Iterator[int]:
    """Numbers of runs whose draws, `width` per run, fit the cache."""
    step = max(1, _CHUNK // max(1, width))
    return (min(step, rounds - start) for start in range(0, rounds, step))


def outcomes(mechanism: Mechanism, levels: Levels, runs: Runs) -> Outcomes:
    """What a release of `mechanism` may look like on this ranking: where bounding leaves scores to chance, on average over it."""
    place = mechanism.traits.law
    if place is None:
        raise InvalidRequest(f"{type(mechanism).__name__} is not planned yet: no law of its quality is known")
    law = _law(place)
    if levels.spread is None:
        return law(mechanism, levels, runs)
    steps, most = [getattr(mechanism, name, mechanism) for name in ("discovery", "selection")], float(levels.spread.max())
    # That chance is one with the noise where it is Gaussian, and beside much noise it is lost.
    if all(getattr(step, "noise", None) == "gaussian" or most < _LOST * getattr(step, "scale", 0.0) for step in steps):
        return law(mechanism, levels, runs)
    rng = np.random.default_rng([runs.seed, runs.stage, 3])
    fewer = replace(runs, count=max(2, runs.count // _CASES))
    return Outcomes.pooled([law(mechanism, levels.realised(rng), fewer) for _ in range(_CASES)])


@cache
def _law(place: str) -> Callable[[Mechanism, Levels, Runs], Outcomes]:
    """The law; an exact one has no use for runs."""
    function: Callable[..., Outcomes] = resolve_name(place)
    if "runs" in signature(function).parameters:
        return function
    return lambda mechanism, levels, _: function(mechanism, levels)
