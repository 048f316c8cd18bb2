"""One instruction's numbers: opcode, attributes and input arrays in; output arrays out.

`KERNELS` has a function for each opcode that a core can execute; everything else that is known about an opcode is
in `haulout.ir.opcodes`. `evaluate` guards the functions: operand counts, output types, NumPy's own complaints, which
all become diagnostics that name the opcode and the operands' types.
Floating-point exceptions are results here (inf, NaN), never warnings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from haulout.ir.opcodes import OPCODES
from haulout.sim.numerics import (
    convolution,
    dot,
    elementwise,
    indexing,
    linear_algebra,
    maps,
    reductions,
    shaping,
    sorting,
    topk,
    transforms,
    windows,
)
from haulout.sim.numerics.types import Array, Attrs, Kernel, TensorType, type_of
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity, bad_input

KERNELS: dict[str, Kernel] = {
    **{opcode: elementwise.elementwise(opcode) for opcode in elementwise.OPCODES},
    "bitcast_convert": elementwise.bitcast_convert,
    "reduce_precision": elementwise.with_fewer_bits,
    "map": maps.map_elements,
    "map_reduce": maps.map_reduce,
    "dma_copy": shaping.dma_copy,
    "memset": shaping.memset,
    "broadcast": shaping.broadcast,
    "iota": shaping.iota,
    "pad": shaping.pad,
    "dot": dot.dot,
    "convolution": convolution.convolution,
    "reduce": reductions.reduce,
    "combine": reductions.combine,
    "reduce_window": windows.reduce_window,
    "select_and_scatter": windows.select_and_scatter,
    "dynamic_slice": indexing.dynamic_slice,
    "dynamic_update_slice": indexing.dynamic_update_slice,
    "gather": indexing.gather,
    "scatter": indexing.scatter,
    "topk": topk.topk,
    "sort": sorting.sort,
    "fft": transforms.fft,
    "cholesky": linear_algebra.cholesky,
    "triangular_solve": linear_algebra.triangular_solve,
    "lu": linear_algebra.lu,
    "qr": linear_algebra.qr,
    "householder_product": linear_algebra.householder_product,
    "eigh": linear_algebra.eigh,
    "svd": linear_algebra.svd,
    "fetch_and_op": elementwise.fetch_and_op,
}


def evaluate(opcode: str, attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """The results of one instruction.

    `inputs` are row-major arrays in the logical shapes of the operands; the results are fresh C-contiguous
    arrays of exactly the types in `outputs`. Raises `HauloutError` (`bad-input`) when the opcode is unknown
    or the instruction is not well formed.
    """
    kernel = KERNELS.get(opcode)
    if kernel is None:
        bad_input(f"`{opcode}` cannot be executed: there is no such operation")
    with explained(opcode, list(map(type_of, inputs)), outputs), np.errstate(all="ignore"):
        _expect_operands(opcode, inputs, outputs)
        results = kernel(attrs, inputs, outputs)
        return [_finished(result, output, inputs) for result, output in zip(results, outputs, strict=True)]


@contextmanager
def explained(opcode: str, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> Iterator[None]:
    """Errors inside, NumPy's among them, become a `bad-input` that names the opcode and the types of its operands."""
    try:
        yield
    except HauloutError as error:
        raise HauloutError(*(_about(opcode, inputs, outputs, d.message) for d in error.diagnostics)) from None
    except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:
        raise HauloutError(_about(opcode, inputs, outputs, str(error))) from error


def _expect_operands(opcode: str, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> None:
    expected = OPCODES[opcode].operands
    assert expected is not None  # an opcode that a core can execute lists them
    n = expected.repeats(len(inputs))
    if n is None or len(outputs) != expected.counts(n)[1]:
        bad_input(f"expected operands {expected.text}, found {len(inputs)} -> {len(outputs)}")


def _finished(result: Array, output: TensorType, inputs: Sequence[Array]) -> Array:
    if result.shape != output.shape or result.dtype != output.dtype:
        bad_input(f"the result is {type_of(result)}, the output {output}")
    fresh = np.ascontiguousarray(result).reshape(output.shape)
    if not fresh.flags.writeable or any(np.may_share_memory(fresh, operand) for operand in inputs):
        return fresh.copy()
    return fresh


def _about(opcode: str, inputs: Sequence[TensorType], outputs: Sequence[TensorType], what: str) -> Diagnostic:
    operands = ", ".join(map(str, inputs))
    results = ", ".join(map(str, outputs))
    return Diagnostic(
        "bad-input", Severity.ERROR, f"`{opcode}` cannot be executed: {what}", notes=(f"({operands}) -> ({results})",)
    )
