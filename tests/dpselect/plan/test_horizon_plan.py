"""`plan_horizon`: what it says is what a horizon finds, and it says so where a horizon gains nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import accounting as acc
import dpselect as dps
from dpselect.continual import state as states
from dpselect.continual.horizon import close
from dpselect.plan import Arrivals, HorizonPlan, Profile, plan_horizon
from dpselect.sampling import sampler

BUDGET = acc.Budget(epsilon=1.0, delta=1e-6)
FEW: list[Any] = [dps.continual.HorizonClip()]
KINDS: Any = {"user": "int", "item": "int"}


def made_up(exponent: float = 1.0, users: int = 6000, **changed: Any) -> Profile:
    stated: Any = {"periods": 5, "active": 0.5, "new_items": 20}
    return Profile.zipf(exponent, 320, users, items_per_user=3.0).arriving(**(stated | changed))


def events_of(profile: Profile) -> Arrivals:
    assert profile.arrivals is not None
    return profile.arrivals


def found(mechanism: dps.ContinualTopK, log: Arrivals, seed: int, catalogue: list[int] | None) -> list[float]:
    """The recall of every period of a real horizon over the log."""
    state, source, shares = states.State.in_memory(mechanism, catalogue), sampler(np.random.default_rng(seed)), []
    frame = pd.DataFrame({"u": log.users, "i": log.items, "p": log.periods})
    for at in range(1, log.number + 1):
        new = frame[frame["p"] == at]
        state._connection.register("events", {"u": new["u"].to_numpy(), "i": new["i"].to_numpy()})
        chosen = close(state, at, states.Events("events", KINDS), source).labels or ()
        since = {"period": at, "running": 1, "window": at - (mechanism.window or 1) + 1}[mechanism.count]
        counted = frame[(frame["p"] >= since) & (frame["p"] <= at)].drop_duplicates(["u", "i"])["i"].value_counts()
        right = set(counts.index[counts >= counts.iloc[mechanism.k - 1]]) if len(counts := counted) >= mechanism.k else set()
        shares.append(len(right & set(chosen)) / mechanism.k)
    return shares


@pytest.mark.slow
@pytest.mark.parametrize(("count", "window", "unknown"), [("period", None, True), ("running", None, False), ("window", 3, True)])
def test_what_is_planned_is_found(count: Any, window: int | None, unknown: bool) -> None:
    """Within .08 of the mean of one horizon, whose noise is about .02."""
    profile = made_up()
    log = events_of(profile)
    plan = plan_horizon(BUDGET, 20, profile, count=count, window=window, unknown=unknown, clips=FEW)
    catalogue = None if unknown else list(range(int(log.items.max()) + 1))
    real = np.array(found(plan.mechanism, log, 0, catalogue))
    assert abs(real.mean() - plan.mean) < 0.08
    assert np.abs(real - plan.recall).max() < 0.3
    assert 0.1 < plan.mean < 0.95
    assert BUDGET.admits(plan.mechanism.curve)
    assert plan.mechanism.most_released == 20  # thresholds that were worked out are no settings


@pytest.mark.slow
def test_it_says_where_nothing_is_gained_and_where_it_is() -> None:
    """A plan of a horizon says in words which way finds more, and up to which number of periods."""
    strong = plan_horizon(BUDGET, 2, made_up(exponent=2.0, users=12_000), count="running", clips=FEW)
    assert strong.way == "either"
    assert next(strong.lines()).startswith("Nothing is gained")
    many = plan_horizon(BUDGET, 20, made_up(), count="running", clips=[*FEW, dps.continual.HorizonClip(exponent=0.0, cells=50)])
    assert many.way == "horizon"
    assert many.mechanism.users == FEW[0]
    assert [periods for periods, _ in many.longer] == [2, 4]
    assert [text.split()[0] for text in many.lines()] == ["Take", "Bound", "Periods", "Periods"]


@pytest.mark.parametrize(("delta", "how"), [(None, "(topk --every)"), (1e-7, "(topk --every, with a histogram)")])
def test_a_histogram_is_advised_for_an_unknown_domain_alone(delta: float | None, how: str) -> None:
    """Of a public domain none is drawn: Gaussian noise on all items is averaged."""
    mechanism = dps.ContinualTopK(k=1, periods=1, scale=1.0, delta=delta)
    plan = HorizonPlan(mechanism, recall=(0.1,), one_by_one=(0.5,), remembered=(0.9,), clips=(), longer=(), log="")
    assert how in next(plan.lines())


def test_a_public_log(tmp_path: Path) -> None:
    """Periods of one length from the first event to the last; without a statement that it is public it is refused."""
    log = pd.DataFrame({"who": ["a", "b", "a", None], "what": [7, 7, 8, 8], "when": [0, 4, 9, 5]})
    log.to_csv(tmp_path / "log.csv", index=False)
    log.assign(when=pd.to_datetime(log["when"], unit="D")).to_parquet(tmp_path / "log.parquet")
    columns: Any = {"user": "who", "item": "what", "time": "when", "periods": 2}
    log.assign(when=[f"{5 + day}.06.2026" for day in log["when"]]).to_csv(tmp_path / "dates.csv", index=False)
    for name, more in (("log.csv", {}), ("log.parquet", {}), ("dates.csv", {"time_format": "%d.%m.%Y"})):
        read = events_of(Profile.of_log(tmp_path / name, **columns, **more, public=True))
        rows = zip(read.periods.tolist(), read.users.tolist(), read.items.tolist(), strict=True)
        assert sorted(rows) == [(1, 0, 0), (1, 1, 0), (2, 0, 1)]
    with pytest.raises(dps.errors.InvalidRequest, match="public"):
        Profile.of_log(tmp_path / "log.csv", **columns)
    with pytest.raises(dps.errors.InvalidRequest, match=r"time_format='%d.%m.%Y' is about the column time="):
        Profile.of_log(tmp_path / "log.csv", user="who", item="what", public=True, time_format="%d.%m.%Y")
    with pytest.raises(dps.errors.InvalidRequest, match="columns"):
        Profile.of_log(tmp_path / "log.csv", **(columns | {"time": "nothing"}), public=True)


def test_what_is_made_up() -> None:
    """Made-up events keep to the stated users, items, periods and shares, and merge into longer periods."""
    log = events_of(made_up(seed=3))
    events = len(log.users)
    assert 2.5 < events / 6000 < 3.5
    assert (log.periods.min(), log.periods.max(), log.items.max() + 1 <= 320) == (1, 5, True)
    assert pd.Series(log.periods).groupby(log.users).nunique().max() <= 2
    assert len(set(log.items[log.periods == 1].tolist())) <= 300
    assert log.merged(2).number == 3
    assert set(log.merged(2).periods.tolist()) == {1, 2, 3}


@pytest.mark.parametrize(
    "changed", [{"users": 0}, {"periods": 0}, {"active": 0.0}, {"active": 1.5}, {"new_items": 320}, {"users": 10**9}]
)
def test_what_cannot_be_made_up(changed: dict[str, Any]) -> None:
    """A number that no events could have is refused by its name."""
    with pytest.raises(dps.errors.InvalidRequest, match=next(iter(changed))):
        made_up(**changed)


def test_what_cannot_be_planned() -> None:
    """Each thing that a plan of a horizon lacks is named."""
    with pytest.raises(dps.errors.InvalidRequest, match="profile"):
        plan_horizon(BUDGET, 3, pd.DataFrame())  # type: ignore[arg-type]
    with pytest.raises(dps.errors.InvalidRequest, match="arriving"):
        plan_horizon(BUDGET, 3, Profile.zipf(1.0, 30, 100))
    with pytest.raises(dps.errors.InvalidRequest, match="periods="):
        Profile.of_log("log.csv", user="u", item="i", time="t", public=True)
    with pytest.raises(dps.errors.InvalidRequest, match="clips"):
        plan_horizon(BUDGET, 3, made_up(), clips=[])


def test_any_profile_may_have_events_over_time() -> None:
    """Published counts are tried as Zipf's law is: each item as popular as the profile says."""
    counts = [900.0, 400.0, 200.0, 100.0]
    published = events_of(Profile.of_counts(counts, public=True, items_per_user=1.0).arriving(4))
    assert np.bincount(published.items) == pytest.approx(np.array(counts), rel=0.25)
