"""Heads: one hash per dataset, kept elsewhere, against which a cut or rewritten ledger is found out; signed with Ed25519."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, final

from accounting.ledger.errors import InvalidEntry
from accounting.ledger.statements import Declared
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
        stated = {"format": FORMAT, "ledger_id": self.ledger_id, "at": self.at, "declared": self.declared}
        return canonical_json(stated | {"datasets": head_data(self.datasets)})

    def to_json(self) -> str:
        """One line of canonical JSON."""
        return canonical_json(read_json(self.statement()) | signature_data(self.signatures))

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
        return cls(identity, at, named, read_signatures(data.get("signatures", [])), declared)


def _head(data: object) -> Head:
    if not isinstance(data, dict) or type(data.get("seq")) is not int or data["seq"] < 0 or not isinstance(data.get("hash"), str):
        raise InvalidEntry("a head is a seq (an integer, at least 0) and a hash (text)")
    return Head(data["seq"], data["hash"])


def head_data(heads: dict[str, Head]) -> dict[str, Any]:
    """Heads by name, as JSON data."""
    return {name: asdict(head) for name, head in heads.items()}


def signature_data(signatures: tuple[Signature, ...]) -> dict[str, Any]:
    """Signatures as JSON data; nothing if there are none."""
    return {"signatures": [asdict(one) for one in signatures]} if signatures else {}


def read_signatures(data: object) -> tuple[Signature, ...]:
    """Signatures from JSON data; InvalidEntry if they are something else."""
    if not isinstance(data, list) or not all(isinstance(one, dict) and set(one) == {"key", "signature"} for one in data):
        raise InvalidEntry("signatures of heads are a list of key and signature: the file was edited")
    if not all(isinstance(text, str) for one in data for text in one.values()):
        raise InvalidEntry("a signature and its key are hexadecimal texts: the file was edited")
    return tuple(Signature(one["key"], one["signature"]) for one in data)


def heads_of(ledger_id: str, at: str, declared: list[Declared]) -> Heads:
    """The heads that the datasets' rows state."""
    return Heads(ledger_id, at, {row.dataset.name: Head(row.seq, row.head) for row in declared})


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
        if not any(one.key in self._until and self._in_time(one.key, heads.at) for one in sound):
            known = any(one.key in self._until for one in sound)
            why = "of a key that was replaced before they were taken" if known else "of no trusted key"
            yield f"the heads bear the signature {why}: compare it with the public keys you were given"

    def _in_time(self, key: str, at: str) -> bool:
        until = self._until[key]
        return until is None or at < until


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
