"""Plans with many different steps: equal ones counted, Gaussians merged, widths rounded up to levels."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from accounting.conversion.pld.banded import Banded
from accounting.conversion.pld.loss import Loss, Losses
from accounting.conversion.pld.normal import Normal

# Most distinct steps: each needs a transform of its own.
MOST_STEPS = 128
_UP = 1 + 2.0**-50

_Make = Callable[[float], Banded]


def condensed(losses: Losses) -> Losses:
    """A plan that loses at least as much in every divergence, with few distinct steps. Theorem P9."""
    counts: Counter[Loss] = Counter()
    for count, loss in losses.steps:
        counts[loss] += count
    steps = _with_one_normal(counts)
    room = MOST_STEPS - sum(not _levelled(loss) for loss in steps)
    if len(steps) > MOST_STEPS and room > 0:
        steps = _on_levels(steps, room)
    return Losses(tuple((count, loss) for loss, count in steps.items()), losses.added)


def _with_one_normal(counts: Counter[Loss]) -> Counter[Loss]:
    normals = {loss: count for loss, count in counts.items() if isinstance(loss, Normal)}
    if len(normals) < 2:
        return counts
    square = math.fsum(count * loss.mu**2 for loss, count in normals.items() if isinstance(loss, Normal))
    rest = Counter({loss: count for loss, count in counts.items() if not isinstance(loss, Normal)})
    rest[Normal(math.sqrt(square) * _UP)] += 1
    return rest


def _levelled(loss: Loss) -> bool:
    return isinstance(loss, Banded) and loss.lost == 0


def _family(loss: Banded) -> _Make:
    if loss.middle == 0:
        return Banded.pure
    return Banded.laplace if loss.upper > 0 else Banded.bounded_range


def _on_levels(steps: Counter[Loss], room: int) -> Counter[Loss]:
    families: dict[_Make, Counter[float]] = defaultdict(Counter)
    found: Counter[Loss] = Counter()
    for loss, count in steps.items():
        if isinstance(loss, Banded) and _levelled(loss):
            families[_family(loss)][loss.width] += count
        else:
            found[loss] += count
    total = sum(map(len, families.values()))
    for make, widths in families.items():
        for width, count in _rounded_up(widths, max(1, room * len(widths) // total)):
            found[make(width)] += count
    return found


def _rounded_up(widths: Counter[float], levels: int) -> Iterable[tuple[float, int]]:
    """(width, count) with at most about `levels` widths, each at least the one it stands for; the cheaper of two layouts."""
    sizes = np.sort(np.array(list(widths)))
    times = np.array([float(widths[float(size)]) for size in sizes])
    layouts = [_ends(np.linspace(0, 1, levels + 1)[1:], shares) for shares in _shares(sizes, times)]
    tops = min((sizes[layout] for layout in layouts), key=lambda top: float((times * top**2).sum()))
    merged: Counter[float] = Counter()
    for size, top in zip(sizes.tolist(), tops.tolist(), strict=True):
        merged[top] += widths[size]
    return merged.items()


def _shares(sizes: NDArray[np.float64], times: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Where each width lies between 0 and 1: by its size, and by the part of all squared widths up to it."""
    weight = np.cumsum(times * sizes**2)
    return [(sizes - sizes[0]) / max(sizes[-1] - sizes[0], 1e-300), weight / weight[-1]]


def _ends(edges: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.intp]:
    """For each place, the index of the last one in its cell."""
    cells = np.minimum(np.searchsorted(edges, places), len(edges) - 1)
    return np.searchsorted(cells, cells, "right") - 1
