"""docs/tutorials/tensor.md: one tensor on its way through the passes, with the map after each step.

The passes run here, so the texts and maps of the page are what they give. A step also has what its prose claims, as a
function: a page whose prose would be wrong is not made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from haulout import api
from haulout.analysis.lifetimes import lifetimes
from haulout.analysis.straightline import fence_rows
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program
from haulout.ir.text import print_bir
from haulout.passes.base import PassContext
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import compile_pipeline
from haulout.support.diagnostics import Severity

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = "examples/jax/mlp_tp.n2.hlo"
TENSOR = "dot.1"
RESULT = "add.35"
_WORDS = ("%dot.1 ", "%dot.1,", "%dot.1)", "%dot.1[", "dot.1,1]", "all-reduce", "core_barrier")
_LEFT_OUT = (" loc=", " path=", " shapes=", " dtypes=", " lhs_contracting=",
             " rhs_contracting=", " made_by=", " name=", " bank=", " partition=", " index=")  # fmt: skip
_CELL = 4
_MARGIN = 54


@dataclass(frozen=True, slots=True)
class Step:
    """A pass of the way, what it does with the tensor, and what must be true for that text to be right."""

    name: str
    text: str
    holds: Callable[[Program], bool]
    occurrence: int = 0


def _fences(program: Program) -> int:
    return len(fence_rows(program)) // program.lnc


def _place(program: Program, name: str, core: int) -> tuple[int, int]:
    rows = program.locations
    (row,) = (
        row for row in np.flatnonzero(program.location_core == core).tolist()
        if program.strings[int(rows.name[row])] == name
    )  # fmt: skip
    return int(rows.address[row]), int(rows.size[row])


def _views_have_the_address(program: Program) -> bool:
    rows = program.locations
    views = np.flatnonzero(rows.remote_name != NONE)
    return len(views) > 0 and bool((rows.address[views] == rows.address[program.owner[views]]).all())


STEPS = (
    Step(
        "split_uniform",
        "**The work on the sum is divided.** Both cores would add the bias to the same sum. `split_uniform` gives "
        "each core half of the rows: `all_reduce` becomes `reduce_scatter`, and the result `%add.35` is one copy "
        "in shared DRAM, of which each core writes its half. `%dot.1` does not change yet: each core has its own "
        "partial product in `dram.local`, as the collective knows how to reach it.",
        lambda program: "reduce_scatter" in print_bir(program) and "all_reduce" not in print_bir(program),
    ),
    Step(
        "build_fdeps",
        "**Order inside a core.** Engines run side by side. `%dot.1` is written by `@pe` and read by `@pool`, so "
        "the collective gets an edge, `deps=[dot.1]`. Nothing orders the two cores: a collective does that itself.",
        lambda program: "deps=[dot.1]" in print_bir(program) and _fences(program) == 0,
    ),
    Step(
        "lower_local_collectives",
        "**The collective becomes accesses.** The cores share the DRAM, so nothing is sent: each core reads the "
        "other's partial product where it is. `%dot.1` moves to `dram.shared`, and each core gets a *view* of the "
        "other's, `remote=[dot.1,1]`: another name for the same bytes. Two barriers keep the order that the "
        "collective had: no read before the other core has written, and no write before the other core has read.",
        lambda program: _fences(program) == 2 and "remote=[dot.1,1]" in print_bir(program),
    ),
    Step(
        "extend_shared_lifetimes",
        "**One fence is enough, and the tensor lives until all cores have read it.** The pass removes the "
        "barriers of the lowering and places as few fences as order all conflicts. Writing `%dot.1` and reading "
        "it on the other core is the only conflict, so one fence stays. The lifetime of `%dot.1` is the same on "
        "both cores now: from its write to the end of the epoch in which the other core reads it, as that core "
        "may read at any time of that epoch.",
        lambda program: _fences(program) == 1,
    ),
    Step(
        "coloring_allocator_dram_shared",
        "**An address.** Two buffers of a core may share bytes where their lifetimes do not overlap. On core 0 "
        "`%add.35` gets the bytes of `%dot`, which nothing reads any more when `%add.35` is written. `%dot.1` "
        "overlaps both, so its bytes are its own. Views have no address yet. A `-` is an address that is not "
        "known.",
        lambda program: _place(program, RESULT, 0) == _place(program, "dot", 0)
        and not _views_have_the_address(program),
    ),
    Step(
        "sync_shared_allocations",
        "**The same address on all cores.** Each view gets the address of its owner: `%all-reduce.stage0.nc1` on "
        "core 0 and `%dot.1` on core 1 are the same bytes.",
        _views_have_the_address,
    ),
    Step(
        "anti_dependency_analyzer_post_shared_dram",
        "**Order over bytes.** Sharing bytes makes order necessary that no name shows: on core 0, "
        "`%all-reduce.out0` writes the bytes of `%dot`, so `%dot.1`, which reads `%dot`, must be complete before. "
        "The edges to `%dot.1` and the fence give this order already; the pass adds an edge where nothing does.",
        _views_have_the_address,
        occurrence=1,
    ),
)  # fmt: skip


def page_parts() -> list[str]:
    """The page: paragraphs, and blocks of text."""
    programs = _programs()
    start, steps = programs["", 0], []
    for before, after in pairwise(("", *STEPS)):
        was = programs[(before.name, before.occurrence) if isinstance(before, Step) else ("", 0)]
        assert isinstance(after, Step)
        now = programs[after.name, after.occurrence]
        if not after.holds(now):
            raise ValueError(f"the text of {after.name} in tools/tensor_way.py is not true any more")
        changed = [line for line in _lines(now) if line not in _lines(was)]
        shown = [f"The lines of core 0 that are new:\n\n{_fenced(changed)}"] if changed else []
        steps += [f"## {after.name}", after.text, *shown, _fenced(_map(now))]
    return [
        "# The way of a tensor",
        f"`{EXAMPLE}` is a perceptron whose weights are split over two cores. `%{TENSOR}` is the product of the "
        "hidden layer and the second weights. Each core has half of the hidden layer, so its product is a part of "
        "a sum, and XLA adds up the parts with an all-reduce. This page follows the tensor from there to its "
        "address. The passes ran to make the page; `haulout opt --print-after-changed` shows the same on your "
        "program.",
        "In a map, columns are the instructions of a core in their order, and rows are its buffers; inputs are "
        "left out, as in `memory.html`. `W` writes and `R` reads; `=` is the time in which the buffer is live; "
        "`|` is a fence, where all cores meet. Both cores run the same list; where their maps do not differ, one "
        "is shown.",
        "## After the front end",
        "Each core has a `%dot.1` of its own, and the all-reduce is one instruction. The element-wise operations "
        "between the two products are one, `%mul.20`, and `%dot` is its operand and its result.",
        _fenced(_lines(start)),
        _fenced(_map(start)),
        *steps,
        "## The proof",
        _proof(programs["check", 0]),
        "Next: [the compiler from Python](compiler.md), [lifetimes and "
        "addresses](../design/lifetimes-and-allocation.md), [fences](../design/fences.md), [what each pass "
        "promises](../reference/passes.md).",
    ]


def _programs() -> dict[tuple[str, int], Program]:
    """The program after each pass; passes that run twice are counted."""
    program = api.load(EXAMPLE if Path(EXAMPLE).is_file() else ROOT / EXAMPLE)
    found, context = {("", 0): program}, PassContext()
    for each in compile_pipeline():
        program = PassManager([each]).run(program, context)
        found[each.name, sum(name == each.name for name, _ in found)] = program
    if any(each.severity > Severity.NOTE for each in context.all_findings):
        raise ValueError(f"{EXAMPLE} is not proved")
    return found


def _proof(program: Program) -> str:
    begin, size = _place(program, TENSOR, 0)
    return (
        f"`check` reads the result and nothing else: `%{TENSOR}` of core 0 has the bytes {begin} to {begin + size} "
        "under both its names; every write of them comes before every read in all schedules; and nothing else writes "
        "them while they are live. The program is clean."
    )


def _lines(program: Program) -> list[str]:
    """Lines of core 0 about the tensor, without attributes that do not matter here."""
    found = []
    for line in print_bir(program).split("module @nc1")[0].splitlines():
        if any(word in line for word in _WORDS) and "outputs=" not in line:
            words = line.strip().split(" ")
            cut = "".join(f" {word}" for word in words if not f" {word}".startswith(_LEFT_OUT)).strip()
            found.append(cut)
    return found


def _map(program: Program) -> list[str]:
    maps = [_map_of(program, core) for core in range(program.lnc)]
    if all(each[1:] == maps[0][1:] for each in maps):
        maps = [["cores 0 and 1", *maps[0][1:]]]
    return [line for number, each in enumerate(maps) for line in ([""] if number else []) + each]


def _map_of(program: Program, core: int) -> list[str]:
    rows, life = program.locations, lifetimes(program)
    first, last = np.searchsorted(program.instruction_core, [core, core + 1]).tolist()
    fences = set((fence_rows(program) - first).tolist())
    mine = [
        row for row in np.flatnonzero(program.location_core == core).tolist()
        if rows.kind[row] in (Kind.INTERNAL, Kind.OUTPUT)
    ]  # fmt: skip
    mine.sort(key=lambda row: (int(rows.address[row]), row))
    lines = [f"core {core}"]
    for row in mine:
        cells = [_cell(program, row, at, life.begin[row] <= at < life.end[row]) for at in range(first, last)]
        cells = ["|" if at in fences and cell in ("", "=") else cell for at, cell in enumerate(cells)]
        drawn = "".join(
            cell.center(_CELL, "=" if life.begin[row] <= first + at < life.end[row] else " ")
            for at, cell in enumerate(cells)
        )
        lines.append(f"  {_title(program, row):{_MARGIN}}{drawn}".rstrip())
    names = [program.instruction_name(row) for row in range(first, last)]
    numbers = "".join(str(number).center(_CELL) for number in range(1, len(names) + 1))
    lines.append(f"  {'':{_MARGIN}}{numbers}".rstrip())
    lines.append("  " + "  ".join(f"{number} {name}" for number, name in enumerate(names, 1)))
    return lines


def _title(program: Program, row: int) -> str:
    rows, owner = program.locations, int(program.owner[row])
    name = f"%{program.strings[int(rows.name[row])]}"
    address, size = int(rows.address[row]), int(rows.size[row])
    placed = f"{address}:{address + size}" if address != NONE else "-"
    if owner != row:
        name += f" (core {int(program.location_core[owner])})"
    space = "shared" if int(rows.space[row]) else "local"
    return f"{name:34}{space:8}{placed if (rows.address != NONE).any() else ''}"


def _cell(program: Program, row: int, instruction: int, live: bool) -> str:
    accesses = program.accesses
    mine = (accesses.instruction == instruction) & (accesses.location == row)
    reads, writes = bool((mine & ~accesses.write).any()), bool((mine & accesses.write).any())
    return "R" * reads + "W" * writes or ("=" if live else "")


def _fenced(lines: list[str]) -> str:
    return "```text\n" + "\n".join(lines) + "\n```"
