"""Small random tensor programs whose cores run one list, as a front end makes them: whole arrays, some of which a
result overwrites that is made of them.

    program = random_tensor_program(rng)
    inputs = lockstep_inputs(rng, program)

Arrays of `s32`, so that every order of a sum gives the same bits. Operations: element-wise, `dot`, `reduce`,
`broadcast`, `transpose` and slices by patterns, dynamic slices and updates, copies to a piece, padding, windows,
convolutions, gathers, sorts, collectives over all cores or over groups, and a loop whose state is an array.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from haulout.ir.attributes import AttrValue
from haulout.ir.builder import Operand, ProgramBuilder
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern, row_major_strides, strided
from haulout.ir.program import Program
from haulout.ir.replicate import replicate

Shape = tuple[int, ...]
SHAPES: tuple[Shape, ...] = ((8, 4), (4, 8), (8,), (4,), (8, 4, 2), (5, 4), ())


@dataclass(frozen=True, slots=True)
class _Value:
    row: int
    shape: Shape
    block: int | None = None
    """Where an operation made it."""


class _Maker:
    def __init__(self, rng: Random, cores: int) -> None:
        self.rng, self.cores = rng, cores
        self.build = ProgramBuilder("tensors", 1)
        self.function = self.build.function(self.build.module("nc0", 0, subgraph=0), "main")
        self.block = self.build.block(self.function, "entry")
        self.same: dict[int, list[list[int]]] = {}
        self.values: list[_Value] = []
        self.seq = 0

    def location(self, shape: Shape, kind: Kind, data: str | None = None, dtype: str = "s32") -> int:
        name, size = f"v{self.build.count('locations')}", math.prod(shape) * NUMPY[dtype].itemsize
        return self.build.location(
            self.function, name, Space.DRAM_LOCAL, size, kind=kind, dtype=dtype, shape=list(shape), data=data
        )

    def classes(self) -> list[list[int]]:
        cores = list(range(self.cores))
        half = self.cores // 2
        choices = [[cores], [cores], [cores[:half], cores[half:]], [cores[::2], cores[1::2]], [[c] for c in cores]]
        return self.rng.choice(choices)

    def given(self, kind: Kind) -> None:
        shape = self.rng.choice(SHAPES)
        row = self.location(shape, kind)
        self.same[row] = self.classes()
        self.values.append(_Value(row, shape))

    def emit(
        self,
        opcode: str,
        reads: list[Operand],
        write: Operand,
        shapes: list[Shape],
        attrs: dict[str, AttrValue] | None = None,
    ) -> None:
        engine = self.rng.choice((Engine.DMA0, Engine.DMA1) if opcode == "dma_copy" else (Engine.PE, Engine.VECTOR))
        found: dict[str, AttrValue] = dict(attrs or {})
        if opcode != "dma_copy":
            found["shapes"] = [list(shape) for shape in shapes]
        self.build.instruction(self.block, f"i{self.seq}", opcode, engine, reads, [write], seq=self.seq, attrs=found)
        self.seq += 1

    def result(self, opcode: str, operands: list[_Value], shape: Shape, **attrs: AttrValue) -> None:
        self.store(opcode, operands, self.location(shape, Kind.INTERNAL), shape, attrs)

    def store(
        self, opcode: str, operands: list[_Value], row: int, shape: Shape, attrs: dict[str, AttrValue] | None = None
    ) -> None:
        shapes = [*(each.shape for each in operands), shape]
        self.emit(opcode, [each.row for each in operands], row, shapes, attrs)
        self.values = [*(each for each in self.values if each.row != row), _Value(row, shape, self.block)]

    def of(self, *ranks: int) -> _Value | None:
        fitting = [each for each in self.values if len(each.shape) in ranks]
        return self.rng.choice(fitting) if fitting else None

    def groups(self) -> list[AttrValue]:
        cores: list[AttrValue] = list(range(self.cores))
        half = self.cores // 2
        pairs: list[AttrValue] = [cores[:half], cores[half:]]
        return self.rng.choice([[cores], pairs, pairs])

    def step(self) -> None:
        rng = self.rng
        value = self.of(1, 2, 3)
        if value is None:
            return
        shape, out = value.shape, value.shape
        same = [each for each in self.values if each.shape == shape]
        match rng.randrange(15):
            case 0 | 1:
                opcode, pair = rng.choice(("add", "maximum", "subtract")), [value, rng.choice(same)]
                if value.block == self.block and rng.random() < 0.5:
                    self.store(opcode, pair, value.row, shape)
                else:
                    self.result(opcode, pair, shape)
            case 2:
                dim = rng.randrange(len(shape))
                zero = next(each for each in self.values if each.shape == ())
                kept = (*shape[:dim], *shape[dim + 1 :])
                self.result("reduce", [value, zero], kept, dims=[dim], op="add")
            case 3:
                other = self.of(2)
                if other is not None and len(shape) == 2 and shape[1] in other.shape:
                    along = other.shape.index(shape[1])
                    out = (shape[0], other.shape[1 - along])
                    self.result("dot", [value, other], out, lhs_contracting=[1], rhs_contracting=[along])
            case 4:
                out = shape[::-1]
                row = self.location(out, Kind.INTERNAL)
                strides = row_major_strides(shape, 4)[::-1]
                turned = strided(0, strides, out, 4)
                self.emit("add", [(value.row, turned), (value.row, turned)], row, [out, out, out])
                self.values.append(_Value(row, out))
            case 5:
                out = (rng.choice((3, 4, 8)), *shape)
                self.result("broadcast", [value], out, dims=list(range(1, len(out))))
            case 6:
                self.pieces(value)
            case 7:
                self.result("all_reduce", [value], shape, op="add", groups=self.groups())
            case 8:
                groups = self.groups()
                size = len(groups[0]) if isinstance(groups[0], list) else 1
                dim = rng.randrange(len(shape))
                out = (*shape[:dim], shape[dim] * size, *shape[dim + 1 :])
                self.result("all_gather", [value], out, dim=dim, groups=groups)
            case 9:
                self.padded(value)
            case 10:
                dim, size = rng.randrange(len(shape)), rng.choice((2, 3))
                stride = rng.choice((1, 1, size))
                of_dim = {"size": size, "stride": stride, "pad_low": 0, "pad_high": size - 1}
                attrs: dict[str, AttrValue] = {
                    name: [1 if each != dim and name in ("size", "stride") else of_dim[name] if each == dim else 0
                           for each in range(len(shape))]
                    for name in of_dim
                }  # fmt: skip
                out = (*shape[:dim], (shape[dim] - 1) // stride + 1, *shape[dim + 1 :])
                self.result("reduce_window", [value, self.scalar()], out, op="add", **attrs)
            case 11:
                self.convolved(value)
            case 12:
                self.halves(value)
            case 13:
                rows = rng.choice((4, 8))
                self.result("iota", [], (rows, 1), dim=0, start=rng.choice((0, 2)))
                sizes: list[AttrValue] = [1, *shape[1:]]
                of_x: dict[str, AttrValue] = {"start_index_map": [0], "index_vector_dim": 1, "slice_sizes": sizes}
                of_x |= {"offset_dims": list(range(1, len(shape))), "collapsed_slice_dims": [0]}
                self.result("gather", [value, self.values[-1]], (rows, *shape[1:]), **of_x)
            case 14:
                order: list[AttrValue] = [["compare", "pred", [0, 1], "LT"]]
                self.result("sort", [value], shape, dim=rng.randrange(len(shape)), body=order, results=[2])

    def scalar(self) -> _Value:
        return next(each for each in self.values if each.shape == ())

    def padded(self, value: _Value) -> None:
        """Padding in one dimension, perhaps between its elements or negative."""
        dim, gap = self.rng.randrange(len(value.shape)), self.rng.choice((0, 0, 1))
        low, high = self.rng.choice(((0, 4), (4, 0), (1, 2), (-1, 3), (5, 5)))
        attrs: dict[str, AttrValue] = {
            name: [each if at == dim else 0 for at in range(len(value.shape))]
            for name, each in (("low", low), ("high", high), ("interior", gap))
        }
        extent = value.shape[dim]
        grown = extent + (extent - 1) * gap + low + high
        out = (*value.shape[:dim], grown, *value.shape[dim + 1 :])
        self.result("pad", [value, self.scalar()], out, **attrs)

    def convolved(self, value: _Value) -> None:
        """A window of two or three elements over the first dimension, with all of the last one."""
        shape = (1, *value.shape) if len(value.shape) == 2 else value.shape
        if len(shape) != 3:
            return
        size, features = self.rng.choice((2, 3)), self.rng.choice((4, 8))
        self.result("iota", [], (features,), dim=0)
        self.result("broadcast", [self.values[-1]], (size, shape[2], features), dims=[2])
        kernel = self.values[-1]
        stride, padded = self.rng.choice((1, 2)), self.rng.choice((0, 1))
        out = (shape[0], (shape[1] + 2 * padded - size) // stride + 1, features)
        row = self.location(out, Kind.INTERNAL)
        attrs: dict[str, AttrValue] = {"dim_labels": "b0f_0io->b0f", "size": [size], "stride": [stride]}
        attrs |= {"pad_low": [padded], "pad_high": [padded]}
        self.emit("convolution", [value.row, kernel.row], row, [shape, kernel.shape, out], attrs)
        self.values.append(_Value(row, out))

    def halves(self, value: _Value) -> None:
        """A result that holds two arrays side by side, and each of them."""
        *outer, last = value.shape
        wide = (*outer, 2 * last)
        row = self.location(wide, Kind.INTERNAL)
        places = row_major_strides(wide, 4)
        sides = [strided(side * last * 4, places, value.shape, 4) for side in range(2)]
        if self.rng.random() < 0.5:
            for side in sides:
                self.emit("dma_copy", [value.row], (row, side), [])
        else:
            twice = (*outer, 2, last)
            self.emit(
                "broadcast", [value.row], row, [value.shape, twice], {"dims": [*range(len(outer)), len(twice) - 1]}
            )
        self.values.append(_Value(row, wide))
        self.emit("add", [row, row], (made := self.location(wide, Kind.INTERNAL)), [wide] * 3)
        for side in sides:
            half = self.location(value.shape, Kind.INTERNAL)
            self.emit("add", [(made, side), value.row], half, [value.shape] * 3)
            self.values.append(_Value(half, value.shape))

    def pieces(self, value: _Value) -> None:
        """An array of two others, copied one behind the other."""
        shape = value.shape
        other = self.rng.choice([each for each in self.values if each.shape[1:] == shape[1:] and each.shape])
        out = (shape[0] + other.shape[0], *shape[1:])
        row = self.location(out, Kind.INTERNAL)
        begin = 0
        for each in (value, other):
            size = math.prod(each.shape) * 4
            self.emit("dma_copy", [each.row], (row, Pattern(begin, size)), [])
            begin += size
        self.values.append(_Value(row, out))

    def loop(self) -> None:
        """A state that grows by a value in each of three iterations."""
        value = self.of(1, 2, 3)
        assert value is not None
        shape = value.shape
        state, count = self.location(shape, Kind.INTERNAL), self.location((), Kind.INTERNAL)
        zero, one, limit = (self.location((), Kind.CONST, data) for data in ("AAAAAA==", "AQAAAA==", "AwAAAA=="))
        go = self.location((), Kind.INTERNAL, dtype="pred")
        self.emit("dma_copy", [value.row], state, [])
        self.emit("dma_copy", [zero], count, [])
        header = self.build.block(self.function, "header", trip=3, cond=go)
        body = self.build.block(self.function, "body")
        after = self.build.block(self.function, "after")
        for source, target in ((self.block, header), (header, body), (header, after), (body, header)):
            self.build.edge(source, target)
        self.block = header
        self.emit("compare", [count, limit], go, [(), (), ()], {"direction": "LT"})
        self.block = body
        inner = len(self.values)
        self.values.append(_Value(state, shape))
        for _ in range(self.rng.randint(0, 3)):
            self.step()
        same = [each for each in self.values[: inner + 1] if each.shape == shape]
        self.emit("add", [state, self.rng.choice(same).row], state, [shape, shape, shape])
        self.emit("add", [count, one], count, [(), (), ()])
        del self.values[inner + 1 :]
        self.block = after


def random_tensor_program(rng: Random, *, cores: int = 4, steps: int = 10) -> Program:
    """A program of `cores` (even) cores with about `steps` operations; the last values and an `inout` are results."""
    maker = _Maker(rng, cores)
    maker.values.append(_Value(maker.location((), Kind.CONST, "BwAAAA=="), ()))
    for _ in range(rng.randint(2, 4)):
        maker.given(Kind.INPUT)
    maker.given(Kind.INOUT)
    donated = maker.values[-1]
    for _ in range(steps):
        maker.step()
    if rng.random() < 0.5:
        maker.loop()
        maker.step()
    outputs: list[AttrValue] = []
    for value in maker.values[-3:]:
        row = maker.location(value.shape, Kind.OUTPUT)
        shapes = [value.shape] * 3
        maker.emit("add", [value.row, value.row], row, shapes)
    same = [each for each in maker.values if each.shape == donated.shape]
    maker.emit("add", [donated.row, rng.choice(same).row], donated.row, [donated.shape] * 3)
    program = maker.build.freeze()
    program.attrs["outputs"] = outputs
    return replicate(program, cores, same=maker.same)
