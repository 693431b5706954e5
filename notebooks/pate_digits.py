"""Multi-class PATE on scikit-learn's digits, end to end; runs anywhere.

    python notebooks/pate_digits.py [--size small|full]

Private digits are split among teachers, each teacher votes for one class of every public digit,
GNMax or ConfidentGNMax releases labels, and a student learns from those labels alone. Cost:
(epsilon, delta) for all rounds together, under replace_one on ballots.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pate_teachers import Bools, Floats, Places, Split, split, spread, teacher_scores

import accounting as acc
from accounting.wording import format_number
from dpselect import pate

DELTA = 1e-5  # well below one over the number of private digits
CLASSES = 10
SURE = 0.4  # ConfidentGNMax answers where about so large a share of the teachers agrees
Size = Literal["small", "full"]


@dataclass(frozen=True)
class Plan:
    """What to run; all of it public."""

    teachers: int
    rounds: int
    test: int
    epsilons: tuple[float, ...]
    seeds: int


PLANS: dict[Size, Plan] = {
    "full": Plan(teachers=150, rounds=200, test=300, epsilons=(1, 2, 4, 8), seeds=5),
    "small": Plan(teachers=150, rounds=100, test=300, epsilons=(2, 8), seeds=1),
}


@dataclass(frozen=True)
class Digits:
    """Votes of the teachers on the public digits, (rounds, teachers, classes), and what a student
    needs.
    """

    ballots: Bools
    features: Floats
    test_features: Floats
    true: Places  # for measuring only
    test_true: Places


@dataclass(frozen=True)
class Outcome:
    """What one labeling run came to.

    Attributes:
        epsilon: the cost of all rounds, at DELTA, nats.
        accuracy: of the released labels; NaN if there are none.
        answered: share of the rounds that got a label.
        student: accuracy of the student on the test digits.
    """

    epsilon: float
    accuracy: float
    answered: float
    student: float


def prepared(plan: Plan, seed: int) -> Digits:
    """Split the digits, train the teachers and let them vote."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x, rows = x / 16.0, split(len(y), public=plan.rounds, test=plan.test, seed=seed)
    return Digits(
        ballots(x, y, rows, plan.teachers),
        x[rows.public],
        x[rows.test],
        y[rows.public],
        y[rows.test],
    )


def ballots(x: Floats, y: Places, rows: Split, teachers: int) -> Bools:
    """(public items, teachers, classes) one vote of each teacher on each item, for the class that
    it scores highest.
    """
    votes = np.zeros((len(rows.public), teachers, CLASSES), dtype=np.bool_)
    all_scores = teacher_scores(
        x, np.eye(CLASSES)[y], rows.shards(teachers), x[rows.public], 1.0
    )
    for teacher, scores in enumerate(all_scores):
        votes[np.arange(len(scores)), teacher, scores.argmax(axis=1)] = True
    return votes


def mechanisms(plan: Plan, epsilon: float) -> dict[str, Any]:
    """GNMax and ConfidentGNMax that spend (epsilon, DELTA) on all rounds."""
    budget = acc.Budget(epsilon=epsilon, delta=DELTA)
    confident: dict[str, Any] = {"labels": CLASSES, "threshold": SURE * plan.teachers}
    return {
        "GNMax": pate.fitted(pate.GNMax, budget, rounds=plan.rounds, labels=CLASSES),
        "ConfidentGNMax": pate.fitted(
            pate.ConfidentGNMax, budget, rounds=plan.rounds, **confident
        ),
    }


def labeled(digits: Digits, mechanism: Any, rng: np.random.Generator) -> Outcome:
    """Release labels, train the student, measure both."""
    selections = mechanism.select_many(pate.Ballots(digits.ballots), rng=rng)
    found: NDArray[np.int64] = selections.indices[:, 0]
    kept = found >= 0
    cost = (len(found) * mechanism.curve).epsilon(DELTA)
    accuracy = (
        float((found[kept] == digits.true[kept]).mean()) if kept.any() else float("nan")
    )
    return Outcome(
        cost, accuracy, float(kept.mean()), student_accuracy(digits, found, kept)
    )


def student_accuracy(digits: Digits, found: Places, kept: Bools) -> float:
    """Accuracy on the test digits of logistic regression on the released labels; one class if there
    is no other to learn.
    """
    from sklearn.linear_model import LogisticRegression

    classes = np.unique(found[kept])
    if len(classes) < 2:
        return float((digits.test_true == (classes[0] if len(classes) else 0)).mean())
    model = LogisticRegression(C=0.3, max_iter=1000).fit(
        digits.features[kept], found[kept]
    )
    return float(model.score(digits.test_features, digits.test_true))


def without_noise(digits: Digits) -> Outcome:
    """The plurality of the votes as it is, and its student: no privacy."""
    found = digits.ballots.sum(axis=1).argmax(axis=1)
    kept = np.ones(len(found), dtype=np.bool_)
    return Outcome(
        float("inf"),
        float((found == digits.true).mean()),
        1.0,
        student_accuracy(digits, found, kept),
    )


def runs(plan: Plan) -> Iterator[tuple[str, float, list[Outcome]]]:
    """Mechanism, epsilon, and an outcome per seed; the last one without noise."""
    data = [prepared(plan, seed) for seed in range(plan.seeds)]
    for epsilon in plan.epsilons:
        for name, mechanism in mechanisms(plan, epsilon).items():
            yield (
                name,
                epsilon,
                [
                    labeled(digits, mechanism, np.random.default_rng(seed))
                    for seed, digits in enumerate(data)
                ],
            )
    yield "no noise", float("inf"), [without_noise(digits) for digits in data]


def _row(name: str, epsilon: float, outcomes: Sequence[Outcome]) -> str:
    cells = (
        spread(getattr(outcome, field) for outcome in outcomes)
        for field in ("accuracy", "student", "answered")
    )
    return f"  {name:<16}{epsilon:>8g}{outcomes[0].epsilon:>10.4f}" + "".join(
        f"{cell:>14}" for cell in cells
    )


def tables(size: Size = "full") -> Iterator[str]:
    """Lines of the table."""
    plan = PLANS[size]
    yield (
        f"digits, {plan.teachers} teachers, {plan.rounds} rounds, delta {format_number(DELTA)};"
        f" accuracies, mean±sd of {plan.seeds} seeds"
    )
    yield (
        f"  {'mechanism':<16}{'budget':>8}{'cost':>10}{'released':>14}{'student':>14}{'answered':>14}"
    )
    for name, epsilon, outcomes in runs(plan):
        yield _row(name, epsilon, outcomes)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=tuple(PLANS), default="full")
    for line in tables(parser.parse_args().size):
        print(line, flush=True)


if __name__ == "__main__":
    main()
