"""`fft`, along the last dimensions."""

from __future__ import annotations

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.literals import PARTS
from haulout.frontends.hlo.source import Excerpt
from haulout.frontends.hlo.values import Operation


def _kind(value: Excerpt) -> str:
    return attributes.choice(value, "FFT", "IFFT", "RFFT", "IRFFT")


def _emit_fft(out: Emitter, operation: Operation) -> None:
    operation.expect_arity()
    kind, length = operation.attribute("fft_type", _kind), operation.integers("fft_length")
    shape = operation.operands[0].shape
    rank = len(length)
    operation.expect(1 <= rank <= min(3, len(shape.dims)), "`fft_length` has one to three extents")
    whole = {real: number for number, real in PARTS.items()}
    expected = whole if kind == "RFFT" else PARTS
    operation.expect(shape.dtype in expected, f"{kind} is not defined on {shape.dtype}")
    half = (*length[:-1], length[-1] // 2 + 1)
    given = half if kind == "IRFFT" else length
    operation.expect(shape.dims[-rank:] == given, f"the last dimensions must be {list(given)}")
    dtype = expected[shape.dtype] if kind in ("RFFT", "IRFFT") else shape.dtype
    operation.expect_result((*shape.dims[:-rank], *(half if kind == "RFFT" else length)), dtype)
    out.compute(operation, {"type": kind, "length": [*length]})


RULES = {"fft": Rule(_emit_fft, ("fft_type", "fft_length"))}
