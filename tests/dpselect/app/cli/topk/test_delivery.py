"""An answer that was paid for is not lost: it is on disk before the release is recorded, and
interruptions say what was paid.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import polars as pl
import pytest
from shell import dpselect

import accounting as acc
import dpselect as dps
from dpselect.app import events
from dpselect.app.cli import main
from dpselect.app.release.answer import _is_paid, _paid_answer
from dpselect.app.spec.toml_file import Config, ReleaseTable
from dpselect.mechanisms import Mechanism

pytestmark = pytest.mark.usefixtures("shared_database")

URL = "sqlite:///p.db"
LOG = "user_id,item_id\n" + "".join(
    f"{user},{item}\n" for user in range(40) for item in ("a", "b")[: 1 + user % 2]
)


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """`topk` on a log with a public catalog and a ledger, in a working folder of its own."""
    (place := tmp_path / "here").mkdir()
    monkeypatch.chdir(place)
    Path("log.csv").write_text(LOG)
    Path("items.csv").write_text("item_id\na\nb\nc\n")
    with acc.Ledger.open(URL) as ledger:
        ledger.create_dataset("log", acc.Budget(epsilon=5), "add_remove")
    Path("log.json").write_text("{}")
    asked = "topk log.csv --user user_id --item item_id --k 1 --domain items.csv --epsilon 1"
    return f"{asked} --key monday --ledger {URL} --dataset log"


def steps() -> list[str]:
    """What the ledger has recorded, in order."""
    with acc.Ledger.open(URL) as ledger:
        return [entry.action for entry in ledger.entries("log")]


def child(words: str, out: Callable[[], int | None]) -> tuple[int, str]:
    """Status and standard error of `dpselect` in a forked process whose standard output is what
    `out` opens; None closes it.
    """
    said = Path.cwd().parent / "stderr"
    number = os.fork()
    if number == 0:
        try:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
            opened = out()
            if opened is None:
                os.close(1)
                sys.stdout = sys.__stdout__ = None
            else:
                os.dup2(opened, 1)
                sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)  # type: ignore[assignment,misc]
            sys.argv = ["dpselect", *shlex.split(words)]
            main()
        except SystemExit as end:
            if sys.stdout is not None:
                sys.stdout.flush()
            os._exit(int(end.code or 0))
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), said.read_text()


def _full() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def _closed_pipe() -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(("suffix", "more"), [("json", "--json"), ("txt", "")])
def test_the_answer_is_kept_and_printed(
    words: str, monkeypatch: pytest.MonkeyPatch, suffix: str, more: str
) -> None:
    """--output holds the same answer as standard output, privately. It is on disk, under no name
    that anybody reads, before the release is recorded.
    """
    target, before = Path(f"answer.{suffix}"), list[tuple[bool, int, dict[str, object]]]()
    release = acc.Ledger.release

    def watched(*args: Any, **kwargs: Any) -> object:
        (draft,) = Path().glob(".dpselect-*")
        charge = json.loads(draft.read_text())["ledger"]
        before.append((target.exists(), draft.stat().st_mode & 0o777, charge))
        return release(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(acc.Ledger, "release", watched)
        done = dpselect(words, "--output", target, more)
    charge = {"dataset": "log", "period": [], "key": "monday", "entry": 1}
    assert (done.exit_code, done.stderr, before) == (0, "", [(False, 0o600, charge)])
    assert target.stat().st_mode & 0o777 == 0o600
    assert not list(Path().glob(".dpselect-*"))
    if more:
        assert target.read_text() == done.stdout
    else:
        assert "Private top 1" in target.read_text()
        target = Path(f"{target}.json")
    assert json.loads(target.read_text())["ledger"] == charge
    assert steps() == ["charge", "release"]


PLACES = "answer answer.xls none/answer.json none/a.csv p.db log.csv log.json taken.csv"


@pytest.mark.parametrize("name", PLACES.split())
def test_a_place_that_will_not_do_costs_nothing(words: str, name: str) -> None:
    """A file that exists, has no folder or no known format, or is the ledger or an input is refused
    before any charge; so is a table whose answer's place beside it is taken.
    """
    Path("taken.csv.json").write_text("mine")
    before = Path("p.db").read_bytes()
    done = dpselect(words, "--output", name)
    assert (done.exit_code, done.stdout) == (2, "")
    assert Path("p.db").read_bytes() == before


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("out", "more"),
    [(_full, ""), (_full, "--output answer.json"), (_closed_pipe, "--output answer.json")],
)
def test_a_failed_print_says_where_the_answer_lies(
    words: str, out: Callable[[], int], more: str
) -> None:
    """A full disk or a closed pipe behind standard output: status 1, one line, and the answer is in
    the file, paid for; where none was named, it is put into one.
    """
    before = {*Path().iterdir()}
    status, said = child(f"{words} {more}", out)
    (kept,) = {path for path in {*Path().iterdir()} - before if path.suffix == ".json"}
    assert status == 1
    assert re.fullmatch(
        rf"error: standard output .*{kept}.*entry 1 of dataset 'log', key 'monday'.*\n", said
    )
    held = json.loads(kept.read_text())
    assert (len(held["selection"]["labels"]), held["ledger"]["key"]) == (1, "monday")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert steps() == ["charge", "release"]


def test_closed_standard_output_is_seen_before_the_charge(words: str) -> None:
    """With nowhere to print to and no --output nothing is charged; with --output the answer is
    there.
    """
    status, said = child(words, lambda: None)
    assert (status, "--output" in said, steps()) == (2, True, [])
    status, said = child(f"{words} --output answer.json", lambda: None)
    assert (status, "answer.json" in said) == (1, True)
    assert Path("answer.json").exists()


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), ValueError("user alice"), OSError(28, "full")]
)
def test_an_interruption_says_what_was_charged(
    words: str, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Whatever ends the command while it reads or draws: whether it was charged, and under which
    entry and key.
    """
    fail = Mock(side_effect=error)
    with monkeypatch.context() as patch:
        patch.setattr(events, "read", fail)
        assert "nothing was charged" in dpselect(words).stderr
    assert steps() == []
    monkeypatch.setattr(Mechanism, "select", fail)
    done = dpselect(words)
    assert done.exit_code == (130 if isinstance(error, KeyboardInterrupt) else 70)
    assert "entry 1 of dataset 'log', key 'monday', is charged" in done.stderr
    assert "alice" not in done.stderr
    assert steps() == ["charge"]


def test_an_interrupted_print_says_where_the_answer_lies(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the answer is printed."""
    monkeypatch.setattr("dpselect.app.cli.out.emit", Mock(side_effect=KeyboardInterrupt))
    done = dpselect(words, "--output answer.txt")
    assert done.exit_code == 130
    assert re.search(r"answer\.txt.*charged as entry 1 .*'monday'", done.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.usefixtures("words")
def test_unprinted_charge_receipt_goes_to_standard_error() -> None:
    """`ledger charge` whose receipt cannot be printed names entry and key on standard error."""
    curve = """--curve '{"kind": "pure_dp", "epsilon": 0.5}' --relation add_remove"""
    status, said = child(f"ledger charge --ledger {URL} --dataset log {curve}", _full)
    assert status == 1
    assert re.search(r"entry 1, key [0-9a-f]{32}: committed", said)


@pytest.mark.slow
@pytest.mark.usefixtures("words")
def test_spreadsheet_safe_option_defuses_formula_text() -> None:
    """Labels of the table get an apostrophe where that is asked for, and the answer beside it stays
    as it is: other programs read back what was read.
    """
    bad = ["=1+1", "@SUM(A1)", "fine; a-b"]
    Path("log.csv").write_text("u,i\n" + "".join(f"{n},{i}\n" for n in range(900) for i in bad))
    Path("items.csv").write_text("\n".join(["i", *bad, ""]))
    asked = "topk log.csv --user u --item i --k 3 --domain items.csv --epsilon 9 --spreadsheet-safe"
    done = dpselect(asked, "--with-counts --output top.csv")
    assert (done.exit_code, done.stderr) == (0, "")
    table, kept = pl.read_csv("top.csv"), json.loads(Path("top.csv.json").read_text())
    assert {*table["item"]} == {"'=1+1", "'@SUM(A1)", "fine; a-b"}
    assert {*kept["selection"]["labels"]} == {*bad}


def test_parquet_without_its_library_is_refused_before_the_charge(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is named."""
    monkeypatch.setattr("dpselect.app.release.answer.find_spec", {}.get)
    done = dpselect(words, "--output top.parquet")
    assert (done.exit_code, ".[arrow]" in done.stderr, steps()) == (1, True, [])


def test_a_table_holds_values_and_their_intervals(words: str) -> None:
    """Values that were paid for have a 95 % interval, that of their noise."""
    mechanism = dps.WithValues(
        mechanism=dps.PeelingTopK(k=1, noise="exponential", scale=8.0), noise="laplace", scale=4.0
    )
    release, budget = ReleaseTable(k=1, mechanism=mechanism), acc.Budget(epsilon=1)
    Config(release=release, budget=budget).write(Path("c.toml"))
    done = dpselect(words.replace("--epsilon 1", "--config c.toml --output t.csv"))
    assert (done.exit_code, done.stderr) == (0, "")
    ((_, _, value, low, high),) = pl.read_csv("t.csv").rows()
    assert (value - low, high - value) == pytest.approx((mechanism.margin(), mechanism.margin()))


def test_an_edited_answer_is_found_out(words: str) -> None:
    """The ledger has recorded the hash of the file: one with another item in it is not shown."""
    kept, asked = Path("answer.json"), f"{words} --output answer.json"
    shown = dpselect(asked)
    assert shown.exit_code == 0, shown.stderr
    kept.write_text(kept.read_text().replace('"labels": [\n      "', '"labels": [\n      "forged-'))
    assert "forged" in kept.read_text()
    refused = dpselect(asked)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "was edited, or printed" in refused.stderr


def test_recorded_answer_needs_a_committed_charge(words: str) -> None:
    """One whose charge is not committed, or that a mechanism of another price gave, is none,
    whatever its hash.
    """
    kept = Path("answer.json")
    assert dpselect(words, "--output", kept).exit_code == 0
    with acc.Ledger.open(URL) as ledger:
        receipt = ledger.find("log", "monday")
    assert receipt is not None
    held = _paid_answer(kept.read_text(), receipt)
    assert held is not None
    assert _is_paid(held, receipt)
    for state in ("reserved", "void"):
        assert _paid_answer(kept.read_text(), replace(receipt, state=state)) is None
    other = json.loads(dps.ExponentialMechanism(epsilon=0.5).to_json())
    assert not _is_paid({**held, "mechanism": other}, receipt)


# -- keys and prices -------------------------------------------------------------------------------


def test_a_retry_gives_the_kept_answer(words: str) -> None:
    """With --key and the --output of before the recorded answer is printed again: nothing is read,
    charged or drawn. A dry run says so, and under another key that the file is in the way, as a
    release would.
    """
    asked = f"{words} --output answer.json"
    other, keyless = asked.replace("monday", "tuesday"), asked.replace("--key monday", "")
    assert dpselect(asked).exit_code == 0
    Path("log.csv").unlink()
    again = dpselect(asked, "--json")
    assert (again.exit_code, again.stdout) == (0, Path("answer.json").read_text())
    told = " ".join(dpselect(asked, "--dry-run").stdout.split())
    assert "nothing more would be charged, because entry 1 covers" in told
    for in_the_way in (f"{other} --dry-run", other, keyless):
        refused = dpselect(in_the_way)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "is not overwritten" in refused.stderr
    changed = dpselect(asked.replace("--epsilon 1", "--epsilon 0.5"))
    assert (changed.exit_code, "charged for another release" in changed.stderr) == (2, True)
    assert steps() == ["charge", "release"]


@pytest.mark.parametrize("epsilon", ["0.5", "4.5"])
def test_a_used_key_pays_for_no_other_question(words: str, epsilon: str) -> None:
    """Another question under a used key is told of the key, whether or not the budget would pay for
    it; nothing is charged.
    """
    assert dpselect(words).exit_code == 0
    refused = dpselect(words.replace("--epsilon 1", f"--epsilon {epsilon}"))
    assert (refused.exit_code != 0, refused.stdout) == (True, "")
    assert "was already used for a different charge" in " ".join(refused.stderr.split())
    assert "charged" not in refused.stderr
