"""Accounting against dp-accounting, as ratios measured in one run. Run it as a script; it is no test.

    python tests/benchmarks/bench_accounting.py

Times are the least of three; ratios are ours over theirs. autodp is used where it is installed.
"""

from __future__ import annotations

import importlib.util
import math
import resource
import time
import warnings
from collections.abc import Callable, Sequence

import dp_accounting
import numpy as np
from dp_accounting import rdp

import accounting as acc
from accounting.convert.adaptive_composition import adaptive_composition

DELTA = 1e-6
RHO = 3.3e-4
FAILURE = 1e-10


def least_time(job: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of the fastest of several runs."""
    return min(_seconds(job) for _ in range(repeats))


def _seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def ours(curves: Sequence[acc.Curve]) -> float:
    """Compose curves one by one and convert."""
    accountant = acc.Accountant()
    for curve in curves:
        accountant.compose(curve)
    return accountant.epsilon(DELTA)


def theirs(events: Sequence[dp_accounting.DpEvent]) -> float:
    """The same with dp-accounting."""
    accountant = rdp.RdpAccountant()
    for event in events:
        accountant.compose(event)
    return float(accountant.get_epsilon(DELTA))


def compare(name: str, curves: Sequence[acc.Curve], events: Sequence[dp_accounting.DpEvent], repeats: int = 3) -> None:
    """Print both epsilons and the ratio of the times."""
    own, other = least_time(lambda: ours(curves), repeats), least_time(lambda: theirs(events), repeats)
    print(
        f"{name:42s} ours {own:8.3f} s  dp-accounting {other:8.3f} s  ratio {own / other:6.3f}"
        f"   epsilon {ours(curves):.6f} / {theirs(events):.6f}"
    )


def many_curves() -> None:
    """10^4 and 10^5 distinct curves and 10^6 identical ones, built before, then composed one by one and converted."""
    for count in (10**4, 10**5):
        rhos = np.linspace(1e-6, 2e-6, count).tolist()
        compare(f"{count} distinct zCDP", [acc.ZCDP(rho=r) for r in rhos], [dp_accounting.ZCDpEvent(r) for r in rhos])
        epsilons = np.linspace(1e-4, 2e-4, count).tolist()
        laplace = [dp_accounting.LaplaceDpEvent(1 / e) for e in epsilons]
        compare(f"{count} distinct Laplace", [acc.LaplaceDP(epsilon=e) for e in epsilons], laplace, repeats=1)
        gauss = [acc.GaussianDP(mu=e) for e in epsilons]
        compare(f"{count} distinct Gaussian", gauss, [dp_accounting.GaussianDpEvent(1 / e) for e in epsilons], repeats=1)
    compare("10^6 identical zCDP, one by one", [acc.ZCDP(rho=1e-7)] * 10**6, [dp_accounting.ZCDpEvent(1e-7)] * 10**6, repeats=1)


def built_and_composed() -> None:
    """10^5 distinct zCDP curves: the objects, their composition and the conversion; and `c = c + x` as often, which is linear."""
    rhos = np.linspace(1e-6, 2e-6, 10**5).tolist()
    own = least_time(lambda: ours([acc.ZCDP(rho=r) for r in rhos]))
    other = least_time(lambda: theirs([dp_accounting.ZCDpEvent(r) for r in rhos]))
    print(
        f"{'10^5 zCDP, objects built and composed':42s} ours {own:8.3f} s  dp-accounting {other:8.3f} s  ratio {own / other:6.3f}"
    )
    curves = [acc.ZCDP(rho=r) for r in rhos]
    short, long = (least_time(lambda n=n: sum(curves[:n], acc.zero()).rho) for n in (10**4, 2 * 10**4))  # type: ignore[misc]
    print(f"{'c = c + x, 2 * 10^4 times over 10^4 times':42s} {long:13.3f} s  over {short:18.3f} s  ratio {long / short:6.3f}")


def conversions() -> None:
    """One conversion of a composed plan by each quick route, caches cold."""
    plans = {
        "rdp (zCDP)": 600 * acc.ZCDP(rho=1e-3),
        "profile (600 Gaussian)": 600 * acc.GaussianDP(mu=0.03),
        "pld (600 StableTopK)": 600 * stable_top_k(),
        "pld (20 distinct Laplace)": sum((acc.LaplaceDP(epsilon=0.1 + 0.01 * i) for i in range(20)), acc.zero()),
    }
    for name, plan in plans.items():
        seconds = min(_seconds(lambda p=plan, i=i: p.epsilon(DELTA * (1.1 + 1e-9 * i))) for i in range(3))  # type: ignore[misc]
        print(f"conversion by {name:30s} {seconds * 1e3:8.2f} ms")


def stable_top_k() -> acc.Curve:
    """One round of stable top-k: a bounded-range pick, then a Gaussian test that fails to be private with probability FAILURE."""
    return acc.Approximate(curve=acc.BoundedRange(epsilon=2 * math.sqrt(RHO)) + test_step(), delta0=FAILURE)


def test_step() -> acc.Curve:
    """The Gaussian test."""
    return acc.GaussianDP(mu=math.sqrt(2 * RHO))


def stable_top_k_table() -> None:
    """The price of T rounds at DELTA by every route."""
    print(f"\nStableTopK, rho = {RHO} a part, delta_t = {FAILURE}, epsilon at {DELTA}")
    print("    T     zCDP      RDP      PLD   dynamic programme [lower, upper]    gap    seconds")
    for rounds in (1, 10, 100, 600):
        curve = rounds * stable_top_k()
        kept = DELTA - curve.delta0
        zcdp, renyi = acc.ZCDP(rho=2 * RHO * rounds).epsilon(kept), acc.convert.renyi.rdp_to_epsilon(curve.rdp, kept).value
        pld = acc.best_epsilon(curve, DELTA)
        pick, test = acc.BoundedRange(epsilon=2 * math.sqrt(RHO)), acc.Approximate(curve=test_step(), delta0=FAILURE)
        start = time.perf_counter()
        found = adaptive_composition([pick, test] * rounds, DELTA)
        print(
            f"{rounds:5d} {zcdp:8.4f} {renyi:8.4f} {pld.value:8.4f}   [{found.epsilon_lower:.4f}, {found.epsilon_upper:.4f}]"
            f"              {found.gap:7.1e} {time.perf_counter() - start:7.2f}   ({pld.route})"
        )


def fixed_values() -> None:
    """Bounded-range steps: the values of the theory sheet, with the bracket of the dynamic programme."""
    print("\nBoundedRange(e), k times, at 1e-6:  zCDP, Renyi, dynamic programme [lower, upper]")
    for e, k in ((0.1, 100), (1.0, 10), (1.0, 3), (2.0, 10)):
        curve = k * acc.BoundedRange(epsilon=e)
        found = adaptive_composition([curve], DELTA, tolerance=5e-5)
        renyi = acc.convert.renyi.rdp_to_epsilon(curve.rdp, DELTA).value
        zcdp = acc.ZCDP(rho=k * e * e / 8).epsilon(DELTA)
        print(f"  e={e:<4} k={k:<4} {zcdp:8.4f} {renyi:8.4f}   [{found.epsilon_lower:.4f}, {found.epsilon_upper:.4f}]")


def against_autodp() -> None:
    """10^4 distinct Gaussian mechanisms composed by autodp's anonymous accountant, if it is there."""
    if importlib.util.find_spec("autodp") is None:
        print("\nautodp is not installed: skipped (pip install autodp)")
        return
    from autodp import rdp_acct, rdp_bank

    sigmas = (1 / np.linspace(1e-3, 2e-3, 1000)).tolist()

    def run() -> float:
        accountant = rdp_acct.anaRDPacct()
        for sigma in sigmas:
            accountant.compose_mechanism(lambda order, s=sigma: rdp_bank.RDP_gaussian({"sigma": s}, order))
        return float(accountant.get_eps(DELTA))

    curves = [acc.GaussianDP(mu=1 / sigma) for sigma in sigmas]
    own, other = least_time(lambda: ours(curves)), least_time(run, repeats=1)
    print(f"\n1000 distinct Gaussian: ours {own:.4f} s, autodp {other:.4f} s, ratio {own / other:.4f}")


def main() -> None:
    """Everything, with the peak memory at the end."""
    warnings.simplefilter("ignore")
    stable_top_k_table()
    fixed_values()
    print()
    many_curves()
    built_and_composed()
    conversions()
    against_autodp()
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
