"""Forked processes of tests end."""

from __future__ import annotations

import time

import pytest
from processes import in_child


def test_a_child_that_hangs_is_killed() -> None:
    """What is raised comes back as text; what does not end in time is an error here, and not a run
    that hangs.
    """
    assert in_child(lambda: None) == ""
    assert "ZeroDivisionError" in in_child(lambda: 1 / 0)
    with pytest.raises(TimeoutError, match="still running"):
        in_child(lambda: time.sleep(600), timeout=0.05)
