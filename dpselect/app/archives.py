"""Zip archives read without trust in their sizes.

They are read in pieces, no more than they state, and by methods that take little memory.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from typing import IO, NoReturn

_PIECE = 1 << 20
_ENTRY = b"PK\x01\x02"  # begins every entry of the list of members
_MOST_ENTRIES = 10_000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

Refuse = Callable[[str], NoReturn]
"""Function that raises the caller's error, with this message."""


def members_of(
    stream: IO[bytes], most: int, refuse: Refuse
) -> tuple[zipfile.ZipFile, list[zipfile.ZipInfo]]:
    """Open an archive, and return it with its members.

    They state at most `most` bytes together, or else `refuse` is called with the reason.

    Raises:
        zipfile.BadZipFile: it is no archive.
    """
    count, tail = 0, b""
    while piece := stream.read(_PIECE):  # before the list is read, which takes a kilobyte for each
        window = tail + piece
        count += window.count(_ENTRY)
        tail = window[1 - len(_ENTRY) :]
    if count > _MOST_ENTRIES:
        refuse(f"it has more than {_MOST_ENTRIES:,} members, the most that are read. Save it anew")
    archive = zipfile.ZipFile(stream)
    members = archive.infolist()
    if len({member.filename for member in members}) < len(members):
        refuse("it holds two members of one name. Save it anew")
    if any(member.compress_type not in _METHODS for member in members):
        refuse(
            "it is compressed by another method than deflate, that of zip files, and is not"
            " unpacked. Save it anew"
        )
    if sum(member.file_size for member in members) > most:
        refuse(
            f"it unpacks to more than {most >> 20} MiB, the most that is read. Save what is needed"
            " of it, or read it in parts"
        )
    return archive, members


def content_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytearray:
    """Return the whole content of a member, read by `pieces_of`."""
    content = bytearray()
    for piece in pieces_of(archive, member):
        content += piece
    return content


def pieces_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content of a member, up to its stated size.

    Raises:
        zipfile.BadZipFile: its content is not as stated.
    """
    # asked for all at once, it would unpack up to 2 GiB before it looks at the size
    with archive.open(member) as stream:
        while piece := stream.read(_PIECE):
            yield piece
