"""How many examples of a property are tried; `conftest.py` describes the tiers."""

from hypothesis import settings


def examples(number: int) -> int:
    """`number` of them, a tenth in the short tier: of Hypothesis' usual hundred, its profile allows ten."""
    return max(1, number * settings().max_examples // 100)
