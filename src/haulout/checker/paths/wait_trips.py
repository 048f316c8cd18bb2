"""Waits for a constant count where loops signal: how many iterations show everything then.

`wait_back` looks back from its own place, so it is the same in every iteration, as dependences are. A constant is
not. `wait=[[S,3]]` in a loop that signals S holds back the first iterations and no later one; after such a loop it
holds back until the third, however many there are. Each iteration adds at least 1, so after as many as the constant
it is satisfied for good: two or three more (`step_trips.py`) show what happens from then on. Of a loop whose trip
count is unknown, each number of iterations up to there is another case. Where that is too many, no such run is looked
at: the proof of all runs at once decides alone.

Two cases are simpler. After a loop of known trips, the iterations that are not checked are subtracted from the count.
And some waits are satisfied by signals made before the loop (`order/skipped_iterations.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from haulout.checker.paths.control_flow import ControlFlow
from haulout.checker.paths.runs import MAX_INSTRUCTIONS, longest
from haulout.checker.paths.step_trips import MAX_COPIES, MAX_COPIES_UNKNOWN, Copies
from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label
from haulout.ir.semaphores import semaphore_use
from haulout.support.diagnostics import Diagnostic, Severity


def counted_copies(
    flow: ControlFlow, wanted: Mapping[int, Copies]
) -> tuple[dict[int, Copies], dict[int, Diagnostic]]:
    """The iterations of each loop to check, where `wanted` is enough without constants; and `bad-input` for the
    headers of loops of which that is too many.
    """
    program, structure = flow.program, flow.structure
    chosen, beyond = dict(wanted), dict[int, Diagnostic]()
    use = semaphore_use(program)
    waiting = flow.block[use.waits.instruction]
    constants = np.flatnonzero(~use.waits.back & (waiting != NONE))
    if not len(constants) or not structure.loops:
        return chosen, beyond
    signalling = flow.block[use.signals.instruction]
    made: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for at in np.flatnonzero(signalling != NONE).tolist():
        semaphore = int(use.signals.core[at]), int(use.signals.name[at])
        row = int(use.signals.instruction[at])
        made.setdefault(semaphore, []).append((int(signalling[at]), row, int(use.signals.amount[at])))
    for at in constants.tolist():
        row, value, block = int(use.waits.instruction[at]), int(use.waits.value[at]), int(waiting[at])
        signals = made.get((int(program.instruction_core[row]), int(use.waits.name[at])), [])
        for loop in structure.loops.values():
            if not any(loop.begin <= inside < loop.end for inside, *_ in signals):
                continue
            if block >= loop.end and loop.trip != NONE:
                continue
            outside = [each for each in signals if not loop.begin <= each[0] < loop.end]
            if value <= _before(flow, outside, row, block):
                continue
            turns = chosen[loop.header].turns
            needed = value + turns if loop.trip == NONE else min(value + turns, loop.trip)
            if needed <= chosen[loop.header].count:
                continue
            longer = Copies(needed, 0 if loop.trip != NONE else needed, stepped=True, turns=turns)
            limit = MAX_COPIES_UNKNOWN if loop.trip == NONE else MAX_COPIES
            if (
                needed <= limit
                and longest(structure, {**chosen, loop.header: longer}, flow.sizes) <= MAX_INSTRUCTIONS
            ):
                chosen[loop.header] = longer
                continue
            message = (
                f"not supported: it waits until semaphore {format_name(use.names[int(use.waits.name[at])])} is "
                f"{value}, which the loop at {flow.name(loop.header)} signals; {needed} iterations would have to be "
                "looked at"
            )
            help_text = "wait_back counts back from where it stands, and needs two"
            label = instruction_label(program, row)
            finding = Diagnostic("bad-input", Severity.ERROR, message, (label,), (), (help_text,))
            beyond.setdefault(loop.header, finding)
    return chosen, beyond


def _before(flow: ControlFlow, signals: Sequence[tuple[int, int, int]], row: int, block: int) -> int:
    """The least that some signals (block, instruction, amount) add before an instruction, by list order."""
    total, core, structure = 0, flow.program.instruction_core, flow.structure
    for theirs, instruction, amount in signals:
        if theirs == block:
            total += amount if core[instruction] == core[row] and instruction < row else 0
        elif theirs < block:
            times = 1
            for number in structure.loops_around(theirs):
                if number not in structure.loops_around(block):
                    loop = structure.loops[number]
                    times *= max(loop.trip, 0) + (loop.header == theirs)
            total += amount * times
    return total
