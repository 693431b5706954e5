"""Passwords in what messages show of paths and addresses."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest

from accounting.address import Address, hide_password, hide_passwords, mask, reveal
from accounting.errors import InvalidArgument
from accounting.files import read_text, require_new

SECRETS = [
    "postgresql://ada:{}@db.example/ledger",
    "postgresql+psycopg://ada:{}@db.example:5432/ledger?sslmode=require",
    "/home/ada/postgresql:/ada:{}@db.example/ledger",
    "postgresql://:{}@db.example/ledger",
    "postgresql://db.example/ledger?user=ada&password={}",
    "postgresql://db.example/ledger?sslpassword={}&sslmode=require",
    "host=db.example password={} dbname=ledger",
    "host=db.example password = '{} and more' dbname=ledger",
    "https://bucket.example/log.csv?X-Amz-Signature={}",
    "s3://bucket/log.csv?token={}",
    "sqlite:////data/token%3D{}/privacy.db",
    "md:db?motherduck_token={}",
    "s3://bucket/log.csv?s3_secret_access_key={}",
    "DefaultEndpointsProtocol=https;AccountKey={}",
]


@pytest.mark.parametrize("form", SECRETS)
@pytest.mark.parametrize("password", ["hunter2", "hun:ter2", "hun@ter2", "hunter2%40"])
def test_no_form_of_an_address_shows_its_password(form: str, password: str) -> None:
    """Whatever form an address has and whichever letters its password, neither the text nor its
    path shows any of it.
    """
    address = form.format(password)
    for shown in (hide_passwords(address), mask(address), mask(Path(address))):
        assert "***" in shown
        assert not any(part in shown for part in ("hunter", "ter2", "more'"))


@pytest.mark.parametrize(
    "plain",
    [
        "log.csv",
        "sqlite:////data/privacy.db",
        "postgresql://ada@db.example/ledger",
        "postgresql://db.example:5432/ledger",
        "C:/a/b",
    ],
)
def test_an_address_without_a_password_is_shown_as_it_is(plain: str) -> None:
    """Nothing is left out of what holds no password: users, hosts, ports and paths."""
    assert mask(plain) == repr(plain)


def test_a_long_address_is_cut_short() -> None:
    """At most 200 characters are shown, and the password is taken out before they are cut."""
    shown = mask("postgresql://" + "a" * 300 + ":hunter2@host")
    assert len(shown) <= 203
    assert "hunter2" not in shown


def test_files_name_themselves_without_a_password(tmp_path: Path) -> None:
    """Where a file is expected and an address is given, the refusal to read or write it shows no
    password.
    """
    place = tmp_path / "postgresql:" / "ada:hunter2@db" / "table"
    with pytest.raises(InvalidArgument) as read:
        read_text(place, InvalidArgument)
    with pytest.raises(Exception, match="folder does not exist") as written:
        require_new(place)
    assert "hunter2" not in str(read.value) + str(written.value)


def test_a_login_without_its_host_shows_no_password() -> None:
    """An address that ends within its password shows none of it; a port is no password."""
    assert hide_passwords("postgresql://ada:hunter2") == "postgresql://ada:***"
    assert hide_passwords("postgresql://db.example:5432") == "postgresql://db.example:5432"


def test_address_shows_its_password_only_to_reveal() -> None:
    """Printed, compared, written as JSON, pickled or copied it has none; one without a password
    stays the text that it is.
    """
    url = "postgresql://ada:hunter2@db.example/ledger"
    address = hide_password(url)
    assert isinstance(address, Address)
    assert hide_password(address) is address
    assert reveal(address) == url
    assert address == hide_passwords(url)
    shown = [
        str(address),
        repr(address),
        f"{address}",
        address + "",
        json.dumps(address),
        str(pickle.dumps(address)),
    ]
    shown += [pickle.loads(pickle.dumps(address)), copy.deepcopy(address), str([address])]
    assert not any("hunter2" in one for one in shown)
    assert type(hide_password("sqlite:///privacy.db")) is str
    assert reveal("sqlite:///privacy.db") == "sqlite:///privacy.db"
