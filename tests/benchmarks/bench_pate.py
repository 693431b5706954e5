"""Labelling rounds as ratios to NumPy's noisy argmax, in one process, best of several runs; and the memory that rounds take.

    python tests/benchmarks/bench_pate.py [--rounds 100000] [--labels 100] [--teachers 200] [--runs 5] [--most 1000000]

    python tests/benchmarks/bench_pate.py --votes FILE.npz [--draws 20]

The second form takes arrays `votes` (rounds, teachers, labels) and `truth` (rounds, labels), and prints what `pate.predicted`
expects of several mechanisms beside the mean of seeded draws: labels an item and micro-F1, whose difference should be below .03.
`by votes` looks at them (`dpselect plan --pate --votes`); `by model` knows the numbers of a `VotesModel` alone; the range knows
teachers, labels, labels an item and agreement. `s.e.` is the standard error of F1 by which items the file happens to hold.

Noise is for a release: exact, from the operating system's entropy. NumPy's is `rng.normal` and `argmax`, in blocks of rows.
The memory is what a call needs beyond its ballots and the labels it returns.
"""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
from harness import Table, best_time, options
from numpy.typing import NDArray

import dpselect as dps
from dpselect import pate

Mechanisms = dict[str, dps.Mechanism]
MADE_UP = 2000  # items: their F1 has a standard error of about .005


def multi_class(rounds: int, labels: int, teachers: int) -> pate.Ballots:
    """One vote per teacher: two thirds of them agree in most rounds, the others are spread."""
    rng = np.random.default_rng(1)
    counts = np.empty((rounds, labels), dtype=np.int32)
    chances = np.full((min(rounds, 4096), labels), 0.0)
    for start in range(0, rounds, len(chances)):
        part = chances[: min(len(chances), rounds - start)]
        part[:] = rng.dirichlet(np.full(labels, 0.05), len(part))
        counts[start : start + len(part)] = rng.multinomial(teachers, part)
    return pate.Ballots(counts, teachers=teachers)


def multi_label(rounds: int, labels: int, teachers: int) -> pate.Ballots:
    """A few labels that most teachers see and many that hardly any does."""
    rng = np.random.default_rng(1)
    share = np.clip(rng.beta(0.05, 2, labels), 1e-3, 0.95)
    counts = np.empty((rounds, labels), dtype=np.int32)
    for start in range(0, rounds, 4096):
        counts[start : start + 4096] = rng.binomial(teachers, share, size=(min(4096, rounds - start), labels))
    return pate.Ballots(counts, teachers=teachers, missing="allow")


def plain(counts: NDArray[np.int32], sigma: float) -> NDArray[np.int64]:
    """What NumPy users write, in blocks that fit the cache."""
    rng, step = np.random.default_rng(2), max(1, (1 << 16) // counts.shape[1])
    blocks = (counts[start : start + step] for start in range(0, len(counts), step))
    return np.concatenate([np.argmax(block + rng.normal(0.0, sigma, block.shape), axis=1) for block in blocks])


def mechanisms(labels: int, teachers: int) -> tuple[Mechanisms, Mechanisms]:
    """Those for one vote per teacher, and those for many; noise for 600 rounds at about (2, 1e-6)."""
    one: Mechanisms = {
        "GNMax": pate.GNMax(sigma=77.0, labels=labels),
        "GNMax, little noise": pate.GNMax(sigma=5.0, labels=labels),
        "ConfidentGNMax": pate.ConfidentGNMax(threshold=0.6 * teachers, sigma_threshold=150.0, sigma=80.0, labels=labels),
    }
    many: Mechanisms = {
        "BinaryVoting": pate.BinaryVoting(sigma=20.0, labels=labels),
        "TauVoting": pate.TauVoting(tau=labels // 4, sigma=15.0, labels=labels),
        "StableVoting": pate.StableVoting(rho=0.01, failure_delta=1e-9, labels=labels),
        "StableVoting, kbar = labels/5": pate.StableVoting(rho=0.01, failure_delta=1e-9, labels=labels, kbar=labels // 5),
    }
    return one, many


def throughput(rounds: int, labels: int, teachers: int, runs: int) -> None:
    """Seconds and ratios."""
    print(f"{rounds:,} rounds x {labels} labels, {teachers} teachers")
    table = Table(("", "<32"), ("seconds", ">9.3f"), ("rounds/s", ">13,.0f"), ("/ NumPy", ">9.2f"))
    for group, make in zip(mechanisms(labels, teachers), (multi_class, multi_label), strict=True):
        ballots = make(rounds, labels, teachers)
        base = best_time(lambda ballots=ballots: plain(ballots.counts, 77.0), runs)
        table.row("NumPy noisy argmax", base, rounds / base, 1.0)
        for name, mechanism in group.items():
            ours = best_time(lambda mechanism=mechanism, ballots=ballots: mechanism.select_many(ballots), runs)
            table.row(name, ours, rounds / ours, ours / base)


def cutting(rounds: int, labels: int, teachers: int, runs: int) -> None:
    """CPU seconds of cutting ballots of four votes on average to three, beside NumPy's counting of them."""
    votes = np.random.default_rng(1).random((rounds, teachers, labels), dtype=np.float32) < 4 / labels
    ballots = pate.Ballots(votes, missing="allow")
    found = [best_time(run, runs, time.process_time) for run in (lambda: ballots.cut(3), lambda: votes.sum(axis=1))]
    print(f"\nBallots.cut(3), {rounds:,} rounds x {teachers} teachers x {labels} labels: {found[0]:.2f} CPU s, ", end="")
    print(f"{found[0] / found[1]:.1f} times NumPy's sum over the teachers")


def extra_memory(mechanism: dps.Mechanism, ballots: pate.Ballots) -> tuple[float, float]:
    """MiB at the peak of a call beyond its ballots, and of the labels that it returns."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    result = mechanism.select_many(ballots)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return peak / 2**20, (result.indices.nbytes + result.complete.nbytes) / 2**20


def memory(labels: int, teachers: int, most: int) -> None:
    """Peaks at growing numbers of rounds."""
    sizes = [size for size in (10**4, 10**5, 10**6) if size <= most]
    print("\npeak memory of a call beyond the ballots, MiB (of which the returned labels, MiB), at rounds")
    table = Table(("", "<32"), *((f"{size:,}", ">22") for size in sizes))
    for group, make in zip(mechanisms(labels, teachers), (multi_class, multi_label), strict=True):
        held = [make(size, labels, teachers) for size in sizes]
        for name, mechanism in group.items():
            cells = [extra_memory(mechanism, ballots) for ballots in held]
            table.row(name, *(f"{peak:.1f} ({kept:.1f})" for peak, kept in cells))


def drawn(mechanism: dps.Mechanism, ballots: pate.Ballots, truth: NDArray[np.bool_], draws: int) -> tuple[float, float]:
    """Labels an item and micro-F1 of the labels of seeded draws together."""
    released = right = 0
    for seed in range(draws):
        indices = mechanism.select_many(ballots, rng=np.random.default_rng(seed)).indices
        rows, places = np.nonzero(indices >= 0)
        released, right = released + len(rows), right + int(truth[rows, indices[rows, places]].sum())
    return released / draws / len(truth), 2 * right / (released + draws * int(truth.sum()))


def model_of(votes: NDArray[np.bool_], truth: NDArray[np.bool_]) -> pate.VotesModel:
    """The votes in the numbers of a model, read off them."""
    shares, teachers = votes.mean(axis=1), votes.shape[1]
    true, stray = shares[truth], shares[~truth]
    independent = (shares * (1 - shares)).sum() * teachers / (teachers - 1)
    return pate.VotesModel(
        teachers=teachers,
        labels=votes.shape[2],
        votes_per_item=float(truth.sum() / len(truth)),
        agreement=float(true.mean()),
        stray_votes=float(stray.sum() / len(truth)),
        correlation=float(true.var() / (true.mean() * (1 - true.mean()))),
        stray_correlation=float(stray.var() / (stray.mean() * (1 - stray.mean()))),
        ballot_spread=float(votes.sum(axis=2).var(axis=1, ddof=1).sum() / independent),
    )


def chance_of_items(mechanism: dps.Mechanism, ballots: pate.Ballots, truth: NDArray[np.bool_]) -> float:
    """Standard error of the F1 of a file by its choice of items: the jackknife over twenty parts of them."""
    counts, found = np.asarray(ballots.counts), []
    for part in range(20):
        rows = np.arange(len(truth)) % 20 != part
        kept = pate.Ballots(counts[rows], teachers=ballots.teachers, missing="allow")
        found.append(pate.predicted(mechanism, kept, truth[rows]).f1)
    return float(np.sqrt(19 * np.var(found)))


def predictions(path: str, draws: int) -> None:
    """Predicted beside drawn, for noise from a twentieth to two fifths of the teachers."""
    with np.load(path, allow_pickle=False) as file:
        votes, truth = file["votes"].astype(bool), file["truth"].astype(bool)
    ballots, model = pate.Ballots(votes, missing="allow"), model_of(votes, truth)
    bare = pate.VotesModel(**model.model_dump(include={"teachers", "labels", "votes_per_item", "agreement"}))
    made = pate.simulated(model, items=MADE_UP)
    print(f"{ballots.rounds:,} rounds x {ballots.labels} labels, {ballots.teachers} teachers; {draws} draws")
    print(", ".join(f"{name} {value:.3g}" for name, value in model.model_dump(exclude={"teachers", "labels"}).items()))
    print(f"{'':<20}{'labels an item':>30}{'micro-F1':>30}")
    heads = [(head, form) for form in (">9.2f", ">9.3f") for head in ("drawn", "by votes", "by model")]
    table = Table(("", "<20"), *heads, ("s.e.", ">7.3f"), ("by four numbers", ">17"))
    worst = {"votes": 0.0, "model": 0.0, "range": 0.0}
    for tau in (None, 1, 2, 3):
        held, public = (ballots, made.ballots) if tau is None else (ballots.cut(tau), made.ballots.cut(tau))
        for share in (0.05, 0.1, 0.2, 0.4):
            settings = {"sigma": share * ballots.teachers, "labels": ballots.labels, "teachers": ballots.teachers}
            mechanism = pate.BinaryVoting(**settings) if tau is None else pate.TauVoting(tau=tau, **settings)
            found, plain = pate.predicted(mechanism, held, truth), pate.predicted(mechanism, public, made.truth)
            low, high = pate.f1_range(mechanism, bare)
            labels, f1 = drawn(mechanism, held, truth, draws)
            off = {"votes": abs(found.f1 - f1), "model": abs(plain.f1 - f1), "range": max(low - f1, f1 - high)}
            worst = {name: max(worst[name], value) for name, value in off.items()}
            name = f"{'binary' if tau is None else f'tau {tau}'}, sigma {mechanism.sigma:.3g}"
            figures = (labels, found.labels, plain.labels, f1, found.f1, plain.f1, chance_of_items(mechanism, held, truth))
            table.row(name, *figures, f"{low:.3f} to {high:.3f}")
    print(f"F1 off by at most {worst['votes']:.3f} by the votes and {worst['model']:.3f} by the model's numbers; ", end="")
    print(f"outside of the range of four numbers by at most {worst['range']:.3f}")


def main() -> None:
    """The two forms."""
    numbers = {"rounds": 100_000, "labels": 100, "teachers": 200, "runs": 5, "most": 1_000_000, "draws": 20}
    asked = options(__doc__, votes=str, **numbers)
    if asked.votes is not None:
        predictions(asked.votes, asked.draws)
        return
    throughput(asked.rounds, asked.labels, asked.teachers, asked.runs)
    cutting(max(1, asked.rounds // 10), asked.labels, asked.teachers, asked.runs)
    memory(asked.labels, asked.teachers, asked.most)


if __name__ == "__main__":
    main()
