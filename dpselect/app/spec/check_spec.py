"""`CheckSpec`, the question how a log would be read and what may be wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dpselect.app.spec.base import LOG
from dpselect.app.spec.shared_fields import LogFields

if TYPE_CHECKING:
    from dpselect.app.events.reading import Reading


class CheckSpec(LogFields):
    """Show how a log is read and likely mistakes in it, before a release or a charge.

    The result is for people who may see the data. Its figures are exact, and it names users and
    labels, so do not pass it on. Nothing is drawn, charged or written to a file. State the options
    that the release will have.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{LOG} --domain shops.csv",
        f"{LOG} --missing NULL --normalize casefold --normalize strip --json",
    )

    def reading(self, **overrides: Any) -> Reading:
        """Options of the reading, over all times if since= and until= are not stated."""
        every_time = (
            {"since": "1900-01-01"}
            if self.time is not None and self.since is None and self.until is None
            else {}
        )
        return super().reading(**every_time | overrides)
