"""Constants that no divergence comes near: each is held to its closed form, so that 5 % less, or
one off, is noticed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import mpmath as mp
import numpy as np
import pyarrow as pa
import pytest
from dp_accounting import dp_event

import accounting as acc
import dpselect as dps
from accounting.cost import Cost
from accounting.curves.profile_table import ProfileTable
from accounting.dp_events import _sampled_delta
from accounting.ledger.model import refund, rounding_tolerance
from accounting.ledger.quota import Accounts, Quota, Revision
from accounting.measures import anytime_overhead
from dpselect import events, pate
from dpselect.mechanisms.noisy_max import winners_curve
from dpselect.sampling import SeededSampler
from dpselect.sampling.base import Sampler

DELTAS = (1e-300, 1.1e-13, 1e-6, 0.0123456789, 1 / 3, 0.5)


@pytest.mark.parametrize("delta", DELTAS)
def test_anytime_overhead_matches_its_closed_form(delta: float) -> None:
    """Theorem F6: ln(1/delta)/(order - 1) of the decimals as printed, rounded up by less than
    1e-12.
    """
    with mp.workdps(60):
        for order in (1.01, 1.1, 4 / 3, 2.0, 23.26, 777.7, 1e6):
            exact = mp.log(1 / mp.mpf(repr(delta))) / (mp.mpf(repr(order)) - 1)
            paid = mp.mpf(str(anytime_overhead(delta, order)))
            assert exact <= paid <= exact * (1 + mp.mpf("1e-12")) + mp.mpf("1e-12")


@pytest.mark.parametrize("delta", DELTAS[1:])
def test_a_sampled_delta_is_rounded_up(delta: float) -> None:
    """rate times delta, never below it, and not 1e-15 above."""
    for rate in (1e-9, 0.01, 0.1, 1 / 3, 0.7, 0.999):
        exact = Fraction(rate) * Fraction(delta)
        assert exact <= Fraction(_sampled_delta(rate, delta)) <= exact * (1 + Fraction(1, 10**15))


@pytest.mark.parametrize("mu", [1e-6, 0.1, 0.7, 1 / 3, 50.0])
def test_a_composition_of_gaussians_is_sampled_as_one_rounded_up(mu: float) -> None:
    """The mu of `count` Gaussian mechanisms is sqrt(count) mu: never below it, and not 1e-14
    above.
    """
    for count in (1, 2, 3, 7, 10, 999, 10**6):
        whole = count * acc.GaussianDP(mu=mu)
        found: Any = acc.poisson_sampled(whole, 0.5, relation="add_remove")
        with mp.workdps(40):
            exact = mp.sqrt(2 * mp.mpf(whole.rho))
            assert exact <= found.mu <= exact * (1 + mp.mpf("1e-14"))
        assert found.mu == pytest.approx(math.sqrt(count) * mu, rel=1e-12)


@pytest.mark.parametrize(("noise", "buckets"), [(0.9, 3), (0.5, 10), (0.1, 100)])
def test_the_rho_of_a_table_is_the_divergence_of_the_pair_that_it_states(
    noise: float, buckets: int
) -> None:
    """Randomized response of several answers attains its table: its Kullback-Leibler divergence is
    (1 - noise) epsilon.
    """
    curve = acc.from_dp_event(dp_event.RandomizedResponseDpEvent(noise, buckets), "replace_one")
    assert isinstance(curve, ProfileTable)
    told, other = 1 - noise + noise / buckets, noise / buckets
    exact = (1 - noise) * math.log(told / other)
    assert exact <= curve.rho * (1 + 1e-12)
    least = exact
    for order in (1.01, 1.2, 1.5, 2.0, 3.0, 8.0):
        moment = (
            told**order * other ** (1 - order)
            + other**order * told ** (1 - order)
            + (buckets - 2) * other
        )
        divergence = math.log(moment) / (order - 1)
        assert divergence <= order * curve.rho * (1 + 1e-12)
        least = max(least, divergence / order)
    assert curve.rho <= least * 1.1


@pytest.mark.parametrize(
    ("k", "m", "scale"), [(400, 800, 20_000.0), (1000, 10_000, 5_000.0), (1000, 10**6, 6_000.0)]
)
def test_the_family_of_one_shot_laplace_is_its_closed_form(k: int, m: int, scale: float) -> None:
    """Theorem M2: every point of the table costs m exp(-(epsilon/(4 ratio))^2/min(k, m - k)),
    rounded up by less than 1e-9, and none lies beyond epsilon .2 and delta .05, up to which it is
    proved.
    """
    covers = dps.Sensitivity(monotone=False)
    curve = winners_curve("laplace", scale, covers, m, k)
    tables = [part for part in getattr(curve, "curves", (curve,)) if isinstance(part, ProfileTable)]
    assert tables
    ratio, times = covers.range / scale, min(k, m - k)
    for epsilon, delta in zip(tables[0].epsilons[:-1], tables[0].deltas[:-1], strict=True):
        exact = m * math.exp(-((epsilon / (4 * ratio)) ** 2) / times)
        assert exact * (1 - 1e-12) <= delta <= exact * (1 + 1e-9)
        assert epsilon <= 0.2
        assert delta <= 0.05


@pytest.mark.parametrize(("gap", "candidates"), [(3.0, 2), (9.0, 5), (20.0, 100)])
def test_the_chance_of_the_true_set_is_its_closed_form(gap: float, candidates: int) -> None:
    """Theorem M4; for two candidates it equals the chance that two Laplace noises differ by less
    than the gap.
    """
    mechanism = dps.OneshotTopK(k=1, noise="laplace", scale=1.5)
    width = gap / 1.5
    missed = (candidates - 1) * (2 + width) * math.exp(-width) / 4
    assert mechanism.true_set_bound(gap, candidates) == pytest.approx(
        max(0.0, 1 - missed), rel=1e-13
    )
    pair = mechanism.probabilities(
        dps.Scores([gap, 0.0], sensitivity=mechanism.sensitivity_bound, kind="utilities")
    )
    right = next(
        p
        for outcome, p in pair.items()
        if 0 in (outcome if isinstance(outcome, frozenset | tuple) else (outcome,))
    )
    assert mechanism.true_set_bound(gap, 2) == pytest.approx(right, abs=1e-12)


@pytest.mark.parametrize("l0", [1, 2, 3, 20])
def test_limited_domain_prefers_by_what_one_user_can_touch(l0: int) -> None:
    """The threshold's height grows with ln min(l0, rank): what one user can push over it, and no
    more.
    """
    mechanism = dps.LimitedDomain(k=2, kbar=6, kbar_least=2, epsilon=1.0, delta=1e-3, l0=l0)
    preferences = mechanism._preferences(np.zeros(5))
    sizes = np.minimum(l0, np.arange(2, 7))
    assert preferences[0] - preferences == pytest.approx(
        np.log(sizes / sizes[0]) / mechanism.epsilon, abs=1e-5
    )
    margins = np.array([mechanism.margin_at(size) for size in range(1, 7)])
    touched = np.minimum(l0, np.arange(1, 7))
    assert margins == pytest.approx(1 + np.log(touched * 0.999 / 1e-3), rel=1e-12)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_ballots_of_one_vote_more_than_configured_are_refused(relation: Any) -> None:
    """A mechanism for ballots of one vote takes ballots of one and refuses ballots of two; where
    only counts are known, three teachers of one vote each give three votes and not four.
    """
    mechanism = pate.GNMax(sigma=3.0, labels=4, relation=relation)
    told = [
        pate.Ballots(np.tile(np.arange(4) < votes, (2, 3, 1)), split="identifier")
        for votes in (1, 2)
    ]
    counted = [pate.Ballots(np.array([[2, 1, 0, last]]), teachers=3) for last in (0, 1)]
    for fits, too_many in (
        (told[0], told[1]),
        *([(counted[0], counted[1])] if relation == "replace_one" else []),
    ):
        assert len(mechanism.select_many(fits, rng=np.random.default_rng(1))) == fits.rounds
        with pytest.raises(pate.InvalidBallots, match="more votes than the 1"):
            mechanism.select_many(too_many, rng=np.random.default_rng(1))


@pytest.mark.parametrize("rho", [0.02, 0.3])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_prices_of_stable_sets_are_their_closed_forms(rho: float, relation: Any) -> None:
    """Theorems S4 to S6: a choice of 2 sqrt(rho) nats, a Gaussian test, the failure as stated."""
    failure, root, how = 1e-7, math.sqrt(rho), {"failure_delta": 1e-7, "relation": relation}
    test, choice = acc.GaussianDP(mu=root), acc.BoundedRange(epsilon=2 * root)
    stable = dps.StableTopK(rho=rho, kbar=5, **how)
    assert stable.curve == acc.Approximate(curve=choice + test, delta0=failure)
    assert pate.StableVoting(rho=rho, labels=6, **how).curve == stable.curve
    one = dps.StableTopKFixed(k=1, rho=2 * rho, kbar=5, penalty=1.0, **how)
    picked = acc.BoundedRange(epsilon=2 * math.sqrt(2 * rho))
    assert one.curve == acc.Approximate(curve=choice + test + picked, delta0=failure)
    three = dps.StableTopKFixed(k=3, rho=2 * rho, kbar=5, penalty=1.0, **how)
    assert three.curve.delta0 == failure
    exact = 3 * acc.BoundedRange(epsilon=2 * math.sqrt(2 * rho / 3))
    for order in (1.05, three.picks.table_orders[30], three.picks.table_orders[-1]):
        stated = min(float(exact.rdp(order)), order * rho)
        assert float(three.picks.rdp(order)) == pytest.approx(stated, rel=1e-6)
    assert three.picks.rho == pytest.approx(rho, rel=1e-12)
    # A pick of n has 2 sqrt(rho/n) nats and no more: its noise is not 5 % less.
    width = 1 if relation == "add_remove" else 2
    assert three.pick_scale(2) == pytest.approx(width / (2 * math.sqrt(2 * rho / 2)), rel=1e-12)


@pytest.mark.parametrize(("mu", "candidates"), [(0.1, 2), (0.4, 10), (2.0, 1000), (0.03, 10**18)])
def test_the_moments_of_a_gaussian_maximum_are_their_union_bound(
    mu: float, candidates: int
) -> None:
    """Theorem C9: order mu^2/2 + ln(candidates)/(order - 1), and its least value below the order
    where that is.
    """
    curve, best = (
        acc.curves.GaussianMax(mu=mu, candidates=candidates),
        1 + math.sqrt(2 * math.log(candidates)) / mu,
    )
    least = mu**2 / 2 + mu * math.sqrt(2 * math.log(candidates))
    assert curve.rho == pytest.approx(least, rel=1e-12)
    for order in (1.01, (1 + best) / 2, best):
        assert float(curve.rdp(order)) == pytest.approx(min(least, order * curve.rho), rel=1e-12)
    for order in (1.5 * best, 20 * best):
        assert float(curve.rdp(order)) == pytest.approx(
            order * mu**2 / 2 + math.log(candidates) / (order - 1), rel=1e-12
        )


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[acc.Ledger]:
    """One with a dataset of much to spend."""
    with acc.Ledger.open(f"sqlite:///{tmp_path}/privacy.db") as opened:
        opened.create_dataset("visits", acc.Budget(epsilon=1000.0), "add_remove")
        yield opened


def reserved(ledger: acc.Ledger, key: str) -> Any:
    """The entry of a tenth of it."""
    return ledger.reserve(
        "visits", acc.PureDP(epsilon=100.0), relation="add_remove", key=key
    ).entries[0]


def test_rounding_tolerance_applies_only_across_machines(ledger: acc.Ledger) -> None:
    """Two units and two in 10^8 of the price where machines differ, nothing where this one wrote
    both; half is kept back.
    """
    budget, opening = ledger.dataset("visits").budget, reserved(ledger, "one")
    assert rounding_tolerance(budget, opening, opening) == 0
    assert (
        rounding_tolerance(budget, replace(opening, package="99.0"), opening)
        == 2 * (1 + opening.main // 10**8)
        > 2
    )
    assert refund(budget, opening, None, opening).main == opening.main
    assert (
        refund(budget, opening, None, replace(opening, package="99.0")).main
        == opening.main - 1 - opening.main // 10**8
    )


def test_quota_tolerance_adds_up_over_other_machines(ledger: acc.Ledger) -> None:
    """Two charges of another machine leave an account in doubt by both, and by not a unit more."""
    quota = Quota(name="limit", limit=acc.Budget(epsilon=400.0))
    charged = [reserved(ledger, key) for key in "ab"]
    book = Accounts(ledger.dataset("visits"), [Revision(0, quota)])
    assert [list(book.follow(replace(entry, package="99.0"))) for entry in charged] == [[], []]
    ((place, spent),) = book.sums.items()
    doubts = sum(2 * (1 + entry.main // 10**8) for entry in charged)
    for off, differs in (
        (0, False),
        (doubts, False),
        (doubts + 1, True),
        (-doubts, False),
        (-doubts - 1, True),
    ):
        assert book.differs({place: Cost(spent.main + off, 0)}) == differs


def test_the_reader_loads_and_fetches_no_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file makes the engine install or load what is not built in: nothing is fetched, on any
    connection that is opened.
    """
    seen: list[dict[str, Any]] = []
    connect = duckdb.connect

    def noted(*args: Any, **keywords: Any) -> Any:
        connection = connect(*args, **keywords)
        names = ("autoinstall_known_extensions", "autoload_known_extensions")
        seen.append(
            {
                name: connection.execute(f"SELECT current_setting('{name}')").fetchone()[0]
                for name in names
            }
        )
        return connection

    monkeypatch.setattr(duckdb, "connect", noted)
    events.read(pa.table({"u": ["a", "b"], "i": ["x", "x"]}), user="u", item="i")
    assert seen
    assert all(not any(settings.values()) for settings in seen)


class _Words(SeededSampler):
    """Hands out these words first."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(np.random.default_rng(1))
        self._first = list(words)

    def words(self, count: int) -> Any:
        taken, self._first = self._first[:count], self._first[count:]
        return np.concatenate([np.array(taken, dtype=np.uint64), super().words(count - len(taken))])


def test_words_that_do_not_split_evenly_and_tied_keys_are_drawn_again() -> None:
    """Of 2^64 words 2^64 mod 3 = 1 is left over, the last: it is drawn again, and the one before it
    is not. Equal keys of a subset would be ordered by the sort's own rule: such keys are dropped
    whole.
    """
    assert Sampler.below(_Words([2**64 - 1, 1]), np.array([3])).tolist() == [1]
    assert Sampler.below(_Words([2**64 - 2, 1]), np.array([3])).tolist() == [(2**64 - 2) % 3]
    assert Sampler.subset(_Words([7, 7, 9, 30, 20, 10]), 3, 1).tolist() == [2]
