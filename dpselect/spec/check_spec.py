"""`CheckSpec`: how a log would be read, and what is doubtful about it."""

from __future__ import annotations

from typing import ClassVar

from dpselect.spec.base import LOG
from dpselect.spec.shared_fields import LogFields


class CheckSpec(LogFields):
    """Say how a log is read and what is doubtful about it, before anything is released or paid.

    For whoever may see the data: figures are exact, users and labels are named, and nothing of it may be passed on. Nothing is
    drawn, charged or written to a file. State the options that the release will have.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{LOG} --domain shops.csv",
        f"{LOG} --missing NULL --normalize casefold --normalize strip --json",
    )
