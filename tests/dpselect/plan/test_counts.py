"""Counts beside a top k: what they take of the budget, that intervals hold as they say, and the way
to them from a shell.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import accounting as acc
import dpselect as dps
from dpselect.app.cli.app import app
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.release import public_grid
from dpselect.noise import noise_of
from dpselect.plan import default_choice, interval
from dpselect.plan.counts import MOST_ITEMS, CountNoise
from dpselect.plan.fit import fitted, noise_settings
from dpselect.plan.request import TopKRequest

APPROXIMATE = acc.Budget(epsilon=1.0, delta=1e-6)
FEW = dps.Sensitivity.of_counts(items_per_user=3)


def asked(**changes: Any) -> TopKRequest:
    """Five of a hundred items, with counts for a quarter of the budget."""
    return TopKRequest(**{"k": 5, "candidates": 100, "counts": 0.25, **changes})


@pytest.mark.parametrize(
    ("kind", "request_"),
    [
        ("sparse_histogram", asked(candidates=None, sensitivity=FEW)),
        ("oneshot_top_k", asked(sensitivity=FEW, noise="gaussian")),
        ("oneshot_top_k", asked(sensitivity=FEW, noise="laplace")),
    ],
)
def test_a_vectors_counts_are_free(kind: str, request_: TopKRequest) -> None:
    """Noise that pays for the whole vector shows its values at no price; a ranking alone needs no
    mean (C9), 1 % of it.
    """
    found, alone = (
        fitted(kind, APPROXIMATE, one)
        for one in (request_, request_.model_copy(update={"counts": None}))
    )
    assert found.releases_values
    assert not isinstance(found, dps.WithValues)
    more = noise_settings(found)[1] / noise_settings(alone)[1]
    assert 1 - 1e-6 <= more <= (1.016 if request_.noise == "gaussian" else 1 + 1e-6)


def test_reused_selection_scores_require_unclipped_users() -> None:
    """Sums of shares are no counts: without a second look the default is one on whole counts, and a
    stated clip is refused.
    """
    request_ = TopKRequest(k=50, counts=0.2, releases=4)
    chosen = default_choice(APPROXIMATE, request_)
    assert (chosen.clip, chosen.mechanism.releases_values) == (None, True)
    assert APPROXIMATE.how_many(chosen.mechanism) == 4
    with pytest.raises(InvalidRequest, match="sums of shares"):
        default_choice(APPROXIMATE, request_, clip=1.0, max_items_per_user=9)
    with pytest.raises(acc.AccountingError, match="counts"):
        TopKRequest(k=1, counts=1.0)


def test_error_quotes_the_budget_that_affords_no_counts() -> None:
    """Not by an order or a bracket, which nobody stated."""
    with pytest.raises(
        acc.errors.CalibrationError,
        match=r"counts of users fit epsilon=1e-9, delta=1e-300\. Raise",
    ):
        CountNoise.from_request(asked(recounted=True), acc.Budget(epsilon=1e-9, delta=1e-300))


# -- intervals -------------------------------------------------------------------------------------

SELECT = dps.PeelingTopK(k=3, noise="gumbel", scale=9.0)
FRESH = [
    dps.WithValues(mechanism=SELECT, noise="gaussian", scale=20.0),
    dps.WithValues(mechanism=SELECT, noise="laplace", scale=20.0),
    dps.OneshotTopK(k=3, noise="gumbel", scale=9.0, value_scale=20.0),
]
OWN = [
    dps.OneshotTopK(
        k=3, noise="gaussian", scale=20.0, sensitivity=FEW, candidates=400, values=True
    ),
    dps.OneshotTopK(k=3, noise="laplace", scale=20.0, sensitivity=FEW, candidates=400, values=True),
]


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("mechanism", [*FRESH, *OWN], ids=str)
def test_the_chance_of_an_interval_is_attained(mechanism: Any, confidence: float) -> None:
    """The noise leaves its interval as often as is said: not more, and with 5 % less width more
    often.
    """
    around = interval(mechanism, confidence, count=3)
    assert around is not None
    noise = noise_of("laplace" if mechanism.noise == "gumbel" else mechanism.noise)
    many = around.among
    width = (around.half_width - public_grid(20.0) / 2) / 20.0
    beyond = [
        -math.expm1(many * math.log1p(-2 * float(noise.sf(part * width)))) for part in (1.0, 0.95)
    ]
    assert (
        0.9 * (1 - confidence) * (0.5 if confidence == 0.5 and many > 1 else 1)
        <= beyond[0]
        <= 1 - confidence + 1e-12
    )
    assert beyond[1] > beyond[0] * 1.01
    assert around.chose == (mechanism not in FRESH)


def test_partially_counted_users_give_a_lower_bound_only() -> None:
    """A clip or a bound takes users away and adds none: the low end holds for their true number,
    and no high end is stated.
    """
    select, few = dps.PeelingTopK(k=3, noise="exponential", scale=20.0), dps.Sensitivity(l0=2)
    recounted = [
        dps.WithValues(mechanism=select, noise="gaussian", scale=5.0, clip=clip)
        for clip in (1.0, 1.5)
    ]
    part = [
        *recounted,
        dps.PerGroup(
            mechanism=dps.WithValues(mechanism=select, noise="laplace", scale=4.0),
            max_groups_per_user=2,
        ),
    ]
    part.append(dps.SparseHistogram(scale=8.0, delta=1e-6, sensitivity=few))
    whole = [
        dps.WithValues(mechanism=select, noise="gaussian", scale=5.0, clip=clip)
        for clip in (None, 2.0)
    ]
    for mechanisms, short in ((part, True), (whole, False)):
        for mechanism in mechanisms:
            around = interval(mechanism)
            assert around is not None
            assert around.at_least == short, mechanism
            assert ("lower bounds" in around.words()) == short
    selection = dps.Selection(indices=(4, 1), ordered=True, values=(30.0, 20.0))
    assert selection.columns(5.0, at_least=True)["low"] == (25.0, 15.0)
    assert selection.columns(5.0, at_least=True)["high"] == (None, None)


def test_interval_states_its_width_and_item_count() -> None:
    """Without values there is none; a histogram's holds for a stated number of items; discovered
    domains are counted.
    """
    assert interval(dps.PermuteAndFlip(epsilon=1.0)) is None
    histogram = dps.SparseHistogram(k=2, scale=8.0, delta=1e-6, sensitivity=FEW)
    around = interval(histogram)
    assert around is not None
    assert (around.among, around.half_width) == (MOST_ITEMS, histogram.margin(0.95, MOST_ITEMS))
    assert "shown hold at the same time, if at most 1,000,000 items" in around.words()
    both = dps.DiscoverThenSelect(
        discovery=histogram, selection=OWN[0].model_copy(update={"candidates": None}), candidates=30
    )
    found = interval(both)
    assert found is not None
    assert found.among == 30
    race = dps.RacingTopK(k=2, scale=8.0, delta=1e-6, sensitivity=FEW, values=True)
    assert interval(race) is None  # users weigh otherwise in later rounds
    cells = interval(dps.mechanisms.TopOfGroups(k=1, mechanism=histogram))
    assert cells == around
    groups = [
        interval(dps.PerGroup(mechanism=one, max_groups_per_user=2))
        for one in (histogram, FRESH[0], SELECT)
    ]
    assert [None if one is None else one.among for one in groups] == [MOST_ITEMS, 1, None]
    assert groups[1] is not None
    assert groups[2] is None
    for wrong in (lambda: histogram.margin(1.0), lambda: SELECT_ALONE.margin()):
        with pytest.raises(InvalidRequest):
            wrong()


@pytest.mark.parametrize("mechanism", [*FRESH, *OWN], ids=str)
def test_intervals_for_several_values_are_wider(mechanism: Any) -> None:
    """Half a chance of a miss for each of two; none for fewer than one value."""
    assert mechanism.margin(0.9, 2) == pytest.approx(mechanism.margin(0.95))
    with pytest.raises(InvalidRequest, match="among=0"):
        mechanism.margin(0.9, 0)


SELECT_ALONE = dps.OneshotTopK(k=1, noise="gumbel", scale=1.0)


# -- plans -----------------------------------------------------------------------------------------


# -- the command line ------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    """`dpselect` on a log of two items, in a folder with a catalog of four."""
    rows = "".join(
        f"u{user},{item}\n"
        for item, users in (("hit", 900), ("fair", 600))
        for user in range(users)
    )
    (tmp_path / "log.csv").write_text("user,item\n" + rows)
    (tmp_path / "items.txt").write_text("hit\nfair\nrare\nnever\n")

    def invoke(*words: object) -> Any:
        return CliRunner().invoke(app, list(map(str, words)))

    return invoke


@pytest.mark.slow
def test_topk_shows_counts_with_intervals(run: Any, tmp_path: Path) -> None:
    """A column of users and one of intervals, in text, JSON and CSV; the curve pays for both; the
    true counts lie within.
    """
    ask = (
        "topk",
        tmp_path / "log.csv",
        "--user",
        "user",
        "--item",
        "item",
        "--k",
        2,
        "--with-counts",
    )
    words = (*ask, "--rho", 0.5, "--domain", tmp_path / "items.txt")
    shown = run(*words)
    assert shown.exit_code == 0, shown.stderr
    for part in ("users (noisy)", "95% interval"):
        assert part in shown.stdout
    assert sum(" to " in line for line in shown.stdout.splitlines()) >= 2
    told = json.loads(run(*words, "--json", "--output", tmp_path / "a.csv").stdout)
    assert (told["mechanism"]["kind"], told["intervals"]["among"]) == ("with_values", 2)
    curve = acc.Curve.from_json(json.dumps(told["curve"]))
    assert 0.4999 < curve.rho <= 0.5
    with (tmp_path / "a.csv").open() as file:
        rows = {row["item"]: row for row in csv.DictReader(file)}
    # wider than the interval, so that luck (1e-9) does not fail the test
    for item, users in (("hit", 900), ("fair", 600)):
        low, high = float(rows[item]["low"]), float(rows[item]["high"])
        assert low - 2.2 * (high - low) < users < high + 2.2 * (high - low)
    bounded = (
        "--rho",
        0.5,
        "--delta",
        1e-5,
        "--max-items-per-user",
        2,
        "--clip",
        1,
        "--mechanism",
        "sparse_histogram",
    )
    held = json.loads(run(*ask, *bounded, "--json").stdout)
    assert (held["mechanism"]["mechanism"]["kind"], held["intervals"]["among"]) == (
        "sparse_histogram",
        2,
    )
