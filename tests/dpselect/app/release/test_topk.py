"""`dpselect.topk`: the command, in Python."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import accounting as acc
import dpselect as dps
from dpselect.app.release import answer, run
from dpselect.app.release.question import Question, choose
from dpselect.app.spec import TopKSpec
from dpselect.errors import InvalidRequest
from dpselect.plan.default import GENEROUS

# 'a' has 900 users, 'b' 600, 'c' 300: at epsilon 100 the order is wrong with a chance below e^-300.
LOG = pd.DataFrame(
    [
        (f"u{user}", item)
        for item, users in (("a", 900), ("b", 600), ("c", 300))
        for user in range(users)
    ]
)
LOG.columns = pd.Index(["who", "where"])
ASK: dict[str, Any] = {"user": "who", "item": "where", "k": 2}


@pytest.mark.slow
def test_an_answer_has_items_values_and_a_guarantee() -> None:
    """Items in order, no values unless asked for, the guarantee within the budget; a repr and HTML
    that show them as text.

    What is large is warned of by public numbers alone, so that the warning tells nothing about the
    log.
    """
    plain = dps.topk(LOG.replace({"a": "<b>\x1b[31m"}), **ASK, epsilon=100.0, delta=1e-3)
    assert (plain.items, plain.values, plain.charge) == (("<b>\x1b[31m", "b"), None, None)
    assert "<b>" not in plain._repr_html_()
    assert "\x1b" not in repr(plain)
    assert "epsilon 100 protects hardly anybody" in repr(plain)
    assert "one user in 1,000" in repr(plain)
    assert "protects hardly" not in " ".join(dps.topk(LOG, **ASK, epsilon=1.0, delta=1e-6).lines())
    assert (plain.guarantee.points[0].epsilon or 999) <= 100.0
    counted = dps.topk(LOG, **ASK, epsilon=100.0, domain=["a", "b", "c"], with_counts=True)
    # Laplace noise of scale 1 at most: beyond with e^-40
    assert counted.values == pytest.approx((900, 600), abs=40)
    assert "<td><bdi>a</bdi></td>" in counted._repr_html_()
    names = ["rank", "item", "users", "low", "high"]
    for table in (counted.to_pandas(), counted.to_polars()):
        assert list(table["item"]) == ["a", "b"]
        assert list(table.columns) == counted.to_arrow().column_names == names


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_refusal_for_a_pure_budget_names_a_working_remedy(
    tmp_path: Path, delta: float | None
) -> None:
    """A refusal names what the dataset can pay for, whatever delta the call states; the remedy that
    it names works.
    """
    with acc.Ledger.open(f"sqlite:///{tmp_path}/l.db") as ledger:
        ledger.create_dataset("pure", acc.Budget(epsilon=3.0), "add_remove")
        ask: dict[str, Any] = {**ASK, "epsilon": 1.0, "delta": delta, "dataset": "pure"}
        listed = {**ask, "domain": ["a", "b", "c"], "k": 1}
        for asked, error, words in (
            (ask, InvalidRequest, r"budget has no delta.*a public list of items \(domain=\)"),
            (
                {**listed, "mechanism": "oneshot_top_k", "noise": "gaussian"},
                acc.errors.CalibrationError,
                "dataset's budget has no delta, so choose a mechanism",
            ),
        ):
            with pytest.raises(error, match=words):
                dps.topk(LOG, **asked, ledger=ledger)
        assert list(ledger.entries("pure")) == []
        dps.topk(LOG, **listed, ledger=ledger)
        assert [entry.action for entry in ledger.entries("pure")] == ["charge", "release"]


def test_remaining_releases_count_the_scarcer_budget_part(tmp_path: Path) -> None:
    """A tenth of epsilon and a quarter of delta: three more fit, a fifth is refused before a log is
    read; each is on record.
    """
    with acc.Ledger.open(f"sqlite:///{tmp_path}/l.db") as ledger:
        ledger.create_dataset(
            "log", acc.Budget(epsilon=10.0, delta=4e-6, order="inf"), "add_remove"
        )
        ask: dict[str, Any] = {**ASK, "epsilon": 1.0, "delta": 1e-6, "use_everything": True}
        ask |= {"ledger": ledger, "dataset": "log", "actor": "grace", "label": "a trial"}
        first = dps.topk(LOG, **ask)
        assert (
            first.left
            == "log: budget: epsilon 10, delta 4e-6; used: 25% of the failure probability (delta0);"
            " cost as charged: epsilon 1, delta 1e-6; left: 3 more releases like this one"
        )
        for _ in range(3):
            dps.topk(LOG, **ask)
        with pytest.raises(acc.BudgetExceeded):
            dps.topk("no such log", **ask)
        charges = [entry for entry in ledger.entries("log") if entry.action == "charge"]
        assert [(entry.actor, entry.label) for entry in charges] == [("grace", "a trial")] * 4


BOUNDLESS = "without max_items_per_user= all are"


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        *(
            ({name: ["a"]}, InvalidRequest, f"{name}= is not known")
            for name in ("color", "within", "clip_norm")
        ),
        ({"clip": (1.0, 2.0), "max_items_per_user": 5}, InvalidRequest, "clip= must be one"),
        ({"output": "answer.txt"}, InvalidRequest, ".json"),
        (
            {"epsilon": 5e-324, "delta": None, "domain": ["a", "b"]},
            acc.errors.CalibrationError,
            "Raise the budget",
        ),
        (
            {"mechanism": "racing_top_k"},
            dps.errors.InvalidMechanism,
            r"clip the users \(clip=\), or bound their items",
        ),
        ({"salt": "s", "mechanism": "limited_domain"}, InvalidRequest, BOUNDLESS),
        (
            {"group": "where", "item": "what", "noise": "laplace"},
            InvalidRequest,
            "kbar=, noise=, with_counts=",
        ),
    ],
)
def test_invalid_topk_keywords_are_refused(
    changed: dict[str, Any], error: type[Exception], words: str
) -> None:
    """Every keyword is read or refused: what is not known raises, a contribution bound too. What
    the command refuses as well stands in tests/golden/topk_refusals.txt.
    """
    with pytest.raises(error, match=words):
        dps.topk(LOG, **{**ASK, "epsilon": 1.0, "delta": 1e-6, **changed})


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(
    ("relation", "k", "epsilon"), [("replace_one", 1, 1.0), ("add_remove", 20, 1e6)]
)
def test_the_default_is_a_mechanism_that_the_engine_can_run(
    relation: Any, k: int, epsilon: float, counts: bool, engine: Any
) -> None:
    """Counts that stay in the engine allow no race on a public list, so one vector is drawn."""
    asked = {**ASK, "k": k, "epsilon": epsilon, "delta": 1e-6, "relation": relation}
    released = dps.topk(
        LOG, **asked, domain=[*"abc", *range(30)], with_counts=counts, engine=engine
    )
    mechanism: Any = released.mechanism.mechanism if counts else released.mechanism  # type: ignore[attr-defined]
    assert len(released.items) == k
    assert mechanism.kind == ("racing_top_k" if engine == "memory" else "oneshot_top_k")


def test_a_salt_repeats_the_bound_that_the_default_brings() -> None:
    """The default keeps a part of a heavy user's items by the stated salt, and prints it."""
    rows = [(user, f"i{item}") for user in range(30) for item in range(310 if user < 3 else 40)]
    log = pd.DataFrame(rows, columns=["who", "where"])
    asked: Any = {"user": "who", "item": "where", "k": 40, "epsilon": 1.0, "delta": 1e-6}
    question = Question.from_spec(log, TopKSpec(**asked, salt="pepper"))
    choice = choose(question)
    assert choice.max_items_per_user == GENEROUS
    with ExitStack() as stack:
        read = run._read(question, choice, stack, log, None)
        again = run._read(question, choice, stack, log, None)
    assert read.salt == "pepper"
    assert read.scores.labels == again.scores.labels
    assert read.scores._values.tolist() == again.scores._values.tolist()


def test_a_release_without_a_ledger_warns_once() -> None:
    """Nobody keeps account of it: a warning says so, the first time in a process."""
    answer.warn_unrecorded.cache_clear()
    with pytest.warns(answer.Unrecorded, match="is not recorded"):
        dps.topk(LOG, **ASK, epsilon=1.0, delta=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dps.topk(LOG, **ASK, epsilon=1.0, delta=1e-6)
