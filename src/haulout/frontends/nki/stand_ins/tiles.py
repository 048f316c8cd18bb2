"""Functions of `nki.language` that make tiles: fills, loads and stores, matrix products, and compound functions."""

from __future__ import annotations

import math
from typing import Any

from haulout.frontends.nki import session
from haulout.frontends.nki.dtypes import nki_name
from haulout.frontends.nki.findings import allocation_place, kernel_place, reject
from haulout.frontends.nki.index_arrays import mask_box, masked
from haulout.frontends.nki.operators import Operator, broadcast_shape, record_tile
from haulout.frontends.nki.stand_ins.compiler import Placed
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.enums import Engine

_VECTOR, _PE = Engine.VECTOR, Engine.PE


def element_type(dtype: Any) -> str:
    """The name of an element type; `kernel-error` for what is none."""
    name = nki_name(dtype)
    if name is None:
        reject(f"unknown element type {dtype!r}", place=kernel_place(3))
    return name


class ParDim(int):
    """`nl.par_dim(n)`: the dimension that is the partition."""


def ndarray(
    shape: Any,
    dtype: Any,
    buffer: Any = Buffer.sbuf,
    name: str | None = None,
    address: tuple[int, int] | None = None,
    **_: Any,
) -> Tensor:
    """A new tensor; nothing is in it yet."""
    given = (shape,) if isinstance(shape, int) else tuple(shape)
    extents = tuple(int(count) for count in given)
    where = buffer if isinstance(buffer, Buffer) else Buffer[str(getattr(buffer, "name", buffer))]
    place = allocation_place(2)
    if any(count < 1 for count in extents):
        reject(f"dimensions of a tensor must be positive, found {list(extents)}", place=place)
    at = next((axis for axis, count in enumerate(given) if isinstance(count, ParDim)), 0)
    blocks = at if where.on_chip else 0
    stored = (extents[blocks], *extents[:blocks], *extents[blocks + 1 :])
    found = session.recorder().allocate(
        stored, element_type(dtype), where, name=name or None, address=address, place=place
    )
    found.storage.unplaced = blocks > 0 or isinstance(buffer, Placed)
    if blocks:
        # The partition is the first dimension of the storage, and behind the block dimensions in the view.
        order = (*range(1, blocks + 1), 0, *range(blocks + 1, len(stored)))
        found = found.permute(order)
        found.blocks = blocks
    return found


def filled(found: Tensor, value: Any) -> Tensor:
    """Record that a new tensor is filled."""
    recorder, given = session.recorder(), {"dst": found, "value": value}
    recorder.add("nki.fill", recorder.queue_of([found]) or _VECTOR, [], [found], kernel_place(3), None, given)
    return found


def zeros(shape: Any, dtype: Any, buffer: Any = Buffer.sbuf, name: str | None = None, **_: Any) -> Tensor:
    """A new tensor that is filled with zeros."""
    return filled(ndarray(shape, dtype, buffer, name), 0)


def ones(shape: Any, dtype: Any, buffer: Any = Buffer.sbuf, name: str | None = None, **_: Any) -> Tensor:
    """A new tensor that is filled with ones."""
    return filled(ndarray(shape, dtype, buffer, name), 1)


def full(
    shape: Any, fill_value: Any, dtype: Any, buffer: Any = Buffer.sbuf, name: str | None = None, **_: Any
) -> Tensor:
    """A new tensor that is filled with a value."""
    return filled(ndarray(shape, dtype, buffer, name), fill_value)


def empty_like(x: Tensor, dtype: Any = None, buffer: Any = None, name: str | None = None, **_: Any) -> Tensor:
    """A new tensor of the same shape, type and memory."""
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def zeros_like(x: Tensor, dtype: Any = None, buffer: Any = None, name: str | None = None, **_: Any) -> Tensor:
    """The same, filled with zeros."""
    return filled(empty_like(x, dtype, buffer, name), 0)


def ones_like(x: Tensor, dtype: Any = None, buffer: Any = None, name: str | None = None, **_: Any) -> Tensor:
    """The same, filled with ones."""
    return filled(empty_like(x, dtype, buffer, name), 1)


def rand(shape: Any, dtype: Any = "float32", **_: Any) -> Tensor:
    """A new tensor in SBUF with random numbers."""
    found = ndarray(shape, dtype)
    session.recorder().add("nki.rand", _VECTOR, [], [found], kernel_place(2))
    return found


def random_seed(seed: Any, **_: Any) -> None:
    """Set the seed of `rand` and `dropout`."""
    if isinstance(seed, Tensor):
        session.recorder().add("nki.random_seed", Engine.POOL, [seed], [], kernel_place(2))


# -- loads and stores ------------------------------------------------------------------------------------------------


def load(src: Tensor, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """A new tensor in SBUF with the contents of one in HBM."""
    return _loaded("nki.load", src, src.shape, dtype, mask)


def load_transpose2d(src: Tensor, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """The same with the two axes exchanged."""
    if src.ndim != 2:
        reject(f"nl.load_transpose2d takes two dimensions, found {src!r}")
    return _loaded("nki.load_transpose2d", src, src.shape[::-1], dtype, mask)


def _loaded(opcode: str, src: Tensor, shape: tuple[int, ...], dtype: Any, mask: Any) -> Tensor:
    recorder, place = session.recorder(), kernel_place(3)
    least = shape if len(shape) > 1 else (*shape, 1) if shape else (1, 1)
    result = recorder.allocate(least, nki_name(dtype) or src.dtype, Buffer.sbuf, place=place)
    written = result
    if mask is not None and mask is not True:
        box = mask_box(mask)
        if box is None:
            return result
        src = masked(src, mask, box)
        written = (
            result.cut(tuple((0, count) for count in src.shape[::-1]))
            if shape != src.shape and (opcode == "nki.load_transpose2d")
            else masked(result, mask, box)
        )
    given = {"dst": written, "src": src}
    recorder.add(opcode, recorder.queue_of([src]) or _VECTOR, [src], [written], place, None, given)
    return result


def store(dst: Tensor, value: Any, mask: Any = None, **_: Any) -> None:
    """Copies a tensor to HBM."""
    recorder = session.recorder()
    reads = [value] if isinstance(value, Tensor) else []
    if mask is not None and mask is not True:
        box = mask_box(mask)
        if box is None:
            return
        dst, reads = masked(dst, mask, box), [masked(each, mask, box) for each in reads]
    given = {"dst": dst, "src": reads[0] if reads else value}
    recorder.add("nki.store", recorder.queue_of([dst]) or _VECTOR, reads, [dst], kernel_place(2), None, given)


# -- products and shapes ---------------------------------------------------------------------------------------------


def transpose(x: Tensor, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """A new tile in PSUM with the partition and the other axes exchanged."""
    shape = (math.prod(x.shape[1:]), x.shape[0])
    return record_tile("transpose", shape, [x], {"src": x}, {"dtype": dtype}, buffer=Buffer.psum, engine=_PE)


def matmul(x: Tensor, y: Tensor, *, transpose_x: bool = False, mask: Any = None, **_: Any) -> Tensor:
    """A new tile in PSUM: `x @ y`, or `x.T @ y` with `transpose_x`; without it, x is transposed first."""
    if not transpose_x:
        turned = transpose(x)
        x = record_tile("copy", turned.shape, [turned], {"src": turned, "op": Operator("copy")}, {})
    if x.shape[0] != y.shape[0]:
        reject(f"nl.matmul contracts {x.shape[0]} with {y.shape[0]} partitions")
    shape = (math.prod(x.shape[1:]), math.prod(y.shape[1:]))
    given, options = {"stationary": x, "moving": y}, {"dtype": "float32"}
    return record_tile("matmul", shape, [x, y], given, options, buffer=Buffer.psum, engine=_PE)


def broadcast_to(x: Tensor, shape: Any, dtype: Any = None, **_: Any) -> Tensor:
    """A view with dimensions of size 1 repeated."""
    return x.broadcast_to(shape)


def expand_dims(x: Tensor, axis: int) -> Tensor:
    """A view with a new dimension of size 1."""
    return x.expand_dim(axis)


def static_cast(value: Any, dtype: Any, **options: Any) -> Any:
    """A copy with another element type; numbers stay."""
    return Operator("copy")(value, dtype=dtype, **options) if isinstance(value, Tensor) else value


def where(condition: Any, x: Any, y: Any, **options: Any) -> Tensor:
    """A new tile with elements of `x` where a condition holds, else of `y`."""
    tensors = [each for each in (condition, x, y) if isinstance(each, Tensor)]
    if not tensors:
        reject("nl.where takes tensors")
    shape = tensors[0].shape
    for other in tensors[1:]:
        shape = broadcast_shape(shape, other.shape)
    values = [each for each in (x, y) if isinstance(each, Tensor)]
    options = {"dtype": (values or tensors)[0].dtype} | {
        key: each for key, each in options.items() if each is not None
    }
    given = {"condition": condition, "on_true": x, "on_false": y}
    return record_tile("where", shape, tensors, given, options)


def softmax(x: Tensor, axis: Any = -1, **options: Any) -> Tensor:
    """A new tile with the softmax over axes."""
    if any(int(each) % x.ndim == 0 for each in (axis if isinstance(axis, list | tuple) else [axis])):
        reject("nl.softmax over partitions has no counterpart")
    return record_tile("softmax", x.shape, [x], {"src": x, "axis": axis}, options)


def rms_norm(x: Tensor, w: Tensor, axis: Any = -1, n: Any = None, epsilon: float = 1e-6, **options: Any) -> Tensor:
    """A new tile with the root-mean-square norm over an axis, times weights."""
    given = {"src": x, "weights": w, "axis": axis, "n": n, "epsilon": epsilon}
    return record_tile("rms_norm", x.shape, [x, w], given, options)


def dropout(x: Tensor, rate: Any, **options: Any) -> Tensor:
    """A new tile with random elements cleared."""
    reads = [each for each in (x, rate) if isinstance(each, Tensor)]
    # Without `given`: two calls draw different numbers.
    return record_tile("dropout", x.shape, reads, {"src": x, "rate": rate, "draw": object()}, options)


FUNCTIONS = (
    *(
        ndarray,
        zeros,
        ones,
        full,
        empty_like,
        zeros_like,
        ones_like,
        rand,
        random_seed,
        load,
        load_transpose2d,
        store,
    ),
    *(transpose, matmul, broadcast_to, expand_dims, static_cast, where, softmax, rms_norm, dropout),
)
"""All of them, by their names in `nki.language`."""
