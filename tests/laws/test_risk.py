"""What a test can find, against exact trade-off curves, and against tests that are made."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, laplace, norm
from spread import spread

import accounting as acc
from accounting.convert.bounds import LEAST_DELTA, best_delta
from accounting.errors import InvalidArgument
from accounting.risk import Risk, _hides_beyond

RATES = [1e-4, 0.01, 0.05, 0.1, 0.3, 0.5, 0.9]


def gaussian(mu: float, rate: float) -> float:
    """The most powerful test of a Gaussian shift."""
    return float(norm.cdf(norm.ppf(rate) + mu))


def laplacian(epsilon: float, rate: float) -> float:
    """The most powerful test of a Laplace shift: reject above a threshold."""
    return float(laplace.sf(laplace.isf(rate) - epsilon))


def told(epsilon: float, rate: float) -> float:
    """The most powerful test of randomized response."""
    return min(math.exp(epsilon) * rate, 1 - math.exp(-epsilon) * (1 - rate))


def responses(epsilon: float, count: int, rate: float) -> float:
    """The most powerful test of several randomized responses: by how many are one, randomized at
    the threshold.
    """
    truth, heads = 1 / (1 + math.exp(-epsilon)), np.arange(count + 1)[::-1]
    false, true = binom.pmf(heads, count, 1 - truth), binom.pmf(heads, count, truth)
    return float(
        np.interp(
            rate, np.concatenate([[0], np.cumsum(false)]), np.concatenate([[0], np.cumsum(true)])
        )
    )


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("size", [0.05, 0.5, 1.0, 3.0])
def test_the_bound_is_the_trade_off_of_gaussian_laplace_and_randomized_response(
    size: float, rate: float
) -> None:
    """For each of the three the exact test is met from above, to one part in a million."""
    for curve, exact in (
        (acc.GaussianDP(mu=size), gaussian(size, rate)),
        (acc.LaplaceDP(epsilon=size), laplacian(size, rate)),
        (acc.PureDP(epsilon=size), told(size, rate)),
    ):
        found = curve.attack(fpr=rate)
        assert exact <= found * (1 + 1e-12)
        assert found <= exact * (1 + 1e-6), type(curve).__name__


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1, 0.5])
@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 30), (0.5, 5), (1.0, 2)])
def test_the_bound_of_a_composition_is_that_of_the_test_on_all_answers(
    epsilon: float, count: int, rate: float
) -> None:
    """The best test on several responses is below the bound of their composition, and within a
    hundredth of it.
    """
    exact, found = (
        responses(epsilon, count, rate),
        (count * acc.PureDP(epsilon=epsilon)).attack(fpr=rate),
    )
    assert exact <= found * (1 + 1e-9)
    assert found <= 1.01 * exact


@pytest.mark.parametrize("rate", RATES)
def test_failure_probability_adds_to_the_attack_bound(rate: float) -> None:
    """A mechanism that fails with a stated chance, telling all, is tested so: true positives are
    below the bound, and near it.
    """
    delta, mu = 1e-3, 0.5
    exact = delta + (1 - delta) * gaussian(mu, rate)  # the user's presence fails alone
    found = acc.Approximate(curve=acc.GaussianDP(mu=mu), delta0=delta).attack(fpr=rate)
    assert exact <= found <= exact + 1.01 * delta


@pytest.mark.parametrize("size", [0.05, 0.5, 2.0])
def test_the_advantage_is_the_total_variation_distance(size: float) -> None:
    """Of a Gaussian, Laplace and response pair: the guess at even odds is right by (1 +
    advantage)/2.
    """
    assert acc.GaussianDP(mu=size).advantage == pytest.approx(2 * norm.cdf(size / 2) - 1, rel=1e-9)
    assert acc.LaplaceDP(epsilon=size).advantage == pytest.approx(1 - math.exp(-size / 2), rel=1e-9)
    assert acc.PureDP(epsilon=size).advantage == pytest.approx(math.tanh(size / 2), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "curve",
    spread(
        [
            acc.ZCDP(rho=0.1),
            acc.RenyiTable(orders=[8.0], values=[0.2]),
            30 * acc.BoundedRange(epsilon=0.08),
            acc.ZCDP(rho=20.0),
        ],
        2,
    ),
    ids=["zcdp", "table", "bounded range", "useless"],
)
def test_the_trade_off_is_one(curve: acc.Curve) -> None:
    """From the false positive rate to 1, rising, at most the advantage above chance, and concave up
    to the search's error.
    """
    rates = np.linspace(0, 1, 21)
    found = curve.attack(rates)
    assert found.shape == rates.shape
    assert np.all(found >= rates)
    assert np.all(found <= np.minimum(1, rates + curve.advantage + 1e-12))
    assert np.all(np.diff(found) >= -1e-9)
    assert np.all(np.diff(found, 2) <= 1e-6)
    if isinstance(curve, acc.ZCDP):  # a bound on the Gaussian that attains it
        mu = math.sqrt(2 * curve.rho)
        assert np.all(found[1:] >= [gaussian(mu, rate) for rate in rates[1:]])
        assert curve.advantage >= acc.GaussianDP(mu=mu).advantage


def test_risk_wording_rounds_up_and_names_the_relation() -> None:
    """Nobody reads a smaller risk than there is; under replace_one others are suspected."""
    curve = acc.GaussianDP(mu=0.2508)  # (1, 1e-6)
    words = Risk.from_curve(curve).in_words()
    assert (
        words
        == "Suppose an attacker accepts one false accusation per 100 people who are not in the"
        " data. They can then identify at most 1.9 of every 100 people who are; guessing"
        " identifies 1"
    )
    assert curve.attack(0.01) <= 0.019
    assert "people whose data were replaced" in Risk.from_curve(curve).in_words("replace_one")
    assert Risk.from_curve(acc.PureDP(epsilon=50.0)).in_words().count("100 of every 100") == 1
    assert "records that are not in the data" in Risk.from_curve(curve).in_words(unit="record")
    assert "records that were replaced" in Risk.from_curve(curve).in_words("replace_one", "record")
    stated, gain = Risk.from_curve(curve, 0.1), curve.advantage
    assert (stated.advantage, stated.fpr, stated.found) == (gain, 0.1, curve.attack(0.1))
    assert stated.right_guesses == pytest.approx((1 + gain) / 2, rel=1e-11)
    assert stated.right_guesses >= (1 + gain) / 2


def test_arrays_are_taken_where_a_number_is() -> None:
    """Epsilons, deltas and rates of an array are those of its numbers, in its shape; what is no
    rate is refused.
    """
    curve = acc.GaussianDP(mu=0.3)
    deltas = np.array([[1e-6, 1e-5], [1e-4, 1e-3]])
    assert np.array_equal(
        curve.epsilon(deltas), [[curve.epsilon(float(one)) for one in row] for row in deltas]
    )
    assert np.array_equal(curve.delta([0.5, 1.0]), [curve.delta(0.5), curve.delta(1.0)])
    for wrong in (-0.1, 1.1, math.nan, True, "x"):
        with pytest.raises(InvalidArgument, match="fpr"):
            curve.attack(wrong)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgument):
        curve.epsilon([[1e-6], [1e-6, 1e-5]])  # type: ignore[list-item]


@pytest.mark.slow
def test_a_plot_has_two_axes_and_no_gaps() -> None:
    """The trade-off from 0 to 1 above chance, and epsilon falling with delta."""
    pytest.importorskip("matplotlib").use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    left, right = acc.GaussianDP(mu=0.5).plot()
    rates, found = left.lines[0].get_data()
    assert (rates[0], rates[-1], found[-1]) == (0.0, 1.0, 1.0)
    assert np.all(np.asarray(found) >= np.asarray(rates))
    epsilons = np.asarray(right.lines[0].get_ydata())
    assert np.all(np.diff(epsilons) < 0)
    again = acc.PureDP(epsilon=1.0).plot((left, right))
    assert again == (left, right)
    assert len(left.lines) == 4
    pyplot.close(left.figure)


@pytest.mark.parametrize("loss", [1e-5, 0.3, 1.0, 1.837, 4.0])
def test_renyi_advantage_is_attained_by_randomized_response(loss: float) -> None:
    """A randomized response with this rho attains it, so nothing less holds; bad events come on
    top.
    """
    # its Kullback-Leibler divergence, which no order exceeds
    rho, exact = loss * math.tanh(loss / 2), math.tanh(loss / 2)
    assert exact * (1 - 1e-12) <= acc.ZCDP(rho=rho).advantage <= exact * (1 + 1e-5)
    failing = acc.Approximate(curve=acc.ZCDP(rho=rho), delta0=0.01).advantage
    assert min(1, exact + 0.01) * (1 - 1e-12) <= failing <= min(1, exact + 0.01) * (1 + 1e-5)


@pytest.mark.parametrize(
    ("true", "false"), [(0.3, 0.2), (0.7, 0.2), (0.05, 0.001), (0.97, 0.6), (0.999, 0.9)]
)
def test_renyi_attack_bound_is_attained_by_two_coins(true: float, false: float) -> None:
    """Coins with these rates have some rho: at it the bound is the true positive rate of the coins,
    to a part in 10^4.
    """
    a = 1 + np.geomspace(1e-6, 1e4, 4000)

    def coins(p: float, q: float) -> float:
        heads, tails = (
            a * math.log(p) + (1 - a) * math.log(q),
            a * math.log(1 - p) + (1 - a) * math.log(1 - q),
        )
        return float(np.max(np.logaddexp(heads, tails) / (a - 1) / a))

    found = acc.ZCDP(rho=max(coins(true, false), coins(false, true)) * (1 + 1e-5)).attack(false)
    assert true <= found <= true * (1 + 1e-3)


def test_the_advantage_of_a_plan_known_by_its_rho() -> None:
    """Where a Gaussian's rho alone is known it is .726, below what any order's delta or Pinsker's
    inequality say.
    """
    assert acc.ZCDP(rho=1.337).advantage == pytest.approx(0.72617, abs=1e-5)
    assert acc.ZCDP(rho=20.0).advantage < 1
    assert acc.PureDP(epsilon=0.0).advantage == 0


@pytest.mark.parametrize("gain", [1e-6, 0.1, 0.726, 0.999])
def test_a_budget_of_an_advantage_buys_the_noise_that_attains_it(gain: float) -> None:
    """Closed forms: a Gaussian shift, randomized response, and several releases of one plan."""
    budget = acc.Budget(advantage=gain)
    mu = acc.calibrate(lambda mu: acc.GaussianDP(mu=mu), budget)
    assert 2 * norm.cdf(mu / 2) - 1 == pytest.approx(gain, rel=1e-6)
    epsilon = acc.calibrate(lambda epsilon: acc.PureDP(epsilon=epsilon), budget)
    assert math.tanh(epsilon / 2) == pytest.approx(gain, rel=1e-6)
    four = acc.calibrate(lambda mu: 4 * acc.GaussianDP(mu=mu), budget)
    assert four == pytest.approx(mu / 2, rel=1e-6)
    assert budget.admits(acc.GaussianDP(mu=mu))
    assert not budget.admits(acc.GaussianDP(mu=1.001 * mu))
    assert acc.Budget.model_validate_json(budget.model_dump_json()) == budget


@pytest.mark.parametrize(("false", "true"), [(1e-3, 2e-3), (0.01, 0.02), (0.1, 0.5), (0.5, 0.501)])
def test_a_budget_of_two_rates_buys_the_noise_whose_test_attains_them(
    false: float, true: float
) -> None:
    """Closed forms: the best test of a Gaussian shift, of randomized response, and of several
    releases of one plan finds just the true positives of the budget.
    """
    budget = acc.Budget(fpr=false, tpr=true)
    mu = acc.calibrate(lambda mu: acc.GaussianDP(mu=mu), budget)
    assert true * (1 - 1e-5) <= gaussian(mu, false) <= true * (1 + 1e-12)
    epsilon = acc.calibrate(lambda epsilon: acc.PureDP(epsilon=epsilon), budget)
    assert true * (1 - 1e-5) <= told(epsilon, false) <= true * (1 + 1e-12)
    scale = acc.calibrate(lambda scale: 4 * acc.GaussianDP(mu=1 / scale), budget)
    assert 2 / scale == pytest.approx(mu, rel=1e-4)
    assert budget.admits(acc.GaussianDP(mu=mu))
    assert not budget.admits(acc.GaussianDP(mu=1.01 * mu))
    assert acc.Budget.model_validate_json(budget.model_dump_json()) == budget
    assert (budget.form, budget.limit) == ("attack", true)
    assert budget.cost(acc.zero()) == pytest.approx(false, rel=1e-11)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"fpr": 0.1}, "exactly one of"),
        ({"tpr": 0.1}, "given together"),
        ({"fpr": 0.1, "tpr": 0.1}, "fpr < tpr"),
        ({"fpr": 0.1, "tpr": 0.2, "epsilon": 1.0}, "exactly one of"),
        ({"fpr": 0.1, "epsilon": 1.0}, "given together"),
        ({"fpr": 0.1, "tpr": 0.2, "delta": 1e-6}, "Leave delta out"),
        ({"fpr": 0.1, "tpr": 1.0}, "true positive rate"),
        ({"advantage": 0.1, "delta": 1e-6}, "Leave delta out"),
        ({"advantage": 0.1, "epsilon": 1.0}, "exactly one"),
    ],
)
def test_a_budget_of_attacks_states_one_amount(wrong: dict[str, float], words: str) -> None:
    """A true positive rate at or below chance, one rate alone, and another amount are refused."""
    with pytest.raises(acc.errors.InvalidBudget, match=words):
        acc.Budget(**wrong)


@pytest.mark.parametrize("budget", [acc.Budget(advantage=0.1), acc.Budget(fpr=0.1, tpr=0.2)])
def test_no_filter_counts_in_attacks(budget: acc.Budget, tmp_path: Path) -> None:
    """What is charged step by step is refused, with the budget that a filter or a ledger takes."""
    curve = acc.PureDP(epsilon=0.01)
    with acc.Ledger.open(f"sqlite:///{tmp_path}/p.db") as ledger:
        for asked in (
            lambda: acc.PrivacyFilter(budget),
            lambda: budget.how_many(curve),
            lambda: budget.filter_cost(curve),
            lambda: acc.calibrate(lambda e: acc.PureDP(epsilon=e), budget, charges=3),
            lambda: ledger.create_dataset("d", budget, "add_remove"),
        ):
            with pytest.raises(acc.errors.InvalidBudget, match="the budget of separate charges"):
                asked()
        assert ledger.datasets() == []


def least_mu(epsilon: float, count: int) -> float:
    """The least Gaussian shift above several randomized responses: at the corners of their
    trade-off curve, as that of a Gaussian is convex.
    """
    heads, truth = np.arange(1, count + 1), 1 / (1 + math.exp(-epsilon))

    def quantile(chance: float) -> np.ndarray:
        above, below = binom.sf(heads - 1, count, chance), binom.cdf(heads - 1, count, chance)
        return np.where(above < 0.5, norm.isf(above), norm.ppf(below))

    with np.errstate(invalid="ignore"):
        found = quantile(1 - truth) - quantile(truth)
    return float(found[np.isfinite(found)].max())  # beyond, chances are below the floats


@pytest.mark.parametrize(
    ("epsilon", "count", "slack"),
    [(0.1, 30, 1e-4), (0.5, 5, 1e-4), (1.0, 2, 1e-4), (0.05, 1000, 1e-3), (0.01, 10_000, 0.04)],
)
def test_the_gaussian_guarantee_of_responses_is_the_least(
    epsilon: float, count: int, slack: float
) -> None:
    """The exact trade-off curve has its least Gaussian below it: no less is stated, and hardly
    more; where the pure epsilon is far away too.
    """
    exact, found = least_mu(epsilon, count), (count * acc.PureDP(epsilon=epsilon)).gaussian_mu
    assert exact <= found * (1 + 1e-9)
    assert found <= exact * (1 + slack)


@pytest.mark.parametrize(
    "curve",
    [
        acc.ZCDP(rho=0.1),
        100 * acc.LaplaceDP(epsilon=0.1),
        30 * acc.BoundedRange(epsilon=0.05),
        10 * acc.GaussianDP(mu=0.1) + 3 * acc.LaplaceDP(epsilon=0.3),
    ],
    ids=["zcdp", "laplace", "bounded range", "mixed"],
)
def test_no_divergence_is_above_that_of_the_gaussian_guarantee(curve: acc.Curve) -> None:
    """At every epsilon, between the edges of cells and beyond the last one, and not above what the
    squares of the parts add up to.
    """
    mu = curve.gaussian_mu
    assert math.sqrt(2 * 0.99 * curve.rho) <= mu <= math.sqrt(curve.mu_squared) * (1 + 1e-12)
    whole = acc.GaussianDP(mu=mu)
    for size in np.geomspace(1e-3, 20, 20).tolist():
        least = best_delta(curve, size * mu, thorough=True).value
        assert least <= whole.profile(size * mu) * (1 + 1e-6) or least <= LEAST_DELTA


def test_gaussians_keep_their_shift_and_failures_have_none() -> None:
    """Closed forms, the identity, and what has a bad event."""
    assert acc.GaussianDP(mu=0.7).gaussian_mu == pytest.approx(0.7, rel=1e-15)
    assert (4 * acc.GaussianDP(mu=0.7)).gaussian_mu == pytest.approx(1.4, rel=1e-15)
    assert acc.PureDP(epsilon=1.0).gaussian_mu == pytest.approx(2 * norm.isf(1 / (1 + math.e)))
    assert acc.zero().gaussian_mu == 0
    assert acc.ApproxDP(epsilon=0.1, delta=1e-9).gaussian_mu == math.inf


@pytest.mark.parametrize(("rho", "end"), [(0.5, 30.0), (0.02, 5.0), (8.0, 100.0)])
def test_beyond_the_last_cell_the_inequality_is_that_of_the_theorem(rho: float, end: float) -> None:
    """At the least mu that passes, the chance of a large loss is what the zCDP parameter leaves,
    to a thousandth; from there on the Gaussian's divergence stays above, and it grows faster.
    """
    low, high = math.sqrt(2 * rho), 4 * math.sqrt(2 * rho)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _hides_beyond(rho, middle, end) else (middle, high)

    def left(at: float) -> float:
        return -((at - rho) ** 2) / (4 * rho)

    z = (end + 1 - high * high / 2) / high
    stated = math.log(1 - 1 / math.e) + norm.logpdf(z) + math.log(z / (1 + z * z))
    assert stated == pytest.approx(left(end), abs=1e-3)
    for at in np.linspace(end, 1.5 * end, 20).tolist():
        profile = acc.GaussianDP(mu=high).profile(at)
        assert math.log(profile) >= left(at) or profile < 1e-290
    assert not _hides_beyond(rho, math.sqrt(2 * rho), 1e3 * end)
    assert not _hides_beyond(rho, high, rho)
    assert not _hides_beyond(rho, 10 * math.sqrt(end), end)  # its mean loss is beyond


def test_uncertain_gaussian_does_not_dominate_the_tail() -> None:
    """Above at the last edge by the theorem's bounds, with a difference that need not grow."""
    end, z = 3.7, 0.05
    mu = math.sqrt(z * z + 2 * (end + 1)) - z
    assert 0.5 * (end - 0.5) ** 2 - z * z / 2 > 1.38 + math.log((1 + z * z) / z)
    assert not _hides_beyond(0.5, mu, end)
    assert _hides_beyond(0.5, mu, 2 * end)
