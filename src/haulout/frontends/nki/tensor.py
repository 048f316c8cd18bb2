"""Tensors of kernels: a storage with shape, strides and offset in elements, and all views of it.

    x[0:64, nl.ds(i, 8)]      slices, integers, `nl.ds`, Ellipsis; on chip dim 0 is the partition and is kept
    x.ap([[s0, n0], ...])     explicit strides and counts, with scalar or vector offsets
    reshape, view, permute, slice, select, broadcast, ...

Views do not copy. An index that is known on the device only makes the view *indirect*: base pattern plus k strides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from haulout.frontends.nki import session
from haulout.frontends.nki.byte_sets import view_bytes
from haulout.frontends.nki.dtypes import ELEMENT_TYPES, nki_name
from haulout.frontends.nki.findings import reject
from haulout.frontends.nki.index_arrays import Box, Grid, array_view, as_arrays, cut, mask_box, masked
from haulout.frontends.nki.layout import DynamicSlice, flatten, index_view, permuted, reshaped, row_major
from haulout.frontends.nki.operators import Operator
from haulout.frontends.nki.registers import VirtualRegister
from haulout.frontends.nki.storage import Buffer, Storage
from haulout.frontends.nki.values import Array
from haulout.ir.patterns import Pattern


@dataclass(frozen=True, slots=True)
class Indirect:
    """An offset that an index gives: `index * stride` elements, `0 <= index < extent`."""

    index: Tensor | VirtualRegister
    vector: bool
    """One index a partition, in place of the partition's own stride."""
    stride: int
    extent: int


@dataclass(slots=True, eq=False)
class Tensor:
    """A view of a storage. `strides` and `offset` are in elements of `dtype`."""

    storage: Storage
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    indirect: Indirect | None = None
    grid: Grid | None = None
    """The indices of an access with index arrays, whose bounds are checked when it is used."""
    extents: tuple[int, ...] = ()
    """With a grid: the dimensions of the tensor that its indices are of."""
    blocks: int = 0
    """On chip: dimensions in front of the partition (`nl.par_dim`)."""

    __array_ufunc__ = None
    """NumPy leaves arithmetic of arrays and tensors to the tensor."""

    @classmethod
    def of(cls, storage: Storage) -> Tensor:
        """All of a storage."""
        return cls(storage, storage.dtype, storage.shape, row_major(storage.shape))

    # -- what kernels ask -----------------------------------------------------------------------------------------

    @property
    def buffer(self) -> Buffer:
        """Its memory."""
        return self.storage.buffer

    @property
    def name(self) -> str:
        """The name of its storage."""
        return self.storage.name

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return ELEMENT_TYPES[self.dtype].bytes

    def layout(self) -> tuple[object, ...]:
        """What makes two views one: the same elements of the same storage in the same order."""
        dims = tuple(each for each in zip(self.strides, self.shape, strict=True) if each[1] != 1)
        return self.storage, self.dtype, self.offset, dims, self.indirect

    def is_contiguous(self) -> bool:
        """Whether it is row-major; on chip within each partition."""
        first = 1 if self.buffer.on_chip else 0
        expected = row_major(self.shape)
        return all(self.shape[axis] == 1 or self.strides[axis] == expected[axis] for axis in range(first, self.ndim))

    def is_indirect(self) -> bool:
        """Whether an index from the device decides its offset."""
        return self.indirect is not None

    def get_pattern(self) -> list[list[int]]:
        """`[[stride, count], ...]`."""
        return [[stride, count] for stride, count in zip(self.strides, self.shape, strict=True)]

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[at] for at in range(len(self)))

    def __repr__(self) -> str:
        return f"{self.storage.name}: {self.dtype}{list(self.shape)} in {self.buffer.value}"

    # -- views ------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        parts = key if isinstance(key, tuple) else (key,)
        for part in parts:
            if isinstance(part, np.ndarray) and part.ndim:
                return self._masked(part) if part.dtype.kind == "b" and len(parts) == 1 else self._by_arrays(parts)
        if key is True or key is np.True_:
            return self
        if any(isinstance(part, DynamicSlice) and part.leaves(self.shape, at) for at, part in enumerate(parts)):
            # A mask may cut what leaves the tensor.
            return self._by_arrays(as_arrays(parts, self.shape, on_chip=self.buffer.on_chip))
        shape, strides, offset, dynamic = index_view(self, parts)
        indirect = self.indirect
        if dynamic is not None:
            if indirect is not None:
                reject("a view can have one index from the device only")
            indirect = Indirect(dynamic.index, False, dynamic.stride, dynamic.extent)
        found = Tensor(self.storage, self.dtype, shape, strides, offset, indirect)
        if self.blocks:
            found.blocks = blocks_left(self.blocks, parts)
        return found

    def _by_arrays(self, key: tuple[Any, ...]) -> Tensor:
        """`x[i_p, i_f]` with index arrays."""
        view = array_view(self, key)
        found = Tensor(self.storage, self.dtype, view.shape, view.strides, view.offset, self.indirect)
        found.grid, found.extents = view.grid, self.shape
        if view.dynamic is not None:
            if self.indirect is not None:
                reject("a view can have one index from the device only")
            found.indirect = Indirect(view.dynamic.index, view.vector, view.dynamic.stride, view.dynamic.extent)
        return found

    def _masked(self, mask: Array) -> Tensor:
        """`x[i_f < 100]`: the part that a mask keeps."""
        box = mask_box(mask)
        if box is None:
            reject("the mask keeps nothing of the tile")
        return masked(self, mask, box)

    def cut(self, box: Box) -> Tensor:
        """The part of a view in a box."""
        offset = self.offset + sum(step * low for step, (low, _) in zip(self.strides, box, strict=True))
        found = replace(self, shape=tuple(high - low for low, high in box), offset=offset)
        found.grid = None if self.grid is None else cut(self.grid, box)
        if self.indirect is not None and self.indirect.vector and isinstance(self.indirect.index, Tensor):
            rows = (box[0], *((0, count) for count in self.indirect.index.shape[1:]))
            found.offset -= self.strides[0] * box[0][0]
            found.indirect = replace(self.indirect, index=self.indirect.index.cut(rows))
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        """`x[...] = value`: a copy; nothing where the value is there already, as after `x[...] += y`."""
        target = self[key]
        if isinstance(value, Tensor) and target.buffer.on_chip and value.layout() == target.layout():
            return
        session.recorder().assign(target, value)

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: Any = None,
        vector_offset: Any = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> Tensor:
        """Strides and counts given outright, over the storage; offset and strides in elements of `dtype`."""
        name = self.dtype if dtype is None else nki_name(dtype)
        if name is None:
            reject(f"unknown element type {dtype!r}")
        strides = tuple(int(step) for step, _ in pattern)
        shape = tuple(int(count) for _, count in pattern)
        base = self.offset * self.itemsize // ELEMENT_TYPES[str(name)].bytes
        found = Tensor(self.storage, str(name), shape, strides, base + int(offset or 0))
        index = scalar_offset if scalar_offset is not None else vector_offset
        if isinstance(index, int):
            found.offset += index * self.strides[indirect_dim] * self.itemsize // found.itemsize
        elif index is not None:
            if not 0 <= indirect_dim < self.ndim:
                reject(f"invalid indirect_dim={indirect_dim}: the tensor has {self.ndim} dimensions")
            step = self.strides[indirect_dim] * self.itemsize // found.itemsize
            found.indirect = Indirect(index, scalar_offset is None, step, self.shape[indirect_dim])
        found._check_inside()
        return found

    def _check_inside(self) -> None:
        """Report an access pattern that is outside of its storage for every index."""
        low, high = self.base().hull
        if low < 0 or high > self.storage.size:
            session.recorder().findings.add(
                "out-of-bounds",
                f"access pattern {self.get_pattern()} at offset {self.offset} touches bytes {low}:{high} of "
                f"{self.storage.describe()}, which has {self.storage.size}",
                subject=self.storage.name,
            )

    def reshape(self, shape: Sequence[int] | int, *more: int) -> Tensor:
        """Another shape of the same elements in the same order."""
        wanted = (shape, *more) if isinstance(shape, int) else tuple(shape)
        return self._with(*reshaped(self, tuple(int(count) for count in wanted)))

    def view(self, dtype: Any) -> Tensor:
        """The same bytes as another element type; the last dimension grows or shrinks."""
        name = nki_name(dtype)
        if name is None:
            reject(f"unknown element type {dtype!r}")
        old, new = self.itemsize, ELEMENT_TYPES[str(name)].bytes
        if not self.shape or (old != new and self.strides[-1] != 1 and self.shape[-1] != 1):
            reject("view(dtype) of another size needs a contiguous last dimension")
        if self.shape[-1] * old % new:
            reject(f"{self.shape[-1]} elements of {self.dtype} are not a whole number of {name}")
        strides = tuple(stride * old // new for stride in self.strides[:-1])
        shape = (*self.shape[:-1], self.shape[-1] * old // new)
        return Tensor(self.storage, str(name), shape, (*strides, 1), self.offset * old // new, self.indirect)

    reinterpret_cast = view

    def permute(self, dims: Sequence[int]) -> Tensor:
        """Dimensions in another order."""
        return self._with(*permuted(self, tuple(dims)))

    def broadcast(self, dim: int, size: int) -> Tensor:
        """A dimension of size 1 repeated."""
        if self.shape[dim] != 1:
            reject(f"dimension {dim} has size {self.shape[dim]}; only size 1 broadcasts")
        shape = (*self.shape[:dim], size, *self.shape[dim + 1 :])
        return self._with(shape, (*self.strides[:dim], 0, *self.strides[dim + 1 :]))

    def broadcast_to(self, shape: Sequence[int]) -> Tensor:
        """Dimensions of size 1 repeated, new ones put in front."""
        missing = len(shape) - self.ndim
        old, strides = (1,) * missing + self.shape, (0,) * missing + self.strides
        if missing < 0 or any(have not in (1, want) for have, want in zip(old, shape, strict=True)):
            reject(f"{list(self.shape)} does not broadcast to {list(shape)}")
        steps = tuple(0 if have == 1 else step for have, step in zip(old, strides, strict=True))
        return self._with(tuple(shape), steps)

    def expand_dim(self, dim: int) -> Tensor:
        """A new dimension of size 1."""
        step = self.strides[dim] * self.shape[dim] if dim < self.ndim else 1
        shape = (*self.shape[:dim], 1, *self.shape[dim:])
        return self._with(shape, (*self.strides[:dim], step, *self.strides[dim:]))

    def squeeze_dim(self, dim: int) -> Tensor:
        """Without a dimension of size 1."""
        if self.shape[dim] != 1:
            reject(f"dimension {dim} has size {self.shape[dim]}, not 1")
        return self._with(self.shape[:dim] + self.shape[dim + 1 :], self.strides[:dim] + self.strides[dim + 1 :])

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> Tensor:
        """One dimension split; one of its parts may be -1."""
        known = math.prod(count for count in shape if count != -1)
        parts = tuple(self.shape[dim] // known if count == -1 else int(count) for count in shape)
        if math.prod(parts) != self.shape[dim]:
            reject(f"dimension {dim} of size {self.shape[dim]} does not split into {list(shape)}")
        steps = tuple(step * self.strides[dim] for step in row_major(parts))
        return self._with(
            (*self.shape[:dim], *parts, *self.shape[dim + 1 :]),
            (*self.strides[:dim], *steps, *self.strides[dim + 1 :]),
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> Tensor:
        """Contiguous dimensions merged into one."""
        return self._with(*flatten(self, start_dim, end_dim))

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Tensor:
        """`x[:, start:end:step, :]` along one dimension."""
        key: list[Any] = [slice(None)] * self.ndim
        key[dim] = slice(start, end, step)
        return self[tuple(key)]

    def select(self, dim: int, index: Any) -> Tensor:
        """One element along a dimension, which goes away."""
        key: list[Any] = [slice(None)] * self.ndim
        key[dim] = index
        found = self[tuple(key)]
        return found if found.ndim < self.ndim else found.squeeze_dim(dim) if found.ndim > 1 else found

    def vector_select(self, dim: int, vector_offset: Tensor) -> Tensor:
        """One row a partition, by an index each."""
        shape = (vector_offset.shape[0], *self.shape[1:])
        indirect = Indirect(vector_offset, True, self.strides[dim], self.shape[dim])
        return replace(self, shape=shape, indirect=indirect)

    def _with(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
        return Tensor(self.storage, self.dtype, shape, strides, self.offset, self.indirect)

    # -- arithmetic of the first NKI ---------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Tensor:
        return _computed("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _computed("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _computed("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _computed("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _computed("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _computed("multiply", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _computed("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _computed("divide", other, self)

    def __neg__(self) -> Tensor:
        return _computed("negative", self)

    def __gt__(self, other: Any) -> Tensor:
        return _computed("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _computed("greater_equal", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return _computed("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _computed("less_equal", self, other)

    def __iadd__(self, other: Any) -> Tensor:
        if isinstance(other, Tensor) and self.buffer is Buffer.psum and self._begins_sum():
            return Operator("copy").into(self, other)
        return Operator("add").into(self, self, other)

    def _begins_sum(self) -> bool:
        """Whether this is the first sum in these bytes of PSUM, which nothing else has written: it overwrites them,
        as the first matrix multiplication does."""
        key = (self.offset, self.shape, self.strides)
        if key in self.storage.accumulated or (self.storage.written and not self.storage.accumulated):
            return False
        self.storage.accumulated.add(key)
        return True

    def __isub__(self, other: Any) -> Tensor:
        return Operator("subtract").into(self, self, other)

    def __imul__(self, other: Any) -> Tensor:
        return Operator("multiply").into(self, self, other)

    def astype(self, dtype: Any) -> Tensor:
        """A copy with another element type."""
        found: Tensor = Operator("copy")(self, dtype=dtype)
        return found

    # -- what an access needs ----------------------------------------------------------------------------------------

    def base(self) -> Pattern:
        """The bytes at index 0; with an index for each partition, the partition's own stride is not used."""
        vector = self.indirect is not None and self.indirect.vector
        strides = (0, *self.strides[1:]) if vector else self.strides
        return view_bytes(self.offset, strides, self.shape, self.itemsize)

    def index_operands(self) -> list[Tensor]:
        """Tensors with the indices of this view."""
        if self.indirect is not None and isinstance(self.indirect.index, Tensor):
            return [self.indirect.index]
        return []


def _computed(name: str, *operands: Any) -> Tensor:
    """A new tile with the result of an operator."""
    found: Tensor = Operator(name)(*operands)
    return found


def blocks_left(blocks: int, key: tuple[Any, ...]) -> int:
    """How many of the dimensions in front of the partition an index keeps."""
    given = key[: key.index(Ellipsis)] if Ellipsis in key else key
    return blocks - sum(not isinstance(part, slice | DynamicSlice) for part in given[:blocks])
