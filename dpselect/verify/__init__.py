"""Checks of a mechanism against its curve, exactly on small domains, and from samples on any.

`worst_case` enumerates every neighboring pair of a small box and returns exact divergences, to be
compared with `curve`. `lower_bound` needs only samples, and returns an epsilon that the mechanism
provably exceeds, up to its confidence.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
