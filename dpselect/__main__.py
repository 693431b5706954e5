"""The command as `python -m dpselect`, for systems without the script on the path."""

from dpselect.app.cli.app import main

main()
