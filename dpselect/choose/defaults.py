"""Which mechanism a release takes if nobody names one, and how the log is read for it: by public numbers alone.

All that may be chosen is fitted to the budget first. Which of these is taken depends on how many users there are and how many
items they have: declared, learnt (`Learning`), or taken to be as in `ASSUMED`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, NoReturn, Self, cast, final

import numpy as np

from accounting import AccountingError, Approximate, Budget, CalibrationError, ChosenAfter, Composed, Curve, GaussianDP, calibrate
from accounting.arguments import checked_integer, shown
from dpselect.choose.calibration import calibrated, fitted, knob_of
from dpselect.choose.counts import CLIPS, CountNoise, without_counts
from dpselect.choose.forecast import STANDARD_DEVIATION, Choice, Crowd, Forecast
from dpselect.choose.learning import LEARN, Learning, LearnThenSelect
from dpselect.choose.request import BudgetShare, TopKRequest
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import (
    CanonicalTopK,
    DiscoverThenSelect,
    LimitedDomain,
    Mechanism,
    OneshotTopK,
    PeelingTopK,
    PerGroup,
    SparseHistogram,
    WithValues,
)
from dpselect.mechanisms.base import settings_of
from dpselect.noise import NoiseName
from dpselect.sensitivity import Norm, Sensitivity

GENEROUS = 300
"""Items per user: a bound that hardly anybody reaches, where a proof needs one and nobody states any."""

WHOLE_COUNTS = (
    "a clip goes with no counts of the same scores, which are sums of shares: leave out --clip (clip=) or --with-counts (counts=)"
)

ASSUMED = Crowd(5000.0, (4.0, 7.0, 14.0, 35.0, 70.0))
"""Users where nothing is declared or learnt: medians of the logs in docs/choosing.md."""

ASSUMED_IN_A_GROUP = Crowd(2000.0, (1.0, 1.0, 1.0, 2.0, 4.0))
"""The same within one group."""

_SHARES, _TIMES = (0.7, 0.85, 0.95), 1.5  # of two steps: the discovery's part of mu squared, candidates over k
_LOWER = (100, 30, 10)  # items of a user, tried below `GENEROUS`
_FEW = 2  # items per user, which a clip does not distort: one step does
_CLOSE = 0.005  # recalls that differ by less are alike, and the first one is taken: fewer steps, fewer settings
_ROUNDING = 1 + 2.0**-40  # above that of a split of the budget
# The share of epsilon that learning takes is half the square of its own epsilon over mu, and a little more: delta0 leaves a
# smaller mu, and losses are skewed. It decides what is tried first; the joint curve is held against the budget all the same.
_QUADRATIC = 1.15


def default_choice(
    budget: Budget,
    request: TopKRequest,
    *,
    max_items_per_user: int | None = None,
    clip: float | None = None,
    norm: Norm | None = None,
    items_per_user: float | None = None,
    users: float | None = None,
    order: bool = True,
    crowd: Crowd | None = None,
) -> Choice:
    """The mechanism that should find most of the top k of distinct-user counts, and the clip to read the log with.

    Nothing private is looked at and nothing is learnt: what is not declared is taken to be as in `ASSUMED`. `Informed` learns it.

    Args:
        budget: of the release, or of all `request.releases` of them.
        request: k, candidates and the relation; its sensitivity is that of counts with at most `max_items_per_user` items a user.
        max_items_per_user: as declared; None: any number, and 300 where a proof needs one.
        clip: as stated, with its norm, for one noisy vector; None: chosen.
        norm: of the clip; None: l1 for a pure budget, l2 otherwise.
        items_per_user: a public guess of how many items users have on average, >= 1.
        users: a public guess of how many users there are.
        order: whether the order has to be released; without it sets are considered too.
        crowd: users as they were learnt, in place of `users` and `items_per_user`.

    Raises:
        InvalidRequest: an unknown domain and a budget without delta, or `items_per_user` is less than 1.
        CalibrationError: no amount of noise fits the budget.
    """
    _require_ways(request, max_items_per_user, clip, items_per_user)
    menu = Menu.of(budget, request, limit=max_items_per_user, clip=clip, norm=norm, order=order)
    return menu.best(declared(users, items_per_user) if crowd is None else crowd)


def declared(users: float | None, items: float | None, assumed: Crowd = ASSUMED) -> Crowd:
    """The users that are declared; what is not is assumed."""
    count = assumed.users if users is None else users
    return replace(assumed, users=count) if items is None else Crowd.of_mean(count, items)


@final
@dataclass(frozen=True)
class Menu:
    """All that may be chosen for a release, each fitted to the same budget. Public; the choice is by released numbers.

    Attributes:
        request: what is asked.
        choices: at least one; without counts.
        counted: the counts beside whichever is chosen, where they come from a second look; else None.
    """

    request: TopKRequest
    choices: tuple[Choice, ...]
    counted: CountNoise | None = None

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
        twice: bool = True,
        selections: Budget | None = None,
        pure: float | None = None,
    ) -> Self:
        """Every way that fits the budget; with a stated clip only those of clipped counts.

        Args:
            twice: whether users may be looked at twice.
            selections: what a selection may cost, where that is less than what a noisy vector may.
            pure: what it may cost as a pure epsilon, where that is less than the epsilon of `selections`.
        """
        norm = norm or ("l1" if budget.form == "pure" else "l2")
        found = list(_clipped(budget, request, limit, clip, norm, twice=twice))
        if clip is not None and not found:
            _refused(budget)
        if clip is None:
            rest = selections or budget
            chance = None if selections is None or not found else max(one.mechanism.curve.delta0 for one in found)
            found = [*_plain(rest, request, limit, pure, chance), *found, *([] if order else _sets(rest, request, limit))]
        if not found:
            found = [Choice(without_counts(default_mechanism(budget, request)), limit)]  # says why there is none
        return cls(request, tuple(found), _counted(budget, request))

    def best(self, crowd: Crowd) -> Choice:
        """What finds most of the top k among such users; of those that are alike the first."""
        forecast = Forecast(crowd, self.request.k, self.request.candidates)
        found = [float(np.mean(forecast.recalls(choice))) for choice in self.choices]
        first = next(i for i, recall in enumerate(found) if recall >= max(found) - _CLOSE)
        best = replace(self.choices[first], crowd=crowd)
        return best if self.counted is None else replace(best, mechanism=forecast.with_counts(best.mechanism, self.counted))

    @property
    def curves(self) -> tuple[Curve, ...]:
        """Bounds of all choices: those of Gaussian noise are below one Gaussian curve."""
        more = [] if self.counted is None else [self.counted.price]
        curves = [sum(more, choice.mechanism.curve) for choice in self.choices]
        gaussian = [curve for curve in curves if _is_gaussian(curve)]
        others = {curve for curve in curves if not _is_gaussian(curve)}
        if not gaussian:
            return tuple(others)
        largest: Curve = GaussianDP.of_rho(max(curve.rho for curve in gaussian))
        failure = max(curve.delta0 for curve in gaussian)
        return (*others, Approximate(curve=largest, delta0=failure) if failure else largest)


def _is_gaussian(curve: Curve) -> bool:
    """Whether it is a Gaussian curve outside a bad event: then `rho` says all."""
    if isinstance(curve, Approximate):
        return _is_gaussian(curve.curve)
    return isinstance(curve, GaussianDP) or (isinstance(curve, Composed) and all(_is_gaussian(part) for _, part in curve.parts))


@final
@dataclass(frozen=True)
class Informed:
    """A menu that is chosen from by learnt numbers, and what both together cost.

    Attributes:
        menu: fitted to what learning leaves of the budget.
        item: what is charged.
        declared: what is not learnt.
    """

    menu: Menu
    item: LearnThenSelect
    declared: Crowd

    @classmethod
    def of(
        cls,
        budget: Budget,
        request: TopKRequest,
        *,
        share: float = LEARN,
        users: float | None = None,
        items_per_user: float | None = None,
        **ways: Any,
    ) -> Self | None:
        """None where nothing is to be learnt: all is declared, or one thing only can be chosen.

        Args:
            share: of epsilon, for learning; of rho its square.
            users, items_per_user: as declared, which is then not learnt.
            ways: as for `Menu.of`.

        Raises:
            InvalidRequest: share is not in [0, 1), or as for `default_choice`.
        """
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= share < 1:
            raise InvalidRequest(f"learn={shown(share)} must be a share of epsilon in [0, 1): 0.03 is usual, 0 learns nothing")
        wanted = {"users": users is None, "items": items_per_user is None}
        if share == 0 or not any(wanted.values()):
            return None
        _require_ways(request, ways.get("limit"), ways.get("clip"), items_per_user)
        epsilon = share * _epsilon(budget) / max(1, request.releases)
        learning = Learning(epsilon=epsilon, relation=request.sensitivity.relation, **wanted)
        for rest in _rests(budget, learning, request):
            try:
                menu = Menu.of(rest.vectors, rest.request, selections=rest.selections, pure=rest.pure, **ways)
            except CalibrationError:  # the whole budget may do without learning, or is named by what refuses it
                return None
            if len(menu.choices) < 2:
                return None
            item = LearnThenSelect(learning=learning, options=menu.curves)
            if _covered(budget, item.curve, request):
                return cls(menu, item, declared(users, items_per_user))
        return None

    def chosen(self, learnt: Crowd) -> Choice:
        """What to run on the same data, by numbers that `item.learning` released."""
        return self.menu.best(learnt)


def _epsilon(budget: Budget) -> float:
    """Nats: of a zCDP budget those whose square is twice rho, which they cost at most."""
    return math.sqrt(2 * budget.limit) if budget.form == "zcdp" else budget.limit


@dataclass(frozen=True)
class _Rest:
    """What learning leaves of a budget.

    Attributes:
        vectors: for noisy vectors.
        selections: for what chooses otherwise; None for as much, whatever else is chosen.
        pure: nats, for what has a pure epsilon.
        request: with its part of a ledger's share.
    """

    vectors: Budget
    selections: Budget | None
    pure: float | None
    request: TopKRequest


def _rests(budget: Budget, learning: Learning, request: TopKRequest) -> Iterator[_Rest]:
    """Ways to divide the budget of all releases, the one that leaves most first; the last one surely fits one release.

    Privacy losses of what is learnt and of what is released add up like independent numbers (A5), so that squares of Gaussian
    parameters do: a small epsilon takes little from a noisy vector, or from a selection of many items, whose loss is a sum. It
    takes all of itself from a pure epsilon, or from a selection of a few.
    """
    curve, releases = learning.curve, request.releases
    spent = releases * (curve.rho if budget.form == "zcdp" else curve.core_epsilon)
    pure = 1 - spent / budget.limit
    if budget.form == "approximate":
        with suppress(CalibrationError):  # an epsilon so small or large that no Gaussian parameter is known
            mu = calibrate(lambda size: GaussianDP(mu=size), Budget(epsilon=budget.epsilon, delta=budget.delta), (1e-6, 1e3))
            whole = 1 - _QUADRATIC * releases * (curve.core_epsilon / mu) ** 2 / 2
            if pure < whole:
                most, shared = _part(budget, whole, chances=1.0), _sharing(request, whole**2)
                for selections in (most, _part(budget, pure, chances=1.0)):
                    yield _Rest(most, selections, pure * (1 - 2**-40) * budget.limit, shared)
    yield _Rest(_part(budget, pure, chances=1.0), None, None, _sharing(request, pure))


def _covered(budget: Budget, curve: ChosenAfter, request: TopKRequest) -> bool:
    """Whether the budget pays for it, for one release as (epsilon, delta), for several one by one; and a ledger's share too."""
    share = request.share
    if share is not None and not share.budget.covers(share.budget.cost_of_each(curve, share.charges)):
        return False
    if request.charges is not None:
        return budget.covers(budget.cost_of_each(curve, request.charges))
    if budget.form != "approximate":
        return budget.covers(budget.cost(curve))
    found = curve.inverse(budget.delta)
    return found is not None and found <= budget.limit


def _require_ways(request: TopKRequest, limit: int | None, clip: float | None, items: float | None) -> None:
    """Refuse what is stated about users' items and does not go together."""
    if items is not None and not (isinstance(items, Real) and 1 <= items < math.inf):
        raise InvalidRequest(f"items_per_user={shown(items)} must be a number >= 1: how many items users have on average")
    if clip is not None and request.candidates is None and limit is None:
        raise InvalidRequest(
            "--clip without a catalogue needs --max-items-per-user (max_items_per_user in the library), which may be generous "
            "(300 for example): what a user with any number of items brings in alone cannot be hidden"
        )
    if clip is not None and request.counts is not None and not request.recounted:
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
    observed, counted = _seen_alone(request), _counted(budget, request)
    found = _least(_unknown(budget, request) if observed else _public(budget, request))
    if found is not None:
        return found if counted is None else counted.beside(found)
    usual = (SparseHistogram if request.min_users else LimitedDomain) if observed else OneshotTopK
    return fitted(usual.__name__, budget, request)


def _seen_alone(request: TopKRequest) -> bool:
    """Whether items are released by a threshold, which hides those that hardly anybody touched."""
    return request.candidates is None or request.min_users is not None


def _counted(budget: Budget, request: TopKRequest) -> CountNoise | None:
    """Counts of a second look, where these are asked for."""
    return CountNoise.of(request, budget) if request.recounted and request.counts is not None else None


# -- all that may be chosen, fitted to a budget ----------------------------------------------------------------------------


def _plain(budget: Budget, request: TopKRequest, limit: int | None, pure: float | None, chance: float | None) -> Iterator[Choice]:
    """On counts as they are, or as the declared bound leaves them."""
    found = _unknown(budget, request, chance) if _seen_alone(request) else _public(budget, request, pure)
    yield from (Choice(one, limit) for one in found if one is not None)


def _sets(budget: Budget, request: TopKRequest, limit: int | None) -> Iterator[Choice]:
    """That release the set alone."""
    if request.candidates is not None and request.noise is None and (request.counts is None or request.recounted):
        found = _tried(CanonicalTopK, budget, request.model_copy(update={"noise": "gumbel"}), ordered=False)
        yield from () if found is None else (Choice(found, limit),)


def _clipped(
    budget: Budget, request: TopKRequest, limit: int | None, clip: float | None, norm: Norm, *, twice: bool
) -> Iterator[Choice]:
    """One noisy vector of clipped counts, with every clip, and two steps; none where the budget pays for no such vector."""
    noise: NoiseName = "laplace" if norm == "l1" else "gaussian"
    if request.kbar is not None or request.noise not in (None, noise) or (request.counts is not None and not request.recounted):
        return
    most = limit or (GENEROUS if _seen_alone(request) else None)
    first = CLIPS[0] if clip is None else clip
    bounds = partial(Sensitivity.of_clipped, norm=norm, relation=request.sensitivity.relation)
    kind = SparseHistogram if _seen_alone(request) else OneshotTopK
    asked = request.model_copy(update={"sensitivity": bounds(first, items_per_user=most), "noise": noise})
    found = _tried(kind, budget, asked)
    if not isinstance(found, SparseHistogram | OneshotTopK):
        return
    longest = math.inf if limit is None else float(limit if norm == "l1" else math.sqrt(limit))
    steps = [size if norm == "l2" else float(f"{size**2:.3g}") for size in CLIPS] if clip is None else [clip]
    for size in (one for one in steps if one <= max(longest, first)):
        scale = found.scale if size == first else found.scale * (size / first) * _ROUNDING
        # A lower bound on items lowers the threshold, which hides all items of one user at once, at the same price.
        lower = _LOWER if clip is None and limit is None and isinstance(found, SparseHistogram) else ()
        for bound in (most, *lower):
            seen = bounds(size, items_per_user=bound)
            yield Choice(_changed(found, scale=scale, sensitivity=seen), bound, size, norm)
    if twice and isinstance(found, SparseHistogram) and clip is None and norm == "l2" and (limit is None or limit > _FEW):
        yield from _in_two_steps(found, request.k, most, longest)


def _in_two_steps(found: SparseHistogram, k: int, most: int | None, longest: float) -> Iterator[Choice]:
    unit = found.scale / found.sensitivity.l2_of(None) * _ROUNDING
    split = partial(two_steps, k, unit, found.delta, found.sensitivity, floor=found.floor)
    for share in _SHARES:
        for again in (one for one in CLIPS[:5] if one <= longest):
            mechanism = split(share=share, candidates=math.ceil(_TIMES * k), again=again)
            yield Choice(mechanism, most, 1.0, "l2", again)


def _changed(mechanism: Any, **settings: Any) -> Mechanism:
    found: Mechanism = type(mechanism).model_validate({**settings_of(mechanism), **settings})
    return found


# -- parts of it -----------------------------------------------------------------------------------------------------------


def _refused(budget: Budget) -> NoReturn:
    """That no clipped counts can be released, and why."""
    rest = "" if budget.form == "pure" else ", with a delta where the items are not public"
    raise InvalidRequest(
        f"no default releases clipped counts within this budget: use clip_norm 'l1' for a pure budget and 'l2' for others{rest}, "
        "or name a mechanism"
    )


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


def _unknown(budget: Budget, request: TopKRequest, chance: float | None = None) -> list[Mechanism | None]:
    found = []
    if request.sensitivity.l0 is not None and request.kbar is None and request.noise in (None, "gaussian", "laplace"):
        noise = request.noise or "gaussian"
        found.append(_tried(SparseHistogram, budget, request.model_copy(update={"noise": noise}), failure=chance))
    return [*found, _tried(LimitedDomain, budget, request, failure=chance)]


def _public(budget: Budget, request: TopKRequest, pure: float | None = None) -> list[Mechanism | None]:
    once = budget.form == "approximate" and request.releases == 1 and not request.recounted  # counts take a part of the budget
    without_delta = Budget(epsilon=pure or budget.epsilon) if once else budget  # of many releases pure epsilons add up too fast
    asked = {noise: request.model_copy(update={"noise": noise}) for noise in STANDARD_DEVIATION}
    found = [_tried(PeelingTopK, without_delta, asked["exponential"]), _tried(OneshotTopK, budget, asked["gumbel"])]
    if request.sensitivity.l2_of(None) < math.inf:
        noise: NoiseName = "laplace" if budget.form == "pure" else "gaussian"
        found.append(_tried(OneshotTopK, budget, asked[noise]))
    return found


def _tried(
    kind: type[Mechanism], budget: Budget, request: TopKRequest, *, ordered: bool = True, failure: float | None = None
) -> Mechanism | None:
    """None where the mechanism has no guarantee of this kind, or does not release the order that is asked for."""
    try:
        found = fitted(kind.__name__, budget, request, failure=failure)
    except AccountingError:
        return None
    found = without_counts(found) if request.recounted else found  # whichever is chosen gets them
    return found if found.ordered or not ordered else None


def _least(found: list[Mechanism | None]) -> Mechanism | None:
    return min((one for one in found if one is not None), key=_height, default=None)


def _height(mechanism: Mechanism) -> float:
    """The threshold, or the standard deviation of the noise, in score units."""
    mechanism = without_counts(mechanism)
    if isinstance(mechanism, LimitedDomain):
        return mechanism.margin
    if isinstance(mechanism, DiscoverThenSelect):
        return _height(mechanism.discovery)
    if isinstance(mechanism, SparseHistogram):
        return mechanism.threshold
    fields: dict[str, Any] = dict(mechanism)
    return float(fields["scale"]) * STANDARD_DEVIATION[fields["noise"]]


# -- for every group --------------------------------------------------------------------------------------------------

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
            `max_groups_per_user` is not an integer >= 1.
        CalibrationError: no amount of noise fits the budget.
    """
    split = _Split.of(budget, request, max_groups_per_user, discover=discover)
    request = split.request
    if kind is not None:
        return split.every(fitted(kind, split.part, request), request)
    return split.every(default_mechanism(split.part, request), request)


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

    Chosen as by `default_choice`, for the noise that the groups of one user together cost and without a second look, among users
    of `ASSUMED_IN_A_GROUP` where nobody declares how many items of a group they have.

    Args:
        budget, request, max_groups_per_user, discover: as for `default_groups`; the sensitivity is that of counts.
        max_items_per_user, clip, norm, items_per_user: as for `default_choice`, within one group.

    Raises:
        InvalidRequest, CalibrationError: as for `default_groups` and `default_choice`.
    """
    _require_ways(request, max_items_per_user, clip, items_per_user)
    split = _Split.of(budget, request, max_groups_per_user, discover=discover)
    request = split.request
    menu = Menu.of(split.part, request, limit=max_items_per_user, clip=clip, norm=norm, twice=False)
    best = menu.best(declared(None, items_per_user, ASSUMED_IN_A_GROUP))
    return replace(best, mechanism=split.every(best.mechanism, request))


@dataclass(frozen=True)
class _Split:
    """A budget, divided between the groups of one user.

    Attributes:
        part: what one group may cost, about.
        most: groups of one user.
        discovery: what finds the groups for the rest.
        request: for one group, with its part of a ledger's share.
        share: the whole of that.
    """

    budget: Budget
    part: Budget
    most: int
    discovery: Mechanism | None
    request: TopKRequest
    share: BudgetShare | None

    @classmethod
    def of(cls, budget: Budget, request: TopKRequest, most: int, *, discover: bool) -> _Split:
        checked_integer("max_groups_per_user", most, "in how many groups one user is at most", error=InvalidRequest)
        users = 2 if request.sensitivity.relation == "replace_one" else 1
        each, share = (1.0 - _FINDING if discover else 1.0) / (users * most), request.share
        discovery = _discovery(_part(budget, _FINDING), _sharing(request, _FINDING), most) if discover else None
        return cls(budget, _part(budget, each), most, discovery, _sharing(request, each), share)

    def around(self, one: Mechanism) -> PerGroup:
        """The same mechanism for every group."""
        shared = self.request.sensitivity.uniform and self.request.sensitivity.relation == "replace_one"
        return PerGroup(mechanism=one, max_groups_per_user=self.most, discovery=self.discovery, uniform=shared)

    def every(self, one: Mechanism, request: TopKRequest) -> PerGroup:
        """The same, with the noise at which all groups of a user together spend the budget."""
        family = partial(_louder, one)
        shared: Any = {"charges": request.charges, "share": self.share}
        return cast(PerGroup, calibrated(lambda factor: self.around(family(factor)), self.budget, (1 / 64, 64.0), **shared))


def _sharing(request: TopKRequest, part: float) -> TopKRequest:
    """The same for a part of what a ledger's share pays for."""
    return request if request.share is None else request.model_copy(update={"share": request.share.times(part * (1 - 2**-40))})


def _louder(mechanism: Mechanism, factor: float) -> Mechanism:
    """With `factor` times the noise, that of values included."""
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
    asked = TopKRequest(k=1, sensitivity=presence, noise="gaussian", releases=request.releases, share=request.share)
    found = fitted(SparseHistogram.__name__, budget, asked)
    return SparseHistogram.model_validate({**settings_of(found), "k": None})


def _part(budget: Budget, share: float, *, chances: float | None = None) -> Budget:
    """This share of a budget, and a little less: all parts together do not exceed the whole in floats either.

    `chances`: the share of delta and of the chance of failure, where it is another one.
    """
    chances = share * (1 - 2**-40) if chances is None else chances
    nats = {"epsilon": budget.epsilon, "rho": budget.rho}
    stated = {name: share * (1 - 2**-40) * value for name, value in nats.items() if value is not None}
    stated |= {name: chances * value for name, value in (("delta", budget.delta), ("failure", budget.failure)) if value}
    order = {"order": budget.order} if isinstance(budget.order, str) else {}  # the best one for a part is another one
    return Budget(**order, **stated)
