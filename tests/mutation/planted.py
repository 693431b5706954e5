"""A process with both packages imported runs tests in forks of itself, each with one edit planted
in live functions.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import re
import socket
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple, Self

import pytest

UNSEEN = 99
"""The status of a run that was not made: only an import shows this edit."""
_FUNCTION = 0x1  # CO_OPTIMIZED: the code of a function, not of a module or of the body of a class


def _parts(code: CodeType) -> list[CodeType]:
    return [part for part in code.co_consts if isinstance(part, CodeType)]


def _own(code: CodeType) -> tuple[object, ...]:
    """What a piece of code does itself, wherever it stands in its file."""
    plain = [repr(part) for part in code.co_consts if not isinstance(part, CodeType)]
    return (
        code.co_name,
        code.co_code,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        plain,
    )


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """All pieces of code of a module, with what each becomes; LookupError where what runs at import
    is not what it was.
    """
    inside = list(zip(_parts(old), _parts(new), strict=False))
    if not old.co_flags & _FUNCTION and (
        _own(old) != _own(new) or len(inside) < max(len(_parts(old)), len(_parts(new)))
    ):
        raise LookupError
    yield old, new
    for pair in inside:
        yield from _pairs(*pair)


def plant(file: str, was: str, functions: list[FunctionType]) -> None:
    """Give every function of a module that is imported the code that its edited file has for it;
    `was` is the file before.

    Raises:
        LookupError: a module, the body of a class or the shape of a closure would change, which
            only an import does.
    """
    old, new = (
        compile(Path(path).read_text(), file, "exec", dont_inherit=True) for path in (was, file)
    )
    becomes = {(part.co_qualname, part.co_firstlineno): now for part, now in _pairs(old, new)}
    for function in functions:
        code = function.__code__
        try:
            function.__code__ = becomes[code.co_qualname, code.co_firstlineno]
        except ValueError:
            raise LookupError from None


def _imported() -> defaultdict[str, list[FunctionType]]:
    """Both packages' functions by file: found once, because looking at all objects in a fork copies
    the memory of nearly all of them.
    """
    for package in ("accounting", "dpselect"):
        found = importlib.import_module(package)
        for module in pkgutil.walk_packages(found.__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    functions: defaultdict[str, list[FunctionType]] = defaultdict(list)
    for function in gc.get_objects():
        if type(function) is FunctionType:
            functions[function.__code__.co_filename].append(function)
    return functions


# What the packages import that takes long.
_THEIRS = (
    *(
        "scipy.stats",
        "scipy.optimize",
        "scipy.integrate",
        "scipy.signal",
        "scipy.interpolate",
        "mpmath",
        "flint",
        "pydantic",
    ),
    *(
        "hypothesis.stateful",
        "sqlalchemy.dialects.sqlite",
        "typer",
        "rich",
        "dp_accounting",
        "duckdb",
        "filelock",
    ),
    *("pandas", "polars", "pyarrow.parquet", "dp_accounting.pld.privacy_loss_distribution"),
    "cryptography.hazmat.primitives.ciphers",
)


class _Request(NamedTuple):
    """An edited file, the file before, tests, the file for what they write, and options."""

    file: str
    was: str
    tests: str
    said: str
    options: tuple[str, ...]

    @classmethod
    def read(cls, line: str) -> Self:
        """The request of a line."""
        file, was, tests, said, *options = line.rstrip("\n").split("\t")
        return cls(file, was, tests, said, tuple(options))

    def write_here(self) -> None:
        """Let this process write to the request's file."""
        sys.stdout.flush()
        written = os.open(self.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(written, 1), os.dup2(written, 2)


class _Server:
    """A plugin of a pytest that has loaded all but the tests: each line of input is a fork of it.

    The status that the tests of a line end with is printed.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, args: list[str]) -> None:
        gc.freeze()
        print("ready", flush=True)
        for line in sys.stdin:
            request = _Request.read(line)
            if (child := os.fork()) == 0:
                request.write_here()
                args += [*request.options, request.tests]
                return
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        os._exit(0)


class _CollectingServer:
    """The same where the packages are imported: a fork collects a file of tests, and each line that
    names one of them is a fork of that.
    """

    def __init__(self, functions: dict[str, list[FunctionType]]) -> None:
        self._functions = functions

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, args: list[str]) -> None:
        gc.freeze()
        print("ready", flush=True)
        collected, (here, there) = (), socket.socketpair()
        statuses = here.makefile()
        for line in sys.stdin:
            request = _Request.read(line)
            wanted = (*request.options, request.tests.partition("::")[0])
            if wanted != collected:
                # before a fork, which would keep them open
                statuses.close(), here.close(), there.close()
                here, there = socket.socketpair()
                if os.fork() == 0:
                    here.close()
                    request.write_here()
                    self._lines = there.makefile("rw")
                    args += wanted
                    return
                there.close()
                collected, statuses = wanted, here.makefile()
            try:
                here.sendall(line.encode())
                status = statuses.readline()
            except ConnectionError:  # the fork ended, which did not read the line
                status = ""
            if not status:  # of a file that cannot be collected
                collected = ()
            print(status.strip() or UNSEEN, flush=True)
        os._exit(0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Run the tests of each line in a fork, where its edit is planted."""
        for line in self._lines:
            request = _Request.read(line)
            if (child := os.fork()) == 0:
                request.write_here()
                try:
                    plant(request.file, request.was, self._functions[request.file])
                except LookupError:
                    os._exit(UNSEEN)
                # Cases of what the edited file has run first: the first that fails is enough.
                classes = re.findall(r"^class (\w+)", Path(request.file).read_text(), re.MULTILINE)
                session.items[:] = sorted(
                    (item for item in session.items if _is_of(item.nodeid, request.tests)),
                    key=lambda item: not any(f"{name}(" in item.nodeid for name in classes),
                )
                return
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            print(status, file=self._lines, flush=True)
        os._exit(0)


def _is_of(nodeid: str, test: str) -> bool:
    """True for a test, and for each of its cases."""
    return nodeid == test or nodeid.startswith(f"{test}[")


def _serve(*, imported: bool) -> None:
    """Serve edits. Where the packages are not `imported` yet, a fork imports the edited file."""
    for name in _THEIRS:
        importlib.import_module(name)
    server = _CollectingServer(_imported()) if imported else _Server()
    options = ["-q", "-x", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout", "300"]
    options += ["--tb", "native"]  # pytest's own looks up the file of every module there is
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    status = pytest.main(options, plugins=[server])
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    _serve(imported=sys.argv[1] == "imported")
