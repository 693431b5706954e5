"""`python -m dpselect`, for where the script is not on the path."""

from dpselect.cli.app import main

main()
