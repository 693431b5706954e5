"""Logs for the benchmarks of recall, releases of them by the executor itself, and what anybody
would write with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from harness import DATA
from numpy.typing import NDArray

import accounting as acc
from dpselect.app.release.answer import Answer
from dpselect.app.release.question import Question
from dpselect.app.release.run import choose_mechanism, stage
from dpselect.app.spec import TopKSpec
from dpselect.noise import noise_of
from dpselect.plan import Choice, TopKRequest
from dpselect.plan.default import GENEROUS

LOGS = ["gowalla", "nyc", "tky"]
OVER_TIME = ["films", "messages"]
_CITIES = "foursquare/foursquare_nyc_tky_pairs_reconstructed.parquet"
_FILES = {  # of `DATA`, with the columns of users and items, and the rows that are meant
    "gowalla": ("gowalla/gowalla_10core_pairs.parquet", "user_id", "item_id", ""),
    "nyc": (_CITIES, "user_id", "item_id", "AND city = 0"),
    "tky": (_CITIES, "user_id", "item_id", "AND city = 1"),
    "films": ("times/movietweetings100k.parquet", "user", "item", ""),
    "messages": ("times/collegemsg.parquet", "user", "item", ""),
}
_ENOUGH, _ALIKE = (
    8,
    150,
)  # draws: for a standard error, and of a test that passes now and then


class Log:
    """Distinct (user, item) pairs; items are numbered, and their numbers are their labels."""

    def __init__(self, name: str, users: Any, items: Any) -> None:
        self.name = name
        users, items = (
            np.unique(column, return_inverse=True)[1].astype(np.int64)
            for column in (users, items)
        )
        self.people = int(users.max()) + 1
        self.items, self.users = np.divmod(
            np.unique(items * self.people + users), self.people
        )
        self.counts, self.loads = np.bincount(self.items), np.bincount(self.users)
        self.size = len(self.counts)
        self.table = pa.table({"user": self.users, "item": self.items})

    def right(self, k: int) -> NDArray[np.bool_]:
        """Which items are right in a top k: with ties at rank k, any of them."""
        return np.asarray(self.counts >= np.sort(self.counts)[-k])

    def share(self, labels: Iterable[Any] | None, k: int) -> float:
        """Of the true top k, found in a release."""
        return float(self.right(k)[list(labels or ())].sum()) / k

    def clipped(self, norm: float = 2.0) -> NDArray[np.float64]:
        """(items,) counts of users who are scaled to this norm of 1."""
        return np.bincount(
            self.items, (self.loads ** (-1 / norm))[self.users], self.size
        )


@cache
def load(name: str, user: str = "user_id", item: str = "item_id") -> Log:
    """A log of ../shared/data; some of Tokyo's users, tky/2; a made-up log,
    zipf:EXPONENT,ITEMS,USERS,MOST; or a Parquet or CSV file.
    """
    if name == "tky/2":
        return _some_of_tokyo()
    if name.startswith("zipf:"):
        return _made_up(name, *map(float, name.removeprefix("zipf:").split(",")))
    file, user, item, rows = _FILES.get(name, (name, user, item, ""))
    path = DATA / file
    if not path.exists():
        raise SystemExit(f"{path} is absent: name logs by path")
    found = duckdb.sql(
        f'SELECT "{user}" AS u, "{item}" AS i FROM \'{path}\' WHERE u IS NOT NULL AND i IS NOT NULL {rows}'  # noqa: E501
    )
    columns = found.fetchnumpy()
    return Log(Path(name).stem, columns["u"], columns["i"])


def present(names: Iterable[str]) -> list[str]:
    """Those of the named logs that are there. The others are told and left out."""
    found = []
    for name in names:
        path = DATA / _FILES[name][0] if name in _FILES else None
        if path is None or path.exists():
            found.append(name)
        else:
            print(f"{name} is left out: {path.name} is absent from {DATA}")
    return found


def in_periods(
    name: str, log: Log, periods: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Users, items and periods (from 0) of a log's distinct triples: by its times in periods of
    equal length or, of a log without times, each pair in a period by chance.
    """
    users, items = log.users, log.items
    when = rng.integers(0, periods, len(users))
    if name in OVER_TIME:
        file, user, item, _ = _FILES[name]
        found = duckdb.sql(
            f'SELECT "{user}" AS u, "{item}" AS i, time AS t FROM \'{DATA / file}\''
        ).fetchnumpy()
        users, items = (np.unique(found[name], return_inverse=True)[1] for name in "ui")
        since = found["t"].min()
        when = (found["t"] - since) * periods // (found["t"].max() - since + 1)
    triples = np.unique(np.stack([when, items, users]).astype(np.int64), axis=1)
    return triples[2], triples[1], triples[0]


def _some_of_tokyo() -> Log:
    """As many of Tokyo's users as New York has, without the heaviest twentieth."""
    log, people = load("tky"), load("nyc").people
    lighter = np.argsort(log.loads, kind="stable")[: round(0.95 * log.people)]
    kept = np.random.default_rng(0).choice(lighter, people, replace=False)
    pairs = np.isin(log.users, kept)
    return Log("tky/2", log.users[pairs], log.items[pairs])


def _made_up(
    name: str, exponent: float, items: float, users: float, most: float
) -> Log:
    """Users draw from Zipf's law, from 1 to `most` times, with a density that falls as the square:
    few do so often.
    """
    rng = np.random.default_rng(round(1000 * exponent) + int(users) + int(most))
    loads = np.minimum(
        1 / (rng.random(int(users)) * (1 - 1 / most) + 1 / most), most
    ).astype(np.int64)
    shares = np.cumsum(np.arange(1, int(items) + 1) ** -exponent)
    drawn = np.searchsorted(shares, rng.random(int(loads.sum())) * shares[-1])
    return Log(name, np.repeat(np.arange(int(users)), loads), drawn)


def budget_of(epsilon: float, delta: float) -> acc.Budget:
    """With a delta, or a pure one."""
    return (
        acc.Budget(epsilon=epsilon, delta=delta)
        if delta
        else acc.Budget(epsilon=epsilon)
    )


@contextmanager
def releases(
    table: pa.Table,
    k: int,
    budget: acc.Budget,
    choice: Choice | None = None,
    **asked: Any,
) -> Iterator[Callable[[], Answer]]:
    """Releases by the executor, as `dpselect topk` makes them: the log is read once, and each call
    draws.
    """
    money = {"epsilon": budget.epsilon, "delta": budget.delta or None}
    question = Question.from_spec(
        table, TopKSpec(user="user", item="item", k=k, **money, **asked)
    )
    with ExitStack() as stack:
        ready = stage(
            question,
            choose_mechanism(question, None) if choice is None else choice,
            table,
            None,
            stack,
        )
        yield ready.draw


@dataclass(frozen=True)
class Cell:
    """One line of a table: a release of a log for all of a budget."""

    log: Log
    domain: str
    k: int
    budget: acc.Budget

    @property
    def request(self) -> TopKRequest:
        return TopKRequest(
            k=self.k, candidates=None if self.domain == "unknown" else self.log.size
        )

    @property
    def named(self) -> dict[str, Any]:
        """The first columns of its line."""
        return {
            "log": self.log.name,
            "items": self.domain,
            "k": self.k,
            "epsilon": self.budget.limit,
        }

    @contextmanager
    def draws(
        self, choice: Choice | None = None, **asked: Any
    ) -> Iterator[Callable[[], Answer]]:
        """Releases of what is chosen, or of the default with these options."""
        domain = {} if self.domain == "unknown" else {"domain": range(self.log.size)}
        with releases(
            self.log.table, self.k, self.budget, choice, **domain, **asked
        ) as draw:
            yield draw

    def recall(
        self, choice: Choice | None, draws: int, **asked: Any
    ) -> tuple[float, float]:
        """The mean share of right items over so many draws, or fewer if its standard error is .01;
        and that error.
        """
        with self.draws(choice, **asked) as draw:
            return self.mean(lambda: draw().selection.labels, draws)

    def mean(
        self, draw: Callable[[], Iterable[Any] | None], draws: int
    ) -> tuple[float, float]:
        """The same of anything that draws labels."""
        found, error = list[float](), 1.0
        # Draws that are all alike may be those of a test that passes now and then: they prove
        # little, and more are taken.
        while len(found) < draws or (
            draws >= _ENOUGH and len(found) < _ALIKE and len(set(found)) <= 2
        ):
            found.append(self.log.share(draw(), self.k))
            error = (
                float(np.std(found, ddof=1)) / len(found) ** 0.5
                if len(found) > 1
                else 1.0
            )
            if len(found) >= _ENOUGH and len(set(found)) > 2 and error < 0.01:
                break
        return float(np.mean(found)), error

    def plain(self) -> Callable[[], Sequence[Any]]:
        """What twenty lines of NumPy do."""
        pure, public, rng = (
            self.budget.form == "pure",
            self.domain == "public",
            np.random.default_rng(11),
        )
        seen, epsilon, delta = (
            self.log.clipped(1.0 if pure else 2.0),
            self.budget.limit,
            self.budget.delta,
        )
        scale = (
            1 / epsilon
            if pure
            else 1 / mu_of(epsilon, delta * (1.0 if public else 0.5))
        )
        noise = rng.laplace if pure else rng.normal
        bar = -np.inf if public else threshold(scale, delta / 2)

        def draw() -> Sequence[Any]:
            noisy = seen + noise(0.0, scale, len(seen))
            best = np.argsort(-noisy)[: self.k]
            return best[noisy[best] > bar].tolist()

        return draw


def mu_of(epsilon: float, delta: float) -> float:
    """The Gaussian parameter of (epsilon, delta), by bisection of the analytic formula."""
    low, high, cdf = 0.0, 100.0, noise_of("gaussian").cdf
    for _ in range(100):
        mu = (low + high) / 2
        excess = cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * cdf(
            -mu / 2 - epsilon / mu
        )
        low, high = (mu, high) if excess <= delta else (low, mu)
    return low


def threshold(scale: float, delta: float) -> float:
    """That hides the items of one user with up to 300 of them, each with a count of 1/sqrt(t)."""
    tails = noise_of("gaussian").isf
    return max(
        1 / t**0.5 + scale * float(tails(1 - (1 - delta) ** (1 / t)))
        for t in range(1, GENEROUS + 1)
    )
