"""A plan as files and as data for machines."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dpselect
from accounting import MissingExtra
from dpselect.errors import InvalidRequest
from dpselect.planning import ReleasePlan
from dpselect.planning.charts import Chart


def require_targets(*, figures: Path | None, html: Path | None) -> None:
    """Look whether what was asked for can be written, before a plan is worked out.

    Raises:
        InvalidRequest: the page has no folder, or is one.
        MissingExtra: figures are asked for and matplotlib is not installed.
    """
    if figures is not None and importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("--figures needs matplotlib: install it with pip install 'dpselect[plot]'")
    if html is not None and (html.is_dir() or not html.parent.is_dir()):
        raise InvalidRequest(f"--html={str(html)!r} cannot be written: name a file in a folder that exists")


def write_all(plan: ReleasePlan, charts: Sequence[Chart], *, figures: Path | None, html: Path | None) -> None:
    """Write what was asked for.

    Raises:
        InvalidRequest: a file cannot be written.
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
        raise InvalidRequest(f"the plan cannot be written ({error.strerror}): name another file or folder") from None


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
