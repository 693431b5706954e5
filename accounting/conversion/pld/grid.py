"""A plan made ready for one transform: few distinct steps, their rounded losses on one grid, and how fine that grid is."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from accounting.conversion.pld.banded import Banded
from accounting.conversion.pld.loss import Floats, Loss, Losses, Pmf, grid_of
from accounting.conversion.pld.normal import Normal

# Most distinct steps: each needs a transform of its own.
MOST_STEPS = 128
_UP = 1 + 2.0**-50
_TILTS, _TRIED, _REFINED = (-2.0, 2.5), 13, 9  # in units of 1/spread, as powers of ten


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
    normals = [(count, loss.mu) for loss, count in counts.items() if isinstance(loss, Normal)]
    if len(normals) < 2:
        return counts
    square = math.fsum(count * mu**2 for count, mu in normals)
    rest = Counter({loss: count for loss, count in counts.items() if not isinstance(loss, Normal)})
    rest[Normal(math.sqrt(square) * _UP)] += 1
    return rest


def _levelled(loss: Loss) -> bool:
    return isinstance(loss, Banded) and loss.lost == 0


def _family(loss: Banded) -> Callable[[float], Banded]:
    if loss.middle == 0:
        return Banded.pure
    return Banded.laplace if loss.upper > 0 else Banded.bounded_range


def _on_levels(steps: Counter[Loss], room: int) -> Counter[Loss]:
    families: dict[Callable[[float], Banded], Counter[float]] = defaultdict(Counter)
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


def _shares(sizes: Floats, times: Floats) -> list[Floats]:
    """Where each width lies between 0 and 1: by its size, and by the part of all squared widths up to it."""
    weight = np.cumsum(times * sizes**2)
    return [(sizes - sizes[0]) / max(sizes[-1] - sizes[0], 1e-300), weight / weight[-1]]


def _ends(edges: Floats, places: Floats) -> NDArray[np.intp]:
    """For each place, the index of the last one in its cell."""
    cells = np.minimum(np.searchsorted(edges, places), len(edges) - 1)
    return np.searchsorted(cells, cells, "right") - 1


@lru_cache(maxsize=512)
def choose_interval(losses: Losses, tolerance: float) -> float:
    """The interval (nats) whose rounding adds `tolerance` of the plan's squared scale."""
    counts, scales = _scales(losses)
    low, high = 0.0, 4 * float(scales.max())
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _added(counts, scales, middle) <= tolerance else (low, middle)
    return high


def aligned(losses: Losses, interval: float) -> float:
    """An interval, at most halved, that divides the width of the heaviest step if that has atoms no closer than half of it."""
    main = max(losses.steps, key=lambda step: step[0] * step[1].scale ** 2)[1]
    return main.period / math.ceil(main.period / interval) if 2 * main.period > interval else interval


def inflation(losses: Losses, interval: float) -> float:
    """Estimated share of the squared scale that rounding to `interval` adds: interval^2/6 a step, less for tiny steps."""
    return _added(*_scales(losses), interval)


def _scales(losses: Losses) -> tuple[Floats, Floats]:
    return tuple(np.array([(n, loss.scale) for n, loss in losses.steps], dtype=np.float64).T)


def _added(counts: Floats, scales: Floats, interval: float) -> float:
    return float((counts * interval**2 * scales / (6 * scales + interval)).sum() / (counts * scales**2).sum())


@dataclass(frozen=True)
class Parts:
    """Rounded losses with their counts, and the cumulant generating function of the sum."""

    counts: tuple[int, ...]
    pmfs: tuple[Pmf, ...]
    interval: float

    @staticmethod
    def of(losses: Losses, interval: float, tail: float) -> Parts:
        """All steps of `losses` on multiples of `interval`, with tails of `tail` cut off each (see `Loss.pmf`)."""
        counts, single = zip(*losses.steps, strict=True)
        return Parts(counts, tuple(loss.pmf(interval, tail) for loss in single), interval)

    def cumulant(self, theta: float) -> float:
        """ln E[e^(theta S); S finite] for the sum S of all steps."""
        means = (_log_mean(logs, losses, theta) for logs, losses in zip(self._logs, self._losses, strict=True))
        return math.fsum(n * mean for n, mean in zip(self.counts, means, strict=True))

    def tilted(self, theta: float) -> list[Floats]:
        """Each step's finite law, weighted by e^(theta L) and scaled to sum to one."""
        both = zip(self._logs, self._losses, strict=True)
        return [np.exp(logs + theta * losses - _log_mean(logs, losses, theta)) for logs, losses in both]

    def spread(self, laws: list[Floats]) -> float:
        """Standard deviation of the sum under `laws`, no less than the interval."""
        values = (_variance(losses, law) for losses, law in zip(self._losses, laws, strict=True))
        return max(self.interval, math.sqrt(math.fsum(n * v for n, v in zip(self.counts, values, strict=True))))

    def weight(self, laws: list[Floats]) -> float:
        """Mean of the absolute losses under `laws`, added up over all steps."""
        means = (float((np.abs(losses) * law).sum()) for losses, law in zip(self._losses, laws, strict=True))
        return math.fsum(n * mean for n, mean in zip(self.counts, means, strict=True))

    @property
    def size(self) -> int:
        """Number of cells of the largest law."""
        return max(len(pmf.mass) for pmf in self.pmfs)

    @property
    def least(self) -> int:
        """Smallest finite sum, in intervals."""
        return sum(n * pmf.low for n, pmf in zip(self.counts, self.pmfs, strict=True))

    @property
    def most(self) -> int:
        """Largest finite sum, in intervals."""
        return sum(n * (pmf.low + len(pmf.mass) - 1) for n, pmf in zip(self.counts, self.pmfs, strict=True))

    @property
    def infinity(self) -> float:
        """Probability that some step's loss is infinite, rounded up."""
        if any(pmf.infinity >= 1 for pmf in self.pmfs):
            return 1.0
        kept = math.fsum(n * math.log1p(-pmf.infinity) for n, pmf in zip(self.counts, self.pmfs, strict=True))
        return -math.expm1(kept) * (1 + 1e-12)

    @cached_property
    def _losses(self) -> list[Floats]:
        return [grid_of(pmf.low, pmf.low + len(pmf.mass) - 1, self.interval) for pmf in self.pmfs]

    @cached_property
    def _logs(self) -> list[Floats]:
        with np.errstate(divide="ignore"):
            return [np.log(pmf.mass) for pmf in self.pmfs]


def _log_mean(logs: Floats, losses: Floats, theta: float) -> float:
    # scipy's logsumexp with weights (b=) divides by the largest term's, which overflows at subnormal masses.
    exponents = logs + theta * losses
    top = float(exponents.max())
    return top + math.log(float(np.exp(exponents - top).sum()))


def best_tilt(parts: Parts, objective: Callable[[float], float], given: float | None) -> float:
    """The tilt with the least `objective`, between the scales on which the sum can vary, or else the given one."""
    if given is not None:
        return given
    unit = 1 / parts.spread(parts.tilted(0.0))
    tilts = [unit * 10**exponent for exponent in np.linspace(*_TILTS, _TRIED).tolist()]
    best = min(tilts, key=objective)
    ratio = tilts[1] / tilts[0]
    return min((best * ratio**share for share in np.linspace(-1, 1, _REFINED).tolist()), key=objective)


def _variance(values: Floats, law: Floats) -> float:
    mean = float((values * law).sum())
    return float(((values - mean) ** 2 * law).sum())
