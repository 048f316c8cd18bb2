"""Waits for a constant count where loops signal: how many iterations show everything then.

`wait_back` looks back from where it stands, so it is the same in every iteration, as dependences are. A constant is
not. `wait=[[S,3]]` in a loop that signals S holds back the first iterations and no later one; behind such a loop it
holds back until the third, however many there are. Each iteration adds at least 1, so after as many as the constant
it is satisfied for good: two more show what happens from then on. Of a loop whose trip count is unknown, each number
of iterations up to there is another case.

Two are simpler. What stands behind a loop of known trips: the iterations that are not looked at are subtracted from
the count. And what is satisfied by signals that have been made before the loop (`iterations.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from haulout.checker.paths.loops import Nest, block_rows
from haulout.checker.paths.step_trips import MOST_COPIES, MOST_GUESSED, Copies
from haulout.ir.attributes import format_name
from haulout.ir.enums import LINES, NONE
from haulout.ir.labels import instruction_label
from haulout.ir.program import Program
from haulout.ir.semaphores import semaphore_use
from haulout.support.diagnostics import Diagnostic, Severity

_MOST_ROWS = 1 << 18
"""Instructions of the run in which all loops run."""


def counted_copies(
    program: Program, functions: Sequence[int], nest: Nest, wanted: Sequence[Copies]
) -> list[Copies] | Diagnostic:
    """The iterations of each loop to look at, where `wanted` would do without constants; a diagnostic when that is
    too many.
    """
    chosen = list(wanted)
    use = semaphore_use(program)
    fixed = np.flatnonzero(~use.waits.back & np.isin(program.instruction_function[use.waits.instruction], functions))
    if not len(fixed) or not nest.loops:
        return chosen
    first = np.zeros(len(program.functions), np.int64)
    for function in functions:
        first[function] = block_rows(program, function).start

    def place(instruction: np.ndarray) -> np.ndarray:
        blocks = program.instructions.block[instruction] - first[program.instruction_function[instruction]]
        return np.asarray(blocks)

    mine = np.flatnonzero(np.isin(program.instruction_function[use.signals.instruction], functions))
    made: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for at, block in zip(mine.tolist(), place(use.signals.instruction[mine]).tolist(), strict=True):
        semaphore = int(use.signals.core[at]), int(use.signals.name[at])
        row = int(use.signals.instruction[at])
        made.setdefault(semaphore, []).append((block, row, int(use.signals.amount[at])))
    for at, block in zip(fixed.tolist(), place(use.waits.instruction[fixed]).tolist(), strict=True):
        row, value = int(use.waits.instruction[at]), int(use.waits.value[at])
        signals = made.get((int(program.instruction_core[row]), int(use.waits.name[at])), [])
        for number, loop in enumerate(nest.loops):
            if not any(loop.header <= inside < loop.end for inside, *_ in signals):
                continue
            if block >= loop.end and loop.trip != NONE:
                continue
            outside = [each for each in signals if not loop.header <= each[0] < loop.end]
            if value <= _before(program, nest, outside, row, block):
                continue
            needed = value + 2 if loop.trip == NONE else min(value + 2, loop.trip)
            if needed <= chosen[number].count:
                continue
            chosen[number] = Copies(needed, 0 if loop.trip != NONE else needed, stepped=True)
            most = MOST_GUESSED if loop.trip == NONE else MOST_COPIES
            if needed > most or _rows(program, functions, nest, chosen) > _MOST_ROWS:
                return _refusal(program, row, use.names[int(use.waits.name[at])], value, loop.name, needed)
    return chosen


def counts_choices(program: Program, functions: Sequence[int], nest: Nest) -> bool:
    """Whether leaving out what a run need not execute might add order: where a semaphore that is signalled in an arm,
    or in a loop that may not run, is waited for by a constant, or is signalled by several queues.
    """
    use = semaphore_use(program)
    block = np.full(len(program.blocks), NONE, np.int64)
    for function in functions:
        rows = block_rows(program, function)
        block[rows.start : rows.stop] = np.arange(len(rows))
    maybe = np.array(
        [any(arm != NONE or nest.loops[number].trip == NONE for number, arm in around) for around in nest.around]
    )
    signals, waits = use.signals, use.waits
    made = block[program.instructions.block[signals.instruction]]
    mine = np.flatnonzero(made != NONE)
    name = signals.core[mine].astype(np.int64) * (len(use.names) + 1) + signals.name[mine]
    chosen = np.unique(name[maybe[made[mine]]])
    constant = waits.instruction[~waits.back]
    wanted = program.instruction_core[constant].astype(np.int64) * (len(use.names) + 1) + waits.name[~waits.back]
    if np.isin(wanted, chosen).any():
        return True
    instruction = signals.instruction[mine][np.isin(name, chosen)]
    queue = program.instruction_core[instruction] * np.int64(LINES) + program.instructions.engine[instruction]
    pairs = np.unique(np.stack([name[np.isin(name, chosen)], queue]), axis=1)
    return bool(len(np.unique(pairs[0])) < pairs.shape[1])


def _before(program: Program, nest: Nest, signals: Sequence[tuple[int, int, int]], row: int, block: int) -> int:
    """The least that some signals (block, instruction, amount) add before an instruction, by list order."""
    total = 0
    for theirs, instruction, amount in signals:
        if theirs == block:
            same = program.instruction_core[instruction] == program.instruction_core[row]
            total += amount if same and instruction < row else 0
        elif theirs < block:
            times = 1
            for loop in nest.paths[theirs]:
                if loop not in nest.paths[block]:
                    times *= max(nest.loops[loop].trip, 0) + (nest.loops[loop].header == theirs)
            total += amount * times
    return total


def _rows(program: Program, functions: Sequence[int], nest: Nest, copies: Sequence[Copies]) -> int:
    """Instructions of the run in which all loops run."""
    starts = program.starts("instructions", "blocks")
    total = 0
    for function in functions:
        for number, block in enumerate(block_rows(program, function)):
            times = 1
            for loop in nest.paths[number]:
                times *= copies[loop].count + 1
            total += times * int(starts[block + 1] - starts[block])
    return total


def _refusal(program: Program, row: int, name: str, value: int, loop: str, needed: int) -> Diagnostic:
    message = (
        f"not supported: it waits until semaphore {format_name(name)} is {value}, which the loop at {loop} signals; "
        f"{needed} iterations would have to be looked at"
    )
    help_text = "wait_back counts back from where it stands, and needs two"
    label = instruction_label(program, row)
    return Diagnostic("bad-input", Severity.ERROR, message, (label,), (), (help_text,))
