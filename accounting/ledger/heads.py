"""Heads: one hash per dataset, kept elsewhere, against which a cut or rewritten ledger is found out; signed with Ed25519."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, final

from accounting.ledger.errors import InvalidEntry
from accounting.ledger.stored_text import canonical_json, read_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT = "dpselect-ledger-heads-1"
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
    def read(cls, data: object) -> Self | None:
        """A signature from JSON data, None from nothing; InvalidEntry if it is something else."""
        if data is None:
            return None
        if (
            not isinstance(data, dict)
            or set(data) != {"key", "signature"}
            or not all(isinstance(text, str) for text in data.values())
        ):
            raise InvalidEntry("a signature of heads is a key and a signature, hexadecimal texts: the file was edited")
        return cls(**data)


@dataclass(frozen=True)
class Heads:
    """Where every dataset's chain stood at one time. Keep it where the ledger's writers cannot change it, or sign it.

    `declared` is how many datasets the ledger had: all that are named, unless some were cut out.
    """

    ledger_id: str
    at: str
    datasets: dict[str, Head]
    signature: Signature | None = None
    declared: int = -1

    def __post_init__(self) -> None:
        if self.declared < 0:
            object.__setattr__(self, "declared", len(self.datasets))

    def statement(self) -> str:
        """Canonical JSON of all but the signature: what it is of."""
        return replace(self, signature=None).to_json()

    def to_json(self) -> str:
        """One line of canonical JSON."""
        stated = {"format": FORMAT, "ledger_id": self.ledger_id, "at": self.at, "declared": self.declared}
        return canonical_json(stated | self.content())

    def content(self) -> dict[str, Any]:
        """Where the chains stood, and the signature if there is one, as JSON data."""
        content: dict[str, Any] = {"datasets": {name: asdict(head) for name, head in self.datasets.items()}}
        return content if self.signature is None else content | {"signature": asdict(self.signature)}

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
        named = {}
        for name, head in chains.items():
            known = isinstance(head, dict) and type(head.get("seq")) is int and isinstance(head.get("hash"), str)
            if not known or head["seq"] < 0:
                raise InvalidEntry("a head is a seq (an integer, at least 0) and a hash (text)")
            named[name] = Head(head["seq"], head["hash"])
        return cls(identity, at, named, Signature.read(data.get("signature")), declared)


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
        """The heads with this key's signature, in the place of an earlier one."""
        made = Signature(self.public, self._private.sign(heads.statement().encode()).hex())
        return replace(heads, signature=made)

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public!r})"


def signature_problem(heads: Heads, key: str) -> str | None:
    """Why the signature does not show that the holder of this public key stated the heads; None if it does.

    Raises:
        InvalidEntry: it is not a public key.
    """
    trusted, made = _public(key), heads.signature
    if made is None:
        return "the heads are not signed: take them with `dpselect ledger heads --sign KEY`"
    if not _valid(made.key, made.signature, heads.statement()):
        return "the signature of the heads does not match them: they were edited, or it was"
    if made.key != trusted:
        return "the heads bear the signature of another key: compare it with the public key that you were given"
    return None


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
