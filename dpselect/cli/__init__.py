"""The command line: `dpselect topk` and the other commands."""

from dpselect.cli.app import app, main

__all__ = ["app", "main"]
