"""Selections made from positions, and noisy values of the selected items.

This is the only module that decides what leaves the library.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from accounting.arguments import check_integer, quote
from accounting.numbers import Floats, Integers
from dpselect.errors import InvalidRequest
from dpselect.noise import Noise, NoiseName, noise_of
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, label_key

_LARGEST = 2**53  # beyond it float64 skips integers
_LEAST_EXPONENT = -1074  # of the smallest float64
_STEPS_EXPONENT = 10  # 1024 grid points or more in one unit of scale


def public_grid(scale: float) -> float:
    """Return the power of two, at most scale/1024, that released values are multiples of.

    Without a grid, the low bits of a sum would show its noise.
    """
    return float(2.0 ** max(math.frexp(scale)[1] - 1 - _STEPS_EXPONENT, _LEAST_EXPONENT))


def release(
    scores: Scores,
    positions: Iterable[int],
    *,
    ordered: bool,
    requested: int | None,
    complete: bool | None = None,
    reason: str | None = None,
    values: Mapping[int, float] | None = None,
) -> Selection:
    """Return a Selection of `positions`, best first if `ordered`.

    A set is put into the candidates' own order, because the order of the draw would show its noise.
    `complete` is None if as many as requested make it complete. `values` are noisy scores by
    position, if they are released and paid for.
    """
    indices = [int(i) for i in positions]
    if not ordered:
        indices = sort_positions(scores, indices)
    if complete is None:
        complete = requested is None or len(indices) == requested
    labels = scores.labels_at(indices)
    return Selection(
        indices=None if scores.hides_positions else tuple(indices),
        ordered=ordered,
        requested=requested,
        complete=complete,
        reason=None if complete else reason,
        values=None if values is None else tuple(float(values[i]) for i in indices),
        labels=None if labels is None else tuple(labels),
    )


def sort_positions(scores: Scores, positions: Iterable[int]) -> list[int]:
    """Sort positions by label, or by position if there are no labels.

    Neither depends on the data.
    """
    places = list(positions)
    if (names := scores.labels_at(places)) is None:
        return sorted(places)
    return [place for _, place in sorted(zip(map(label_key, names), places, strict=True))]


def largest(scores: Scores, noise: Noise, scale: float, k: int, source: Sampler) -> list[int]:
    """Return positions of the k largest of scores + scale * noise, largest first.

    Grouped scores are never expanded.
    """
    if scores.multiplicities is None:
        return source.top_k(scores.values, noise, scale, k).tolist()
    return expand(
        scores, *source.top_k_grouped(scores.values, scores.multiplicities, noise, scale, k)
    )


def expand(scores: Scores, groups: Integers, members: Integers) -> list[int]:
    """Return positions of these members of groups, or the groups if scores are not grouped."""
    if scores.multiplicities is None:
        return groups.tolist()
    first = list(itertools.accumulate(scores.multiplicities.tolist(), initial=0))
    return [
        first[group] + member
        for group, member in zip(groups.tolist(), members.tolist(), strict=True)
    ]


# Values with fresh noise, and their distribution.


def noisy_values(values: Numbers, noise: NoiseName, scale: float, source: Sampler) -> Floats:
    """Return (count,) values plus fresh noise. Theorem M3.

    The values are clamped to +-2^53, which does not increase their sensitivity. The noisy values
    are rounded to a public grid of at most scale/1024, exactly (Theorem X7), because the low bits
    of a float64 sum would show the noise (Mironov 2012).
    """
    return source.draw_rounded(
        values.clip(-_LARGEST, _LARGEST), noise_of(noise), scale, public_grid(scale)
    )


def half_width(noise: NoiseName, scale: float, confidence: float, among: int = 1) -> float:
    """Return the largest distance between released values and their scores, in score units.

    The bound holds for `among` values at once with probability `confidence`.
    """
    check_intervals(confidence, among)
    return (
        scale * float(noise_of(noise).isf((1 - confidence) / (2 * among))) + public_grid(scale) / 2
    )


def check_intervals(confidence: float, among: object = 1) -> None:
    """Raise InvalidRequest for a confidence outside (0, 1), or for fewer than 1 value."""
    if not (isinstance(confidence, Real) and 0 < confidence < 1):
        raise InvalidRequest(f"confidence={quote(confidence)} must be in (0, 1), 0.95 for example")
    check_integer(
        "among", among, "the number of values whose intervals hold at once", error=InvalidRequest
    )


def with_values(
    selection: Selection, scores: Scores, noise: NoiseName, scale: float, source: Sampler
) -> Selection:
    """Return `selection` with its candidates' scores plus fresh noise, in its own order."""
    noisy = noisy_values(scores.values_at(positions_of(selection, scores)), noise, scale, source)
    return selection.model_copy(update={"values": tuple(noisy.tolist())})


def positions_of(selection: Selection, scores: Scores) -> list[int]:
    """Return the positions of the selected candidates, in the order of the selection.

    They are found by label if a selection of private candidates holds no positions.
    """
    if selection.positions is not None:
        return list(selection.positions)
    return scores.places(selection.labels or ())


def bars_of(edges: Floats, scale: float) -> Floats:
    """Return the bars that a noisy score exceeds if its value on the grid is at least each edge."""
    grid = public_grid(scale)
    return np.asarray((np.ceil(edges / grid) - 0.5) * grid)


def cell_law(
    scores: Scores,
    law: Mapping[Any, float],
    noise: NoiseName,
    scale: float,
    edges: Floats,
    between: list[tuple[float, float]],
) -> dict[Any, float]:
    """Return the distribution of (items, cells of their values), given that of the items (`law`).

    The noise of the values is independent of the items.
    """
    values = np.clip(scores.dense(), -_LARGEST, _LARGEST)
    bars = np.concatenate([[-np.inf], bars_of(edges, scale), [np.inf]])
    chances = _cell_probabilities(noise, (bars - values[:, None].astype(np.float64)) / scale)
    joint = {}
    for outcome, chance in law.items():
        items = sorted(outcome) if isinstance(outcome, frozenset) else list(outcome)
        for places in itertools.product(range(len(between)), repeat=len(items)):
            seen = tuple(between[place] for place in places)
            held_in = [
                float(chances[item, place]) for item, place in zip(items, places, strict=True)
            ]
            joint[outcome, seen] = chance * math.prod(held_in)
    return joint


def _cell_probabilities(name: NoiseName, bars: Floats) -> Floats:
    """Return probabilities (items, cells) of symmetric noise between neighboring bars.

    Small ones are computed without cancellation.
    """
    noise, low, high = noise_of(name), bars[:, :-1], bars[:, 1:]
    outside = np.where(low >= 0, noise.sf(low) - noise.sf(high), noise.cdf(high) - noise.cdf(low))
    return np.where((low < 0) & (high > 0), 1 - noise.cdf(low) - noise.sf(high), outside)
