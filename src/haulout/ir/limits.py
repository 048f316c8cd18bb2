"""Limits of a program. They are apart from the tables so that commands know them without importing NumPy."""

from __future__ import annotations

MAX_CORES = 1024
"""Rows grow with the cores: more of them are hardly meant."""
INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1
SIZE_MAX = 2**62
"""Sizes, addresses and offsets: sums of two still fit."""
