"""The instructions and counts that `lower_barriers` emits for a barrier.

    %meet = core_barrier @all name="m"  ->  %meet.here.E = nop @E     signal=[[barrier.here,1]]         each engine E
                                            %meet.tell   = nop @sync  wait here, remote_signal of met
                                            %meet        = nop @sync  wait met, signal=[[barrier.go,1]]
                                            %meet.go.E   = nop @E     wait go                           each engine E

The barrier's row becomes the instruction that completes with the barrier, so `deps` and waits on its signals stay
valid. The dependences of the barrier itself move to the first instruction of its line.

Three counters serve all barriers of all engines and cores: `here`, `met`, `go`. Barriers of one engine have a `met`
of their own, and so does every smaller set of participants: `barrier.met.act`, `barrier.met.0.2`. Each wait is for
all signals issued to its counter before it in the list of its core: `here` by the engines, `go` by the keeper, `met`
as many as the core has sent to others, since they have sent the same.

Engines that are idle before or after a barrier do not take part there (`sync/idle_engines.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from haulout.ir.attributes import AttrValue, format_attrs, parse_attrs
from haulout.ir.edit import NewInstructions, insert
from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program
from haulout.ir.schema import Barriers, Instructions, Ints, Semaphores
from haulout.ir.semaphores import semaphore_use
from haulout.passes.sync.idle_engines import find_idle

BARRIER = "barrier"
"""Attribute with the name of the barrier that an instruction belongs to; prefix of the counters."""


@dataclass(slots=True)
class _Part:
    """One instruction of a lowered barrier."""

    barrier: int
    """The row of the `core_barrier`."""
    before: int
    """The old row before which it goes; NONE: it replaces the barrier."""
    name: int
    engine: Engine
    signal: str | None = None
    remote: list[int] = field(default_factory=list)
    """Cores whose counter `met` gets 1."""
    met: str = ""
    wait: str | None = None
    row: int = NONE
    """Its row in the new program."""


def emit_barriers(program: Program) -> tuple[Program, int, int]:
    """(the program without barriers, the number of waits, how many of them are `wait_back`)."""
    parts = _Plan(program).parts()
    program = _without_operands(program)
    added = [part for part in parts if part.before != NONE]
    source = [part.barrier for part in added]
    rows = program.instructions
    new = NewInstructions(
        np.array([part.before for part in added], np.int32),
        Instructions.make(
            len(added),
            name=[part.name for part in added],
            block=rows.block[source],
            opcode=program.strings.intern("nop"),
            engine=[int(part.engine) for part in added],
            seq=rows.seq[source],
            loc=rows.loc[source],
            text_line=rows.text_line[source],
        ),
    )
    old = len(rows)
    program, position = insert(program, new)
    for at, part in enumerate(added):
        part.row = int(position[old + at])
    for part in parts:
        if part.before == NONE:
            part.row = int(position[part.barrier])
    moved: dict[int, int] = {}
    for part in parts:
        # The first part on the keeper's line, or on the barrier's engine.
        if part.signal != _HERE and part.wait != _GO:
            moved.setdefault(int(position[part.barrier]), part.row)
    return _write(program, parts, moved)


_HERE, _GO, _MET = "here", "go", "met"


class _Plan:
    """The instructions of every barrier."""

    def __init__(self, program: Program) -> None:
        self.program, self.idle = program, find_idle(program)
        rows = program.instructions
        self.taken: dict[int, set[int]] = {}
        self.workers: dict[int, list[Engine]] = {}
        """Function -> its engines except the keeper's line."""
        bounds = np.searchsorted(program.instruction_function, np.arange(len(program.functions) + 1)).tolist()
        for function in range(len(program.functions)):
            mine = slice(bounds[function], bounds[function + 1])
            self.taken[function] = set(rows.name[mine].tolist())
            used = np.unique(rows.engine[mine]).tolist()
            self.workers[function] = [Engine(each) for each in used if each not in (Engine.ALL, Engine.SYNC)]

    def parts(self) -> list[_Part]:
        """In the order of their list."""
        program, found = self.program, []
        sets = program.core_sets
        for at, row in enumerate(program.barriers.instruction.tolist()):
            members = sets.members[sets.of[at]]
            others = [core for core in members if core != program.instruction_core[row]]
            engine = Engine(int(program.instructions.engine[row]))
            met = ".".join([_MET, *([] if engine == Engine.ALL else [engine.text])])
            if len(members) < program.lnc:
                met = ".".join([met, *map(str, members)])
            found += self.barrier(at, row, engine, others, met)
        return found

    def barrier(self, at: int, row: int, engine: Engine, others: list[int], met: str) -> list[_Part]:
        """The instructions of one."""
        program = self.program
        function = int(program.instruction_function[row])
        workers = self.workers[function] if engine == Engine.ALL else []
        line = Engine.SYNC if engine == Engine.ALL else engine
        own = int(program.instructions.name[row])
        text = program.strings[own if own != NONE else int(program.barriers.name[at])]

        def fresh(suffix: str) -> int:
            name, count = program.strings.intern(f"{text}.{suffix}"), 1
            while name in self.taken[function]:
                count += 1
                name = program.strings.intern(f"{text}.{suffix}.{count}")
            self.taken[function].add(name)
            return name

        telling = [each for each in workers if (row, each) not in self.idle.before]
        waiting = [each for each in workers if (row, each) not in self.idle.after]
        parts = [_Part(row, row, fresh(f"{_HERE}.{each.text}"), each, signal=_HERE) for each in telling]
        arrived = _HERE if telling else None
        if others:
            parts.append(_Part(row, row, fresh("tell"), line, remote=others, met=met, wait=arrived))
            arrived = met
        parts.append(_Part(row, NONE, own, line, signal=_GO if waiting else None, wait=arrived))
        return parts + [_Part(row, row + 1, fresh(f"{_GO}.{each.text}"), each, wait=_GO) for each in waiting]


def _without_operands(program: Program) -> Program:
    """Drop the operands of barriers, which are handles, not accesses."""
    barrier = np.zeros(len(program.instructions), bool)
    barrier[program.barriers.instruction] = True
    keep = ~barrier[program.accesses.instruction]
    if keep.all():
        return program
    steps = program.steps.take(keep[program.steps.access])
    remap = np.where(keep, np.cumsum(keep) - 1, NONE).astype(np.int32)
    return program.replace(accesses=program.accesses.take(keep), steps=steps.remap({"accesses": remap}))


def _write(program: Program, parts: list[_Part], moved: dict[int, int]) -> tuple[Program, int, int]:
    """The program with the signals and waits of all parts. `moved`: barrier -> the row that takes its waits."""
    strings, rows = program.strings, program.instructions
    prefix = _prefix(program)
    title = dict(zip(program.barriers.instruction.tolist(), program.barriers.name.tolist(), strict=True))
    own = {part.barrier: part.row for part in parts if part.before == NONE}
    attrs: dict[int, dict[str, AttrValue]] = {
        part.row: {BARRIER: strings[title[own[part.barrier]]]} for part in parts if part.row != own[part.barrier]
    }
    for row in title:
        text = strings.get(int(rows.attrs[row])) or ""
        attrs[row] = {**parse_attrs(text), BARRIER: strings[title[row]]}
    table: list[tuple[int, str, int, int, bool, bool]] = []
    """(instruction, name, core, value, wait, back)"""
    for part in parts:
        if part.signal is not None:
            table.append((part.row, f"{prefix}.{part.signal}", NONE, 1, False, False))
    counts = _Counts(program, parts)
    waits = relative = 0
    for part in parts:
        if part.wait is None:
            continue
        count, waits = counts.before(part.row, part.wait), waits + 1
        relative += count is None
        table.append((part.row, f"{prefix}.{part.wait}", NONE, count or 0, True, count is None))
    for part in parts:
        table += [(part.row, f"{prefix}.{part.met}", core, 1, False, False) for core in part.remote]
    engine, opcode, texts = rows.engine.copy(), rows.opcode.copy(), rows.attrs.copy()
    for part in parts:
        engine[part.row] = int(part.engine)
    opcode[list(title)] = strings.intern("nop")
    for row, values in attrs.items():
        texts[row] = strings.intern(format_attrs(values))
    goes = np.arange(len(rows), dtype=np.int32)
    goes[list(moved)] = list(moved.values())
    edges = program.dependences.replace(instruction=goes[program.dependences.instruction])
    have = program.semaphores
    have = have.replace(instruction=np.where(have.wait, goes[have.instruction], have.instruction))
    made = Semaphores.make(
        len(table),
        instruction=[row for row, *_ in table],
        name=[strings.intern(name) for _, name, *_ in table],
        core=[core for _, _, core, *_ in table],
        value=[value for *_, value, _, _ in table],
        wait=[wait for *_, wait, _ in table],
        back=[back for *_, back in table],
    )
    have = have.append(made)
    # By kind, as the text has them; by name those of which it has one list for the whole core.
    kind = 2 * have.wait + (have.back | (have.core != NONE))
    order = np.lexsort((np.where(kind % 2, 0, have.name), kind, have.instruction))
    program = program.replace(
        instructions=rows.replace(engine=engine, opcode=opcode, attrs=texts),
        barriers=Barriers.empty(),
        dependences=edges.take(np.argsort(edges.instruction, kind="stable")),
        semaphores=have.take(order),
    )
    return program, waits, relative


def _prefix(program: Program) -> str:
    """The prefix of the counters: `barrier`, or with a number if a semaphore of the program has this prefix."""
    names = semaphore_use(program).names
    prefix, count = BARRIER, 1
    while any(name.startswith(f"{prefix}.") for name in names):
        count += 1
        prefix = f"{BARRIER}{count}"
    return prefix


class _Counts:
    """The number of signals that a core has issued to a counter before a row."""

    def __init__(self, program: Program, parts: list[_Part]) -> None:
        self.function = program.instruction_function
        inside = np.array(program.structure.region_of)[program.instructions.block] != NONE
        self.begin = np.searchsorted(self.function, np.arange(len(program.functions))).tolist()
        length = np.bincount(self.function, minlength=len(program.functions)).tolist()
        self.sums: dict[tuple[int, str], Ints] = {}
        self.varies: set[tuple[int, str]] = set()
        """Counters with signals from a loop or an arm."""
        for part in parts:
            function = int(self.function[part.row])
            for counter, amount in ((part.signal, 1), (part.met, len(part.remote))):
                if counter and amount:
                    key = (function, counter)
                    if key not in self.sums:
                        self.sums[key] = np.zeros(length[function] + 1, np.int64)
                    self.sums[key][part.row - self.begin[function] + 1] = amount
                    if inside[part.row]:
                        self.varies.add(key)
        for sums in self.sums.values():
            np.cumsum(sums, out=sums)

    def before(self, row: int, counter: str) -> int | None:
        """The number; None if it is not constant, with signals from a loop or an arm."""
        function = int(self.function[row])
        key = (function, counter)
        return None if key in self.varies else int(self.sums[key][row - self.begin[function]])
