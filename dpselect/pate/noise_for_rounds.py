"""How much noise a budget asks for, how many rounds it buys, and what rounds cost by each accounting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import accounting as acc
from accounting.arguments import checked_integer
from accounting.budget import checked_budget
from accounting.convert.adaptive_composition import adaptive_composition
from accounting.convert.pld.compose import composable, pld_epsilon
from accounting.convert.renyi import check_delta, invert_profile, rdp_to_epsilon
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import Mechanism, members
from dpselect.noise import by_name
from dpselect.pate.ballots import Vote
from dpselect.pate.outlook import PoorOutlook, TrialVotes, VotesModel, outlook, require_better_than_constant
from dpselect.pate.voting import ConfidentGNMax, StableVoting
from dpselect.plan.fit import calibrated, knob_of

# Shares of delta tried for the rounds' chances of failure; the threshold moves with their logarithm only.
_SHARES = (0.9, 0.75, 0.5, 0.35, 0.25, 0.1, 0.03)
_SAFE = 1 - 1e-12  # so that a share divided by the rounds and multiplied by them again does not exceed it
_STEPS = 12  # refinements of the adaptive calibration, at most
_CLOSE = 1e-3  # relative width of epsilon at which it stops


@final
@dataclass(frozen=True)
class Prices:
    """Epsilon (nats) of some rounds at `delta`, by each accounting; all of them are proved. None where one does not apply.

    Attributes:
        rounds: how many.
        delta: at which.
        rdp: by Renyi divergence and its conversion.
        pld: by the privacy loss distribution; the exact profile where all noise is Gaussian.
        adaptive: by the adaptive programme, for StableVoting.
        best: the least of these.
    """

    rounds: int
    delta: float
    rdp: float
    pld: float | None
    adaptive: float | None
    best: float


def fitted(
    member: type[Vote] | str,
    budget: acc.Budget,
    *,
    rounds: int = 600,
    ratio: float | None = None,
    adaptive: bool = False,
    teachers: int | None = None,
    profile: VotesModel | TrialVotes | None = None,
    anyway: bool = False,
    **settings: Any,
) -> Vote:
    """The mechanism of this package with the least noise for its rounds, fixed in advance: "label 600 items at (2, 1e-6)".

    The noise is `sigma`, for TopVotes `scale`, for StableVoting `rho`. ConfidentGNMax takes sigma_threshold = ratio * sigma
    unless that is among the settings. StableVoting has the rounds' failures and the conversion share the budget's delta: of a few
    splits the one is kept that lets the narrowest gaps pass, unless failure_delta (of one round) is among the settings. Nothing
    but configuration is looked at. With `teachers`, a budget that leaves little but noise is refused; with a `profile`, labels
    that are worse than naming the most frequent ones for every item.

    Args:
        member: a class, or its kind or name.
        budget: what all rounds may cost together.
        rounds: how many rounds, >= 1.
        ratio: of the two noises of ConfidentGNMax; None for 2.
        adaptive: whether StableVoting is priced by the adaptive programme in the true order of its steps, which takes seconds to
            minutes and saves a little noise. A ledger prices for any order, a little more than `budget`, and refuses such a plan.
        teachers: how many teachers vote, which is public; None where it is not known yet.
        profile: public numbers of such votes, or votes that were declared public; None for no comparison. Never the votes that
            are to be labelled.
        anyway: whether a mechanism is returned whose outlook is poor.
        settings: the mechanism's other fields, labels=22 for example. Not the noise, which is what is sought.

    Raises:
        CalibrationError: no amount of noise fits the budget.
        PoorOutlook: noise exceeds half the threshold, a unanimous label is released in less than half of the rounds, or naming
            the most frequent labels is better.
        InvalidRequest: the mechanism is unknown, adaptive=True for another one than StableVoting or another budget than
            (epsilon, delta), a budget without delta for a mechanism that can fail, or the noise is among the settings.
        InvalidMechanism: the settings are not fields of the mechanism, or are outside their domain.
    """
    kind, budget = _member(member), checked_budget(budget)
    if teachers is not None and "teachers" in kind.model_fields:
        settings = {**settings, "teachers": teachers}
    if (sought := (knob := knob_of(kind)).field) in settings:
        raise InvalidRequest(f"{sought} is what fitted finds for the budget: leave it out, or make {kind.__name__} with it")
    if ratio is not None and (kind is not ConfidentGNMax or "sigma_threshold" in settings):
        raise InvalidRequest(f"ratio={ratio!r} is for ConfidentGNMax without a sigma_threshold: leave it out")
    if adaptive and kind is not StableVoting:
        raise InvalidRequest("adaptive=True is for StableVoting: the other mechanisms have an exact composition already")
    if adaptive and budget.form != "approximate":
        raise InvalidRequest("adaptive=True finds an epsilon at a delta: give the budget as Budget(epsilon=, delta=)")
    if kind is StableVoting:
        found: Mechanism = _stable(budget, rounds, settings, adaptive=adaptive)
    else:

        def family(sigma: float) -> Mechanism:
            own = {"sigma_threshold": (2.0 if ratio is None else ratio) * sigma} if kind is ConfidentGNMax else {}
            return kind.model_validate({**own, **settings, sought: sigma})

        found = calibrated(family, budget, knob.bracket(1.0), releases=_checked(rounds))
    assert isinstance(found, Vote)
    if teachers is not None and not anyway and not (expected := outlook(found, teachers=teachers)).works:
        raise PoorOutlook(
            f"this budget leaves little but noise for {rounds} rounds and {teachers} teachers: plan fewer rounds, more teachers "
            f"or a larger budget, or say anyway=True.\n{expected}"
        )
    if profile is not None and not anyway:
        require_better_than_constant(found, profile)
    return found


def _stable(budget: acc.Budget, rounds: int, settings: dict[str, Any], *, adaptive: bool) -> StableVoting:
    rest = settings if "failure_delta" in settings else {**settings, "failure_delta": _failure(budget, _checked(rounds))}
    bracket = knob_of(StableVoting).bracket(1.0)
    found = calibrated(lambda rho: StableVoting(**rest, rho=rho), budget, bracket, releases=_checked(rounds))
    assert isinstance(found, StableVoting)
    return _sharpened(found, budget, rounds) if adaptive else found


def rounds_for(mechanism: Mechanism, budget: acc.Budget) -> int:
    """How many rounds of `mechanism` the budget pays for, as one plan that is fixed in advance; 0 if not even one.

    `Budget.how_many` is less: it counts charges that may be chosen after earlier answers, each rounded up at the filter's one
    order, while a plan is priced as a whole by whichever accounting is tightest. `dpselect.Session.affordable` answers for what
    is left of a ledger's budget, both ways.

    Raises:
        CalibrationError: the budget admits any number.
        InvalidRequest: `mechanism` is not a Mechanism.
    """
    return acc.calibration.calibrate_count(_curve(mechanism), budget)


def prices(mechanism: Mechanism, delta: float, *, rounds: int = 600, adaptive: bool = True) -> Prices:
    """What `rounds` rounds cost at `delta`, by every accounting that applies.

    Args:
        mechanism: any.
        delta: in [0, 1).
        rounds: how many, >= 1; a plan that is fixed in advance.
        adaptive: whether to run the adaptive programme for StableVoting, which takes seconds.

    Raises:
        InvalidRequest: rounds is not an integer >= 1, or `mechanism` is not a Mechanism.
    """
    rounds, delta = _checked(rounds), check_delta(delta)
    plan = rounds * _curve(mechanism)
    left = math.nextafter(delta - plan.delta0, 0.0) if plan.delta0 else delta
    rdp = rdp_to_epsilon(plan.rdp, left, plan.table_orders).value if left > 0 else math.inf
    exact = programme = None
    if left > 0 and plan.profile(0.0) is not None:
        exact = invert_profile(lambda epsilon: 1.0 if (value := plan.profile(epsilon)) is None else value, delta)
    elif left > 0 and (losses := plan.losses()) is not None and composable(losses):
        exact = pld_epsilon(losses, delta).value
    if left > 0 and adaptive and isinstance(mechanism, StableVoting):
        programme = adaptive_epsilon(mechanism, delta, rounds)
    best = min(plan.epsilon(delta), math.inf if programme is None else programme)
    return Prices(rounds, delta, rdp, exact, programme, best)


def adaptive_epsilon(mechanism: StableVoting, delta: float, rounds: int) -> float:
    """Epsilon of the rounds by the adaptive programme, choice before test in each. Theorem P16."""
    choice = acc.Approximate(curve=acc.BoundedRange(epsilon=2 * math.sqrt(mechanism.rho)), delta0=mechanism.failure_delta)
    test = acc.GaussianDP(mu=math.sqrt(mechanism.rho))
    return adaptive_composition([choice, test] * _checked(rounds), delta).epsilon_upper


def _checked(rounds: int) -> int:
    return checked_integer("rounds", rounds, "how many items are labelled", error=InvalidRequest)


def _curve(mechanism: Mechanism) -> acc.Curve:
    if not isinstance(mechanism, Mechanism):
        raise InvalidRequest("a configured mechanism is needed, pate.GNMax(sigma=40, labels=10) for example")
    return mechanism.curve


def _member(member: type[Vote] | str) -> type[Vote]:
    votes = {kind: known for kind, known in members().items() if issubclass(known, Vote)}
    by_name = {**votes, **{known.__name__: known for known in votes.values()}}
    found = by_name.get(member) if isinstance(member, str) else member
    if found not in votes.values():
        raise InvalidRequest(f"unknown vote {str(member)[:40]!r}: choose one of {', '.join(sorted(votes))}")
    assert found is not None
    return found


def _failure(budget: acc.Budget, rounds: int) -> float:
    """A round's chance of failure: the share of delta at which the stability test asks for the narrowest gap."""
    if budget.delta == 0:
        raise InvalidRequest("StableVoting can fail, so its budget needs a delta: the chance of that. Give a delta in (0, 1)")
    return _share(budget, rounds) * budget.delta / rounds * _SAFE


def _share(budget: acc.Budget, rounds: int) -> float:
    """Decided by zCDP, which is quick. It does not affect privacy: the mechanism is calibrated with it afterwards."""
    # A zCDP budget converts nothing: all of its delta is there for failures.
    shares = (1.0,) if budget.form == "zcdp" else _SHARES

    def gap(share: float) -> float:
        """About how wide a gap has to be to pass, up to a factor; inf where the budget pays for no test."""
        rho = _rho(budget, share)
        return math.inf if rho is None else float(by_name("gaussian").isf(share * budget.delta / rounds)) / math.sqrt(rho)

    return min(shares, key=gap)


@lru_cache(maxsize=64)
def _rho(budget: acc.Budget, share: float) -> float | None:
    """The largest rho of all rounds by zCDP, with this share of delta for failures; None if the budget pays for none."""
    failure = share * budget.delta * _SAFE
    try:
        return acc.calibrate(lambda rho: acc.Approximate(curve=acc.ZCDP(rho=rho), delta0=failure), budget, (1e-9, 1e9))
    except acc.errors.CalibrationError:
        return None


def _sharpened(start: StableVoting, budget: acc.Budget, rounds: int) -> StableVoting:
    """The same with the greatest rho whose rounds fit the budget by the adaptive programme, or `start` if that is not larger."""
    best, cost, power = start, adaptive_epsilon(start, budget.delta, rounds), 1.8
    for _ in range(_STEPS):
        if cost >= budget.limit * (1 - _CLOSE):
            break
        # Epsilon grows about as the square root of rho.
        candidate = best.model_copy(update={"rho": best.rho * (budget.limit / cost) ** power})
        price = adaptive_epsilon(candidate, budget.delta, rounds)
        if price <= budget.limit:
            best, cost = candidate, price
        else:
            power /= 2
    return best
