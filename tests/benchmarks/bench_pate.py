"""Labelling rounds as ratios to NumPy's noisy argmax, in one process, best of several runs; and the memory that rounds take.

    python tests/benchmarks/bench_pate.py [--rounds 100000] [--labels 100] [--teachers 200] [--runs 5] [--most 1000000]

    python tests/benchmarks/bench_pate.py --votes FILE.npz [--draws 20]

The second form takes arrays `votes` (rounds, teachers, labels) and `truth` (rounds, labels), and prints the micro-F1 that
`pate.predicted` expects of several mechanisms beside that of seeded draws, whose difference should be below .03. `by votes` looks
at them (`dpselect plan --pate --votes`); `by model` knows the numbers of a `VotesModel` alone; the range knows four of them.

Noise is for a release: exact, from the operating system's entropy. NumPy's is `rng.normal` and `argmax`, in blocks of rows.
The memory is what a call needs beyond its ballots and the labels it returns.
"""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import numpy as np
from harness import Table, best_time, options
from numpy.typing import NDArray

import dpselect as dps
from dpselect import pate
from dpselect.pate.votes_file import VotesFile


def ballots_of(rounds: int, labels: int, teachers: int, *, one_vote: bool) -> pate.Ballots:
    """One vote per teacher, mostly on one label; or a few labels that most teachers see and many that hardly any does."""
    rng, counts = np.random.default_rng(1), np.empty((rounds, labels), dtype=np.int32)
    share = np.clip(rng.beta(0.05, 2, labels), 1e-3, 0.95)
    for start in range(0, rounds, 4096):
        part = counts[start : start + 4096]
        drawn = rng.multinomial(teachers, rng.dirichlet(np.full(labels, 0.05), len(part))) if one_vote else None
        part[:] = rng.binomial(teachers, share, part.shape) if drawn is None else drawn
    return pate.Ballots(counts, teachers=teachers, missing="allow")


def plain(counts: NDArray[np.int32], sigma: float) -> NDArray[np.int64]:
    """What NumPy users write, in blocks that fit the cache."""
    rng, step = np.random.default_rng(2), max(1, (1 << 16) // counts.shape[1])
    blocks = (counts[start : start + step] for start in range(0, len(counts), step))
    return np.concatenate([np.argmax(block + rng.normal(0.0, sigma, block.shape), axis=1) for block in blocks])


def mechanisms(labels: int, teachers: int) -> dict[bool, dict[str, dps.Mechanism]]:
    """Those for one vote per teacher, and those for many; noise for 600 rounds at about (2, 1e-6)."""
    return {
        True: {
            "GNMax": pate.GNMax(sigma=77.0, labels=labels),
            "GNMax, little noise": pate.GNMax(sigma=5.0, labels=labels),
            "ConfidentGNMax": pate.ConfidentGNMax(threshold=0.6 * teachers, sigma_threshold=150.0, sigma=80.0, labels=labels),
        },
        False: {
            "BinaryVoting": pate.BinaryVoting(sigma=20.0, labels=labels),
            "TauVoting": pate.TauVoting(tau=labels // 4, sigma=15.0, labels=labels),
            "StableVoting": pate.StableVoting(rho=0.01, failure_delta=1e-9, labels=labels),
            "StableVoting, kbar = labels/5": pate.StableVoting(rho=0.01, failure_delta=1e-9, labels=labels, kbar=labels // 5),
        },
    }


def throughput(rounds: int, labels: int, teachers: int, runs: int) -> None:
    """Seconds and ratios; and CPU seconds of cutting ballots of four votes on average to three, beside NumPy's counting."""
    print(f"{rounds:,} rounds x {labels} labels, {teachers} teachers")
    table = Table(("", "<32"), ("seconds", ">9.3f"), ("rounds/s", ">13,.0f"), ("/ NumPy", ">9.2f"))
    for one_vote, group in mechanisms(labels, teachers).items():
        ballots = ballots_of(rounds, labels, teachers, one_vote=one_vote)
        base = best_time(lambda ballots=ballots: plain(ballots.counts, 77.0), runs)
        table.row("NumPy noisy argmax", base, rounds / base, 1.0)
        for name, mechanism in group.items():
            ours = best_time(lambda mechanism=mechanism, ballots=ballots: mechanism.select_many(ballots), runs)
            table.row(name, ours, rounds / ours, ours / base)
    votes = np.random.default_rng(1).random((max(1, rounds // 10), teachers, labels), dtype=np.float32) < 4 / labels
    held = pate.Ballots(votes, missing="allow")
    cut, counted = (best_time(run, runs, time.process_time) for run in (lambda: held.cut(3), lambda: votes.sum(axis=1)))
    print(f"\nBallots.cut(3) of a tenth of the rounds: {cut:.2f} CPU s, {cut / counted:.1f} times NumPy's sum over the teachers")


def memory(labels: int, teachers: int, most: int) -> None:
    """MiB at the peak of a call beyond its ballots, at growing numbers of rounds."""
    sizes = [size for size in (10**4, 10**5, 10**6) if size <= most]
    print("\npeak memory of a call beyond the ballots, MiB (of which the returned labels, MiB), at rounds")
    table = Table(("", "<32"), *((f"{size:,}", ">22") for size in sizes))
    for one_vote, group in mechanisms(labels, teachers).items():
        held = [ballots_of(size, labels, teachers, one_vote=one_vote) for size in sizes]
        for name, mechanism in group.items():
            cells = []
            for ballots in held:
                tracemalloc.start()
                result = mechanism.select_many(ballots)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                cells.append(f"{peak / 2**20:.1f} ({(result.indices.nbytes + result.complete.nbytes) / 2**20:.1f})")
            table.row(name, *cells)


def model_of(trial: pate.TrialVotes) -> pate.VotesModel:
    """Votes in the numbers of a model, read off them."""
    assert trial.ballots._votes is not None
    teachers, votes, truth = trial.ballots.teachers, trial.ballots._votes.block(0, trial.ballots.rounds), trial.truth
    shares, sizes = votes.mean(axis=1), votes.sum(axis=2)
    true, stray = shares[truth], shares[~truth]
    independent = (shares * (1 - shares)).sum() * teachers / (teachers - 1)
    return pate.VotesModel(
        teachers=teachers,
        labels=trial.ballots.labels,
        votes_per_item=float(truth.sum() / len(truth)),
        agreement=float(true.mean()),
        stray_votes=float(stray.sum() / len(truth)),
        correlation=float(true.var() / (true.mean() * (1 - true.mean()))),
        stray_correlation=float(stray.var() / (stray.mean() * (1 - stray.mean()))),
        ballot_spread=float(sizes.var(axis=1, ddof=1).sum() / independent),
    )


def predictions(path: Path, draws: int) -> None:
    """Predicted beside drawn, for noise from a twentieth to two fifths of the teachers."""
    trial = VotesFile.trial(path)
    model = model_of(trial)
    bare = pate.VotesModel(**model.model_dump(include={"teachers", "labels", "votes_per_item", "agreement"}))
    made = pate.simulated(model, items=2000)  # whose F1 has a standard error of about .005
    table = Table(
        ("micro-F1", "<20"), *((head, ">9.3f") for head in ("drawn", "by votes", "by model")), ("by four numbers", ">17")
    )
    for tau in (None, 1, 2, 3):
        held, public = (one.ballots if tau is None else one.ballots.cut(tau) for one in (trial, made))
        for share in (0.05, 0.1, 0.2, 0.4):
            stated = {"sigma": share * held.teachers, "labels": held.labels, "teachers": held.teachers}
            mechanism = pate.BinaryVoting(**stated) if tau is None else pate.TauVoting(tau=tau, **stated)
            drawn = np.mean(
                [pate.predicted(mechanism, held, trial.truth, seed=seed, counts=1).f1 for seed in range(1, draws + 1)]
            )
            found = [pate.predicted(mechanism, votes, truth).f1 for votes, truth in ((held, trial.truth), (public, made.truth))]
            low, high = pate.f1_range(mechanism, bare)
            name = f"{'binary' if tau is None else f'tau {tau}'}, sigma {mechanism.sigma:.3g}"
            table.row(name, drawn, *found, f"{low:.3f} to {high:.3f}")


def main() -> None:
    """The two forms."""
    numbers = {"rounds": 100_000, "labels": 100, "teachers": 200, "runs": 5, "most": 1_000_000, "draws": 20}
    asked = options(__doc__, votes=str, **numbers)
    if asked.votes is not None:
        predictions(Path(asked.votes), asked.draws)
        return
    throughput(asked.rounds, asked.labels, asked.teachers, asked.runs)
    memory(asked.labels, asked.teachers, asked.most)


if __name__ == "__main__":
    main()
