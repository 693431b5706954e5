"""Persistent ledger of privacy charges: who spent how much, on which data, within which budget."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
