"""What a disk may hold after the power is cut: a process's requests to one folder, recorded and
replayed.

The disk owes only what was synced: the content of a file after its fsync, the names of a folder
after the folder's. Of the requests since then it may have done none, all, all but one, one alone,
or half of the last write. SQLite, files and names are treated alike: whatever the process wrote
through libc into the folder.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from processes import TIMEOUT, environment

_SOURCE = Path(__file__).with_suffix(".c")
_HEAD = struct.Struct("=5q")


class Request(NamedTuple):
    """One call of libc: o(pen), c(lose), w(rite), t(runcate), s(ync), r(ename), l(ink), u(nlink), d
    (folder made), 1 (said).
    """

    what: str
    handle: int
    at: int
    first: bytes
    second: bytes


@cache
def _shim() -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("the recorder of a power cut needs Linux and a C compiler")
    library = Path(tempfile.mkdtemp(prefix="power-cut-")) / "power_cut.so"
    subprocess.run(
        [
            compiler,
            "-shared",
            "-fPIC",
            "-O1",
            "-o",
            str(library),
            str(_SOURCE),
            "-ldl",
            "-lpthread",
        ],
        check=True,
    )
    return library


def recorded(folder: Path, *arguments: object) -> list[Request]:
    """Runs `python ARGUMENTS`, which must end well, and returns what it asked of the folder, in
    order.
    """
    record = folder.with_name(f"{folder.name}.record")
    more = {"LD_PRELOAD": str(_shim()), "POWER_CUT_ROOT": str(folder), "POWER_CUT_LOG": str(record)}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(_requests(record.read_bytes()))


def _requests(record: bytes) -> Iterator[Request]:
    place = 0
    while place < len(record):
        what, handle, at, one, two = _HEAD.unpack_from(record, place)
        place += _HEAD.size
        first, second = record[place : place + one], record[place + one : place + one + two]
        place += one + two
        yield Request(chr(what), handle, at, first, second)


def recovered(database: Path) -> str:
    """All that a database of SQLite holds after a cut, as SQL; and no page of it is damaged."""
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return "\n".join(connection.iterdump())


@dataclass(eq=False)
class _File:
    """What the disk owes of one file, and the writes and truncations since its last sync."""

    content: bytes = b""
    since: list[tuple[int, bytes | None]] = field(default_factory=list)
    folder: bool = False

    def after(
        self, done: Iterator[tuple[int, bytes | None]] | list[tuple[int, bytes | None]]
    ) -> bytes:
        content = bytearray(self.content)
        for at, data in done:
            if data is None:
                content = content[:at].ljust(at, b"\0")
            else:
                content = content.ljust(at, b"\0")
                content[at : at + len(data)] = data
        return bytes(content)


@dataclass
class Disk:
    """A disk that starts with a folder's files. `names` is what it owes, `asked` the changes of
    names since the last sync.
    """

    names: dict[str, _File]
    now: dict[str, _File]
    asked: list[tuple[str, _File | None]] = field(default_factory=list)
    handles: dict[int, str | _File] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> Disk:
        """What lies in the folder, all of it durable."""
        held = {
            str(path): _File(folder=True) if path.is_dir() else _File(path.read_bytes())
            for path in folder.rglob("*")
        }
        return cls(dict(held), dict(held))

    def take(self, request: Request) -> None:
        """One request."""
        name = request.first.decode() if request.what in "orlud" else ""
        match request.what:
            case "o":
                self._open(request.handle, name, request.at)
            case "w" | "t":
                file = self.handles[request.handle]
                assert isinstance(file, _File)
                file.since.append((request.at, request.first if request.what == "w" else None))
            case "s":
                self._sync(self.handles[request.handle])
            case "c":
                self.handles.pop(request.handle, None)
            case "r" | "l":
                self._name(request.second.decode(), self.now[name])
                if request.what == "r":
                    self._name(name, None)
            case "u":
                self._name(name, None)
            case "d":
                self._name(name, _File(folder=True))

    def _open(self, handle: int, name: str, flags: int) -> None:
        if Path(name).is_dir() if name not in self.now else self.now[name].folder:
            self.handles[handle] = name
            return
        if name not in self.now:
            self._name(name, _File())
        self.handles[handle] = self.now[name]
        if flags & os.O_TRUNC:
            self.now[name].since.append((0, None))

    def _name(self, name: str, file: _File | None) -> None:
        self.asked.append((name, file))
        _give(self.now, name, file)

    def _sync(self, what: str | _File) -> None:
        if isinstance(what, _File):
            what.content, what.since = what.after(what.since), []
            return
        for name, file in self.asked:
            if str(Path(name).parent) == what:
                _give(self.names, name, file)
        self.asked = [(name, file) for name, file in self.asked if str(Path(name).parent) != what]

    def after_a_cut(self) -> Iterator[dict[str, bytes]]:
        """What may lie there now, by name: nothing, everything, all but one or one alone of what
        was not synced; a torn write.
        """
        files = list(
            dict.fromkeys(
                [*self.names.values(), *(file for _, file in self.asked if file is not None)]
            )
        )
        open_ends = [(file, place) for file in files for place in range(len(file.since))]
        open_ends += [(None, place) for place in range(len(self.asked))]
        everything = frozenset(open_ends)
        for done in (
            frozenset(),
            everything,
            *(everything - {one} for one in open_ends),
            *(frozenset({one}) for one in open_ends),
        ):
            yield self._with(done)
        for file in files:
            if file.since and (data := file.since[-1][1]):
                whole, file.since[-1] = file.since[-1], (file.since[-1][0], data[: len(data) // 2])
                yield self._with(everything)
                file.since[-1] = whole

    def _with(self, done: frozenset[tuple[_File | None, int]]) -> dict[str, bytes]:
        held = dict(self.names)
        for place, (name, file) in enumerate(self.asked):
            if (None, place) in done:
                _give(held, name, file)
        lost = [
            f"{name}{os.sep}" for name, file in self.now.items() if file.folder and name not in held
        ]
        return {
            name: file.after(
                [change for place, change in enumerate(file.since) if (file, place) in done]
            )
            for name, file in held.items()
            if not file.folder and not name.startswith(tuple(lost))
        }


def _give(names: dict[str, _File], name: str, file: _File | None) -> None:
    if file is None:
        names.pop(name, None)
    else:
        names[name] = file


class Cut(NamedTuple):
    """What the process had said when the power was cut, and what the disk may hold, by path in the
    folder.
    """

    said: str
    held: dict[str, bytes]

    def lay(self, folder: Path) -> None:
        """Make the folder hold this and nothing else."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, content in self.held.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


def cuts(disk: Disk, folder: Path, requests: list[Request]) -> Iterator[Cut]:
    """Every state of the disk after every prefix of the requests, each once for what had been said
    by then.
    """
    said, known = "", set()
    for request in [None, *requests]:
        if request is not None and request.what == "1":
            said += request.first.decode()
        elif request is not None:
            disk.take(request)
        for held in disk.after_a_cut():
            state = (said, frozenset(held.items()))
            if state not in known:
                known.add(state)
                yield Cut(
                    said,
                    {
                        str(Path(name).relative_to(folder)): content
                        for name, content in held.items()
                    },
                )
