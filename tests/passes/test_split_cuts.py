"""Every cut of every opcode: the parts, run on the cores of a class, together give what the whole operation gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.test_axes import CASES

import haulout
from haulout.ir.builder import ProgramBuilder
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.opcodes import OPCODES
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.replicate import replicate
from haulout.ir.verify import check_sound
from haulout.passes.splitting.choose import Cuts
from haulout.passes.splitting.keys import Key, Operand, Share, common_dims, intervals, strides_of
from haulout.passes.splitting.operations import Axis, Operation, read_operation
from haulout.passes.splitting.parts import emit_parts

F, S = "f32", "s32"
LARGER: list[Any] = [
    ("add", {}, [(S, [4, 6]), (S, [4, 6])], [(S, [4, 6])]),
    ("dot", {"lhs_contracting": [1], "rhs_contracting": [0]}, [(S, [4, 3]), (S, [3, 6])], [(S, [4, 6])]),
    ("convolution", {"dim_labels": "b01f_01io->b01f", "size": [2, 2]},
     [(S, [4, 4, 4, 2]), (S, [2, 2, 2, 6])], [(S, [4, 3, 3, 6])]),
    ("reduce", {"dims": [1], "op": "add"}, [(S, [4, 3, 6]), (S, [])], [(S, [4, 6])]),
    ("iota", {"dim": 1}, [], [(S, [4, 3])]),
    ("pad", {"low": [0, 1], "high": [0, 2], "interior": [0, 1]}, [(F, [4, 3]), (F, [])], [(F, [4, 8])]),
    ("dynamic_slice", {"sizes": [4, 2]}, [(F, [4, 5]), (S, []), (S, [])], [(F, [4, 2])]),
    ("dynamic_update_slice", {}, [(F, [4, 5]), (F, [4, 2]), (S, []), (S, [])], [(F, [4, 5])]),
    ("gather", {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1,
                "slice_sizes": [1, 4]}, [(F, [5, 4]), (S, [6, 1])], [(F, [6, 4])]),
    ("reduce_window", {"op": "add", "size": [3, 1], "pad_low": [1, 0], "pad_high": [1, 0]},
     [(S, [5, 4]), (S, [])], [(S, [5, 4])]),
    ("dma_copy", {}, [(F, [4, 3])], [(F, [12])]),
]  # fmt: skip
ALL = [*CASES, *LARGER]
UNCUT = {"bitcast_convert"}


def program_of(case: Any, cores: int) -> Program:
    """One instruction on inputs that are equal on all cores."""
    opcode, attrs, operands, results = case
    build = ProgramBuilder("cut", 1, attrs={"outputs": [f"y{k}" for k in range(len(results))]})
    function = build.function(build.module("nc0", 0, subgraph=0), "main")
    block = build.block(function, "entry")

    def location(name: str, kind: Kind, dtype: str, shape: list[int]) -> int:
        size = int(np.prod(shape)) * NUMPY[dtype].itemsize
        return build.location(function, name, Space.DRAM_LOCAL, size, kind=kind, dtype=dtype, shape=shape)

    reads = [location(f"x{k}", Kind.INPUT, *each) for k, each in enumerate(operands)]
    writes = [location(f"y{k}", Kind.OUTPUT, *each) for k, each in enumerate(results)]
    build.instruction(block, "op", opcode, Engine.VECTOR, reads, writes, seq=0, attrs=attrs)
    return replicate(build.freeze(), cores, same={row: [list(range(cores))] for row in reads})


def cut(program: Program, operation: Operation, axis: Axis) -> Program:
    keys = {
        operand.location: key or Key(1, 1)
        for operand, key in zip(operation.operands, axis.keys, strict=True)
        if operand.write
    }
    classes = dict.fromkeys(range(len(program.locations) // program.lnc), operation.classes)
    made = emit_parts(program, {operation.row: operation}, Cuts(keys, {operation.row: axis}), classes, set())
    check_sound(made)
    return made


def inputs_of(case: Any) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    opcode, _, operands, _ = case
    made = {}
    for at, (dtype, shape) in enumerate(operands):
        high = 2 if OPCODES[opcode].is_index(at, len(operands)) or dtype == "pred" else 50
        made[f"x{at}"] = np.asarray(rng.integers(0, high, shape)).astype(NUMPY[dtype])
    return made


@pytest.mark.parametrize("cores", [2, 3])
@pytest.mark.parametrize("case", ALL, ids=lambda case: case[0])
def test_parts_make_up_the_whole(case: Any, cores: int) -> None:
    program = program_of(case, cores)
    operation = read_operation(program, 0, (tuple(range(cores)),))
    if operation is None:
        return
    inputs = inputs_of(case)
    expected = haulout.simulate(program, inputs).outputs
    for axis in operation.axes:
        made = cut(program, operation, axis)
        found = haulout.simulate(made, inputs).outputs
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name} {axis}")


def test_every_opcode_with_a_rule_can_be_cut() -> None:
    """By two cores, in one of the cases."""
    found = {
        case[0]
        for case in ALL
        if (operation := read_operation(program_of(case, 2), 0, ((0, 1),))) is not None and operation.axes
    }
    assert {case[0] for case in ALL} - found <= UNCUT


@pytest.mark.parametrize(
    ("strides", "shape", "offset", "dim", "key"),
    [
        ((12, 4), (4, 3), 0, 0, Key(24, 2)),
        ((12, 4), (4, 3), 0, 1, Key(4, 3)),  # does not divide
        ((4, 12), (3, 4), 0, 1, Key(24, 2)),  # transposed: the same bytes
        ((24, 4, 8), (2, 2, 3), 0, 0, Key(24, 2)),
        ((12, 0, 4), (4, 5, 3), 0, 0, Key(24, 2)),  # a broadcast dimension stays
        ((12, 0, 4), (4, 5, 3), 0, 1, None),
        ((12, 4), (4, 2), 4, 0, Key(24, 2)),  # two columns of three
        ((12, 4), (4, 3), 4, 0, None),  # beyond the row
        ((-12, 4), (4, 3), 36, 0, None),
    ],
)  # fmt: skip
def test_keys(strides: Any, shape: Any, offset: int, dim: int, key: Key | None) -> None:
    operand = Operand(0, 0, False, 4, offset, shape, strides)
    assert operand.key(Share(dim), shape[dim], 2) == key
    if key is None:
        return
    for part, interval in enumerate(intervals(shape[dim], 2)):
        index = operand.box(Share(dim), interval, shape[dim]).pattern.bytes() % key.period // key.unit
        begin, end = intervals(key.indices, 2)[part]
        assert np.all((begin <= index) & (index < end))


@pytest.mark.parametrize(("motion", "key"), [((24,), Key(12, 2)), ((48, -24), Key(12, 2)), ((12,), None)])
def test_an_operand_moves_by_whole_periods_of_its_key(motion: tuple[int, ...], key: Key | None) -> None:
    """Rows of 24 bytes, each cut into halves; half a row further, the halves change places."""
    operand = Operand(0, 0, False, 4, 0, (6,), (4,), motion)
    assert operand.key(Share(0), 6, 2) == key
    if key is None:
        return
    box = operand.box(Share(0), (3, 6), 6)
    assert box.motion == motion
    values = np.arange(96)
    owned = values[values % key.period // key.unit == 1]
    packed = box.packed(key, 2, 1)
    for k in range(2 if min(motion) > 0 else 1):
        moved, moves = k * sum(motion), k * sum(packed.motion)
        np.testing.assert_array_equal(owned[packed.pattern.bytes() + moves], values[box.pattern.bytes() + moved])
    assert packed.motion == tuple(each // 2 for each in motion)


def test_groups_of_parts_divide_another_dimension() -> None:
    """A group norm on 8 cores: 2 images by 4 groups of channels, whatever the dimensions are written as."""
    image = Operand(0, 0, False, 4, 0, (2, 3, 4, 2), (96, 32, 8, 4))
    mean = Operand(0, 0, False, 4, 0, (2, 4), (16, 4))
    batch, groups = Key(96, 2), Key(8, 4)
    assert image.key(Share(0), 2, 2) == batch
    assert image.key(Share(2), 4, 4) == groups
    assert groups.within(batch) == Key(8, 4, batch)
    assert Key(8, 4, batch).period == 192
    assert Key(16, 4).within(Key(64, 2)) == Key(16, 8)  # adjacent dimensions are one
    near, far = mean.key(Share(1), 4, 4), mean.key(Share(0), 2, 2)
    assert near is not None and far is not None
    assert near.within(far) == Key(4, 8)
    assert Key(12, 2).within(Key(8, 4)) is None  # their periods cross


def test_an_operation_offers_cuts_of_two_dimensions() -> None:
    case = ("reduce", {"dims": [1], "op": "add"}, [(S, [2, 3, 4]), (S, [])], [(S, [2, 4])])
    operation = read_operation(program_of(case, 8), 0, (tuple(range(8)),))
    assert operation is not None
    first = operation.axes[0]
    assert (first.outer, first.dims, first.groups) == ((0, None, 0), (2, None, 1), 2)
    assert first.keys == (Key(4, 4, Key(48, 2)), None, Key(4, 8))
    inputs = inputs_of(case)
    expected = haulout.simulate(program_of(case, 8), inputs).outputs
    for axis in operation.axes:
        found = haulout.simulate(cut(program_of(case, 8), operation, axis), inputs).outputs
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{axis}")


def test_a_part_is_packed_in_the_order_of_its_bytes() -> None:
    values = np.arange(48, dtype=np.uint8)
    operand = Operand(0, 0, False, 4, 0, (2, 2, 3), (24, 12, 4))
    key = operand.key(Share(1), 2, 2)
    assert key is not None
    for part, interval in enumerate(intervals(2, 2)):
        owned = values[np.arange(48) % key.period // key.unit == part]
        box = operand.box(Share(1), interval, 2)
        np.testing.assert_array_equal(owned[box.packed(key, 2, part).pattern.bytes()], values[box.pattern.bytes()])


def test_strides_of_a_pattern() -> None:
    assert strides_of(None, (2, 3), 4) == (0, (12, 4))
    assert strides_of(Pattern(8, 4, ((4, 3), (12, 2))).canonical(), (3, 2), 4) == (8, (4, 12))
    assert strides_of(Pattern(0, 4, ((0, 6),)), (2, 3), 4) == (0, (0, 0))
    assert strides_of(Pattern(0, 6), (3,), 4) is None
    assert strides_of(Pattern(0, 4, ((12, 4),)), (3, 2), 4) is None


def test_a_copy_has_the_dimensions_of_both_sides() -> None:
    rows = Pattern(0, 12, ((24, 4),))
    assert common_dims([rows, Pattern(0, 48)]) == ((4, 12), [(24, 1), (12, 1)])
    assert common_dims([Pattern(0, 6, ((12, 2),)), Pattern(0, 4, ((8, 3),))]) is None
