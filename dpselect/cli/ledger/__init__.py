"""`dpselect ledger`."""
