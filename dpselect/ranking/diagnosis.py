"""What public comparisons look like: to choose the assumptions of `SpectralTopK`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import scipy

from dpselect.ranking.chain import ergodicity_coefficient, transition
from dpselect.ranking.comparisons import Comparisons
from dpselect.ranking.errors import InvalidComparisons


@final
@dataclass(frozen=True)
class Diagnosis:
    """The constants of one set of comparisons.

    Attributes:
        items: number of items.
        components: number of connected parts of the graph of pairs; a ranking needs 1.
        complete: whether every pair was compared.
        largest_degree: the most others that any item was compared with; the least admissible normaliser.
        least_per_pair: comparisons of the rarest pair, L.
        normaliser: the d for which `ergodicity` was computed.
        ergodicity: tau_1 of these outcomes; 1 where two items have no neighbour in common.
    """

    items: int
    components: int
    complete: bool
    largest_degree: int
    least_per_pair: float
    normaliser: float
    ergodicity: float


def diagnose(comparisons: Comparisons, normaliser: float | None = None) -> Diagnosis:
    """The constants of *public* comparisons, an earlier season say. Never call it on the private ones and act on the answer.

    All but `ergodicity` depend on the public graph alone. `ergodicity` is computed from the outcomes: configuring or refusing a
    release by it on private data is itself a release, which nobody pays for.

    Args:
        normaliser: d; None for the largest degree plus 1.

    Raises:
        InvalidComparisons: the normaliser is below the largest degree.
    """
    graph, degree = comparisons.graph(), comparisons.largest_degree()
    d = float(degree + 1 if normaliser is None else normaliser)
    if not d >= degree:
        raise InvalidComparisons(f"normaliser={d!r} must be at least the largest degree, {degree}")
    return Diagnosis(
        items=comparisons.size,
        components=int(scipy.sparse.csgraph.connected_components(graph, directed=False)[0]),
        complete=graph.nnz == comparisons.size * (comparisons.size - 1),
        largest_degree=degree,
        least_per_pair=comparisons.least_per_pair(),
        normaliser=d,
        ergodicity=ergodicity_coefficient(transition(comparisons, d)),
    )
