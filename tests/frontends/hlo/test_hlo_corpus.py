"""Every file of a corpus of real programs, where the environment names one: `HAULOUT_HLO_DIR`."""

import os
from pathlib import Path

import pytest

from haulout.frontends.hlo import lower, read_hlo
from haulout.frontends.hlo.replica_groups import core_groups, core_pairs
from haulout.ir.text.parser import parse_bir
from haulout.ir.text.printer import print_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError

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
def test_lowers_or_names_the_loop(file: Path) -> None:
    module = read_hlo(file)
    loops = [
        instruction.line
        for computation in module.computations.values()
        for instruction in computation.instructions
        if instruction.opcode == "while"
    ]
    if loops:
        with pytest.raises(HauloutError, match="`while` is not supported yet") as caught:
            lower(module)
        span = caught.value.diagnostics[0].span
        assert span is not None and span.line in loops
        return
    program = lower(module)
    assert verify(program) == []
    assert program.lnc == module.num_partitions
    text = print_bir(program)
    assert print_bir(parse_bir(text, "program.bir")) == text
    assert text.count("kind=inout") == program.lnc * len(module.aliases)
