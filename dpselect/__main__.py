"""The command as `python -m dpselect`, for systems without the script on the path."""

from dpselect.cli.app import main

main()
