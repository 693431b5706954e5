"""`dpselect topk`."""
