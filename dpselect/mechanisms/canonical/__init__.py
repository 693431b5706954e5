"""Canonical Lipschitz top-k: a whole set in one draw."""
