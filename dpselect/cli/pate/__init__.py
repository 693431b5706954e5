"""`dpselect pate`."""
