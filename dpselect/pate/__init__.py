"""Teachers' ballots -> labels, privately: multi-class and multi-label PATE."""

import lazy_loader

from dpselect.errors import InvalidBallots

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["InvalidBallots"]


def __dir__() -> list[str]:
    return __all__
