"""Teachers' ballots -> labels, privately: multi-class and multi-label PATE."""

from importlib import import_module
from typing import Any

import lazy_loader

from dpselect.errors import InvalidBallots

_imported, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
_PLANNING = (
    "Outlook",
    "PoorOutlook",
    "Prediction",
    "Prices",
    "TrialVotes",
    "VotesModel",
    "f1_range",
    "fitted",
    "outlook",
    "predicted",
    "prices",
    "rounds_for",
    "simulated",
)
__all__ += ["InvalidBallots", *_PLANNING]


def __getattr__(name: str) -> Any:
    # `lazy_loader` knows the modules of this package only.
    return getattr(import_module("dpselect.plan.voting_plan"), name) if name in _PLANNING else _imported(name)


def __dir__() -> list[str]:
    return __all__
