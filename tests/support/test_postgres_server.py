"""The server of the tests itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_RUN = """
import os, signal, pytest
from postgres_server import postgres
def test_it_is_killed(postgres):
    print("SERVER", postgres.partition("host=")[2], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_killed_run_leaves_no_server_behind(postgres: str, tmp_path: Path) -> None:
    """A run of the tests that is killed has its server stopped and its folder removed."""
    (tmp_path / "test_killed.py").write_text(_RUN)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-s",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == -signal.SIGKILL, run.stdout + run.stderr
    folder = Path(next(line for line in run.stdout.splitlines() if "SERVER" in line).split()[-1])
    deadline = time.monotonic() + 120
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not folder.exists()
