"""Law cases of histograms over an unknown domain."""

from __future__ import annotations

from typing import Any

from case import Case

import dpselect as dps

ONE, TWO = dps.Sensitivity(l0=1), dps.Sensitivity.of_counts(items_per_user=2)
REPLACED = dps.Sensitivity.of_counts("replace_one", 1)

CASES: list[Case] = [
    Case(
        dps.SparseHistogram(k=k, noise=noise, scale=scale, delta=delta, sensitivity=sensitivity),  # type: ignore[arg-type]
        ((1, 4), (2, 4), (3, 2)),
        domain=domain,  # type: ignore[arg-type]
    )
    for k, noise, scale, delta, sensitivity, domain in (
        (None, "gaussian", 1.3, 0.05, ONE, "observed"),
        (None, "gaussian", 0.8, 0.2, TWO, "public"),
        (1, "gaussian", 1.3, 1e-3, TWO, "observed"),
        (2, "gaussian", 1.5, 0.1, REPLACED, "observed"),
        (None, "laplace", 1.1, 0.05, TWO, "observed"),
        (2, "laplace", 1.0, 0.02, ONE, "public"),
        (1, "laplace", 2.0, 0.3, REPLACED, "observed"),
    )
]
CASES += [
    Case(
        dps.SparseHistogram(k=k, noise=noise, scale=scale, delta=delta, sensitivity=sensitivity, floor=floor),  # type: ignore[arg-type]
        ((1, 5), (2, 4)),
        domain=domain,  # type: ignore[arg-type]
    )
    for k, noise, scale, delta, sensitivity, floor, domain in (
        (None, "gaussian", 1.3, 0.05, TWO, 1.0, "observed"),
        (1, "laplace", 0.9, 0.1, TWO, 2.0, "public"),
        (2, "gaussian", 1.1, 0.1, REPLACED, 2.0, "observed"),
    )
]


def _twice(discovery: dps.Mechanism, selection: dps.Mechanism, candidates: int) -> dps.DiscoverThenSelect:
    return dps.DiscoverThenSelect(discovery=discovery, selection=selection, candidates=candidates)


_FIND = dps.SparseHistogram(scale=1.2, delta=0.1, sensitivity=TWO)
CASES += [
    Case(mechanism, ((2, 3), (3, 2)), domain=domain)  # type: ignore[arg-type]
    for mechanism, domain in (
        (_twice(_FIND, dps.OneshotTopK(k=1, noise="gumbel", scale=1.0, sensitivity=TWO), 2), "observed"),
        (_twice(_FIND, dps.OneshotTopK(k=2, noise="gaussian", scale=1.5, sensitivity=TWO), 3), "public"),
        (_twice(_FIND, dps.OneshotTopK(k=1, noise="exponential", scale=1.0, sensitivity=TWO), 1), "public"),
    )
]


CASES += [
    Case(dps.mechanisms.TopOfGroups(k=k, mechanism=mechanism), ((2, 3), (3, 2)), domain=domain)  # type: ignore[arg-type]
    for k, mechanism, domain in (
        (1, _FIND, "observed"),
        (2, dps.OneshotTopK(k=2, noise="gaussian", scale=1.5, sensitivity=TWO), "public"),
    )
]


def _rounds(**settings: Any) -> dps.TwoRoundHistogram:
    return dps.TwoRoundHistogram(**{"scale": 1.6, "mask": 0.5, "sensitivity": TWO} | settings)


CASES += [
    Case(_rounds(**settings), ((1, 4), (2, 3)), domain="public" if settings.get("delta") is None else domain, rounds=20_000)  # type: ignore[arg-type]
    for domain, settings in (
        ("observed", {"k": 2, "delta": 0.1}),
        ("public", {"delta": 0.05, "combine": 0.0, "sensitivity": ONE, "values": True}),
        ("public", {"k": 2, "share": 0.3, "combine": 0.6}),
        ("observed", {"k": 1, "delta": 0.1, "sensitivity": REPLACED, "norm": 0.7, "mask": 1.0}),
        ("public", {"k": 1, "sensitivity": REPLACED, "norm": 2.0, "taper": 3.0}),
    )
]
