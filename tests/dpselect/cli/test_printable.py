"""Text and numbers as they are shown."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from dpselect.cli.printable import printable, rounded_up


@given(st.floats(min_value=1e-300, max_value=1e300))
@example(0.1)
@example(0.9999999999)
def test_numbers_are_rounded_up(value: float) -> None:
    """A number shown is never below what it stands for, and above it by one part in 10^5 at most."""
    assert value <= float(rounded_up(value)) <= value * (1 + 1.0001e-5)


def test_short_numbers_stay() -> None:
    """What six digits can write is written as it is, however it was computed."""
    assert [rounded_up(value) for value in (1.0, 0.1, 1e-6, 0.0, 0.99999999)] == ["1", "0.1", "1e-06", "0", "1"]


@given(st.text())
def test_text_is_printable(text: str) -> None:
    """No control character survives, and harmless text is not touched."""
    assert printable(text).isprintable()
    assert not text.isprintable() or printable(text) == text
