"""A value as text for a message: short, and on one line."""

from __future__ import annotations

MAX_SHOWN = 80
"""Characters."""


def shown(value: object) -> str:
    """The `repr` of the value, truncated; never raises."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of thousands of digits; a class whose `__repr__` fails
        bits = f" of {value.bit_length()} bits" if isinstance(value, int) else ""
        return f"a value of type {type(value).__name__}{bits}"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"


def shown_number(value: int) -> str:
    """An integer; a large power of two also as a power."""
    power = value.bit_length() - 1
    return f"{value} (2**{power})" if power >= 32 and value == 1 << power else str(value)


def format_bytes(count: int) -> str:
    """Bytes in the largest unit that keeps at least one digit before the point."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{count} B" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError
