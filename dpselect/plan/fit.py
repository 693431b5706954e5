"""The search for the mechanism whose noise spends a budget, knowing only public facts.

It is one search over `accounting.calibrate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, final

from flint import arb

from accounting import AccountingError, Budget, Curve, RelationMismatch, calibrate
from accounting.arguments import check_integer
from accounting.errors import CalibrationError
from accounting.relations import Relation
from dpselect import mechanisms
from dpselect.errors import DomainMismatch, InvalidMechanism, InvalidRequest
from dpselect.mechanisms import Mechanism, PerGroup, members
from dpselect.mechanisms.base import MECHANISMS
from dpselect.mechanisms.traits import WHY_NOT_TOP_K, NoiseParameter, fields_of
from dpselect.noise import NoiseName, noise_of
from dpselect.plan.counts import CountNoise, limits_of, takes_its_own, without_counts
from dpselect.plan.request import TopKRequest

# Shares of delta tried for the chance of failure; the rest is left for the conversion to epsilon.
# The loss from so coarse a grid is below 2 % of the threshold.
# the usual winner first: another is searched only where it may beat it
_SHARES = (0.75, 0.9, 0.5, 0.35, 1.0)
_MOST_RANKS = 10_000_000  # that a mechanism may be configured for
# by the form of the budget, where a mechanism has no default
_NOISES: Mapping[str, NoiseName] = {"pure": "exponential"}
_ANY = Budget(rho=0.1, delta=1e-6)  # a form of budget that every mechanism can be configured for


def calibrate_mechanism(
    family: Callable[[float], Mechanism],
    budget: Budget,
    bracket: tuple[float, float] = (1e-6, 1e6),
    *,
    releases: int = 1,
    charges: int | None = None,
) -> Mechanism:
    """The member of `family` with the least noise that fits `budget`.

    Uses the best accounting of the curves, privacy loss distributions included, and the safe end of
    the search. Theorem P16.

    Args:
        family: maps a positive parameter to a mechanism; the cost may rise or fall with the
            parameter, not both.
        budget: budget of the whole release.
        bracket: least and greatest parameter to consider.
        releases: number of such releases that must fit, as one plan that is fixed in advance.
        charges: number of releases that must fit if they are charged one by one; None for a plan.

    Raises:
        CalibrationError: nothing in the bracket fits the budget, or the cost is not monotone.
        InvalidArgument: family is not a function, budget not a Budget, or bracket not two positive
            numbers in order.
        InvalidRequest: family returns no mechanism, or releases is not an integer >= 1.
    """
    times = check_integer(
        "releases", releases, "number of releases that share the budget", error=InvalidRequest
    )

    def plan_at(parameter: float) -> Any:
        member = family(parameter)
        return member if times == 1 else times * getattr(member, "curve", member)

    mechanism = family(
        calibrate(plan_at if callable(family) else family, budget, bracket, charges=charges)
    )
    if not hasattr(mechanism, "curve"):
        raise InvalidRequest(
            f"family returned a {type(mechanism).__name__}, which draws nothing: return a"
            " mechanism, or calibrate curves with accounting.calibrate"
        )
    return mechanism


def fitted(
    kind: str, budget: Budget, request: TopKRequest, *, every: EveryGroup | None = None
) -> Mechanism:
    """The mechanism called `kind`, for `request`, with the noise that spends `budget`.

    A mechanism that can fail shares the budget's delta between its failure probability and the
    conversion to epsilon. A few splits are tried, and the one with the lowest threshold is kept.
    Each of several releases gets an equal part of `budget.failure`, so that a ledger's reserve for
    failures lasts as long as the rest. Only `request` and `budget` are looked at, no data.

    Args:
        kind: a mechanism's `kind` or the name of its class.
        every: the groups with such a release each; the cost covers all groups that a user is in.

    Raises:
        InvalidRequest: the mechanism is unknown, or it does not fit the request.
        DomainMismatch: the domain is unknown and the mechanism needs a public one.
        RelationMismatch: the mechanism has no guarantee under the request's relation.
        CalibrationError: no amount of noise fits the budget, for example a pure one for a mechanism
            that can fail.
    """
    if not isinstance(budget, Budget) or not isinstance(request, TopKRequest):
        raise InvalidRequest(
            "fitted takes a kind, an accounting.Budget and a dpselect.plan.TopKRequest, not"
            f" {type(budget).__name__} and {type(request).__name__}: fitted('limited_domain',"
            " acc.Budget(epsilon=1.0, delta=1e-6), TopKRequest(k=10))"
        )
    return _search(mechanism_class(kind), budget, request, every)


# A release, its dry run and its plan ask the same, and a series asks for each of its periods.
@lru_cache(maxsize=256)
def _search(
    member: type[Mechanism], budget: Budget, request: TopKRequest, every: EveryGroup | None
) -> Mechanism:
    fields, best = _settings(member, budget, request), None
    _require_domain(member, request, takes_observed=member.traits.domain != "public")
    counted = (
        None
        if request.counts is None
        else CountNoise.from_request(request, budget, 1 if every is None else every.times)
    )
    for split in _splits(member, budget, request, every):
        spending = _Spending(budget, request, every, member, {**fields, **split}, counted)
        if best is None or spending.may_beat(best, next(iter(split.values()))):
            match = spending.least_noise(knob_of(member).bracket(request.sensitivity.range))
            best = min(
                (each for each in (best, match) if each is not None), key=_height, default=None
            )
    if best is not None:
        return best
    noise = f" with noise={fields['noise']!r}" if "noise" in fields else ""
    several = f"{request.releases:,} releases by " if request.releases > 1 else ""
    pure = request.share is not None and request.share.budget.delta == 0
    if pure:  # a delta that is stated is no delta of the dataset's
        remedy = "the dataset's budget has no delta, so choose a mechanism and noise that need none"
    elif budget.delta == 0:
        remedy = (
            "raise the budget, give it a delta (gaussian noise has no pure guarantee), or choose"
            " another mechanism or noise"
        )
    else:
        remedy = "raise the budget, or choose another mechanism or noise"
    raise CalibrationError(
        f"no amount of noise makes {several}{member.__name__}{noise} fit {limits_of(budget)}."
        f" {remedy[:1].upper()}{remedy[1:]}"
    )


@final
@dataclass(frozen=True)
class EveryGroup:
    """A release of each of many groups, with the charge for all of a user's groups.

    Attributes:
        most: most groups of one user.
        relation: the neighboring relation.
        uniform: True if a user who leaves and one who comes share their change
            (`Sensitivity.uniform` under replace_one).
        discovery: the mechanism that finds the groups; None for a public list.
    """

    most: int
    relation: Relation = "add_remove"
    uniform: bool = False
    discovery: Mechanism | None = None

    @property
    def times(self) -> int:
        """Number of times that the cost of one group's mechanism is charged."""
        return self.most * (2 if self.relation == "replace_one" else 1)

    def wrap(self, mechanism: Mechanism) -> PerGroup:
        """The mechanism for every group."""
        shared = self.uniform and self.relation == "replace_one"
        return PerGroup(
            mechanism=mechanism,
            max_groups_per_user=self.most,
            discovery=self.discovery,
            uniform=shared,
        )


@final
@dataclass(frozen=True)
class _Spending:
    """One search for the noise that spends a budget on a request.

    Attributes:
        member, settings: the mechanism without its noise.
        counted: its counts; None without them.
    """

    budget: Budget
    request: TopKRequest
    every: EveryGroup | None
    member: type[Mechanism]
    settings: Mapping[str, Any]
    counted: CountNoise | None

    def mechanism(self, parameter: float) -> Mechanism:
        """The mechanism with this noise, if it has a guarantee for the request."""
        mechanism = self.member.model_validate(
            {**self.settings, knob_of(self.member).field: parameter}
        )
        relation = self.request.sensitivity.relation
        if mechanism.relation != relation:
            remedy = f"use relation='{mechanism.relation}'"
            if self.request.candidates is None:
                remedy += ", or give a public catalog (domain=, or candidates= of a TopKRequest)"
            raise RelationMismatch(
                f"{self.member.__name__} has no guarantee under relation={relation!r}: {remedy}"
            )
        mechanism.sensitivity_bound.require(self.request.sensitivity)
        _require_domain(self.member, self.request, takes_observed=mechanism.takes_observed)
        return mechanism if self.counted is None else self.counted.beside(mechanism)

    def curve_at(self, parameter: float) -> Curve:
        """The cost of one release."""
        return self._wrap_every(self.mechanism(parameter)).curve

    def least_noise(self, bracket: tuple[float, float]) -> Mechanism | None:
        """The mechanism with the least noise that fits the ledger's share too, or None."""
        charges, share = self.request.charges, self.request.share
        with suppress(CalibrationError):
            knob = calibrate(self.curve_at, self.budget, bracket, charges=charges)
            if (
                share is not None
                and share.budget.cost_of_each(self.curve_at(knob), share.charges)
                > share.budget.limit
            ):
                knob = calibrate(self.curve_at, share.budget, bracket, charges=share.charges)
            return self.mechanism(knob)
        # What tells nothing is free whatever its noise: the set of all candidates, for example.
        with suppress(AccountingError, ValueError, ArithmeticError):
            if all(self.curve_at(end).pure_epsilon == 0 for end in bracket):
                return self.mechanism(bracket[0])
        return None

    def may_beat(self, best: Mechanism, chance: float) -> bool:
        """True if a threshold as low as that of `best` fits, at this failure probability."""
        surprise, height = _surprise(best, chance), _height(best)
        rising = knob_of(type(without_counts(best))).rising
        try:
            level = self.curve_at(surprise / height if rising else height / surprise)
        except (AccountingError, ValueError, ArithmeticError):
            return True  # outside the family's domain, which says nothing
        cost = (
            self.budget.cost(level)
            if self.request.charges is None
            else self.budget.cost_of_each(level, self.request.charges)
        )
        return self.budget.covers(cost)

    def _wrap_every(self, mechanism: Mechanism) -> Mechanism:
        return mechanism if self.every is None else self.every.wrap(mechanism)


def default_kbar(k: int) -> int:
    """Default number of items that compete for k places, max(1000, 10 k).

    More competition raises LimitedDomain's threshold by ln(kbar)/epsilon, so ten times as many
    items cost 2.3/epsilon counts, and lowers the count on which it rests. On logs large enough for
    a release the second is worth more.
    """
    return min(max(1000, 10 * k), _MOST_RANKS)


def supports(kind: str, request: TopKRequest) -> bool:
    """True if the mechanism called `kind` has a guarantee for the request's relation and domain."""
    member = mechanism_class(kind)
    _settings(member, _ANY, request)
    fits_domain = request.candidates is not None or member.traits.domain != "public"
    return fits_domain and request.sensitivity.relation in member.traits.relations


def mechanism_class(kind: str) -> type[Mechanism]:
    """The mechanism class of that `kind` or class name."""
    own = getattr(mechanisms, kind, None)  # spares a session the members that it does not use
    if isinstance(own, type) and issubclass(own, Mechanism) and own is not Mechanism:
        return own
    try:
        return MECHANISMS.member(kind)
    except InvalidMechanism:
        classes = members()
    by_class = {member.__name__: member for member in classes.values()}
    if kind in by_class:
        return by_class[kind]
    near = get_close_matches(kind, classes, cutoff=0.75)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise InvalidRequest(
        f"mechanism {kind[:40]!r} does not exist: {meant}`dpselect mechanisms` lists the kinds"
    ).at("mechanism")


def noise_settings(mechanism: Mechanism) -> tuple[str, float]:
    """Name and value of the field that sets the noise of `mechanism`, or of its selection."""
    mechanism = without_counts(mechanism)
    knob = knob_of(type(mechanism))
    return knob.field, getattr(mechanism, knob.field)


def knob_of(member: type[Mechanism]) -> NoiseParameter:
    """The parameter that sets the noise of a mechanism."""
    if member.traits.noise is None:
        raise InvalidRequest(
            f"{member.__name__} has no single amount of noise to calibrate: configure it in the"
            " library"
        )
    return member.traits.noise


def _settings(member: type[Mechanism], budget: Budget, request: TopKRequest) -> dict[str, Any]:
    """The mechanism's fields that follow from the request. None keeps the mechanism's own default.

    Raises:
        InvalidRequest: the mechanism does not fit the request, or needs more than the request
            states.
    """
    fields, traits, name = fields_of(member), member.traits, member.__name__
    if traits.answers in WHY_NOT_TOP_K:
        raise InvalidRequest(
            f"{name} {WHY_NOT_TOP_K[traits.answers]}. Use it in the library,"
            " or choose another mechanism"
        )
    if request.k > 1 and traits.answers == "one_item":
        raise InvalidRequest(
            f"{name} releases one item. Ask it for k=1, or choose another mechanism"
        )
    for option in ("kbar", "noise"):
        if getattr(request, option) is not None and option not in fields:
            raise InvalidRequest(
                f"{name} has no {option}. Leave it out, or choose another mechanism"
            )
    if request.min_users is not None and "floor" not in fields:
        raise InvalidRequest(
            f"{name} may release items of fewer users than min_users={request.min_users}. Use"
            " sparse_histogram"
        )
    choice = "noise" in fields and fields["noise"].is_required()
    public: dict[str, Any] = {
        **{name: getattr(request, name) for name in ("k", "candidates", "sensitivity")},
        **{name: getattr(request.sensitivity, name) for name in ("relation", "l0", "monotone")},
        "kbar": default_kbar(request.k),
        "noise": request.noise or (_NOISES.get(budget.form, "gumbel") if choice else None),
        **traits.usual(request.k),
        **({} if request.kbar is None else {"kbar": request.kbar}),
    }
    if request.min_users is not None:
        public["floor"] = float(request.min_users - 1)
    if request.counts is not None and not request.recounted and takes_its_own(member, public):
        public["values"] = True
    settings = {
        name: value for name, value in public.items() if name in fields and value is not None
    }
    names = {*settings, knob_of(member).field, traits.failure}
    if missing := [
        name for name, field in fields.items() if field.is_required() and name not in names
    ]:
        raise InvalidRequest(f"{name} also needs {', '.join(missing)}: configure it in the library")
    return settings


def _require_domain(member: type[Mechanism], request: TopKRequest, *, takes_observed: bool) -> None:
    if request.candidates is None and not takes_observed:
        raise DomainMismatch(
            f"{member.__name__} needs a public domain, and items read off a log are private: a rare"
            " item shows that its user is there. Give a public catalog (domain=, or candidates="
            " of a TopKRequest), or use limited_domain"
        )


def _splits(
    member: type[Mechanism], budget: Budget, request: TopKRequest, every: EveryGroup | None
) -> list[dict[str, float]]:
    """Failure probabilities of one release to try, as settings; {} alone if it cannot fail."""
    failure = member.traits.failure
    if failure is None:
        return [{}]
    if budget.delta == 0:
        raise InvalidRequest(
            f"{member.__name__} can fail, so its budget needs a delta, which is the failure"
            " probability. Give a delta in (0, 1), or a public catalog (domain=, or candidates="
            " of a TopKRequest) and a mechanism that never fails"
        )
    times, delta = (
        (1, 0.0)
        if every is None
        else (every.times, 0.0 if every.discovery is None else every.discovery.curve.delta0)
    )
    most = math.inf
    if request.share is not None:
        most = (request.share.budget.failure_of_each(request.share.charges) - delta) / times
    if request.charges is not None:
        most = min(most, (budget.failure_of_each(request.charges) - delta) / times)
        return [{failure: most if (times, delta) == (1, 0.0) else _below(most)}] if most > 0 else []
    plan, whole = times * request.releases, budget.delta - delta
    # A zCDP budget converts nothing: all of its delta is there for the failure.
    shares = (1.0,) if budget.form == "zcdp" else _SHARES
    splits = [
        _below(share * whole / plan) if plan > 1 else float(f"{share * whole:.12g}")
        for share in shares
        if share < 1
    ]
    splits += [
        _below(whole / plan) if plan > 1 or delta else whole for share in shares if share == 1
    ]
    return [
        {failure: each} for each in dict.fromkeys(min(each, most) for each in splits) if each > 0
    ]


def _below(chance: float) -> float:
    """A probability with twelve digits that is at most `chance`, and times the charges, too."""
    return float(f"{chance * (1 - 1e-11):.12g}")


def _height(mechanism: Mechanism) -> float:
    """Height of the threshold up to a constant, to compare the splits of one mechanism."""
    mechanism = without_counts(mechanism)
    failure, (_, amount) = mechanism.traits.failure, noise_settings(mechanism)
    if failure is None:
        return 0.0
    surprise = _surprise(mechanism, getattr(mechanism, failure))
    return surprise / amount if knob_of(type(mechanism)).rising else surprise * amount


def _surprise(mechanism: Mechanism, chance: float) -> float:
    """Height, in units of noise, of a threshold that one user crosses with this probability."""
    noise = getattr(without_counts(mechanism), "noise", None)
    return (
        -math.log(chance) if noise is None else float(noise_of(noise).isf_ball(arb(chance)).mid())
    )
