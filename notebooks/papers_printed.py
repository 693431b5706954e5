"""What the five papers print, and what their mechanisms give here under a cost that is proved.

Figures are quoted from the papers; sentences are not. Data sets that are not at hand are said to be
so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import papers_stable

import accounting as acc
import dpselect as dps
from dpselect.plan import TopKRequest, default_mechanism

DELTA, ROUNDS = 1e-6, 600
# Carvalho et al. (2020), Tables 2 and 3, and Zhu and Wang (2022), Table 1: share of the true top 50
# at epsilon .4, .8, 1.0. The last is of a fixed k, so that StableTopKFixed stands beside it.
SHARES = {
    "Gowalla": {"Top Stable": (0.20, 0.40, None), "Limited Domain": (0.24, 0.38, 0.45)},
    "BrightKite": {
        "Top Stable": (0.14, 0.16, 0.18),
        "Limited Domain": (0.10, 0.25, 0.28),
        "StableTopK": (0.61, 0.67, 0.67),
    },
    "Foursquare": {"StableTopK": (0.48, 0.67, 0.67)},
}
HERE = {
    "Top Stable": "Top Stable, kbar=2k from k",
    "Limited Domain": "Limited Domain, kbar=10k",
    "StableTopK": "StableTopK, around k",
    "StableTopKFixed": "StableTopKFixed (public)",
}


def constants() -> Iterator[str]:
    """Figures that follow from formulas alone; Shekelyan and Loukides print curves, which the first
    figure draws.
    """
    yield f"{'figure':<66}{'printed':>9}{'here':>9}"
    yield _row("Chaudhuri et al.: least lead at (1, 1e-6), counts", "415", _lead())
    tail = math.sqrt(2 * math.log(1 / DELTA))
    quantile = dps.StabilityTest(k=10, scale=1.0, failure_delta=DELTA)
    yield _row(
        "Zhu and Wang: threshold of the test at 1e-6, deviations",
        f"{tail:.2f}",
        f"{quantile.rule.threshold:.2f}",
    )
    yield _row("Zhu and Wang: epsilon of CelebA, 600 rounds", "3.6", _celeba())
    yield _row(
        "Qiao et al.: deviation of noise, top 1,000 of 10^6 at (0.2, 1e-6)",
        _deviation("laplace"),
        _deviation("gumbel"),
    )


def logs(size: int) -> dict[str, tuple[int, Any]]:
    """Users and sorted counts of the logs that are at hand; made-up ones where none is."""
    if papers_stable.DATA.exists():
        return {name.split()[0]: (n, c) for name, n, c in papers_stable.checkins()}
    counts = 20_000 / np.arange(1, size + 1)
    return {"made-up Zipf": (30_000, counts.astype(np.int64))}


def shares(datasets: dict[str, tuple[int, Any]], draws: int) -> Iterator[str]:
    """Share of the true top 50, printed and here, by `datasets` (users, sorted counts); the same
    budget, delta 1 / users.
    """
    yield f"{'share of the true top 50, delta = 1/users':<46}{'0.4':>6}{'0.8':>6}{'1.0':>6}"
    for name, printed in SHARES.items():
        for mechanism, row in printed.items():
            yield _shares(f"{name}, {mechanism}, printed", row)
        if name not in datasets:
            yield f"{name}: not at hand here"
    for name, (users, counts) in datasets.items():
        made = papers_stable.families(50, 0.5 / users)
        for mechanism, key in HERE.items():
            domain = "public" if "public" in key else "observed"
            yield _shares(
                f"{name}, {mechanism}, here",
                [
                    _found(made[key], e, users, counts, draws, domain)
                    for e in (0.4, 0.8, 1.0)
                ],
            )
        yield _shares(
            f"{name}, the default, here",
            [_default(e, users, counts, draws) for e in (0.4, 0.8, 1.0)],
        )


def _row(figure: str, printed: str, here: str) -> str:
    return f"{figure:<66}{printed:>9}{here:>9}"


def _shares(label: str, row: Any) -> str:
    return f"{label:<46}" + "".join(
        f"{'-' if p is None else f'{p:.2f}':>6}" for p in row
    )


def _lead() -> str:
    large = dps.LargeMargin(epsilon=1.0, delta=DELTA, candidates=10**4)
    return f"{large.margin(1):.0f}"


def _celeba() -> str:
    """The noise that the paper uses, under replaced ballots: neighbors move two counts."""
    gaps = dps.mechanisms.GaussianGap(kbar=40, scale=50.0, relation="replace_one")
    round_ = gaps.curve + acc.GaussianDP(mu=2 / 60)
    return f"{(ROUNDS * round_).epsilon(DELTA - ROUNDS * 1e-9):.0f}"


def _deviation(noise: Any) -> str:
    """Of the noise on a count, in counts; the paper's Theorem 2.2 for Laplace noise."""
    scale = acc.calibrate(
        lambda b: (
            dps.OneshotTopK(
                k=1000,
                noise=noise,
                scale=b,
                candidates=10**6 if noise == "laplace" else None,
            ).curve
        ),
        acc.Budget(epsilon=0.2, delta=DELTA),
        (1e-2, 1e9),
    )
    return f"{scale * (math.sqrt(2) if noise == 'laplace' else math.pi / math.sqrt(6)):,.0f}"


def _found(
    family: Any, epsilon: float, users: int, counts: Any, draws: int, domain: str
) -> float:
    mechanism = papers_stable.fitted(family, epsilon, 1 / users)
    return papers_stable.metrics(mechanism, counts, 50, draws, domain)[0]


def _default(epsilon: float, users: int, counts: Any, draws: int) -> float:
    """What the library chooses for counts that nobody was clipped for."""
    budget = acc.Budget(epsilon=epsilon, delta=1 / users)
    mechanism = default_mechanism(budget, TopKRequest(k=50))
    return papers_stable.metrics(mechanism, counts, 50, draws, "observed")[0]
