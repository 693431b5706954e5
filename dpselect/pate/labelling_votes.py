"""Saved votes as ballots. Nothing that is stored can run code: pickles are refused."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from accounting import AccountingError
from dpselect.pate.ballots import Ballots, Missing
from dpselect.pate.labelling_errors import VotesFileError

_FORMS = (
    "a .npz with an array 'votes' of shape (rounds, teachers, labels), or (rounds, labels) counts with 'teachers', or what "
    "scipy.sparse.save_npz wrote"
)


@dataclass(frozen=True)
class VotesFile:
    """Ballots and a digest of the file that they were read from, both private, and whether the file tells who votes for what."""

    ballots: Ballots
    digest: str
    single: bool

    def __repr__(self) -> str:
        return "VotesFile(<votes hidden>)"


def read_votes(path: Path, *, teachers: int | None = None, stacked: bool = False, missing: Missing = "refuse") -> VotesFile:
    """The ballots that a file holds.

    Args:
        path: an .npz file with an array `votes`, optionally `teachers` (a number) and `names` (one for each label), or a
            sparse matrix that scipy.sparse.save_npz wrote.
        teachers: how many teachers there are, where the file does not tell.
        stacked: whether a two-dimensional matrix has a row per teacher and round, instead of one of counts per round.
        missing: as for `Ballots`.

    Raises:
        VotesFileError: there is no such file, it holds something else, or its votes are no ballots.
    """
    try:
        content = path.read_bytes()
        votes, names, stated = _loaded(io.BytesIO(content))
    except OSError as error:
        raise VotesFileError(f"{path} cannot be read ({error.strerror or 'no such file or no permission'})") from None
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, TypeError, NotImplementedError):
        raise VotesFileError(f"{path} is damaged or holds no votes: give {_FORMS}") from None
    ballots = _ballots(path, votes, _agreed(path, teachers, stated), names, stacked=stacked, missing=missing)
    return VotesFile(ballots, hashlib.sha256(content).hexdigest(), stacked or votes.ndim == 3)


def _loaded(content: io.BytesIO) -> tuple[Any, list[int | str] | None, int | None]:
    with np.load(content, allow_pickle=False) as file:
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError
        held = set(file.files)
        if "votes" in held:
            names = file["names"].tolist() if "names" in held else None
            return file["votes"], names, int(file["teachers"]) if "teachers" in held else None
        if {"format", "shape", "data"} <= held:
            return scipy.sparse.load_npz(content), None, None
    raise KeyError


def _agreed(path: Path, given: int | None, stated: int | None) -> int | None:
    if given is not None and stated is not None and given != stated:
        raise VotesFileError(f"--teachers={given}, but {path} states {stated}: leave one of them out")
    return stated if given is None else given


def _ballots(
    path: Path, votes: Any, teachers: int | None, names: list[int | str] | None, *, stacked: bool, missing: Missing
) -> Ballots:
    if teachers is None and (stacked or getattr(votes, "ndim", 0) == 2):
        raise VotesFileError(f"{path} holds a matrix, which does not tell how many teachers there are: state --teachers")
    try:
        if stacked:
            return Ballots.stacked(votes, teachers=teachers or 0, missing=missing, names=names)
        return Ballots(votes, teachers=teachers, missing=missing, names=names)
    except AccountingError as error:
        raise VotesFileError(f"{path}: {error}") from None
