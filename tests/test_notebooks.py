"""The notebooks run at reduced size, are stored with outputs, and are small."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# nbclient starts a kernel: both are in the extra `dev`.
MISSING = [name for name in ("nbclient", "ipykernel", "matplotlib") if importlib.util.find_spec(name) is None]


def _cells(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return cells


def _code(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in _cells(path) if cell["cell_type"] == "code"]


def test_the_promised_notebooks_are_there() -> None:
    """Planning, repeated top-k, horizons, PATE, DP-SGD with it, audit, best of many and the papers each have a notebook."""
    named = {"audit", "best_of_many", "dp_sgd_and_pate", "horizon", "papers", "pate", "planning", "repeated"}
    assert named <= {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_what_to_install(path: Path) -> None:
    """The text names the extras of this package that its imports need."""
    text = "".join("".join(cell["source"]) for cell in _cells(path) if cell["cell_type"] == "markdown")
    extras = re.search(r'pip install "\.\[([\w,]+)\]"', text)
    code = "".join("".join(cell["source"]) for cell in _code(path))
    assert extras is not None
    assert ("sklearn" in code or path.stem == "pate") == ("pate" in extras[1])
    assert "matplotlib" not in code or "plot" in extras[1]


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; pip install '.[dev]'")
@pytest.mark.filterwarnings("ignore")  # those of jupyter's own packages
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell runs from top to bottom in a fresh kernel, at reduced size; the stored file is not touched."""
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("DPSELECT_NOTEBOOK_SIZE", "small")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(Path(folder).resolve()) for folder in sys.path if folder))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stored_in_order(path: Path) -> None:
    """All cells were executed in one go from top to bottom, none failed, and at least one figure or table came out."""
    counts = [cell["execution_count"] for cell in _code(path)]
    assert counts == list(range(1, len(counts) + 1))
    outputs = [output for cell in _code(path) for output in cell["outputs"]]
    assert outputs
    assert not [output for output in outputs if output["output_type"] == "error"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_code_that_draws_is_hidden(path: Path) -> None:
    """A reader sees the question and the figure: cells that draw are folded, in a notebook and on its page."""
    drawing = [cell for cell in _code(path)[1:] if "plt." in "".join(cell["source"])]
    assert all(cell["metadata"]["jupyter"]["source_hidden"] for cell in drawing)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small(path: Path) -> None:
    """Below 500 kB: figures and tables of results, and no data."""
    assert path.stat().st_size < 500_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_shown_in_the_documentation(path: Path) -> None:
    """Each has a page that shows it as it is stored."""
    assert (ROOT / "docs" / "notebooks" / f"{path.stem}.md").read_text() == f"<!-- notebook: {path.stem} -->\n"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_names_no_folder_of_its_maker(path: Path) -> None:
    """Nothing stored shows where it was executed."""
    text = path.read_text()
    assert "/work/" not in text
    assert "/root/" not in text
