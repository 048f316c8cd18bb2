"""How long each instruction takes on a target, by itself: work in bytes and flops, over the target's rates.

1. bytes: of each operand as its pattern names them, in pieces no shorter than the engine's least run; an opcode that
   reads a part of what it names (`Cost.PART`) counts what it writes, twice;
2. flops of `dot` and `convolution`, without their dimensions: for z[b,m,n] = sum over k of x[b,m,k] y[b,k,n] the
   product of the three sizes is b^3 m^2 n^2 k^2, so the flops are 2 bmnk = 2 sqrt(|x| |y| |z| / b);
3. time: the fixed overhead, and the longest of flops, bytes through the engine, bytes of DRAM (`target/model.py`).

An opcode of `Cost.NOTHING` takes none of this: what a barrier costs depends on who waits (`makespan.py`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from haulout.ir.attributes import AttrValue, int_list, parse_attrs
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import NONE, Engine, Space
from haulout.ir.opcodes import Cost, lookup
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ints
from haulout.target.model import Target

F64 = npt.NDArray[np.float64]


def durations(program: Program, target: Target) -> F64:
    """Microseconds of each instruction; 0 for those of no cost of their own."""
    engine = program.instructions.engine
    rate = {
        name: np.array([getattr(each, name) for each in target.engines], np.float64)[engine]
        for name in ("issue_us", "gbytes_per_s", "least_run")
    }
    moved, dram = _bytes(program, rate["least_run"])
    slower = np.ones(len(program.strings))
    for opcode, factor in target.slowdown.items():
        if (name := program.strings.find(opcode)) != NONE:
            slower[name] = factor
    moved *= slower[program.instructions.opcode]
    # 10**9 bytes a second are 1000 bytes a microsecond.
    work = np.maximum(moved / (rate["gbytes_per_s"] * 1e3), dram / (target.dram_gbytes_per_s * 1e3))
    rows, flops, wide = contraction_flops(program)
    speed = np.array([each.gflops_per_s for each in target.engines])[engine[rows]] * 1e3
    speed /= np.where(wide, np.array([each.wide_slowdown for each in target.engines])[engine[rows]], 1.0)
    counted = speed > 0
    work[rows[counted]] = np.maximum(work[rows[counted]], flops[counted] / speed[counted])
    time: F64 = rate["issue_us"] + work
    time[_costing(program, Cost.NOTHING)] = 0.0
    return time


def _costing(program: Program, *costs: Cost) -> Bools:
    """Of each instruction: whether its opcode has one of these costs."""
    opcode = program.instructions.opcode
    found = np.zeros(len(program.strings), bool)
    for name in np.flatnonzero(np.bincount(opcode)).tolist():
        found[name] = lookup(program.strings[name]).cost in costs
    costing: Bools = found[opcode]
    return costing


def _bytes(program: Program, least_run: F64) -> tuple[F64, F64]:
    """Bytes that each instruction moves through its engine, and how many of them are DRAM's."""
    accesses, rows = program.accesses, len(program.instructions)
    moved = access_bytes(program, least_run[accesses.instruction])
    dram = np.where(program.locations.space[accesses.location] <= Space.DRAM_SHARED, moved, 0.0)
    # group by instruction, and reads apart from writes
    key = accesses.instruction * np.int64(2) + accesses.write

    def total(weights: F64) -> F64:
        return np.bincount(key, weights=weights, minlength=2 * rows).astype(np.float64).reshape(rows, 2).T

    read, written = total(moved)
    dram_read, dram_written = total(dram)
    part = _costing(program, Cost.PART)
    read = np.where(part, np.minimum(read, written), read)
    dram_read = np.where(part, np.minimum(dram_read, written), dram_read)
    engine = program.instructions.engine
    copies = (engine >= Engine.DMA0) & (engine <= Engine.DMA15)
    return np.where(copies, np.maximum(read, written), read + written), dram_read + dram_written


def access_bytes(program: Program, least_run: F64 | float = 1.0) -> F64:
    """Bytes of each operand as its engine moves them; `?` counts as its whole location."""
    accesses, patterns, dims = program.accesses, program.patterns, program.dims
    pieces = np.ones(len(patterns) + 1)
    depth = patterns.dim_end - patterns.dim_begin
    for level in range(int(depth.max(initial=0))):
        deep = np.flatnonzero(depth > level)
        pieces[deep] *= dims.count[patterns.dim_begin[deep] + level]
    run = np.append(patterns.run, NONE)[accesses.pattern]
    size = program.locations.size[accesses.location]
    whole = run == NONE
    moved: F64 = np.maximum(np.where(whole, size, run), least_run) * np.where(whole, 1.0, pieces[accesses.pattern])
    return np.where(size > 0, moved, 0.0)


def contraction_flops(program: Program) -> tuple[Ints, F64, Bools]:
    """Rows of the contractions (two operands or more, one result), their flops, and whether an operand is wide."""
    strings, instructions = program.strings, program.instructions
    starts = program.access_starts
    rows = np.flatnonzero(_costing(program, Cost.DOT, Cost.CONVOLUTION) & (np.diff(starts) >= 3))
    if not len(rows):
        return rows, np.zeros(0), np.zeros(0, bool)
    size, item = access_bytes(program), _item_sizes(program)
    first, last = starts[rows], starts[rows + 1] - 1
    element = [size[at] / item[at] for at in (first, first + 1, last)]
    flops: F64 = 2.0 * np.sqrt(element[0]) * np.sqrt(element[1]) * np.sqrt(element[2])
    slides = _costing(program, Cost.CONVOLUTION)
    # Few texts of attributes name batches or features; the rows of one text are one step.
    for text in np.unique(instructions.attrs[rows]).tolist():
        attrs = parse_attrs(strings[text]) if text != NONE else {}
        mine = np.flatnonzero(instructions.attrs[rows] == text)
        taps = mine[slides[rows[mine]]]
        if len(taps):
            features = _extents(program, attrs, 1, first[taps] + 1, _output_feature(attrs))
            flops[taps] = 2.0 * element[2][taps] * element[1][taps] / features
        batch = int_list(attrs.get("lhs_batch", [])) or []
        if batch and len(taps) < len(mine):
            flops[mine] /= np.sqrt(_extents(program, attrs, 0, first[mine], batch))
    return rows, flops, np.maximum(item[first], item[first + 1]) > 2


def _item_sizes(program: Program) -> F64:
    """Bytes an element of each operand; 1 where the location has no dtype."""
    by_string = np.ones(len(program.strings) + 1)
    for name, dtype in NUMPY.items():
        if (row := program.strings.find(name)) != NONE:
            by_string[row] = dtype.itemsize
    # The entry behind the last string is that of NONE.
    size: F64 = by_string[program.locations.dtype[program.accesses.location]]
    return size


def _output_feature(attrs: dict[str, AttrValue]) -> list[int]:
    """The kernel's dimension of output features."""
    kernel = str(attrs.get("dim_labels", "")).partition("_")[2].partition("->")[0]
    return [kernel.index("o")] if "o" in kernel else []


def _extents(program: Program, attrs: dict[str, AttrValue], operand: int, access: Ints, dims: list[int]) -> F64:
    """The product of some dimensions of an operand, for each of the accesses given; 1 for those it has not."""
    shapes = attrs.get("shapes")
    if isinstance(shapes, list) and operand < len(shapes):
        shape = int_list(shapes[operand]) or []
        return np.full(len(access), max(float(np.prod([shape[d] for d in dims if d < len(shape)])), 1.0))
    locations = program.locations
    location = program.accesses.location[access]
    product = np.ones(len(access))
    for dim in dims:
        at = locations.shape_begin[location] + dim
        there = at < locations.shape_end[location]
        product[there] *= program.shapes.extent[at[there]]
    return np.maximum(product, 1.0)
