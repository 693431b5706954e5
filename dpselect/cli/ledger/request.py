"""What the verbs are asked: which ledger, by the command line on top of the configuration file, and with which keys and heads."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from accounting import Budget, Curve
from accounting.address import masked
from accounting.arguments import Relation
from accounting.curves.base import CURVES
from accounting.files import read_text
from accounting.ledger import Heads, InvalidEntry, SigningKey
from accounting.ledger.stored_text import read_json
from dpselect import InvalidRequest

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


@dataclass(frozen=True)
class LedgerFile:
    """The ledger's part of a file; nothing if there is none."""

    url: str | None = None
    dataset: str | None = None
    budget: Budget | None = None
    relation: Relation = "add_remove"
    unit: str | None = None
    period: tuple[str, ...] = ()
    team: str | None = None
    purpose: str | None = None

    def url_or(self, stated: str | None) -> str:
        """The command line's URL, or the file's."""
        found = stated or self.url
        if found is None:
            raise InvalidRequest("no ledger is named: give --ledger, DPSELECT_LEDGER, or a file with a [ledger] (--config)")
        return found


def read(path: Path | None) -> LedgerFile:
    """From a file, if one is named."""
    if path is None:
        return LedgerFile()
    from dpselect.cli import config  # knows every mechanism, which a ledger does without

    found = config.read(path)
    if found.ledger is None:
        raise InvalidRequest(f"{masked(path)} has no [ledger]: add one with url and dataset")
    stated = dict(found.ledger)
    named = {name: stated[name] for name in ("dataset", "unit", "team", "purpose")} | {"period": tuple(stated["period"] or ())}
    return LedgerFile(url=stated["ledger"], budget=found.budget, relation=found.data.relation, **named)


def in_unit(budget: Budget, order: str | None, mostly: str | None, only: str | None) -> Budget:
    """The same (epsilon, delta), adding up what --order, --mostly or --only says; at most one of them."""
    if sum(asked is not None for asked in (order, mostly, only)) > 1:
        raise InvalidRequest("--order, --mostly and --only each say what charges are added up in: give one of them")
    stated = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    if order is not None:
        number = order.replace(".", "", 1).isdigit()
        return Budget(**stated, order=float(order) if number else order)  # Budget says what it takes
    if only is not None:
        return Budget(**stated, release=_curve_of(only))
    if mostly is None:
        return budget
    if budget.form != "approximate":
        raise InvalidRequest("--mostly chooses how (epsilon, delta) is added up: give --epsilon and --delta")
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
        raise InvalidRequest(f"--mode={text[:20]!r} states no permissions: give three octal digits, 640 for example")
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
