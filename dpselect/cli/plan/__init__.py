"""`dpselect plan`."""
