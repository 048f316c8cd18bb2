"""What a kernel allocates: one `Storage` a tensor, with its place, its kind and who has it on other cores.

A storage's bytes are numbered row-major in the shape it was allocated with. On chip the first dimension is the
partition, so the numbering is partition-major, as the program's locations are.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field

from haulout.frontends.nki.dtypes import ELEMENT_TYPES
from haulout.frontends.nki.values import MAX_ELEMENTS, Array, Values
from haulout.ir.dtypes import NUMPY

Interval = tuple[int, int]
"""Integers from the first to the second, excluded."""


class Buffer(enum.Enum):
    """The memory of a tensor. `hbm` is NKI's alias of `private_hbm`."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"
    hbm = "private_hbm"  # noqa: PIE796 - an alias

    @property
    def is_hbm(self) -> bool:
        """Whether it is device memory."""
        return self in (Buffer.private_hbm, Buffer.shared_hbm)

    @property
    def on_chip(self) -> bool:
        """Whether its first dimension is the partition."""
        return not self.is_hbm


@dataclass(slots=True, eq=False)
class Storage:
    """One allocation of one core."""

    number: int
    """Position among the core's storages; what recorded operands name."""
    name: str
    shape: tuple[int, ...]
    dtype: str
    buffer: Buffer
    place: tuple[str, int]
    """(file, line) of the allocation in the kernel."""
    argument: bool = False
    """An argument; in HBM it is the same tensor on every core."""
    constant: bool = False
    """Filled before the kernel starts."""
    shared_number: tuple[str, int] | None = None
    """Which shared allocation of the core: the name that the kernel gave it ("" without one), and how many of that
    name came before; what is one tensor on all cores. None: not shared, or an argument."""
    address: int | None = None
    """On chip: bytes from the start of each partition; None: left to the compiler."""
    partition: int = 0
    loop: int | None = None
    """The innermost loop that it is allocated in, anew in each iteration."""
    size: int = 0
    """Bytes."""
    written: bool = False
    returned: bool = False
    given: bool = False
    """The argument has known contents or a declared range."""
    identity: bool = False
    """The constant is an identity matrix."""
    values: Values | None = None
    """Contents that are known while tracing."""
    array: Array | None = None
    """The array that was given, of any element type; what a simulation starts with."""
    within: Interval | None = (0, 0)
    """Half-open range of the contents; None: unknown, (0, 0): not written yet."""
    unplaced: bool = False
    """The kernel says how parts of it share bytes (block dimensions, `mod_alloc`), which the trace does not follow:
    its capacity is not checked."""
    accumulated: set[object] = field(default_factory=set)
    """Patterns that a matrix multiplication has written; the next one on the same bytes adds to them."""

    def __post_init__(self) -> None:
        self.size = math.prod(self.shape) * ELEMENT_TYPES[self.dtype].bytes

    def give(self, array: Array) -> None:
        """Contents that are there before the kernel starts; those of integers are followed."""
        if self.constant:
            self.array = array
        kind = NUMPY[ELEMENT_TYPES[self.dtype].stored]
        if array.dtype.kind not in "iub" or kind.kind not in "iub" or not 0 < array.size <= MAX_ELEMENTS:
            return
        self.values = Values(self.size)
        self.values.fill(array.astype(kind))

    @property
    def shared_key(self) -> tuple[object, ...] | None:
        """What the tensor is called on every core that sees it; None for a tensor of one core."""
        if self.buffer is not Buffer.shared_hbm:
            return None
        return ("shared", self.shared_number) if self.shared_number is not None else ("given", self.number)

    @property
    def partitions(self) -> int:
        """Partitions that an on-chip tensor spans."""
        return self.shape[0] if self.shape else 1

    @property
    def row_bytes(self) -> int:
        """Bytes in each partition of an on-chip tensor."""
        return self.size // max(self.partitions, 1)

    def describe(self) -> str:
        """`x: float32[128, 512] in sbuf`."""
        return f"{self.name}: {self.dtype}{list(self.shape)} in {self.buffer.value}"
