"""Differential privacy accounting: privacy curves, their composition, budgets and ledgers.

This package never imports `dpselect`. Epsilons and rhos are in nats. The exported names are listed
in `__init__.pyi`, and a module is imported when one of its names is first used (PEP 562).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

DISTRIBUTION = "dpselect"
__all__ += ["DISTRIBUTION"]
