"""Releases over time, with one guarantee for a whole horizon of periods. Theorems T1 to T5."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
