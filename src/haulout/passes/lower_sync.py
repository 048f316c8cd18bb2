"""lower_sync: dependence edges become signals and waits of semaphores, as few as suffice.

    %w = dma_copy @dma0 ...                       signal=[[done.dma0,1]]
    %r = add @vector ... deps=[w]        ->       wait=[[done.dma0,1]]

1. Reduce: an edge that engine order, other edges or a barrier of all engines implies is dropped (`sync/reduce.py`).
2. One counter for each engine that is waited for, `done.ENGINE`: what is waited for adds one when it is complete.
   The engine completes in order, so the count says exactly how far it has come, and it never falls.
3. More such engines than semaphores: some share one, and its signals are made to follow one another
   (`sync/sharing.py`).
4. In a straight list the k-th signal is waited for by `wait=[[done.ENGINE,k]]`. In loops, and behind branches whose
   arms signal unequally often, the count is not a constant; `wait_back` says how many signals may be missing instead
   (`sync/semaphores.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from haulout.ir.enums import NONE, Engine
from haulout.ir.labels import block_label, block_name, instruction_label
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Dependences, Ids, Semaphores
from haulout.passes.base import Pass, PassContext
from haulout.passes.options import Count
from haulout.passes.sync.lists import lists_agree
from haulout.passes.sync.nest import Between
from haulout.passes.sync.reduce import Reduced, reduce_order
from haulout.passes.sync.semaphores import Wait, rows_of, signals_of, with_semaphores
from haulout.passes.sync.sharing import share, unordered
from haulout.support.diagnostics import Label, bad_input, fail


@dataclass(frozen=True)
class LowerSync(Pass):
    """Lowers `deps` and `carried` to `signal`, `wait` and `wait_back`.

    Before: fences are final (barriers are relied on); no semaphores. After: every core uses at most `semaphores`
    semaphores; an instruction starts after all that it waited for before, on every schedule; edges that are realised
    or implied are gone. With `relative_waits=false` nothing but `wait` is used: edges from inside loops and arms stay
    in `deps` and `carried`, and a note (`kept-dependences`) says how many. Errors: `too-few-semaphores` when one for
    each engine is more than `semaphores` and none can be shared; `bad-input` for an edge that has no meaning.
    """

    name: ClassVar[str] = "lower_sync"
    semaphores: Count = 32
    """How many a core may use."""
    relative_waits: bool = True
    """Whether `wait_back` may be used; without it edges from inside loops and arms stay dependences."""

    def run(self, program: Program, context: PassContext) -> Program:
        """Reduce, share, count."""
        if not len(program.dependences):
            return program
        if len(program.semaphores):
            row = int(program.semaphores.instruction[0])
            bad_input("the program has semaphores already", instruction_label(program, row))
        agree = lists_agree(program)
        reduced = reduce_order(program, program.dependences)
        edges = len(reduced.edges)
        plan = _Plan(program, reduced, relative=self.relative_waits and agree)
        plan.choose_groups(self.semaphores, agree)
        chains = plan.straight_chains()
        if len(chains):
            # What follows one another in a straight list implies other edges: reduce again.
            plan.reduced = reduce_order(program, reduced.edges.append(chains))
        rows, kept = plan.realise()
        self._tell(program, context, kept, agree)
        context.count(
            self.name,
            edges=len(program.dependences),
            reduced=edges,
            signals=int((~rows.wait).sum()),
            waits=int(rows.wait.sum()),
            relative=int(rows.back.sum()),
            chained=len(chains),
            kept=len(kept),
            semaphores=plan.most_used(),
        )
        return with_semaphores(program.replace(dependences=kept), rows)

    def _tell(self, program: Program, context: PassContext, kept: Dependences, agree: bool) -> None:
        """One note for each outermost loop or arm from which edges stay."""
        structure, block = program.structure, program.instructions.block.tolist()
        count = Counter(structure.around(block[row])[0] for row in kept.producer.tolist())
        why = (
            "wait_back is not allowed (relative_waits=false)"
            if agree
            else "the cores do not meet in one order, so a wait that looks back further than needed could hang"
        )
        for region, number in sorted(count.items()):
            first = structure.regions[region].begin
            kind, article = ("loop", "a") if region in structure.loops else ("arm", "an")
            name = block_name(program, first)
            context.note(
                "kept-dependences",
                f"{number} dependences on instructions of {kind} {name} on core {program.block_core[first]} "
                f"stay as they are: no constant counts the signals of {article} {kind}, and {why}",
                Label(name, block_label(program, first).span),
            )


class _Plan:
    """What is signalled and waited for, function by function."""

    def __init__(self, program: Program, reduced: Reduced, *, relative: bool) -> None:
        self.program, self.reduced, self.relative = program, reduced, relative
        self.block = program.instructions.block
        self.engines = np.unique(program.instructions.engine).tolist()
        self.in_region: Bools = np.array(program.structure.region_of) != NONE
        self.with_regions = set(program.blocks.function[self.in_region].tolist())
        self.groups: dict[int, list[list[int]]] = {}
        """Function -> lines that share a semaphore."""

    def functions(self) -> Iterator[tuple[int, Dependences, Dependences]]:
        """(function, edges to realise, edges that stay as they are)."""
        edges = self.reduced.edges
        function = self.program.instruction_function[edges.instruction]
        bounds = np.searchsorted(function, np.arange(len(self.program.functions) + 1)).tolist()
        for index in range(len(self.program.functions)):
            mine = edges.take(slice(bounds[index], bounds[index + 1]))
            if index in self.with_regions and not self.relative:
                stays = self.in_region[self.block[mine.producer]]
                yield index, mine.take(~stays), mine.take(stays)
            else:
                yield index, mine, mine.take(slice(0, 0))

    def signals(self, edges: Dependences) -> dict[int, Ids]:
        """Line -> the rows of it that are waited for, ascending."""
        rows = np.unique(edges.producer)
        lines = self.reduced.line[rows]
        return {line: rows[lines == line] for line in np.unique(lines).tolist()}

    def choose_groups(self, most: int, agree: bool) -> None:
        """Which lines share a semaphore in each function."""
        for function, edges, _ in self.functions():
            signals = self.signals(edges)
            if len(signals) > most and (most == 0 or not agree):
                why = (
                    "none is allowed"
                    if most == 0
                    else "the cores do not meet in one order, so signals of several engines cannot follow one another"
                )
                fail(
                    "too-few-semaphores",
                    f"core {self.program.function_core[function]} waits for {len(signals)} engines and has {most} "
                    f"semaphores; {why}",
                    instruction_label(self.program, int(edges.instruction[0])),
                    help=[f"allow semaphores={len(signals)}"],
                )
            self.groups[function] = share(signals, self.reduced.clock, self.reduced.line, max(most, 1))

    def most_used(self) -> int:
        """The largest number of semaphores on a core."""
        return max((len(groups) for groups in self.groups.values()), default=0)

    def straight_chains(self) -> Dependences:
        """Edges between neighbours among the signals of a shared semaphore in straight lists, where there is none."""
        found = Dependences.empty()
        for function, edges, _ in self.functions():
            if function in self.with_regions:
                continue
            signals = self.signals(edges)
            for group in self.groups[function]:
                rows = np.sort(np.concatenate([signals[line] for line in group]))
                late = unordered(rows, self.reduced.clock, self.reduced.line)
                before = rows[np.searchsorted(rows, late) - 1]
                found = found.append(Dependences.make(len(late), instruction=late, producer=before))
        return found

    def realise(self) -> tuple[Semaphores, Dependences]:
        """Signals and waits, and the edges that stay."""
        rows, stay = Semaphores.empty(), Dependences.empty()
        for function, edges, kept in self.functions():
            stay = stay.append(kept)
            signals = self.signals(edges)
            for group in self.groups[function]:
                mine = [signals[line] for line in group if line in signals]
                if not mine:
                    continue
                made: Ids = np.sort(np.concatenate(mine))
                name = self.semaphore(group)
                rows = rows.append(signals_of(made, name))
                wanted = edges.take(np.isin(self.reduced.line[edges.producer], group))
                if function in self.with_regions:
                    waits = self.counted_waits(function, wanted, made, name, chained=len(group) > 1)
                    rows = rows.append(rows_of(waits))
                else:
                    rows = rows.append(_straight_waits(wanted, made, name))
        return rows, stay

    def semaphore(self, group: list[int]) -> int:
        """The name of the semaphore of some lines."""
        engines = ".".join(Engine(self.engines[line]).text for line in group)
        return self.program.strings.intern(f"done.{engines}")

    def counted_waits(self, function: int, edges: Dependences, made: Ids, name: int, *, chained: bool) -> list[Wait]:
        """Waits of one semaphore in a function with loops or forks, each kind's strongest for each instruction."""
        block, between = self.block, Between(self.program, function, made)
        strongest: dict[tuple[int, bool], int] = {}

        def wait(row: int, back: int, fixed: int | None) -> None:
            """All signals before `row` but the last `back`, or `fixed` of them."""
            if fixed is None:
                before = between.before(row, int(block[row]))
                fixed = None if before is None else before - back
            if fixed is None:
                strongest[row, True] = min(back, strongest.get((row, True), back))
            elif fixed > 0:
                strongest[row, False] = max(fixed, strongest.get((row, False), fixed))

        for row, producer, carried in zip(
            edges.instruction.tolist(), edges.producer.tolist(), edges.carried.tolist(), strict=True
        ):
            here, there = int(block[row]), int(block[producer])
            if carried:
                loop = self.program.structure.common_loop(here, there)
                wait(row, between.carried(producer, there, row, here, loop).least, None)
            else:
                before = between.before(producer, there)
                back = between.forward(producer, there, row, here).least
                wait(row, back, None if before is None else before + 1)
        if chained:
            for previous, row in zip([NONE, *made.tolist()], made.tolist(), strict=False):
                same = previous != NONE and block[previous] == block[row]
                if not same or self.reduced.clock[row, self.reduced.line[previous]] < previous:
                    wait(row, 0, None)
        return [Wait(row, name, value, back) for (row, back), value in sorted(strongest.items())]


def _straight_waits(edges: Dependences, made: Ids, name: int) -> Semaphores:
    """Waits of one semaphore in a straight list: the last of an instruction's producers counts."""
    # group by instruction: the first row has the largest producer
    rows, first = np.unique(edges.instruction, return_index=True)
    values = np.searchsorted(made, edges.producer[first]) + 1
    return Semaphores.make(len(rows), instruction=rows, name=name, value=values, wait=True)
