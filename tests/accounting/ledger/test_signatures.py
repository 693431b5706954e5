"""Signed heads: what an outsider with a public key can tell, and what a forger cannot make him believe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from intruders import intruder, resum
from sqlalchemy import create_engine, delete, select, text, update
from sqlalchemy.exc import DBAPIError

import accounting as acc
from accounting.ledger import (
    Head,
    Heads,
    ImportRefused,
    InvalidEntry,
    Ledger,
    Mirror,
    MirrorConflict,
    Rotation,
    Signature,
    SigningKey,
    Trust,
)
from accounting.ledger.store import datasets, entries

KEY, NEXT, THIEF = (SigningKey(Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32)) for n in (1, 2, 3))
HEADS = Heads("l" * 32, "2026-03-01T00:00:00.000000+00:00", {"clicks": Head(7, "a" * 64)})
EARLIER, LATER = "2026-02-01T00:00:00.000000+00:00", "2026-04-01T00:00:00.000000+00:00"
SIGNED = KEY.sign(HEADS)


def believed(heads: Heads, *keys: SigningKey, rotations: tuple[Rotation, ...] = ()) -> bool:
    """Whether somebody who trusts these keys believes the heads, after a round through their file."""
    trust = Trust([key.public for key in keys], [Rotation.from_json(one.to_json()) for one in rotations])
    return not list(trust.problems(Heads.from_json(heads.to_json())))


def test_signed_heads_are_verified(ledger: Ledger) -> None:
    """Sound heads of a trusted key pass, and say how many entries they cover; unsigned ones and a stranger's are problems."""
    ledger.charge("clicks", acc.PureDP(epsilon=0.1), relation="add_remove")
    plain = ledger.heads()
    heads = Heads.from_json(KEY.sign(plain).to_json())
    ledger.charge("clicks", acc.PureDP(epsilon=0.1), relation="add_remove")
    found = ledger.verify(heads, Trust([KEY.public]))
    assert (found.ok, found.entries, found.covered) == (True, 2, 1)
    for stated, trust in ((plain, KEY), (heads, THIEF)):
        assert {one.kind for one in ledger.verify(stated, Trust([trust.public])).problems} == {"signature"}
    other = KEY.sign(replace(plain, ledger_id="f" * 32))
    assert {one.kind for one in ledger.verify(other, Trust([KEY.public])).problems} == {"identity"}
    assert ledger.verify().covered is None
    with pytest.raises(InvalidEntry, match="give the heads"):
        ledger.verify(trust=Trust([KEY.public]))


@pytest.mark.parametrize(
    "edited",
    [
        replace(SIGNED, ledger_id="f" * 32),
        replace(SIGNED, at=LATER),
        replace(SIGNED, datasets={}),
        replace(SIGNED, datasets={"clicks": Head(6, "a" * 64)}),
        replace(SIGNED, datasets={"clicks": Head(7, "b" * 64)}),
        replace(SIGNED, signatures=()),
        replace(SIGNED, signatures=(Signature(KEY.public, THIEF.sign(HEADS).signatures[0].signature),)),
        replace(SIGNED, signatures=(Signature(THIEF.public, SIGNED.signatures[0].signature),)),
        replace(SIGNED, signatures=(Signature(KEY.public, "00" * 64),)),
        replace(SIGNED, signatures=(Signature(KEY.public, "no hexadecimal"),)),
        replace(SIGNED, signatures=(*SIGNED.signatures, Signature(KEY.public, "00" * 64))),
    ],
)
def test_no_edit_is_believed(edited: Heads) -> None:
    """Every part of the heads is signed, and a signature is of one key."""
    assert believed(SIGNED, KEY)
    assert not believed(edited, KEY)


def test_several_may_sign() -> None:
    """Heads with two sound signatures are believed by whoever trusts either key."""
    both = NEXT.sign(SIGNED)
    assert believed(both, KEY)
    assert believed(both, NEXT)
    assert not believed(both, THIEF)


def test_a_key_is_followed_by_another() -> None:
    """After a rotation the new key is believed on the old one's word, and the old one no longer for what is dated later."""
    first, second = KEY.hand_over(NEXT.public, EARLIER), NEXT.hand_over(THIEF.public, LATER)
    assert believed(NEXT.sign(HEADS), KEY, rotations=(first,))
    assert not believed(NEXT.sign(HEADS), KEY)
    assert not believed(SIGNED, KEY, rotations=(first,))
    assert not believed(SIGNED, KEY, rotations=(KEY.hand_over(NEXT.public, HEADS.at),))  # from that moment on
    assert believed(SIGNED, KEY, rotations=(KEY.hand_over(NEXT.public, LATER),))
    assert believed(THIEF.sign(HEADS), KEY, rotations=(second, first))


@pytest.mark.parametrize(
    ("rotations", "said"),
    [
        ([replace(THIEF.hand_over(THIEF.public, EARLIER), old=KEY.public)], "forged"),
        ([replace(KEY.hand_over(NEXT.public, EARLIER), new=THIEF.public)], "forged"),
        ([replace(KEY.hand_over(NEXT.public, EARLIER), at=LATER)], "forged"),
        ([NEXT.hand_over(THIEF.public, EARLIER)], "not trusted"),
        ([KEY.hand_over(NEXT.public, EARLIER), KEY.hand_over(THIEF.public, EARLIER)], "two successors"),
    ],
)
def test_no_forged_rotation_is_followed(rotations: list[Rotation], said: str) -> None:
    """A rotation is the old key's own, starts at a trusted key, and is the only one of that key."""
    with pytest.raises(InvalidEntry, match=said):
        Trust([KEY.public], rotations)


def test_a_signature_is_of_one_kind_of_statement() -> None:
    """A signed rotation is no signature of heads: each statement names its format."""
    stolen = KEY.hand_over(NEXT.public, EARLIER).signature
    assert not believed(replace(HEADS, signatures=(Signature(KEY.public, stolen),)), KEY)


def test_keys_are_ed25519() -> None:
    """The public key and a signature are those of RFC 8032 (test 1, whose message is empty); PEM goes there and back."""
    private = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    key = SigningKey(Ed25519PrivateKey.from_private_bytes(private))
    assert key.public == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    again = SigningKey.from_pem(key.to_pem())
    assert again.sign(HEADS) == key.sign(HEADS)
    assert private.hex() not in repr(again) + str(vars(again))
    assert SigningKey.new().public != SigningKey.new().public


X25519 = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize("text", ["", "key", KEY.to_pem()[:60], X25519, "\0"])
def test_what_is_no_key_is_refused(text: str) -> None:
    """Another kind of key, or a file that was cut, is refused in words that do not repeat it."""
    with pytest.raises(InvalidEntry, match="not an unencrypted Ed25519") as refused:
        SigningKey.from_pem(text)
    assert refused.value.__cause__ is None
    with pytest.raises(InvalidEntry):
        Trust([text[:64]])


@pytest.mark.parametrize("text", ["{}", KEY.hand_over(NEXT.public, LATER).to_json().replace(NEXT.public, "x"), SIGNED.to_json()])
def test_what_is_no_rotation_is_refused(text: str) -> None:
    """A file that is no rotation, or was edited into none, is refused."""
    with pytest.raises(InvalidEntry):
        Rotation.from_json(text)


@pytest.mark.parametrize("signatures", ["{}", "[1]", '[{"key": "a"}]', '[{"key": 1, "signature": "b"}]'])
def test_signatures_are_read_with_care(signatures: str) -> None:
    """Signatures that are none are refused when the heads are read."""
    with pytest.raises(InvalidEntry):
        Heads.from_json(HEADS.to_json().replace('"datasets"', f'"signatures":{signatures},"datasets"'))


def test_trust_needs_a_key() -> None:
    """To trust nobody is no check."""
    with pytest.raises(InvalidEntry, match="no key is trusted"):
        Trust([])


TENTH = acc.PureDP(epsilon=0.1)


@pytest.fixture(params=["file", "database"])
def target(request: pytest.FixtureRequest, tmp_path: Path, url: str) -> str:
    """Where a mirror is kept; a PostgreSQL ledger's beside a database of the same server."""
    if request.param == "file":
        return str(tmp_path / "mirror.jsonl")
    return f"sqlite:///{tmp_path / 'mirror.db'}" if url.startswith("sqlite") else str(request.getfixturevalue("postgres_url"))


def cut(url: str, seq: int) -> None:
    """Take the ledger back to an entry, as a restored copy is: sound in itself."""
    with intruder(url) as connection:
        connection.execute(delete(entries).where(entries.c.seq > seq))
        last = connection.execute(select(entries.c.hash).where(entries.c.seq == seq)).scalar_one()
        connection.execute(update(datasets).values(seq=seq, head=last))
        connection.execute(text(f"UPDATE dpledger_totals SET main = {seq} * 100000000000"))
        resum(connection)


def test_a_mirror_notices_a_ledger_that_went_back(ledger: Ledger, url: str, target: str) -> None:
    """It keeps every head; a ledger that was cut is refused, and stays convicted when it has grown past the last."""
    mirror = Mirror.open(target)
    for _ in range(3):
        ledger.charge("clicks", TENTH, relation="add_remove")
        mirror.keep(lambda: KEY.sign(ledger.heads()))
    kept, trust = Mirror.open(target).heads(), Trust([KEY.public])
    assert [heads.datasets["clicks"].seq for heads in kept] == [1, 2, 3]
    assert (ledger.verify(kept, trust).ok, ledger.verify(kept).covered) == (True, 3)
    assert {one.kind for one in ledger.verify([*kept, ledger.heads()], trust).problems} == {"signature"}
    cut(url, 1)
    assert ledger.verify().ok, "without heads nothing shows"
    with pytest.raises(MirrorConflict, match="has seen entry 3"):
        mirror.keep(ledger.heads)
    for _ in range(3):
        ledger.charge("clicks", TENTH, relation="add_remove", label="made up")
    assert {(one.kind, one.seq) for one in ledger.verify(kept).problems} == {("head", 2), ("head", 3)}
    assert len(mirror.heads()) == 3


def test_a_mirror_belongs_to_one_ledger_and_is_not_edited(ledger: Ledger, tmp_path: Path, postgres_url: str) -> None:
    """Another ledger's heads are refused; the database refuses to change what it keeps; an empty one vouches for nothing."""
    for url in (f"sqlite:///{tmp_path / 'mirror.db'}", postgres_url):
        mirror = Mirror.open(url)
        with pytest.raises(InvalidEntry, match="no mirror"):
            mirror.heads()
        mirror.keep(ledger.heads)
        with Ledger.open(f"sqlite:///{tmp_path / 'other.db'}") as other, pytest.raises(MirrorConflict, match="another ledger"):
            mirror.keep(other.heads)
        for statement in ("UPDATE dpledger_mirror SET heads = ''", "DELETE FROM dpledger_mirror"):
            engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
            with pytest.raises(DBAPIError, match="append-only"), engine.begin() as connection:
                connection.execute(text(statement))
            engine.dispose()
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidEntry, match="holds no heads"):
        Mirror.open(tmp_path / "empty").heads()
    (tmp_path / "edited").write_text(HEADS.to_json()[:50] + "\n")
    with pytest.raises(InvalidEntry, match="line 1 of the mirror"):
        Mirror.open(tmp_path / "edited").heads()


def test_a_mirror_notices_a_ledger_of_the_same_length(tmp_path: Path) -> None:
    """As many entries with another hash are another past."""
    mirror = Mirror.open(tmp_path / "mirror.jsonl")
    mirror.keep(lambda: HEADS)
    name, head = next(iter(HEADS.datasets.items()))
    rewritten = replace(HEADS, datasets={**HEADS.datasets, name: replace(head, hash="0" * 64)})
    with pytest.raises(MirrorConflict, match="rewritten"):
        mirror.keep(lambda: rewritten)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_mirror_survives_a_crash_in_its_last_line(ledger: Ledger, tmp_path: Path) -> None:
    """What was cut short was never kept and is written over; a line without its end was kept; nothing is written onto either."""
    path = tmp_path / "mirror.jsonl"
    mirror = Mirror.open(path)
    kept = [mirror.keep(ledger.heads) for _ in range(2)]
    whole = path.read_bytes()
    for cut, left in ((40, kept[:1]), (1, kept)):
        path.write_bytes(whole[:-cut])
        assert mirror.heads() == left
        new = mirror.keep(ledger.heads)
        assert mirror.heads() == [*left, new]
        assert path.read_bytes().endswith(new.to_json().encode() + b"\n")


@pytest.mark.parametrize(
    "at", ["22.11.2026", "tomorrow", "", "9999", "2026-11-22", "2026-11-22T10:00:00", "9999-12-31T23:59:59-12:00"]
)
def test_a_rotation_is_dated(at: str) -> None:
    """What is compared as text must be a time with its offset: any other text would revoke nothing."""
    with pytest.raises(InvalidEntry, match="ISO 8601"):
        KEY.hand_over(NEXT.public, at)
    forged = replace(KEY.hand_over(NEXT.public, EARLIER), at=at)
    with pytest.raises(InvalidEntry):
        Trust([KEY.public], [forged])
    with pytest.raises(InvalidEntry):
        type(forged).from_json(forged.to_json())


def test_a_rotation_in_another_zone_is_the_same_moment() -> None:
    """An offset is turned into UTC: heads that were taken later by the clock of UTC are not the old key's to sign."""
    rotation = KEY.hand_over(NEXT.public, "2026-02-28T23:30:00-02:00")
    assert rotation.at == "2026-03-01T01:30:00.000000+00:00"
    early, late = (replace(HEADS, at=f"2026-03-01T0{hour}:00:00.000000+00:00", signatures=()) for hour in (1, 2))
    trust = Trust([KEY.public], [rotation])
    assert list(trust.problems(KEY.sign(early))) == []
    assert "replaced before" in " ".join(trust.problems(KEY.sign(late)))


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_signed_export_comes_back(ledger: Ledger, tmp_path: Path) -> None:
    """Import checks who signed what it has re-derived; an export that was edited or that somebody else signed is refused."""
    ledger.charge("clicks", TENTH, relation="add_remove", label="daily")
    whole, plain = tmp_path / "ledger.jsonl", tmp_path / "plain.jsonl"
    heads = ledger.export(whole, KEY)
    ledger.export(plain)
    later = tmp_path / "later.jsonl"
    later.write_text(whole.read_text().replace(heads.at, LATER))
    attempts = [(whole, Trust([THIEF.public]), "no trusted key"), (plain, Trust([KEY.public]), "not signed")]
    attempts += [(later, Trust([KEY.public]), "does not match")]
    for number, (file, trust, why) in enumerate(attempts):
        with Ledger.open(f"sqlite:///{tmp_path / f'{number}.db'}") as other:
            with pytest.raises(ImportRefused, match=why):
                other.import_(file, trust)
            assert other.datasets() == []
    with Ledger.open(f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        assert copy.import_(whole, Trust([KEY.public])) == 1
        assert copy.verify(heads, Trust([KEY.public])).ok
        copy.export(tmp_path / "again.jsonl", KEY)
    first, again = (file.read_text().splitlines()[1:-1] for file in (whole, tmp_path / "again.jsonl"))
    assert first == again


def test_a_copy_that_is_one_entry_older_than_its_heads_is_found(tmp_path: Path) -> None:
    """All that is inside of it holds: the heads alone tell that the last entry is missing."""
    older = tmp_path / "older.db"
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove")
        ledger.charge("visits", acc.PureDP(epsilon=0.1), relation="add_remove")
        older.write_bytes((tmp_path / "ledger.db").read_bytes())
        ledger.charge("visits", acc.PureDP(epsilon=0.1), relation="add_remove")
        heads = ledger.heads()
    with acc.Ledger.open(f"sqlite:///{older}") as ledger:
        assert ledger.verify().ok
        assert [problem.kind for problem in ledger.verify(heads).problems] == ["head"]
