"""`k` far above the number of items, and `k="all"`."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import dpselect as dps
from dpselect.plan import Profile

USERS = [380, 350, 320, 290, 260, 230, 200, 170, 140, 110]
ROWS = pd.DataFrame(
    [(f"u{user}", f"i{item}") for item, users in enumerate(USERS) for user in range(users)],
    columns=["user", "item"],
)
pytestmark = pytest.mark.filterwarnings("ignore:this release is not recorded")
ASKED: dict[str, Any] = {"user": "user", "item": "item", "epsilon": 5.0}


def _released(k: Any, **more: Any) -> set[Any]:
    return set(dps.topk(ROWS, **ASKED, k=k, **more).items)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1000, 100_000, "all"])
def test_a_large_k_releases_no_less_than_a_small_one(k: Any) -> None:
    """Ten items with more than a hundred users each are all released, however many are asked
    for.
    """
    assert _released(k, delta=1e-6) == {f"i{item}" for item in range(10)}


def test_k_all_releases_the_whole_catalog() -> None:
    """Of a public list, all are as many as it names."""
    assert _released("all", domain=[f"i{item}" for item in range(12)]) == {
        f"i{item}" for item in range(12)
    }


@pytest.mark.parametrize("k", [0, -1, "most", 1.5, True])
def test_k_must_be_a_number_or_all(k: Any) -> None:
    """A refusal names k."""
    with pytest.raises(dps.errors.InvalidRequest, match="k="):
        dps.topk(ROWS, **ASKED, k=k, delta=1e-6)


@pytest.mark.parametrize("unknown", [False, True])
def test_plan_of_all_items_covers_every_item(unknown: bool) -> None:
    """Of a catalog all it names; of an unknown domain all that anybody has."""
    profile = Profile.of_counts(
        [100.0 - item for item in range(33)] + [0.0] * 7, public=True, items_per_user=1
    )
    found = dps.plan(epsilon=20.0, delta=1e-6, k="all", unknown_domain=unknown, profile=profile)
    assert found.recommended.expected.released == pytest.approx(33 if unknown else 40, abs=2)
    assert found.recommended.expected.recall > 0.95
