"""Every curve under the same laws, against slow oracles in 50-digit arithmetic and against exact
pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any, Literal

import mpmath as mp
import numpy as np
import pytest
from pairs import response, spanning

import accounting as acc
from accounting.convert.renyi import rdp_to_epsilon
from accounting.curves.base import CURVES as KNOWN
from dpselect.verify.divergences import renyi

CURVES: list[acc.Curve] = [
    acc.PureDP(epsilon=0.7),
    acc.PureDP(epsilon=0),
    acc.BoundedRange(epsilon=0.7),
    acc.BoundedRange(epsilon=3.0),
    acc.GaussianDP(mu=0.4),
    acc.curves.GaussianMax(mu=0.4, candidates=10),
    acc.curves.DiscreteGaussianDP(sigma=1.7, sensitivity=1),
    acc.LaplaceDP(epsilon=1.3),
    acc.ZCDP(rho=0.05),
    acc.ApproxDP(epsilon=0.5, delta=1e-4),
    acc.RenyiTable(orders=(1.5, 2, 8, 64, 512), values=(0.1, 0.2, 0.5, 3, 30)),
    acc.curves.ProfileTable(epsilons=(0.01, 0.02, 0.5), deltas=(1e-3, 1e-9, 0.0)),
    acc.curves.SparseVectorDP(epsilon1=0.4, epsilon2=0.7),
    acc.SampledGaussianDP(mu=0.7, rate=0.1),
    acc.curves.SampledNoiseDP(noise="gaussian", shift=0.5, rate=0.2, group=3),
    acc.curves.SampledNoiseDP(noise="laplace", shift=0.7, rate=0.1),
    acc.curves.SparseVectorDP(epsilon1=0.1, epsilon2=0.7, positives=20),
    acc.Approximate(curve=acc.BoundedRange(epsilon=0.7), delta0=1e-7),
    acc.RepeatAndSelectDP(
        base=acc.ZCDP(rho=0.02), distribution=acc.TruncatedNegativeBinomial(eta=0.5, gamma=0.05)
    ),
    acc.RepeatAndSelectDP(
        base=acc.PureDP(epsilon=0.2), distribution=acc.curves.PoissonRuns(mean=6.0)
    ),
    acc.RepeatAndSelectDP(
        base=acc.Approximate(curve=acc.GaussianDP(mu=0.3), delta0=1e-9),
        distribution=acc.TruncatedNegativeBinomial(gamma=0.1),
    ),
    acc.tighter(acc.GaussianDP(mu=0.8), acc.curves.GaussianMax(mu=0.4, candidates=10)),
    acc.parallel(
        acc.GaussianDP(mu=0.4), acc.Approximate(curve=acc.PureDP(epsilon=0.3), delta0=1e-8)
    ),
    acc.curves.ProvedFor(
        curve=acc.Approximate(curve=acc.ZCDP(rho=0.03), delta0=1e-8), relation="add_remove"
    ),
    3 * acc.BoundedRange(epsilon=0.2)
    + acc.GaussianDP(mu=0.1)
    + 2 * acc.Approximate(curve=acc.PureDP(epsilon=0.1), delta0=1e-9),
    acc.zero(),
]
ORDERS = 1 + np.geomspace(1e-6, 1e6, 49)
EXTREME = [float(e) for e in np.geomspace(1e-9, 1e3, 13)]


@pytest.fixture(autouse=True)
def sixty_digits() -> None:
    """The references of this file are computed with 60 digits."""
    mp.mp.dps = 60


def _pure(e: mp.mpf, a: mp.mpf) -> mp.mpf:
    return mp.log((mp.exp(a * e) + mp.exp((1 - a) * e)) / (1 + mp.exp(e))) / (a - 1)


def _range(e: mp.mpf, a: mp.mpf) -> mp.mpf:
    t = mp.log((a - 1) * (1 - mp.exp(-a * e)) / (a * (mp.exp(-e) - mp.exp(-a * e))))
    return t + mp.log((1 - mp.exp(-a * e)) / (a * (1 - mp.exp(-e)))) / (a - 1)


def _laplace(e: mp.mpf, a: mp.mpf) -> mp.mpf:
    return mp.log(
        a / (2 * a - 1) * mp.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mp.exp(-a * e)
    ) / (a - 1)


def _sparse(e1: mp.mpf, e2: mp.mpf, a: mp.mpf) -> mp.mpf:
    """Theorems V1 and N7: the smaller of the two bounds."""
    return min(_laplace(e1 + e2, a), _laplace(e1, a) + e2)


CLOSED: list[tuple[acc.Curve, Callable[..., mp.mpf], tuple[float, ...]]] = [
    *((acc.PureDP(epsilon=e), _pure, (e,)) for e in EXTREME),
    *((acc.BoundedRange(epsilon=e), _range, (e,)) for e in EXTREME),
    *((acc.LaplaceDP(epsilon=e), _laplace, (e,)) for e in EXTREME),
    *(
        (acc.curves.SparseVectorDP(epsilon1=e1, epsilon2=e2), _sparse, (e1, e2))
        for e1, e2 in product((1e-9, 1e-3, 0.4, 2.0, 50.0), (1e-9, 1e-3, 0.7, 3.0, 50.0))
    ),
]


@pytest.mark.parametrize(
    ("curve", "formula", "sizes"), CLOSED, ids=[str(curve) for curve, *_ in CLOSED]
)
def test_closed_forms_match_sixty_digits(
    curve: acc.Curve, formula: Callable[..., mp.mpf], sizes: tuple[float, ...]
) -> None:
    """From epsilon 1e-9 to 1e3 and order 1 + 1e-6 to 1e6 the float64 formula is the exact one to
    1e-12; rho bounds it over the order, and is reached as the order goes to 1; the pure epsilon is
    the sum of all.
    """
    values = curve.rdp(ORDERS)
    exact = [formula(*map(mp.mpf, sizes), mp.mpf(float(a))) for a in ORDERS]
    assert curve.pure_epsilon == pytest.approx(sum(sizes), rel=1e-15)
    assert (
        max(
            abs(float(value / reference - 1))
            for value, reference in zip(values, exact, strict=True)
        )
        < 1e-12
    )
    assert np.all(values / ORDERS <= curve.rho * (1 + 1e-12))
    assert values[0] / ORDERS[0] == pytest.approx(curve.rho, rel=1e-2)


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_every_curve_is_a_renyi_bound_in_shape_that_adds_up_and_survives_json(
    curve: acc.Curve,
) -> None:
    """Non-negative, non-decreasing in the order, at most order * rho and at most the pure epsilon;
    n * c has n times the Renyi bound, rho, bad event and pure epsilon of c: no count is ignored;
    JSON gives an equal curve with an equal hash.
    """
    values, few = curve.rdp(ORDERS), np.array([1.5, 2, 30])
    assert np.all(values >= 0)
    assert np.all(np.diff(values[np.isfinite(values)]) >= -1e-13 * values[np.isfinite(values)][1:])
    assert np.all(values <= ORDERS * curve.rho * (1 + 1e-12) + 1e-300)
    assert np.all(values <= curve.core_epsilon * (1 + 1e-12))
    for count in (1, 2, 7, 1000):
        many = count * curve
        assert many.rdp(few) == pytest.approx(count * curve.rdp(few), rel=1e-12)
        for name in ("rho", "delta0", "core_epsilon"):
            assert getattr(many, name) == pytest.approx(count * getattr(curve, name), rel=1e-12)
    again = acc.Curve.from_json(curve.to_json())
    assert again == curve
    assert hash(again) == hash(curve)


def test_every_kind_is_under_the_laws() -> None:
    """Each member of the family occurs among the curves tested here."""
    assert {curve.kind for curve in CURVES} == set(KNOWN.members())


def test_a_curve_that_forgets_a_bound_is_refused_by_name() -> None:
    """When it is made, and a kind of it is never known; what may be left out only loosens what is
    proved.
    """
    forgetful = {
        "kind": "forgetful",
        "__annotations__": {"kind": Literal["forgetful"]},
        "__module__": __name__,
    }
    with pytest.raises(TypeError, match="Forgetful lacks _rdp, core_epsilon, delta0, rho"):
        type(acc.Curve)("Forgetful", (acc.Curve,), dict(forgetful))
    with pytest.raises(acc.InvalidCurve, match="'forgetful' is not a curve"):
        acc.Curve.from_json('{"kind": "forgetful"}')
    exact = acc.GaussianDP(mu=0.5)
    parts = {
        "_rdp": lambda _, orders: exact.rdp(orders),
        "rho": exact.rho,
        "delta0": 0.0,
        "core_epsilon": math.inf,
    }
    plain = type(acc.Curve)("Plain", (acc.Curve,), {"__module__": __name__, **_properties(parts)})()
    for curve, proved in (
        (plain, exact),
        (3 * plain, 3 * exact),
        (plain + acc.ZCDP(rho=0.1), exact + acc.ZCDP(rho=0.1)),
    ):
        assert curve.epsilon(1e-6) >= proved.epsilon(1e-6)
        assert curve.delta(1.0) >= proved.delta(1.0)


def _properties(parts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: part if callable(part) else property(lambda _, part=part: part)
        for name, part in parts.items()
    }


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
def test_renyi_divergences_are_attained_by_two_valued_pairs(epsilon: float) -> None:
    """PureDP by randomized response; BoundedRange is the envelope of all pairs that span epsilon.
    Delta: test_delta_side.py.
    """
    orders = np.array([1.1, 2, 8, 64])
    assert renyi(*response(epsilon), orders)[:, 0] == pytest.approx(
        acc.PureDP(epsilon=epsilon).rdp(orders), rel=1e-10
    )
    spans = [spanning(epsilon, t) for t in np.linspace(1e-6, epsilon - 1e-6, 4001)]
    worst = renyi(*(np.stack(side) for side in zip(*spans, strict=True)), orders).max(axis=1)
    stated = acc.BoundedRange(epsilon=epsilon).rdp(orders)
    assert np.all(worst <= stated * (1 + 1e-9))
    assert worst == pytest.approx(stated, rel=1e-5)


def test_composition_algebra() -> None:
    """Composition is commutative and associative, n * c is c + ... + c, and zero() is the
    identity.
    """
    for at, a in enumerate(CURVES):
        b, c = CURVES[at - 1], CURVES[at - 9]
        assert a + b == b + a
        assert hash(a + b) == hash(b + a)
        assert (a + b) + c == a + (b + c)
        assert a + acc.zero() == a
        for count in (0, 1, 5):
            assert count * a == sum([a] * count, acc.zero())
            assert count * (a + b) == count * a + count * b


@pytest.mark.fast(8)
@pytest.mark.parametrize("curve", [c for c in CURVES if c.delta0 < 1e-5], ids=str)
@pytest.mark.filterwarnings("ignore::accounting.errors.GridEdgeWarning")
def test_epsilon_and_delta_are_inverse(curve: acc.Curve) -> None:
    """delta(epsilon(d)) is at most d, to the accuracy of the search over orders (1e-7), and epsilon
    falls as delta grows.
    """
    low, high = curve.epsilon(1e-5), curve.epsilon(0.1)
    assert high <= low
    for delta, epsilon in ((1e-5, low), (0.1, high)):
        assert curve.delta(epsilon) <= delta * (1 + 1e-7)


def test_gaussian_noise_has_no_pure_guarantee() -> None:
    """At delta 0 a Gaussian mechanism has no finite epsilon, however small the tail that floats can
    hold.
    """
    assert acc.GaussianDP(mu=0.01).epsilon(0) == math.inf
    assert acc.curves.GaussianMax(mu=0.01, candidates=2).epsilon(0) == math.inf


@pytest.mark.parametrize(
    ("epsilon", "count", "expected"),
    [(0.1, 100, 2.400), (1, 10, 7.770), (1, 3, 2.909), (2, 10, 16.860)],
)
def test_published_values_of_bounded_range(epsilon: float, count: int, expected: float) -> None:
    """Exact bounded-range Renyi accounting gives the theory sheet's values, and no fine grid of
    orders beats it.
    """
    curve = count * acc.BoundedRange(epsilon=epsilon)
    found = rdp_to_epsilon(curve.rdp, 1e-6).value
    orders = 1 + np.geomspace(0.02, 1e3, 20_001)
    on_grid = curve.rdp(orders) + np.log1p(-1 / orders) - np.log(1e-6 * orders) / (orders - 1)
    assert found == pytest.approx(expected, abs=6e-4)
    assert found <= on_grid.min() * (1 + 1e-9)
