"""Private labels from teachers' ballots: multi-class and multi-label PATE."""

import lazy_loader

from dpselect.errors import InvalidBallots

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["InvalidBallots"]
