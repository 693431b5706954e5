"""The command line: `dpselect topk` and the other verbs."""

from dpselect.cli.app import app, main

__all__ = ["app", "main"]
