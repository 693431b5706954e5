"""Every spec, and the least that is stated to make one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from dpselect.app import spec as specs
from dpselect.app.spec import Spec

VALUES: dict[str, Any] = {
    **{"user": "who", "item": "where", "k": 2, "key": "a", "state": "h.state", "every": "day"},
    **{"time": "at", "since": "2024-05-01", "until": "2024-05-03", "periods": 3, "epsilon": 1.0},
    **{"delta": 1e-6, "dataset": "log", "mechanism": "gnmax", "output": "a.json", "entry": 1},
    **{"to": "sqlite:///l.db", "actor": "ann", "reason": "mine", "shape": "zipf:1", "name": "q"},
    **{"curve": "{}", "sigma": 2.0, "ledger": "sqlite:///l.db"},
}
MORE = {"PlanSpec": ("k", "epsilon"), "ChargeSpec": ("curve",), "AffordableSpec": ("curve",)}


def all_specs() -> list[type[Spec]]:
    """All specs but the tables of a file."""
    for module in pkgutil.iter_modules(specs.__path__, f"{specs.__name__}."):
        importlib.import_module(module.name)

    def below(kind: type[Spec]) -> Iterator[type[Spec]]:
        for one in kind.__subclasses__():
            yield from (one, *below(one))

    found = {one for one in below(Spec) if one.__module__.startswith(specs.__name__)}
    found -= {one for one in found if one.__module__.endswith("toml_file")}
    return sorted(found, key=lambda one: one.__qualname__)


def least(spec: type[Spec]) -> dict[str, Any]:
    """The required fields, those that a spec needs beside them, and a ledger where it takes one."""
    fields = spec.model_fields
    stated = [name for name in VALUES if name in fields and fields[name].is_required()]
    stated += [name for name in ("ledger", "dataset") if name in fields]
    return {name: VALUES[name] for name in (*stated, *MORE.get(spec.__name__, ()))}
