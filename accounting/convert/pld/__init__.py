"""Privacy loss distributions: dominating pairs on a grid, composed for plans fixed in advance."""
