"""Calibration of 600 rounds to a budget, against dp-accounting and, if it can be imported, autodp: ratios within one run.

    python tests/benchmarks/bench_calibration.py [--rounds 600] [--runs 3]

For each tool: seconds of the best run, the parameter it returns (larger is more useful: it is a cost), and the epsilon that this
parameter truly costs by our bounds, less the budget's: a tool that returns the safe end never shows a positive number.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import io
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from dp_accounting import dp_event, mechanism_calibration
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from accounting import AccountingError
from accounting.budget import Budget
from accounting.calibration import calibrate
from accounting.convert.bounds import best_epsilon
from accounting.convert.pld.compose import pld_epsilon
from accounting.curves import Approximate, BoundedRange, Composed, Curve, GaussianDP, LaplaceDP
from dpselect.mechanisms import members
from dpselect.plan.fit import fitted
from dpselect.plan.request import TopKRequest
from dpselect.sensitivity import Sensitivity

EPSILON, DELTA, FAILURE = 1.0, 1e-6, 1e-10
BRACKET = mechanism_calibration.ExplicitBracketInterval(1e-7, 1.0)
BOUNDS = (1e-7, 1e-1)


@dataclass(frozen=True)
class Task:
    """A family in one parameter, as a curve here and as an event there; `failure` is what bad events take of delta."""

    name: str
    curve: Callable[[float], Curve]
    event: Callable[[float], dp_event.DpEvent]
    accountant: Callable[[], object]
    failure: float = 0.0


def best_of(run: Callable[[float], float], runs: int) -> tuple[float, float]:
    """Seconds of the fastest of `runs` calls, and the last result. Every call has another epsilon: nothing is remembered."""
    times, result = [], math.nan
    for number in reversed(range(runs)):
        start = time.perf_counter()
        result = run(EPSILON + 1e-6 * number)
        times.append(time.perf_counter() - start)
    return min(times), result


def stable_top_k(rounds: int) -> Task:
    """`rounds` of StableTopK, each part with rho: dp-accounting has no bounded-range event, so its gap test is rho-zCDP."""

    def curve(rho: float) -> Curve:
        core = BoundedRange(epsilon=2 * math.sqrt(2 * rho)) + GaussianDP(mu=math.sqrt(2 * rho))
        return Composed.of([(rounds, Approximate(curve=core, delta0=FAILURE))])

    def event(rho: float) -> dp_event.DpEvent:
        one = dp_event.ComposedDpEvent([dp_event.ZCDpEvent(rho), dp_event.GaussianDpEvent(1 / math.sqrt(2 * rho))])
        return dp_event.SelfComposedDpEvent(one, rounds)

    return Task("StableTopK, rho per part", curve, event, RdpAccountant, rounds * FAILURE)


def gaussian(rounds: int) -> Task:
    return Task(
        "Gaussian, mu",
        lambda mu: Composed.of([(rounds, GaussianDP(mu=mu))]),
        lambda mu: dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1 / mu), rounds),
        PLDAccountant,
    )


def laplace(rounds: int) -> Task:
    return Task(
        "Laplace, epsilon",
        lambda e: Composed.of([(rounds, LaplaceDP(epsilon=e))]),
        lambda e: dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(1 / e), rounds),
        RdpAccountant,
    )


def ours(task: Task, epsilon: float) -> float:
    return calibrate(task.curve, Budget(epsilon=epsilon, delta=DELTA))


def theirs(task: Task, epsilon: float, parameter: float) -> float:
    """dp-accounting, asked for one part in 10^9 of the parameter that was found here."""
    found = mechanism_calibration.calibrate_dp_mechanism(
        task.accountant, task.event, epsilon, DELTA - task.failure, BRACKET, tol=1e-9 * parameter
    )
    return float(found)


def autodp_class(task: Task, rounds: int) -> Callable[[float], object]:
    """The same family as an autodp mechanism."""
    zoo, transformers = (importlib.import_module(f"autodp.{name}") for name in ("mechanism_zoo", "transformer_zoo"))

    def build(x: float) -> object:
        if task.name.startswith("Stable"):
            parts = [zoo.zCDP_Mechanism(rho=x, xi=0), zoo.GaussianMechanism(sigma=1 / math.sqrt(2 * x))]
        else:
            parts = [zoo.GaussianMechanism(sigma=1 / x) if task.name.startswith("Gauss") else zoo.LaplaceMechanism(b=1 / x)]
        return transformers.Composition()(parts, [rounds] * len(parts))

    return build


def autodp(task: Task, epsilon: float, rounds: int) -> float:
    family, seen = autodp_class(task, rounds), []
    calibrator = importlib.import_module("autodp.calibrator_zoo").eps_delta_calibrator()

    def noted(x: float, **_: object) -> object:
        seen.append(float(x))
        return family(float(x))

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        calibrator(noted, epsilon, DELTA - task.failure, BOUNDS)
    return seen[-1]


def mechanisms() -> None:
    """Seconds that `fitted` takes for every mechanism of a top 10, once and 365 times; caches cold, over one conversion."""
    unit = best_of(lambda epsilon: best_epsilon(365 * LaplaceDP(epsilon=0.01 * epsilon), DELTA).value, 3)[0]
    print(f"\none conversion of 365 x Laplace: {unit:.4f} s; the seconds of `fitted` for a top 10, over that, and what it found")
    budget = Budget(epsilon=EPSILON, delta=DELTA)
    for kind in sorted(members()):
        for releases in (1, 365):
            request = TopKRequest(k=10, candidates=2000, releases=releases, sensitivity=Sensitivity(l0=300))
            pld_epsilon.cache_clear()
            start = time.process_time()
            try:
                found = str(fitted(kind, budget, request))
            except AccountingError:
                continue  # not one for such requests
            seconds = time.process_time() - start
            print(f"{kind:<26}{releases:>5} x{seconds:>10.4f} s{seconds / unit:>10.2f}   {found[:70]}")


Found = tuple[float, float]


def show(task: Task, tool: str, timed: Callable[[float], float], runs: int, reference: Found | None) -> Found:
    """One line of the table; the seconds and the parameter."""
    try:
        seconds, parameter = best_of(timed, runs)
    except Exception as error:
        print(f"{task.name:<26}{tool:<16} fails: {type(error).__name__}: {str(error)[:60]}")
        return math.nan, math.nan
    over = best_epsilon(task.curve(parameter), DELTA, thorough=True).value - EPSILON
    relative = (1.0, 1.0) if reference is None else (reference[0] / seconds, reference[1] / parameter)
    print(f"{task.name:<26}{tool:<16}{seconds:>10.4f}{parameter:>16.9g}{over:>+12.1e}{relative[0]:>12.4f}{relative[1]:>12.6f}")
    return seconds, parameter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    has_autodp = importlib.util.find_spec("autodp") is not None
    print(f"{options.rounds} rounds to ({EPSILON:g}, {DELTA:g}); ratios are ours over theirs")
    print(f"{'family':<26}{'tool':<16}{'seconds':>10}{'parameter':>16}{'over':>12}{'time ratio':>12}{'cost ratio':>12}")
    for task in (stable_top_k(options.rounds), gaussian(options.rounds), laplace(options.rounds)):
        reference = show(task, "accounting", lambda e, task=task: ours(task, e), options.runs, None)
        show(task, "dp-accounting", lambda e, task=task, found=reference[1]: theirs(task, e, found), options.runs, reference)
        if has_autodp:
            show(task, "autodp", lambda e, task=task: autodp(task, e, options.rounds), options.runs, reference)
    mechanisms()
    if not has_autodp:
        print("autodp is not installed: skipped (pip install autodp)")


if __name__ == "__main__":
    main()
