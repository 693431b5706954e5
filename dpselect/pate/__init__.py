"""Private labels from teachers' ballots: multi-class and multi-label PATE."""

from typing import Any

import lazy_loader

from dpselect.errors import InvalidBallots

_voting, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_JOBS = ("Labels", "label")  # of the application
__all__ += ["InvalidBallots", *_JOBS]


def __getattr__(name: str) -> Any:
    if name in _JOBS:
        from dpselect.app.labeling import job

        return getattr(job, name)
    return _voting(name)
