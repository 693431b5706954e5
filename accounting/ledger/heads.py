"""Heads: one hash per dataset, kept elsewhere, against which a cut or rewritten ledger is found
out; signed with Ed25519.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, final

from pydantic import Field, model_validator

from accounting.errors import AccountingError
from accounting.frozen import Frozen
from accounting.ledger.errors import InvalidEntry
from accounting.ledger.stored_text import canonical_json
from accounting.strict_json import read_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT = "dpselect-ledger-heads-1"
_PUBLIC = re.compile(r"[0-9a-f]{64}")


@final
class Head(Frozen):
    """How many entries a dataset had, and the hash of the last one (of the declaration, if
    none).
    """

    error_class: ClassVar[type[AccountingError]] = InvalidEntry
    seq: Annotated[int, Field(ge=0, strict=True)]
    hash: str


@final
class Signature(Frozen):
    """Of heads, by an Ed25519 key: its public part and the signature, hexadecimal."""

    error_class: ClassVar[type[AccountingError]] = InvalidEntry
    key: str
    signature: str


@final
class Heads(Frozen):
    """Where every dataset's chain stood at one time. Keep it where the ledger's writers cannot
    change it, or sign it.

    `declared` is how many datasets the ledger had: all that are named, unless some were cut out.
    """

    error_class: ClassVar[type[AccountingError]] = InvalidEntry
    ledger_id: str
    at: str
    datasets: dict[str, Head]
    signature: Signature | None = None
    declared: Annotated[int, Field(strict=True)]

    @model_validator(mode="after")
    def _counts_its_datasets(self) -> Self:
        if self.declared < len(self.datasets):
            raise ValueError("more datasets are named than were declared")
        return self

    def statement(self) -> str:
        """Canonical JSON of all but the signature: what it is of."""
        return canonical_json({"format": FORMAT, **self.model_dump(exclude={"signature"})})

    def to_json(self) -> str:
        """One line of canonical JSON."""
        return canonical_json({"format": FORMAT, **self.model_dump(exclude_none=True)})

    def content(self) -> dict[str, Any]:
        """Where the chains stood, and the signature if there is one, as JSON data."""
        return self.model_dump(include={"datasets", "signature"}, exclude_none=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """What `to_json` wrote.

        Raises:
            InvalidEntry: it is something else.
        """
        data = read_json(text)
        if data.pop("format", None) != FORMAT:
            raise InvalidEntry(
                "this file does not contain ledger heads: pass the one that `dpselect ledger"
                f" heads` wrote ({FORMAT})"
            )
        try:
            return cls.model_validate(data)
        except InvalidEntry as error:
            raise InvalidEntry(
                "the heads were cut or edited, take them anew with `dpselect ledger heads`:"
                f" {error}"
            ) from None


@final
class SigningKey:
    """An Ed25519 private key for heads. Keep it where the ledger's writers cannot read it. No repr,
    log or error shows it.
    """

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
                "this is not an unencrypted Ed25519 private key in PEM: make one with `dpselect"
                " ledger keygen`"
            ) from None
        return cls(found)

    def to_pem(self) -> str:
        """The private key as PEM (PKCS 8), unencrypted: for a file that only its owner can read."""
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        return self._private.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ).decode()

    @cached_property
    def public(self) -> str:
        """The public key, 64 hexadecimal digits: what a verifier is given, by another way than the
        heads.
        """
        return self._private.public_key().public_bytes_raw().hex()

    def sign(self, heads: Heads) -> Heads:
        """The heads with this key's signature, in the place of an earlier one."""
        made = Signature(
            key=self.public, signature=self._private.sign(heads.statement().encode()).hex()
        )
        return heads.model_copy(update={"signature": made})

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public!r})"


def signature_problem(heads: Heads, key: str) -> str | None:
    """Why the signature does not show that the holder of this public key stated the heads; None if
    it does.

    Raises:
        InvalidEntry: it is not a public key.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not isinstance(key, str) or not _PUBLIC.fullmatch(key):
        raise InvalidEntry(
            f"{str(key)[:20]!r} is not a public key: it has 64 hexadecimal digits, as `dpselect"
            " ledger keygen` prints"
        )
    if (made := heads.signature) is None:
        return "the heads are not signed: take them with `dpselect ledger heads --sign KEY`"
    try:
        signer = Ed25519PublicKey.from_public_bytes(bytes.fromhex(made.key))
        signer.verify(bytes.fromhex(made.signature), heads.statement().encode())
    except (ValueError, InvalidSignature):
        return "the signature of the heads does not match them: they were edited, or it was"
    if made.key != key:
        return (
            "the heads bear the signature of another key: compare it with the public key that you"
            " were given"
        )
    return None
