"""The noise distributions of report-noisy-max, without randomness, and the exact probabilities they give."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
