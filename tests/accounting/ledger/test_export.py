"""The ledger as JSON lines: complete, verified on the way in, all or nothing."""

from __future__ import annotations

import errno
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_steps import Made, enter, step

import accounting as acc
from accounting.ledger import ImportRefused, InvalidEntry, Ledger, book


def filled(url: str) -> Ledger:
    """A ledger with two datasets, a window, a void and names in several scripts."""
    ledger = Ledger.open(url)
    ledger.create_dataset(
        "Käufe 購入", acc.Budget(epsilon=1.0, delta=1e-6), "replace_one", data_period="2024"
    )
    ledger.create_dataset("visits", acc.Budget(rho=1.0), "add_remove", window="month")
    for number in range(5):
        ledger.charge(
            "Käufe 購入",
            acc.GaussianDP(mu=0.01),
            relation="replace_one",
            label=f"Zahl {number} ٣",
            key=f"k{number}",
            fingerprint="rows",
        )
    ledger.charge(
        "visits",
        acc.ZCDP(rho=0.1),
        relation="replace_one",
        period=["2024-01", "2024-02"],
        count=3,
        fingerprint="january",
    )
    ledger.reserve("visits", acc.ZCDP(rho=0.1), relation="add_remove", period="2024-02", key="plan")
    ledger.void("visits", "plan", actor="ada", reason="no data")
    return ledger


def exported(ledger: Ledger) -> str:
    """The export as text."""
    target = io.StringIO()
    ledger.export(target)
    return target.getvalue()


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """An export, line by line."""
    with filled(f"sqlite:///{tmp_path_factory.mktemp('export') / 'privacy.db'}") as ledger:
        return exported(ledger).splitlines()


def refused(lines: list[str], url: str) -> str:
    """The error of importing these lines; checks that nothing was imported."""
    with Ledger.open(url) as ledger:
        with pytest.raises(ImportRefused) as error:
            ledger.import_(io.StringIO("\n".join(lines) + "\n"))
        assert ledger.datasets() == []
    return str(error.value)


@pytest.mark.parametrize("number", range(13))
def test_a_line_that_is_missing_is_found(lines: list[str], sqlite_url: str, number: int) -> None:
    """Every line counts: without any one of them the import is refused, the last and the first
    included.
    """
    assert len(lines) == 13
    said = refused(lines[:number] + lines[number + 1 :], sqlite_url)
    assert ("no end line" in said) is (number == 12)


OF_ENTRIES = [
    ("main", 0),
    ("main", 1.0),
    ("main", 10**30),
    ("main", True),
    ("seq", "1"),
    ("curve", '{"kind":"os.system"}'),
]
OF_ENTRIES += [("curve", None), ("label", "x\x00y"), ("label", 7), ("extra", 1), ("key", None)]
OF_DATASETS = [
    ("window", "hour"),
    ("relation", "swap"),
    ("name", 5),
    ("name", "Ka\u0308ufe"),
    ("budget", "{}"),
    ("uid", None),
]
OF_DATASETS += [("budget", '{"epsilon":1e999}')]
NOTHINGS = [
    "",
    "null",
    "[]",
    '{"type":"entry"}',
    '{"type":"end"}',
    "{" * 10**5,
    '{"type":' + "9" * 10**5 + "}",
    '{"type":NaN}',
]
NOTHINGS += ["\ufeff{}", "x" * 25_000_000]


@pytest.mark.parametrize(("field", "value"), OF_ENTRIES + OF_DATASETS)
def test_an_edited_line_is_found(
    lines: list[str], sqlite_url: str, field: str, value: object
) -> None:
    """An entry or a declaration with another value, type or field is refused with its line, by the
    ledger's own error.
    """
    line, at = json.loads(lines[3]) | {field: value}, 3
    if (field, value) in OF_DATASETS:
        line, at = json.loads(lines[1]), 1
        line["declaration"] = json.dumps(json.loads(line["declaration"]) | {field: value})
    said = refused([*lines[:at], json.dumps(line), *lines[at + 1 :]], sqlite_url)
    assert f"line {at + 1}" in said
    assert ("composed form (NFC)" in said) is (value == "Ka\u0308ufe")


@pytest.mark.parametrize("line", NOTHINGS, ids=lambda line: line[:20])
def test_malformed_export_lines_are_refused(lines: list[str], sqlite_url: str, line: str) -> None:
    """Empty, deep, huge, endless and foreign lines raise ImportRefused and nothing else."""
    assert refused([*lines[:3], line, *lines[3:]], sqlite_url)
    assert "line 14: a line comes after the end line" in refused([*lines, line], sqlite_url)


@pytest.mark.parametrize("committed", [False, True])
def test_import_refuses_a_void_after_a_commit(
    sqlite_url: str, tmp_path: Path, committed: bool
) -> None:
    """A void in a chain without a flaw: of a reservation it comes back as it is, of data that were
    read it is refused.
    """
    curve, key = acc.PureDP(epsilon=0.25), "plan"
    with (
        Ledger.open(sqlite_url) as ledger,
        Ledger.open(f"sqlite:///{tmp_path / 'copy.db'}") as copy,
    ):
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        reserved = ledger.reserve("clicks", curve, relation="add_remove", key=key).entries[0]
        if committed:
            ledger.commit("clicks", key)
        enter(ledger, "clicks", step("void", key, "", reserved.cost.times(-1), "why"))
        assert ledger.total("clicks").spent.main == 0
        if not committed:
            assert copy.import_(io.StringIO(exported(ledger))) == 2
            return
        with pytest.raises(ImportRefused, match="entry 3: the void follows a commit"):
            copy.import_(io.StringIO(exported(ledger)))
        assert copy.datasets() == []


class _Described:
    """A mechanism with a long description."""

    curve, relation = acc.PureDP(epsilon=0.1), "add_remove"

    def __init__(self, letters: str) -> None:
        self.letters = letters

    def to_json(self) -> str:
        return json.dumps({"kind": "described", "about": self.letters}, ensure_ascii=False)


@pytest.mark.parametrize("letter", ["\u00e9", "\U0001f512", '"'])
def test_longest_charged_description_survives_an_import(
    sqlite_url: str, tmp_path: Path, letter: str
) -> None:
    """The longest description that a charge takes, in letters that JSON writes in up to twelve
    characters, comes back.
    """
    with Ledger.open(sqlite_url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        ledger.charge(
            "clicks",
            _Described(letter * (999_000 // len(json.dumps(letter, ensure_ascii=False)[1:-1]))),
        )
        ledger.export(tmp_path / "all.jsonl")
    with Ledger.open(f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        assert copy.import_(tmp_path / "all.jsonl") == 1


def test_a_description_that_no_import_takes_is_not_charged(made: Made) -> None:
    """Control characters, as in JSON over several lines, and what is too long are refused at the
    charge.
    """
    ledger = made(acc.Budget(epsilon=1.0))
    for letters in ("\x7f", "x" * 1_000_000):
        with pytest.raises(InvalidEntry, match="mechanism's JSON"):
            ledger.charge("clicks", _Described(letters))
    assert ledger.total("clicks").spent.main == 0


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_changed_character_is_found(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], data: st.DataObject
) -> None:
    """Any single character of any entry or declaration changed to any other makes the import fail
    or leaves the data the same.
    """
    number = data.draw(st.integers(1, len(lines) - 1))
    place = data.draw(st.integers(0, len(lines[number]) - 1))
    letter = data.draw(st.characters(codec="utf-8", exclude_categories=("Cs",)))
    changed = lines[number][:place] + letter + lines[number][place + 1 :]
    if "\n" in letter or "\r" in letter or changed == lines[number]:
        return
    with Ledger.open(f"sqlite:///{tmp_path_factory.mktemp('fuzz') / 'privacy.db'}") as ledger:
        try:
            ledger.import_(
                io.StringIO("\n".join([*lines[:number], changed, *lines[number + 1 :]]) + "\n")
            )
        except ImportRefused:
            return
        assert exported(ledger).splitlines()[1:] == lines[1:]


class _Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_that_cannot_be_written_or_read_is_an_error_of_the_ledger(
    sqlite_url: str, tmp_path: Path
) -> None:
    """No OSError leaves the ledger."""
    with filled(sqlite_url) as ledger:
        with pytest.raises(acc.errors.OutputRefused, match="folder does not exist"):
            ledger.export(tmp_path / "no such folder" / "x")
        with pytest.raises(ImportRefused):
            ledger.import_(tmp_path / "no such file")
        (tmp_path / "latin").write_bytes(b'{"type":"\xff"}')
        with pytest.raises(ImportRefused):
            ledger.import_(tmp_path / "latin")
        with pytest.raises(acc.errors.OutputError, match="space"):
            ledger.export(_Full())


def test_retired_dataset_refuses_writes_and_names_its_new_ledger(url: str, tmp_path: Path) -> None:
    """Retired, once the ledger that goes on has every entry, and to no other place than that: what
    would be written for it is refused with the new address without its password, reading goes on,
    and so does the new ledger. Twice is refused; an entry that is added later is found.
    """
    old, to = filled(url), f"sqlite:///{tmp_path}/new.db"
    with pytest.raises(InvalidEntry, match="this ledger itself"):
        old.retire("visits", url)
    with pytest.raises(acc.ledger.LedgerUnavailable, match="cannot be opened") as caught:
        old.retire("visits", to)
    assert caught.value.field == "to"
    Ledger.open(to).import_(io.StringIO(exported(old)))
    old.charge("visits", acc.ZCDP(rho=0.1), relation="add_remove", period="2024-03", key="late")
    with pytest.raises(InvalidEntry, match="does not have every entry of dataset='visits'"):
        old.retire("visits", to)
    name, before = "Käufe 購入", old.summary("Käufe 購入")
    entry = old.retire(name, to, actor="ada")
    assert (entry.action, entry.cost, entry.label) == ("retire", acc.cost.NOTHING, to)
    mu: Any = acc.GaussianDP(mu=0.01)
    quota = acc.ledger.Quota(name="limit", limit=acc.Budget(epsilon=0.5))
    for refused in (
        lambda: old.charge(name, mu, relation="replace_one"),
        lambda: old.charge(name, mu, relation="replace_one", key="k0", fingerprint="rows"),
        lambda: old.reserve(name, mu, relation="replace_one"),
        lambda: old.check(name, mu, relation="replace_one"),
        lambda: old.affordable(name, mu, relation="replace_one"),
        lambda: old.release(name, "k0"),
        lambda: old.quotas(name).declare(quota),
        lambda: old.retire(name, to),
    ):
        with pytest.raises(acc.ledger.DatasetMoved, match=f"has moved to the ledger '{to}'"):
            refused()
    assert old.moved_to(name) == to
    assert old.moved_to("visits") is None
    assert old.summary(name).totals == before.totals
    assert old.total(name).spent == before.totals[0].spent
    assert old.verify().ok
    Ledger.open(f"sqlite:///{tmp_path}/copy.db").import_(io.StringIO(exported(old)))
    old.charge("visits", acc.ZCDP(rho=0.1), relation="add_remove", period="2024-04")
    Ledger.open(to).charge(name, mu, relation="replace_one")


def test_retire_entry_hides_the_password_and_ends_the_chain(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry says where the dataset went without the password; another entry after it, however
    it got there, is found.
    """
    old, opened = filled(sqlite_url), Ledger.open
    copy = opened(f"sqlite:///{tmp_path}/new.db")
    copy.import_(io.StringIO(exported(old)))
    monkeypatch.setattr(Ledger, "open", lambda *_, **__: copy)
    entry = old.retire("visits", "postgresql://ada:secret@db/privacy")
    assert entry.label == "postgresql://ada:***@db/privacy"
    monkeypatch.setattr(book.Book, "require_here", lambda _: None)
    old.charge("visits", acc.ZCDP(rho=0.1), relation="add_remove", period="2024-03")
    found = [(problem.kind, problem.seq) for problem in old.verify().problems]
    assert found == [("state", entry.seq + 1)]


def test_the_address_of_a_file_is_its_full_path(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger in a file is found from any folder, although it was named from the current one."""
    old = filled(sqlite_url)
    monkeypatch.chdir(tmp_path)
    Ledger.open("sqlite:///moved.db").import_(io.StringIO(exported(old)))
    assert old.retire("visits", "sqlite:///moved.db").label == f"sqlite:///{tmp_path}/moved.db"
