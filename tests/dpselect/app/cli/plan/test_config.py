"""The configuration file: closed, read back as written, and with errors that name table, key, value
and rule.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import dpselect

import accounting as acc
import dpselect as dps
from dpselect.app.spec.toml_file import (
    Config,
    DataTable,
    LedgerTable,
    PlanTable,
    ReleaseTable,
    read,
)
from dpselect.errors import InvalidRequest

FULL = Config(
    data=DataTable(
        user="1",
        item="2",
        domain="shops.csv",
        domain_column="shop",
        max_items_per_user=3,
        salt="s",
        header=False,
    ),
    release=ReleaseTable(
        k=3,
        mechanism=dps.StableTopK(
            rho=0.1,
            failure_delta=1e-6,
            kbar=3,
            regularizer=dps.mechanisms.TargetSize(k=3, penalty=2.0),
        ),
    ),
    budget=acc.Budget(epsilon=1, delta=1e-6),
    ledger=LedgerTable(url="sqlite:///x.db", dataset="d", period=("2026-01", "2026-02")),
    plan=PlanTable(releases=4, compare=("joint_top_k",), shape="zipf:1", items=5, users=6, seed=0),
)


@pytest.mark.parametrize("config", [FULL, Config(), Config(budget=acc.Budget(rho=0.1))])
def test_a_file_reads_back_as_written(config: Config, tmp_path: Path) -> None:
    """read(config.write()) is equal, whatever is set; nothing else is left in the folder."""
    path = tmp_path / "release.toml"
    config.write(path)
    assert read(path) == config
    assert list(tmp_path.iterdir()) == [path]
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # editors on Windows write a mark
    assert read(path) == config


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("[plan]\nreleases = 0", "plan.releases", "releases=0 must be .*equal to 1"),
        ("[plan]\nreleses = 3", "plan.releses", "releses= is not known here.*releases"),
        ("[bugdet]\nepsilon = 1", "bugdet", "bugdet= is not known here.*budget"),
        ("[budget]\neps = 1", "budget.eps", "Budget has no field 'eps'"),
        ("[budget]\nepsilon = 1\nrho = 1", "budget", "exactly one of"),
        ("[data]\nuser = 3.5", "data.user", "user.*3.5"),
        ("[ledger]\nurl = 'x'", "ledger.dataset", "dataset= is missing"),
        ("[release.mechanism]\nkind = 'joint'", "release.mechanism.kind", "kind='joint'"),
        (
            "[release.mechanism]\nkind = 'joint_top_k'\nk = 2\nepsilon = -1.0",
            "release.mechanism.epsilon",
            "epsilon=-1.0",
        ),
        ("plan = 3", "plan", "it must be a table"),
        ("[plan]\npublic = 'yes'", "plan.public", "public='yes'.*true or false"),
        ("[data]\nheader = 'no'", "data.header", "header='no'.*true or false"),
        ("x = ", "", "is not TOML"),
        ("[release]\nk = " + "9" * 5000, "", "too many digits"),
        (".".join(["a"] * 100_000) + " = 1", "", "nested too deeply"),
        ("x = " + "[" * 5000 + "]" * 5000, "", "nested too deeply"),
        ("# " + "x" * 2**20, "", "more than 1,048,576 bytes"),
    ],
    ids=lambda text: text[:30],
)
def test_a_wrong_file_is_refused(text: str, place: str, words: str, tmp_path: Path) -> None:
    """The error names the file, where in its tables, the value and the rule; its path leads there,
    and its field is the last.
    """
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=words) as caught:
        read(path)
    assert f"wrong.toml'{place and f': {place}:'}" in str(caught.value)
    assert (".".join(map(str, caught.value.path)), caught.value.field or "") == (
        place,
        place.rpartition(".")[2],
    )


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """Writing to the link that was read from writes the file that it leads to."""
    (tmp_path / "file.toml").touch()
    link = tmp_path / "link.toml"
    link.symlink_to(tmp_path / "file.toml")
    FULL.write(link, over=link)
    assert link.is_symlink()
    assert read(tmp_path / "file.toml") == FULL


def test_unreadable_configuration_files_are_refused(tmp_path: Path) -> None:
    """A folder, an absent file and bytes that are no text are refused; so is writing where there is
    no folder.
    """
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name in ("", "absent.toml", "binary.toml"):
        with pytest.raises(InvalidRequest, match="cannot be read"):
            read(tmp_path / name)
    with pytest.raises(acc.errors.OutputRefused, match="cannot be written"):
        Config().write(tmp_path / "absent" / "x.toml")


@pytest.mark.parametrize("name", ["/dev/zero", "x" * 5000 + ".csv", "x" * 5000])
def test_unusable_file_names_are_refused_in_one_line(tmp_path: Path, name: str) -> None:
    """A device without end and names that are too long, of a shape or a catalog, are refused in
    one line.
    """
    (tmp_path / "log.csv").write_text("u,i\n1,a\n")
    (tmp_path / "long.toml").write_text(
        f'[data]\nuser = "u"\nitem = "i"\ndomain = "{name}"\n[release]\nk = 1\n'
    )
    for done in (
        dpselect(f"plan --k 1 --epsilon 1 --shape {name} --i-declare-public"),
        dpselect("topk --epsilon 1", tmp_path / "log.csv", "--config", tmp_path / "long.toml"),
    ):
        assert done.exit_code in (1, 2)
        assert (done.stderr.startswith("error: "), "internal" in done.stderr) == (True, False)


def test_refused_setting_from_a_file_names_the_file(tmp_path: Path) -> None:
    """An option that nobody typed is said to be the file's, and one that was typed is not."""
    log, file = tmp_path / "log.csv", tmp_path / "f.toml"
    log.write_text("u,i\n1,a\n")
    file.write_text(
        "[data]\nuser = 'u'\nitem = 'i'\nclip = 1.0\n[release]\nk = 1\nwith_counts = false\n"
    )
    for more in ("", "--value i --value-clip 1"):
        asked = ("topk", log, "--config", file, "--epsilon 1 --delta 1e-6", more)
        refused = dpselect(*asked)
        assert refused.exit_code == 2
        assert f"--clip is stated in '{file}'" in refused.stderr
        assert refused.stderr.count("stated in") == 1
        assert "stated in" not in dpselect(*asked, "--clip 1.5").stderr
