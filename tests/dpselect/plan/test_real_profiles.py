"""On published logs: what a plan promises from a guess, and what releases of the log find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpselect as dps
from dpselect.plan import Profile

DATA = Path(__file__).resolve().parents[3] / ".." / "shared" / "data"


@pytest.mark.slow
@pytest.mark.skipif(
    not DATA.exists(), reason="needs ../shared/data, which is not part of the project"
)
@pytest.mark.parametrize(("city", "k", "epsilon"), [(0, 10, 0.5), (1, 100, 1.0)])
def test_zipf_profile_forecast_is_close_on_real_logs(city: int, k: int, epsilon: float) -> None:
    """Told a log's items, users and mean of items per user, and an exponent of 1, a plan is .2 off
    what `topk` finds at most and its range has it, and the mean of twenty releases has a standard
    error of .03.

    Told the log itself it is off by .1 at most.
    """
    frame = pytest.importorskip("pandas").read_parquet(
        DATA / "foursquare" / "foursquare_nyc_tky_pairs_reconstructed.parquet"
    )
    log = frame[frame["city"] == sorted(frame["city"].unique())[city]].drop_duplicates(
        ["user_id", "item_id"]
    )
    counts, users = log["item_id"].value_counts(), log["user_id"].nunique()
    per_user = round(len(log) / users, 1)
    guess = Profile.zipf(1.0, len(counts), users, items_per_user=per_user)
    loads = log["user_id"].value_counts().value_counts()
    known = Profile.of_counts(
        counts, public=True, items_per_user={int(size): float(many) for size, many in loads.items()}
    )
    asked: dict[str, Any] = {"k": k, "epsilon": epsilon, "delta": 1e-6}
    right = set(counts.index[counts >= counts.iloc[k - 1]])
    released = [dps.topk(log, user="user_id", item="item_id", **asked).items for _ in range(20)]
    found = float(np.mean([len(right & set(items)) / k for items in released]))
    said, informed = (
        dps.plan(**asked, profile=one, unknown_domain=True).recommended.expected
        for one in (guess, known)
    )
    assert abs(said.recall - found) <= 0.25
    assert said.low - 0.05 <= found <= said.high + 0.05
    assert abs(informed.recall - found) <= 0.1
