"""Heads: one hash per dataset, kept elsewhere, against which a truncated or rewritten ledger is found out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from accounting.ledger import canonical
from accounting.ledger.errors import InvalidEntry
from accounting.ledger.rows import Declared

FORMAT = "dpselect-ledger-heads-1"


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
    """Where every dataset's chain stood at one time. Keep it where the ledger's writers cannot change it, or sign it."""

    ledger_id: str
    at: str
    datasets: dict[str, Head]
    signatures: tuple[Signature, ...] = ()

    def statement(self) -> str:
        """Canonical JSON of all but the signatures: what they are of."""
        chains = {name: {"seq": head.seq, "hash": head.hash} for name, head in self.datasets.items()}
        return canonical.dumps({"format": FORMAT, "ledger_id": self.ledger_id, "at": self.at, "datasets": chains})

    def to_json(self) -> str:
        """One line of canonical JSON."""
        signed = [{"key": one.key, "signature": one.signature} for one in self.signatures]
        return canonical.dumps(canonical.loads(self.statement()) | {"signatures": signed}) if signed else self.statement()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """What `to_json` wrote.

        Raises:
            InvalidEntry: it is something else.
        """
        data = canonical.loads(text)
        chains = data.get("datasets")
        if data.get("format") != FORMAT or not isinstance(chains, dict):
            raise InvalidEntry(f"these are no heads: pass the file that `dpselect ledger heads` wrote ({FORMAT})")
        identity, at = data.get("ledger_id"), data.get("at")
        if not isinstance(identity, str) or not isinstance(at, str):
            raise InvalidEntry("these heads do not say of which ledger they are, and when they were taken: the file was cut")
        return cls(
            identity, at, {name: _head(head) for name, head in chains.items()}, read_signatures(data.get("signatures", []))
        )


def _head(data: object) -> Head:
    if not isinstance(data, dict) or type(data.get("seq")) is not int or not isinstance(data.get("hash"), str):
        raise InvalidEntry("a head is a seq (an integer) and a hash (text)")
    return Head(data["seq"], data["hash"])


def read_signatures(data: object) -> tuple[Signature, ...]:
    """Signatures from JSON data.

    Raises:
        InvalidEntry: they are something else.
    """
    if not isinstance(data, list) or not all(isinstance(one, dict) and set(one) == {"key", "signature"} for one in data):
        raise InvalidEntry("signatures of heads are a list of key and signature: the file was edited")
    if not all(isinstance(text, str) for one in data for text in one.values()):
        raise InvalidEntry("a signature and its key are hexadecimal texts: the file was edited")
    return tuple(Signature(one["key"], one["signature"]) for one in data)


def heads_of(ledger_id: str, at: str, declared: list[Declared]) -> Heads:
    """The heads that the datasets' rows state."""
    return Heads(ledger_id, at, {row.dataset.name: Head(row.seq, row.head) for row in declared})
