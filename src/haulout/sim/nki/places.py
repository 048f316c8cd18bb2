"""Tensors of an instruction as arrays of the simulated memory.

A tensor is a location, an offset, and strides in elements over the location's bytes, which are numbered row-major: on
chip partition by partition. Where the partitions are apart in memory (locations with addresses), strides over
partitions become the pitch of the memory. A tensor whose elements strides cannot reach is read and written through
the positions of its elements; so is one that an index moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from haulout.ir.schema import Bytes
from haulout.sim.nki.types import element_type, from_f32, to_f32
from haulout.sim.numerics.types import Array, DType
from haulout.support.diagnostics import bad_input, fail

_MOST_ELEMENTS = 1 << 30
"""Of one tensor: with strides of 0 it may have more than its location."""


class Room(NamedTuple):
    """Where a location is in the arena."""

    name: str
    base: int
    width: int
    """Contiguous bytes."""
    pitch: int
    """Bytes from one piece of `width` to the next."""
    size: int
    location: int
    psum: bool
    row: int
    """On chip: bytes in each partition; 0 in DRAM."""
    loop: int | None
    """The loop that allocates it anew in each turn."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What moves a tensor: `index * stride` elements."""

    index: Any
    """A `Place`, an integer, or a function that gives a scalar register's value."""
    vector: bool
    """One index for each entry of the first dimension, in place of its stride."""
    stride: int


class Place:
    """One tensor of an instruction."""

    __slots__ = ("_view", "arena", "dtype", "frozen", "moved", "name", "offset", "room", "shape", "skips", "strides")

    def __init__(
        self,
        arena: Bytes,
        room: Room,
        name: str,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        moved: Moved | None = None,
    ) -> None:
        self.arena, self.room, self.name, self.moved = arena, room, name, moved
        self.shape, self.strides, self.offset = shape, strides, offset
        self.dtype: DType = element_type(name)
        self.skips = False
        """Whether an index out of bounds skips its row (`oob_mode.skip`)."""
        self.frozen: Array | None = None
        """What it held when the first part of a divided instruction read it."""
        self._view: Array | None = None
        if moved is None:
            self._view = self._strided()

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def partitions(self) -> int:
        """Extent of the first dimension."""
        return self.shape[0] if self.shape else 1

    @property
    def first_partition(self) -> int:
        """The partition of the location that it begins in."""
        return self.offset * self.dtype.itemsize // self.room.row if self.room.row else 0

    # -- read and write ---------------------------------------------------------------------------------------------

    def get(self) -> Array:
        """Its elements in its shape; may be a view of the memory."""
        if self.frozen is not None:
            return self.frozen
        if self._view is not None:
            return self._view
        return np.asarray(self._typed()[self._positions()[0]])

    def rows(self) -> Array:
        """Its elements as [partitions, elements in each]."""
        found = self.get()
        return found.reshape(self.partitions, -1) if found.ndim != 2 else found

    def f32(self) -> Array:
        """The same as float32."""
        return to_f32(self.rows())

    def put(self, values: Array, keep: Array | None = None) -> None:
        """Store elements of its type, in any shape of as many; rows where `keep` is true stay as they are."""
        if values.shape != self.shape:
            values = values.reshape(self.shape)
        if self._view is not None:
            if keep is None:
                np.copyto(self._view, values)
            else:
                self._view[~keep] = values[~keep]
            return
        index, inside = self._positions()
        if keep is not None:
            inside = inside & ~keep
        self._typed()[index[inside]] = values[inside]

    def store(self, values: Array) -> None:
        """Store numbers, converted to its type."""
        self.put(from_f32(values, self.name))

    # -- places ---------------------------------------------------------------------------------------------------

    def skipped(self) -> Array | None:
        """Entries of the first dimension whose index is out of bounds; None: there are none."""
        if self.moved is None or self.frozen is not None:
            return None
        inside = self._positions()[1]
        return None if inside.all() else ~inside

    def mask_of(self, flags: Array) -> Array:
        """The flag of each element, in an array with one flag a byte of the location."""
        item = self.dtype.itemsize
        strides = tuple(stride * item for stride in self.strides)
        return np.ndarray(self.shape, flags.dtype, flags.data, self.offset * item, strides)

    def _strided(self) -> Array | None:
        """It as a view of the arena; None where strides cannot say so."""
        item, room = self.dtype.itemsize, self.room
        if self.size > _MOST_ELEMENTS:
            bad_input(f"a tensor in %{room.name} has {self.size:,} elements; the simulator takes {_MOST_ELEMENTS:,}")
        low = high = self.offset
        for stride, count in zip(self.strides, self.shape, strict=True):
            low, high = low + min(0, stride * (count - 1)), high + max(0, stride * (count - 1))
        if low < 0 or (high + 1) * item > room.size:
            fail("out-of-bounds", f"it touches bytes {low * item}:{(high + 1) * item} of %{room.name}")
        begin = self.offset * item
        steps = [stride * item for stride in self.strides]
        if room.width == room.size:
            return np.ndarray(self.shape, self.dtype, self.arena.data, room.base + begin, tuple(steps))
        row, inside = divmod(begin, room.width)
        first = last = inside
        for at, (step, count) in enumerate(zip(steps, self.shape, strict=True)):
            if count == 1:
                steps[at] = item
            elif step % room.width == 0:
                steps[at] = step // room.width * room.pitch
            else:
                first, last = first + min(0, step * (count - 1)), last + max(0, step * (count - 1))
        if first < 0 or last + item > room.width:
            return None
        where = room.base + row * room.pitch + inside
        return np.ndarray(self.shape, self.dtype, self.arena.data, where, tuple(steps))

    def _typed(self) -> Array:
        """The arena as elements."""
        item = self.dtype.itemsize
        return self.arena[: len(self.arena) // item * item].view(self.dtype)

    def _in_arena(self, index: Array) -> Array:
        """Positions in the location as positions in the arena, in elements."""
        item, room = self.dtype.itemsize, self.room
        if room.base % item or room.width % item or room.pitch % item:
            bad_input(f"its elements of {item} bytes are not aligned in %{room.name}")
        if room.width == room.size:
            return index + room.base // item
        row, inside = np.divmod(index, room.width // item)
        return np.asarray(room.base // item + row * (room.pitch // item) + inside)

    def _flat(self, strides: tuple[int, ...], shape: tuple[int, ...]) -> Array:
        index = np.zeros((1,) * len(shape), np.int64)
        for axis, (stride, count) in enumerate(zip(strides, shape, strict=True)):
            steps = stride * np.arange(count, dtype=np.int64)
            index = index + steps.reshape([-1 if at == axis else 1 for at in range(len(shape))])
        return index

    def _positions(self) -> tuple[Array, Array]:
        """The position of every element, and which entries of the first dimension are in bounds.

        One index moves every element, or each entry of the first dimension has its own, in place of its stride.
        Entries out of bounds have the position of some other element.
        """
        moved = self.moved
        strides = (0, *self.strides[1:]) if moved is not None and moved.vector else self.strides
        index = self._flat(strides, self.shape) + self.offset
        inside: Array = np.ones(self.partitions, np.bool_)
        if moved is not None:
            index = index + self._moves(moved).reshape(-1, *[1] * (len(self.shape) - 1))
            last = self.room.size // self.dtype.itemsize
            fits = np.asarray((index >= 0) & (index < last)).reshape(self.partitions, -1)
            inside = np.logical_and.reduce(fits, axis=1)
            if not inside.all() and not self.skips:
                at = int(np.flatnonzero(~inside)[0])
                by = int(self._moves(moved)[at if moved.vector else 0]) // (moved.stride or 1)
                fail(
                    "out-of-bounds",
                    f"index {by}{f' of row {at}' if moved.vector else ''} moves it out of %{self.room.name}",
                    help=["with oob_mode.skip it is left out"],
                )
            index = np.clip(index, 0, last - 1)
        return self._in_arena(index), inside

    def _moves(self, moved: Moved) -> Array:
        """Elements that the first dimension's entries are moved by; one for all of them, or one each."""
        given = moved.index
        if isinstance(given, Place):
            count = self.partitions if moved.vector else 1
            by = given.rows().ravel()[:count].astype(np.int64)
            if len(by) < count:
                bad_input(f"it needs {count} indices, found {len(by)}")
        else:
            by = np.array([int(given() if callable(given) else given)], np.int64)
        return np.asarray(by * moved.stride)
