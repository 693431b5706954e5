"""Comparisons with a noisy threshold: the sparse vector technique and stable queries."""
