"""lower_local_collectives (order 80): collectives become copies through shared DRAM.

An operand that stays unchanged becomes a shared location itself; others are copied to staging buffers. The pass
makes the buffers, their RemoteLocalTargets, the fences (marked, so that order 81 may place better ones), and the RAW
edges of the new instructions. `passes/collectives` has one lowering a file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar

import numpy as np

from haulout.ir.arrays import operand_arrays, require_bytes
from haulout.ir.core_classes import without_claims
from haulout.ir.enums import NONE
from haulout.ir.idle_collectives import idle_collectives
from haulout.ir.labels import instruction_label
from haulout.ir.program import Program
from haulout.ir.rows import Changes
from haulout.passes.base import Pass, PassContext
from haulout.passes.build_fdeps import BuildFdeps
from haulout.passes.collectives.all_gather import lower_all_gather
from haulout.passes.collectives.all_reduce import lower_all_reduce
from haulout.passes.collectives.all_to_all import lower_all_to_all
from haulout.passes.collectives.collective_permute import lower_collective_permute
from haulout.passes.collectives.direct import Direct
from haulout.passes.collectives.reduce_scatter import lower_reduce_scatter
from haulout.passes.collectives.site import PHASES, Site
from haulout.passes.collectives.writes import Writes
from haulout.passes.make_room import make_room
from haulout.support.diagnostics import bad_input

LOWERINGS: dict[str, Callable[[Site], None]] = {
    "all_reduce": lower_all_reduce,
    "all_gather": lower_all_gather,
    "reduce_scatter": lower_reduce_scatter,
    "all_to_all": lower_all_to_all,
    "collective_permute": lower_collective_permute,
}


@dataclass(frozen=True)
class LowerLocalCollectives(Pass):
    """Replaces every collective.

    Before: sound, straight-line; a collective has one name and one position in the order on all cores. After: no
    collective is left; `seq` is equal on all cores for each phase; every lowered collective has two fences.
    """

    in_place: bool = True
    """Members read operands in place where they can. Otherwise all operands are copied to buffers."""

    name: ClassVar[str] = "lower_local_collectives"
    order: ClassVar[int | None] = 80

    def run(self, program: Program, context: PassContext) -> Program:
        """Match collectives over the cores, shift `seq`, replace."""
        _ = program.structure  # raises for unsupported control flow
        sites = _match(program)
        if not sites:
            context.count(self.name, collectives=0)
            return program
        # Cores write what they stage at other times.
        program = without_claims(program)
        lowered = np.zeros(len(program.instructions), bool)
        lowered[[row for rows in sites for row in rows]] = True
        program = make_room(program, lowered, PHASES)
        context.diagnostics.extend(idle_collectives(program))
        changes = Changes(program)
        taken = _Names(program)
        writes = Writes(program, self.in_place)
        direct = Direct(program)
        for rows, following in zip_longest(sites, sites[1:]):
            site = _site(program, changes, rows, taken, direct)
            site.in_place, site.unchanged = writes.judge(rows, following, site.inputs)
            LOWERINGS[program.strings[int(program.instructions.opcode[rows[0]])]](site)
            for row in rows:
                changes.delete(row)
        context.count(self.name, collectives=len(sites))
        return BuildFdeps().run(changes.apply()[0], context)


def _match(program: Program) -> list[list[int]]:
    """Rows of each collective, one a core, in list order; the cores must have the same collectives."""
    opcodes = np.array([program.strings.find(name) for name in LOWERINGS])
    rows = np.flatnonzero(np.isin(program.instructions.opcode, opcodes[opcodes != NONE]))
    sequences: dict[int, list[int]] = defaultdict(list)
    for row in rows.tolist():
        sequences[int(program.instruction_core[row])].append(row)
    first = sequences.get(0, [])
    for core in range(1, program.lnc):
        other = sequences.get(core, [])
        for mine, theirs in zip(first, other, strict=False):
            _require_same(program, mine, theirs)
        if len(first) != len(other):
            longer = first if len(first) > len(other) else other
            bad_input(
                f"core 0 has {len(first)} collectives, core {core} has {len(other)}",
                instruction_label(program, longer[min(len(first), len(other))], "the first one without a partner"),
            )
    return [list(group) for group in zip(*(sequences.get(core, []) for core in range(program.lnc)), strict=True)]


def _require_same(program: Program, mine: int, theirs: int) -> None:
    for what in ("name", "opcode", "attrs", "seq"):
        values = getattr(program.instructions, what)
        if values[mine] != values[theirs]:
            bad_input(
                f"the cores have different collectives: {what} differs",
                instruction_label(program, mine),
                instruction_label(program, theirs),
            )


def _site(program: Program, changes: Changes, rows: list[int], taken: _Names, direct: Direct) -> Site:
    name = program.instruction_name(rows[0])
    operands = int(np.diff(program.access_starts[rows[0] : rows[0] + 2])[0])
    site = Site(
        program,
        changes,
        rows,
        _free_stem(name, operands, program.lnc, taken),
        program.instruction_attrs(rows[0]),
        int(program.instructions.seq[rows[0]]),
        direct=direct,
    )
    for row in rows:
        reads, writes = operand_arrays(program, row, site.attrs)  # all cores have the same
        require_bytes(program, row, reads + writes)
        site.inputs.append(reads)
        site.outputs.append(writes)
        if [(a.dtype, a.shape) for a in reads + writes] != [
            (a.dtype, a.shape) for a in site.inputs[0] + site.outputs[0]
        ]:
            bad_input(
                "operands differ between cores", instruction_label(program, rows[0]), instruction_label(program, row)
            )
    if len(site.inputs[0]) != len(site.outputs[0]) or not site.inputs[0]:
        site.fail(f"{len(site.inputs[0])} operands and {len(site.outputs[0])} results")
    return site


class _Names:
    """The strings that name a location or an instruction; the string table also has unused ones."""

    def __init__(self, program: Program) -> None:
        self.strings = program.strings
        self.used = np.zeros(len(program.strings) + 1, bool)
        self.used[program.locations.name] = True
        self.used[program.instructions.name] = True

    def has(self, text: str) -> bool:
        """Whether the program has this name."""
        at = self.strings.find(text)
        return at != NONE and at < len(self.used) - 1 and bool(self.used[at])


def _free_stem(name: str, operands: int, lnc: int, taken: _Names) -> str:
    """The collective's name, or one with a number if the program already has a name that the lowering makes."""
    numbers, cores = range(operands), range(lnc)
    suffixes = ["meet0", "meet1"]
    suffixes += [f"{kind}{n}" for kind in ("in", "out") for n in numbers]
    suffixes += [
        f"{kind}{n}{mark}{c}" for kind, mark in (("out", "."), ("stage", ".nc")) for n in numbers for c in cores
    ]
    stem, count = name, 0
    while any(taken.has(f"{stem}.{suffix}") for suffix in suffixes):
        count += 1
        stem = f"{name}.lowered{count}"
    return stem
