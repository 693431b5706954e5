"""Releases over time, with one guarantee for a whole horizon of periods. Theorems T1 to T5.

The public names of `dpselect.app.continual`.
"""

from dpselect.app.continual import __all__ as __all__
from dpselect.app.continual import __dir__ as __dir__
from dpselect.app.continual import __getattr__ as __getattr__
