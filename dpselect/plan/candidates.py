"""What a plan compares: mechanisms with the settings worth trying, each fitted to a budget.

A mechanism of an installed package is on the list by its traits alone; a line in `SCREENS` or `VARIANTS` adds a screen, or
settings that are free of any price.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, final

import numpy as np

from accounting import AccountingError, Budget, GaussianDP
from accounting.frozen import kind_of
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
    members,
)
from dpselect.mechanisms.base import INSTEAD
from dpselect.noise import NoiseName
from dpselect.plan import quality
from dpselect.plan.counts import without_counts
from dpselect.plan.default import FEW, GENEROUS, LARGEST_TABLE, Choice, Grouping, changed
from dpselect.plan.fit import EveryGroup, fitted
from dpselect.plan.profile import Levels
from dpselect.plan.request import TopKRequest
from dpselect.sensitivity import Norm, Sensitivity

Settings = Mapping[str, Any]

CLIPS = (1.0, 1.41, 2.0, 2.83, 4.0, 5.66, 8.0)
"""Norms to which users are clipped: l2 norms; their squares are l1 norms."""

SEEN_TWICE: tuple[type[Mechanism], ...] = (DiscoverThenSelect, TwoRoundHistogram)
"""What looks at users twice, and is made at the price of one noisy vector."""

_SHARES, _TIMES = (0.7, 0.85, 0.95), 1.5  # of two steps: the discovery's part of mu squared, candidates over k
_ROUNDS: tuple[Settings, ...] = (  # settings of two: against the noise, and for budgets of which clipping spoils more
    {"share": 0.5, "mask": 2.0, "combine": 0.4, "norm": 1.0, "taper": 5.0},
    {"share": 0.3, "mask": 3.0, "combine": 0.0, "norm": 4.0},
)
_LISTED: Settings = {"mask": 1.5}  # of the first of them on a public domain, where no threshold hides what noise lets through
_LOWER = (100, 30, 10)  # items of a user, tried below `GENEROUS`
_ROUNDING = 1 + 2.0**-40  # above that of a split of the budget
_PENALTIES = (1.0, 4.0, 16.0)  # of StableTopK, in units of the noise on the gaps
_MOST_SEARCHED = 500  # ranks that TopStable looks through
_MOST_COMPETITORS = 1_000_000
_RUNS = 200  # draws that judge what has no screen


# -- the list --------------------------------------------------------------------------------------------------------------


def _rules(_mechanism: CanonicalTopK, _levels: Levels) -> Iterator[Settings]:
    """How CanonicalTopK scores a set."""
    yield from ({"gamma": gamma, "top_set": rule} for gamma, rule in ((0.5, "gap"), (0.5, "tied"), (0.75, "gap"), (1.0, "gap")))


def _competitors(mechanism: LimitedDomain, levels: Levels) -> Iterator[Settings]:
    """How many compete in LimitedDomain: the kbar whose threshold is lowest on this ranking, and small ones, which let fewer
    wrong items in.

    Largest first: equals go to the first, and a large one does not depend on the gap below rank k alone.
    """
    ranks = np.arange(mechanism.k, max(mechanism.k, min(levels.size, _MOST_COMPETITORS)) + 1)
    touched = ranks if mechanism.l0 is None else np.minimum(mechanism.l0, ranks)
    threshold = levels.value(ranks + 1) + np.log(touched) / mechanism.epsilon
    widths = {mechanism.k, 2 * mechanism.k, 5 * mechanism.k, int(ranks[np.argmin(threshold)])}
    yield from ({"kbar": kbar} for kbar in sorted(widths, reverse=True))


def _targets(mechanism: Any, levels: Levels) -> Iterator[Settings]:
    """What StableTopK prefers: no size, or k."""
    yield {"regularizer": None}
    for penalty in _PENALTIES if levels.k > 1 else ():
        yield {"regularizer": {"kind": "target_size", "k": levels.k, "penalty": _short(penalty * mechanism.gap_scale)}}


def _sizes_and_penalties(mechanism: Any, levels: Levels) -> Iterator[Settings]:
    """How large a stable set StableTopKFixed considers, and how much it prefers k."""
    unit = mechanism.stable.gap_scale
    for kbar in sorted({levels.k, min(2 * levels.k, levels.size)}):
        yield from ({"kbar": kbar, "penalty": _short(p * unit)} for p in (0.0, *_PENALTIES))


def _searches(_mechanism: Any, levels: Levels) -> Iterator[Settings]:
    """In what order TopStable tests, and how far."""
    widths = sorted({min(times * levels.k, levels.size, max(levels.k, _MOST_SEARCHED)) for times in (1, 2, 5)} | {levels.k})
    yield from ({"kbar": kbar, "search": "from_k"} for kbar in widths)
    if len(widths) > 1:
        yield {"kbar": widths[1], "search": "from_kbar"}


def _short(value: float) -> float:
    return float(f"{value:.3g}") if math.isfinite(value) else value


SCREENS: Mapping[type[Mechanism], Callable[[Any, Levels], float]] = {
    LimitedDomain: quality.screen_limited_domain,
    SparseHistogram: quality.screen_histogram,
    DiscoverThenSelect: quality.screen_two_steps,
    TwoRoundHistogram: quality.screen_two_rounds,
    OneshotTopK: quality.screen_oneshot,
    ReportNoisyMax: quality.screen_oneshot,
    PeelingTopK: quality.screen_peeling,
    ExponentialMechanism: quality.screen_exponential,
    PermuteAndFlip: quality.screen_exponential,
    CanonicalTopK: quality.screen_canonical,
    JointTopK: quality.screen_joint,
    **dict.fromkeys((StabilityTest, StableTopK, StableTopKFixed, TopStable), quality.screen_stable),
}
"""A quick forecast of recall. What has none is drawn."""

VARIANTS: Mapping[type[Mechanism], Callable[[Any, Levels], Iterator[Settings]]] = {
    LimitedDomain: _competitors,
    CanonicalTopK: _rules,
    StableTopK: _targets,
    StableTopKFixed: _sizes_and_penalties,
    TopStable: _searches,
}
"""Settings that are free of any price."""


@final
@dataclass(frozen=True)
class Family:
    """Mechanisms of one kind that differ in the amount of their noise, and how they are compared.

    Attributes:
        member: their class, whose traits say what they are and which settings with a price are tried.
    """

    member: type[Mechanism]

    @property
    def kind(self) -> str:
        """Of the mechanisms."""
        return kind_of(self.member)

    def tried(self) -> Iterator[Settings]:
        """Settings that have a price."""
        traits = self.member.traits
        yield from (dict(zip(traits.tried, values, strict=True)) for values in itertools.product(*traits.tried.values()))

    def forecast(self, mechanism: Mechanism, levels: Levels, *, seed: int = 0, runs: int = _RUNS) -> float:
        """The share of the true top k that a release should find: by the screen, or by draws with a fixed seed."""
        screen = SCREENS.get(self.member)
        if screen is None:
            return quality.judged(mechanism, levels, runs=runs, seed=seed).mean("recall")
        return screen(mechanism, levels)

    def varied(self, mechanism: Mechanism, levels: Levels) -> Iterator[Mechanism]:
        """The mechanism with every setting to try that costs nothing."""
        variants = VARIANTS.get(self.member)
        for change in [{}] if variants is None else variants(mechanism, levels):
            yield changed(mechanism, **change)


def families() -> tuple[Family, ...]:
    """All of them, installed packages' included: what releases a top k of counts, in order of kind."""
    refused = not_planned()
    return tuple(Family(member) for kind, member in sorted(members().items()) if kind not in refused)


def family_of(mechanism: Mechanism) -> Family:
    """That of what selects."""
    return Family(type(without_counts(mechanism)))


def not_planned() -> dict[str, str]:
    """The mechanisms that no plan considers, and why."""
    found = {}
    for kind, member in sorted(members().items()):
        if member.traits.answers in INSTEAD:
            found[kind] = INSTEAD[member.traits.answers]
        elif member.traits.noise is None and member is not DiscoverThenSelect:
            found[kind] = "has no single amount of noise to plan: configure it in the library"
    return found


# -- what fits a budget ----------------------------------------------------------------------------------------------------


def in_one(choice: Choice, k: int, per_user: float) -> Choice:
    """What a choice of cells does to one group: its noise, and users who weigh there what they do not elsewhere. H12.

    Args:
        per_user: in how many groups a user is taken to be, with as many items in each.
    """
    shared = math.sqrt(per_user)
    clip = None if choice.clip is None else choice.clip / shared
    mechanism, settings = choice.mechanism, dict[str, Any](k=k)
    if isinstance(mechanism, TwoRoundHistogram):
        covered = mechanism.sensitivity
        part = Sensitivity.of_clipped(1 / shared, "l2", covered.relation, choice.max_items_per_user)
        settings |= {"sensitivity": part, "norm": mechanism.norm / shared}
    return replace(choice, mechanism=changed(mechanism, **settings), clip=clip, cells=False)


def _seen_alone(request: TopKRequest) -> bool:
    """Whether items are released by a threshold, which hides those that hardly anybody touched."""
    return request.candidates is None or request.min_users is not None


def in_cells(budget: Budget, request: TopKRequest, groups: Grouping, *, roughly: bool = False) -> Iterator[Choice]:
    """One noisy vector of cells with every clip, and two rounds; of a public table where items and groups are public."""
    if request.kbar is not None or request.noise not in (None, "gaussian") or request.counts is not None or budget.delta == 0:
        return
    if not _seen_alone(request):
        size = groups.cells(request)
        if not 0 < size <= LARGEST_TABLE:
            return
        asked = request.model_copy(update={"k": size, "candidates": size})
        made = clipped(OneshotTopK, "gaussian", "l2", budget, asked, limit=None, most=None, roughly=roughly)
        yield from (replace(one, cells=True) for one in made)
        return
    if request.candidates is not None and groups.listed is None:
        return  # of a catalogue without a list of groups, which cells there may be is private
    for one in clipped(SparseHistogram, "gaussian", "l2", budget, request, limit=None, most=GENEROUS, roughly=roughly):
        if not isinstance(one.mechanism, DiscoverThenSelect):
            yield replace(one, mechanism=changed(one.mechanism, k=None), cells=True)


def clipped(
    kind: type[Mechanism],
    noise: NoiseName,
    norm: Norm,
    budget: Budget,
    request: TopKRequest,
    *,
    limit: int | None,
    most: int | None,
    longest: float = math.inf,
    clip: float | None = None,
    every: EveryGroup | None = None,
    roughly: bool = False,
) -> Iterator[Choice]:
    """A noisy vector with each clip worth trying, and what discovers by one: all at the price of the first.

    Args:
        limit: the most items of a user, as declared; `most`, where a proof needs a bound; `longest`, that somebody has.
        clip: the only one to try; None for a ladder.
    """
    first = CLIPS[0] if clip is None else clip
    bounds = partial(Sensitivity.of_clipped, norm=norm, relation=request.sensitivity.relation)
    asked = request.model_copy(update={"sensitivity": bounds(first, items_per_user=most), "noise": noise})
    found = _tried(kind, budget, asked, every=every, roughly=roughly)
    if not isinstance(found, SparseHistogram | OneshotTopK):
        return
    items = min(longest, math.inf if limit is None else limit)
    longest = items if norm == "l1" else math.sqrt(items)
    steps = [size if norm == "l2" else float(f"{size**2:.3g}") for size in CLIPS] if clip is None else [clip]
    for size in (one for one in steps if one <= max(longest, first)):
        scale = found.scale if size == first else found.scale * (size / first) * _ROUNDING
        # A lower bound on items lowers the threshold, which hides all items of one user at once, at the same price.
        lower = _LOWER if clip is None and limit is None and isinstance(found, SparseHistogram) else ()
        for bound in (most, *lower):
            yield Choice(changed(found, scale=scale, sensitivity=bounds(size, items_per_user=bound)), bound, size, norm)
    if every is None and clip is None and norm == "l2" and items > FEW:
        if isinstance(found, SparseHistogram):
            yield from _in_two_steps(found, request.k, most, longest)
        if request.min_users is None:
            yield from _in_two_rounds(found, most, longest)


def _in_two_rounds(found: SparseHistogram | OneshotTopK, most: int | None, longest: float) -> Iterator[Choice]:
    """Two rounds at the price of one vector, users clipped to 1 in the first."""
    hiding, price = (found.delta, found.curve.curve) if isinstance(found, SparseHistogram) else (None, found.curve)
    if not isinstance(price, GaussianDP) or price.mu == 0:
        return
    bounds = Sensitivity.of_clipped(1.0, "l2", found.relation, most)
    scale = bounds.l2_of(None) / price.mu * _ROUNDING
    first, second = _ROUNDS
    for settings in (first if hiding is not None else {**first, **_LISTED}, second):
        if settings["norm"] <= max(longest, 1.0):
            yield Choice(TwoRoundHistogram(k=found.k, scale=scale, delta=hiding, sensitivity=bounds, **settings), most, 1.0)


def _in_two_steps(found: SparseHistogram, k: int, most: int | None, longest: float) -> Iterator[Choice]:
    unit = found.scale / found.sensitivity.l2_of(None) * _ROUNDING
    split = partial(two_steps, k, unit, found.delta, found.sensitivity, floor=found.floor)
    for share in _SHARES:
        for again in (one for one in CLIPS[:5] if one <= longest):
            mechanism = split(share=share, candidates=math.ceil(_TIMES * k), again=again)
            yield Choice(mechanism, most, 1.0, "l2", again)


def two_steps(
    k: int, scale: float, delta: float, first: Sensitivity, *, share: float, candidates: int, again: float, floor: float = 0.0
) -> DiscoverThenSelect:
    """A histogram that discovers `candidates` items, and a second look at users clipped within them to an l2 norm of `again`.

    Args:
        k: how many items at most.
        scale: the price is that of one Gaussian vector with this much noise for each unit of its l2 norm.
        delta: the chance that the discovery fails.
        first: what a user may change in the scores that are seen first.
        share: of the squared privacy parameter, what the discovery takes, in (0, 1).
        candidates: how many items compete in the second step, >= k.
        again: the second clip, > 0.
        floor: as for `SparseHistogram`.
    """
    within = Sensitivity.of_clipped(again, "l2", first.relation)
    sizes = (first.l2_of(None) / math.sqrt(share), within.l2_of(None) / math.sqrt(1 - share))
    find, select = (scale * size * _ROUNDING for size in sizes)
    return DiscoverThenSelect(
        discovery=SparseHistogram(k=candidates, scale=find, delta=delta, sensitivity=first, floor=floor),
        selection=OneshotTopK(k=k, noise="gaussian", scale=select, sensitivity=within, values=True),
        candidates=candidates,
    )


@lru_cache(maxsize=256)
def _tried(
    kind: type[Mechanism],
    budget: Budget,
    request: TopKRequest,
    *,
    ordered: bool = True,
    every: EveryGroup | None = None,
    roughly: bool = False,
) -> Mechanism | None:
    """None where the mechanism has no guarantee of this kind, or does not release the order that is asked for."""
    try:
        found = fitted(kind.__name__, budget, request, every=every, roughly=roughly)
    except AccountingError:
        return None
    found = without_counts(found) if request.recounted else found  # whichever is chosen gets them
    return found if found.ordered or not ordered else None
