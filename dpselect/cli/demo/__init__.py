"""`dpselect demo`."""
