"""Checks of a mechanism against its curve, exactly on small domains, and from samples on any."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, cast

import numpy as np
import scipy
from numpy.typing import ArrayLike

from accounting.arguments import check_integer
from accounting.convert.renyi import check_delta
from accounting.numbers import Floats, Integers
from dpselect.errors import InvalidRequest, NoClosedForm
from dpselect.mechanisms import Mechanism
from dpselect.scores import Domain, Scores
from dpselect.selection import Outcome
from dpselect.sensitivity import Sensitivity

ORDERS = (1.1, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
EPSILONS = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class WorstCase:
    """The largest exact divergences over all neighboring pairs of a box.

    Attributes:
        orders, rdp: Renyi orders and the largest divergence at each, in nats.
        epsilons, delta: epsilons (nats) and the largest hockey-stick divergence at each.
        pure_epsilon: the largest log-probability ratio, in nats; inf if an outcome is possible on
            one side only. A probability that a float cannot hold counts as 0, so that this may be
            inf for a mechanism of an epsilon in the hundreds.
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
    """Return exact divergences over every neighboring pair of score vectors in a box.

    The box is {0, ..., highest}^candidates (times linf).

    Args:
        edges: if the mechanism releases values, the boundaries (score units) of cells that
            distinguish them; None for the scores of the box. Cells hold less information than
            values, so the divergences are then lower bounds of the exact ones.

    Raises:
        NoClosedForm: the mechanism has no exact law at this size.
        InvalidRequest: not a mechanism, or a size that is not an integer >= 1.

    Example:
        >>> import dpselect as dps
        >>> worst = dps.verify.worst_case(dps.PermuteAndFlip(epsilon=1.0), candidates=3, highest=8)
        >>> round(worst.pure_epsilon, 6)
        1.0
    """
    _require_mechanism(mechanism, "sensitivity_bound", "probabilities")
    candidates = check_integer(
        "candidates", candidates, "the number of candidates of the box", error=InvalidRequest
    )
    highest = check_integer(
        "highest", highest, "the largest count in the box", error=InvalidRequest
    )
    vectors = np.array(list(itertools.product(range(highest + 1), repeat=candidates)))
    bounds = np.arange(highest + 1.0) * mechanism.sensitivity_bound.linf if edges is None else edges
    laws = _laws(mechanism, vectors, domain, bounds)
    first, second = _neighbors(mechanism.sensitivity_bound, vectors, highest)
    return _compare(laws, first, second, tuple(orders), tuple(epsilons))


def _require_mechanism(mechanism: object, *parts: str) -> None:
    """Raise unless an object has these parts of a mechanism, of this library or not."""
    if not all(hasattr(mechanism, part) for part in parts):
        raise InvalidRequest(
            f"mechanism must be a dpselect mechanism, not {type(mechanism).__name__}. Pass the"
            " object that draws the answer, not its curve"
        )


def changes(sensitivity: Sensitivity, candidates: int) -> Iterator[tuple[int, ...]]:
    """Yield every extreme change of a score vector, in units of linf.

    These are the directions in which a neighboring pair can differ.
    """
    steps = (0, 1) if sensitivity.monotone else (-1, 0, 1)
    for change in itertools.product(steps, repeat=candidates):
        if any(change) and _within(sensitivity, change):
            yield change


def _within(sensitivity: Sensitivity, change: tuple[int, ...]) -> bool:
    """True if this many changes of linf are allowed."""
    linf, touched, gained = (
        sensitivity.linf,
        sum(step != 0 for step in change),
        sum(step > 0 for step in change),
    )
    within_l0 = sensitivity.l0 is None or touched <= sensitivity.l0
    # Shares of one user: what is gained is one user's, and what is lost another's, each within a
    # norm of its own.
    alone, most = max(gained, touched - gained), sensitivity.items_alone
    by_user = not sensitivity.uniform or (
        (most is None or alone <= most) and linf <= sensitivity.alone(alone) * (1 + 1e-12)
    )
    squares = touched * linf**2 <= sensitivity.l2_of(None) ** 2 * (1 + 1e-12)
    return within_l0 and by_user and squares and touched * linf <= sensitivity.l1_of(None)


def _laws(mechanism: Mechanism, vectors: Integers, domain: Domain, edges: ArrayLike) -> Floats:
    sensitivity = mechanism.sensitivity_bound
    scores = [
        Scores(vector * sensitivity.linf, sensitivity=sensitivity, domain=domain)
        for vector in vectors
    ]
    valued = mechanism.releases_values
    if valued and not hasattr(mechanism, "cell_probabilities"):  # one of others
        raise NoClosedForm(
            f"{type(mechanism).__name__} releases values without exact probabilities of them."
            " Use lower_bound"
        )
    laws = [
        mechanism.cell_probabilities(candidate, edges)
        if valued
        else mechanism.probabilities(candidate)
        for candidate in scores
    ]
    outcomes = {
        outcome: column for column, outcome in enumerate(dict.fromkeys(itertools.chain(*laws)))
    }
    table = np.zeros((len(vectors), len(outcomes)))
    for row, law in zip(table, laws, strict=True):
        for outcome, probability in law.items():
            row[outcomes[outcome]] = probability
    return table


def _neighbors(
    sensitivity: Sensitivity, vectors: Integers, highest: int
) -> tuple[Integers, Integers]:
    """Return rows of all ordered pairs that differ by an extreme change, both inside the box."""
    weights = (highest + 1) ** np.arange(vectors.shape[1])[::-1]
    firsts, seconds = [], []
    for change in changes(sensitivity, vectors.shape[1]):
        neighbors = vectors + np.array(change)
        inside = np.flatnonzero(((neighbors >= 0) & (neighbors <= highest)).all(axis=1))
        firsts.append(inside)
        seconds.append(neighbors[inside] @ weights)
    if not firsts:
        raise InvalidRequest(
            f"no user changes a score by linf={sensitivity.linf:g} within {sensitivity!r}. State a"
            " smaller linf"
        )
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    return np.concatenate([first, second]), np.concatenate([second, first])


def _compare(
    laws: Floats,
    first: Integers,
    second: Integers,
    orders: tuple[float, ...],
    epsilons: tuple[float, ...],
) -> WorstCase:
    rdp, delta, pure = np.zeros(len(orders)), np.zeros(len(epsilons)), 0.0
    for start in range(0, len(first), 4096):
        p, q = laws[first[start : start + 4096]], laws[second[start : start + 4096]]
        rdp = np.maximum(rdp, renyi(p, q, orders).max(axis=1))
        delta = np.maximum(delta, hockey_stick(p, q, epsilons).max(axis=1))
        pure = max(pure, float(log_ratio(p, q).max()))
    return WorstCase(orders, rdp, epsilons, delta, pure, len(first))


# Divergences between two distributions on finitely many outcomes. Rows are pairs, columns outcomes.


def renyi(first: ArrayLike, second: ArrayLike, orders: ArrayLike) -> Floats:
    """Return (orders, pairs) Renyi divergences (nats) of `first` from `second`, at orders above 1.

    Both are (pairs, outcomes) of probabilities. Only an outcome that is impossible under `second`
    makes the divergence infinite.
    """
    p, q = (
        np.atleast_2d(np.asarray(first, dtype=np.float64)),
        np.atleast_2d(np.asarray(second, dtype=np.float64)),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p, log_q = np.log(p), np.log(q)
        ratio = np.where(p > 0, log_p - log_q, -np.inf)
        logs = (np.where(p > 0, log_p + (a - 1) * ratio, -np.inf) for a in np.atleast_1d(orders))
        rows = [
            scipy.special.logsumexp(row, axis=1) / (a - 1)
            for row, a in zip(logs, np.atleast_1d(orders), strict=True)
        ]
    return np.stack(rows)


def hockey_stick(first: ArrayLike, second: ArrayLike, epsilons: ArrayLike) -> Floats:
    """Return (epsilons, pairs) sums over outcomes of (first - exp(epsilon) second)_+.

    This is the smallest delta of each pair at each epsilon.
    """
    p, q = (
        np.atleast_2d(np.asarray(first, dtype=np.float64)),
        np.atleast_2d(np.asarray(second, dtype=np.float64)),
    )
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (np.where(q > 0, np.exp(e) * q, 0.0) for e in np.atleast_1d(epsilons))
        return np.stack([np.maximum(p - part, 0).sum(axis=1) for part in scaled])


def log_ratio(first: ArrayLike, second: ArrayLike) -> Floats:
    """Return (pairs,) largest log-probability ratios over the outcomes, in nats.

    This is the pure epsilon of each pair.
    """
    p, q = (
        np.atleast_2d(np.asarray(first, dtype=np.float64)),
        np.atleast_2d(np.asarray(second, dtype=np.float64)),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, np.log(p) - np.log(q), -np.inf).max(axis=1)


# -- from samples ----------------------------------------------------------------------------------


View = Callable[[Outcome], Any]
_CELLS = 16  # cells that distinguish one released value


@dataclass(frozen=True)
class LowerBound:
    """A lower bound on epsilon: no (e, delta)-DP guarantee with e below `epsilon` holds.

    This is true with probability `confidence`, and `event` is the witness. An outcome of the event
    is the released items, or a pair of them and the cells [low, high) that their values lie in.
    """

    epsilon: float
    delta: float
    confidence: float
    event: frozenset[Any]


def lower_bound(
    mechanism: Mechanism | Callable[[Any], Any],
    first: Any,
    second: Any,
    *,
    delta: float = 0.0,
    samples: int = 20_000,
    confidence: float = 1 - 1e-6,
    rng: np.random.Generator | None = None,
) -> LowerBound:
    """Return an epsilon that the mechanism exceeds on neighboring inputs `first` and `second`.

    It is computed from samples of `select`. Half of the samples choose the event, and the other
    half test it with exact binomial (Clopper-Pearson) limits. An event is about the items, and
    about the cells that released values lie in: of all values, of one, or of none, whichever gives
    the largest epsilon.

    Args:
        mechanism: one of this library's, or any function from an input to its release: an item (int
            or str), a number (float), or a sequence of one kind of them.
        first, second: neighboring Scores, or neighboring inputs of the function.
        delta: the delta of the claim under test.
        samples: draws from each input.
        confidence: probability that the statement is true, in (0, 1).
        rng: None draws releases from the operating system's entropy. Leave it out for a function,
            which draws its own noise.

    Raises:
        InvalidRequest: neither a mechanism nor a function, fewer than 10 samples, a confidence
            outside (0, 1), or a function that releases something else.
        InvalidArgument: delta is not in [0, 1).

    Example:
        >>> import numpy as np
        >>> import dpselect as dps
        >>> pair = [
        ...     dps.Scores(counts, sensitivity=dps.Sensitivity()) for counts in ([4, 4], [3, 4])
        ... ]
        >>> mechanism = dps.ExponentialMechanism(epsilon=1.0)
        >>> found = dps.verify.lower_bound(
        ...     mechanism, *pair, samples=2000, rng=np.random.default_rng(1)
        ... )
        >>> 0 <= found.epsilon < 1
        True
    """
    release, delta = _draw_function(mechanism, rng), check_delta(delta)
    samples = check_integer(
        "samples", samples, "the number of draws from each input", least=10, error=InvalidRequest
    )
    if isinstance(confidence, bool) or not isinstance(confidence, Real) or not 0 < confidence < 1:
        raise InvalidRequest(
            f"confidence={str(confidence)[:30]!r} must be a number in (0, 1): 1 - 1e-6, for example"
        )
    draws = [[release(scores) for _ in range(samples)] for scores in (first, second)]
    half = samples // 2
    views = _views([outcome for outcomes in draws for outcome in outcomes[:half]])
    view, event, _ = max(
        (_best_event(view, draws, delta, half) for view in views), key=lambda triple: triple[2]
    )
    test = [Counter(map(view, outcomes[half:])) for outcomes in draws]
    low, high = _limits(
        [sum(t[outcome] for outcome in event) for t in test], samples - half, confidence
    )
    epsilon = float(np.log((low - delta) / high)) if low > delta else 0.0
    return LowerBound(max(0.0, epsilon), delta, confidence, frozenset(event))


def _draw_function(
    mechanism: Mechanism | Callable[[Any], Any], rng: np.random.Generator | None
) -> Callable[[Any], Outcome]:
    """Return a function that draws once, in the form in which outcomes are compared."""
    select, draw = getattr(mechanism, "select", None), cast(Callable[[Any], Any], mechanism)
    if select is not None:
        return lambda scores: select(scores, rng=rng).outcome
    if not callable(mechanism):
        _require_mechanism(mechanism, "select")
    if rng is not None:
        raise InvalidRequest(
            "rng= seeds this library's mechanisms only: seed the function yourself, and leave"
            " it out"
        )
    return lambda scores: _outcome(draw(scores))


def _outcome(released: Any) -> Outcome:
    """Return the outcome of a function's release: items in their order, or numbers."""
    value = (
        np.asarray(released).ravel().tolist()
        if isinstance(released, np.ndarray | np.generic)
        else released
    )
    listed = value if isinstance(value, list | tuple) else (value,)
    parts = tuple(part.item() if isinstance(part, np.generic) else part for part in listed)
    if all(type(part) is float for part in parts) and parts:
        return Outcome(tuple(range(len(parts))), ordered=True, values=parts)
    if all(isinstance(part, int | str) for part in parts):
        return Outcome(parts, ordered=True)
    raise InvalidRequest(
        f"the function released a {type(released).__name__}. Make it int, str or float, or a"
        " sequence of one kind"
    )


def _views(outcomes: list[Outcome]) -> list[View]:
    """Return ways to distinguish outcomes: by the items alone, with one value, or with all.

    Values are distinguished by cells with about equally many.
    """
    views: list[View] = [lambda outcome: outcome.chosen]
    most = max((len(outcome.values or ()) for outcome in outcomes), default=0)
    subsets = [(place,) for place in range(most)] + ([tuple(range(most))] if most > 1 else [])
    for places in subsets:
        column = [
            values[place]
            for outcome in outcomes
            if (values := outcome.values)
            for place in places
            if place < len(values)
        ]
        # One value is told apart finely; of all values together only coarsely, or no event would
        # occur twice.
        count = _CELLS if len(places) == 1 else 2
        views.append(
            partial(
                Outcome.discretize,
                edges=np.unique(np.quantile(column, np.arange(1, count) / count)),
                places=places,
            )
        )
    return views


def _best_event(
    view: View, draws: list[list[Outcome]], delta: float, samples: int
) -> tuple[View, list[Any], float]:
    """Return the outcomes of this view that promise the largest epsilon, and how much.

    They are a prefix in order of the likelihood ratio.
    """
    first, second = (Counter(map(view, outcomes[:samples])) for outcomes in draws)
    ranked = sorted(
        first | second, key=lambda o: (first[o] + 0.5) / (second[o] + 0.5), reverse=True
    )
    p = np.cumsum([first[o] for o in ranked]) / samples
    q = np.cumsum([second[o] for o in ranked]) / samples
    worth = (p - _margin(p, samples) - delta) / (q + _margin(q, samples))
    best = int(np.argmax(worth))
    return view, ranked[: best + 1], float(worth[best])


def _margin(shares: Floats, samples: int) -> Floats:
    """Return about the change by the limits of `_limits`, so that rare events are not chosen."""
    return 5 * np.sqrt(shares * (1 - shares) / samples) + 12 / samples


def _limits(counts: list[int], samples: int, confidence: float) -> tuple[float, float]:
    miss = (1 - confidence) / 2
    low = (
        float(scipy.special.betaincinv(counts[0], samples - counts[0] + 1, miss))
        if counts[0]
        else 0.0
    )
    high = (
        float(scipy.special.betainccinv(counts[1] + 1, samples - counts[1], miss))
        if counts[1] < samples
        else 1.0
    )
    return low, high
