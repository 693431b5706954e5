"""What histograms that are charged one by one have shown: it stays shown, without a threshold. Theorem T6."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import final

import numpy as np

from dpselect.errors import InvalidRequest
from dpselect.mechanisms.unknown.sparse_histogram import SparseHistogram
from dpselect.scores import Scores
from dpselect.selection import Label, Selection, label_key

_OUT_OF_REACH = 64  # noise units: Laplace noise falls so low with a chance of 1e-28, Gaussian noise with one of 1e-892
_HIGHEST = 2.0**32
_UNIT = 2.0**-20  # of clipped counts
_REASON = "fewer items than requested were discovered so far"


@final
class Memory:
    """The items that earlier noisy histograms have shown. What it does costs nothing: it looks at released values only.

    A later `SparseHistogram` of the same question, over another period or a longer one, shows these items whatever their noisy
    scores: only items that were never shown still have to exceed its threshold.

    Args:
        shown: what earlier histograms released: the results of `read`, all of them.

    Example:
        >>> import dpselect as dps
        >>> memory, few = dps.Memory(), dps.Sensitivity.of_counts(items_per_user=3)
        >>> histogram = dps.SparseHistogram(scale=8.0, delta=1e-6, sensitivity=few)
        >>> for counts in ([9000, 5000], [70, 30]):
        ...     day = dps.Scores(counts, labels=["zoo", "park"], sensitivity=few, domain="observed")
        ...     shown = memory.read(histogram, histogram.select(memory.raised(histogram, day)))
        >>> sorted(shown.labels)
        ['park', 'zoo']
    """

    def __init__(self, shown: Iterable[Selection] = ()) -> None:
        self._known: dict[Label, None] = {}
        for one in shown:
            self._known |= dict.fromkeys(one.labels or ())

    def raised(self, histogram: SparseHistogram, scores: Scores) -> Scores:
        """The same scores, those of known items higher by a public number that lifts them over the threshold; 0 where they do not
        occur. To be released by `histogram`, at its price.

        Raises:
            InvalidRequest: the histogram keeps items of few users hidden (`floor`), or shows k items at most; or the scores have
                no labels, or are not multiples of 2^-20, as counts and clipped counts are.
        """
        if histogram.floor > 0 or histogram.k is not None:
            raise InvalidRequest(
                "a memory shows known items whatever their scores, all of them: it takes a SparseHistogram with floor=0 "
                "and k=None, and `best` chooses k of what that shows"
            )
        if scores.labels is None:
            raise InvalidRequest("scores have no labels, by which a memory knows items: name the candidates")
        if scores.values.dtype == np.float64 and (scores.values % _UNIT).any():
            raise InvalidRequest(
                "scores are not multiples of 2^-20, so that a sum could be rounded: a memory is for counts of users"
            )
        absent = [label for label in self._known if label not in set(scores.labels)] if self._known else []
        known = np.array([label in self._known for label in (*scores.labels, *absent)])
        values = np.concatenate([scores.values, np.zeros(len(absent), dtype=scores.values.dtype)])
        values[known] += values.dtype.type(_lift(histogram))
        return Scores(
            values,
            sensitivity=scores.sensitivity,
            labels=[*scores.labels, *absent],
            domain=scores.domain,
            kind=scores.kind,
            sums=scores.sums,
            owned=True,
        )

    def read(self, histogram: SparseHistogram, drawn: Selection) -> Selection:
        """What was drawn from raised scores, with the noisy scores themselves, best first; all of it is known from now on."""
        labels, values = drawn.labels or (), drawn.values or ()
        lift = _lift(histogram)
        scores = {label: value - lift * (label in self._known) for label, value in zip(labels, values, strict=True)}
        order = sorted(scores, key=lambda label: (-scores[label], label_key(label)))
        self._known |= dict.fromkeys(order)
        return Selection(ordered=True, values=tuple(scores[label] for label in order), labels=tuple(order))


def best(shown: Selection, k: int) -> Selection:
    """The first k of what `Memory.read` returns."""
    labels, values = (shown.labels or ())[:k], (shown.values or ())[:k]
    complete = len(labels) == k
    reason = None if complete else _REASON
    return Selection(ordered=True, requested=k, complete=complete, reason=reason, values=values, labels=labels)


def _lift(histogram: SparseHistogram) -> float:
    """A public power of two, an integer: no noise brings what is that high down to the threshold."""
    lift = float(2.0 ** math.ceil(math.log2(max(1.0, histogram.threshold + _OUT_OF_REACH * histogram.scale))))
    if lift > _HIGHEST:
        raise InvalidRequest(f"scale={histogram.scale:g} is too large for a memory: sums above 2^32 would be rounded")
    return lift
