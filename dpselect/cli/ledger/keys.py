"""`dpselect ledger keygen`, and the keys that `heads` and `verify` are given."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from accounting.files import PRIVATE, new_file, read_text
from accounting.ledger import Heads, InvalidEntry, Mirror, Rotation, SigningKey, Trust
from dpselect.cli import options
from dpselect.cli.output import require_targets
from dpselect.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

VARIABLE: Final = "DPSELECT_HEADS_KEY"

Sign = Annotated[
    Path | None, typer.Option("--sign", help=f"Sign with the private key in this file, or in {VARIABLE} (its text).")
]
Trusted = Annotated[
    list[str] | None, typer.Option("--trust", help="Public key that must have signed the heads; may be repeated.")
]
Earlier = Annotated[Path | None, typer.Option("--heads", help="What `dpselect ledger heads` wrote earlier.")]
Kept = Annotated[str | None, typer.Option("--mirror", help="All heads that were kept there: a file or a URL.")]
Rotations = Annotated[
    list[Path] | None,
    typer.Option("--rotation", help="What keygen --rotation wrote: a trusted key's successor; may be repeated."),
]


def keygen(
    output: Annotated[Path, typer.Option("--output", help="New file for the private key; only its owner can read it.")],
    after: Annotated[Path | None, typer.Option("--after", help="Private key that this one follows.")] = None,
    rotation: Annotated[Path | None, typer.Option("--rotation", help="New file: the old key's statement of that.")] = None,
    _debug: options.Debug = False,
) -> None:
    """Make a key that signs heads, and print its public part: give that to whoever verifies, by another way than the heads."""
    if (after is None) != (rotation is None):
        raise InvalidRequest(
            "--after and --rotation go together: the old key, and the file for its statement that this one follows"
        )
    require_targets({"--output": output, "--rotation": rotation}, None)
    key, old = SigningKey.new(), None if after is None else _read_key(after)
    with new_file(output, "--output", mode=PRIVATE, encoding="utf-8") as file:
        file.write(key.to_pem())
    if old is not None and rotation is not None:
        stated = old.hand_over(key.public, datetime.now(UTC).isoformat(timespec="microseconds"))
        with new_file(rotation, "--rotation", encoding="utf-8") as file:
            file.write(stated.to_json() + "\n")
    typer.echo(key.public)


def private(file: Path | None) -> SigningKey | None:
    """The key in a file, or else in the environment; None where there is neither."""
    text = os.environ.get(VARIABLE)
    return _read_key(file) if file is not None else SigningKey.from_pem(text) if text else None


def signed(heads: Heads, file: Path | None) -> Heads:
    """The heads with a signature, if a key is given."""
    key = private(file)
    return heads if key is None else key.sign(heads)


def kept(file: Path | None, mirror: str | None) -> list[Heads] | None:
    """What --heads and --mirror hold; None without them."""
    found = [] if file is None else [Heads.from_json(read_text(file, InvalidEntry))]
    found += [] if mirror is None else Mirror.open(mirror).heads()
    return found if file is not None or mirror is not None else None


def trust(keys: Sequence[str] | None, rotations: Sequence[Path] | None) -> Trust | None:
    """What --trust and --rotation say; None if nothing.

    Raises:
        InvalidRequest: there are rotations and no key that they could start at.
        InvalidEntry: as `Trust`.
    """
    if not keys:
        if rotations:
            raise InvalidRequest("--rotation needs the key that it starts at: give that with --trust")
        return None
    return Trust(keys, [Rotation.from_json(read_text(path, InvalidEntry)) for path in rotations or ()])


def signer_in_words(heads: Sequence[Heads] | None, trusted: Trust | None) -> str | None:
    """What was found out about who signed, for people; None without heads."""
    if heads is None or trusted is not None:
        return None if heads is None else "the heads were held against the trusted keys"
    if not all(one.signatures for one in heads):
        return "the heads are not signed: they are worth what the place is worth where they were kept"
    names = ", ".join(sorted({f"{signature.key[:16]}..." for one in heads for signature in one.signatures}))
    return f"the signature was not checked (it names key {names}): give the public key that you trust with --trust"


def _read_key(path: Path) -> SigningKey:
    return SigningKey.from_pem(read_text(path, InvalidEntry, "the key"))
