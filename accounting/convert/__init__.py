"""Conversion of curves to (epsilon, delta): Renyi bounds, loss distributions, and recursions."""
