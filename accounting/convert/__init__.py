"""From a curve to (epsilon, delta): Renyi bounds, privacy loss distributions, optimal adaptive
composition.
"""
