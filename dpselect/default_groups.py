"""Which mechanism a release for every group takes, and at what noise, by public configuration alone."""

from __future__ import annotations

from typing import cast

from accounting import Budget
from accounting.arguments import whole
from dpselect.calibration import calibrated, fitted, knob_of
from dpselect.defaults import height, weighed
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism, PerGroup, SparseHistogram, WithValues
from dpselect.mechanisms.traits import settings_of
from dpselect.request import TopKRequest
from dpselect.sensitivity import Sensitivity

_FINDING = 0.2  # share of the budget that goes to the discovery of groups, which have far more users than items have


def default_groups(
    budget: Budget, request: TopKRequest, max_groups_per_user: int, *, kind: str | None = None, discover: bool = False
) -> PerGroup:
    """A selection for every group that together spend the budget; nothing private is looked at.

    Within a group it is that of `default_mechanism`, with its noise fitted to the price of all groups of one user. Groups that no
    public list names are discovered by the users of each, clipped to an l2 norm of 1, for a fifth of the budget.

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
    whole("max_groups_per_user", max_groups_per_user, "in how many groups one user is at most", error=InvalidRequest)
    discovery, users = None, 2 if request.sensitivity.relation == "replace_one" else 1
    if discover:
        discovery = _discovery(_part(budget, _FINDING), request, max_groups_per_user)
    share = (1.0 - _FINDING if discover else 1.0) / (users * max_groups_per_user)
    part = _part(budget, share)
    if kind is not None:
        return _of_groups(fitted(kind, part, request), budget, request, max_groups_per_user, discovery)
    found = [_of_groups(one, budget, request, max_groups_per_user, discovery) for one in weighed(part, request)]
    return min(found, key=lambda groups: height(groups.mechanism))


def _of_groups(one: Mechanism, budget: Budget, request: TopKRequest, most: int, discovery: Mechanism | None) -> PerGroup:
    """The same mechanism for every group, with the noise at which all groups of a user together spend the budget."""

    def family(factor: float) -> PerGroup:
        return PerGroup(mechanism=_louder(one, factor), max_groups_per_user=most, discovery=discovery)

    return cast(PerGroup, calibrated(family, budget, (1 / 64, 64.0), charges=request.charges))


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
    """So much of a budget, delta included."""
    stated = {"epsilon": budget.epsilon, "rho": budget.rho, "delta": budget.delta or None, "failure": budget.failure}
    return Budget(**{name: share * value for name, value in stated.items() if value is not None})
