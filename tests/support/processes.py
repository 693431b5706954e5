"""Processes of their own for tests: forked from one warm process that has imported the library, or
started afresh.

A fresh process imports for seconds what a forked one has. Neither sees the checkout before what is
installed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import dpselect
from accounting import AccountingError

# Where the packages under test lie: site-packages for a wheel, the checkout for an editable
# installation.
HOME = Path(dpselect.__file__).resolve().parents[1]
TIMEOUT = 300.0
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        *(
            "dpselect.app.cli.ledger",
            "dpselect.app.cli.topk",
            "dpselect.app.cli.plan",
            "dpselect.app.release.run",
        ),
        *(
            "dpselect.session",
            "accounting.ledger",
            "pytest",
            "duckdb",
            "scipy.special",
            "scipy.optimize",
            "flint",
        ),
        *("sqlalchemy.dialects.sqlite", "cryptography.hazmat.primitives.ciphers"),
    ]
)


def environment(**more: str) -> dict[str, str]:
    """This environment, with a path on which the packages under test are found first."""
    return {**os.environ, "PYTHONPATH": str(HOME), **more}


def fresh(
    *arguments: object, timeout: float = TIMEOUT, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a new interpreter with these arguments to its end."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(**more),
        check=False,
    )


class Forked:
    """`python -c CODE ARGUMENTS`, forked from the warm process; warnings are errors."""

    def __init__(self, code: str, *arguments: object, **more: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="forked-", ignore_cleanup_errors=True)
        self._out, self._err = (Path(self._folder.name) / name for name in ("out", "err"))
        self._out.touch()
        argv = ["-c", *map(str, arguments)]
        given = environment(**more)
        self.process = _FORKS.Process(
            target=_run, args=(code, argv, given, str(Path.cwd()), str(self._out), str(self._err))
        )
        self.process.start()

    def finish(self, timeout: float = TIMEOUT) -> tuple[int, str, str]:
        """Wait for the end. Returns the status (-n if signal n ended it), stdout and stderr; kills
        what does not end.
        """
        self.process.join(timeout)
        if self.process.is_alive():
            said = self._err.read_text()
            self.kill()
            raise TimeoutError(f"still running after {timeout} s: {said}")
        status = self.process.exitcode
        assert status is not None
        texts = [path.read_text() if path.exists() else "" for path in (self._out, self._err)]
        self._folder.cleanup()
        return status, texts[0], texts[1]

    def line(self, number: int = 0, timeout: float = TIMEOUT) -> str:
        """The given line of stdout, as soon as it is complete."""
        end = time.monotonic() + timeout
        while len(lines := self._out.read_text().splitlines(keepends=True)) <= number or not lines[
            number
        ].endswith("\n"):
            if not self.process.is_alive() or time.monotonic() > end:
                raise AssertionError(f"line {number} never came: {lines}, {self._err.read_text()}")
            time.sleep(0.005)
        return lines[number]

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End it at once, and wait until it is gone."""
        self.process.kill()
        self.process.join()
        self._folder.cleanup()


def forked_script(script: Path, *arguments: object) -> str:
    """What a script prints, which must end well, run in a process that is forked from the
    warm one.
    """
    status, out, err = Forked(script.read_text(), *arguments).finish()
    assert status == 0, err
    return out


@contextmanager
def warm_command(folder: Path) -> Iterator[Path]:
    """A script that is `dpselect` for a shell: each call is a process of its own, forked from a
    warm one.

    It has the caller's arguments, environment, folder and standard streams.
    """
    address, client, script = (folder / name for name in ("calls", "client.py", "dpselect"))
    client.write_text(_CLIENT)
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{client}" "{address}" "$@"\n')
    script.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as calls:
        calls.bind(str(address))
        calls.listen()
        server = _FORKS.Process(target=_serve, args=(calls,), daemon=True)
        server.start()
        try:
            yield script
        finally:
            server.kill()
            server.join()


_CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as call:
    call.connect(sys.argv[1])
    text = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(call, [len(text).to_bytes(4, "big")], [0, 1, 2])
    call.sendall(text)
    status = call.recv(1)
sys.exit(status[0] if status else "the warm process is gone")
"""


def _serve(calls: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        call, _ = calls.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            size, streams, _, _ = socket.recv_fds(call, 4, 3)
            with call.makefile("rb") as sent:
                argv, given, folder = json.loads(sent.read(int.from_bytes(size, "big")))
            _become(argv, given, folder, streams)
            call.send(
                bytes(
                    [
                        _status("import runpy; runpy.run_module('dpselect', run_name='__main__')")
                        & 0xFF
                    ]
                )
            )
            os._exit(0)
        call.close()


def _run(
    code: str, argv: Sequence[str], given: Mapping[str, str], folder: str, out: str, err: str
) -> None:
    written = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for path in (out, err)]
    _become(argv, given, folder, [os.open(os.devnull, os.O_RDONLY), *written])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        os._exit(_status(code))


def _become(
    argv: Sequence[str], given: Mapping[str, str], folder: str, streams: Sequence[int]
) -> None:
    """What a new process finds: its arguments, environment, folder and standard streams."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(given)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(0),
        os.fdopen(1, "w", buffering=1),
        os.fdopen(2, "w", buffering=1),
    )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = list(argv)


def _status(code: str) -> int:
    """What the interpreter would exit with."""
    status = 0
    try:
        exec(compile(code, "<forked>", "exec"), {"__name__": "__main__"})
    except SystemExit as left:
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
        status = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def in_child(
    action: Callable[[], object],
    meanwhile: Callable[[], None] = lambda: None,
    timeout: float = TIMEOUT,
) -> str:
    """What `action` raises in a forked process, as text, "" if it raises nothing; `meanwhile` runs
    here at the same time.

    What does not end is killed, and `TimeoutError` is raised.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action()
            message = ""
        except BaseException as error:
            message = (
                f"{type(error).__name__}: {error}"
                if isinstance(error, AccountingError)
                else traceback.format_exc()
            )
        os.write(write, message.encode())
        os._exit(0)
    os.close(write)
    try:
        meanwhile()
    finally:
        with os.fdopen(read) as pipe:
            ended, _, _ = select.select([pipe], [], [], timeout)
            if not ended:
                os.kill(child, signal.SIGKILL)
            message = pipe.read()
        os.waitpid(child, 0)
    if not ended:
        raise TimeoutError(f"still running after {timeout} s")
    return message
