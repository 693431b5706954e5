"""How a command spells the names that messages and help use: `max_items_per_user=` is `--max-items-per-user` here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Option(NamedTuple):
    """An option as it is typed, whether it takes no value, and what turns it off, where something does."""

    typed: str
    is_flag: bool = False
    off: str = ""


# `name=`, perhaps with a value; not inside a call, which is Python.
_FIELD = re.compile(r"\w\([^()]*\)|(?<![\w.-])(?:[A-Z]\w+\.)?([a-z_]+)=(True\b|False\b|[^\s,.;:)]?)")


def fields_of(text: str) -> list[str]:
    """The fields that `text` names as `name=`, each once."""
    return list(dict.fromkeys(found[1] for found in _FIELD.finditer(text) if found[1]))


def spelled(text: str, options: Mapping[str, Option]) -> str:
    """`text` with each field of `options` that it names as `name=` spelled as its option."""

    def option(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if name not in options:
            return found[0]
        if value == "False" and options[name].off:
            return options[name].off
        stated = "" if not value or (options[name].is_flag and value == "True") else f"={value}"
        return options[name].typed + stated

    return _FIELD.sub(option, text)
