"""Differentially private selection and top-k, with privacy accounting you can trust.

The names are those of `__init__.pyi`. A module is imported when one of its names is first used (PEP
562).
"""

from typing import Any

import lazy_loader

import accounting

if getattr(accounting, "DISTRIBUTION", None) != "dpselect":
    raise ImportError(
        "another distribution's package 'accounting' shadows the one dpselect brings (it was found"
        f" at {getattr(accounting, '__file__', None)}): uninstall that distribution and install"
        " dpselect again (pip install --force-reinstall --no-deps .), or give dpselect a virtual"
        " environment of its own"
    )
del accounting

_imported, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    return _version() if name == "__version__" else _imported(name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dpselect")
    except PackageNotFoundError:  # a source tree that is not installed
        return "0+unknown"
