"""Conversion to and from dp-accounting's `DpEvent`s, for those with an exact counterpart.

All others are refused with a reason.

Events are read by their class, never by a name in a text, so that no file can make this module
import or call anything. Poisson sampling amplifies privacy if a proof covers it: one application,
under add_remove, with the sample kept secret.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast, overload

import numpy as np
from dp_accounting import dp_event
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS

from accounting.arguments import MOST_COUNT, check_integer
from accounting.curves import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Composed,
    Curve,
    DiscreteGaussianDP,
    GaussianDP,
    LaplaceDP,
    PureDP,
    RenyiTable,
    SampledGaussianDP,
    SampledNoiseDP,
    zero,
)
from accounting.curves.discrete_gaussian import LEAST_SIGMA, MOST_SIGMA
from accounting.curves.profile_table import ProfileTable, as_table, sample_profile
from accounting.curves.repeat_and_select import (
    PoissonRuns,
    RepeatAndSelectDP,
    TruncatedNegativeBinomial,
)
from accounting.errors import InvalidArgument, InvalidCurve, NoEquivalent
from accounting.guarantee import Guarantee, HasCurve, curve_and_relation
from accounting.numbers import ROOT_UP, SUM_UP, next_down, next_up
from accounting.relations import Relation, same_relation
from accounting.strict_json import read_json


@overload
def poisson_sampled(curve: Curve, rate: float, *, relation: Relation) -> Curve: ...
@overload
def poisson_sampled(
    curve: HasCurve, rate: float, *, relation: Relation | None = None
) -> Guarantee: ...
def poisson_sampled(
    curve: Curve | HasCurve, rate: float, *, relation: Relation | None = None
) -> Curve | Guarantee:
    """Return the curve of `curve`'s mechanism, run once on a secret Poisson sample. Theorem G5.

    For several runs on fresh samples, compose the result: `n * poisson_sampled(curve, rate)`. If
    the argument is itself a composition, all of its parts see the same sample.

    Args:
        curve: curve of the mechanism on the sample; for a Gaussian one the result is exact. A
            mechanism gives a `Guarantee`.
        rate: probability in (0, 1] that a user is in the sample, independently of the others.
        relation: neighboring relation of a bare curve. It must be add_remove, because no proof
            covers replacing a user of a Poisson sample.

    Raises:
        NoEquivalent: the relation is replace_one.
        InvalidArgument: rate is outside (0, 1].
    """
    if not isinstance(curve, Curve):
        inner, relation = curve_and_relation(curve, relation)
        return Guarantee(
            poisson_sampled(inner, rate, relation=cast(Relation, relation)),
            cast(Relation, relation),
        )
    if relation != "add_remove":
        raise NoEquivalent(
            f"relation={relation!r} is not covered by the proof of amplification by Poisson"
            " sampling, which is for add_remove only. Configure the mechanism under"
            " add_remove, or use the curve without amplification"
        )
    if isinstance(rate, bool) or not isinstance(rate, numbers.Real) or not 0 < rate <= 1:
        raise InvalidArgument(
            f"rate={str(rate)[:30]} must lie in (0, 1]. It is the probability that a user is in"
            " the sample"
        )
    if rate == 1:
        return curve
    rate, parts = float(rate), curve.parts if isinstance(curve, Composed) else ((1, curve),)
    if curve.core_epsilon > 0 and all(isinstance(part, GaussianDP) for _, part in parts):
        return SampledGaussianDP(mu=GaussianDP.of_rho(curve.rho).mu, rate=rate)
    if isinstance(curve, LaplaceDP) and curve.epsilon0 > 0:
        return SampledNoiseDP(noise="laplace", shift=curve.epsilon0, rate=rate)
    return _amplify(curve, rate)


def _amplify(curve: Curve, rate: float) -> Curve:
    """Return the curve of a mechanism on a sample that holds a user with this probability.

    Theorem G5, for Poisson samples under add_remove and samples of fixed size under replace_one.
    """
    if isinstance(curve, PureDP | ApproxDP):
        epsilon = _sampled_epsilon(curve.core_epsilon, rate)
        delta = _sampled_delta(rate, curve.delta0)
        return PureDP(epsilon=epsilon) if delta == 0 else ApproxDP(epsilon=epsilon, delta=delta)
    points = [
        (_sampled_epsilon(epsilon, rate), _sampled_delta(rate, delta))
        for epsilon, delta in sample_profile(curve)
    ]
    return as_table(points, type(curve).__name__)


def _sampled_delta(rate: float, delta: float) -> float:
    return math.nextafter(rate * delta, 1.0) if delta > 0 else 0.0


def _sampled_epsilon(epsilon: float, rate: float) -> float:
    """Return ln(1 + rate (e^epsilon - 1)), rounded up."""
    if epsilon > 700:
        return epsilon
    return min(epsilon, math.log1p(rate * math.expm1(epsilon)) * (1 + 1e-14))


def _no_curve(name: str) -> NoEquivalent:
    reason = _REFUSED.get(name, "it is not a known event of dp-accounting")
    return NoEquivalent(f"{name} has no curve, because {reason}")


_RELATION: Relation = "add_remove"  # what dp-accounting assumes unless told otherwise
_ORDERS = tuple(
    sorted(
        {float(a) for a in DEFAULT_RDP_ORDERS}
        | {float(f"{1 + a:.6g}") for a in np.geomspace(1e-2, 1e5, 141)}
    )
)


def from_dp_event(event: dp_event.DpEvent, relation: Relation | None = None) -> Curve:
    """Return the curve of a dp-accounting event. Theorem G6.

    Compositions are included, with their counts.

    Args:
        event: a NoOp, Gaussian, Laplace, DiscreteLaplace, RandomizedResponse or ZCD event; a
            composition or a Poisson sample of them, or under replace_one a sample of fixed size;
            or the best of a random number of runs of one. Samples are assumed to be kept secret, as
            in dp-accounting. If the installed version has them, also DiscreteGaussian,
            EpsilonDelta, ExponentialMechanism and PermuteAndFlip.
        relation: the neighboring relation. It has to be stated, because events carry none and
            dp-accounting assumes add_remove. Noise is relative to the norm of one user's
            contribution, so replacing it costs twice as much. Randomized response exists under
            replace_one only. An epsilon that an event states is taken to hold for the relation
            stated here.

    Raises:
        InvalidArgument: no relation is stated.
        NoEquivalent: the event, or a part of it, has no curve; the message names its class and what
            to do instead.
        InvalidCurve: a parameter is no number or gives no guarantee (NaN, negative, no noise), or a
            count is not an integer >= 0.
    """
    if relation is None:
        raise InvalidArgument(
            "relation is missing, and an event does not state one. Pass relation='add_remove',"
            " which dp-accounting assumes, or 'replace_one', under which the same noise costs"
            " more"
        )
    name = type(event).__name__
    # but another class of that name
    if name not in _READERS or getattr(dp_event, name, None) is not type(event):
        raise _no_curve(name)
    try:
        return _READERS[name](event, same_relation(None, relation) or _RELATION)
    except (TypeError, ValueError, OverflowError):
        raise InvalidCurve(f"{name} has a field of the wrong type or size. State numbers") from None


def to_dp_event(curve: Curve, relation: Relation | None = None) -> dp_event.DpEvent:
    """Return the dp-accounting event of a curve. Theorem G6.

    The event is the exact counterpart, up to rounding towards more privacy loss.

    Args:
        curve: GaussianDP, LaplaceDP, PureDP, ZCDP, one user's noise on a sample, RepeatAndSelectDP,
            the identity, and compositions; where the installed version has events for them,
            BoundedRange and ApproxDP.
        relation: neighboring relation that the event will be read under; add_remove if None.

    Raises:
        NoEquivalent: the curve, or a part of it, has no event.
    """
    if not isinstance(curve, Curve):
        raise InvalidArgument(
            f"to_dp_event takes a Curve, not {type(curve).__name__}. Pass mechanism.curve"
        )
    if curve.core_epsilon == curve.delta0 == 0:
        return dp_event.NoOpDpEvent()
    if (write := _WRITERS.get(type(curve))) is not None:
        return write(curve, same_relation(None, relation) or _RELATION)
    name, parameters = _LATER.get(type(curve), ("", ()))
    if (event := getattr(dp_event, name, None)) is not None:
        return event(*(getattr(curve, parameter) for parameter in parameters))
    instead = "Keep this part in this package."
    if curve.delta0 > 0:
        instead = "No event has a failure probability. Keep this part in this package."
    elif math.isfinite(curve.rho):
        instead = f"A valid but looser event is that of ZCDP(rho={curve.rho:.6g})."
    raise NoEquivalent(f"{type(curve).__name__} has no DpEvent in dp-accounting. {instead}")


_MOST_DEEP = 20


def event_from_json(text: str | bytes) -> dp_event.DpEvent:
    """Return the event that a JSON object states.

    "event" names its class, the other keys are its fields, and inner events are objects too.

    Only the classes of `from_dp_event` are known, and nothing that the text names is imported or
    called.

    Raises:
        NoEquivalent: the event, or one inside of it, has no curve; the message says why.
        InvalidCurve: the text states no such event, or fields that the event does not have.

    Example:
        >>> import accounting as acc
        >>> one = '{"event": "Gaussian", "noise_multiplier": 40}'
        >>> text = f'{{"event": "SelfComposed", "count": 1000, "of": {one}}}'
        >>> acc.from_dp_event(acc.dp_events.event_from_json(text), "add_remove").epsilon(1e-6) < 5
        True
    """
    return _event(read_json(text), _MOST_DEEP)


def _event(data: object, deep: int) -> dp_event.DpEvent:
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("event"), str)
        or "events" in data
        or deep == 0
    ):
        raise InvalidCurve(
            'an event is a JSON object like {"event": "Gaussian", "noise_multiplier": 1.1}; one'
            f' inside of another is under "of", {_MOST_DEEP} deep at most'
        )
    name = data["event"].removesuffix("DpEvent") + "DpEvent"
    if name in _REFUSED:
        raise _no_curve(name)
    kind = getattr(dp_event, name, None) if name in _READERS else None
    if kind is None:
        kinds = ", ".join(
            sorted(each.removesuffix("DpEvent") for each in _READERS if hasattr(dp_event, each))
        )
        raise InvalidCurve(f"event={data['event'][:40]!r} must be one of {kinds}")
    fields = {field: value for field, value in data.items() if field != "event"}
    if "of" in fields:
        inner = fields.pop("of")
        fields |= (
            {"events": [_event(part, deep - 1) for part in inner]}
            if isinstance(inner, list)
            else {"event": _event(inner, deep - 1)}
        )
    try:
        return kind(**fields)
    except (TypeError, ValueError):
        raise InvalidCurve(
            f"event={data['event'][:40]!r} has other fields than {', '.join(sorted(fields))}"
        ) from None


def dp_sgd(noise_multiplier: float, sampling_rate: float, steps: int) -> dp_event.DpEvent:
    """Return the event of DP-SGD, which composes sampled Gaussian sums of clipped gradients.

    Each step sums over a fresh secret Poisson sample.

    Args:
        noise_multiplier: standard deviation of the noise, over the norm to which gradients are
            clipped.
        sampling_rate: probability that a record is in a batch, in (0, 1]. steps: number of steps.
    """
    step = dp_event.PoissonSampledDpEvent(sampling_rate, dp_event.GaussianDpEvent(noise_multiplier))
    return dp_event.SelfComposedDpEvent(
        step, check_integer("steps", steps, "how many batches there are")
    )


# -- events to curves ------------------------------------------------------------------------------


def _randomized_response(event: dp_event.RandomizedResponseDpEvent, relation: Relation) -> Curve:
    """Return the curve of randomized response over k answers.

    The answer is the true one with probability 1 - noise, and otherwise uniform. Neighbors have
    different true answers.
    """
    if relation != "replace_one":
        raise NoEquivalent(
            "RandomizedResponseDpEvent has no curve under add_remove, because anyone sees that"
            " a removed user's answer is missing. Pass relation='replace_one'"
        )
    noise, buckets = event.noise_parameter, event.num_buckets
    if isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 1:
        raise InvalidCurve(f"num_buckets={buckets!r} must be an integer >= 1")
    if not 0 <= noise <= 1 or (noise == 0 and buckets > 1):
        raise InvalidCurve(
            f"noise_parameter={noise!r} must lie in (0, 1]. Without noise there is no guarantee"
        )
    if buckets == 1 or noise == 1:
        return zero()
    epsilon = math.log1p(buckets * (1 - noise) / noise) * SUM_UP
    if buckets == 2:
        return PureDP(epsilon=epsilon)
    return ProfileTable(
        epsilons=[0.0, epsilon], deltas=[min((1 - noise) * SUM_UP, math.tanh(epsilon / 2)), 0.0]
    )


def _discrete_gaussian(event: Any, relation: Relation) -> Curve:
    """Return the curve of discrete Gaussian noise, exact for one integer.

    Integer vectors have zCDP of half the squared shift over sigma, in any dimension.
    """
    steps = (
        math.floor(event.sensitivity * _MOVES[relation])
        if 0 < event.sensitivity < MOST_COUNT
        else 0
    )
    if (
        getattr(event, "dimension", None) == 1
        and steps
        and LEAST_SIGMA <= event.sigma <= MOST_SIGMA
    ):
        return DiscreteGaussianDP(sigma=event.sigma, sensitivity=steps)
    shift = _shift(event.sigma / event.sensitivity if event.sensitivity > 0 else math.nan, relation)
    return ZCDP(rho=next_up(shift * shift / 2 * SUM_UP))


def _self_composed(event: dp_event.SelfComposedDpEvent, relation: Relation) -> Curve:
    count = check_integer(
        "SelfComposedDpEvent.count",
        event.count,
        "how often the event runs",
        least=0,
        error=InvalidCurve,
    )
    return Composed.from_parts([(count, from_dp_event(event.event, relation))])


def _without_replacement(
    event: dp_event.SampledWithoutReplacementDpEvent, relation: Relation
) -> Curve:
    """Return the curve of a secret sample of fixed size, of a fixed number of users."""
    if relation != "replace_one":
        raise NoEquivalent(
            "SampledWithoutReplacementDpEvent has no curve under add_remove, because its number of"
            " users is fixed. Pass relation='replace_one'"
        )
    users, size = (
        check_integer(
            f"SampledWithoutReplacementDpEvent.{name}",
            getattr(event, name),
            "a number of users",
            least=0,
            error=InvalidCurve,
        )
        for name in ("source_dataset_size", "sample_size")
    )
    if size > users:
        raise InvalidCurve(
            f"a SampledWithoutReplacementDpEvent of {size} out of {users} users: its sample cannot"
            " have more users than there are"
        )
    curve = from_dp_event(event.event, relation) if size else zero()
    return curve if size in (0, users) else _amplify(curve, next_up(size / users))


def _repeat_and_select(event: dp_event.RepeatAndSelectDpEvent, relation: Relation) -> Curve:
    base = from_dp_event(event.event, relation)
    if event.shape == math.inf:
        return RepeatAndSelectDP(base=base, distribution=PoissonRuns(mean=event.mean))
    if event.mean == 1:
        return base
    law = TruncatedNegativeBinomial.of_mean(event.mean, eta=event.shape)
    # Rounded towards more runs: the event states their mean, and their law follows from it.
    return RepeatAndSelectDP(
        base=base, distribution=law.model_copy(update={"gamma": law.gamma * (1 - 1e-12)})
    )


def _shift(noise_multiplier: float, relation: Relation) -> float:
    """Shift of the answer over the scale of its noise, rounded up."""
    if isinstance(noise_multiplier, bool) or not noise_multiplier > 0:
        raise InvalidCurve(
            f"noise_multiplier={noise_multiplier!r} must be a number > 0. Without noise there"
            " is no guarantee"
        )
    return 0.0 if math.isinf(noise_multiplier) else next_up(_MOVES[relation] / noise_multiplier)


# How many contributions a neighbor moves: replacing takes one out and puts another in.
_MOVES: dict[Relation, int] = {"add_remove": 1, "replace_one": 2}


# -- curves to events ------------------------------------------------------------------------------


def _from_pure(curve: PureDP, relation: Relation) -> dp_event.DpEvent:
    if relation == "add_remove":
        return dp_event.DiscreteLaplaceDpEvent(curve.epsilon0, 1)
    # Less noise, by more than its rounding. Beyond 700 there is none, which is no guarantee.
    odds = math.exp(-curve.epsilon0) if curve.epsilon0 < 700 else 0.0
    return dp_event.RandomizedResponseDpEvent(2 * odds / (1 + odds) / ROOT_UP, 2)


def _from_sampled(
    curve: SampledGaussianDP | SampledNoiseDP, relation: Relation
) -> dp_event.DpEvent:
    loss = curve._loss
    if relation != "add_remove" or loss.group > 1:
        raise NoEquivalent(
            f"{type(curve).__name__} has an event for one user and under add_remove only,"
            " because its proof does not cover replacing a user, and events have no groups"
        )
    noise = dp_event.GaussianDpEvent if loss.noise == "gaussian" else dp_event.LaplaceDpEvent
    return dp_event.PoissonSampledDpEvent(loss.rate, noise(next_down(1 / loss.shift)))


def _from_repeat_and_select(curve: RepeatAndSelectDP, relation: Relation) -> dp_event.DpEvent:
    law = curve.distribution
    shape = math.inf if isinstance(law, PoissonRuns) else law.eta
    if shape < 0 or law.mean < 1:
        raise NoEquivalent(
            "RepeatAndSelectDpEvent has no eta below 0 and no mean below 1. Keep this part in this"
            " package."
        )
    return dp_event.RepeatAndSelectDpEvent(
        to_dp_event(curve.base, relation), next_up(law.mean), shape
    )


def _from_composed(curve: Composed, relation: Relation) -> dp_event.DpEvent:
    events = [(count, to_dp_event(part, relation)) for count, part in curve.parts]
    parts = [
        event if count == 1 else dp_event.SelfComposedDpEvent(event, count)
        for count, event in events
    ]
    return parts[0] if len(parts) == 1 else dp_event.ComposedDpEvent(parts)


# by the name of the event, which the installed version may not have
_READERS: dict[str, Callable[[Any, Relation], Curve]] = {
    "NoOpDpEvent": lambda _event, _relation: zero(),
    "GaussianDpEvent": lambda event, relation: GaussianDP(
        mu=_shift(event.noise_multiplier, relation)
    ),
    "LaplaceDpEvent": lambda event, relation: LaplaceDP(
        epsilon=_shift(event.noise_multiplier, relation)
    ),
    "DiscreteLaplaceDpEvent": lambda event, relation: _discrete_laplace(
        event.noise_parameter, event.sensitivity * _MOVES[relation]
    ),
    "DiscreteGaussianDpEvent": _discrete_gaussian,
    "RandomizedResponseDpEvent": _randomized_response,
    "ZCDpEvent": lambda event, _relation: (
        ZCDP(rho=event.rho)
        if event.xi == 0
        else RenyiTable(
            orders=_ORDERS, values=[next_up(event.xi + event.rho * order) for order in _ORDERS]
        )
    ),
    "EpsilonDeltaDpEvent": lambda event, _relation: (
        PureDP(epsilon=event.epsilon)
        if event.delta == 0
        else ApproxDP(epsilon=event.epsilon, delta=event.delta)
    ),
    "ExponentialMechanismDpEvent": lambda event, _relation: BoundedRange(epsilon=event.epsilon),
    "PermuteAndFlipDpEvent": lambda event, _relation: LaplaceDP(epsilon=event.epsilon),
    "PoissonSampledDpEvent": lambda event, relation: (
        zero()
        if event.sampling_probability == 0
        else poisson_sampled(
            from_dp_event(event.event, relation), event.sampling_probability, relation=relation
        )
    ),
    "SampledWithoutReplacementDpEvent": _without_replacement,
    "RepeatAndSelectDpEvent": _repeat_and_select,
    "ComposedDpEvent": lambda event, relation: Composed.from_parts(
        [(1, from_dp_event(part, relation)) for part in event.events]
    ),
    "SelfComposedDpEvent": _self_composed,
}
_WRITERS: dict[type[Curve], Callable[[Any, Relation], dp_event.DpEvent]] = {
    GaussianDP: lambda curve, relation: dp_event.GaussianDpEvent(
        next_down(_MOVES[relation] / curve.mu)
    ),
    LaplaceDP: lambda curve, relation: dp_event.LaplaceDpEvent(
        next_down(_MOVES[relation] / curve.epsilon0)
    ),
    PureDP: _from_pure,
    ZCDP: lambda curve, _: dp_event.ZCDpEvent(curve.rho0),
    SampledGaussianDP: _from_sampled,
    SampledNoiseDP: _from_sampled,
    RepeatAndSelectDP: _from_repeat_and_select,
    Composed: _from_composed,
}
# events of later versions, and the fields of the curve that they take
_LATER: dict[type[Curve], tuple[str, tuple[str, ...]]] = {
    ApproxDP: ("EpsilonDeltaDpEvent", ("epsilon0", "failure")),
    BoundedRange: ("ExponentialMechanismDpEvent", ("epsilon0",)),
}

_REFUSED: dict[str, str] = {
    "NonPrivateDpEvent": (
        "it states that there is no guarantee. Leave it out only if it touches no private data"
    ),
    "UnsupportedDpEvent": (
        "it states no guarantee. Replace it by the event of the mechanism that ran"
    ),
    "SampledWithReplacementDpEvent": (
        "no bound for it is proved here. As a user may be in the sample up to sample_size times,"
        " group_privacy(curve, sample_size) of the inner event's curve under replace_one is valid"
        " and looser"
    ),
    "SingleEpochTreeAggregationDpEvent": (
        "its guarantee is for replacing a record by a special one, which is neither of the two"
        " relations"
    ),
    "MixtureOfGaussiansDpEvent": (
        "no curve describes its one-sided pair of distributions. Use GaussianDP with the"
        " largest sensitivity"
    ),
    "TruncatedSubsampledGaussianDpEvent": (
        "no bound for it is proved here. As a user may take the place of another one in a full"
        " batch, GaussianDP(mu=2/noise_multiplier) is valid and looser"
    ),
}


# Curves of the discrete mechanisms that dp-accounting has events for: their hockey-stick
# divergences, exactly. Theorem G6.

_MOST_SHIFT = 200


def _discrete_laplace(rate: float, shift: int) -> Curve:
    """Return the curve of integer noise of probability proportional to exp(-rate |x|).

    Neighbors are `shift` apart.
    """
    if isinstance(rate, bool) or not 0 < rate < math.inf:
        raise InvalidCurve(f"noise_parameter={rate!r} must be a finite number > 0")
    if isinstance(shift, bool) or not isinstance(shift, int) or shift < 1:
        raise InvalidCurve(f"sensitivity={shift!r} must be an integer >= 1")
    if shift == 1:
        return PureDP(epsilon=rate)
    if shift > _MOST_SHIFT:
        raise NoEquivalent(
            f"DiscreteLaplaceDpEvent with neighbors {shift} apart has no curve of acceptable"
            f" size. PureDP(epsilon={rate * shift:g}) is valid and looser"
        )
    kinks = sorted({0.0} | {next_up(rate * (shift - 2 * i)) for i in range((shift + 1) // 2)})
    points = [(loss, _hockey_stick(rate, shift, loss)) for loss in kinks]
    falling = [point for point, after in pairwise(points) if point[1] > after[1]]
    return ProfileTable(
        epsilons=[e for e, _ in (*falling, points[-1])],
        deltas=[d for _, d in (*falling, points[-1])],
    )


def _hockey_stick(rate: float, shift: int, epsilon: float) -> float:
    """Return the sum of (P - exp(epsilon) Q)_+ over the integers.

    All integers up to 0 are added together, and then each one between 0 and the shift.
    """
    ends = -math.expm1(min(0.0, epsilon - rate * shift)) / (1 + math.exp(-rate))
    weight = math.tanh(rate / 2)
    between = (
        weight * math.exp(-rate * i) * -math.expm1(min(0.0, epsilon - rate * (shift - 2 * i)))
        for i in range(1, shift)
    )
    return min(1.0, math.fsum((ends, *between)) * SUM_UP)
