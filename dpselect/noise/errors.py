"""Errors of the noise distributions and of their exact quadrature; no message prints an argument's data."""

from __future__ import annotations

from dpselect.errors import DpSelectError


class NoiseError(DpSelectError):
    """Base of the errors raised by `dpselect.noise`."""


class InvalidNoiseArgument(NoiseError):
    """An argument of a distribution or of the quadrature is outside its stated domain."""


class QuadratureError(NoiseError):
    """Successive refinements of a quadrature did not agree to the promised accuracy."""
