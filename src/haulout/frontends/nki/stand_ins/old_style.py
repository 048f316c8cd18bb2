"""Instructions of the first NKI, which return a tile: `x = nisa.activation(np.exp, data)`.

They take no `dst`, but `dtype` and `mask`. Each maps onto the instruction of today: a new tile is its `dst`, the mask
cuts all operands, and a function of NumPy is the operator of that name. A kernel that imports `neuronxcc.nki` may
be written so, which is a note. In `nki` it is `removed-api`, a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from haulout.frontends.nki import session
from haulout.frontends.nki.dtypes import nki_name
from haulout.frontends.nki.findings import kernel_place, reject
from haulout.frontends.nki.index_arrays import affine, mask_box, masked
from haulout.frontends.nki.instructions import Instruction
from haulout.frontends.nki.operators import Operator, broadcast_shape, reduced_shape
from haulout.frontends.nki.stand_ins.enums import matmul_perf_mode
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.enums import Engine
from haulout.support.diagnostics import Severity

Given = dict[str, Any]
Shape = tuple[int, ...]

_ORDER: Mapping[str, tuple[str, ...]] = {
    "tensor_copy": ("src", "mask", "dtype", "engine"),
    "tensor_tensor": ("data1", "data2", "op", "dtype", "mask", "engine"),
    "tensor_scalar": (
        *("data", "op0", "operand0", "reverse0", "op1", "operand1", "reverse1", "dtype", "mask", "engine"),
    ),
    "tensor_tensor_scan": (*("data0", "data1", "initial", "op0", "op1", "reverse0", "reverse1", "dtype", "mask"),),
    "tensor_reduce": ("op", "data", "axis", "mask", "dtype", "negate", "keepdims"),
    "tensor_partition_reduce": ("op", "data", "mask", "dtype"),
    "nc_matmul": (
        *("stationary", "moving", "is_stationary_onezero", "is_moving_onezero", "is_transpose"),
        *("tile_position", "tile_size", "mask"),
    ),
    "nc_transpose": ("data", "mask", "dtype", "engine"),
    "activation": (*("op", "data", "bias", "scale", "reduce_op", "reduce_res", "reduce_cmd", "mask", "dtype"),),
    "activation_reduce": ("op", "data", "reduce_op", "reduce_res", "bias", "scale", "mask", "dtype"),
    "reciprocal": ("data", "dtype", "mask"),
    "memset": ("shape", "value", "dtype", "mask", "engine"),
    "iota": ("expr", "dtype", "mask"),
    "affine_select": ("pred", "on_true_tile", "on_false_value", "mask", "dtype"),
    "bn_stats": ("data", "mask", "dtype"),
    "bn_aggr": ("data", "mask", "dtype"),
    "max8": ("src", "mask", "dtype"),
    "nc_find_index8": ("data", "vals", "mask", "dtype"),
    "nc_match_replace8": ("data", "vals", "imm", "dst_idx", "mask", "dtype"),
    "local_gather": ("src_buffer", "index", "num_elem_per_idx", "num_valid_indices", "mask"),
    "dropout": ("data", "prob", "mask", "dtype"),
    "sequence_bounds": ("segment_ids", "dtype"),
    "dma_transpose": ("src", "axes", "mask", "dtype"),
    "scalar_tensor_tensor": (),
    "tensor_scalar_reduce": (),
    "range_select": (),
}
"""Parameters of the first NKI by position; `()`: all were given by name, those of today but `dst`."""
_NEEDED = {
    "affine_select": ("pred", "on_true_tile", "on_false_value"),
    "memset": ("shape", "value", "dtype"),
    "iota": ("expr",),
}
"""Parameters of an old call where they are not those of today."""
_TENSORS = ("data", "src", "data1", "data2", "data0", "stationary", "moving", "index", "src_buffer", "on_true_tile")
"""Parameters that are tensors in every call; another value tells that a call is by the old order."""
_CROSSING = frozenset({"nc_matmul", "nc_transpose", "dma_transpose", "tensor_partition_reduce", "local_gather"})
"""Instructions whose result has other axes than their operands."""
_NARROWING = frozenset({"tensor_reduce", "bn_stats", "bn_aggr", "max8", "nc_find_index8"})
"""Instructions whose result has the partitions of the data, and fewer elements in each."""
_BN_STATS, _BN_AGGR, _EIGHT = 6, 2, 8


def is_old(row: Instruction, args: tuple[Any, ...], kwargs: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether a call has no destination and returns a tile. `given`: its arguments by the parameters of today."""
    if row.name not in _ORDER or "dst" in kwargs:
        return False
    if args and not isinstance(args[0], Tensor):
        return True
    if any(name in given and not isinstance(given[name], Tensor) for name in _TENSORS if name in row.parameters):
        return True
    if all(name in given for name in row.parameters[: row.needed]):
        return False
    old = {**dict(zip(_ORDER[row.name], args, strict=False)), **kwargs}
    return all(name in old for name in _NEEDED.get(row.name, row.parameters[1 : row.needed]))


def arguments(row: Instruction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Given:
    """The arguments of an old call by parameter, with the tile that it returns as `dst`."""
    order = _ORDER[row.name]
    if len(args) > len(order):
        reject(f"nisa.{row.name} takes {len(order)} arguments by position, found {len(args)}")
    given = {**dict(zip(order, args, strict=False)), **kwargs}
    given = {name: operator(value) for name, value in given.items()}
    shape, dtype, buffer = _result(row.name, given)
    dtype = nki_name(given.get("dtype")) or dtype
    if row.name == "memset":
        del given["shape"]
    if row.name == "tensor_reduce" and not isinstance(given.get("axis"), Sequence):
        given["axis"] = [given.get("axis")]
    dst = session.recorder().allocate(shape, dtype, buffer, place=kernel_place(3))
    mode = given.get("perf_mode")
    if isinstance(mode, str) and mode in matmul_perf_mode.__members__:
        given["perf_mode"] = matmul_perf_mode[mode]
    # Parameters in the order of today, so that equal instructions have equal texts.
    known = {name: given[name] for name in row.parameters if name in given}
    return {"dst": dst} | known | {name: given[name] for name in given if name not in known and name != "dtype"}


def reachable(row: Instruction, given: Given) -> Given:
    """The arguments with copies in SBUF of operands in PSUM that the engine does not read: the first compiler moved
    them."""
    if row.engine is not Engine.POOL and row.name not in ("nc_matmul", "nc_transpose"):
        return given
    if row.name == "nc_transpose" and given["dst"].buffer is not Buffer.psum:
        return given
    return {
        name: Operator("copy")(value) if name != "dst" and _in_psum(value) else value for name, value in given.items()
    }


def _in_psum(value: Any) -> bool:
    return isinstance(value, Tensor) and value.buffer is Buffer.psum


def note_old_style(what: str, *, allowed: bool) -> None:
    """Say once that a kernel is written for the first NKI."""
    findings = session.recorder().findings
    if "old-style" in findings.said:
        return
    findings.said.add("old-style")
    place = kernel_place(3)
    if allowed:
        findings.add(
            "old-style",
            f"this kernel is written for NKI before 0.1 ({what}): it is checked as the instructions of today that "
            "compute the same; places in SBUF and PSUM are left to the compiler",
            severity=Severity.NOTE,
            place=place,
        )
    else:
        findings.add(
            "removed-api",
            f"{what}: since NKI 0.1 instructions write to `dst` and return nothing",
            severity=Severity.WARNING,
            place=place,
            help=["allocate the tile with nl.ndarray, and give it as the first argument"],
        )


def operator(value: Any) -> Any:
    """The operator of NKI for a function of NumPy; other values as they are."""
    if isinstance(value, np.ufunc) or any(value is each for each in _FUNCTIONS):
        return _operator(getattr(value, "__name__", ""))
    return value


_FUNCTIONS = (np.max, np.min, np.sum, np.mean)


def _operator(name: str) -> Operator:
    return Operator({"amax": "max", "amin": "min", "absolute": "abs"}.get(name, name))


def split_mask(name: str, given: Given) -> Given | None:
    """The arguments of an instruction without `mask`, all tensors cut by it; None if it keeps nothing."""
    mask = given.pop("mask", None)
    if mask is None or mask is True or mask is np.True_:
        return given
    box = mask_box(mask)
    if box is None:
        return None
    if name in _CROSSING and any(part != (0, count) for part, count in zip(box, np.shape(mask), strict=True)):
        reject(f"nisa.{name} with a mask that cuts its operands has no counterpart", "give slices of the operands")
    found = {key: masked(value, mask, box) if isinstance(value, Tensor) else value for key, value in given.items()}
    dst = given.get("dst")
    if name in _NARROWING and isinstance(dst, Tensor):
        # Its free axes are not those of the data.
        rows = box[0] if np.shape(mask)[0] == dst.shape[0] else (0, dst.shape[0])
        found["dst"] = dst.cut((rows, *((0, count) for count in dst.shape[1:])))
    return found


# -- the tile that is returned ---------------------------------------------------------------------------------------


def _result(name: str, given: Given) -> tuple[Shape, str, Buffer]:
    """Shape, element type and memory of the tile that an instruction returns."""
    made = _SHAPES.get(name)
    if made is not None:
        return made(given)
    tensors = [each for each in (given.get(key) for key in (*_TENSORS, "operand1")) if isinstance(each, Tensor)]
    if not tensors:
        reject(f"nisa.{name} has no tensor to take the shape of its result from")
    shape = tensors[0].shape
    for other in tensors[1:]:
        shape = broadcast_shape(shape, other.shape)
    return shape, tensors[0].dtype, Buffer.sbuf


def _tensor(given: Given, name: str) -> Tensor:
    found = given.get(name)
    if not isinstance(found, Tensor):
        reject(f"`{name}` must be a tensor")
    return found


def _matmul(given: Given) -> tuple[Shape, str, Buffer]:
    stationary, moving = _tensor(given, "stationary"), _tensor(given, "moving")
    dtype = moving.dtype if given.get("is_transpose") else "float32"
    # In double-row mode the first free axis is contracted too.
    free = 2 if "double_row" in str(getattr(given.get("perf_mode"), "name", given.get("perf_mode"))) else 1
    return (math.prod(stationary.shape[free:]), math.prod(moving.shape[free:])), dtype, Buffer.psum


def _transpose(given: Given) -> tuple[Shape, str, Buffer]:
    data = _tensor(given, "data")
    on_vector = getattr(given.get("engine"), "name", "") == "vector"
    shape = (math.prod(data.shape[1:]), data.shape[0])
    return shape, data.dtype, Buffer.sbuf if on_vector else Buffer.psum


def _reduce(given: Given) -> tuple[Shape, str, Buffer]:
    data = _tensor(given, "data")
    return reduced_shape(data.shape, given.get("axis"), keepdims=bool(given.get("keepdims"))), data.dtype, Buffer.sbuf


def _partition_reduce(given: Given) -> tuple[Shape, str, Buffer]:
    data = _tensor(given, "data")
    return (1, *data.shape[1:]), data.dtype, Buffer.sbuf


def _memset(given: Given) -> tuple[Shape, str, Buffer]:
    return tuple(int(count) for count in given["shape"]), "float32", Buffer.sbuf


def _iota(given: Given) -> tuple[Shape, str, Buffer]:
    """An expression of index arrays as the pattern that it is."""
    expression = np.asarray(given.pop("expr"))
    base, steps = affine(expression, expression.ndim)
    free = [[step, count] for step, count in zip(steps[1:], expression.shape[1:], strict=True)]
    given |= {"pattern": free or [[0, 1]], "offset": base, "channel_multiplier": steps[0] if steps else 0}
    shape = expression.shape if expression.ndim > 1 else (*expression.shape, 1)
    return shape, "int32", Buffer.sbuf


def _width(name: str, count: int, dtype: str | None = None) -> Callable[[Given], tuple[Shape, str, Buffer]]:
    def made(given: Given) -> tuple[Shape, str, Buffer]:
        data = _tensor(given, name)
        return (data.shape[0], count), dtype or data.dtype, Buffer.sbuf

    return made


def _gather(given: Given) -> tuple[Shape, str, Buffer]:
    data, index = _tensor(given, "src_buffer"), _tensor(given, "index")
    size = int(given.get("num_elem_per_idx") or 1)
    count = given.get("num_valid_indices") or 16 * math.prod(index.shape[1:])
    return (data.shape[0], int(count), size), data.dtype, Buffer.sbuf


def _dma_transpose(given: Given) -> tuple[Shape, str, Buffer]:
    src = _tensor(given, "src")
    return tuple(reversed(src.shape)), src.dtype, Buffer.sbuf


def _bounds(given: Given) -> tuple[Shape, str, Buffer]:
    ids = _tensor(given, "segment_ids")
    return (ids.shape[0], 2, *ids.shape[1:]), ids.dtype, Buffer.sbuf


_SHAPES: Mapping[str, Callable[[Given], tuple[Shape, str, Buffer]]] = {
    "nc_matmul": _matmul,
    "nc_transpose": _transpose,
    "tensor_reduce": _reduce,
    "tensor_partition_reduce": _partition_reduce,
    "memset": _memset,
    "iota": _iota,
    "bn_stats": _width("data", _BN_STATS),
    "bn_aggr": _width("data", _BN_AGGR),
    "max8": _width("src", _EIGHT),
    "nc_find_index8": _width("data", _EIGHT, "uint32"),
    "local_gather": _gather,
    "dma_transpose": _dma_transpose,
    "sequence_bounds": _bounds,
}
