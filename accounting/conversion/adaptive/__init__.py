"""Optimal adaptive composition by a dynamic programme over the steps, with an upper and a lower bound."""

from accounting.conversion.adaptive.bound import AdaptiveBound, DeltaBounds, GridTooCoarse, adaptive_composition, delta_bounds

__all__ = ["AdaptiveBound", "DeltaBounds", "GridTooCoarse", "adaptive_composition", "delta_bounds"]
