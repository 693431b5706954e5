"""`dpselect topk --group`: the top k of every group at once, from listed groups and from private
ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from shell import dpselect

import accounting as acc
import dpselect as dps
from dpselect.plan import Grouping, TopKRequest, default_choice

pytestmark = pytest.mark.usefixtures("shared_database")

# The winners of three towns, 300 users apart; one user alone is in a fourth.
WINNERS = {"Rome": ["hit", "fair"], "Oslo": ["fair", "hit"], "Bern": ["rare", "hit"]}
COUNTS = {
    "Rome": {"hit": 900, "fair": 500},
    "Oslo": {"fair": 900, "hit": 500},
    "Bern": {"rare": 900, "hit": 500},
}
# A town of one user, or an item of one, shows with a chance below delta.
CERTAIN = "--max-groups-per-user 2 --k 2 --epsilon 40 --delta 1e-12"


@pytest.fixture
def towns(tmp_path: Path) -> Path:
    """A log of three towns and a secret one, and a list of the towns beside it."""
    rows = [
        f"{town}{user},{item},{town}\n"
        for town, counts in COUNTS.items()
        for item, count in counts.items()
        for user in range(count)
    ]
    path = tmp_path / "log.csv"
    path.write_text("".join(["person,shop,town\n", *rows, "Rome0,hit,Hideaway\n"]))
    (tmp_path / "towns.csv").write_text("town,land\nOslo,N\nRome,I\nBern,S\nBonn,D\n")
    return path


@pytest.fixture
def per_town(towns: Path) -> Any:
    """Run `dpselect topk` per town with these further arguments."""

    def invoke(*arguments: object) -> Any:
        return dpselect("topk", towns, "--user person --item shop --group town", *arguments)

    return invoke


def by_town(selection: Any) -> dict[str, list[str]]:
    """Labels by group, in order."""
    found: dict[str, list[str]] = {}
    for town, label in zip(selection["groups"], selection["labels"], strict=True):
        found.setdefault(town, []).append(label)
    return found


@pytest.mark.slow
def test_every_town_has_its_own_ranking(per_town: Any) -> None:
    """Of groups that are discovered: a town of one user does not show, and the price is the
    budget.
    """
    result = per_town(CERTAIN, "--mechanism limited_domain --json")
    assert result.exit_code == 0, result.stderr
    released = json.loads(result.stdout)
    assert by_town(released["selection"]) == WINNERS
    assert released["groups"] == "discovered"
    mechanism = dps.Mechanism.from_json(json.dumps(released["mechanism"]))
    budget = acc.Budget(epsilon=40.0, delta=1e-12)
    assert budget.admits(mechanism.curve)
    assert budget.cost(mechanism.curve) >= 0.98 * budget.limit
    assert isinstance(mechanism, dps.PerGroup)
    assert mechanism.discovery is not None
    assert released["contributions"]["max_groups_per_user"] == mechanism.max_groups_per_user == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "most", "candidates", "clip"),
    [(5, 1, None, 1.0), (2, 3, None, 1.0), (1, 1, None, None), (1, 4, 60, None), (5, 1, 60, 1.0)],
)
def test_default_mechanism_clips_when_recall_improves(
    k: int, most: int, candidates: int | None, clip: float | None
) -> None:
    """More than one item of each group is a vector of clipped users; the noise spends the
    budget.
    """
    budget, request = acc.Budget(epsilon=1.0, delta=1e-6), TopKRequest(k=k, candidates=candidates)
    groups = Grouping(most, None if candidates is None else 9)
    chosen = default_choice(budget, request, groups=groups)
    assert chosen.clip == clip
    assert 0.98 * budget.limit <= budget.cost(chosen.mechanism.curve) <= budget.limit


def test_the_default_reads_the_log_as_it_clips(per_town: Any, towns: Path) -> None:
    """Shares of users are what is selected by, and the answer says so."""
    clipped = "--max-groups-per-user 1 --k 3 --epsilon 8 --delta 1e-6 --clip 1"
    listed = ("--max-items-per-user 300 --json --groups", towns.parent / "towns.csv")
    result = per_town(clipped, *listed)
    assert result.exit_code == 0, result.stderr
    released = json.loads(result.stdout)
    assert released["contributions"] | {"salt": ""} == {
        **{"max_items_per_user": 300, "max_groups_per_user": 1, "clip": 1.0, "salt": ""}
    }
    assert by_town(released["selection"]) == WINNERS


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 3, 7])
@pytest.mark.parametrize(
    "budget",
    [acc.Budget(rho=0.1, delta=1e-6), acc.Budget(epsilon=1.0, delta=1e-6, order="inf")],
    ids=["zcdp", "pure sums"],
)
def test_discovered_groups_fit_a_budget_all_of_whose_delta_is_for_failures(
    budget: acc.Budget, most: int
) -> None:
    """The parts of delta add up to no more than it: a rounding above it would leave no mechanism at
    all.
    """
    request = TopKRequest(k=5, sensitivity=dps.Sensitivity())
    chosen = default_choice(budget, request, groups=Grouping(most)).mechanism
    assert budget.admits(chosen.curve)
