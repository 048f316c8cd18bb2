"""The groups of cores of a collective, in order: all forms of `replica_groups`.

    groups  := "{" ["{" INT,... "}" ("," "{" INT,... "}")*] "}"   # written out; {}: one group of all
             | dims "<=" dims ["T(" INT,... ")"]   # iota: reshape, transpose, reshape to [groups, members]
             | "mesh[" AXIS "=" INT,... "]" ["," "device_ids=(" ids ")"] "{" axis,... "}"
    ids     := dims ["T(" INT,... ")"] | INT,...
    axis    := AXIS [":(" INT ")" INT]                   # sub-axis: (size of what is more major) own size
    dims    := "[" INT,... "]"

The mesh form: device ids (0, 1, 2, ... unless `device_ids` says otherwise) fill an array whose axes are the
mesh's, major to minor. A sub-axis `a:(p)s` of an axis of size n is the middle one after reshaping the axis to
[p, s, n/(p*s)]. A group is the devices that differ only along the named axes, its members in the order in
which the axes are named, last one fastest.

What an id means depends on the mode, which the attributes choose (`Mode`). With one replica, partition p is
core p; with one partition, replica r is core r. Every form that is not understood, and every list that does not
name each participant once, is an error: never "all cores".
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.cursor import QUOTED, Cursor
from haulout.frontends.hlo.model import HloModule, Instruction
from haulout.frontends.hlo.partitioned import HOW
from haulout.frontends.hlo.source import Excerpt

Groups = tuple[tuple[int, ...], ...]

_REPLICA_IDS = (
    "these are replica ids; partition ids need `channel_id` and, except for all-to-all and collective-permute, "
    "`use_global_device_ids=true`",
    "where the file does not say how many replicas there are, --cores N does: then each is a core",
)
_MESH = re.compile(r"mesh\s*\[")
_DEVICE_IDS = re.compile(r",\s*device_ids\s*=\s*\(")
_TRANSPOSE = re.compile(r"T(?=\()")
_SUB_AXIS = re.compile(r":\s*\(")


class Mode(enum.Enum):
    """What the ids of a collective are."""

    REPLICA = "replica ids, in each partition apart"  # no channel_id
    REPLICA_AND_PARTITION = "replica ids, all partitions together"  # channel_id
    PARTITION = "partition ids"  # channel_id on all-to-all and collective-permute
    FLATTENED = "replica * partitions + partition"  # channel_id and use_global_device_ids


def core_groups(instruction: Instruction, module: HloModule) -> Groups:
    """The groups of a collective as lists of cores; together they name every core once."""
    mode, cores = _mode(instruction), module.num_partitions
    _require_one_replica(instruction, module)
    value = instruction.attributes.get("replica_groups")
    counts_cores = mode is Mode.FLATTENED or (mode is Mode.PARTITION) != module.by_replica
    groups = device_groups(value, cores if counts_cores else 1) if value is not None else ()
    if mode is Mode.FLATTENED and not groups and not module.by_replica:
        _place(instruction).fail("with `use_global_device_ids` the groups must be written out", "no groups")
    if counts_cores:
        return groups or (tuple(range(cores)),)
    if mode is Mode.REPLICA_AND_PARTITION:
        return (tuple(range(cores)),)
    return tuple((core,) for core in range(cores))


def core_pairs(instruction: Instruction, module: HloModule) -> tuple[tuple[int, int], ...]:
    """The (source, target) cores of a collective-permute: no core sends twice or receives twice."""
    _require_one_replica(instruction, module)
    value = instruction.attributes.get("source_target_pairs")
    if value is None:
        instruction.where.fail("collective-permute needs `source_target_pairs`")
    cores = module.num_partitions if (_mode(instruction) is Mode.PARTITION) != module.by_replica else 1
    pairs = attributes.pairs(value)
    for side, ids in zip(("source", "target"), zip(*pairs, strict=True), strict=False):
        _check_ids(value, list(ids), cores, side)
    if cores == 1 and pairs:  # the one replica of each partition, or the other way round, sends to itself
        return tuple((core, core) for core in range(module.num_partitions))
    return pairs


def device_groups(value: Excerpt, count: int) -> Groups:
    """The groups as written, of the ids 0 to `count` - 1, each of which must occur once; `()` for `{}`."""
    cursor = Cursor.over(value)
    if cursor.take(_MESH):
        groups = _parse_mesh(cursor, value, count)
    elif cursor.sees_mark("["):
        groups = _parse_iota(cursor, value, count)
    elif cursor.sees_mark("{"):
        groups = _parse_explicit(cursor)
    else:
        cursor.fail("replica groups: `{{0,1},{2,3}}`, `[2,2]<=[4]` or `mesh['a'=2,'b'=2] {'a'}`")
    cursor.finish("the replica groups")
    if groups:
        members = [member for group in groups for member in group]
        _check_ids(value, members, count, "member")
        if len(members) != count or not all(groups):
            missing = sorted(set(range(count)) - set(members))
            value.fail(
                "replica groups must name every core once",
                f"no group has {', '.join(map(str, missing[:8]))}" if missing else "an empty group",
            )
    return groups


def _mode(instruction: Instruction) -> Mode:
    channel = "channel_id" in instruction.attributes
    if instruction.opcode in ("all-to-all", "collective-permute"):
        return Mode.PARTITION if channel else Mode.REPLICA
    flag = instruction.attributes.get("use_global_device_ids")
    if flag is not None and attributes.boolean(flag):
        if not channel:
            flag.fail("`use_global_device_ids` without `channel_id`")
        return Mode.FLATTENED
    return Mode.REPLICA_AND_PARTITION if channel else Mode.REPLICA


def _require_one_replica(instruction: Instruction, module: HloModule) -> None:
    if module.replica_count != 1:
        instruction.where.fail(
            f"collectives over replicas are not supported: the module has replica_count={module.replica_count}",
            help=["use one partition, and each replica is a core; or one replica, and each partition is a core"],
        )


def _place(instruction: Instruction) -> Excerpt:
    return instruction.attributes.get("replica_groups", instruction.where)


def _check_ids(value: Excerpt, ids: Sequence[int], count: int, role: str) -> None:
    """Fail on an id outside `[0, count)` and on one that occurs twice."""
    seen: set[int] = set()
    for number in ids:
        if not 0 <= number < count:
            value.fail(
                f"expected an id below {count}, found {number}",
                f"{role} {number}",
                help=[*(_REPLICA_IDS if count == 1 else ()), *HOW],
            )
        if number in seen:
            value.fail(f"id {number} occurs twice as a {role}", f"{role} {number}")
        seen.add(number)


def _parse_explicit(cursor: Cursor) -> Groups:
    groups: list[tuple[int, ...]] = []
    cursor.expect_mark("{")
    while not cursor.take_mark("}"):
        if groups:
            cursor.expect_mark(",", "`,` or `}`")
        groups.append(cursor.integers("{", "}", "an id"))
    return tuple(groups)


def _parse_iota(cursor: Cursor, value: Excerpt, count: int) -> Groups:
    shape = cursor.integers("[", "]", "a size", 1)
    if len(shape) != 2:
        value.fail(f"expected [groups, members], found {len(shape)} sizes")
    cursor.expect_mark("<=", "`<=`")
    ids = _parse_device_ids(cursor, value, count)
    return _rows(ids.reshape(shape)) if ids.size == math.prod(shape) else _mismatch(value, shape, ids.size)


def _parse_device_ids(cursor: Cursor, value: Excerpt, count: int) -> npt.NDArray[np.int64]:
    """`[dims]` or `[dims]T(permutation)`: 0, 1, 2, ... reshaped and transposed, flat."""
    dims = cursor.integers("[", "]", "a size", 1)
    if math.prod(dims) != count:  # before anything of that size is made
        value.fail(f"these groups have {math.prod(dims)} ids, the program has {count}", help=HOW)
    ids = np.arange(count).reshape(dims)
    if cursor.take(_TRANSPOSE):
        order = cursor.integers("(", ")", "a dimension")
        if sorted(order) != list(range(len(dims))):
            value.fail(f"T({','.join(map(str, order))}) is not a permutation of {len(dims)} dimensions")
        ids = ids.transpose(order)
    return ids.ravel()


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of the mesh, or the named piece of one."""

    axis: int
    pre: int
    size: int


def _parse_mesh(cursor: Cursor, value: Excerpt, count: int) -> Groups:
    """After `mesh[`."""
    mesh: dict[str, int] = {}
    while not cursor.take_mark("]"):
        if mesh:
            cursor.expect_mark(",", "`,` or `]`")
        name = _axis_name(cursor)
        if name in mesh:
            value.fail(f"the mesh has two axes '{name}'")
        cursor.expect_mark("=", "`=` and the size of the axis")
        mesh[name] = cursor.integer("the size of an axis", 1)
    if math.prod(mesh.values()) != count:
        value.fail(f"the mesh has {math.prod(mesh.values())} devices, the program has {count}", help=HOW)
    ids = np.arange(count)
    if cursor.take(_DEVICE_IDS):
        if cursor.sees_mark("["):
            ids = _parse_device_ids(cursor, value, count)
            cursor.expect_mark(")", "`)` after the device ids")
        else:
            ids = _parse_id_list(cursor, value, count)
    axes: list[_Axis] = []
    cursor.expect_mark("{", "`{` and the axes of a group")
    while not cursor.take_mark("}"):
        if axes:
            cursor.expect_mark(",", "`,` or `}`")
        axes.append(_parse_axis(cursor, value, mesh))
    return _mesh_groups(ids.reshape(tuple(mesh.values())), axes, value)


def _parse_id_list(cursor: Cursor, value: Excerpt, count: int) -> npt.NDArray[np.int64]:
    """`INT,...)`."""
    listed = [cursor.integer("a device id")]
    while not cursor.take_mark(")"):
        cursor.expect_mark(",", "`,` or `)`")
        listed.append(cursor.integer("a device id"))
    _check_ids(value, listed, count, "device id")
    if len(listed) != count:
        _mismatch(value, (count,), len(listed))
    return np.array(listed, np.int64)


def _parse_axis(cursor: Cursor, value: Excerpt, mesh: dict[str, int]) -> _Axis:
    name = _axis_name(cursor)
    if name not in mesh:
        value.fail(f"the mesh has no axis '{name}'", f"it has {', '.join(mesh)}")
    axis, whole = list(mesh).index(name), mesh[name]
    if not cursor.take(_SUB_AXIS):
        return _Axis(axis, 1, whole)
    pre = cursor.integer("the size before a sub-axis", 1)
    cursor.expect_mark(")", "`)`")
    size = cursor.integer("the size of a sub-axis", 2)
    if whole % (pre * size):
        value.fail(f"the sub-axis '{name}':({pre}){size} does not divide the axis of size {whole}")
    return _Axis(axis, pre, size)


def _axis_name(cursor: Cursor) -> str:
    match = cursor.expect(QUOTED, "the name of a mesh axis in quotes")
    return match[1] if match[1] is not None else match[2]


def _mesh_groups(ids: npt.NDArray[np.int64], axes: list[_Axis], value: Excerpt) -> Groups:
    """Cut every mesh axis at its sub-axes, move the named pieces last in the order named, and read off the rows."""
    extents: list[int] = []
    where: dict[_Axis, int] = {}
    for axis, whole in enumerate(ids.shape):
        done = 1
        for piece in sorted((item for item in set(axes) if item.axis == axis), key=lambda item: item.pre):
            if piece.pre % done:
                value.fail("two of the axes of a group overlap")
            extents += [piece.pre // done, piece.size]
            where[piece] = len(extents) - 1
            done = piece.pre * piece.size
        if whole % done:
            value.fail("two of the axes of a group overlap")
        extents.append(whole // done)
    if len(where) != len(axes) or math.prod(extents) != ids.size:
        value.fail("two of the axes of a group overlap")
    last = [where[piece] for piece in axes]
    order = [dim for dim in range(len(extents)) if dim not in last] + last
    return _rows(ids.reshape(extents).transpose(order).reshape(-1, math.prod(piece.size for piece in axes)))


def _rows(ids: npt.NDArray[np.int64]) -> Groups:
    return tuple(tuple(row) for row in ids.tolist())


def _mismatch(value: Excerpt, shape: Sequence[int], count: int) -> NoReturn:
    value.fail(f"{count} ids do not fill {list(shape)}")
