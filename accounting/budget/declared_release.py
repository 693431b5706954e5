"""How many releases of one declared curve a charge is. Theorem F10."""

from __future__ import annotations

from accounting.curves import ZCDP, ApproxDP, Approximate, BoundedRange, Composed, Curve, GaussianDP, LaplaceDP, PureDP

_ORDERED = (PureDP, BoundedRange, GaussianDP, LaplaceDP, ZCDP)  # a smaller parameter is a smaller guarantee


def releases_in(curve: Curve, release: Curve) -> int | None:
    """The least number of times that `release`, repeated, is seen to cover `curve`; None if it is not. What is free counts 0."""
    if curve.core_epsilon == 0 and curve.delta0 == 0:
        return 0
    if _is_covered(curve, release):
        return 1
    if not isinstance(curve, Composed):
        return None
    if isinstance(release, Composed):
        return _repeated(curve, release)
    if all(_is_covered(part, release) for _, part in curve.parts):
        return sum(count for count, _ in curve.parts)
    return None


def _repeated(curve: Composed, release: Composed) -> int | None:
    """Of a plan that is the release's own parts again and again."""
    count = -(-curve.parts[0][0] // release.parts[0][0])
    return count if Composed.of([(count, release)]) == curve else None


def _is_covered(curve: Curve, release: Curve) -> bool:
    """Whether what satisfies `curve` satisfies `release`: they are equal, or of one kind and no parameter is larger."""
    if curve == release:
        return True
    if isinstance(curve, Approximate) and isinstance(release, Approximate):
        return curve.added <= release.added and _is_covered(curve.curve, release.curve)
    if isinstance(curve, ApproxDP) and isinstance(release, ApproxDP):
        return curve.epsilon0 <= release.epsilon0 and curve.failure <= release.failure
    if isinstance(curve, _ORDERED) and isinstance(release, _ORDERED):
        return type(curve) is type(release) and curve.parameter <= release.parameter
    return False
