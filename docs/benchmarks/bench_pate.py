"""How far forecasts of labeling rounds are off.

    python docs/benchmarks/bench_pate.py --votes FILE.npz [--draws 20]

Arrays `votes` (rounds, teachers, labels) and `truth` (rounds, labels); made up where no file is
named. The micro-F1 that `pate.predict` expects of several mechanisms stands beside that of seeded
draws, from which it should differ by less than .03. `by votes` looks at the votes
(`dpselect plan --pate --votes`); `by model` knows the numbers of a `VotesModel` alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import options, show

from dpselect import pate
from dpselect.app.labeling.votes_file import VotesFile


def model_of(trial: pate.TrialVotes) -> pate.VotesModel:
    """Votes in the numbers of a model, read off them."""
    assert trial.ballots._votes is not None
    teachers, votes, truth = (
        trial.ballots.teachers,
        trial.ballots._votes.block(0, trial.ballots.rounds),
        trial.truth,
    )
    shares = votes.mean(axis=1)
    true, stray = shares[truth], shares[~truth]
    return pate.VotesModel(
        teachers=teachers,
        labels=trial.ballots.labels,
        votes_per_item=float(truth.sum() / len(truth)),
        agreement=float(true.mean()),
        stray_votes=float(stray.sum() / len(truth)),
        correlation=float(true.var() / (true.mean() * (1 - true.mean()))),
    )


def made_up() -> pate.TrialVotes:
    """Fifty teachers, of whom most see a true label."""
    rng = np.random.default_rng(1)
    truth = rng.random((100, 5)) < 0.3
    return pate.TrialVotes(
        pate.Ballots(rng.random((100, 50, 5)) < np.where(truth, 0.7, 0.05)[:, None]),
        truth,
        public=True,
    )


def predictions(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Predicted beside drawn, for noise from a twentieth to two fifths of the teachers."""
    trial = made_up() if asked.votes is None else VotesFile.trial(Path(asked.votes))
    # whose F1 has a standard error of about .005
    made = pate.simulate(model_of(trial), items=2000)
    for tau in (None, 1, 2, 3):
        held, public = (
            one.ballots if tau is None else one.ballots.cut(tau)
            for one in (trial, made)
        )
        for share in (0.05, 0.1, 0.2, 0.4):
            stated = {
                "sigma": share * held.teachers,
                "labels": held.labels,
                "teachers": held.teachers,
            }
            mechanism = (
                pate.BinaryVoting(**stated)
                if tau is None
                else pate.TauVoting(tau=tau, **stated)
            )
            seeds = range(1, asked.draws + 1)
            drawn = [
                pate.predict(mechanism, held, trial.truth, seed=seed, counts=1).f1
                for seed in seeds
            ]
            by_votes, by_model = (
                pate.predict(mechanism, votes, truth).f1
                for votes, truth in ((held, trial.truth), (public, made.truth))
            )
            found = {
                "drawn": float(np.mean(drawn)),
                "by votes": by_votes,
                "by model": by_model,
            }
            yield {"tau": str(tau), "sigma": mechanism.sigma} | found


if __name__ == "__main__":
    show(predictions(options(__doc__, votes=str, draws=20)))
