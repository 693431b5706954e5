"""The command line: `dpselect topk`, `dpselect demo`, `dpselect mechanisms`."""

from __future__ import annotations

from dpselect.cli.app import app, main

__all__ = ["app", "main"]
