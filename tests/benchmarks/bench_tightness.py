"""Every public curve: epsilon at delta 1e-6 claimed before, claimed now, and reached by some pair of laws that was searched for.

python tests/benchmarks/bench_tightness.py

"Reached" is exact for the pair found, so a lower bound on what any sound claim can be; "slack" is what the claim exceeds it by.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

import accounting as acc
import dpselect as dps
from accounting.conversion.pld import Banded, Losses, condense, pld_epsilon
from accounting.conversion.renyi import invert_profile, rdp_to_epsilon

DELTA = 1e-6
GAPS = np.concatenate([np.linspace(-1.5, 0.5, 41), -np.geomspace(2, 50, 20)])


def repeated(p: float, q: float, times: int) -> float:
    """The exact epsilon of `times` draws of one bit, true with probability p or q."""
    k = np.arange(times + 1)
    ways = gammaln(times + 1) - gammaln(k + 1) - gammaln(times - k + 1)
    first, second = (ways + k * math.log(x) + (times - k) * math.log1p(-x) for x in (p, q))

    def profile(epsilon: float) -> float:
        return float(np.exp(first) @ np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon + second - first))))

    return invert_profile(profile, DELTA)


def one_of_two(mechanism: dps.Mechanism, times: int) -> float:
    """The worst of two candidates `gap` apart, one of which a user moves by the whole range, the same in every round."""
    worst = 0.0
    for gap in GAPS * mechanism.covers.range:
        laws = [
            mechanism.probabilities(dps.Scores([gap + move, 0.0], sensitivity=mechanism.covers, kind="utilities"))
            for move in (0.0, mechanism.covers.range)
        ]
        key = next(iter(laws[0]))
        p, q = laws[1][key], laws[0][key]
        if not 1e-12 < min(p, q) <= max(p, q) < 1 - 1e-12:
            continue
        worst = max(worst, repeated(p, q, times), repeated(q, p, times), repeated(1 - p, 1 - q, times))
    return worst


def renyi(curve: acc.Curve) -> float:
    """The claim by Renyi divergences alone: what plans with a part without exact losses used to get."""
    return rdp_to_epsilon(curve.rdp, DELTA - curve.delta0, curve.table_orders).value


def noisy_maxima() -> list[tuple[str, float, float, float]]:
    rows = []
    for times, e in ((1, 1.0), (10, 0.3), (100, 0.1)):
        mechanism = dps.PermuteAndFlip(epsilon=e)
        before, now = (times * acc.PureDP(epsilon=e)).epsilon(DELTA), (times * mechanism.curve).epsilon(DELTA)
        rows.append((f"permute-and-flip {e}, {times} times", before, now, one_of_two(mechanism, times)))
    laplace = dps.ReportNoisyMax(noise="laplace", scale=10.0)
    before, now = (100 * acc.PureDP(epsilon=0.1)).epsilon(DELTA), (100 * laplace.curve).epsilon(DELTA)
    rows.append(("noisy max, laplace 10, 100 times", before, now, one_of_two(laplace, 100)))
    gumbel = acc.BoundedRange(epsilon=0.1)
    reached = acc.adaptive_composition([(gumbel, 100)], DELTA).epsilon_lower
    now = (100 * gumbel).epsilon(DELTA)
    rows.append(("exponential mechanism 0.1, 100 times", now, now, reached))
    gauss = dps.ReportNoisyMax(noise="gaussian", scale=10.0, candidates=2)
    now = (10 * gauss.curve).epsilon(DELTA)
    rows.append(("noisy max, gaussian 10 of 2, 10 times", now, now, one_of_two(gauss, 10)))
    return rows


def sparse() -> list[tuple[str, float, float, float]]:
    rows = []
    for c, e1, e2 in ((10, 0.1, 1.0), (1000, 0.04, 4.0)):
        before = acc.tighter(acc.PureDP(epsilon=e1 + e2), acc.SparseVectorDP(epsilon1=e1, epsilon2=e2)).epsilon(DELTA)
        now = acc.SparseVectorDP(epsilon1=e1, epsilon2=e2, positives=c)
        reached = _runs(e2 / c, c)
        rows.append((f"sparse vector {e1} + {e2}, c = {c}", before, now.epsilon(DELTA), reached))
    return rows


def _runs(shift: float, c: int) -> float:
    """c answers above a known threshold, each beside one below: as many bits with probabilities 1/2 and that of the shift."""
    moved = math.exp(-shift) / 2
    return max(repeated(0.5, moved, c), repeated(moved, 0.5, c), repeated(0.5, 1 - moved, c))


def single_curves() -> list[tuple[str, float, float, float]]:
    gauss = acc.GaussianDP(mu=0.3)
    table = acc.ProfileTable(epsilons=(0.1, 0.5), deltas=(1e-3, 0.0))
    exact: list[tuple[str, acc.Curve, float]] = [
        ("PureDP 1", acc.PureDP(epsilon=1.0), invert_profile(acc.PureDP(epsilon=1.0).profile, DELTA)),
        ("BoundedRange 1", acc.BoundedRange(epsilon=1.0), invert_profile(acc.BoundedRange(epsilon=1.0).profile, DELTA)),
        ("LaplaceDP 1", acc.LaplaceDP(epsilon=1.0), invert_profile(acc.LaplaceDP(epsilon=1.0).profile, DELTA)),
        ("GaussianDP 0.3", gauss, invert_profile(gauss.profile, DELTA)),
        ("ZCDP 0.045 (Gaussian of it)", acc.ZCDP(rho=0.045), gauss.epsilon(DELTA)),
        ("ApproxDP 0.5, 1e-7", acc.ApproxDP(epsilon=0.5, delta=1e-7), invert_profile(_mixture, DELTA)),
        ("ProfileTable of two points", table, invert_profile(table.profile, DELTA)),
    ]
    return [(name, curve.epsilon(DELTA), curve.epsilon(DELTA), reached) for name, curve, reached in exact]


def _mixture(epsilon: float) -> float:
    return 1e-7 + (1 - 1e-7) * acc.PureDP(epsilon=0.5).profile(epsilon)


def plans() -> list[tuple[str, float, float, float]]:
    laplaces = 100 * acc.LaplaceDP(epsilon=0.1)
    widths = np.linspace(0.02, 0.06, 365)
    many = acc.Composed.of([(1, acc.LaplaceDP(epsilon=float(w))) for w in widths])
    each = Losses(tuple((1, Banded.laplace(float(w))) for w in widths))
    allowed, condense.MOST_STEPS = condense.MOST_STEPS, 400
    reached = pld_epsilon(each, DELTA).value
    condense.MOST_STEPS = allowed
    rows = [("365 different Laplace", renyi(many), many.epsilon(DELTA), reached)]
    for name, part, like in (
        ("ZCDP 0.001", acc.ZCDP(rho=0.001), acc.GaussianDP(mu=math.sqrt(0.002))),
        ("sparse vector 0.05 + 0.05", acc.SparseVectorDP(epsilon1=0.05, epsilon2=0.05), acc.LaplaceDP(epsilon=0.05)),
        ("a table", acc.ProfileTable(epsilons=(0.1, 0.5), deltas=(1e-3, 0.0)), acc.zero()),
    ):
        plan = laplaces + part
        rows.append((f"100 Laplace 0.1 and {name}", renyi(plan), plan.epsilon(DELTA), (laplaces + like).epsilon(DELTA)))
    return [*rows, _training()]


def _training() -> tuple[str, float, float, float]:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    from accounting.profile_points import as_table, sampled_profile

    step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    theirs = PLDAccountant().compose(step, 1000).get_epsilon(DELTA)
    points = [(math.log1p(0.01 * math.expm1(e)), 0.01 * d) for e, d in sampled_profile(acc.GaussianDP(mu=1.0))]
    by_hand, now = 1000 * as_table(points, "by hand"), 1000 * acc.SampledGaussianDP(mu=1.0, rate=0.01)
    return "DP-SGD, 1000 steps, rate 0.01", renyi(by_hand), now.epsilon(DELTA), theirs


def main() -> None:
    print(f"{'epsilon at 1e-6 of':42} {'before':>8} {'now':>8} {'reached':>8} {'slack':>7}")
    for name, before, now, reached in [*single_curves(), *noisy_maxima(), *sparse(), *plans()]:
        print(f"{name:42} {before:8.4f} {now:8.4f} {reached:8.4f} {now / reached - 1:7.1%}")


if __name__ == "__main__":
    main()
