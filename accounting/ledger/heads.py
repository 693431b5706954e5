"""Chain heads: one hash per dataset, kept elsewhere to detect a cut or rewritten ledger.

Heads may be signed with Ed25519.
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
    """A chain head: a dataset's number of entries, and the hash of the last one.

    Without entries it is the hash of the declaration.
    """

    error_class: ClassVar[type[AccountingError]] = InvalidEntry
    seq: Annotated[int, Field(ge=0, strict=True)]
    hash: str


@final
class Signature(Frozen):
    """A signature of heads by an Ed25519 key: its public part and the signature, hexadecimal."""

    error_class: ClassVar[type[AccountingError]] = InvalidEntry
    key: str
    signature: str


@final
class Heads(Frozen):
    """The chain heads of all datasets at one time.

    Keep them where the ledger's writers cannot change them, or sign them.

    `declared` is the number of datasets that the ledger had. It is the number of those named,
    unless some were cut out.
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
        """Return the signed text: canonical JSON of everything but the signature."""
        return canonical_json({"format": FORMAT, **self.model_dump(exclude={"signature"})})

    def to_json(self) -> str:
        """Return one line of canonical JSON."""
        return canonical_json({"format": FORMAT, **self.model_dump(exclude_none=True)})

    def content(self) -> dict[str, Any]:
        """Return the chain heads, and the signature if there is one, as JSON data."""
        return self.model_dump(include={"datasets", "signature"}, exclude_none=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the heads that `to_json` wrote.

        Raises:
            InvalidEntry: the text is something else.
        """
        data = read_json(text)
        if data.pop("format", None) != FORMAT:
            raise InvalidEntry(
                "this file does not contain chain heads. Pass the file that `dpselect ledger"
                f" heads` wrote ({FORMAT})"
            )
        try:
            return cls.model_validate(data)
        except InvalidEntry as error:
            raise InvalidEntry(
                f"the chain heads were cut or edited ({error}). Take them anew with `dpselect"
                " ledger heads`"
            ) from None


@final
class SigningKey:
    """An Ed25519 private key for heads.

    Keep it where the ledger's writers cannot read it. No repr, log or error shows it.
    """

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def new(cls) -> Self:
        """Return a fresh key, from the operating system's entropy."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, text: str) -> Self:
        """Return the key that `to_pem`, or `openssl genpkey -algorithm ed25519`, wrote.

        Raises:
            InvalidEntry: the text is not an unencrypted Ed25519 private key.
        """
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(text.encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidEntry(
                "this is not an unencrypted Ed25519 private key in PEM. Make one with"
                " `dpselect ledger keygen`"
            ) from None
        return cls(key)

    def to_pem(self) -> str:
        """Return the private key as unencrypted PEM (PKCS 8), for a private file."""
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
        """The public key, 64 hexadecimal digits.

        Give it to verifiers by another way than the heads.
        """
        return self._private.public_key().public_bytes_raw().hex()

    def sign(self, heads: Heads) -> Heads:
        """Return the heads with this key's signature, which replaces an earlier one."""
        signature = Signature(
            key=self.public, signature=self._private.sign(heads.statement().encode()).hex()
        )
        return heads.model_copy(update={"signature": signature})

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public!r})"


def signature_problem(heads: Heads, key: str) -> str | None:
    """Return why the signature does not show that the key's holder stated the heads, or None.

    Raises:
        InvalidEntry: key is not a public key.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not isinstance(key, str) or not _PUBLIC.fullmatch(key):
        raise InvalidEntry(
            f"{str(key)[:20]!r} is not a public key. Pass the 64 hexadecimal digits that"
            " `dpselect ledger keygen` prints"
        )
    if (signature := heads.signature) is None:
        return "the chain heads are not signed. Take them with `dpselect ledger heads --sign KEY`"
    try:
        signer = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature.key))
        signer.verify(bytes.fromhex(signature.signature), heads.statement().encode())
    except (ValueError, InvalidSignature):
        return "the signature of the chain heads does not match them, so they or it were edited"
    if signature.key != key:
        return (
            "the chain heads are signed with another key. Compare it with the public key that"
            " you were given"
        )
    return None
