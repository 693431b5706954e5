"""`dpselect check`: for whoever holds the data."""

from __future__ import annotations

from pathlib import Path

from shell import dpselect


def test_the_command_spells_remedies_as_options(tmp_path: Path) -> None:
    """What to state is an option, not a keyword; a log with groups and several columns is checked
    as topk reads it.
    """
    log = tmp_path / "log.csv"
    log.write_text("who,a,b,g\nann,x,NULL,NULL\nbob,x,y,w\n")
    said = dpselect("check", log, "--user who --item a,b --group g").stdout
    assert "--missing='NULL'" in said
    assert "in 2 groups" in said
