"""True p-values, at any sample size: under the law each is below x with probability at most x."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr
from scipy.stats import binom, hypergeom


def fit(seen: ArrayLike, chances: ArrayLike) -> float:
    """Of counts per outcome against their chances, which are right to 1e-13; 0 if an impossible
    outcome occurs.

    The smaller, doubled, of two: exact binomial tests of every outcome (Bonferroni), and the
    relative entropy of the frequencies by Agrawal's bound P[n KL >= g] <= exp(-g) (e g / (K -
    1))^(K - 1) for g > K - 1 (2020, Theorem I.2). Outcomes expected fewer than ten times are
    pooled.
    """
    counts, law = np.asarray(seen, dtype=float), np.asarray(chances, dtype=float)
    if counts[law <= 0].any():
        return 0.0
    frequent = law * counts.sum() >= 10
    # A pool that weighs less than the law's error is not known to weigh nothing.
    rest = max(law[~frequent].sum(), 1e-13 if (~frequent).any() else 0.0)
    counts, law = (
        np.append(counts[frequent], counts[~frequent].sum()),
        np.append(law[frequent], rest),
    )
    return min(1.0, 2 * min(_by_outcome(counts, law), _by_entropy(counts, law)))


def equally_likely(seen: ArrayLike) -> float:
    """Of counts of outcomes that all have the same chance."""
    return fit(seen, np.full(np.size(seen), 1 / np.size(seen)))


def same_law(first: ArrayLike, second: ArrayLike) -> float:
    """Of two lists of counts per outcome with one unknown law: exact hypergeometric tests of every
    outcome (Bonferroni).
    """
    a, b = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    both, drawn = a + b, a.sum()
    tails = np.minimum(
        hypergeom.cdf(a, both.sum(), both, drawn), hypergeom.sf(a - 1, both.sum(), both, drawn)
    )
    return min(1.0, float(2 * len(a) * tails.min()))


def alike(seen: Iterable[Any], drawn: Iterable[Any]) -> float:
    """Of two samples with one unknown law; outcomes seen fewer than ten times are one."""
    counts = Counter(seen), Counter(drawn)
    frequent = [one for one, number in (counts[0] + counts[1]).items() if number >= 10]
    table = [[count[one] for one in frequent] for count in counts]
    return same_law(
        *([*row, count.total() - sum(row)] for row, count in zip(table, counts, strict=True))
    )


def _by_outcome(counts: NDArray[np.float64], law: NDArray[np.float64]) -> float:
    n, chances = counts.sum(), np.minimum(law, 1)
    tails = np.minimum(binom.cdf(counts, n, chances), binom.sf(counts - 1, n, chances))
    return float(2 * len(counts) * tails.min())


def _by_entropy(counts: NDArray[np.float64], law: NDArray[np.float64]) -> float:
    divergence = float(rel_entr(counts / counts.sum(), law / law.sum()).sum()) * counts.sum()
    free = max(int((law > 0).sum()) - 1, 1)
    return (
        1.0
        if divergence <= free
        else float(np.exp(-divergence + free * (1 + np.log(divergence / free))))
    )
