"""Event logs: distinct users per item, and the most that one user may change about them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
