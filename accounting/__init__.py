"""What was promised, what it costs, what is left: privacy curves, their composition and conversion.

This package never imports `dpselect`. Epsilons and rhos are in nats. The names are those of
`__init__.pyi`; a module is imported when one of its names is first asked for (PEP 562).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

DISTRIBUTION = "dpselect"
__all__ += ["DISTRIBUTION"]
