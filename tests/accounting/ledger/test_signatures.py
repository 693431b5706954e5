"""Signed heads: what an outsider with a public key can tell, and what a forger cannot make him
believe.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from intruders import intruder
from sqlalchemy import delete, select, text, update

import accounting as acc
from accounting.ledger import (
    Head,
    Heads,
    ImportRefused,
    InvalidEntry,
    Ledger,
    Signature,
    SigningKey,
)
from accounting.ledger.heads import signature_problem
from accounting.ledger.store import datasets, entries

KEY, THIEF = (SigningKey(Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32)) for n in (1, 2))
TAKEN = {"clicks": Head(seq=7, hash="a" * 64)}
HEADS = Heads(ledger_id="l" * 32, at="2026-03-01T00:00:00.000000+00:00", datasets=TAKEN, declared=1)
LATER = "2026-04-01T00:00:00.000000+00:00"
SIGNED = KEY.sign(HEADS)


def edit(heads: Heads, **changes: object) -> Heads:
    """The heads with a part replaced."""
    return heads.model_copy(update=changes)


def believed(heads: Heads, key: SigningKey) -> bool:
    """Whether somebody who trusts this key believes the heads, after a round through their file."""
    return signature_problem(Heads.from_json(heads.to_json()), key.public) is None


def test_signed_heads_are_verified(ledger: Ledger) -> None:
    """Sound heads of a trusted key pass, and say how many entries they cover; unsigned ones and a
    stranger's are problems.
    """
    ledger.charge("clicks", acc.PureDP(epsilon=0.1), relation="add_remove")
    plain = ledger.heads()
    heads = Heads.from_json(KEY.sign(plain).to_json())
    ledger.charge("clicks", acc.PureDP(epsilon=0.1), relation="add_remove")
    found = ledger.verify(heads, KEY.public)
    assert (found.ok, found.entries, found.covered) == (True, 2, 1)
    for stated, key in ((plain, KEY), (heads, THIEF)):
        assert {one.kind for one in ledger.verify(stated, key.public).problems} == {"signature"}
    other = KEY.sign(edit(plain, ledger_id="f" * 32))
    assert {one.kind for one in ledger.verify(other, KEY.public).problems} == {"identity"}
    assert ledger.verify().covered is None
    with pytest.raises(InvalidEntry, match="Give the heads"):
        ledger.verify(key=KEY.public)


@pytest.mark.parametrize(
    "edited",
    [
        edit(SIGNED, ledger_id="f" * 32),
        edit(SIGNED, at=LATER),
        edit(SIGNED, datasets={}),
        edit(SIGNED, datasets={"clicks": Head(seq=6, hash="a" * 64)}),
        edit(SIGNED, datasets={"clicks": Head(seq=7, hash="b" * 64)}),
        edit(SIGNED, signature=None),
        edit(
            SIGNED,
            signature=Signature(key=KEY.public, signature=THIEF.sign(HEADS).signature.signature),
        ),  # type: ignore[union-attr]
        edit(SIGNED, signature=Signature(key=THIEF.public, signature=SIGNED.signature.signature)),  # type: ignore[union-attr]
        THIEF.sign(HEADS),
        THIEF.sign(SIGNED),
        edit(SIGNED, signature=Signature(key=KEY.public, signature="00" * 64)),
        edit(SIGNED, signature=Signature(key=KEY.public, signature="no hexadecimal")),
    ],
)
def test_no_edit_is_believed(edited: Heads) -> None:
    """Every part of the heads is signed, and a signature is of one key."""
    assert believed(SIGNED, KEY)
    assert not believed(edited, KEY)


def test_keys_are_ed25519() -> None:
    """The public key and a signature are those of RFC 8032 (test 1, whose message is empty); PEM
    goes there and back.
    """
    private = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    key = SigningKey(Ed25519PrivateKey.from_private_bytes(private))
    assert key.public == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    again = SigningKey.from_pem(key.to_pem())
    assert again.sign(HEADS) == key.sign(HEADS)
    assert private.hex() not in repr(again) + str(vars(again))
    assert SigningKey.new().public != SigningKey.new().public


X25519 = (
    X25519PrivateKey.generate()
    .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    .decode()
)


@pytest.mark.parametrize("text", ["", "key", KEY.to_pem()[:60], X25519, "\0"])
def test_invalid_signing_key_is_refused_without_repeating_it(text: str) -> None:
    """Another kind of key, or a file that was cut, is refused in words that do not repeat it."""
    with pytest.raises(InvalidEntry, match="not an unencrypted Ed25519") as refused:
        SigningKey.from_pem(text)
    assert refused.value.__cause__ is None
    with pytest.raises(InvalidEntry):
        signature_problem(SIGNED, text[:64])


SOUND = HEADS.to_json()
UNREADABLE = [
    *("", "[]", "{}", '{"format":"dpselect-ledger-heads-1"}', "NaN", "[" * 10**5),
    SOUND.replace('{"at"', '{"at":"","at"'),
    SOUND.replace('"declared":1', '"declared":0'),
    SOUND.replace('"seq":7', '"seq":-1'),
    *(
        SOUND.replace('"datasets"', f'"signature":{one},"datasets"')
        for one in ("{}", "[]", "1", '{"key": "a"}')
    ),
]


@pytest.mark.parametrize("text", UNREADABLE, ids=[text[:30] for text in UNREADABLE])
def test_heads_are_read_with_care(text: str) -> None:
    """What is no exported head, or states no signature, is an InvalidEntry."""
    assert Heads.from_json(SOUND) == HEADS
    with pytest.raises(InvalidEntry):
        Heads.from_json(text)


TENTH = acc.PureDP(epsilon=0.1)


def cut(url: str, seq: int) -> None:
    """Take the ledger back to an entry, as a restored copy is: sound in itself."""
    with intruder(url) as connection:
        connection.execute(delete(entries).where(entries.c.seq > seq))
        last = connection.execute(select(entries.c.hash).where(entries.c.seq == seq)).scalar_one()
        connection.execute(update(datasets).values(seq=seq, head=last))
        connection.execute(text(f"UPDATE dpledger_totals SET main = {seq} * 100000000000"))


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_signed_export_comes_back(ledger: Ledger, tmp_path: Path) -> None:
    """Import checks who signed what it has re-derived; an export that was edited or that somebody
    else signed is refused.
    """
    ledger.charge("clicks", TENTH, relation="add_remove", label="daily")
    whole, plain = tmp_path / "ledger.jsonl", tmp_path / "plain.jsonl"
    heads = ledger.export(whole, KEY)
    ledger.export(plain)
    later = tmp_path / "later.jsonl"
    later.write_text(whole.read_text().replace(heads.at, LATER))
    attempts = [(whole, THIEF.public, "another key"), (plain, KEY.public, "not signed")]
    attempts += [(later, KEY.public, "does not match")]
    for number, (file, key, why) in enumerate(attempts):
        with Ledger.open(f"sqlite:///{tmp_path / f'{number}.db'}") as other:
            with pytest.raises(ImportRefused, match=why):
                other.import_(file, key)
            assert other.datasets() == []
    with Ledger.open(f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        assert copy.import_(whole, KEY.public) == 1
        assert copy.verify(heads, KEY.public).ok


def test_kept_heads_detect_a_rolled_back_ledger(ledger: Ledger, url: str) -> None:
    """A copy that is one entry older is convicted by heads kept elsewhere alone, and stays so when
    it has grown past them.
    """
    for _ in range(3):
        ledger.charge("clicks", TENTH, relation="add_remove")
    heads = KEY.sign(ledger.heads())
    cut(url, 2)
    assert ledger.verify().ok, "without heads nothing shows"
    assert {(one.kind, one.seq) for one in ledger.verify(heads, KEY.public).problems} == {
        ("head", 3)
    }
    for _ in range(3):
        ledger.charge("clicks", TENTH, relation="add_remove", label="made up")
    assert {(one.kind, one.seq) for one in ledger.verify(heads, KEY.public).problems} == {
        ("head", 3)
    }
