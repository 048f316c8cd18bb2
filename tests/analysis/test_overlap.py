"""Pattern intersection against sets of bytes."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from haulout.analysis.overlap import _scan_meets, extents
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Space
from haulout.ir.patterns import UNKNOWN, Pattern

SIZE = 400


def any_pattern(rng: random.Random) -> Pattern:
    while True:
        dims = tuple((rng.randint(-60, 60), rng.randint(1, 6)) for _ in range(rng.randint(0, 3)))
        pattern = Pattern(rng.randrange(SIZE), rng.randint(1, 9), dims)
        low, high = pattern.hull
        if low >= 0 and high <= SIZE:
            return pattern


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32))
def test_meets_exactly_when_a_byte_is_common(seed: int) -> None:
    rng = random.Random(seed)
    patterns: list[Pattern | None] = [any_pattern(rng) for _ in range(60)]
    patterns += [None, UNKNOWN]
    build = ProgramBuilder("p", 1)
    function = build.function(build.module("m", 0), "f")
    x = build.location(function, "x", Space.SBUF, SIZE)
    block = build.block(function, "e")
    for pattern in patterns:
        build.instruction(block, None, "r", Engine.PE, [(x, pattern)])
    columns = extents(build.freeze())
    sets = [set(range(SIZE)) if p is None or p.is_unknown else set(p.bytes().tolist()) for p in patterns]
    for a in range(len(patterns)):
        for b in range(len(patterns)):
            assert _scan_meets(columns, a, b) == bool(sets[a] & sets[b]), (patterns[a], patterns[b])
