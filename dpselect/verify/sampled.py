"""Check a mechanism against its curve from samples, on any domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from accounting.arguments import checked_integer
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism
from dpselect.outcome import Outcome
from dpselect.verify.exhaustive import require_mechanism

Floats = NDArray[np.float64]
View = Callable[[Outcome], Any]
_CELLS = 16  # that one released value is told apart by


@dataclass(frozen=True)
class LowerBound:
    """With probability `confidence`, no (e, delta)-DP guarantee with e below `epsilon` holds; `event` is the witness.

    An outcome of the event is the released items, or a pair of them and the cells [low, high) that values of theirs lie in.
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
    """An epsilon that the mechanism exceeds on neighbouring inputs `first` and `second`, from samples of `select`.

    Half of the samples choose the event, the other half test it with exact binomial (Clopper-Pearson) limits. An event is about
    the items, and about the cells that released values lie in: of all of them, of one, or of none, whichever says most.

    Args:
        mechanism: one of this library's, or anybody's function from an input to what it releases: an item (int or str), a number
            (float), or a sequence of one kind of them.
        first, second: neighbouring Scores, or whatever the function takes.
        delta: the delta of the claim under test.
        samples: draws from each input.
        confidence: of the statement, in (0, 1).
        rng: None draws releases from the operating system's entropy. A function draws its own noise: leave it out.

    Raises:
        InvalidRequest: neither a mechanism nor a function, fewer than 10 samples, a confidence outside (0, 1), or a function that
            releases something else.

    Example:
        >>> import numpy as np
        >>> import dpselect as dps
        >>> pair = [dps.Scores(counts, sensitivity=dps.Sensitivity()) for counts in ([4, 4], [3, 4])]
        >>> mechanism = dps.ExponentialMechanism(epsilon=1.0)
        >>> found = dps.verify.lower_bound(mechanism, *pair, samples=2000, rng=np.random.default_rng(1))
        >>> 0 <= found.epsilon < 1
        True
    """
    release = _released_by(mechanism, rng)
    samples = checked_integer("samples", samples, "how many draws are made from each input", least=10, error=InvalidRequest)
    if isinstance(confidence, bool) or not isinstance(confidence, Real) or not 0 < confidence < 1:
        raise InvalidRequest(f"confidence={str(confidence)[:30]!r} must be a number in (0, 1): 1 - 1e-6, for example")
    draws = [[release(scores) for _ in range(samples)] for scores in (first, second)]
    half = samples // 2
    views = _views([outcome for drawn in draws for outcome in drawn[:half]])
    view, event, _ = max((_best_event(view, draws, delta, half) for view in views), key=lambda found: found[2])
    test = [Counter(map(view, drawn[half:])) for drawn in draws]
    low, high = _limits([sum(t[outcome] for outcome in event) for t in test], samples - half, confidence)
    epsilon = float(np.log((low - delta) / high)) if low > delta else 0.0
    return LowerBound(max(0.0, epsilon), delta, confidence, frozenset(event))


def _released_by(mechanism: Mechanism | Callable[[Any], Any], rng: np.random.Generator | None) -> Callable[[Any], Outcome]:
    """One draw, in the form that outcomes are compared in."""
    select, draw = getattr(mechanism, "select", None), cast(Callable[[Any], Any], mechanism)
    if select is not None:
        return lambda scores: select(scores, rng=rng).outcome
    if not callable(mechanism):
        require_mechanism(mechanism, "select")
    if rng is not None:
        raise InvalidRequest("rng= seeds this library's mechanisms only: seed the function yourself, and leave it out")
    return lambda given: _outcome(draw(given))


def _outcome(released: Any) -> Outcome:
    """What a function released: items in their order, or numbers."""
    held = np.asarray(released).ravel().tolist() if isinstance(released, np.ndarray | np.generic) else released
    listed = held if isinstance(held, list | tuple) else (held,)
    parts = tuple(part.item() if isinstance(part, np.generic) else part for part in listed)
    if all(type(part) is float for part in parts) and parts:
        return Outcome(tuple(range(len(parts))), ordered=True, values=parts)
    if all(isinstance(part, int | str) for part in parts):
        return Outcome(parts, ordered=True)
    raise InvalidRequest(
        f"the function released a {type(released).__name__}: make it int, str or float, or a sequence of one kind"
    )


def _views(outcomes: list[Outcome]) -> list[View]:
    """Ways to tell outcomes apart: by the items alone, with one value, or with all; values by cells with about equally many."""
    views: list[View] = [lambda outcome: outcome.chosen]
    most = max((len(outcome.values or ()) for outcome in outcomes), default=0)
    shown = [(place,) for place in range(most)] + ([tuple(range(most))] if most > 1 else [])
    for places in shown:
        held = [values[place] for outcome in outcomes if (values := outcome.values) for place in places if place < len(values)]
        # One value is told apart finely; of all values together only coarsely, or no event would occur twice.
        count = _CELLS if len(places) == 1 else 2
        views.append(partial(Outcome.seen, edges=np.unique(np.quantile(held, np.arange(1, count) / count)), places=places))
    return views


def _best_event(view: View, draws: list[list[Outcome]], delta: float, samples: int) -> tuple[View, list[Any], float]:
    """Outcomes as this view tells them apart, in order of likelihood ratio: the prefix that promises most, and how much."""
    first, second = (Counter(map(view, drawn[:samples])) for drawn in draws)
    ranked = sorted(first | second, key=lambda o: (first[o] + 0.5) / (second[o] + 0.5), reverse=True)
    p = np.cumsum([first[o] for o in ranked]) / samples
    q = np.cumsum([second[o] for o in ranked]) / samples
    worth = (p - _margin(p, samples) - delta) / (q + _margin(q, samples))
    best = int(np.argmax(worth))
    return view, ranked[: best + 1], float(worth[best])


def _margin(shares: Floats, samples: int) -> Floats:
    """About what the limits of `_limits` will add or take away: an event must be likely enough for the test."""
    return 5 * np.sqrt(shares * (1 - shares) / samples) + 12 / samples


def _limits(counts: list[int], samples: int, confidence: float) -> tuple[float, float]:
    miss = (1 - confidence) / 2
    low = float(scipy.special.betaincinv(counts[0], samples - counts[0] + 1, miss)) if counts[0] else 0.0
    high = float(scipy.special.betainccinv(counts[1] + 1, samples - counts[1], miss)) if counts[1] < samples else 1.0
    return low, high
