"""Privacy loss distributions: dominating pairs on a grid, composed for plans that are fixed in
advance.
"""
