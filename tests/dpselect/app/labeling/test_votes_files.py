"""Files of votes are not trusted: sizes and indices are checked before memory is taken or compiled
code follows them.
"""

from __future__ import annotations

import io
import resource
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from dpselect.app import archives
from dpselect.app.labeling.votes_file import VotesFile, VotesFileError

COUNTS = np.array([[5, 0, 1], [0, 4, 2], [3, 3, 0]])
VOTES = np.arange(6)[None, :, None] < COUNTS[:, None, :]  # of six teachers
CLASSES = np.array([[0, 2, 2], [1, 1, -1], [0, 0, 0], [2, 1, 0]])
OF_CLASSES = [[1, 0, 2], [0, 2, 0], [3, 0, 0], [1, 1, 1]]
STACKED = VOTES.reshape(18, 3)


def _array(values: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(values), allow_pickle=False)
    return stream.getvalue()


def _header(shape: tuple[int, ...], rest: bytes = b"") -> bytes:
    """What begins an array of whole numbers of this shape, and what follows."""
    stream = io.BytesIO()
    stated = {"descr": "<i8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, stated)
    return stream.getvalue() + rest


def _packed(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def _matrix(path: Path, form: str = "csr", **changes: Any) -> Path:
    stream = io.BytesIO()
    scipy.sparse.save_npz(stream, getattr(scipy.sparse, f"{form}_matrix")(COUNTS))
    stream.seek(0)
    held = dict(np.load(stream)) | changes
    return _packed(path, **{name: _array(value) for name, value in held.items()})


@pytest.mark.parametrize(
    ("arrays", "asked", "single"),
    [
        ({"votes": VOTES}, {}, True),
        ({"votes": COUNTS, "teachers": 6}, {}, False),
        ({"votes": COUNTS}, {"teachers": 6}, False),
        ({"votes": STACKED}, {"teachers": 6, "stacked": True}, True),
        (scipy.sparse.csr_matrix(STACKED.astype(np.uint8)), {"teachers": 6, "stacked": True}, True),
        *(
            (getattr(scipy.sparse, f"{form}_matrix")(COUNTS), {"teachers": 6}, False)
            for form in ("csr", "csc", "coo")
        ),
    ],
)
def test_every_form_of_votes_is_read(
    tmp_path: Path, arrays: Any, asked: dict[str, Any], single: bool
) -> None:
    """Single votes, counts, and sparse matrices of either as scipy.sparse.save_npz writes them."""
    path = tmp_path / "votes.npz"
    np.savez(path, **arrays) if isinstance(arrays, dict) else scipy.sparse.save_npz(path, arrays)
    found = VotesFile.read(path, **asked)
    assert np.array_equal(found.ballots.counts, COUNTS)
    assert (found.ballots.teachers, found.single) == (6, single)


COMPRESSED: list[dict[str, Any]] = [
    *({"indices": [0, 2, 1, 2, 0, last]} for last in (3, 10**12, -1)),
    {"indices": [0, 2, 1, 2, 0]},
    {"indices": [0.0, 2, 1, 2, 0, 1]},
    *(
        {"indptr": pointers}
        for pointers in (
            [0, 2, 4, 5],
            [0, 2, 4, 7],
            [0, 5, 4, 6],
            [1, 2, 4, 6],
            [0, 2, 6],
            [0, 2, 4, 6, 6],
        )
    ),
    *({"shape": shape} for shape in ([3, 2], [2, 3], [-3, 3], [3, 3, 3], [3, 2**62], [3.5, 3])),
    {"data": [["a"]]},
    {"format": np.array(b"dia")},
    {"format": np.array([b"csr"])},
]
PLACED: list[dict[str, Any]] = [{"row": [0, 0, 1, 1, 2, last]} for last in (3, -1)]
PLACED += [{"row": [0]}, {"col": [0.0, 2, 1, 2, 0, 1]}]


@pytest.mark.parametrize(
    ("form", "changes"),
    [
        *(("csr", changes) for changes in COMPRESSED),
        *(("csc", changes) for changes in COMPRESSED[::3]),
        *(("coo", changes) for changes in PLACED),
    ],
    ids=str,
)
def test_matrices_that_point_outside_are_refused(
    tmp_path: Path, form: str, changes: dict[str, Any]
) -> None:
    """No index, pointer or shape that does not fit reaches compiled code; no vote moves to another
    round or label.
    """
    assert (
        VotesFile.read(_matrix(tmp_path / "good.npz", form), teachers=6).ballots.counts == COUNTS
    ).all()
    with pytest.raises(VotesFileError, match=r"bad\.npz"):
        VotesFile.read(_matrix(tmp_path / "bad.npz", form, **changes), teachers=6)


_FEW = {"votes": _array(COUNTS), "teachers": _array(6)}


@pytest.mark.parametrize(
    "members",
    [
        {"votes": _header((10**13,))},
        {"votes": _header((10**6, 10**6, 100))},
        {"votes": _header((-1, 3))},
        {"votes": _header((3, 3), bytes(71))},
        {"votes": _header((3, 3), bytes(73))},
        {"votes": bytes(2**20)},
        {f"a{number}": b"" for number in range(100)},
        {"other": _array(VOTES)},
        {"votes": _array(VOTES / 2)},
        {"votes": _array(VOTES[0, 0])},
        {"votes": _array(VOTES[:0])},
        {"votes": _array(["x"])},
        {"votes": _array(COUNTS)},
        *({**_FEW, "teachers": _array(teachers)} for teachers in (6.7, [6], True, 4, "many")),
        *({**_FEW, "names": _array(names)} for names in ([[1, 2, 3]], [1.5, 2, 3], ["a"])),
    ],
    ids=lambda members: "-".join(members)[:30],
)
def test_arrays_that_are_no_votes_are_refused(tmp_path: Path, members: dict[str, bytes]) -> None:
    """A size that the file does not have, a number of teachers that is none, names of another
    shape, and what is no vote.
    """
    with pytest.raises(VotesFileError, match=r"bad\.npz"):
        VotesFile.read(_packed(tmp_path / "bad.npz", **members))


def test_damaged_vote_archives_are_refused_by_name(tmp_path: Path) -> None:
    """Missing, empty, of another format, a folder, cut short anywhere, or with a byte changed: an
    error that names the file.
    """
    np.savez_compressed(tmp_path / "votes.npz", votes=VOTES)
    content, path = (tmp_path / "votes.npz").read_bytes(), tmp_path / "bad.npz"
    whole = content[: len(content) * 9 // 10]
    for damaged in (None, b"", b"PK\x03\x04 not a zip", b"a,b\n1,2\n", content[:200], whole):
        if damaged is not None:
            path.write_bytes(damaged)
        with pytest.raises(VotesFileError, match=r"bad\.npz"):
            VotesFile.read(path)
    with pytest.raises(VotesFileError):
        VotesFile.read(tmp_path)
    path.write_bytes(b"PAR1")
    with pytest.raises(VotesFileError, match="holds no votes that can be read"):
        VotesFile.read(path, labels=3)
    for place in range(0, len(content), 13):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            # a byte that says nothing of the votes
            assert np.array_equal(VotesFile.read(path).ballots.counts, COUNTS)
        except VotesFileError as error:
            assert "bad.npz" in str(error)  # noqa: PT017


def test_classes_are_read(tmp_path: Path) -> None:
    """A (rounds, teachers) matrix of classes, .npy or .npz, is the votes that it stands for; -1 is
    no vote.
    """
    np.save(tmp_path / "classes.npy", CLASSES)
    np.savez(tmp_path / "classes.npz", classes=CLASSES, names=np.array(["a", "b", "c"]))
    np.savez(tmp_path / "unnamed.npz", CLASSES)
    for name, asked, names in (
        ("classes.npy", {"labels": 3}, None),
        ("unnamed.npz", {"labels": 3}, None),
        ("classes.npz", {}, ("a", "b", "c")),
    ):
        one = VotesFile.read(tmp_path / name, **asked, teachers=3, missing="allow")
        assert np.array_equal(one.ballots.counts, OF_CLASSES)
        assert (one.ballots.teachers, one.single, one.ballots.names) == (3, True, names)


@pytest.mark.parametrize(
    ("classes", "asked", "words"),
    [
        (np.zeros((3, 9), dtype=int), {"labels": 2}, "teachers=9"),
        (np.zeros((9, 3), dtype=int), {"labels": 2}, "teachers=3"),
        (np.zeros((3, 9), dtype=int), {"labels": 2, "teachers": 3}, "transpose it"),
        (
            np.zeros((9, 3), dtype=int),
            {"labels": 2, "teachers": 4},
            "one column for each of 3 teachers",
        ),
        (np.full((9, 3), 2), {"labels": 2, "teachers": 3}, "from 0 to 1"),
        (np.full((9, 3), -2), {"labels": 2, "teachers": 3}, "from 0 to 1"),
        (np.zeros((9, 3)), {"labels": 2, "teachers": 3}, "integers"),
        (np.zeros((9, 3), dtype=int), {}, "labels="),
        (np.array([{"a": 1}], dtype=object), {"labels": 2}, "pickle"),
        (CLASSES, {"labels": 3, "stacked": True}, "stacked= is for votes. Leave it out"),
        (
            scipy.sparse.csr_matrix(STACKED.astype(np.uint8)),
            {"teachers": 6, "stacked": True, "labels": 9},
            "labels=9 is for classes",
        ),
    ],
)
def test_invalid_vote_classes_and_swapped_axes_are_refused(
    tmp_path: Path, classes: Any, asked: dict[str, int], words: str
) -> None:
    """How many labels there are is public and stated, of classes alone; so is how many teachers
    there are, whichever axis is longer.
    """
    path = tmp_path / ("bad.npz" if scipy.sparse.issparse(classes) else "bad.npy")
    (scipy.sparse.save_npz if scipy.sparse.issparse(classes) else np.save)(path, classes)
    with pytest.raises(VotesFileError, match=rf"bad\.np[yz].*{words}"):
        VotesFile.read(path, **asked)


def test_trial_votes_are_votes_or_classes_with_their_truth(tmp_path: Path) -> None:
    """Classes take their number of labels from the truth; without truth, or damaged, a file is
    refused.
    """
    truth = np.eye(3, dtype=int)[[0, 1, 2, 2]]
    np.savez(tmp_path / "classes.npz", classes=CLASSES, truth=truth)
    trial = VotesFile.trial(tmp_path / "classes.npz")
    assert trial.ballots.counts.tolist() == OF_CLASSES
    assert trial.truth.tolist() == (truth == 1).tolist()
    np.save(tmp_path / "bare.npy", truth[:, None, :])
    np.savez(tmp_path / "other.npz", votes=truth[:, None, :], truth=truth[:2])
    (tmp_path / "torn.npz").write_bytes((tmp_path / "classes.npz").read_bytes()[:200])
    for name in ("bare.npy", "other.npz", "torn.npz", "none.npz"):
        with pytest.raises(VotesFileError, match=name):
            VotesFile.trial(tmp_path / name)


@pytest.mark.slow
def test_a_bomb_takes_no_memory(tmp_path: Path) -> None:
    """A small file that unpacks to more than is read is refused before it is unpacked; a device is
    no file.
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("votes.npy", "w") as member,
    ):
        for _ in range(513):
            member.write(bytes(2**20))
    with pytest.raises(VotesFileError, match="512 MiB"):
        VotesFile.read(tmp_path / "bomb.npz")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    with pytest.raises(VotesFileError, match="regular file"):
        VotesFile.read(Path("/dev/zero"))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_than_deflate_are_refused(tmp_path: Path, method: int) -> None:
    """Of bzip2 a kilobyte makes gigabytes at a stroke: nothing is unpacked, whatever size is
    stated.
    """
    with zipfile.ZipFile(tmp_path / "bad.npz", "w", method) as archive:
        archive.writestr("votes.npy", _array(VOTES))
    with pytest.raises(
        VotesFileError, match=r"bad\.npz.*another method than deflate.*Save it anew"
    ):
        VotesFile.read(tmp_path / "bad.npz")


def test_a_member_is_unpacked_in_pieces_and_no_further_than_it_states(tmp_path: Path) -> None:
    """One that holds 64 MiB and states a hundred bytes takes hardly any memory, and is refused."""
    path = _packed(tmp_path / "bad.npz", votes=bytes(2**26))
    content = path.read_bytes()
    size = (2**26).to_bytes(4, "little")
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, (100).to_bytes(4, "little")))
    tracemalloc.start()
    try:
        with pytest.raises(VotesFileError, match=r"bad\.npz"):
            VotesFile.read(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_a_list_of_many_members_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take a kilobyte for each, of which a file of half a gigabyte has millions."""
    path = _packed(tmp_path / "bad.npz", **{f"a{number}": b"" for number in range(70)})
    with pytest.raises(VotesFileError, match="more than 64 arrays"):
        VotesFile.read(path)
    monkeypatch.setattr(archives, "_MOST_ENTRIES", 69)
    with pytest.raises(VotesFileError, match="more than 69 members"):
        VotesFile.read(path)


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (3, 3",
        b"(" * 9000,
        b"9" * 9000,
        b"\0",
        b"{'shape': (3L, 3), 'descr': '<i8', 'fortran_order': False",
        b"{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (3,)}",
        b"{'descr': 'V9', 'fortran_order': False, 'shape': ()}",
        b"{'descr': '<i8', 'fortran_order': False, 'shape': 3}",
    ],
    ids=range(8),
)
@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.filterwarnings("ignore:Reading")
def test_damaged_headers_are_refused(tmp_path: Path, header: bytes, version: int) -> None:
    """Numpy parses them as Python, and fails in many ways: each is an error that names the file."""
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    content = b"\x93NUMPY" + bytes([version, 0]) + length + header + bytes(72)
    (tmp_path / "bad.npy").write_bytes(content)
    _packed(tmp_path / "bad.npz", votes=content)
    for name in ("bad.npy", "bad.npz"):
        with pytest.raises(VotesFileError, match=name):
            VotesFile.read(tmp_path / name, teachers=3)


def test_votes_in_csv_are_those_of_the_matrix(tmp_path: Path) -> None:
    """Counts below the names of labels or without them (numbers, if that is stated), classes below
    the names of teachers or without, where an empty cell is no vote, and single votes; by commas,
    semicolons or tabs. A dry reading has the same axes and no vote.
    """
    path = tmp_path / "votes.csv"

    def written(values: Any, head: str = "", mark: str = ",") -> None:
        rows = [mark.join("" if cell == -1 else str(cell) for cell in row) for row in values]
        path.write_text("\ufeff" + head.replace(",", mark) + "\r\n".join(rows) + "\r\n")

    asked: Any
    for values, head, asked, single, names in (
        (COUNTS, "a,b c,d\n", {"teachers": 6}, False, ("a", "b c", "d")),
        (COUNTS, "", {"teachers": 6}, False, None),
        (STACKED.astype(int), "", {"teachers": 6, "stacked": True}, True, None),
        (COUNTS, "0,1,2\n", {"teachers": 6, "header": True}, False, ("0", "1", "2")),
        (COUNTS, "", {"teachers": 6, "header": False}, False, None),
        (CLASSES, "0,1,2\n", {"labels": 3, "teachers": 3, "header": True}, True, None),
        (CLASSES, "ada,bob,eve\n", {"labels": 3, "teachers": 3}, True, None),
        (CLASSES, "", {"labels": 3, "teachers": 3}, True, None),
    ):
        for mark in ",;\t":
            written(values, head, mark)
            found = VotesFile.read(path, **asked, missing="allow")
            ballots = found.ballots
            whole = OF_CLASSES if "labels" in asked else COUNTS
            assert np.array_equal(ballots.counts, whole)
            assert (ballots.names, found.single) == (names, single)
            blank = VotesFile.read_size(path, **asked).ballots
            assert (blank.rounds, blank.teachers, blank.labels) == (
                ballots.rounds,
                ballots.teachers,
                ballots.labels,
            )
            assert (blank.counts.max(axis=1) == blank.counts.sum(axis=1)).all()
    for read in (VotesFile.read, VotesFile.read_size):
        with pytest.raises(VotesFileError, match="header= is about the first line"):
            read(tmp_path / "votes.npz", teachers=6, header=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2\n3\n", "do not all have 2 cells"),
        ("1,2\n3,x\n", "neither an integer nor empty"),
        ("1,2\n3,1.5\n", "neither an integer nor empty"),
        ("1,2\n3,\n", "of a table of classes, state labels="),
        ("a,b\n", "no row of votes"),
        (",a\n0,3\n", "a column has no name"),
        ("1,99999999999999999999\n1,2\n1\n", "holds integers and other text"),
    ],
)
def test_malformed_vote_tables_are_refused(tmp_path: Path, text: str, words: str) -> None:
    """Rows of other lengths, cells that are no integers, counts that are missing: with no value."""
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(VotesFileError, match=words) as refused:
        VotesFile.read(tmp_path / "bad.csv", teachers=6)
    assert "1.5" not in str(refused.value)


def test_malformed_vote_does_not_make_a_header_row(tmp_path: Path) -> None:
    """A malformed vote in the first round refuses the table as one of another round does, and does
    not take the round of all teachers away.
    """
    for odd in ("qqq", "N/A", "1.57", "9" * 20):
        rounds = ["1,0,", "2,2,2", f"0,{odd},1"]
        for lines, words in ((rounds, "neither an"), (rounds[::-1], "integers and other text")):
            (tmp_path / "votes.csv").write_text("\n".join(lines))
            with pytest.raises(VotesFileError, match=words) as refused:
                VotesFile.read(tmp_path / "votes.csv", labels=3, teachers=3, missing="allow")
            assert odd not in str(refused.value)
    (tmp_path / "votes.csv").write_text("1st,2,x\n0,1,2\n")
    found = VotesFile.read(tmp_path / "votes.csv", labels=3, teachers=3, header=True)
    assert found.ballots.rounds == 1
