"""`python -m dpselect.cli`, for where the script is not on the path."""

from __future__ import annotations

from dpselect.cli.app import main

main()
