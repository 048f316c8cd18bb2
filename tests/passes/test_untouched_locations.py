"""Locations that nothing accesses have no lifetime, but an address: their core's partition holds them whole."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import haulout
from haulout import HauloutError, Program
from haulout.ir.enums import NONE
from haulout.ir.text import parse_bir, print_bir
from haulout.passes.coloring_allocator_dram_shared import Partitions
from haulout_generators.programs import random_program

KINDS: tuple[Partitions, ...] = ("smallest", "proportional", "equal", "joint")


def with_untouched(program: Program, size: list[int], address: int | None = None, name: str = "idle") -> Program:
    """Each core gets a location of that size that nothing accesses; 0: none."""
    lines, sizes = [], iter(size)
    where = "" if address is None else f" address={address}"
    for line in print_bir(program).splitlines():
        lines.append(line)
        if line.strip().startswith("func @") and (count := next(sizes)):
            lines.append(f"    mloc %{name} dram.local size={count}{where}")
    return parse_bir("\n".join(lines))


def reaches(program: Program, core: int) -> int:
    """Where the highest location of a core ends."""
    rows = np.flatnonzero(program.location_core == core)
    return int((program.locations.address + program.locations.size)[rows].max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_partitions_hold_them(seed: int, kind: Partitions) -> None:
    rng = Random(seed)
    program = random_program(rng, steps=8)
    plain = haulout.compile(program, partitions=kind)
    assert plain.proved
    size = [rng.choice((0, 8, 1 << 14, (1 << 14) + 1)) for _ in range(program.lnc)]
    result = haulout.compile(with_untouched(program, size), partitions=kind)
    assert result.proved
    assert result.report.total_peak_bytes >= plain.report.total_peak_bytes
    for core, need in zip(result.report.cores, size, strict=True):
        assert need <= core.lower_bound_bytes <= core.peak_bytes
    if result.program.attrs.get("partitions") == "joint":
        assert max(reaches(result.program, core) for core in range(program.lnc)) <= result.report.total_peak_bytes


def test_small_ones_cost_nothing() -> None:
    program = random_program(Random(1), steps=8)
    plain, more = (haulout.compile(each) for each in (program, with_untouched(program, [8] * program.lnc)))
    assert plain.report.total_peak_bytes == more.report.total_peak_bytes


def test_a_partition_reaches_their_given_addresses() -> None:
    program = random_program(Random(2), steps=8, cores=2)
    for address in (0, 1 << 20):
        program = with_untouched(program, [64, 0], address, f"idle{address}")
    result = haulout.compile(program)
    assert result.proved
    assert reaches(result.program, 0) == (1 << 20) + 64 == result.report.cores[0].peak_bytes
    locations = result.program.locations
    own = (result.program.location_core == 1) & (locations.remote_name == NONE)
    assert locations.address[own].min() >= (1 << 20) + 64


@pytest.mark.parametrize("kind", KINDS)
def test_capacity_counts_them(kind: Partitions) -> None:
    program = with_untouched(random_program(Random(3), steps=8, cores=2), [1 << 14, 0])
    need = haulout.compile(program, partitions=kind).report.total_peak_bytes
    assert need >= 1 << 14
    assert haulout.compile(program, partitions=kind, capacity=need).proved
    with pytest.raises(HauloutError) as caught:
        haulout.compile(program, partitions=kind, capacity=(1 << 14) - 64)
    (found,) = caught.value.diagnostics
    assert found.code == "over-capacity"
    assert [label.message for label in found.labels] == ["%idle on core 0: 16384 bytes, never accessed"]
    assert "core 0: a location of 16384 bytes that nothing accesses" in found.notes
