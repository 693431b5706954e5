"""How good a release is: a quick formula to screen by, then the mechanism's own draws on the profile to judge by.

The formula is a mean field: places are taken to be where they are on average, so that the score to beat is the one that k noisy
scores are expected to exceed. It is within .01 for noise that is drawn once. What it cannot judge has no screen and is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Self, final

import numpy as np
import scipy
from pydantic import Field

from accounting.frozen import Real
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import (
    CanonicalTopK,
    DiscoverThenSelect,
    ExponentialMechanism,
    JointTopK,
    LimitedDomain,
    Mechanism,
    OneshotTopK,
    PeelingTopK,
    PermuteAndFlip,
    ReportNoisyMax,
    SparseHistogram,
    StabilityTest,
    StableTopK,
    StableTopKFixed,
    TopStable,
    TwoRoundHistogram,
)
from dpselect.mechanisms.base import settings_of
from dpselect.noise import NoiseName, by_name
from dpselect.plan.counts import without_counts
from dpselect.plan.profile import Floats, Indices, Levels, Stated
from dpselect.scores import Scores
from dpselect.sensitivity import Norm

Method = Literal["exact", "mean field", "clopper-pearson", "empirical-bernstein"]

_STEPS, _CLOSE = 100, 1e-7  # of the search for a level, and the share of `_REACH` at which it ends
_GIVEN = 12  # places of the first score of two rounds, given that it passed
_REACH = 45.0  # scales of the noise beyond the highest and the lowest score
_POINTS, _ROUNDS = 256, 100  # of the grid on which a round of peeling is integrated, and rounds that are followed one by one
_LOSSES, _UNLIKELY_SIZE = 400, 1e-4  # of JointTopK, on a grid; chance of a size that is left out
_CHUNK = 1 << 21  # scores drawn at once
_WORK = 4e7  # scores that are drawn for one judgement: about a second
_FEWEST = 50  # runs
_SORTED = 20  # draws that a sort takes as long as
_DENSE = 40_000  # items beyond which a draw goes by levels of equal counts, where the mechanism can
_ROUGH = 0.01  # how far the quick formula is off as a rule
_DROPPED, _LOWEST = 1e-9, 1e-12  # chance that an item that is left out would have been released; that noise is taken to lie lower


# -- a quick formula -------------------------------------------------------------------------------------------------------


_CELLS, _NEAREST, _FARTHEST = 64, -9.0, 38.0  # of a table of the normal law: points of a unit, and its ends, 0 and 1 in floats


def deviation(noise: NoiseName) -> float:
    """The standard deviation of a noise at scale 1."""
    return math.sqrt(by_name(noise).variance)


@cache
def _table() -> tuple[Floats, Floats]:
    """Points, and (4, points) coefficients of cubics between them with the normal law's tail and slope at both ends."""
    points = np.arange(_NEAREST * _CELLS, _FARTHEST * _CELLS + 1) / _CELLS
    tail = np.array([math.erfc(z) / 2 for z in (points * math.sqrt(0.5)).tolist()])
    slope = -np.exp(-(points**2) / 2) / (math.sqrt(2 * math.pi) * _CELLS)
    rise, after = np.append(np.diff(tail), 0.0), np.append(slope[1:], 0.0)
    return points, np.stack([tail, slope, 3 * rise - 2 * slope - after, slope + after - 2 * rise])


def _normal(z: Floats) -> tuple[Floats, Floats]:
    """P(N > z) and the density, for forecasts: to ten digits, by a table; the import of scipy's takes longer than a short command
    has."""
    place = (np.clip(z, _NEAREST, _FARTHEST) - _NEAREST) * _CELLS
    cell = place.astype(np.int64)
    (tail, slope, bend, twist), t = _table()[1][:, cell], place - cell
    return tail + t * (slope + t * (bend + t * twist)), -_CELLS * (slope + t * (2 * bend + 3 * t * twist))


def _normal_above(tail: Floats) -> Floats:
    """The z with P(N > z) = `tail`, in (0, 1)."""
    points, (tails, *_) = _table()
    z = np.interp(-np.log(tail), -np.log(tails[:-1]), points[:-1])
    found, density = _normal(z)
    return z + np.log(found / tail) * found / np.maximum(density, 1e-300)


def _scales(scale: float, noise: NoiseName, spread: Floats | None) -> Floats:
    """(levels,) scales of the noise, the chance that bounding leaves being part of it."""
    return np.array([scale]) if spread is None else np.hypot(scale, spread / deviation(noise))


def above(values: Floats, members: Floats, scales: Floats, noise: NoiseName, most: int, floor: float = -math.inf) -> Floats:
    """(levels,) the chance that an item's noisy score exceeds `floor` and is one of the `most` largest.

    `members`: (levels,) how many items compete, on average.
    """
    law = by_name(noise)

    def exceeding(level: float) -> tuple[Floats, Floats]:
        z = (level - values) / scales
        tail, density = _normal(z) if noise == "gaussian" else (law.sf(z), law.pdf(z))
        return tail, density / scales

    reach = _REACH * float(scales.max())
    low, high = max(floor, float(values.min()) - reach), float(values.max()) + reach
    return _chances_above(exceeding, members, most, low, high, values, _CLOSE * reach)


def _chances_above(
    exceeding: Callable[[float], tuple[Floats, Floats]],
    members: Floats,
    most: int,
    low: float,
    high: float,
    values: Floats,
    close: float,
) -> Floats:
    """(levels,) chances of an item to exceed `low`, or a higher level that `most` of the members exceed on average.

    `exceeding`: from a level, below `high`, to these chances and how fast they fall there. By Newton's steps on the logarithm,
    from the value of that rank, halvings where these lead out of what is known; the last one, less than `close`, is a tangent's.
    """
    tail, _ = exceeding(low)
    if float(tail @ members) <= most:
        return tail
    level = float(values[min(int(np.searchsorted(np.cumsum(members), most)), len(values) - 1)])
    level = level if low < level < high else (low + high) / 2
    for _ in range(_STEPS):
        tail, density = exceeding(level)
        number, fall = float(tail @ members), float(density @ members)
        step = number * math.log(number / most) / fall if number > 0 and fall > 0 else math.inf
        if abs(step) < close:
            return np.clip(tail - step * density, 0.0, 1.0)
        low, high = (level, high) if number > most else (low, level)
        level = level + step if low < level + step < high else (low + high) / 2
    return tail


def _share_right(levels: Levels, chances: Floats) -> float:
    """The share of the k best that is found, from the (levels,) chances to be released."""
    return min(1.0, float(chances @ levels.rights) / levels.k)


def _largest(levels: Levels, scale: float, noise: NoiseName, floor: float = -math.inf) -> float:
    members = levels.multiplicities.astype(np.float64)
    scales = _scales(scale, noise, levels.spread)
    return _share_right(levels, above(levels.values, members, scales, noise, levels.k, floor))


def screen_oneshot(mechanism: OneshotTopK | ReportNoisyMax, levels: Levels) -> float:
    """Of all noisy counts the k largest."""
    return _largest(levels, mechanism.scale, mechanism.noise)


def screen_exponential(mechanism: ExponentialMechanism | PermuteAndFlip, levels: Levels) -> float:
    """The exponential mechanism is Gumbel noise, permute-and-flip exponential noise."""
    noise: NoiseName = "gumbel" if isinstance(mechanism, ExponentialMechanism) else "exponential"
    return _largest(levels, mechanism.sensitivity.range / mechanism.epsilon, noise)


def screen_histogram(mechanism: SparseHistogram, levels: Levels) -> float:
    """Of the noisy counts above the threshold the k largest."""
    return _largest(levels, mechanism.scale, mechanism.noise, mechanism.threshold)


def screen_limited_domain(mechanism: LimitedDomain, levels: Levels) -> float:
    """A noisy count has to beat the others and a noisy threshold; the chance of the less likely one of the two."""
    competing = np.diff(np.minimum(levels.ends, max(mechanism.kbar, levels.k)), prepend=0).astype(np.float64)
    scales = _scales(1 / mechanism.epsilon, "gumbel", levels.spread)
    others = above(levels.values, competing, scales, "gumbel", min(mechanism.k, levels.k))
    bar = float(levels.value(mechanism.kbar + 1)) + mechanism.margin
    passes = (1 + np.tanh((levels.values - bar) / (2 * scales))) / 2
    return _share_right(levels, np.where(competing > 0, np.minimum(others, passes), 0.0))


def screen_two_steps(mechanism: DiscoverThenSelect, levels: Levels) -> float:
    """The first noisy scores above a threshold, then the largest of new ones, users clipped anew within the first."""
    find: Any = mechanism.discovery
    select: Any = mechanism.selection
    members = levels.multiplicities.astype(np.float64)
    scales = _scales(find.scale, find.noise, levels.spread)
    found = above(levels.values, members, scales, find.noise, mechanism.candidates, find.threshold)
    values, spread = _again(mechanism, levels, len(levels.values))
    chosen = above(values, members * found, _scales(select.scale, select.noise, spread), select.noise, levels.k)
    return _share_right(levels, found * chosen)


def screen_two_rounds(mechanism: TwoRoundHistogram, levels: Levels) -> float:
    """The first noisy scores above the mask, then the largest means of both rounds, of those above the threshold."""
    members = levels.multiplicities.astype(np.float64)
    passing, again, spread = _second_round(mechanism, levels)
    (mine, other), (first, second) = mechanism.parts, mechanism.scales
    scales = _scales(first, "gaussian", levels.spread)
    if mechanism.delta is None and float(passing @ members) < levels.k:  # what did not pass fills the places, by its first score
        return _share_right(levels, above(levels.values, members, scales, "gaussian", levels.k))
    given = (np.arange(_GIVEN) + 0.5) / _GIVEN  # of the first scores, given that they passed
    seen = levels.values[:, None] + scales[:, None] * _normal_above(passing[:, None] * given)
    weighed = np.minimum(again[:, None] * _relative(mechanism, seen, levels, passing), levels.truth[:, None])
    means = mine * seen + other * weighed
    deviations = np.reshape(other * (second if spread is None else np.hypot(second, spread)), (-1, 1))

    def exceeding(level: float) -> tuple[Floats, Floats]:
        tail, density = _normal((level - means) / deviations)
        return passing * tail.mean(axis=1), passing * (density / deviations).mean(axis=1)

    reach = _REACH * float(np.max(deviations))
    low = mechanism.threshold if mechanism.delta is not None else float(means.min()) - reach
    high, near = float(means.max()) + reach, means.mean(axis=1)
    return _share_right(levels, _chances_above(exceeding, members, levels.k, low, high, near, _CLOSE * reach))


def _second_round(mechanism: TwoRoundHistogram, levels: Levels) -> tuple[Floats, Floats, Floats | None]:
    """(levels,) the chances to pass the mask, and what users weigh in the second round: those who pass are as good as the best so
    many, of whom users have as much.
    """
    scales = _scales(mechanism.scales[0], "gaussian", levels.spread)
    passing = np.maximum(_normal((mechanism.mask_level - levels.values) / scales)[0], 1e-300)
    if levels.again is None:
        return passing, levels.values * min(1.0, mechanism.norm), levels.spread
    held = levels.multiplicities * levels.values
    last = int(np.searchsorted(np.cumsum(held), float(passing @ held)))
    alike = int(levels.ends[min(last, len(held) - 1)])
    coarsely = int(float(f"{max(alike, 1):.2g}"))  # what depends on it changes slowly, and is kept
    return passing, *levels.again(coarsely, len(levels.values), mechanism.norm, "l2")


def _relative(mechanism: TwoRoundHistogram, seen: Floats, levels: Levels, passing: Floats) -> Floats:
    """What users spend on items with these first scores, relative to the root mean square of what they spend on all that pass."""
    if mechanism.taper is None:
        return np.ones(())
    held = passing * levels.multiplicities * levels.values
    on_average = mechanism.tapered(np.maximum(levels.values, mechanism.mask_level))
    return np.asarray(mechanism.tapered(seen) / math.sqrt(float(held @ on_average**2) / float(held.sum())))


def screen_peeling(mechanism: PeelingTopK, levels: Levels) -> float:
    """k rounds with fresh noise: in each an item is less likely to be there still by its chance to win the one before."""
    if mechanism.noise == "gumbel":  # one draw serves all rounds
        return _largest(levels, mechanism.scale, "gumbel")
    noise, kept = by_name(mechanism.noise), relevant(levels, mechanism.noise, mechanism.scale, levels.k)
    values, members = levels.values[:kept], levels.multiplicities[:kept].astype(np.float64)
    scale = mechanism.scale if levels.spread is None else np.hypot(mechanism.scale, levels.spread[:kept] / deviation(noise.name))
    rounds, worth, found = min(levels.k, _ROUNDS), (levels.rights / levels.multiplicities)[:kept], 0.0
    reach, last = float(noise.isf(1e-9)) * float(np.max(scale)), float(levels.value(levels.k))
    values = np.minimum(values, last + reach)  # so far up an item is as good as taken
    edges = np.linspace(last + float(noise.isf(0.99)) * float(np.max(scale)), float(values[0]) + reach, _POINTS + 1)[:, None]
    below = noise.cdf((edges - values) / scale)
    mass, missed = np.diff(below, axis=0), 1 - (below[1:] + below[:-1]) / 2
    there = np.ones(kept)  # the chance that an item of each level is still there
    for _ in range(rounds):
        lower = np.maximum(1 - there * missed, 1e-300)  # of one item, whether there or not, to be below a cell
        highest = np.exp(np.minimum(np.log(lower) @ members, 0.0))
        won = there * ((highest[:, None] / lower) * mass).sum(axis=0)
        won = np.minimum(won * (levels.k / rounds / max(float(won @ members), 1e-300)), there)
        found += float(won @ (members * worth))
        there = there - won
    return min(1.0, found / levels.k)


def screen_canonical(mechanism: CanonicalTopK, levels: Levels) -> float:
    """The exact law of Gumbel noise; exponential noise has the same tail."""
    return _canonical(mechanism, levels).mean("recall")


def screen_joint(mechanism: JointTopK, levels: Levels) -> float:
    """From the law of the largest loss: the sequences that lose at most l have an item with a count of at least h_i - l in every
    place i, and are uniform given that bound.
    """
    k, places = levels.k, np.arange(levels.k)
    best = levels.value(places + 1)
    losses = np.linspace(0.0, _log_sequences(levels) / mechanism.rate, _LOSSES)
    allowed = np.concatenate([[0], levels.ends])[np.searchsorted(-levels.values, losses[:, None] - best, side="right")]
    room = np.maximum(allowed - places, 1)
    logs = np.log(room).sum(axis=1) - mechanism.rate * losses
    chances = np.exp(logs - logs.max())
    drawn = 1 - np.cumprod((1 - 1 / room)[:, ::-1], axis=1)[:, ::-1]  # of an item that may first be in each place
    right = np.diff(levels.hits(allowed), axis=1, prepend=0)
    return min(1.0, float(chances @ (right * drawn).sum(axis=1) / chances.sum()) / k)


def _log_sequences(levels: Levels) -> float:
    """How much more likely the best sequence has to be than any other for all others together to be negligible; nats."""
    return float(scipy.special.gammaln(levels.size + 1.0) - scipy.special.gammaln(levels.size - levels.k + 1.0)) + 40.0


def screen_stable(mechanism: StabilityTest | StableTopK | TopStable | StableTopKFixed, levels: Levels) -> float:
    """The top items as far as a test passes, exactly; the rest of a fixed size by the exponential mechanism."""
    sizes, chances = _stable_sizes(mechanism.stable if isinstance(mechanism, StableTopKFixed) else mechanism, levels)
    likely = chances > _UNLIKELY_SIZE
    if not isinstance(mechanism, StableTopKFixed):
        shown = np.minimum(sizes, levels.k) / np.maximum(sizes, 1)  # of more than k, k at random
        return min(1.0, float((chances * shown) @ levels.hits(sizes)) / levels.k)
    pairs = zip(sizes[likely].tolist(), chances[likely].tolist(), strict=True)
    return sum(chance * _filled(mechanism, levels, size) for size, chance in pairs) / max(float(chances[likely].sum()), 1e-300)


def _stable_sizes(mechanism: StabilityTest | StableTopK | TopStable, levels: Levels) -> tuple[Indices, Floats]:
    """How many of the best pass together, and how likely each number is."""
    if isinstance(mechanism, StabilityTest):
        return np.array([mechanism.k]), mechanism.rule.pass_probability(levels.gaps(mechanism.k)[-1:])
    gaps = levels.gaps(mechanism.kbar)
    if isinstance(mechanism, TopStable):
        order = mechanism.search_order(mechanism.kbar)
        return np.append(order, 0), mechanism.rule.first_law(gaps[order - 1] - 1 - mechanism.rule.threshold)
    passing = mechanism.rank_law(gaps) * mechanism.rule.pass_probability(gaps)
    return np.arange(len(gaps) + 1), np.append(max(0.0, 1 - float(passing.sum())), passing)


def _filled(mechanism: StableTopKFixed, levels: Levels, size: int) -> float:
    """The recall once the top `size` has passed; 0 if nothing has."""
    k, held = levels.k, size if size <= levels.k else 0
    pool, wanted = levels.cut(0, size) if size > k else levels.cut(size), k - held
    if wanted == 0 or pool.size == 0:
        return float(levels.hits(held)) / k
    scales = np.array([mechanism.pick_scale(wanted)])
    chances = above(pool.values, pool.multiplicities.astype(np.float64), scales, "gumbel", wanted)
    return min(1.0, (float(levels.hits(held)) + float(chances @ pool.rights)) / k)


def _again(mechanism: DiscoverThenSelect, levels: Levels, reach: int) -> tuple[Floats, Floats | None]:
    """What a second look sees on the first levels; the same where it is not known who touches what."""
    if levels.again is None or mechanism.selected_again is None:
        return levels.values[:reach], None if levels.spread is None else levels.spread[:reach]
    norm: Norm = "l2" if mechanism.discovery.covers.l1 is None else "l1"
    return levels.again(mechanism.candidates, reach, mechanism.selected_again, norm)


def relevant(levels: Levels, noise: NoiseName, scale: float, picks: int) -> int:
    """How many of the highest levels can matter for the picks, but for a chance of 1e-9."""
    law = by_name(noise)
    floor = float(law.quantile(_LOWEST / picks)) if law.lower == -np.inf else law.lower
    lead = (float(levels.value(picks)) - levels.values) / scale + floor
    chances = picks * levels.multiplicities * law.sf(lead)
    below = np.cumsum(chances[::-1])[::-1]
    return min(len(levels.values), max(int((below > _DROPPED).sum()), int(np.searchsorted(levels.ends, picks)) + 1))


# -- the mechanism's own draws ---------------------------------------------------------------------------------------------


def judged(mechanism: Mechanism, levels: Levels, *, runs: int, seed: int) -> Outcomes:
    """What releases look like, by the mechanism's own draws from a generator with this seed; the exact law where there is one."""
    drawing = _silent(without_counts(mechanism))
    if isinstance(drawing, CanonicalTopK) and drawing.noise == "gumbel" and levels.spread is None:
        return _canonical(drawing, levels)
    rng = np.random.default_rng([seed, 1])
    if isinstance(drawing, DiscoverThenSelect):
        items = _in_two_steps(drawing, levels, runs, rng)
    elif isinstance(drawing, TwoRoundHistogram):
        items = _in_two_rounds(drawing, levels, runs, rng)
    else:
        items = _drawn(drawing, levels, runs, rng)
    missing = np.full((len(items), max(0, levels.k - items.shape[1])), -1, dtype=np.int64)
    return Outcomes.of_items(np.concatenate([items, missing], axis=1)[:, : levels.k], levels)


def _silent(mechanism: Mechanism) -> Mechanism:
    """The mechanism without noisy scores beside the items, which draws many releases at once."""
    settings = settings_of(mechanism)
    shown = {name: value for name, value in (("values", False), ("value_scale", None)) if name in settings}
    return type(mechanism).model_validate({**settings, **shown}) if shown and mechanism.releases_values else mechanism


def _drawn(mechanism: Mechanism, levels: Levels, runs: int, rng: np.random.Generator) -> Indices:
    """(runs, at most k) levels of the released items, -1 where there is none."""
    seen = _competing(mechanism, levels)
    # Each round of peeling draws anew, and a sequence is sorted for.
    steps = levels.k if isinstance(mechanism, PeelingTopK) and mechanism.noise != "gumbel" else 1
    steps = _SORTED if isinstance(mechanism, JointTopK) else steps
    runs = int(min(runs, max(_FEWEST, _WORK / (steps * min(seen.size, _DENSE * 10)))))
    if seen.size > _DENSE and seen.spread is None and mechanism.traits.of("groups", mechanism):
        return _by_levels(mechanism, seen, min(runs, 2 * _FEWEST), rng)
    level, parts = np.repeat(np.arange(len(seen.values)), seen.multiplicities), []
    for count in _chunks(runs, len(level)):
        realised = _realised(seen, level, count, rng)
        try:
            picks = mechanism.select_many(realised, rng=rng).indices
        except InvalidRequest:  # which a mechanism whose values cannot be left out may refuse
            return _one_by_one(mechanism, seen, level, min(runs, _FEWEST), rng)
        parts.append(np.where(picks >= 0, level[picks], -1))
    width = max(part.shape[1] for part in parts)
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=-1) for part in parts])


def _one_by_one(mechanism: Mechanism, seen: Levels, level: Indices, runs: int, rng: np.random.Generator) -> Indices:
    """The same by a call for each of them."""
    found = np.full((runs, seen.k), -1, dtype=np.int64)
    for row in found:
        scores = Scores(_realised(seen, level, 1, rng)[0], sensitivity=mechanism.covers)
        picks = np.asarray(mechanism.select(scores, rng=rng).indices, dtype=np.int64)[: seen.k]
        row[: len(picks)] = level[picks]
    return found


def _by_levels(mechanism: Mechanism, seen: Levels, runs: int, rng: np.random.Generator) -> Indices:
    """The same for more items than a row should have: draws from counts of counts."""
    scores = Scores.grouped(seen.values, seen.multiplicities, sensitivity=mechanism.covers)
    found = np.full((runs, seen.k), -1, dtype=np.int64)
    for row in found:
        picks = np.asarray(mechanism.select(scores, rng=rng).indices, dtype=np.int64)[: seen.k]
        row[: len(picks)] = np.searchsorted(seen.ends, picks, side="right")
    return found


def _competing(mechanism: Mechanism, levels: Levels) -> Levels:
    """The levels that can matter, where the mechanism adds independent noise of one scale."""
    settings = settings_of(mechanism)
    noise, scale = settings.get("noise"), settings.get("scale")
    if isinstance(mechanism, LimitedDomain):
        return levels if levels.size <= mechanism.kbar + 1 else levels.cut(0, mechanism.kbar + 1)
    if isinstance(mechanism, JointTopK):
        reach = _log_sequences(levels) / mechanism.rate
        return levels.cut(0, max(mechanism.k, int(levels.multiplicities[levels.values >= levels.value(levels.k) - reach].sum())))
    if isinstance(mechanism, ExponentialMechanism | PermuteAndFlip):
        noise, scale = "gumbel", mechanism.sensitivity.range / mechanism.epsilon
    if not isinstance(
        mechanism, OneshotTopK | PeelingTopK | ReportNoisyMax | SparseHistogram | ExponentialMechanism | PermuteAndFlip
    ):
        return levels
    spread = 0.0 if levels.spread is None else float(levels.spread.max())
    kept = relevant(levels, noise, math.hypot(scale, spread), levels.k)  # type: ignore[arg-type]
    return levels.cut(0, int(levels.ends[kept - 1]))


def _realised(levels: Levels, level: Indices, count: int, rng: np.random.Generator) -> Floats:
    """(count, items) scores as they may turn out, from the (items,) level of each."""
    if levels.spread is None:
        return np.broadcast_to(levels.values[level], (count, len(level)))
    means, deviations = levels.values[level], levels.spread[level]
    # A gamma law has the mean and the variance, and no negative scores.
    shape = np.maximum(means / np.maximum(deviations, 1e-12), 1e-6) ** 2
    drawn = rng.standard_gamma(np.minimum(shape, 1e12), (count, len(level))) * means / shape
    return np.where(deviations > 0, drawn, means)


def _in_two_steps(mechanism: DiscoverThenSelect, levels: Levels, runs: int, rng: np.random.Generator) -> Indices:
    """The discovery's own draws, then those of the selection on second scores of what was discovered."""
    find, select = _silent(mechanism.discovery), _silent(mechanism.selection)
    seen = _competing(find, Levels(levels.values, levels.multiplicities, mechanism.candidates, levels.truth, levels.spread))
    level, parts = np.repeat(np.arange(len(seen.values)), seen.multiplicities), []
    second, spread = _again(mechanism, levels, len(seen.values))
    hopeless = float(second.min()) - _REACH**2 * float(settings_of(select)["scale"])
    for count in _chunks(min(runs, max(_FEWEST, int(_WORK / len(level)))), len(level)):
        found = find.select_many(_realised(seen, level, count, rng), rng=rng).indices[:, : mechanism.candidates]
        found = np.pad(found, ((0, 0), (0, max(0, select.least_candidates - found.shape[1]))), constant_values=-1)
        at = level[np.maximum(found, 0)]
        again = second[at] + (0.0 if spread is None else spread[at] * rng.standard_normal(at.shape))
        picks = select.select_many(np.where(found >= 0, again, hopeless), rng=rng).indices
        chosen = np.take_along_axis(found, picks, axis=1)
        parts.append(np.where(chosen >= 0, level[np.maximum(chosen, 0)], -1))
    return np.concatenate(parts)


def _in_two_rounds(mechanism: TwoRoundHistogram, levels: Levels, runs: int, rng: np.random.Generator) -> Indices:
    """The largest means of both rounds, of what passes; users' weights in the second are those on average."""
    passing, again, spread = _second_round(mechanism, levels)
    (mine, other), (first, second) = mechanism.parts, mechanism.scales
    level, parts = np.repeat(np.arange(len(levels.values)), levels.multiplicities), []
    for count in _chunks(min(runs, max(_FEWEST, int(_WORK / len(level)))), len(level)):
        seen = _realised(levels, level, count, rng) + first * rng.standard_normal((count, len(level)))
        weighed = np.minimum(again[level] * _relative(mechanism, seen, levels, passing), levels.truth[level])
        noisy = weighed + second * rng.standard_normal(seen.shape)
        noisy += 0.0 if spread is None else spread[level] * rng.standard_normal(seen.shape)
        means, passed = mine * seen + other * noisy, seen > mechanism.mask_level
        if mechanism.delta is not None:
            passed &= means > mechanism.threshold
        # What did not pass comes behind all that did, and of an unknown domain not at all.
        means = np.where(passed, means, seen - (float(means.max()) - float(seen.min()) + 1))
        order = np.argsort(-means, axis=1)[:, : levels.k]
        shown = np.take_along_axis(passed, order, axis=1) | (mechanism.delta is None)
        parts.append(np.where(shown, level[order], -1))
    return np.concatenate(parts)


def _chunks(runs: int, width: int) -> Iterator[int]:
    """Numbers of runs whose scores fit the cache."""
    step = max(1, _CHUNK // max(1, width))
    return (min(step, runs - start) for start in range(0, runs, step))


# -- what comes out --------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Outcomes:
    """What may come out: independent simulated runs, or outcomes of a known law. Every number is in [0, 1].

    Attributes:
        exact_set: whether, or how likely, all k items are there and right.
        recall: share of the k places that a right item fills.
        kept: sum of the released items' true counts over that of the k best.
        released: number of released items over k.
        weights: probability of each outcome; None for simulated runs.
    """

    exact_set: Floats
    recall: Floats
    kept: Floats
    released: Floats
    weights: Floats | None = None

    def mean(self, name: str) -> float:
        """The expected value of one of these numbers."""
        values = getattr(self, name)
        return float(values.mean() if self.weights is None else self.weights @ values)

    @classmethod
    def of_items(cls, drawn: Indices, levels: Levels) -> Self:
        """From the (rounds, k) levels of the released items, -1 where there is none."""
        k, there = levels.k, drawn >= 0
        hits = (there & (levels.rights > 0)[drawn]).sum(axis=1)
        counts = np.where(there, levels.truth[drawn], np.nan)
        return cls(
            exact_set=(hits == k).astype(np.float64),
            recall=hits / k,
            kept=share(np.where(there, counts, 0.0).sum(axis=1), levels.best),
            released=there.sum(axis=1) / k,
        )


def share(total: Floats, best: float) -> Floats:
    """`total` over `best`, within [0, 1]; all of it where there is nothing to gain."""
    return np.clip(total / best, 0.0, 1.0) if best > 0 else np.ones_like(total)


# -- as it is reported ---------------------------------------------------------------------------------------------------


@final
class Estimate(Stated):
    """An expected value and an interval around it.

    Args:
        value: the exact or the simulated mean.
        low, high: the interval; equal to `value` if the law is known exactly.
        level: the confidence of the interval, 1 if exact. It holds for any number of simulated runs, not just for many.
        method: how it was made: "exact", "mean field" (a quick formula; the interval is how far it is off as a rule),
            "clopper-pearson" for what either happens or not, "empirical-bernstein" (Maurer and Pontil 2009, Theorem 4) for a
            bounded number.
    """

    value: Real = Field(description="a finite number")
    low: Real = Field(description="a finite number")
    high: Real = Field(description="a finite number")
    level: Real = Field(default=1.0, description="a confidence in (0, 1]")
    method: Method = Field(default="exact", description="how the interval was made")

    @classmethod
    def exactly(cls, value: float) -> Self:
        """A value known without doubt but for rounding."""
        return cls(value=value, low=value, high=value)

    @classmethod
    def roughly(cls, value: float) -> Self:
        """What a formula says, without an interval that would hold."""
        return cls(value=value, low=max(0.0, value - _ROUGH), high=min(1.0, value + _ROUGH), method="mean field")

    @classmethod
    def from_runs(cls, runs: Floats, level: float) -> Self:
        """The mean of (rounds,) independent numbers in [0, 1], with an interval of this confidence."""
        mean, rounds, doubt = float(runs.mean()), len(runs), 1 - level
        method: Method = "clopper-pearson" if np.isin(runs, (0.0, 1.0)).all() else "empirical-bernstein"
        if method == "clopper-pearson":
            hits = int(runs.sum())
            low = 0.0 if hits == 0 else float(scipy.special.betaincinv(hits, rounds - hits + 1, doubt / 2))
            high = 1.0 if hits == rounds else float(scipy.special.betainccinv(hits + 1, rounds - hits, doubt / 2))
        else:
            # Half the width of the interval of Maurer and Pontil (2009), Theorem 4, on both sides.
            surprise = math.log(4 / doubt)
            half = math.sqrt(2 * float(runs.var(ddof=1)) * surprise / rounds) + 7 * surprise / (3 * (rounds - 1))
            low, high = max(0.0, mean - half), min(1.0, mean + half)
        return cls(value=mean, low=min(low, mean), high=max(high, mean), level=level, method=method)

    @classmethod
    def average(cls, parts: list[tuple[int, Self]]) -> Self:
        """The mean of estimates, each counted so often; the interval keeps the confidence only if there is one part that is not
        exact, and is the union bound's otherwise.
        """
        total = sum(count for count, _ in parts)
        known = ("exact", "mean field")
        inexact = sorted((estimate for _, estimate in parts if estimate.method != "exact"), key=lambda one: one.method in known)
        doubt = sum(1 - estimate.level for estimate in inexact)

        def mean(name: str) -> float:
            return float(sum(count * getattr(estimate, name) for count, estimate in parts) / total)

        method = inexact[0].method if inexact else "exact"
        return cls(value=mean("value"), low=mean("low"), high=mean("high"), level=max(0.0, 1 - doubt), method=method)

    def scaled(self, factor: float) -> Estimate:
        """The estimate of `factor` times the number, factor >= 0."""
        return self.model_copy(update={name: factor * getattr(self, name) for name in ("value", "low", "high")})

    def complement(self, whole: float = 1.0) -> Estimate:
        """The estimate of `whole` minus the number."""
        update = {"value": whole - self.value, "low": whole - self.high, "high": whole - self.low}
        return self.model_copy(update=update)


@final
class Quality(Stated):
    """What one release is expected to be like. With ties at rank k, any of the tied items counts as right.

    Args:
        exact_set: the probability that all k items are there and right.
        recall: the expected share of the k places that a right item fills.
        score_loss: by how much the released items' counts fall short of those of the k best, in users, summed over the items.
        released: how many items are released.
    """

    exact_set: Estimate = Field(description="an Estimate")
    recall: Estimate = Field(description="an Estimate")
    score_loss: Estimate = Field(description="an Estimate")
    released: Estimate = Field(description="an Estimate")

    @classmethod
    def of(cls, outcomes: Outcomes, levels: Levels, level: float) -> Self:
        """The quality that outcomes show, with intervals of this confidence."""

        def estimated(values: Floats) -> Estimate:
            if outcomes.weights is None:
                return Estimate.from_runs(values, level)
            return Estimate.exactly(min(1.0, float(outcomes.weights @ values)))

        return cls(
            exact_set=estimated(outcomes.exact_set),
            recall=estimated(outcomes.recall),
            score_loss=estimated(outcomes.kept).complement().scaled(levels.best),
            released=estimated(outcomes.released).scaled(levels.k),
        )

    @classmethod
    def roughly(cls, recall: float, levels: Levels) -> Self:
        """What the quick formula says of a mechanism that is clearly behind."""
        found, worst = Estimate.roughly(recall), Estimate(value=0.0, low=0.0, high=1.0, method="mean field")
        return cls(
            recall=found,
            exact_set=worst,
            score_loss=found.complement().scaled(levels.best),
            released=Estimate.roughly(1.0).scaled(levels.k),
        )

    @classmethod
    def average(cls, parts: Iterable[tuple[int, Self]]) -> Self:
        """The quality of a release on average over a schedule of (count, quality) parts; of a single one its own."""
        found = list(parts)

        def mean(name: str) -> Estimate:
            return Estimate.average([(count, getattr(quality, name)) for count, quality in found])

        if len(found) == 1:
            return found[0][1]
        names = ("exact_set", "recall", "score_loss", "released")
        return cls(**{name: mean(name) for name in names})


# -- CanonicalTopK, exactly ------------------------------------------------------------------------------------------------

_UNLIKELY = 60.0  # nats below the most likely class


def _canonical(mechanism: CanonicalTopK, levels: Levels) -> Outcomes:
    """The set with the largest noisy score, of Gumbel noise: the exact law, from classes of equally scored sets.

    With the ranks 1, 2, ... by count, a class holds the sets with the ranks up to h, without rank h + 1, whose lowest rank has a
    given count; given its lowest rank t, the other k - h - 1 members are uniform among the ranks between. With gamma = 1 rank
    h + 1 plays no part: h = 0. Sums over the ranks t of one count are binomial coefficients (hockey stick), so that a law costs
    k times as many steps as there are counts, not items. The top set is a class of its own; hopeless classes are left out.
    """
    k, gamma = mechanism.k, mechanism.gamma
    rows = np.arange(k if gamma < 1 else 1)[:, None]
    settled = rows + 1 if gamma < 1 else rows  # ranks up to it
    ends, before = levels.ends, np.maximum(levels.ends - levels.multiplicities, k)
    kept = np.flatnonzero(ends > before)
    ends, before = ends[kept], before[kept]
    score = gamma * levels.values[kept] - (1 - gamma) * levels.value(rows + 1)
    log_size = _log_sets(before - settled, ends - settled, k - 1 - rows)
    last = float(levels.value(k))
    missing = last if mechanism.top_set == "tied" or levels.size == k else float(levels.value(k + 1))
    top = (gamma * last - (1 - gamma) * missing) / mechanism.scale
    likely = log_size + score / mechanism.scale
    held, level = np.nonzero(likely > max(top, likely.max(initial=-np.inf)) - _UNLIKELY)
    # The lowest rank lies in before + 1, ..., ends, `free` members among the ranks from start + 1 to that one.
    before, ends, start, free = before[level], ends[level], settled[held, 0], (k - 1 - rows)[held, 0]
    room = np.maximum(before - start, 1)
    several = np.exp(_log_sets(before - start - 1, ends - start - 1, free - 1) - log_size[held, level])
    share_between = np.where(free > 0, np.where(ends - before == 1, free / room, several), 0.0)

    def worth(each: Floats, upto: Callable[[int | Indices], Floats]) -> Floats:
        """The mean sum of the items' worth over a set of each class: of the settled ranks, of the lowest, of those between."""
        one, between = each[kept[level]], upto(before) - upto(start)
        within = free * one + share_between * one * (start - before)
        found = upto(held) + one + share_between * between + within
        return np.append(float(upto(k)), found)

    hits = np.append(float(levels.hits(k)) >= k, levels.hits(ends) >= ends)
    logs = np.append(top, likely[held, level])
    weights = np.exp(logs - scipy.special.logsumexp(logs))
    return Outcomes(
        exact_set=hits.astype(np.float64),
        recall=np.minimum(worth(levels.rights / levels.multiplicities, levels.hits) / k, 1.0),
        kept=share(worth(levels.truth, levels.sums), levels.best),
        released=np.ones_like(weights),
        weights=weights,
    )


def _log_sets(room: Indices, ends: Indices, free: Indices) -> Floats:
    """ln of the sum of the numbers of ways to choose `free` of room, room + 1, ..., ends - 1."""
    room, ends, free = np.broadcast_arrays(room, ends, free)
    single, upper = _log_binomial(room, free), _log_binomial(ends, free + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        several = upper + np.log(-np.expm1(_log_binomial(room, free + 1) - upper))
    return np.where(ends - room == 1, single, several)


def _log_binomial(among: Indices, chosen: Indices) -> Floats:
    """ln of the binomial coefficient; -inf where there are too few."""
    few = (chosen > among) | (chosen < 0)
    among, chosen = np.where(few, 1, among), np.where(few, 0, chosen)
    log_factorial = scipy.special.gammaln
    found = log_factorial(among + 1.0) - log_factorial(chosen + 1.0) - log_factorial(among - chosen + 1.0)
    return np.where(few, -np.inf, found)
