"""The notebooks run at reduced size, are stored with outputs, and are small."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# nbclient starts a kernel: both are in the extra `dev`.
MISSING = [
    name
    for name in ("nbclient", "ipykernel", "matplotlib")
    if importlib.util.find_spec(name) is None
]


def _cells(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return cells


def _code(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in _cells(path) if cell["cell_type"] == "code"]


def test_the_promised_notebooks_are_there() -> None:
    """Planning, repeated top-k, horizons, PATE, DP-SGD with it, audit, best of many and the papers
    each have a notebook.
    """
    named = {
        "audit",
        "best_of_many",
        "dp_sgd_and_pate",
        "horizon",
        "papers",
        "pate",
        "planning",
        "repeated",
    }
    assert named <= {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_is_ready_to_be_read(path: Path) -> None:
    """It names the extras that its imports need, was executed in one go without a failure, folds
    the code that draws, is below 500 kB, names no folder of its maker, and has a page that shows it
    as it is stored.
    """
    text = path.read_text()
    said = re.search(r'pip install "\.\[([\w,]+)\]"', text.replace('\\"', '"'))
    code, cells = "".join("".join(cell["source"]) for cell in _code(path)), _code(path)
    assert said is not None
    assert ("sklearn" in code or path.stem == "pate") == ("pate" in said[1])
    assert "matplotlib" not in code or "plot" in said[1]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    assert not [output for output in outputs if output["output_type"] == "error"]
    drawing = [cell for cell in cells[1:] if "plt." in "".join(cell["source"])]
    assert all(cell["metadata"]["jupyter"]["source_hidden"] for cell in drawing)
    assert path.stat().st_size < 500_000
    assert "/work/" not in text
    assert "/root/" not in text
    assert (
        ROOT / "docs" / "notebooks" / f"{path.stem}.md"
    ).read_text() == f"<!-- notebook: {path.stem} -->\n"


@pytest.mark.slow
@pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; pip install '.[dev]'"
)
@pytest.mark.filterwarnings("ignore")  # those of jupyter's own packages
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell runs from top to bottom in a fresh kernel, at reduced size; the stored file is not
    touched.
    """
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("DPSELECT_NOTEBOOK_SIZE", "small")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(str(Path(folder).resolve()) for folder in sys.path if folder)
    )
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()


@pytest.mark.slow
def test_scripts_on_the_papers_run_by_themselves(tmp_path: Path) -> None:
    """They find their own modules from any folder, print CelebA's row, and say which data are not
    at hand.
    """
    for folder in ("notebooks", "tests/errata", "tests/support"):
        shutil.copytree(ROOT / folder, tmp_path / "project" / folder)
    notebooks = tmp_path / "project" / "notebooks"
    alone = f"import runpy; runpy.run_path({str(notebooks / 'papers_stable.py')!r})"
    subprocess.run([sys.executable, "-P", "-c", alone], cwd=tmp_path, check=True)
    command = [sys.executable, str(notebooks / "papers.py"), "--rounds", "1"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "CelebA as in Zhu and Wang" in run.stdout
    assert "skipped: no data" in run.stdout
