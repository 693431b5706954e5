"""The multi-label data of the PATE table, and the votes of teachers on them, made once per seed and
kept in a cache.

The cache holds exact votes: fine for public benchmark data, but on data that are private it would
be a copy of what the noise is there to hide. The data are not part of the project; they are looked
for in ../shared/data.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pate_teachers import (
    Bools,
    Floats,
    Split,
    Student,
    counted,
    dense,
    micro_f1,
    split,
    teacher_scores,
)
from scipy import sparse

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "multilabel"
CACHE = Path(tempfile.gettempdir()) / f"dpselect-pate-{os.getuid()}"
CUTS = (None, 1, 2, 3, 5)  # ways to cut a ballot: not at all, or to so many labels
Counts = NDArray[np.int32]


@dataclass(frozen=True)
class Task:
    """One data set with so many teachers. Every field is public configuration.

    Args:
        name: file in the shared data.
        teachers: how many.
        rounds: public items that are labeled.
        test: items that measure the student.
        threshold: a teacher's ballot names the labels that score above it.
        share: of the teachers that BinaryVoting and TauVoting ask for.
        labels_per_item: label cardinality as published with the data.
        penalty: of the teachers' ridge regression.
        rows: how many rows of the data to use; None for all.
    """

    name: str
    teachers: int
    rounds: int = 600
    test: int = 1000
    threshold: float = 0.25
    share: float = 0.5
    labels_per_item: float = 2.0
    penalty: float = 1.0
    rows: int | None = None

    def file(self, seed: int) -> Path:
        """Where the cache keeps the votes: the name says everything that they depend on."""
        digest = hashlib.sha256(repr((self, CUTS, seed)).encode()).hexdigest()[:12]
        return CACHE / f"{self.name}-{self.teachers}-{seed}-{digest}.npz"


@dataclass(frozen=True)
class Votes:
    """(rounds, labels) votes for every way to cut ballots, with what students and their tests
    need.
    """

    task: Task
    seed: int
    counts: dict[int | None, Counts]
    ensemble: Counts  # (test, labels) uncut votes on the test items, for reference only
    features: Floats  # (rounds, features) of the public items
    test_features: Floats
    true: Bools  # (rounds, labels), for measuring only
    test_true: Bools

    def constant_f1(self) -> float:
        """Micro-F1 on the test items of saying the same labels for all, as many as items have: the
        most frequent ones.
        """
        often = np.argsort(-self.test_true.sum(axis=0))[
            : round(self.task.labels_per_item)
        ]
        said = np.zeros_like(self.test_true)
        said[:, often] = True
        return micro_f1(said, self.test_true)

    def ensemble_f1(self) -> float:
        """Micro-F1 of the noise-free, uncut ensemble on the test items."""
        return micro_f1(
            self.ensemble > self.task.share * self.task.teachers, self.test_true
        )


def load(name: str) -> tuple[Any, Floats]:
    """Features (dense or CSR) and (rows, labels) zeros and ones of one data set."""
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as file:
        ones = (np.ones(len(file["Y_indices"])), file["Y_indices"], file["Y_indptr"])
        y = sparse.csr_matrix(ones, shape=tuple(file["Y_shape"]))
        if "X_dense" in file.files:
            return file["X_dense"].astype(np.float64), y.toarray()
        stored = (
            file["X_data"].astype(np.float64),
            file["X_indices"],
            file["X_indptr"],
        )
        return sparse.csr_matrix(stored, shape=tuple(file["X_shape"])), y.toarray()


def votes(task: Task, seed: int) -> Votes:
    """The votes of one seed, from the cache if they are there."""
    x, y = load(task.name)
    rows = split(task.rows or len(y), public=task.rounds, test=task.test, seed=seed)
    arrays = _cached(task, seed, x, y, rows)
    return Votes(
        task=task,
        seed=seed,
        counts={cut: arrays[_key(cut)] for cut in CUTS},
        ensemble=arrays["ensemble"],
        features=dense(x[rows.public]),
        test_features=dense(x[rows.test]),
        true=y[rows.public] > 0,
        test_true=y[rows.test] > 0,
    )


def full_model_f1(task: Task, seed: int) -> float:
    """Micro-F1 on the test items of one model that learns from all private records at once, without
    privacy.
    """
    x, y = load(task.name)
    rows = split(task.rows or len(y), public=task.rounds, test=task.test, seed=seed)
    own, true = dense(x[rows.private]), y[rows.private] > 0
    said = Student(task.labels_per_item).predict(
        own, true, np.ones(len(own), dtype=np.bool_), dense(x[rows.test])
    )
    return micro_f1(said, y[rows.test] > 0)


def _key(cut: int | None) -> str:
    return "uncut" if cut is None else f"cut_{cut}"


def _cached(task: Task, seed: int, x: Any, y: Floats, rows: Split) -> dict[str, Counts]:
    path = task.file(seed)
    if path.exists():
        with np.load(path) as file:
            return {key: file[key] for key in file.files}
    found = _trained(task, x, y, rows)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    # Written beside and renamed: an interrupted run leaves no half file.
    part = path.with_suffix(f".{os.getpid()}.part.npz")
    np.savez_compressed(part, allow_pickle=False, **found)
    part.replace(path)
    return found


def _trained(task: Task, x: Any, y: Floats, rows: Split) -> dict[str, Counts]:
    """Train every teacher once and count its ballots on the public and on the test items."""
    targets = x[np.concatenate([rows.public, rows.test])]
    scores = teacher_scores(x, y, rows.shards(task.teachers), targets, task.penalty)
    totals = counted(scores, task.threshold, CUTS)
    found = {_key(cut): total[: task.rounds] for cut, total in totals.items()}
    return {**found, "ensemble": totals[None][task.rounds :]}
