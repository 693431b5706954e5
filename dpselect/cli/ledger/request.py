"""What the verbs are asked: which ledger, by the command line on top of the configuration file, and with which keys and heads."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from accounting import Budget, Curve
from accounting.address import masked
from accounting.curves.base import CURVES
from accounting.files import read_text
from accounting.ledger import Heads, InvalidEntry, SigningKey
from accounting.ledger.stored_text import read_json
from dpselect.errors import InvalidRequest
from dpselect.spec.ledger_spec import InitSpec

_KEY: Final = "DPSELECT_HEADS_KEY"

_LEDGER = Option("--ledger", envvar="DPSELECT_LEDGER", help="sqlite:///FILE or postgresql://USER@HOST/NAME.", show_envvar=True)
Url = Annotated[str, _LEDGER]
OptionalUrl = Annotated[str | None, _LEDGER]
Dataset = Annotated[str, Option("--dataset", help="Name of a dataset that the ledger declares.")]
Key = Annotated[str, Option("--key", help="The charge's idempotency key.")]
Output = Annotated[Path | None, Option("--output", help="New file to write; standard output if left out.")]
Mode = Annotated[str, Option("--mode", metavar="OCTAL", help="Permissions of the new file; 600: its owner alone.")]
Config = Annotated[
    Path | None, Option("--config", help="TOML file with [ledger], [budget] and [data]; options override what it says.")
]
Sign = Annotated[Path | None, Option("--sign", help=f"Sign with the private key in this file, or in {_KEY} (its text).")]
Trusted = Annotated[str | None, Option("--trust", help="Public key that must have signed the heads.")]
Earlier = Annotated[Path | None, Option("--heads", help="What `dpselect ledger heads` wrote earlier.")]


def url_or(stated: str | None, config: Path | None) -> str:
    """The command line's URL, or a file's."""
    if stated is not None:
        return stated
    if config is None:
        raise InvalidRequest("no ledger is named: give --ledger, DPSELECT_LEDGER, or a file with a [ledger] (--config)")
    from dpselect.spec import toml_file  # knows every mechanism, which a ledger does without

    found = toml_file.read(config).ledger
    if found is None:
        raise InvalidRequest(f"{masked(config)} has no [ledger]: add one with url and dataset")
    return str(dict(found)["ledger"])


def in_unit(spec: InitSpec) -> Budget:
    """The (epsilon, delta) that is stated, adding up what order=, mostly= or only= says."""
    budget, order, mostly, only = spec.budget, spec.order, spec.mostly, spec.only
    stated = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    if order is not None:
        number = order.replace(".", "", 1).isdigit()
        return Budget(**stated, order=float(order) if number else order)  # Budget says what it takes
    if only is not None:
        return Budget(**stated, release=_curve_of(only))
    if mostly is None:
        return budget
    if budget.form != "approximate":
        raise InvalidRequest("mostly= chooses how (epsilon, delta) is added up: give epsilon= and delta=")
    return Budget.for_workload(epsilon=budget.limit, delta=budget.delta, curve=_curve_of(mostly))


def _curve_of(argument: str) -> Curve:
    """The curve that JSON, or the file of an @FILE, states: its own, or that of a mechanism."""
    text = text_of(argument)
    try:
        kind = read_json(text).get("kind")
    except InvalidEntry as error:
        raise InvalidRequest(f"{masked(argument)} states no curve ({error}): write what Curve.to_json gives, or @FILE") from None
    if kind in CURVES.members():
        return Curve.from_json(text)
    from dpselect import Mechanism  # knows every mechanism, which a ledger does without

    return Mechanism.from_json(text).curve


def mode(text: str) -> int:
    """Permissions that --mode states."""
    if not re.fullmatch("0?[0-7]{3}", text):
        raise InvalidRequest(f"mode={text[:20]!r} states no permissions: give three octal digits, 640 for example")
    return int(text, 8)


def text_of(argument: str) -> str:
    """An argument, or what the file of an @FILE holds."""
    return read_text(Path(argument[1:]), InvalidEntry) if argument.startswith("@") else argument


def private(file: Path | None) -> SigningKey | None:
    """The key in a file, or else in the environment; None where there is neither."""
    if file is not None:
        return SigningKey.from_pem(read_text(file, InvalidEntry, "the key"))
    text = os.environ.get(_KEY)
    return SigningKey.from_pem(text) if text else None


def kept(file: Path | None) -> Heads | None:
    """What --heads holds; None without it."""
    return None if file is None else Heads.from_json(read_text(file, InvalidEntry))
