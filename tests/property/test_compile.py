"""Any valid program compiles, under both policies, to one that no judge can break."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.brute import unordered
from tests.tiers import examples

import haulout
from haulout.ir.text import parse_bir, print_bir
from haulout.sim import compare_schedules
from haulout.support.diagnostics import Severity
from haulout_generators.programs import random_program


@settings(max_examples=examples(150))
@given(st.randoms(use_true_random=False), st.sampled_from(["minimal", "bracket"]), st.sampled_from([0.0, 0.15]))
def test_compiled_programs_are_clean_for_every_judge(rng: Random, policy: str, fences: float) -> None:
    source = random_program(rng, fences=fences)
    result = haulout.compile(source, fences=policy)  # type: ignore[arg-type]
    assert [str(each) for each in result.diagnostics if each.severity > Severity.NOTE] == []
    assert unordered(result.program, physical=True) == []
    assert compare_schedules(result.program).agrees
    locations = result.program.locations
    owner = result.program.owner
    assert np.array_equal(locations.address, locations.address[owner])


@settings(max_examples=examples(50))
@given(st.randoms(use_true_random=False))
def test_same_input_same_bytes(rng: Random) -> None:
    text = print_bir(random_program(rng))
    first, second = (print_bir(haulout.compile(parse_bir(text)).program) for _ in range(2))
    assert first == second
    assert print_bir(parse_bir(first)) == first
