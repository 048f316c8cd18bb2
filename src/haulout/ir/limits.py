"""Limits of a program. They are apart from the tables so that commands know them without importing NumPy."""

from __future__ import annotations

MAX_CORES = 64
"""Participants of a barrier are a mask of 64 bits."""
INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1
SIZE_MAX = 2**62
"""Sizes, addresses and offsets: sums of two still fit."""
