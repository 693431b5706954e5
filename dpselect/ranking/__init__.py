"""Private top-k from pairwise comparisons, by rank centrality."""

import lazy_loader

from dpselect.errors import InvalidComparisons

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["InvalidComparisons"]


def __dir__() -> list[str]:
    return __all__
