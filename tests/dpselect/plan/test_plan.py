"""`dpselect.plan`: what is recommended spends the budget, no more, and does what is predicted."""

from __future__ import annotations

import functools
import math
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fresh_runs import for_runs
from spread import spread

import accounting as acc
import dpselect as dps
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import members
from dpselect.pate.plan import VotesModel, VotingPlan, plan_votes
from dpselect.plan import Estimate, Profile, TopKPlan
from dpselect.plan.asked import plan
from dpselect.plan.default import default_mechanism
from dpselect.plan.fit import TopKRequest, fitted
from dpselect.plan.horizon_plan import HorizonPlan

module = sys.modules["dpselect.plan.topk_plan"]
BUDGET = acc.Budget(epsilon=1, delta=1e-6)
SHAPE = Profile.zipf(1.1, 2000, 100_000)
FEW = Profile.of_counts([5.0] * 4 + [0.0] * 1996, public=True)
QUICK = {"rounds": 300, "seed": 1}


@functools.cache
def planned(budget: acc.Budget, releases: int, **arguments: Any) -> TopKPlan:
    """All mechanisms for so many releases of the top 10, planned once."""
    return plan(budget, 10, releases, profile=SHAPE, **QUICK, **arguments)


@pytest.fixture
def whole() -> TopKPlan:
    """All mechanisms for 30 releases of the top 10."""
    return planned(BUDGET, 30)


@pytest.mark.slow
def test_every_mechanism_is_planned_or_has_a_reason(whole: TopKPlan) -> None:
    """No kind is passed over in silence, whatever is asked."""
    for found in (whole, planned(acc.Budget(rho=0.1, delta=1e-7), 5, unknown_domain=True, order=True)):
        named = {name.partition(",")[0] for name in [*(one.name for one in found.ranked), *(o.name for o in found.unsuited)]}
        assert named == set(members())
        assert all(len(other.reason) > 15 for other in found.unsuited)


@pytest.mark.slow
def test_the_best_comes_first(whole: TopKPlan) -> None:
    """Of a made-up shape by the mean over uneven ones, what gives up .02 of the worst case behind; the others by recall."""
    recalls = [one.quality.recall for one in whole.ranked]
    close = [one for one in whole.ranked if one.forecast is not None]
    assert len(close) > 1
    assert close == list(whole.ranked[: len(close)])
    floor = max(one.worst_recall or 0.0 for one in close) - 0.02
    behind = [(one.worst_recall or 0.0) < floor for one in close]
    assert behind == sorted(behind)
    for late in (False, True):
        means = [round(one.fresh_recall or 0.0, 3) for one, last in zip(close, behind, strict=True) if last is late]
        assert means == sorted(means, reverse=True)
    assert all(one.forecast[0] <= one.expected <= one.forecast[1] for one in close if one.forecast)
    rest = [r.value for r in recalls[len(close) :]]
    assert rest == sorted(rest, reverse=True)
    assert all(0 <= r.low <= r.value <= r.high <= 1 for r in recalls)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "releases", "arguments"),
    spread(
        [
            (BUDGET, 30, {}),
            (BUDGET, 7, {"relation": "replace_one"}),
            (acc.Budget(epsilon=2.0), 3, {}),
            (BUDGET, 1, {"unknown_domain": True}),
            (acc.Budget(rho=0.1), 5, {}),
            (BUDGET, 4, {"max_items_per_user": 5}),
            (acc.Budget(rho=0.1, delta=1e-7), 5, {"unknown_domain": True}),
        ],
        4,
    ),
)
def test_what_is_planned_costs_the_budget_and_no_more(budget: acc.Budget, releases: int, arguments: dict[str, object]) -> None:
    """An Accountant prices all releases at the budget at most, and at 99.9 % of it at least."""
    found = planned(budget, releases, **arguments)
    for one in found.ranked:
        if "gaussian_max" in found.curve(one).to_json():
            continue  # priced by Renyi divergence here; its loss distribution is slow, and cheaper still
        cost = budget.cost(acc.Accountant().compose(one.mechanisms[0], releases).curve, thorough=True)
        assert cost <= budget.limit, one.name
        assert cost <= one.cost * (1 + 1e-9), one.name
        if one.whole or budget.form != "approximate":  # what is clearly behind is priced more dearly, and by quick bounds alone
            assert cost >= 0.999 * budget.limit, one.name
            assert one.cost == pytest.approx(cost), one.name
        else:
            assert cost >= 0.8 * budget.limit, one.name


@pytest.mark.slow
def test_a_filter_pays_for_just_so_many_releases() -> None:
    """Charged separately, the budget's filter admits the planned number of releases of every mechanism, and not one more."""
    found = plan(BUDGET, 10, 30, profile=SHAPE, charged="separately", **QUICK)
    for one in found.ranked:
        assert BUDGET.how_many(one.mechanisms[0].curve) == 30, one.name


@pytest.mark.slow
def test_a_schedule_shares_the_budget() -> None:
    """Parts with different k get the same noise, and together they cost the budget; the quality is their mean."""
    found = plan(BUDGET, schedule=[(20, 5), (2, 50)], profile=SHAPE, mechanisms=["oneshot_top_k", "limited_domain"], **QUICK)
    for one in found.ranked:
        small, large = one.mechanisms
        assert (small.k, large.k) == (5, 50)  # type: ignore[attr-defined]
        assert small.curve.rdp(4.0) <= large.curve.rdp(4.0)
        assert BUDGET.admits(found.curve(one))
        recalls = [quality.recall.value for quality in one.by_part]
        assert one.quality.recall.value == pytest.approx((20 * recalls[0] + 2 * recalls[1]) / 22)
    with pytest.raises(InvalidRequest, match="2 parts"):
        _ = found.mechanism


@pytest.mark.slow
def test_the_order_is_released_where_it_is_needed() -> None:
    """With order=True only mechanisms that release it are planned."""
    found = plan(BUDGET, 10, 30, profile=SHAPE, order=True, **QUICK)
    assert all(one.ordered for one in found.ranked)
    assert any(o.name == "canonical_top_k" and "order" in o.reason for o in found.unsuited)
    assert found.named("oneshot_top_k").name in ("oneshot_top_k, gumbel", "oneshot_top_k, gaussian", "oneshot_top_k, logistic")
    assert "oneshot_top_k" not in {o.name for o in found.unsuited}  # the reason is that of its other noises
    assert any(o.name == "oneshot_top_k, exponential" and "order" in o.reason for o in found.unsuited)


@pytest.mark.slow
def test_a_plan_reads_back_and_finds_by_name(whole: TopKPlan) -> None:
    """from_json(to_json) is equal, and so are mechanisms; one is found by name or kind, or the error says why it is not."""
    assert TopKPlan.from_json(whole.to_json()) == whole
    for one in whole.ranked:
        assert dps.Mechanism.from_json(one.mechanisms[0].to_json()) == one.mechanisms[0]
    with pytest.raises(InvalidRequest, match="not JSON"):
        TopKPlan.from_json("{")
    assert whole.named("oneshot_top_k, laplace").name == "oneshot_top_k, laplace"
    assert whole.named("limited_domain").mechanisms[0].takes_observed
    for name, why in (("permute_and_flip", "one item"), ("magic", "unknown mechanism")):
        with pytest.raises(InvalidRequest, match=why):
            whole.named(name)


def test_nothing_but_the_seed_is_random() -> None:
    """The same seed gives the same plan, whatever iterable says the schedule; progress counts up to all mechanisms."""
    calls: list[tuple[int, int]] = []
    asked: dict[str, Any] = {"profile": Profile.zipf(1.1, 200, 2000), "mechanisms": ["limited_domain"], "rounds": 100}
    first, again, other = (
        plan(acc.Budget(rho=0.1, delta=1e-6), schedule=parts, seed=seed, progress=lambda *at: calls.append(at), **asked)
        for parts, seed in (([(5, 3)], 4), (((5, k) for k in (3,)), 4), ([(5, 3)], 5))
    )
    assert first == again
    assert first.recommended != other.recommended  # what fresh data would recall is simulated
    assert calls == [(0, 2), (1, 2), (2, 2)] * 3


def test_all_items_cost_nothing() -> None:
    """A set of all candidates tells nothing: no price, recall 1."""
    found = plan(BUDGET, 3, profile=Profile.of_counts([9, 5, 2], public=True), mechanisms=["oneshot_top_k"], **QUICK)
    free = found.named("oneshot_top_k, laplace")
    assert (free.cost, free.quality.recall.value) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 10, "releases": 0}, "releases=0"),
        ({"k": 0}, "k=0"),
        ({"k": 2001}, "k=2001.*2000 items"),
        (
            {"k": 1990, "unknown_domain": True, "profile": FEW},
            "4 items with any users",
        ),
        ({}, "no size is stated: give k="),
        ({"k": 5, "schedule": [(1, 5)]}, "leave k= out"),
        ({"schedule": []}, "one or more parts"),
        ({"k": 5, "unknown_domain": "private"}, "unknown_domain='private'"),
        ({"k": 5, "rounds": 5}, "rounds=5"),
        ({"k": 5, "seed": -1}, "seed=-1"),
        ({"k": 5, "charged": "never"}, "charged='never'"),
        ({"k": 5, "mechanisms": ["large_gap"]}, "large_gap cannot be planned.*not which"),
        ({"k": 5, "mechanisms": ["magic"]}, "magic"),
        ({"k": 5, "mechanisms": ["permute_and_flip"]}, "no mechanism can do this.*one item"),
        ({"k": 5, "sensitivity": dps.Sensitivity(), "max_items_per_user": 3}, "leave relation="),
        ({"k": 5, "epsilon": 1.0}, "budget= says what epsilon= says"),
        ({"k": 5, "users": 30}, "profile= says what users= says"),
        ({"k": 5, "releases": 10**13}, "releases=10000000000000 is more than"),
        ({"k": 5, "order": "yes"}, "order='yes'"),
        ({"k": 5, "max_items_per_user": True}, "max_items_per_user=True"),
        ({"k": 5, "max_items_per_user": "3", "relation": "replace_one"}, "max_items_per_user='3'"),
        ({"k": 5, "sensitivity": 3}, "must be a dpselect.Sensitivity, not int"),
        ({"k": 5, "mechanisms": []}, "one or more kinds"),
        ({"k": 5, "mechanisms": dps.JointTopK}, "one or more kinds"),
        ({"k": 5, "mechanisms": [None]}, "one or more kinds"),
        ({"schedule": 5}, "schedule=5"),
        ({"budget": acc.Budget(epsilon=1), "k": 5, "unknown_domain": True}, "needs a delta"),
        ({"budget": 1.0, "k": 5}, "budget must be"),
        ({"k": 5, "profile": np.array([3.0, 2.0])}, "private data leaks"),
        ({"k": 5, "profile": dps.Scores([1.0], sensitivity=dps.Sensitivity())}, "private data leaks"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments: dict[str, object], words: str) -> None:
    """The error names the argument, its value and the remedy."""
    with pytest.raises(InvalidRequest, match=words):
        plan(**{"budget": BUDGET, "profile": SHAPE, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(("items", "k", "l0"), [(10, 5, 1), (1000, 1, 1), (1000, 5, 20), (10**6, 50, 20)])
@pytest.mark.parametrize("budget", [acc.Budget(epsilon=0.2, delta=1e-6), acc.Budget(rho=0.1)])
def test_the_default_has_gaussian_noise_only_where_it_deviates_least(
    budget: acc.Budget, items: int, k: int, l0: int | None
) -> None:
    """And then at the price of a norm of the whole vector, never by the union over candidates."""
    request = TopKRequest(k=k, candidates=items, sensitivity=dps.Sensitivity(l0=l0))
    chosen: Any = default_mechanism(budget, request)
    gumbel: Any = fitted("oneshot_top_k", budget, request.model_copy(update={"noise": "gumbel"}))
    if chosen.noise == "gaussian":
        assert chosen.scale <= gumbel.scale * math.pi / math.sqrt(6)
        assert isinstance(chosen.curve, acc.GaussianDP)


@pytest.mark.slow
@pytest.mark.parametrize("mechanisms", [pytest.param(None, marks=pytest.mark.slow), ["oneshot_top_k"], ["limited_domain"]])
def test_two_hundred_fresh_runs_confirm_the_prediction(mechanisms: list[str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn by the mechanism itself on 50,000 items, recall lies where it is predicted, and the prediction where the runs are.

    Both intervals have confidence 1 - 1e-7: false alarms below 1e-6 in all.
    """
    shape = Profile.zipf(1.1, 50_000, 100_000)
    monkeypatch.setattr(import_module("dpselect.plan.topk_plan"), "_LEVEL", 1 - 1e-7)
    found = plan(BUDGET, 10, 30, profile=shape, mechanisms=mechanisms)
    predicted = found.recommended.quality.recall
    fresh = fresh_recalls(found.mechanism, shape, 200)
    low, high = for_runs(predicted, 200, level=1 - 1e-7)
    assert low <= fresh.mean() <= high
    measured = Estimate.from_runs(fresh, 1 - 1e-7)
    assert measured.low <= predicted.high
    assert predicted.low <= measured.high


def fresh_recalls(mechanism: dps.Mechanism, shape: Profile, rounds: int) -> np.ndarray:
    """(rounds,) shares of right items, drawn by the mechanism."""
    scores, rng = shape.scores(sensitivity=mechanism.covers), np.random.default_rng(2026)
    counts = shape.dense()
    k: int = mechanism.k  # type: ignore[attr-defined]
    hits = [(counts[list(mechanism.select(scores, rng=rng).indices)] >= counts[k - 1]).sum() for _ in range(rounds)]
    return np.array(hits) / k


ASKED = {"k": 3, "epsilon": 1.0, "delta": 1e-6}
MADE_UP = {"shape": "zipf:1", "items": 30, "users": 500}


@pytest.mark.slow
def test_what_a_plan_is_of_decides_what_it_is() -> None:
    """A horizon and a labeling job are asked for as by the command, and are what their rooms plan."""
    few: dict[str, Any] = {"mechanisms": ["joint_top_k"], "rounds": 100}  # epsilon and a shape are a budget and a profile
    assert plan(**ASKED, **MADE_UP, **few) == plan(BUDGET, 3, profile=Profile.zipf(1.0, items=30, users=500), **few)
    of_periods = plan(**ASKED, **MADE_UP, periods=2)
    assert isinstance(of_periods, HorizonPlan)
    assert plan(**ASKED, profile=Profile.zipf(1.0, items=30, users=500).arriving(2), periods=2) == of_periods
    votes: dict[str, Any] = {"teachers": 40, "labels": 6, "votes_per_item": 1.0, "agreement": 0.9}
    found = plan(epsilon=1.0, delta=1e-6, pate=True, releases=20, **votes)
    assert isinstance(found, VotingPlan)
    assert found.recommended == plan_votes(VotesModel(**votes), BUDGET, rounds=20).recommended


@pytest.mark.slow
def test_a_recall_is_searched_for_with_the_sensitivity_of_the_plan() -> None:
    """Scores that one user moves by twenty take more epsilon, and the plan made with it expects what was asked for."""
    wide = dps.Sensitivity(linf=20.0)
    asked: dict[str, Any] = {"k": 5, "shape": "zipf:1", "items": 300, "users": 20_000, "mechanisms": ["oneshot_top_k"]}
    plan = dps.plan(recall=0.9, **asked, sensitivity=wide)
    assert plan.recommended.expected >= 0.87
    assert plan.budget.limit > 3 * dps.plan(recall=0.9, **asked).budget.limit


def test_a_recall_is_searched_for_on_a_public_log(tmp_path: Path) -> None:
    """The file is read as it is stated: its items are those of the plan."""
    (tmp_path / "log.csv").write_text("u;i\n" + "".join(f"{user};{round(user**0.5)}\n" for user in range(400)))
    log: dict[str, Any] = {"shape": str(tmp_path / "log.csv"), "user": "u", "item": "i", "delimiter": ";", "public": True}
    plan = dps.plan(recall=0.5, k=2, **log, mechanisms=["oneshot_top_k"])
    assert plan.items == 21
    assert 0.4 < plan.recommended.expected < 0.6


# -- where the shape is wrong -------------------------------------------------------------------------------------------------

SMOOTH = Profile.zipf(1.0, 2000, 20_000, items_per_user=10)


@pytest.fixture(scope="module")
def smooth() -> TopKPlan:
    """A smooth shape on which a stability test is all but sure to pass, as its one gap is in its place."""
    return plan(BUDGET, 10, 30, profile=SMOOTH, unknown_domain=True, rounds=1000)


@pytest.mark.slow
def test_a_gap_that_only_a_smooth_shape_has_does_not_win(smooth: TopKPlan) -> None:
    """Best on the shape by a hair and much worse around it is not recommended."""
    test = smooth.named("stability_test")
    best = smooth.recommended
    assert test.quality.recall.value > best.quality.recall.value
    assert test.worst_recall is not None
    assert best.worst_recall is not None
    assert best.worst_recall > test.worst_recall + 0.05


@pytest.mark.slow
def test_fresh_recall_is_what_fresh_data_show() -> None:
    """The mechanism itself, run on 300 samples of Poisson counts, finds the predicted share within 0.08.

    The prediction is the mean of four samples, the check of 300, all recalls in [0, 1]: for the stability test, whose recall is
    nearly 0 or 1 with chance .8, four have a standard error of .2; for the recommended one it is below .01. Seeds are fixed.
    """
    found = plan(BUDGET, 10, 30, profile=Profile.of_counts(SMOOTH.dense(), public=True), unknown_domain=True, rounds=1000)
    rng, best = np.random.default_rng(7), found.recommended
    recalls = []
    for _ in range(300):
        counts = rng.poisson(SMOOTH.dense())
        scores = Profile.of_counts(counts, public=True).scores(observed=True)
        bar = np.sort(counts)[-10]
        recalls.append(sum(scores.dense()[i] >= bar for i in found.mechanism.select(scores, rng=rng).indices) / 10)
    assert best.fresh_recall == pytest.approx(np.mean(recalls), abs=0.08)


@pytest.mark.slow
def test_a_shape_too_small_to_vary_has_no_fresh_recall() -> None:
    """Where samples have fewer than k items with users, nothing is predicted for them, and the plan is made all the same."""
    rare = Profile.of_counts([0.5] * 10, public=True)
    tiny = plan(BUDGET, 10, 1, profile=rare, unknown_domain=True, rounds=100)
    assert all(one.fresh_recall is None for one in tiny.ranked)


@pytest.mark.slow
def test_a_made_up_shape_has_a_range_as_its_forecast(smooth: TopKPlan) -> None:
    """Counts of real logs scatter around a curve: a test that needs a gap has the wider range; public counts have none."""
    test, best = smooth.named("stability_test").forecast, smooth.recommended.forecast
    assert test is not None
    assert best is not None
    assert test[1] - test[0] > best[1] - best[0]
    assert "fit what is stated" in dict(next(smooth.words()).facts)["expect"]
    counts = Profile.of_counts(SMOOTH.dense(), public=True)
    assert plan(BUDGET, 10, 30, profile=counts, unknown_domain=True, rounds=100).recommended.forecast is None


@pytest.mark.slow
def test_a_stated_exponent_may_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forecast begins at what is found where counts fall more slowly than somebody guessed."""
    shape, budget = Profile.zipf(1.0, 2000, 5000, items_per_user=3.0), acc.Budget(epsilon=0.2, delta=1e-6)
    lowest = []
    for powers in (module._POWERS, (1.0, 1.0, 1.0)):
        monkeypatch.setattr(module, "_POWERS", powers)
        forecast = plan(budget, 50, profile=shape, rounds=100, mechanisms=["oneshot_top_k"]).recommended.forecast
        assert forecast is not None
        lowest.append(forecast[0])
    assert lowest[0] < lowest[1] - 0.1
