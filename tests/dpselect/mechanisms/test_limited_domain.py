"""Which items compete in `LimitedDomain`."""

from __future__ import annotations

import numpy as np

import accounting as acc
import dpselect as dps


def test_the_kbar_most_popular_compete_and_the_next_one_is_the_bar() -> None:
    """With next to no noise the 20 best of 30 come out in order, one by one and in rows; 19 where
    the last ties with the bar.
    """
    mechanism, rng = (
        dps.LimitedDomain(k=20, kbar=20, epsilon=100.0, delta=0.5),
        np.random.default_rng(1),
    )
    for tied, released in ((False, 20), (True, 19)):
        counts = 1000 - 10 * np.arange(30)
        counts[19] -= 10 * tied
        scores = dps.Scores(counts, sensitivity=dps.Sensitivity())
        assert mechanism.select(scores, rng=rng).indices == tuple(range(released))
        assert mechanism.select_many([counts, counts], rng=rng)[1].indices == tuple(range(released))


def test_a_size_that_is_chosen_costs_one_pick_more() -> None:
    """S8: k picks, and one of how many compete where that is not fixed; of a short answer those
    that were made and its end.
    """
    fixed = dps.LimitedDomain(k=3, kbar=5, epsilon=0.5, delta=1e-3)
    for mechanism, more in ((fixed, 0), (fixed.model_copy(update={"kbar_least": 3}), 1)):
        for shown in range(4):
            short = dps.Selection(
                indices=tuple(range(shown)), ordered=True, requested=3, complete=shown == 3
            )
            picks = acc.BoundedRange(epsilon=0.5)
            assert mechanism.cost_of(short) == acc.Approximate(
                curve=(min(3, shown + 1) + more) * picks, delta0=1e-3
            )
        assert mechanism.curve == acc.Approximate(curve=(3 + more) * picks, delta0=1e-3)
