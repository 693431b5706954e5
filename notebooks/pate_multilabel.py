"""Multi-label PATE on public data: micro-F1 of released labels and of the student against epsilon.

    python notebooks/pate_multilabel.py [--size small|medium|full]

Every mechanism labels the same public items from the same teachers, calibrated to the same
(epsilon, delta) for all rounds together, under replace_one on ballots: one private record changes
one teacher, and with it that teacher's ballot in every round.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from pate_cost import Costs, Curve
from pate_teachers import Bools, Student, micro_f1, spread
from pate_votes import DATA, Counts, Task, Votes, full_model_f1, votes

import accounting as acc
import dpselect as dps
from accounting.wording import format_number
from dpselect import pate

DELTA = 1e-6
TAUS = (1, 2, 3, 5)
Size = Literal["small", "medium", "full"]


@dataclass(frozen=True)
class Plan:
    """What to run: one table per task."""

    tasks: tuple[Task, ...]
    epsilons: tuple[float, ...]
    seeds: int


_TMC = Task("tmc2007-500", 200, threshold=0.25, labels_per_item=2.158)
_BIBTEX = Task("bibtex", 200, threshold=0.15, share=0.3, labels_per_item=2.402)
_YEAST = Task("yeast", 200, test=600, threshold=0.4, labels_per_item=4.237)
_GRID = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)
PLANS: dict[Size, Plan] = {
    "full": Plan(
        (
            _TMC,
            replace(_TMC, teachers=800),
            _BIBTEX,
            replace(_BIBTEX, teachers=800),
            _YEAST,
        ),
        _GRID,
        seeds=5,
    ),
    "medium": Plan((_TMC, replace(_TMC, teachers=800)), _GRID, seeds=2),
    "small": Plan(
        (replace(_TMC, teachers=100, rounds=60, test=300, rows=4000),),
        (1, 4, 16),
        seeds=2,
    ),
}


# -- mechanisms at a budget ------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One mechanism of the table, and how teachers cut their ballots for it."""

    name: str
    cut: int | None = None
    regularized: bool = False


ROWS = (
    Row("BinaryVoting"),
    *(Row(f"TauVoting tau={tau}", cut=tau) for tau in TAUS),
    Row("StableVoting"),
    Row("StableVoting, target size", regularized=True),
)


def mechanism(row: Row, task: Task, labels: int, epsilon: float) -> Any:
    """The mechanism of one row that spends (epsilon, DELTA) on all rounds of the task."""
    if row.name.startswith("StableVoting"):
        regularizer = target(task) if row.regularized else None
        return pate.StableVoting(
            **stable_noise(epsilon, task.rounds), labels=labels, regularizer=regularizer
        )
    settings: dict[str, Any] = {
        "labels": labels,
        "threshold": task.share * task.teachers,
    }
    budget = acc.Budget(epsilon=epsilon, delta=DELTA)
    if row.cut is None:
        return pate.fitted(pate.BinaryVoting, budget, rounds=task.rounds, **settings)
    return pate.fitted(
        pate.TauVoting, budget, rounds=task.rounds, tau=row.cut, **settings
    )


@lru_cache(maxsize=64)
def stable_noise(epsilon: float, rounds: int) -> dict[str, float]:
    """rho and failure_delta of the StableVoting that spends (epsilon, DELTA).

    Neither depends on the number of labels, so one calibration, of some seconds, serves all data
    sets.
    """
    budget = acc.Budget(epsilon=epsilon, delta=DELTA)
    fitted = pate.fitted(pate.StableVoting, budget, rounds=rounds, labels=2)
    assert isinstance(fitted, pate.StableVoting)
    return {"rho": fitted.rho, "failure_delta": fitted.failure_delta}


def target(task: Task) -> dps.mechanisms.TargetSize:
    """A public preference for about as many labels as items have: one label more or fewer weighs as
    5 % of the teachers.
    """
    return dps.mechanisms.TargetSize(
        k=round(task.labels_per_item), penalty=task.teachers / 20
    )


# -- one run ---------------------------------------------------------------------------------------


def said(selections: Any, labels: int) -> Bools:
    """(rounds, labels) the released labels."""
    padded = np.zeros((len(selections), labels + 1), dtype=np.bool_)
    np.put_along_axis(
        padded, selections.indices, True, axis=1
    )  # -1, nothing, falls into the last column
    return padded[:, :-1]


@dataclass(frozen=True)
class Outcome:
    """What one run came to.

    Attributes:
        released: micro-F1 of the released labels; an item without an answer counts as one without
            labels.
        student: micro-F1 of the student on the test items.
        answered: share of the items that got an answer.
        precise: micro-F1 on the answered items alone; NaN if there are none.
    """

    released: float
    student: float
    answered: float
    precise: float


def measured(
    ballots: Votes, chosen: Any, cut: int | None, rng: np.random.Generator
) -> Outcome:
    """Release labels by a mechanism, train the student, measure both."""
    counts = ballots.counts[cut]
    selections = chosen.select_many(
        pate.Ballots(counts, teachers=ballots.task.teachers, missing="allow"), rng=rng
    )
    return _outcome(
        ballots, said(selections, counts.shape[1]), np.asarray(selections.complete)
    )


def without_noise(ballots: Votes, row: Row) -> Outcome:
    """As `measured`, for the rule of the row on votes as they are: the votes asked for, or the
    widest gap.
    """
    counts = ballots.counts[row.cut]
    stable = row.name.startswith("StableVoting")
    released = (
        above_the_gap(counts, ballots.task, row)
        if stable
        else counts > ballots.task.share * ballots.task.teachers
    )
    return _outcome(ballots, released, np.ones(len(released), dtype=np.bool_))


def above_the_gap(counts: Counts, task: Task, row: Row) -> Bools:
    """(rounds, labels) the labels above the widest gap in each row of counts, preferred sizes
    included.
    """
    ranked = -np.sort(-counts, axis=1)
    gaps = (ranked[:, :-1] - ranked[:, 1:]).astype(np.float64)
    if row.regularized:
        gaps += target(task).first(gaps.shape[1])
    least = np.take_along_axis(ranked, gaps.argmax(axis=1)[:, None], axis=1)
    return np.asarray((counts >= least) & (counts > 0))


def _outcome(ballots: Votes, released: Bools, answered: Bools) -> Outcome:
    precise = (
        micro_f1(released[answered], ballots.true[answered])
        if answered.any()
        else float("nan")
    )
    student = _student_f1(ballots, released, answered)
    return Outcome(
        micro_f1(released, ballots.true), student, float(answered.mean()), precise
    )


def _student_f1(ballots: Votes, released: Bools, answered: Bools) -> float:
    student = Student(ballots.task.labels_per_item)
    return micro_f1(
        student.predict(ballots.features, released, answered, ballots.test_features),
        ballots.test_true,
    )


def from_the_truth(ballots: Votes) -> float:
    """Micro-F1 of a student that is given the true labels of the public items."""
    return _student_f1(
        ballots, ballots.true, np.ones(len(ballots.true), dtype=np.bool_)
    )


def curves(task: Task, epsilons: Sequence[float], runs: Sequence[Votes]) -> list[Curve]:
    """One curve per row of the table."""
    labels, found = runs[0].true.shape[1], []
    for place, row in enumerate(ROWS):
        made = [mechanism(row, task, labels, epsilon) for epsilon in epsilons]
        outcomes = [
            [
                measured(
                    run, chosen, row.cut, np.random.default_rng([run.seed, place, step])
                )
                for run in runs
            ]
            for step, chosen in enumerate(made)
        ]
        found.append(_curve(row.name, epsilons, outcomes))
    return found


def _curve(
    name: str, epsilons: Sequence[float], outcomes: Sequence[Sequence[Outcome]]
) -> Curve:
    measures = {
        field.name: np.array(
            [[getattr(run, field.name) for run in runs] for runs in outcomes]
        )
        for field in fields(Outcome)
    }
    return Curve(name, tuple(epsilons), **measures)


# -- tables ----------------------------------------------------------------------------------------


def _line(name: str, cells: Iterable[str]) -> str:
    return f"  {name:<28}" + "".join(f"{cell:>12}" for cell in cells)


@dataclass(frozen=True)
class Result:
    """All that the table of one task shows."""

    task: Task
    runs: list[Votes]
    curves: list[Curve]

    def lines(self) -> Iterator[str]:
        """The table."""
        task, header = (
            self.task,
            [f"eps {epsilon:g}" for epsilon in self.curves[0].epsilons],
        )
        labels = self.runs[0].true.shape[1]
        yield (
            f"{task.name}: {labels} labels, {task.teachers} teachers, {task.rounds} rounds, delta"
            f" {format_number(DELTA)}"
        )
        for title, measure in (
            ("micro-F1 of released labels", "released"),
            ("micro-F1 of the student", "student"),
        ):
            yield _line(title, [*header, "no noise"])
            for row, curve in zip(ROWS, self.curves, strict=True):
                yield _line(
                    row.name,
                    [*map(spread, getattr(curve, measure)), self._limit(row, measure)],
                )
        for title, measure in (
            ("share of items answered", "answered"),
            ("micro-F1 on answered items", "precise"),
        ):
            yield _line(title, header)
            for curve in self.curves[-2:]:
                yield _line(curve.name, map(spread, getattr(curve, measure)))
        yield "  without privacy: " + _references(task, self.runs)
        yield from self.costs.lines()

    def _limit(self, row: Row, measure: str) -> str:
        return spread([getattr(without_noise(run, row), measure) for run in self.runs])

    @property
    def costs(self) -> Costs:
        """What StableVoting costs of the others."""
        return Costs(
            self.curves, floor=float(np.mean([run.constant_f1() for run in self.runs]))
        )

    def sentence(self) -> str:
        """The headline on that."""
        return (
            f"{self.task.name}, {self.task.teachers} teachers: {self.costs.sentence()}"
        )


def result(task: Task, epsilons: Sequence[float], seeds: int) -> Result:
    """Run one task."""
    runs = [votes(task, seed) for seed in range(seeds)]
    return Result(task, runs, curves(task, epsilons, runs))


def _references(task: Task, runs: Sequence[Votes]) -> str:
    parts = {
        "the most frequent labels for all": [run.constant_f1() for run in runs],
        "ensemble on the test items": [run.ensemble_f1() for run in runs],
        "student of the true labels": [from_the_truth(run) for run in runs],
        "one model of all private records": [
            full_model_f1(task, run.seed) for run in runs
        ],
    }
    return "; ".join(f"{name} {spread(values)}" for name, values in parts.items())


def tables(size: Size = "full") -> Iterator[str]:
    """Lines of all tables; says so where the data are absent."""
    if not DATA.exists():
        yield f"skipped: no data at {DATA}"
        return
    plan, sentences = PLANS[size], []
    yield f"mean±sd of {plan.seeds} seeds: of the split, the teachers and the noise"
    for task in plan.tasks:
        found = result(task, plan.epsilons, plan.seeds)
        sentences.append(found.sentence())
        yield ""
        yield from found.lines()
    yield ""
    yield from sentences


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=tuple(PLANS), default="full")
    for line in tables(parser.parse_args().size):
        print(line, flush=True)


if __name__ == "__main__":
    main()
