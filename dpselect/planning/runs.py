"""How much is simulated, from which seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

_WORK = 1e9  # elementary steps, some ten seconds


@final
@dataclass(frozen=True)
class Runs:
    """So many simulated runs. Every mechanism starts from the same seed, so that luck is shared.

    Attributes:
        count: how many runs, >= 2.
        seed: of the simulation.
        stage: 0 to choose parameters, 1 to judge the choice: other draws, so that the choice does not flatter it.
        fine: whether quadrature is as fine as it gets; coarse, it is off by .01 at most.
        places: whether it matters which item stands in which place.
    """

    count: int
    seed: int
    stage: int = 1
    fine: bool = True
    places: bool = True

    def within(self, work: float) -> Runs:
        """Fewer runs, but at least 100, where one run takes so many elementary steps that all would take minutes."""
        return replace(self, count=min(self.count, max(100, int(_WORK / work))))

    def generator(self) -> np.random.Generator:
        """A fresh generator."""
        return np.random.default_rng([self.seed, self.stage])
