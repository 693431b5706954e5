"""May this charge pass, and what is left: budgets, filters and odometers."""
