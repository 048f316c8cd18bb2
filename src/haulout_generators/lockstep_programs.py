"""Small random programs whose cores run one list, and inputs that differ wherever `same=` allows it.

    program = random_lockstep_program(rng)
    inputs = lockstep_inputs(rng, program)

All cores have the same instructions: element-wise operations, copies through patterns, some of which differ between
cores, partial writes, fills, every collective, with groups of subsets of the cores, atomic and unordered operations,
loops, and branches, divergent ones among them. Constants and inputs are equal on random classes of cores. Locations
may be read before they are written. The simulator runs them once collectives are lowered.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.ir.attributes import AttrValue
from haulout.ir.builder import Operand, ProgramBuilder
from haulout.ir.core_classes import core_classes
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program

ENGINES = (Engine.ACT, Engine.VECTOR, Engine.DMA0, Engine.DMA1)
ELEMENTS = 8
"""Of most locations; pieces have a half and a quarter of them."""
FLOATS = np.array([0.0, -0.0, 1.0, 2.0, np.nan, -np.nan, np.inf], np.float32)


@dataclass(slots=True)
class _Instruction:
    block: int
    name: str
    opcode: str
    reads: list[list[tuple[str, Pattern | None]]]
    """Of each core."""
    writes: list[list[tuple[str, Pattern | None]]]
    attrs: dict[str, AttrValue] = field(default_factory=dict)
    atomic: tuple[int, ...] = ()


@dataclass(slots=True)
class _Location:
    dtype: str
    elements: int
    kind: Kind = Kind.INTERNAL
    data: list[str] | None = None
    same: list[list[int]] | None = None


@dataclass(slots=True)
class _Block:
    leads: list[int] = field(default_factory=list)
    cond: str | None = None
    trip: int | None = None
    divergent: bool = False


def random_lockstep_program(rng: Random, *, cores: int | None = None, steps: int = 4, depth: int = 2) -> Program:
    """One program; equal states of `rng` give equal programs. `steps`: most operations between two branches."""
    return _Generator(rng, rng.choice((2, 3, 4, 4, 6)) if cores is None else cores, steps).program(depth)


def lockstep_inputs(rng: Random, program: Program, *, special: bool = True) -> dict[str, npt.NDArray[Any]]:
    """Values of all inputs, by `MODULE/LOCATION`: each class of `same=` draws its own, from few values; floats
    are `special` (zeros of both signs, NaN, infinity) or normal.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    locations = program.locations
    drawn: dict[tuple[int, int], npt.NDArray[Any]] = {}
    for row in np.flatnonzero(np.isin(locations.kind, (Kind.INPUT, Kind.INOUT))).tolist():
        core, name = int(program.location_core[row]), int(locations.name[row])
        first = next((min(each) for each in core_classes(program, row) if core in each), core)
        if (name, first) not in drawn:
            dtype, shape = program.strings[int(locations.dtype[row])], program.shape(row)
            drawn[name, first] = _drawn(rng, dtype, shape, special)
        found[f"nc{core}/{program.strings[name]}"] = drawn[name, first]
    return found


def _drawn(rng: Random, dtype: str, shape: tuple[int, ...], special: bool) -> npt.NDArray[Any]:
    generator = np.random.default_rng(rng.randrange(2**32))
    if NUMPY[dtype].kind in "biu":
        return generator.integers(0, 2 if dtype == "pred" else 3, shape).astype(NUMPY[dtype])
    return (generator.choice(FLOATS, shape) if special else generator.standard_normal(shape)).astype(NUMPY[dtype])


class _Generator:
    def __init__(self, rng: Random, cores: int, steps: int) -> None:
        self.rng, self.cores, self.steps = rng, cores, steps
        self.locations: dict[str, _Location] = {}
        self.instructions: list[_Instruction] = []
        self.blocks: list[_Block] = []

    def program(self, depth: int) -> Program:
        self._declare()
        self._add_block()
        for name, each in self.locations.items():
            if each.kind is Kind.INTERNAL and self.rng.random() < 0.7:
                self._emit("memset", [], [(name, None)], {"value": self.rng.randrange(2)})
        self._region(depth, divergent=False)
        return self._built()

    # -- locations ----------------------------------------------------------------------------------------------

    def _declare(self) -> None:
        rng = self.rng
        for dtype in ("f32", "s32"):
            for number in range(rng.randint(2, 4)):
                self.locations[f"{dtype[0]}{number}"] = self._location(dtype, ELEMENTS)
            for part in (2, 4):
                self.locations[f"{dtype[0]}p{part}"] = _Location(dtype, ELEMENTS // part)
        everyone = [list(range(self.cores))]
        self.locations["all"] = _Location("s32", ELEMENTS, Kind.INPUT, same=everyone)
        one = np.array([1] + [0] * (ELEMENTS - 1), np.int32)
        self.locations["one"] = _Location("s32", ELEMENTS, Kind.CONST, data=[encode(one)] * self.cores)
        self.locations["id"] = self._constant("s32", list(range(self.cores)))

    def _location(self, dtype: str, elements: int) -> _Location:
        rng = self.rng
        match rng.randrange(5):
            case 0 | 1:
                kind = rng.choice((Kind.INPUT, Kind.INOUT))
                return _Location(dtype, elements, kind, same=self._classes() if rng.random() < 0.8 else None)
            case 2:
                return self._constant(dtype, self._labels())
            case 3:
                return _Location(dtype, elements, Kind.OUTPUT)
        return _Location(dtype, elements)

    def _constant(self, dtype: str, values: Sequence[int]) -> _Location:
        data = [encode(np.full(ELEMENTS, value, NUMPY[dtype])) for value in values]
        return _Location(dtype, ELEMENTS, Kind.CONST, data=data)

    def _labels(self) -> list[int]:
        classes = self.rng.randint(1, self.cores)
        return [self.rng.randrange(classes) for _ in range(self.cores)]

    def _classes(self) -> list[list[int]]:
        by_label: dict[int, list[int]] = {}
        for core, label in enumerate(self._labels()):
            by_label.setdefault(label, []).append(core)
        return list(by_label.values())

    def _named(self, prefix: str) -> str:
        """A location to read."""
        names = [
            name for name, each in self.locations.items() if each.dtype[0] == prefix and each.elements == ELEMENTS
        ]
        return self.rng.choice(names)

    def _target(self, prefix: str) -> str:
        """A location to write: often a new one, or what cores share would soon be nothing."""
        names = [name for name in self._writable(prefix) if self.locations[name].elements == ELEMENTS]
        if names and self.rng.random() < 0.5:
            return self.rng.choice(names)
        name = f"{prefix}v{len(self.locations)}"
        self.locations[name] = _Location({"f": "f32", "s": "s32"}[prefix], ELEMENTS)
        return name

    def _writable(self, prefix: str) -> list[str]:
        kinds = (Kind.CONST, Kind.INPUT)
        return [name for name, each in self.locations.items() if name[0] == prefix and each.kind not in kinds]

    # -- blocks ---------------------------------------------------------------------------------------------------

    def _add_block(self) -> int:
        self.blocks.append(_Block())
        return len(self.blocks) - 1

    def _region(self, depth: int, *, divergent: bool) -> None:
        """Straight code, then perhaps a loop or a branch, and code behind it; ends in a block of the region."""
        for _ in range(self.rng.randint(1, 2)):
            for _ in range(self.rng.randint(0, self.steps)):
                self._operation(collectives=not divergent)
            if depth and self.rng.random() < 0.7:
                if self.rng.random() < 0.5:
                    self._loop(depth, divergent=divergent)
                else:
                    self._branch(depth, divergent=divergent)
        for _ in range(self.rng.randint(0, self.steps)):
            self._operation(collectives=not divergent)

    def _loop(self, depth: int, *, divergent: bool) -> None:
        rng, name = self.rng, f"n{len(self.blocks)}"
        trip = rng.randint(0, 3)
        # The header counts down; a loop may end earlier, by an all-reduce over all cores.
        start = np.full(ELEMENTS, trip + 1, np.int32)
        self.locations[name + ".start"] = _Location("s32", ELEMENTS, Kind.CONST, data=[encode(start)] * self.cores)
        self.locations[name] = _Location("s32", ELEMENTS)
        self._emit("copy", [(name + ".start", None)], [(name, None)])
        before = len(self.blocks) - 1
        header = self._add_block()
        self.blocks[before].leads = [header]
        self._emit("subtract", [(name, None), ("one", None)], [(name, None)])
        known = divergent or rng.random() < 0.7
        cond = name
        if not known:
            self.locations[name + ".sum"] = _Location("s32", ELEMENTS)
            self.locations[name + ".stop"] = _Location("s32", ELEMENTS)
            whole: list[AttrValue] = [list(range(self.cores))]
            operand = self._named("s")
            self._emit("all_reduce", [(operand, None)], [(name + ".sum", None)], {"op": "maximum", "groups": whole})
            self._emit("multiply", [(name + ".sum", None), (name, None)], [(name + ".stop", None)])
            cond = name + ".stop"
        self.blocks[header].cond, self.blocks[header].trip = cond, trip if known and rng.random() < 0.5 else None
        body = self._add_block()
        self._region(depth - 1, divergent=divergent)
        self.blocks[-1].leads = [header]
        after = self._add_block()
        self.blocks[header].leads = [body, after]

    def _branch(self, depth: int, *, divergent: bool) -> None:
        rng, fork = self.rng, len(self.blocks) - 1
        apart = divergent or rng.random() < 0.5
        if apart:
            cond = self._named("s")
        elif rng.random() < 0.5:
            cond = "all"
        else:
            cond = f"q{fork}"
            self.locations[cond] = _Location("s32", ELEMENTS)
            whole: list[AttrValue] = [list(range(self.cores))]
            self._emit("all_reduce", [(self._named("s"), None)], [(cond, None)], {"op": "maximum", "groups": whole})
        # A block branches on a location that it writes itself.
        self.locations[f"c{fork}"] = _Location("s32", ELEMENTS)
        self._emit("copy", [(cond, None)], [(f"c{fork}", None)])
        self.blocks[fork].cond, self.blocks[fork].divergent = f"c{fork}", apart
        first = self._add_block()
        self._region(depth - 1, divergent=apart)
        ends = [len(self.blocks) - 1]
        second = None
        if rng.random() < 0.6:
            second = self._add_block()
            self._region(depth - 1, divergent=apart)
            ends.append(len(self.blocks) - 1)
        join = self._add_block()
        self.blocks[fork].leads = [first, join if second is None else second]
        for end in ends:
            self.blocks[end].leads = [join]

    # -- operations -------------------------------------------------------------------------------------------------

    def _emit(
        self,
        opcode: str,
        reads: Sequence[tuple[str, Pattern | None]],
        writes: Sequence[tuple[str, Pattern | None]],
        attrs: dict[str, AttrValue] | None = None,
        atomic: tuple[int, ...] = (),
    ) -> _Instruction:
        made = _Instruction(
            len(self.blocks) - 1,
            f"i{len(self.instructions)}",
            opcode,
            [list(reads) for _ in range(self.cores)],
            [list(writes) for _ in range(self.cores)],
            attrs or {},
            atomic,
        )
        self.instructions.append(made)
        return made

    def _operation(self, *, collectives: bool) -> None:
        rng = self.rng
        prefix = rng.choice("fs")
        one, other = self._named(prefix), self._named(prefix)
        target = self._target(prefix)
        match rng.randrange(12 if collectives else 7):
            case 0 | 1:
                opcode = rng.choice(("add", "maximum", "subtract", "multiply"))
                self._emit(opcode, [(one, None), (other, None)], [(target, None)])
            case 2:
                self._emit(rng.choice(("negate", "abs", "copy")), [(one, None)], [(target, None)])
            case 3:
                self._emit("memset", [], [(target, self._part(2))], {"value": rng.randrange(2)})
            case 4:
                self._copy(one, target)
            case 5:
                self._emit("iota", [], [(target, None)], {"dim": 0})
            case 6:
                place, old = self._target("s"), self._target("s")
                if rng.random() < 0.5 or place == old:
                    self._emit("add", [(place, None), ("id", None)], [(place, None)], atomic=(0, 2))
                else:
                    writes: list[tuple[str, Pattern | None]] = [(place, None), (old, None)]
                    self._emit("fetch_and_op", [(place, None), ("one", None)], writes, {"op": "add"}, atomic=(0, 2))
            case _:
                self._collective(prefix, one, other, target)

    def _part(self, word: int) -> Pattern | None:
        """Some elements; of two bytes each, if asked for: cut through elements."""
        begin = self.rng.randrange(4 * ELEMENTS // word - 1) * word
        return Pattern(begin, self.rng.randrange(word, 4 * ELEMENTS - begin + 1, word))

    def _copy(self, source: str, target: str) -> None:
        """Copies of a half; which one may differ between cores."""
        half = 2 * ELEMENTS
        patterns = [Pattern(0, half), Pattern(half, half), Pattern(4, half), Pattern(half - 4, 4, ((-4, 4),))]
        patterns = [each for each in patterns if each.nbytes == half]
        if source == target:
            return
        made = self._emit("dma_copy", [(source, None)], [(target, None)])
        for operands, name in ((made.reads, source), (made.writes, target)):
            chosen = [self.rng.choice(patterns) for _ in range(self.cores)]
            labels = self._labels() if self.rng.random() < 0.5 else [0] * self.cores
            for core, label in enumerate(labels):
                operands[core] = [(name, chosen[label])]

    def _collective(self, prefix: str, one: str, other: str, target: str) -> None:
        rng, p2, p4 = self.rng, f"{prefix}p2", f"{prefix}p4"
        sizes = [size for size in (1, 2, 4) if self.cores % size == 0]
        size = rng.choice(sizes)
        equal = self._groups(size)
        piece = {1: target, 2: p2, 4: p4}[size]
        match rng.randrange(6):
            case 0 if one != target:
                op = rng.choice(("add", "maximum"))
                self._emit("all_reduce", [(one, None)], [(target, None)], {"op": op, "groups": self._any_groups()})
            case 1:
                second = self._target(prefix)
                if len({one, other, target, second}) == 4:
                    attrs: dict[str, AttrValue] = {"op": "add", "groups": self._any_groups()}
                    self._emit("all_reduce", [(one, None), (other, None)], [(target, None), (second, None)], attrs)
            case 2 if piece != target:
                self._emit("all_gather", [(piece, None)], [(target, None)], {"dim": 0, "groups": equal})
            case 3 if one != piece:
                attrs = {"op": "add", "dim": 0, "groups": equal}
                self._emit("reduce_scatter", [(one, None)], [(piece, None)], attrs)
            case 4 if one != target:
                self._emit("all_to_all", [(one, None)], [(target, None)], {"dim": 0, "groups": equal})
            case 5 if one != target:
                sources, targets = (rng.sample(range(self.cores), self.cores) for _ in range(2))
                count = rng.randint(0, self.cores)
                pairs_: list[AttrValue] = [[s, t] for s, t in zip(sources[:count], targets[:count], strict=True)]
                self._emit("collective_permute", [(one, None)], [(target, None)], {"pairs": pairs_})

    def _groups(self, size: int) -> list[AttrValue]:
        order = self.rng.sample(range(self.cores), self.cores)
        return [list(order[at : at + size]) for at in range(0, self.cores, size)]

    def _any_groups(self) -> list[AttrValue]:
        return [list(self.rng.sample(each, len(each))) for each in self._classes()]

    # -- the program --------------------------------------------------------------------------------------------

    def _built(self) -> Program:
        rng = self.rng
        build = ProgramBuilder("lockstep", self.cores)
        engines = [rng.choice(ENGINES) for _ in self.instructions]
        for core in range(self.cores):
            function = build.function(build.module(f"nc{core}", core), "main")
            rows = {
                name: build.location(
                    function,
                    name,
                    Space.DRAM_LOCAL,
                    4 * each.elements,
                    kind=each.kind,
                    dtype=each.dtype,
                    shape=[each.elements],
                    data=None if each.data is None else each.data[core],
                    same=each.same,
                )
                for name, each in self.locations.items()
            }
            blocks = [
                build.block(
                    function,
                    f"b{number}",
                    trip=each.trip,
                    cond=None if each.cond is None else rows[each.cond],
                    divergent=each.divergent,
                )
                for number, each in enumerate(self.blocks)
            ]
            for number, each in enumerate(self.blocks):
                for target in each.leads:
                    build.edge(blocks[number], blocks[target])
            for seq, (made, engine) in enumerate(zip(self.instructions, engines, strict=True)):
                reads: list[Operand] = [(rows[name], part) for name, part in made.reads[core]]
                writes: list[Operand] = [(rows[name], part) for name, part in made.writes[core]]
                build.instruction(
                    blocks[made.block],
                    made.name,
                    made.opcode,
                    Engine.POOL if "groups" in made.attrs or "pairs" in made.attrs else engine,
                    reads,
                    writes,
                    seq=seq,
                    attrs=made.attrs,
                    atomic=made.atomic,
                )
        return build.freeze()


def encode(values: npt.NDArray[Any]) -> str:
    """The data of a constant."""
    return base64.b64encode(values.tobytes()).decode("ascii")
