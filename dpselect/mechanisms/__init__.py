"""Private selection mechanisms: final classes, `Mechanism` their abstract base; imported when first
asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
