"""Every file of a corpus of real programs, where the environment names one: `HAULOUT_HLO_DIR`."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from haulout.frontends.hlo import lower, read_hlo
from haulout.frontends.hlo.replica_groups import core_groups, core_pairs
from haulout.ir.enums import NONE
from haulout.ir.text.parser import parse_bir
from haulout.ir.text.printer import print_bir
from haulout.ir.verify import verify

DIRECTORY = os.environ.get("HAULOUT_HLO_DIR")
FILES = sorted(Path(DIRECTORY).glob("*.hlo")) if DIRECTORY else []

pytestmark = pytest.mark.skipif(not FILES, reason="HAULOUT_HLO_DIR names no directory with .hlo files")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_parses(file: Path) -> None:
    """Every line that defines an instruction is one; every collective says which cores it joins."""
    module = read_hlo(file)
    assert f".n{module.num_partitions}." in file.name
    defined = [line for line in file.read_text().splitlines() if line.startswith("  ") and " = " in line]
    assert module.count() == len(defined)
    for computation in module.computations.values():
        for instruction in computation.instructions:
            if "replica_groups" in instruction.attributes:
                groups = core_groups(instruction, module)
                assert sorted(core for group in groups for core in group) == list(range(module.num_partitions))
                assert len(groups[0]) > 1
            if "source_target_pairs" in instruction.attributes:
                assert core_pairs(instruction, module)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_lowers(file: Path) -> None:
    """A sound program that survives its text; a header, a body and an end for each loop, and the arms of branches."""
    module = read_hlo(file)
    program = lower(module)
    assert verify(program) == []
    assert program.lnc == module.num_partitions
    text = print_bir(program)
    assert print_bir(parse_bir(text, "program.bir")) == text
    assert text.count("kind=inout") == program.lnc * len(module.aliases)
    loops = len(re.findall(r" while\(", file.read_text()))
    structure = program.structure
    headers = list(structure.loop_at)
    arms = sum(1 + len(fork.arms) for fork in structure.forks)
    assert len(program.blocks) >= program.lnc * (1 + 3 * loops) + arms
    trips = program.blocks.trip[headers]
    assert len(trips) == program.lnc * loops
    if file.name.startswith("while_cg"):
        assert np.all(trips == NONE)  # it ends when the residual is small
    else:
        assert np.all(trips > 0)
