"""Event logs: how many distinct users touched each item, and what one user may change about it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
