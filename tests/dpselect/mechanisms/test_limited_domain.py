"""Which items compete in `LimitedDomain`."""

from __future__ import annotations

import numpy as np

import dpselect as dps


def test_the_kbar_most_popular_compete_and_the_next_one_is_the_bar() -> None:
    """With next to no noise the 20 best of 30 come out in order, one by one and in rows; 19 where the last ties with the bar."""
    mechanism, rng = dps.LimitedDomain(k=20, kbar=20, epsilon=100.0, delta=0.5), np.random.default_rng(1)
    for tied, released in ((False, 20), (True, 19)):
        counts = 1000 - 10 * np.arange(30)
        counts[19] -= 10 * tied
        scores = dps.Scores(counts, sensitivity=dps.Sensitivity())
        assert mechanism.select(scores, rng=rng).indices == tuple(range(released))
        assert mechanism.select_many([counts, counts], rng=rng)[1].indices == tuple(range(released))
