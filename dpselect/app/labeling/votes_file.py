"""Saved votes as ballots. Nothing that is stored can run code, because pickles are refused.

The file is not trusted. The size that every array claims is compared with the size of the file
before memory is taken, and every index of a sparse matrix is compared with its shape before
compiled code follows it.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self, Unpack

import numpy as np
import scipy

from accounting import AccountingError
from accounting.address import mask
from accounting.files import read_bytes
from dpselect.app.archives import content_of, members_of
from dpselect.errors import InvalidBallots, InvalidRequest
from dpselect.mechanisms import Mechanism
from dpselect.pate.ballots import Ballots, BallotTerms
from dpselect.pate.plan import TrialVotes
from dpselect.pate.voting import TauVoting

MOST_BYTES = 2**29  # of a file, and of all arrays in it when they are unpacked
_MOST_TEXT = 2**26  # of a .csv file
_MOST_ARRAYS = 64
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# the last: an encrypted member
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    csv.Error,
    EOFError,
    OSError,
    RuntimeError,
)
_NO_VOTES = (KeyError, OverflowError, TypeError, ValueError)
_HEADER_BYTES = 2**16  # numpy reads 10,000
_NPY = b"\x93NUMPY"
_FORMS = (
    "a .npz with an array 'votes' of shape (rounds, teachers, labels), (rounds, labels)"
    " counts with 'teachers', an array 'classes' of shape (rounds, teachers), or a sparse"
    " matrix that scipy.sparse.save_npz wrote; an .npy file of one of these arrays; or a"
    " .csv file with a row of integers for each round: counts, below a line of the labels'"
    " names if there is one, or with labels= classes, where an empty cell is no vote"
)


class VotesFileError(InvalidRequest):
    """A file without votes in a known form, or with votes that cannot be labeled as requested."""


@dataclass(frozen=True)
class VotesFile:
    """Ballots and a digest of the file that they were read from, both private.

    `single` is True if the file holds the votes of single teachers.
    """

    path: Path
    ballots: Ballots
    digest: str
    single: bool

    def __repr__(self) -> str:
        return "VotesFile(<votes hidden>)"

    @classmethod
    def read(
        cls,
        path: Path,
        *,
        teachers: int | None = None,
        labels: int | None = None,
        stacked: bool = False,
        header: bool | None = None,
        **declared: Unpack[BallotTerms],
    ) -> Self:
        """Read the ballots of a file, which has at most 512 MiB unpacked.

        Args:
            path: an .npz file with an array `votes`, optionally `teachers` (a number) and `names`
                (one for each label), with an array `classes`, or with a sparse matrix (CSR, CSC or
                COO) that scipy.sparse.save_npz wrote; or an .npy file: a (rounds, teachers, labels)
                array of votes, a (rounds, teachers) matrix of classes with `labels`, or counts; or
                a .csv file of such a matrix.
            teachers: number of teachers, if the file does not state it, or to confirm the axes of a
                matrix of classes.
            labels: number of labels, for a matrix of classes.
            stacked: True if a two-dimensional matrix has a row per teacher and round, instead of
                one of counts per round.
            header: True if the first line of a .csv file holds names, False if it holds votes. None
                takes it for names if it holds no integer.
        """
        _require_text(path, header)
        most = _MOST_TEXT if _is_text(path) else MOST_BYTES
        content = read_bytes(path, VotesFileError, "votes", most)
        arrays: Callable[[], Any] = partial(_arrays, content)
        if _is_text(path):
            arrays = partial(_table, content, header)
        elif content.startswith(_NPY):
            arrays = partial(_array, content, "votes")
        ballots, single = _ballots(path, arrays, teachers, labels, stacked, declared)
        return cls(path, ballots, hashlib.sha256(content).hexdigest(), single)

    @classmethod
    def read_size(
        cls,
        path: Path,
        *,
        teachers: int | None = None,
        labels: int | None = None,
        stacked: bool = False,
        header: bool | None = None,
        **declared: Any,
    ) -> Self:
        """Return ballots without a vote, of the size that the file states.

        These are the numbers of rounds, teachers and labels. No vote is read.
        """
        _require_text(path, header)
        ballots, single = _ballots(
            path,
            partial(_headers, path, header),
            teachers,
            labels,
            stacked,
            {**declared, "missing": "allow"},
        )
        return cls(path, ballots, "", single)

    @classmethod
    def trial(cls, path: Path) -> TrialVotes:
        """Read votes that were declared public, and the true labels of their items.

        The file is as for `read`, with an array `truth` of (rounds, labels) zeros and ones.
        """
        content, arrays = read_bytes(path, VotesFileError, "votes", MOST_BYTES), dict[str, Any]()
        if not (content.startswith(_NPY) or _is_text(path)):
            # which `read` explains
            with contextlib.suppress(VotesFileError, *_UNREADABLE, *_NO_VOTES):
                arrays = _arrays(content)
        truth = arrays.get("truth")
        sizes: dict[str, Any] = {}
        if "classes" in arrays and truth is not None and truth.ndim == 2:
            # a row of the truth is a round, as one of the classes is
            sizes = {"labels": truth.shape[1], "teachers": arrays["classes"].shape[-1]}
        votes = cls.read(path, **sizes, missing="allow").ballots
        if truth is None or truth.shape != votes.counts.shape or not np.isin(truth, (0, 1)).all():
            raise VotesFileError(
                f"{mask(path)} holds no array truth of {votes.rounds} rounds x {votes.labels}"
                " labels, zeros and ones. Add it to an .npz file"
            )
        return TrialVotes(votes, truth.astype(np.bool_), public=True)

    def fitting(self, mechanism: Mechanism, salt: str) -> Ballots:
        """Return ballots that the mechanism's guarantee covers.

        They are cut by a public rule if it is for few votes and single votes are known.
        """
        try:
            fit = (
                self.ballots.cut(mechanism.tau, salt=salt)
                if isinstance(mechanism, TauVoting) and self.single
                else self.ballots
            )
            mechanism.check_many(fit)
        except InvalidBallots as error:
            raise VotesFileError(f"{mask(self.path)}: {error}") from None
        return fit


def _ballots(
    path: Path,
    read: Callable[[], Any],
    teachers: int | None,
    labels: int | None,
    stacked: bool,
    declared: Any,
) -> tuple[Ballots, bool]:
    """Return the ballots of a file's arrays, and True if they hold the votes of single teachers.

    `read` returns one array, or several by name.
    """
    try:
        content = read()
        arrays = content if isinstance(content, dict) else {"votes": content}
        if arrays.keys() == {"arr_0"}:  # what numpy.savez calls an array without a name
            arrays = {"votes": arrays["arr_0"]}
        if "votes" in arrays and labels is not None:
            arrays["classes"] = arrays.pop("votes")
            if _is_text(path):  # the line above classes names teachers
                arrays.pop("names", None)
        elif _is_text(path) and (arrays["votes"] < 0).any():
            _refuse("a count is missing or below 0: of a table of classes, state labels=")
        if (names := arrays.get("names")) is not None:
            if names.ndim != 1 or names.dtype.kind not in "iuU":
                _refuse("'names' must be one name, text or an integer, for each label")
            declared["names"] = names.tolist()
        # Ballots refuse what is no number
        in_file = arrays["teachers"].tolist() if "teachers" in arrays else None
        if None not in (teachers, in_file) and teachers != in_file:
            _refuse(f"teachers={teachers}, but it states {in_file}. Leave one of them out")
        voting = in_file if teachers is None else teachers
        if "classes" in arrays:
            if stacked:
                _refuse(
                    "it holds classes, a row of them for each round, but stacked= is for"
                    " votes. Leave it out"
                )
            labels = len(names) if labels is None and names is not None else labels
            return _from_classes(arrays["classes"], voting, labels, declared), True
        votes = arrays["votes"] if "votes" in arrays else _sparse(arrays)
        if labels is not None:
            _refuse(
                f"labels={labels} is for classes, but it holds a sparse matrix, which states"
                " that number. Leave it out"
            )
        return _from_votes(votes, voting, stacked, declared), stacked or votes.ndim == 3
    except AccountingError as error:
        raise VotesFileError(f"{mask(path)}: {error}") from None
    except (*_UNREADABLE, *_NO_VOTES):
        raise VotesFileError(
            f"{mask(path)} holds no votes that can be read. Give {_FORMS}"
        ) from None


def _is_text(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def _require_text(path: Path, header: bool | None) -> None:
    """Refuse a stated header of a file that has no lines."""
    if header is not None and not _is_text(path):
        raise VotesFileError(
            f"header= is about the first line of a .csv file, which {mask(path)} is not. Leave it"
            " out"
        )


_VOTE = re.compile(r"\s*(-?\d{1,18})?(?:\.0*)?\s*")


def _table(content: bytes, header: bool | None, *, blank: bool = False) -> dict[str, Any]:
    """The integers of a CSV file, -1 for an empty cell, and the line above them as names.

    Args:
        header: as for `VotesFile.read`.
        blank: True to give zeros, and look at no vote.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        _refuse("it cannot be read as text. Save it as UTF-8")
    first = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    parsed, names, width = list[Any](), None, 0
    for row in filter(None, rows):
        if not width and (_holds_names(row) if header is None else header):
            names, width = np.array(row), len(row)
            continue
        width = width or len(row)
        if len(row) != width:
            _refuse(f"its rows do not all have {width:,} cells, as the first one has")
        cells = [] if blank else list(map(_VOTE.fullmatch, row))
        if None in cells:
            _refuse(
                "a cell is neither an integer nor empty. Write a row for each round, with a column"
                " for each teacher or label"
            )
        parsed.append(np.array([int(cell[1] or -1) for cell in cells if cell], dtype=np.int64))
    if not parsed:
        _refuse("it has no row of votes")
    if names is not None and "" in names:
        _refuse("a column has no name. Save it without the row numbers, or name every column")
    votes = np.zeros((len(parsed), width), dtype=np.int64) if blank else np.stack(parsed)
    return {"votes": votes} if names is None else {"votes": votes, "names": names}


def _holds_names(first: list[str]) -> bool:
    """True if the first line holds names alone, as it is without a stated header.

    One teacher's cell must not decide whether the line is a round of all teachers.
    """
    votes = list(map(_VOTE.fullmatch, first))
    if None in votes and any(vote and vote[1] for vote in votes):
        _refuse(
            "its first line holds integers and other text. Correct a vote, or state header=True if"
            " they are names"
        )
    return None in votes


# arrays that describe votes, and hold none
_METADATA = ("names", "teachers", "format", "shape")
_HEADER_BYTES = 2**16  # numpy reads 10,000


def _headers(path: Path, header: bool | None) -> Any:
    """Return the arrays of a file with zeros for votes, or a sparse matrix without entries."""
    if not path.is_file():
        read_bytes(path, VotesFileError, "votes", MOST_BYTES)  # refuses it
    if _is_text(path):
        return _table(read_bytes(path, VotesFileError, "votes", _MOST_TEXT), header, blank=True)
    with path.open("rb") as file:
        if file.read(len(_NPY)) == _NPY:
            file.seek(0)
            return _blank(file.read(_HEADER_BYTES))
    arrays = dict[str, Any]()
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist()[:_MOST_ARRAYS]:
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as stream:
                head = stream.read(_HEADER_BYTES)
            arrays[name] = _array(head, name) if name in _METADATA else _blank(head)
    if "shape" in arrays and "format" in arrays:
        arrays = {name: arrays[name] for name in ("names", "teachers") if name in arrays} | {
            "votes": scipy.sparse.csr_matrix(tuple(arrays["shape"].tolist()), dtype=np.int64)
        }
    return arrays


def _blank(head: bytes) -> Any:
    """Return zeros in the shape that the header of an .npy file states. They take no memory."""
    stream = io.BytesIO(head)
    shape, _, dtype = _HEADERS[np.lib.format.read_magic(stream)](stream)
    return np.broadcast_to(np.zeros((), dtype=dtype if dtype.kind in "biuf" else np.int64), shape)


def _from_classes(
    classes: Any, teachers: int | None, labels: int | None, declared: BallotTerms
) -> Ballots:
    if labels is None:
        _refuse("it holds classes, which do not show the number of labels. State labels=")
    if classes.ndim == 2:
        rounds, voting = classes.shape
        if teachers is None:
            _refuse(
                f"it holds a matrix of {rounds:,} rounds by {voting:,} teachers, if a row is one"
                f" round. If that is so, confirm it by teachers={voting}. If its axes are"
                " exchanged, transpose it"
            )
        if teachers != voting:
            exchanged = (
                "Its axes are exchanged: transpose it"
                if teachers == rounds
                else "State their number"
            )
            _refuse(
                f"teachers={teachers}, but it has one column for each of {voting:,} teachers: one"
                f" row is one round. {exchanged}"
            )
    return Ballots.of_classes(classes, labels=labels, **declared)


def _from_votes(votes: Any, teachers: int | None, stacked: bool, declared: BallotTerms) -> Ballots:
    if teachers is None and (stacked or votes.ndim == 2):
        _refuse(
            "it holds a matrix, which does not show the number of teachers. State teachers="
            " (for a matrix of classes, labels=)"
        )
    # Counts are held densely: a sparse matrix may claim any number of labels and rounds.
    if scipy.sparse.issparse(votes) and math.prod(votes.shape) > MOST_BYTES:
        _refuse(
            f"a matrix of {votes.shape[0]:,} by {votes.shape[1]:,} is too large: label it in parts"
        )
    if stacked:
        return Ballots.from_rows(votes, teachers=teachers or 0, **declared)
    return Ballots(votes, teachers=teachers, **declared)


def _arrays(content: bytes) -> dict[str, Any]:
    archive, members = members_of(io.BytesIO(content), MOST_BYTES, _refuse)
    with archive:
        if len(members) > _MOST_ARRAYS:
            _refuse(f"it holds more than {_MOST_ARRAYS} arrays. Save those of the votes alone")
        contents = {member.filename: content_of(archive, member) for member in members}
    return {name.removesuffix(".npy"): _array(array, name) for name, array in contents.items()}


def _array(content: bytes | bytearray, name: str) -> Any:
    """Return the array of an .npy file, whose header is compared with its size."""
    stream = io.BytesIO(content[:_HEADER_BYTES])
    try:
        shape, fortran, dtype = _HEADERS[np.lib.format.read_magic(stream)](stream)
    except Exception:  # it is parsed as Python, by a parser that fails in many ways
        shape = None
    if shape is None:
        _refuse(f"the header of {name!r} is damaged or of a later version. Save it anew")
    if dtype.hasobject:
        _refuse("it holds a pickle, which could run code. Save plain numbers")
    if (
        any(length < 0 for length in shape)
        or math.prod(shape) * dtype.itemsize != len(content) - stream.tell()
    ):
        _refuse(f"the header of {name!r} claims another size than the file has. Save it anew")
    return np.frombuffer(content, dtype, offset=stream.tell()).reshape(
        shape, order="F" if fortran else "C"
    )


def _sparse(arrays: dict[str, Any]) -> Any:
    """Return a matrix whose every index lies inside its shape.

    scipy checks this before compiled code follows an index.
    """
    form = arrays["format"].tolist()
    form = form.decode() if isinstance(form, bytes) else str(form)
    if form not in ("csr", "csc", "coo"):
        _refuse("a sparse matrix must be CSR, CSC or COO. Convert it with .tocsr()")
    places = [arrays[name] for name in (("row", "col") if form == "coo" else ("indices", "indptr"))]
    data, shape = arrays["data"], arrays["shape"]
    if data.dtype.kind not in "biuf" or any(
        array.dtype.kind not in "iu" for array in (shape, *places)
    ):
        _refuse(
            "the sparse matrix holds no numbers, or its indices are no integers. Save votes of 0"
            " and 1, or counts"
        )
    if form == "coo":
        return scipy.sparse.coo_matrix((data, tuple(places)), shape=shape.tolist()).tocsr()
    matrix = getattr(scipy.sparse, f"{form}_matrix")((data, *places), shape=shape.tolist())
    matrix.check_format(full_check=True)
    if len(data) != places[1][-1]:  # of which scipy would drop the rest
        _refuse("the sparse matrix's row pointers do not match its entries. Save it anew")
    return matrix


def _refuse(message: str) -> NoReturn:
    raise VotesFileError(message)
