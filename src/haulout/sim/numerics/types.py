"""The types that all kernels share.

A *kernel* takes an opcode's attributes, its input arrays (row-major, one NumPy array an operand) and the
types of its outputs, and returns one array an output. Kernels are pure: no state, no memory, no cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from haulout.ir.attributes import AttrValue
from haulout.sim.numerics.dtypes import name_of

Array: TypeAlias = npt.NDArray[Any]
DType: TypeAlias = np.dtype[Any]
Attrs: TypeAlias = Mapping[str, AttrValue]


@dataclass(frozen=True)
class TensorType:
    """Element type and logical shape of an operand."""

    dtype: DType
    shape: tuple[int, ...]

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @cached_property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{name_of(self.dtype)}[{','.join(map(str, self.shape))}]"


Kernel: TypeAlias = Callable[[Attrs, Sequence[Array], Sequence[TensorType]], list[Array]]


def type_of(array: Array) -> TensorType:
    """The type of an array, for messages and for shape rules."""
    return TensorType(array.dtype, array.shape)
