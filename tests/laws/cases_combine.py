"""Law cases of mechanisms that are made of mechanisms."""

from __future__ import annotations

from case import REPLACED, TWO_ITEMS, TWO_ITEMS_TWO_SIDED, Case

import dpselect as dps


def _valued(mechanism: dps.Mechanism, noise: str, scale: float) -> dps.WithValues:
    return dps.WithValues(mechanism=mechanism, noise=noise, scale=scale)


CASES: list[Case] = [
    # Noise other than Gumbel is drawn afresh for each winner, row by row.
    Case(_valued(one, noise, scale), ((2, 2), (2, 3)), domain=domain, rounds=10_000 if one.kind == "peeling_top_k" else 40_000)  # type: ignore[arg-type]
    for one, noise, scale, domain in (
        (dps.ExponentialMechanism(epsilon=0.7), "laplace", 1.5, "public"),
        (dps.PermuteAndFlip(epsilon=1.0, sensitivity=REPLACED), "gaussian", 1.5, "public"),
        (dps.PeelingTopK(k=2, noise="exponential", scale=2.0, sensitivity=TWO_ITEMS), "laplace", 2.0, "public"),
        (dps.OneshotTopK(k=2, noise="gumbel", scale=2.0, sensitivity=TWO_ITEMS_TWO_SIDED), "gaussian", 2.0, "public"),
        (dps.CanonicalTopK(k=2, epsilon=1.0), "gaussian", 1.2, "public"),
        (dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=0.02, l0=1), "laplace", 1.0, "observed"),
        (dps.LimitedDomain(k=2, kbar=2, epsilon=1.0, delta=0.02, l0=2), "gaussian", 1.0, "observed"),
    )
]

CASES += [
    Case(dps.PerGroup(mechanism=mechanism, max_groups_per_user=2), ((2, 2), (2, 3)), domain=domain)  # type: ignore[arg-type]
    for mechanism, domain in (
        (dps.PermuteAndFlip(epsilon=0.5), "public"),
        (dps.OneshotTopK(k=2, noise="gumbel", scale=2.0, sensitivity=REPLACED), "public"),
        (dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=0.02, l0=1), "observed"),
    )
]

CASES += [
    Case(
        dps.mechanisms.JointQuantiles(quantiles=quantiles, low=0, high=2, step=1, epsilon=1.5, relation=relation, spread=1),
        ((3, 3),),
        rounds=1000,
    )
    for quantiles, relation in (((0.5,), "add_remove"), ((0.25, 0.75), "replace_one"), ((0.2, 0.5, 0.9), "add_remove"))
]

# Values of noise of their own: what is seen is cells of values, and `probabilities` has no law of them.
CELLS: list[Case] = [Case(dps.OneshotTopK(k=k, noise="gumbel", scale=2.0, value_scale=4.0), ((3, 3),)) for k in (1, 2)]
