"""Which mechanism, at what noise, for a budget and a profile of the data: planned before a release,
or chosen by it.

The package is called like its main function, `dpselect.plan(...)`, and so it can be called.
"""

import sys
from types import ModuleType
from typing import Any

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from dpselect.plan.asked import plan

        return plan(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
