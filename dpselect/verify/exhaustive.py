"""Check a mechanism against its curve exactly: every neighbouring pair of a small box, and divergences between finite laws."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accounting.arguments import checked_integer
from dpselect.errors import InvalidRequest, NoClosedForm
from dpselect.mechanisms import Mechanism
from dpselect.scores import Domain, Scores
from dpselect.sensitivity import Sensitivity

ORDERS = (1.1, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
EPSILONS = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class WorstCase:
    """The largest exact divergences over all neighbouring pairs of a box.

    Attributes:
        orders, rdp: Renyi orders and the largest divergence at each, in nats.
        epsilons, delta: epsilons (nats) and the largest hockey-stick divergence at each.
        pure_epsilon: the largest log-probability ratio, in nats; inf if an outcome is possible on one side only.
        pairs: number of ordered pairs compared.
    """

    orders: tuple[float, ...]
    rdp: Floats
    epsilons: tuple[float, ...]
    delta: Floats
    pure_epsilon: float
    pairs: int


def worst_case(
    mechanism: Mechanism,
    *,
    candidates: int = 3,
    highest: int = 3,
    orders: Sequence[float] = ORDERS,
    epsilons: Sequence[float] = EPSILONS,
    domain: Domain = "public",
    edges: ArrayLike | None = None,
) -> WorstCase:
    """Exact divergences over every neighbouring pair of score vectors in {0, ..., highest}^candidates (times linf).

    Args:
        mechanism: one whose `probabilities` are exact.
        candidates: number of candidates, small.
        highest: largest count in the box, small.
        orders: Renyi orders above 1.
        epsilons: nats, >= 0.
        domain: how the scores declare their candidates.
        edges: where the mechanism releases values, the boundaries (score units) between which they are told apart; None for the
            scores of the box. Cells see less than values do: the divergences are then lower bounds of the exact ones.

    Raises:
        NoClosedForm: the mechanism has no exact law at this size.
        InvalidRequest: not a mechanism, or a size that is not an integer >= 1.

    Example:
        >>> import dpselect as dps
        >>> worst = dps.verify.worst_case(dps.PermuteAndFlip(epsilon=1.0), candidates=3, highest=8)
        >>> round(worst.pure_epsilon, 6)
        1.0
    """
    require_mechanism(mechanism, "covers", "probabilities")
    candidates = checked_integer("candidates", candidates, "how many candidates the box has", error=InvalidRequest)
    highest = checked_integer("highest", highest, "the largest count in the box", error=InvalidRequest)
    vectors = np.array(list(itertools.product(range(highest + 1), repeat=candidates)))
    bounds = np.arange(highest + 1.0) * mechanism.covers.linf if edges is None else edges
    laws = _laws(mechanism, vectors, domain, bounds)
    first, second = _neighbours(mechanism.covers, vectors, highest)
    return _compare(laws, first, second, tuple(orders), tuple(epsilons))


def require_mechanism(mechanism: object, *parts: str) -> None:
    """Mechanisms of others, which only look like one, are welcome."""
    if not all(hasattr(mechanism, part) for part in parts):
        raise InvalidRequest(
            f"mechanism must be a dpselect mechanism, not {type(mechanism).__name__}: pass what draws the answer, not its curve"
        )


def changes(sensitivity: Sensitivity, candidates: int) -> Iterator[tuple[int, ...]]:
    """Every extreme change of a score vector, in units of linf: the directions a neighbouring pair can differ in."""
    steps = (0, 1) if sensitivity.monotone else (-1, 0, 1)
    for change in itertools.product(steps, repeat=candidates):
        if any(change) and _within(sensitivity, change):
            yield change


def _within(sensitivity: Sensitivity, change: tuple[int, ...]) -> bool:
    """Whether this many changes of linf are allowed."""
    linf, touched, gained = sensitivity.linf, sum(step != 0 for step in change), sum(step > 0 for step in change)
    few = sensitivity.l0 is None or touched <= sensitivity.l0
    # Shares of one user: what is gained is one user's, and what is lost another's, each within a norm of its own.
    alone, most = max(gained, touched - gained), sensitivity.items_alone
    by_user = not sensitivity.uniform or ((most is None or alone <= most) and linf <= sensitivity.alone(alone) * (1 + 1e-12))
    squares = touched * linf**2 <= sensitivity.l2_of(None) ** 2 * (1 + 1e-12)
    return few and by_user and squares and touched * linf <= sensitivity.l1_of(None)


def _laws(mechanism: Mechanism, vectors: Indices, domain: Domain, edges: ArrayLike) -> Floats:
    sensitivity = mechanism.covers
    scores = [Scores(vector * sensitivity.linf, sensitivity=sensitivity, domain=domain) for vector in vectors]
    laws = [_law(mechanism, one, edges) for one in scores]
    outcomes = {outcome: column for column, outcome in enumerate(dict.fromkeys(itertools.chain(*laws)))}
    table = np.zeros((len(vectors), len(outcomes)))
    for row, law in zip(table, laws, strict=True):
        for outcome, probability in law.items():
            row[outcomes[outcome]] = probability
    return table


def _law(mechanism: Mechanism, scores: Scores, edges: ArrayLike) -> Mapping[Any, float]:
    if not mechanism.releases_values:
        return mechanism.probabilities(scores)
    if not hasattr(mechanism, "cell_probabilities"):
        raise NoClosedForm(f"{type(mechanism).__name__} releases values and has no law of them: use lower_bound")
    law: Mapping[Any, float] = mechanism.cell_probabilities(scores, edges)
    return law


def _neighbours(sensitivity: Sensitivity, vectors: Indices, highest: int) -> tuple[Indices, Indices]:
    """Rows of all ordered pairs that differ by an extreme change, both inside the box."""
    weights = (highest + 1) ** np.arange(vectors.shape[1])[::-1]
    firsts, seconds = [], []
    for change in changes(sensitivity, vectors.shape[1]):
        moved = vectors + np.array(change)
        inside = np.flatnonzero(((moved >= 0) & (moved <= highest)).all(axis=1))
        firsts.append(inside)
        seconds.append(moved[inside] @ weights)
    if not firsts:
        raise InvalidRequest(f"no user changes a score by linf={sensitivity.linf:g} within {sensitivity!r}: state a smaller linf")
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    return np.concatenate([first, second]), np.concatenate([second, first])


def _compare(laws: Floats, first: Indices, second: Indices, orders: tuple[float, ...], epsilons: tuple[float, ...]) -> WorstCase:
    rdp, delta, pure = np.zeros(len(orders)), np.zeros(len(epsilons)), 0.0
    for start in range(0, len(first), 4096):
        p, q = laws[first[start : start + 4096]], laws[second[start : start + 4096]]
        rdp = np.maximum(rdp, renyi(p, q, orders).max(axis=1))
        delta = np.maximum(delta, hockey_stick(p, q, epsilons).max(axis=1))
        pure = max(pure, float(log_ratio(p, q).max()))
    return WorstCase(orders, rdp, epsilons, delta, pure, len(first))


# Divergences between two laws on finitely many outcomes. Rows are pairs, columns outcomes.


def renyi(first: ArrayLike, second: ArrayLike, orders: ArrayLike) -> Floats:
    """(orders, pairs) Renyi divergence (nats) of `first` from `second`, each (pairs, outcomes) of probabilities; orders above 1.

    An outcome impossible under `second` only makes the divergence infinite.
    """
    p, q = np.atleast_2d(np.asarray(first, dtype=np.float64)), np.atleast_2d(np.asarray(second, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p, log_q = np.log(p), np.log(q)
        ratio = np.where(p > 0, log_p - log_q, -np.inf)
        rows = [_log_sum(np.where(p > 0, log_p + (a - 1) * ratio, -np.inf)) / (a - 1) for a in np.atleast_1d(orders)]
    return np.stack(rows)


def hockey_stick(first: ArrayLike, second: ArrayLike, epsilons: ArrayLike) -> Floats:
    """(epsilons, pairs) sum over outcomes of (first - exp(epsilon) second)_+: the smallest delta of each pair at each epsilon."""
    p, q = np.atleast_2d(np.asarray(first, dtype=np.float64)), np.atleast_2d(np.asarray(second, dtype=np.float64))
    return np.stack([np.maximum(p - np.exp(e) * q, 0).sum(axis=1) for e in np.atleast_1d(epsilons)])


def log_ratio(first: ArrayLike, second: ArrayLike) -> Floats:
    """(pairs,) the largest log-probability ratio over the outcomes (nats): the pure epsilon of each pair."""
    p, q = np.atleast_2d(np.asarray(first, dtype=np.float64)), np.atleast_2d(np.asarray(second, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, np.log(p) - np.log(q), -np.inf).max(axis=1)


def _log_sum(terms: Floats) -> Floats:
    top = terms.max(axis=1)
    safe = np.where(np.isfinite(top), top, 0.0)
    return safe + np.log(np.exp(terms - safe[:, None]).sum(axis=1))
