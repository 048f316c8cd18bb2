"""Cuts that the other accesses of a location ask for: inside a dimension, and of a piece of a larger array.

A key divides each period of a location. Where an operation names more than one period along a dimension, a part has
a run of each period: so one product that holds q, k and v side by side is cut by the heads of each of them. Where it
names less, it writes a piece of a period, as `concatenate` does: a part has what lies in its interval, maybe nothing.

There are too many such cuts to list. An operation gets one if another access of the same location has that key, or
the dimensions of a location that is written in pieces. Its own other operands then ask on.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping

from haulout.passes.splitting.keys import Key, Operand, Share
from haulout.passes.splitting.operations import Axis, Operation, grouped_axis, make_axis

_MOST = 6
"""Cuts of this kind an operation."""
LEAST_RUN = 64
"""Bytes of one part in a row, at least."""


def add_asked_cuts(
    operations: dict[int, Operation],
    sizes: Mapping[int, int],
    wholes: Mapping[int, Operand],
    keep: Callable[[Operation, tuple[Axis, ...]], Operation],
) -> None:
    """Append them to the axes of `operations`, for locations with `sizes` in bytes.

    `wholes` has all of each location as an array, if its shape is known. `keep` leaves out cuts that are not sound.
    """
    touching: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for row, operation in operations.items():
        for at, operand in enumerate(operation.operands):
            if operand.location in sizes:
                touching[operand.location].append((row, at))
    asked = deque(
        each for operation in operations.values() for axis in operation.axes for each in _asks(operation, axis, sizes)
    )
    for location, touches in touching.items():
        writers = [operations[row] for row, at in touches if operations[row].operands[at].write]
        if len(writers) > 1 and location in wholes:
            asked.extend(_natural(location, wholes[location], writers[0].parts))
    known = set[tuple[int, Key]]()
    added: defaultdict[int, int] = defaultdict(int)
    while asked:
        location, key = asked.popleft()
        if (location, key) in known:
            continue
        known.add((location, key))
        for row, at in touching[location]:
            for axis in axes_with_key(operations[row], at, key):
                operation = operations[row]
                if added[row] == _MOST or any(each.keys == axis.keys for each in operation.axes):
                    continue
                found = keep(operation, (*operation.axes, axis))
                if len(found.axes) > len(operation.axes):
                    operations[row] = found
                    added[row] += 1
                    asked.extend(_asks(found, axis, sizes))


def _natural(location: int, whole: Operand, parts: int) -> Iterator[tuple[int, Key]]:
    """The keys of cuts along the dimensions of a location."""
    for dim, extent in enumerate(whole.shape):
        key = whole.key(Share(dim), extent, parts)
        if key is not None and key.period >= LEAST_RUN * parts:
            yield location, key


def _asks(operation: Operation, axis: Axis, sizes: Mapping[int, int]) -> Iterator[tuple[int, Key]]:
    for operand, key in zip(operation.operands, axis.keys, strict=True):
        if key is None or key.period > sizes.get(operand.location, 0):
            continue
        if key.inner.period >= LEAST_RUN * (key.indices if key.outer else operation.parts):
            yield operand.location, key


def axes_with_key(operation: Operation, at: int, key: Key) -> Iterator[Axis]:
    """Cuts along independent dimensions under which an operand has a key whose period is not the dimension's."""
    outer = key.outer
    if outer is None:
        yield from _along(operation, at, key, operation.parts)
        return
    for axis in _along(operation, at, key.inner, key.indices):
        for dims in operation.independent:
            axis_of_both = grouped_axis(operation.operands, axis, dims, outer.indices, operation.parts)
            if axis_of_both is not None and axis_of_both.keys[at] == key:
                yield axis_of_both


def _along(operation: Operation, at: int, key: Key, parts: int) -> Iterator[Axis]:
    """Those that divide one dimension into parts."""
    operand = operation.operands[at]
    for dims in operation.independent:
        dim = dims[at]
        if dim is None or operand.strides[dim] <= 0 or key.period % operand.strides[dim]:
            continue
        extent, length = key.period // operand.strides[dim], operand.shape[dim]
        is_piece = length < extent
        if length == extent or (not is_piece and length % extent):
            continue
        shift = operand.offset % key.period // operand.strides[dim] if is_piece else 0
        if shift + min(length, extent) > extent:
            continue
        shares = tuple(None if each is None else Share(each, 1, shift) for each in dims)
        axis = make_axis(operation.operands, shares, parts, operation.opcode, operation.attrs, extent)
        if axis.keys[at] == key:
            yield axis
