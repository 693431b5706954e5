"""A plan as files and as data for machines."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dpselect
from accounting import MissingExtra, OutputError, OutputRefused
from dpselect.cli.output import require_targets as require_new_files
from dpselect.planning import ReleasePlan
from dpselect.planning.charts import Chart


def require_targets(*, figures: Path | None, html: Path | None) -> None:
    """Look whether what was asked for can be written, before a plan is worked out.

    Raises:
        OutputRefused: the page exists, the folder holds figures of a plan, or one of them cannot be made.
        MissingExtra: figures are asked for and matplotlib is not installed.
    """
    require_new_files({"--html": html})
    if figures is not None:
        _require_folder(figures)
    if figures is not None and importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("--figures needs matplotlib: install it with pip install 'dpselect[plot]'")


def _require_folder(figures: Path) -> None:
    try:
        earlier = [path.name for path in figures.iterdir() if path.match("plan-*.png") or path.match("plan-*.svg")]
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutputRefused(f"--figures {str(figures)!r} cannot be used ({error.strerror}): name another folder") from None
    if earlier:
        raise OutputRefused(f"--figures {str(figures)!r} holds {earlier[0]!r}, which is not written over: name another folder")


def write_all(plan: ReleasePlan, charts: Sequence[Chart], *, figures: Path | None, html: Path | None) -> None:
    """Write what was asked for.

    Raises:
        OutputRefused, OutputError: a file exists, or cannot be written.
        MissingExtra: figures are asked for and matplotlib is not installed.
    """
    # Imported here: a plan by itself needs neither.
    try:
        if figures is not None:
            from dpselect.planning.figures import save_figures

            figures.mkdir(parents=True, exist_ok=True)
            save_figures(charts, figures)
        if html is not None:
            from dpselect.planning.page.document import write_page

            write_page(plan, charts, html)
    except OSError as error:
        raise OutputError(f"the plan cannot be written ({error.strerror}): name another file or folder") from None


def as_data(plan: ReleasePlan, charts: Sequence[Chart]) -> dict[str, Any]:
    """The plan as plain data. `ReleasePlan.from_json` reads its member "plan"."""
    return {
        "dpselect": dpselect.__version__,
        "plan": json.loads(plan.to_json()),
        "recommended": {
            "name": plan.recommended.name,
            "mechanisms": [json.loads(run.to_json()) for run in plan.recommended.mechanisms],
        },
        "charts": [json.loads(chart.model_dump_json()) for chart in charts],
    }
