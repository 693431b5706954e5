"""Accounting and calibration against dp-accounting, as ratios measured in one run.

    python docs/benchmarks/bench_accounting.py [--runs 3] [--rounds 600] [--most 100000]
    [--calibration]

Times are the least of several; ratios are ours over theirs. --calibration prints the noise that a
budget is found to pay for instead: `parameter` is the cost, so that a larger one means less noise
for the same promise, and `over` what it costs beyond.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from dp_accounting import dp_event, mechanism_calibration
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from harness import best_time, options, peak_memory, show

import accounting as acc
from accounting.convert.bounds import best_epsilon
from accounting.convert.renyi import rdp_to_epsilon

EPSILON, DELTA, FAILURE, RHO = 1.0, 1e-6, 1e-10, 3.3e-4
Rows = Iterator[dict[str, Any] | str]


def composed(accountant: Any, steps: Sequence[object]) -> Any:
    """An accountant, ours or theirs, that was given these one by one."""
    for step in steps:
        accountant.compose(step)
    return accountant


def routes(_: argparse.Namespace) -> Rows:
    """The cost of StableTopK and of bounded-range steps at DELTA by every route."""
    test = acc.Approximate(curve=acc.GaussianDP(mu=math.sqrt(2 * RHO)), delta0=FAILURE)
    pick = acc.BoundedRange(epsilon=2 * math.sqrt(RHO))
    plans: list[tuple[str, acc.Curve, float]] = [
        (f"StableTopK x{n}", n * (pick + test), 2 * RHO * n) for n in (1, 10, 100, 600)
    ]
    for e, k in ((0.1, 100), (1.0, 10), (1.0, 3), (2.0, 10)):
        curve = k * acc.BoundedRange(epsilon=e)
        plans.append((f"BoundedRange({e}) x{k}", curve, k * e * e / 8))
    for name, curve, rho in plans:
        kept, start = DELTA - curve.delta0, time.process_time()
        best = best_epsilon(curve, DELTA)
        ways = {
            "zCDP": acc.ZCDP(rho=rho).epsilon(kept),
            "Renyi": rdp_to_epsilon(curve.rdp, kept).value,
            "reported": best.value,
        }
        ways["adaptive"] = best_epsilon(curve, DELTA, thorough=True).value
        yield (
            {"steps": name}
            | ways
            | {"CPU s": time.process_time() - start, "route": best.route}
        )


def many_curves(asked: argparse.Namespace) -> Rows:
    """Distinct curves and ten times as many identical ones, composed one by one and converted."""
    sizes, most = np.linspace(1e-4, 2e-4, asked.most).tolist(), asked.most
    kinds: dict[
        str, tuple[Callable[[float], acc.Curve], Callable[[float], dp_event.DpEvent]]
    ] = {
        "zCDP": (
            lambda e: acc.ZCDP(rho=e / 100),
            lambda e: dp_event.ZCDpEvent(e / 100),
        ),
        "Laplace": (
            lambda e: acc.LaplaceDP(epsilon=e),
            lambda e: dp_event.LaplaceDpEvent(1 / e),
        ),
        "Gaussian": (
            lambda e: acc.GaussianDP(mu=e),
            lambda e: dp_event.GaussianDpEvent(1 / e),
        ),
    }
    plans = {
        f"{most:,} distinct {name}": [list(map(make, sizes)) for make in both]
        for name, both in kinds.items()
    }
    plans[f"{10 * most:,} identical zCDP"] = [
        [make(1e-5)] * (10 * most) for make in kinds["zCDP"]
    ]
    tools = [lambda made: composed(acc.Accountant(), made).epsilon(DELTA)]
    tools.append(lambda made: float(composed(RdpAccountant(), made).get_epsilon(DELTA)))
    works = {
        name: [partial(tool, made) for tool, made in zip(tools, both, strict=True)]
        for name, both in plans.items()
    }
    works[f"{most:,} zCDP, objects built too"] = [
        lambda tool=tool, make=make: tool(list(map(make, sizes)))
        for tool, make in zip(tools, kinds["zCDP"], strict=True)
    ]
    for name, (ours, theirs) in works.items():
        mine, other = best_time(ours, asked.runs), best_time(theirs, asked.runs)
        seconds = {"ours s": mine, "theirs s": other, "ratio": mine / other}
        yield (
            {"composed": f"{name:<32}"}
            | seconds
            | {"our epsilon": ours(), "theirs": theirs()}
        )
    yield f"peak memory {peak_memory():.2f} GiB"


class Task(NamedTuple):
    """A family in one parameter: one round as a curve here and as events there; `failure` is what
    bad events take of delta.
    """

    name: str
    curve: Callable[[float], acc.Curve]
    events: Callable[[float], list[dp_event.DpEvent]]
    accountant: Callable[[], object]
    failure: float = 0.0


def stable_top_k(rho: float) -> acc.Curve:
    """One round: a bounded-range pick, then a Gaussian test that fails to be private with
    probability FAILURE.
    """
    pick, test = (
        acc.BoundedRange(epsilon=2 * math.sqrt(2 * rho)),
        acc.GaussianDP(mu=math.sqrt(2 * rho)),
    )
    return acc.Approximate(curve=pick + test, delta0=FAILURE)


TASKS = (  # dp-accounting has no bounded-range event, so the pick of StableTopK is rho-zCDP
    Task(
        "StableTopK, rho per part",
        stable_top_k,
        lambda rho: [
            dp_event.ZCDpEvent(rho),
            dp_event.GaussianDpEvent(1 / math.sqrt(2 * rho)),
        ],
        RdpAccountant,
        FAILURE,
    ),
    Task(
        "Gaussian, mu",
        lambda mu: acc.GaussianDP(mu=mu),
        lambda mu: [dp_event.GaussianDpEvent(1 / mu)],
        PLDAccountant,
    ),
    Task(
        "Laplace, epsilon",
        lambda e: acc.LaplaceDP(epsilon=e),
        lambda e: [dp_event.LaplaceDpEvent(1 / e)],
        RdpAccountant,
    ),
)


def with_accounting(task: Task, rounds: int, epsilon: float) -> float:
    """The parameter that we find."""
    return acc.calibrate(
        lambda x: acc.curves.Composed.from_parts([(rounds, task.curve(x))]),
        acc.Budget(epsilon=epsilon, delta=DELTA),
    )


def with_dp_accounting(task: Task, rounds: int, epsilon: float) -> float:
    """dp-accounting's, to one part in 10^9 or so."""
    return float(
        mechanism_calibration.calibrate_dp_mechanism(
            task.accountant,
            lambda x: dp_event.SelfComposedDpEvent(
                dp_event.ComposedDpEvent(task.events(x)), rounds
            ),
            epsilon,
            DELTA - rounds * task.failure,
            mechanism_calibration.ExplicitBracketInterval(1e-7, 1.0),
            tol=1e-9 * EPSILON / rounds,
        )
    )


def calibration(asked: argparse.Namespace) -> Rows:
    """One line for each family and tool."""
    yield f"{asked.rounds} rounds to ({EPSILON:g}, {DELTA:g}); ratios are ours over theirs"
    for task in TASKS:
        found = {}
        for tool, find in (
            ("accounting", with_accounting),
            ("dp-accounting", with_dp_accounting),
        ):
            epsilons, run = itertools.count(1), partial(find, task, asked.rounds)
            # Every call has another epsilon: nothing is remembered.
            seconds = best_time(
                lambda run=run, epsilons=epsilons: run(EPSILON + 1e-6 * next(epsilons)),
                asked.runs,
            )
            found[tool] = seconds, run(EPSILON)
            over = (
                best_epsilon(
                    asked.rounds * task.curve(found[tool][1]), DELTA, thorough=True
                ).value
                - EPSILON
            )
            ratios = [
                ours / theirs
                for ours, theirs in zip(found["accounting"], found[tool], strict=True)
            ]
            row = {
                "family": f"{task.name:<24}",
                "tool": f"{tool:<13}",
                "seconds": seconds,
                "parameter": found[tool][1],
            }
            yield row | {"over": over, "time ratio": ratios[0], "cost ratio": ratios[1]}


if __name__ == "__main__":
    asked = options(__doc__, runs=3, rounds=600, most=100_000, calibration=False)
    warnings.simplefilter("ignore")
    show(
        *(
            part(asked)
            for part in ((calibration,) if asked.calibration else (routes, many_curves))
        )
    )
