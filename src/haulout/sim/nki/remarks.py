"""Values whose result on the device is not documented, met while a kernel runs.

    NaN in a maximum, a minimum or a comparison; the simulator does what NumPy does
    an input of an activation outside of the function's valid range
    a 32-bit integer above 2^24 in magnitude that passes through float32, which may round it
    an accumulator register whose value no instruction has defined

Each is said once for each source line, with the first instruction that met it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from haulout.sim.nki.call import Call
from haulout.sim.nki.operators import BITS, COMPARISONS
from haulout.sim.nki.places import Place
from haulout.sim.nki.types import is_integer
from haulout.sim.numerics.types import Array
from haulout.target.activation_ranges import VALID, outside_range

_COMPARE = frozenset(["maximum", "max", "minimum", "min", "abs_max", "abs_min", *COMPARISONS])
_SEARCH = frozenset(["max8", "nc_find_index8", "nc_match_replace8"])
_OPERATORS = ("op", "op0", "op1", "reduce_op", "comp_op0", "comp_op1")
_WHOLE = 1 << 24
_FRESH = np.int32(-0x55555556)
"""An integer that was never written (`fresh.py`); `uninitialized-read` says where it matters."""
WATCHED = frozenset(
    [
        *("tensor_tensor", "tensor_scalar", "scalar_tensor_tensor", "tensor_reduce", "tensor_partition_reduce"),
        *("tensor_scalar_reduce", "tensor_scalar_cumulative", "tensor_tensor_scan", "select_reduce", "range_select"),
        *_SEARCH,
    ]
)
"""Instructions whose operands are looked at."""


def watched(name: str, kernel: Callable[[Call], None]) -> Callable[[Call], None]:
    """An instruction that looks at its operands before it computes."""

    def run(call: Call) -> None:
        _look(name, call)
        kernel(call)

    return run


def _look(name: str, call: Call) -> None:
    ops = [call.word(each) for each in _OPERATORS if isinstance(call.args.get(each), str)]
    compares = name in _SEARCH or any(op in _COMPARE for op in ops)
    on_bits = bool(ops) and all(op in BITS for op in ops)
    for parameter, value in call.args.items():
        if not isinstance(value, Place) or parameter in ("dst", "predicate", "reduce_res"):
            continue
        if is_integer(value.dtype):
            if value.dtype.itemsize == 4 and not on_bits and _rounds(value.get()):
                call.state.remarks.add(
                    call.row, "int32", f"`{parameter}` of `{name}` has integers above 2^24, which float32 rounds"
                )
        elif compares and bool(np.isnan(value.f32()).any()):
            text = f"`{parameter}` of `{name}` has NaN, and NKI does not say what maxima and comparisons give for it"
            call.state.remarks.add(call.row, "nan", text)


def _rounds(found: Array) -> bool:
    """Whether float32 does not hold some of these integers."""
    wide = found.astype(np.int64)
    large = (np.abs(wide) > _WHOLE) & (found.view(np.int32) != _FRESH)
    return bool(large.any() and (wide[large] != wide[large].astype(np.float32).astype(np.int64)).any())


def look_at_input(call: Call, function: str, values: Array) -> None:
    """An activation is about to take values."""
    outside = outside_range(function, values)
    if outside.any():
        low, high = VALID[function]
        worst = float(np.asarray(values)[outside].ravel()[0])
        text = f"{function} takes {worst:g}; its valid inputs are {low:g} to {high:g}"
        call.state.remarks.add(call.row, "range", text + (" in magnitude" if function == "reciprocal" else ""))
