"""`python -m dpselect.cli`, for where the script is not on the path."""

from dpselect.cli.app import main

main()
