"""Judge by the simulator: schedules with each queue as the slowest in turn, compared through shadow memory.

A program with loops is simulated run by run, written out; a branch becomes an instruction of a queue of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import NONE, Engine, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.sim import compare_schedules
from haulout.support.diagnostics import HauloutError
from haulout_judges.straight import SEQUENCER, Barrier, Step, runs
from haulout_judges.verdict import Outcome, Verdict, hang, joined, unjudged
from haulout_judges.walks import NotStraightError


def judge(program: Program) -> Verdict:
    """The verdict on a program; if the simulator does not support it (loops, `?`), on each of its runs."""
    if not any(program.blocks.cond != NONE):
        verdict = judge_straight(program)
        if verdict.outcome is not Outcome.UNJUDGED:
            return verdict
    try:
        return joined([judge_straight(as_program(steps, program)) for steps in runs(program)])
    except NotStraightError as error:
        return unjudged(str(error))


def judge_straight(program: Program) -> Verdict:
    """The verdict on a program without loops."""
    try:
        return Verdict(Outcome.CLEAN if compare_schedules(program).agrees else Outcome.RACE)
    except HauloutError as error:
        first = error.diagnostics[0]
        return hang(str(first)) if first.code in ("deadlock", "barrier-mismatch") else unjudged(str(first))


def as_program(steps: Sequence[Step], source: Program) -> Program:
    """A run as a straight-line program over one large shared location, byte for byte."""
    build = ProgramBuilder(source.name, source.lnc)
    size = max((max(step.reads | step.writes, default=-1) for step in steps), default=-1) + 1
    row_of: dict[int, int] = {}
    attended: dict[object, Barrier] = {}
    """Barriers in different arms of a divergent fork may have different names: they get the name of the first."""
    for core in range(source.lnc):
        function = build.function(build.module(f"nc{core}", core), "main")
        remote = ("memory", 0) if core else None
        memory = build.location(function, "memory", Space.DRAM_SHARED, max(size, 1), remote=remote)
        block = build.block(function, "entry")
        free = next(e for e in reversed(Engine) if e not in {s.engine for s in steps} and e is not Engine.ALL)
        for at, step in enumerate(steps):
            if step.core != core:
                continue
            if step.signals or step.needs:
                raise NotStraightError("semaphores")
            engine = free if step.engine == SEQUENCER else Engine(step.engine)
            deps = [row_of[each] for each in dict.fromkeys(step.waits)]
            # One operand a byte: two operands of one instruction are the same bytes, or disjoint.
            reads, writes = (
                [(memory, Pattern(byte, 1)) for byte in sorted(touched)] for touched in (step.reads, step.writes)
            )
            if step.barrier is not None:
                first = attended.setdefault(step.barrier.key, step.barrier)
                name = first.name if first.agrees(step.barrier) else step.barrier.name
                row_of[at] = build.barrier(block, f"i{at}", name, engine=engine, cores=step.barrier.cores, deps=deps)
            elif step.sends is not None or step.receives is not None:
                tags = [each[2] for each in (step.sends, step.receives) if each is not None]
                row_of[at] = build.sendrecv(
                    block,
                    f"i{at}",
                    engine,
                    to=step.sends[1] if step.sends else None,
                    source=step.receives[0] if step.receives else None,
                    tag=str(tags[0]),
                    reads=reads,
                    writes=writes,
                    deps=deps,
                )
            else:
                row_of[at] = build.instruction(block, f"i{at}", "mix", engine, reads, writes, deps=deps)
    return build.freeze()
