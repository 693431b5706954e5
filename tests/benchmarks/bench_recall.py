"""Share of the true top k that releases find: the default, a plan, the best configuration in hindsight, and plain NumPy.

    python tests/benchmarks/bench_recall.py [--logs gowalla nyc tky mine.parquet zipf:1.1,5000,20000,100]
        [--domain unknown public] [--k 10 50 100] [--epsilon 0.5 1 4] [--delta 1e-6 | 0] [--draws 40]
        [--user user_id] [--item item_id] [--no-plan] [--vary] [--rounds]

gowalla, nyc and tky are in ../shared/data (see its README), which is not part of the project. Any other log is named by path,
Parquet or CSV with a column of users and one of items; zipf:EXPONENT,ITEMS,USERS,MOST is made up, users with 1 to MOST items.

One release spends the whole budget; --delta 0 asks for pure budgets. A recall is a mean over seeded draws, until
its standard error is .01 or there are --draws; with ties at rank k any tied item is right. `learnt` is what `dpselect topk` does
where nothing is declared: each draw learns anew. `declared` is told the number of users and the mean of items per user, `assumed`
nothing. The plan is made on the log itself, taken as public: `predict.` is its word, `plan` what draws of its mechanism find.
`best` is the highest of all, found on other draws: LimitedDomain, kbar in hindsight; histograms with eight clips and bounds of
items per user; one-shot noise with these; two steps with shares, candidates and clips of a grid; and what the plan ranks. `numpy`
is what twenty lines do: users clipped to an l2 norm of 1, Gaussian noise by the analytic formula, a threshold where items are
unknown; with a pure budget an l1 norm and Laplace noise. `--vary` prints what the default finds with other settings of its own,
where users' quantiles are known. `--rounds` prints what the default finds without two rounds, with nothing else, and as it is.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from harness import Table, options, product
from recall_logs import DATA, LOGS, Log, load

import accounting as acc
import dpselect as dps
from dpselect.noise import by_name
from dpselect.plan import PlannedMechanism, Profile
from dpselect.plan import candidates as default
from dpselect.plan import profile as profiles
from dpselect.plan.candidates import GENEROUS, Choice, default_choice
from dpselect.plan.fit import TopKRequest, calibrated, fitted
from dpselect.plan.learn import Informed
from dpselect.plan.profile import SHARES as SHARES_OF_USERS

CLIPS = (0.7071, 1.0, 1.1892, 1.4142, 2.0, 2.8284, 4.0, 8.0)
LIMITS = (1, 3, 10, 30)
SHARES, TIMES, AGAIN = (0.5, 0.7, 0.85, 0.95), (1.5, 3.0), (1.0, 2.0, 4.0)
COLUMNS = ("learnt", "declared", "assumed", "predict.", "plan", "best", "numpy")
SCREEN, FINALISTS, ENOUGH, ALIKE = 3, 4, 8, 150

Fitted = tuple[dps.Mechanism, Callable[[], dps.Scores]]
Draw = Callable[[np.random.Generator], Sequence[Any]]  # the labels of one release


@dataclass(frozen=True)
class Cell:
    """One line of the table."""

    log: Log
    domain: str
    k: int
    budget: acc.Budget

    @property
    def request(self) -> TopKRequest:
        return TopKRequest(k=self.k, candidates=None if self.domain == "unknown" else self.log.size)

    def recall(self, fit: Fitted | Draw, draws: int, seed: int, *, enough: float = 0.01) -> tuple[float, float]:
        """The mean share of right items over so many draws, or fewer if its standard error is small; and that error."""
        draw, right = fit if callable(fit) else drawn(*fit), self.log.right(self.k)
        rng, found, error = np.random.default_rng(seed), [], 1.0
        # Draws that are all alike may be those of a test that passes now and then: they prove little, and more are taken.
        while len(found) < draws or (draws >= ENOUGH and len(found) < ALIKE and len(set(found)) <= 2):
            found.append(right[list(draw(rng))].sum() / self.k)
            error = float(np.std(found, ddof=1)) / len(found) ** 0.5 if len(found) > 1 else 1.0
            if len(found) >= ENOUGH and len(set(found)) > 2 and error < enough:
                break
        return float(np.mean(found)), error


def drawn(mechanism: dps.Mechanism, read: Callable[[], dps.Scores]) -> Draw:
    """Releases of a mechanism on scores that are read once."""
    scores = read()
    return lambda rng: mechanism.select(scores, rng=rng).labels or ()


# -- candidates for the best in hindsight --------------------------------------------------------------------------------


def candidates(cell: Cell) -> Iterator[tuple[str, Fitted]]:
    """Mechanisms with their clips and bounds, each with the noise that spends the budget."""
    if cell.budget.delta == 0:
        yield from pure(cell)
        return
    yield "LD", limited(cell)
    yield from histograms(cell)
    if cell.domain == "public":
        yield from public(cell)


def pure(cell: Cell) -> Iterator[tuple[str, Fitted]]:
    """Without a delta: one-shot Laplace on l1-clipped counts, selection in order and of sets."""
    for kind, noise in (("OneshotTopK", "gumbel"), ("PeelingTopK", "exponential"), ("CanonicalTopK", "gumbel")):
        one = fitted(kind, cell.budget, cell.request.model_copy(update={"noise": noise}))
        yield f"{kind} {noise}", (one, lambda: cell.log.scores(cell.domain))
    for clip in (1.0, 1.41, 2.0, 4.0, 8.0, 16.0, 32.0):
        bounds = dps.Sensitivity.of_clipped(clip, "l1")
        one = dps.OneshotTopK(k=cell.k, noise="laplace", scale=clip / cell.budget.limit, sensitivity=bounds)
        yield f"1-laplace C={clip:g}", (one, lambda c=clip: cell.log.scores(cell.domain, None, c, "l1"))


def limited(cell: Cell) -> Fitted:
    """LimitedDomain with the kbar whose threshold is lowest among a few, in hindsight: the method to beat."""
    counts = np.sort(cell.log.counts)[::-1]
    widths = {min(factor * cell.k, len(counts) - 1) for factor in (1, 2, 5, 20, 100)}
    choices = [fitted("LimitedDomain", cell.budget, TopKRequest(k=cell.k, kbar=kbar)) for kbar in sorted(widths)]
    best = min(choices, key=lambda one: counts[one.kbar] + one.margin)  # type: ignore[attr-defined]
    return best, lambda: cell.log.scores(cell.domain)


def bounded(cell: Cell, most: int | None) -> Iterator[tuple[str, dps.Sensitivity, Callable[[], dps.Scores]]]:
    """Ways to bound users, by clips and by numbers of items."""
    for clip in CLIPS:
        read = lambda c=clip: cell.log.scores(cell.domain, most, c)  # noqa: E731
        yield f"C={clip:.3g}", dps.Sensitivity.of_clipped(clip, items_per_user=most), read
    for limit in LIMITS:
        yield f"L={limit}", dps.Sensitivity.of_counts(items_per_user=limit), lambda n=limit: cell.log.scores(cell.domain, n)


def histograms(cell: Cell) -> Iterator[tuple[str, Fitted]]:
    """Histograms and two steps, all of one Gaussian parameter and one chance of failure."""
    delta, whole = float(f"{0.75 * cell.budget.delta:.6g}"), dps.Sensitivity.of_clipped(1.0, items_per_user=GENEROUS)
    family = partial(dps.SparseHistogram, k=cell.k, delta=delta)
    unit: float = calibrated(lambda scale: family(scale=scale, sensitivity=whole), cell.budget).scale  # type: ignore[attr-defined]
    for name, bounds, read in bounded(cell, GENEROUS):
        yield f"SH {name}", (family(scale=bounds.l2_of(None) * unit, sensitivity=bounds), read)
    for first, times, again in itertools.product(SHARES, TIMES, AGAIN):
        seen, size = dps.Sensitivity.of_clipped(again), int(times * cell.k)
        find = dps.SparseHistogram(k=size, scale=unit / first**0.5, delta=delta, sensitivity=whole)
        select = dps.OneshotTopK(k=cell.k, noise="gaussian", scale=again * unit / (1 - first) ** 0.5, sensitivity=seen)
        both = dps.DiscoverThenSelect(discovery=find, selection=select, candidates=size)
        look = lambda c=again: cell.log.scores(cell.domain, GENEROUS, 1.0, again=c)  # noqa: E731
        yield f"DS {first:g} x{times:g} {again:.3g}", (both, look)


def public(cell: Cell) -> Iterator[tuple[str, Fitted]]:
    """One-shot noise: Gumbel on counts, Gaussian on clipped and on bounded ones."""
    gumbel = fitted("OneshotTopK", cell.budget, cell.request.model_copy(update={"noise": "gumbel"}))
    yield "1-gumbel", (gumbel, lambda: cell.log.scores(cell.domain))
    asked = cell.request.model_copy(update={"noise": "gaussian", "sensitivity": dps.Sensitivity.of_clipped(1.0)})
    unit = fitted("OneshotTopK", cell.budget, asked).scale  # type: ignore[attr-defined]
    for name, bounds, read in bounded(cell, None):
        one = dps.OneshotTopK(k=cell.k, noise="gaussian", scale=bounds.l2_of(None) * unit, sensitivity=bounds)
        yield f"1-gaussian {name}", (one, read)


# -- the columns ---------------------------------------------------------------------------------------------------------


def as_read(cell: Cell, choice: Choice) -> Fitted:
    """What is chosen, and the scores that it is read for."""
    reading = (choice.max_items_per_user, choice.clip, choice.norm, choice.again)
    return choice.mechanism, lambda: cell.log.scores(cell.domain, *reading)


def learnt(cell: Cell) -> Draw:
    """What `dpselect topk` does where nobody says anything."""
    informed, loads = Informed.of(cell.budget, cell.request), np.bincount(cell.log.users)
    assert informed is not None

    def draw(rng: np.random.Generator) -> Sequence[Any]:
        mechanism, read = as_read(cell, informed.chosen(informed.item.learning.learn(loads, informed.declared, rng=rng)))
        return mechanism.select(read(), rng=rng).labels or ()

    return draw


def told(cell: Cell, *, declared: bool) -> Fitted:
    """What it does where the number of users and the mean of items per user are declared, or where nothing may be learnt."""
    people = cell.log.people
    profile = Profile.typical(float(people), len(cell.log.users) / people) if declared else Profile.typical()
    return as_read(cell, default_choice(cell.budget, cell.request, profile=profile))


def plain(cell: Cell) -> Draw:
    """What twenty lines of NumPy do."""
    pure = cell.budget.form == "pure"
    seen = cell.log.seen(None, 1.0, "l1" if pure else "l2")
    if pure:
        return lambda rng: np.argsort(-(seen + rng.laplace(0, 1 / cell.budget.limit, len(seen))))[: cell.k]
    share = 1.0 if cell.domain == "public" else 0.5  # of delta, for the noise
    scale = 1 / mu_of(cell.budget.limit, share * cell.budget.delta)
    bar = -np.inf if share == 1 else threshold(scale, cell.budget.delta / 2)

    def draw(rng: np.random.Generator) -> Sequence[Any]:
        noisy = seen + scale * rng.standard_normal(len(seen))
        best = np.argsort(-noisy)[: cell.k]
        return best[noisy[best] > bar]

    return draw


def mu_of(epsilon: float, delta: float) -> float:
    """The Gaussian parameter of (epsilon, delta), by bisection of the analytic formula."""
    low, high, cdf = 0.0, 100.0, by_name("gaussian").cdf
    for _ in range(100):
        mu = (low + high) / 2
        excess = cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)
        low, high = (mu, high) if excess <= delta else (low, mu)
    return low


def threshold(scale: float, delta: float) -> float:
    """That hides the items of one user with up to 300 of them, each with a count of 1/sqrt(t)."""
    tails = by_name("gaussian").isf
    return max(1 / t**0.5 + scale * float(tails(1 - (1 - delta) ** (1 / t))) for t in range(1, GENEROUS + 1))


def planned(cell: Cell, one: PlannedMechanism) -> Fitted:
    """What a plan says, on the log read as it says."""
    reading = (one.max_items_per_user, one.clip, one.norm, one.again)
    return one.mechanisms[0], lambda: cell.log.scores(cell.domain, *reading)


def line(cell: Cell, shape: Profile | None, draws: int) -> dict[str, Any]:
    """All of one cell. The best is chosen on some draws and judged on others, with the default and the plan among the judged."""
    found: dict[str, Fitted] = dict(candidates(cell))
    start = time.process_time()
    plan = None if shape is None else dps.plan(cell.budget, cell.k, profile=shape, unknown_domain=cell.domain == "unknown")
    seconds = time.process_time() - start
    for one in () if plan is None else plan.ranked[:6]:
        found[f"plan: {one.name}"] = planned(cell, one)
    screened = {name: cell.recall(fit, SCREEN, 7)[0] for name, fit in found.items()}
    finalists = sorted(screened, key=screened.__getitem__, reverse=True)[:FINALISTS]
    ways: dict[str, Fitted | Draw] = {name: found[name] for name in finalists}
    ours = {"learnt": learnt(cell), "declared": told(cell, declared=True), "assumed": told(cell, declared=False)}
    ours |= {"numpy": plain(cell)} | ({} if plan is None else {"plan": planned(cell, plan.recommended)})
    judged = {name: cell.recall(way, draws, 11) for name, way in (ways | ours).items()}
    return {name: judged[name][0] for name in ours} | {
        "log": cell.log.name if cell.log.name.startswith("zipf:") else Path(cell.log.name).stem,
        **{"domain": cell.domain, "k": cell.k, "epsilon": cell.budget.limit, "seconds": seconds},
        "plan": judged["plan"][0] if plan else np.nan,
        "predict.": plan.recommended.quality.recall.value if plan else np.nan,
        "best": max(recall for recall, _ in judged.values()),
        "error": max(error for _, error in judged.values()),
        "kinds": f"{_named(plan.recommended) if plan else '-'} | {max(finalists, key=lambda name: judged[name][0])}",
    }


def _named(one: PlannedMechanism) -> str:
    return one.name + ("" if one.clip is None else f" C={one.clip:g}") + ("" if one.again is None else f", then {one.again:g}")


def summary(lines: pd.DataFrame) -> None:
    """What the goals are about."""
    for domain, rows in lines.groupby("domain"):
        known = rows[list(COLUMNS)].dropna(axis="columns")  # no plan: nothing of it
        print(f"{domain}: " + ", ".join(f"{name} {mean:.3f}" for name, mean in known.mean().items()))
        for name in known.columns.difference(["predict.", "best"], sort=False):
            lost = rows["best"] - rows[name]
            print(f"  {name} behind the best: {lost.mean():.3f} on average, {lost.max():.3f} at most")
        behind = rows[rows["numpy"] > rows["learnt"] + np.maximum(0.02, 3 * rows["error"])]
        cells = "; ".join(f"{row.log} {row.k} {row.epsilon:g}" for row in behind.itertuples())
        print(f"  plain NumPy is ahead of the default in {len(behind)} of {len(rows)} cells: {cells or 'none'}")
    if lines["plan"].notna().all():
        off, took = (lines["predict."] - lines["plan"]).abs(), lines["seconds"]
        print(f"predicted and realised: {off.mean():.3f} apart on average, {off.max():.3f} at most (goal: .03)")
        print(f"a plan takes {took.mean():.1f} s of CPU on average, {took.max():.1f} s at most")
    print(f"largest standard error of a recall: {lines['error'].max():.3f}")


def table(asked: argparse.Namespace) -> None:
    """The table and its summary."""
    cells = (("log", "<12.12"), ("domain", "<8"), ("k", ">4"), ("epsilon", ">4g"))
    shown, lines = Table(*cells, *((name, ">8.3f") for name in COLUMNS), ("plan | best", "")), []
    for name in asked.logs:
        log, shape = load(name, asked.user, asked.item), None
        log.check()
        if not asked.no_plan:
            with tempfile.TemporaryDirectory() as folder:
                shape = Profile.of_log(log.write(Path(folder)), user="user_id", item="item_id", public=True)
        for domain, k, epsilon in product(asked, "domain", "k", "epsilon"):
            cell = Cell(log, domain, k, acc.Budget(epsilon=epsilon, **({"delta": asked.delta} if asked.delta else {})))
            lines.append(line(cell, shape, asked.draws))
            shown.row(*(lines[-1][name] for name in ("log", "domain", "k", "epsilon", *COLUMNS, "kinds")))
    summary(pd.DataFrame(lines))


VARIED: dict[str, tuple[str, Any]] = {
    "FEW=0": ("FEW", 0),
    "_CLOSE=0": ("_CLOSE", 0.0),
    "_CLOSE=.02": ("_CLOSE", 0.02),
    "_LOWER none": ("_LOWER", ()),
    "_SHARES .85": ("_SHARES", (0.85,)),
    "_TIMES 3": ("_TIMES", 3.0),
    "exponents .6 .8": ("EXPONENTS", (0.6, 0.8)),
    "exponents .4 .6 .8 .9": ("EXPONENTS", (0.4, 0.6, 0.8, 0.9)),
}


def varied(cell: Cell, draws: int) -> list[float]:
    """How much more is found with each of `VARIED` than as it is; 0 where the same mechanism is chosen."""
    loads = np.bincount(cell.log.users)
    found = [float(size) for size in np.quantile(loads[loads > 0], SHARES_OF_USERS)]
    crowd = Profile.of_quantiles(float(cell.log.people), (found[0], found[1], found[2], found[3], found[4]))
    usual, more = default_choice(cell.budget, cell.request, profile=crowd), []
    for name, value in VARIED.values():
        with mock.patch.object(profiles if name == "EXPONENTS" else default, name, value):
            other = default_choice(cell.budget, cell.request, profile=crowd)
        recalls = [0.0, 0.0] if other == usual else [cell.recall(as_read(cell, one), draws, 3)[0] for one in (other, usual)]
        more.append(recalls[0] - recalls[1])
    return more


def vary(asked: argparse.Namespace) -> None:
    """Mean, least and greatest change of recall, and in how many cells another mechanism was chosen and found another share."""
    rows = []
    for name in asked.logs:
        log = load(name, asked.user, asked.item)
        for domain, k, epsilon in product(asked, "domain", "k", "epsilon"):
            rows.append(varied(Cell(log, domain, k, acc.Budget(epsilon=epsilon, delta=asked.delta)), asked.draws))
    for name, more in zip(VARIED, np.array(rows).T, strict=True):
        changed = f"{np.count_nonzero(more)} of {len(more)} cells"
        print(f"{name:<24}{np.mean(more):+8.4f} on average, {min(more):+.3f} to {max(more):+.3f}, {changed}")


def two_rounds(asked: argparse.Namespace) -> None:
    """Each cell as the default chooses without two rounds, with nothing else, and from all; and the means."""
    rows = []
    for name, domain, k, epsilon in product(asked, "logs", "domain", "k", "epsilon"):
        log = load(name, asked.user, asked.item)
        cell = Cell(log, domain, k, acc.Budget(epsilon=epsilon, delta=asked.delta))
        informed, loads = Informed.of(cell.budget, cell.request), np.bincount(log.users)
        assert informed is not None
        kinds = [isinstance(one.mechanism, dps.TwoRoundHistogram) for one in informed.candidates.choices]
        found = []
        for wanted in ([not kind for kind in kinds], kinds, [True] * len(kinds)):
            chosen = tuple(itertools.compress(informed.candidates.choices, wanted))
            some, rng = replace(informed.candidates, choices=chosen), np.random.default_rng(k)
            right = log.right(k)
            recalls = []
            for _ in range(asked.draws):
                mechanism, read = as_read(cell, some.best(informed.item.learning.learn(loads, informed.declared, rng=rng)))
                recalls.append(right[list(mechanism.select(read(), rng=rng).labels or ())].sum() / k)
            found.append(float(np.mean(recalls)))
        rows.append((domain, epsilon, found))
        print(f"{Path(name).stem:24}{domain:8}{k:5}{epsilon:6g}" + "".join(f"{recall:8.3f}" for recall in found), flush=True)
    for domain, epsilon in product(asked, "domain", "epsilon"):
        means = np.mean([found for where, at, found in rows if (where, at) == (domain, epsilon)], axis=0)
        print(f"{'mean':24}{domain:8}{'':5}{epsilon:6g}" + "".join(f"{recall:8.3f}" for recall in means))


def main() -> None:
    asked = options(
        __doc__,
        **{"logs": LOGS, "user": "user_id", "item": "item_id", "domain": ("unknown", "public"), "k": [10, 50, 100]},
        **{"epsilon": [0.5, 1.0, 4.0], "delta": 1e-6, "draws": 40, "no_plan": False, "vary": False, "rounds": False},
    )
    if set(LOGS) & set(asked.logs) and not DATA.exists():
        sys.exit(f"{DATA} is absent: name logs by path")
    if asked.delta == 0:
        asked.domain = ["public"]
    (two_rounds if asked.rounds else vary if asked.vary else table)(asked)


if __name__ == "__main__":
    main()
