"""The command line: `dpselect topk` and the other commands."""

from dpselect.app.cli.app import app, main

__all__ = ["app", "main"]
