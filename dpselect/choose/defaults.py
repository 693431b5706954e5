"""Which mechanism a release takes if nobody names one, by public configuration alone, and how the log is read for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, Literal, NoReturn, cast, final

from accounting import AccountingError, Budget, CalibrationError
from accounting.arguments import checked_integer, shown
from dpselect.choose.calibration import calibrated, fitted, knob_of
from dpselect.choose.counts import without_counts
from dpselect.choose.request import TopKRequest
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import (
    DiscoverThenSelect,
    LimitedDomain,
    Mechanism,
    OneshotTopK,
    PeelingTopK,
    PerGroup,
    SparseHistogram,
    WithValues,
)
from dpselect.mechanisms.traits import settings_of
from dpselect.noise import NoiseName
from dpselect.sensitivity import Sensitivity

Norm = Literal["l1", "l2"]

GENEROUS = 300
"""Items per user: a bound that hardly anybody reaches, where a proof needs one and nobody states any."""

WHOLE_COUNTS = (
    "a clip goes with no counts: clipped scores are sums of shares. Leave out --clip (clip=) or --with-counts (counts=)"
)

# Of a release in two steps: the share of the budget (mu squared) that goes to the discovery, how many items it is for, as a
# multiple of k. Chosen on published logs, docs/choosing.md; with so few items a user is not distorted by the first clip, and one
# step does.
_SHARE, _CANDIDATES, _FEW = 0.85, 1.5, 2
# The clip of the second look, times the root of the noise for each unit of l2 norm, and its bounds: distortion is what hurts
# where there is little noise, and noise where there is much.
_AGAIN, _LEAST_AGAIN, _MOST_AGAIN = 4.0, 1.0, 4.0
_ROUNDING = 1 + 2.0**-40  # above that of a split of the budget
# Standard deviations of the standard noises.
_DEVIATION: dict[NoiseName, float] = {
    "gumbel": math.pi / math.sqrt(6),
    "exponential": 1.0,
    "gaussian": 1.0,
    "laplace": math.sqrt(2),
}
# Items of a user whose weight a clip is taken to cut, where nobody says how many users have: with these the rule switches where
# the measured recall does (docs/choosing.md), at about k = 25 for unknown domains and k = 80 for public ones.
_USUAL = {"unknown": 81.0, "public": 36.0}


@final
@dataclass(frozen=True)
class Choice:
    """A mechanism, and how `events.read` has to read the log for it.

    Attributes:
        mechanism: with the noise that spends the budget.
        max_items_per_user: the bound on one user's items; None for none.
        clip, norm: what each user's contributions are scaled to; None to count every item in full.
        again: what they are scaled to in a second look, within the items that were discovered; None without one.
    """

    mechanism: Mechanism
    max_items_per_user: int | None
    clip: float | None = None
    norm: Norm = "l2"
    again: float | None = None


def default_choice(
    budget: Budget,
    request: TopKRequest,
    *,
    max_items_per_user: int | None = None,
    clip: float | None = None,
    norm: Norm | None = None,
    items_per_user: float | None = None,
) -> Choice:
    """The mechanism that fits a release of distinct-user counts, and the clip to read the log with; nothing private is looked at.

    Two ways to release are weighed: selection on the counts as they are, whose noise grows with k, and one noisy vector of
    clipped counts, whose noise does not, but in which an item of a user with t items weighs 1/sqrt(t) only. The one with less
    noise per user wins. t is `items_per_user` if declared; otherwise 81 for an unknown domain and 36 for a public one, with which
    the rule switches where recall does on published logs.

    Args:
        budget: of the release, or of all `request.releases` of them.
        request: k, candidates and the relation; its sensitivity is that of counts with at most `max_items_per_user` items a user.
        max_items_per_user: as declared; None: any number, and 300 where a proof needs one.
        clip: as stated, with its norm, for one noisy vector; None: the root of `items_per_user` for a public domain if that is
            declared, otherwise 1.
        norm: of the clip; None: l1 for a pure budget, l2 otherwise.
        items_per_user: a public guess of how many items users have on average, >= 1.

    Raises:
        InvalidRequest: an unknown domain and a budget without delta, or `items_per_user` is less than 1.
        CalibrationError: no amount of noise fits the budget.
    """
    require_ways(request, max_items_per_user, clip, items_per_user)
    clipped = clipped_choice(budget, request, max_items_per_user, clip, norm, items_per_user)
    if clip is not None:
        return clipped or refused(budget)
    plain = _plain(budget, request, max_items_per_user)
    choices = [choice for choice in (plain, clipped) if choice is not None]
    if not choices:
        return Choice(default_mechanism(budget, request), max_items_per_user)  # says why there is none
    usual = items_per_user or _USUAL["unknown" if request.candidates is None else "public"]
    return min(choices, key=lambda choice: noise_per_user(choice, usual))


def require_ways(request: TopKRequest, limit: int | None, clip: float | None, items: float | None) -> None:
    """Refuse what is stated about users' items and does not go together."""
    if items is not None and not (isinstance(items, Real) and 1 <= items < math.inf):
        raise InvalidRequest(f"items_per_user={shown(items)} must be a number >= 1: how many items users have on average")
    if clip is not None and request.candidates is None and limit is None:
        raise InvalidRequest(
            "--clip without a catalogue needs --max-items-per-user (max_items_per_user in the library), which may be generous "
            "(300 for example): what a user with any number of items brings in alone cannot be hidden"
        )
    if clip is not None and request.counts is not None:
        raise InvalidRequest(WHOLE_COUNTS)


def default_mechanism(budget: Budget, request: TopKRequest) -> Mechanism:
    """A mechanism that fits `request` and `budget`, chosen by public configuration alone, for scores as `request` declares them.

    Of an unknown domain `LimitedDomain` or, where the sensitivity bounds a user's contribution, `SparseHistogram`, whichever
    has the lower threshold. Of a public one peeling with exponential noise (permute-and-flip, k times), one-shot Gumbel noise or,
    where the sensitivity bounds a norm, one-shot noise of that norm, whichever has the smallest standard deviation of noise
    within the budget. All of them release the order. See `default_choice` for the clip to read a log with.

    Raises:
        InvalidRequest: an unknown domain and a budget without delta.
        RelationMismatch: an unknown domain under replace_one, and a sensitivity that bounds no user's contribution.
    """
    if request.candidates is None:
        return _least(_unknown(budget, request)) or fitted(LimitedDomain.__name__, budget, request)
    return _least(_public(budget, request)) or fitted(OneshotTopK.__name__, budget, request)


def weighed(budget: Budget, request: TopKRequest) -> list[Mechanism]:
    """What `default_mechanism` chooses from; never none."""
    found = _unknown(budget, request) if request.candidates is None else _public(budget, request)
    return [one for one in found if one is not None] or [default_mechanism(budget, request)]


def _plain(budget: Budget, request: TopKRequest, limit: int | None) -> Choice | None:
    """On counts as they are, or as the declared bound leaves them."""
    found = _least(_unknown(budget, request) if request.candidates is None else _public(budget, request))
    return None if found is None else Choice(found, limit)


def refused(budget: Budget) -> NoReturn:
    """That no clipped counts can be released, and why."""
    rest = "" if budget.form == "pure" else ", with a delta where the items are not public"
    raise InvalidRequest(
        f"no default releases clipped counts within this budget: use clip_norm 'l1' for a pure budget and 'l2' for others{rest}, "
        "or name a mechanism"
    )


def clipped_choice(
    budget: Budget,
    request: TopKRequest,
    limit: int | None,
    clip: float | None,
    norm: Norm | None,
    items: float | None,
    *,
    again: bool = True,
) -> Choice | None:
    """One noisy vector of clipped counts; None where the budget pays for none, or something else is asked for.

    `again` allows for a second look.
    """
    norm = norm or ("l1" if budget.form == "pure" else "l2")
    noise: NoiseName = "laplace" if norm == "l1" else "gaussian"
    if request.kbar is not None or request.noise not in (None, noise) or request.counts is not None:
        return None
    most = limit or (GENEROUS if request.candidates is None else None)
    # Where a second look follows, the first clip only has to find; the tightest is best at that.
    size = clip if clip is not None else 1.0 if request.candidates is None else _clip(norm, items)
    declared = Sensitivity.of_clipped(size, norm, request.sensitivity.relation, most)
    kind = SparseHistogram if request.candidates is None else OneshotTopK
    asked = request.model_copy(update={"sensitivity": declared, "noise": noise})
    found = _tried(kind, budget, asked)
    few = min(most or math.inf, items or math.inf) <= _FEW
    if again and isinstance(found, SparseHistogram) and clip is None and norm == "l2" and not few:
        twice = _twice(found, budget, asked)
        if twice is not None:
            return Choice(twice, most, size, norm, twice.again)
    return None if found is None else Choice(found, most, size, norm)


def two_steps(
    k: int, scale: float, delta: float, first: Sensitivity, *, share: float, candidates: int, again: float
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
    """
    within = Sensitivity.of_clipped(again, "l2", first.relation)
    sizes = (first.l2_of(None) / math.sqrt(share), within.l2_of(None) / math.sqrt(1 - share))
    find, select = (scale * size * _ROUNDING for size in sizes)
    return DiscoverThenSelect(
        discovery=SparseHistogram(k=candidates, scale=find, delta=delta, sensitivity=first),
        selection=OneshotTopK(k=k, noise="gaussian", scale=select, sensitivity=within, values=True),
        candidates=candidates,
    )


def _twice(found: SparseHistogram, budget: Budget, request: TopKRequest) -> DiscoverThenSelect | None:
    """The histogram for a domain of half as many items again, and a second look at users' shares within it.

    None where the budget pays for no such pair: one of nearly all delta, or of a huge epsilon, has no bound for its price.
    """
    candidates, unit = math.ceil(_CANDIDATES * request.k), found.scale / found.sensitivity.l2_of(None)
    again = min(max(float(f"{_AGAIN / math.sqrt(unit):.3g}"), _LEAST_AGAIN), _MOST_AGAIN)

    def family(scale: float) -> DiscoverThenSelect:
        return two_steps(request.k, scale, found.delta, found.sensitivity, share=_SHARE, candidates=candidates, again=again)

    try:
        return cast(DiscoverThenSelect, calibrated(family, budget, (0.5 * unit, 4 * unit), charges=request.charges))
    except CalibrationError:
        return None


def _clip(norm: Norm, items: float | None) -> float:
    if items is None:
        return 1.0
    return float(f"{items if norm == 'l1' else math.sqrt(items):.3g}")


def _unknown(budget: Budget, request: TopKRequest) -> list[Mechanism | None]:
    found = [_tried(LimitedDomain, budget, request)]
    if request.sensitivity.l0 is not None and request.kbar is None and request.noise in (None, "gaussian", "laplace"):
        noise = request.noise or "gaussian"
        found.append(_tried(SparseHistogram, budget, request.model_copy(update={"noise": noise})))
    return found


def _public(budget: Budget, request: TopKRequest) -> list[Mechanism | None]:
    once = budget.form == "approximate" and request.releases == 1
    without_delta = Budget(epsilon=budget.epsilon) if once else budget  # of many releases pure epsilons add up too fast
    asked = {noise: request.model_copy(update={"noise": noise}) for noise in _DEVIATION}
    found = [_tried(PeelingTopK, without_delta, asked["exponential"]), _tried(OneshotTopK, budget, asked["gumbel"])]
    bounded = request.sensitivity.l1_of(None) < math.inf or request.sensitivity.l2_of(None) < math.inf
    if bounded:
        noise: NoiseName = "laplace" if budget.form == "pure" else "gaussian"
        found.append(_tried(OneshotTopK, budget, asked[noise]))
    return found


def _tried(kind: type[Mechanism], budget: Budget, request: TopKRequest) -> Mechanism | None:
    """None where the mechanism has no guarantee of this kind."""
    try:
        found = fitted(kind.__name__, budget, request)
    except AccountingError:
        return None
    return found if found.ordered else None


def _least(found: list[Mechanism | None]) -> Mechanism | None:
    return min((one for one in found if one is not None), key=height, default=None)


def height(mechanism: Mechanism) -> float:
    """The threshold, or the standard deviation of the noise, in score units."""
    mechanism = without_counts(mechanism)
    if isinstance(mechanism, LimitedDomain):
        return mechanism.margin
    if isinstance(mechanism, DiscoverThenSelect):
        return height(mechanism.discovery)
    if isinstance(mechanism, SparseHistogram):
        return mechanism.threshold
    fields: dict[str, Any] = dict(mechanism)
    return float(fields["scale"]) * _DEVIATION[fields["noise"]]


def noise_per_user(choice: Choice, usual: float) -> float:
    """The same per user that touches an item, whose weight a clip cuts where users have the usual number of items."""
    if choice.clip is None:
        return height(choice.mechanism)
    having = min(usual, choice.max_items_per_user or math.inf)
    cut = having if choice.norm == "l1" else math.sqrt(having)
    return height(choice.mechanism) * max(1.0, cut / choice.clip)


# -- for every group --------------------------------------------------------------------------------------------------

# Items of a user in one group whose weight a clip is taken to cut, where nobody says how many users have.
_USUAL_IN_A_GROUP = {"unknown": 4.0, "public": 1.0}
_FINDING = 0.2  # share of the budget that goes to the discovery of groups, which have far more users than items have


def default_groups(
    budget: Budget, request: TopKRequest, max_groups_per_user: int, *, kind: str | None = None, discover: bool = False
) -> PerGroup:
    """A selection for every group that together spend the budget, for scores as `request` declares them.

    Within a group it is that of `default_mechanism`, with its noise fitted to the price of all groups of one user. Groups that no
    public list names are discovered by the users of each, clipped to an l2 norm of 1, for a fifth of the budget. Nothing private
    is looked at. See `default_group_choice` for the clip to read a log with.

    Args:
        budget: of the whole release, the discovery included.
        request: a release within one group: k, candidates, and what a user changes there.
        max_groups_per_user: in how many groups one user is at most, >= 1.
        kind: of the mechanism within a group; None for the default.
        discover: whether the groups are read off the log.

    Raises:
        InvalidRequest: groups are to be discovered with a budget without delta, the mechanism has no single amount of noise, or
            `max_groups_per_user` is no integer >= 1.
        CalibrationError: no amount of noise fits the budget.
    """
    split = _Split.of(budget, request, max_groups_per_user, discover=discover)
    if kind is not None:
        return split.every(fitted(kind, split.part, request), request)
    return min((split.every(one, request) for one in weighed(split.part, request)), key=lambda groups: height(groups.mechanism))


def default_group_choice(
    budget: Budget,
    request: TopKRequest,
    max_groups_per_user: int,
    *,
    discover: bool = False,
    max_items_per_user: int | None = None,
    clip: float | None = None,
    norm: Norm | None = None,
    items_per_user: float | None = None,
) -> Choice:
    """The mechanism for every group of a log of distinct-user counts, and the clip to read the log with.

    Weighed as by `default_choice`, with the noise that the groups of one user together cost and without a second look: selection
    on the counts of a group as they are, or one noisy vector of counts clipped within each group. Where nobody declares how many
    items of a group a user has, so many are assumed that the rule switches where recall does on published logs
    (`tests/benchmarks/bench_groups.py`): the vector from k = 2 or 3 on.

    Args:
        budget, request, max_groups_per_user, discover: as for `default_groups`; the sensitivity is that of counts.
        max_items_per_user, clip, norm, items_per_user: as for `default_choice`, within one group.

    Raises:
        InvalidRequest, CalibrationError: as for `default_groups` and `default_choice`.
    """
    require_ways(request, max_items_per_user, clip, items_per_user)
    split = _Split.of(budget, request, max_groups_per_user, discover=discover)
    clipped = clipped_choice(split.part, request, max_items_per_user, clip, norm, items_per_user, again=False)
    if clip is not None and clipped is None:
        refused(split.part)
    ways = [] if clipped is None else [clipped]
    ways += [] if clip is not None else [Choice(one, max_items_per_user) for one in weighed(split.part, request)]
    found = [replace(way, mechanism=split.every(way.mechanism, request).mechanism) for way in ways]
    usual = items_per_user or _USUAL_IN_A_GROUP["unknown" if request.candidates is None else "public"]
    best = min(found, key=lambda way: noise_per_user(way, usual))
    return replace(best, mechanism=split.around(best.mechanism))


@dataclass(frozen=True)
class _Split:
    """A budget, divided between the groups of one user.

    Attributes:
        part: what one group may cost, about.
        most: groups of one user.
        discovery: what finds the groups for the rest.
    """

    budget: Budget
    part: Budget
    most: int
    discovery: Mechanism | None

    @classmethod
    def of(cls, budget: Budget, request: TopKRequest, most: int, *, discover: bool) -> _Split:
        checked_integer("max_groups_per_user", most, "in how many groups one user is at most", error=InvalidRequest)
        users = 2 if request.sensitivity.relation == "replace_one" else 1
        discovery = _discovery(_part(budget, _FINDING), request, most) if discover else None
        return cls(budget, _part(budget, (1.0 - _FINDING if discover else 1.0) / (users * most)), most, discovery)

    def around(self, one: Mechanism) -> PerGroup:
        """The same mechanism for every group."""
        return PerGroup(mechanism=one, max_groups_per_user=self.most, discovery=self.discovery)

    def every(self, one: Mechanism, request: TopKRequest) -> PerGroup:
        """The same, with the noise at which all groups of a user together spend the budget."""
        family = partial(_louder, one)
        found = calibrated(lambda factor: self.around(family(factor)), self.budget, (1 / 64, 64.0), charges=request.charges)
        return cast(PerGroup, found)


def _louder(mechanism: Mechanism, factor: float) -> Mechanism:
    """With so many times the noise, that of values included."""
    settings = settings_of(mechanism)
    if isinstance(mechanism, WithValues):
        return WithValues.model_validate(
            {**settings, "mechanism": _louder(mechanism.mechanism, factor), "scale": factor * mechanism.scale}
        )
    knob = knob_of(type(mechanism))
    return type(mechanism).model_validate(
        {**settings, knob.field: settings[knob.field] * (1 / factor if knob.rising else factor)}
    )


def _discovery(budget: Budget, request: TopKRequest, most: int) -> Mechanism:
    if budget.delta == 0:
        raise InvalidRequest(
            "groups that are read off the log need a budget with a delta: the chance that one of a single user is found. Give a "
            "delta in (0, 1), or a public list of groups (groups= in the library, --groups at the command line)"
        )
    presence = Sensitivity.of_clipped(1.0, "l2", request.sensitivity.relation, most)
    asked = TopKRequest(k=1, sensitivity=presence, noise="gaussian", releases=request.releases)
    found = fitted(SparseHistogram.__name__, budget, asked)
    return SparseHistogram.model_validate({**settings_of(found), "k": None})


def _part(budget: Budget, share: float) -> Budget:
    """So much of a budget, delta included, and a little less: all parts together are no more than the whole in floats either."""
    stated = {"epsilon": budget.epsilon, "rho": budget.rho, "delta": budget.delta or None, "failure": budget.failure}
    order = {"order": budget.order} if isinstance(budget.order, str) else {}  # the best one for a part is another one
    return Budget(**order, **{name: share * (1 - 2**-40) * value for name, value in stated.items() if value is not None})
