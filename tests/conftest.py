"""What every test relies on: globals are as they were, races take turns, seeds are printed, and
what was not tested is said.
"""

from __future__ import annotations

import decimal
import functools
import gc
import hashlib
import locale
import os
import random
import secrets
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import flint
import mpmath
import numpy as np
import pytest
from filelock import FileLock
from hypothesis import settings
from postgres_server import postgres as postgres
from shared_database import shared_database as shared_database
from spread import evenly
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache

import accounting.curves.base
import dpselect.mechanisms.base

# The interpreters that tests start look for packages where they are installed, not in the current
# folder, which is the checkout.
os.environ["PYTHONSAFEPATH"] = "1"

# -- globals ---------------------------------------------------------------------------------------

# Whoever leaves one of these changed fails: what a test finds must not depend on which tests ran
# before it.
_GLOBALS: dict[str, Callable[[], object]] = {
    "kinds of curves": lambda: sorted(accounting.curves.base.CURVES.members()),
    "kinds of mechanisms": lambda: sorted(dpselect.mechanisms.base.members()),
    "current folder": os.getcwd,
    "environment": lambda: {
        name: text
        for name, text in os.environ.items()
        if name not in ("PYTEST_CURRENT_TEST", "_RJEM_MALLOC_CONF")  # polars sets the second
    },
    "decimal context": lambda: (decimal.getcontext().prec, decimal.getcontext().rounding),
    "numpy's error state": np.geterr,
    "numpy's print options": lambda: repr(np.get_printoptions()),
    "signal handlers": lambda: [
        signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)
    ],
    "locale": lambda: locale.setlocale(locale.LC_ALL),
    "recursion limit": sys.getrecursionlimit,
    "longest integer": sys.get_int_max_str_digits,
    "garbage collection": gc.isenabled,
    "figures left open": lambda: (
        sys.modules["matplotlib.pyplot"].get_fignums() if "matplotlib.pyplot" in sys.modules else []
    ),
}


@pytest.fixture(autouse=True)
def globals_as_they_were() -> Iterator[None]:
    """Sets precisions and global generators before each test and restores them; fails a test that
    leaves another global changed.

    Caches of the packages are dropped after a test that patches code, because what it cached was
    computed by patched code.
    """
    mpmath.mp.dps, flint.ctx.prec = 15, 53
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    before = {name: read() for name, read in _GLOBALS.items()}
    _PATCHED.clear()
    yield
    mpmath.mp.dps, flint.ctx.prec = 15, 53
    if _PATCHED:
        is_above = all(_module_of(target).startswith(_ABOVE) for target in _PATCHED)
        _drop_caches(("accounting", "dpselect"), but_of=_BELOW if is_above else ())
    changed = {
        name: (before[name], now)
        for name, read in _GLOBALS.items()
        if (now := read()) != before[name]
    }
    assert changed == {}, "the test leaves globals changed, and later tests would depend on it"


_PATCHED: list[object] = []
"""What the running test has replaced; the environment and the current folder are not code."""


def _noted(patch: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(patch)
    def noting(own: pytest.MonkeyPatch, target: object, *given: Any, **more: Any) -> None:
        if target is not os.environ:
            if not _PATCHED:
                _drop_caches(("dpselect.app", "dpselect.plan"))  # what is patched must be called
            _PATCHED.append(target)
        patch(own, target, *given, **more)

    return noting


for _name in ("setattr", "delattr", "setitem", "delitem"):
    setattr(pytest.MonkeyPatch, _name, _noted(getattr(pytest.MonkeyPatch, _name)))


# Curves and conversions import nothing of the former but errors (test_architecture.py), so what
# they have cached does not know of a patch there. Calibrations are most of the time of many a test.
_ABOVE = ("accounting.ledger", "dpselect")
_BELOW = ("accounting.budget", "accounting.convert", "accounting.curves", "accounting.measures")


def _module_of(target: object) -> str:
    if isinstance(target, str):
        return target
    named = target if isinstance(target, ModuleType | type) else type(target)
    return named.__name__ if isinstance(named, ModuleType) else named.__module__


def _drop_caches(packages: tuple[str, ...], but_of: tuple[str, ...] = ()) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(packages) and not name.startswith(but_of):
            for member in list(vars(module).values()):
                if isinstance(member, functools._lru_cache_wrapper):
                    member.cache_clear()


# -- statements ------------------------------------------------------------------------------------

# What is compiled for one SQLite ledger serves the next: hundreds of tests open their own, and the
# statements of a store are the same for all. A program that opens one ledger compiles them once.
_STATEMENTS: LRUCache[Any, Any] = LRUCache(2000)
SQLiteDialect_pysqlite.__eq__ = lambda own, other: type(own) is type(other)  # type: ignore[method-assign]
SQLiteDialect_pysqlite.__hash__ = lambda own: hash(type(own))  # type: ignore[method-assign]
Engine._compiled_cache = property(lambda _: _STATEMENTS, lambda *_: None)  # type: ignore[assignment]


# -- turns -----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def turn(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Tests marked `serial` take turns, whatever way they are distributed over processes: they need
    the machine's cores.
    """
    if request.node.get_closest_marker("serial") is None:
        yield
        return
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    if not hasattr(os, "fork"):
        pytest.skip("kills and races fork, which this platform does not")
    with FileLock(shared / "serial.lock"):
        yield


if not hasattr(os, "fork"):
    os.fork = lambda: pytest.skip("needs os.fork, which this platform does not have")  # type: ignore[attr-defined]


# -- seeds -----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def repeated_entropy(request: pytest.FixtureRequest, globals_as_they_were: None) -> Iterator[None]:
    """Draws what this process asks of the operating system from the run's seed and the test's name,
    so that a test which draws is right in each run or in none.

    Other processes, forked ones too, draw from the operating system, and so does a fixture that
    serves several tests.
    """
    seed = f"{request.config.getoption('hypothesis_seed')} {request.node.nodeid}"
    stream = np.random.Generator(np.random.SFC64(list(hashlib.sha256(seed.encode()).digest())))
    process, of_system = os.getpid(), (os.urandom, secrets.token_bytes, secrets.token_hex)

    def urandom(size: int) -> bytes:
        return stream.bytes(size) if os.getpid() == process else of_system[0](size)

    os.urandom = secrets.token_bytes = urandom  # type: ignore[assignment]
    secrets.token_hex = lambda size=32: urandom(size).hex()  # type: ignore[assignment]
    yield
    os.urandom, secrets.token_bytes, secrets.token_hex = of_system


settings.register_profile("dpselect", deadline=None, print_blob=True, database=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --golden, --order-seed, --fast-half, --explore and --explore-for."""
    parser.addoption(
        "--golden", action="store_true", help="write the transcripts of tests/golden anew"
    )
    parser.addoption(
        "--order-seed",
        type=int,
        help="run the files, and the tests of each, in an order drawn from this seed",
    )
    parser.addoption(
        "--fast-half",
        action="store_true",
        help="the mutation run counts what tests notice that are not slow",
    )
    parser.addoption(
        "--explore", action="store_true", help="Hypothesis from a seed that no run had"
    )
    parser.addoption(
        "--explore-for",
        type=float,
        metavar="MINUTES",
        help="how long tests that explore take fresh seeds",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """One seed for Hypothesis, the same in each run and for all workers; a new one with --explore.
    The header names it.
    """
    settings.load_profile("dpselect")
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # a job in the background, which Ctrl-C does not reach: tests send their own
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = (
            random.SystemRandom().randrange(2**32) if config.getoption("explore") else 20_261_122
        )


def pytest_report_header(config: pytest.Config) -> str:
    """The seeds that repeat this run."""
    order = config.getoption("order_seed")
    return f"--hypothesis-seed={config.getoption('hypothesis_seed')}" + (
        "" if order is None else f" --order-seed={order}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """What asks for a PostgreSQL server is slow: it takes seconds to start."""
    if "postgres" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True, specname="pytest_collection_modifyitems")
def pytest_leave_a_few_cases_fast(items: list[pytest.Item]) -> None:
    """Of the cases of a test that is marked `fast(count)` so many run always, from the first to the
    last; the others are slow.
    """
    tests: dict[tuple[Any, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("fast") and not item.get_closest_marker("slow"):
            tests.setdefault((item.path, item.nodeid.partition("[")[0]), []).append(item)
    for cases in tests.values():
        always = evenly(len(cases), cases[0].get_closest_marker("fast").args[0])  # type: ignore[union-attr]
        for place, item in enumerate(cases):
            if place not in always:
                item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --order-seed, the files in any order, and in any order the tests of each.

    Not all tests in any order: what a module makes once for its tests would be made again for
    nearly every one of them. The tests on Spark come first, because idle workers take tests from
    the end of a queue: so one worker runs all of them, and one Java machine starts.
    """
    if config.getoption("order_seed") is not None:
        shuffled, files = (
            random.Random(config.getoption("order_seed")),
            {item.path: None for item in items},
        )
        place = dict(zip(files, shuffled.sample(range(len(files)), len(files)), strict=True))
        shuffled.shuffle(items)
        items.sort(key=lambda item: (item.path.name != "test_spark.py", place[item.path]))


def pytest_sessionstart() -> None:
    """Ten thousand tests are collected without looking for garbage, a fifth of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was collected stays to the end of the run, and is not looked through again."""
    gc.freeze()
    gc.enable()


# -- what was not tested ---------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says how many tests were left out for want of data, servers or packages, and the seeds once
    more if anything failed.
    """
    reasons = Counter(
        str(report.longrepr[-1]).removeprefix("Skipped: ")
        for report in terminalreporter.getreports("skipped")
    )
    if reasons:
        terminalreporter.section("not tested here")
        for reason, count in sorted(reasons.items()):
            terminalreporter.line(f"{count:5d}  {reason}")
    if terminalreporter.getreports("failed"):
        terminalreporter.line(f"repeat with {pytest_report_header(config)}")
