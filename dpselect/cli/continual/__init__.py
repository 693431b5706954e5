"""`dpselect continual`."""
