"""Amplification by Poisson sampling, where a proof covers it: one application, add_remove, the sample kept secret."""

from __future__ import annotations

import math
import numbers
from typing import cast, overload

from accounting.curves import ApproxDP, Composed, Curve, GaussianDP, PureDP, SampledGaussianDP
from accounting.curves.profile_table import as_table, sampled_profile
from accounting.errors import InvalidArgument, NoEquivalent
from accounting.guarantee import Guarantee, Priced, read_item
from accounting.relation import Relation


@overload
def poisson_sampled(curve: Curve, rate: float, *, relation: Relation) -> Curve: ...
@overload
def poisson_sampled(curve: Priced, rate: float, *, relation: Relation | None = None) -> Guarantee: ...
def poisson_sampled(curve: Curve | Priced, rate: float, *, relation: Relation | None = None) -> Curve | Guarantee:
    """`curve`'s mechanism run once on a secret sample that takes each user independently with probability `rate`. Theorem G5.

    Compose the result for several runs on fresh samples: `n * poisson_sampled(curve, rate)`. A composition as argument means
    that all of its parts see the same sample.

    Args:
        curve: the guarantee of the mechanism on the sample. Of Gaussian mechanisms the result is exact.
        rate: sampling probability, in (0, 1].
            Given a mechanism, the result is a `Guarantee`, under the mechanism's relation.
        relation: of a bare curve; must be add_remove: replacing a user of a Poisson sample is not covered.

    Raises:
        NoEquivalent: the relation is replace_one.
        InvalidArgument: rate is outside (0, 1].
    """
    if not isinstance(curve, Curve):
        priced, relation = read_item(curve, relation)
        return Guarantee(poisson_sampled(priced, rate, relation=cast(Relation, relation)), cast(Relation, relation))
    if relation != "add_remove":
        raise NoEquivalent(
            f"relation={relation!r}: amplification by Poisson sampling is proved here for add_remove only. Configure the "
            "mechanism under add_remove, or use the curve without amplification"
        )
    if isinstance(rate, bool) or not isinstance(rate, numbers.Real) or not 0 < rate <= 1:
        raise InvalidArgument(f"rate={str(rate)[:30]} must lie in (0, 1]: the probability with which a user is sampled")
    return curve if rate == 1 else _amplified(curve, float(rate))


def _amplified(curve: Curve, rate: float) -> Curve:
    if isinstance(curve, PureDP | ApproxDP):
        return _one_point(curve.core_epsilon, curve.delta0, rate)
    if (mu := _gaussian(curve)) is not None:
        return SampledGaussianDP(mu=mu, rate=rate)
    points = [(_less(epsilon, rate), _times(rate, delta)) for epsilon, delta in sampled_profile(curve)]
    return as_table(points, type(curve).__name__)


def _one_point(epsilon: float, delta: float, rate: float) -> Curve:
    amplified = _less(epsilon, rate)
    return PureDP(epsilon=amplified) if delta == 0 else ApproxDP(epsilon=amplified, delta=_times(rate, delta))


def _times(rate: float, delta: float) -> float:
    return math.nextafter(rate * delta, 1.0) if delta > 0 else 0.0


def _less(epsilon: float, rate: float) -> float:
    """ln(1 + rate (e^epsilon - 1)), rounded up."""
    if epsilon > 700:
        return epsilon
    return min(epsilon, math.log1p(rate * math.expm1(epsilon)) * (1 + 1e-14))


def _gaussian(curve: Curve) -> float | None:
    """The mu of a composition of Gaussian mechanisms, rounded up."""
    parts = curve.parts if isinstance(curve, Composed) else ((1, curve),)
    if not all(isinstance(part, GaussianDP) for _, part in parts) or curve.core_epsilon == 0:
        return None
    return GaussianDP.of_rho(curve.rho).mu
