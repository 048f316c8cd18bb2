"""All cuts of random instances of each opcode: parts in random order, against the whole operation, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.tiers import examples

from haulout.ir.builder import ProgramBuilder
from haulout.ir.dtypes import NUMPY, itemsize
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.opcodes import OPCODES, lookup
from haulout.ir.patterns import Pattern, row_major_strides
from haulout.ir.program import Program
from haulout.passes.splitting.asked_cuts import add_asked_cuts, axes_with_key
from haulout.passes.splitting.keys import Box, Key, Share, intervals
from haulout.passes.splitting.operations import Axis, Operation, Place, part_attrs, read_operation
from haulout.sim.numerics import TensorType, evaluate

F, S, P = "f32", "s32", "pred"
Bytes = npt.NDArray[np.uint8]
Shape = list[int]
Typed = tuple[str, Shape]
Case = tuple[str, dict[str, Any], list[Typed], list[Typed]]
"""Opcode, attributes, operands, results."""
EXTENTS = (1, 2, 3, 4, 5, 6, 8)


def shape(rng: Random, rank: int | None = None) -> Shape:
    return [rng.choice(EXTENTS) for _ in range(rng.randint(1, 3) if rank is None else rank)]


def elementwise(rng: Random) -> Case:
    dims = shape(rng)
    body = {"body": [["add", F, [0, 1]], ["multiply", F, [2, 0]]], "results": [3]}
    other = rng.choice([dims, []])
    return rng.choice(
        [
            ("add", {}, [(F, dims), (F, dims)], [(F, dims)]),
            ("select", {}, [(P, []), (F, dims), (F, dims)], [(F, dims)]),
            ("clamp", {}, [(F, []), (F, dims), (F, [])], [(F, dims)]),
            ("map", body, [(F, dims), (F, other)], [(F, dims)]),
            ("convert", {}, [(F, dims)], [("f16", dims)]),
            ("reduce_precision", {"exponent_bits": 5, "mantissa_bits": 10}, [(F, dims)], [(F, dims)]),
            ("combine", {"op": "add"}, [(F, dims)] * 3, [(F, dims)]),
        ]
    )


def reinterpreted(rng: Random) -> Case:
    dims = shape(rng)
    wide, narrow = (F, dims), ("u16", [*dims, 2])
    one, other = rng.choice([(wide, narrow), (narrow, wide), (wide, (S, dims))])
    return "bitcast_convert", {}, [one], [other]


def broadcast(rng: Random) -> Case:
    dims = shape(rng, 3)
    kept = sorted(rng.sample(range(3), rng.randint(0, 3)))
    return "broadcast", {"dims": kept}, [(F, [dims[at] for at in kept])], [(F, dims)]


def filled(rng: Random) -> Case:
    dims = shape(rng)
    start = {"start": rng.randrange(300)} if rng.random() < 0.5 else {}
    counted = ("iota", {"dim": rng.randrange(len(dims))} | start, [], [(rng.choice(["u8", S, F]), dims)])
    return rng.choice([counted, ("memset", {"value": 7}, [], [(S, dims)])])


def pad(rng: Random) -> Case:
    dims = shape(rng)
    while True:
        attrs = {key: [rng.randint(-2, 3) for _ in dims] for key in ("low", "high")}
        attrs["interior"] = [rng.choice([0, 0, 1, 2]) for _ in dims]
        out = [
            n + (n - 1) * gap + low + high
            for n, low, high, gap in zip(dims, attrs["low"], attrs["high"], attrs["interior"], strict=True)
        ]
        if min(out) > 0:
            return "pad", attrs, [(F, dims), (F, [])], [(F, out)]


def dot(rng: Random) -> Case:
    batch, contracted, left, right = (shape(rng, rng.randint(0, 2)) for _ in range(4))
    sides, attrs = [], {}
    for name, free in (("lhs", left), ("rhs", right)):
        labels = [("b", at) for at in range(len(batch))] + [("c", at) for at in range(len(contracted))]
        labels += [("f", at) for at in range(len(free))]
        rng.shuffle(labels)
        labels.sort(key=lambda each: each[0] == "f" and each[1])  # free dimensions keep their order
        extents = {"b": batch, "c": contracted, "f": free}
        sides.append((S, [extents[kind][at] for kind, at in labels]))
        attrs[f"{name}_batch"] = [labels.index(("b", at)) for at in range(len(batch))]
        attrs[f"{name}_contracting"] = [labels.index(("c", at)) for at in range(len(contracted))]
    return "dot", attrs, sides, [(S, [*batch, *left, *right])]


def window(rng: Random, rank: int, base: str, dilation: str) -> dict[str, Any]:
    attrs = {"size": [rng.choice([1, 2, 3]) for _ in range(rank)]}
    attrs["stride"] = [rng.choice([1, 1, 2, 3]) for _ in range(rank)]
    for name, values in (("pad_low", (-1, 0, 0, 1, 3)), ("pad_high", (-1, 0, 0, 1, 3)), (base, (1, 1, 2))):
        if rng.random() < 0.7:
            attrs[name] = [rng.choice(values) for _ in range(rank)]
    if rng.random() < 0.5:
        attrs[dilation] = [rng.choice([1, 2]) for _ in range(rank)]
    return attrs


def stops(attrs: dict[str, Any], dims: Shape, base: str, dilation: str) -> Shape:
    """At how many positions a window stops; 0 or less where it does not fit."""
    out = []
    for at, extent in enumerate(dims):
        spread = (extent - 1) * attrs.get(base, [1] * 9)[at] + 1
        padded = spread + attrs.get("pad_low", [0] * 9)[at] + attrs.get("pad_high", [0] * 9)[at]
        reach = (attrs["size"][at] - 1) * attrs.get(dilation, [1] * 9)[at] + 1
        out.append((padded - reach) // attrs["stride"][at] + 1)
    return out


def convolution(rng: Random) -> Case:
    rank = rng.choice([1, 2])
    while True:
        attrs = window(rng, rank, "lhs_dilate", "rhs_dilate")
        space = shape(rng, rank)
        out = stops(attrs, space, "lhs_dilate", "rhs_dilate")
        if min(out) > 0:
            break
    groups = rng.choice([1, 1, 2, 4])
    kind = rng.choice(["feature_groups", "batch_groups"])
    batch, taken, given = rng.choice([1, 2, 3, 4]), rng.choice([1, 2, 3]), rng.choice([1, 2, 4]) * groups
    if groups > 1:
        attrs[kind] = groups
    many_images = groups if kind == "batch_groups" else 1
    features = taken * (groups if kind == "feature_groups" else 1)
    if rng.random() < 0.3:
        attrs["reverse"] = [rng.random() < 0.5 for _ in range(rank)]
    labels = []
    for letters, extents in (
        ("bf", {"b": batch * many_images, "f": features} | {str(at): space[at] for at in range(rank)}),
        ("io", {"i": taken, "o": given} | {str(at): attrs["size"][at] for at in range(rank)}),
        ("bf", {"b": batch, "f": given} | {str(at): out[at] for at in range(rank)}),
    ):
        order = [*letters, *map(str, range(rank))]
        rng.shuffle(order)
        labels.append(("".join(order), [extents[label] for label in order]))
    attrs["dim_labels"] = f"{labels[0][0]}_{labels[1][0]}->{labels[2][0]}"
    image, kernel, result = ((S, extents) for _, extents in labels)
    return "convolution", attrs, [image, kernel], [result]


def reduce(rng: Random) -> Case:
    dims = shape(rng, 3)
    gone = sorted(rng.sample(range(3), rng.randint(1, 2)))
    kept = [n for at, n in enumerate(dims) if at not in gone]
    first = [["compare", P, [0, 2], "GE"], ["select", F, [4, 0, 2]], ["select", S, [4, 1, 3]]]
    return rng.choice(
        [
            ("reduce", {"dims": gone, "op": "add"}, [(F, dims), (F, [])], [(F, kept)]),
            ("reduce", {"dims": gone, "body": first, "results": [5, 6]},
             [(F, dims), (S, dims), (F, []), (S, [])], [(F, kept), (S, kept)]),
            ("map_reduce", {"dims": gone, "op": "add", "body": [["multiply", F, [0, 1]]], "results": [2]},
             [(F, dims), (F, rng.choice([dims, []])), (F, [])], [(F, kept)]),
        ]
    )  # fmt: skip


def reduce_window(rng: Random) -> Case:
    while True:
        dims = shape(rng, 2)
        attrs = window(rng, 2, "base_dilate", "window_dilate")
        out = stops(attrs, dims, "base_dilate", "window_dilate")
        if min(out) > 0:
            break
    how = rng.choice([{"op": "add"}, {"op": "maximum"}, {"body": [["add", F, [0, 1]]], "results": [2]}])
    return "reduce_window", attrs | how, [(F, dims), (F, [])], [(F, out)]


def select_and_scatter(rng: Random) -> Case:
    while True:
        dims = shape(rng, 2)
        attrs: dict[str, Any] = {"size": [rng.choice([1, 2, 3]) for _ in dims]}
        attrs["stride"] = [rng.choice([size, size, 1, 2]) for size in attrs["size"]]
        if rng.random() < 0.2:
            attrs |= {"size": [2, 3], "pad_low": [0, 1], "pad_high": [1, 0]}
        out = stops(attrs, dims, "base_dilate", "window_dilate")
        if min(out) > 0:
            break
    attrs |= {"select": "GE", "op": "add"}
    return "select_and_scatter", attrs, [(S, dims), (S, out), (S, [])], [(S, dims)]


def lines(rng: Random) -> Case:
    dims = shape(rng)
    k = rng.randint(1, dims[-1])
    ordered = {"dim": rng.randrange(len(dims)), "body": [["compare", P, [0, 1], "LT_TOTAL"]], "results": [4]}
    return rng.choice(
        [
            ("topk", {"k": k, "largest": True}, [(F, dims)], [(F, [*dims[:-1], k]), (S, [*dims[:-1], k])]),
            ("sort", ordered, [(F, dims), (S, dims)], [(F, dims), (S, dims)]),
        ]
    )


def sliced(rng: Random) -> Case:
    dims = shape(rng)
    sizes = [rng.choice([n, rng.randint(1, n)]) for n in dims]
    starts = [(S, [])] * len(dims)
    return rng.choice(
        [
            ("dynamic_slice", {"sizes": sizes}, [(F, dims), *starts], [(F, sizes)]),
            ("dynamic_update_slice", {}, [(F, dims), (F, sizes), *starts], [(F, dims)]),
        ]
    )


def indexed(rng: Random) -> Case:
    rows, columns, count, batch = (rng.choice(EXTENTS) for _ in range(4))
    width = rng.choice([columns, rng.randint(1, columns)])
    rows_by_index = {"start_index_map": [0], "index_vector_dim": 1, "offset_dims": [1], "collapsed_slice_dims": [0]}
    of_batch = {"operand_batching_dims": [0], "start_indices_batching_dims": [0], "start_index_map": [1]}
    of_batch |= {"index_vector_dim": 2, "offset_dims": [2], "collapsed_slice_dims": [1]}
    adds: dict[str, Any] = {"op": "add", "update_window_dims": [1], "inserted_window_dims": [0]}
    adds |= {"scatter_dims_to_operand_dims": [0], "index_vector_dim": 1}
    in_batch: dict[str, Any] = {"op": "add", "update_window_dims": [], "inserted_window_dims": [1]}
    in_batch |= {"scatter_dims_to_operand_dims": [1], "input_batching_dims": [0]}
    in_batch |= {"scatter_indices_batching_dims": [0], "index_vector_dim": 2}
    return rng.choice(
        [
            ("gather", rows_by_index | {"slice_sizes": [1, width]},
             [(F, [rows, columns]), (S, [count, 1])], [(F, [count, width])]),
            ("gather", of_batch | {"slice_sizes": [1, 1, width]},
             [(F, [batch, rows, columns]), (S, [batch, count, 1])], [(F, [batch, count, width])]),
            ("scatter", adds, [(F, [rows, columns]), (S, [count, 1]), (F, [count, width])], [(F, [rows, columns])]),
            ("scatter", in_batch, [(F, [batch, rows]), (S, [batch, count, 1]), (F, [batch, count])],
             [(F, [batch, rows])]),
        ]
    )  # fmt: skip


def copied(rng: Random) -> Case:
    dims = shape(rng)
    return "dma_copy", {}, [(F, dims)], [(F, [math.prod(dims)])]


KINDS: list[Callable[[Random], Case]] = [
    *(elementwise, reinterpreted, broadcast, filled, pad, dot, convolution, reduce, reduce_window),
    *(select_and_scatter, lines, sliced, indexed, copied),
]
UNCUT = {name for name, row in OPCODES.items() if row.axes.obstacle is not None or row.collective}


def laid_out(rng: Random, dims: Shape, size: int) -> tuple[Pattern, int]:
    """Where an operand lies in a larger location: perhaps with its dimensions in another order, or as a piece."""
    order = list(range(len(dims)))
    if rng.random() < 0.3:
        rng.shuffle(order)
    extents = [dims[at] for at in order]
    around, first = list(extents), [0] * len(extents)
    if rng.random() < 0.5 and extents:
        at = rng.randrange(len(extents))
        around[at] *= rng.choice([2, 3])
        first[at] = rng.randint(0, around[at] - extents[at])
    steps = row_major_strides(around, size)
    offset = sum(index * step for index, step in zip(first, steps, strict=True))
    strides = dict(zip(order, steps, strict=True))
    pattern = Pattern(offset, size, tuple((strides[at], n) for at, n in enumerate(dims))).canonical()
    return pattern, math.prod(around) * size


def program_of(case: Case, rng: Random) -> Program:
    """One instruction, whose operands are parts of locations."""
    opcode, attrs, operands, results = case
    build = ProgramBuilder("cut", 1)
    function = build.function(build.module("nc0", 0, subgraph=0), "main")
    block = build.block(function, "entry")
    rows, dtypes, shapes = [], [], []
    for number, (dtype, dims) in enumerate([*operands, *results]):
        pattern, size = laid_out(rng, dims, itemsize(dtype))
        kind = Kind.INPUT if number < len(operands) else Kind.INTERNAL
        at = build.location(
            function, f"v{number}", Space.DRAM_LOCAL, size, kind=kind, dtype=dtype, shape=[size // itemsize(dtype)]
        )
        rows.append((at, pattern))
        dtypes.append(dtype)
        shapes.append(list(dims))
    known = attrs | ({"shapes": shapes} if lookup(opcode).typed else {})
    reads, writes = rows[: len(operands)], rows[len(operands) :]
    build.instruction(block, "op", opcode, Engine.VECTOR, reads, writes, seq=0, attrs=known)
    return build.freeze()


class Memory:
    """The bytes of each location, at random; indices are small."""

    def __init__(self, case: Case, program: Program, rng: np.random.Generator) -> None:
        self.bytes: list[Bytes] = []
        opcode, _, operands, results = case
        for at, (dtype, _) in enumerate([*operands, *results]):
            size = int(program.locations.size[at])
            high = 4 if at < len(operands) and lookup(opcode).is_index(at, len(operands)) else 200
            values = rng.integers(0, 2 if dtype == P else high, size // itemsize(dtype))
            self.bytes.append(np.frombuffer(values.astype(NUMPY[dtype]).tobytes(), np.uint8).copy())

    def copy(self) -> Memory:
        made = object.__new__(Memory)
        made.bytes = [each.copy() for each in self.bytes]
        return made


def run(case: Case, operation: Operation, axis: Axis, place: Place, memory: Memory) -> None:
    """One part, on memory."""
    boxes = axis.boxes(operation.operands, place)
    if any(box.is_empty for box in boxes):
        return
    execute(case, axis.opcode, part_attrs(operation, axis, boxes, place), boxes, memory)


def execute(case: Case, opcode: str, attrs: dict[str, Any], boxes: Sequence[Box], memory: Memory) -> None:
    _, _, operands, results = case
    typed = lookup(opcode).typed
    kinds = [NUMPY[dtype] if typed else np.dtype(np.uint8) for dtype, _ in [*operands, *results]]
    where = [(memory.bytes[box.location], box.pattern.bytes()) for box in boxes]
    values = [
        np.frombuffer(data[at].tobytes(), kind).reshape(box.shape)
        for (data, at), kind, box in zip(where, kinds, boxes, strict=True)
    ]
    count = len(operands)
    wanted = [TensorType(kind, tuple(box.shape)) for kind, box in zip(kinds[count:], boxes[count:], strict=True)]
    made = evaluate(opcode, attrs, values[:count], wanted)
    for (data, at), value in zip(where[count:], made, strict=True):
        data[at] = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)


def owners(key: Key, parts: int, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The part to which bytes belong."""
    if key.outer is not None:
        return at % key.outer.period // key.outer.unit * key.indices + owners(key.inner, key.indices, at)
    starts = [begin for begin, _ in intervals(key.indices, parts)]
    return np.searchsorted(starts, at % (key.unit * key.indices) // key.unit, side="right") - 1


def check_packed(key: Key, parts: int, part: int, box: Box, size: int) -> None:
    """A box has bytes of its part alone, and the same ones where a location has no others."""
    at = box.pattern.bytes()
    assert set(owners(key, parts, at).tolist()) == {part}
    if size % key.period == 0:
        mine = np.flatnonzero(owners(key, parts, np.arange(size)) == part)
        place = mine.reshape(size // key.period, -1)
        held = np.full((len(place), key.chunk(parts)), -1)
        held[:, : place.shape[1]] = place
        np.testing.assert_array_equal(held.ravel()[box.packed(key, parts, part).pattern.bytes()], at)


def check(case: Case, seed: int, parts: int, opcodes: set[str]) -> tuple[int, int]:
    """All cuts of an instance; how many there were, and how many of them of two dimensions."""
    rng = Random(seed)
    program = program_of(case, rng)
    operation = read_operation(program, 0, (tuple(range(parts)),))
    assert operation is not None, case
    with_asked = {0: operation}
    sizes = {at: int(program.locations.size[at]) for at in range(len(program.locations))}
    ask_for_all(with_asked, sizes)
    operation = with_asked[0]
    memory = Memory(case, program, np.random.default_rng(seed))
    whole = memory.copy()
    everything = [each.box(None, (0, 0), 0) for each in operation.operands]
    execute(case, operation.opcode, operation.attrs, everything, whole)
    count = in_groups = 0
    for axis in operation.axes:
        results = [at for at, each in enumerate(operation.operands) if each.write]
        if any(axis.keys[at] is None for at in results):
            continue
        count += 1
        opcodes.add(operation.opcode)
        in_groups += axis.groups > 1
        order = list(enumerate(axis.places(parts)))
        rng.shuffle(order)
        mine = memory.copy()
        for part, place in order:
            run(case, operation, axis, place, mine)
            for at, box in enumerate(axis.boxes(operation.operands, place)):
                key = axis.keys[at]
                if key is not None and not box.is_empty:
                    check_packed(key, parts, part, box, len(memory.bytes[box.location]))
        for found, expected in zip(mine.bytes, whole.bytes, strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=f"{case} {axis}")
    return count, in_groups


def ask_for_all(operations: dict[int, Operation], sizes: dict[int, int]) -> None:
    """Cuts that other accesses might ask for: as if dimensions of operands stood in larger or smaller ones."""
    (operation,) = operations.values()
    for factor in (1, 2, 3):
        for at, operand in enumerate(operation.operands):
            outer = [
                operand.key(Share(dim), groups, groups) for dim, groups in enumerate(operand.shape) if groups > 1
            ]
            for stride, extent in zip(operand.strides, operand.shape, strict=True):
                for indices in {extent * factor, extent // factor}:
                    for key in asked_keys(stride, indices, operation.parts, outer):
                        for axis in axes_with_key(operations[0], at, key):
                            operations[0] = add_axis(operations[0], axis)
    add_asked_cuts(operations, sizes, {}, lambda it, axes: add_axis(it, axes[-1]))


def asked_keys(stride: int, indices: int, parts: int, outer: Sequence[Key | None]) -> Iterator[Key]:
    """That of a dimension by itself, and those within others."""
    period = stride * indices
    if period <= 0:
        return
    if indices >= parts:
        yield Key(period // parts, parts) if indices % parts == 0 else Key(stride, indices)
    for far in outer:
        if (
            far is not None
            and parts % far.indices == 0
            and indices % (each := parts // far.indices) == 0
            and each > 1
        ):
            both = Key(period // each, each).within(far)
            if both is not None:
                yield both


def add_axis(operation: Operation, axis: Axis) -> Operation:
    return replace(operation, axes=(*operation.axes, axis))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_parts_in_any_order_make_up_the_whole(kind: Callable[[Random], Case]) -> None:
    cuts, in_groups, opcodes = 0, 0, set[str]()
    for seed in range(examples(200)):
        rng = Random(seed)
        found = check(kind(rng), seed, rng.choice([2, 2, 3, 4, 4, 6, 8]), opcodes)
        cuts, in_groups = cuts + found[0], in_groups + found[1]
    assert cuts > examples(100)
    assert in_groups or kind in (pad, reduce_window, select_and_scatter, sliced, indexed)


def test_every_opcode_with_a_rule_is_tried() -> None:
    """Element-wise ones have one rule."""
    opcodes = set[str]()
    for kind in KINDS:
        for seed in range(60):
            rng = Random(seed)
            check(kind(rng), seed, 2, opcodes)
    left = {name for name, row in OPCODES.items() if name not in UNCUT | opcodes and row.section != "element-wise"}
    assert not left
