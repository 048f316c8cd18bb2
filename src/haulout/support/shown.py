"""A value as a message shows it: short, on one line, whatever it is."""

from __future__ import annotations

_MOST = 80
"""Characters."""


def shown(value: object) -> str:
    """The value as Python writes it, cut where it is long; never raises."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of thousands of digits; a class whose `__repr__` fails
        bits = f" of {value.bit_length()} bits" if isinstance(value, int) else ""
        return f"a value of type {type(value).__name__}{bits}"
    return text if len(text) <= _MOST else f"{text[:_MOST]}... ({len(text)} characters)"


def shown_number(value: int) -> str:
    """An integer; a large power of two is named as one too."""
    power = value.bit_length() - 1
    return f"{value} (2**{power})" if power >= 32 and value == 1 << power else str(value)
