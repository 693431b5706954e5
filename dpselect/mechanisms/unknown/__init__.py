"""Top-k over candidates that are not known in advance."""
