"""Accounting and calibration against dp-accounting, and autodp where it is installed, as ratios measured in one run.

    python tests/benchmarks/bench_accounting.py [--runs 3] [--rounds 600] [--most 100000] [--calibration]

Times are the least of several; ratios are ours over theirs. --calibration prints the noise that a budget is found to pay for
instead: `parameter` is the price, so that a larger one means less noise for the same promise, and `over` what it costs beyond.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import math
import resource
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import dp_accounting
import numpy as np
from dp_accounting import dp_event, mechanism_calibration
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from harness import best_time, options

import accounting as acc
from accounting.convert.adaptive_composition import adaptive_composition
from accounting.convert.bounds import best_epsilon
from accounting.convert.renyi import rdp_to_epsilon

EPSILON, DELTA, FAILURE, RHO = 1.0, 1e-6, 1e-10, 3.3e-4
AUTODP = importlib.util.find_spec("autodp") is not None


def ours(curves: Sequence[acc.Curve]) -> float:
    """Compose curves one by one and convert."""
    accountant = acc.Accountant()
    for curve in curves:
        accountant.compose(curve)
    return accountant.epsilon(DELTA)


def theirs(events: Sequence[dp_event.DpEvent]) -> float:
    """The same with dp-accounting."""
    accountant = RdpAccountant()
    for event in events:
        accountant.compose(event)
    return float(accountant.get_epsilon(DELTA))


def stable_top_k(rho: float) -> acc.Curve:
    """One round: a bounded-range pick, then a Gaussian test that fails to be private with probability FAILURE."""
    pick, test = acc.BoundedRange(epsilon=2 * math.sqrt(2 * rho)), acc.GaussianDP(mu=math.sqrt(2 * rho))
    return acc.Approximate(curve=pick + test, delta0=FAILURE)


# -- composition ---------------------------------------------------------------------------------------------------------


def routes(_: int, __: int) -> Iterator[str]:
    """The price of StableTopK and of bounded-range steps at DELTA by every route."""
    yield f"epsilon at {DELTA:g}: zCDP, Renyi, what is reported; the dynamic programme"
    test = acc.Approximate(curve=acc.GaussianDP(mu=math.sqrt(2 * RHO)), delta0=FAILURE)
    pick = acc.BoundedRange(epsilon=2 * math.sqrt(RHO))
    plans: list[tuple[str, acc.Curve, list[acc.Curve], float]] = [
        (f"StableTopK x{n}", n * (pick + test), [pick, test] * n, 2 * RHO * n) for n in (1, 10, 100, 600)
    ]
    for e, k in ((0.1, 100), (1.0, 10), (1.0, 3), (2.0, 10)):
        curve = k * acc.BoundedRange(epsilon=e)
        plans.append((f"BoundedRange({e}) x{k}", curve, [curve], k * e * e / 8))
    for name, curve, steps, rho in plans:
        kept, start = DELTA - curve.delta0, time.process_time()
        zcdp, renyi, best = (
            acc.ZCDP(rho=rho).epsilon(kept),
            rdp_to_epsilon(curve.rdp, kept).value,
            best_epsilon(curve, DELTA),
        )
        found = adaptive_composition(steps, DELTA, cells=32 if curve.delta0 else 128)
        took = time.process_time() - start
        yield f"{name:24}{zcdp:8.4f} {renyi:8.4f} {best.value:8.4f} ({best.route}) {found:9.4f} {took:.1f} s"


def many_curves(most: int, runs: int) -> Iterator[str]:
    """Distinct curves and ten times as many identical ones, built before, then composed one by one and converted."""
    sizes = np.linspace(1e-4, 2e-4, most).tolist()
    kinds: dict[str, tuple[Callable[[float], acc.Curve], Callable[[float], dp_event.DpEvent]]] = {
        "zCDP": (lambda e: acc.ZCDP(rho=e / 100), lambda e: dp_accounting.ZCDpEvent(e / 100)),
        "Laplace": (lambda e: acc.LaplaceDP(epsilon=e), lambda e: dp_accounting.LaplaceDpEvent(1 / e)),
        "Gaussian": (lambda e: acc.GaussianDP(mu=e), lambda e: dp_accounting.GaussianDpEvent(1 / e)),
    }
    for name, (curve, event) in kinds.items():
        curves, events = [curve(e) for e in sizes], [event(e) for e in sizes]
        yield _compared(f"{most} distinct {name}", partial(ours, curves), partial(theirs, events), runs)
    repeated = [acc.ZCDP(rho=1e-7)] * (10 * most), [dp_accounting.ZCDpEvent(1e-7)] * (10 * most)
    yield _compared(f"{10 * most} identical zCDP, one by one", partial(ours, repeated[0]), partial(theirs, repeated[1]), 1)
    rhos = [e / 100 for e in sizes]
    built = (lambda: ours([acc.ZCDP(rho=r) for r in rhos]), lambda: theirs([dp_accounting.ZCDpEvent(r) for r in rhos]))
    yield _compared(f"{most} zCDP, objects built and composed", *built, runs)


def _compared(name: str, own: Callable[[], float], other: Callable[[], float], runs: int) -> str:
    mine, his = best_time(own, runs), best_time(other, runs)
    return f"{name:42s} ours {mine:8.3f} s  theirs {his:8.3f} s  ratio {mine / his:6.3f}   epsilon {own():.6f} / {other():.6f}"


# -- calibration ---------------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """A family in one parameter: one round as a curve here and as events there; `failure` is what bad events take of delta."""

    name: str
    curve: Callable[[float], acc.Curve]
    events: Callable[[float], list[dp_event.DpEvent]]
    accountant: Callable[[], object]
    failure: float = 0.0


TASKS = (  # dp-accounting has no bounded-range event, so the pick of StableTopK is rho-zCDP
    Task(
        "StableTopK, rho per part",
        stable_top_k,
        lambda rho: [dp_event.ZCDpEvent(rho), dp_event.GaussianDpEvent(1 / math.sqrt(2 * rho))],
        RdpAccountant,
        FAILURE,
    ),
    Task("Gaussian, mu", lambda mu: acc.GaussianDP(mu=mu), lambda mu: [dp_event.GaussianDpEvent(1 / mu)], PLDAccountant),
    Task("Laplace, epsilon", lambda e: acc.LaplaceDP(epsilon=e), lambda e: [dp_event.LaplaceDpEvent(1 / e)], RdpAccountant),
)


def calibrated(task: Task, rounds: int, epsilon: float) -> float:
    """The parameter that we find."""
    return acc.calibrate(lambda x: acc.curves.Composed.of([(rounds, task.curve(x))]), acc.Budget(epsilon=epsilon, delta=DELTA))


def with_dp_accounting(task: Task, rounds: int, parameter: float, epsilon: float) -> float:
    """dp-accounting's, asked for one part in 10^9 of the parameter that was found here."""
    return float(
        mechanism_calibration.calibrate_dp_mechanism(
            task.accountant,
            lambda x: dp_event.SelfComposedDpEvent(dp_event.ComposedDpEvent(task.events(x)), rounds),
            epsilon,
            DELTA - rounds * task.failure,
            mechanism_calibration.ExplicitBracketInterval(1e-7, 1.0),
            tol=1e-9 * parameter,
        )
    )


def with_autodp(task: Task, rounds: int, epsilon: float) -> float:
    """autodp's: the last parameter that its calibrator looked at."""
    zoo, made, seeking = (importlib.import_module(f"autodp.{name}_zoo") for name in ("mechanism", "transformer", "calibrator"))
    seen: list[float] = []

    def family(x: float, **_: object) -> object:
        seen.append(float(x))
        gaussian = {"Gaussian, mu": [1 / x], "StableTopK, rho per part": [1 / math.sqrt(2 * x)]}.get(task.name, [])
        parts = [zoo.GaussianMechanism(sigma=sigma) for sigma in gaussian]
        parts += [zoo.LaplaceMechanism(b=1 / x)] if task.name.startswith("Laplace") else []
        parts += [zoo.zCDP_Mechanism(rho=x, xi=0)] if task.failure else []
        return made.Composition()(parts, [rounds] * len(parts))

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        seeking.eps_delta_calibrator()(family, epsilon, DELTA - rounds * task.failure, (1e-7, 1e-1))
    return seen[-1]


def calibration(rounds: int, runs: int) -> Iterator[str]:
    """One line for each family and tool."""
    yield f"{rounds} rounds to ({EPSILON:g}, {DELTA:g}); ratios are ours over theirs"
    yield f"{'family':<26}{'tool':<16}{'seconds':>10}{'parameter':>16}{'over':>12}{'time ratio':>12}{'cost ratio':>12}"
    for task in TASKS:
        first: tuple[float, float] | None = None
        found = calibrated(task, rounds, EPSILON)
        tools: dict[str, Callable[[float], float]] = {
            "accounting": partial(calibrated, task, rounds),
            "dp-accounting": partial(with_dp_accounting, task, rounds, found),
        }
        if AUTODP:
            tools["autodp"] = partial(with_autodp, task, rounds)
        for tool, run in tools.items():
            epsilons = itertools.count()  # every call has another epsilon: nothing is remembered
            try:
                seconds = best_time(lambda: run(EPSILON + 1e-6 * (1 + next(epsilons))), runs)  # noqa: B023
                parameter = run(EPSILON)
            except Exception as error:
                yield f"{task.name:<26}{tool:<16} fails: {type(error).__name__}: {str(error)[:60]}"
                continue
            first = first or (seconds, parameter)
            over = best_epsilon(rounds * task.curve(parameter), DELTA, thorough=True).value - EPSILON
            ratios = f"{over:>+12.1e}{first[0] / seconds:>12.4f}{first[1] / parameter:>12.6f}"
            yield f"{task.name:<26}{tool:<16}{seconds:>10.4f}{parameter:>16.9g}{ratios}"


def main() -> None:
    """The composition tables, with the peak memory at the end; or those of calibration."""
    asked = options(__doc__, runs=3, rounds=600, most=100_000, calibration=False)
    warnings.simplefilter("ignore")
    for part in (calibration,) if asked.calibration else (routes, many_curves):
        for line in part(asked.rounds if asked.calibration else asked.most, asked.runs):
            print(line, flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
