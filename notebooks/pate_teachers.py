"""Teachers, votes and students for the PATE examples; plain NumPy, no privacy in here.

Privacy rests on one property of this file, which a test checks: a private record is used by one
teacher only, and which one depends on the record's position alone. Whatever a teacher does with its
own records is its own affair: one changed record then changes one ballot of every round, however it
changes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Row numbers: records of the teachers, public items to be labeled, and items that measure the
    result.
    """

    private: Places
    public: Places
    test: Places

    def shards(self, teachers: int) -> list[Places]:
        """The private rows of each teacher: every `teachers`-th one, by position."""
        return [self.private[first::teachers] for first in range(teachers)]


def split(rows: int, *, public: int, test: int, seed: int) -> Split:
    """A fixed permutation of the row numbers, cut into public, test and private; it never looks at
    the data.
    """
    order = np.random.default_rng(seed).permutation(rows)
    return Split(
        private=order[public + test :],
        public=order[:public],
        test=order[public : public + test],
    )


def dense(rows: Any) -> Floats:
    """Rows of a dense or scipy sparse matrix, dense."""
    return np.asarray(
        rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64
    )


def ridge(x: Floats, y: Floats, penalty: float) -> tuple[Floats, Floats]:
    """Weights (features, labels) and intercept (labels,) of ridge regression, through the n x n
    system: shards are small.
    """
    middle, mean = x.mean(axis=0), y.mean(axis=0)
    centered = x - middle
    dual = np.linalg.solve(centered @ centered.T + penalty * np.eye(len(x)), y - mean)
    weights = centered.T @ dual
    return weights, mean - middle @ weights


def teacher_scores(
    x: Any, y: Floats, shards: Iterable[Places], targets: Any, penalty: float
) -> Iterator[Floats]:
    """Per teacher, (targets, labels) scores: about 1 for a label that applies, 0 for one that does
    not.

    Args:
        x: (rows, features), dense or CSR.
        y: (rows, labels) of zeros and ones.
        shards: row numbers of each teacher.
        targets: (targets, features), dense or CSR.
        penalty: of the ridge regression, > 0.
    """
    for rows in shards:
        weights, intercept = ridge(dense(x[rows]), y[rows], penalty)
        yield np.asarray(targets @ weights) + intercept


def ballot(scores: Floats, threshold: float, most: int | None = None) -> Bools:
    """A teacher's (targets, labels) ballot: labels that score above the threshold, at most the
    `most` best of them.

    The teacher cuts its own ballot, so it drops what it is least sure of.
    """
    above = scores > threshold
    if most is None or most >= scores.shape[1]:
        return above
    best = np.argpartition(-scores, most, axis=1)[:, :most]
    kept = np.zeros_like(above)
    np.put_along_axis(kept, best, np.take_along_axis(above, best, axis=1), axis=1)
    return kept


def counted(
    all_scores: Iterable[Floats], threshold: float, cuts: Sequence[int | None]
) -> dict[int | None, NDArray[np.int32]]:
    """(targets, labels) votes for every way to cut the ballots; one teacher in memory at a time."""
    totals: dict[int | None, NDArray[np.int32]] = {}
    for scores in all_scores:
        for cut in cuts:
            votes = ballot(scores, threshold, cut)
            totals[cut] = (
                totals[cut] + votes if cut in totals else votes.astype(np.int32)
            )
    return totals


def micro_f1(said: Bools, true: Bools) -> float:
    """2 TP / (labels said + labels true), over all items and labels; 0 where nothing is said and
    nothing is true.
    """
    together = int(said.sum()) + int(true.sum())
    return 2 * int((said & true).sum()) / together if together else 0.0


def spread(values: Iterable[float]) -> str:
    """Mean and standard deviation over seeds, of the values that are known."""
    known = np.array([value for value in values if not np.isnan(value)])
    if len(known) == 0:
        return "-"
    return (
        f"{known.mean():.3f}±{known.std(ddof=1):.3f}"
        if len(known) > 1
        else f"{known[0]:.3f}"
    )


@dataclass(frozen=True)
class Student:
    """Ridge regression on released labels, for items with any number of labels; its penalty by
    cross-validation on them.

    Args:
        labels_per_item: how many labels an item has on average, public. The student says a label
            where its score is above the threshold that gives the public items so many: noise in the
            votes shifts all scores, and this undoes it.
        penalties: to choose from.
    """

    labels_per_item: float
    penalties: tuple[float, ...] = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)

    def predict(
        self, x: Floats, released: Bools, answered: Bools, targets: Floats
    ) -> Bools:
        """(targets, labels) after learning from the answered items among x (items, features),
        released (items, labels).

        Nothing but released labels and public features goes in, so the student costs no further
        privacy. With fewer than two answered items there is nothing to learn, and it says nothing.
        """
        from sklearn.linear_model import RidgeCV

        if answered.sum() < 2:
            return np.zeros((len(targets), released.shape[1]), dtype=np.bool_)
        model = RidgeCV(alphas=self.penalties).fit(
            x[answered], released[answered].astype(np.float64)
        )
        return np.asarray(
            model.predict(targets) > self._threshold(np.asarray(model.predict(x)))
        )

    def _threshold(self, scores: Floats) -> float:
        share = min(1.0, self.labels_per_item / scores.shape[1])
        return float(np.quantile(scores, 1 - share))
