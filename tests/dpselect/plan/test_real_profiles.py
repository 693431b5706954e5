"""On published data the recommended mechanism is the best, or within 2 % recall of it, of all that are tried exhaustively."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from dpselect.plan import Profile
from dpselect.plan.candidates import Family
from dpselect.plan.plan import Part, Task, plan
from dpselect.plan.quality import Levels, Outcomes, Runs

DATA = Path(__file__).resolve().parents[3] / ".." / "shared" / "data"
BUDGET = acc.Budget(epsilon=1, delta=1e-6)
ROUNDS = 600


def netflix() -> np.ndarray:
    return np.load(DATA / "scores" / "NETFLIX.n17770.npy")


def gowalla() -> np.ndarray:
    return _pairs(DATA / "gowalla" / "gowalla_10core_pairs.parquet")


def foursquare() -> np.ndarray:
    return _pairs(DATA / "foursquare" / "foursquare_nyc_tky_pairs_reconstructed.parquet")


def _pairs(path: Path) -> np.ndarray:
    frame = pytest.importorskip("pandas").read_parquet(path)
    keys = [name for name in ("city", "item_id") if name in frame]
    return frame.groupby(keys)["user_id"].size().to_numpy().astype(float)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data, which is not part of the project")
@pytest.mark.parametrize("known", ["public", "unknown"])
@pytest.mark.parametrize(("k", "releases"), [(10, 30), (10, 3), (50, 1)])
@pytest.mark.parametrize("counts", [netflix, gowalla, foursquare])
def test_the_recommended_one_is_within_two_percent_of_the_best(
    counts: Callable[[], np.ndarray], k: int, releases: int, known: str
) -> None:
    """Of every mechanism, noise, split of delta, kbar, gamma and penalty on a wide grid, none has 2 % more recall.

    Recalls are means of 600 runs or exact; the best of the recommended and the rival are also drawn by the mechanisms themselves.
    """
    shape = Profile.of_counts(counts(), public=True)
    found = plan(BUDGET, k, releases, profile=shape, domain=known)  # type: ignore[arg-type]
    task = Task(BUDGET, found.parts, shape, known, False, dps.Sensitivity(), "together")  # type: ignore[arg-type]
    levels = task.levels(Part(releases=releases, k=k))
    rivals = {rival: recall(rival, levels) for rival in exhaustive(task, levels)}
    rival = max(rivals, key=rivals.__getitem__)
    ours = found.recommended.quality.recall.value
    names = f"{counts.__name__} k={k} x{releases} {known}: {found.recommended.name}"
    print(f"{names} {ours:.4f}, best of {len(rivals)}: {rivals[rival]:.4f}")
    assert ours >= rivals[rival] - 0.02
    assert drawn(found.mechanism, shape, k, known) >= drawn(rival, shape, k, known) - 0.02 - 0.02  # and the noise of 200 draws


def recall(mechanism: dps.Mechanism, levels: Levels) -> float:
    law = Outcomes.of_release(mechanism, levels, Runs(ROUNDS, seed=99))
    return float(law.recall.mean() if law.weights is None else law.weights @ law.recall)


def drawn(mechanism: dps.Mechanism, shape: Profile, k: int, known: str) -> float:
    """Mean recall of 200 draws."""
    scores, counts = shape.scores(observed=known == "unknown", sensitivity=mechanism.covers), shape.dense()
    rng = np.random.default_rng(5)
    hits = [(counts[list(mechanism.select(scores, rng=rng).indices)] >= counts[k - 1]).sum() for _ in range(200)]
    return float(np.mean(hits)) / k


def exhaustive(task: Task, levels: Levels) -> Iterator[dps.Mechanism]:
    """All families at the budget, with far more settings than the planner tries."""
    k = levels.k
    for family in Family.planned():
        if family.traits.answers == "one_item" or (not task.known and family.traits.domain == "public"):
            continue
        assert family.failures(task)
        for fitted in family.fits(task):
            yield from wide(fitted.mechanisms[0], k, levels)


def wide(mechanism: dps.Mechanism, k: int, levels: Levels) -> Iterator[dps.Mechanism]:
    """A mechanism with every setting of a wide grid that does not change its price."""
    if isinstance(mechanism, dps.LimitedDomain):
        grid = {"kbar": sorted({k, *np.geomspace(k, max(k, levels.size), 24).astype(int).tolist()})}
    elif isinstance(mechanism, dps.CanonicalTopK):
        grid = {"gamma": [0.5, 0.6, 0.7, 0.8, 0.9, 1.0], "top_set": ["tied", "gap"]}
    elif isinstance(mechanism, dps.StableTopK):
        sizes = [None, *(dps.TargetSize(k=k, penalty=float(p)) for p in np.geomspace(1, 10_000, 9))]
        grid = {"regularizer": sizes}
    elif isinstance(mechanism, dps.StableTopKFixed):
        grid = {"kbar": [k, k + 1, 2 * k, 4 * k], "penalty": [0.0, *np.geomspace(1, 10_000, 7).tolist()]}
    elif isinstance(mechanism, dps.TopStable):
        grid = {"kbar": [k, k + 1, 2 * k, 3 * k], "search": ["from_k", "from_kbar"]}
    else:
        grid = {}
    for values in itertools.product(*grid.values()):
        yield mechanism.model_copy(update=dict(zip(grid, values, strict=True)))
