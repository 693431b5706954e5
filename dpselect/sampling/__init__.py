"""Randomness: the operating system's entropy for releases, and seeded generators for simulation."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
