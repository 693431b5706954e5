"""Event logs: distinct users per item, and the most that one user may change about them.

The public names of `dpselect.app.events`.
"""

from dpselect.app.events import __all__ as __all__
from dpselect.app.events import __dir__ as __dir__
from dpselect.app.events import __getattr__ as __getattr__
