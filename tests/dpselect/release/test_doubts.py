"""A release that found little says so, from what it released: ids that are written otherwise, a budget that finds nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dpselect as dps
from dpselect.release.answer import as_json


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """1,000 users of ten items, whose names have zeros in front."""
    rows = (f"u{user},{item:05},1700000000" for user in range(1000) for item in range(1, 11))
    (tmp_path / "log.csv").write_text("who,where,at\n" + "\n".join(rows) + "\n")
    return tmp_path / "log.csv"


LISTED = [f"{item:05}" for item in range(1, 11)]
OTHERWISE = [str(item) for item in range(1, 11)]


def said(log: Path, domain: Any, **asked: Any) -> list[str]:
    """Warnings about what was found."""
    answer = dps.topk(log, user="who", item="where", k=5, domain=domain, **{"epsilon": 6.0, "delta": 1e-6, **asked})
    return [line for line in answer.cautions if "found" in line or "listed item" in line]


@pytest.mark.fast(1)
@pytest.mark.parametrize("asked", [{}, {"with_counts": True, "users": 1000, "items_per_user": 10, "learn": 0}])
def test_a_catalogue_that_hardly_matches_is_said(visits: Path, asked: dict[str, Any]) -> None:
    """By the users that were learnt, or by counts that noise alone explains; one that matches is not spoken of."""
    assert said(visits, LISTED, **asked) == []
    # Noise hides it now and then, as the confidence of what is compared states; not twelve times in a row.
    line = next((line for _ in range(12) for line in said(visits, OTHERWISE, **asked)), "")
    assert "few users hold a listed item" in line
    assert "are ids written alike in log and catalogue? 'dpselect check'" in line
    assert ("were learnt" in line) is (not asked)


def test_a_number_is_doubted_up_to_what_noise_alone_makes(visits: Path) -> None:
    """Within the interval of the noise, and not a twentieth beyond it."""
    asked: Any = {"k": 5, "epsilon": 6.0, "delta": 1e-6, "with_counts": True, "users": 1000, "items_per_user": 10, "learn": 0}
    answer = dps.topk(visits, user="who", item="where", domain=OTHERWISE, **asked)
    assert answer.interval is not None
    for times in (0.96, 1.04):
        values = (times * answer.interval.half_width,) * len(answer.items)
        shown = replace(answer, selection=answer.selection.model_copy(update={"values": values}))
        assert any("no number shown is beyond what noise alone makes" in line for line in shown.cautions) is (times < 1)


@pytest.mark.slow
def test_nothing_found_says_what_a_plan_expected(visits: Path) -> None:
    """With the next step: a larger budget where hardly anything was expected, a look at the reading where much was."""
    (line,) = said(visits, None, epsilon=0.01, users=100, items_per_user=2)
    assert "expects no more than" in line
    assert "'dpselect plan'" in line
    (line,) = said(visits, None, epsilon=1.0, users=10**6, items_per_user=10, time="at", since="2030-01-01", time_unit="s")
    assert "are the columns, the times and the delimiter those meant?" in line


@pytest.mark.slow
def test_nothing_found_among_users_that_noise_may_have_made_sells_no_budget(tmp_path: Path) -> None:
    """Where so few were learnt that nobody may be there, the remedy is a look at what is read."""
    log = tmp_path / "few.csv"
    log.write_text("who,where\nann,zoo\nbob,park\n")
    lines = [line for _ in range(8) for line in said(log, None, epsilon=0.5, delta=1e-7)]  # noise may make more, seldom
    made = [line for line in lines if "which noise alone may have made" in line]
    assert made
    assert not any("dpselect plan" in line for line in made)


@pytest.mark.slow
def test_warnings_stand_in_every_form(visits: Path) -> None:
    """In the words of an answer as in its JSON."""
    tried = (dps.topk(visits, user="who", item="where", k=5, domain=OTHERWISE, epsilon=6.0) for _ in range(12))
    said_of = ((answer, words) for answer in tried for words in answer.cautions if "listed item" in words)
    answer, line = next(said_of)  # noise may hide it, not twelve times in a row
    assert line in answer.lines()
    assert line in json.loads(as_json(answer))["notes"]
