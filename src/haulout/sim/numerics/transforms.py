"""Fourier transforms, with SciPy's, which computes `c64` in single precision, as XLA does."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import numpy as np

from haulout.sim.numerics import attributes
from haulout.sim.numerics.types import Array, Attrs, TensorType
from haulout.support.diagnostics import bad_input

TYPES = {"FFT": "fftn", "IFFT": "ifftn", "RFFT": "rfftn", "IRFFT": "irfftn"}
"""By type: the function of SciPy."""


def fft(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`fft type= length=`: along as many of the last dimensions as `length` has extents."""
    (operand,) = inputs
    kind = attributes.word(attrs, "type", tuple(TYPES))
    length = attributes.integers(attrs, "length")
    if not 1 <= len(length) <= min(3, operand.ndim) or operand.dtype.kind != ("f" if kind == "RFFT" else "c"):
        bad_input(f"{kind} of {length} is not defined on {operand.dtype}{list(operand.shape)}")
    axes = tuple(range(-len(length), 0))
    given = operand.shape[-len(length) :]
    expected = (*length[:-1], length[-1] // 2 + 1) if kind == "IRFFT" else length
    if given != expected:
        bad_input(f"the last dimensions are {list(given)}, expected {list(expected)}")
    if not operand.size:
        return [np.zeros(outputs[0].shape, outputs[0].dtype)]
    found = getattr(import_module("scipy.fft"), TYPES[kind])(operand, s=length, axes=axes)
    return [np.asarray(found).astype(outputs[0].dtype, copy=False)]
