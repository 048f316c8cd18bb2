"""A stored program is the program, with every column."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.checker.generate import Shape, random_program
from tests.checker.loop_generate import LoopShape, random_loops

from haulout.ir.store import load_program, save_program
from haulout.ir.text import parse_bir, print_bir
from haulout.support.diagnostics import HauloutError


@pytest.mark.parametrize("seed", range(12))
def test_a_stored_program_prints_as_it_did(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    if seed % 2:
        program = random_program(random, Shape(atomic=0.7))
    else:
        program = random_loops(random, LoopShape(atomic=0.3, stepped=0.8, unknown=0.0))
    path = tmp_path / "program.npz"
    save_program(program, path)
    loaded = load_program(path)
    assert print_bir(loaded) == print_bir(program)
    assert print_bir(parse_bir(print_bir(program))) == print_bir(program)


def test_generated_programs_hold_phases_and_atomics() -> None:
    programs = [random_loops(Random(seed), LoopShape(atomic=0.3, stepped=0.8, unknown=0.0)) for seed in range(12)]
    assert any(program.steps.phase.any() for program in programs)
    assert any(program.accesses.atomic.any() for program in programs)


def test_a_store_of_another_version_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "program.npz"
    with monkeypatch.context() as patch:
        patch.setattr("haulout.ir.store.VERSION", 1)
        save_program(random_program(Random(0)), path)
    with pytest.raises(HauloutError, match="version 1 of the store, expected 4"):
        load_program(path)
