"""What a dry run, a plan and an answer say will be right, from what is declared about the data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest

import accounting as acc
import dpselect as dps
from dpselect.app.cli.out import plain
from dpselect.app.release import run, series
from dpselect.app.release.answer import Answer
from dpselect.app.release.noise_check import MAY_BE_NOISE
from dpselect.app.release.preview import Preview, describe_data, forecast_release
from dpselect.app.release.question import Question, choose
from dpselect.app.spec import TopKSpec
from dpselect.errors import InvalidRequest
from dpselect.plan.forecast import GroupForecast

ASKED: Any = {"user": "u", "item": "i", "k": 5, "epsilon": 1.0, "delta": 1e-6}
SIZES = {"Poland": 300, "Germany": 3000}


def seen(**asked: Any) -> Preview | None:
    question = Question.from_spec("log.csv", TopKSpec(**{**ASKED, **asked}))
    return forecast_release(question, choose(question), compared=True)


def test_preview_is_empty_without_a_data_description() -> None:
    """Nor of sums, or where k items cannot come out of the described data."""
    assert seen() is None
    assert seen(users=1000, shape="last_year.csv") is None


@pytest.mark.parametrize("more", [{}, {"items": 10**9}], ids=["default", "stated"])
def test_preview_profile_size_is_limited(more: Any) -> None:
    """And it says of how many; none is refused because of its forecast."""
    data = describe_data(TopKSpec(**ASKED, users=10**9, **more), None, None)
    assert data is not None
    assert data.profile.size == 100_000
    assert "100,000 items" in data.profile.description


def test_a_list_and_more_epsilon_show_more() -> None:
    """Of the same question; a larger group shows more than a smaller one, and is named first."""
    found = seen(group="g", group_users=SIZES, items=30)
    assert found is not None
    assert list(found.groups) == ["Germany", "Poland"]
    germany, poland = found.groups.values()
    assert germany.right > poland.right
    assert all(one.right <= one.released <= 5 for one in found.groups.values())
    assert [*found.otherwise] == ["with epsilon 4"]
    richer = found.otherwise["with epsilon 4"]
    assert richer["Poland"].right > poland.right
    assert found.lines()[0].startswith("expect about 5 of 5 in Germany")
    assert Preview.from_data(json.loads(json.dumps(found.as_data(None)))) == found


def test_an_answer_says_how_many_of_the_shown_are_right() -> None:
    """By the forecast alone, in words and in its JSON, and again where it is read back."""
    rows = [(user, item) for item in range(6) for user in range(400 - 40 * item)]
    log = pd.DataFrame(rows, columns=["u", "i"])
    answer = dps.topk(log, **ASKED, users=400, items=20, items_per_user=3)
    assert answer.about_right is not None
    assert answer.about_right.endswith(
        "if the data are like Zipf's law with exponent 1, 20 items, 400 users, 3 items per user"
    )
    assert answer.about_right in answer.lines()
    assert answer.as_data()["expected"]["in_words"] == answer.about_right
    plain = dps.topk(log, **ASKED)
    assert isinstance(plain, Answer)
    assert plain.about_right is None
    assert "expected" not in plain.as_data()


def test_the_share_of_right_items_is_that_of_the_forecast() -> None:
    """Of those that are shown, and of none where none is shown; it names a share of none, too: in
    an answer that shows nothing, after the charge.
    """
    none = Preview(20, {"": GroupForecast(0.1, 2.0)}, "so")
    assert none.as_data(None)["in_words"] == ["expect about 2 of 20 (none right), so"]
    found = Preview(20, {"a": GroupForecast(9.0, 10.0), "b": GroupForecast(0.0, 2.0)}, "so")
    assert found.about_right(80) == "about 60 of the 80 items shown are right, so"
    assert found.about_right(0) is None
    assert Preview(20, {"": GroupForecast(0.1, 0.2)}, "so").about_right(3) is None


def test_sizes_of_groups_are_stated_as_group_and_number() -> None:
    """The last sign parts them, and a group without a number is refused."""
    from dpselect.app.spec.shared_fields import group_sizes_of

    assert group_sizes_of(["a=b=3", "c=4"]) == {"a=b": 3, "c": 4}
    with pytest.raises(InvalidRequest, match="Germany=12000"):
        group_sizes_of(["Germany"])


def test_a_row_that_noise_explains_is_marked() -> None:
    """Each row by what was released of it: a lower bound below one user is marked, and no other."""
    log = pd.DataFrame({"u": range(500), "i": ["zoo"] * 500})
    answer = dps.topk(log, **{**ASKED, "k": 2}, domain=["zoo", "park"], with_counts=True)
    assert answer.interval is not None
    noise = answer.interval.half_width
    values, labels = (noise + 1.01, noise + 0.99), ("zoo", "park")
    drawn = answer.selection.model_copy(update={"values": values, "labels": labels})
    answer = replace(answer, selection=drawn)
    assert answer.may_be_noise == (False, True)
    assert answer.as_data()["may_be_noise"] == [False, True]
    assert answer.columns()["low"][1] < 1
    marked = [line for line in plain(answer.sections()).splitlines() if MAY_BE_NOISE in line]
    assert len(marked) == 1
    assert "park" in marked[0]
    assert "0 to" in marked[0]


@pytest.mark.parametrize(("label", "told"), [("NULL", True), ("zoo", False)])
def test_answer_warns_about_labels_resembling_missing_values(label: str, told: bool) -> None:
    """By its name; the note is a function of the released labels, and of no public list."""
    log = pd.DataFrame({"u": range(500), "i": [label] * 500})
    answer = dps.topk(log, **{**ASKED, "k": 1})
    assert answer.items == (label,)
    assert any(f"'{label}'" in words for words in answer.cautions) is told
    listed = dps.topk(log, **{**ASKED, "k": 1}, domain=[label, "park"])
    assert not any("missing values" in words for words in listed.cautions)


@pytest.mark.parametrize("asked", ["topk", "series"])
def test_a_forecast_that_fails_has_charged_and_drawn_nothing(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes before the charge, so that nothing lies between a draw and its kept answer."""
    for module, name in ((run, "forecast_release"), (series, "forecast_series")):
        monkeypatch.setattr(module, name, Mock(side_effect=MemoryError))
    log = pd.DataFrame({"u": range(9), "i": [1] * 9, "t": ["2024-01-01"] * 9})
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        ledger.create_dataset("log", acc.Budget(epsilon=4.0, delta=1e-5), "add_remove")
        paid = {**ASKED, "ledger": ledger, "dataset": "log", "users": 9, "key": "a"}
        days = {"time": "t", "since": "2024-01-01", "until": "2024-01-03", "every": "day"}
        state = {"state": tmp_path / "a.state"}
        with pytest.raises(MemoryError):
            dps.topk(log, **paid) if asked == "topk" else dps.continual.run(
                log, **paid, **days, **state
            )
        assert list(ledger.entries("log")) == []
    assert not (tmp_path / "a.state").exists()
