"""The one list of what may be released: mechanisms with the settings worth trying, each fitted to a budget.

`families` is what a plan considers, and `Candidates.of` the part of it that the default does. A mechanism of an installed package
is on the list by its traits alone; a line in `SCREENS` or `VARIANTS` adds a screen, or settings that are free of any price.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NoReturn, Self, final

import numpy as np

from accounting import AccountingError, Budget, GaussianDP
from accounting.arguments import checked_integer
from accounting.frozen import kind_of
from dpselect.cells import ANY_GROUPS
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
    RacingTopK,
    ReportNoisyMax,
    SparseHistogram,
    StabilityTest,
    StableTopK,
    StableTopKFixed,
    TopOfGroups,
    TopStable,
    TwoRoundHistogram,
    members,
)
from dpselect.mechanisms.base import INSTEAD, settings_of
from dpselect.noise import NoiseName
from dpselect.plan import quality
from dpselect.plan.counts import CLIPS, CountNoise, without_counts
from dpselect.plan.fit import EveryGroup, fitted
from dpselect.plan.profile import Bounding, Levels, Profile
from dpselect.plan.request import TopKRequest
from dpselect.sensitivity import Norm, Sensitivity

Settings = Mapping[str, Any]

GENEROUS = 300
"""Items per user: a bound that hardly anybody reaches, where a proof needs one and nobody states any."""

FEW = 2
"""Items per user, which a clip does not distort: one step does."""

FEW_LISTED = 15
"""The most items to release of a public list for which Gumbel noise, which clips nobody, finds more than a race."""

WHOLE_COUNTS = "a clip goes with no counts of the same scores, which are sums of shares: leave out clip= or with_counts="

SEEN_TWICE: tuple[type[Mechanism], ...] = (DiscoverThenSelect, TwoRoundHistogram)
"""What looks at users twice, and is made at the price of one noisy vector."""

_SHARES, _TIMES = (0.7, 0.85, 0.95), 1.5  # of two steps: the discovery's part of mu squared, candidates over k
_ROUNDS: tuple[Settings, ...] = (  # settings of two: against the noise, and for budgets of which clipping spoils more
    {"share": 0.5, "mask": 2.0, "combine": 0.4, "norm": 1.0, "taper": 5.0},
    {"share": 0.3, "mask": 3.0, "combine": 0.0, "norm": 4.0},
)
_LISTED: Settings = {"mask": 1.5}  # of the first of them on a public domain, where no threshold hides what noise lets through
_LOWER = (100, 30, 10)  # items of a user, tried below `GENEROUS`
_CLOSE = 0.005  # recalls that differ by less are alike, and the first one is taken: fewer steps, fewer settings
_ROUNDING = 1 + 2.0**-40  # above that of a split of the budget
_FINDING = 0.2  # share of the budget that goes to the discovery of groups, which have far more users than items have
_MANY, _FEWER = 1000, (10, 100, 300)  # items asked for from which on fewer compete for a price each, and how many
_PENALTIES = (1.0, 4.0, 16.0)  # of StableTopK, in units of the noise on the gaps
_MOST_SEARCHED = 500  # ranks that TopStable looks through
_MOST_COMPETITORS = 1_000_000
_RUNS = 200  # draws that judge what has no screen
_IN_GROUPS = 2.0  # groups of a user, where nothing bounds them
_LARGEST_TABLE = 2_000_000  # cells of a public table, all of which get noise
_LOSS = 2.0  # how much worse a user is whom the clip takes from a count, which is forecast roughly, than one of the noise


@final
@dataclass(frozen=True)
class Choice:
    """A mechanism, and how `events.read` has to read the log for it.

    Attributes:
        mechanism: with the noise that spends the budget.
        max_items_per_user: the bound on one user's items; None for none.
        clip, norm: what each user's contributions are scaled to; None to count every item in full.
        again: what they are scaled to in a second look, within the items that were discovered; None without one.
        cells: whether the log is read as cells of a group and an item, with the bound and the clip over all groups together.
        why: one sentence that says by which public facts the default chose it; "" where nothing was chosen.
    """

    mechanism: Mechanism
    max_items_per_user: int | None
    clip: float | None = None
    norm: Norm = "l2"
    again: float | None = None
    cells: bool = False
    why: str = ""

    @property
    def bounding(self) -> Bounding:
        """What is done to users' contributions."""
        return Bounding(self.max_items_per_user, self.clip, self.norm)


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


@final
@dataclass(frozen=True)
class Candidates:
    """All that may be chosen for a release, each fitted to the same budget. It is public, and so is the choice.

    Attributes:
        request: what is asked.
        choices: at least one; without counts of a second look, and of one group where there are groups.
        counted: the counts beside whichever is chosen, where they come from a second look; else None.
        groups: each of which gets what is chosen; None for the log as a whole.
        every: what is charged for a choice of each of them; None where they are one table of cells alone.
    """

    request: TopKRequest
    choices: tuple[Choice, ...]
    counted: CountNoise | None = None
    groups: Grouping | None = None
    every: EveryGroup | None = None
    _seen: dict[Profile, list[tuple[Profile, dict[Bounding, Levels]]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(
        cls,
        budget: Budget,
        request: TopKRequest,
        *,
        limit: int | None = None,
        clip: float | None = None,
        norm: Norm | None = None,
        order: bool = True,
        groups: Grouping | None = None,
    ) -> Self:
        """What the default considers: every way that fits the budget; with a stated clip only those of clipped counts.

        Args:
            limit: the most items of a user, as declared; None: any number, and 300 where a proof needs one.
            clip, norm: as stated, for one noisy vector; None: chosen, by the l1 norm for a pure budget and l2 otherwise.
            order: whether the order has to be released; without it sets are considered too.
            groups: each of which gets what is chosen; where users are in any number of them cells alone are considered.

        Raises:
            InvalidRequest, CalibrationError: nothing fits, and why.
        """
        every = None if groups is None else groups.every(budget, request)
        alone, recounted = _seen_alone(request), request.counts is None or request.recounted
        tabled = groups is not None and groups.tabled and limit is None and clip is None
        cells = list(in_cells(budget, request, groups)) if groups is not None and tabled else []
        if groups is not None and every is None:
            public = groups.cells(request) if groups.tabled and not alone else 0
            return cls(request, tuple(cells or unbounded(public)), groups=groups)
        norm = norm or ("l1" if budget.form == "pure" else "l2")
        noise: NoiseName = "laplace" if norm == "l1" else "gaussian"
        found = list[Choice]()
        if request.kbar is None and request.noise in (None, noise) and recounted:
            kind, most = (SparseHistogram, limit or GENEROUS) if alone else (OneshotTopK, limit)
            found += clipped(kind, noise, norm, budget, request, limit=limit, most=most, clip=clip, every=every)
        if clip is not None and not found:
            needs = "" if budget.form == "pure" else ", with a delta where the items are not public"
            raise InvalidRequest(
                "no default releases clipped counts within this budget: use clip_norm 'l1' for a pure budget and 'l2' for "
                f"others{needs}, or name a mechanism"
            )
        if clip is None:
            plain = [Choice(one, limit) for one in _selections(budget, request, every)]
            found = [*plain, *found, *cells]
            if not order and request.candidates is not None and request.noise is None and recounted:
                sets = _tried(CanonicalTopK, budget, request.model_copy(update={"noise": "gumbel"}), ordered=False, every=every)
                found += [] if sets is None else [Choice(sets, limit)]
        if not found:
            found = [Choice(without_counts(_plainest(budget, request, every)), limit)]  # says why there is none
        return cls(request, tuple(found), _counted(budget, request), groups, every)

    def recalls(self, choice: Choice, profile: Profile) -> tuple[float, ...]:
        """The share of the true top k that a choice should find, on each law that the profile stands for."""
        if profile not in self._seen:
            self._seen[profile] = [(law, {}) for law in profile.laws(self.request.k, self.request.candidates)]
        if choice.cells:
            assert self.groups is not None
            choice = self.groups.in_one(choice, self.request.k)
        family, mechanism = family_of(choice.mechanism), without_counts(choice.mechanism)
        known, bounding, found = self.request.candidates is not None, choice.bounding, []
        for law, levels in self._seen[profile]:
            if bounding not in levels:
                levels[bounding] = law.levels(self.request.k, bounding, known=known)
            found.append(family.forecast(mechanism, levels[bounding]))
        return tuple(found)

    def best(self, profile: Profile) -> Choice:
        """What finds most of the top k among such users; of those that are alike the first."""
        found = [float(np.mean(self.recalls(choice, profile))) for choice in self.choices]
        best = next(choice for choice, recall in zip(self.choices, found, strict=True) if recall >= max(found) - _CLOSE)
        why = f"it is forecast to find most for {profile.in_words()}{'' if self.groups is None else ' in a group'}"
        return self.completed(replace(best, why=why), profile)

    def completed(self, choice: Choice, profile: Profile) -> Choice:
        """Return the choice with counts, clipped as suits such users, and for every group."""
        mechanism = choice.mechanism
        if self.counted is not None:
            mechanism = with_counts(mechanism, self.counted, profile, self.request)
        return replace(choice, mechanism=self._around(choice, mechanism))

    def _around(self, choice: Choice, mechanism: Mechanism) -> Mechanism:
        """What is drawn: for every group, where there are groups."""
        if choice.cells:
            return TopOfGroups(k=self.request.k, mechanism=mechanism)
        return mechanism if self.every is None else self.every.around(mechanism)


def with_counts(mechanism: Mechanism, counted: CountNoise, profile: Profile, request: TopKRequest) -> Mechanism:
    """The mechanism with counts of a second look, clipped where what that takes, twice over, and the noise are least."""
    laws = profile.laws(request.k, request.candidates)

    def error(one: Mechanism, law: Profile) -> float:
        settings: Any = one
        inside = np.diff(np.minimum(np.cumsum(law.multiplicities), request.k), prepend=0)
        lost = 1 - law.counted(request.k, settings.clip, counted.norm)
        noise = quality.deviation(counted.noise) * settings.scale
        return float(inside @ np.hypot(_LOSS * lost * law.values, noise)) / float(inside.sum())

    tried = [counted.around(mechanism, clip) for clip in counted.clips]
    return min(tried, key=lambda one: sum(error(one, law) for law in laws))


def _seen_alone(request: TopKRequest) -> bool:
    """Whether items are released by a threshold, which hides those that hardly anybody touched."""
    return request.candidates is None or request.min_users is not None


def _counted(budget: Budget, request: TopKRequest) -> CountNoise | None:
    """Counts of a second look, where these are asked for."""
    return CountNoise.of(request, budget) if request.recounted and request.counts is not None else None


def _selections(budget: Budget, request: TopKRequest, every: EveryGroup | None) -> list[Mechanism]:
    """What releases the order of counts as they are, or as the declared bound leaves them."""

    def tried(kind: type[Mechanism], budget: Budget = budget, **changes: Any) -> Mechanism | None:
        return _tried(kind, budget, request.model_copy(update=changes), every=every)

    if _seen_alone(request):
        noises = (None, "gaussian", "laplace")
        bounded = request.sensitivity.l0 is not None and request.kbar is None and request.noise in noises
        # Each item that may be shown has a price here: where very many are asked for, a few may be all that there is to show.
        sizes = _FEWER if request.k >= _MANY and request.kbar is None else (request.k,)
        found = [tried(SparseHistogram, noise=request.noise or "gaussian")] if bounded else []
        found += [tried(LimitedDomain, k=k) for k in sizes]
    else:
        # Of many releases pure epsilons add up too fast, and counts take a part of the budget.
        once = budget.form == "approximate" and request.releases == 1 and not request.recounted and every is None
        without_delta = Budget(epsilon=budget.epsilon) if once else budget
        found = [tried(PeelingTopK, without_delta, noise="exponential"), tried(OneshotTopK, noise="gumbel")]
        if request.sensitivity.l2_of(None) < math.inf:
            found.append(tried(OneshotTopK, noise="laplace" if budget.form == "pure" else "gaussian"))
    return [one for one in found if one is not None]


def in_cells(budget: Budget, request: TopKRequest, groups: Grouping, *, roughly: bool = False) -> Iterator[Choice]:
    """One noisy vector of cells with every clip, and two rounds; of a public table where items and groups are public."""
    if request.kbar is not None or request.noise not in (None, "gaussian") or request.counts is not None or budget.delta == 0:
        return
    if not _seen_alone(request):
        size = groups.cells(request)
        if not 0 < size <= _LARGEST_TABLE:
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


def unbounded(cells: int = 0) -> NoReturn:
    """Refuse groups that no bound and no norm limits a user in; `cells` of them are public."""
    if cells > _LARGEST_TABLE:
        raise InvalidRequest(
            f"public lists of items and groups make up {cells:,} cells, and no table of more than {_LARGEST_TABLE:,} is drawn: "
            "leave out the list of items, of which those that occur are then found, or state max_groups_per_user=, in how many "
            "groups one user counts"
        )
    raise InvalidRequest(
        "max_groups_per_user= is missing: one norm over all groups of a user is for counts of users with a delta=, and items and "
        "groups that are both public or items that are not, without mechanism=, clip=, max_items_per_user=, kbar=, noise=, "
        "with_counts= and value=. State in how many groups one user counts, 1 or 2 for example, or leave these out"
    )


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


def changed(mechanism: Any, **settings: Any) -> Any:
    """The mechanism with other settings, validated."""
    return type(mechanism).model_validate({**settings_of(mechanism), **settings}) if settings else mechanism


# -- the default -----------------------------------------------------------------------------------------------------------


def default_choice(
    budget: Budget,
    request: TopKRequest,
    *,
    max_items_per_user: int | None = None,
    clip: float | None = None,
    norm: Norm | None = None,
    order: bool = True,
    groups: Grouping | None = None,
    profile: Profile | None = None,
    whole: Budget | None = None,
) -> Choice:
    """The mechanism that should find most of the top k of distinct-user counts, and the clip to read the log with.

    Nothing private is looked at: it is a rule of what is public, and the only place where the default chooses.

    Args:
        budget: of the release, or of all `request.releases` of them; with groups of all groups, and of what discovers them.
        request: k, candidates and the relation; its sensitivity is that of counts with at most `max_items_per_user` items a user.
            With groups all of it is within one of them.
        max_items_per_user: as declared; None: any number, and 300 where a proof needs one.
        clip: as stated, with its norm, for one noisy vector; None: chosen.
        norm: of the clip; None: l1 for a pure budget, l2 otherwise.
        order: whether the order has to be released; without it sets are considered too.
        groups: each of which gets a release.
        profile: users (of one group), as declared; None: as in other logs (`Profile.typical`).
        whole: the budget of the dataset that pays, if one does.

    Raises:
        InvalidRequest: an unknown domain or groups to discover and a budget without delta.
        CalibrationError: no amount of noise fits the budget.
    """
    if clip is not None and request.candidates is None and max_items_per_user is None:
        raise InvalidRequest(
            "clip= without a catalogue needs max_items_per_user=, which may be generous "
            "(300 for example): what a user with any number of items brings in alone cannot be hidden"
        ).at("clip")
    if clip is not None and request.counts is not None and not request.recounted:
        raise InvalidRequest(WHOLE_COUNTS)
    users = profile or Profile.typical(in_a_group=groups is not None)
    adds_epsilons = budget.form == "pure" or (whole is not None and whole.measure == "epsilon")
    ruled = None if adds_epsilons or clip is not None else _ruled(budget, request, max_items_per_user, groups)
    if ruled is not None:
        return Candidates(request, (ruled,), _counted(budget, request), groups).completed(ruled, users)
    found = Candidates.of(budget, request, limit=max_items_per_user, clip=clip, norm=norm, order=order, groups=groups)
    return found.best(users)


def _ruled(budget: Budget, request: TopKRequest, limit: int | None, groups: Grouping | None) -> Choice | None:
    """Choose a race, or Gumbel noise for a few listed items, by what is public alone.

    Recall on real logs is the reason: see `docs/choosing.md`. Among few listed items Gumbel noise is
    small, and clips nobody; its noise grows with the root of k. Under replace_one, and in groups, a
    race finds more for every k.

    Args:
        limit: the most items of a user, as declared; None for any number.

    Returns:
        The choice without counts; None where neither is for such a request: users with hardly any
        items, a least number of users, a stated noise, and groups read one by one.
    """
    unfit = request.min_users is not None or request.kbar is not None
    stated = request.noise not in (None, "gaussian") or (request.counts is not None and not request.recounted)
    if unfit or stated or (limit is not None and limit <= FEW):
        return None
    if groups is not None and (limit is not None or not groups.tabled or request.counts is not None):
        return None
    relation, listed = request.sensitivity.relation, request.candidates is not None
    if listed and request.k <= FEW_LISTED and relation == "add_remove" and groups is None and request.noise is None:
        found = _tried(OneshotTopK, budget, request.model_copy(update={"noise": "gumbel"}))
        if found is not None:
            why = f"for up to {FEW_LISTED} items of a public list Gumbel noise finds most: it clips nobody"
            return Choice(found, limit, why=why)
    return _race(budget, request, limit, groups)


def _race(budget: Budget, request: TopKRequest, limit: int | None, groups: Grouping | None) -> Choice | None:
    """A race at the price of one Gaussian vector, users clipped to a norm of 1; None where nothing pays for that."""
    listed, cells = request.candidates is not None, groups is not None
    if groups is not None and listed:
        size = groups.cells(request)
        if not 0 < size <= _LARGEST_TABLE:
            return None  # of a catalogue without a list of groups, which cells there may be is private
        request = request.model_copy(update={"candidates": size})
    most = limit if listed else limit or GENEROUS
    bounds = Sensitivity.of_clipped(1.0, "l2", request.sensitivity.relation, most)
    asked = request.model_copy(update={"sensitivity": bounds, "noise": "gaussian"})
    vector = _tried(OneshotTopK if listed else SparseHistogram, budget, asked)
    hiding, price = (vector.delta, vector.curve.curve) if isinstance(vector, SparseHistogram) else (None, vector and vector.curve)
    if not isinstance(price, GaussianDP) or price.mu == 0:
        return None
    scale = bounds.l2_of(None) / price.mu * _ROUNDING
    race = RacingTopK(k=request.k, scale=scale, delta=hiding, sensitivity=bounds, cells=cells)
    why = "where users may have many items a race finds most: it gives their weight to the items whose place is still open"
    return Choice(race, most, 1.0, "l2", cells=cells, why=why)


def default_mechanism(
    budget: Budget,
    request: TopKRequest,
    *,
    kind: str | None = None,
    groups: Grouping | None = None,
) -> Mechanism:
    """A mechanism that fits `request` and `budget`, chosen by public configuration alone, for scores as `request` declares them.

    Of an unknown domain `LimitedDomain` or, where the sensitivity bounds a user's contribution, `SparseHistogram`, whichever
    has the lower threshold. Of a public one peeling with exponential noise (permute-and-flip, k times), one-shot Gumbel noise or,
    where the sensitivity bounds a norm, one-shot noise of that norm, whichever has the smallest standard deviation of noise
    within the budget. All of them release the order. See `default_choice` for the clip to read a log with.

    Args:
        kind: of the mechanism; None for these.
        groups: every one of which gets a release, as a `PerGroup` with the price of all.

    Raises:
        InvalidRequest: an unknown domain or groups to discover and a budget without delta, or `kind` cannot do it.
        RelationMismatch: an unknown domain under replace_one, and a sensitivity that bounds no user's contribution.
        CalibrationError: no amount of noise fits the budget.
    """
    every = None if groups is None else groups.every(budget, request)
    one = _plainest(budget, request, every) if kind is None else fitted(kind, budget, request, every=every)
    return one if every is None else every.around(one)


def _plainest(budget: Budget, request: TopKRequest, every: EveryGroup | None) -> Mechanism:
    """The selection with the lowest threshold, or the least noise; where there is none, the usual one says why."""
    found, counted = min(_selections(budget, request, every), key=_height, default=None), _counted(budget, request)
    if found is not None:
        return found if counted is None else counted.beside(found)
    usual = (SparseHistogram if request.min_users else LimitedDomain) if _seen_alone(request) else OneshotTopK
    return fitted(usual.__name__, budget, request, every=every)


def _height(mechanism: Mechanism) -> float:
    """The threshold, or the standard deviation of the noise, in score units."""
    one: Any = without_counts(mechanism)
    if isinstance(one, LimitedDomain):
        return one.margin
    return float(one.threshold) if isinstance(one, SparseHistogram) else float(one.scale * quality.deviation(one.noise))


# -- for every group -------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Grouping:
    """Groups of a log, each of which gets a release.

    Attributes:
        most: in how many of them one user is at most.
        listed: how many a public list names; None where they are discovered, which takes a fifth of the budget.
        tabled: whether the log can be read as cells of a group and an item (`Choice.cells`), which are considered then.
        per_user: in how many of them a user is taken to be, with as many items in each: no bound rests on it. None: the root of
            `most`, or two where nothing bounds it.
    """

    most: int
    listed: int | None = None
    tabled: bool = False
    per_user: float | None = None

    def cells(self, request: TopKRequest) -> int:
        """How many cells public lists of groups and items name; 0 without them."""
        return (request.candidates or 0) * (self.listed or 0)

    def in_one(self, choice: Choice, k: int) -> Choice:
        """What a choice of cells does to one group: its noise, and users who weigh there what they do not elsewhere. H12."""
        usual = _IN_GROUPS if self.most >= ANY_GROUPS else math.sqrt(self.most)
        shared = math.sqrt(usual if self.per_user is None else self.per_user)
        clip = None if choice.clip is None else choice.clip / shared
        mechanism, settings = choice.mechanism, dict[str, Any](k=k)
        if isinstance(mechanism, TwoRoundHistogram):
            covered = mechanism.sensitivity
            part = Sensitivity.of_clipped(1 / shared, "l2", covered.relation, choice.max_items_per_user)
            settings |= {"sensitivity": part, "norm": mechanism.norm / shared}
        return replace(choice, mechanism=changed(mechanism, **settings), clip=clip, cells=False)

    def every(self, budget: Budget, request: TopKRequest) -> EveryGroup | None:
        """What is charged for a mechanism of each of them; None where users are in any number.

        Raises:
            InvalidRequest: groups are to be discovered with a budget without delta, or `most` is not an integer >= 1.
        """
        if self.most == ANY_GROUPS:
            return None
        rule = "in how many groups one user is at most"
        checked_integer("max_groups_per_user", self.most, rule, error=InvalidRequest)
        relation, found = request.sensitivity.relation, None
        if self.listed is None:
            if budget.delta == 0:
                raise InvalidRequest(
                    "groups that are read off the log need a budget with a delta: the chance that one of a single user is found. "
                    "Give a delta in (0, 1), or a public list of groups (groups=)"
                )
            presence = Sensitivity.of_clipped(1.0, "l2", relation, self.most)
            shared = None if request.share is None else request.share.times(_FINDING * (1 - 2**-40))
            asked = TopKRequest(k=1, sensitivity=presence, noise="gaussian", releases=request.releases, share=shared)
            found = changed(fitted(SparseHistogram.__name__, part(budget, _FINDING), asked), k=None)
        return EveryGroup(self.most, relation, request.sensitivity.uniform, found)


# -- parts of a budget -----------------------------------------------------------------------------------------------------


def part(budget: Budget, share: float) -> Budget:
    """This share of a budget, and a little less: all parts together do not exceed the whole in floats either."""
    amounts = {name: getattr(budget, name) for name in ("epsilon", "rho", "delta", "failure")}
    stated = {name: share * (1 - 2**-40) * value for name, value in amounts.items() if value}
    order = {"order": budget.order} if isinstance(budget.order, str) else {}  # the best one for a part is another one
    return Budget(**order, **stated)
