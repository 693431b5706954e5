"""Planning before a release: which mechanism, at what noise, for a budget and a public shape of the data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
