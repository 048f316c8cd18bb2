"""split_uniform: the same results with and without it, on random programs, and what it does with small ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

import haulout
from haulout.passes.base import PassContext
from haulout.passes.split_uniform import SplitUniform
from haulout.passes.splitting import asked_cuts
from haulout.passes.splitting.candidates import find_candidates
from haulout.passes.splitting.prefer import Annotations, parse_split
from haulout_generators.lockstep_programs import lockstep_inputs
from haulout_generators.tensor_programs import random_tensor_program

FREE = """
name = "free"
description = "barriers cost nothing, so every cut is worth it"
[dram]
gbytes_per_s = 1
[cost_us]
barrier = 0.0
barrier_per_core = 0.0
sendrecv = 0.0
branch = 0.0
"""
ENGINES = "".join(
    f"[engine.{name}]\nissue_us = 0.0\ngbytes_per_s = 1\n" for name in ("pe", "act", "vector", "pool", "sync", "dma")
)


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("target") / "free.toml"
    path.write_text(FREE + ENGINES)
    yield path


def outputs(program: haulout.Program, inputs: Any) -> dict[str, Any]:
    return dict(haulout.simulate(program, inputs).outputs)


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32), cores=st.sampled_from([2, 4]))
def test_results_are_those_of_undivided_work(free: Path, seed: int, cores: int) -> None:
    program = random_tensor_program(Random(seed), cores=cores)
    inputs = lockstep_inputs(Random(seed), program)
    whole = haulout.compile(program, share="none", target=free)
    assert whole.proved
    expected = outputs(whole.program, inputs)
    for share in ("uniform", "all"):
        for fences in ("minimal", "bracket"):
            result = haulout.compile(program, share=share, fences=fences, target=free)  # type: ignore[arg-type]
            assert result.proved, [str(each) for each in result.diagnostics]
            found = outputs(result.program, inputs)
            assert found.keys() == expected.keys()
            for name, value in expected.items():
                np.testing.assert_array_equal(found[name], value, err_msg=name)


def ways_of(program: haulout.Program, target: Path) -> Iterator[str]:
    """How the operations of a program are cut."""
    found = find_candidates(program)
    _, cuts = SplitUniform(target=str(target)).choose(program, found, parse_split(()), Annotations())
    for row, axis in cuts.axes.items():
        operation = found.operations[row]
        operand, share = next(
            (operand, share)
            for operand, share in zip(operation.operands, axis.shares, strict=True)
            if operand.write and share is not None
        )
        period, length = share.block * axis.extent, operand.shape[share.dim]
        if any(each is not None and each.window is not None for each in axis.shares):
            yield "overlapping boxes"
        elif length != period:
            yield "inside a dimension" if length > period else "a piece"
        elif axis.extent % operation.parts:
            yield "uneven"


@pytest.fixture
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are cut in all ways, too."""
    monkeypatch.setattr(asked_cuts, "LEAST_RUN", 1)


@pytest.mark.usefixtures("short_runs")
def test_all_ways_to_cut_leave_the_results(free: Path) -> None:
    """With programs that are cut inside a dimension, in pieces, with overlap and unevenly."""
    seen: Counter[str] = Counter()
    for seed in range(examples(100)):
        program = random_tensor_program(Random(seed))
        ways = set(ways_of(program, free))
        if all(seen[way] > 5 for way in ways):
            continue
        seen.update(ways)
        inputs = lockstep_inputs(Random(seed), program)
        expected = outputs(haulout.compile(program, share="none").program, inputs)
        result = haulout.compile(program, target=free)
        assert result.proved, [str(each) for each in result.diagnostics]
        found = outputs(result.program, inputs)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert set(seen) == {"overlapping boxes", "inside a dimension", "a piece", "uneven"}


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32), dim=st.integers(0, 2))
def test_asked_cuts_leave_the_results(free: Path, seed: int, dim: int) -> None:
    program = random_tensor_program(Random(seed))
    inputs = lockstep_inputs(Random(seed), program)
    expected = outputs(haulout.compile(program, share="none").program, inputs)
    result = haulout.compile(program, split=[f"axis={dim}"], target=free)
    assert result.proved, [str(each) for each in result.diagnostics]
    found = outputs(result.program, inputs)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_asked_cuts_are_preferred(free: Path) -> None:
    """More operations than without are cut along the dimension, and none is lost for it."""
    for dim in (0, 1):
        along: list[int] = []
        divided: list[int] = []
        for split in ((), (f"axis={dim}",)):
            along.append(0)
            divided.append(0)
            for seed in range(30):
                context = PassContext()
                SplitUniform(target=str(free), split=split).run(random_tensor_program(Random(seed)), context)
                assert context.split is not None
                along[-1] += sum(each.dim == dim for each in context.split.divided)
                divided[-1] += len(context.split.divided)
        assert along[1] > along[0]
        assert divided[1] >= 0.97 * divided[0]


def test_most_random_programs_are_divided(free: Path) -> None:
    """Else the test above says little."""
    divided = local = shared = 0
    for seed in range(40):
        context = PassContext()
        SplitUniform(target=str(free)).run(random_tensor_program(Random(seed)), context)
        counters = context.counters["split_uniform"]
        divided += counters["operations"] > 3
        local += counters.get("local_parts", 0) > 0
        shared += counters.get("shared", 0) > 0
    assert divided >= 20
    assert local >= 15
    assert shared >= 15
