"""The choice of a mechanism and its noise, for a budget and public facts about the data.

A plan makes it before a release, and a release without a plan makes it itself. The package has the
name of its main function, `dpselect.plan(...)`, and can itself be called.
"""

import sys
from types import ModuleType
from typing import Any

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from dpselect.plan.door import plan

        return plan(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
