"""An answer that was paid for is not lost: it is on disk before the release is recorded, and
interruptions say what was paid.
"""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import accounting as acc
import dpselect as dps
from dpselect.app import events
from dpselect.app.cli import app, main
from dpselect.app.release.answer import _is_paid, _paid
from dpselect.app.spec.toml_file import Config, ReleaseTable
from dpselect.mechanisms import Mechanism

LOG = "user_id,item_id\n" + "".join(
    f"{user},{item}\n" for user in range(40) for item in ("a", "b")[: 1 + user % 2]
)


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """`topk` on a log with a public catalog and a ledger, in an empty working folder."""
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "items.csv").write_text("item_id\na\nb\nc\n")
    with acc.Ledger.open(f"sqlite:///{tmp_path}/p.db") as ledger:
        ledger.create_dataset("log", acc.Budget(epsilon=5), "add_remove")
    (tmp_path / "log.json").write_text("{}")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    given = (
        f"topk {tmp_path}/log.csv --user user_id --item item_id --k 1 --domain {tmp_path}/items.csv"
        " --epsilon 1 --key monday"
    )
    return [*given.split(), "--ledger", f"sqlite:///{tmp_path}/p.db", "--dataset", "log"]


def steps(tmp_path: Path) -> list[str]:
    """What the ledger has recorded, in order."""
    with acc.Ledger.open(f"sqlite:///{tmp_path}/p.db") as ledger:
        return [entry.action for entry in ledger.entries("log")]


def child(words: list[str], out: Callable[[], int | None]) -> tuple[int, str]:
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
            sys.argv = ["dpselect", *words]
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


@pytest.mark.parametrize("suffix", ["json", "txt"])
def test_the_answer_is_kept_and_printed(words: list[str], tmp_path: Path, suffix: str) -> None:
    """--output holds the same answer as standard output, privately. It is on disk, under no name
    that anybody reads, before the release is recorded.
    """
    target, before = tmp_path / f"answer.{suffix}", list[tuple[bool, int, dict[str, object]]]()
    release = acc.Ledger.release

    def watched(self: acc.Ledger, *args: object, **kwargs: object) -> object:
        (draft,) = tmp_path.glob(".dpselect-*")
        before.append(
            (target.exists(), draft.stat().st_mode & 0o777, json.loads(draft.read_text())["ledger"])
        )
        return release(self, *args, **kwargs)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acc.Ledger, "release", watched)
        done = CliRunner().invoke(
            app, [*words, "--output", str(target), *(["--json"] if suffix == "json" else [])]
        )
    charge = {"dataset": "log", "period": [], "key": "monday", "entry": 1}
    assert (done.exit_code, done.stderr, before) == (0, "", [(False, 0o600, charge)])
    assert target.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".dpselect-*"))
    if suffix == "json":
        assert target.read_text() == done.stdout
        assert json.loads(done.stdout)["ledger"] == charge
    else:
        assert json.loads(Path(f"{target}.json").read_text())["ledger"] == charge
        assert "Private top 1" in target.read_text()
    assert steps(tmp_path) == ["charge", "release"]


@pytest.mark.parametrize(
    "name",
    [
        "answer",
        "answer.xls",
        "none/answer.json",
        "none/a.csv",
        "../p.db",
        "../log.csv",
        "../log.json",
    ],
)
def test_a_place_that_will_not_do_costs_nothing(
    words: list[str], tmp_path: Path, name: str
) -> None:
    """A file that exists, has no folder or no known format, or is the ledger or an input is refused
    before any charge.
    """
    before = (tmp_path / "p.db").read_bytes()
    done = CliRunner().invoke(app, [*words, "--output", name])
    assert (done.exit_code, done.stdout) == (2, "")
    assert (tmp_path / "p.db").read_bytes() == before


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("out", [_full, _closed_pipe])
def test_a_failed_print_says_where_the_answer_lies(
    words: list[str], tmp_path: Path, out: Callable[[], int]
) -> None:
    """A full disk or a closed pipe behind standard output: status 1, one line, and the answer is in
    the file, paid for.
    """
    target = tmp_path / "answer.json"
    status, said = child([*words, "--output", str(target)], out)
    assert status == 1
    assert re.fullmatch(
        r"error: standard output .*answer\.json.*entry 1 of dataset 'log', key 'monday'\n", said
    )
    assert json.loads(target.read_text())["selection"]["labels"]
    assert steps(tmp_path) == ["charge", "release"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_answer_without_a_file_gets_one(words: list[str], tmp_path: Path) -> None:
    """If it was paid for and cannot be printed, and no file was named, it is put into one, and the
    error says into which.
    """
    status, said = child(words, _full)
    assert status == 1
    (rescued,) = Path.cwd().iterdir()
    assert str(rescued) in said
    assert "entry 1 of dataset 'log', key 'monday'" in said
    assert json.loads(rescued.read_text())["ledger"]["key"] == "monday"
    assert rescued.stat().st_mode & 0o777 == 0o600


def test_closed_standard_output_is_seen_before_the_charge(words: list[str], tmp_path: Path) -> None:
    """With nowhere to print to and no --output nothing is charged; with --output the answer is
    there.
    """
    status, said = child(words, lambda: None)
    assert status == 2
    assert "--output" in said
    assert steps(tmp_path) == []
    status, said = child([*words, "--output", str(tmp_path / "answer.json")], lambda: None)
    assert status == 1
    assert "answer.json" in said
    assert (tmp_path / "answer.json").exists()


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), ValueError("user alice"), OSError(28, "full")]
)
def test_an_interruption_says_what_was_charged(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Whatever ends the command while it reads or draws: whether it was charged, and under which
    entry and key.
    """

    def fail(*_: object, **__: object) -> object:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(events, "read", fail)
        done = CliRunner().invoke(app, words)
    assert "nothing was charged" in done.stderr
    assert steps(tmp_path) == []
    monkeypatch.setattr(Mechanism, "select", fail)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == (130 if isinstance(error, KeyboardInterrupt) else 70)
    assert "entry 1 of dataset 'log', key 'monday', is charged" in done.stderr
    assert "alice" not in done.stderr
    assert steps(tmp_path) == ["charge"]


def test_an_interrupted_print_says_where_the_answer_lies(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the answer is printed."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpselect.app.cli.out.emit", stop)
    done = CliRunner().invoke(app, [*words, "--output", str(tmp_path / "answer.txt")])
    assert done.exit_code == 130
    assert re.search(r"answer\.txt.*charged as entry 1 .*'monday'", done.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_charge_on_the_command_line_is_told(words: list[str], tmp_path: Path) -> None:
    """`ledger charge` whose receipt cannot be printed names entry and key on standard error."""
    url = f"sqlite:///{tmp_path}/p.db"
    paid = ["--ledger", url, "--dataset", "log", "--relation", "add_remove"]
    given = ["ledger", "charge", *paid, "--curve", '{"kind": "pure_dp", "epsilon": 0.5}']
    status, said = child(given, _full)
    assert status == 1
    assert re.search(r"entry 1, key [0-9a-f]{32}: committed", said)


@pytest.mark.slow
def test_text_that_a_spreadsheet_would_calculate_with_is_defused_where_that_is_asked_for(
    tmp_path: Path,
) -> None:
    """Labels come from whoever made the log. They stay as they are unless that is asked for: other
    programs read back what was read. Numbers, and the answer beside the table, stay so anyway.
    """
    bad = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\uff1d1", "a;=1", "fine; a-b", "'=1"]
    (tmp_path / "log.jsonl").write_text(
        "".join(json.dumps({"u": f"{n}", "i": item}) + "\n" for n in range(90) for item in bad)
    )
    (tmp_path / "items.csv").write_text("\n".join(["i", *bad, ""]))
    asked = (
        f"topk {tmp_path}/log.jsonl --user u --item i --k 9 --domain {tmp_path}/items.csv"
        " --epsilon 9"
    )
    for more, shown in (
        ((), bad),
        (("--spreadsheet-safe",), [*(f"'{text}" for text in bad[:-3]), "a;'=1", *bad[-2:]]),
    ):
        target = tmp_path / f"top{len(more)}.csv"
        done = CliRunner().invoke(
            app, [*asked.split(), "--with-counts", "--output", str(target), *more]
        )
        assert (done.exit_code, done.stderr) == (0, "")
        with target.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        assert sorted(row["item"] for row in rows) == sorted(shown)
        kept = json.loads(Path(f"{target}.json").read_text())
        assert all(float(row["low"]) < float(row["users"]) for row in rows)
        # where users count in part
        assert {row["high"] == "" for row in rows} == {kept["intervals"]["at_least"]}
        assert sorted(kept["selection"]["labels"]) == sorted(bad)
    refused = CliRunner().invoke(
        app, [*asked.split(), "--output", f"{tmp_path}/top.json", "--spreadsheet-safe"]
    )
    assert "--spreadsheet-safe changes the text of a CSV" in refused.stderr


def test_a_table_needs_both_places(words: list[str], tmp_path: Path) -> None:
    """If the answer's place beside the table is taken, nothing is charged."""
    (tmp_path / "top.csv.json").write_text("mine")
    done = CliRunner().invoke(app, [*words, "--output", str(tmp_path / "top.csv")])
    assert done.exit_code == 2
    assert "top.csv.json" in done.stderr
    assert steps(tmp_path) == []


def test_parquet_without_its_library_is_refused_before_the_charge(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is named."""
    monkeypatch.setattr("dpselect.app.release.answer.find_spec", {}.get)
    done = CliRunner().invoke(app, [*words, "--output", str(tmp_path / "top.parquet")])
    assert done.exit_code == 1
    assert ".[arrow]" in done.stderr
    assert steps(tmp_path) == []


def test_a_table_holds_values_and_their_intervals(words: list[str], tmp_path: Path) -> None:
    """Values that were paid for have a 95 % interval, that of their noise."""
    mechanism = dps.WithValues(
        mechanism=dps.PeelingTopK(k=1, noise="exponential", scale=8.0), noise="laplace", scale=4.0
    )
    Config(release=ReleaseTable(k=1, mechanism=mechanism), budget=acc.Budget(epsilon=1)).write(
        tmp_path / "c.toml"
    )
    place = words.index("--epsilon")
    asked = [
        *words[:place],
        *words[place + 2 :],
        "--config",
        str(tmp_path / "c.toml"),
        "--output",
        str(tmp_path / "t.csv"),
    ]
    done = CliRunner().invoke(app, asked)
    assert (done.exit_code, done.stderr) == (0, "")
    ((_, _, value, low, high),) = pl.read_csv(tmp_path / "t.csv").rows()
    assert (value - low, high - value) == pytest.approx((mechanism.margin(), mechanism.margin()))


def test_an_edited_answer_is_found_out(words: list[str], tmp_path: Path) -> None:
    """The ledger has recorded the hash of the file: one with another item in it is not shown."""
    kept, asked = tmp_path / "answer.json", [*words, "--output", str(tmp_path / "answer.json")]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.stderr
    kept.write_text(kept.read_text().replace('"labels": [\n      "', '"labels": [\n      "forged-'))
    assert "forged" in kept.read_text()
    refused = CliRunner().invoke(app, asked)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "was edited, or printed" in refused.stderr


def test_only_what_was_paid_for_is_an_answer_on_record(words: list[str], tmp_path: Path) -> None:
    """One whose charge is not committed, or that a mechanism of another price gave, is none,
    whatever its hash.
    """
    kept = tmp_path / "answer.json"
    assert CliRunner().invoke(app, [*words, "--output", str(kept)]).exit_code == 0
    with acc.Ledger.open(f"sqlite:///{tmp_path}/p.db") as ledger:
        receipt = ledger.find("log", "monday")
    assert receipt is not None
    held = _paid(kept.read_text(), receipt)
    assert held is not None
    assert _is_paid(held, receipt)
    for state in ("reserved", "void"):
        assert _paid(kept.read_text(), replace(receipt, state=state)) is None
    other = json.loads(dps.ExponentialMechanism(epsilon=0.5).to_json())
    assert not _is_paid({**held, "mechanism": other}, receipt)
