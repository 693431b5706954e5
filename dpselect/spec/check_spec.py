"""`CheckSpec`: how a log would be read, and what is doubtful about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dpselect.spec.base import LOG
from dpselect.spec.shared_fields import LogFields

if TYPE_CHECKING:
    from dpselect.events.reading import Reading


class CheckSpec(LogFields):
    """Say how a log is read and what is doubtful about it, before anything is released or paid.

    For whoever may see the data: figures are exact, users and labels are named, and nothing of it
    may be passed on. Nothing is drawn, charged or written to a file. State the options that the
    release will have.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{LOG} --domain shops.csv",
        f"{LOG} --missing NULL --normalize casefold --normalize strip --json",
    )

    def reading(self, **stated: Any) -> Reading:
        """How the log is read; without since= and until= over all times that there can be."""
        every_time = (
            {"since": "1900-01-01"}
            if self.time is not None and self.since is None and self.until is None
            else {}
        )
        return super().reading(**every_time | stated)
