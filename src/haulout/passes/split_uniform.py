"""split_uniform: values that several cores would compute alike are computed in parts, and stored once.

1. Candidates (`splitting/candidates.py`): locations that are equal within classes of cores, and that operations write
   which can be cut.
2. Cuts (`splitting/choose.py`): every candidate gets a key, every operation that writes one an axis; those that cost
   more than they save are dropped (`splitting/worth.py`), and local search betters the rest (`splitting/improve.py`).
3. Storage: where all that touch a location agree with its key, each core holds its part alone, in a local location of
   that size, and no fence is needed. Otherwise the location becomes a shared one with views; the fences come from
   orders 79 to 84, as for any conflict.
4. Parts (`splitting/parts.py`): on each core the same instruction on boxes of its operands. An `all_reduce` becomes a
   `reduce_scatter` into the core's piece of the result, an `all_gather` a copy of the core's operand to its place.

The proof needs nothing of this: the checker judges order, storage and addresses of the result as of any program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from haulout.ir.enums import Kind
from haulout.ir.labels import instruction_label
from haulout.ir.lockstep import runs_in_lockstep
from haulout.ir.program import Program
from haulout.ir.splits import without_splits
from haulout.passes.base import Pass, PassContext
from haulout.passes.split_report import SplitReport
from haulout.passes.splitting.candidates import Candidates, find_candidates
from haulout.passes.splitting.choose import Chooser, Cuts
from haulout.passes.splitting.improve import improve
from haulout.passes.splitting.parts import emit_parts
from haulout.passes.splitting.prefer import (
    Annotations,
    Asked,
    check_asked,
    named_rows,
    parse_split,
    preferred_keys,
)
from haulout.passes.splitting.record import CONTRADICTION, TOO_DEAR, make_record
from haulout.passes.splitting.values import separate
from haulout.passes.splitting.worth import worthwhile
from haulout.support.diagnostics import bad_input
from haulout.target import DEFAULT, load_target


@dataclass(frozen=True)
class SplitUniform(Pass):
    """Divides work that several cores would do alike, and stores its results once.

    Before: sound; cores in lockstep (`ir/lockstep.py`), else nothing changes. After: locations keep their names and
    together the same values; a location that is cut into parts of its own on each core has the size of a part;
    annotations (`ir/splits.py`) are gone. Warning: `split-not-followed` for one that cannot be followed.
    """

    name: ClassVar[str] = "split_uniform"
    cross_core: ClassVar[bool] = True

    target: str = DEFAULT
    """The machine whose times decide which cuts are worth their fences: a preset, or FILE.toml."""
    split: Sequence[str] = ()
    """Cuts that are asked for: `axis=DIM` for all results where possible, `NAME=DIM` for an operation."""

    def __post_init__(self) -> None:
        """Raise `bad-input` also for a cut of another form."""
        super().__post_init__()
        parse_split(self.split)

    def run(self, program: Program, context: PassContext) -> Program:
        """The steps of the module docstring."""
        asked = parse_split(self.split)
        notes = Annotations.of(program, asked)
        program = without_splits(program)
        if not runs_in_lockstep(program):
            context.count(self.name, operations=0)
            obstacle = "the cores do not run one list of instructions"
            context.split = SplitReport(obstacle=obstacle)
            if named_rows(program, asked):
                bad_input(f"split: no operation can be cut: {obstacle}")
            for row in notes.rows:
                notes.refuse(obstacle, instruction_label(program, row), "annotate a program of one core")
            context.diagnostics.extend(notes.refused)
            return program
        found = find_candidates(program)
        chosen, cuts = self.choose(program, found, asked, notes)
        context.diagnostics.extend(notes.refused)
        program, found, (chosen, cuts) = separate(program, found, (chosen, cuts))
        local = local_parts(program, found, cuts)
        context.split = make_record(program, found, chosen, cuts, local, load_target(self.target), notes.rows)
        self._count(program, found, chosen, cuts, local, context)
        return emit_parts(program, found.operations, cuts, found.classes, local) if cuts.axes else program

    def choose(self, program: Program, found: Candidates, asked: Asked, notes: Annotations) -> tuple[Cuts, Cuts]:
        """The greedy choice, and what becomes of it: without what costs too much, and improved by local search.

        The cuts of operations that the user names or annotates stay; what is asked of all is not improved.
        """
        chosen = Chooser(found.operations, found.sizes, preferred_keys(program, found, asked, notes)).run()
        kept = check_asked(program, found, asked, notes, chosen)
        target = load_target(self.target)
        cuts = worthwhile(program, found.operations, chosen, found.classes, target, kept)
        if asked.dim is None:
            cuts = improve(program, found.operations, found.sizes, found.classes, cuts, target, kept)
        return chosen, cuts

    def _count(
        self, program: Program, found: Candidates, chosen: Cuts, cuts: Cuts, local: set[int], context: PassContext
    ) -> None:
        """Bytes that are stored once now, and those that are not, by reason."""

        def copies(location: int) -> int:
            return int(program.locations.size[location]) * (program.lnc - len(found.classes[location]))

        context.count(
            self.name,
            operations=len(cuts.axes),
            local_parts=len(local),
            shared=len(cuts.keys) - len(local),
            saved_bytes=sum(map(copies, cuts.keys)),
        )
        kept: Counter[str] = Counter()
        for location, reason in found.kept.items():
            kept[reason] += copies(location)
        for location in found.sizes.keys() - cuts.keys.keys():
            kept[TOO_DEAR if location in chosen.keys else CONTRADICTION] += copies(location)
        context.count(f"{self.name}.copied_bytes", **kept)


def local_parts(program: Program, found: Candidates, cuts: Cuts) -> set[int]:
    """Locations that each core may hold its part of alone: whatever touches them agrees with their key."""
    accesses, locations = program.accesses, program.locations
    local = {
        at
        for at, key in cuts.keys.items()
        if locations.kind[at] == Kind.INTERNAL and int(locations.size[at]) % key.period == 0
    }
    for access in range(len(accesses) // program.lnc):
        location, row = int(accesses.location[access]), int(accesses.instruction[access])
        if location in local:
            axis = cuts.axes.get(row)
            at = access - int(program.access_starts[row])
            agrees = axis is not None and axis.keys[at] == cuts.keys[location]
            if not agrees or found.operations[row].classes != found.classes[location]:
                local.discard(location)
    return local
