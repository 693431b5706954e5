"""Which mechanism a release for every group takes, and at what noise, by public configuration alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from accounting import Budget
from accounting.arguments import checked_integer
from dpselect.calibration import calibrated, fitted, knob_of
from dpselect.defaults import Choice, Norm, clipped_choice, height, noise_per_user, refused, require_ways, weighed
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism, PerGroup, SparseHistogram, WithValues
from dpselect.mechanisms.traits import settings_of
from dpselect.request import TopKRequest
from dpselect.sensitivity import Sensitivity

# Items of a user in one group whose weight a clip is taken to cut, where nobody says how many users have.
_USUAL = {"unknown": 4.0, "public": 1.0}
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
    usual = items_per_user or _USUAL["unknown" if request.candidates is None else "public"]
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
