"""Heads: one hash per dataset, kept elsewhere, against which a cut or rewritten ledger is found out; signed with Ed25519.

`Mirror` is a second place, with other owners, that keeps every head it is shown and notices a ledger that went back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, inspect, select

from accounting.address import masked
from accounting.errors import OutputError, OutputRefused
from accounting.files import PUBLIC, read_text, sync_folder
from accounting.ledger.errors import InvalidEntry, MirrorConflict
from accounting.ledger.store import Store
from accounting.ledger.stored_text import canonical_json, read_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


FORMAT, ROTATION = "dpselect-ledger-heads-1", "dpselect-ledger-key-rotation-1"
_PUBLIC = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Head:
    """How many entries a dataset had, and the hash of the last one (of the declaration, if none)."""

    seq: int
    hash: str


@dataclass(frozen=True)
class Signature:
    """Of heads, by an Ed25519 key: its public part and the signature, hexadecimal."""

    key: str
    signature: str

    @classmethod
    def read_all(cls, data: object) -> tuple[Self, ...]:
        """Signatures from JSON data; InvalidEntry if they are something else."""
        if not isinstance(data, list) or not all(isinstance(one, dict) and set(one) == {"key", "signature"} for one in data):
            raise InvalidEntry("signatures of heads are a list of key and signature: the file was edited")
        if not all(isinstance(text, str) for one in data for text in one.values()):
            raise InvalidEntry("a signature and its key are hexadecimal texts: the file was edited")
        return tuple(cls(**one) for one in data)


@dataclass(frozen=True)
class Heads:
    """Where every dataset's chain stood at one time. Keep it where the ledger's writers cannot change it, or sign it.

    `declared` is how many datasets the ledger had: all that are named, unless some were cut out.
    """

    ledger_id: str
    at: str
    datasets: dict[str, Head]
    signatures: tuple[Signature, ...] = ()
    declared: int = -1

    def __post_init__(self) -> None:
        if self.declared < 0:
            object.__setattr__(self, "declared", len(self.datasets))

    def statement(self) -> str:
        """Canonical JSON of all but the signatures: what they are of."""
        return replace(self, signatures=()).to_json()

    def to_json(self) -> str:
        """One line of canonical JSON."""
        stated = {"format": FORMAT, "ledger_id": self.ledger_id, "at": self.at, "declared": self.declared}
        return canonical_json(stated | self.content())

    def content(self) -> dict[str, Any]:
        """Where the chains stood, and the signatures if there are any, as JSON data."""
        content: dict[str, Any] = {"datasets": {name: asdict(head) for name, head in self.datasets.items()}}
        return content | {"signatures": [asdict(one) for one in self.signatures]} if self.signatures else content

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """What `to_json` wrote.

        Raises:
            InvalidEntry: it is something else.
        """
        data = read_json(text)
        chains = data.get("datasets")
        if data.get("format") != FORMAT or not isinstance(chains, dict):
            raise InvalidEntry(
                f"this file does not contain ledger heads: pass the one that `dpselect ledger heads` wrote ({FORMAT})"
            )
        identity, at, declared = data.get("ledger_id"), data.get("at"), data.get("declared")
        if not isinstance(identity, str) or not isinstance(at, str) or type(declared) is not int or declared < len(chains):
            raise InvalidEntry(
                "these heads do not say of which ledger they are, when they were taken and of how many datasets: the file was cut"
            )
        named = {name: _head(head) for name, head in chains.items()}
        return cls(identity, at, named, Signature.read_all(data.get("signatures", [])), declared)


def _head(data: object) -> Head:
    if not isinstance(data, dict) or type(data.get("seq")) is not int or data["seq"] < 0 or not isinstance(data.get("hash"), str):
        raise InvalidEntry("a head is a seq (an integer, at least 0) and a hash (text)")
    return Head(data["seq"], data["hash"])


@final
class SigningKey:
    """An Ed25519 private key for heads. Keep it where the ledger's writers cannot read it. No repr, log or error shows it."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def new(cls) -> Self:
        """A fresh key, from the operating system's entropy."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, text: str) -> Self:
        """What `to_pem`, or `openssl genpkey -algorithm ed25519`, wrote.

        Raises:
            InvalidEntry: it is not an unencrypted Ed25519 private key.
        """
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            found = load_pem_private_key(text.encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            found = None
        if not isinstance(found, Ed25519PrivateKey):
            raise InvalidEntry(
                "this is not an unencrypted Ed25519 private key in PEM: make one with `dpselect ledger keygen`"
            ) from None
        return cls(found)

    def to_pem(self) -> str:
        """The private key as PEM (PKCS 8), unencrypted: for a file that only its owner can read."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @cached_property
    def public(self) -> str:
        """The public key, 64 hexadecimal digits: what a verifier is given, by another way than the heads."""
        return self._private.public_key().public_bytes_raw().hex()

    def sign(self, heads: Heads) -> Heads:
        """The heads with this key's signature added."""
        made = Signature(self.public, self._private.sign(heads.statement().encode()).hex())
        return replace(heads, signatures=(*heads.signatures, made))

    def hand_over(self, successor: str, at: str) -> Rotation:
        """State that from `at` on `successor`, a public key, signs in this key's place.

        Args:
            at: a time in ISO 8601 with its offset from UTC, as in "2026-11-22T10:00:00+00:00".

        Raises:
            InvalidEntry: successor is not a public key, or `at` is not such a time: it would revoke nothing.
        """
        statement = Rotation(self.public, _public(successor), _moment(at), "")
        return replace(statement, signature=self._private.sign(statement.statement().encode()).hex())

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public!r})"


@dataclass(frozen=True)
class Rotation:
    """A key's statement that another one follows it at `at`; signed by the old key."""

    old: str
    new: str
    at: str
    signature: str

    def statement(self) -> str:
        """What is signed."""
        return canonical_json({"format": ROTATION, "old": self.old, "new": self.new, "at": self.at})

    def to_json(self) -> str:
        """One line of canonical JSON."""
        return canonical_json(read_json(self.statement()) | {"signature": self.signature})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote.

        Raises:
            InvalidEntry: it is something else.
        """
        data = read_json(text)
        if data.pop("format", None) != ROTATION or set(data) != {"old", "new", "at", "signature"}:
            raise InvalidEntry(
                f"this is not a key rotation: pass the file that `dpselect ledger keygen --rotation` wrote ({ROTATION})"
            )
        return cls(_public(data["old"]), _public(data["new"]), _moment(data["at"]), _text(data["signature"]))


@final
class Trust:
    """The public keys that a verifier trusts: those given, and those that they handed over to.

    Args:
        keys: public keys, 64 hexadecimal digits each, obtained by another way than the heads.
        rotations: in any order. A key that was replaced no longer signs heads that are dated after that.

    Raises:
        InvalidEntry: a key is none, or a rotation is not signed by a trusted key, or a key has two successors.
    """

    def __init__(self, keys: Iterable[str], rotations: Iterable[Rotation] = ()) -> None:
        self._until: dict[str, str | None] = {_public(key): None for key in keys}
        if not self._until:
            raise InvalidEntry("no key is trusted: name at least one public key")
        waiting = list(rotations)
        while usable := [one for one in waiting if one.old in self._until]:
            for rotation in usable:
                self._follow(rotation)
                waiting.remove(rotation)
        if waiting:
            raise InvalidEntry(f"a rotation starts at key {waiting[0].old[:16]}..., which is not trusted: trust its first key")

    def _follow(self, rotation: Rotation) -> None:
        if not _valid(rotation.old, rotation.signature, rotation.statement()):
            raise InvalidEntry(f"the rotation of key {rotation.old[:16]}... does not bear its signature: it was forged or edited")
        if self._until[rotation.old] is not None:
            raise InvalidEntry(f"key {rotation.old[:16]}... has two successors: it was stolen, or used twice; trust neither")
        self._until[rotation.old] = _moment(rotation.at)
        self._until.setdefault(rotation.new, None)

    @property
    def keys(self) -> tuple[str, ...]:
        """All of them, in order."""
        return tuple(sorted(self._until))

    def problems(self, heads: Heads) -> Iterator[str]:
        """Why the heads' signatures do not show that a trusted key stated them; nothing if they do."""
        if not heads.signatures:
            yield "the heads are not signed: take them with `dpselect ledger heads --sign KEY`"
            return
        sound = [one for one in heads.signatures if _valid(one.key, one.signature, heads.statement())]
        if len(sound) < len(heads.signatures):
            yield "a signature of the heads does not match them: they were edited, or it was"
        known = [one.key for one in sound if one.key in self._until]
        if not any((until := self._until[key]) is None or heads.at < until for key in known):
            why = "of a key that was replaced before they were taken" if known else "of no trusted key"
            yield f"the heads bear the signature {why}: compare it with the public keys you were given"


def _valid(public: str, signature: str, statement: str) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), statement.encode())
    except (ValueError, InvalidSignature):
        return False
    return True


def _public(value: Any) -> str:
    if not isinstance(value, str) or not _PUBLIC.fullmatch(value):
        raise InvalidEntry(
            f"{str(value)[:20]!r} is not a public key: it has 64 hexadecimal digits, as `dpselect ledger keygen` prints"
        )
    return value


def _moment(value: Any) -> str:
    """A time as heads state theirs, so that the two can be compared as text; InvalidEntry if it is not one."""
    try:
        moment = datetime.fromisoformat(_text(value))
        if moment.tzinfo is None:
            raise ValueError
        return moment.astimezone(UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError):
        raise InvalidEntry(
            f"at={str(value)[:40]!r} is not a time that a key can be replaced at: write it in ISO 8601 with its offset from UTC, "
            "as in 2026-11-22T10:00:00+00:00"
        ) from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidEntry("a key rotation has texts only: the file was edited")
    return value


_TIMEOUT = 30.0
_ADVISORY_LOCK = 4_105_281_902
_MOST_BYTES = 2**31
_kept = Table(
    "dpledger_mirror",
    MetaData(),
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("heads", Text, nullable=False),
)


@final
class Mirror:
    """An append-only copy of heads, signed or not, in a file of lines or in a SQLite or PostgreSQL database.

    Let its owner be somebody else than the ledger's writers: whoever can rewrite both can rewrite the past. It keeps hashes,
    names of datasets and times, and nothing of what was charged.

    Example:
        >>> import accounting as acc
        >>> from accounting.ledger import Mirror
        >>> ledger = acc.Ledger.open("sqlite:///example.db")
        >>> _ = ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove")
        >>> mirror = Mirror.open("example-mirror.jsonl")
        >>> _ = mirror.keep(ledger.heads)
        >>> ledger.verify(mirror.heads()).ok
        True
    """

    def __init__(self, place: _File | _Database) -> None:
        self._place = place

    @classmethod
    def open(cls, target: str | Path) -> Self:
        """The mirror in a file, or at sqlite:///FILE or postgresql://HOST/NAME; made when the first head is kept.

        Raises:
            OutputRefused: the target is not the name of a file.
        """
        if isinstance(target, str) and "://" in target:
            return cls(_Database(target))
        if "\0" in str(target) or not Path(target).name:
            raise OutputRefused(f"mirror={masked(target)} is not the name of a file: name one, or sqlite:///FILE")
        return cls(_File(Path(target)))

    def heads(self) -> list[Heads]:
        """All that it was shown, in order.

        Raises:
            InvalidEntry: the mirror is missing, or it holds something else.
        """
        found = _read(self._place.lines())
        if not found:
            raise InvalidEntry("the mirror holds no heads: keep some in it first (`dpselect ledger heads --mirror`)")
        return found

    def keep(self, take: Callable[[], Heads]) -> Heads:
        """Append the heads that `take` gives, `Ledger.heads` for example, which is called when it is this process's turn.

        Raises:
            MirrorConflict: they are behind what was kept, or of another ledger: it was cut, rewritten, or restored from a copy.
            LedgerUnavailable, OutputError: the mirror cannot be written.
        """
        with self._place.locked() as (lines, append):
            heads = take()
            for before in _read(lines[-1:]):
                _require_after(before, heads)
            append(heads.to_json())
        return heads


def _read(lines: list[str]) -> list[Heads]:
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(Heads.from_json(line))
        except InvalidEntry as error:
            raise InvalidEntry(f"line {number} of the mirror: {error}") from None
    return found


def _require_after(before: Heads, now: Heads) -> None:
    if before.ledger_id != now.ledger_id:
        raise MirrorConflict("the mirror keeps heads of another ledger: give each ledger a mirror of its own")
    for name, head in before.datasets.items():
        found = now.datasets.get(name)
        if found is None or found.seq < head.seq or (found.seq == head.seq and found.hash != head.hash):
            raise MirrorConflict(
                f"dataset={name!r} is behind the mirror, which has seen entry {head.seq}: the ledger was cut, rewritten or "
                "restored from an old copy. Charge nothing, and run verify --mirror"
            )


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self) -> list[str]:
        whole, end, torn = read_text(self._path, InvalidEntry, "the mirror", _MOST_BYTES).rpartition("\n")
        lines = [line for line in whole.split("\n") if line] if end else []
        # A line without its end was cut short by a crash, before it was kept; unless only the end is missing.
        return [*lines, torn] if torn and not _is_torn(torn) else lines

    @contextmanager
    def locked(self) -> Iterator[tuple[list[str], Callable[[str], None]]]:
        from filelock import FileLock

        try:
            with FileLock(self._path.with_name(self._path.name + ".lock"), timeout=_TIMEOUT):
                yield (self.lines() if self._path.exists() else []), self._append
        except OSError as error:
            raise OutputError(
                f"the mirror cannot be written ({error.strerror or 'it is locked'}): check the folder and its permissions"
            ) from None

    def _append(self, line: str) -> None:
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PUBLIC)
        with os.fdopen(handle, "r+b") as file:
            whole, end, torn = file.read().rpartition(b"\n")
            if torn and _is_torn(torn.decode("utf-8", "replace")):
                file.truncate(len(whole + end))
            elif torn:
                line = "\n" + line
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self._path.parent)


def _is_torn(line: str) -> bool:
    try:
        Heads.from_json(line)
    except InvalidEntry:
        return True
    return False


class _Database:
    """Keeps no connection: a mirror is asked now and then."""

    def __init__(self, url: str) -> None:
        self._store = Store.at(url, create=True, timeout=_TIMEOUT)

    def lines(self) -> list[str]:
        with closing(self._store), self._store.reader() as connection:
            if not inspect(connection).has_table(_kept.name):
                raise InvalidEntry("no mirror exists here: check its name, or keep heads in it first")
            return _lines(connection)

    @contextmanager
    def locked(self) -> Iterator[tuple[list[str], Callable[[str], None]]]:
        with closing(self._store), self._store.append_only(_kept, _ADVISORY_LOCK) as connection:

            def append(line: str) -> None:
                connection.execute(insert(_kept).values(heads=line))

            yield _lines(connection), append


def _lines(connection: Connection) -> list[str]:
    return [str(line) for line in connection.execute(select(_kept.c.heads).order_by(_kept.c.number)).scalars()]
