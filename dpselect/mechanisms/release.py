"""From positions to a Selection: the only place that decides what leaves the library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from dpselect.scores import Scores
from dpselect.selection import Selection

_LEAST_EXPONENT = -1074  # of the smallest float64
_STEPS_EXPONENT = 10  # 1024 grid points or more in one unit of scale


def public_grid(scale: float) -> float:
    """The power of two, at most scale/1024, that released values are multiples of: low bits of a sum would show its noise."""
    return float(2.0 ** max(math.frexp(scale)[1] - 1 - _STEPS_EXPONENT, _LEAST_EXPONENT))


def release(
    scores: Scores,
    positions: Iterable[int],
    *,
    ordered: bool,
    requested: int | None,
    complete: bool = True,
    reason: str | None = None,
    values: Mapping[int, float] | None = None,
) -> Selection:
    """A Selection of `positions`, best first if `ordered`; a set is put into the candidates' own order, to hide the noise's.

    `values` are noisy scores by position, where they are released and paid for.
    """
    indices = [int(i) for i in positions]
    if not ordered:
        indices = in_own_order(scores, indices)
    hidden = scores.domain == "observed" and scores.labels is not None
    return Selection(
        indices=None if hidden else tuple(indices),
        ordered=ordered,
        requested=requested,
        complete=complete,
        reason=None if complete else reason,
        values=None if values is None else tuple(float(values[i]) for i in indices),
        labels=None if scores.labels is None else tuple(scores.labels[i] for i in indices),
    )


def in_own_order(scores: Scores, positions: Iterable[int]) -> list[int]:
    """These positions in an order that does not depend on the data: by label, or by position where there are none."""
    names = scores.labels
    return sorted(positions, key=int if names is None else lambda i: label_key(names[i]))


def label_key(label: int | str) -> tuple[bool, int | str]:
    """What sorts integers before text."""
    return isinstance(label, str), label
