"""What the builder refuses, at the call that is wrong: every row names the entity and what it got."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from haulout.checker import check_program
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError

FLOATS = {"dtype": "f32", "shape": [16]}


class Made:
    """Two cores with a function each; the first has a shared location, one of floats, a block, an instruction."""

    def __init__(self) -> None:
        self.build = build = ProgramBuilder("p", 2)
        self.functions = [build.function(build.module(f"nc{core}", core), "main") for core in range(2)]
        main = self.functions[0]
        self.s = build.location(main, "s", Space.DRAM_SHARED, 64)
        self.x = build.location(main, "x", Space.DRAM_LOCAL, 64, kind=Kind.INOUT, **FLOATS)
        self.none = build.location(main, "none", Space.DRAM_LOCAL, 0)
        self.far = build.location(self.functions[1], "s", Space.DRAM_SHARED, 64, remote=("s", 0))
        self.block = build.block(main, "entry")
        self.other = build.block(self.functions[1], "entry")
        self.a = build.instruction(self.block, "a", "copy", Engine.VECTOR, [self.x], [self.s], seq=3)
        self.b = build.instruction(self.other, "b", "copy", Engine.VECTOR, [self.far], [], seq=4)

    def location(self, **changes: Any) -> int:
        """A location of the second function, some things about it changed."""
        given = {"function": self.functions[1], "name": "new", "space": Space.DRAM_LOCAL, "size": 64}
        return self.build.location(**{**given, **changes})

    def instruction(self, **changes: Any) -> int:
        """An instruction of the first block, some things about it changed."""
        given: dict[str, Any] = {"block": self.block, "name": "new", "opcode": "copy", "engine": Engine.POOL}
        return self.build.instruction(**{**given, "seq": 5, **changes})


def test_what_is_right_is_made() -> None:
    made = Made()
    made.location(kind=Kind.CONST, size=3, data="AAAA")
    made.location(name="other", address=128, bank=0, partition=np.int64(0), parts=1, dtype="s8", shape=[8, 8])
    made.instruction(reads=[(made.s, Pattern(0, 4, ((8, 2),)))], deps=[made.a], attrs={"op": "add", "n": [1, 2.5]})
    made.build.barrier(made.block, "meet0", "meet", cores=[0, 1], index=0, seq=6)
    made.build.barrier(made.other, "meet0", "meet", cores=[0, 1], index=0, seq=6)
    program = made.build.freeze()
    assert verify(program) == []
    assert not [each for each in check_program(program) if each.code == "bad-input"]


CALLS: dict[str, tuple[Callable[[Made], Any], str]] = {
    "cores": (lambda made: ProgramBuilder("p", 1025), "program 'p': lnc=1025, expected an integer from 1 to 1024"),
    "no number": (lambda made: ProgramBuilder("p", True), "program 'p': lnc=True, expected an integer"),
    "line break": (lambda made: ProgramBuilder("p\n", 1), "program: name='p\\n' has control characters"),
    "module of a core too many": (
        lambda made: made.build.module("nc2", 2),
        "module @nc2: core=2, expected an integer from 0 to 1",
    ),
    "module out of turn": (lambda made: ProgramBuilder("p", 2).module("nc1", 1), "module @nc1: core=1, expected 0"),
    "function of no module": (
        lambda made: made.build.function(7, "main"),
        "function @main: 7 is not a row of modules, which has 2",
    ),
    "function twice": (
        lambda made: made.build.function(0, "main"),
        "function @main on core 0: the name is already used",
    ),
    "function of one core": (
        lambda made: made.build.function(1, "extra"),
        "function @extra on core 1: functions must be equal on all cores; core 0 has main",
    ),
    "location of no function": (
        lambda made: made.location(function=-1),
        "location %new: -1 is not a row",
    ),
    "location out of turn": (
        lambda made: made.location(function=0),
        "location %new of @main on core 0: the locations of a later function were made before",
    ),
    "location twice": (
        lambda made: made.location(name="s"),
        "location %s of @main on core 1: the name is already used",
    ),
    "empty name": (lambda made: made.location(name=""), "location % of @main on core 1: the name is empty"),
    "name that is none": (
        lambda made: made.location(name=3),
        "location %3 of @main on core 1: name=3, expected text",
    ),
    "space": (lambda made: made.location(space=9), "location %new of @main on core 1: space=9, expected one of"),
    "kind": (lambda made: made.location(kind=9), "kind=9, expected one of INTERNAL"),
    "size": (lambda made: made.location(size=-5), "location %new of @main on core 1: size=-5, expected an integer"),
    "huge size": (lambda made: made.location(size=2**62 + 1), "size=4611686018427387905, expected an integer from 0"),
    "align": (lambda made: made.location(align=0), "align=0, expected an integer from 1"),
    "dtype": (lambda made: made.location(dtype="f31"), "location %new of @main on core 1: dtype='f31', expected one"),
    "shape": (lambda made: made.location(dtype="f32", shape=[15]), "size=64, but f32[15] is 60 bytes"),
    "scalar": (lambda made: made.location(dtype="f32"), "size=64, but f32[] is 4 bytes"),
    "extent": (lambda made: made.location(shape=[-1]), "an extent=-1, expected an integer from 0"),
    "data": (lambda made: made.location(kind=Kind.CONST, data="!!"), "data is not base64"),
    "short data": (lambda made: made.location(kind=Kind.CONST, data="AAAA"), "data is 3 bytes, size=64"),
    "data of an input": (
        lambda made: made.location(size=3, kind=Kind.INPUT, data="AAAA"),
        "only kind=const may have data, not input",
    ),
    "local view": (
        lambda made: made.location(remote=("s", 0)),
        "only dram.shared may have remote, not dram.local",
    ),
    "view of itself": (
        lambda made: made.location(space=Space.DRAM_SHARED, remote=("s", 1)),
        "remote=('s', 1) is on its own core",
    ),
    "view of a core too many": (
        lambda made: made.location(space=Space.DRAM_SHARED, remote=("s", 2)),
        "the core of remote=2, expected an integer from 0 to 1",
    ),
    "address": (lambda made: made.location(address=32), "address=32 is not a multiple of 64"),
    "negative bank": (lambda made: made.location(bank=-2), "bank=-2, expected an integer from 0"),
    "no parts": (lambda made: made.location(parts=0), "parts=0, expected an integer from 1"),
    "attribute": (lambda made: made.location(attrs={"a b": 1}), "'a b' is not a name"),
    "value of an attribute": (lambda made: made.location(attrs={"a": {}}), "not an attribute value: {}"),
    "block twice": (
        lambda made: made.build.block(made.functions[1], "entry"),
        "block ^entry of @main on core 1: the name is already used",
    ),
    "trip": (
        lambda made: made.build.block(made.functions[1], "loop", trip=-1),
        "block ^loop of @main on core 1: trip=-1, expected an integer",
    ),
    "condition elsewhere": (
        lambda made: made.build.block(made.functions[1], "fork", cond=made.x),
        "block ^fork of @main on core 1: %x belongs to another function, on core 0",
    ),
    "condition without bytes": (
        lambda made: ProgramBuilder.block(made.build, made.functions[0], "fork", cond=made.none),
        "block ^fork of @main on core 0: it branches on %none, which has no bytes",
    ),
    "edge": (
        lambda made: made.build.edge(made.block, made.other),
        "the edge from ^entry leads to ^entry of another function",
    ),
    "edge to nowhere": (
        lambda made: made.build.edge(made.block, 5),
        "the edge from ^entry: 5 is not a row",
    ),
    "instruction of no block": (
        lambda made: made.instruction(block=9),
        "instruction %new: 9 is not a row of blocks, which has 2",
    ),
    "instruction twice": (
        lambda made: made.instruction(name="a"),
        "instruction %a of @main on core 0: the name is already used",
    ),
    "opcode": (
        lambda made: made.instruction(opcode="no op"),
        "instruction %new of @main on core 0: 'no op' is not an opcode",
    ),
    "engine": (lambda made: made.instruction(engine=99), "engine=99, expected one of PE"),
    "engine all": (
        lambda made: made.instruction(engine=Engine.ALL),
        "instruction %new of @main on core 0: only core_barrier may run on engine all, not copy",
    ),
    "barrier by hand": (
        lambda made: made.instruction(opcode="core_barrier", engine=Engine.ALL),
        "use ProgramBuilder.barrier for core_barrier",
    ),
    "negative seq": (lambda made: made.instruction(seq=-1), "seq=-1, expected an integer from 0"),
    "seq falls": (
        lambda made: made.instruction(seq=2),
        "instruction %new of @main on core 0: seq falls from 3 to 2 along its block",
    ),
    "without seq": (
        lambda made: made.instruction(seq=None),
        "instruction %new of @main on core 0: seq=None, but seq must be on all instructions of a function or on none",
    ),
    "operand": (
        lambda made: made.instruction(reads=[99]),
        "instruction %new of @main on core 0: 99 is not a row of locations, which has 4",
    ),
    "operand of another core": (
        lambda made: made.instruction(reads=[made.far]),
        "instruction %new of @main on core 0: %s belongs to another function, on core 1",
    ),
    "bytes outside": (
        lambda made: made.instruction(reads=[(made.x, Pattern(60, 8))]),
        "instruction %new of @main on core 0: %x: [60:68] touches bytes 60:68 of a location of 64 bytes",
    ),
    "strides outside": (
        lambda made: made.instruction(reads=[(made.x, Pattern(0, 4, ((-8, 2),)))]),
        "touches bytes -8:4 of a location of 64 bytes",
    ),
    "no pattern": (lambda made: made.instruction(reads=[(made.x, (0, 4))]), "(0, 4)"),
    "empty run": (lambda made: made.instruction(reads=[(made.x, Pattern(0, 0))]), "the run of a pattern=0"),
    "read behind a write": (
        lambda made: made.build.access(made.instruction(writes=[made.x]), made.s, write=False),
        "instruction %new of @main on core 0: reads must come before writes",
    ),
    "operand too late": (
        lambda made: made.build.access(made.a, made.s, write=True),
        "instruction %a of @main on core 0: operands of a later instruction were added before",
    ),
    "waits for itself": (
        lambda made: made.build.dependence(made.a, made.a),
        "instruction %a of @main on core 0: it depends on instruction %a of @main on core 0, which is not before it",
    ),
    "waits for another core": (
        lambda made: made.instruction(deps=[made.b]),
        "instruction %new of @main on core 0: it depends on instruction %b of @main on core 1",
    ),
    "waits for nothing": (lambda made: made.instruction(deps=[17]), "17 is not a row of instructions, which has 3"),
    "participant": (
        lambda made: made.build.barrier(made.block, "m", "meet", cores=[0, 2], seq=6),
        "core_barrier %m: a participant=2, expected an integer from 0 to 1",
    ),
    "no participants": (
        lambda made: made.build.barrier(made.block, "m", "meet", cores=[], seq=6),
        "core_barrier %m: cores=[], expected at least one",
    ),
    "peer": (
        lambda made: made.build.sendrecv(made.block, "m", Engine.DMA0, to=2, source=None, seq=6),
        "sendrecv %m: to=2, expected an integer from 0 to 1",
    ),
}


@pytest.mark.parametrize("what", CALLS)
def test_what_is_wrong_is_refused_at_the_call(what: str) -> None:
    call, message = CALLS[what]
    made = Made()
    with pytest.raises(HauloutError) as refused:
        call(made)
    (finding,) = refused.value.diagnostics
    assert finding.code == "bad-input"
    assert message in finding.message
    assert "\n" not in finding.message
