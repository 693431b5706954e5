"""Long lists of cases: a few of them in the fast run, all of them in the slow one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def evenly(size: int, count: int) -> set[int]:
    """`count` places of so many, evenly spaced from the first to the last."""
    steps = max(count - 1, 1)
    return {round(step * (size - 1) / steps) for step in range(count)}


def spread(cases: Sequence[Any], count: int) -> list[Any]:
    """The cases for `parametrize`: `count` of them, evenly spaced from the first to the last, run
    always, the others if slow.
    """
    fast = evenly(len(cases), count)
    return [case if place in fast else _slow(case) for place, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
