"""Noise whose hazard rate is tanh z."""

from __future__ import annotations

from typing import ClassVar, Literal

from flint import arb

from dpselect.hazard_noise import HazardNoise


class HalfSech(HazardNoise):
    kind: Literal["half_sech"] = "half_sech"
    lower: ClassVar[float] = 0.0
    kinks: ClassVar[tuple[float, ...]] = (0.0,)  # where the density is not smooth

    def sf_ball(self, z: arb) -> arb:
        return z.sech()

    def pdf_ball(self, z: arb) -> arb:
        return z.sech() * z.tanh()

    def isf_ball(self, q: arb) -> arb:
        return (1 / q).acosh()
