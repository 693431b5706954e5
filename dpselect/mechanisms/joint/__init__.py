"""The joint exponential mechanism: a whole sequence in one draw."""
