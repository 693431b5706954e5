"""Events of dp-accounting: exact counterparts both ways, everything else refused with a reason."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable
from typing import Any

import attr
import dp_accounting
import mpmath as mp
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant
from spread import spread

import accounting as acc
from accounting.convert.bounds import best_delta
from accounting.convert.renyi import rdp_to_epsilon
from accounting.curves import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Composed,
    Curve,
    GaussianDP,
    LaplaceDP,
    PureDP,
    SampledNoiseDP,
    zero,
)
from accounting.dp_events import _READERS, _REFUSED, from_dp_event, to_dp_event
from accounting.errors import InvalidArgument, InvalidCurve, NoEquivalent
from accounting.relations import Relation

BOTH: tuple[Relation, ...] = ("add_remove", "replace_one")
ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
GAUSS, LAPLACE = dp_event.GaussianDpEvent(1.7), dp_event.LaplaceDpEvent(3.0)
RESPONSE = dp_event.RandomizedResponseDpEvent(0.5, 4)
EVENTS: list[dp_event.DpEvent] = [
    dp_event.NoOpDpEvent(),
    GAUSS,
    LAPLACE,
    *(dp_event.ZCDpEvent(0.02, xi) for xi in (0.0, 0.1)),
    *(
        dp_event.DiscreteLaplaceDpEvent(rate, shift)
        for rate, shift in ((0.4, 1), (0.4, 2), (0.1, 7))
    ),
    dp_event.SelfComposedDpEvent(GAUSS, 10),
    dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(20.0), 200),
    dp_event.ComposedDpEvent(
        [
            GAUSS,
            LAPLACE,
            dp_event.SelfComposedDpEvent(dp_event.ComposedDpEvent([LAPLACE, GAUSS]), 3),
        ]
    ),
    dp_event.ComposedDpEvent([]),
]
RESPONSES = [dp_event.RandomizedResponseDpEvent(p, k) for p, k in ((0.05, 2), (0.5, 3), (0.99, 10))]


def accounted(
    kind: type[PLDAccountant | RdpAccountant],
    event: dp_event.DpEvent,
    delta: float,
    relation: NeighboringRelation = ADD,
) -> float:
    """dp-accounting's epsilon, or inf if the accountant does not support the event."""
    accountant = kind(neighboring_relation=relation)
    return (
        float(accountant.compose(event).get_epsilon(delta))
        if accountant.supports(event)
        else math.inf
    )


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
@pytest.mark.parametrize("event", spread(EVENTS, 5), ids=repr)
def test_never_above_dp_accounting(event: dp_event.DpEvent, delta: float) -> None:
    """Under add_remove our epsilon is at most that of dp-accounting's RDP plus 1e-6, and of its PLD
    up to 1e-5 of either grid.
    """
    ours = from_dp_event(event, "add_remove").epsilon(delta)
    assert ours <= accounted(RdpAccountant, event, delta) + 1e-6
    assert ours <= accounted(PLDAccountant, event, delta) * (1 + 1e-5) + 1e-6


@pytest.mark.parametrize("event", RESPONSES, ids=repr)
def test_randomized_response_against_dp_accounting(
    event: dp_event.RandomizedResponseDpEvent,
) -> None:
    """Under replace_one one response costs at most what either accountant says, up to 1e-6, and its
    profile is exact.
    """
    curve = from_dp_event(event, "replace_one")
    for delta in (1e-3, 1e-6):
        assert curve.epsilon(delta) <= accounted(RdpAccountant, event, delta, REPLACE) + 1e-6
        assert curve.epsilon(delta) <= accounted(PLDAccountant, event, delta, REPLACE) + 1e-6
    p, k = event.noise_parameter, event.num_buckets
    for epsilon in (0.0, 0.2, 1.0, 3.0):
        exact = max(0.0, 1 - p + p / k - math.exp(epsilon) * p / k)
        assert exact * (1 - 1e-12) <= best_delta(curve, epsilon).value <= exact * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize(("rate", "shift"), [(0.4, 1), (0.05, 8), (3.0, 5)])
def test_discrete_laplace_is_exact(rate: float, shift: int) -> None:
    """Delta and Renyi divergence equal sums over the integers, to 1e-9."""
    x = np.arange(-3000, 3000 + shift)
    p, q = (math.tanh(rate / 2) * np.exp(-rate * np.abs(x - c)) for c in (0, shift))
    curve = from_dp_event(dp_event.DiscreteLaplaceDpEvent(rate, shift), "add_remove")
    for epsilon in np.linspace(0, rate * shift * 1.1, 23).tolist():
        exact, found = np.maximum(0, p - math.exp(epsilon) * q).sum(), best_delta(curve, epsilon)
        assert exact * (1 - 1e-9) - 1e-15 <= found.value <= exact * (1 + 1e-9) + 1e-14
    for order in (1.5, 3.0, 20.0):
        powers = (order - 1) * np.abs(x - shift) - order * np.abs(x)
        exact = math.log(math.tanh(rate / 2) * np.exp(rate * powers).sum()) / (order - 1)
        assert math.isclose(float(curve.rdp(order)), exact, rel_tol=1e-9)


def test_noise_multipliers_are_relative_to_one_contribution() -> None:
    """Under replace_one a Gaussian or Laplace event shifts twice as far; dp-accounting's PLD
    agrees, its RDP forgets it.
    """
    assert math.isclose(from_dp_event(LAPLACE, "replace_one").pure_epsilon, 2 / 3, rel_tol=1e-12)
    one, doubled = (dp_event.DiscreteLaplaceDpEvent(0.4, shift) for shift in (1, 2))
    assert from_dp_event(one, "replace_one") == from_dp_event(doubled, "add_remove")
    ours = from_dp_event(GAUSS, "replace_one").epsilon(1e-6)
    assert math.isclose(ours, accounted(PLDAccountant, GAUSS, 1e-6, REPLACE), rel_tol=1e-3)
    assert ours > 1.5 * accounted(RdpAccountant, GAUSS, 1e-6, REPLACE)


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_counts_are_kept(event: dp_event.DpEvent) -> None:
    """n times an event is n separate events, for every event that is supported, and nests."""
    twice = dp_event.SelfComposedDpEvent(event, 2)
    for six in (
        dp_event.ComposedDpEvent([event] * 6),
        dp_event.SelfComposedDpEvent(event, 6),
        dp_event.SelfComposedDpEvent(twice, np.int64(3)),
    ):
        assert from_dp_event(six, "add_remove") == Composed.from_parts(
            [(6, from_dp_event(event, "add_remove"))]
        )
    assert from_dp_event(dp_event.SelfComposedDpEvent(event, 0), "add_remove") == zero()


def test_known_dp_accounting_errors_do_not_occur_here() -> None:
    """Its PLD charges ten responses as one, its RDP turns NaN into epsilon 0 and a negative count
    into a refund; nothing here.
    """
    ten = dp_event.SelfComposedDpEvent(RESPONSE, 10)
    once, said = (accounted(PLDAccountant, event, 1e-5, REPLACE) for event in (RESPONSE, ten))
    truth = accounted(PLDAccountant, dp_event.ComposedDpEvent([RESPONSE] * 10), 1e-5, REPLACE)
    assert said == once
    assert (
        9 * once < truth * 0.999 <= from_dp_event(ten, "replace_one").epsilon(1e-5) <= truth + 1e-6
    )
    assert rdp_privacy_accountant.compute_epsilon([2.0], [math.nan], 1e-5)[0] == 0
    with pytest.raises(InvalidCurve, match="NaN"):
        rdp_to_epsilon(lambda orders: orders * math.nan, 1e-5)
    refund = dp_event.ComposedDpEvent([GAUSS, dp_event.SelfComposedDpEvent(GAUSS, -3)])
    for free in (dp_event.GaussianDpEvent(math.nan), dp_event.ZCDpEvent(math.nan), refund):
        assert accounted(RdpAccountant, free, 1e-5) == 0
        with pytest.raises(InvalidCurve):
            from_dp_event(free, "add_remove")


# -- what is refused -------------------------------------------------------------------------------


def test_every_event_is_read_or_refused_by_name() -> None:
    """Each event class of the installed dp-accounting either has a curve or a reason of its own,
    never both; a new one fails here, wherever in the package it is.
    """
    for module in pkgutil.walk_packages(dp_accounting.__path__, "dp_accounting."):
        if not module.name.endswith("_test"):
            importlib.import_module(module.name)
    classes, left = set[str](), [dp_event.DpEvent]
    while left:
        below = left.pop().__subclasses__()
        left += below
        classes |= {one.__name__ for one in below if one.__module__.startswith("dp_accounting.")}
    assert classes == {name for name in _READERS if hasattr(dp_event, name)} | set(_REFUSED)
    assert not set(_READERS) & set(_REFUSED)


@pytest.mark.parametrize(
    "event",
    [
        dp_event.NonPrivateDpEvent(),
        dp_event.UnsupportedDpEvent(),
        dp_event.SampledWithReplacementDpEvent(10, 2, GAUSS),
        dp_event.SingleEpochTreeAggregationDpEvent(1.0, 8),
        dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0], [1.0]),
        dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 1.0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_events_without_a_curve_are_refused(event: dp_event.DpEvent) -> None:
    """What has no curve raises with its class and a remedy, also deep inside a composition, and
    where a file states it by its name.
    """
    name = type(event).__name__
    refused = rf"^{name} has no curve, because .{{30}}"
    for outer in (event, dp_event.ComposedDpEvent([GAUSS, dp_event.SelfComposedDpEvent(event, 2)])):
        with pytest.raises(NoEquivalent, match=refused):
            from_dp_event(outer, "add_remove")
    inner = f'{{"event": "{name.removesuffix("DpEvent")}", "steps": 3}}'
    for text in (inner, f'{{"event": "SelfComposed", "count": 2, "of": {inner}}}'):
        with pytest.raises(NoEquivalent, match=refused):
            acc.dp_events.event_from_json(text)


def test_a_full_batch_costs_twice_the_noise_multiplier() -> None:
    """A batch of one, of two users with contributions 1 and -1: the refusal's curve covers it both
    ways, and half of its mu does not (G6).
    """
    with pytest.raises(NoEquivalent, match=r"GaussianDP\(mu=2/noise_multiplier\) is valid"):
        from_dp_event(dp_event.TruncatedSubsampledGaussianDpEvent(2, 1.0, 1, 0.5), "add_remove")
    sigma, x = 0.5, np.linspace(-9.0, 9.0, 180_001)
    one, other = (np.exp(-(((x - c) / sigma) ** 2) / 2) for c in (1, -1))
    p, q = (law / law.sum() for law in (one, one + other))
    for epsilon in (1.0, 4.0, 8.0):
        reached = max(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((p, q), (q, p)))
        assert reached <= GaussianDP(mu=2 / sigma).delta(epsilon)
        assert reached > GaussianDP(mu=1 / sigma).delta(epsilon) or epsilon < 4


def test_a_sample_with_replacement_costs_its_copies() -> None:
    """Two draws out of one user move the sum by four contributions: the refusal's curve covers
    that, and the inner event's does not (G6).
    """
    event = dp_event.SampledWithReplacementDpEvent(1, 2, dp_event.GaussianDpEvent(1.0))
    with pytest.raises(NoEquivalent, match=r"group_privacy\(curve, sample_size\)"):
        from_dp_event(event, "replace_one")
    inner, reached = from_dp_event(event.event, "replace_one"), GaussianDP(mu=4.0).delta(2.0)
    assert inner.delta(2.0) < reached <= acc.group_privacy(inner, 2).delta(2.0)


def test_unknown_event_objects_are_refused_without_an_import() -> None:
    """A named tuple that claims to be an event, a subclass, and other objects are refused; nothing
    is imported.
    """

    class Sneaky(dp_event.GaussianDpEvent):
        pass

    for item in (GAUSS.to_named_tuple(), Sneaky(1.0), {"class_name": "GaussianDpEvent"}, None):
        with pytest.raises(NoEquivalent, match="not a known event"):
            from_dp_event(item, "add_remove")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "event",
    [
        *(
            kind(value)
            for kind in (dp_event.GaussianDpEvent, dp_event.LaplaceDpEvent)
            for value in (0.0, -1.0, math.nan, True)
        ),
        *(dp_event.DiscreteLaplaceDpEvent(rate, 1) for rate in (0.0, math.nan, math.inf)),
        *(dp_event.DiscreteLaplaceDpEvent(0.1, shift) for shift in (0, 1.5)),
        *(dp_event.SelfComposedDpEvent(GAUSS, count) for count in (-1, 1.5, True, None)),
        *(dp_event.ZCDpEvent(*pair) for pair in ((-0.1,), (0.1, math.nan))),
        *(
            dp_event.RandomizedResponseDpEvent(p, k)
            for p, k in ((0.0, 2), (1.1, 2), (math.nan, 2), (0.5, 0), (0.5, 2.5))
        ),
    ],
    ids=repr,
)
def test_events_that_are_no_guarantee_raise(event: dp_event.DpEvent) -> None:
    """Parameters without noise, negative, NaN or of the wrong type raise instead of giving a small
    epsilon.
    """
    with pytest.raises(InvalidCurve):
        from_dp_event(event, "replace_one")


@pytest.mark.parametrize("missing", [None, "", [], {}, "0.1", 2j, 10**400, np.zeros(2)])
def test_event_fields_without_numbers_are_refused(missing: Any, later: dict[str, Any]) -> None:
    """A sampling probability, an additive term or a delta that is missing gives no smaller curve:
    the event is refused, as any other that holds no number.
    """
    for event in (
        dp_event.PoissonSampledDpEvent(missing, GAUSS),
        dp_event.ZCDpEvent(0.5, missing),
        later["EpsilonDeltaDpEvent"](0.5, missing),
        dp_event.GaussianDpEvent(missing),
    ):
        with pytest.raises((InvalidArgument, InvalidCurve)):
            from_dp_event(event, "add_remove")


def test_a_response_that_says_nothing_is_free() -> None:
    """With one bucket, or nothing but noise."""
    for p, k in ((0.0, 1), (1.0, 5)):
        assert from_dp_event(dp_event.RandomizedResponseDpEvent(p, k), "replace_one") == zero()


# -- and back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize(
    "curve",
    [
        zero(),
        LaplaceDP(epsilon=0.7),
        PureDP(epsilon=1e-9),
        3 * PureDP(epsilon=0.2) + 2 * GaussianDP(mu=0.1) + ZCDP(rho=0.1),
    ],
    ids=repr,
)
def test_round_trip(curve: Curve, relation: Relation) -> None:
    """The event of a curve reads back, under the same relation, as no cheaper a curve, and dearer
    by at most 1e-6.
    """
    again = from_dp_event(curve.to_dp_event(relation), relation)
    orders = [1.1, 2.0, 30.0]
    assert np.all(again.rdp(orders) >= curve.rdp(orders) * (1 - 1e-15))
    assert np.all(again.rdp(orders) <= curve.rdp(orders) * (1 + 1e-6) + 1e-15)


def test_written_responses_lose_at_least_epsilon() -> None:
    """The exact loss of the noise that is written is at least epsilon, from where it is a rounding
    of the noise to where it leaves hardly any; beyond, no reader finds a guarantee.
    """
    for epsilon in np.geomspace(1e-17, 699.0, 2000).tolist():
        event = PureDP(epsilon=epsilon).to_dp_event("replace_one")
        with mp.workdps(40):
            assert mp.log(2 / mp.mpf(event.noise_parameter) - 1) >= epsilon
        assert from_dp_event(event, "replace_one").core_epsilon >= epsilon
    with pytest.raises(InvalidCurve, match="no guarantee"):
        from_dp_event(PureDP(epsilon=701.0).to_dp_event("replace_one"), "replace_one")


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_noise_on_a_sample_has_its_event(noise: Any) -> None:
    """Of one user and under add_remove: it reads back as the same step, whichever name it had; a
    group has none.
    """
    curve = SampledNoiseDP(noise=noise, shift=0.5, rate=0.2)
    again = from_dp_event(to_dp_event(curve), "add_remove")
    assert curve.delta(0.1) <= again.delta(0.1) <= curve.delta(0.1) * (1 + 1e-6)
    assert type(again) is (acc.SampledGaussianDP if noise == "gaussian" else SampledNoiseDP)
    for refused, relation in (
        (curve, "replace_one"),
        (curve.model_copy(update={"group": 2}), "add_remove"),
    ):
        with pytest.raises(NoEquivalent, match="for one user and under add_remove only"):
            to_dp_event(refused, relation)


@pytest.mark.parametrize(
    "curve",
    [
        BoundedRange(epsilon=0.1),
        ApproxDP(epsilon=0.1, delta=1e-6),
        acc.Approximate(curve=GaussianDP(mu=0.1), delta0=1e-9),
        acc.RenyiTable(orders=[2.0], values=[0.1]),
        acc.tighter(GaussianDP(mu=0.1), ZCDP(rho=0.1)),
        GaussianDP(mu=0.1) + BoundedRange(epsilon=0.1),
    ],
)
def test_curves_without_an_event_are_refused(curve: Curve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A curve that no event describes raises instead of exporting something looser in silence."""
    for name in LATER:
        monkeypatch.delattr(dp_event, name, raising=False)
    with pytest.raises(NoEquivalent, match="has no DpEvent"):
        to_dp_event(curve)


LATER: dict[str, tuple[str, ...]] = {
    "EpsilonDeltaDpEvent": ("epsilon", "delta"),
    "ExponentialMechanismDpEvent": ("epsilon",),
    "PermuteAndFlipDpEvent": ("epsilon",),
    "DiscreteGaussianDpEvent": ("sigma", "sensitivity", "dimension"),
}


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The events of later versions: the installed ones, or classes with their names and fields
    where it has none.
    """
    for name, fields in LATER.items():
        if not hasattr(dp_event, name):
            made = attr.make_class(name, list(fields), bases=(dp_event.DpEvent,), frozen=True)
            monkeypatch.setattr(dp_event, name, made, raising=False)
    return {name: getattr(dp_event, name) for name in LATER}


@pytest.mark.parametrize("relation", BOTH)
def test_events_of_later_versions_are_read_and_written(
    later: dict[str, Any], relation: Relation
) -> None:
    """Each to its curve; those that a curve means exactly come back, in compositions too."""
    assert from_dp_event(later["EpsilonDeltaDpEvent"](0.5, 0.0), relation) == PureDP(epsilon=0.5)
    assert from_dp_event(later["PermuteAndFlipDpEvent"](0.5), relation) == LaplaceDP(epsilon=0.5)
    curve = 3 * BoundedRange(epsilon=0.1) + ApproxDP(epsilon=0.5, delta=1e-6)
    assert from_dp_event(curve.to_dp_event(relation), relation) == curve
    for wrong in ((math.inf, 0.0), (1.0, 1.0)):
        with pytest.raises(InvalidCurve):
            from_dp_event(later["EpsilonDeltaDpEvent"](*wrong), relation)


@pytest.mark.parametrize(("sigma", "sensitivity"), [(1.0, 1), (2.5, 4)])
def test_the_rho_of_a_discrete_gaussian_is_its_kullback_leibler_divergence(
    later: dict[str, Any], sigma: float, sensitivity: int
) -> None:
    """Integer shifts attain it: the sum over all integers, for one contribution and for one that
    replaces another.
    """
    noise = np.arange(-60, 61)
    law = np.exp(-(noise**2) / (2 * sigma**2))
    for relation, moves in zip(BOTH, (1, 2), strict=True):
        loss = ((noise - moves * sensitivity) ** 2 - noise**2) / (2 * sigma**2)
        exact = float(law @ loss / law.sum())
        rho, one = (
            from_dp_event(later["DiscreteGaussianDpEvent"](sigma, sensitivity, d), relation).rho
            for d in (None, 1)
        )
        assert one == pytest.approx(rho, rel=1e-11)
        assert exact * (1 - 1e-13) <= rho <= exact * (1 + 1e-9)
    for wrong in ((0.0, 1), (1.0, 0), (math.nan, 1), (1.0, -2)):
        with pytest.raises(InvalidCurve):
            from_dp_event(later["DiscreteGaussianDpEvent"](*wrong, 1), "add_remove")


@pytest.mark.parametrize(
    ("sigma", "sensitivity", "runs"), [(1.0, 1, 1), (1.0, 1, 10), (0.5, 3, 1), (3.0, 2, 5)]
)
def test_discrete_gaussian_cost_matches_dp_accounting(
    later: dict[str, Any], sigma: float, sensitivity: int, runs: int
) -> None:
    """Its price is dp-accounting's own to a part in 10^4, for smaller shifts too, and in more
    dimensions no lower one is said.
    """
    pld = privacy_loss_distribution.from_discrete_gaussian_mechanism(
        sigma, sensitivity=sensitivity
    ).self_compose(runs)
    event = later["DiscreteGaussianDpEvent"](sigma, sensitivity + 0.5, 1)
    for delta in (1e-3, 1e-6, 1e-9):
        ours, theirs = (
            (runs * from_dp_event(event, "add_remove")).epsilon(delta),
            pld.get_epsilon_for_delta(delta),
        )
        assert theirs * (1 - 1e-4) <= ours <= theirs * (1 + 1e-6)
        vector = later["DiscreteGaussianDpEvent"](sigma, sensitivity, None)
        assert ours < (runs * from_dp_event(vector, "add_remove")).epsilon(delta)


def test_a_discrete_gaussian_at_the_ends_of_its_fields(later: dict[str, Any]) -> None:
    """Noise that is far less than a shift, far more, or beyond what is summed: a price that no
    group or count makes smaller.
    """
    for sigma, sensitivity in ((1e-3, 1), (1.0, 10**15), (1e3, 1), (1e-4, 1), (1e4, 1)):
        curve = from_dp_event(later["DiscreteGaussianDpEvent"](sigma, sensitivity, 1), "add_remove")
        assert isinstance(curve, ZCDP) == (sigma in (1e-4, 1e4))
        costs = [float(one.delta(0.5)) for one in (curve, 2 * curve, acc.group_privacy(curve, 2))]
        assert 0 < costs[0] <= min(costs[1:]) <= 1
    one = later["DiscreteGaussianDpEvent"](2.0, 1, 1)
    added, replaced = (from_dp_event(one, relation) for relation in BOTH)
    assert replaced == acc.group_privacy(added, 2)


def test_an_event_is_read_from_json_by_its_class_alone() -> None:
    """Names of known classes with their own fields give the event; anything else is refused, and
    nothing is imported for it.
    """
    nested = '{"event": "Laplace", "noise_multiplier": 2}'
    both = (
        '{"event": "Composed", "of": [{"event": "NoOp"}, {"event": "SelfComposedDpEvent",'
        f' "count": 3, "of": {nested}}}]}}'
    )
    event = acc.dp_events.event_from_json(both)
    assert from_dp_event(event, "add_remove").core_epsilon == pytest.approx(1.5)
    for _ in range(30):
        nested = f'{{"event": "SelfComposed", "count": 1, "of": {nested}}}'
    wrong = [
        '{"event": "os.system"}',
        '{"event": "Gaussian"}',
        '{"event": "Gaussian", "sigma": 1}',
        '{"event": "Composed", "events": ""}',
        '{"noise": 1}',
        "[]",
        nested,
    ]
    for one in wrong:
        with pytest.raises((acc.errors.InvalidCurve, acc.ledger.InvalidEntry)):
            acc.dp_events.event_from_json(one)


def test_a_sum_of_curves_for_different_relations_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is proved for add_remove alone and what is proved for replace_one alone have no sum; the
    message has the remedy.
    """
    monkeypatch.setattr(acc.LaplaceDP, "proved_for", property(lambda _: "replace_one"))
    votes, other = acc.LaplaceDP(epsilon=0.123), acc.SampledGaussianDP(mu=1.0, rate=0.1)
    sums: list[Callable[[], object]] = [
        lambda: votes + 2 * other,
        lambda: acc.tighter(votes, other),
        lambda: sum([3 * votes, other]),
    ]
    for made in sums:
        with pytest.raises(acc.RelationMismatch, match="Configure both mechanisms under the same"):
            made()
    assert (votes + acc.GaussianDP(mu=1.0)).proved_for == "replace_one"
