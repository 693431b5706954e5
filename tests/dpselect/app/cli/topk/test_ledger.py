"""`dpselect topk --ledger`: charged before it is drawn, refused when it does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import accounting as acc
from dpselect.app.cli.app import app
from dpselect.app.cli.guard import EXPLAINED

LOG = "user_id,item_id\n" + "".join(
    f"{user},{item}\n" for user in range(40) for item in ("a", "b")[: 1 + user % 2]
)


@pytest.fixture
def topk(tmp_path: Path) -> list[str]:
    """The command on a log with a public catalog and a ledger that pays for two releases."""
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "items.csv").write_text("item_id\na\nb\nc\n")
    with acc.Ledger.open(f"sqlite:///{tmp_path}/p.db") as ledger:
        ledger.create_dataset("log", acc.Budget(epsilon=2), "add_remove")
    words = (
        f"topk {tmp_path}/log.csv --user user_id --item item_id --k 1 --domain {tmp_path}/items.csv"
        " --epsilon 1"
    )
    return [*words.split(), "--ledger", f"sqlite:///{tmp_path}/p.db", "--dataset", "log"]


def test_a_retry_gives_the_kept_answer(topk: list[str], tmp_path: Path) -> None:
    """With --key and the --output of before the recorded answer is printed again, as text or JSON:
    nothing is charged or drawn.

    A dry run says so, and under another key that the file is in the way, as a release would.
    """
    kept = tmp_path / "answer.json"
    words = [*topk, "--key", "monday", "--output", str(kept)]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.stderr
    (tmp_path / "log.csv").unlink()  # nothing is read either
    with acc.Ledger.open(f"sqlite:///{tmp_path}/p.db") as ledger:
        before = ledger.heads().datasets
        again = CliRunner().invoke(app, [*words, "--json"])
        assert (again.exit_code, again.stdout) == (0, kept.read_text())
        text = CliRunner().invoke(app, words).stdout
        # what was left then is not kept
        assert text.startswith(first.stdout.partition("Budget: ")[0])
        told = CliRunner().invoke(app, [*words, "--dry-run"])
        assert "nothing more would be charged, because entry 1 covers" in " ".join(
            told.stdout.split()
        ), told.stderr
        in_the_way = CliRunner().invoke(
            app, ["tuesday" if word == "monday" else word for word in [*words, "--dry-run"]]
        )
        assert (in_the_way.exit_code, in_the_way.stdout) == (2, "")
        assert "is not overwritten" in in_the_way.stderr
        assert ledger.heads().datasets == before
    other = CliRunner().invoke(
        app,
        [
            ("0.5" if word == "1" and words[at - 1] == "--epsilon" else word)
            for at, word in enumerate(words)
        ],
    )
    assert other.exit_code != 0
    assert "paid for another release" in other.stderr
    for changed in (
        [*topk, "--key", "tuesday", "--output", str(kept)],
        [*topk, "--output", str(kept)],
    ):
        assert "is not overwritten" in CliRunner().invoke(app, changed).stderr


@pytest.mark.parametrize("epsilon", ["0.5", "1.5"])
def test_a_used_key_pays_for_no_other_question(topk: list[str], epsilon: str) -> None:
    """Another question under a used key is told of the key, whether or not the budget would pay for
    it; nothing is charged.
    """
    words = [*topk, "--key", "monday"]
    assert CliRunner().invoke(app, words).exit_code == 0
    words[words.index("--epsilon") + 1] = epsilon
    refused = CliRunner().invoke(app, words)
    assert (refused.exit_code != 0, refused.stdout) == (True, "")
    assert "has already paid for a different charge" in " ".join(refused.stderr.split())
    assert "charged" not in refused.stderr


@pytest.mark.slow
def test_a_release_pays_for_what_came_out(topk: list[str], tmp_path: Path) -> None:
    """With --pay-for-what-came-out the ledger takes off what the answer did not use; without such a
    price it is refused.
    """
    with acc.Ledger.open(f"sqlite:///{tmp_path}/p.db") as ledger:
        ledger.create_dataset("open", acc.Budget(epsilon=2, delta=1e-4, order="inf"), "add_remove")
    words = (
        f"topk {tmp_path}/log.csv --user user_id --item item_id --k 5 --epsilon 1 --delta 1e-6"
        " --mechanism limited_domain"
    )
    paid = [*words.split(), *topk[-4:-1], "open", "--pay-for-what-came-out"]
    done = CliRunner().invoke(app, [*paid, "--json"])
    assert done.exit_code in (0, EXPLAINED), done.stderr
    told = json.loads(done.stdout)
    assert any("did not use is returned" in note for note in told["notes"])
    with acc.Ledger.open(f"sqlite:///{tmp_path}/p.db") as ledger:
        used = acc.Curve.from_json(json.dumps(told["spent"]))
        assert ledger.total("open").spent == ledger.dataset("open").budget.price(used)
        assert used.core_epsilon < acc.Curve.from_json(json.dumps(told["curve"])).core_epsilon
        assert [entry.action for entry in ledger.entries("open")] == [
            "reserve",
            "commit",
            "release",
        ]
        loose = [word for word in paid if word not in (*topk[-4:], "open")]
        for refused, reason in (
            ([*topk, "--pay-for-what-came-out"], "costs the same"),
            (loose, "needs --ledger"),
        ):
            again = CliRunner().invoke(app, refused)
            assert again.exit_code != 0
            assert reason in " ".join(again.stderr.split())
        assert len(list(ledger.entries("log"))) == 0
