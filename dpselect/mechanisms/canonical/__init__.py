"""Canonical Lipschitz top-k: a whole set in one draw."""

from dpselect.mechanisms.canonical.top_k import CanonicalTopK

__all__ = ["CanonicalTopK"]
